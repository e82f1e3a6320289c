"""A layer of another kind of unit is one new class: here 0 and 1, beside spins."""

import inspect
from dataclasses import dataclass

import pytest
import torch

import rapidbm as rb
from rapidbm.errors import InputError
from rapidbm.likelihood.log_z import log_bound, log_z
from rapidbm.machines.dense import Dense
from rapidbm.machines.ensembles import AllStates
from rapidbm.machines.layers import Layers
from rapidbm.machines.machine import Machine
from rapidbm.machines.patterns import Patterns
from rapidbm.machines.units import SPIN, Ising
from rapidbm.random import stream
from rapidbm.sampling.gibbs import sweeps
from rapidbm.testing import SMALLEST_P, check_negative_phase, check_sampler, chi_squared
from rapidbm.training.negative import PatternInduced


@dataclass(frozen=True)
class Bit(Ising):
    """0 or 1: p(1) = 1 / (1 + exp(−βf)), log Σ = log(1 + exp f)."""

    mirrored = False

    def states(self, count, numbers):
        return (super().states(count, numbers) + 1) // 2

    def random(self, shape, rng, dtype=torch.float32):
        return (super().random(shape, rng, dtype) + 1) / 2

    def up(self, field, beta=1.0, *, overwrite=False):
        return torch.sigmoid(field * beta)

    def draw(self, field, rng, beta=1.0, *, overwrite=False, out=None):
        bits = (super().draw(field, rng, beta) + 1) / 2
        return bits if out is None else out.copy_(bits)

    def mean(self, field, beta=1.0, *, overwrite=False, out=None):
        return self.up(field, beta) if out is None else out.copy_(self.up(field, beta))

    def log_sum(self, field):
        return torch.nn.functional.softplus(field)

    def add_log_sums(self, total, field):
        total += self.log_sum(field.double()).sum(-1)


def machines():
    rng = stream(0)
    values = {"generator": rng, "dtype": torch.float64}
    layers = Layers((3, 2), ((0, 1),), (SPIN, Bit()))
    deep = Layers((2, 3, 2), ((0, 1), (1, 2)), (SPIN, Bit(), SPIN))
    dense = Dense(layers, {(0, 1): torch.randn((1, 3, 2), **values)})
    xi = Patterns(deep, torch.randn((1, 2, 7), **values))
    yield pytest.param(Machine(dense, torch.randn((1, 5), **values)), id="rbm")
    yield pytest.param(Machine(dense), id="rbm without biases")
    yield pytest.param(Machine(xi, torch.randn((1, 7), **values)), id="dbm")
    two = Patterns(layers, torch.randn((1, 2, 5), **values))
    yield pytest.param(Machine(two), id="rbm of patterns")  # counting is for spins
    full = Patterns(Layers((4,), ((0, 0),), (Bit(),)), torch.randn((1, 2, 4), **values))
    yield pytest.param(Machine(full), id="bm of patterns")  # so are Gaussian fields and quadrature


def everything(machine):
    """All states (1, c, n) and their probabilities (c,), by hand."""
    levels = {SPIN: (-1.0, 1.0), Bit(): (0.0, 1.0)}
    kinds = [
        unit for unit, n in zip(machine.layers.kinds, machine.layers.sizes, strict=True) for _ in range(n)
    ]
    states = torch.cartesian_prod(*(torch.tensor(levels[k], dtype=torch.float64) for k in kinds))[None]
    return states, -machine.energy(states, means=True).squeeze(0)


@pytest.mark.parametrize("machine", [*machines()])
def test_log_z_of_mixed_kinds(machine):
    _, logs = everything(machine)
    found = log_z(machine, method="exact").value
    assert torch.allclose(found, torch.logsumexp(logs.detach(), 0))


@pytest.mark.parametrize("machine", [*machines()])
def test_the_gradient_over_all_states_of_mixed_kinds(machine):
    states, logs = everything(machine)
    weights = torch.softmax(logs.detach(), 0)[None]
    found = machine.gradient(AllStates(machine))
    for name, value in machine.gradient_over(states, weights).items():
        assert torch.allclose(found[name], value), name


@pytest.mark.parametrize("machine", [*machines()])
def test_sweeps_keep_the_distribution_of_mixed_kinds(machine):
    states, logs = everything(machine)
    p, rng, chains = torch.softmax(logs.detach(), 0), stream(1), 20_000
    start = states[:, torch.multinomial(p, chains, replacement=True, generator=rng)]
    ends = sweeps(machine, start, rng, 2, means=True)
    which = (ends[0][:, None] == states[0]).all(-1).double().argmax(1)
    assert chi_squared(torch.bincount(which, minlength=len(p)), p) > SMALLEST_P
    off = sweeps(machine, start, rng, 2, beta=0.8, means=True)
    which = (off[0][:, None] == states[0]).all(-1).double().argmax(1)
    assert chi_squared(torch.bincount(which, minlength=len(p)), p) < SMALLEST_P


@pytest.mark.parametrize("machine", [*machines()])
def test_random_states_are_states(machine):
    spins = machine.random(50, stream(0))
    for layer, where in enumerate(machine.layers.slices):
        low = 0.0 if isinstance(machine.layers.unit(layer), Bit) else -1.0
        assert spins[..., where].unique().tolist() == [low, 1.0]


