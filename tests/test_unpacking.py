"""Files that unpack to far more than they are: refused by what their headers say, before any of it is."""

import gzip
import io
import json
import struct
import subprocess
import sys
import zipfile

import h5py
import numpy as np
import pytest
import torch

import rapidbm as rb
from rapidbm.accel import memory
from rapidbm.data import sources
from rapidbm.data.files import check_unpacked
from rapidbm.data.reading import child
from rapidbm.data.tables import read_table
from rapidbm.errors import InputError
from rapidbm.studio.work import recipes
from rapidbm.studio.work.queries import Queries


def packed(path, **arrays):
    np.savez_compressed(path, **arrays)
    return path


def header(shape, descr="|i1"):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def nothing_unpacked(monkeypatch):
    def unpacked(*_):
        raise AssertionError("it was unpacked")

    for source in (sources.Npz, sources.Served):
        monkeypatch.setattr(source, "array", unpacked)
        monkeypatch.setattr(source, "blocks", unpacked)


BITS = np.zeros((4, 2**20), np.int8)


def test_what_does_not_fit_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    path = packed(tmp_path / "a.npz", samples=BITS, labels=np.zeros(4))
    assert path.stat().st_size < BITS.nbytes / 500
    need = 3 * BITS.size + 40 * 4
    monkeypatch.setattr(memory, "free_memory", lambda: need)
    assert rb.load(path).visible == 2**20
    monkeypatch.setattr(memory, "free_memory", lambda: need - 1)
    nothing_unpacked(monkeypatch)
    with pytest.raises(InputError, match=r"a\.npz would take 12\.6 MB of memory.*--stream"):
        rb.load(path)


def test_all_arrays_count(tmp_path, monkeypatch):
    """Each part may fit by itself."""
    path = packed(tmp_path / "a.npz", train=BITS, test=BITS, valid=BITS)
    monkeypatch.setattr(memory, "free_memory", lambda: 4 * BITS.size)
    nothing_unpacked(monkeypatch)
    with pytest.raises(InputError, match=r"would take 29\.4 MB of memory, and there are"):
        rb.load(path)


def test_rows_of_npy_lie_in_the_file(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.eye(64))
    monkeypatch.setattr(memory, "free_memory", lambda: 2 * 64**2 + 16 * 64)
    assert rb.load(tmp_path / "a.npy").visible == 64  # what is mapped is not taken


def test_memory_that_is_free(monkeypatch):
    assert 0 < memory.free_memory() <= memory.memory_of("cpu")
    limited = (
        "from rapidbm.accel.memory import *\n"
        "limit_memory(2**28)\n"
        "assert free_memory() <= 2**28\n"
        "try:\n"
        "    bytearray(2**29)\n"
        "except MemoryError:\n"
        "    print('no')\n"
    )
    if sys.platform == "linux":
        told = subprocess.run([sys.executable, "-c", limited], capture_output=True, text=True, check=True)
        assert told.stdout == "no\n"


@pytest.mark.parametrize(
    "shape",
    ["(-1, -5)", "(-4, 2)", "(2**62, 2**62)", "(0, 4611686018427387904)", "(True, 3)", "(1e3, 5)",
     "(99999999999999999999, 1)", "()", "(3,)", "'x'", f"({'1, ' * 70})"],
)  # fmt: skip
@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_shapes_that_no_array_has(tmp_path, shape, ending):
    path = tmp_path / f"a.{ending}"
    whole = header(shape) + b"\x01\x00\x01\x00\x01"
    if ending == "npz":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("samples.npy", whole)
    else:
        path.write_bytes(whole)
    with pytest.raises(InputError):
        rb.load(path)


def lying(path, offset, value, *, member=b"samples.npy"):
    """Changes a size in the central directory of an archive."""
    whole = bytearray(path.read_bytes())
    at = whole.rindex(member) - 46  # where the entry of the member begins
    assert whole[at : at + 4] == b"PK\x01\x02"
    struct.pack_into("<I", whole, at + offset, value)
    path.write_bytes(whole)


@pytest.mark.parametrize("field", ["unpacked", "packed", "both"])
def test_members_that_lie_about_their_size(tmp_path, field):
    path = tmp_path / "a.npz"
    rows = 2**20
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("samples.npy", header((rows, 1000)) + bytes(1000))
    if field != "packed":
        lying(path, 24, rows * 1000 + 128)
    if field != "unpacked":  # as if all of it were there
        lying(path, 20, rows * 1000)
    with pytest.raises(InputError, match=r"a\.npz cannot be read as a NumPy file"):
        rb.load(path)


def test_archives_in_archives_are_no_arrays(tmp_path):
    inner = io.BytesIO()
    np.savez_compressed(inner, samples=BITS)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.writestr("samples.npy", inner.getvalue())
    with pytest.raises(InputError, match="cannot be read as a NumPy file"):
        rb.load(tmp_path / "a.npz")


