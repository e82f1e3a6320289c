"""A layer of another kind of unit is one new class: here 0 and 1, beside spins."""

from dataclasses import dataclass

import pytest
import torch

from rapidbm.errors import InputError
from rapidbm.ground.ground_state import ground_state
from rapidbm.likelihood.log_z import log_z
from rapidbm.machines.dense import Dense
from rapidbm.machines.ensembles import AllStates
from rapidbm.machines.files import save_machine
from rapidbm.machines.layers import Layers
from rapidbm.machines.machine import Machine
from rapidbm.machines.patterns import Patterns
from rapidbm.machines.units import SPIN, Ising
from rapidbm.random import stream
from rapidbm.sampling.gibbs import sweeps
from rapidbm.sampling.quench import descend
from rapidbm.testing import SMALLEST_P, chi_squared
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


def test_what_knows_spins_alone_refuses_other_units(tmp_path):
    (machine,) = [case.values[0] for case in machines() if case.id == "rbm of patterns"]
    for call in (
        lambda: ground_state(machine),
        lambda: descend(machine, machine.random(2, stream(0)), means=True),
        lambda: PatternInduced().init(machine, stream(0)),
        lambda: save_machine(machine, tmp_path / "machine.safetensors"),
    ):
        with pytest.raises(InputError, match="is for spins"):
            call()
    assert not (tmp_path / "machine.safetensors").exists()


def test_kernels_know_spins_alone():
    layers = Layers((3, 2), ((0, 1),))
    weights = {(0, 1): torch.zeros((1, 3, 2))}
    assert Machine(Dense(layers, weights)).pair() is not None
    mixed = Layers((3, 2), ((0, 1),), (SPIN, Bit()))
    assert Machine(Dense(mixed, weights)).pair() is None


def test_each_layer_has_a_kind():
    with pytest.raises(InputError, match="a kind of unit for each of 2 layers"):
        Layers((3, 2), ((0, 1),), (SPIN,))
    assert Layers((3, 2), ((0, 1),)) == Layers((3, 2), ((0, 1),), (SPIN, SPIN))
