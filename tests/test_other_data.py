"""Machines in files and data that a run was not trained on, through the commands and in Python."""

import functools
import json
import sys

import numpy as np
import pytest
import torch

import rapidbm as rb
from rapidbm.cli.main import main
from rapidbm.data.tables import read_table, write_table
from rapidbm.runs.pretrained.packed import open_trained
from rapidbm.runs.trust import is_trusted

NAMES = ("a", "b", "c", "d", "e")
ROWS = np.random.default_rng(0).integers(0, 2, (60, 5)).astype(np.int8)
QUICK = ("--chains", 4, "--sweeps", 2, "--starts", 2)


@pytest.fixture
def command(capfd, monkeypatch, tmp_path):
    """Runs the command in an empty folder: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["rapidbm", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        return (end.value.code or 0, *capfd.readouterr())

    return run


@pytest.fixture
def folder(command, tmp_path):
    """A run on a table, another table, and a machine in a file."""
    (tmp_path / "my.csv").write_bytes(write_table(ROWS[:40], NAMES))
    (tmp_path / "other.csv").write_bytes(write_table(ROWS[40:], NAMES))
    rb.save_machine(machine(), tmp_path / "m.safetensors")
    small = ("--hidden", 3, "--dense", "--epochs", 1, "--device", "cpu", "--out", "R")
    assert command("train", "my.csv", *small)[0] == 0
    return tmp_path


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """The same, and what does not fit it, for tests that change nothing."""
    here = tmp_path_factory.mktemp("shared")
    (here / "my.csv").write_bytes(write_table(ROWS[:40], NAMES))
    (here / "other.csv").write_bytes(write_table(ROWS[40:], NAMES))
    chosen = {"hidden": (3,), "patterns": None, "epochs": 1, "device": "cpu"}
    run = rb.Run.create(here / "R", rb.Recipe.made(str(here / "my.csv"), chosen))
    for _ in run.go():
        pass
    rb.save_machine(machine(), here / "m.safetensors")
    np.save(here / "wide.npy", np.hstack([ROWS, ROWS]))
    (here / "swapped.csv").write_bytes(write_table(ROWS, NAMES[::-1]))
    (here / "empty.csv").write_bytes(b"")
    (here / "damaged.safetensors").write_bytes(b"nothing")
    return here


def machine(replicas=2):
    return rb.rbm(5, 3, biases=True, scale=0.5, replicas=replicas, seed=1)


def test_other_data_are_measured_as_they_are_and_said_to_be_others(command, folder):
    code, out, _ = command("evaluate", "R", "--data", "other.csv", "--json")
    assert code == 0
    told = json.loads(out)
    exact = rb.log_likelihood(rb.Run("R").machine(), ROWS[40:]).value
    assert told["log_likelihood_data"] == pytest.approx(exact.tolist(), rel=1e-6)
    assert "log_likelihood_test" not in told
    assert told["other_data"] == "other.csv"
    assert told["notes"][0] == "measured on other data than it was trained on: other.csv (20 rows)"
    assert not is_trusted(folder / "other.csv")
    out = command("evaluate", "R", "--data", "other.csv", "--curve")[1]
    assert "data -" in out
    assert "other data than it was trained on" in out


def test_a_moved_file_is_the_runs_own(command, folder):
    (folder / "my.csv").rename(folder / "moved.csv")
    assert command("evaluate", "R")[0] == 2
    code, out, _ = command("evaluate", "R", "--data", "moved.csv", "--json")
    assert code == 0
    assert "other_data" not in json.loads(out)
    assert "log_likelihood_test" in json.loads(out)
    assert is_trusted(folder / "moved.csv")


def test_a_file_that_changed_is_other_data(command, folder):
    (folder / "my.csv").write_bytes(write_table(ROWS[:30], NAMES))
    code, _, err = command("evaluate", "R")
    assert code == 2
    assert "--data FILE" in err
    code, out, _ = command("evaluate", "R", "--data", "my.csv", "--json")
    assert code == 0
    assert json.loads(out)["other_data"] == "my.csv"
    code, _, err = command("train", "my.csv", "--resume", "--out", "R", "--epochs", 2)
    assert code == 2  # but it is not trained on
    assert "checksum differs" in err


def test_rows_are_filled_in_in_their_order(command, folder):
    words = ("--data", "other.csv", "--clamp", "--count", 20)
    code, out, _ = command("reconstruct", "R", *words, "--out", "f.csv")
    assert code == 0
    assert "other data than it was trained on: other.csv (20 rows)" in out
    filled, names = read_table(folder / "f.csv")
    assert names == NAMES
    known = rb.load(folder / "other.csv").train.known.numpy()
    assert np.array_equal(filled[:, known], ROWS[40:][:, known])
    code, out, _ = command("sample", "R", "--start", "data", "--data", "other.csv", "--sweeps", 1)
    assert code == 0
    assert "1 sweeps from rows of other.csv" in out
    assert "measured on other data" in out


def test_files_with_parts_of_their_own_keep_them(command, folder):
    np.savez(folder / "parts.npz", train=ROWS[:9], test=ROWS[9:12], valid=ROWS[12:14])
    told = json.loads(command("evaluate", "R", "--data", "parts.npz", "--json")[1])
    parts = ("train", "test", "valid")
    assert [k for k in told if k.startswith("hamming")] == [f"hamming_{part}" for part in parts]
    assert "(train 9, test 3, valid 2 rows)" in told["notes"][0]


def test_a_machine_in_a_file(command, folder, monkeypatch):
    load = torch.tensor([0.05, 0.5])  # few points on the lines of a picture
    coarse = functools.partial(rb.boundaries, load=load)
    monkeypatch.setattr("rapidbm.runs.diagnosis.boundaries", coarse)
    told = json.loads(command("evaluate", "m.safetensors", "--json")[1])
    assert told["log_z"] == pytest.approx(rb.log_z(machine()).value.tolist(), rel=1e-6)
    assert not [k for k in told if "likelihood" in k or "hamming" in k]
    assert "name some: --data" in told["notes"][0]
    told = json.loads(command("evaluate", "m.safetensors", "--data", "other.csv", "--json")[1])
    exact = rb.log_likelihood(machine(), ROWS[40:]).value
    assert told["log_likelihood_data"] == pytest.approx(exact.tolist(), rel=1e-6)
    assert command("sample", "m.safetensors", "--count", 3, "--sweeps", 1)[0] == 0
    assert (folder / "m-samples.png").is_file()
    words = ("--data", "other.csv", "--out", "s.csv", "--sweeps", 1)
    assert command("sample", "m.safetensors", *words)[0] == 0
    assert read_table(folder / "s.csv")[1] == NAMES
    code, out, _ = command("diagnose", "m.safetensors", "--data", "other.csv", *QUICK)
    assert code == 0
    assert "measured on other.csv (20 rows)" in out
    assert "distance to the nearest training image" in out
    assert (folder / "m-landscape.png").is_file()


def test_a_machine_of_rbms(command, folder):
    rb.save_rbms(machine(1), folder / "rbms.h5")
    told = json.loads(command("evaluate", "rbms.h5", "--json")[1])
    assert told["log_z"] == pytest.approx(rb.log_z(machine(1)).value.tolist(), rel=1e-5)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("evaluate R --data wide.npy", "wide.npy has 10 columns, but R has 5 visible units"),
        ("evaluate m.safetensors --data wide.npy", "m.safetensors has 5 visible units"),
        ("evaluate R --data digits", "digits has 64 columns"),
        ("evaluate R --data swapped.csv", "number 1 is 'e', not 'a'; put them in that order"),
        ("evaluate R --data empty.csv", "holds no row of text"),
        ("reconstruct R --data nowhere.csv", "there is no file nowhere.csv"),
        ("reconstruct R --data other.csv --of test", "unknown split 'test': known are data"),
        ("reconstruct m.safetensors", "comes without data, which are needed here; name some: --data"),
        ("sample m.safetensors --start data", "comes without data"),
        ("sample m.safetensors --sampler trajectory", "has none; take --sampler pt"),
        ("sample m.safetensors --replica 2", "there is no replica 2"),
        ("evaluate m.safetensors --update 3", "leave --update out"),
        ("evaluate m.safetensors --curve", "has none; leave --curve out"),
        ("evaluate nowhere.safetensors", "there is no file nowhere.safetensors"),
        ("sample my.csv", "neither a run folder nor a file of a machine"),
        ("diagnose damaged.safetensors", "cannot be read as safetensors"),
        ("evaluate nowhere", "no run folder"),
    ],
)
def test_what_does_not_fit_is_said_in_a_line(command, shared, monkeypatch, line, told):
    monkeypatch.chdir(shared)
    code, out, err = command(*line.split())
    assert code == 2, out
    assert told in err.replace("\n", " ")


def test_evaluate_in_python(command, folder):
    told = json.loads(command("evaluate", "R", "--json", "--device", "cpu")[1])
    found = rb.evaluate("R")
    assert found.rows == {k: v for k, v in told.items() if isinstance(v, list) and k != "notes"}
    assert list(found.notes) == told["notes"]
    assert rb.evaluate(rb.Run("R")).rows == found.rows
    alone = rb.evaluate(machine(), rb.from_arrays(ROWS[40:]))
    exact = rb.log_likelihood(machine(), ROWS[40:]).value
    assert alone["log_likelihood_data"] == pytest.approx(exact.tolist(), rel=1e-6)
    for rows in (ROWS[40:], rb.Split(ROWS[40:]), ROWS[40:].tolist()):
        assert rb.evaluate(machine(), rows).rows == alone.rows
    assert "log_likelihood_data" in repr(alone)
    assert "<table>" in alone._repr_html_()
    with pytest.raises(rb.InputError, match="unknown row of this evaluation 'log_zz'"):
        alone["log_zz"]
    with pytest.raises(rb.InputError, match="64 columns"):
        rb.evaluate(machine(), "digits")
    with pytest.raises(rb.InputError, match="of an estimator take machine_"):
        rb.evaluate(rb.RapidRBM())


def test_its_own_data_are_no_others(folder):
    run = rb.Run("R")
    for same in (run.data(), "my.csv", folder / "my.csv"):
        assert open_trained(run, same).other is None
    assert open_trained(run, rb.from_arrays(ROWS)).other is not None


def test_names_of_a_stranger_stay_text(folder):
    path = folder / "R/run.json"
    said = json.loads(path.read_text())
    said["data"]["name"] = "<script>\x1b[2J"
    path.write_text(json.dumps(said))
    run = rb.Run("R")
    assert "\x1b" not in repr(run)
    assert "<script>" not in run._repr_html_()
    assert "&lt;script&gt;" in run._repr_html_()


def test_looking_at_other_data_leaves_a_run_its_own(folder):
    run = rb.Run("R")
    looked = open_trained(run, "other.csv")
    assert [*looked.parts()] == ["data"]
    assert torch.equal(looked.parts()["data"].spins, rb.to_spins(ROWS[40:]))
    assert [*run.data().parts] == ["train", "test"]
    assert run.other is None


def test_given_parts_are_in_the_order_of_the_file():
    data = rb.from_arrays(ROWS, train_labels=np.arange(60))
    whole = data.original_parts["data"]
    assert torch.equal(whole.spins, rb.to_spins(ROWS))
    assert whole.labels.tolist() == list(range(60))
    assert [*rb.from_arrays(ROWS, ROWS).original_parts] == ["train", "test"]
    assert [*rb.load("digits", valid=0.1).original_parts] == ["train", "test", "valid"]


def test_a_run_is_a_few_lines(folder):
    text = repr(rb.Run("R"))
    assert text.startswith("Run\n")
    assert "5×3, dense" in text
    assert "finished" in text
    assert "log_likelihood_test" in text
    assert len(text.splitlines()) < 15
    assert "<table>" in rb.Run("R")._repr_html_()
