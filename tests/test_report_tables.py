"""The page of a run on a table: rows beside real ones, copies of them, and what it says of columns."""

import json
import shutil

import numpy as np
import pytest

from rapidbm.data.mixed import from_table
from rapidbm.data.splits import held_out
from rapidbm.errors import InputError, TimeLimit
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.report import measured, rows
from rapidbm.runs.report.page import write_report
from rapidbm.runs.run import Run
from test_fidelity import people
from test_report import checked
from test_table_commands import command, write

TAG = "<b>city</b>"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    table = people(0, 200)
    table[TAG] = table.pop("city").tolist()
    table["age"] = [None if i % 9 == 0 else int(x) for i, x in enumerate(table["age"])]
    file = write(folder / "people.csv", table)
    chosen = {"hidden": (6,), "patterns": None, "epochs": 20, "rate": (0.02,), "device": "cpu"}
    run = Run.create(folder / "T", Recipe.made(str(file), chosen))
    for _ in run.go():
        pass
    return run.folder


@pytest.fixture
def run(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(measured, "SWEEPS", 20)
    monkeypatch.setattr(measured, "ROWS", 100)
    return shutil.copytree(trained, tmp_path / "T")


def kept(run):
    return json.loads((run / "report.json").read_text())["table"]


def test_the_page_has_rows_beside_real_ones(run):
    path, missing = write_report(run)
    assert not missing
    text, tree = checked(path)
    sections = [s["id"] for s in tree.of("section")]
    assert {"rows", "private", "likelihood", "fields"} < set(sections)
    assert not {"samples", "filled"} & set(sections)  # pictures of spins
    for words in (
        "Is it good? Sampled rows beside real ones",
        "100 rows of the machine after 20 Gibbs sweeps",
        "40 held-out rows",
        "0.5 by chance",
        "Is it private? Copies of training rows",
        "No sign that it copies training rows",
        "log p of training rows above held-out rows",
        "independent columns, test",
        "rows of 6 columns",
        "two values, no and yes; 0 missing",
        "integers from 30 to 79",
        "smokes=yes",  # what a hidden unit binds
        "rapidbm sample",
    ):
        assert words in tree.text, words
    assert "fair coins" not in tree.text
    assert TAG in tree.text
    assert TAG not in text
    assert text.count("data:image/png;base64,") == 3
    table = kept(run)
    assert [one["column"] for one in table["utility"]] == [c["name"] for c in table["columns"]]
    assert {one["measure"] for one in table["utility"]} == {"accuracy", "R²"}
    for column in table["columns"]:
        assert sum(column["drawn"]) == pytest.approx(1)
        assert sum(column["real"]) == pytest.approx(1)
        assert 0 < column["samples"] <= 1


def test_one_column_can_be_named(run):
    write_report(run, column="smokes")
    assert [one["column"] for one in kept(run)["utility"]] == ["smokes"]
    write_report(run)  # what was kept is of another question
    assert len(kept(run)["utility"]) == 6
    with pytest.raises(InputError, match="height"):
        write_report(run, column="height")


def test_what_was_measured_is_kept(run, monkeypatch):
    write_report(run)
    before = (run / "report.json").read_bytes()
    monkeypatch.setattr(rows, "samples", None)  # nothing is drawn again
    assert not write_report(run)[1]
    assert (run / "report.json").read_bytes() == before
    _, tree = checked(write_report(run, quick=True)[0])
    assert "No sign that it copies" in tree.text


@pytest.mark.parametrize("lost", ["drawn", "pairs", "columns"])
def test_a_cache_that_does_not_hold_together_is_passed_over(run, lost):
    write_report(run)
    path = run / "report.json"
    whole = json.loads(path.read_text())
    if lost == "drawn":
        whole["table"]["privacy"]["drawn"] = [1.0]
    elif lost == "pairs":
        whole["table"]["pairs"] = [[None]]
    else:
        whole["table"]["columns"][0]["real"] = []
    path.write_text(json.dumps(whole))
    page, _ = write_report(run, quick=True)
    _, tree = checked(page)
    assert "rows" not in [s["id"] for s in tree.of("section")]


def test_a_machine_that_copies_is_named_at_the_top(run, monkeypatch):
    def copy(machine, sampler, count, *rest):
        spins = Run(run).data().train.spins
        return spins[np.random.default_rng(0).integers(0, len(spins), count)], 7, ""

    monkeypatch.setattr(rows, "samples", copy)
    monkeypatch.setattr(measured, "ROWS", 500)
    _, tree = checked(write_report(run)[0])
    assert kept(run)["privacy"]["copies"]
    assert tree.text.count("Copies training rows: about") == 2  # at the top, and in its section
    assert any(a.get("class") == "notice fails" for a in tree.of("p"))


def test_rows_that_are_too_few_are_named(trained, tmp_path):
    file = write(tmp_path / "few.csv", people(0, 20))
    chosen = {"hidden": (2,), "patterns": None, "epochs": 1, "device": "cpu"}
    run = Run.create(tmp_path / "R", Recipe.made(str(file), chosen))
    for _ in run.go():
        pass
    _, missing = write_report(run.folder)
    assert any("held-out rows must have 10 rows or more" in line for line in missing)


def test_models_that_there_is_no_time_for_are_named_and_the_rest_is_kept(run, monkeypatch):
    real, calls = rows.of_column, []

    def slow(both, name, seed):
        calls.append(name)
        if len(calls) == 3:
            raise TimeLimit("no time was left")
        return real(both, name, seed)

    monkeypatch.setattr(rows, "of_column", slow)
    _, tree = checked(write_report(run)[0])
    assert len(kept(run)["utility"]) == 2
    names = [column["name"] for column in kept(run)["columns"]]
    assert kept(run)["left_out"] == names[2:]
    assert f"No time was left for models of {', '.join(names[2:])};" in tree.text
    write_report(run)
    assert len(kept(run)["utility"]) == 6


def test_the_command_takes_a_column(run):
    code, out, err = command("report", run, "--column", "income", "--device", "cpu")
    assert code == 0, err
    assert "everything on one page" in out
    code, _, err = command("report", run, "--column", "incomes")
    assert code == 2
    assert "did you mean 'income'" in err


# -- the cells that were read -------------------------------------------------------------------------


def test_parts_keep_the_cells_that_were_read():
    table = people(0, 100)
    data = held_out(from_table(table), 0.2, 0)
    tables = data.tables
    assert [tables[part].num_rows for part in ("train", "valid", "test")] == [64, 16, 20]
    every = sorted(x for part in tables.values() for x in part.column("weight").to_pylist())
    assert every == sorted(table["weight"].tolist())
    for part, cells in tables.items():
        values, _ = data.schema.encode(cells)
        assert (data.units.decode(data.parts[part].spins).numpy() == values).all()
    again = held_out(data, 0, 0)
    assert again.tables["train"].num_rows == 80
    values, _ = data.schema.encode(again.tables["train"])
    assert (data.units.decode(again.train.spins).numpy() == values).all()
