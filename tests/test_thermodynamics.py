"""Thermodynamics over β: exact sums against all states one by one, tempering against exact sums."""

import dataclasses
import io
import math

import numpy as np
import pytest
import torch

import rapidbm as rb
from rapidbm.likelihood import thermodynamics as module
from rapidbm.likelihood.reweighting import averages, log_sums
from rapidbm.sampling import tempering
from rapidbm.testing import exact_distribution, small_machines

BETAS = (0.0, 0.4, 1.0, 2.5)
NAMES = ("log_z", "energy", "heat_capacity", "entropy", "free_energy", "magnetisation", "susceptibility")


def biased(machine, seed=0):
    rng = torch.Generator().manual_seed(seed)
    for biases in [] if machine.biases is None else [machine.biases]:
        biases.data.normal_(0, 0.3, generator=rng)
    return machine


def one_by_one(machine, beta):
    """Every quantity from the energies of all states, (e,) each."""
    every, _ = exact_distribution(machine)
    energy = machine.energy(every).double().detach()
    magnet = every.double().sum(-1).expand_as(energy)
    z = torch.logsumexp(-beta * energy, 1)
    p = (-beta * energy - z[:, None]).exp()

    def mean(x):
        return (p * x).sum(1)

    def variance(x):
        return mean((x - mean(x)[:, None]).square())

    u, n = mean(energy), machine.layers.columns
    free = -z / beta if beta else torch.full_like(z, math.nan)
    return {
        "log_z": z,
        "energy": u,
        "heat_capacity": beta**2 * variance(energy),
        "entropy": -(p * p.clamp(min=1e-300).log()).sum(1),
        "free_energy": free,
        "magnetisation": mean(magnet) / n,
        "susceptibility": beta * variance(magnet) / n,
    }


@pytest.mark.parametrize("name", [name for name, _ in small_machines()])
def test_exact_sums_are_those_over_all_states(name):
    machine = biased(dict(small_machines())[name]).double()
    found = rb.thermodynamics(machine, BETAS)
    assert found.method == "exact"
    for i, beta in enumerate(BETAS):
        for quantity, value in one_by_one(machine, beta).items():
            seen = getattr(found, quantity)
            torch.testing.assert_close(seen.value[:, i], value, rtol=1e-8, atol=1e-8, equal_nan=True)
            assert not bool(seen.error[:, i].any())


def test_derivatives_of_log_z():
    """U = −d log Z / dβ and C = β² d² log Z / dβ²."""
    machine, h = rb.rbm(9, 7, patterns=2, scale=0.7, seed=0), 1e-3
    found = rb.thermodynamics(machine, (0.8 - h, 0.8, 0.8 + h))
    low, here, high = found.log_z.value[0].tolist()
    assert float(found.energy.value[0, 1]) == pytest.approx((low - high) / (2 * h), rel=1e-5)
    second = (low - 2 * here + high) / h**2
    assert float(found.heat_capacity.value[0, 1]) == pytest.approx(0.64 * second, rel=1e-4)
    assert here == pytest.approx(float(rb.log_z(machine, beta=0.8).value), rel=1e-9)


@pytest.fixture
def any_ladder(monkeypatch):
    """One that is not measured to the end: it serves small machines."""
    monkeypatch.setattr(tempering, "ROUNDS", 2)


@pytest.fixture(scope="module")
def tempered():
    """Ten machines at once, exact and by tempering."""
    machine = biased(rb.rbm(8, 5, biases=True, scale=0.5, replicas=10, seed=1))
    betas = (0.2, 1.0, 1.6)
    exact, options = rb.thermodynamics(machine, betas), {"steps": 100, "seed": 0, "check": False}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempering, "ROUNDS", 3)
        return exact, rb.thermodynamics(machine, betas, method="tempering", **options)


@pytest.mark.parametrize("name", NAMES)
def test_errors_cover_the_truth(tempered, name):
    exact, found = (getattr(x, name) for x in tempered)
    z = (found.value - exact.value) / found.error  # (10, 3); three of one machine hang together
    assert float(found.error.min()) > 0
    assert float(z.abs().max()) < 6  # 2 of 10⁹ are farther off
    assert 0.17 < float(z.square().mean().sqrt()) < 2.2  # of ten: but for one of 10⁶


