"""Training on rows with missing cells: the gradient of their likelihood, and any training's rules."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

import rapidbm as rb
from rapidbm.accel import recording
from rapidbm.accel.ranks import Ranks, ThreadRanks
from rapidbm.machines.cells import places
from rapidbm.machines.ensembles import given_visible
from rapidbm.training.constants import constant_means
from rapidbm.training.gaps import completed
from rapidbm.training.positive import positive_for
from rapidbm.training.trainer import Trainer

pytestmark = pytest.mark.filterwarnings("ignore::rapidbm.FitWarning", "ignore::rapidbm.LoadWarning")
FALSE = 1e-4  # how often a right sampler fails; seeds are fixed
KINDS = (rb.Spin(), rb.Categorical(3))
REALS = (rb.Binary(), rb.Gaussian())


def shaken(machine):
    if machine.biases is not None:
        rng = rb.stream(5, "biases")
        machine.biases.data.copy_(0.5 * torch.randn(machine.biases.shape, generator=rng))
    return machine.double()


MAKE = {
    "mixed": lambda: rb.rbm((3, 2), 3, units=KINDS, scale=0.5, biases=True, seed=1),
    "reals": lambda: rb.rbm((2, 1), 3, units=REALS, scale=0.5, biases=True, seed=1),
    "axons": lambda: rb.rbm(5, 3, 2, scale=0.4, continuous=True, seed=1),
    "deep": lambda: rb.dbm(4, (3, 2), scale=0.5, biases=True, seed=1),
    "full": lambda: rb.bm(4, 2, scale=0.4, biases=True, seed=1),
}


def table(machine, count=6, seed=0):
    """Some rows of a machine and a mask of what is observed of them."""
    rng = rb.stream(seed, "table")
    rows = rb.draw_missing(
        machine, torch.full((count, machine.layers.visible_units), math.nan), rng=rng
    ).values[0, 0]
    observed = torch.rand(rows.shape, generator=rng) < 0.6
    observed[0] = True
    return rows, observed


def likelihood(machine, rows, observed):
    """Mean log Σ exp(−E) over all that is not observed, by enumeration; with its gradient."""
    grid = torch.linspace(-12.0, 12.0, 481, dtype=torch.float64)
    lists = [grid if place.values is None else place.values for place in places(machine)]
    total = 0.0
    for row, mask in zip(rows, observed, strict=True):
        values = [x if not known else v[None] for x, v, known in zip(lists, row, mask, strict=True)]
        weight = sum(math.log(0.05) for x in values if len(x) > 100)
        states = torch.cartesian_prod(*values)
        total = total + torch.logsumexp(machine.log_prob_unnormalised(states), 1)[0] + weight
    return total / len(rows)


@pytest.mark.parametrize("name", MAKE)
def test_the_gradient_of_completed_rows_is_that_of_the_likelihood_of_the_incomplete(name):
    machine = shaken(MAKE[name]())
    rows, observed = table(machine)
    machine.zero_grad()
    likelihood(machine, rows, observed).backward()
    wanted = {k: -p.grad for k, p in machine.named_parameters()}  # of ⟨E⟩
    columns, held = machine.layers.encode(rows).double(), machine.layers.column_mask(observed)
    groups, copies, rng = 60, 40, rb.stream(2, "completed")
    found = []
    for _ in range(groups):
        batch = columns.repeat(copies, 1)[None]
        whole = completed(machine, batch, held.repeat(copies, 1)[None], rng, 30)
        phase = rb.Enumerated() if name in ("deep", "full") else positive_for(machine)
        found.append(phase.step(machine, whole, rng).gradient(machine))
    count, worst = 0, 0.0
    for key, value in wanted.items():
        each = torch.stack([x[key] for x in found])
        error = each.std(0) / groups**0.5
        moves = error > 1e-12
        z = ((each.mean(0) - value).abs() / error)[moves]
        assert bool(((each.mean(0) - value)[~moves].abs() < 1e-9).all())
        count, worst = count + int(moves.sum()), max(worst, float(z.max()))
    assert worst < stats.t.ppf(1 - FALSE / count / 2, groups - 1)


def test_a_wrong_machine_gives_another_gradient():
    """The test above fails where the draws are of another machine."""
    machine = shaken(MAKE["mixed"]())
    rows, observed = table(machine)
    machine.zero_grad()
    likelihood(machine, rows, observed).backward()
    wrong = shaken(MAKE["mixed"]())
    wrong.biases.data += 0.5
    columns, held = machine.layers.encode(rows).double(), machine.layers.column_mask(observed)
    whole = completed(
        wrong, columns.repeat(3000, 1)[None], held.repeat(3000, 1)[None], rb.stream(0, "x"), 30
    )
    found = given_visible(machine, whole).gradient(machine)["biases"]
    assert float((found + machine.biases.grad).abs().max()) > 0.03


def known_distribution():
    """Six spins, of which three follow one and the others another, all likely up."""
    layers = rb.Layers((6, 2), ((0, 1),))
    weights = torch.zeros(1, 6, 2)
    weights[0, :3, 0], weights[0, 3:, 1], weights[0, 0, 1] = 1.1, 1.0, -0.6
    truth = rb.Machine(rb.Dense(layers, {(0, 1): weights}), torch.tensor([[0.2] * 6 + [0.3, 0.2]]))
    states = places(truth)
    rows = torch.cartesian_prod(*(place.values for place in states))
    p = torch.softmax(truth.double().log_prob_unnormalised(rows).detach()[0], 0)
    return rows, p


def trained(data, observed=None, seed=0):
    machine = rb.rbm(6, 4, biases=True, scale=0.05, seed=3)
    steps = rb.train(
        machine, data, rb.Exact(), rb.adam(0.02), epochs=40, batch_size=100, seed=seed, observed=observed
    )
    for _ in steps:
        pass
    return machine


def test_a_training_with_gaps_reaches_the_likelihood_of_one_without():
    rows, p = known_distribution()
    rng = rb.stream(1, "data")
    data = rows[torch.multinomial(p, 4000, True, generator=rng)]
    observed = torch.rand(data.shape, generator=rng) < 0.7
    filled = torch.where(observed, data, torch.where((data * observed).sum(0) >= 0, 1.0, -1.0))

    def kl(machine):
        logs = rb.log_p(machine.double(), rows).value[0]
        return float((p * (p.log() - logs)).sum())

    whole, gaps, mean = kl(trained(data)), kl(trained(filled, observed)), kl(trained(filled))
    assert whole < 0.01
    assert gaps < whole + 0.01
    assert mean > 0.1


# -- what holds for any training -----------------------------------------------------------------------

SPINS = torch.where(torch.arange(25 * 6).reshape(25, 6) * 7 % 11 < 4, 1, -1)
OBSERVED = torch.arange(25 * 6).reshape(25, 6) * 5 % 7 > 1
PHASES = {
    "exact": (lambda **more: rb.rbm(6, 4, biases=True, seed=1, **more), rb.Exact(), {}),
    "pcd": (lambda **more: rb.rbm(6, 4, biases=True, seed=1, **more), rb.Persistent(8, 2), {}),
    "centred": (
        lambda **more: rb.rbm(6, 4, biases=True, seed=1, **more),
        rb.Persistent(8, 2),
        {"centred": True},
    ),
    "cd": (lambda **more: rb.rbm(6, 4, seed=1, **more), rb.ContrastiveDivergence(1), {}),
    "pid": (
        lambda **more: rb.rbm(6, 4, 3, continuous=True, seed=1, **more),
        rb.PatternInduced(1),
        {"projection": rb.Sign()},
    ),
    "deep": (lambda **more: rb.dbm(6, (4, 3), seed=1, **more), rb.Persistent(8, 1), {}),
    "full": (
        lambda **more: rb.bm(6, 2, 3, continuous=True, seed=1, **more),
        rb.Persistent(8, 1),
        {"positive": rb.ClampedChains(2)},
    ),
}
each = pytest.mark.parametrize("name", PHASES)


def trainer(name, data=None, replicas=2, observed=None, **more):
    make, negative, options = PHASES[name]
    data = rb.Split(SPINS, observed=OBSERVED) if data is None else data
    return Trainer(
        make(replicas=replicas), data, negative, rb.adam(0.01), epochs=9, batch_size=10, seed=4,
        observed=observed, **options, **more,
    )  # fmt: skip


def advanced(made, updates=12):
    for _ in range(updates):
        made.step()
    return made.state()


def same(found, wanted):
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert torch.equal(found[name], value), name


@each
def test_what_stands_in_a_missing_cell_does_not_matter(name):
    other = rb.Split(torch.where(OBSERVED, SPINS, -SPINS), observed=OBSERVED)
    same(advanced(trainer(name)), advanced(trainer(name, other)))
    same(advanced(trainer(name)), advanced(trainer(name, other.spins, observed=OBSERVED)))


@each
def test_a_mask_of_ones_is_no_mask(name):
    whole = rb.Split(SPINS, observed=torch.ones_like(OBSERVED))
    same(advanced(trainer(name, whole)), advanced(trainer(name, SPINS)))


@each
def test_a_resumed_training_leaves_the_same_bits(name):
    wanted = advanced(trainer(name))
    state = advanced(trainer(name), 5)
    again = trainer(name)
    again.load(state)
    same(advanced(again, 7), wanted)


@each
def test_a_recorded_training_leaves_the_same_bits(name, monkeypatch):
    monkeypatch.setattr(recording, "AFTER", 2)
    made = trainer(name)
    found = advanced(made, 15)
    if hasattr(made.executor, "replay"):
        assert not made.executor.replay.refused
        assert len(made.executor.replay.trusted) == 2
    monkeypatch.setattr(recording, "AFTER", 10**9)
    same(found, advanced(trainer(name), 15))


def test_shards_draw_the_same_alone_and_together():
    def work(ranks):
        return advanced(trainer("pcd", shards=2, ranks=ranks), 6)

    alone = advanced(trainer("pcd", shards=2), 6)
    threads = ThreadRanks(2, Ranks())
    found = threads.run([lambda member=member: work(member) for member in threads.members])
    for name, value in alone.items():
        if name.startswith("parameter"):  # but for the order in which ranks add
            assert torch.allclose(found[0][name], value, rtol=0, atol=5e-6), name


def test_missing_cells_on_shards_of_units_are_refused():
    with pytest.raises(rb.InputError, match="shards of units"):
        trainer("pid", part=("units", 0, 2))


def test_rows_without_any_observed_cell_are_trained_and_a_table_of_them_refused():
    observed = OBSERVED.clone()
    observed[3] = False
    advanced(trainer("pcd", rb.Split(SPINS, observed=observed)), 3)
    with pytest.raises(rb.InputError, match="all of them are missing"):
        trainer("pcd", rb.Split(SPINS, observed=torch.zeros_like(OBSERVED)))


# -- what is counted -----------------------------------------------------------------------------------


def test_biases_and_precisions_start_from_observed_cells_alone():
    kinds = (rb.Spin(), rb.Categorical(3), rb.Gaussian())
    machine = rb.rbm((1, 1, 1), 2, units=kinds, biases=True, seed=0).double()
    rows = torch.tensor([[1.0, 0.0, 2.0], [1.0, 2.0, 4.0], [-1.0, 2.0, 6.0], [-1.0, 1.0, 100.0]])
    observed = torch.tensor([[1, 1, 1], [1, 1, 1], [0, 1, 1], [1, 0, 0]]).bool()
    machine.start_biases(rows, observed)
    found = machine.biases.detach()[0]
    assert float(found[0]) == pytest.approx(math.atanh(1 / 5), abs=1e-6)
    wanted = torch.tensor([2.0, 1.0, 3.0], dtype=torch.float64).log()
    torch.testing.assert_close(found[1:4].detach(), wanted - wanted.mean())
    precision = 1 / (8 / 3)
    assert float(machine.own["2"].detach()) == pytest.approx(math.log(precision), abs=1e-6)
    assert float(found[4]) == pytest.approx(4.0 * precision, abs=1e-6)


def test_a_column_that_is_constant_where_it_is_observed_is_constant():
    spins, observed = SPINS.clone(), OBSERVED.clone()
    spins[:, 2] = torch.where(observed[:, 2], 1, -1)
    observed[:, 4] = False
    means = constant_means(rb.Split(spins, observed=observed))
    count = int(observed[:, 2].sum())
    assert float(means[2]) == pytest.approx(count / (count + 2))
    assert int((means != 0).sum()) == 1


def test_the_mask_of_a_split_goes_where_its_rows_go():
    split = rb.Split(SPINS, observed=OBSERVED)
    assert torch.equal(split.take(slice(3, 9)).observed, OBSERVED[3:9])
    assert torch.equal(split.take(torch.tensor([5, 2])).observed, OBSERVED[[5, 2]])
    assert torch.equal(split.narrowed(slice(1, 4)).observed, OBSERVED[:, 1:4])
    rest, held = split.parted("x", 0, 0.2)
    assert rest.observed.shape == rest.spins.shape
    assert held.observed.shape == held.spins.shape
    both = split + rb.Split(SPINS)
    assert torch.equal(both.observed, torch.cat([OBSERVED, torch.ones_like(OBSERVED)]))
    assert (rb.Split(SPINS) + rb.Split(SPINS)).observed is None
    assert split.rows is split
    assert rb.Split(SPINS).rows.shape == SPINS.shape
    assert "missing" in repr(split)
    other = rb.Split(torch.where(OBSERVED, SPINS, -SPINS), observed=OBSERVED)
    assert bytes(split.digest()) == bytes(other.digest())
    assert bytes(split.digest()) != bytes(rb.Split(SPINS).digest())
    with pytest.raises(rb.InputError, match="mask of observed cells"):
        rb.Split(SPINS, observed=OBSERVED[:3])
