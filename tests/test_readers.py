"""Files that C libraries read, in a process of their own: hostile ones are refused before memory is
taken, nothing outside is read, and what breaks the reader breaks nobody else."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch
import zarr

import rapidbm as rb
from rapidbm.data import sources
from rapidbm.data.reading import child, parent
from rapidbm.errors import DataWarning, InputError
from rapidbm_bench.children import Children

BITS = (np.random.default_rng(0).random((60, 16)) < 0.4).astype(np.int8)
LABELS = np.arange(60) % 7
PLAIN = rb.from_arrays(BITS)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def children():
    """Readers that stay from file to file: one takes a fifth of a second to start."""
    found = Children()
    yield found
    found.end()


@pytest.fixture
def own_process():
    """Asked for by tests of the process that is started for each file."""


@pytest.fixture(autouse=True)
def readers(request, children, monkeypatch):
    if "own_process" not in request.fixturenames:
        monkeypatch.setattr(sources, "reading_child", children.reading)


def zarr_of(path, values=BITS, *, version=3, **more):
    chunks = more.pop("chunks", (10, 16))
    array = zarr.create_array(
        path, shape=values.shape, dtype=values.dtype, chunks=chunks, zarr_format=version, **more
    )
    array[:] = values
    return path


def parquet_of(path, columns, **more):
    pyarrow.parquet.write_table(pyarrow.table(columns), path, **more)
    return path


def refused(path, words, **options):
    with pytest.raises(InputError, match=words):
        rb.load(path, **options)


# -- honest files -------------------------------------------------------------------------------------

ZARRS = {
    "plain": {},
    "old": {"version": 2},
    "shards": {"shards": (20, 16)},
    "raw": {"compressors": None},
    "gzip": {"compressors": zarr.codecs.GzipCodec()},
    "blosc": {"compressors": zarr.codecs.BloscCodec()},
    "columns": {"chunks": (60, 3)},
    "large chunk": {"chunks": (100, 16)},
}


@pytest.mark.parametrize("kind", ZARRS)
def test_zarr_stores(kind, tmp_path):
    data = rb.load(zarr_of(tmp_path / "a.zarr", **ZARRS[kind]))
    assert torch.equal(data.train.spins, PLAIN.train.spins)
    assert data.name == "a"


@pytest.mark.parametrize("version", [2, 3])
def test_groups_of_zarr(version, tmp_path):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=version)
    parts = {
        "train": BITS.astype(bool),
        "test": BITS[:9] * 2.0 - 1.0,
        "train_labels": LABELS,
        "x": LABELS,
    }
    for name, values in parts.items():
        group.create_array(name, shape=values.shape, dtype=values.dtype, chunks=values.shape)[:] = values
    group.create_group("deeper")
    with pytest.warns(DataWarning, match="also holds 'x', which nobody reads"):
        data = rb.load(tmp_path / "a.zarr")
    assert torch.equal(data.train.spins > 0, torch.from_numpy(BITS > 0))
    assert (len(data.test), data.train.labels.tolist()) == (9, LABELS.tolist())


COLUMNS = {f"c{i}": BITS[:, i] for i in range(16)}
PARQUETS = {
    "integers": COLUMNS,
    "booleans": {name: values > 0 for name, values in COLUMNS.items()},
    "floats": {name: values.astype(np.float32) for name, values in COLUMNS.items()},
    "unsigned": {name: values.astype(np.uint64) for name, values in COLUMNS.items()},
    "lists": {"samples": pyarrow.array(list(BITS))},
    "fixed": {"samples": pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(BITS.ravel()), 16)},
}


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip", "lz4"])
@pytest.mark.parametrize("kind", PARQUETS)
def test_parquet_files(kind, compression, tmp_path):
    if compression != "snappy" and kind not in ("integers", "lists"):
        return
    columns = PARQUETS[kind] | {"labels": LABELS}
    path = parquet_of(tmp_path / "a.parquet", columns, row_group_size=7, compression=compression)
    data = rb.load(path)
    assert torch.equal(data.train.spins, PLAIN.train.spins)
    assert sorted(torch.cat([data.train.labels, data.test.labels]).tolist()) == sorted(LABELS)
    lists = kind in ("lists", "fixed")
    assert data.columns == (() if lists else tuple(COLUMNS))
    assert data.shape == ((4, 4) if lists else (1, 16))


def test_parquet_in_a_folder(tmp_path):
    folder = tmp_path / "a.parquet"
    folder.mkdir()
    for i in range(3):
        some = {name: values[20 * i : 20 * i + 20] for name, values in COLUMNS.items()}
        parquet_of(folder / f"part-{i}.parquet", some)
    (folder / "_SUCCESS").write_text("")
    assert torch.equal(rb.load(folder).train.spins, PLAIN.train.spins)
    for i, part in enumerate(("train-0", "train-1", "test-0")):
        (folder / f"part-{i}.parquet").rename(folder / f"{part}.parquet")
    data = rb.load(folder)
    assert torch.equal(data.train.spins > 0, torch.from_numpy(BITS[:40] > 0))
    assert len(data.test) == 20
    parquet_of(folder / "train-2.parquet", {"c0": BITS[:, 0]})
    refused(folder, "'train-2.parquet' has other columns")


def test_each_kind_in_a_process_of_its_own(own_process, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["samples"] = BITS
    zarr_of(tmp_path / "a.zarr")
    parquet_of(tmp_path / "a.parquet", COLUMNS)
    for kind in ("h5", "zarr", "parquet"):
        assert torch.equal(rb.load(tmp_path / f"a.{kind}").train.spins, PLAIN.train.spins), kind


# -- hostile Zarr -------------------------------------------------------------------------------------


def described(path, **more):
    """Another description of an array."""
    file = path / ".zarray" if (path / ".zarray").exists() else path / "zarr.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | more))
    return path


def grid(*shape):
    return {"name": "regular", "configuration": {"chunk_shape": shape}}


@pytest.mark.parametrize("where", ["c/0/0", "c/0", "zarr.json", "c"])
def test_links_in_a_store_are_not_followed(where, tmp_path):
    path = zarr_of(tmp_path / "a.zarr")
    (path / where).rename(tmp_path / "elsewhere")
    (path / where).symlink_to(tmp_path / "elsewhere")
    refused(path, "is a link, and links are not followed")


def test_links_in_a_group_are_not_followed(tmp_path):
    zarr_of(tmp_path / "outside")
    zarr.open_group(tmp_path / "a.zarr", mode="w")
    (tmp_path / "a.zarr" / "samples").symlink_to(tmp_path / "outside")
    refused(tmp_path / "a.zarr", "'samples' is a link")


@pytest.mark.parametrize(
    ("version", "more", "words"),
    [
        (3, {"shape": [2**40, 16]}, "chunks, more than|most of them are not in the file"),
        (3, {"shape": [2**47, 2**47]}, "chunks, more than|not in the file"),
        (3, {"shape": [-1, 16]}, r"the shape of 'samples' is \[-1, 16\]"),
        (3, {"shape": "all"}, "the shape of"),
        (3, {"shape": [600_000, 16]}, "claims 9,600,000 bytes, and most of them are not in the file"),
        (3, {"data_type": "string"}, "holds 'string', not numbers"),
        (3, {"data_type": "complex64"}, "not numbers"),
        (3, {"codecs": [{"name": "bytes"}, {"name": "pickle"}]}, "packed by 'pickle'; known are"),
        (3, {"codecs": "zip"}, "the codecs of"),
        (3, {"codecs": []}, "Zarr"),
        (3, {"storage_transformers": [{"name": "x"}]}, "storage transformers"),
        (3, {"chunk_grid": {"name": "rectangular"}}, "no regular grid"),
        (
            3,
            {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0, 1]}}},
            "grid of chunks",
        ),
        (3, {"chunk_grid": grid(2**30, 16)}, "chunks has 17,179,869,184 bytes, and the array 960"),
        (2, {"compressor": {"id": "pickle"}}, "packed by 'pickle'"),
        (2, {"filters": [{"id": "vlen-utf8"}]}, "packed by 'vlen-utf8'"),
        (2, {"filters": [{"id": "pickle"}], "dtype": "|O"}, "not numbers"),
        (2, {"dtype": [["a", "<i4"]]}, "not numbers"),
        (2, {"shape": [60]}, r"shape \(60,\) and chunks \(10, 16\)"),
        (2, {"shape": [10**7, 16], "chunks": [1, 16]}, "chunks, more than 1,000,000"),
    ],
)
def test_what_a_store_claims_is_checked_before_the_library_sees_it(version, more, words, tmp_path):
    refused(described(zarr_of(tmp_path / "a.zarr", version=version), **more), words)


def test_shards_within_shards(tmp_path):
    path = zarr_of(tmp_path / "a.zarr", shards=(20, 16))
    codecs = json.loads((path / "zarr.json").read_text())["codecs"]
    inner = json.loads(json.dumps(codecs))
    codecs[0]["configuration"]["codecs"] = inner
    inner[0]["configuration"]["codecs"] = json.loads(json.dumps(codecs))
    refused(described(path, codecs=codecs), "the codecs of|Zarr")


def test_metadata_without_end(tmp_path):
    path = zarr_of(tmp_path / "a.zarr")
    (path / "zarr.json").write_text(" " * 2**21)
    refused(path, "has 2,097,152 bytes, more than 1,048,576")
    (path / "zarr.json").write_text("[" * 100_000)
    refused(path, "Zarr")
    (path / "zarr.json").write_text("[]")
    refused(path, "does not describe an array")


def test_a_store_that_is_none(tmp_path):
    (tmp_path / "a.zarr").mkdir()
    refused(tmp_path / "a.zarr", "must hold 'samples'.*it holds nothing")
    refused(tmp_path / "b.zarr", "no file")
    (tmp_path / "c.zarr").write_text("x")
    refused(tmp_path / "c.zarr", "Zarr")


# -- hostile Parquet ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"samples": [[0, 1], [1], [1, 1]]}, "row 2 has 1 values, those before 2"),
        ({"samples": [[0, 1], None, [1, 1]]}, "row 2: a value is missing"),
        ({"samples": [[0, 1], [1, None]]}, "a value is missing"),
        ({"samples": [[0, 1], [1, 7]]}, "7 is neither"),
        ({"a": [0, 1, 1], "labels": ["x", "y", "z"]}, "'labels' holds string, not whole numbers"),
        ({"a": [0, 1, 1], "labels": [1, None, 2]}, "'labels', row 2: a value is missing"),
    ],
)
def test_what_is_no_spin_in_parquet(columns, words, tmp_path):
    refused(parquet_of(tmp_path / "a.parquet", columns), words)


@pytest.mark.parametrize(
    "column",
    [
        [0, 1, None],
        [0, 1, 2],
        [0.0, float("nan"), 1.0],
        [0.0, 0.5, 1.0],
        [0, 1, -128],
        ["=1+1", "0", "1"],
    ],
)
def test_columns_of_other_values_are_a_table(column, tmp_path):
    data = rb.load(parquet_of(tmp_path / "a.parquet", {"a": column}))
    assert data.units is not None
    assert [c.name for c in data.schema.columns] == ["a"]


def test_row_groups_without_end(own_process, tmp_path):
    """Half a gigabyte of zeros in a file of a few kilobytes."""
    path = tmp_path / "a.parquet"
    zeros = pyarrow.chunked_array([pyarrow.array(np.zeros(2**23, np.int64))] * 8)
    table = pyarrow.table({"a": zeros})
    sizes = {"row_group_size": 2**27, "data_page_size": 2**30, "use_dictionary": False}
    parquet_of(path, table, compression="zstd", **sizes)
    assert path.stat().st_size < 2**20
    refused(path, "537,122,612 bytes to unpack, more than 536,870,912; write smaller ones")


HUGE = b"PAR1" + b"\xff\xff\xff\x7fPAR1"


@pytest.mark.parametrize("ends", [b"", b"PAR1", b"x" * 20, HUGE, b"\0" * 8 + b"PAR1"])
def test_parquet_that_is_none(ends, tmp_path):
    (tmp_path / "a.parquet").write_bytes(ends)
    refused(tmp_path / "a.parquet", "Parquet")


def test_a_footer_without_end(own_process, tmp_path):
    with (tmp_path / "a.parquet").open("wb") as file:
        file.truncate(2**27)
        file.seek(2**27)
        file.write(struct.pack("<I", 2**27) + b"PAR1")
    refused(tmp_path / "a.parquet", "its metadata has 134,217,728 bytes")


def test_links_in_a_folder_of_parquet(tmp_path):
    parquet_of(tmp_path / "outside.parquet", COLUMNS)
    (tmp_path / "a.parquet").mkdir()
    refused(tmp_path / "a.parquet", "holds no file that ends in")
    (tmp_path / "a.parquet" / "part.parquet").symlink_to(tmp_path / "outside.parquet")
    refused(tmp_path / "a.parquet", "'part.parquet' is a link")


# -- chunks that have to be unpacked at once ----------------------------------------------------------


def test_blocks_are_whole_chunks_and_not_without_end():
    assert child.rows_at_once((1000, 16), 1, None) == 2**22 // 16
    assert child.rows_at_once((1000, 16), 1, 100) == 100 * (2**22 // 1600)
    assert child.rows_at_once((10**6, 2**12), 8, 1000) == 1000  # 32 MB
    assert child.rows_at_once((5, 3), 1, 2**40) == 5 * (2**22 // 15)  # of rows that there are
    with pytest.raises(ValueError, match=r"1,073,741,824 bytes to unpack at once.*write it in smaller"):
        child.rows_at_once((2**40, 16), 1, 2**26)


# -- the child ----------------------------------------------------------------------------------------


def spoken(lines, tmp_path, memory=2**26, kind="hdf5", path=None):
    """What a child says to these lines."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["samples"] = BITS
    command = [sys.executable, "-P", child.__file__, kind, str(path or tmp_path / "x.h5"), str(memory)]
    found = subprocess.run([*command, "samples", "labels"], input=lines, capture_output=True, check=False)
    return found.stdout


