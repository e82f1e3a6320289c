"""What long calls show, and where they stop; time is what the test says it is."""

import io
import sys
import threading
from types import ModuleType

import pytest
import torch

from rapidbm import progress
from rapidbm.errors import InputError, TimeLimit
from rapidbm.progress import check_limit, duration, quiet, report_progress, watch, watched


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 100.0

        def __call__(self):
            return self.now

    one = Clock()
    monkeypatch.setattr(progress, "clock", one)
    monkeypatch.delenv(progress.SWITCH, raising=False)
    return one


class Terminal(io.StringIO):
    def isatty(self):
        return True


def run(clock, steps=10, seconds=1.0, **options):
    with watch("counting", steps, **options) as tick:
        for _ in range(steps):
            clock.now += seconds
            tick()


def test_a_short_call_says_nothing(clock, capsys):
    run(clock, steps=29, seconds=0.1)
    assert capsys.readouterr() == ("", "")


def test_a_long_call_says_how_far_it_is_and_what_is_left(clock, capsys):
    run(clock, steps=40)
    out, err = capsys.readouterr()
    assert not out
    lines = err.splitlines()
    assert lines[0] == "counting: 3 of 40 done, 3 s so far, about 37 s left"
    assert [line.split()[1] for line in lines] == ["3", "13", "23", "33"]  # every ten seconds


def test_on_a_terminal_it_is_a_bar_that_goes(clock, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    run(clock, steps=5)
    assert "counting" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K")  # the line is wiped


def test_the_inner_watch_stands_behind_the_outer_one(clock, capsys):
    with watch("outer", 2) as tick:
        for _ in range(2):
            with watch("inner", 10) as inner:
                for _ in range(10):
                    clock.now += 1.0
                    inner()
            tick()
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "outer: 0 of 2 done; inner: 3 of 10 done, 3 s so far, about 17 s left",
        "outer: 1 of 2 done; inner: 3 of 10 done, 13 s so far, about 7 s left",
    ]


def test_a_limit_says_how_far_it_came_and_what_it_needs(clock):
    with pytest.raises(TimeLimit, match=r"counting stopped at its limit of 5 s: 5 of 20 done") as e:
        run(clock, steps=20, limit=5, remedy="count less")
    assert isinstance(e.value, InputError)
    assert "about 20 s" in str(e.value)
    assert "limit=" in str(e.value)
    assert "or count less" in str(e.value)
    run(clock, steps=20)  # nothing is left of it


@watched("outer", remedy="count less")
def counted(clock, *, steps=10, limit=None):
    run(clock, steps=steps)


def test_a_watch_without_a_total_is_as_far_as_what_runs_within(clock, capsys):
    with watch("outermost", 2):
        counted(clock)
    told = "outermost: 0 of 2 done; outer; counting: 3 of 10 done, 3 s so far, about 17 s left"
    assert capsys.readouterr().err.splitlines() == [told]


def test_a_watched_function_tells_what_is_measured_within(clock, capsys):
    counted(clock)
    assert capsys.readouterr().err == "outer; counting: 3 of 10 done, 3 s so far, about 7 s left\n"


def test_an_outer_limit_holds_inside(clock):
    with (
        pytest.raises(TimeLimit, match=r"outer stopped .* 0 of 2 done .* about 20 s"),
        watch("outer", 2, limit=5),
    ):
        run(clock, steps=10)

    def beat():
        for _ in range(10):
            clock.now += 1.0
            report_progress()

    with pytest.raises(TimeLimit, match=r"outer stopped .* too early"), watch("outer", limit=5):
        beat()
    with pytest.raises(TimeLimit, match=r"outer .*: counting: 5 of 10 .* that alone .* 10 s"):
        counted(clock, limit=5)
    report_progress()  # with nobody watching


def test_an_inner_limit_leaves_the_outer_watch_at_work(clock, capsys):
    with watch("outer", 2) as tick:
        with pytest.raises(TimeLimit, match="counting stopped"):
            run(clock, steps=10, limit=2)
        clock.now += 10.0
        tick()
    assert "outer: 1 of 2 done" in capsys.readouterr().err


