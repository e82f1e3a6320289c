"""`import rapidbm` with torch, numpy and safetensors alone, and quickly."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import rapidbm

HEAVY = (
    "sklearn", "typer", "click", "rich", "matplotlib", "jinja2", "pooch", "h5py", "scipy", "pandas",
    "requests", "PIL", "arviz", "dimod", "dwave", "rbms", "tensorboard", "pyarrow",
)  # fmt: skip
ALONE = f"""
import importlib.abc, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {HEAVY!r}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Refuse())
import rapidbm as rb
for name in rb.__all__:
    if name not in ("RapidRBM", "RapidImputer", "RapidClassifier"):  # scikit-learn's own interface
        getattr(rb, name)
machine = rb.rbm(visible=16, hidden=50, patterns=4, replicas=2, seed=0)
data = rb.load("bars4")
for progress in rb.train(machine, data.train, rb.PatternInduced(), rb.sgd(0.02, decay=0.96),
                         epochs=2, batch_size=3, projection=rb.Sign(), seed=0):
    rb.hamming_distance(machine, data.test, progress.rng)
import rapidbm.testing
"""


# A machine where a GPU is may have no more than this of what the package asks for.
FILES = f"""
import importlib.abc, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {("pooch", "requests", "h5py", "scipy", "pandas", "arviz")!r}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Refuse())
from rapidbm.cli.main import main
for command in sys.argv[1:]:
    sys.argv = ["rapidbm", *command.split()]
    try:
        main()
    except SystemExit as left:
        if left.code:
            raise
"""


UNTIL_THE_FIRST_EPOCH = """
import os, sys

before = set(sys.modules)
from rapidbm.cli.terminal.console import Screen
from rapidbm.cli.main import main

def result(self, values):
    if values.get("epoch") == 1:
        print(*sorted(set(sys.modules) - before), flush=True)
        os._exit(0)

Screen.result = result
sys.argv = ["rapidbm", "train", "digits", "--hidden", "5", "--epochs", "9", "--out", sys.argv[1]]
main()
"""


# Torch is loaded once. Each line of input is a program, which a fork runs as a new process would.
TORCH = f"""
import json, os, sys, traceback
import torch

assert not {{*{HEAVY!r}}} & {{*sys.modules}}
for line in sys.stdin:
    told = json.loads(line)
    child = os.fork()
    if not child:
        code = 1
        try:
            os.dup2(os.open(told["out"], os.O_WRONLY | os.O_CREAT), 1)
            os.dup2(1, 2)
            sys.argv[1:] = told["words"]
            exec(told["code"], {{"__name__": "__main__"}})
            code = 0
        except SystemExit as left:
            code = left.code or 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def environment(folder):
    return {"PYTHONPATH": str(Path(rapidbm.__file__).parents[1]), "PATH": "", "HOME": str(folder)}


@pytest.fixture(scope="module")
def with_torch(tmp_path_factory):
    """Runs a program where torch is loaded and nothing else; its exit code and what it said."""
    folder = tmp_path_factory.mktemp("home")
    with subprocess.Popen(
        [sys.executable, "-c", TORCH],
        env=environment(folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:

        def run(code, *words):
            told = {"code": code, "words": words, "out": str(folder / "out")}
            process.stdin.write(json.dumps(told) + "\n")
            process.stdin.flush()
            code = int(process.stdout.readline())
            said = (folder / "out").read_text()
            (folder / "out").unlink()
            return code, said

        yield run


def test_torch_numpy_and_safetensors_suffice(with_torch):
    code, said = with_torch(ALONE)
    assert code == 0, said


def test_a_file_is_trained_on_and_looked_at_without_what_downloads(with_torch, tmp_path):
    (tmp_path / "t.csv").write_text("a,b,c\n" + "0,1,1\n1,0,1\n0,0,1\n1,1,0\n" * 5)
    code, said = with_torch(
        FILES,
        f"train {tmp_path}/t.csv --hidden 3 --epochs 2 --out {tmp_path}/R",
        f"evaluate {tmp_path}/R",
        f"sample {tmp_path}/R --count 3 --out {tmp_path}/new.csv",
        f"evaluate {tmp_path}/R --data {tmp_path}/t.csv",
    )
    assert code == 0, said
    assert (tmp_path / "new.csv").is_file()


def test_the_command_starts_without_torch(tmp_path):
    code = "import rapidbm.cli.main, sys; sys.exit('torch' in sys.modules)"
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, env=environment(tmp_path), capture_output=True, check=False)
    assert result.returncode == 0, result.stderr


def test_a_training_begins_without_what_it_does_not_need_yet(with_torch, tmp_path):
    code, said = with_torch(UNTIL_THE_FIRST_EPOCH, str(tmp_path / "R"))
    assert code == 0, said
    loaded = set(said.split())
    assert {"rapidbm.training.trainer", "rich.console"} <= loaded
    late = {*HEAVY, "torch._dynamo", "torch._inductor", "triton", "sympy"} - {"typer", "click", "rich"}
    assert not [name for name in loaded if any(name == x or name.startswith(f"{x}.") for x in late)]


def test_every_public_name_is_there_and_typed():
    text = Path(rapidbm.__file__).with_suffix(".pyi").read_text()
    for name in rapidbm.__all__:
        if name != "__version__":
            assert getattr(rapidbm, name) is not None
            assert f"import {name} as {name}" in text
    assert dir(rapidbm) == sorted(rapidbm.__all__)  # and neither `ast` nor `Path`
    with pytest.raises(AttributeError, match="no attribute 'rmb'"):
        rapidbm.rmb
    assert "rbm" in dir(rapidbm)
    assert callable(rapidbm.train)
    assert (Path(rapidbm.__file__).parent / "py.typed").exists()
