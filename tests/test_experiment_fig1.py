"""Untrained machines: the couplings they have, and what the claims make of records."""

import dataclasses

import numpy as np
import pytest
import torch

from rapidbm.ground.ground_state import ground_state
from rapidbm.machines.machine import scaled
from rapidbm_paper.claims import claims_of
from rapidbm_paper.lab import Lab
from rapidbm_paper.records import Record
from rapidbm_paper.untrained import accessibility

TINY = accessibility.Scale.at("tiny")


def bench(tmp_path, name):
    return Lab(f"untrained.{name}", torch.device("cpu"), 0, tmp_path, lambda share: None)


def records(tmp_path, config=TINY):
    found = {}
    for name, part in accessibility.PARTS.items():
        values = part.run(bench(tmp_path, name), config)
        found[f"untrained.{name}"] = Record(f"untrained.{name}", "tiny", 0, {}, values)
    return found


@pytest.mark.parametrize("name", accessibility.NAMES)
def test_couplings_have_mean_0_and_deviation_1(name):
    config = dataclasses.replace(TINY, instances=4, hidden=2000, patterns=200)
    machine = accessibility.untrained(name, 40, config, torch.Generator().manual_seed(0))
    couplings = machine.couplings.matrix(0, 1)
    assert couplings.std().item() == pytest.approx(1, abs=0.03)
    assert couplings.mean().item() == pytest.approx(0, abs=0.03)
    if name == "uniform":
        assert couplings.abs().max().item() == pytest.approx(3**0.5, abs=1e-3)


@pytest.mark.parametrize("name", accessibility.NAMES)
def test_one_ground_state_serves_every_deviation(name):
    machine = accessibility.untrained(name, 6, TINY, torch.Generator().manual_seed(1))
    once = ground_state(machine, method="exact").energy
    again = ground_state(scaled(machine, 0.3), method="exact").energy
    torch.testing.assert_close(again, 0.3 * once, rtol=1e-5, atol=0)


def test_records_repeat_and_no_accessibility_is_above_1(tmp_path):
    first, second = records(tmp_path), records(tmp_path)
    for name, record in first.items():
        assert record.values == second[name].values
        assert record.array("gibbs").max() <= 1
        # Measured and wanted deviations agree but for the sampling of the couplings.
        ratio = record.array("deviations").mean(1) / record.array("wanted")
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-5)
        assert 0.7 < ratio[0] < 1.3


def test_glorot_and_the_allowance_for_many_tests():
    assert accessibility.glorot(20, 1000) == pytest.approx(0.04428, abs=1e-5)
    assert accessibility.allowance(1) == pytest.approx(1.96, abs=1e-3)
    assert accessibility.allowance(16) == pytest.approx(2.95, abs=0.01)


def made(low, high, inset=(0.9, 0.9)):
    """A record whose accessibility is `low` while hot and `high` from deviation 1 on."""
    wanted = [0.001, 0.01, 1.0, 10.0, 100.0]
    noise = np.linspace(-1e-3, 1e-3, 9)
    rows = [(low if w < 0.5 else high) + noise * (-1) ** i for i, w in enumerate(wanted)]
    values = {
        "visible": 20,
        "hidden": 1000,
        "wanted": wanted,
        "deviations": [[w] * 9 for w in wanted],
        "gibbs": [r.tolist() for r in rows],
        "sizes": [4, 20],
        "inset": [(x + noise).tolist() for x in inset],
        "inset_one_chain": [(x + noise).tolist() for x in inset],
        "glorot": [0.3, 0.301, 0.299],
        "glorot_deviation": 0.044,
    }
    return Record("", "paper", 0, {}, values)


def verdicts(ra, gaussian, uniform):
    found = dict(zip(("ra", "gaussian", "uniform"), (ra, gaussian, uniform), strict=True))
    given = {f"untrained.{name}": record for name, record in found.items()}
    return {claim.name: claim.check(given).holds for claim in claims_of(accessibility)}


def test_claims_hold_for_the_paper_s_picture():
    found = verdicts(
        made(0.1, 0.99, (0.99, 0.99)), made(0.1, 0.8, (1.0, 0.8)), made(0.1, 0.8, (1.0, 0.8))
    )
    assert found == dict.fromkeys(found, True)


def test_claims_fail_for_the_opposite_one():
    found = verdicts(made(0.1, 0.7, (1.0, 0.8)), made(0.1, 0.8, (0.99, 0.99)), made(0.1, 0.9, (1.0, 1.0)))
    assert found["ra-more-accessible"] is False
    assert found["gaussian-and-uniform-alike"] is False
    assert found["ra-constant-with-size"] is False


def test_figure_without_some_records(tmp_path):
    found = records(tmp_path)
    del found["untrained.gaussian"]
    fig = accessibility.fig1.draw(found)
    assert [t.get_text() for t in fig.axes[0].get_legend().get_texts()] == ["RA", "uniform"]
