"""Phase boundaries against known limits, against descent on random machines; places of machines."""

import math

import numpy as np
import pytest
import torch

from rapidbm.errors import InputError
from rapidbm.glass import pictures
from rapidbm.glass.phases import (
    BIDIRECTIONAL,
    COLD,
    HOPFIELD,
    _averages,
    _log_2cosh,
    _Model,
    boundaries,
    capacity,
    glass_line,
    overlaps,
    phase_point,
    phases_at,
)
from rapidbm.machines.constructors import bm, dbm, rbm
from rapidbm.machines.machine import Machine
from rapidbm.pictures import figure, save
from rapidbm.sampling.quench import descend


def of(*loads):
    return torch.tensor(loads, dtype=torch.float64)


WIDE = 2.0  # the aspect of the lines below


@pytest.fixture(scope="module")
def wide():
    return boundaries(BIDIRECTIONAL, WIDE, of(0.03, 0.08))


@pytest.fixture(scope="module")
def hopfield():
    return boundaries(HOPFIELD, load=of(0.001, 0.045, 0.06, 0.15))


def test_gaussian_averages_at_every_noise():
    z, weight = np.polynomial.hermite_e.hermegauss(180)
    weight = weight / weight.sum()
    for signal, noise in ((0.3, 0.05), (1.0, 0.24), (1.0, 0.26), (0.5, 1.0), (2.0, 3.0)):
        x = signal + noise * z
        mean, slope = _averages(of(signal)[None], of(noise)[None])
        assert float(mean) == pytest.approx(weight @ np.tanh(x), abs=2e-6)
        assert float(slope) == pytest.approx(weight @ np.cosh(x) ** -2, abs=2e-5)
        free = float(_log_2cosh(of(signal)[None], of(noise)[None]))
        assert free == pytest.approx(weight @ np.logaddexp(x, -x), abs=2e-5)
    mean, slope = _averages(of(3e5)[None], of(2e5)[None])  # T → 0
    assert float(mean) == pytest.approx(math.erf(1.5 / math.sqrt(2)), abs=1e-8)
    assert float(slope * 2e5) == pytest.approx(math.sqrt(2 / math.pi) * math.exp(-1.125), abs=1e-8)


@pytest.mark.parametrize("theory", [HOPFIELD, BIDIRECTIONAL])
@pytest.mark.parametrize("retrieved", [True, False])
def test_the_solutions_are_stationary_points_of_the_free_energy(theory, retrieved):
    # Eqs. (2) to (4) are the derivatives of (5) or (6); R is eliminated, so only m and C move.
    model = _Model(theory, 3.0, of(0.03))
    temperature = of(0.4)
    m, c = model.retrieval(temperature, *model.start(), 500)
    if not retrieved:
        m, c = torch.zeros_like(m), model.spin_glass(temperature)
    step = 1e-4
    for which in (m, c):
        for layer in range(len(which)):
            values = []
            for move in (step, -step):
                which[layer] += move
                values.append(float(model.potential(temperature, m, c)))
                which[layer] -= move
            assert abs(values[0] - values[1]) / (2 * step) < 2e-3
    if retrieved:
        assert float(m.min()) > 0.8


def test_the_lines_meet_at_one_when_the_load_vanishes(wide):
    few = boundaries(BIDIRECTIONAL, WIDE, of(1e-3))
    for lines in (few, wide):
        below, above = lines.stable < lines.retrieval, lines.retrieval < 1
        assert bool((below & above & (lines.glass > 1)).all())
    assert float(few.glass) < 1.03
    assert float(few.stable) > 0.93


def test_hopfield_numbers(hopfield):
    # Amit, Gutfreund and Sompolinsky: α_c = 0.138, T_M ≈ 1 − 1.95 √α, T_c ≈ 1 − 2.6 √α, 0.051 at T = 0.
    assert capacity(HOPFIELD) == pytest.approx(0.138, abs=0.002)
    lines = hopfield
    assert torch.allclose(lines.glass, 1 + lines.load.sqrt())
    assert float(lines.retrieval[0]) == pytest.approx(1 - 1.95 * 0.001**0.5, abs=0.002)
    assert float(lines.stable[0]) == pytest.approx(1 - 2.6 * 0.001**0.5, abs=0.004)
    assert lines.stable.isnan().tolist() == [False, False, True, True]
    assert lines.retrieval.isnan().tolist() == [False, False, False, True]


def test_bidirectional_numbers():
    assert capacity() == pytest.approx(0.1998, abs=5e-4)
    # Equal layers: α β² (1 + β²) = (1 − β²)² is eq. (7); at α = 1 this is T² = 3.
    glass = glass_line(BIDIRECTIONAL, 1.0, of(1.0, 1e6))
    assert float(glass[0]) == pytest.approx(3**0.5)
    assert float(glass[1]) == pytest.approx(1e3, rel=0.01)  # K → ∞, Gaussian couplings: T = √α
    # A wide layer helps less and less: K/V, not K/√(VH), has a limit.
    per_visible = [capacity(BIDIRECTIONAL, aspect) * aspect**0.5 for aspect in (4.0, 256.0)]
    assert per_visible == pytest.approx([0.344, 0.493], abs=0.002)


def test_the_two_layers_may_be_exchanged(wide):
    other = boundaries(BIDIRECTIONAL, 1 / WIDE, wide.load)
    for name in ("glass", "retrieval", "stable"):
        assert torch.allclose(getattr(wide, name), getattr(other, name), atol=1e-9)
    loads = wide.load
    m, n = overlaps(loads, COLD, aspect=WIDE), overlaps(loads, COLD, aspect=1 / WIDE)
    assert torch.allclose(m, n.flip(0), atol=1e-9)
    assert torch.all(m[0] > m[1])  # the smaller layer gets the larger field


