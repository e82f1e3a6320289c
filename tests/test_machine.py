import copy

import numpy as np
import pytest
import torch

from conftest import machines
from rapidbm.errors import InputError
from rapidbm.machines.constructors import bm, dbm, rbm
from rapidbm.machines.layers import Layers
from rapidbm.machines.machine import Machine, stack
from rapidbm.machines.units.spin import SPIN
from rapidbm.random import stream
from rapidbm.testing import exact_distribution
from rapidbm.training.load import critical_patterns

EVERY = machines(1) + machines(3) + machines(2, biases=False)


@pytest.mark.parametrize("machine", EVERY)
@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_free_energy_is_the_sum_over_hidden_states(machine, beta):
    everything, _ = exact_distribution(machine)
    v = machine.visible
    energy = machine.energy(everything).detach()  # (e, x)
    rows = everything[:, :v].unique(dim=0)
    wanted = torch.stack(
        [torch.logsumexp(-beta * energy[:, (everything[:, :v] == row).all(1)], 1) for row in rows],
        1,
    )
    found = machine.log_prob_unnormalised(rows, beta)
    assert torch.allclose(found, wanted, atol=1e-12)
    assert torch.allclose(machine.free_energy(rows, beta), -wanted / beta, atol=1e-12)


def test_chains_and_records_are_held_against_the_memory(monkeypatch):
    asked = []

    def room(what, count, *, size, device):
        asked.append((count, size))

    monkeypatch.setattr("rapidbm.machines.machine.check_room", room)
    machine = rbm(3, 2, replicas=2, seed=0)
    machine.check_chains(5)
    machine.check_chains(5, steps=7)
    assert asked == [(2 * 5 * 5, 4), (2 * 5 * 5 * 7, 1)]  # a record is int8


@pytest.mark.parametrize(
    ("made", "numbers"),
    [
        (lambda **more: dbm(3, (2, 4), replicas=5, **more), 5 * (3 * 2 + 2 * 4)),
        (lambda **more: bm(3, 2, replicas=5, **more), 5 * (3 * 3 + 3 * 2 + 2 * 2)),
        (lambda **more: rbm(3, 2, 7, replicas=5, **more), 5 * 7 * (3 + 2)),
    ],
)
def test_couplings_are_held_against_the_memory(made, numbers, monkeypatch):
    asked = []

    def room(what, count, *, size, device, remedy):
        asked.append((count, size))

    monkeypatch.setattr("rapidbm.machines.constructors.check_room", room)
    made()
    made(dtype=torch.float64)
    assert asked == [(numbers, 4), (numbers, 8)]


def test_images_in_parts_are_summed_as_one_by_one():
    machine = bm(20, 14, seed=0, scale=0.1)  # 7 images at a time
    visible = machine.random(9, stream(0))[..., :20]
    whole = machine.log_prob_unnormalised(visible)
    assert torch.allclose(whole[:, 8:], machine.log_prob_unnormalised(visible[:, 8:]))
    assert whole.shape == (1, 9)


@pytest.mark.parametrize(("make", "hidden"), [(rbm, 2), (dbm, (2, 2)), (bm, 2)])
def test_what_nobody_asked_for(make, hidden):
    made = make(3, hidden, seed=0)
    assert made.biases is None
    assert made.patterns is None
    assert made.replicas == 1
    assert made.dtype == torch.float32


def test_a_configuration_is_spins_unless_means_are_meant():
    machine = rbm(3, 2, seed=0)
    half = torch.full((1, 5), 0.5)
    with pytest.raises(InputError):
        machine.configuration(half)
    assert torch.equal(machine.configuration(half, means=True), half[None])


@pytest.mark.parametrize("machine", [m for m in EVERY if "rbm" in m.id])
def test_hidden_means(machine):
    everything, p = exact_distribution(machine)
    row = everything[5, :4]
    here = (everything[:, :4] == row).all(1)
    p = p[:, here] / p[:, here].sum(1, keepdim=True)
    wanted = p @ everything[here, 4:]
    assert torch.allclose(machine.hidden_mean(row[None])[:, 0], wanted, atol=1e-12)


@pytest.mark.parametrize("make", [lambda: dbm(4, (3, 2)), lambda: bm(4, 2), lambda: bm(4)])
def test_hidden_means_of_other_machines_are_refused(make):
    with pytest.raises(InputError, match="positive phase"):
        make().hidden_mean(torch.ones(1, 4))


def test_inference_leaves_its_input_as_it_was():
    machine = rbm(4, 3, scale=0.5, seed=0)
    spins = machine.random(2, stream(0))
    before = spins.clone()
    found = machine.infer(spins)
    assert torch.equal(spins, before)
    assert torch.equal(found[..., 4:], machine.hidden_mean(spins[..., :4]))


