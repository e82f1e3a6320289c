"""The simulation of many ranks, and the page that its numbers stand on."""

from __future__ import annotations

from pathlib import Path

import pytest

import two_ranks
from rapidbm_bench import scaling
from rapidbm_bench.scaling import Link, Processor, Work, simulated

DOCS = Path(__file__).parents[1] / "docs"


def test_a_sum_takes_the_shorter_of_ring_and_tree():
    link = Link(1e-3, 4e6)
    assert link.sum(10**6, 1) == 0
    assert link.sum(10**6, 2) == pytest.approx(2 * (1e-3 + 0.5))  # half of it each way, twice
    assert link.sum(1, 1024) == pytest.approx(20 * 1e-3, rel=1e-3)  # a tree: ten steps up, ten down
    assert link.sum(10**9, 1024) == pytest.approx(2000, rel=0.01)  # a ring: all of it twice


def test_what_is_summed_is_what_ranks_were_seen_to_sum():
    """Eqs. (3) to (5) for the machine of `test_ranks.py`, where bytes are counted."""
    v, h, k, c = two_ranks.V, two_ranks.H, two_ranks.K, two_ranks.CHAINS
    work = Work(v, h, k, 21, c, two_ranks.SWEEPS)
    assert work.summed("chains") == (k * (v + h) + v + h, 1)
    assert work.summed("dense") == (v * h + v + h, 1)
    assert work.summed("units") == (
        k * (3 * 21 + (2 * two_ranks.SWEEPS + 3) * c),
        2 * two_ranks.SWEEPS + 4,
    )


def test_a_simulation_without_spread_or_messages_is_a_division():
    work, free = Work(1000, 500, 20, 128, 128, 1), Link(0.0, 1e30)
    alone = simulated(work, "units", 1, free, Processor(1e9, 1e12, 0.0))
    many = simulated(work, "units", 64, free, Processor(1e9, 1e12, 0.0))
    assert many["seconds"] == pytest.approx(alone["seconds"] / 64)
    slower = simulated(work, "units", 64, free, Processor(1e9, 1e12, 0.2))
    assert 1.3 < slower["seconds"] / many["seconds"] < 2.0  # the slowest of 64
    again = simulated(work, "units", 64, free, Processor(1e9, 1e12, 0.2))
    assert slower == again
    assert scaling.pays_up_to({1: 8.0, 2: 4.0, 4: 3.9, 8: 3.8}) == 4
    assert scaling.goodput(1, 1e12, 20.0, 5.0) == pytest.approx(1.0, abs=1e-3)
    assert 0.3 < scaling.goodput(1, 60.0, 20.0, 5.0) < 0.9


def test_the_page_has_the_numbers_of_the_simulation():
    known = scaling.constants(DOCS / "performance" / "ranks.json")
    found = scaling.curves(known, DOCS / "performance" / "h200.json")
    page = (DOCS / "scaling.md").read_text()
    for line in scaling.markdown(found):
        assert line in page
    for case, row in known["cases"].items():
        if "2 ranks, ms" in row:
            assert f"| {case} | {row['2 ranks, ms']:.0f} | {row['2 threads, ms']:.0f} |" in page
