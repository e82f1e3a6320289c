"""Labels from the door to the prediction: columns of tables, labels of images, runs that ask for them."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import rapidbm as rb
from rapidbm.cli.main import app
from rapidbm.cli.train import with_label_named
from rapidbm.data.table_schema import TableSchema

pytestmark = pytest.mark.filterwarnings("ignore::rapidbm.FitWarning")
CALLED = CliRunner()
FEW = ("--dense", "--hidden", 6, "--negative", "pcd", "--particles", 50, "--biases", "--epochs", 25,
       "--rate", 0.05, "--batch-size", 20, "--device", "cpu")  # fmt: skip


def call(*words, code=0):
    found = CALLED.invoke(app, [str(word) for word in words])
    assert found.exit_code == code, found.output + repr(found.exception)
    return " ".join(found.output.split())


def table(path, rows=200, gaps=False):
    """`y` says whether `a` is u; every third row lacks it, where there are gaps."""
    rng = np.random.default_rng(0)
    lines = []
    for number in range(rows):
        a, b = "uvw"[rng.integers(3)], "rst"[rng.integers(3)]
        y = "" if gaps and number % 3 == 0 else "yes" if a == "u" else "no"
        lines.append(f"{a},{b},{y}")
    path.write_text("a,b,y\n" + "\n".join(lines) + "\n")
    return path


def images(path, rows=120, unlabelled=0):
    """Images of one of three bars, their number the label; −1 of the first ones."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, rows)
    pixels = rng.random((rows, 9)) < 0.1
    for i in range(3):
        pixels[np.arange(rows), 3 * labels + i] = True
    told = np.where(np.arange(rows) < unlabelled, -1, labels + 5)
    np.savez(path, samples=pixels, labels=told)
    return labels + 5


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_a_table_marks_the_column_that_is_predicted(tmp_path):
    data = rb.load(table(tmp_path / "t.csv"), labels="y")
    assert data.schema.label == "y"
    assert data.label == data.schema.unit_columns.index("y")
    told = json.loads(json.dumps(data.schema.to_json()))
    assert TableSchema.from_json(told) == data.schema
    plain = rb.load(tmp_path / "t.csv").schema
    assert "label" not in plain.to_json()
    with pytest.raises(rb.InputError, match="'z'"):
        rb.load(tmp_path / "t.csv", labels="z")
    told["label"] = "z"
    with pytest.raises(rb.InputError, match="'z'"):
        TableSchema.from_json(told)


@pytest.mark.parametrize("gaps", [False, True])
def test_a_run_predicts_its_label_without_being_told(tmp_path, gaps):
    path = table(tmp_path / "t.csv", gaps=gaps)
    out = tmp_path / "T"
    call("train", path, "--labels", "y", "--discriminative", 1, *FEW, "--out", out)
    told = call("predict", out, path, "--out", tmp_path / "p.csv")
    assert "100.0% as the file has it" in told
    found = rows_of(tmp_path / "p.csv")
    assert list(found[0]) == ["y", "p_no", "p_yes"]
    right = [("yes" if row["a"] == "u" else "no") for row in rows_of(path)]
    assert [row["y"] for row in found] == right
    call("predict", out, path, "--column", "y", "--out", tmp_path / "q.csv")
    assert (tmp_path / "q.csv").read_text() == (tmp_path / "p.csv").read_text()
    rows = rb.evaluate(out).rows
    assert rows["label_error_test"] == [0.0]
    assert -0.2 < rows["log_p_label_test"][0] < 0.0
    plain = tmp_path / "P"
    call("train", path, *FEW, "--out", plain)
    assert "--column NAME" in str(
        CALLED.invoke(app, ["predict", str(plain), str(path), "--out", "r.csv"]).exception
    )


@pytest.mark.parametrize("unlabelled", [0, 60])
def test_labels_of_images_are_one_more_unit(tmp_path, unlabelled):
    labels = images(tmp_path / "i.npz", unlabelled=unlabelled)
    data = rb.load(tmp_path / "i.npz", labels="label")
    assert data.classes == (5, 6, 7)
    assert data.visible_units == ((9, 1), (rb.Spin(), rb.Categorical(3)))
    assert data.label == 9
    codes = data.units.decode(torch.cat([data.train.spins, data.test.spins]))[:, 9]
    seen = torch.cat([data.train.labels, data.test.labels]) != -1
    assert int((~seen).sum()) == unlabelled
    order = data.order[seen]
    assert (codes[seen].numpy() + 5 == labels[order.numpy()]).all()
    assert (data.train.observed is None) == (not unlabelled)
    if unlabelled:
        columns = torch.cat([data.train.observed, data.test.observed])
        assert columns[:, :9].all()
        assert torch.equal(columns[:, 9], seen)
    out = tmp_path / "T"
    call("train", tmp_path / "i.npz", "--labels", "--discriminative", 0.5, *FEW, "--out", out)
    told = call("predict", out, tmp_path / "i.npz", "--out", tmp_path / "p.csv")
    assert "as the file has it" in told
    found = rows_of(tmp_path / "p.csv")
    assert list(found[0]) == ["label", "p_5", "p_6", "p_7"]
    assert np.mean([int(row["label"]) for row in found] == labels) > 0.95
    machine = rb.Run(out).machine()
    first = data.units.decode(data.train.spins[:1])
    p = rb.predict(machine, first, 9).probabilities[0, 0]
    number = int(data.order[0])
    assert float(found[number][f"p_{5}"]) == pytest.approx(float(p[0]), abs=1e-6)
    assert rb.evaluate(out).rows["label_error_test"][0] < 0.1