# -- doors ----------------------------------------------------------------------------------------------
# What is right for other kinds of units: each by a test above against sums over all states, or because no
# state of a unit enters.
OPEN = {
    "log_z",  # the exact one; annealing is closed
    "log_likelihood_gradient",
    "sweep",  # with means=True, like all methods that have it
    "sweeps",
    "pattern_overlaps",  # of the parameters alone, like the next two
    "spectrum",
    "stack",
    *("Progress", "TrajectoryTempering", "Metric", "Setting"),  # hold machines, ask nothing of them
}
OPEN_METHODS = {
    *("random", "gradient", "gradient_over", "gradient_of", "smoothed"),
    *("check_chains", "describe", "finite", "operands", "replica", "fixed_parameters"),
    *("from_bqm", "from_weights"),  # make machines of spins
}


def rows(machine, count=6):
    return SPIN.random((count, machine.visible), stream(5), torch.int8)


def spins(machine, count=3):
    return SPIN.random((1, count, machine.layers.units), stream(6), torch.float64)


def half(machine, count=6):
    known = torch.zeros(machine.visible, dtype=torch.bool)
    known[0] = True
    return rb.Split(rows(machine, count), known=known)


def series(machine):
    return SPIN.random((1, 4, 8, machine.layers.units), stream(7), torch.int8)


CLOSED = {
    "basins": lambda m, _: rb.basins(m, seed=0),
    "descend": lambda m, _: rb.descend(m, m.random(2, stream(0)), means=True),
    "diagnose": lambda m, _: rb.diagnose(m),
    "effective_beta": lambda m, _: rb.effective_beta(m, spins(m)),
    "evaluate": lambda m, _: rb.evaluate(m, half(m)),
    "evaluate without data": lambda m, _: rb.evaluate(m),
    "exact_moments": lambda m, _: rb.exact_moments(m),
    "gibbs_accessibility": lambda m, _: rb.gibbs_accessibility(m, seed=0),
    "glassiness": lambda m, _: rb.glassiness(m, series(m), seed=0),
    "ground_state": lambda m, _: rb.ground_state(m),
    "growth": lambda m, _: rb.growth(m, 4, seed=0),
    "hamming_distance": lambda m, _: rb.hamming_distance(m, half(m), seed=0),
    "log_bound": lambda m, _: log_bound(m, rows(m), rb.log_z(m, method="exact")),
    "log_likelihood": lambda m, _: rb.log_likelihood(m, rows(m)),
    "log_z": lambda m, _: rb.log_z(m, method="ais", seed=0),
    "log_z_along": lambda m, _: rb.log_z_along([m, m], seed=0),
    "method_accessibility": lambda m, _: rb.method_accessibility(
        m, rows(m), negative=rb.ContrastiveDivergence(), ground=torch.tensor([-1.0])
    ),
    "minima": lambda m, _: rb.minima(m, 4, seed=0),
    "mixing": lambda m, _: rb.mixing(m, series(m)),
    "reconstruct": lambda m, _: rb.reconstruct(m, half(m), seed=0),
    "record": lambda m, _: rb.record(m, 2, 2, seed=0),
    "record by tempering": lambda m, _: rb.record(m, 2, 2, sampler=rb.ParallelTempering(), seed=0),
    "relaxation": lambda m, _: rb.relaxation(m, rows(m), seed=0),
    "sample": lambda m, _: rb.sample(m, 2, seed=0),
    "sample without steps": lambda m, _: rb.sample(m, 2, steps=0, seed=0),
    "a step of Gibbs": lambda m, _: rb.Gibbs().step(m, m.random(2, stream(0)), stream(0)),
    "a start of annealing": lambda m, _: rb.Annealing().init(m, 2, stream(0)),
    "a start of tempering": lambda m, _: rb.ParallelTempering().init(m, 2, stream(0)),
    "a start along a training": lambda m, _: rb.TrajectoryTempering((m, m)).init(m, 2, stream(0)),
    "chains of patterns": lambda m, _: PatternInduced().init(m, stream(0)),
    "save_machine": rb.save_machine,
    "save_rbms": rb.save_rbms,
    "phase_point": lambda m, _: rb.phase_point(m),
    "sweep": lambda m, _: rb.sweep(m, spins(m), seed=0),
    "sweeps": lambda m, _: rb.sweeps(m, spins(m), seed=0),
    "thermodynamics": lambda m, _: rb.thermodynamics(m),
    "to_sklearn": lambda m, _: rb.to_sklearn(m),
    "train": lambda m, _: rb.train(m, rows(m), rb.Exact(), rb.sgd(0.1), epochs=1, batch_size=2),
    "RapidRBM.from_machine": lambda m, _: rb.RapidRBM.from_machine(m),
    "a plot of phases": lambda m, _: rb.plot.phases(m),
    "check_negative_phase": lambda m, _: check_negative_phase(rb.Exact(), m),
    "check_sampler": lambda m, _: check_sampler(rb.Gibbs(), m),
}
METHODS = {
    "bias_energy": lambda m: m.bias_energy(spins(m)),
    "complete": lambda m: m.complete(rows(m)),
    "configuration": lambda m: m.configuration(spins(m)),
    "energy": lambda m: m.energy(spins(m)),
    "field": lambda m: m.field(spins(m), 0),
    "free_energy": lambda m: m.free_energy(rows(m)),
    "given_visible": lambda m: m.given_visible(rows(m)),
    "hidden_mean": lambda m: m.hidden_mean(rows(m)),
    "infer": lambda m: m.infer(spins(m)),
    "log_prob_unnormalised": lambda m: m.log_prob_unnormalised(rows(m)),
    "start_biases": lambda m: m.start_biases(rows(m)),
    "to_bqm": lambda m: m.to_bqm(),
    "to_weights": lambda m: m.to_weights(),
    "visible_spins": lambda m: m.visible_spins(rows(m)),
    "with_visible": lambda m: m.with_visible(rows(m)),
}


