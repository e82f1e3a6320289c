"""Things of other packages: a package outside the source tree, found by its entry points."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import rapidbm
from rapidbm.machines.files import load_tensors
from rapidbm.machines.units.kinds import KINDS
from rapidbm.registry import options_of
from rapidbm.runs.metrics import METRICS
from rapidbm.runs.recipe import PARTS
from rapidbm.sampling.samplers import SAMPLERS

PACKAGE = '''
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch

import rapidbm as rb


@dataclass(frozen=True)
class Warm:
    """Contrastive divergence whose chains are warmer than the machine."""

    temperature: float = rb.setting(1.0, "temperature of the chains [K]")
    sweeps: int = rb.setting(1, "Gibbs sweeps from the data, warm")

    def init(self, machine, rng):
        return torch.zeros((machine.replicas, 0, machine.layers.columns), dtype=machine.dtype)

    def step(self, machine, chains, data, rng):
        spins = machine.with_visible(data, means=True)
        for _ in range(self.sweeps):
            spins = rb.sweep(machine, spins, rng, beta=1 / self.temperature, means=True)
        return machine.smoothed(spins), chains


@dataclass(frozen=True)
class Frozen:
    """A sampler that moves no spin; `up` of them point up."""

    steps: ClassVar[int] = 3
    up: float = rb.setting(1.0, "share of units that point up")

    def init(self, machine, chains, rng):
        units = torch.arange(machine.layers.columns) < self.up * machine.layers.columns
        return (2.0 * units - 1).expand(machine.replicas, chains, -1)

    def step(self, machine, state, rng):
        return state

    def spins(self, state):
        return state


def rings(pairs: Annotated[int, rb.Setting("images, in pairs")] = 6) -> rb.Dataset:
    """Rings of six pixels, two neighbours of them up."""
    spins = torch.stack([torch.roll(torch.tensor([1, 1, -1, -1, -1, -1]), i) for i in range(pairs)])
    known = torch.arange(6) < 3
    parts = (rb.Split(sign * spins, known=known) for sign in (1, -1))
    return rb.Dataset("rings", *parts, (2, 3))


def share_up(machine, split, rng):
    return (split.spins > 0).double().mean().expand(machine.replicas)


def largest(machine, split, rng):
    return torch.stack([p.detach().abs().flatten(1).sum(1) for p in machine.parameters()]).sum(0)


alone = rb.Metric(largest, of_split=False)
'''
POINTS = """
[rapidbm.negative_phases]
warm = my_spins:Warm
[rapidbm.samplers]
frozen = my_spins:Frozen
[rapidbm.datasets]
rings = my_spins:rings
[rapidbm.metrics]
share_up = my_spins:share_up
largest = my_spins:alone
"""
# Commands one after the other in one process, which is what takes the time.
DRIVER = """
import contextlib, io, json, sys
from rapidbm.cli.main import main
found = []
for words in json.load(sys.stdin):
    sys.argv, code = ["rapidbm", *words], 0
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as left:
            code = left.code or 0
    found.append([code, out.getvalue(), err.getvalue()])
