"""What a shell offers when somebody presses Tab, asked for as the shells' scripts ask."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import shellingham

import rapidbm
from rapidbm.cli import main
from rapidbm.cli.main import COMMANDS
from rapidbm.data.catalogue import DATASETS
from rapidbm.runs.metrics import METRICS
from rapidbm.runs.presets import PRESETS
from rapidbm.runs.recipe import PARTS
from rapidbm.sampling.samplers import SAMPLERS
from rapidbm_paper import ITEMS

SHELLS = ("bash", "zsh", "fish")


@pytest.fixture
def asked(monkeypatch, capsys, tmp_path):
    """Asks for what may follow some words; what a shell is told."""
    monkeypatch.chdir(tmp_path)

    def ask(*words, shell="bash"):
        line = shlex.join(["rapidbm", *words[:-1]]) + f" {words[-1]}"
        monkeypatch.setenv("_RAPIDBM_COMPLETE", f"complete_{shell}")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
        monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
        monkeypatch.setattr(sys, "argv", ["rapidbm"])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0
        return capsys.readouterr().out

    return ask


@pytest.mark.parametrize("shell", SHELLS)
def test_commands_with_what_they_are_for(asked, shell):
    told = asked("re", shell=shell)
    assert {name for name in COMMANDS if name in told} == {"reproduce", "report", "reconstruct"}
    assert ("Fill in the unknown pixels" in told) == (shell != "bash")


@pytest.mark.parametrize("shell", SHELLS)
def test_options_and_values(asked, shell):
    assert "--negative" in asked("train", "--neg", shell=shell)
    assert "--sampler" in asked("sample", "R", "--", shell=shell)
    told = re.findall(r"\w+", asked("train", "--negative", "p", shell=shell))
    assert {*told} & {*PARTS["negative"]} == {"pid", "pcd", "pt"}


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["train"], {n.replace("N", "12") for n in DATASETS}),
        (["train", "digits", "--preset"], PRESETS),
        (["train", "--negative"], PARTS["negative"]),
        (["train", "--positive"], {"auto", *PARTS["positive"]}),
        (["train", "--projection"], PARTS["projection"]),
        (["train", "--project-every"], {"update", "epoch"}),
        (["train", "--metric"], METRICS),
        (["train", "--metric", "hamming", "--model"], {"rbm", "dbm", "bm"}),
        (["train", "--fall"], {"none", "linear", "cosine"}),
        (["train", "--precision"], {"float32", "tf32", "bf16"}),
        (["train", "--prolong"], {"again", "stretch"}),
        (["sample", "R", "--sampler"], SAMPLERS),
        (["sample", "R", "--start"], {"random", "data", "patterns"}),
        (["evaluate", "R", "--likelihood"], {"auto", "exact", "ais", "none"}),
        (["evaluate", "R", "--update"], {"best", "last"}),
        (["reconstruct", "R", "--of"], {"test", "train", "valid"}),
        (["reproduce"], {"all", "list", "claims", *ITEMS}),
        (["reproduce", "fig1", "--scale"], {"tiny", "quick", "paper"}),
        (["diagnose", "R", "--device"], {"auto", "cpu", "cuda"}),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_values_are_those_that_the_command_takes(asked, words, names):
    assert sorted(asked(*words, "").split()) == sorted(names)


@pytest.mark.parametrize("command", ["evaluate", "sample", "reconstruct", "diagnose"])
def test_run_folders_that_are_near(asked, tmp_path, command):
    for name in ("A", "runs/B", "runs/deep/C"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "run.json").touch()
    assert asked(command, "").split() == ["A", "runs/B", "pretrained:mnist"]


def test_what_is_a_file_is_left_to_the_shell(asked):
    assert asked("train", "my").strip() == ""
    assert asked("train", "--out", "").strip() == ""
    assert asked("train", "my", shell="zsh").strip() == "_files"


def test_commands_are_offered_without_torch():
    code = (
        "import atexit, sys\nfrom rapidbm.cli import main\n"
        "atexit.register(lambda: print('torch' in sys.modules))\nmain()"
    )
    environment = {"COMP_WORDS": "rapidbm tra", "COMP_CWORD": "1", "_RAPIDBM_COMPLETE": "complete_bash"}
    source = str(Path(rapidbm.__file__).parents[1])
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "PYTHONPATH": source, "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout.split() == ["train", "False"], result.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_are_shown_and_installed(monkeypatch, capsys, tmp_path, shell):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(shellingham, "detect_shell", lambda: (shell, f"/bin/{shell}"))
    for option in ("--show-completion", "--install-completion"):
        monkeypatch.setattr(sys, "argv", ["rapidbm", option])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert f"_RAPIDBM_COMPLETE=complete_{shell}" in shown
    assert f"{shell} completion installed in" in shown
    texts = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert any("_RAPIDBM_COMPLETE" in text for text in texts)
