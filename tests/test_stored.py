"""Splits whose rows stay on disk: the same rows however they are stored, each in one part, and bounded
memory."""

import json
import os
import shutil

import numpy as np
import pytest
import torch

import rapidbm as rb
from rapidbm.data import converted, files, packed, stored
from rapidbm.data.stored import HoldOut, Stored, surveyed
from rapidbm.errors import DataWarning, InputError
from rapidbm.runs.folder import checksum

ROWS, VISIBLE = 1000, 20


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(packed, "CHUNK", 64 * 3)  # 64 rows
    return tmp_path / "cache" / "rapidbm" / "packed"


@pytest.fixture
def bits():
    """Rows that are all different: the first ten columns count them."""
    rng = np.random.default_rng(0)
    count = (np.arange(ROWS)[:, None] >> np.arange(10)) & 1
    return np.hstack([count, rng.random((ROWS, VISIBLE - 10)) < 0.4]).astype(np.int8)


@pytest.fixture
def folder(bits, tmp_path):
    """The same rows in every kind of file."""
    import h5py
    import pyarrow
    import pyarrow.parquet
    import zarr

    labels = np.arange(ROWS)
    np.save(tmp_path / "a.npy", bits)
    np.savez_compressed(tmp_path / "a.npz", samples=np.where(bits, 1, -1), labels=labels)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("samples", data=bits.astype(np.float32), chunks=(33, VISIBLE), compression=1)
        file["labels"] = labels
    for version in (2, 3):
        group = zarr.open_group(tmp_path / f"a{version}.zarr", mode="w", zarr_format=version)
        for name, values in (("samples", bits.reshape(-1, 4, 5) > 0), ("labels", labels)):
            array = group.create_array(name, shape=values.shape, dtype=values.dtype, chunks=values.shape)
            array[:] = values
    table = pyarrow.table({"samples": pyarrow.array(list(bits)), "labels": labels})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=77)
    rb.pack(tmp_path / "a.npz", tmp_path / "a.spins")
    return tmp_path


KINDS = ("a.npy", "a.npz", "a.h5", "a2.zarr", "a3.zarr", "a.parquet", "a.spins")


def numbers(split):
    """Which rows of the file a split has: the numbers that they count."""
    return numbers_in(np.concatenate([split.chunk(i)[0] for i in range(len(split.sizes))]))


def numbers_in(packed_rows):
    bits = np.unpackbits(packed_rows, axis=1, count=VISIBLE)
    return (bits[:, :10] << np.arange(10)).sum(1)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_rows_from_every_kind_of_file(kind, folder, bits):
    data = rb.load(folder / kind, stream=True)
    assert isinstance(data.train, Stored)
    assert data.train.on_disk
    train, test = numbers(data.train), numbers(data.test)
    plain = rb.load(folder / "a.npy", stream=True)
    assert np.array_equal(train, numbers(plain.train))
    assert sorted([*train, *test]) == list(range(ROWS))
    assert (len(data.train), len(data.test)) == (800, 200) == (len(train), len(test))
    for part in ("train", "test"):
        some = data.parts[part].in_memory()
        assert torch.equal(some.spins, plain.parts[part].in_memory().spins)
        if kind != "a.npy":
            assert np.array_equal(some.labels, numbers_in(np.packbits(some.spins.numpy() > 0, axis=1)))


def test_what_a_split_on_disk_says(folder):
    data = rb.load(folder / "a.spins", stream=True)
    assert repr(data.train) == "Stored: 800 rows of 20 spins, on disk, with labels"
    with pytest.raises(InputError, match=r"800 rows of .* stay on disk: train takes .* some\(\)"):
        data.train.spins
    with pytest.raises(InputError, match=r"labels of .* stay on disk; some\(\)\.labels"):
        data.train.labels
    assert rb.load(folder / "a.npy", stream=True).train.labels is None
    with pytest.raises(InputError, match="stay on disk"):
        rb.to_spins(data.train)
    assert 0.3 < data.train.share_up < 0.6


def test_a_threshold_says_what_stays(folder, monkeypatch):
    assert not rb.load(folder / "a.npy").train.on_disk
    monkeypatch.setattr(files, "LARGE", ROWS * VISIBLE)
    assert rb.load(folder / "a.npy").train.on_disk
    assert not rb.load(folder / "a.npy", stream=False).train.on_disk
    monkeypatch.setattr(files, "LARGE", ROWS * VISIBLE + 1)
    assert not rb.load(folder / "a.h5").train.on_disk
    for name, words in (("bars4", "only the rows of a file"), ("x.csv", "rapidbm pack")):
        (folder / "x.csv").write_text("0,1\n1,0\n")
        with pytest.raises(InputError, match=words):
            rb.load(str(folder / name) if "." in name else name, stream=True)