json.dump(found, sys.stdout)
"""


def install(folder, name, code, points):
    """A package as pip leaves it: a module, and beside it what was written about it."""
    about = folder / f"{name}-0.3.dist-info"
    about.mkdir(parents=True)
    (folder / f"{name}.py").write_text(code)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.3\n")
    (about / "entry_points.txt").write_text(points)


def commands(folder, *lines):
    """(exit code, standard output, standard error) of each line, with the packages of `folder`."""
    source = Path(rapidbm.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        input=json.dumps([line.split() for line in lines]),
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (source, folder / "site"))),
            "COLUMNS": "200",
            "XDG_CACHE_HOME": str(folder / "cache"),
        },
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


SMALL = "--hidden 4 --dense --epochs 2 --rate 0.05 --optimizer sgd --fall none --device cpu --json"
MINE = "--negative warm --temperature 2.0 --sweeps 2 --metric share_up --metric largest"


def test_things_of_another_package_are_used_through_the_command(tmp_path):
    install(tmp_path / "site", "my_spins", PACKAGE, POINTS)
    lines = {
        "help": "train --help-all",
        "trained": f"train rings --pairs 4 {MINE} {SMALL} --out R",
        "resumed": f"train rings --resume --out R --pairs 4 {MINE} {SMALL}",
        "prolonged": "train --resume --out R --epochs 4 --json",
        "another": "train --resume --out R --temperature 3 --json",
        "whole": f"train rings --pairs 4 {MINE} {SMALL} --epochs 4 --out W",
        "cold": f"train rings --pairs 4 --negative warm --sweeps 2 {SMALL} --epochs 4 --out C",
        "refused": f"train rings --negative cd --temperature 2 {SMALL} --out S",
        "bars": f"train bars4 --pairs 3 {SMALL} --negative cd --out S",
        "unknown": f"train bars4 --negative warn {SMALL} --out S",
        "bad": f"train rings --negative warm --temperature hot {SMALL} --out S",
        "sample": "sample R --sampler frozen --up 0.5 --count 2 --out s.npy --json",
        "sampler": "sample R --sampler gibbs --up 0.5 --out t.npy",
        "evaluated": "evaluate R --json --likelihood none",
        "datasets": "datasets",
    }
    answers = dict(zip(lines, commands(tmp_path, *lines.values()), strict=True))
    codes = {name: code for name, (code, _, _) in answers.items() if code}
    assert codes == dict.fromkeys(("another", "refused", "bars", "unknown", "bad", "sampler"), 2)
    out = {name: " ".join(text.replace("│", " ").split()) for name, (_, text, _) in answers.items()}
    err = {name: " ".join(text.replace("│", " ").split()) for name, (*_, text) in answers.items()}

    assert re.search(r"--temperature \S+ warm: temperature of the chains \[K\]\.", out["help"])
    assert re.search(r"--pairs \S+ rings: images, in pairs\.", out["help"])
    assert "warm: Gibbs sweeps from the data, warm" in out["help"]
    assert "dimod, warm" in out["help"]
    assert "share_up" in out["help"]

    recipe = json.loads((tmp_path / "R/run.json").read_text())["recipe"]
    assert recipe["options"] == {"temperature": 2.0, "pairs": 4}
    assert (recipe["negative"], recipe["sweeps"], recipe["epochs"]) == ("warm", 2, 4)
    first, *_, last = (
        json.loads(line) for line in (tmp_path / "R/metrics.jsonl").read_text().splitlines()
    )
    assert (first["epoch"], last["epoch"]) == (0, 4)
    assert first["share_up_train"] == pytest.approx([1 / 3])
    assert first["share_up_test"] == pytest.approx([2 / 3])
    assert first["largest"] != last["largest"]
    assert json.loads((tmp_path / "C/run.json").read_text())["recipe"]["options"] == {"pairs": 4}
    resumed, whole, cold = (
        load_tensors(tmp_path / folder / "checkpoints/latest.safetensors")[0] for folder in "RWC"
    )
    parameters = [name for name in whole if name.startswith("parameter/")]
    assert all(torch.equal(resumed[name], whole[name]) for name in parameters)
    assert not any(torch.equal(cold[name], whole[name]) for name in parameters)

    assert "temperature is 2.0 there, 3.0 here" in err["another"]
    assert "the negative phase 'cd' has no option --temperature; it takes --sweeps" in err["refused"]
    assert "the data set 'bars4' has no option --pairs; it takes none" in err["bars"]
    assert "did you mean 'warm'? known are cd, dimod, exact, pcd, pid, pt, warm" in err["unknown"]
    assert "--temperature" in err["bad"]
    assert not (tmp_path / "S").exists()

    assert np.load(tmp_path / "s.npy").tolist() == [[1, 1, 1, 1, 1, -1]] * 2
    assert json.loads(answers["sample"][1])["sweeps"] == 3
    assert "the sampler 'gibbs' has no option --up; it takes none" in err["sampler"]
    assert "hamming_test" not in json.loads(answers["trained"][1].splitlines()[0])
    assert "method_accessibility" not in json.loads(answers["evaluated"][1])
    assert "Rings of six pixels, two neighbours of them up; from my_spins 0.3" in out["datasets"]
    assert "(options: pairs)" in out["datasets"]


def test_the_page_about_adding_things_tells_the_truth():
    page = (Path(__file__).parents[1] / "docs/extending.md").read_text()
    space = {"__name__": __name__}
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)  # test_docs runs them all
    phase, data = (block for block in blocks if "class Warm" in block or "def rings" in block)
    exec(compile(phase + data, "extending.md", "exec", dont_inherit=True), space)
    assert list(options_of(space["Warm"])) == ["temperature", "sweeps"]
    assert list(options_of(space["rings"])) == ["images"]
    assert len(space["rings"]().train) == 6
    registries = (*PARTS.values(), SAMPLERS, METRICS, KINDS)
    assert set(re.findall(r"`(rapidbm\.\w+)`", page)) == {r.group for r in registries}


BROKEN = """
from dataclasses import dataclass
from typing import Annotated