def test_complete_is_the_visible_layer_with_the_hidden_means():
    machine = rbm(4, 3, 2, replicas=2, seed=0, dtype=torch.float64)
    row = torch.tensor([[1.0, -1.0, 1.0, 1.0]])
    whole = machine.complete(row, beta=0.5)
    assert torch.equal(whole[..., :4], row.double().expand(2, 1, 4))
    assert torch.allclose(whole[..., 4:], machine.hidden_mean(row, 0.5), atol=1e-14)


def test_one_configuration_serves_every_replica():
    machine = rbm(4, 3, replicas=2, seed=0)
    spins = machine.random(5, stream(0))
    assert torch.equal(machine.energy(spins[0]), machine.energy(spins[:1]))
    assert machine.energy(spins[0]).shape == (2, 5)


@pytest.mark.parametrize("shape", [(5, 6), (3, 5, 7), (7,), (2, 2, 5, 7)])
def test_wrong_shapes_are_refused(shape):
    with pytest.raises(InputError, match=r"\(2, chains, 7\)"):
        rbm(4, 3, replicas=2, seed=0).energy(torch.ones(shape))


def test_stack_and_replica_are_inverses():
    for machine in (rbm(4, 3, 2, biases=True, seed=1, replicas=3), bm(3, 2, seed=1, replicas=3)):
        again = stack([machine.replica(i) for i in range(3)])
        for a, b in zip(machine.parameters(), again.parameters(), strict=True):
            assert torch.equal(a, b)
    with pytest.raises(InputError, match="shapes and types agree"):
        stack([rbm(4, 3, seed=0), rbm(4, 2, seed=0)])
    first, last = (machine.replica(i).couplings.matrix(0, 1) for i in (-3, -1))
    assert torch.equal(torch.cat([first, last]), machine.couplings.matrix(0, 1)[[0, 2]])
    for index in (3, -4):
        with pytest.raises(InputError, match=f"no replica {index}"):
            machine.replica(index)


def test_seed_and_rng():
    assert torch.equal(rbm(4, 3, 2, seed=1).patterns, rbm(4, 3, 2, seed=1).patterns)
    assert not torch.equal(rbm(40, 3, 2, seed=1).patterns, rbm(40, 3, 2, seed=2).patterns)
    a, b = (rbm(40, 3, rng=stream(1)).couplings.matrix(0, 1) for _ in range(2))
    assert torch.equal(a, b)


def test_starts():
    sharp = rbm(30, 20, 4, seed=0).patterns
    assert torch.equal(sharp.abs(), torch.ones_like(sharp))
    small = rbm(30, 20, 4, seed=0, scale=0.1).patterns
    assert torch.allclose(small, 0.1 * sharp)
    spread = rbm(300, 200, 4, seed=0, continuous=True, scale=0.5).patterns.detach()
    assert float(spread.abs().max()) <= 0.5
    assert len(spread.unique()) > 1000
    dense = rbm(300, 200, seed=0).couplings.matrix(0, 1).detach()
    assert abs(float(dense.std()) - 0.01) < 2e-4  # 2 %, six errors of the deviation of 60,000


@pytest.mark.parametrize("made", [rbm, dbm, bm])
def test_patterns_start_at_spins_and_dense_couplings_small(made):
    hidden = (20, 10) if made is dbm else 20
    sharp = made(30, hidden, 2, seed=0).patterns
    assert torch.equal(sharp.abs(), torch.ones_like(sharp))
    assert len(made(30, hidden, 2, seed=0, continuous=True).patterns.unique()) > 90
    dense = made(300, hidden, seed=0, scale=0.5).couplings.matrix(0, 1).detach()
    assert abs(float(dense.std()) - 0.5) < 0.03  # more than six errors, of 6,000 numbers
    assert abs(float(dense.mean())) < 0.04


def test_numbers_and_arrays_of_numpy_serve():
    machine = rbm(np.int64(4), np.int32(3), np.int64(2), seed=np.int64(3))
    spins = np.ones((2, 7), dtype=np.int64)
    assert torch.equal(machine.energy(spins), machine.energy(torch.ones(2, 7)))


def test_types_and_moves():
    machine = rbm(4, 3, 2, biases=True, seed=0, dtype=torch.float64)
    assert machine.energy(torch.ones(2, 7, dtype=torch.int8)).dtype == torch.float64
    assert machine.float().energy(torch.ones(2, 7)).dtype == torch.float32
    assert set(machine.state_dict()) == {"couplings.patterns", "biases"}


def test_biases_start_at_the_marginals():
    machine = rbm(3, 2, biases=True, replicas=2, seed=0, scale=1e-9)
    data = torch.tensor([[1, 1, -1]] * 300 + [[1, -1, -1]] * 100)
    machine.start_biases(data)
    want = data.double().sum(0) / 402
    assert torch.allclose(torch.tanh(machine.biases[:, :3].double()), want.expand(2, 3), atol=1e-6)
    assert bool((machine.biases[:, 3:] == 0).all())
    with pytest.raises(InputError, match="biases=True"):
        rbm(3, 2).start_biases(data)


