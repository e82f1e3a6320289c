"""Trainings of machines of every kind of unit, their files and their shards."""

import json
import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import rapidbm as rb
from kinds import (
    COUNTS,
    choices,
    log_p_by_hand,
    make,
    random_rows,
    random_states,
    randomised,
    real_columns,
)
from rapidbm.accel.executors import Eager
from rapidbm.errors import InputError
from rapidbm.machines.cells import places
from rapidbm.machines.files import load_tensors
from rapidbm.random import stream
from rapidbm.training.labels import LabelUnit
from rapidbm.training.trainer import Trainer

CHOICES = [pytest.param(c.values, id=c.id) for c in choices()]
KINDS = [*COUNTS, "mixed"]
PHASES = {
    "exact": rb.Exact(),
    "cd": rb.ContrastiveDivergence(2),
    "pcd": rb.Persistent(20, sweeps=2),
    "pcd, born again": rb.Persistent(20, lifetime=5),
    "pt": rb.Tempered(10, rungs=4),
}
OF_PATTERNS = {
    "pid": rb.PatternInduced(),
    "pid, swept": rb.PatternInduced(2),
    "pcd, from patterns": rb.Persistent(20, lifetime=5, born="patterns", scouts=0.2),
}
EVERY_PHASE = {**PHASES, **OF_PATTERNS}


def data_of(machine, count=30):
    """Rows that are not independent, of values of the units; no column is constant."""
    source = randomised(machine.replica(0), seed=7)
    rows = rb.sample(source, count - 6, steps=20, seed=1)[0, :, : machine.visible]
    return machine.layers.decode(torch.cat([rows, random_rows(machine, 6)]))


def trained(machine, rows, negative, **more):
    options = {"epochs": 4, "batch_size": 10, "seed": 3, **more}
    optimizer = options.pop("optimizer", rb.adam(0.02))
    return [*rb.train(machine, rows, negative, optimizer, **options)]


def same(one, two):
    return all(map(torch.equal, one.parameters(), two.parameters()))


@pytest.mark.parametrize("choice", CHOICES)
def test_the_exact_gradient_raises_the_likelihood_with_every_update(choice):
    machine = randomised(make(*choice), size=0.3)
    rows = data_of(machine)
    columns = machine.layers.encode(rows).double()
    first = last = log_p_by_hand(machine, columns).mean(1).detach()
    options = {"epochs": 10, "batch_size": 30, "positive": rb.Enumerated(), "seed": 0}
    for _ in rb.train(machine, rows, rb.Exact(), rb.sgd(0.03), **options):
        now = log_p_by_hand(machine, columns).mean(1).detach()
        assert bool((now > last).all())
        last = now
    assert bool((last > first + 1e-3).all())


@pytest.mark.parametrize("phase", [*EVERY_PHASE])
@pytest.mark.parametrize("choice", CHOICES)
def test_every_phase_trains_every_kind(choice, phase):
    machine = make(*choice)
    if phase in OF_PATTERNS and machine.patterns is None:
        with pytest.raises(InputError, match="dense"):
            trained(machine, data_of(machine), EVERY_PHASE[phase])
        return
    before = {name: p.detach().clone() for name, p in machine.named_parameters()}
    *_, last = trained(machine, data_of(machine), EVERY_PHASE[phase])
    assert last.update == 12
    assert bool(machine.finite().all())
    assert all(bool(p.isfinite().all()) for p in machine.parameters())
    for name, p in machine.named_parameters():  # own ones too, but for a layer of one unit with itself
        assert not torch.equal(p, before[name]) or name == "couplings.weights.1-1"


@pytest.mark.parametrize("positive", [rb.MeanField(5), rb.ClampedChains(3), rb.Enumerated()])
@pytest.mark.parametrize("choice", CHOICES)
def test_every_positive_phase_trains_every_kind(choice, positive):
    machine = make(*choice)
    trained(machine, data_of(machine), rb.ContrastiveDivergence(), positive=positive)
    assert bool(machine.finite().all())


@pytest.mark.parametrize("kind", KINDS)
def test_starting_biases_are_the_marginals_of_the_data(kind):
    machine = make("rbm", "visible", kind)
    rows = data_of(machine)
    for name, p in machine.named_parameters():
        if name.startswith("couplings"):
            p.data.zero_()
    machine.start_biases(rows)
    columns = machine.layers.encode(rows).double()
    found = rb.exact_moments(machine)
    real = [i for i in real_columns(machine) if i < machine.visible]
    for i in range(machine.visible):
        exact = abs(float(found.mean[0, i] - columns[:, i].mean()))
        assert exact < (1e-10 if i in real else 2.0 / 30)
    for i in real:
        square = float(found.pairs[0, i, i] - found.mean[0, i].square())
        assert square == pytest.approx(float(columns[:, i].var(correction=0)))