import rapidbm as rb


@dataclass(frozen=True)
class NoStep:
    def init(self, machine, rng): ...


@dataclass(frozen=True)
class Odd:
    how: complex = rb.setting(1j, "a type that no option has")

    def init(self, machine, rng): ...
    def step(self, machine, chains, data, rng): ...


@dataclass(frozen=True)
class Greedy:
    rate: float = rb.setting(1.0, "what the optimiser has")

    def init(self, machine, rng): ...
    def step(self, machine, chains, data, rng): ...
"""
BROKEN_POINTS = """
[rapidbm.negative_phases]
pid = no_spins:NoStep
gone = no_spins_at_all:Phase
no_step = no_spins:NoStep
odd = no_spins:Odd
greedy = no_spins:Greedy
[rapidbm.datasets]
empty = no_spins:nothing
[rapidbm.metrics]
number = no_spins:__doc__
"""


def test_what_is_broken_in_another_package_is_said_in_a_line(tmp_path):
    install(tmp_path / "site", "no_spins", BROKEN, BROKEN_POINTS)
    lines = ("--help", "train --help-all", "datasets", f"train bars4 --negative gone {SMALL} --out R")
    lines += (f"train bars4 --negative cd --metric number {SMALL} --out R",)
    lines += (f"train bars4 --negative cd {SMALL} --out R",)
    top, helped, listed, gone, number, fine = commands(tmp_path, *lines)
    assert [top[0], helped[0], listed[0], gone[0], number[0], fine[0]] == [0, 0, 0, 2, 2, 0]
    assert "no_spins" not in top[2]
    told = " ".join(helped[2].split())
    for words in (
        "the negative phase 'pid' of the package no_spins 0.3 is passed over: its name is taken",
        "the negative phase 'gone' of the package no_spins 0.3 cannot be used: ModuleNotFoundError",
        "NoStep must have init, step, but has no step",
        "the negative phase 'odd' of the package no_spins 0.3 cannot be used: TypeError",
        "the option --rate of the negative phase 'greedy' of the package no_spins 0.3 cannot be given",
        "the data set 'empty' of the package no_spins 0.3 cannot be used: AttributeError",
    ):
        assert words in told, words
    assert "--how" not in helped[1]
    assert "'empty' of the package no_spins 0.3 cannot be used" in " ".join(listed[2].split())
    assert "bars4" in listed[1]
    assert "'gone' of the package no_spins 0.3 cannot be used" in " ".join(gone[2].split())
    assert "'number' of the package no_spins 0.3 cannot be used" in " ".join(number[2].split())
    assert "Traceback" not in "".join(err for _, _, err in (helped, listed, gone, number, fine))