def test_named_data_predict_their_test_part(tmp_path):
    out = tmp_path / "D"
    call("train", "digits", "--labels", "--epochs", 2, *FEW[:8], "--device", "cpu", "--out", out)
    told = call("predict", out, "digits", "--out", tmp_path / "p.csv")
    assert "labels of 359 rows" in told
    assert len(rows_of(tmp_path / "p.csv")) == 359


def test_labels_may_have_nothing_after_them():
    assert with_label_named(["a", "--labels"]) == ["a", "--labels", "label"]
    assert with_label_named(["a", "--labels", "--dense"]) == ["a", "--labels", "label", "--dense"]
    assert with_label_named(["a", "--labels", "y"]) == ["a", "--labels", "y"]
    assert with_label_named(["a", "--labels=y"]) == ["a", "--labels=y"]


def test_labels_that_are_none_are_refused(tmp_path):
    with pytest.raises(rb.InputError, match="no labels"):
        rb.load("bars4", labels="label")
    with pytest.raises(rb.InputError, match="among its units already"):
        rb.load("digits-labelled", labels="label")
    with pytest.raises(rb.InputError, match="table"):
        rb.with_labels(rb.from_table({"a": ["x", "y"] * 5}))
    pixels = np.eye(6)
    np.savez(tmp_path / "one.npz", samples=pixels, labels=np.zeros(6))
    with pytest.raises(rb.InputError, match="2 to 100 classes, one has 1"):
        rb.load(tmp_path / "one.npz", labels="label")
    np.savez(tmp_path / "many.npz", samples=np.eye(101), labels=np.arange(101))
    with pytest.raises(rb.InputError, match="has 101"):
        rb.load(tmp_path / "many.npz", labels="label")
    path = tmp_path / "f.fasta"
    path.write_text(">a\nACDE\n>b\nACDF\n")
    with pytest.raises(rb.InputError, match="sequences"):
        rb.load(path, labels="label")


def test_a_discriminative_term_needs_a_label_and_a_restricted_machine(tmp_path):
    with pytest.raises(rb.InputError, match="give --labels"):
        rb.Recipe.made("digits", {"discriminative": 1.0})
    choices = {
        "labels": "label",
        "discriminative": 1.0,
        "model": "dbm",
        "hidden": (4, 4),
        "patterns": None,
    }
    recipe = rb.Recipe.made("digits", {**choices, "negative": "pcd", "biases": True})
    with pytest.raises(rb.InputError, match="restricted machine"):
        recipe.trainer(recipe.data(), torch.device("cpu"))
    images(tmp_path / "i.npz")
    out = tmp_path / "T"
    call("train", tmp_path / "i.npz", "--labels", *FEW, "--out", out)
    wrong = CALLED.invoke(app, ["predict", str(out), "bars4", "--out", str(tmp_path / "p.csv")])
    assert "images of 9 pixels" in str(wrong.exception)


def test_the_label_is_not_a_part_of_what_weights_count(tmp_path):
    data = rb.load("digits", labels="label")
    found = rb.weighted(data, np.arange(1797.0))
    assert found.classes == data.classes
    assert found.label == 64
    assert torch.equal(
        rb.with_labels(rb.weighted(rb.load("digits"), np.arange(1797.0))).train.weights,
        found.train.weights,
    )


def test_other_data_are_measured_with_their_labels(tmp_path):
    images(tmp_path / "i.npz")
    out = tmp_path / "T"
    call("train", tmp_path / "i.npz", "--labels", *FEW, "--out", out)
    np.savez(tmp_path / "j.npz", **{k: v[:40] for k, v in np.load(tmp_path / "i.npz").items()})
    found = rb.evaluate(out, tmp_path / "j.npz")
    assert found.rows["label_error_data"][0] < 0.3
    assert "log_likelihood_data" in found.rows
    labels = np.load(tmp_path / "j.npz")["labels"] - 5
    np.savez(tmp_path / "k.npz", samples=np.load(tmp_path / "j.npz")["samples"], labels=labels)
    with pytest.raises(rb.InputError, match="trained on 5, 6, 7; give data with these labels"):
        rb.evaluate(out, tmp_path / "k.npz")