def test_tempering_of_machines_of_every_kind(any_ladder):
    for seed, machine in enumerate(
        (
            rb.rbm(10, 6, patterns=3, scale=0.6, seed=0),
            rb.dbm(5, (4, 3), scale=0.6, seed=0),
            biased(rb.bm(9, biases=True, scale=0.4, seed=0)),
        )
    ):
        exact = rb.thermodynamics(machine, (0.5, 1.5))
        found = rb.thermodynamics(machine, (0.5, 1.5), method="tempering", steps=60, seed=seed)
        assert found.method == "tempering"
        assert not found.note
        for name in NAMES:
            one, two = getattr(exact, name), getattr(found, name)
            if name == "magnetisation" and machine.symmetric:
                assert not bool(two.value.any())
                continue
            assert bool(((two.value - one.value).abs() < 6 * two.error).all()), name


def test_the_same_seed_gives_the_same_bits(any_ladder):
    machine = rb.rbm(6, 4, patterns=2, seed=0)
    options = {"method": "tempering", "steps": 10, "check": False}
    one, two, other = (rb.thermodynamics(machine, (1.0,), seed=s, **options) for s in (3, 3, 4))
    assert torch.equal(one.energy.value, two.energy.value)
    assert not torch.equal(one.energy.value, other.energy.value)


def test_reweighting_of_exact_draws():
    """States of one unit with a field: E = −s, log Z = log 2cosh β, from 40,000 draws of each rung: six
    standard errors of a mean are 0.03 at most."""
    rungs = torch.tensor([0.0, 0.7, 1.5], dtype=torch.float64)
    rng = torch.Generator().manual_seed(0)
    up = torch.rand((3, 40_000), generator=rng, dtype=torch.float64) < torch.sigmoid(2 * rungs)[:, None]
    energies = torch.where(up, -1.0, 1.0).double()
    sums = log_sums(energies, rungs, math.log(2))
    exact = torch.log(2 * torch.cosh(rungs))
    assert float(sums[0]) == pytest.approx(math.log(2))
    torch.testing.assert_close(sums, exact, atol=0.03, rtol=0)
    betas = torch.tensor([0.0, 0.3, 1.1], dtype=torch.float64)
    found, means = averages(energies, rungs, sums, betas, energies[None])
    torch.testing.assert_close(found, torch.log(2 * torch.cosh(betas)), atol=0.03, rtol=0)
    torch.testing.assert_close(means[:, 0], -torch.tanh(betas), atol=0.03, rtol=0)


def test_what_speaks_against_it_is_told(any_ladder, monkeypatch):
    machine = rb.rbm(8, 6, patterns=2, scale=2.0, seed=0)
    options = {"method": "tempering", "seed": 0}
    found = rb.thermodynamics(machine, (1.0,), steps=2, skip=0, check=False, **options)
    assert "round trips of 40 ladders" in found.note
    assert found.note in repr(found.table())
    z = rb.log_z(machine)
    wrong = dataclasses.replace(z, value=z.value + 5, lower=z.lower + 5, upper=z.upper + 5)
    monkeypatch.setattr(module, "log_z", lambda *a, **k: wrong)
    found = rb.thermodynamics(machine, (1.0,), steps=30, **options)
    assert "differs by 5" in found.note
    assert "the errors are not known" in found.note
    assert bool(found.energy.error.isinf().all())
    assert float(found.magnetisation.error) == 0  # by symmetry
    assert "± ?" in repr(found.table())
    found.figure().savefig(io.BytesIO())


def test_errors_are_unknown_from_the_beta_on_that_is_contradicted():
    """A hidden layer that turns at once beyond β = 1, which no walker finds."""
    w, b, c = np.full((30, 12), 0.5), np.full(30, 6.0), np.full(12, -14.2)
    machine = rb.Machine.from_weights(w, b, c, levels=(-1, 1))
    betas = (2.0, 0.25, 0.5, 1.5)
    found = rb.thermodynamics(machine, betas, method="tempering", seed=0, steps=50)
    assert found.energy.error.isinf().tolist() == [[True, False, False, True]]
    assert "from β = 1.5 on" in found.note


