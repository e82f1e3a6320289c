import gzip
import hashlib
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.datasets import load_digits

from rapidbm.data import digits
from rapidbm.data.catalogue import DATASETS, load
from rapidbm.data.files import from_arrays
from rapidbm.data.splits import Dataset, Split
from rapidbm.errors import DataWarning, InputError


def rows(split):
    return {tuple(row) for row in split.spins.tolist()}


def test_bars4_is_the_papers():
    data = load("bars4")
    assert (len(data.train), len(data.test), data.shape) == (10, 4, (4, 4))
    lines = {"".join("1" if s > 0 else "0" for s in row[:4]) for row in data.train.spins.tolist()}
    assert {"1000", "1100", "1110", "1011", "1101"} < lines
    for split in (data.train, data.test):
        images = split.spins.reshape(-1, 4, 4)
        assert bool((images == images[:, :1]).all())  # every row is the same
        assert rows(split) == {tuple(-x for x in row) for row in rows(split)}
        assert split.known.reshape(-1, 4, 4)[:, 0].all()
        assert not split.known.reshape(-1, 4, 4)[:, 1:].any()
    assert len(rows(data.train) | rows(data.test)) == 14


@pytest.mark.parametrize("size", [2, 3, 5, 8, 12])
def test_bars_and_stripes(size):
    data = load(f"bas{size}")
    everything = rows(data.train) | rows(data.test)
    assert len(everything) == len(data.train) + len(data.test) == 2 * (2**size - 2)
    assert not rows(data.train) & rows(data.test)
    for split in (data.train, data.test):
        assert rows(split) == {tuple(-x for x in row) for row in rows(split)}  # no leak by symmetry
        images = split.spins.reshape(-1, size, size)
        known = split.known.reshape(-1, size, size)
        for image, mask, label in zip(images, known, split.labels, strict=True):
            line = image if label == 0 else image.T
            assert bool((line == line[:1]).all())
            assert bool((mask if label == 0 else mask.T)[0].all())
            assert int(mask.sum()) == size
    if size == 12:
        assert (len(data.train), len(data.test)) == (6550, 1638)


def test_the_split_has_a_seed():
    assert rows(load("bas8", seed=0).train) == rows(load("bas8").train)
    assert rows(load("bas8", seed=1).train) != rows(load("bas8").train)


def test_large_bars_are_drawn():
    data = load("bas18")
    everything = rows(data.train.take(slice(0, 3000))) | rows(data.test.take(slice(0, 3000)))
    assert len(everything) == 6000
    assert len(data.train) + len(data.test) > 100_000


def numbers_of(split, size):
    """The line of each bar or stripe as a number, and its label as one more bit."""
    images = split.spins.reshape(-1, size, size)
    lines = torch.where(split.labels[:, None] == 0, images[:, 0], images[:, :, 0]) > 0
    powers = 2 ** torch.arange(size)
    return (lines * powers).sum(1) + 2**size * split.labels, lines


def test_drawn_bars_are_all_different_and_none_is_uniform(monkeypatch):
    """A uniform line, one that comes twice and one with its negative are among what is drawn."""
    draw, size = torch.randint, 17

    def planted(*args, **options):
        found = draw(*args, **options)
        found[0], found[1] = 0, 1
        found[2], found[3] = found[4], 1 - found[4]
        found[5], found[5, -1] = 0, 1
        return found

    monkeypatch.setattr(torch, "randint", planted)
    data = load(f"bas{size}")
    (train, lines), (test, more) = (numbers_of(x, size) for x in (data.train, data.test))
    both = torch.cat([train, test])
    assert len(both.unique()) == len(both) > 100_000
    ups = torch.cat([lines, more]).sum(1)
    assert (int(ups.min()), int(ups.max())) == (1, size - 1)
    assert {2 ** (size - 1), 2 ** (size - 1) + 2**size} <= set(both.tolist())  # up at the last alone
    for split, numbers in ((data.train, train), (data.test, test)):
        mirrored = Split(-split.spins, split.labels)
        assert torch.equal(numbers_of(mirrored, size)[0].sort().values, numbers.sort().values)
    assert 0.19 < len(test) / len(both) < 0.21
    assert abs(float(data.train.labels.double().mean()) - 0.5) < 0.01


