"""Gaussian hidden units integrated out, and storage rules at loads where the answer is known."""

import math

import numpy as np
import pytest
import torch

from conftest import states
from rapidbm.machines.units.spin import SPIN
from rapidbm_paper.claims import claims_of
from rapidbm_paper.lab import Lab
from rapidbm_paper.records import Record
from rapidbm_paper.untrained import hopfield

TINY = hopfield.Scale.at("tiny")


def patterns(load, units=60, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return SPIN.random((2, round(load * units), units), rng)


def test_the_two_forms_of_the_couplings_agree():
    rng = torch.Generator().manual_seed(0)
    xi = torch.randn((3, 9), generator=rng, dtype=torch.float64)
    weights = hopfield.axons(xi[:, :5], xi[:, 5:])
    torch.testing.assert_close(weights @ weights.mT, hopfield.effective(xi[:, :5], xi[:, 5:]))


def test_the_integral_over_gaussian_units_has_its_closed_form():
    rng = torch.Generator().manual_seed(0)
    weights = 0.4 * torch.randn((5, 3), generator=rng, dtype=torch.float64)
    every = states(5, 0, 32).double()
    found = hopfield.log_marginal(every, weights)
    closed = 0.5 * (every @ weights).square().sum(1) + 1.5 * math.log(2 * math.pi)
    torch.testing.assert_close(found, closed, rtol=1e-12, atol=0)


def test_hebb_is_the_ra_form_with_an_even_overlap_of_hidden_parts():
    xi = patterns(0.1)
    same = torch.eye(xi.shape[1]).expand(2, -1, -1)
    found = hopfield.effective(xi, same) * (xi.shape[1] / xi.shape[2])
    torch.testing.assert_close(hopfield._hollow(found), hopfield.hebb(xi))


def test_best_hidden_parts_give_every_pattern_the_same_field():
    xi = patterns(0.5)
    coupling = hopfield.best(xi.double())
    # The projection keeps ξ; without its diagonal (1 − J_ii) of it is left, and the sign.
    field = xi.double() @ coupling.mT * xi
    torch.testing.assert_close(field, field[:, :1].expand_as(field))
    assert (field > 0).all()


def test_learnt_couplings_hold_what_can_be_held_and_no_more():
    few, many = patterns(1.2), patterns(4.0)
    held, failed = hopfield.learnt(few, 500), hopfield.learnt(many, 100)
    assert ((few @ held.mT) * few > 0).all()
    assert ((many @ failed.mT) * many <= 0).any()
    assert held.diagonal(dim1=-2, dim2=-1).abs().max() == 0


def test_one_pattern_comes_back():
    xi = SPIN.random((1, 1, 50), torch.Generator().manual_seed(0))
    start = xi.clone()
    start[..., :20] *= -1
    torch.testing.assert_close(hopfield.settle(hopfield.hebb(xi), start), xi)


def test_all_units_at_once_may_trade_places_but_not_for_ever():
    pair = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    start = torch.tensor([[[1.0, -1.0]]])
    assert torch.equal(hopfield.settle(pair, start), start)  # an even number of passes
    assert torch.equal(hopfield.settle(pair, start, 3), -start)
    free = torch.zeros(2, 2)
    assert torch.equal(hopfield.settle(free, start), start)  # no field, no turn


def test_capacity_is_where_the_overlap_crosses():
    loads = np.array([0.1, 0.2, 0.3])
    rows = np.array([[1.0, 1.0], [1.0, 0.9], [0.5, 0.5]])
    found = hopfield.capacity(loads, rows, 0.95)
    assert found.value == pytest.approx((0.21 + 0.15) / 2)
    assert math.isnan(hopfield.capacity(loads, np.ones((3, 2))).value)


def stored(name, kept, retrieved=None, loads=(0.05, 0.1, 0.2, 0.4)):
    """A record of mean overlaps, one row per load; two instances unless a row says more."""
    several = [x if isinstance(x, list) else [x, x] for x in kept]
    back = [[x, x] for x in (retrieved or [1.0] * len(kept))]
    values = {"loads": list(loads), "kept": [several], "retrieved": [back]}
    return Record(f"hopfield.{name}", "quick", 0, {}, values)


@pytest.mark.parametrize(
    ("hebb", "best", "holds"),
    [
        ([1.0, 1.0, 0.5, 0.2], [1.0, 1.0, 1.0, 0.5], True),  # 0.2 above 0.11
        ([1.0, 1.0, 0.5, 0.2], [1.0, 1.0, 1.0, 1.0], True),
        ([1.0, 1.0, 0.5, 0.2], [1.0, 1.0, 0.9, 0.5], False),
        ([1.0, 1.0, 0.5, 0.2], [1.0, 1.0, 0.998, 0.5], False),  # every pattern, not most of them
        ([1.0, 1.0, 0.5, 0.2], [0.9, 0.9, 0.9, 0.5], False),
        ([1.0, 1.0, 1.0, 0.5], [1.0, 1.0, 1.0, 0.5], False),
        ([1.0, [1.0, 0.5], [0.5, 0.2], 0.2], [1.0, 1.0, 1.0, 0.5], None),  # 0.06 or 0.11, of two
        ([1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0], None),  # Hebb's rule held all that was tried
    ],
)
def test_a_higher_capacity_lies_above_hebbs(hebb, best, holds):
    records = {"hopfield.hebb": stored("hebb", hebb), "hopfield.free": stored("free", hebb)}
    records["hopfield.best"] = stored("best", best, (1.0, 0.999, 0.5, 0.2))
    claim = next(c for c in claims_of(hopfield) if c.name == "higher-capacity")
    found = claim.check(records)
    assert found.holds is holds
    assert "come back from a tenth turned up to 0.1 N" in found.measured


def test_claims_of_a_small_study(tmp_path):
    found = {}
    for name, part in hopfield.PARTS.items():
        full = f"hopfield.{name}"
        bench = Lab(full, torch.device("cpu"), 0, tmp_path, lambda share: None)
        values = part.run(bench, TINY)
        if name == "hybrid":
            values["z"] = values["z"].tolist()
        found[full] = Record(full, "tiny", 0, {}, values)
    verdicts = {claim.name: claim.check(found).holds for claim in claims_of(hopfield)}
    assert verdicts["hybrid-marginal"] is True
    assert verdicts["hebbian-capacity"] is None  # too small to say
    # A sampler with the wrong couplings is caught.
    found["hopfield.hybrid"].values["z"][0] = 6.0
    assert claims_of(hopfield)[0].check(found).holds is False
    del found["hopfield.random"]
    names = hopfield.hopfield.draw(found).legends[0].get_texts()
    assert [t.get_text() for t in names] == ["Hebb", "RA, best hidden parts", "unrestricted"]
