"""Basins of patterns, and configurations as points of a plane."""

import pytest
import torch

import rapidbm as rb
from rapidbm.errors import InputError


def test_one_pattern_is_found_again_from_almost_half_of_its_units():
    found = rb.basins(rb.rbm(80, 80, patterns=1, replicas=2, seed=0), seed=0)
    assert found.overlap.value[:, :8].min() > 0.99
    assert found.radius.min() >= 0.35
    assert found.returned.error.eq(0).all()  # of one pattern nothing is sampled
    # Beyond one half the mirror image is nearer: it is another state.
    mirrored = rb.basins(rb.rbm(80, 80, patterns=1, seed=0), seed=0, flipped=(0.9,))
    assert float(mirrored.overlap.value) < -0.9


def test_crowded_patterns_have_no_basin_and_few_have_one():
    few = rb.basins(rb.rbm(60, 60, patterns=2, seed=0), seed=0)
    many = rb.basins(rb.rbm(60, 60, patterns=60, seed=0), seed=0, flipped=(0.0, 0.1), tries=2)
    assert few.radius.min() >= 0.1
    assert float(many.overlap.value[0, 1]) < 0.9
    assert many.radius.isnan().float().mean() > 0.8
    assert many._line().startswith("0 of 60 patterns")


def test_a_pattern_on_all_layers_of_a_deep_and_of_a_full_machine():
    for machine in (rb.dbm(30, (30, 30), patterns=1, seed=1), rb.bm(60, patterns=1, seed=1)):
        assert float(rb.basins(machine, seed=0, flipped=(0.2,)).overlap.value) > 0.99


def test_what_cannot_be_asked():
    assert rb.basins(rb.rbm(4, 4, seed=0), seed=0) is None
    machine = rb.rbm(4, 4, patterns=1, seed=0)
    for wrong in ((), (0.2, 0.1), (0.5, 1.5), (0.1, 0.1)):
        with pytest.raises(InputError, match="rising numbers"):
            rb.basins(machine, seed=0, flipped=wrong)


def test_the_plane_keeps_distances_that_fit_into_it():
    spins = torch.tensor([[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 1, -1]])
    plane = rb.overlap_plane(spins)
    q = (spins @ spins.mT).double() / 4
    assert torch.allclose(torch.cdist(plane.places, plane.places).square(), 2 * (1 - q), atol=1e-9)
    assert plane.kept == pytest.approx(1.0)


def test_the_plane_is_that_of_principal_components():
    rng = torch.Generator().manual_seed(0)
    spins = torch.randint(0, 2, (30, 50), generator=rng).mul(2).sub(1)
    plane = rb.overlap_plane(spins)
    centred = spins.double() - spins.double().mean(0)
    _, s, v = torch.linalg.svd(centred, full_matrices=False)
    expected = centred @ v[:2].mT / 50**0.5
    assert torch.allclose(plane.places.abs(), expected.abs(), atol=1e-9)
    assert plane.kept == pytest.approx(float(s[:2].square().sum() / s.square().sum()))


def test_folded_a_state_and_its_mirror_are_one_point():
    rng = torch.Generator().manual_seed(0)
    spins = torch.randint(0, 2, (6, 40), generator=rng).mul(2).sub(1)
    plane = rb.overlap_plane(torch.cat([spins, -spins]), fold=True)
    assert torch.allclose(plane.places[:6], plane.places[6:], atol=1e-6)
    apart = rb.overlap_plane(torch.cat([spins, -spins]))
    assert (apart.places[:6] - apart.places[6:]).abs().max() > 0.5


def test_a_plane_of_something_else():
    for wrong in (torch.ones(1, 4), torch.ones(3), torch.ones(3, 4, dtype=torch.bool)):
        with pytest.raises(InputError, match="at least two configurations"):
            rb.overlap_plane(wrong)
    assert rb.overlap_plane(torch.ones(3, 4)).kept == 1.0  # all in one place
