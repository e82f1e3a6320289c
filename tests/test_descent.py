"""Descent against its definition: downhill, to rest, at a state that no single flip improves."""

import pytest
import torch

from conftest import machines
from rapidbm.couplings import Patterns
from rapidbm.descent import descend
from rapidbm.errors import InputError
from rapidbm.layers import Layers
from rapidbm.machine import Machine, bm, rbm
from rapidbm.spins import states
from rapidbm.streams import generator

EVERY = machines(1) + machines(3) + machines(2, biases=False)


def flips(spins):
    """Every configuration (e, c, n) with each of its units turned, (e, c, n, n)."""
    return spins[:, :, None] * (1 - 2 * torch.eye(spins.shape[2], dtype=spins.dtype))


def lowest_flip(machine, spins):
    e, c, n = spins.shape
    return machine.energy(flips(spins).flatten(1, 2)).reshape(e, c, n).amin(2).detach()


@pytest.mark.parametrize("machine", EVERY)
def test_from_every_state_to_a_state_that_no_flip_improves(machine):
    every = states(machine.layers.units, 0, 2**machine.layers.units)
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
    start = machine.random(20, generator(0))
    ends = descend(machine, start)
    assert bool((machine.energy(ends) < machine.energy(start)).all())
    assert bool((machine.energy(ends) <= lowest_flip(machine, ends) + 1e-9).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("patterns", [3, 6, 7])
def test_ties_come_to_rest_though_sums_round(patterns, dtype):
    # 1/√K is not a binary fraction: a field that should vanish comes out as ± a rounding error.
    for seed in range(5):
        machine = rbm(40, 30, patterns, seed=seed, dtype=dtype)
        ends = descend(machine, machine.random(200, generator(seed)), passes=60)
        double = machine.double()
        ends = ends.double()
        assert bool((double.energy(ends) <= lowest_flip(double, ends) + 1e-9).all())


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
    start = machine.random(30, generator(1))
    ends = descend(machine, start)
    for e in range(3):
        assert torch.equal(descend(machine.replica(e), start[e : e + 1])[0], ends[e])


def test_bad_input():
    machine = rbm(40, 30, 6, seed=0)
    start = machine.random(50, generator(0))
    with pytest.raises(InputError, match="not come to rest in 1 passes"):
        descend(machine, start, passes=1)
    with pytest.raises(InputError, match="number of passes must be a whole number"):
        descend(machine, start, passes=0)
    with pytest.raises(InputError, match=r"\(1, chains, 70\)"):
        descend(machine, start[..., :5])
