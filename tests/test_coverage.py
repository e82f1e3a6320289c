"""The benchmark of coverage: its families are what they say, and it counts misses."""

import importlib

import pytest

from rapidbm.likelihood.exact import can_be_exact

RANDOM = (
    "generic",
    "cold",
    "one-sided",
    "one-sided with biases",
    "biases against couplings",
    "first-order",
    "holes",
    "deep",
    "full",
    "deep holes",
    "full holes",
    "paired holes",
    "overlapping holes",
    "parity checks",
    "two transitions",
    "tripled holes",
    "weak units",
)


@pytest.fixture
def benchmarks(monkeypatch):
    names = ("families", "coverage")
    return [importlib.import_module(f"rapidbm_bench.{name}") for name in names]


def test_members_can_be_summed_and_differ(benchmarks):
    families, _ = benchmarks
    for name in RANDOM:
        made = [families.member(name, number)[0] for number in (0, 1, 0)]
        assert all(can_be_exact(machine, 2**20) for machine in made)
        first, second, again = ([p.flatten().tolist() for p in m.parameters()] for m in made)
        assert first == again != second
    assert set(RANDOM) | {"bars", "digits", "mnist", *families.LOST} == set(families.FAMILIES)


def test_misses_are_counted_in_widths(benchmarks):
    _, coverage = benchmarks
    checks = [coverage.Check(1.0, 2.0, x, effective=40.0 - 10.0 * x) for x in (1.0, 1.5, 2.5, -2.0)]
    assert [check.miss for check in checks] == [0.0, 0.0, 0.5, 3.0]
    found = coverage.summary(checks, 8.0)
    assert found["held"] == 0.5
    assert found["worst miss in widths"] == 3.0
    assert found["seconds per case"] == 2.0
    assert (found["of few effective chains"], found["of these held"]) == (2, 1)


def test_every_kind_of_check_answers_beside_the_exact_value(benchmarks):
    _, coverage = benchmarks
    for name in ("generic", "one-sided", "Bennett's ratio", "hidden sums"):
        for check in coverage.CHECKS[name](range(2)):
            assert check.lower <= check.upper
            assert check.miss < 1.0
    with pytest.raises(SystemExit) as stopped:
        coverage.run(["--families", "nonsense"])
    assert stopped.value.code == 2
