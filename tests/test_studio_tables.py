"""The studio's answers about tables: columns as bars, rows under conditions, scores, gaps, and what the
columns of a file are. Their numbers are those of the commands and of the public functions."""

import csv
import io
import json
import math
import re
import shlex
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import rapidbm as rb
from rapidbm.cli.main import app
from rapidbm.data.columns import Binned, Normal, Words
from rapidbm.data.table_schema import TableSchema
from rapidbm.errors import InputError
from rapidbm.glass import verdict
from rapidbm.runs import auto_settings
from rapidbm.runs.folder import RunFolder
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run
from rapidbm.studio.work.analyses import Analyses
from rapidbm.studio.work.plain import SENTENCES, UNDECIDED, plain_verdict
from rapidbm.studio.work.queries import Queries
from rapidbm.studio.work.recipes import recipe_of
from rapidbm.studio.work.table_columns import bars_of, cell_of, held_of, round_width, shares
from rapidbm.studio.work.tables import Tables

TAG = "<img src=x onerror=alert(1)>"
MIXED = {"hidden": (6,), "patterns": None, "negative": "cd", "epochs": 4, "replicas": 1,
         "metrics": (), "projection": "none", "sweeps": 1, "rate": (0.05,)}  # fmt: skip


def written(path, reals=None):
    rows = [
        f"{'red' if i % 3 else 'blue'},{i * 0.37 % 5:.2f},{i % 2},{'abc'[i % 3]},{100 + i}"
        for i in range(60)
    ]
    rows[4] = f",1.5,1,{TAG},140"
    rows[7] = "red,,0,b,"
    rows[9] = f"red,0.5,1,{TAG},"
    path.write_text("\n".join([f"colour,length,flag,{TAG},whole", *rows]) + "\n")
    return Recipe.made(str(path), {**MIXED, **({"reals": reals} if reals else {})})


@pytest.fixture(scope="module", params=["bins", "gaussian"])
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    for _ in Run.create(folder / "run", written(folder / "table.csv", request.param)).go():
        pass
    return folder


@pytest.fixture(scope="module")
def desk(folder):
    return Tables(folder)


def ask(desk, question, **given):
    told, _ = desk.answers[question]({"machine": "run", **given})
    return json.loads(json.dumps(told, allow_nan=False))


def saved(desk, **given):
    """A file as the page saves it."""
    _, arrays = desk.file({"machine": "run", **given})
    return bytes(arrays["file"][1])


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text.decode())))


def command(*words):
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert not found.exit_code, found.output


# -- the numbers are the library's --------------------------------------------------------------------


@pytest.mark.parametrize(("held", "given"), [
    ([{"column": 0, "values": ["blue"]}], "colour=blue"),
    ([{"column": 0, "values": ["red"]}, {"column": 1, "low": 1, "high": 3}], "colour=red,length=1..3"),
    ([{"column": 4, "low": 120, "high": 139}], "whole=120..139"),
])  # fmt: skip
def test_rows_and_bars_are_those_of_the_command(folder, desk, tmp_path, held, given):
    told = ask(desk, "table", held=held)
    out = tmp_path / "rows.csv"
    command("sample", folder / "run", "--given", given, "--count", told["count"], "--out", out)
    assert saved(desk, what="samples", held=held, count=told["count"]) == out.read_bytes()
    rows = rows_of(out.read_bytes())
    for column in told["columns"]:
        cells = [row[column["name"]] for row in rows]
        assert sum(bar["share"] for bar in column["bars"]) == pytest.approx(1.0)
        for bar in column["bars"] if column["kind"] == "words" else ():
            assert bar["share"] == pytest.approx(np.mean([cell == bar["text"] for cell in cells]))
        if column["kind"] == "numbers":
            assert column["mean"][0] == pytest.approx(np.mean([float(cell) for cell in cells]), rel=1e-6)
    for one in held:
        inside = [
            bar
            for bar in told["columns"][one["column"]]["bars"]
            if bar["hold"].get("values") == one.get("values")
            and bar["hold"].get("low", -math.inf) >= one.get("low", -math.inf)
            and bar["hold"].get("high", math.inf) <= one.get("high", math.inf)
        ]
        assert sum(bar["share"] for bar in inside) > 0.97  # a draw may lie on the upper end itself


def test_the_probability_of_what_is_held_is_that_of_sample_given(folder, desk):
    machine = rb.Run(folder / "run").machine()
    schema = rb.Run(folder / "run").schema
    place = schema.unit_columns.index("colour")
    found = rb.sample_given(machine, rb.Condition(place, among=-1), 10, seed=0)
    told = ask(desk, "table", held=[{"column": 0, "values": ["blue"]}])["probability"]
    ends = (found.log_probability.value, found.log_probability.lower, found.log_probability.upper)
    assert told == pytest.approx([float(x.exp()) for x in ends], rel=1e-5)
    assert ask(desk, "table")["probability"] == [1.0, 1.0, 1.0]


