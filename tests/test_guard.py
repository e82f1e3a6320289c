"""`python -m benchmarks guard`: verdicts on made-up times, its file, and tiny ratios of real work."""

import json
import math
import os
import sys
from functools import partial
from itertools import cycle
from unittest import mock

import pytest
import torch

from rapidbm.disk import read_json
from rapidbm_bench import __main__ as benchmarks
from rapidbm_bench import guard
from rapidbm_bench.speed.jobs import Size, gibbs, look, ours

COMMITTED = {"ratio": 1.0, "low": 0.99, "high": 1.01}
SMALL = Size(6, 4, None, 3)


@pytest.fixture
def hand(monkeypatch):
    """CPU seconds that only the actions below move."""
    moved = mock.Mock(now=0.0)
    monkeypatch.setattr(guard, "cpu_seconds", lambda: moved.now)
    return moved


def costs(hand, *seconds):
    """Builds an action whose calls take the seconds in turn."""

    def build():
        left = cycle(seconds)

        def action():
            hand.now += next(left)

        return action

    return build


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (1.16, 1.0, guard.WORSE),
        (1.14, 1.0, guard.SAME),
        (1.0, 1.0, guard.SAME),
        (0.88, 1.0, guard.SAME),
        (0.86, 1.0, guard.BETTER),
        (1.0, 1.16, guard.BETTER),  # what stands below the line became slower
        (1.0, 0.86, guard.WORSE),
    ],
)
def test_worse_is_more_than_15_percent_above(hand, one, other, said):
    row = guard.compared(guard.Ratio("", costs(hand, one), costs(hand, other)), COMMITTED)
    assert row["ratio"] == pytest.approx(one / other, rel=1e-3)
    assert row["change"] == pytest.approx(one / other - 1, abs=1e-3)
    assert row["verdict"] == said
    assert guard.failed({"": row}) == (said == guard.WORSE)


@pytest.mark.parametrize(
    ("times", "committed", "said"),
    [
        ((0.8, 0.9, 1.2, 1.6, 2.0), COMMITTED, guard.UNSURE),
        ((1.1, 1.15, 1.2, 1.6, 2.0), COMMITTED, guard.WORSE),
        ((1.2,), {**COMMITTED, "high": 1.3}, guard.UNSURE),
        ((0.1, 0.5, 0.8, 1.2, 1.3), COMMITTED, guard.SAME),
    ],
)
def test_a_ratio_within_the_spreads_is_not_worse(hand, times, committed, said):
    """Five times in turn: every second call is timed, which meets them all."""
    row = guard.compared(guard.Ratio("", costs(hand, *times), costs(hand, 1.0)), committed)
    assert row["low"] < row["ratio"] < row["high"] or len(times) == 1
    assert row["verdict"] == said


@pytest.mark.parametrize(("slow", "said", "builds"), [(1, guard.SAME, 3), (99, guard.WORSE, 4)])
def test_what_looks_worse_is_built_and_measured_again(hand, slow, said, builds):
    built = []

    def one():
        built.append(2.0 if len(built) < slow else 1.0)
        return costs(hand, built[-1])()

    row = guard.compared(guard.Ratio("", one, costs(hand, 1.0)), COMMITTED)
    assert row["verdict"] == said
    assert len(built) == builds


def failing():
    raise RuntimeError("no such kernel")


@pytest.mark.parametrize(
    ("package", "other", "told"),
    [
        ("no_such_package", failing, "no_such_package is not installed (pip install 'rapidbm[bench]')"),
        ("torch", failing, "torch failed: RuntimeError: no such kernel"),
    ],
)
def test_a_peer_that_cannot_be_measured_is_skipped_and_named(hand, package, other, told):
    row = guard.compared(guard.Ratio("", costs(hand, 9.0), other, package), COMMITTED)
    assert row["verdict"] == f"skipped: {told}"
    assert row["ratio"] is None
    assert not guard.failed({"": row})
    assert told in guard.sentence("peer", row)


# -- the command -----------------------------------------------------------------------------------------


@pytest.fixture
def made_up(hand, monkeypatch, tmp_path):
    """Two ratios, of 2 and of 3, and a file of their own."""
    ratios = {
        "two": guard.Ratio("2 over 1", costs(hand, 2.0), costs(hand, 1.0)),
        "three": guard.Ratio("3 over 1", costs(hand, 3.0), costs(hand, 1.0)),
    }
    monkeypatch.setattr(guard, "RATIOS", ratios)
    monkeypatch.setattr(guard, "FILE", tmp_path / "guard.json")
    monkeypatch.setattr(guard, "busy", lambda: None)
    return ratios


@pytest.fixture
def command(monkeypatch, capsys):
    """Runs the command: its exit code, and what it printed."""

    def called(*words):
        monkeypatch.setattr(sys, "argv", ["benchmarks", "guard", *words])
        code = 0
        try:
            benchmarks.main()
        except SystemExit as leaving:
            code = leaving.code
        return code, *capsys.readouterr()

    return called


