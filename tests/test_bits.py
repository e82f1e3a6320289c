"""Seeds and their bits, and run folders, outlive a rearrangement of the code.

`folders/` was written before the package got its rooms; `bits.json` holds the checksums of that time.
Sums of products differ between processors: another kind of CPU compares values.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
import torch

import rapidbm as rb

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
