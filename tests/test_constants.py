"""Constant columns are biases and nothing else, whatever trains the machine."""

import math

import numpy as np
import pytest
import torch

import rapidbm as rb
from rapidbm.data.stored import Stored
from rapidbm.random import stream
from rapidbm.training.constants import Constants, constant_means
from rapidbm.training.trainer import Trainer

FIXED = torch.tensor([1, -1, 1])  # columns 2, 3 and 5 of the table
HERE = torch.tensor([False, False, True, True, False, True, False])
ROWS = torch.randint(2, (40, 7), generator=stream(0)) * 2 - 1
ROWS[:, HERE] = FIXED
BIAS = torch.atanh(FIXED * 40 / 42)

MACHINES = {
    "rbm": lambda **more: rb.rbm(7, 5, **more),
    "patterns": lambda **more: rb.rbm(7, 5, 3, **more),
    "dbm": lambda **more: rb.dbm(7, (4, 3), **more),
    "bm": lambda **more: rb.bm(7, 3, **more),
    "bm of patterns": lambda **more: rb.bm(7, 3, 4, **more),
}
TRAININGS = {
    "cd, adam": (rb.ContrastiveDivergence(), rb.adam(0.05, weight_decay=0.1), {}),
    "pcd, centred": (rb.Persistent(20), rb.adam(0.05), {"centred": True}),
    "exact": (rb.Exact(), rb.sgd(0.1, momentum=0.5), {"average": 4}),
    "torch's": (rb.Persistent(20), torch.optim.RMSprop, {}),
    "shards": (rb.Persistent(20), rb.adam(0.05), {"shards": 2}),
}


def couplings_of(machine):
    """J of constant columns with all other units."""
    layers = machine.layers
    found = []
    for a, b in layers.edges:
        if a == 0:
            found.append(machine.couplings.matrix(a, b)[:, HERE].flatten())
    return torch.cat(found).detach()


def trained(machine, negative, optimizer, **more):
    how = {"epochs": 3, "batch_size": 10, "seed": 0, **more}
    for progress in rb.train(machine, ROWS, negative, optimizer, **how):
        last = progress
    return last


@pytest.mark.filterwarnings("ignore::rapidbm.FitWarning")
@pytest.mark.parametrize("how", TRAININGS)
@pytest.mark.parametrize("kind", MACHINES)
def test_constant_columns_are_biases_and_nothing_else(kind, how):
    machine = MACHINES[kind](biases=True, seed=0, replicas=2, scale=0.3)
    before = [p.detach().clone() for p in machine.parameters()]
    negative, optimizer, more = TRAININGS[how]
    last = trained(machine, negative, optimizer, **more)
    machines = [machine, last.averaged()] if "average" in more else [machine]
    for each in machines:
        assert not couplings_of(each).any()
        assert torch.allclose(each.biases[:, :7][:, HERE], BIAS.expand(2, 3))
    assert all(bool((x != y).any()) for x, y in zip(before, machine.parameters(), strict=True))


@pytest.mark.parametrize("kind", MACHINES)
def test_the_other_units_have_the_machine_given_the_constants(kind):
    machine = MACHINES[kind](biases=True, seed=0, scale=0.5, dtype=torch.float64)
    states = torch.cartesian_prod(*[torch.tensor([-1, 1])] * 4)
    visible = torch.ones(16, 7, dtype=torch.int64)
    visible[:, HERE], visible[:, ~HERE] = FIXED, states
    before = machine.log_prob_unnormalised(visible).detach()
    Constants(machine, constant_means(ROWS)).start()
    after = machine.log_prob_unnormalised(visible).detach()
    assert torch.allclose(before - before[:, :1], after - after[:, :1])
    kept = [p.detach().clone() for p in machine.parameters()]
    Constants(machine, constant_means(ROWS)).start()
    assert all(torch.equal(x, y) for x, y in zip(kept, machine.parameters(), strict=True))


@pytest.mark.parametrize("projection", [rb.Sign(), rb.Clip(), rb.GibbsProjection()])
def test_a_projection_does_not_couple_them_again(projection):
    machine = rb.rbm(7, 5, 3, biases=True, seed=0)
    trained(machine, rb.Persistent(9), rb.sgd(0.1), projection=projection)
    assert not couplings_of(machine).any()


def test_without_biases_or_constants_nothing_is_masked():
    for machine, rows in (
        (rb.rbm(7, 5, seed=0), ROWS),
        (rb.rbm(4, 5, biases=True, seed=0), ROWS[:, ~HERE]),
    ):
        how = {"epochs": 1, "batch_size": 9, "seed": 0}
        assert Trainer(machine, rows, rb.Exact(), rb.sgd(0.1), **how).stepper.constants is None


@pytest.mark.parametrize("by", ["replicas", "units"])
def test_parts_of_a_machine_start_as_the_whole(by):
    settings = {"hidden": (4,), "patterns": 3, "biases": True, "replicas": 2, "shards": 2, "shard_by": by}
    settings |= {"negative": "pcd", "particles": 8, "epochs": 2, "rate": (0.05,), "valid": 0}
    recipe = rb.Recipe.made("table", settings, "small")
    data = rb.Dataset("table", rb.Split(ROWS), rb.Split(ROWS[:2]), (1, 7))
    training = recipe.trainer(data, torch.device("cpu"))
    assert not couplings_of(training.machine).any()
    for _ in training.together():
        training.gather()
    assert not couplings_of(training.machine).any()


def test_of_rows_on_disk_all_count(tmp_path, monkeypatch):
    from rapidbm.data import packed, stored

    monkeypatch.setattr(packed, "CHUNK", 64)
    monkeypatch.setattr(stored, "ROWS", 50)
    rows = np.ones((2000, 11), bool)
    rows[:, 3] = False
    rows[::2, 7] = False
    rows[1234, 5] = False  # not among those that are looked at
    rows[1000:, 9] = False  # each half is constant
    np.save(tmp_path / "rows.npy", rows)
    data = rb.load(str(tmp_path / "rows.npy"), stream=True)
    assert isinstance(data.train, Stored)
    whole = data.train + data.test
    found = constant_means(whole)
    assert len(whole.in_memory()) < len(whole) == 2000
    assert found[[5, 7, 9]].tolist() == [0, 0, 0]
    assert found[3] == pytest.approx(-2000 / 2002)
    assert found.count_nonzero() == 8
    assert torch.equal(constant_means(whole.narrowed(slice(3, 9))), found[3:9])


def test_a_constant_spin_beside_categories_is_a_bias_alone():
    bits = torch.rand((40, 3), generator=rb.stream(0, "bits")) < 0.5
    rows = torch.cat([2.0 * bits - 1.0, bits[:, :1] + 2.0 * bits[:, 1:2]], 1)
    rows[:, 2] = -1.0
    machine = rb.rbm((3, 1), 4, units=(rb.Spin(), rb.Categorical(4)), biases=True, scale=0.5, seed=0)
    for _ in rb.train(machine, rows, rb.Persistent(10), rb.sgd(0.1), epochs=3, batch_size=10, seed=0):
        pass
    first, second = (p for name, p in machine.named_parameters() if name.startswith("couplings"))
    assert bool((first[:, 2] == 0).all())
    assert bool((first[:, :2] != 0).all())
    assert bool((second != 0).any())
    assert float(machine.biases.detach()[0, 2]) == pytest.approx(-math.atanh(40 / 42), abs=1e-5)
