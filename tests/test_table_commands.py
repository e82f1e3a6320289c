"""Commands about tables of any kind: train, evaluate, sample, impute, predict, score."""

import csv
import io
import json
import math
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import torch

import rapidbm as rb
from rapidbm.cli.main import main
from rapidbm.data.arrow import read_table
from rapidbm.data.mixed import from_table
from rapidbm.runs import evaluation, table_diagnosis
from rapidbm.runs.run import Run
from rapidbm.runs.table_diagnosis import diagnose_table
from rapidbm.runs.tables import imputed, predicted, sampled_given, scored

CITIES = ("Bonn", "Oslo", "Rome")


def command(*words):
    """Exit code, standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["rapidbm", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


def table(rows=240, gaps=True):
    """Columns that hang together: smokers live in Rome and are older."""
    rng = np.random.default_rng(0)
    smokes = rng.random(rows) < 0.5
    city = np.where(smokes & (rng.random(rows) < 0.9), "Rome", rng.choice(CITIES[:2], rows))
    age = np.where(smokes, 60, 30) + rng.integers(0, 20, rows)
    found = {
        "smokes": np.where(smokes, "yes", "no").tolist(),
        "city": city.tolist(),
        "age": age.tolist(),
        "size": (rng.normal(170, 10, rows).round(1)).tolist(),
    }
    for name in ("smokes", "city", "age") if gaps else ():
        for row in rng.choice(rows, rows // 20, replace=False):
            found[name][row] = None
    return found


def write(path, columns):
    names = list(columns)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        rows = zip(*columns.values(), strict=True)
        writer.writerows([["" if cell is None else cell for cell in row] for row in rows])
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    file = write(folder / "people.csv", table())
    options = ["--hidden", 6, "--dense", "--epochs", 60, "--rate", 0.02, "--particles", 100]
    code, out, err = command("train", file, *options, "--out", folder / "T", "--device", "cpu")
    assert code == 0, err
    assert "5 % of" not in out
    return folder, file


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_a_run_keeps_its_schema_and_is_better_than_independent_columns(trained):
    folder, _ = trained
    run = Run(folder / "T")
    assert [column.name for column in run.schema.columns] == ["smokes", "city", "age", "size"]
    code, out, _ = command("evaluate", folder / "T", "--json", "--device", "cpu")
    told = json.loads(out.strip().splitlines()[-1])
    assert code == 0
    assert told["log_likelihood_test"][0] > told["independent_columns_test"][0] + 0.3


def test_samples_come_back_as_the_same_table(trained):
    folder, _ = trained
    for ending in ("csv", "parquet"):
        path = folder / f"new.{ending}"
        assert command("sample", folder / "T", "--count", 40, "--sweeps", 50, "--out", path)[0] == 0
    found = rows_of(folder / "new.csv")
    assert list(found[0]) == ["smokes", "city", "age", "size"]
    assert {row["city"] for row in found} <= set(CITIES)
    assert all(30 <= int(row["age"]) <= 80 for row in found)
    assert pyarrow.parquet.read_table(folder / "new.parquet").schema.names == list(found[0])


def test_gaps_are_filled_and_known_cells_stay(trained):
    folder, file = trained
    code, out, _ = command("impute", folder / "T", file, "--draws", 2, "--out", folder / "full.csv")
    assert code == 0
    assert "36 gaps in 240 rows" in out
    given, parts = rows_of(file), [rows_of(folder / f"full-{i}.csv") for i in (1, 2)]
    for full in parts:
        for before, after in zip(given, full, strict=True):
            for name, cell in before.items():
                if cell and name != "size":
                    assert after[name] == cell
                assert after[name]
    assert parts[0] != parts[1]


def test_means_and_medians_of_gaps(trained):
    folder, file = trained
    machine, schema = Run(folder / "T").machine().requires_grad_(False), Run(folder / "T").schema
    given = read_table(file)
    lost = [i for i, age in enumerate(given.column("age").to_pylist()) if age is None]
    for how in ("mean", "likely"):
        (full,) = imputed(machine, schema, given, how=how, seed=0)
        (again,) = imputed(machine, schema, given, how=how, seed=0)
        assert full.equals(again)
        for row in lost:
            smokes = given.column("smokes")[row].as_py()
            if smokes is not None:  # 40 and 70 years on average
                assert (full.column("age")[row].as_py() > 52) == (smokes == "yes")


def test_a_column_is_predicted_from_the_others(trained):
    folder, file = trained
    code, out, _ = command("predict", folder / "T", file, "--column", "smokes", "--out", folder / "p.csv")
    assert code == 0
    share = float(out.partition("update ")[2].partition(", ")[2].partition("%")[0])
    assert share > 90
    found = rows_of(folder / "p.csv")
    assert all(math.isclose(float(row["p_no"]) + float(row["p_yes"]), 1.0, abs_tol=1e-9) for row in found)


def test_a_prediction_is_that_of_all_states(trained):
    """p(y | rest) from the probabilities of whole rows."""
    folder, _ = trained
    machine, schema = Run(folder / "T").machine().requires_grad_(False), Run(folder / "T").schema
    rows = {"smokes": [None] * 2, "city": ["Rome", "Oslo"], "age": [65, 33], "size": [170.0, 181.0]}
    found = predicted(machine, schema, rows, "smokes")
    logs = []
    for word in ("no", "yes"):
        values, _ = schema.encode({**rows, "smokes": [word] * 2})
        logs.append(machine.log_prob_unnormalised(torch.from_numpy(values))[0])
    wanted = torch.softmax(torch.stack(logs), 0)[1]
    assert np.allclose(found.column("p_yes").to_pylist(), wanted.numpy(), atol=1e-6)


def test_numbers_are_predicted_with_a_range(trained):
    folder, file = trained
    machine, schema = Run(folder / "T").machine().requires_grad_(False), Run(folder / "T").schema
    found = predicted(machine, schema, file, "age")
    truth = read_table(file).column("age").to_pylist()
    low, high = (found.column(f"age_{end}").to_pylist() for end in ("from", "to"))
    inside = [a <= x <= b for a, x, b in zip(low, truth, high, strict=True) if x is not None]
    assert 0.8 < np.mean(inside) <= 1.0  # 90 % ranges


def test_rows_are_scored_and_the_unusual_cell_is_named(trained):
    folder, _ = trained
    strange = {"smokes": ["no", "yes"], "city": ["Oslo", "Rome"], "age": [79, 65], "size": [170.0, 171.0]}
    file = write(folder / "strange.csv", strange)
    code, out, _ = command("score", folder / "T", file, "--out", folder / "scores.csv")
    assert code == 0
    found = rows_of(folder / "scores.csv")
    assert [row["row"] for row in found] == ["1", "2"]  # the least probable first
    assert found[0]["least_probable"] in ("age", "smokes")
    for row in found:
        assert float(row["log_p_from"]) <= float(row["log_p"]) <= float(row["log_p_to"])
    assert "row 1:" in out


def test_scores_are_densities_of_the_tables_own_numbers(trained):
    folder, _ = trained
    machine, schema = Run(folder / "T").machine().requires_grad_(False), Run(folder / "T").schema
    rows = {"smokes": ["no"], "city": ["Oslo"], "age": [33], "size": [170.0]}
    values, _ = schema.encode(rows)
    log_p = rb.log_p(machine, torch.from_numpy(values), seed=0).value[0, 0]
    found = scored(machine, schema, rows, seed=0).column("log_p")[0].as_py()
    assert found == pytest.approx(float(log_p) + schema.log_jacobian(rows)[0], abs=1e-9)


def test_rows_under_conditions_meet_them(trained):
    folder, _ = trained
    machine, schema = Run(folder / "T").machine().requires_grad_(False), Run(folder / "T").schema
    told = "smokes=no,age=70..79,city=Bonn|Oslo"
    found = sampled_given(machine, schema, told, 30, seed=0)
    rows = found.table.to_pylist()
    assert len(rows) == 30
    assert {row["smokes"] for row in rows} == {"no"}
    assert {row["city"] for row in rows} <= {"Bonn", "Oslo"}
    assert all(70 <= row["age"] <= 79 for row in rows)
    value, low, high = found.log_probability
    assert low <= value <= high < 0
    code, out, _ = command(
        "sample", folder / "T", "--given", told, "--count", 5, "--out", folder / "given.csv"
    )
    assert code == 0
    assert "the conditions have the probability" in out
    assert len(rows_of(folder / "given.csv")) == 5


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["sample", "--given", "smokes=maybe"], "maybe"),
        (["sample", "--given", "age=80..40"], "other way round"),
        (["sample", "--given", "age=old"], "holds numbers"),
        (["sample", "--given", "age=200..300"], "never seen"),
        (["sample", "--given", "height=3"], "height"),
        (["sample", "--given", "smokes"], "NAME=VALUE"),
        (["sample", "--given", "city=Bonn,city=Oslo"], "two conditions"),
        (["impute", "FILE", "--how", "guess"], "guess"),
        (["impute", "FILE", "--how", "mean", "--draws", "3"], "in one way"),
        (["predict", "FILE", "--column", "height"], "height"),
        (["impute", "OTHER"], "no column 'smokes'"),
        (["score", "UNSEEN"], "Paris"),
    ],
)
def test_bad_questions_are_refused_by_name(trained, tmp_path, words, told):
    folder, file = trained
    files = {
        "FILE": file,
        "OTHER": write(tmp_path / "other.csv", {"town": ["a", "b"], "age": [1, 2]}),
        "UNSEEN": write(
            tmp_path / "unseen.csv", {"smokes": ["no"], "city": ["Paris"], "age": [40], "size": [170.0]}
        ),
    }
    words = [files.get(word, word) for word in words]
    code, out, err = command(words[0], folder / "T", *words[1:], "--out", tmp_path / "out.csv")
    assert code == 2
    assert told in err + out
    assert not (tmp_path / "out.csv").exists()


def test_a_run_of_images_has_no_table(tmp_path):
    code, _, err = command("train", "bars4", "--epochs", 1, "--out", tmp_path / "T", "--device", "cpu")
    assert code == 0, err
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    code, out, err = command("impute", tmp_path / "T", tmp_path / "a.csv", "--out", tmp_path / "b.csv")
    assert code == 2
    assert "was not trained on a table of named columns" in out + err


def test_data_frames_train_in_python():
    data = from_table(table(gaps=False))
    counts, kinds = data.visible_units
    machine = rb.rbm(counts, 5, units=kinds, biases=True, seed=0)
    machine.start_biases(data.train)
    before = rb.log_likelihood(machine, data.train).value
    how = {"epochs": 30, "batch_size": 50, "seed": 0}
    for _ in rb.train(machine, data.train, rb.Exact(), rb.adam(0.02), **how):
        pass
    assert float(rb.log_likelihood(machine, data.train).value - before) > 0.3


# -- what is said first -------------------------------------------------------------------------------


def test_train_says_what_each_column_was_taken_for(tmp_path):
    file = write(tmp_path / "people.csv", table(60))
    code, out, err = command("train", file, "--epochs", 1, "--out", tmp_path / "T", "--device", "cpu")
    assert code == 0, err
    lines = out.splitlines()
    assert lines[:5] == [*Run(tmp_path / "T").schema.lines(), lines[4]]
    assert "smokes: two values, no and yes; 3 missing" in lines
    assert "--columns NAME=category|integer|real|skip" in lines[4]


def test_of_many_columns_train_says_how_many_of_each_kind(tmp_path):
    rng = np.random.default_rng(0)
    many = {f"n{i}": rng.normal(size=60).round(3).tolist() for i in range(12)}
    many |= {f"w{i}": rng.choice(["x", "y"], 60).tolist() for i in range(9)}
    many["w0"][7] = None
    many["same"] = [3] * 60
    file = write(tmp_path / "many.csv", many)
    code, out, err = command("train", file, "--epochs", 1, "--out", tmp_path / "T", "--device", "cpu")
    assert code == 0, err
    assert (
        "22 columns: 12 of real numbers, 9 of two values, 1 the same in all rows; 1 of 1,320 cells are "
        "missing"
    ) in out
    assert "n3:" not in out


def test_evaluate_leads_with_log_p_beside_independent_columns(trained):
    folder, _ = trained
    code, out, _ = command("evaluate", folder / "T", "--device", "cpu")
    assert code == 0
    rows = dict(line.strip().split("  ", 1) for line in out.splitlines()[1:5])
    _, told, _ = command("evaluate", folder / "T", "--json", "--device", "cpu")
    found = json.loads(told.strip().splitlines()[-1])
    log_p, alone = found["log_likelihood_test"][0], found["independent_columns_test"][0]
    assert f"{log_p:.4g} nats" in rows["log p of a test row"]
    assert rows["independent columns"].strip() == f"{alone:.4g}"
    assert rows["gain"].strip().startswith(f"{log_p - alone:.4g};")
    assert len(out.splitlines()) == 6
    assert "log_z" not in out
    code, out, _ = command("evaluate", folder / "T", "--all", "--device", "cpu")
    assert code == 0
    assert "log_z" in out
    assert "log_likelihood_test" in out


def test_diagnose_leads_with_three_sentences(trained):
    folder, _ = trained
    options = ["--chains", 20, "--sweeps", 200, "--device", "cpu"]
    code, out, err = command("diagnose", folder / "T", *options)
    assert code == 0, err
    of, *sentences = out.splitlines()
    assert of == "the last machine, update 120"
    assert len(sentences) == 3
    assert sentences[0].startswith("It has learned how columns hang together: a held-out row has ")
    assert sentences[1].startswith("Its chains ")
    assert "verfit" in sentences[2]
    code, out, _ = command("diagnose", folder / "T", *options, "--json")
    told = json.loads(out)
    assert told["sentences"] == sentences
    assert f"R-hat {told['rhat']:.3f}" in sentences[1]
    assert ("do not mix" in sentences[1]) == (told["rhat"] > 1.1)
    assert told["gain_from"] < told["gain"] < told["gain_to"]


def test_a_diagnosis_is_that_of_its_definition(trained):
    """Gain and gap by enumeration, of rows whose gaps are summed over."""
    folder, _ = trained
    run = Run(folder / "T")
    machine, data = run.machine().requires_grad_(False), run.data()
    found = diagnose_table(machine, data, chains=8, sweeps=20)
    z = rb.log_z(machine, method="exact")
    train, test = (
        rb.log_p(machine, part.spins, part.observed, normaliser=z).value[0].numpy()
        for part in (data.train, data.test)
    )
    assert found.numbers["gap"] == pytest.approx(train.mean() - test.mean())
    alone = evaluation.independent_columns(machine, data.parts)["independent_columns_test"]
    assert found.numbers["gain"] == pytest.approx(test.mean() - float(alone))
    half = 1.96 * np.hypot(train.std(ddof=1) / len(train) ** 0.5, test.std(ddof=1) / len(test) ** 0.5)
    assert found.numbers["gap_to"] - found.numbers["gap"] == pytest.approx(half, rel=1e-4)


def numbers_of(**given):
    usual = {"log_p_test": -10.0, "independent_columns": -12.0, "rhat": 1.01, "log_z_half_width": 0.0}
    for name, (low, high) in {"gain": (1.9, 2.1), "gap": (-0.1, 0.1), **given}.items():
        usual |= {name: (low + high) / 2, f"{name}_from": low, f"{name}_to": high}
    return usual


@pytest.mark.parametrize(
    ("numbers", "learned", "next_step"),
    [
        (numbers_of(), "It has learned", "It does not overfit"),
        (numbers_of(gap=(0.4, 0.6)), "It has learned", "It overfits a little"),
        (numbers_of(gap=(1.4, 1.6)), "It has learned", "It overfits: training rows have 1.50 nats"),
        (numbers_of(gain=(-0.2, 0.3)), "It is not proven", "Train for longer"),
        (
            numbers_of(gain=(-3.0, -1.0)),
            "It is worse than independent columns: a held-out row has 2.00",
            "",
        ),
        (numbers_of(gain=(-3.0, -1.0), gap=(4.0, 5.0)), "It is worse", "more --weight-decay"),
    ],
)
def test_sentences_follow_from_numbers(numbers, learned, next_step):
    assert table_diagnosis._learned(numbers).startswith(learned)
    assert next_step in table_diagnosis._overfits(numbers)


def test_chains_that_stay_where_they_start_do_not_mix():
    """Two modes far apart: half of the chains start in one alone."""
    data = from_table({"a": ["x", "y"] * 60, "b": ["x", "y"] * 60, "c": ["x", "y"] * 59 + ["x", "x"]})
    machine = rb.rbm(3, 1, biases=True, seed=0)
    for parameter in machine.couplings.parameters():
        parameter.data.fill_(6.0)
    found = diagnose_table(machine, data, chains=20, sweeps=100)
    assert found.numbers["rhat"] > 1.5
    assert "do not mix" in found.mixes
    assert "--sampler pt" in found.mixes


def test_a_table_of_bits_with_names_is_a_table(tmp_path, monkeypatch):
    """It is read bit by bit and has no schema of its own; its columns have the values 0 and 1."""
    monkeypatch.chdir(tmp_path)
    Path("bits.csv").write_text("a,b,c\n" + "0,0,1\n1,1,0\n1,1,1\n" * 30)
    chosen = ["--preset", "small", "--hidden", "4", "--dense", "--epochs", "300", "--rate", "0.02"]
    assert command("train", "bits.csv", *chosen, "--out", "T")[0] == 0
    Path("gaps.csv").write_text("a,b,c\n0,,1\n1,,\n")
    assert command("impute", "T", "gaps.csv", "--how", "likely", "--out", "full.csv")[0] == 0
    first, second = Path("full.csv").read_text().split()[1:]
    assert first == "0,0,1"
    assert second.startswith("1,1,")
    code, said, _ = command("predict", "T", "bits.csv", "--column", "a", "--out", "a.csv")
    assert code == 0
    assert "100.0% as the file has it" in said
    assert command("score", "T", "bits.csv", "--out", "scores.csv")[0] == 0
    assert len(Path("scores.csv").read_text().split()) == 91
    assert command("sample", "T", "--given", "a=1", "--count", "5", "--out", "ones.csv")[0] == 0
    assert all(line.startswith("1,") for line in Path("ones.csv").read_text().split()[1:])
    bits = Path("bits.csv").read_text()
    Path("spins.csv").write_text(bits.replace("0", "-1"))  # the same rows in the other notation
    assert command("score", "T", "spins.csv", "--out", "spin-scores.csv")[0] == 0
    assert Path("spin-scores.csv").read_text() == Path("scores.csv").read_text()
    Path("wrong.csv").write_text("a,b,c\n0,2,1\n")
    code, _, wrong = command("score", "T", "wrong.csv", "--out", "w.csv")
    assert code == 2
    assert "column 'b', row 1: 2 is not" in wrong