def test_without_a_total_it_counts(clock, capsys):
    with watch("searching") as tick:
        clock.now += 4.0
        tick.add(7)
    assert capsys.readouterr().err == "searching: 7 done, 4 s so far\n"


@pytest.mark.parametrize("value", ["off", "0"])
def test_it_keeps_quiet_when_told(clock, capsys, monkeypatch, value):
    with quiet():
        run(clock, steps=40)
    monkeypatch.setenv(progress.SWITCH, value)
    run(clock, steps=40)
    assert not capsys.readouterr().err
    with pytest.raises(TimeLimit), quiet():  # limits hold
        run(clock, limit=3)
    monkeypatch.delenv(progress.SWITCH)
    with quiet(False):
        run(clock)
    assert capsys.readouterr().err


def test_an_interrupt_passes(clock):
    with pytest.raises(KeyboardInterrupt), watch("counting", 3):
        raise KeyboardInterrupt
    assert progress._here.watch is None


def test_a_closed_standard_error_stops_nothing(clock, monkeypatch):
    closed = io.StringIO()
    closed.close()
    for stream in (closed, None):
        monkeypatch.setattr(sys, "stderr", stream)
        run(clock)


def test_it_draws_no_random_number(clock):
    before = torch.get_rng_state()
    run(clock, steps=40)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("limit", [0, -1, float("nan"), "5", True])
def test_limits_are_seconds(limit):
    with pytest.raises(InputError, match="positive number of seconds"):
        check_limit(limit)


def test_durations():
    shown = [duration(s) for s in (0.25, 42.2, 119, 600, 9000, 1e6)]
    assert shown == ["0.25 s", "42 s", "119 s", "10 min", "2.5 h", "11.6 days"]


class Notebook:
    """What a kernel and IPython would be, as far as a bar below a cell asks for them."""

    kernel = object()

    def __init__(self):
        self.shown = []

    def display(self, bundle, *, raw, display_id):
        assert raw
        assert display_id
        self.shown.append(bundle)
        return self

    def update(self, bundle, *, raw):
        assert raw
        self.shown.append(bundle)

    def install(self, monkeypatch):
        names = {"ipykernel": {}, "IPython": {"get_ipython": lambda: self}}
        names["IPython.display"] = {"display": self.display}
        for name, values in names.items():
            module = ModuleType(name)
            vars(module).update(values)
            monkeypatch.setitem(sys.modules, name, module)
        return self


def test_in_a_notebook_it_is_a_bar_below_the_cell_that_goes(clock, monkeypatch, capsys):
    notebook = Notebook().install(monkeypatch)
    with watch("<b>counting", 10) as tick:
        for _ in range(10):
            clock.now += 1.0
            tick()
    assert capsys.readouterr() == ("", "")
    first, *_, last = notebook.shown[1:]
    assert first["text/plain"] == "<b>counting: 3 of 10 done, 3 s so far, about 7 s left"
    assert '<progress max="1" value="0.3000">' in first["text/html"]
    assert "<b>" not in first["text/html"]
    assert last == {"text/html": "", "text/plain": ""}
    assert len(notebook.shown) == 10  # one empty, seconds 3 to 10, one empty


def test_a_notebook_is_told_what_cannot_be_measured(clock, monkeypatch):
    notebook = Notebook().install(monkeypatch)
    with watch("searching") as tick:
        clock.now += 4.0
        tick.look()
    assert '<progress max="1"></progress> searching, 4 s so far' in notebook.shown[1]["text/html"]


def test_elsewhere_there_are_lines_though_ipython_is_loaded(clock, monkeypatch, capsys):
    notebook = Notebook().install(monkeypatch)
    monkeypatch.setattr(notebook, "kernel", None)  # a plain console of IPython
    run(clock, steps=5)
    assert not notebook.shown
    assert "counting: 3 of 5 done" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "IPython.display", None)  # half installed
    run(clock, steps=5)
    assert "counting: 3 of 5 done" in capsys.readouterr().err


def test_in_a_thread_of_a_notebook_there_are_lines(clock, monkeypatch, capsys):
    notebook = Notebook().install(monkeypatch)
    thread = threading.Thread(target=run, args=(clock, 5))
    thread.start()
    thread.join()
    assert not notebook.shown
    assert "counting" in capsys.readouterr().err