def test_digits():
    data = load("digits")
    assert (len(data.train), len(data.test), data.shape) == (1438, 359, (8, 8))
    assert set(data.train.labels.tolist()) == set(range(10))
    assert load("digits", threshold=0.2).train.spins.sum() > data.train.spins.sum()


def test_digits_are_those_of_scikit_learn(monkeypatch):
    raw = load_digits()
    read = digits._digits()
    assert np.array_equal(read, np.column_stack([raw.data, raw.target]))
    monkeypatch.setattr(digits, "DIGITS_FILE", ("elsewhere",))  # as in another version
    assert np.array_equal(digits._digits(), read)


def test_mnist(mnist_folder):
    data = load("mnist")
    assert (data.train.spins.shape, data.test.spins.shape) == ((60_000, 784), (10_000, 784))
    assert data.train.labels[:5].tolist() == [5, 0, 4, 1, 9]
    paper = load("mnist", split="paper")
    assert (len(paper.train), len(paper.test)) == (57_000, 3_000)
    assert torch.equal(paper.test.spins, data.train.spins[57_000:])
    up = float((data.train.spins > 0).float().mean())
    assert 0.14 < up < 0.16
    raw = gzip.decompress((mnist_folder / "mnist" / "t10k-images-idx3-ubyte.gz").read_bytes())[16:]
    assert int((data.test.spins > 0).sum()) == (np.frombuffer(raw, np.uint8) > 0.3 * 255).sum()
    assert float((load("mnist", threshold=0.7).train.spins > 0).float().mean()) < up
    drawn = load("mnist", binarize="stochastic", seed=1)
    assert torch.equal(drawn.train.spins, load("mnist", binarize="stochastic", seed=1).train.spins)
    other = load("mnist", binarize="stochastic", seed=2)
    assert 0.01 < float((drawn.train.spins != other.train.spins).float().mean()) < 0.1


@pytest.fixture
def six_shades(monkeypatch):
    """MNIST whose images, to train and to test, are each of one shade, a fifth brighter each time."""
    shades = np.arange(0, 256, 51, dtype=np.uint8)
    images = b"\0\0\x08\x03" + np.array([6, 28, 28], ">u4").tobytes()
    images += shades.repeat(784).tobytes()
    labels = b"\0\0\x08\x01" + np.array([6], ">u4").tobytes() + bytes(6)
    monkeypatch.setattr(
        "rapidbm.data.digits._mnist_file", lambda name: images if "images" in name else labels
    )


@pytest.mark.parametrize("step", range(5))
def test_a_pixel_at_the_threshold_is_down(six_shades, step):
    data = load("mnist", threshold=step / 5)
    wanted = [-1] * (step + 1) + [1] * (5 - step)
    for split in (data.train, data.test):
        assert split.spins.tolist() == [[spin] * 784 for spin in wanted]


def test_a_pixel_of_the_digits_at_the_threshold_is_down(monkeypatch):
    """Image i of those that stand in for them is of the shade i of 16."""
    shades = np.arange(17.0)[:, None].repeat(65, 1)  # the last column: labels
    monkeypatch.setattr(digits, "_digits", lambda: shades)
    for options, level in (({}, 8), ({"threshold": 0.0}, 0), ({"threshold": 0.75}, 12)):
        data = load("digits", **options)
        for split in (data.train, data.test):
            wanted = torch.where(split.labels > level, 1, -1)
            assert torch.equal(split.spins, wanted[:, None].expand(-1, 64))


