"""`python -m benchmarks impute`, `networks` and `synthetic`: tables, gaps, networks and scores."""

import gzip
import itertools
import math

import numpy as np
import pandas as pd
import pytest

from rapidbm.errors import InputError
from rapidbm_bench import bif, impute, networks, synthetic, tables
from rapidbm_bench.impute_methods import Filled, iterative, marginal

RAIN = """
network rain { }
variable wet { type discrete [ 2 ] { yes, no }; }
variable rain { type discrete [ 3 ] { none, some, much }; }
probability ( rain ) { table 0.5, 0.3, 0.2; }
probability ( wet | rain ) {
  (none) 0.1, 0.9;
  (some) 0.6, 0.4;
  (much) 0.95, 0.05;
}
"""


def small(rows=60, seed=0):
    """Words and numbers that go together."""
    rng = np.random.default_rng(seed)
    size = rng.normal(size=rows)
    kind = np.where(size + 0.1 * rng.normal(size=rows) > 0, "large", "small")
    return pd.DataFrame({"size": size, "kind": kind, "twice": 2 * size})


@pytest.fixture
def table(monkeypatch):
    monkeypatch.setattr(tables, "_from_sklearn", lambda name: small())


# -- networks -----------------------------------------------------------------------------------------


def test_a_network_is_the_product_of_its_tables():
    network = bif.parsed(RAIN, "rain")
    states = np.array([*itertools.product(range(2), range(3))])
    p = np.exp(network.log_p(states))
    assert p.sum() == pytest.approx(1)
    # wet and rain come in the order of the file, the parent behind its child
    wanted = [0.5 * 0.1, 0.3 * 0.6, 0.2 * 0.95, 0.5 * 0.9, 0.3 * 0.4, 0.2 * 0.05]
    assert p == pytest.approx(wanted)
    rows = network.draw(20_000, np.random.default_rng(0))
    shares = np.array([(rows == state).all(1).mean() for state in states])
    assert np.abs(shares - p).max() < 5 * math.sqrt(0.25 / 20_000)
    assert set(network.words(rows)["rain"]) == {"none", "some", "much"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("network empty { }", "no variable"),
        (RAIN.replace("[ 3 ]", "[ 4 ]"), "says 4 words and lists 3"),
        (RAIN.replace("0.5, 0.3, 0.2", "0.5, 0.3, 0.1"), "do not sum to one"),
        (RAIN.replace("  (some) 0.6, 0.4;\n", ""), "incomplete"),
        (RAIN.replace("| rain", "| snow"), "names snow"),
        (RAIN.replace("probability ( rain ) { table 0.5, 0.3, 0.2; }", ""), "no probability of rain"),
        (RAIN.replace("(some)", "(often)"), "the probabilities of wet do not fit"),
        (RAIN.replace("0.6, 0.4", "0.6, 0.4, 0.1"), "the probabilities of wet do not fit"),
    ],
)
def test_networks_that_are_none_are_refused(text, told):
    with pytest.raises(InputError, match=told):
        bif.parsed(text, "a file")


def test_a_cycle_is_refused():
    nodes = tuple(
        bif.Node(name, ("a", "b"), (parent,), np.full((2, 2), 0.5))
        for name, parent in (("x", 1), ("y", 0))
    )
    with pytest.raises(InputError, match="cycle"):
        bif.Network(nodes).order()


def test_networks_are_trained_measured_and_kept(tmp_path, monkeypatch):
    (tmp_path / "networks").mkdir()
    with gzip.open(tmp_path / "networks" / "rain.bif.gz", "wt") as file:
        file.write(RAIN)
    monkeypatch.setenv("RAPIDBM_DATA", str(tmp_path))
    monkeypatch.setattr(networks, "TEST", 500)
    words = [
        "rain",
        "--rows",
        "400",
        "--missing",
        "0.1",
        "--budget",
        "3s",
        "--out",
        str(tmp_path / "out"),
    ]
    fixed = "--epochs 5 --hidden 3 --dense --rate 0.01 --evaluate-at 20"
    found = networks.run([*words, "--options", fixed])
    (row,) = found.values()
    assert -1 < row["gap %"] < 50
    assert row["hidden"] == 3
    assert row["log p"] == pytest.approx(-row["entropy"] * (1 + row["gap %"] / 100))
    monkeypatch.setattr(networks, "command", None)  # nothing is trained again
    assert networks.run([*words, "--options", fixed]) == found
    with pytest.raises(InputError, match="snow"):
        networks.run(["snow"])
    with pytest.raises(InputError, match="takes shares from 0"):
        networks.run([*words, "--missing", "1.5"])
    monkeypatch.setenv("RAPIDBM_DATA", str(tmp_path / "out"))
    with pytest.raises(InputError, match="RAPIDBM_DATA"):
        networks.run([])


