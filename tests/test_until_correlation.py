"""Trainings that stop when correlations of pairs agree, and the data's moments found once."""

import itertools
import json

import numpy as np
import pytest
import torch

import rapidbm as rb
from rapidbm.errors import InputError
from rapidbm.random import stream
from rapidbm.runs import correlations
from rapidbm.runs.correlations import PairCorrelations, looks_at_pairs
from rapidbm.training.loop import Progress
from rapidbm.training.trainer import Trainer

FULL = {"model": "bm", "hidden": (), "patterns": None, "negative": "pcd", "device": "cpu"}
QUICK = FULL | {
    "particles": 500, "sweeps": 2, "biases": True, "optimizer": "sgd", "rate": (0.1,), "metrics": (),
    "batch_size": 1000,
}  # fmt: skip


def by_hand(rows, weights, chains, unit):
    """Pearson's coefficient by numpy."""
    pairs = np.argwhere(unit[:, None] < unit)
    found = []
    for x, w in ((rows, weights), (chains, np.ones(len(chains)))):
        c = np.cov(x.T, aweights=w, ddof=0)
        found.append(c[pairs[:, 0], pairs[:, 1]])
    return np.corrcoef(*found)[0, 1]


@pytest.mark.parametrize("kinds", [(rb.Spin(),), (rb.Categorical((2, 3, 4)), rb.Spin())])
def test_the_coefficient_is_that_of_connected_correlations(kinds, monkeypatch):
    counts = (3,) * len(kinds)
    machine = rb.rbm(
        counts, 2, units=kinds, replicas=2, biases=True, scale=1.0, seed=0, dtype=torch.float64
    )
    rows = machine.random(50, stream(1))[0, :, : machine.visible]
    weights = torch.rand(50, generator=stream(2), dtype=torch.float64)
    monkeypatch.setattr(correlations, "SAMPLES", 40)
    monkeypatch.setattr(correlations, "ROWS", 7)
    pairs = PairCorrelations(machine, rows, weights)
    chains = machine.random(20, stream(3))
    found = pairs.with_chains(chains, stream(4), 3)
    later = rb.sweeps(machine, chains, stream(4), 3)
    unit = torch.cat(
        [
            k.unit_of_column(n) + 3 * i
            for i, (k, n) in enumerate(zip(kinds, machine.layers.sizes[:-1], strict=True))
        ]
    )
    for e in range(2):
        both = torch.cat([chains[e], later[e]])[:, : machine.visible]
        expected = by_hand(rows.numpy(), weights.numpy(), both.numpy(), unit.numpy())
        assert float(found[e]) == pytest.approx(expected, abs=1e-10)
    even = PairCorrelations(machine, rows, None).with_chains(chains, stream(4), 3)
    assert not torch.allclose(even, found)


def pairs_of_spins(rows=400):
    """Spins of which some agree, as values."""
    x = torch.randint(2, (rows, 6), generator=stream(0))
    x[:, 3] = torch.where(torch.rand(rows, generator=stream(1)) < 0.9, x[:, 0], x[:, 3])
    x[:, 5] = torch.where(torch.rand(rows, generator=stream(2)) < 0.8, x[:, 1], x[:, 5])
    return x


def test_a_training_stops_when_pairs_agree_and_says_so(tmp_path):
    data = rb.from_arrays(pairs_of_spins())
    recipe = rb.Recipe.made("own", QUICK | {"until_correlation": 0.97, "epochs": 5000})
    run = rb.Run.create(tmp_path / "T", recipe, data=data)
    steps = list(run.go())
    assert 8 <= steps[-1].update < 5000
    seen = [(r["update"], r["correlation"][0]) for r in run.metrics() if "correlation" in r]
    assert all(value < 0.97 for _, value in seen[:-1])
    assert seen[-1][1] >= 0.97
    assert seen[-1][0] == steps[-1].update
    told = json.loads((tmp_path / "T/run.json").read_text())["stopped"]
    assert f"after update {steps[-1].update}: pair correlations" in told
    machine, start = run.machine("last"), rb.bm(6, biases=True, seed=0)
    data_pairs = PairCorrelations(machine, data.train.spins, None)
    for one, good in ((machine, True), (start, False)):
        found = rb.sample(one, 20_000, steps=50, seed=1)
        assert (float(data_pairs.with_chains(found, stream(0), 1)[0]) > 0.95) == good


