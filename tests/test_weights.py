"""Rows that count by weights: the gradient of the weighted likelihood, starts and means by weight, and
what is refused."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import pytest
import torch

import rapidbm as rb
from rapidbm.accel.ranks import Ranks, ThreadRanks
from rapidbm.arrays import effective_rows
from rapidbm.data.splits import Dataset, Split
from rapidbm.likelihood.chow_liu import SMOOTHING
from rapidbm.likelihood.independent import fit, log_columns
from rapidbm.machines.cells import places
from rapidbm.runs.incomplete import mean_log_p
from rapidbm.runs.recipe import start_tree
from rapidbm.training.constants import constant_means
from rapidbm.training.trainer import Trainer

pytestmark = pytest.mark.filterwarnings("ignore::rapidbm.FitWarning", "ignore::rapidbm.LoadWarning")
KINDS = (rb.Spin(), rb.Categorical(3))
REALS = (rb.Binary(), rb.Gaussian())
ROWS = 12


def shaken(machine):
    if machine.biases is not None:
        rng = rb.stream(5, "biases")
        machine.biases.data.copy_(0.5 * torch.randn(machine.biases.shape, generator=rng))
    return machine.double()


MAKE = {
    "mixed": lambda: rb.rbm((3, 2), 3, units=KINDS, scale=0.5, biases=True, replicas=2, seed=1),
    "reals": lambda: rb.rbm((2, 1), 3, units=REALS, scale=0.3, biases=True, replicas=2, seed=1),
    "axons": lambda: rb.rbm(5, 3, 2, scale=0.4, continuous=True, replicas=2, seed=1),
    "deep": lambda: rb.dbm(4, (3, 2), scale=0.5, biases=True, replicas=2, seed=1),
    "full": lambda: rb.bm(4, 2, scale=0.4, biases=True, replicas=2, seed=1),
}


def rows_of(machine, count=ROWS):
    gaps = torch.full((count, machine.layers.visible_units), math.nan)
    return rb.draw_missing(machine, gaps, rng=rb.stream(0, "rows")).values[0, 0]


def weights_of(count=ROWS, replicas=None):
    shape = (count,) if replicas is None else (replicas, count)
    weights = 3.0 * torch.rand(shape, generator=rb.stream(1, "weights"), dtype=torch.float64)
    weights[..., 2] = 0.0
    return weights


def log_p(machine, rows):
    """log p of rows by enumeration, real units on a fine grid, (e, rows)."""
    grid = torch.linspace(-30.0, 30.0, 3001, dtype=torch.float64)
    lists = [grid if place.values is None else place.values for place in places(machine)]
    states = torch.cartesian_prod(*lists)
    step = 0.02 if any(place.values is None for place in places(machine)) else 1.0
    z = torch.logsumexp(machine.log_prob_unnormalised(states), 1) + math.log(step)
    return machine.log_prob_unnormalised(rows) - z[:, None]


def wanted_gradient(machine, rows, weights):
    """∂/∂θ of −Σ w log p / Σ w by autograd."""
    machine.zero_grad()
    share = weights / weights.sum(-1, keepdim=True)
    (-(share * log_p(machine, rows)).sum()).backward()
    return {name: p.grad.clone() for name, p in machine.named_parameters()}


def trainer_of(machine, rows, weights, negative=None, **more):
    options = {"epochs": 1, "batch_size": len(rows), "seed": 0, "weights": weights, **more}
    positive = rb.Enumerated() if not machine.layers.hidden_independent else None
    return Trainer(machine, rows, negative or rb.Exact(), rb.sgd(0.1), positive=positive, **options)


def gradient_of(trainer, update=0):
    plan = trainer.plan(update)
    return trainer.gradient(trainer.batches.spins(plan.rows), plan.size, *trainer.weights(plan))


@pytest.mark.parametrize("replicas", [None, 2])
@pytest.mark.parametrize("name", MAKE)
def test_the_gradient_is_that_of_the_weighted_likelihood(name, replicas):
    machine = shaken(MAKE[name]())
    rows, weights = rows_of(machine), weights_of(replicas=replicas)
    assert not constant_means(machine.layers.encode(rows)).any()  # else biases are started otherwise
    wanted = wanted_gradient(machine, rows, weights)
    found = gradient_of(trainer_of(machine, rows, weights))
    for key, value in wanted.items():
        assert float((found[key] - value).abs().max()) < 1e-10, key
    plain = gradient_of(trainer_of(machine, rows, None))
    assert any(float((plain[key] - value).abs().max()) > 1e-3 for key, value in wanted.items())


@pytest.mark.parametrize("name", ["mixed", "axons"])
def test_batches_of_an_epoch_add_up_to_the_weighted_likelihood(name):
    """The mean over batches is the gradient itself: not that of weights divided by their sum in each."""
    machine = shaken(MAKE[name]())
    rows, weights = rows_of(machine), weights_of(replicas=2)
    wanted = wanted_gradient(machine, rows, weights)
    trainer = trainer_of(machine, rows, weights, batch_size=3)
    each = [gradient_of(trainer, update) for update in range(4)]
    for key, value in wanted.items():
        mean = torch.stack([found[key] for found in each]).mean(0)
        assert float((mean - value).abs().max()) < 1e-10, key


def test_shards_add_up_to_the_weighted_likelihood():
    machine = shaken(MAKE["mixed"]())
    rows, weights = rows_of(machine), weights_of()
    wanted = wanted_gradient(machine, rows, weights)
    found = gradient_of(trainer_of(machine, rows, weights, shards=3))

    def work(ranks):
        return gradient_of(trainer_of(copy.deepcopy(machine), rows, weights, shards=3, ranks=ranks))

    threads = ThreadRanks(2, Ranks())
    for number, member in enumerate(threads.members):
        member.rank, member.world = number, 2
    shared = threads.run([lambda ranks=ranks: work(ranks) for ranks in threads.members])
    for key, value in wanted.items():
        assert float((found[key] - value).abs().max()) < 1e-10, key
        assert float((shared[0][key] - value).abs().max()) < 1e-10, key


@dataclass(frozen=True)
class Regardless(rb.ContrastiveDivergence):
    """Chains that all count the same, whatever the rows that they start from."""

    row_by_row = False


def test_chains_from_the_rows_count_as_these_do():
    """With as many copies of a row as its weight says, contrastive divergence has the same mean."""
    machine = rb.rbm(5, 3, scale=1.5, seed=1).double()
    rows = rb.to_spins([[1, 1, 1, 0, 0], [0, 0, 1, 1, 0], [1, 0, 0, 0, 1]])
    weights, copies = torch.tensor([4.0, 1.0, 1.0]), 20_000
    twins = rows.repeat_interleave(weights.long(), 0).repeat(copies, 1)
    wanted = gradient_of(trainer_of(machine, twins, None, rb.ContrastiveDivergence(1)))
    many = rows.repeat(copies, 1), weights.repeat(copies)
    found = gradient_of(trainer_of(machine, *many, rb.ContrastiveDivergence(1)))
    wrong = gradient_of(trainer_of(machine, *many, Regardless(1)))
    assert max(float((found[k] - wanted[k]).abs().max()) for k in wanted) < 0.03
    assert max(float((wrong[k] - wanted[k]).abs().max()) for k in wanted) > 0.05


PHASES = {
    "exact": rb.Exact(),
    "cd": rb.ContrastiveDivergence(2),
    "pcd": rb.Persistent(6, sweeps=1),
    "pid": rb.PatternInduced(1),
    "pt": rb.Tempered(4, rungs=3),
}


def finished(machine, rows, negative, weights, **more):
    options = {"epochs": 6, "batch_size": 3, "seed": 2, **more}
    for _ in rb.train(machine, rows, negative, rb.sgd(0.05), weights=weights, **options):
        pass
    return machine


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("centred", [False, True])
def test_equal_weights_are_no_weights(phase, centred):
    def made():
        patterns = 2 if phase == "pid" else None
        return rb.rbm(5, 3, patterns, biases=True, scale=0.5, replicas=2, seed=1)

    rows = rb.to_spins(torch.rand(ROWS, 5, generator=rb.stream(0, "bits")) < 0.5)
    plain = finished(made(), rows, PHASES[phase], None, centred=centred)
    for weights in (torch.full((ROWS,), 0.1), [[2.0] * ROWS, [0.3] * ROWS]):
        same = finished(made(), rows, PHASES[phase], weights, centred=centred)
        assert all(map(torch.equal, plain.parameters(), same.parameters()))
    other = finished(made(), rows, PHASES[phase], weights_of(), centred=centred)
    assert not all(map(torch.equal, plain.parameters(), other.parameters()))


@pytest.mark.parametrize("phase", PHASES)
def test_a_replica_by_its_own_weights_is_that_of_a_training_by_them(phase):
    """Two replicas that start alike and have weights of their own: as if each were trained by these."""

    def made():
        patterns = 2 if phase == "pid" else None
        return rb.rbm(5, 3, patterns, biases=True, scale=0.5, replicas=2, seed=1)

    rows = rb.to_spins(torch.rand(ROWS, 5, generator=rb.stream(0, "bits")) < 0.5)
    weights = weights_of(replicas=2)
    both = finished(made(), rows, PHASES[phase], weights, epochs=40)
    for replica in range(2):
        alone = finished(made(), rows, PHASES[phase], weights[replica], epochs=40)
        for one, other in zip(both.parameters(), alone.parameters(), strict=True):
            assert torch.allclose(one[replica], other[replica], atol=1e-5)
        other = finished(made(), rows, PHASES[phase], weights[1 - replica], epochs=40)
        assert any(
            not torch.allclose(x[replica], y[replica], atol=1e-3)
            for x, y in zip(both.parameters(), other.parameters(), strict=True)
        )


def test_weights_go_with_missing_cells_and_resume_to_the_same_bits():
    machine = MAKE["mixed"]()
    rows, weights = rows_of(machine), weights_of(replicas=2)
    observed = torch.rand(rows.shape, generator=rb.stream(3, "observed")) < 0.7
    options = {"epochs": 4, "batch_size": 3, "seed": 0, "observed": observed, "weights": weights}
    phase = rb.Persistent(5)
    steps = rb.train(copy.deepcopy(machine), rows, phase, rb.sgd(0.1), every="update", **options)
    *_, last = (x for x in steps)
    whole = last.machine
    again = copy.deepcopy(machine)
    steps = rb.train(again, rows, phase, rb.sgd(0.1), every="update", **options)
    state = next(x.state() for x in steps if x.update == 5)
    again = copy.deepcopy(machine)
    for _ in rb.train(again, rows, phase, rb.sgd(0.1), state=state, **options):
        pass
    assert all(map(torch.equal, whole.parameters(), again.parameters()))


def test_biases_start_from_weighted_marginals():
    machine = rb.rbm((3, 2), 2, units=KINDS, biases=True, replicas=2, seed=0)
    rows = rows_of(machine, 400)
    weights = torch.rand(2, 400, generator=rb.stream(0, "w"), dtype=torch.float64)
    machine.start_biases(rows, weights=weights)
    columns = machine.layers.encode(rows).double()
    for replica in range(2):
        w = weights[replica]
        n = float(effective_rows(w))
        mean = (w / w.sum()) @ columns
        wanted = torch.atanh(mean[:3] * n / (n + 2.0))
        assert torch.allclose(machine.biases[replica, :3].double(), wanted, atol=1e-6)
        p = (mean[3:6] * n + 1.0) / (n + 3.0)
        logs = p.log() - p.log().mean()
        assert torch.allclose(machine.biases[replica, 3:6].double(), logs, atol=1e-5)
    split = Split.owning(machine.layers.encode(rows), None, None, weights=weights[1])
    other = rb.rbm((3, 2), 2, units=KINDS, biases=True, replicas=2, seed=0)
    other.start_biases(split)
    assert torch.equal(other.biases[0], machine.biases[1])


def test_precisions_start_from_weighted_variances():
    machine = rb.rbm(2, 2, units=rb.Gaussian(), biases=True, seed=0)
    rows = torch.tensor([[0.0, 1.0], [1.0, 3.0], [5.0, -2.0]], dtype=torch.float64)
    machine.start_biases(rows, weights=[1.0, 1.0, 0.0])
    other = rb.rbm(2, 2, units=rb.Gaussian(), biases=True, seed=0)
    other.start_biases(rows[:2])
    assert torch.allclose(machine.own["0"], other.own["0"], atol=1e-6)


@pytest.mark.parametrize("gaps", [False, True])
def test_means_of_log_p_are_weighted(gaps):
    machine = shaken(MAKE["mixed"]())
    rows, weights = rows_of(machine, 50), weights_of(50)
    columns = machine.layers.encode(rows)
    observed = torch.rand(rows.shape, generator=rb.stream(3, "observed")) < 0.7
    mask = machine.layers.column_mask(observed) if gaps else None
    split = Split.owning(columns, None, None, observed=mask, weights=weights)
    z = rb.log_z(machine, method="exact")
    each = rb.log_p(machine, rows, observed if gaps else None, normaliser=z).value
    wanted = (each * weights).sum(1) / weights.sum()
    found = mean_log_p(machine, split, rb.Estimate(z.value, torch.zeros_like(z.value)))
    assert torch.allclose(found.value, wanted)
    assert not torch.allclose(each.mean(1), wanted, atol=1e-3)
    if not gaps:
        assert torch.allclose(rb.log_likelihood(machine, split, normaliser=z).value, wanted)


def test_hidden_units_that_are_annealed_count_by_the_row_too(monkeypatch):
    from rapidbm.likelihood import log_z as module

    machine = shaken(MAKE["deep"]()).replica(0)
    rows, weights = rows_of(machine, 6), weights_of(6)
    split = Split.owning(machine.layers.encode(rows), None, None, weights=weights)
    exact = rb.log_likelihood(machine, split)
    monkeypatch.setattr(module, "HIDDEN", 1)
    found = rb.log_likelihood(machine, split, seed=0)
    assert float((found.value - exact.value).abs()) < 0.05
    plain = rb.log_likelihood(machine, rows)
    assert float((plain.value - exact.value).abs()) > 0.05


def test_what_is_proven_of_the_fit_is_of_the_weighted_rows():
    machine = shaken(MAKE["axons"]()).replica(0)
    rows, weights = rows_of(machine, 40), weights_of(40)
    weights = weights.round()  # whole numbers: as many copies of a row say the same
    copies = rows.repeat_interleave(weights.long(), 0)
    found = fit(machine, rows, rb.stream(0, "fit"), weights)
    same = fit(machine, copies, rb.stream(0, "fit"))
    assert torch.allclose(found.most, same.most)
    smoothed = log_columns(
        machine, machine.layers.encode(rows), machine.layers.encode(rows), weights=weights
    )
    wanted = float((smoothed * weights).sum() / weights.sum())
    assert found.columns == pytest.approx(wanted)


def test_a_part_keeps_its_weights():
    weights = torch.arange(10.0, dtype=torch.float64)
    split = Split(torch.eye(10), weights=weights)
    assert "weighted, 7.1 effective" in split._line()
    assert torch.equal(split.take(slice(2, 4)).weights, weights[2:4])
    assert torch.equal((split + split).weights, weights.repeat(2))
    assert torch.equal((split + Split(torch.eye(10))).weights[10:], torch.ones(10))
    assert torch.equal(split.narrowed(slice(0, 3)).weights, weights)
    one, other = split.parted("valid", 0, 0.3)
    assert float(one.weights.sum() + other.weights.sum()) == 45.0
    assert split.rows is split
    assert split.effective_rows == pytest.approx(45.0**2 / 285.0)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1.0, -1.0, 1.0], "that of row 1 is -1"),
        ([1.0, 1.0, math.nan], "that of row 2 is nan"),
        ([math.inf, 1.0, 1.0], "that of row 0 is inf"),
        ([1.0, 1.0], r"of shape \(3,\)"),
        ([0.0, 0.0, 0.0], "not all be 0"),
        ([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]], "not all be 0"),
        ([[1.0, 1.0, 1.0]] * 3, r"\(3,\) or \(2, 3\)"),
        (["a", "b", "c"], "numbers"),
        ([[[1.0]]], "one for each row"),
    ],
)
def test_wrong_weights_are_refused(weights, words):
    rows = [[0, 1], [1, 1], [1, 0]]
    machine = rb.rbm(2, 2, replicas=2, biases=True, seed=0)
    options = {"epochs": 1, "batch_size": 2, "seed": 0}
    with pytest.raises(rb.InputError, match=words):
        list(rb.train(machine, rows, rb.Exact(), rb.sgd(0.1), weights=weights, **options))
    with pytest.raises(rb.InputError, match=words):
        machine.start_biases(rows, weights=weights)
    if words != "not all be 0" and "or" not in words:
        with pytest.raises(rb.InputError, match=words):
            Split(rows, weights=weights)


def test_a_part_without_weight_is_refused():
    train, test = Split([[0, 1]], weights=[1.0]), Split([[1, 1], [0, 0]], weights=[1.0, 0.0])
    with pytest.raises(rb.InputError, match="rows of test none has a weight above 0"):
        Dataset("d", train, test.take(slice(1, 2)), (1, 2))


def test_rows_on_disk_have_no_weights(tmp_path):
    import numpy as np

    path = tmp_path / "rows.npy"
    np.save(path, np.eye(10, dtype=np.int8))
    data = rb.load(path, stream=True)
    machine = rb.rbm(10, 2, seed=0)
    options = {"epochs": 1, "batch_size": 2, "seed": 0, "weights": [1.0] * len(data.train)}
    with pytest.raises(rb.InputError, match="stay on disk have no weights"):
        list(rb.train(machine, data.train, rb.Exact(), rb.sgd(0.1), **options))


@pytest.mark.parametrize("by", ["replicas", "units"])
def test_shards_of_replicas_and_units_count_rows_by_weight(by):
    """After an update by weights of a full batch the replicas are where one process has them."""
    rows = rb.to_spins(torch.rand(ROWS, 6, generator=rb.stream(0, "bits")) < 0.5)
    data = Dataset("d", Split(rows, weights=weights_of()), Split(rows), (1, 6))
    found = []
    for shards in (1, 2):
        choices = {
            "hidden": (4,), "patterns": 2, "replicas": 2, "negative": "pid", "sweeps": 0, "epochs": 1,
            "batch_size": ROWS, "shards": shards, "shard_by": by, "projection": "none",
            "device": "cpu",
        }  # fmt: skip
        recipe = rb.Recipe.made("bars4", choices)
        trainer = recipe.trainer(data, torch.device("cpu"))
        trainer.step()
        trainer.gather()
        found.append(trainer.machine)
    before = recipe.machine(data, torch.device("cpu"))
    assert torch.allclose(found[0].patterns, found[1].patterns, atol=1e-5)
    assert not torch.allclose(found[0].patterns, before.patterns, atol=1e-4)


def test_a_tree_of_columns_counts_rows_by_weight():
    rows = rb.to_spins(torch.rand(60, 5, generator=rb.stream(0, "bits")) < 0.5)
    rows[:, 1] = rows[:, 0]
    weights = torch.cat([torch.full((30,), 3.0), torch.ones(30)]).double()
    count = float(effective_rows(weights))
    assert count == pytest.approx(48.0)
    tree = start_tree(Dataset("d", Split(rows, weights=weights), Split(rows), (1, 5)))
    ups = weights @ (rows > 0).double() / weights.sum() * count
    wanted = (ups + 2.0 * SMOOTHING) / (count + 4.0 * SMOOTHING)
    assert torch.allclose(torch.from_numpy(tree.marginals[:, 1]), wanted, atol=1e-6)
    even = start_tree(Dataset("d", Split(rows, weights=torch.full((60,), 3.0)), Split(rows), (1, 5)))
    plain = start_tree(Dataset("d", Split(rows), Split(rows), (1, 5)))
    assert (even.joint == plain.joint).all()
