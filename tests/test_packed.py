"""Packed spins: what is written comes back, and what was not written is noticed."""

import json
import os
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

import rapidbm as rb
from rapidbm.data import packed
from rapidbm.data.packed import Incoming, Packed, chunk_rows, write_packed
from rapidbm.errors import InputError


def rows_of(file, part):
    return np.concatenate(list(file.blocks(part)))


@settings(max_examples=40, deadline=None)
@given(
    visible=st.integers(1, 40),
    counts=st.lists(st.integers(1, 60), min_size=1, max_size=3),
    labelled=st.booleans(),
    level=st.sampled_from([0, -1]),
    seed=st.integers(0, 9),
)
def test_what_is_packed_comes_back(visible, counts, labelled, level, seed, tmp_path_factory):
    path, rng = tmp_path_factory.mktemp("packed") / "a.spins", np.random.default_rng(seed)
    names = ["samples", "valid"][: len(counts)] if len(counts) < 3 else ["train", "test", "valid"]
    bits = {n: (rng.random((c, visible)) < 0.4) for n, c in zip(names, counts, strict=False)}
    labels = {n: rng.integers(-5, 5, len(b)) for n, b in bits.items()}
    parts = {
        n: Incoming(len(b), np.array_split(np.where(b, 1, level), 3), [labels[n]] if labelled else None)
        for n, b in bits.items()
    }
    before = packed.CHUNK
    packed.CHUNK = 7 * packed.bytes_of(visible)  # several chunks, the last one smaller
    try:
        sha = write_packed(path, parts, visible, (1, visible))
        file = Packed(path)
        assert file.sha256 == sha
        for name, rows in bits.items():
            assert np.array_equal(rows_of(file, name) > 0, rows)
            assert len(file.parts[name].checks) == -(-len(rows) // 7)
            if labelled:
                there = "labels" if name == "samples" else f"{name}_labels"
                assert np.array_equal(rows_of(file, there), labels[name])
    finally:
        packed.CHUNK = before


@pytest.fixture
def bits():
    return np.random.default_rng(0).random((50, 20)) < 0.4


@pytest.fixture
def small(bits, tmp_path, monkeypatch):
    """A packed file of several chunks."""
    monkeypatch.setattr(packed, "CHUNK", 8 * 3)
    np.savez(tmp_path / "a.npz", samples=bits, labels=np.arange(50), valid=bits[:9])
    rb.pack(tmp_path / "a.npz", tmp_path / "a.spins")
    return tmp_path / "a.spins"


def test_it_is_a_file_of_safetensors(small, bits):
    with safe_open(small, "np") as file:
        rows, labels = file.get_tensor("samples"), file.get_tensor("labels")
        said = json.loads(file.metadata()["rapidbm"])
    assert np.array_equal(np.unpackbits(rows, axis=1, count=20), bits)
    assert np.array_equal(labels, np.arange(50))
    assert (said["visible"], said["shape"]) == (20, [1, 20])


def test_small_ones_are_loaded_like_any_other_file(small, tmp_path):
    ours, theirs = rb.load(small), rb.load(tmp_path / "a.npz")
    for part in theirs.parts:
        assert torch.equal(ours.parts[part].spins, theirs.parts[part].spins)
    assert torch.equal(ours.train.labels, theirs.train.labels)
    assert not ours.train.on_disk


def test_tables_of_text_keep_their_names(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,c,d\n" + "1,0,1,1\n0,1,0,0\n" * 5)
    rb.pack(tmp_path / "a.csv", tmp_path / "a.spins")
    ours, theirs = rb.load(tmp_path / "a.spins"), rb.load(tmp_path / "a.csv")
    assert (ours.columns, ours.shape) == (theirs.columns, theirs.shape) == (tuple("abcd"), (1, 4))
    assert torch.equal(ours.train.spins, theirs.train.spins)
    assert rb.load(tmp_path / "a.spins", stream=True).columns == tuple("abcd")


def test_every_flipped_bit_is_noticed(small):
    """In the header, in labels, checks and rows; but for a space that fills the header up."""
    whole = small.read_bytes()
    size = int.from_bytes(whole[:8], "little")
    for where in range(len(whole)):
        changed = bytearray(whole)
        changed[where] ^= 1 << (where % 8)
        small.write_bytes(changed)
        if 8 <= where < 8 + size and whole[where] == ord(" ") and changed[where] in b"\t\n\r ":
            continue
        with pytest.raises(InputError):
            rb.load(small)


@pytest.mark.parametrize("left", [0, 4, 8, 100, 400, -1, -200])
def test_a_file_that_was_cut(small, left):
    whole = small.read_bytes()
    small.write_bytes(whole[:left])
    with pytest.raises(InputError, match="packed spins"):
        rb.load(small)


def forged(path, change):
    """The file with another header, under a checksum that agrees with it."""
    whole = path.read_bytes()
    size = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + size])
    said = json.loads(header["__metadata__"]["rapidbm"])
    parts = Packed(path).parts
    change(header, said, parts)
    said["sha256"] = packed.identity(said, parts)
    header["__metadata__"]["rapidbm"] = json.dumps(said)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + whole[8 + size :])