def test_looking_changes_no_training(tmp_path):
    data = rb.from_arrays(pairs_of_spins())
    ends = []
    for name, more in (("a", {}), ("b", {"until_correlation": 0.999999})):
        recipe = rb.Recipe.made("own", QUICK | {"epochs": 40} | more)
        run = rb.Run.create(tmp_path / name, recipe, data=data)
        list(run.go())
        ends.append(run.machine("last"))
    for mine, theirs in zip(*(machine.parameters() for machine in ends), strict=True):
        assert torch.equal(mine, theirs)


def test_looks_become_rarer():
    recipe = rb.Recipe.made("own", QUICK | {"until_correlation": 0.9, "epochs": 3000})
    looks = [u for u in range(3001) if looks_at_pairs(recipe, Progress(u, u, 3000, True, None, None))]
    assert looks[:4] == [16, 32, 48, 64]
    assert looks[-1] == 3000
    assert all(b - a <= max(16, a / 8) for a, b in itertools.pairwise(looks))
    assert len(looks) < 80


@pytest.mark.parametrize(
    "more",
    [{"until_correlation": 1.5}, {"until_correlation": 0.0}, {"negative": "cd", "particles": None}],
)
def test_what_cannot_be_waited_for_is_refused(more):
    with pytest.raises(InputError, match="--until-correlation"):
        rb.Recipe.made(
            "own", {k: v for k, v in (QUICK | {"until_correlation": 0.9} | more).items() if v is not None}
        )


# -- the data's part of the gradient --------------------------------------------------------------------


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("replicas", [1, 2])
def test_moments_of_all_rows_are_found_once(weighed, replicas, monkeypatch):
    monkeypatch.setattr("rapidbm.training.trainer.ROWS", 7)
    codes = torch.randint(3, (20, 4), generator=stream(0))
    weights = torch.rand(20, generator=stream(1), dtype=torch.float64) if weighed else None

    def trained(size, once):
        machine = rb.bm(
            4, units=rb.Categorical(3), biases=True, replicas=replicas, seed=0, dtype=torch.float64
        )
        more = {"epochs": 9, "batch_size": size, "seed": 0, "weights": weights}
        trainer = Trainer(machine, codes, rb.Persistent(30), rb.sgd(0.1), **more)
        assert trainer.repeats_data == (size >= 20)
        trainer.repeats_data = trainer.repeats_data and once
        for _ in range(6):
            trainer.step()
        assert bool(trainer.of_all_rows) == (once and size >= 20)
        return machine

    quick, slow, parts = trained(100, True), trained(100, False), trained(10, True)
    for a, b, c in zip(quick.parameters(), slow.parameters(), parts.parameters(), strict=True):
        assert torch.allclose(a, b, rtol=0, atol=1e-12)
        assert not torch.allclose(a, c, rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    ("machine", "negative"),
    [
        (lambda: rb.bm(4, 2, biases=True, seed=0), rb.Persistent(5)),
        (lambda: rb.bm(4, 0, 3, biases=True, seed=0), rb.Persistent(5)),
        (lambda: rb.bm(4, biases=True, seed=0), rb.ContrastiveDivergence()),
    ],
)
def test_what_depends_on_the_machine_or_the_rows_is_found_anew(machine, negative):
    rows = torch.randint(2, (20, 4), generator=stream(0))
    more = {"epochs": 9, "batch_size": 20, "seed": 0}
    assert not Trainer(machine(), rows, negative, rb.sgd(0.1), **more).repeats_data