def with_bits(*bits):
    """An RBM of patterns with biases whose layers are spins, or bits where they are named."""
    layers = Layers((3, 2), ((0, 1),), tuple(Bit() if i in bits else SPIN for i in range(2)))
    xi = Patterns(layers, torch.randn((1, 2, 5), generator=stream(3), dtype=torch.float64))
    return Machine(xi, torch.randn((1, 5), generator=stream(4), dtype=torch.float64))


@pytest.mark.parametrize("bits", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("door", [*CLOSED, *METHODS])
def test_what_knows_spins_alone_refuses_other_units(door, bits, tmp_path):
    machine, path = with_bits(*bits), tmp_path / "machine.safetensors"
    before = [p.detach().clone() for p in machine.parameters()]
    with pytest.raises(InputError, match="is for spins, ±1, but the units of this machine are"):
        CLOSED[door](machine, path) if door in CLOSED else METHODS[door](machine)
    assert not path.exists()
    assert all(map(torch.equal, before, machine.parameters()))


def test_no_door_is_forgotten():
    """Whatever takes a machine is open for a reason, or has been seen shut."""
    takes = {
        name
        for name in rb.__all__
        if callable(value := getattr(rb, name))
        and not (isinstance(value, type) and issubclass(value, Exception))
        and any("Machine" in str(p) for p in inspect.signature(value).parameters.values())
    }
    assert takes <= OPEN | CLOSED.keys()
    methods = {
        name
        for name, value in vars(Machine).items()
        if not name.startswith("_") and (callable(value) or isinstance(value, staticmethod))
    }
    assert methods <= OPEN_METHODS | METHODS.keys()


def by_hand(machine):
    """−E of all states, (c,), pair by pair."""
    states, _ = everything(machine)
    layers, total = machine.layers, torch.zeros(states.shape[1], dtype=torch.float64)
    for a, b in layers.edges:
        left, right = states[0][:, layers.slices[a]], states[0][:, layers.slices[b]]
        pairs = (left @ machine.couplings.matrix(a, b)[0] * right).sum(1)
        total += pairs / 2 if a == b else pairs
    return total if machine.biases is None else total + states[0] @ machine.biases[0]


@pytest.mark.parametrize("machine", [*machines(), pytest.param(with_bits(0, 1), id="bits alone")])
def test_energies_with_means_are_those_of_every_kind(machine):
    hand = by_hand(machine)
    assert torch.allclose(everything(machine)[1], hand)
    states = everything(machine)[0]
    rng = stream(2)
    for beta in (1.0, 0.7):
        found = log_z(machine, method="exact", beta=beta).value
        assert torch.allclose(found, torch.logsumexp(beta * hand.detach(), 0))
    for layer, where in enumerate(machine.layers.slices):  # a field is what a state of 1 gains
        up, down = states.clone(), states.clone()
        unit = where.start
        up[..., unit], down[..., unit] = 1.0, 0.0
        gain = machine.energy(down, means=True) - machine.energy(up, means=True)
        assert torch.allclose(machine.field(up, layer, means=True)[..., 0], gain)
    weights = torch.rand((1, states.shape[1]), generator=rng, dtype=torch.float64)
    found = machine.gradient_over(states, weights)
    named = dict(machine.named_parameters())
    wanted = torch.autograd.grad((-weights[0] * by_hand(machine)).sum(), [*named.values()])
    for name, gradient in zip(named, wanted, strict=True):
        assert torch.allclose(found[name], gradient), name


def test_kernels_know_spins_alone():
    layers = Layers((3, 2), ((0, 1),))
    weights = {(0, 1): torch.zeros((1, 3, 2))}
    assert Machine(Dense(layers, weights)).operands() is not None
    mixed = Layers((3, 2), ((0, 1),), (SPIN, Bit()))
    assert Machine(Dense(mixed, weights)).operands() is None


def test_each_layer_has_a_kind():
    with pytest.raises(InputError, match="a kind of unit for each of 2 layers"):
        Layers((3, 2), ((0, 1),), (SPIN,))
    assert Layers((3, 2), ((0, 1),)) == Layers((3, 2), ((0, 1),), (SPIN, SPIN))