def test_scores_are_those_of_the_public_function_and_of_the_command(folder, desk, tmp_path):
    run = rb.Run(folder / "run")
    values, observed = run.schema.encode(folder / "table.csv")
    found = rb.scores(run.machine(), torch.from_numpy(values), torch.from_numpy(observed), seed=0)
    log_p = found.log_p.value[0].numpy() + run.schema.log_jacobian(folder / "table.csv")
    told = ask(desk, "scores")
    order = np.argsort(log_p, kind="stable")
    assert [row["row"] for row in told["rows"]] == (order + 1).tolist()
    assert [row["log_p"][0] for row in told["rows"]] == pytest.approx(log_p[order].tolist(), rel=1e-6)
    assert told["mean"] == pytest.approx(log_p.mean(), rel=1e-6)
    names = list(dict.fromkeys(run.schema.unit_columns))
    first = told["rows"][0]
    assert first["unusual"] in names
    with_table = dict(zip(csv_names(folder), first["cells"], strict=True))
    one = ask(desk, "row", cells=[None if x is None else str(x) for x in with_table.values()])
    assert one["log_p"] == pytest.approx(first["log_p"], rel=1e-6)
    assert one["unusual"] == first["unusual"]
    assert (one["below"], one["rows"]) == (0.0, 60)
    command("score", folder / "run", folder / "table.csv", "--out", tmp_path / "scores.csv")
    assert saved(desk, what="scores") == (tmp_path / "scores.csv").read_bytes()


def csv_names(folder):
    return (folder / "table.csv").read_text().splitlines()[0].split(",")


@pytest.mark.parametrize("how", ["draw", "likely", "mean"])
def test_gaps_are_filled_as_the_command_fills_them(folder, desk, tmp_path, how):
    out = tmp_path / "filled.csv"
    command("impute", folder / "run", folder / "table.csv", "--how", how, "--out", out)
    assert saved(desk, what="filled", how=how) == out.read_bytes()
    rows = rows_of(out.read_bytes())
    told = ask(desk, "gaps", how=how)
    assert (told["gaps"], told["count"], told["of"]) == (4, 3, 60)
    assert [row["row"] for row in told["rows"]] == [5, 8, 10]
    for row in told["rows"]:
        assert None not in row["cells"]
        for name, cell, filled in zip(csv_names(folder), row["cells"], row["filled"], strict=True):
            same = rows[row["row"] - 1][name]
            assert f"{cell}" == same or float(cell) == pytest.approx(float(same), rel=1e-6)
            assert isinstance(filled, bool)
    assert told["rows"][1]["filled"] == [False, True, False, False, True]


def test_an_empty_cell_of_a_row_is_a_gap(desk):
    found = ask(desk, "row", cells=["red", "", "1", None, "130"])
    assert (found["parts"][1], found["parts"][3]) == (None, None)
    assert 0 <= found["filled"][1] <= 5
    assert found["filled"][3] in ("a", "b", "c", TAG)
    assert [found["filled"][i] for i in (0, 2, 4)] == [None] * 3
    assert ask(desk, "row", cells=[None] * 5)["unusual"] is None