def test_other_packers_are_not_known(tmp_path):
    for name, told in (("a.csv.gz", "the character 0"), ("a.npy.gz", "has the ending")):
        (tmp_path / name).write_bytes(gzip.compress(bytes(2**20)))
        with pytest.raises(InputError, match=told):
            rb.load(str(tmp_path / name))
    with zipfile.ZipFile(tmp_path / "b.npz", "w", zipfile.ZIP_LZMA) as file:
        file.writestr("samples.npy", header((2**14, 1000)) + bytes(2**14 * 1000))
    with pytest.raises(InputError, match="most of them are not in the file"):
        rb.load(tmp_path / "b.npz")


def test_a_chunk_of_hdf5_is_not_much_larger_than_its_array(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        wide = {"chunks": (2, 2**25), "maxshape": (2, None), "compression": "gzip"}
        file.create_dataset("samples", (2, 8), "i1", **wide)[:] = 1
    with pytest.raises(InputError, match="one of its chunks has 67,108,864 bytes, and the array 16"):
        rb.load(tmp_path / "a.h5")
    child.check_chunk((2**24,), 1, 0)
    child.check_chunk((2**29,), 1, 2**29)
    for chunks, size in (((2**24 + 1,), 0), ((2**29 + 1,), 2**40)):
        with pytest.raises(ValueError, match="smaller ones"):
            child.check_chunk(chunks, 1, size)


def test_safetensors_that_claim_what_is_not_there(tmp_path):
    told = {"x": {"dtype": "F32", "shape": [2**20, 2**20], "data_offsets": [0, 2**42]}}
    text = json.dumps(told).encode()
    for size in (len(text), 2**60):
        (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", size) + text + bytes(8))
        with pytest.raises(InputError):
            rb.load_machine(tmp_path / "a.safetensors")


# -- the page -----------------------------------------------------------------------------------------


def test_what_unpacks_to_more_than_a_page_takes(tmp_path, monkeypatch):
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setattr(recipes, "UNPACKED", 3 * BITS.nbytes)
    queries = Queries(tmp_path)
    packed(folder / "fits.npz", train=BITS, test=BITS[:1], valid=BITS[:1])
    described = queries.upload({"file": "fits.npz"})[0]
    assert (described["train"], described["up"]) == (4, 0.0)
    bombs = {"large.npz": {"samples": np.zeros((13, 2**20), np.int8)}}
    bombs["many.npz"] = {"train": BITS, "test": BITS, "valid": BITS, "labels": BITS, "other": BITS}
    bombs["wide.npz"] = {"samples": np.zeros((2, 2**20)), "labels": np.zeros(1)}
    nothing_unpacked(monkeypatch)
    with h5py.File(folder / "large.h5", "w") as file:
        file.create_dataset("samples", data=bombs["large.npz"]["samples"], compression="gzip")
    for name in (*bombs, "large.h5"):
        if name in bombs:
            packed(folder / name, **bombs[name])
        for ask in (queries.data, queries.recipe):  # nor does it help to name one that lies there already
            with pytest.raises(
                InputError, match=rf"{name} unpacks to [\d,]+ bytes, more than 12,582,912"
            ):
                ask({"dataset": f"upload:{name}"})
        with pytest.raises(InputError, match="unpacks to"):
            queries.upload({"file": name})
        assert not (folder / name).exists()


def test_text_is_as_large_as_it_is(tmp_path):
    (tmp_path / "a.csv").write_text("0,1\n1,0\n")
    check_unpacked(tmp_path / "a.csv", 0)


# -- tables -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("separator", [",", ";", "\t", " "])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_plain_lines_are_read_many_at_once(tmp_path, monkeypatch, separator, end):
    monkeypatch.setattr("rapidbm.data.tables.LONGEST", 64)
    bits = torch.randint(2, (60, 5), generator=rb.stream(0)).to(torch.int8).numpy()
    lines = [separator.join(map(str, row)) for row in bits.tolist()]
    odd = {20: '"1"', 40: "-1"}
    for number, cell in odd.items():
        lines[number] = separator.join([cell, *lines[number].split(separator)[1:]])
        bits[number, 0] = int(cell.strip('"'))
    (tmp_path / "a.txt").write_text(end.join(["# by hand", *lines]), newline="")
    if separator == " ":  # there are no quotes between blanks
        (tmp_path / "a.txt").write_text((tmp_path / "a.txt").read_text().replace('"', ""))
    values, names = read_table(tmp_path / "a.txt")
    assert (values.dtype, names) == (np.int8, ())
    assert (values == bits).all()
    lines[50] += f"{separator}1"
    (tmp_path / "a.txt").write_text(end.join(["# by hand", *lines]).replace('"', ""), newline="")
    with pytest.raises(InputError, match="line 52 has 6, those before 5"):
        read_table(tmp_path / "a.txt")
    lines[50] = separator.join("01012")
    (tmp_path / "a.txt").write_text(end.join(lines).replace('"', ""), newline="")
    with pytest.raises(InputError, match=r"which 2 of 5 do not|which 1 of 5 do not"):
        read_table(tmp_path / "a.txt")


def test_a_million_short_rows_take_the_memory_of_their_values(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"0,1\n1,1\n" * 2**19)
    program = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from rapidbm.data.tables import read_table\n"
        "path = Path(sys.argv[1])\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print(read_table(path)[0].shape)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a.csv")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert told[0] == "(1048576, 2)"
    assert int(told[1]) < 40_000  # kB; an array for each row took 150 MB
