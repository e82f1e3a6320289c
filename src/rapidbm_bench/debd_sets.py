"""The binary tables on which density estimators are compared (github arranger1044/DEBD).

Lowd and Davis (2010), Van Haaren and Davis (2012), Larochelle and Murray (2011), Bekker et al. (2015). A
set is read from `$RAPIDBM_DATA/debd`, as NAME.npz with the arrays train, valid and test or as a clone of
that repository, else from the user's cache, else downloaded once from one commit of the repository, whose
name is the hash of what it holds.

Checked of every set, wherever it came from: only 0 and 1, and the columns and rows of each part. They are
those of DEBD's README, but for two where the logs of DEBD's own programs say otherwise: 64 columns of kdd
and 4,524 training rows of tmovie. Of the sets in `SHA` the values are known as well: SHA-256 of the bits,
packed by `numpy.packbits(axis=1)`, the same whatever file they came in.
"""

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rapidbm.data import digits
from rapidbm.data.sources import numpy_arrays
from rapidbm.disk import cache_folder, make_folder, write_bytes
from rapidbm.errors import InputError, lookup

Parts = dict[str, np.ndarray]  # train, valid, test: (rows, columns) of 0 and 1, uint8

PARTS = ("train", "valid", "test")
COMMIT = "d5e0c95fef9e418a39feccddae5d7a7526c1e8de"
URL = f"https://raw.githubusercontent.com/arranger1044/DEBD/{COMMIT}/datasets/"
REMEDY = "remove or replace it"


class Size(NamedTuple):
    """Columns, and rows of each part."""

    columns: int
    train: int
    valid: int
    test: int


SETS: Mapping[str, Size] = {  # the twenty of the literature, in its order
    "nltcs": Size(16, 16181, 2157, 3236),
    "msnbc": Size(17, 291326, 38843, 58265),
    "kdd": Size(64, 180092, 19907, 34955),
    "plants": Size(69, 17412, 2321, 3482),
    "baudio": Size(100, 15000, 2000, 3000),
    "jester": Size(100, 9000, 1000, 4116),
    "bnetflix": Size(100, 15000, 2000, 3000),
    "accidents": Size(111, 12758, 1700, 2551),
    "tretail": Size(135, 22041, 2938, 4408),
    "pumsb_star": Size(163, 12262, 1635, 2452),
    "dna": Size(180, 1600, 400, 1186),
    "kosarek": Size(190, 33375, 4450, 6675),
    "msweb": Size(294, 29441, 3270, 5000),
    "book": Size(500, 8700, 1159, 1739),
    "tmovie": Size(500, 4524, 1002, 591),
    "cwebkb": Size(839, 2803, 558, 838),
    "cr52": Size(889, 6532, 1028, 1540),
    "c20ng": Size(910, 11293, 3764, 3764),
    "bbc": Size(1058, 1670, 225, 330),
    "ad": Size(1556, 2461, 327, 491),
    # of other papers
    "mushrooms": Size(112, 2000, 500, 5624),
    "adult": Size(123, 5000, 1414, 26147),
    "connect4": Size(126, 16000, 4000, 47557),
    "ocr_letters": Size(128, 32152, 10000, 10000),
    "rcv1": Size(150, 40000, 10000, 150000),
    "nips": Size(500, 400, 100, 1240),
    "moviereview": Size(1001, 1600, 150, 250),
    "voting": Size(1359, 1214, 200, 350),
}

SHA = {  # of train, valid and test
    "nltcs": (
        "443230cccd53650e3465d88ecc71c165a03b8ea93e0d5efc8a0adee9a8c3261b",
        "aa893aea35fc267dcd8c5ade1082667c9de65606aa1636a7bda7e10e9107542c",
        "2e7f41a762856c5358655546177ed76633343496f93dd9519d14c8dd7a8290af",
    ),
    "baudio": (
        "5d2eeadd13bc64ee585be6fd65f2302674c7d39d116a215360155ed08363bca5",
        "98c90ab90ac1e66c6915d349e8fd6c4c07be877858995cf956dc2cd9d07cb6a8",
        "24b66aa3e00bc05c3b93e26804c70c71d841e7ff902713919271db7f40b4e1ae",
    ),
    "jester": (
        "37fb6e5901bb6d78d20f56302586cbbfde632aff05474a39eb9903f1d39bc0f1",
        "895cf5b511ffeeb56dbf4fd1b85d82a4bd246a77170ff545040efe9c84ba4c9a",
        "13a0e32eef6c753ca141da30350fa0afd725cddba1078c2e9256fad3a1939f4b",
    ),
    "accidents": (
        "e712521d239beba5f4d9d50899963e7920099bbe3a987c9f1e58bb626261db0d",
        "638ff3fde8b552109d21d0546cd83535361fc3be51173708c4b70f21162bfae3",
        "ca5ca78bdac983743a31f57335fcdc614a6a89d79da6ed0a343f381b8951b891",
    ),
    "mushrooms": (
        "b9b5e3b85f7fc3a6a7b15951f2974a0bafa2b9528001bcb8740f7187f2d7ff2b",
        "c820fb1db5cc0918a66cac28324508eb29e73edabd540313c39bcf476757f5c4",
        "de4f74441a3f07d6acc13aaa572e67e6e101551d99bee7d668c340e5ce720256",
    ),
    "voting": (
        "887118d67d693150bd19e4a0f93494bf82d6baccf49702cdc3c71ad91fa7be54",
        "b9f871417df540fd39f339fca3e350cdf9e2a25392dc1c6d5ab40e372b417ddc",
        "1f63ef6cef9210d1ff7f5aaa2bf8b17081ddf93d7230e0031acd4e8d439c9913",
    ),
}