def test_what_a_child_says(tmp_path):
    first, _, rest = spoken(b"samples\n\n", tmp_path).partition(b"\n")
    assert json.loads(first) == {"arrays": {"samples": ["|i1", [60, 16]]}, "left": [], "columns": []}
    assert rest == child.LENGTH.pack(960) + BITS.tobytes() + child.LENGTH.pack(0)
    assert spoken(b"", tmp_path) == first + b"\n"
    said = spoken(b"", tmp_path, path=tmp_path / "none.h5")
    assert "unable to open" in json.loads(said)["error"].lower()


class Talker:
    """A process that says what it was told to say."""

    def __init__(self, said):
        self.said = said
        self.stdin = open(os.devnull, "wb")  # noqa: SIM115
        read, write = os.pipe()
        os.write(write, said)
        os.close(write)
        self.stdout = os.fdopen(read, "rb")
        self.killed = False

    def kill(self):
        self.killed = True

    def close(self):
        self.stdin.close()
        self.stdout.close()


CLAIM = b'{"arrays": {"samples": ["|i1", [2, 3]]}, "left": [], "columns": []}\n'


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"", "gone"),
        (b"{", "gone"),
        (b'{"error": "cannot"}\n', "cannot"),
        (b'{"arrays": {"samples": ["O", [2]]}, "left": [], "columns": []}\n', "is none"),
        (b'{"arrays": {"samples": ["|i1", [-2]]}, "left": [], "columns": []}\n', "is none"),
        (CLAIM, "gone"),
        (CLAIM + child.LENGTH.pack(6) + b"12345", "gone"),
        (CLAIM + child.LENGTH.pack(3) + b"123" + child.LENGTH.pack(0), "gone"),
        (CLAIM + child.LENGTH.pack(9) + b"123456789" + child.LENGTH.pack(0), "gone"),
        (CLAIM + child.LENGTH.pack(2) + b"12", "gone"),
        (CLAIM + child.LENGTH.pack(2**62), "gone"),
        (CLAIM + child.LENGTH.pack(-1) + b'{"error": "in the middle"}\n', "in the middle"),
    ],
)
def test_nothing_that_a_child_says_is_believed(said, words):
    talker = Talker(said)
    try:
        with pytest.raises(ValueError, match=words):
            parent.Child(talker, "gone").array("samples")
    finally:
        talker.close()