def test_stochastic_pixels_are_drawn_by_their_shades_for_each_half_anew(six_shades):
    data = load("mnist", binarize="stochastic", seed=1)
    for split in (data.train, data.test):
        up = (split.spins > 0).double().mean(1)
        assert up[0] == 0  # black stays down
        assert up[5] == 1
        assert torch.allclose(up, torch.linspace(0, 1, 6, dtype=torch.float64), atol=0.08)  # 4.5 σ
        rows = split.spins[1:5].double()
        assert (torch.corrcoef(rows).fill_diagonal_(0).abs() < 0.16).all()
    # Between the halves too: the same shades, other numbers.
    both = torch.stack([data.train.spins[1:5], data.test.spins[1:5]]).double()
    agree = (both - both.mean(2, keepdim=True)).prod(0).mean(1) / both.var(2).prod(0).sqrt()
    assert (agree.abs() < 0.16).all()
    again, other = (load("mnist", binarize="stochastic", seed=seed) for seed in (1, 2))
    for part in ("train", "test"):
        mine = data.parts[part].spins
        assert torch.equal(mine, again.parts[part].spins)
        assert not torch.equal(mine, other.parts[part].spins)
    plain = load("mnist", binarize="stochastic")
    assert torch.equal(plain.train.spins, load("mnist", binarize="stochastic", seed=0).train.spins)


def test_mnist_static(mnist_folder):
    data = load("mnist-static")
    assert (len(data.train), len(data.test)) == (50_000, 10_000)
    assert 0.12 < float((data.train.spins > 0).float().mean()) < 0.14


def test_a_truncated_or_changed_mnist_is_refused(mnist_folder, tmp_path, monkeypatch):
    (tmp_path / "mnist").mkdir()
    for file in (mnist_folder / "mnist").iterdir():
        shutil.copyfile(file, tmp_path / "mnist" / file.name)
    labels = tmp_path / "mnist" / "train-labels-idx1-ubyte.gz"
    labels.write_bytes(labels.read_bytes()[:-100])
    monkeypatch.setenv("RAPIDBM_DATA", str(tmp_path))
    with pytest.raises(InputError, match="truncated"):
        load("mnist")
    labels.write_bytes(gzip.compress(b"something else"))
    with pytest.raises(InputError, match="MD5"):
        load("mnist")


def test_without_the_files_a_download_is_tried(monkeypatch, tmp_path):
    import pooch

    asked = []

    def refuse(url, known_hash, **_):
        asked.append((url, known_hash))
        raise OSError("no network")

    monkeypatch.setattr(pooch, "retrieve", refuse)
    monkeypatch.setattr("rapidbm.data.digits._FAILED", {})
    monkeypatch.setenv("RAPIDBM_DATA", str(tmp_path))
    with pytest.raises(InputError, match="RAPIDBM_DATA"):
        load("mnist")
    assert asked == [
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist/train-images-idx3-ubyte.gz",
            "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
        )
    ]
    with pytest.raises(InputError, match="binarized_mnist_train"):
        load("mnist-static")


def test_the_original_text_of_static_mnist_is_understood(mnist_folder, monkeypatch, tmp_path):
    """A download brings text; it must give the bits whose checksum is known."""
    packed = np.load(mnist_folder / "binarized-mnist" / "binarized_mnist_packed.npz")["test"]
    bits = np.unpackbits(packed, axis=1, count=784)
    text = tmp_path / "binarized_mnist_test.amat"
    text.write_text("\n".join(" ".join(map(str, row)) for row in bits) + "\n")
    monkeypatch.setenv("RAPIDBM_DATA", str(tmp_path))
    monkeypatch.setattr(digits, "_fetch", lambda url, *_: text)
    assert torch.equal(digits._static("test"), load_static_test(mnist_folder, monkeypatch))


PAGE = b"<html>Please log in to the network of this hotel.</html>"
ROWS = np.arange(3 * 784).reshape(3, 784) % 5 == 0
TEXT = "\n".join(" ".join(map(str, row)) for row in ROWS.astype(int)).encode() + b"\n"