@pytest.mark.parametrize("name", ["iris", "wine"])
def test_persistent_chains_learn_standardised_real_data_at_the_default_rate(name):
    """Ten of ten seeds: no replica diverges, and each is above independent columns."""
    datasets = pytest.importorskip("sklearn.datasets")
    table = torch.from_numpy(getattr(datasets, f"load_{name}")().data)
    table = (table - table.mean(0)) / table.std(0, correction=0)
    columns = table.shape[1]
    alone = -0.5 * columns * (math.log(2 * math.pi) + 1)  # normal columns of variance 1
    for seed in range(10):
        machine = rb.rbm(columns, 8, units=rb.Gaussian(), biases=True, seed=seed)
        machine.start_biases(table)
        steps = rb.train(
            machine, table, rb.Persistent(100), rb.adam(3e-3), epochs=60, batch_size=25, seed=seed
        )
        for progress in steps:
            pass
        assert bool(machine.finite().all())
        assert float(rb.log_likelihood(machine, table, method="exact").value) > alone + 0.5


# -- replicas, shards, states ---------------------------------------------------------------------------


@pytest.mark.parametrize("choice", CHOICES)
def test_a_replica_is_what_it_is_alone(choice):
    """By the exact phase, which draws nothing."""
    machine = randomised(make(*choice), size=0.2)
    alone = [machine.replica(e) for e in range(2)]
    rows = data_of(machine)
    optimizer = rb.sgd(0.05, momentum=0.5)
    for one in (machine, *alone):
        trained(one, rows, rb.Exact(), positive=rb.Enumerated(), batch_size=30, optimizer=optimizer)
    for e, one in enumerate(alone):
        for p, q in zip(machine.parameters(), one.parameters(), strict=True):
            assert torch.allclose(p[e], q[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("choice", CHOICES)
def test_shards_without_random_numbers_are_the_whole(choice):
    phases = [rb.Exact(), *([rb.PatternInduced()] if choice[3] else [])]
    for phase in phases:
        whole, parts = (randomised(make(*choice), size=0.3) for _ in range(2))  # no field is a tie
        rows = data_of(whole)
        more = {"positive": rb.Enumerated(), "optimizer": rb.sgd(0.05)}
        trained(whole, rows, phase, **more)
        trained(parts, rows, phase, shards=2, **more)
        for p, q in zip(whole.parameters(), parts.parameters(), strict=True):
            assert torch.allclose(p, q, rtol=0, atol=1e-12)


@pytest.mark.parametrize("phase", ["cd", "pcd", "pt"])
@pytest.mark.parametrize("kind", KINDS)
def test_shards_draw_numbers_of_their_own_and_the_same_each_time(kind, phase):
    found = []
    for shards in (1, 2, 2):
        machine = make("rbm", "visible", kind)
        trained(machine, data_of(machine), PHASES[phase], shards=shards)
        found.append(machine)
    assert not same(found[0], found[1])
    assert same(found[1], found[2])


@pytest.mark.parametrize("phase", ["exact", "cd", "pcd, born again", "pt"])
@pytest.mark.parametrize("choice", CHOICES)
def test_a_training_goes_on_from_its_state_to_the_same_bits(choice, phase):
    whole, half, rest = (make(*choice) for _ in range(3))
    rows = data_of(whole)
    trained(whole, rows, PHASES[phase])
    options = {"epochs": 4, "batch_size": 10, "seed": 3}
    for progress in rb.train(half, rows, PHASES[phase], rb.adam(0.02), **options):
        if progress.epoch == 2:
            state = progress.state()
            break
    for _ in rb.train(rest, rows, PHASES[phase], rb.adam(0.02), state=state, **options):
        pass
    assert same(whole, rest)
    assert not same(whole, half)


# -- files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", CHOICES)
def test_a_machine_comes_back_from_its_file(choice, tmp_path):
    machine = randomised(make(*choice))
    path = tmp_path / "machine.safetensors"
    rb.save_machine(machine, path)
    back = rb.load_machine(path)
    assert back.layers == machine.layers
    for name, p in back.named_parameters():
        if name.startswith("couplings.weights"):  # of which a layer's own may hold what is not read
            a, b = map(int, name.removeprefix("couplings.weights.").split("-"))
            assert torch.equal(back.couplings.matrix(a, b), machine.couplings.matrix(a, b))
        else:
            assert torch.equal(p, machine.get_parameter(name))
    x = random_states(machine, 5)
    assert torch.equal(back.energy(x), machine.energy(x))
    one = rb.load_machine(path, replica=1)
    assert torch.equal(one.energy(x[1:]), machine.replica(1).energy(x[1:]))
    rb.save_machine(machine, path, half=True)
    near = rb.load_machine(path)
    assert near.layers == machine.layers
    assert torch.allclose(near.energy(x).double(), machine.energy(x), atol=0.05)


@pytest.mark.parametrize(
    ("units", "words"),
    [
        ([{"kind": "spin"}], "a kind of unit for each of 2 layers"),
        ([{"kind": "unheard"}, {"kind": "spin"}], "unheard"),
        ([{"kind": "categorical"}, {"kind": "spin"}], "categorical"),
        ([{"kind": "categorical", "q": 4}, {"kind": "spin"}], "no multiple"),
        ([{"kind": "categorical", "q": [2, 5]}, {"kind": "spin"}], "not 6"),
        ([{"kind": "categorical", "q": 1}, {"kind": "spin"}], "two states or more"),
        ([{"kind": "categorical", "q": "many"}, {"kind": "spin"}], "two states or more"),
        ([{"kind": "spin", "q": 3}, {"kind": "spin"}], "takes no"),
        ([{"kind": "gaussian"}, {"kind": "spin"}], "lacks the tensor own.0"),
        ([{"kind": 3}, {"kind": "spin"}], "kinds of its units"),
        (["spin", "spin"], "kinds of its units"),
        ("spin", "units"),
    ],
)
def test_a_damaged_header_of_units_is_refused(units, words, tmp_path):
    path = tmp_path / "machine.safetensors"
    rb.save_machine(make("rbm", "visible", "categorical"), path)
    _rewrite(path, lambda header: header | {"units": units})
    with pytest.raises(InputError, match=words):
        rb.load_machine(path)


@pytest.mark.parametrize("seen", [0, 5, 4, 2, "two", 1.5])
def test_a_damaged_number_of_visible_layers_is_refused_or_makes_another_machine(seen, tmp_path):
    path = tmp_path / "machine.safetensors"
    machine = make("rbm", "visible", "mixed")
    rb.save_machine(machine, path)
    _rewrite(path, lambda header: header | {"visible_layers": seen})
    if seen in (2, 4):  # layers that could be
        assert rb.load_machine(path).layers.seen == seen
        return
    with pytest.raises(InputError):
        rb.load_machine(path)


def _rewrite(path, change):
    """A file with another header; its checksum is left out, as in files of earlier versions."""
    from safetensors.torch import save_file

    tensors, header = load_tensors(path)
    save_file(tensors, path, {"rapidbm": json.dumps(change(header))})


def test_own_parameters_are_checked(tmp_path):
    machine = make("rbm", "visible", "gaussian")
    with pytest.raises(InputError, match="parameters log_precision of layer 0 must be"):
        rb.Machine(machine.couplings, None, {"0": torch.zeros(2, 1, 5)})
    with pytest.raises(InputError, match="no parameters of their own"):
        rb.Machine(machine.couplings, None, {"1": torch.zeros(2, 1, 2)})
    with pytest.raises(InputError, match="finite"):
        rb.Machine(machine.couplings, None, {"0": torch.full((2, 1, 2), math.nan)})
    given = torch.randn((2, 1, 2), generator=stream(0), dtype=torch.float64)
    own = rb.Machine(machine.couplings, None, {"0": given}).own["0"]
    assert torch.equal(own, given)
    machine.own["0"].data[1, 0, 0] = 100.0
    assert machine.finite().tolist() == [True, False]


def test_a_replica_whose_precision_runs_away_is_frozen():
    machine = make("rbm", "visible", "gaussian")
    rows = data_of(machine) * 1e-8  # the likelihood rises with the precision for ever
    machine.own["0"].data[1] = 59.0
    kept = [p[1].detach().clone() for p in machine.parameters()]
    rates = rb.sgd((1e-3, 100.0))
    *_, last = trained(machine, rows, rb.ContrastiveDivergence(), optimizer=rates, epochs=2)
    assert last.diverged == (1,)
    assert bool(machine.finite().all())
    assert all(torch.equal(a, p[1]) for a, p in zip(kept, machine.parameters(), strict=True))


class Made(TorchDispatchMode):
    """Counts tensors that are made from numbers: on a GPU each is a copy from the CPU, which a graph of
    updates cannot hold."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, call, types, args=(), kwargs=None):
        self.count += "lift_fresh" in str(call)
        return call(*args, **(kwargs or {}))


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("kind", [*KINDS, "several"])
def test_an_update_copies_nothing_from_the_cpu(kind, labelled):
    units = (rb.Spin(), rb.Categorical((2, 3)), rb.Categorical(4))
    machine = rb.rbm((3, 2, 1), 4, units=units, biases=True, seed=0)
    if kind != "several":
        machine = make("rbm", "visible", kind, replicas=1)
    label = len(places(machine)) - 1 if labelled else None
    if label is not None and LabelUnit.of(machine, label) is None:
        pytest.skip("no label of few states")
    rows = machine.layers.encode(data_of(machine))
    strength = 0.0 if label is None else 1.0
    how = {"epochs": 3, "batch_size": 10, "centred": True, "seed": 0}
    phase = rb.Persistent(10)
    trainer = Trainer(machine, rows, phase, rb.adam(), label=label, discriminative=strength, **how)
    trainer.executor = Eager()
    for _ in range(2):
        trainer.step()
    with Made() as made:
        torch.tensor([1.0])
        assert made.count == 1
        trainer.step()
    assert made.count == 1