def test_a_child_that_is_killed_is_the_files_fault(own_process, tmp_path, monkeypatch):
    path = zarr_of(tmp_path / "a.zarr")
    (tmp_path / "silent.py").write_text("import time\nwhile True:\n    time.sleep(60)\n")
    monkeypatch.setattr(parent, "program", SimpleNamespace(__file__=str(tmp_path / "silent.py")))
    monkeypatch.setattr(parent, "FIRST", 0.0)  # it is late from the start
    refused(path, "the Zarr library cannot cope with it; it may be truncated")


def test_memory_of_a_child_is_limited(tmp_path):
    limited = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('child', {child.__file__!r})\n"
        "child = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(child)\n"
        "child.limit(2**20)\n"
        "try:\n"
        "    bytes(2**30)\n"
        "except MemoryError:\n"
        "    print('no')\n"
    )
    found = subprocess.run([sys.executable, "-c", limited], capture_output=True, text=True, check=False)
    assert found.stdout == "no\n"


def test_what_a_file_needs_is_named(tmp_path, monkeypatch):
    zarr_of(tmp_path / "a.zarr")
    parquet_of(tmp_path / "a.parquet", COLUMNS)
    monkeypatch.setattr("rapidbm.errors.find_spec", lambda name: None)
    refused(tmp_path / "a.zarr", r"needs zarr, which is not installed: pip install 'rapidbm\[zarr\]'")
    refused(tmp_path / "a.parquet", "needs pyarrow, which is not installed: pip install pyarrow")


def test_what_is_read_has_room(tmp_path, monkeypatch):
    path = zarr_of(tmp_path / "a.zarr")
    monkeypatch.setattr(sources, "room", lambda: 959)
    refused(path, "takes 960 bytes, more than half of this machine's memory")
    assert len(rb.load(path, stream=True).train) == 48  # on disk there is room


def test_the_childs_modules_know_nothing_of_the_library():
    for path in Path(child.__file__).parent.glob("*.py"):
        if path.name not in ("__init__.py", "parent.py"):
            assert "from ." not in path.read_text()
            assert "import rapidbm" not in path.read_text()