def test_the_limit_of_the_load_by_hand():
    for made, limit in (
        (bm(60, 40), 13.8),
        (bm(10), 1.38),
        (rbm(100, 400), 40.0),
        (rbm(16, 1000), 11.2),
        (dbm(100, (25, 900)), 10.0),  # the third layer does not meet the visible one
    ):
        assert critical_patterns(made.layers) == pytest.approx(limit)
    alone = Layers((100, 3), ((0, 0),))  # a visible layer that meets no other
    assert critical_patterns(alone) == pytest.approx(13.8)


LOADED = {
    "rbm 200×200": lambda k: rbm(200, 200, k, seed=0),
    "rbm 100×800": lambda k: rbm(100, 800, k, seed=0),
    "dbm 200×200×20": lambda k: dbm(200, (200, 20), k, seed=0),
    "dbm 100×40×200": lambda k: dbm(100, (40, 200), k, seed=0),
    "bm 300": lambda k: bm(300, 0, k, seed=0),
    "bm 50+250": lambda k: bm(50, 250, k, seed=0),
}


@pytest.mark.parametrize("name", LOADED)
def test_the_limit_of_the_load_is_where_descent_leaves_the_patterns(name):
    """Below the limit patterns are stable under descent, well above it they are not."""

    def kept(patterns):
        machine = LOADED[name](patterns)
        xi = machine.patterns.detach()
        spins = xi.clone()
        for _ in range(20):
            for layer in machine.layers.order:
                where = machine.layers.slices[layer]
                new = SPIN.nearest(machine.field(spins, layer))
                turn = machine.layers.self_coupled(layer)  # one half of the layer after the other
                half = torch.arange(new.shape[-1]) % 2 == 0 if turn else slice(None)
                spins[..., where][..., half] = new[..., half]
                if turn:
                    new = SPIN.nearest(machine.field(spins, layer))
                    spins[..., where][..., ~half] = new[..., ~half]
        return float((spins * xi)[..., : machine.visible].detach().mean())

    limit = critical_patterns(LOADED[name](1).layers)
    assert kept(int(0.6 * limit)) > 0.97
    assert kept(int(3 * limit)) < 0.9


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: rbm(4, 3, 0), "K must be a whole number of at least 1, not 0"),
        (lambda: rbm(4, 3, -2), "not -2"),
        (lambda: rbm(4, 3, 2.5), "whole number"),
        (lambda: rbm(0, 3), "size of a layer"),
        (lambda: rbm(4, 3, replicas=0), "replicas"),
        (lambda: rbm(4, 3, scale=-1.0), "positive, not -1"),
        (lambda: rbm(4, 3, scale=0.0), "positive, not 0.0"),
        (lambda: rbm(4, 3, dtype=torch.float16), "float32 or torch.float64"),
        (lambda: dbm(4, ()), "hidden is empty"),
        (lambda: bm(4, -1), "at least 0"),
        (lambda: Machine(rbm(4, 3).couplings, torch.zeros(1, 6)), r"\(1, 7\)"),
        (lambda: rbm(4, 3).free_energy(torch.ones(1, 4), 0.0), "β > 0"),
        (lambda: rbm(4, 3).hidden_mean(torch.ones(1, 4), -1.0), "at least 0, not -1"),
        (lambda: rbm(4, 3).energy(torch.tensor([[1, 0, 1, 0, 1, 0, 1]])), "holds 0; `to_spins`"),
        (lambda: rbm(4, 3).energy(torch.tensor([[1, 1, 1, 1, 1, 0, 1]])), "0, unknown; draw it"),
        (lambda: dbm(4, 3), r"\(3,\) for one"),
        (lambda: rbm(4, 3, seed=2**63), r"below 2\^63"),
        (lambda: stack([rbm(4, 3), rbm(4, 3, dtype=torch.float64)]), "types agree"),
        (lambda: stack([rbm(4, 3), rbm(4, 3), rbm(4, 2)]), "shapes and types agree"),
    ],
)
def test_bad_machines(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_summing_over_too_many_hidden_states_is_refused():
    machine = bm(4, 40, seed=0)
    with pytest.raises(InputError, match=r"2\^40 ≈ 10\^12"):
        machine.free_energy(torch.ones(1, 4))


def test_while_parameters_rest_kernels_read_one_pair_and_a_copy_its_own():
    machine = rbm(3, 4, 2, seed=0)
    assert machine.operands() is not machine.operands()
    with machine.fixed_parameters():
        pair = machine.operands()
        assert machine.operands() is pair
        other = copy.deepcopy(machine).double()
        assert other.operands().values.dtype == torch.float64
        assert pair.once("sum", pair.values.sum) is pair.once("sum", lambda: None)
    assert machine.operands() is not pair


def test_parameters_rest_no_longer_after_an_error():
    machine = rbm(3, 4, 2, seed=0)

    def fail():
        with machine.fixed_parameters():
            raise InputError("no")

    with pytest.raises(InputError):
        fail()
    assert machine.operands() is not machine.operands()