def at_hand() -> list[str]:
    """The sets that can be read without a download."""
    return [name for name in SETS if _local(name) is not None or _cached(name).is_file()]


def load(name: str) -> tuple[Path, Parts]:
    """A file of the set to train on, `.npz`, and what it holds, checked."""
    lookup("density-estimation table", name, SETS)
    found = _local(name)
    if found is not None and found.suffix == ".npz":
        return found, _of_file(found, name)
    if found is None and _cached(name).is_file():
        return _cached(name), _of_file(_cached(name), name)
    if found is None:
        files = {part: _download(name, part) for part in PARTS}
    else:
        files = {part: found / f"{name}.{part}.data" for part in PARTS}
    parts = {part: _of_text(file.read_bytes()) for part, file in files.items()}
    for part, file in files.items():
        check(parts[part], name, part, file)
    packed = io.BytesIO()
    arrays: dict[str, Any] = {**parts}
    np.savez_compressed(packed, **arrays)
    make_folder(_cached(name).parent, "set XDG_CACHE_HOME to a folder that can be written")
    write_bytes(_cached(name), packed.getvalue())
    if found is None:
        for file in files.values():
            file.unlink()
    return _cached(name), parts


def digest(values: np.ndarray) -> str:
    """SHA-256 of the bits."""
    return hashlib.sha256(np.packbits(values, axis=1).tobytes()).hexdigest()


def check(values: np.ndarray, name: str, part: str, file: Path) -> None:
    """Refuses what is not this part of the set."""
    if wrong := _wrong(values, name, part):
        raise InputError(f"{file} does not hold the {part} part of {name}: {wrong}; {REMEDY}")


def _wrong(values: np.ndarray, name: str, part: str) -> str:
    """What is wrong with a part, or nothing."""
    size = SETS[name]
    shape = (getattr(size, part), size.columns)
    if values.shape != shape:
        return f"it has the shape {values.shape} instead of {shape}"
    if values.size and values.max() > 1:
        return f"it has the value {values.max()}, and all are 0 or 1"
    if name in SHA and digest(values) != SHA[name][PARTS.index(part)]:
        return f"the SHA-256 of its bits is {digest(values)} instead of {SHA[name][PARTS.index(part)]}"
    return ""


def _local(name: str) -> Path | None:
    """NAME.npz, or the folder with the original texts, below `$RAPIDBM_DATA/debd`."""
    folder = digits.data_folder()
    if folder is None:
        return None
    packed, texts = folder / "debd" / f"{name}.npz", folder / "debd" / "datasets" / name
    if packed.is_file():
        return packed
    return texts if (texts / f"{name}.train.data").is_file() else None


def _cached(name: str) -> Path:
    return cache_folder() / "debd" / f"{name}.npz"


def _of_file(file: Path, name: str) -> Parts:
    arrays = numpy_arrays(file)
    if lost := [part for part in PARTS if part not in arrays]:
        raise InputError(f"{file} holds no array {lost[0]!r}, and a set has {', '.join(PARTS)}; {REMEDY}")
    parts = {part: arrays[part]() for part in PARTS}
    for part, values in parts.items():
        if values.dtype.kind not in "biu" or values.min(initial=0) < 0:
            raise InputError(
                f"{file} does not hold the {part} part of {name}: its values are {values.dtype}, and all "
                f"are 0 or 1; {REMEDY}"
            )
        check(values, name, part, file)
    return {part: values.astype(np.uint8) for part, values in parts.items()}


def _of_text(text: bytes) -> np.ndarray:
    """Rows of 0 and 1 with commas between; what is no such text has another shape or larger values."""
    flat = np.frombuffer(text.translate(None, b", \r\n"), np.uint8) - np.uint8(ord("0"))
    rows = len(text.splitlines())
    return flat.reshape(rows, -1) if rows and flat.size % rows == 0 else flat[None]


def _download(name: str, part: str) -> Path:
    def right(file: Path) -> bool:
        return not _wrong(_of_text(file.read_bytes()), name, part)

    return digits._fetch(f"{URL}{name}/{name}.{part}.data", None, right)
