"""The label of a row given all else: the term of the objective that asks for it, and rows without one."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

import rapidbm as rb
from rapidbm.accel.ranks import Ranks, ThreadRanks
from rapidbm.machines.cells import places
from rapidbm.training.labels import LabelUnit
from rapidbm.training.trainer import Trainer

pytestmark = pytest.mark.filterwarnings("ignore::rapidbm.FitWarning", "ignore::rapidbm.LoadWarning")
ROWS = 10
FALSE = 1e-4


def shaken(machine):
    if machine.biases is not None:
        rng = rb.stream(5, "biases")
        machine.biases.data.copy_(0.5 * torch.randn(machine.biases.shape, generator=rng))
    return machine.double()


KINDS = (rb.Spin(), rb.Categorical(3))
MANY = (rb.Spin(), rb.Categorical((2, 4)))
MAKE = {  # a machine, and the unit of its label
    "words": (
        lambda: rb.rbm((3, 1), 3, units=KINDS, scale=0.5, biases=True, replicas=2, seed=1),
        3,
    ),
    "second of two": (
        lambda: rb.rbm((2, 2), 3, units=MANY, scale=0.5, biases=True, replicas=2, seed=1),
        3,
    ),
    "first of two": (lambda: rb.rbm((2, 2), 3, units=MANY, scale=0.5, replicas=2, seed=1), 2),
    "a spin": (lambda: rb.rbm(4, 3, scale=0.5, biases=True, replicas=2, seed=1), 1),
    "axons": (
        lambda: rb.rbm(
            (3, 1), 3, 2, units=KINDS, scale=0.5, continuous=True, biases=True, replicas=2, seed=1
        ),
        3,
    ),
    "hidden categories": (
        lambda: rb.rbm(
            (3, 1),
            2,
            units=KINDS,
            hidden_units=rb.Categorical(3),
            scale=0.5,
            biases=True,
            replicas=2,
            seed=1,
        ),
        3,
    ),
}


def rows_of(machine, count=ROWS):
    gaps = torch.full((count, machine.layers.visible_units), math.nan)
    return rb.draw_missing(machine, gaps, rng=rb.stream(0, "rows")).values[0, 0]


def objective(machine, rows, unit, strength, weights=None, labelled=None):
    """Mean log p by enumeration, plus λ times that of log p(y | rest) over rows with a label."""
    lists = [place.values for place in places(machine)]
    states = torch.cartesian_prod(*lists)
    log_z = torch.logsumexp(machine.log_prob_unnormalised(states), 1, keepdim=True)
    w = torch.ones(len(rows), dtype=torch.float64) if weights is None else weights
    seen = torch.ones(len(rows), dtype=torch.bool) if labelled is None else labelled
    own = machine.log_prob_unnormalised(rows)
    every = []
    for value in lists[unit]:
        changed = rows.clone()
        changed[:, unit] = value
        every.append(machine.log_prob_unnormalised(changed))
    both = torch.logsumexp(torch.stack(every), 0)
    joint = torch.where(seen, own, both) - log_z
    asked = torch.where(seen, w * (own - both), 0.0).sum(-1) / (w * seen).sum(-1)
    return (w * joint).sum(-1) / w.sum(-1) + strength * asked


def wanted_gradient(*args, **more):
    machine = args[0]
    machine.zero_grad()
    (-objective(*args, **more).sum()).backward()
    return {name: p.grad.clone() for name, p in machine.named_parameters()}


def trainer_of(machine, rows, **more):
    options = {"epochs": 1, "batch_size": len(rows), "seed": 0, **more}
    negative = options.pop("negative", rb.Exact())
    return Trainer(machine, rows, negative, rb.sgd(0.1), **options)


def gradient_of(trainer, update=0):
    plan = trainer.plan(update)
    batch, held = trainer.batches.spins(plan.rows), trainer.batches.observed(plan.rows)
    if held is not None:
        batch = trainer.completed(batch, held, plan.size)
    weights = trainer.weights(plan)
    found = trainer.gradient(batch, plan.size, *weights)
    if trainer.asks is not None:
        trainer.add_discriminative(found, batch, held, plan.size, *weights)
    return found


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", MAKE)
def test_the_gradient_is_that_of_the_enumerated_objective(name, weighted):
    make, unit = MAKE[name]
    machine = shaken(make())
    rows = rows_of(machine)
    weights = torch.rand(2, ROWS, generator=rb.stream(1, "w"), dtype=torch.float64)
    weights = weights if weighted else None
    trainer = trainer_of(machine, rows, label=unit, discriminative=0.7, weights=weights)
    wanted = wanted_gradient(machine, rows, unit, 0.7, weights)
    without = wanted_gradient(machine, rows, unit, 0.0, weights)
    found = gradient_of(trainer)
    for key, value in wanted.items():
        assert float((found[key] - value).abs().max()) < 1e-10, key
    assert any(float((without[key] - value).abs().max()) > 1e-3 for key, value in wanted.items())


def test_batches_and_shards_add_up_to_it():
    make, unit = MAKE["words"]
    machine = shaken(make())
    rows = rows_of(machine)
    wanted = wanted_gradient(machine, rows, unit, 2.0)
    options = {"label": unit, "discriminative": 2.0}
    trainer = trainer_of(machine, rows, batch_size=5, **options)
    each = [gradient_of(trainer, i) for i in range(2)]

    def work(ranks):
        return gradient_of(trainer_of(shaken(make()), rows, shards=3, ranks=ranks, **options))

    threads = ThreadRanks(2, Ranks())
    for number, member in enumerate(threads.members):
        member.rank, member.world = number, 2
    shared = threads.run([lambda ranks=ranks: work(ranks) for ranks in threads.members])[0]
    for key, value in wanted.items():
        assert float((each[0][key] + each[1][key] - 2 * value).abs().max()) < 1e-10, key
        assert float((shared[key] - value).abs().max()) < 1e-10, key


def partly(machine, rows, unit):
    """A split of which every third row lacks its label, what stands there changed."""
    labelled = torch.arange(len(rows)) % 3 != 0
    observed = torch.ones(rows.shape, dtype=torch.bool)
    observed[~labelled, unit] = False
    return labelled, observed


@pytest.mark.parametrize("name", ["words", "second of two", "a spin"])
def test_rows_without_a_label_have_the_other_term_alone(name):
    """Labels that are missing are drawn: the mean over many copies of the rows is the gradient."""
    make, unit = MAKE[name]
    machine = shaken(make())
    rows = rows_of(machine)
    labelled, observed = partly(machine, rows, unit)
    wanted = wanted_gradient(machine, rows, unit, 1.5, labelled=labelled)
    groups, copies, found = 40, 30, []
    trainer = trainer_of(
        machine,
        rows.repeat(copies, 1),
        observed=observed.repeat(copies, 1),
        label=unit,
        discriminative=1.5,
        batch_mean="true",
    )
    for _ in range(groups):
        found.append(gradient_of(trainer))
    count, worst = 0, 0.0
    for key, value in wanted.items():
        each = torch.stack([x[key] for x in found])
        error = each.std(0) / groups**0.5
        moves = error > 1e-12
        assert bool(((each.mean(0) - value)[~moves].abs() < 1e-9).all())
        z = ((each.mean(0) - value).abs() / error)[moves]
        count, worst = count + int(moves.sum()), max(worst, float(z.max()))
    assert worst < stats.t.ppf(1 - FALSE / count / 2, groups - 1)


def test_what_stands_in_a_missing_label_is_not_looked_at():
    make, unit = MAKE["words"]
    rows = rows_of(make())
    _, observed = partly(None, rows, unit)
    other = torch.where(observed, rows, (rows + 1) % 3)
    found = []
    for values in (rows, other):
        machine = make()
        options = {"epochs": 4, "batch_size": 4, "seed": 0, "label": unit, "discriminative": 0.5}
        steps = rb.train(machine, values, rb.Persistent(6), rb.sgd(0.1), observed=observed, **options)
        for _ in steps:
            pass
        found.append(machine)
    assert all(map(torch.equal, found[0].parameters(), found[1].parameters()))


def test_missing_labels_are_drawn_by_their_probabilities():
    machine = shaken(MAKE["words"][0]())
    unit = LabelUnit.of(machine, 3)
    rows = machine.layers.encode(rows_of(machine, 1)).double().repeat(40_000, 1).expand(2, -1, -1)
    held = torch.ones_like(rows, dtype=torch.bool)
    held[..., 3:] = False
    drawn = unit.completed(machine, rows, held, rb.stream(0, "labels"))
    p = rb.predict(machine, machine.layers.decode(rows[0, :1]), 3).probabilities[:, 0]
    assert torch.allclose(unit.log_p(machine, rows[:, :1]).exp()[:, 0], p)
    for replica in range(2):
        seen = drawn[replica, :, 3:].sum(0)
        assert float(stats.chisquare(seen, p[replica] * 40_000).pvalue) > FALSE


@pytest.mark.parametrize("centred", [False, True])
def test_asking_for_the_label_makes_better_predictions(centred):
    """The label is the parity of two spins, among spins that the likelihood cares more about."""
    rng = rb.stream(0, "parity")
    bits = torch.rand(400, 6, generator=rng) < 0.5
    bits[:, 3:] = bits[:, 2:3]
    label = (bits[:, 0] ^ bits[:, 1]).long()
    layers = ((6, 1), (rb.Spin(), rb.Categorical(2)))
    rows = torch.cat([2.0 * bits - 1.0, label[:, None]], 1)
    logs = []
    for strength in (0.0, 5.0):
        machine = rb.rbm(layers[0], 8, units=layers[1], biases=True, scale=0.3, seed=1)
        options = {"epochs": 30, "batch_size": 40, "seed": 0, "label": 6, "centred": centred}
        phase = rb.Persistent(50)
        steps = rb.train(machine, rows, phase, rb.adam(0.02), discriminative=strength, **options)
        for _ in steps:
            pass
        p = rb.predict(machine, rows, 6).probabilities[0]
        logs.append(float(p.gather(1, label[:, None]).log().mean()))
    assert logs[1] > logs[0] + 0.05
    assert logs[1] > -0.3


def test_it_resumes_to_the_same_bits():
    make, unit = MAKE["words"]
    rows = rows_of(make(), 40)
    _, observed = partly(None, rows, unit)
    options = {
        "epochs": 20, "batch_size": 10, "seed": 0, "label": unit, "discriminative": 0.5,
        "observed": observed, "every": "update", "centred": True,
    }  # fmt: skip
    whole = make()
    *_, last = rb.train(whole, rows, rb.Persistent(6), rb.adam(0.01), **options)
    again = make()
    steps = rb.train(again, rows, rb.Persistent(6), rb.adam(0.01), **options)
    state = next(x.state() for x in steps if x.update == 50)
    again = make()
    for _ in rb.train(again, rows, rb.Persistent(6), rb.adam(0.01), state=state, **options):
        pass
    assert last.update == 80
    assert all(map(torch.equal, whole.parameters(), again.parameters()))


def test_what_is_not_exact_is_refused():
    rows = torch.tensor([[1.0, -1.0, 1.0, 2.0], [1.0, 1.0, -1.0, 0.0], [-1.0, -1.0, -1.0, 1.0]])
    machine = MAKE["words"][0]()

    def refused(words, machine=machine, rows=rows, **options):
        with pytest.raises(rb.InputError, match=words):
            trainer_of(machine, rows, **{"label": 3, "discriminative": 1.0, **options})

    refused("name it", label=None)
    refused("no unit", label=4)
    refused("number from 0 on", discriminative=-1.0)
    refused("number from 0 on", discriminative=math.nan)
    observed = torch.ones(3, 4, dtype=torch.bool)
    observed[0, 1] = False
    refused("no cell but the label", observed=observed)
    nobody = torch.ones(3, 4, dtype=torch.bool)
    nobody[:, 3] = False
    refused("none has one", observed=nobody)
    one = torch.ones(3, 4, dtype=torch.bool)
    one[0, 3] = False
    refused("none has one", observed=one, weights=[1.0, 0.0, 0.0])
    deep = rb.dbm((3, 1), (2, 2), units=KINDS, biases=True, seed=0)
    refused("restricted machine", machine=deep, positive=rb.MeanField())
    real = rb.rbm((3, 1), 2, units=(rb.Spin(), rb.Gaussian()), biases=True, seed=0)
    refused("label of a few states", machine=real)