def test_what_is_committed_is_compared_with(made_up, command, hand):
    code, out, told = command("--update")
    assert code == 0
    assert "written" in out
    assert "3 of 3, three: 3 over 1" in told
    file = json.loads(guard.FILE.read_text())
    assert file["ratios"]["two"] == {"means": "2 over 1", "ratio": 2.0, "low": 2.0, "high": 2.0}
    assert file["measured_with"] == {**guard.machine(), "busy": None}
    code, out, told = command("--json")
    assert code == 0
    assert json.loads(out)["three"]["verdict"] == guard.SAME
    assert "worse" not in told
    made_up["two"] = guard.Ratio("2 over 1", costs(hand, 2.4), costs(hand, 1.0))
    code, out, told = command()
    assert code == 1
    assert "two is worse, +20%: 2 over 1: 2.4 [2.4, 2.4], committed 2" in told
    assert "three is" not in told
    assert command("--only", "three")[0] == 0
    assert command("--only", "three,two")[0] == 1


def test_another_machine_and_a_busy_one_are_told(made_up, command, monkeypatch):
    monkeypatch.setattr(guard, "busy", lambda: 7.0)
    assert "busy (load 7.0)" in command("--update")[2]
    assert json.loads(guard.FILE.read_text())["measured_with"]["busy"] == 7.0
    monkeypatch.setattr(guard, "cpu", lambda: "another")
    code, _, told = command()
    assert code == 0
    assert "cpu: another here, " in told


def damaged(text):
    """The file as it should be, and what becomes of it."""
    good = json.loads(text)
    without = {**good, "ratios": {"two": good["ratios"]["two"]}}
    unknown = {**good, "ratios": {**good["ratios"], "four": good["ratios"]["two"]}}
    zero = {**good, "ratios": {**good["ratios"], "two": {**good["ratios"]["two"], "ratio": 0.0}}}
    words = [json.dumps(one) for one in (without, unknown, zero, {}, [])]
    return [*words, text[: len(text) // 2], "", text.replace("2.0", "NaN")]


def test_a_missing_or_damaged_file_ends_with_two(made_up, command):
    code, _, told = command()
    assert code == 2
    assert "guard.json cannot be read" in told
    assert "guard --update" in told
    command("--update")
    for text in damaged(guard.FILE.read_text()):
        guard.FILE.write_text(text)
        code, out, told = command("--only", "two")
        assert (code, out) == (2, ""), text
        assert "guard.json cannot be read" in told
        assert "guard --update" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--only", "twoo"), "unknown ratio 'twoo': did you mean 'two'? known are three, two"),
        (("--only", "two", "--update"), "leave out --only"),
        (("--often",), "unrecognized arguments: --often"),
    ],
)
def test_bad_input_ends_with_two(made_up, command, words, told):
    code, _, found = command(*words)
    assert code == 2
    assert told in found
    assert not guard.FILE.exists()


def test_no_ratio_is_left_out_of_the_file(made_up, command):
    made_up["peer"] = guard.Ratio("", failing, failing, "no_such_package")
    code, _, told = command("--update")
    assert code == 2
    assert "peer cannot be measured: no_such_package is not installed" in told
    assert not guard.FILE.exists()


def test_the_committed_file_has_every_ratio_as_it_is_measured():
    file = read_json(guard.FILE, guard.shape(guard.RATIOS), "committed ratios", guard.REMEDY)
    assert {name: row["means"] for name, row in file["ratios"].items()} == {
        name: ratio.means for name, ratio in guard.RATIOS.items()
    }


# -- real work -------------------------------------------------------------------------------------------


def test_ratios_of_real_work(monkeypatch):
    monkeypatch.setattr(guard, "LEAST", 1e-4)
    monkeypatch.setattr(guard, "STARTS", 2)
    update, sweep = partial(ours, SMALL, 1, guard.CPU, 0), partial(gibbs, SMALL, 1, guard.CPU, 0)
    found = guard.measured(guard.Ratio("", update, sweep))
    assert len(found) == guard.ROUNDS
    assert all(0 < ratio < math.inf for ratio in found)
    found = guard.measured(guard.Ratio("", update, guard.process("-c", "pass"), starts=True))
    assert len(found) == 2
    assert all(0 < ratio < math.inf for ratio in found)


def test_the_time_of_processes_that_ended_counts():
    began = guard.cpu_seconds()
    guard.process("-c", "import time\nwhile time.process_time() < 0.1: pass")()()
    assert guard.cpu_seconds() - began > 0.1


def test_one_thread_and_then_as_before(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with guard.one_thread():
            assert torch.get_num_threads() == 1
            assert os.environ["OMP_NUM_THREADS"] == "1"
        assert torch.get_num_threads() == 2
        assert "OMP_NUM_THREADS" not in os.environ
    finally:
        torch.set_num_threads(before)


def test_a_look_measures_what_a_run_does():
    (found,) = look(2, guard.CPU)()
    assert set(found) >= {"hamming_train", "hamming_test"}
    assert all(value.shape == (2,) for value in found.values())
