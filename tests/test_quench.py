"""Descent against its definition: downhill, to rest, at a state that no single flip improves."""

import pytest
import torch

from conftest import machines, states
from rapidbm.errors import InputError
from rapidbm.machines.constructors import bm, rbm
from rapidbm.machines.dense import Dense
from rapidbm.machines.layers import Layers
from rapidbm.machines.machine import Machine
from rapidbm.machines.patterns import Patterns
from rapidbm.random import stream
from rapidbm.sampling.quench import _rounding, descend

EVERY = machines(1) + machines(3) + machines(2, biases=False)


def flips(spins):
    """Every configuration (e, c, n) with each of its units turned, (e, c, n, n)."""
    return spins[:, :, None] * (1 - 2 * torch.eye(spins.shape[2], dtype=spins.dtype))


def lowest_flip(machine, spins):
    e, c, n = spins.shape
    return machine.energy(flips(spins).flatten(1, 2)).reshape(e, c, n).amin(2).detach()


@pytest.mark.parametrize("machine", EVERY)
def test_from_every_state_to_a_state_that_no_flip_improves(machine):
    every = states(machine.layers.columns, 0, 2**machine.layers.columns)
    before = machine.energy(every).detach()
    ends = descend(machine, every)
    after = machine.energy(ends).detach()
    assert bool((ends.abs() == 1).all())
    assert bool((after <= before + 1e-12).all())
    assert bool((after <= lowest_flip(machine, ends) + 1e-12).all())
    assert torch.allclose(after.amin(1), before.amin(1), atol=1e-12)
    assert torch.equal(descend(machine, ends), ends)
    # A state that no flip improves stays where it is.
    stable = before <= lowest_flip(machine, machine.configuration(every)) - 1e-9
    assert bool(stable.any())
    assert torch.equal(ends[stable], machine.configuration(every)[stable])


@pytest.mark.parametrize("patterns", [None, 5])
def test_the_energy_falls_in_a_larger_layer_that_is_coupled_to_itself(patterns):
    machine = bm(60, 20, patterns, scale=1.0, seed=0, dtype=torch.float64)
    start = machine.random(20, stream(0))
    ends = descend(machine, start)
    assert bool((machine.energy(ends) < machine.energy(start)).all())
    assert bool((machine.energy(ends) <= lowest_flip(machine, ends) + 1e-9).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("patterns", [3, 6, 7])
def test_ties_come_to_rest_though_sums_round(patterns, dtype):
    # 1/√K is not a binary fraction: a field that should vanish comes out as ± a rounding error.
    for seed in range(5):
        machine = rbm(40, 30, patterns, seed=seed, dtype=dtype)
        ends = descend(machine, machine.random(200, stream(seed)), passes=60)
        double = machine.double()
        ends = ends.double()
        assert bool((double.energy(ends) <= lowest_flip(double, ends) + 1e-9).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("patterns", [4, 6, 8])
def test_units_that_turn_one_by_one_do_not_turn_in_circles(patterns, dtype):
    # Overlaps of patterns of ±0.1 round anew with every unit that turns, and so do fields that vanish:
    # units that followed such a field went round for ever, in some of these machines.
    for seed in range(6):
        machine = bm(12, 6, patterns, scale=0.1, seed=seed, dtype=dtype)
        ends = descend(machine, machine.random(300, stream(seed)), passes=60).double()
        double = machine.double()
        assert bool((double.energy(ends) <= lowest_flip(double, ends) + 1e-6).all())


def test_a_pair_that_would_swap_for_ever_comes_to_rest():
    """Two units that want to agree: turned at once they would trade places."""
    machine = bm(2, 0, seed=0, dtype=torch.float64)
    machine.couplings.weights["0-0"].data.fill_(1.0)
    for couplings in (machine, Machine(Patterns(machine.layers, torch.ones(1, 1, 2)))):
        ends = descend(couplings, torch.tensor([[1.0, -1.0]]), passes=3)
        assert ends.tolist() == [[[-1.0, -1.0]]]


def unit_with_a_field(*weights):
    """One hidden unit, below visible ones that biases hold up."""
    count = len(weights)
    layers = Layers((count, 1), ((0, 1),))
    column = torch.tensor(weights, dtype=torch.float64)
    biases = torch.tensor([[*(5.0 for _ in weights), 0.0]], dtype=torch.float64)
    return Machine(Dense(layers, {(0, 1): column[None, :, None]}), biases)


@pytest.mark.parametrize("turned", [1.0, -1.0])
def test_a_field_that_is_rounding_turns_nothing(turned):
    up, weights = torch.ones(3), (0.1, 0.2, -0.3)  # whose sum is not 0 in any order
    machine = unit_with_a_field(*(turned * w for w in weights))
    assert 0 < float(turned * machine.field(torch.ones(1, 4), 1).detach()) < 1e-15
    for spin in (1.0, -1.0):
        given = torch.tensor([[*up, spin]])
        assert torch.equal(descend(machine, given)[0], given.double())
    real = unit_with_a_field(0.1 * turned, 0.2 * turned, (-0.3 + 2e-15) * turned)
    given = torch.tensor([[*up, -turned]])
    assert float(descend(real, given)[0, 0, 3]) == turned  # small, but a field


def test_what_a_field_may_owe_to_rounding():
    """ε √n Σ_j |J_ij|, with the size of the bias."""
    found = _rounding(unit_with_a_field(0.5, -0.25, 0.75, 1.0, -0.5, 1.0, -2.0, 2.0))
    ulp = torch.finfo(torch.float64).eps
    wanted = torch.tensor([5.5, 5.25, 5.75, 6, 5.5, 6, 7, 7, 8], dtype=torch.float64)
    assert torch.allclose(found, 3.0 * ulp * wanted, rtol=1e-12, atol=0.0)


def test_units_without_a_field_stay_and_unknown_ones_are_filled():
    xi = torch.tensor([[[1.0, -1.0, 0.0, 1.0, 0.0]]])
    machine = Machine(Patterns(Layers((3, 2), ((0, 1),)), xi))
    given = torch.tensor([[1.0, 1.0, -1.0, 1.0, -1.0], [1.0, -1.0, 0.0, 0.0, 0.0]])
    with pytest.raises(InputError, match="means=True"):  # a visible 0 may be a bit
        descend(machine, given)
    ends = descend(machine, given, means=True)[0]
    assert ends[0, 2] == -1
    assert ends[0, 4] == -1
    assert ends[1].tolist() == [1, -1, 1, 1, 1]
    assert given[1, 2] == 0  # the input is left as it is


def test_a_replica_descends_as_it_would_alone():
    machine = bm(12, 6, 3, replicas=3, continuous=True, seed=0, dtype=torch.float64)
    start = machine.random(30, stream(1))
    ends = descend(machine, start)
    for e in range(3):
        assert torch.equal(descend(machine.replica(e), start[e : e + 1])[0], ends[e])


def test_bad_input():
    machine = rbm(40, 30, 6, seed=0)
    start = machine.random(50, stream(0))
    with pytest.raises(InputError, match="not come to rest in 1 passes"):
        descend(machine, start, passes=1)
    with pytest.raises(InputError, match="number of passes must be a whole number"):
        descend(machine, start, passes=0)
    with pytest.raises(InputError, match=r"\(1, chains, 70\)"):
        descend(machine, start[..., :5])
