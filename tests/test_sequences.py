"""Data sets of alignments, and the commands that train on them."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import rapidbm as rb
from rapidbm.cli.main import app
from rapidbm.data import sequences
from rapidbm.data.alignments import ALPHABETS, read_alignment
from rapidbm.data.identity import Words

pytest.importorskip("Bio")
PROTEIN = ALPHABETS["protein"]
CALLED = CliRunner()


def family(path, rows=60, sites=8, seed=0, again=0):
    """Made-up sequences, the last site a copy of the first; some of them twice."""
    codes = np.random.default_rng(seed).integers(0, 21, (rows, sites))
    codes[:, -1] = codes[:, 0]
    letters = np.array(list(PROTEIN))
    texts = ["".join(letters[row]) for row in [*codes, *codes[:again]]]
    text = "".join(f">s{i}\n{one}\n" for i, one in enumerate(texts)).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
    return path


def call(*words):
    found = CALLED.invoke(app, [str(word) for word in words])
    assert found.exit_code == 0, found.output + repr(found.exception)
    return found.output


# -- data sets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.fasta", "a.fa", "a.a2m", "a.fasta.gz"])
def test_sequences_are_categorical_units(tmp_path, name):
    path = family(tmp_path / name)
    data = rb.load(path)
    assert data.name == "a"
    assert data.alphabet == PROTEIN
    assert data.visible_units == ((8,), (rb.Categorical(21),))
    assert data.columns == tuple("12345678")
    codes = data.units.decode(torch.cat([data.train.spins, data.test.spins]))
    assert (codes[data.order.argsort()].numpy() == read_alignment(path).codes).all()


def test_parts_have_no_near_twins(tmp_path):
    letters = np.array(list(PROTEIN))
    rng = np.random.default_rng(1)
    first = rng.integers(0, 21, (40, 10))
    twins = first.copy()
    twins[:, 4] = (twins[:, 4] + 1) % 21
    rows = ["".join(letters[row]) for row in [*first, *twins]]
    path = tmp_path / "twins.fasta"
    path.write_text("".join(f">{i}\n{row}\n" for i, row in enumerate(rows)))
    data = rb.load(path, valid=0.2)
    parts = [data.units.decode(split.spins).numpy() for split in data.parts.values()]
    assert sum(map(len, parts)) == 80
    assert all(len(part) >= 6 for part in parts)
    for i, one in enumerate(parts):
        for other in parts[i + 1 :]:
            words = Words.of(np.concatenate([one, other]), 0.8)
            assert not words.near(slice(0, len(one)), slice(len(one), len(one) + len(other))).any()
    apart = rb.load(path, identity=1.0)  # nothing is near: as many as asked for
    assert len(apart.test) == 16


def test_what_is_left_out_is_counted(tmp_path):
    path = family(tmp_path / "a.fasta", again=7)
    with pytest.warns(rb.DataWarning, match="7 left out: duplicates"):
        data = rb.load(path)
    assert len(data.train) + len(data.test) == 60


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("a.fasta", {"columns": "x=skip"}, "leave --columns"),
        ("a.fasta", {"alphabet": "A"}, "an alphabet is one of"),
        ("a.fasta", {"identity": 2.0}, "identity of sequences"),
        ("a.csv", {"identity": 0.5}, "is no alignment"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path, name, options, words):
    path = family(tmp_path / name) if name.endswith("fasta") else tmp_path / name
    if not path.exists():
        path.write_text("0,1\n1,0\n1,1\n")
    with pytest.raises(rb.InputError, match=words):
        rb.load(path, **options)


def test_a_family_of_one_cluster_is_refused_with_a_remedy(tmp_path):
    path = tmp_path / "a.fasta"
    path.write_text("".join(f">{i}\nACDEFGHIKL{PROTEIN[i]}\n" for i in range(1, 15)))
    with pytest.raises(rb.InputError, match="higher identity"):
        rb.load(path)


def test_many_sequences_come_with_a_word_about_the_time(tmp_path, monkeypatch):
    path = family(tmp_path / "a.fasta")
    monkeypatch.setattr(sequences, "MANY", 20)
    with pytest.warns(rb.DataWarning, match=r"compared in pairs .* \(--identity 1\)"):
        rb.load(path)
    rb.load(path, identity=1.0)  # and no warning


@pytest.mark.parametrize("told", ["A", "AA", "A\n", "A>", "A" * 65, 3, None])
def test_an_alphabet_of_a_run_is_checked(told):
    with pytest.raises(rb.InputError, match="an alphabet is"):
        sequences.check_alphabet(told)


# -- commands -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sequences")
    path = family(folder / "fam.fasta.gz", rows=40, sites=6)
    call(
        "train", path, "--model", "rbm", "--hidden", 3, "--dense", "--negative", "pcd", "--sweeps", 1,
        "--particles", 10, "--batch-size", 20, "--epochs", 2, "--out", folder / "T",
    )  # fmt: skip
    return folder / "T"


def test_a_run_keeps_the_alphabet(run):
    assert json.loads((run / "run.json").read_text())["data"]["alphabet"] == PROTEIN
    assert rb.Run(run).alphabet == PROTEIN


def test_samples_are_sequences(run, tmp_path):
    call("sample", run, "--count", 5, "--sweeps", 2, "--out", tmp_path / "new.fasta")
    found = read_alignment(tmp_path / "new.fasta", alphabet="protein", duplicates="keep")
    assert found.codes.shape == (5, 6)
    assert found.names[0] == "sample-1"
    call("sample", run, "--count", 5, "--sweeps", 2, "--out", tmp_path / "new.csv")
    rows = np.loadtxt(tmp_path / "new.csv", delimiter=",", skiprows=1)
    assert (rows == found.codes).all()


def test_evaluation_takes_other_sequences(run, tmp_path):
    other = family(tmp_path / "other.fasta", rows=5, sites=6, seed=3)
    told = json.loads(call("evaluate", run, "--data", other, "--json").splitlines()[-1])
    codes = read_alignment(other).codes.astype(int)
    expected = float(rb.log_likelihood(rb.Run(run).machine(replica=0), codes).value[0])
    assert told["log_likelihood_data"] == pytest.approx([expected])
    wrong = family(tmp_path / "wrong.fasta", rows=5, sites=7, seed=3)
    found = CALLED.invoke(app, ["evaluate", str(run), "--data", str(wrong)])
    assert "147 columns" in str(found.exception)


def test_scores_of_sequences(run, tmp_path):
    other = family(tmp_path / "other.fasta", rows=5, sites=6, seed=3)
    call("score", run, other, "--out", tmp_path / "s.csv")
    lines = [line.split(",") for line in (tmp_path / "s.csv").read_text().splitlines()]
    assert lines[0][:2] == ["name", "log_p"]
    found = read_alignment(other)
    expected = rb.log_p(rb.Run(run).machine(replica=0), found.codes.astype(int)).value[0]
    order = expected.argsort().tolist()
    assert [line[0] for line in lines[1:]] == [found.names[i] for i in order]
    np.testing.assert_allclose([float(line[1]) for line in lines[1:]], expected[order], rtol=1e-9)


def test_couplings_are_a_table_and_a_map(run, tmp_path):
    out, picture = tmp_path / "c.csv", tmp_path / "map.png"
    call("couplings", run, "--out", out, "--picture", picture)
    rows = np.genfromtxt(out, delimiter=",", names=True)
    assert len(rows) == 15
    assert (np.diff(rows["score"]) <= 0).all()
    machine = rb.Run(run).machine(replica=0)
    scores = rb.effective_couplings(machine).contacts(without=0)[0]
    i, j = (rows[name].astype(int) - 1 for name in ("i", "j"))
    np.testing.assert_allclose(rows["score"], scores[i, j], rtol=1e-9)
    assert picture.read_bytes().startswith(b"\x89PNG")
    again = CALLED.invoke(app, ["couplings", str(run), "--out", str(out)])
    assert "exists" in str(again.exception)


def test_a_scan_is_a_table_of_all_mutations_and_a_map(run, tmp_path):
    sequence = "ACD-EF"
    told = call("scan", run, sequence, "--out", tmp_path / "s.csv", "--picture", tmp_path / "s.png")
    lines = [line.split(",") for line in (tmp_path / "s.csv").read_text().splitlines()]
    assert lines[0] == ["site", "wildtype", "gap", *PROTEIN[1:]]
    assert [line[1] for line in lines[1:]] == ["A", "C", "D", "gap", "E", "F"]
    codes = [PROTEIN.index(x) for x in sequence]
    expected = rb.scan(rb.Run(run).machine(replica=0), codes)[0]
    values = np.array([[float(x) for x in line[2:]] for line in lines[1:]])
    np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-12)
    assert len(np.unique(values)) > 100
    assert (values[range(6), codes] == 0).all()
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")
    expected[range(6), codes] = -torch.inf
    site, k = divmod(int(expected.argmax()), 21)
    assert f"{sequence[site]}{site + 1}{PROTEIN[k]}: " in told.splitlines()[1]


def test_a_wildtype_comes_from_a_file_with_insertions_too(run, tmp_path):
    (tmp_path / "w.a2m").write_text(">mine\nACvvD-EF\n>other\nAAAAAA\n")
    for name, sequence in (("a", tmp_path / "w.a2m"), ("b", "ACD-EF"), ("c", "acd-ef")):
        call(
            "scan",
            run,
            sequence,
            "--out",
            tmp_path / f"{name}.csv",
            "--picture",
            tmp_path / f"{name}.png",
        )
    first = (tmp_path / "a.csv").read_text()
    assert first == (tmp_path / "b.csv").read_text() == (tmp_path / "c.csv").read_text()


@pytest.mark.parametrize(
    ("sequence", "told"), [("ACD", "6 sites"), ("ACDEFB", "site 6"), ("", "6 sites")]
)
def test_a_wildtype_that_does_not_fit_is_refused(run, tmp_path, sequence, told):
    found = CALLED.invoke(app, ["scan", str(run), sequence, "--out", str(tmp_path / "s.csv")])
    assert told in str(found.exception)
    assert not (tmp_path / "s.csv").exists()
