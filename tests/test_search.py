"""Rows drawn from ranges, and sweeps on Ray: the same study, folder and table."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

import rapidbm as rb
from rapidbm.runs.metrics import METRICS, Metric, hamming_distance
from rapidbm.studies import on_ray
from rapidbm.studies import sweep as sweeps
from rapidbm.studies.results import Table
from rapidbm.studies.search import Range, Search
from rapidbm.studies.sweep import Sweep

TINY = {"hidden": 6, "epochs": 3, "device": "cpu", "negative": "cd", "metric": ["hamming"]}
OVER = {
    "rate": {"low": 1e-3, "high": 1e-1, "log": True},
    "hidden": {"low": 4, "high": 8},
    "patterns": [2, "dense"],
}
HAMMING = METRICS.own["hamming"]
FIXED = {k: v for k, v in TINY.items() if k != "hidden"}


@pytest.fixture(autouse=True)
def few_tries(monkeypatch):
    monkeypatch.setitem(METRICS.own, "hamming", Metric(partial(hamming_distance, tries=2)))


@pytest.fixture(autouse=True)
def few_pictures(request, monkeypatch):
    """They take longer than the trainings."""
    if "file" not in request.node.name:
        monkeypatch.setattr(sweeps, "save", lambda figure, path: path.touch())
        monkeypatch.setattr(Table, "figure", lambda table: None)


def study(**search) -> rb.Study:
    return rb.Study(
        "bars4",
        fixed=FIXED,
        seeds=2,
        search={"samples": 4, "over": OVER, **search},
        measure="hamming_test",
    )


def test_ranges_are_even_or_their_logarithms_are():
    assert [Range(4, 8).at(x) for x in (0.0, 0.19, 0.21, 0.99)] == [4, 4, 5, 8]
    assert Range(1.0, 3.0).at(0.5) == 2.0
    assert math.isclose(Range(1e-4, 1e-2, log=True).at(0.5), 1e-3)
    # False alarms: six tests at 5.7 standard errors or more, 10⁻⁷ together.
    search = Search(4000, {"x": Range(1e-4, 1e-2, log=True), "n": Range(1, 4), "c": ("a", "b")})
    points = list(search.drawn(0))
    below = sum(point["x"] < 1e-3 for point in points) / 4000
    assert abs(below - 0.5) < 0.045
    for number in range(1, 5):
        assert abs(sum(point["n"] == number for point in points) / 4000 - 0.25) < 0.04
    assert abs(sum(point["c"] == "a" for point in points) / 4000 - 0.5) < 0.045


def test_rows_are_the_same_for_the_same_seed_and_more_of_them_keep_the_first():
    first, again, more = (list(study(samples=n).points()) for n in (4, 4, 6))
    assert first == again == more[:4]
    other = rb.Study("bars4", fixed={**FIXED, "seed": 1}, search={"samples": 4, "over": OVER})
    assert list(other.points()) != first
    for point in first:
        assert 1e-3 <= point["rate"][0] <= 1e-1
        assert 4 <= point["hidden"][0] <= 8
        assert point["patterns"] in (2, None)


def test_a_search_is_read_from_a_file_and_swept_as_a_grid_is(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(
        """
        dataset = "bars4"
        seeds = 2
        measure = "hamming_test"
        [fixed]
        epochs = 3
        device = "cpu"
        negative = "cd"
        metric = ["hamming"]
        [search]
        samples = 4
        [search.over]
        rate = { low = 1e-3, high = 1e-1, log = true }
        hidden = { low = 4, high = 8 }
        patterns = [2, "dense"]
        """
    )
    sweep = rb.Sweep(path, tmp_path / "swept")
    table = sweep.train()
    assert [dict(row.settings) for row in table.rows] == list(study().points())
    assert all(row.trained == 2 and math.isfinite(row.mean("hamming_test")[0]) for row in table.rows)
    assert (tmp_path / "swept" / "figure.png").stat().st_size > 1000
    told = sweep.study.as_dict()["search"]
    assert told["over"]["patterns"] == [2, "dense"]
    assert told["over"]["rate"] == {"low": 1e-3, "high": 1e-1, "log": True}
    header = (tmp_path / "swept" / "table.csv").read_text().splitlines()[0]
    assert header.startswith("rate,hidden,patterns,wanted,trained")


WRONG = {
    "no samples": ({"over": OVER}, "samples"),
    "nothing": ({"samples": 2, "over": {}}, "something to vary"),
    "upside down": ({"samples": 2, "over": {"rate": {"low": 1.0, "high": 0.1}}}, "higher high"),
    "log of 0": ({"samples": 2, "over": {"rate": {"low": 0.0, "high": 0.1, "log": True}}}, "above 0"),
    "no range": ({"samples": 2, "over": {"rate": {"low": 0.1}}}, "no range"),
    "words": ({"samples": 2, "over": {"negative": {"low": 1, "high": 2}}}, "negative"),
    "unknown": ({"samples": 2, "over": {"rte": {"low": 1, "high": 2}}}, "rate"),
    "seed": ({"samples": 2, "over": {"seed": {"low": 1, "high": 2}}}, "seed is not varied"),
    "scheduler": ({"samples": 2, "over": OVER, "scheduler": "best"}, "asha"),
    "fixed": ({"samples": 2, "over": {"epochs": [1, 2]}}, "both fixed and varied"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_search_that_is_none_says_why(name):
    search, why = WRONG[name]
    with pytest.raises(rb.InputError, match=why):
        rb.Study("bars4", fixed=FIXED, search=search)


def test_a_study_has_a_grid_or_a_search():
    with pytest.raises(rb.InputError, match="not both"):
        rb.Study("bars4", grid={"momentum": [0.1]}, fixed=FIXED, search={"samples": 1, "over": OVER})


@pytest.mark.parametrize("more", [{"scheduler": "asha"}, {"algorithm": "optuna"}])
def test_what_only_tune_can_do_is_refused_by_one_process(tmp_path, more):
    with pytest.raises(rb.InputError, match="--on ray"):
        rb.Sweep(study(**more), tmp_path / "swept").train()


def test_without_ray_the_line_that_installs_it_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr("rapidbm.errors.find_spec", lambda name: None)
    with pytest.raises(rb.InputError, match=r"pip install 'rapidbm\[ray\]'"):
        rb.Sweep(study(), tmp_path / "swept").go_on_ray()


# -- on Ray -------------------------------------------------------------------------------------------

GRID = rb.Study(
    "bars4",
    grid={"rate": [0.01, 0.05], "patterns": [2, 3]},
    fixed=TINY,
    seeds=2,
    measure="hamming_test",
    ray={"at_once": 1},
)


def asha() -> rb.Study:
    study = rb.Study(
        "bars4",
        fixed={**TINY, "epochs": 8, "batch_size": 3, "evaluate_at": "epoch", "projection": "none"},
        seeds=1,
        search={"samples": 5, "scheduler": "asha", "grace": 8, "over": {"rate": [0.1, 1e-7]}},
        measure="hamming_train",
        ray={"at_once": 1},
    )
    rates = [point["rate"][0] for point in study.points()]
    assert sorted(rates) != rates  # one that learns nothing comes after one that does
    return study


def halving(samples: int) -> rb.Study:
    return rb.Study(
        "bars4",
        fixed=FIXED,
        seeds=1,
        search={
            "samples": samples,
            "algorithm": "halving",
            "over": {
                "rate": {"low": 1e-3, "high": 0.1},
                "patterns": [2, 3],
                "hidden": {"low": 4, "high": 6},
            },
        },
        measure="hamming_train",
        ray={"at_once": 1},
    )


@contextlib.contextmanager
def restored():
    """Ray sets variables, paths and handlers, when it is imported and when it runs."""
    variables, path = dict(os.environ), list(sys.path)
    handlers = {
        number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    }
    yield
    os.environ.clear()
    os.environ.update(variables)
    sys.path[:] = path
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def ray():
    with restored():
        found = pytest.importorskip("ray")
        pytest.importorskip("ray.tune")
        yield found


@pytest.fixture(autouse=True)
def as_before():
    with restored():
        yield


@pytest.fixture(scope="module")
def cluster(ray):
    with restored():
        ray.init(
            num_cpus=1,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="error",
            object_store_memory=10**8,
        )
        yield ray
        ray.shutdown()


class Stopped(Exception):
    """The scheduler wants no more of a trial."""


@pytest.fixture
def here(ray, monkeypatch):
    """Tune without a cluster: trials one after another in this process, by the searcher and the scheduler
    that they were given."""
    from ray import tune
    from ray.tune.schedulers import TrialScheduler

    class Tuner:
        def __init__(self, trainable, *, tune_config, run_config):
            self.trainable, self.asked = trainable, tune_config
            assert run_config.failure_config.max_failures == on_ray.RETRIES
            assert tune_config.max_concurrent_trials == 1

        def fit(self):
            asked, scheduler = self.asked, self.asked.scheduler
            if scheduler is not None:
                assert scheduler.set_search_properties(asked.metric, asked.mode)
            for number in range(20):
                trial = SimpleNamespace(trial_id=str(number), config=None)
                config = asked.search_alg.suggest(trial.trial_id)
                if config == asked.search_alg.FINISHED:
                    return SimpleNamespace(errors=[])
                if scheduler is not None:
                    scheduler.on_trial_add(None, trial)
                asked.search_alg.on_trial_complete(trial.trial_id, self.trial(trial, config))
            raise AssertionError("no end of trials")

        def trial(self, trial, config):
            told = []

            def report(result):
                told.append(result)
                scheduler = self.asked.scheduler
                if scheduler is not None:
                    if scheduler.on_trial_result(None, trial, result) == TrialScheduler.STOP:
                        raise Stopped

            monkeypatch.setattr(tune, "report", report)
            with contextlib.suppress(Stopped):
                self.trainable(config)
            return told[-1]

    monkeypatch.setattr(tune, "Tuner", Tuner)
    monkeypatch.setattr(tune, "with_resources", lambda trainable, needs: trainable)
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 1.0})
    return tune


def dies_once(folder: Path):
    """The training of a batch, whose worker is gone the first time."""
    whole = on_ray.trained

    def trained(config):
        import os
        from pathlib import Path

        mark = Path(str(folder)) / "died"
        if not mark.exists():
            mark.touch()
            os._exit(1)
        whole(config)

    return trained


@pytest.mark.filterwarnings("ignore")
def test_a_grid_on_ray_has_the_table_of_one_process(cluster, tmp_path, monkeypatch):
    """And a worker that dies is tried again; what is finished is not trained twice."""
    monkeypatch.setitem(METRICS.own, "hamming", HAMMING)  # as the workers have it
    alone = rb.Sweep(GRID, tmp_path / "alone").train()
    monkeypatch.setattr(on_ray, "trained", dies_once(tmp_path))
    heard: list[str] = []
    there = rb.Sweep(GRID, tmp_path / "ray")
    found = there.go_on_ray(heard.append)
    assert (tmp_path / "died").exists()
    for one, two in zip(alone.rows, found.rows, strict=True):
        assert (dict(one.settings), dict(one.values)) == (dict(two.settings), dict(two.values))
    assert sorted(p.name for p in (tmp_path / "ray").iterdir() if not p.name.startswith(".")) == [
        "batches",
        "figure.png",
        "plan.json",
        "table.csv",
        "table.json",
    ]
    assert [line for line in heard if "training" in line] == [
        "batch 001: 4 trainings",
        "batch 002: 4 trainings",
    ]
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "ray").glob("batches/*/run.json")}
    heard.clear()
    rb.Sweep(GRID, tmp_path / "ray").go_on_ray(heard.append)
    assert not heard
    assert before == {path: path.stat().st_mtime_ns for path in before}


def some_are_stopped(folder: Path) -> None:
    """A scheduler ends what does poorly."""
    found = Sweep(asha(), folder).go_on_ray()
    assert all(row.trained == 1 for row in found.rows)
    assert 1 <= sum(row.stopped for row in found.rows) < 5
    assert "stopped early" in str(found)


def test_what_a_scheduler_stops(here, tmp_path):
    some_are_stopped(tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_what_a_scheduler_stops_on_a_cluster(cluster, tmp_path):
    some_are_stopped(tmp_path)


def rows_are_suggested(folder: Path, monkeypatch) -> None:
    """An algorithm suggests rows, which a sweep that goes on knows."""
    from ray import tune
    from ray.tune.search import Searcher

    class Halving(Searcher):
        """Suggests half of what it was told of last."""

        def __init__(self):
            super().__init__()
            self.rate, self.told = 0.16, []

        def set_search_properties(self, metric, mode, config, **spec):
            assert (metric, mode, list(config)) == ("measure", "min", ["rate", "patterns", "hidden"])
            assert {config["hidden"].sample() for _ in range(50)} == {4, 5, 6}
            assert config["patterns"].categories == [2, 3]
            return True

        def suggest(self, trial_id):
            self.rate /= 2
            return {"rate": self.rate, "patterns": 2, "hidden": 5}

        def add_evaluated_point(self, parameters, value, **more):
            self.told.append((parameters["rate"], value))
            self.rate = parameters["rate"][0]

        def on_trial_complete(self, trial_id, result=None, error=False):
            self.told.append((trial_id, result["measure"]))

    made: list[Halving] = []
    monkeypatch.setattr(tune, "create_searcher", lambda name: made.append(Halving()) or made[-1])
    for samples in (1, 2):  # a second time with one more
        table = rb.Sweep(halving(samples), folder).go_on_ray()
    assert [row.settings["rate"][0] for row in table.rows] == [0.08, 0.04]
    assert all(row.trained == 1 for row in table.rows)
    assert [len(algorithm.told) for algorithm in made] == [1, 2]


def test_rows_that_an_algorithm_suggests(here, tmp_path, monkeypatch):
    rows_are_suggested(tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_rows_that_an_algorithm_suggests_on_a_cluster(cluster, tmp_path, monkeypatch):
    rows_are_suggested(tmp_path, monkeypatch)


@pytest.mark.filterwarnings("ignore")
def test_a_search_that_is_not_installed_is_bad_input(ray, tmp_path):
    with pytest.raises(rb.InputError, match="'hebo' cannot be used"):
        rb.Sweep(study(algorithm="hebo"), tmp_path / "swept").go_on_ray()
    with pytest.raises(rb.InputError, match="'nosuch' cannot be used"):
        rb.Sweep(study(algorithm="nosuch"), tmp_path / "other").go_on_ray()
