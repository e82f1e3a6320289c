"""Seeds and their bits, and run folders, outlive a rearrangement of the code.

`folders/` was written before the package got its rooms; `bits.json` holds the checksums of that time,
and estimates of later. Sums of products differ between processors: another kind of CPU compares values.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import astuple
from pathlib import Path

import pytest
import torch

import rapidbm as rb
from rapidbm.ground.lower_bound import lower_bound
from rapidbm.likelihood.hidden_sums import HiddenSums, hidden_sums
from rapidbm.machines.machine import scaled
from rapidbm.sampling import tempering

HERE = Path(__file__).parent
KEPT = json.loads((HERE / "bits.json").read_text())
FEW = {"epochs": 3, "batch_size": 10, "replicas": 2, "rate": (0.05,), "seed": 1, "metrics": ()}
TRAININGS = {
    "paper-bars": {"replicas": 4, "epochs": 20, "seed": 1, "metrics": ()},
    "pcd": FEW
    | {
        "hidden": (6,),
        "patterns": 3,
        "negative": "pcd",
        "sweeps": 2,
        "particles": 10,
        "metrics": ("hamming",),
    },
    "cd": FEW | {"hidden": (6,), "patterns": None, "biases": True, "negative": "cd", "optimizer": "adam"},
    "pt": FEW | {"hidden": (6,), "patterns": 3, "negative": "pt", "particles": 8, "rungs": 4},
    "exact": FEW | {"hidden": (6,), "patterns": 3, "negative": "exact", "biases": True},
    "pid": FEW | {"hidden": (8,), "patterns": 2, "sweeps": 1, "projection": "gibbs"},
    "dbm": FEW | {"model": "dbm", "hidden": (5, 4), "patterns": 3, "negative": "pcd", "particles": 10},
    "dbm-dense": FEW
    | {
        "model": "dbm",
        "hidden": (5, 4),
        "patterns": None,
        "negative": "pt",
        "particles": 8,
        "rungs": 3,
    },
    "bm": FEW | {"model": "bm", "hidden": (4,), "patterns": 3, "negative": "pcd", "particles": 10},
    "bm-dense": FEW | {"model": "bm", "hidden": (4,), "patterns": None, "negative": "cd"},
}


def small(**more: object) -> rb.Machine:
    return rb.rbm(7, 6, 3, seed=1, replicas=2, dtype=torch.float64, **more)


def grown(size: float) -> rb.Machine:
    """Too large to be exact unasked."""
    machine = rb.rbm(24, 23, seed=4, dtype=torch.float64)
    machine.couplings.weights["0-1"].data.mul_(size)
    return machine


def ends(*found: rb.Bounds) -> torch.Tensor:
    return torch.stack([torch.stack([x.value, x.lower, x.upper, x.forward, x.back]) for x in found])


def both(found: HiddenSums) -> torch.Tensor:
    return torch.stack([*astuple(found.forward), *astuple(found.back), found.mean_field])


def lowest(machine: rb.Machine, **options: object) -> torch.Tensor:
    found = rb.ground_state(machine, seed=0, **options)
    return torch.stack([found.energy.double(), found.found.double()])


def sampled(**options: object) -> torch.Tensor:
    """Samples as numbers, a binary digit per unit."""
    spins = rb.sample(small(), 5, seed=0, **options)
    return ((spins > 0) * 2.0 ** torch.arange(13)).sum(2)


ROWS = torch.where(torch.arange(63).reshape(9, 7) % 5 < 2, 1.0, -1.0)
ESTIMATES = {
    "log Z": lambda: ends(rb.log_z(small(), method="ais", seed=3, chains=20)),
    "log Z, data": lambda: ends(
        rb.log_z(small(biases=True), method="ais", seed=3, chains=20, data=ROWS, beta=0.8)
    ),
    "log Z along": lambda: ends(*rb.log_z_along([grown(s) for s in (6, 10, 16)], seed=3, chains=20)),
    "hidden sums": lambda: both(
        hidden_sums(
            rb.dbm(3, (4, 3), seed=2, scale=0.6, dtype=torch.float64),
            ROWS[:4, :3],
            rb.stream(1),
            chains=9,
        )
    ),
    "gibbs": lambda: sampled(steps=9),
    "annealing": lambda: sampled(sampler=rb.Annealing(20)),
    "pt": lambda: sampled(sampler=rb.ParallelTempering(), steps=5),
    "trajectory": lambda: sampled(
        sampler=rb.TrajectoryTempering((scaled(small(), 0.3), small())), steps=5
    ),
    "descent": lambda: lowest(small(), method="descent", starts=4),
    "ground, annealing": lambda: lowest(grown(30), method="annealing", starts=6, sweeps=9),
    "ground, tempering": lambda: lowest(small(), method="tempering", starts=3, sweeps=5),
    "lower bound": lambda: lower_bound(grown(30)).energy,
}


def sha256(tensors: dict[str, torch.Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode() + tensors[name].detach().contiguous().numpy().tobytes())
    return digest.hexdigest()


def measured(machine: rb.Machine) -> dict[str, object]:
    parameters = dict(machine.named_parameters())
    return {
        "sha256": sha256(parameters),
        "norms": {name: float(p.detach().double().norm()) for name, p in parameters.items()},
    }


def same(machine: rb.Machine, kept: dict[str, object]) -> None:
    here = measured(machine)
    if torch.backends.cpu.get_cpu_capability() == KEPT["cpu"] and torch.__version__ == KEPT["torch"]:
        assert here["sha256"] == kept["sha256"]
    else:
        assert here["norms"] == pytest.approx(kept["norms"], rel=1e-2, abs=1e-4)


def trained(name: str, folder: Path) -> rb.Machine:
    recipe = rb.Recipe.made("bars4", TRAININGS[name], "paper-bars")
    run = rb.Run.create(folder, recipe, "paper-bars")
    for _ in run.go():
        pass
    return run.machine()


@pytest.mark.filterwarnings("ignore::rapidbm.FitWarning", "ignore::rapidbm.LoadWarning")
@pytest.mark.parametrize("name", TRAININGS)
def test_the_same_seed_gives_the_same_bits_as_ever(name: str, tmp_path: Path) -> None:
    same(trained(name, tmp_path / "run"), KEPT["trainings"][name])


@pytest.mark.parametrize("name", ESTIMATES)
def test_the_same_seed_gives_the_same_estimates_as_ever(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempering, "ROUNDS", 2)
    found = ESTIMATES[name]().double().flatten().tolist()
    if torch.backends.cpu.get_cpu_capability() == KEPT["cpu"] and torch.__version__ == KEPT["torch"]:
        assert found == pytest.approx(KEPT["estimates"][name], rel=1e-9)
    else:
        assert len(found) == len(KEPT["estimates"][name])


@pytest.mark.filterwarnings("ignore::rapidbm.FitWarning", "ignore::rapidbm.LoadWarning")
def test_an_old_folder_is_read_resumed_and_evaluated(tmp_path: Path) -> None:
    shutil.copytree(HERE / "folders" / "interrupted", tmp_path / "old")
    run = rb.Run(tmp_path / "old")
    assert run.status == "interrupted"
    assert len(run.metrics()) == 3
    assert sorted(run.checkpoints()) == [0, 1, 2]
    assert run.machine().replicas == 2
    for _ in run.go():
        pass
    assert run.status == "finished"
    same(run.machine(), KEPT["trainings"]["pcd"])
    assert torch.isfinite(rb.log_likelihood(run.machine(), run.data().test.spins).value).all()
