"""Arrays of a Zarr store, format 2 or 3, for `child`: a folder that is an array itself, `samples`, or a
group of arrays by name.

Metadata is checked before the library sees it: arrays of numbers on a regular grid, codecs that only
compress. (Format 2 has a codec that unpickles.) Only chunks that lie in the store count: a link in it
could lead elsewhere. Chunks that are not there hold the fill value, and may not be most of an array.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy
import zarr
from child import Found, check_chunk, in_file, rows_at_once  # type: ignore[import-not-found]
from numcodecs import blosc

WORDS = 2**20  # bytes of metadata
FILES = 10**6  # chunks of an array, or names in a group
COMPRESSORS = {"blosc", "zlib", "gzip", "zstd", "lz4", "bz2", "lzma"}
FILTERS = {"shuffle", "delta", "packbits", "crc32c"}
CODECS = {"bytes", "transpose", "blosc", "gzip", "zstd", "crc32c", "sharding_indexed"}
TYPES = {"bool"} | {f"{kind}{n}" for kind in ("int", "uint") for n in (8, 16, 32, 64)}
TYPES |= {"float16", "float32", "float64"}
WHOLE = "samples"  # the name of a store that is one array


@contextmanager
def opened(path: str, names: list[str]) -> Iterator[Any]:
    blosc.use_threads = False
    zarr.config.set({"async.concurrency": 1, "threading.max_workers": 1})
    root = Path(path)
    places = {WHOLE: root} if _is_array(root) else {name: root / name for name in _names(root)}
    arrays = {name: _array(places[name], name) for name in names if name in places}
    told = {name: (array.dtype.str, array.shape) for name, array in arrays.items()}
    left = [name for name in places if name not in names]
    yield Found(told, left, [], lambda name: _blocks(arrays[name]))


def _names(root: Path) -> list[str]:
    """Arrays of a group."""
    found = []
    with os.scandir(root) as entries:
        for number, entry in enumerate(entries):
            if number > FILES:
                raise ValueError(f"it holds more than {FILES:,} names")
            if entry.is_symlink():
                raise ValueError(f"{entry.name!r} is a link, and links are not followed; copy the array")
            if entry.is_dir(follow_symlinks=False) and _is_array(Path(entry.path)):
                found.append(entry.name)
    return sorted(found)


def _is_array(folder: Path) -> bool:
    if (folder / ".zarray").is_file():
        return True
    path = folder / "zarr.json"
    return path.is_file() and _words(path).get("node_type") == "array"


def _words(path: Path) -> dict[str, Any]:
    """What a file of metadata says."""
    if path.is_symlink():
        raise ValueError(f"{path.name!r} is a link, and links are not followed; copy the file")
    size = path.stat().st_size
    if size > WORDS:
        raise ValueError(f"{path.name!r} has {size:,} bytes, more than {WORDS:,}")
    found = json.loads(path.read_bytes())
    if not isinstance(found, dict):
        raise ValueError(f"{path.name!r} does not describe an array")
    return found


def _array(folder: Path, name: str) -> Any:
    """The array of a folder, checked."""
    stored = _stored(folder, name)
    v2 = (folder / ".zarray").is_file()
    told = _words(folder / ".zarray" if v2 else folder / "zarr.json")
    shape, chunks = _checked_2(told, name) if v2 else _checked_3(told, name)
    array = zarr.open_array(
        zarr.storage.LocalStore(folder, read_only=True), mode="r", zarr_format=2 if v2 else 3
    )
    if array.shape != shape or array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise ValueError(f"{name!r} holds {array.dtype} of {array.shape}, not numbers or booleans")
    count = math.prod(-(-n // c) for n, c in zip(shape, chunks, strict=True))
    if count > FILES:
        raise ValueError(f"{name!r} has {count:,} chunks, more than {FILES:,}; write it in larger ones")
    size = math.prod(shape) * array.dtype.itemsize
    in_file(name, size, stored)
    check_chunk(chunks, array.dtype.itemsize, size)
    rows_at_once(shape, array.dtype.itemsize, chunks[0])
    return array


def _stored(folder: Path, name: str) -> int:
    """Bytes of the files of an array, none of which may be a link."""
    size = count = 0
    for place, folders, files in os.walk(folder):
        for entry in (*folders, *files):
            found = os.lstat(os.path.join(place, entry))
            file = stat.S_ISREG(found.st_mode)
            if not file and not stat.S_ISDIR(found.st_mode):
                raise ValueError(f"{name}/{entry} is a link, and links are not followed; copy the file")
            size += found.st_size if file else 0
            count += 1
            if count > 2 * FILES:
                raise ValueError(f"{name!r} has more than {2 * FILES:,} files; write it in larger chunks")
    return size


def _sizes(value: Any, what: str, name: str, least: int = 0) -> tuple[int, ...]:
    """Whole numbers, as many as an array has axes."""
    if not (isinstance(value, list) and 0 < len(value) <= 8):
        raise ValueError(f"the {what} of {name!r} is {value!r:.100}")
    if not all(type(n) is int and least <= n < 2**48 for n in value):
        raise ValueError(f"the {what} of {name!r} is {value!r:.100}")
    return tuple(value)


def _checked_2(told: dict[str, Any], name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = _sizes(told.get("shape"), "shape", name)
    chunks = _sizes(told.get("chunks"), "grid of chunks", name, least=1)
    dtype = told.get("dtype")
    if not isinstance(dtype, str) or numpy.dtype(dtype).kind not in "biuf":
        raise ValueError(f"{name!r} holds {dtype!r:.60}, not numbers or booleans")
    for kind, known in (("compressor", COMPRESSORS), ("filters", FILTERS | COMPRESSORS)):
        given = told.get(kind)
        for codec in given if isinstance(given, list) else [given]:
            word = codec.get("id") if isinstance(codec, dict) else codec
            if word is not None and word not in known:
                raise _unknown(name, word, known)
    if len(chunks) != len(shape):
        raise ValueError(f"{name!r} has a shape {shape} and chunks {chunks}")
    return shape, chunks


def _checked_3(told: dict[str, Any], name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = _sizes(told.get("shape"), "shape", name)
    if told.get("data_type") not in TYPES:
        raise ValueError(f"{name!r} holds {told.get('data_type')!r:.60}, not numbers or booleans")
    if told.get("storage_transformers"):
        raise ValueError(f"{name!r} has storage transformers, which are not known")
    grid = told.get("chunk_grid")
    if not isinstance(grid, dict) or grid.get("name") != "regular":
        raise ValueError(f"the chunks of {name!r} are on no regular grid")
    chunks = _sizes((grid.get("configuration") or {}).get("chunk_shape"), "grid of chunks", name, least=1)
    if len(chunks) != len(shape):
        raise ValueError(f"{name!r} has a shape {shape} and chunks {chunks}")
    _check_codecs(told.get("codecs"), name)
    return shape, chunks


def _check_codecs(codecs: Any, name: str, depth: int = 0) -> None:
    if not isinstance(codecs, list) or len(codecs) > 8 or depth > 1:
        raise ValueError(f"the codecs of {name!r} are {codecs!r:.100}")
    for codec in codecs:
        word = codec.get("name") if isinstance(codec, dict) else None
        if word not in CODECS:
            raise _unknown(name, word, CODECS)
        if word == "sharding_indexed":
            inner = codec.get("configuration")
            if not isinstance(inner, dict):
                raise ValueError(f"the shards of {name!r} are not described")
            _sizes(inner.get("chunk_shape"), "grid of chunks in a shard", name, least=1)
            _check_codecs(inner.get("codecs"), name, depth + 1)
            _check_codecs(inner.get("index_codecs"), name, depth + 1)


def _unknown(name: str, codec: Any, known: set[str]) -> ValueError:
    return ValueError(f"{name!r} is packed by {codec!r:.60}; known are {', '.join(sorted(known))}")


def _blocks(array: Any) -> Iterator[Any]:
    rows = (array.shards or array.chunks)[0]
    step = rows_at_once(array.shape, array.dtype.itemsize, rows)
    for start in range(0, array.shape[0], step):
        yield numpy.ascontiguousarray(array[start : start + step])