# -- gaps ---------------------------------------------------------------------------------------------


def test_cells_are_removed_at_random_and_by_a_rule():
    frame = small(4000)
    frame.loc[0, "kind"] = None
    gone = tables.holes("wine", frame, 0.3, "random", 0)
    assert not gone[0, 1]  # a gap of the table itself
    assert np.abs(gone.mean(0) - 0.3).max() < 0.04
    assert (~gone).any(1).all()
    ruled = tables.holes("wine", frame, 0.3, "rule", 0)
    assert not ruled[:, 0].any()  # the column that decides
    high = frame["size"] > 0
    assert ruled[high, 1:].mean() == pytest.approx(0.45, abs=0.05)  # ∫ 0.6 u du over u > ½, twice
    assert ruled[~high, 1:].mean() == pytest.approx(0.15, abs=0.05)
    assert not (tables.holes("wine", frame, 0.3, "random", 1) == gone).all()


def test_scores_are_shares_and_errors_in_deviations():
    frame = small()
    gone = np.zeros(frame.shape, bool)
    gone[:4, 1], gone[:4, 0] = True, True
    answer, low, high = frame.copy(), frame[["size", "twice"]] - 1, frame[["size", "twice"]] + 1
    answer.loc[0, "kind"] = "neither"
    answer.loc[:3, "size"] += 2.0
    low.loc[1, "size"] += 1.5
    found = impute.scored(frame, gone, Filled(answer, low, high))
    assert found == pytest.approx({"accuracy": 0.75, "error": 2 / frame["size"].std(), "coverage": 0.75})
    nothing = impute.scored(frame, np.zeros(frame.shape, bool), Filled(frame))
    assert nothing == {"accuracy": None, "error": None, "coverage": None}


def test_one_hot_and_back():
    frame = small()
    values, levels = tables.one_hot(frame)
    assert values.shape == (60, 3)
    assert (tables.from_one_hot(values, levels, frame.columns)["kind"] == frame["kind"]).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_others_fill_every_gap():
    gaps = small().mask(tables.holes("wine", small(), 0.3, "random", 0))
    for method in (iterative, marginal):
        full = method(gaps, 0).frame
        assert not full.isna().any(axis=None)
        assert list(full.columns) == list(gaps.columns)


def test_a_benchmark_of_gaps_is_kept_in_files(table, tmp_path, capsys):
    words = ["wine", "--draws", "2", "--removed", "0.3", "--rule", "random", "--out", str(tmp_path)]
    words += ["--methods", "iterative,marginal"]
    found = impute.run(words)
    assert set(found) == {"wine 0.3 random, iterative", "wine 0.3 random, marginal"}
    assert found["wine 0.3 random, iterative"]["error"] < found["wine 0.3 random, marginal"]["error"]
    assert len([*tmp_path.glob("*.json")]) == 4
    assert impute.run(words) == found
    impute.show(found)
    assert " ± " in capsys.readouterr().out
    for wrong, told in (
        (["zinc"], "zinc"),
        (["--removed", "2"], "between 0 and 1"),
        (["--rule", "none"], "--rule"),
        (["--methods", "best"], "method"),
        (["--draws", "0"], "--draws"),
    ):
        with pytest.raises(InputError, match=told):
            impute.run(wrong)


def test_tables_of_files_need_a_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("RAPIDBM_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"tables/penguins\.csv"):
        tables.opened("penguins")
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "penguins.csv").write_text("species,mass\nA,1\n?,2\nB,3\n")
    assert tables.opened("penguins")["species"].isna().sum() == 1
    assert len(tables.opened("penguins", 2)) == 2


# -- sampled rows -------------------------------------------------------------------------------------


def labelled(rows, seed):
    frame = small(rows, seed)
    return frame.rename(columns={"kind": "income"})


def test_sampled_rows_are_judged_by_classifiers():
    train, test = labelled(400, 0), labelled(400, 1)
    good = synthetic.judged(train, test, 0)
    assert good["accuracy"] > 0.9
    assert good["auc"] < 0.65
    shuffled = train.assign(size=train["size"].sample(frac=1, random_state=0).to_numpy())
    assert synthetic.judged(shuffled, test, 0)["auc"] > 0.9  # twice is no more twice the size


def test_a_benchmark_of_real_rows_is_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(synthetic, "opened", lambda name, rows, seed: labelled(rows, seed))
    words = ["--rows", "150", "--methods", "real", "--splits", "2", "--out", str(tmp_path)]
    found = synthetic.run(words)
    assert found["real"]["accuracy"] > 0.85
    monkeypatch.setattr(synthetic, "judged", None)
    assert synthetic.run(words) == found
    with pytest.raises(InputError, match="method"):
        synthetic.run(["--methods", "ctgan"])