# -- parts --------------------------------------------------------------------------------------------


def test_parts_are_cut_out_of_every_chunk(folder):
    data = rb.load(folder / "a.npy", stream=True, valid=0.25, seed=3)
    parts = {part: numbers(split) for part, split in data.parts.items()}
    assert {part: len(rows) for part, rows in parts.items()} == {"train": 600, "test": 200, "valid": 200}
    assert sorted(np.concatenate(list(parts.values()))) == list(range(ROWS))
    for part, share in (("train", 0.6), ("test", 0.2), ("valid", 0.2)):
        per_chunk = np.bincount(parts[part] // 64, minlength=16)[:15]
        assert (abs(per_chunk - share * 64) <= 2).all()
    other = rb.load(folder / "a.npy", stream=True, valid=0.25, seed=4)
    assert not np.array_equal(numbers(other.test), parts["test"])
    again = rb.load(folder / "a.npy", stream=True, valid=0.25, seed=3)
    assert np.array_equal(numbers(again.valid), parts["valid"])
    # A chunk is known by itself.
    assert np.array_equal(numbers_in(again.train.chunk(7)[0]), parts["train"][parts["train"] // 64 == 7])


@pytest.mark.parametrize("share", [0.01, 1 / 3, 0.5, 0.999])
@pytest.mark.parametrize("rest", [True, False])
def test_a_cut_keeps_its_share_of_any_number_of_rows(share, rest):
    cut = HoldOut("x", 0, share, rest)
    before = 0
    for n in range(1, 400):
        now = cut.upto(n)
        assert 0 <= now - before <= 1
        assert abs(now - n * (1 - share if rest else share)) <= 0.5
        before = now


def test_parts_of_their_own(bits, tmp_path):
    np.savez(tmp_path / "a.npz", train=bits[:700], test=bits[700:900], valid=bits[900:])
    data = rb.load(tmp_path / "a.npz", stream=True)
    assert [len(split) for split in data.parts.values()] == [700, 200, 100]
    assert numbers(data.valid).tolist() == list(range(900, 1000))
    both = rb.load(tmp_path / "a.npz", stream=True, valid=0)
    assert both.valid is None
    assert sorted(numbers(both.train)) == [*range(700), *range(900, 1000)]
    with pytest.raises(InputError, match="validation part of its own"):
        rb.load(tmp_path / "a.npz", stream=True, valid=0.1)
    with pytest.raises(InputError, match="nothing to seed"):
        rb.load(tmp_path / "a.npz", stream=True, seed=1)


def test_what_is_given_are_all_rows_in_their_order(folder):
    data = rb.load(folder / "a.spins", stream=True)
    assert list(data.original_parts) == ["data"]
    assert numbers(data.original_parts["data"]).tolist() == list(range(ROWS))
    assert data.original_parts["data"].take(slice(100, 105)).labels.tolist() == [100, 101, 102, 103, 104]


def test_what_nobody_reads_is_named(bits, tmp_path):
    np.savez(tmp_path / "a.npz", samples=bits, other=bits)
    with pytest.warns(DataWarning, match="'other', which nobody reads"):
        rb.load(tmp_path / "a.npz", stream=True)


# -- what memory holds --------------------------------------------------------------------------------


def test_some_rows_are_evenly_spread(folder, monkeypatch):
    monkeypatch.setattr(stored, "ROWS", 50)
    monkeypatch.setattr(stored, "SURVEYED", 5)
    data = rb.load(folder / "a.spins", stream=True)
    some = data.train.in_memory()
    assert (len(some), some.of) == (50, 800)
    chunks = np.unique(some.labels.numpy() // 64)
    assert chunks.tolist() == surveyed(16) == [0, 4, 8, 11, 15]
    assert data.train.in_memory() is some
    monkeypatch.setattr(stored, "SPINS", 7 * VISIBLE)
    assert len(rb.load(folder / "a.spins", stream=True).test.in_memory()) == 7
    whole = data.in_memory()
    assert not whole.train.on_disk
    assert whole.parts.keys() == data.parts.keys()
    assert whole.in_memory() is whole


def test_a_slice_is_taken_into_memory(folder, monkeypatch):
    data = rb.load(folder / "a.spins", stream=True)
    rows = numbers(data.train)
    for start, stop in ((0, 10), (45, 60), (790, 800), (799, 900)):
        part = data.train.take(slice(start, stop))
        assert part.labels.tolist() == rows[start:stop].tolist()
        assert part.of is None
    monkeypatch.setattr(stored, "SPINS", 100 * VISIBLE)
    assert len(data.train.take(slice(0, 100))) == 100
    for wrong in (slice(0, 101), slice(0, 10, 2), slice(5, 5), torch.arange(3)):
        with pytest.raises(InputError, match=r"slice|rows of"):
            data.train.take(wrong)


def test_rows_on_disk_and_in_memory_do_not_add_up(folder):
    data = rb.load(folder / "a.npy", stream=True)
    with pytest.raises(InputError, match="pack them"):
        data.train + rb.load(folder / "a.npy").test


# -- files that change --------------------------------------------------------------------------------


def test_a_file_that_changes_is_noticed(folder):
    data = rb.load(folder / "a.npy", stream=True)
    whole = (folder / "a.npy").read_bytes()
    data.train.chunk(0)
    (folder / "a.npy").write_bytes(whole[:-1])
    with pytest.raises(InputError, match=r"it ends after|it has changed since it was opened"):
        data.train.chunk(15)
    (folder / "a.npy").write_bytes(whole)
    os.utime(folder / "a.npy", ns=(1, 1))
    with pytest.raises(InputError, match="it has changed since it was opened"):
        data.train.chunk(0)
    data = rb.load(folder / "a.npy", stream=True)
    before = numbers(data.train)
    shutil.copy(folder / "a.npy", folder / "b.npy")
    np.save(folder / "b.npy", np.zeros((ROWS, VISIBLE), np.int8))
    os.replace(folder / "b.npy", folder / "a.npy")  # another file: the old one is still read
    assert np.array_equal(numbers(data.train), before)


def test_a_value_that_is_no_spin_is_named_when_its_chunk_is_read(folder, bits):
    bits[700, 3] = 2
    np.save(folder / "a.npy", bits)
    data = rb.load(folder / "a.npy", stream=True)
    data.undivided.chunk(0)
    with pytest.raises(InputError, match=r"a\.npy must have two levels.*row 701, column 4 holds 2"):
        data.undivided.chunk(700 // 64)


def test_the_checksum_names_the_rows_and_the_parts(folder, bits):
    def of(name, **options):
        return checksum(rb.load(folder / name, stream=True, **options))

    assert len({of("a.npy"), of("a.npy", seed=1), of("a.npy", valid=0.1), of("a.spins")}) == 4
    assert of("a.npy") == of("a.npy")
    assert of("a.npz") == of("a.h5")  # the same packed copy, but for the shape of images
    before = of("a.npy")
    bits[5, 5] ^= 1  # all chunks of so small a file are surveyed
    np.save(folder / "a.npy", bits)
    assert of("a.npy") != before


def test_a_file_whose_columns_come_first_is_refused(bits, tmp_path):
    np.save(tmp_path / "a.npy", np.asfortranarray(bits))
    with pytest.raises(InputError, match="Fortran"):
        rb.load(tmp_path / "a.npy", stream=True)
    assert len(rb.load(tmp_path / "a.npy").train) == 800


# -- the packed copy ----------------------------------------------------------------------------------


def test_the_packed_copy_is_made_once(folder, cache, monkeypatch):
    made, plain = [], converted._packed
    monkeypatch.setattr(converted, "_packed", lambda *a: made.append(a) or plain(*a))
    first = rb.load(folder / "a.h5", stream=True)
    again = rb.load(folder / "a.h5", stream=True)
    assert len(made) == 1
    assert checksum(first) == checksum(again)
    (copy,) = cache.glob("*.spins")
    copy.write_bytes(copy.read_bytes()[:-500])  # damaged: made anew
    assert checksum(rb.load(folder / "a.h5", stream=True)) == checksum(first)
    os.utime(folder / "a.h5", ns=(1, 1))  # another file, as far as one can see
    rb.load(folder / "a.h5", stream=True)
    assert len(made) == 3
    assert len(list(cache.iterdir())) == 2
    note = json.loads(next(cache.glob("*.json")).read_text())
    assert note["file"] == str(folder / "a.h5")


def test_a_file_that_changes_while_it_is_packed(folder, cache, monkeypatch):
    plain = converted._packed

    def slow(path, *rest):
        found = plain(path, *rest)
        os.utime(path, ns=(1, 1))
        return found

    monkeypatch.setattr(converted, "_packed", slow)
    with pytest.raises(InputError, match="changed while it was read"):
        rb.load(folder / "a.h5", stream=True)
    assert not list(cache.glob("*.spins"))


def test_a_cache_that_cannot_be_made(folder, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(InputError, match=r"cannot be made.*XDG_CACHE_HOME"):
        rb.load(folder / "a.h5", stream=True)


def test_every_chunk_has_its_place_among_the_surveyed():
    assert surveyed(1) == [0]
    assert surveyed(3) == [0, 1, 2]
    many = surveyed(10_000)
    assert (len(many), many[0], many[-1]) == (32, 0, 9999)