@pytest.fixture
def served(monkeypatch, tmp_path):
    """A server on this machine, what it answers, and the cache that downloads go to."""
    answer = {"body": TEXT}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer["body"])

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("RAPIDBM_DATA", str(tmp_path))
    monkeypatch.setattr(digits, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(digits, "_FAILED", {})
    monkeypatch.setattr(digits, "STATIC_URL", f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.setattr(digits, "STATIC_ROWS", {"test": 3})
    sha = hashlib.sha256(np.packbits(ROWS, axis=1).tobytes()).hexdigest()
    monkeypatch.setattr(digits, "STATIC_SHA", {"test": sha})
    yield answer, tmp_path / "cache"
    server.shutdown()
    thread.join()
    server.server_close()


def test_downloads_are_encrypted():
    assert digits.STATIC_URL.startswith("https://")
    assert digits.MNIST_URL.startswith("https://")


def test_a_page_to_log_in_is_not_kept(served, monkeypatch):
    answer, cache = served
    answer["body"] = PAGE
    with pytest.raises(InputError, match=r"another file.*RAPIDBM_DATA"):
        digits._static("test")
    assert not list(cache.iterdir())
    answer["body"] = TEXT
    with pytest.raises(InputError, match="another file"):  # for a minute nobody asks again
        digits._static("test")
    monkeypatch.setattr(digits, "FORGET", 0.0)
    assert torch.equal(digits._static("test") > 0, torch.from_numpy(ROWS))


def test_a_wrong_file_in_the_cache_is_fetched_anew(served):
    answer, cache = served
    digits._static("test")
    (file,) = cache.iterdir()
    for wrong in (PAGE, TEXT[:-100], b""):
        file.write_bytes(wrong)
        assert torch.equal(digits._static("test") > 0, torch.from_numpy(ROWS))
    answer["body"] = PAGE
    assert len(digits._static("test")) == 3  # a right one is asked of nobody


@pytest.mark.parametrize("name", ["LARGEST", "LONGEST"])
def test_a_download_has_limits(served, name, monkeypatch):
    _, cache = served
    monkeypatch.setattr(digits, name, 0)
    with pytest.raises(InputError, match="more than 0 "):
        digits._static("test")
    assert not list(cache.iterdir())


def load_static_test(folder, monkeypatch):
    monkeypatch.setenv("RAPIDBM_DATA", str(folder))
    return load("mnist-static").test.spins


# -- arrays and files ---------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(hnp.arrays(bool, st.tuples(st.integers(2, 40), st.integers(1, 30))), st.integers(0, 3))
def test_arrays_are_divided_without_loss(bits, seed):
    data = from_arrays(bits, train_labels=np.arange(len(bits)), seed=seed)
    assert len(data.train) >= 1
    assert len(data.test) >= 1
    order = torch.cat([data.train.labels, data.test.labels])
    both = torch.cat([data.train.spins, data.test.spins])
    assert sorted(order.tolist()) == list(range(len(bits)))
    assert torch.equal(both[order.argsort()] > 0, torch.from_numpy(bits))


@pytest.fixture
def bits():
    return np.random.default_rng(0).random((20, 12)) < 0.4


def test_who_reads_hdf5_hears_and_says_nothing_else(bits, tmp_path, monkeypatch):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["samples"] = bits
    told, plain = [], subprocess.Popen

    def popen(command, **options):
        told.append(options)
        return plain(command, **options)

    monkeypatch.setattr(subprocess, "Popen", popen)
    assert len(load(tmp_path / "x.h5").train) == 16
    assert told[0]["stdin"] == told[0]["stdout"] == subprocess.PIPE  # ours
    assert told[0]["stderr"] == subprocess.DEVNULL


@pytest.mark.parametrize("parts", [("samples",), ("train", "test")])
def test_data_have_the_name_of_their_file(parts, bits, tmp_path):
    np.savez(tmp_path / "mine.npz", **dict.fromkeys(parts, bits))
    assert load(tmp_path / "mine.npz").name == "mine"


def test_the_split_of_arrays_has_a_seed(bits):
    plain, same, other = (from_arrays(bits, **more) for more in ({}, {"seed": 0}, {"seed": 1}))
    assert torch.equal(plain.train.spins, same.train.spins)
    assert not torch.equal(plain.train.spins, other.train.spins)


def test_every_file_format(bits, tmp_path):
    np.save(tmp_path / "a.npy", bits)
    np.savez(tmp_path / "b.npz", samples=bits, labels=np.arange(20))
    np.savetxt(tmp_path / "c.csv", bits.astype(int), fmt="%d", delimiter=",")
    header = ",".join(f"x{i}" for i in range(12))
    np.savetxt(
        tmp_path / "d.csv",
        np.where(bits, 1, -1),
        fmt="%d",
        delimiter=",",
        header=header,
        comments="",
    )
    with h5py.File(tmp_path / "e.h5", "w") as file:
        file["samples"], file["labels"] = bits.astype(np.uint8), np.arange(20)
    wanted = None
    for name in ("a.npy", "b.npz", "c.csv", "d.csv", "e.h5"):
        data = load(tmp_path / name)
        wanted = data.train.spins if wanted is None else wanted
        assert torch.equal(data.train.spins, wanted), name
        assert (data.train.labels is not None) == (name in ("b.npz", "e.h5"))
    assert not torch.equal(load(str(tmp_path / "a.npy"), seed=1).train.spins, wanted)


def test_a_first_row_in_scientific_notation_is_a_sample(tmp_path):
    (tmp_path / "x.csv").write_text("1.0E+00,0.0E+00\n" * 7)
    data = load(tmp_path / "x.csv")
    assert len(data.train) + len(data.test) == 7


def test_a_line_of_pixels_is_half_known_however_it_is_given(bits):
    for data in (from_arrays(bits[:, :10]), from_arrays(bits[:, :10], bits[:5, :10])):
        assert data.train.known.tolist() == [True] * 5 + [False] * 5


def test_a_file_with_both_splits_and_with_images(bits, tmp_path):
    np.savez(tmp_path / "both.npz", train=bits.reshape(20, 3, 4), test=bits[:5].reshape(5, 3, 4))
    data = load(tmp_path / "both.npz")
    assert (len(data.train), len(data.test), data.shape) == (20, 5, (3, 4))
    assert torch.equal(data.train.spins > 0, torch.from_numpy(bits))
    assert data.name == "both"
    with pytest.raises(InputError, match="nothing to seed"):
        load(tmp_path / "both.npz", seed=3)


def test_the_third_part_of_a_file_is_kept(bits, tmp_path):
    np.savez(tmp_path / "a.npz", train=bits, test=bits[:5], valid=bits[5:9], valid_labels=range(4))
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["samples"], file["valid"] = bits.astype(np.uint8), bits[5:9].astype(np.uint8)
    for name in ("a.npz", "b.h5"):
        data = load(tmp_path / name)
        assert torch.equal(data.valid.spins > 0, torch.from_numpy(bits[5:9]))
        assert list(data.parts) == ["train", "test", "valid"]
        assert torch.equal(data.valid.known, data.test.known)
    assert load(tmp_path / "a.npz").valid.labels.tolist() == [0, 1, 2, 3]
    assert list(load("bars4").parts) == ["train", "test"]
    np.savez(tmp_path / "c.npz", train=bits, test=bits, valid=bits[:, :5])
    with pytest.raises(InputError, match="training and validation data must agree"):
        load(tmp_path / "c.npz")


@pytest.mark.parametrize("extra", ["val", "labels", "samples"])
def test_what_nobody_reads_is_named(extra, bits, tmp_path):
    np.savez(tmp_path / "a.npz", train=bits, test=bits, **{extra: bits})
    with pytest.warns(DataWarning, match=f"also holds '{extra}', which nobody reads.*valid"):
        load(tmp_path / "a.npz")
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["train"] = file["test"] = file[extra] = bits.astype(np.uint8)
    with pytest.warns(DataWarning, match=f"also holds '{extra}', which nobody reads.*valid"):
        load(tmp_path / "b.h5")


def save(path, **arrays):
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda p: p / "nothing.npy", "no file"),
        (lambda p: (np.save(p / "x.npy", np.full((3, 4), np.nan)), p / "x.npy")[1], "NaN"),
        (
            lambda p: (np.save(p / "x.npy", np.arange(12).reshape(3, 4)), p / "x.npy")[1],
            "two levels",
        ),
        (lambda p: (np.save(p / "x.npy", np.ones(4)), p / "x.npy")[1], r"not \(4,\)"),
        (lambda p: (np.save(p / "x.npy", np.ones((1, 4))), p / "x.npy")[1], "at least 2 samples"),
        (
            lambda p: (
                np.save(p / "x.npy", np.array([{}], dtype=object), allow_pickle=True),
                p / "x.npy",
            )[1],
            "never unpickled",
        ),
        (lambda p: save(p / "x.npz", other=np.ones((3, 4))), "must hold 'samples'"),
        (lambda p: save(p / "x.npz", samples=np.ones((3, 4)), labels=np.ones(2)), "need 3 labels"),
        (lambda p: save(p / "x.npz", samples=np.ones((2, 4)), labels=[0.5, 1]), "whole numbers"),
        (
            lambda p: save(p / "x.npz", train=np.ones((3, 4)), test=np.ones((3, 5))),
            "agree on the number",
        ),
    ],
)
def test_bad_files(write, words, tmp_path):
    with pytest.raises(InputError, match=words):
        load(write(tmp_path))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.csv", b"0,1\n1\n", "same number of columns in every row: line 2 has 1, those before 2"),
        ("x.csv", b"0,1\n1,x\n", "numbers between commas"),
        ("x.csv", b"a,b\n", "no row"),
        ("x.csv", b"nan,0\n1,1\n", "a value is missing"),
        ("x.npy", b"\x93NUMPY\x01\x00", "NumPy file"),
        ("x.npz", b"PK\x03\x04 cut short", "NumPy file"),
        ("x.h5", b"\x89HDF cut short", "HDF5"),
        ("x.npy", b"", "NumPy file"),
    ],
)
def test_truncated_and_broken_files(name, content, words, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=words):
        load(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("mnst", {}, "did you mean 'mnist'"),
        ("bas", {}, "did you mean 'bas12'"),
        ("bas1", {}, "2 to 32 pixels, not 1"),
        ("bas33", {}, "not 33"),
        ("bas4", {"seed": -1}, "at least 0, not -1"),
        ("mnist", {"threshold": 0.2, "binarize": "stochastic"}, "has no threshold"),
        ("data.doc", {}, "unknown data set"),
        ("bars4", {"threshold": 0.1}, "takes no options, not 'threshold'"),
        ("digits", {"threshold": 2.0}, r"\[0, 1\), not 2"),
        ("digits", {"split": "paper"}, "not 'split'"),
    ],
)
def test_bad_names_and_options(name, options, words):
    with pytest.raises(InputError, match=words):
        load(name, **options)


def test_masks_and_splits_are_checked():
    spins = torch.ones(3, 4)
    Split(spins, known=torch.ones(4, dtype=torch.bool))
    for known in (
        torch.ones(5, dtype=torch.bool),
        torch.ones(2, 4, dtype=torch.bool),
        torch.ones(4),
    ):
        with pytest.raises(InputError, match=r"booleans of shape \(3, 4\) or \(4,\)"):
            Split(spins, known=known)
    with pytest.raises(InputError, match="flatten"):
        Split(torch.ones(3, 2, 2))
    with pytest.raises(InputError, match="agree on the number of pixels"):
        Dataset("x", Split(spins), Split(spins), (2, 3))


def test_every_name_says_where_it_comes_from():
    digits = {"digits", "digits-labelled", "mnist", "mnist-labelled", "mnist-static"}
    assert set(DATASETS) == {"bars4", "basN"} | digits
    assert all(text for _, _, text in DATASETS.values())