@pytest.mark.parametrize(("visible", "hidden"), [(1000, 1000), (500, 2000)])
def test_descent_keeps_the_overlaps_of_theory_below_the_capacity_only(visible, hidden):
    aspect = hidden / visible
    edge = capacity(BIDIRECTIONAL, aspect)

    def kept(load):
        patterns = round(load * (visible * hidden) ** 0.5)
        machine = rbm(visible, hidden, patterns, seed=1)
        xi = machine.patterns.detach()[:, :60]
        same = descend(machine, xi) * xi
        return torch.stack([same[..., :visible].mean(), same[..., visible:].mean()]).double()

    wanted = overlaps(of(0.75 * edge), COLD, aspect=aspect)[:, 0]
    assert torch.allclose(kept(0.75 * edge), wanted, atol=0.01)
    assert float(kept(1.6 * edge)[1]) < 0.7
    assert not overlaps(of(1.6 * edge), COLD, aspect=aspect).abs().max() > 1e-6


def test_standing_of_patterns():
    machine = rbm(200, 300, 10, replicas=3, seed=0)
    place = phase_point(machine, beta=2.0)
    coupling = machine.couplings.matrix(0, 1).detach().double().square().mean((1, 2)).sqrt()
    root = (200 * 300) ** 0.5
    assert torch.allclose(place.temperature, 10**0.5 / (2 * coupling * root), rtol=1e-6)
    assert torch.allclose(place.load, torch.full((3,), 10 / root, dtype=torch.float64))
    assert place.patterns.tolist() == [10.0] * 3
    assert (place.theory, place.aspect) == (BIDIRECTIONAL, 1.5)
    assert place.phase == ("retrieval",) * 3
    assert phase_point(rbm(200, 300, 100, seed=0)).phase == ("spin glass",)
    assert phase_point(rbm(200, 300, 30, seed=0)).phase == ("retrieval, metastable",)
    assert phase_point(rbm(200, 300, 10, scale=0.05, seed=0)).phase == ("paramagnet",)
    assert phase_point(machine, beta=0.0).phase == ("paramagnet",) * 3


def test_standing_of_deep_and_full_machines():
    deep = dbm(200, (300, 50), 10, seed=0)
    place = phase_point(deep)
    assert float(place.load) == pytest.approx(10 / (200 * 300) ** 0.5)
    assert place.theory == BIDIRECTIONAL
    full = bm(60, 40, 4, replicas=2, seed=0)
    place = phase_point(full)
    one = Machine(full.couplings.dense())
    square = torch.cat([torch.cat([one.couplings.matrix(i, j) for j in (0, 1)], 2) for i in (0, 1)], 1)
    coupling = (square.detach().double().square().sum((1, 2)) / (100 * 99)).sqrt()
    assert place.theory == HOPFIELD
    assert torch.allclose(place.temperature, 2.0 / (coupling * 100), rtol=1e-6)
    assert place.phase == ("retrieval",) * 2
    assert phase_point(bm(50, seed=0)).theory == HOPFIELD


def test_dense_couplings_show_how_many_patterns_made_them():
    machine = rbm(300, 400, 30, replicas=3, seed=2)
    dense = phase_point(Machine(machine.couplings.dense()))
    assert torch.allclose(dense.patterns, torch.full_like(dense.patterns, 30.0), rtol=0.05)
    assert torch.allclose(dense.temperature, phase_point(machine).temperature, rtol=0.03)


@pytest.mark.parametrize("make", [rbm, bm])
def test_dense_gaussian_couplings_freeze_where_the_gaussian_glass_does(make):
    # Two layers: variance s² and (VH)^(1/4) s = 1. All pairs (Sherrington, Kirkpatrick): s √N = 1.
    visible, hidden = 300, 200
    edge = (visible * hidden) ** -0.25 if make is rbm else (visible + hidden) ** -0.5
    hot = phase_point(make(visible, hidden, scale=0.9 * edge, replicas=2, seed=0))
    cold = phase_point(make(visible, hidden, scale=1.1 * edge, replicas=2, seed=0))
    assert hot.phase == ("paramagnet",) * 2
    assert cold.phase == ("spin glass",) * 2
    assert torch.all(hot.load > 10)  # far from few patterns


def test_a_replica_that_diverged_has_no_place():
    machine = rbm(20, 20, replicas=2, scale=0.1, seed=0)
    machine.couplings.weights["0-1"].data[1, 0, 0] = torch.nan
    place = phase_point(machine)
    assert place.phase == ("paramagnet", "undefined")


def test_phases_agree_with_the_lines(wide):
    pairs = (
        (0.98 * wide.stable, "retrieval"),
        (1.02 * wide.stable, "retrieval, metastable"),
        (0.99 * wide.retrieval, "retrieval, metastable"),
        (1.01 * wide.retrieval, "spin glass"),
        (0.99 * wide.glass, "spin glass"),
        (1.01 * wide.glass, "paramagnet"),
    )
    for temperature, name in pairs:
        assert phases_at(wide.load, temperature, aspect=WIDE) == (name, name)


def test_bad_requests_are_refused():
    with pytest.raises(InputError, match="unknown theory 'hopfield'"):
        boundaries("hopfield")
    with pytest.raises(InputError, match="aspect H/V must be positive and finite, not -1"):
        boundaries(aspect=-1.0)


def test_picture_of_the_phases(tmp_path, hopfield):
    fig = figure(12, 3)
    paths = ((), [(0.1, 0.01)], [(0.1, 0.01), (0.1, 0.1), (300.0, 40.0)])
    for axes, path in zip(fig.subplots(1, 3), paths, strict=True):
        pictures.show_phases(axes, hopfield, path, title="phases")
    assert save(fig, tmp_path / "phases.png").stat().st_size > 20_000
