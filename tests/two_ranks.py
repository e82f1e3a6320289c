"""What `test_ranks.py` has two ranks do together, and one process alone: the same work in as many shards.

python two_ranks.py OUT.safetensors UPDATES
"""

from __future__ import annotations

import sys
import warnings

import pytest
import torch
from safetensors.torch import save_file

import rapidbm as rb
from rapidbm.accel.ranks import Ranks, current_ranks, in_ranks
from rapidbm.data.splits import Dataset, Split
from rapidbm.errors import LoadWarning, TimeLimit
from rapidbm.runs.recipe import Recipe

SHARDS = 2
UPDATES = 12  # a `slow` test has 100
V, H, K, REPLICAS = 24, 15, 6, 2
BATCH, CHAINS, SWEEPS = 21, 15, 2  # two shards have unequal parts of each
NEGATIVE = {
    "pid": {"negative": "pid", "sweeps": 0, "projection": "sign", "optimizer": "sgd", "rate": (0.02,)},
    "pid-1": {"negative": "pid", "sweeps": 1, "projection": "gibbs"},
    "cd": {"negative": "cd", "sweeps": SWEEPS, "batch_mean": "nominal"},
    "pcd": {"negative": "pcd", "sweeps": SWEEPS, "particles": CHAINS, "centred": True, "average": 10},
}
DEEP = {"model": "dbm", "hidden": (H, 7), "negative": "pcd", "particles": CHAINS, "positive": "meanfield"}
DEEP |= {"positive_steps": 3}
BM = {"model": "bm", "hidden": (5,), "negative": "pcd", "particles": CHAINS, "positive": "clamped"}
BM |= {"positive_steps": 2}


def data() -> Dataset:
    rows = torch.where(torch.rand((50, V), generator=rb.stream(5)) < 0.4, 1, -1).to(torch.int8)
    return Dataset("rows", Split(rows), Split(rows[:4]), (4, 6))


def trainings() -> dict[str, dict]:
    """Settings by name: every phase by chains, dense and of patterns; units; replicas."""
    found = {}
    for name, settings in NEGATIVE.items():
        found[f"{name}, patterns"] = {"patterns": K, **settings}
        if not name.startswith("pid"):
            found[f"{name}, dense"] = {"patterns": None, **settings}
        plain = {k: v for k, v in settings.items() if k != "centred"}
        found[f"{name}, units"] = {"patterns": K, "shard_by": "units", **plain}
    found["three shards"] = {"patterns": K, **NEGATIVE["pcd"], "shards": 3}
    found["dbm"] = {"patterns": K, **DEEP}
    found["dbm, units"] = {"patterns": K, "shard_by": "units", **DEEP}
    found["bm"] = {"patterns": K, **BM}
    found["pt"] = {"patterns": K, "negative": "pt", "particles": 5, "rungs": 3}
    found["replicas"] = {"patterns": K, "negative": "pcd", "particles": 5, "shard_by": "replicas"}
    return found


def training(settings: dict):
    base = {
        "hidden": (H,),
        "biases": True,
        "epochs": 34,
        "batch_size": BATCH,
        "seed": 3,
        "replicas": REPLICAS,
    }
    base |= {"optimizer": "adam", "rate": (0.01,), "dtype": "float64", "device": "cpu", "metrics": ()}
    recipe = Recipe.made("bars4", {**base, "shards": SHARDS, **settings}, "small")
    return recipe.trainer(data(), torch.device("cpu"), current_ranks())


def estimates() -> dict[str, torch.Tensor]:
    machine = rb.rbm(12, 9, 3, scale=0.4, biases=True, seed=2, replicas=2, dtype=torch.float64)
    z = rb.log_z(machine, method="ais", seed=1, chains=41, shards=SHARDS)
    return {"log_z": torch.stack([z.value, z.lower, z.upper])}


def exchanges(ranks: Ranks) -> None:
    """What the ranks say to each other, checked by each of them."""
    mine = torch.arange(3.0) + 10 * ranks.rank
    both = ranks.summed({"a": mine, "b": torch.ones((2, 2))})
    assert both["a"].tolist() == [10, 12, 14]
    assert both["b"].tolist() == [[2, 2], [2, 2]]
    ragged = ranks.gathered(torch.full((2, 1 + ranks.rank), ranks.rank, dtype=torch.int8))
    assert [x.tolist() for x in ragged] == ([[[0], [0]], [[1, 1], [1, 1]]] if ranks.first else [])
    assert len(ranks.gathered(torch.empty((0, 3)))) == (2 if ranks.first else 0)
    given = {"x": torch.tensor([True, False]), "y": torch.tensor(7), "none": torch.empty(0)}
    found = ranks.broadcast_tensors(given if ranks.first else None)
    assert {k: v.tolist() for k, v in found.items()} == {"x": [True, False], "y": 7, "none": []}
    assert ranks.broadcast(lambda: ["first", 0.1] if ranks.first else 1 / 0) == ["first", 0.1]
    long = "√" * 1000
    assert ranks.broadcast(lambda: long) == long
    assert ranks.all_true(True)
    assert not ranks.all_true(ranks.first)
    for kind in (rb.InputError, TimeLimit):
        with pytest.raises(kind, match=r"^why$"):
            ranks.broadcast(lambda kind=kind: _raised(kind))
    assert sum(len(x) for x in ranks.gathered(torch.ones(int(ranks.reports_error())))) in (0, 1)


def _raised(kind):
    raise kind("why")


def main(path: str, updates: int = UPDATES) -> None:
    found: dict[str, torch.Tensor] = {}
    with warnings.catch_warnings(), in_ranks() as ranks:
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", LoadWarning)
        warnings.simplefilter("ignore", rb.FitWarning)
        if ranks.world > 1:
            exchanges(ranks)
        for name, settings in trainings().items():
            trainer = training(settings)
            ranks.sent.clear()
            while trainer.update < updates:
                trainer.step(min(trainer.most(), updates - trainer.update))
            found[f"sent/{name}"] = torch.tensor(ranks.sent["sum"])
            found |= {f"{name}/{key}": value for key, value in trainer.state().items()}
        found |= estimates()
        if ranks.first:
            save_file({key: value.contiguous() for key, value in found.items()}, path)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1], int(sys.argv[2]))