def test_a_record_that_drifts():
    walkers = rb.ParallelTempering(rungs=2).init(machine := rb.rbm(4, 3, seed=0), 20, rb.stream(0))
    still = torch.randn((1, 2, 20, 10), generator=torch.Generator().manual_seed(0))
    walkers = dataclasses.replace(walkers, trips=torch.tensor([100]))
    assert module._doubts(still, walkers, 20) == []
    drifting = still + torch.arange(10.0)
    assert "drift" in module._doubts(drifting, walkers, 20)[0]
    assert machine.replicas == 1


def test_tables_and_figures():
    found = rb.thermodynamics(rb.rbm(5, 4, replicas=2, seed=0), (0.5, 1.0))
    lines = repr(found.table(1)).splitlines()
    assert len(lines) == 4
    assert f"{float(found.energy.value[1, 0]):.7g}" in lines[2]
    assert "<table>" in found._repr_html_()
    assert len(repr(found).splitlines()) < 14
    figure = found.figure(replica=1, title="a $ title")
    assert len(figure.axes) == 4
    drawn = figure.axes[0].lines[0].get_ydata()
    assert np.allclose(drawn, found.energy.value[1].numpy() / 9)


@pytest.mark.parametrize(
    ("betas", "options", "told"),
    [
        ((-1.0,), {}, "at least 0"),
        ((math.nan,), {}, "at least 0"),
        ([], {}, "one or more inverse temperatures"),
        ([[1.0]], {}, "one or more inverse temperatures"),
        ("hot", {}, "inverse temperatures"),
        ((1.0,), {"method": "magic"}, "unknown method for thermodynamics"),
        ((1.0,), {"method": "tempering", "chains": 5}, "at least 20"),
        ((1.0,), {"method": "tempering", "steps": 1}, "at least 2"),
        ((0.0,), {"method": "tempering"}, "a β above 0"),
        ((1.0,), {"method": "tempering", "seed": 1, "rng": rb.stream(0)}, "not both"),
    ],
)
def test_bad_input(betas, options, told):
    with pytest.raises(rb.InputError, match=told):
        rb.thermodynamics(rb.rbm(4, 3, seed=0), betas, **options)


def test_one_number_is_a_beta_and_a_large_machine_is_not_enumerated():
    assert rb.thermodynamics(rb.rbm(4, 3, seed=0), 1.0).betas.tolist() == [1.0]
    with pytest.raises(rb.InputError, match="enumerates at most"):
        rb.thermodynamics(rb.rbm(100, 100, seed=0), 1.0, method="exact")


def test_rungs_that_lie_far_apart_are_joined():
    """Free spins in a field of 4: at β = 50 only the ground state is left, a tenth at 0.28."""
    rungs, rng = (
        torch.tensor([0.0, 0.06, 0.12, 0.2, 0.28, 50.0]).double(),
        torch.Generator().manual_seed(0),
    )
    up = torch.sigmoid(8 * rungs)[:, None, None].expand(6, 4000, 20)
    energies = -4.0 * (2.0 * torch.bernoulli(up, generator=rng) - 1).sum(2)
    truth = 20 * torch.log(2 * torch.cosh(4 * rungs))
    assert (log_sums(energies, rungs, 20 * math.log(2.0)) - truth).abs().max() < 0.3


def test_a_first_order_transition_has_rungs_enough():
    """All hidden units turn at once, from free visible units to aligned ones: two rungs trade often,
    by sums over visible units, and their energies hardly overlap."""
    v, h = 16, 12
    w, b, c = np.full((v, h), 0.5), np.full(v, 0.5 * h), np.full(h, -7.5)
    machine = rb.Machine.from_weights(w, b, c, levels=(-1, 1))
    exact = rb.thermodynamics(machine, (1.0, 2.0), method="exact")
    found = rb.thermodynamics(machine, (1.0, 2.0), method="tempering", seed=0, steps=100, check=False)
    for name in ("log_z", "energy", "heat_capacity"):
        truth, seen = getattr(exact, name).value, getattr(found, name)
        assert bool(((seen.value - truth).abs() < 6 * seen.error).all()), name