# -- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "given", "told"),
    [
        ("table", {"held": [{"column": 9, "values": ["x"]}]}, "the table has 5 columns"),
        ("table", {"held": [{"column": 0, "values": ["green"]}]}, "has no value"),
        ("table", {"held": [{"column": 1, "low": 3, "high": 1}]}, "lower one first"),
        ("table", {"held": [{"column": 1}]}, "at a number or between two"),
        ("table", {"held": [{"column": 1, "low": "x"}]}, "what is held"),
        ("table", {"held": [], "seed": -1}, "a seed is"),
        ("row", {"cells": ["red"]}, "a row has 5 cells"),
        ("row", {"cells": ["green", None, None, None, None]}, "no value 'green'; it may be blue, red"),
        ("row", {"cells": [None, "long", None, None, None]}, "holds numbers, and 'long' is none"),
        ("scores", {"file": "/etc/passwd"}, "a file is one that was dropped here"),
        ("gaps", {"file": "upload:../table.csv"}, "no name of a file"),
        ("gaps", {"how": "guess"}, "way to fill gaps"),
        ("file", {"what": "samples", "count": 10**9}, "rows are 1 to 100,000"),
        ("file", {"what": "everything"}, "'everything'"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_in_words(desk, question, given, told):
    with pytest.raises(InputError, match=told):
        desk.answers[question]({"machine": "run", **given})


def test_a_machine_of_no_table_says_so(desk):
    with pytest.raises(InputError, match="not trained on a table"):
        desk.table({"machine": "specimen:retrieval"})


def test_runs_of_tables_are_listed_by_themselves(folder):
    told, _ = Queries(folder).machines({"tables": True})
    assert ([run["name"] for run in told["runs"]], told["embedded"]) == (["run"], [])
    assert Queries(folder).runs({})[0]["runs"][0]["table"] is True


# -- bars ---------------------------------------------------------------------------------------------


@given(st.floats(1e-9, 1e9))
def test_widths_are_round_and_hardly_wider_than_asked(least):
    width = round_width(least)
    assert least <= width * (1 + 1e-9) <= 2.6 * least
    assert f"{width:e}".split("e")[0].rstrip("0").rstrip(".") in ("1", "2", "5")
    assert round_width(least, whole=True) == max(1.0, width) or least <= 1


@pytest.mark.parametrize("real", ["bins", "gaussian"])
@given(st.lists(st.one_of(st.just(0), st.integers(-50, 5000)), min_size=40, max_size=80))
def test_each_number_is_in_one_bar_which_holds_it(real, numbers):
    if len(set(numbers)) < 25:
        numbers = [*numbers, *range(100, 130)]
    (column,) = TableSchema.recognise({"n": numbers}, real=real, overrides={"n": "integer"}).columns
    assert isinstance(column, Binned | Normal)
    bars = bars_of(column)
    found = shares(column, bars, numbers)
    assert sum(found) == pytest.approx(1.0)
    assert len(bars) <= 15 + len(column.atoms)
    for bar, share in zip(bars, found, strict=True):
        (asked,) = held_of([column], [{"column": 0, **bar.hold()}])
        inside = np.mean(asked.meets(numbers))
        atoms = (
            0
            if bar.values
            else np.mean([bar.low <= n <= bar.high and n in column.atoms for n in numbers])
        )
        assert share == pytest.approx(inside - atoms)


def test_cells_are_read_as_one_types_them():
    schema = TableSchema.recognise(
        {
            "word": ["Yes", "No", "Maybe"] * 20,
            "flag": [True, False, True] * 20,
            "x": [i * 0.7 for i in range(60)],
        }
    )
    word, flag, x = schema.columns
    assert isinstance(word, Words)
    assert [cell_of(word, text) for text in ("yes", " Maybe ", "", None)] == ["Yes", "Maybe", None, None]
    assert (cell_of(flag, "true"), cell_of(flag, "False")) == (True, False)
    assert cell_of(x, "3.5") == 3.5
    with pytest.raises(InputError, match="it may be Maybe, No, Yes, or empty"):
        cell_of(word, "perhaps")


# -- what the columns of a file are -------------------------------------------------------------------

DATES = 'day,size,"a,b"\n' + "".join(
    f"2020-01-{i % 28 + 1:02d},{i * 0.3:.1f},{i % 2}\n" for i in range(50)
)


@pytest.fixture
def dates(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "dates.csv").write_text(DATES)
    return Queries(tmp_path)


def test_columns_are_recognised_one_by_one_and_can_be_named(dates):
    asked = {"dataset": "upload:dates.csv"}
    day, size, comma = dates.columns(asked)[0]["columns"]
    assert "reads as dates" in day["error"]
    assert (size["is"], size["error"], size["examples"]) == ("real", "", ["0.0", "0.3", "0.6"])
    assert (comma["name"], comma["is"], comma["kinds"]) == ("a,b", "category", [])  # text cannot name it
    day, size, _ = dates.columns({**asked, "columns": "day=skip,size=category"})[0]["columns"]
    assert (day["is"], day["error"], day["wanted"]) == ("skip", "", "skip")
    assert (size["is"], size["wanted"]) == ("category", "category")
    with pytest.raises(InputError, match="no '='"):
        dates.columns({**asked, "columns": "day"})
    assert dates.columns({"dataset": "bars4"})[0] == {"columns": []}


def test_a_file_with_a_column_that_cannot_be_recognised_is_taken_in_without_it(dates):
    told, _ = dates.upload({"file": "dates.csv"})
    assert (told["dataset"], told["columns"], told["train"] + told["test"]) == ("upload:dates.csv", 2, 50)
    with pytest.raises(InputError, match="reads as dates"):
        dates.data({"dataset": "upload:dates.csv"})
    named = dates.data({"dataset": "upload:dates.csv", "columns": "day=category"})[0]
    assert named["columns"] == 3
    recipe = dates.recipe({"dataset": "upload:dates.csv", "chosen": {"columns": "day=skip"}})[0]["recipe"]
    assert recipe["columns"] == "day=skip"


# -- the same by the command, and in Python -----------------------------------------------------------

CHOICES = [
    (
        "bars4",
        {"hidden": [8], "patterns": None, "biases": True, "optimizer": "adam", "rate": 0.002},
        None,
    ),
    ("bars4", {"hidden": [9, 4], "model": "dbm", "patterns": 3, "epochs": 2, "seed": 5}, None),
    (
        "digits",
        {"hidden": [9], "biases": False, "negative": "cd", "sweeps": 3, "metrics": ["hamming"]},
        None,
    ),
    ("upload:dates.csv", {"budget": "30s", "columns": "day=skip"}, "auto"),
]


@pytest.mark.parametrize(("dataset", "chosen", "preset"), CHOICES)
def test_the_command_trains_what_the_page_would(dates, monkeypatch, dataset, chosen, preset):
    made = []

    class Enough(Exception):
        pass

    def create(folder, recipe, preset=None, **more):
        made.append((recipe, preset))
        raise Enough

    def search(recipe, fixed, **more):
        made.append((recipe, set(fixed)))
        raise Enough

    asked = {"dataset": dataset, "chosen": chosen, "preset": preset}
    told, _ = dates.words(asked)
    assert dates.check(asked)[0]["fits"]
    wanted, named = recipe_of(dates.folder, asked)
    monkeypatch.chdir(dates.folder)
    monkeypatch.setattr(Run, "create", create)
    monkeypatch.setattr(auto_settings, "find_settings", search)
    program, *words = shlex.split(told["command"])
    assert program == "rapidbm"
    assert isinstance(CliRunner().invoke(app, words).exception, Enough)
    with pytest.raises(Enough):
        exec(told["python"], {})
    for recipe, about in made:
        found = replace(recipe, dataset=str((dates.folder / recipe.dataset).resolve()))
        same = replace(wanted, dataset=str((dates.folder / wanted.dataset).resolve()))
        assert found == same
        assert about == named or about - {"shards"} == {*chosen}
    assert len(made) == 2


def test_settings_by_trials_need_a_time_and_no_more_than_a_day(dates):
    for budget, told in (
        (None, "need a time"),
        ("2000h", "a day at most"),
        ("soon", "a budget is a time"),
    ):
        chosen = {"budget": budget} if budget else {}
        with pytest.raises(InputError, match=told):
            dates.check({"dataset": "bars4", "chosen": chosen, "preset": "auto"})


# -- a machine in a sentence --------------------------------------------------------------------------


def test_every_verdict_has_a_sentence_and_no_word_of_physics():
    known = {value for name, value in vars(verdict).items() if name.isupper() and isinstance(value, str)}
    assert set(SENTENCES) == known
    for words in [*SENTENCES.values(), UNDECIDED]:
        assert not re.search(r"glass|magnet|phase|spin|ergodic|overlap|minim|Gibbs", words, re.IGNORECASE)
    assert plain_verdict("undecided: q_EA = 0.10 ± 0.01 is within …") == UNDECIDED


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"epochs": 40, "rate": (0.02,), "optimizer": "adam", "sweeps": 5}, "has learned how columns go"),
        ({"epochs": 1, "rate": (1e-9,)}, "has learned little"),
    ],
)  # fmt: skip
def test_what_was_learned_is_said_beside_independent_columns(tmp_path, settings, sentence):
    rows = [f"{'ab'[i % 2]},{'cd'[i % 2]},{'ef'[(i // 2) % 2]},{i % 3}" for i in range(400)]
    (tmp_path / "t.csv").write_text("\n".join(["p,q,r,s", *rows]) + "\n")
    chosen = {**MIXED, "metrics": ("log_likelihood",), "biases": True, **settings}
    for _ in Run.create(tmp_path / "run", Recipe.made(str(tmp_path / "t.csv"), chosen)).go():
        pass
    told = Analyses(tmp_path).learned({"machine": "run"})[0]
    assert sentence in told["sentence"]
    # p and q are the same word, r tosses a coin, s has three values: by hand
    assert told["independent"] == pytest.approx(-(3 * math.log(2) + math.log(3)), abs=0.02)
    assert told["value"] == RunFolder(tmp_path / "run").metrics()[-1]["log_likelihood_test"][0]
    assert f"{told['value']:.2f}" in told["numbers"]


def test_a_machine_without_data_or_likelihood_says_nothing_of_what_it_learned(desk, folder):
    for name in ("specimen:glass", "run"):
        assert Analyses(folder).learned({"machine": name})[0]["sentence"] == ""
