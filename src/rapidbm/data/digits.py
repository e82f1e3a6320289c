"""Handwritten digits as spins.

MNIST is read from the folder `$RAPIDBM_DATA` where it lies there, else downloaded once into the
user's cache; both are checked, and a download before it takes its place there: the page of a hotel's
network is no data.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..disk import cache_folder
from ..errors import InputError, check_choice, is_number
from ..machines.spins import to_spins
from ..random import stream
from ..registry import Setting
from .sources import numpy_arrays
from .splits import SPLIT_SEED, Dataset, Split, divided, top_half

MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
MNIST_MD5 = {
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
}
STATIC_URL = "https://www.cs.toronto.edu/~larocheh/public/datasets/binarized_mnist/"
STATIC_ROWS = {"train": 50_000, "valid": 10_000, "test": 10_000}
# SHA-256 of the bits, packed by numpy.packbits(axis=1): the same whatever file they came in.
STATIC_SHA = {
    "train": "727146c35424b019f3e350e1e69faa05644a0abaf787e3f4e1a9632220a13906",
    "valid": "a256ac44ae26be720fad8616a05ed6ecfd1619930d9a208379bb2a4405df5b6d",
    "test": "9fcd8da6f0fdf09b2ba30fe63a0bb784042a0de82563172530229b983e294ff2",
}
DIGITS_FILE = ("datasets", "data", "digits.csv.gz")  # in scikit-learn
LARGEST = 100 * 2**20  # bytes of a download; the largest file has 78 million
SILENCE = 30.0  # seconds without a byte after which a download is given up
LONGEST = 1800.0  # seconds that one may take in all
FORGET = 60.0  # seconds for which a process that failed does not wait for the network again

THRESHOLD = Setting("pixels brighter than this share are up")

_FAILED: dict[str, tuple[float, str]] = {}  # url: when it was tried, and what went wrong


def digits(threshold: Annotated[float, THRESHOLD] = 0.5, seed: Annotated[int, SPLIT_SEED] = 0) -> Dataset:
    """scikit-learn's 1,797 digits of 8×8 pixels, those brighter than `threshold` up."""
    table = _digits()
    spins = to_spins(table[:, :-1] / 16.0 > _share(threshold, "threshold"))
    labels = torch.from_numpy(table[:, -1].astype(np.int64))
    return divided("digits", Split.owning(spins, labels, top_half((8, 8))), (8, 8), seed)


def _digits() -> np.ndarray[Any, np.dtype[np.float64]]:
    """64 shades and a label a row, from scikit-learn's file: its import takes longer than torch's."""
    found = find_spec("sklearn")
    for place in (found and found.submodule_search_locations) or ():
        path = Path(place, *DIGITS_FILE)
        if path.is_file():
            return np.loadtxt(path, delimiter=",")
    from sklearn.datasets import load_digits

    raw = load_digits()
    return np.column_stack([raw.data, raw.target])


def mnist(
    threshold: Annotated[float | None, THRESHOLD] = None,
    binarize: Annotated[
        Literal["threshold", "stochastic"],
        Setting("threshold, or stochastic (each pixel drawn once)"),
    ] = "threshold",
    split: Annotated[
        Literal["usual", "paper"], Setting("usual (60,000/10,000) or paper (57,000/3,000)")
    ] = "usual",
    seed: Annotated[
        int | None, Setting("seed of the stochastic pixels", flag="data_seed", least=0)
    ] = None,
) -> Dataset:
    """MNIST, pixels brighter than `threshold` (0.3) up; `binarize="stochastic"` draws each pixel once
    with its intensity as the probability.

    `split="usual"`: 60,000 to train, 10,000 to test. `split="paper"`: the first 57,000 training
    images and the 3,000 that follow them.
    """
    check_choice("binarization", binarize, ("threshold", "stochastic"))
    check_choice("split", split, ("usual", "paper"))
    if threshold is not None and binarize == "stochastic":
        raise InputError("a stochastic binarization has no threshold; leave it out")
    if seed is not None and binarize == "threshold":
        raise InputError("a threshold draws nothing, there is nothing to seed; leave the seed out")
    cut = _share(0.3 if threshold is None else threshold, "threshold")
    parts = {}
    for part in ("train", "t10k") if split == "usual" else ("train",):
        pixels = _idx(_mnist_file(f"{part}-images-idx3-ubyte.gz")).reshape(-1, 784)
        labels = _idx(_mnist_file(f"{part}-labels-idx1-ubyte.gz"))
        shade = torch.from_numpy(pixels).float().div_(255.0)
        level: float | Tensor = cut
        if binarize == "stochastic":
            level = torch.rand(shade.shape, generator=stream(seed or 0, "mnist", part))
        parts[part] = Split(
            (shade > level).to(torch.int8) * 2 - 1,
            torch.from_numpy(labels.astype(np.int64)),
            top_half((28, 28)),
        )
    whole = parts["train"]
    if split == "usual":
        return Dataset("mnist", whole, parts["t10k"], (28, 28))
    return Dataset("mnist", whole.take(slice(0, 57_000)), whole.take(slice(57_000, None)), (28, 28))


