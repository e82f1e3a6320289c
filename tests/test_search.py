"""Rows drawn from ranges, and sweeps on Ray: the same study, folder and table."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import rapidbm as rb
from rapidbm.studies import on_ray
from rapidbm.studies.search import Range, Search
from rapidbm.studies.sweep import Sweep

TINY = {"hidden": 6, "epochs": 3, "device": "cpu", "negative": "cd", "metric": ["hamming"]}
OVER = {
    "rate": {"low": 1e-3, "high": 1e-1, "log": True},
    "hidden": {"low": 4, "high": 8},
    "patterns": [2, "dense"],
}
FIXED = {k: v for k, v in TINY.items() if k != "hidden"}


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
    search = Search(4000, {"x": Range(1e-4, 1e-2, log=True), "n": Range(1, 4), "c": ("a", "b")})
    points = list(search.drawn(0))
    below = sum(point["x"] < 1e-3 for point in points) / 4000
    assert abs(below - 0.5) < 0.04  # five standard errors
    for number in range(1, 5):
        assert abs(sum(point["n"] == number for point in points) / 4000 - 0.25) < 0.035
    assert abs(sum(point["c"] == "a" for point in points) / 4000 - 0.5) < 0.04


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


@pytest.fixture(scope="module")
def cluster():
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.tune")
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
        object_store_memory=10**8,
    )
    yield ray
    ray.shutdown()


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
    grid = rb.Study(
        "bars4",
        grid={"rate": [0.01, 0.05], "patterns": [2, 3]},
        fixed=TINY,
        seeds=2,
        measure="hamming_test",
    )
    alone = rb.Sweep(grid, tmp_path / "alone").train()
    monkeypatch.setattr(on_ray, "trained", dies_once(tmp_path))
    heard: list[str] = []
    there = rb.Sweep(grid, tmp_path / "ray")
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
    rb.Sweep(grid, tmp_path / "ray").go_on_ray(heard.append)
    assert not heard
    assert before == {path: path.stat().st_mtime_ns for path in before}


@pytest.mark.filterwarnings("ignore")
def test_searches_and_schedulers_of_tune(cluster, tmp_path, monkeypatch):
    """A scheduler ends what does poorly; an algorithm suggests rows, which a sweep that goes on knows."""
    from ray import tune
    from ray.tune.search import Searcher

    asha = rb.Study(
        "bars4",
        fixed={**TINY, "epochs": 20, "batch_size": 3, "evaluate_at": "epoch", "projection": "none"},
        seeds=1,
        search={"samples": 5, "scheduler": "asha", "grace": 8, "over": {"rate": [0.1, 1e-7]}},
        measure="hamming_train",
        ray={"at_once": 1},
    )
    rates = [point["rate"][0] for point in asha.points()]
    assert sorted(rates) != rates  # one that learns nothing comes after one that does
    found = Sweep(asha, tmp_path / "asha").go_on_ray()
    assert all(row.trained == 1 for row in found.rows)
    assert 1 <= sum(row.stopped for row in found.rows) < 5
    assert "stopped early" in str(found)

    class Halving(Searcher):
        """Suggests half of what it was told of last."""

        def __init__(self):
            super().__init__()
            self.rate, self.told = 0.16, []

        def set_search_properties(self, metric, mode, config, **spec):
            assert (metric, mode, list(config)) == ("measure", "min", ["rate"])
            return True

        def suggest(self, trial_id):
            self.rate /= 2
            return {"rate": self.rate}

        def add_evaluated_point(self, parameters, value, **more):
            self.told.append((parameters["rate"], value))
            self.rate = parameters["rate"][0]

        def on_trial_complete(self, trial_id, result=None, error=False):
            self.told.append((trial_id, result["measure"]))

    made: list[Halving] = []
    monkeypatch.setattr(tune, "create_searcher", lambda name: made.append(Halving()) or made[-1])
    for samples in (1, 2):  # a second time with one more
        searched = rb.Study(
            "bars4",
            fixed=TINY,
            seeds=1,
            search={
                "samples": samples,
                "algorithm": "halving",
                "over": {"rate": {"low": 1e-3, "high": 0.1}},
            },
            measure="hamming_train",
            ray={"at_once": 1},
        )
        table = rb.Sweep(searched, tmp_path / "searched").go_on_ray()
    assert [row.settings["rate"][0] for row in table.rows] == [0.08, 0.04]
    assert all(row.trained == 1 for row in table.rows)
    assert [len(algorithm.told) for algorithm in made] == [1, 2]


@pytest.mark.filterwarnings("ignore")
def test_a_search_that_is_not_installed_is_bad_input(cluster, tmp_path):
    with pytest.raises(rb.InputError, match="'hebo' cannot be used"):
        rb.Sweep(study(algorithm="hebo"), tmp_path / "swept").go_on_ray()
    with pytest.raises(rb.InputError, match="'nosuch' cannot be used"):
        rb.Sweep(study(algorithm="nosuch"), tmp_path / "other").go_on_ray()