def claims_terabytes(header, said, parts):
    header["samples"] |= {"shape": [2**40, 3], "data_offsets": [0, 3 * 2**40]}


def claims_rows_that_overlap(header, said, parts):
    header["samples"]["data_offsets"] = [0, 151]


def claims_another_width(header, said, parts):
    said |= {"visible": 2**31, "shape": [1, 2**31]}


def claims_no_shape(header, said, parts):
    said["shape"] = [3, 7]


def claims_too_few_names(header, said, parts):
    said["columns"] = ["x"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (claims_terabytes, "samples_checks|not in the file"),
        (claims_rows_that_overlap, "not in the file"),
        (claims_another_width, "samples is"),
        (claims_no_shape, "no shape"),
        (claims_too_few_names, "1 names"),
    ],
)
def test_claims_are_held_against_the_file(small, change, words):
    forged(small, change)
    with pytest.raises(InputError, match=words):
        rb.load(small)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([[0, 1], [1, 2]], "row 2, column 2 holds 2 and others 1 and 0"),
        ([[0, 1], [1, -1]], "row 2, column 2 holds -1 and others 1 and 0"),
        ([[1.0, 1.0], [np.nan, -1.0]], "row 2, column 1 holds nan and others 1 and -1"),
        ([[0.5, 1.0], [1.0, 0.0]], "row 1, column 1 holds 0.5"),
        ([[1, 1], [1, 7]], "row 2, column 2 holds 7"),
    ],
)
def test_what_is_no_spin_is_named_by_row_and_column(values, words, tmp_path):
    np.save(tmp_path / "a.npy", np.array(values))
    with pytest.raises(InputError, match=re.escape(words)):
        rb.pack(tmp_path / "a.npy", tmp_path / "a.spins")
    assert [path.name for path in tmp_path.iterdir()] == ["a.npy"]


def test_two_levels_in_different_blocks(tmp_path):
    blocks = [np.array([[0, 1]]), np.array([[1, 1]]), np.array([[-1, 1]])]
    with pytest.raises(InputError, match="row 3, column 1 holds -1 and others 1 and 0"):
        write_packed(tmp_path / "a.spins", {"samples": Incoming(3, blocks)}, 2, (1, 2))


def test_rows_and_labels_that_do_not_come(tmp_path):
    row = np.array([[0, 1]])
    for part, words in (
        (Incoming(3, [row]), "was to have 3 rows, and 1 came"),
        (Incoming(1, [row], [np.array([1, 2])]), "1 rows of 'samples' need as many labels, not 2"),
        (Incoming(1, [np.array([[0, 1, 1]])]), "a row of 2 spins is needed, not of 3"),
    ):
        with pytest.raises(InputError, match=words):
            write_packed(tmp_path / "a.spins", {"samples": part}, 2, (1, 2))
    assert not list(tmp_path.iterdir())


def test_where_it_goes(bits, tmp_path):
    np.save(tmp_path / "a.npy", bits)
    (tmp_path / "there.spins").write_text("mine")
    for source, target, words in (
        ("a.npy", "there.spins", "exists"),
        ("a.npy", "a.bin", r"in a file \.spins"),
        ("a.npy", "none/a.spins", "no folder"),
        ("b.npy", "a.spins", "no file"),
    ):
        with pytest.raises(InputError, match=words):
            rb.pack(tmp_path / source, tmp_path / target)
    assert (tmp_path / "there.spins").read_text() == "mine"


def test_a_full_disk(bits, tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", bits)

    def full(handle):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device; make room"):
        rb.pack(tmp_path / "a.npy", tmp_path / "a.spins")
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["a.npy"]
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("Disk", (), {"free": 10**6}))
    with pytest.raises(InputError, match=r"has 0\.001 GB left"):
        rb.pack(tmp_path / "a.npy", tmp_path / "a.spins")


def test_a_chunk_is_a_mebibyte():
    assert chunk_rows(784) == 2**20 // 98
    assert chunk_rows(1_000_000) == 8
    assert chunk_rows(2**31) == 1