def mnist_static() -> Dataset:
    """Larochelle's fixed binarization of MNIST: 50,000 to train, 10,000 to validate and 10,000 to test,
    no labels."""
    known = top_half((28, 28))
    parts = {part: Split(_static(part), known=known) for part in STATIC_ROWS}
    return Dataset("mnist-static", parts["train"], parts["test"], (28, 28), parts["valid"])


def mnist_is_here() -> bool:
    """Whether MNIST can be read without a download."""
    import pooch

    cache = Path(pooch.os_cache("rapidbm"))
    names = {name: pooch.utils.unique_file_name(MNIST_URL + name) for name in MNIST_MD5}
    return all(_local("mnist", name) or (cache / kept).is_file() for name, kept in names.items())


def data_folder() -> Path | None:
    """`$RAPIDBM_DATA`, if it is set."""
    value = os.environ.get("RAPIDBM_DATA")
    return Path(value) if value else None


def _local(*parts: str) -> Path | None:
    folder = data_folder()
    path = None if folder is None else folder.joinpath(*parts)
    return path if path is not None and path.is_file() else None


def _fetch(url: str, checksum: str | None, right: Callable[[Path], bool] = lambda path: True) -> Path:
    """The file in the cache, or a download of it that has the checksum and is `right`; a file there
    that is wrong is fetched anew."""
    import pooch

    when, told = _FAILED.get(url, (-FORGET, ""))
    if time.monotonic() - when < FORGET:
        raise InputError(told)
    cache, name = cache_folder(), pooch.utils.unique_file_name(url)
    if (cache / name).is_file() and not right(cache / name):
        (cache / name).unlink()
    try:
        found = pooch.retrieve(url, checksum, fname=name, path=cache, downloader=_checked(right))
        return Path(found)
    except Exception as error:  # requests, urllib3 and pooch each have their own
        reason = f"{type(error).__name__}: {error}"
        reason = reason if len(reason) < 100 else f"{reason[:100]}…"
        told = (
            f"{url} could not be downloaded ({reason}); connect, or put the file into a folder and "
            "name that folder in RAPIDBM_DATA (`rapidbm datasets`)"
        )
        _FAILED[url] = (time.monotonic(), told)
        raise InputError(told) from error


def _checked(right: Callable[[Path], bool]) -> Callable[[str, str, Any], None]:
    """A download within limits; pooch moves the file into the cache only if this does not raise."""

    def download(url: str, target: str, pooch: Any) -> None:
        import requests

        end, size = time.monotonic() + LONGEST, 0
        with requests.get(url, stream=True, timeout=SILENCE) as answer, open(target, "wb") as file:
            answer.raise_for_status()
            for piece in answer.iter_content(2**16):
                size += len(piece)
                if size > LARGEST:
                    raise InputError(f"it has more than {LARGEST:,} bytes")
                if time.monotonic() > end:
                    raise InputError(f"it took more than {LONGEST:.0f} seconds")
                file.write(piece)
        if not right(Path(target)):
            raise InputError("what came is another file, such as a page to log in")

    return download


def _mnist_file(name: str) -> bytes:
    path = _local("mnist", name) or _fetch(MNIST_URL + name, f"md5:{MNIST_MD5[name]}")
    packed = path.read_bytes()
    found = hashlib.md5(packed).hexdigest()
    if found != MNIST_MD5[name]:
        raise InputError(
            f"{path} is not the original {name}: its MD5 is {found}, it should be "
            f"{MNIST_MD5[name]} (truncated?); replace it"
        )
    return gzip.decompress(packed)


def _idx(raw: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The idx format: two zero bytes, the type 8 (bytes), the number of dimensions, their sizes."""
    dimensions = raw[3]
    sizes = np.frombuffer(raw, ">u4", dimensions, offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * dimensions).reshape(sizes).copy()


def _static(part: str) -> Tensor:
    path = _local("binarized-mnist", "binarized_mnist_packed.npz")
    if path is not None:
        arrays = numpy_arrays(path)
        packed = arrays[part]() if part in arrays else np.empty((0, 98), np.uint8)
    else:
        url = f"{STATIC_URL}binarized_mnist_{part}.amat"
        path = _fetch(url, None, lambda file: _is_static(_packed(file), part))
        packed = _packed(path)
    if not _is_static(packed, part):
        raise InputError(
            f"{path} does not hold the static MNIST {part} set: {packed.dtype} of shape {packed.shape} "
            f"instead of {STATIC_ROWS[part]} rows with the SHA-256 {STATIC_SHA[part]}; replace it"
        )
    return to_spins(np.unpackbits(packed, axis=1, count=784))


def _packed(path: Path) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The bits of the original text, 784 a row."""
    text = path.read_bytes().replace(b" ", b"").replace(b"\n", b"")
    flat = np.frombuffer(text, np.uint8) - ord("0")
    return np.packbits(flat[: flat.size // 784 * 784].reshape(-1, 784), axis=1)


def _is_static(packed: np.ndarray[Any, np.dtype[Any]], part: str) -> bool:
    right = hashlib.sha256(packed.tobytes()).hexdigest() == STATIC_SHA[part]
    return right and packed.ndim == 2 and len(packed) == STATIC_ROWS[part]


def _share(value: float, what: str) -> float:
    if not (is_number(value) and 0 <= value < 1):
        raise InputError(f"the {what} is a share of the brightest pixel in [0, 1), not {value!r}")
    return value
