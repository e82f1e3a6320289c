"""Landscapes: what is known exactly of few patterns, and what the claims make of records."""

import math

import numpy as np
import pytest
import torch

from rapidbm.glass.minima import minima
from rapidbm.likelihood.log_z import log_likelihood
from rapidbm.machines.constructors import rbm
from rapidbm.machines.units.spin import SPIN
from rapidbm_paper.claims import claims_of
from rapidbm_paper.lab import Lab
from rapidbm_paper.records import Record, plain
from rapidbm_paper.untrained import landscape, landscape_claims

TINY = landscape.Scale.at("tiny")


def bench(tmp_path, name):
    return Lab(f"landscape.{name}", torch.device("cpu"), 0, tmp_path, lambda share: None)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("landscape")
    found = {}
    for name, part in landscape.PARTS.items():
        full = f"landscape.{name}"
        found[full] = Record(full, "tiny", 0, {}, plain(part.run(bench(folder, name), TINY)))
    return found


@pytest.mark.parametrize(("patterns", "valleys"), [(1, 1), (2, 2)])
def test_one_and_two_patterns_satisfy_every_coupling(patterns, valleys):
    machine = rbm(10, 14, patterns, replicas=5, seed=0).requires_grad_(False)
    torch.testing.assert_close(landscape.satisfied(machine), torch.ones(5).double())
    found = minima(machine, 60, torch.Generator().manual_seed(0))
    assert found.distinct.tolist() == [valleys] * 5


def test_three_patterns_and_independent_couplings_are_frustrated():
    for patterns in (3, None):
        machine = rbm(10, 14, patterns, replicas=5, seed=0, scale=1.0).requires_grad_(False)
        assert landscape.satisfied(machine).max() < 0.9


def test_signs_of_one_continuous_pattern_are_the_ground_state():
    rng = torch.Generator().manual_seed(0)
    machine = rbm(8, 10, 1, replicas=4, continuous=True, seed=0).requires_grad_(False)
    found = landscape.shares(machine, rng)
    torch.testing.assert_close(found["whole"], torch.ones(4).double())
    several = rbm(8, 10, 4, replicas=4, continuous=True, seed=0).requires_grad_(False)
    found = landscape.shares(several, rng)
    assert (found["whole"] < 1).all()
    # Hidden units that follow lower the energy, and nothing lies below the ground state.
    assert (found["followed"] >= found["whole"]).all()
    assert (found["lowest"] <= 1 + 1e-6).all()


def test_bounds_hold_the_exact_likelihood():
    machine = rbm(6, 9, 2, replicas=3, seed=0).requires_grad_(False)
    rng = torch.Generator().manual_seed(0)
    images = SPIN.random((20, 6), rng)
    found = landscape._between(machine, images, rng, landscape.Scale.at("quick"))
    exact = -log_likelihood(machine, images.to(torch.int8), method="exact").lower
    assert (found["proven_low"] <= exact).all()
    assert (found["proven_high"] >= exact).all()
    assert (found["low"] - 0.1 <= exact).all()
    assert (found["high"] + 0.1 >= exact).all()


def test_rank_correlation_with_ties():
    x = np.array([1.0, 2.0, 2.0, 5.0])
    assert landscape_claims.rank_correlation(x, x**3) == pytest.approx(1)
    assert landscape_claims.rank_correlation(x, -x) == pytest.approx(-1)


def made(total, overlap=lambda v, h, k: 1.0):
    """Some sizes and numbers of patterns; `total(v, h, k)` minima, patterns that keep an `overlap`."""
    sizes = [(v, h, k) for v in (16, 64) for h in (64, 256, 4096) for k in (4, 16)]
    values = {"sizes": [list(s) for s in sizes], "starts": 100}
    values["total"] = [[total(*s) * x for x in (0.99, 1.0, 1.01)] for s in sizes]
    values["stability"] = [[overlap(*s) * x for x in (0.999, 1.0, 0.998)] for s in sizes]
    return {"landscape.minima": Record("landscape.minima", "quick", 0, {}, values)}


def check(name, records):
    return next(claim.check for claim in claims_of(landscape_claims) if claim.name == name)(records)


def test_minima_are_compared_where_patterns_are_few():
    by_share, by_count = made(lambda v, h, k: 1e4 * k / (v + h)), made(lambda v, h, k: k**2)
    assert check("minima-set-by-patterns", by_share).holds is False
    assert check("minima-set-by-patterns", by_count).holds is True
    # Many patterns in a small layer are no matter of the claim.
    outside = made(lambda v, h, k: k**2 if k / (v + h) < 0.02 else 1e6)
    assert check("minima-set-by-patterns", outside).holds is True
    inside = made(lambda v, h, k: k**2 * (10 if (v, h, k) == (64, 4096, 16) else 1))
    found = check("minima-set-by-patterns", inside)
    assert found.holds is False
    assert "16×4096, K = 16 and 64×4096, K = 16" in found.measured
    assert "256 and 2560 minima" in found.measured


def test_a_phase_is_a_side_and_not_a_number():
    by_share = made(lambda v, h, k: k, lambda v, h, k: 0.95 if k / (v + h) < 0.1 else 0.4)
    assert check("phase-set-by-load", by_share).holds is True
    within = made(lambda v, h, k: k, lambda v, h, k: 0.99 if h == 256 else 0.85)
    assert check("phase-set-by-load", within).holds is True  # 0.14 apart, and on one side
    by_layer = made(lambda v, h, k: k, lambda v, h, k: 0.95 if k / v < 0.5 else 0.4)
    assert check("phase-set-by-load", by_layer).holds is False
    assert check("larger-layer-leaves-the-glass", by_share).holds is True
    found = check("larger-layer-leaves-the-glass", by_layer)
    assert found.holds is False
    assert "V = 16, K = 16" in found.measured


def test_a_start_of_fair_coins_is_below_the_patterns(records):
    record = records["landscape.initial"]
    coins = 16 * math.log(2)
    np.testing.assert_allclose(record["bars"]["dense, 0.01"], coins, rtol=0.01)
    assert min(record["bars"]["RA"]) > 2 * coins
    assert check("smaller-initial-nll", records).holds is False


def test_a_part_gives_the_same_record_again(records, tmp_path):
    again = landscape.PARTS["minima"].run(bench(tmp_path, "minima"), TINY)
    assert plain(again) == records["landscape.minima"].values


def test_every_claim_has_an_answer_and_the_figure_copes_with_gaps(records):
    answers = {claim.name: claim.check(records) for claim in claims_of(landscape_claims)}
    assert answers["one-and-two-patterns-unfrustrated"].holds is True
    assert answers["many-patterns-random"].holds is None  # 8 patterns are not many
    some = {name: r for name, r in records.items() if not name.endswith(("minima", "initial"))}
    fig = landscape_claims.landscape.draw(some)
    assert [a.axison for a in fig.axes] == [True, False, False, True, True, False]
