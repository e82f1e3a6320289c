"""`import rapidbm` with torch, numpy and safetensors alone, and quickly."""

import subprocess
import sys
from pathlib import Path

import pytest

import rapidbm

HEAVY = (
    "sklearn", "typer", "click", "rich", "matplotlib", "jinja2", "pooch", "h5py", "scipy", "pandas",
    "requests", "PIL", "arviz", "dimod", "dwave", "rbms", "tensorboard",
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
    if name != "RapidRBM":  # scikit-learn's own interface
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
sys.argv[1:] = sys.argv[1].split()
main()
"""


UNTIL_THE_FIRST_EPOCH = """
import os, sys
import torch

before = set(sys.modules)
from rapidbm.cli.terminal.console import Screen
from rapidbm.cli.main import main

def say(self, text):
    if text.startswith("epoch    1"):
        print(*sorted(set(sys.modules) - before), flush=True)
        os._exit(0)

Screen.say = say
sys.argv = ["rapidbm", "train", "digits", "--hidden", "5", "--epochs", "9", "--out", sys.argv[1]]
main()
"""


def python(code, *words, **environment):
    source = str(Path(rapidbm.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        env={"PYTHONPATH": source, "PATH": "", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_torch_numpy_and_safetensors_suffice():
    result = python(ALONE)
    assert result.returncode == 0, result.stderr


def test_a_file_is_trained_on_and_looked_at_without_what_downloads(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,c\n" + "0,1,1\n1,0,1\n0,0,1\n1,1,0\n" * 5)
    for words in (
        f"train {tmp_path}/t.csv --hidden 3 --epochs 2 --out {tmp_path}/R",
        f"evaluate {tmp_path}/R",
        f"sample {tmp_path}/R --count 3 --out {tmp_path}/new.csv",
        f"evaluate {tmp_path}/R --data {tmp_path}/t.csv",
    ):
        result = python(FILES, words, HOME=str(tmp_path))
        assert result.returncode == 0, result.stderr


def test_the_command_starts_without_torch():
    result = python("import rapidbm.cli.main, sys; sys.exit('torch' in sys.modules)")
    assert result.returncode == 0, result.stderr


def test_a_training_begins_without_what_it_does_not_need_yet(tmp_path):
    result = python(UNTIL_THE_FIRST_EPOCH, str(tmp_path / "R"))
    assert result.returncode == 0, result.stderr
    loaded = set(result.stdout.split())
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
