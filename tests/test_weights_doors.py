"""Weights of rows from files, columns and identity, and the runs that train by them."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import rapidbm as rb
from rapidbm.cli.main import app
from rapidbm.data.alignments import ALPHABETS, read_alignment
from rapidbm.data.identity import sequence_weights

CALLED = CliRunner()


def call(*words, code=0):
    found = CALLED.invoke(app, [str(word) for word in words])
    assert found.exit_code == code, found.output + repr(found.exception)
    return " ".join(found.output.split())


def table(path, rows=40):
    rng = np.random.default_rng(0)
    cells = [
        f"{'fm'[rng.integers(2)]},{rng.integers(3)},{rng.integers(4)},{rng.integers(5) / 2}"
        for _ in range(rows)
    ]
    path.write_text("\n".join(["sex,kind,group,w", *cells]) + "\n")
    return path, np.array([float(line.split(",")[-1]) for line in cells])


def family(path, rows=60):
    rng = np.random.default_rng(0)
    codes = rng.integers(1, 21, (rows, 10))
    codes[40:] = codes[:20]  # twins but for a site
    codes[40:, 3] = codes[:20, 3] % 20 + 1
    letters = np.array(list(ALPHABETS["protein"]))
    path.write_text("".join(f">{i}\n{''.join(letters[row])}\n" for i, row in enumerate(codes)))
    return path


def in_order(data):
    return torch.cat([data.train.weights, data.test.weights])[data.order.argsort()].numpy()


def test_a_column_of_weights_is_no_unit(tmp_path):
    path, weights = table(tmp_path / "t.csv")
    data = rb.load(path, weights="w")
    assert np.array_equal(in_order(data), weights)
    assert data.columns == ("sex", "kind", "group")
    assert "column w" in data.weighted
    assert f"{weights.sum() ** 2 / (weights**2).sum():.1f} effective rows of 40" in data.weighted
    again = data.schema.encode(path)[0]  # the table still fits with the column there
    assert len(again) == 40
    assert torch.equal(rb.from_table(path, weights="w").train.weights, data.train.weights)
    assert rb.load(path, weights="none").train.weights is None
    held = rb.load(path, weights="w", valid=0.25)
    assert len(held.valid.weights) == len(held.valid) == 8


@pytest.mark.parametrize("ending", [".npy", ".csv", ".txt"])
def test_a_file_of_weights_goes_with_the_rows(tmp_path, ending):
    weights = np.arange(30) / 7.0
    file = tmp_path / f"w{ending}"
    if ending == ".npy":
        np.save(file, weights)
    else:
        name = "weight\n" if ending == ".csv" else ""
        file.write_text(name + "\n".join(map(repr, weights.tolist())) + "\n")
    bits = np.random.default_rng(0).integers(0, 2, (30, 6))
    np.save(tmp_path / "rows.npy", bits)
    np.savetxt(tmp_path / "bits.csv", bits, fmt="%d", delimiter=",")
    for name in ("rows.npy", "bits.csv"):
        data = rb.load(tmp_path / name, weights=str(file))
        assert np.allclose(in_order(data), weights)
        rows = torch.cat([data.train.spins, data.test.spins])[data.order.argsort()]
        assert np.array_equal(rows.numpy() > 0, bits > 0)


def test_weights_of_data_with_parts_of_their_own_are_for_all_parts():
    data = rb.from_arrays(np.eye(4), np.eye(4)[:2], np.eye(4)[:1])
    found = rb.weighted(data, [1, 2, 3, 4, 5, 6, 7])
    assert found.train.weights.tolist() == [1, 2, 3, 4]
    assert found.test.weights.tolist() == [5, 6]
    assert found.valid.weights.tolist() == [7]


@pytest.mark.parametrize(
    ("told", "text", "words"),
    [
        ("nothing", None, "no column of weights 'nothing'|column of weights"),
        ("sex", None, "not a number|number"),
        ("w.txt", "1\n2\n", r"\(40,\)"),
        ("w.txt", "1\nx\n", "row 2: a weight is a number, not 'x'"),
        ("w.txt", "0\n" * 40, "must not all be 0"),
        ("w.txt", "1\n" * 39 + "-1\n", "row 39 is -1"),
        ("w.txt", "1\n" * 39 + "nan\n", "row 39 is nan"),
    ],
)
def test_wrong_weights_are_refused(tmp_path, monkeypatch, told, text, words):
    path, _ = table(tmp_path / "t.csv")
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / told).write_text(text)
    with pytest.raises(rb.InputError, match=words):
        rb.load(path, weights=told)


def test_a_gap_in_the_column_is_refused_and_arrays_have_no_columns(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,w\n" + "x,y,1\n" + "y,x,\n" * 5)
    with pytest.raises(rb.InputError, match="row 2: the weight is missing"):
        rb.load(path, weights="w")
    np.save(tmp_path / "r.npy", np.eye(5))
    with pytest.raises(rb.InputError, match="no file of weights 'w'"):
        rb.load(tmp_path / "r.npy", weights="w")
    with pytest.raises(rb.InputError, match="weights"):
        rb.load("bars4", weights="w")


def test_sequences_count_by_identity(tmp_path):
    pytest.importorskip("Bio")
    path = family(tmp_path / "f.fasta")
    data = rb.load(path)
    wanted = sequence_weights(read_alignment(path).codes, identity=0.8)
    assert np.array_equal(in_order(data), wanted)
    assert wanted.sum() == 40.0
    assert data.weighted == "weights of sequences at 80% identity, M_eff 40.0 of 60 sequences"
    assert "M_eff 60.0" in rb.load(path, identity=0.95).weighted
    plain = rb.load(path, weights="none")
    assert plain.train.weights is None
    assert plain.weighted == ""
    with pytest.raises(rb.InputError, match="neither"):
        rb.load(path, weights="w")


def test_a_file_of_weights_of_sequences_may_count_what_is_left_out(tmp_path):
    pytest.importorskip("Bio")
    path = family(tmp_path / "f.fasta")
    text = path.read_text().split(">")[1:]
    twice = ">" + ">".join([text[0], text[0], *text[1:]])  # the second is dropped
    path.write_text(twice)
    np.save(tmp_path / "w.npy", np.arange(61.0))
    with pytest.warns(rb.DataWarning, match="1 left out"):
        data = rb.load(path, weights=str(tmp_path / "w.npy"))
    kept = [0, *range(2, 61)] if in_order(data)[0] == 0 else [1, *range(2, 61)]
    assert in_order(data).tolist() == kept
    np.save(tmp_path / "w.npy", np.arange(60.0))
    with pytest.warns(rb.DataWarning, match="1 left out"):
        data = rb.load(path, weights=str(tmp_path / "w.npy"))
    assert in_order(data).tolist() == list(range(60))


FEW = ("--dense", "--hidden", 3, "--negative", "exact", "--epochs", 3, "--device", "cpu")


def test_a_run_trains_by_weights_and_says_so(tmp_path):
    path, _ = table(tmp_path / "t.csv")
    out = tmp_path / "T"
    told = call("train", path, "--weights", "w", "--biases", *FEW, "--out", out)
    assert "weights of column w" in told
    info = json.loads((out / "run.json").read_text())
    assert "effective rows of 40" in info["data"]["weighted"]
    run = rb.Run(out)
    machine, data = run.machine(), run.data()
    found = rb.evaluate(run)
    z = rb.log_z(machine, method="exact")
    each = rb.log_p(machine, data.test.spins, normaliser=z).value[0]
    own = data.test.weights
    wanted = float((each * own).sum() / own.sum())
    assert found["log_likelihood_test"][0] == pytest.approx(wanted, abs=1e-5)
    assert any("by the weights of rows" in note for note in found.notes)
    last = run.metrics()[-1]
    assert last["log_likelihood_test"][0] == pytest.approx(wanted, abs=1e-5)
    plain = tmp_path / "P"
    call("train", path, "--columns", "w=skip", "--biases", *FEW, "--out", plain)
    other = rb.Run(plain).machine()
    assert not torch.equal(machine.biases, other.biases)


def test_a_run_goes_on_with_a_file_of_weights_from_elsewhere(tmp_path, monkeypatch):
    table(tmp_path / "t.csv")
    (tmp_path / "w.txt").write_text("".join(f"{i % 3}\n" for i in range(40)))
    monkeypatch.chdir(tmp_path)
    options = ("--columns", "w=skip", "--weights", "w.txt", "--biases", *FEW)
    call("train", "t.csv", *options, "--out", "T")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    call("train", "--resume", "--out", tmp_path / "T", "--epochs", 5)
    (tmp_path / "w.txt").write_text("1\n2\n" * 20)
    with pytest.raises(rb.InputError, match="checksum"):
        rb.Run(tmp_path / "T").data()


def test_a_strangers_run_reads_no_file_of_weights(tmp_path):
    path, _ = table(tmp_path / "t.csv")
    call("train", path, "--columns", "w=skip", "--biases", *FEW, "--out", tmp_path / "T")
    secret = tmp_path / "secret.txt"
    secret.write_text("1\n" * 40)
    said = json.loads((tmp_path / "T" / "run.json").read_text())
    said["recipe"]["weights"] = str(secret)
    (tmp_path / "T" / "run.json").write_text(json.dumps(said))
    with pytest.raises(rb.InputError, match="never used by you here"):
        rb.Run(tmp_path / "T").data()


def test_sequences_train_by_weights(tmp_path):
    pytest.importorskip("Bio")
    path = family(tmp_path / "f.fasta")
    options = ("--model", "rbm", "--dense", "--hidden", 2, "--negative", "pcd", "--particles", 10)
    options = (*options, "--biases", "--epochs", 2, "--device", "cpu")
    told = call("train", path, *options, "--out", tmp_path / "T")
    assert "M_eff 40.0 of 60 sequences" in told
    call("train", path, *options, "--weights", "none", "--out", tmp_path / "P")
    one, other = (rb.Run(tmp_path / name).machine() for name in "TP")
    assert not torch.equal(one.biases, other.biases)
    assert "effective" in call("evaluate", tmp_path / "T")
