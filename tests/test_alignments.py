"""Alignments: formats, alphabets, what is left out; weights and splits by identity."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rapidbm import progress
from rapidbm.data import identity as module
from rapidbm.data.alignments import ALPHABETS, read_alignment, write_fasta
from rapidbm.data.identity import Words, clusters, ones, sequence_weights, split_by_identity
from rapidbm.errors import InputError
from rapidbm.random import stream

PROTEIN = ">a\nACDEF-GHIKLMNPQRSTVWY\n>b one\nAC-EFWGHIKLM\nNPQRSTVWY\n"


def of_text(tmp_path, text, name="a.fasta", **more):
    pytest.importorskip("Bio")
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_alignment(tmp_path / name, **more)


def refused(words, function, *given, **more):
    with pytest.raises(InputError, match=words):
        function(*given, **more)


def family(name):
    pytest.importorskip("Bio")
    root = os.environ.get("RAPIDBM_DATA")
    if not root or not (Path(root) / "families" / name).is_file():
        pytest.skip("the family is not here; set RAPIDBM_DATA")
    return read_alignment(Path(root) / "families" / name)


# -- files ----------------------------------------------------------------------------------------------


def test_codes_follow_the_order_of_the_field(tmp_path):
    found = of_text(tmp_path, PROTEIN)
    assert found.alphabet == "-ACDEFGHIKLMNPQRSTVWY"
    assert found.names == ("a", "b one")
    assert found.codes.dtype == np.uint8
    assert found.codes[0].tolist() == [1, 2, 3, 4, 5, 0, *range(6, 21)]
    assert found.text() == ["ACDEF-GHIKLMNPQRSTVWY", "AC-EFWGHIKLMNPQRSTVWY"]
    assert found.lines() == ["2 sequences of 21 sites, protein (-ACDEFGHIKLMNPQRSTVWY)"]
    write_fasta(tmp_path / "b.fasta", found.text(), found.names)
    assert (read_alignment(tmp_path / "b.fasta").codes == found.codes).all()
    refused("from 0 to 20", found.text, np.array([[21]]))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.fasta.gz", gzip.compress(PROTEIN.encode(), mtime=0)),
        ("a.fa", PROTEIN.replace("\n", "\r\n")),
        ("a.a2m", PROTEIN.replace("C", "Cgg.").replace("AC-", "ACttt-", 1)),
        ("a.a3m", PROTEIN.replace("ACD", "ACgD", 1)),
        ("a.fasta", PROTEIN.replace("ACDEF-GHIKLMNPQRSTVWY", "acdef-ghiklmnpqrstvwy")
                           .replace("AC-EFWGHIKLM\nNPQRSTVWY", "ac-efwghiklm\nnpqrstvwy")),
        ("a.sto", "# STOCKHOLM 1.0\na ACDEF.GHIKLM\nb AC-EFWGHIKLM\n\na NPQRSTVWY\nb NPQRSTVWY\n//\n"),
    ],
)  # fmt: skip
def test_formats(tmp_path, name, text):
    assert (of_text(tmp_path, text, name).codes == of_text(tmp_path, PROTEIN, "b.fasta").codes).all()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (">a\nACGU-\n>b\nACGUA\n", "rna"),
        (">a\nACGT-\n>b\nACGNN\n>c\nACG-A\n", "dna"),
        (PROTEIN, "protein"),
    ],
)
def test_alphabets_are_what_the_letters_say(tmp_path, text, kind):
    assert of_text(tmp_path, text).alphabet == ALPHABETS[kind]


def test_alphabets_on_request(tmp_path):
    found = of_text(tmp_path, ">a\nAB\n>b\nB-\n", alphabet="-AB")
    assert found.codes.tolist() == [[1, 2], [2, 0]]
    assert found.lines()[0].endswith("symbols (-AB)")
    assert of_text(tmp_path, ">a\nACA\n>b\nAAC\n", alphabet="protein").alphabet == ALPHABETS["protein"]
    for words in ("-AA", "x"):
        refused(
            "an alphabet is one of protein, rna, dna, or 2 to 64",
            of_text,
            tmp_path,
            PROTEIN,
            alphabet=words,
        )


MESSY = ">a\nMKVWY\n>b\nMKXWY\n>c\nMKVWY\n>d\n-----\n>e\nMKVW\n>f\nMK-WY\n"


def test_what_is_left_out_is_counted(tmp_path):
    found = of_text(tmp_path, MESSY, lengths="drop")
    assert found.names == ("a", "f")
    assert found.lines()[1:] == [
        "1 left out: another length",
        "1 left out: unknown symbols",
        "1 left out: nothing but gaps",
        "1 left out: duplicates",
    ]
    kept = of_text(tmp_path, MESSY, lengths="drop", unknown="gap", duplicates="keep")
    assert kept.names == ("a", "b", "c", "f")
    assert kept.text()[1] == "MK-WY"
    refused(r"sequence 5 \('e'\) has 4 sites, 5 of 6 have 5; align them", of_text, tmp_path, MESSY)
    refused(
        r"sequence 2 \('b'\), site 3: 'X' is none of",
        of_text,
        tmp_path,
        MESSY,
        lengths="drop",
        unknown="refuse",
    )
    refused(
        r"sequence 3 \('c'\) occurs before",
        of_text,
        tmp_path,
        MESSY.replace("MKVW\n", "MKVWW\n"),
        duplicates="refuse",
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("no alignment\n", "holds no sequence|cannot be read as an alignment"),
        (b"\x00\x01\x02" * 99, "holds the character 0"),
        (">a\nACDEF\n", "must hold two different sequences or more; 1 sequences of 5 sites"),
        (">a\nACDEF\n>b\nACDEF\n", "two different sequences or more.*1 left out: duplicates"),
        (">a\n-----\n>b\n-----\n", "two different sequences or more.*2 left out: nothing but gaps"),
        (">a\nAACT\n>b\nAACU\n", "must have one alphabet, and has T .of DNA. 1 times and U"),
        (PROTEIN + ">c\nACGTACGTACGTACGT-----\n" + PROTEIN * 2, r"sequence 3 \('c'\) is of nucleotides"),
        (">a\n\n>b\n\n", "must have 1 to 20,000 sites, not 0"),
        (">a\nMÜ\n>b\nMK\n", r"sequence 1 \('a'\) must be letters of ASCII"),
    ],
)
def test_files_that_are_no_alignment(tmp_path, text, words):
    refused(words, of_text, tmp_path, text)


def test_endings(tmp_path):
    pytest.importorskip("Bio")
    refused("has the ending '.csv'; an alignment is .fasta", read_alignment, tmp_path / "a.csv")
    refused("there is no file", read_alignment, tmp_path / "a.fasta")
    refused("cannot be read as an alignment", of_text, tmp_path, "no Stockholm", "a.sto")
    refused("unknown way with duplicates", of_text, tmp_path, PROTEIN, duplicates="merge")


def test_a_gzip_bomb(tmp_path, monkeypatch):
    monkeypatch.setattr("rapidbm.data.text_files.SMALL", 2**20)
    refused(
        "unpacks to more than 200 times",
        of_text,
        tmp_path,
        gzip.compress(b">a\n" + b"A" * 2**23, mtime=0),
        "a.fa.gz",
    )


# -- identity -------------------------------------------------------------------------------------------


def sequences(count, sites, states, seed=0):
    """Some families of their own, with more and less distant members."""
    rng = np.random.default_rng(seed)
    centres = rng.integers(0, states, (5, sites))
    other = rng.random((count, sites)) < rng.random((count, 1)) * 0.6
    return np.where(other, rng.integers(0, states, (count, sites)), centres[rng.integers(0, 5, count)])


def near_pairs(codes, identity):
    """Brute force, in whole numbers: 100 · agreeing sites > 100 · identity · sites."""
    agreeing = (codes[:, None] == codes[None]).sum(2)
    return 100 * agreeing > round(100 * identity) * codes.shape[1]


@pytest.mark.parametrize("states", [2, 5, 21, 40])
@pytest.mark.parametrize("sites", [1, 50, 64, 65, 200])
@pytest.mark.parametrize("identity", [0.2, 0.5, 0.8])
def test_weights_are_those_of_brute_force(states, sites, identity):
    codes = sequences(150, sites, states)
    near = near_pairs(codes, identity)
    assert 0 < near.mean() <= 1
    np.testing.assert_array_equal(sequence_weights(codes, identity=identity), 1 / near.sum(1))


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (7, 7), (32, 40), (500, 500), (40, 3)])
def test_blocks_count_each_pair_once(monkeypatch, rows, columns):
    monkeypatch.setattr(module, "ROWS", rows)
    monkeypatch.setattr(module, "COLUMNS", columns)
    codes = sequences(123, 60, 21, seed=1)
    near = near_pairs(codes, 0.7)
    np.testing.assert_array_equal(sequence_weights(codes, identity=0.7), 1 / near.sum(1))


def test_a_tie_is_not_near_and_a_sequence_is_near_itself():
    codes = np.zeros((2, 50), int)
    codes[1, :10] = 1  # they agree at 40 of 50 sites, which is 80 %
    assert sequence_weights(codes, identity=0.8).tolist() == [1, 1]
    assert sequence_weights(codes, identity=0.79).tolist() == [0.5, 0.5]
    assert sequence_weights(np.zeros((3, 5), int), identity=1.0).tolist() == [1, 1, 1]


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 40), st.integers(1, 90), st.integers(2, 30), st.integers(0, 99), st.integers(1, 99))
def test_any_near_pairs_are_those_of_brute_force(count, sites, states, seed, percent):
    codes = sequences(count, sites, states, seed)
    words = Words.of(codes, percent / 100)
    everything = np.arange(count)
    np.testing.assert_array_equal(words.near(everything, everything), near_pairs(codes, percent / 100))


@pytest.mark.parametrize("pairs", [10, 2**23])
def test_clusters_are_those_of_a_graph(monkeypatch, pairs):
    monkeypatch.setattr(module, "PAIRS", pairs)
    from scipy.sparse.csgraph import connected_components

    codes = sequences(300, 40, 21, seed=2)
    near = near_pairs(codes, 0.75)
    count, expected = connected_components(near, directed=False)
    found = clusters(codes, identity=0.75)
    assert 5 < count < 300
    assert found.max() + 1 == count
    assert len({*zip(found.tolist(), expected.tolist(), strict=True)}) == count
    assert (np.diff(np.unique(found, return_index=True)[1]) > 0).all()  # in the order of first sequences


def test_no_test_sequence_is_near_a_training_sequence():
    codes = sequences(400, 40, 21, seed=3)
    train, test = split_by_identity(codes, stream(0), share=0.25, identity=0.75)
    assert sorted([*train, *test]) == list(range(400))
    assert 50 <= len(test) <= 100
    assert not near_pairs(codes, 0.75)[np.ix_(train, test)].any()
    again = split_by_identity(codes, stream(0), share=0.25, identity=0.75)[1]
    other = split_by_identity(codes, stream(1), share=0.25, identity=0.75)[1]
    assert (again == test).all()
    assert set(other) != set(test)
    refused(
        "400 of 400 sequences are in one at an identity of 0.01",
        split_by_identity,
        codes,
        stream(0),
        identity=0.01,
    )


def test_ones_are_counted_by_old_versions_of_numpy_too(monkeypatch):
    words = np.random.default_rng(0).integers(0, 2**64, 1000, np.uint64)
    expected = [int(word).bit_count() for word in words]
    assert ones(words).tolist() == expected
    if hasattr(np, "bitwise_count"):
        monkeypatch.delattr(np, "bitwise_count")
    assert ones(words).tolist() == expected


@pytest.mark.parametrize(
    "codes", [np.zeros(3, int), np.zeros((0, 3), int), np.zeros((2, 2)), np.full((2, 2), 300)]
)
def test_codes_that_are_none(codes):
    refused("sequences are whole numbers|from 0 to 255", sequence_weights, codes)


def test_identities_that_are_none():
    for wrong in (0, 1.5, float("nan"), "0.8"):
        refused(
            "identity of sequences must be above 0 and at most 1",
            sequence_weights,
            np.eye(3, dtype=int),
            identity=wrong,
        )


# -- families -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "sites", "count"),
    [("PF00014", 53, 8871), ("WW", 31, 7503), ("lattice-proteins", 27, 46_265)],
)
def test_families_that_people_use(name, sites, count):
    found = family(f"{name}.fasta.gz")
    assert found.alphabet == ALPHABETS["protein"]
    assert found.codes.shape[1] == sites
    assert len(found.codes) == count
    codes = found.codes[:10_000]
    weights = sequence_weights(codes)
    rows = np.random.default_rng(0).choice(len(codes), 50, replace=False)
    near = 100 * (codes[rows][:, None] == codes).sum(2) > 80 * sites
    np.testing.assert_array_equal(weights[rows], 1 / near.sum(1))
    assert 0.1 < weights.sum() / len(weights) <= 1


def test_pairs_that_are_compared_are_counted(monkeypatch):
    told = []
    monkeypatch.setattr(progress, "SILENT", 0.0)
    monkeypatch.setattr(progress, "FRAMES", 0.0)
    monkeypatch.setattr(progress, "clock", iter(range(10**6)).__next__)
    codes = sequences(200, 40, 21, seed=2)
    for function in (clusters, sequence_weights):
        with progress.telling(lambda line, share: told.append((line, share))):
            function(codes)
        lines, shares = zip(*told, strict=True)
        assert all("comparing pairs of sequences" in line and "20,100" in line for line in lines)
        assert len(told) > 3
        assert list(shares) == sorted(shares)
        assert shares[-1] == 1
        told.clear()


def test_at_an_identity_of_1_no_pairs_are_compared(monkeypatch):
    monkeypatch.setattr(Words, "near", None)
    codes = sequences(100, 40, 21, seed=2)
    assert clusters(codes, identity=1.0).tolist() == list(range(100))
    assert (sequence_weights(codes, identity=1.0) == 1).all()


def test_symbols_that_leave_nothing_are_named(tmp_path):
    refused(r"unknown symbols, most often '\*' '1'", of_text, tmp_path, ">a\nAC*\n>b\nAD*\n>c\nA1C\n")
