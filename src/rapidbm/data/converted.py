"""Files as packed spins (`packed`): on request, and of large files in a cache.

Rows are trained on in random order, epoch after epoch, and compressed chunks of a C library's file are a
bad place for that: each would be unpacked many times, by a process that may die of it. So a large file
that is no array of plain rows is packed once, row after row, into the user's cache, and trained on from
there. What is in the cache belongs to the file as it was, by size and time of change; of another one the
copy is made anew. `XDG_CACHE_HOME` names another folder for it.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..arrays import Array
from ..disk import cache_folder, make_folder
from ..errors import InputError
from ..progress import Watch, watch
from .packed import ENDING, Incoming, Packed, bytes_of, write_packed
from .sources import Source, labels_of, opened
from .tables import ENDINGS, read_table

SPARE = 2**26  # bytes that are left free on the disk


def pack(source: str | Path, path: str | Path) -> str:
    """The SHA-256 of a packed copy of a data file, which this call writes.

    The copy takes one bit per spin. Parts and labels are kept. It works for files of any size.

    Parameters
    ----------
    source : str or Path
        File with the data.
    path : str or Path
        File to write, with the ending `.spins`; it must not exist.

    Returns
    -------
    str
        SHA-256 of what was written, in hexadecimal.

    Raises
    ------
    InputError
        If `source` cannot be read, or `path` exists, has another ending or lies in no folder.
    """
    given, target = Path(source), Path(path)
    if target.suffix != ENDING:
        raise InputError(f"packed spins are in a file {ENDING}, not {target.name!r}; name it so")
    if target.exists():
        raise InputError(f"{target} exists; choose another name")
    if not target.parent.is_dir():
        raise InputError(f"there is no folder {target.parent}; make it first")
    if not given.exists():
        raise InputError(f"there is no file {given}; check the path")
    if given.suffix.lower() in ENDINGS:
        values, names = read_table(given)
        part = Incoming(len(values), [values])
        shape = (1, values.shape[1]) if names else shape_of((values.shape[1],))
        return write_packed(target, {"samples": part}, values.shape[1], shape, names)
    with opened(given) as found:
        return _packed(given, found, target)


def _packed(given: Path, source: Source, target: Path) -> str:
    """All parts of a source, in a file."""
    names = used(source)
    if not names:
        raise InputError(f"{given} holds no rows under a name that is known; see rapidbm datasets")
    first = source.claims[names[0]].shape
    if len(first) not in (2, 3):
        raise InputError(f"{given}: samples are (rows, pixels) or (rows, height, width), not {first}")
    visible, shape = math.prod(first[1:]), shape_of(first[1:])
    if not visible or any(math.prod(source.claims[name].shape[1:]) != visible for name in names):
        raise InputError(f"{given}: the rows of all parts must have the same number of columns")
    if source.columns:
        shape = (1, visible)
    rows = sum(source.claims[name].shape[0] for name in names)
    _check_disk(target.parent, rows * (bytes_of(visible) + 8))
    with watch(f"packing {given.name}", rows) as tick:
        parts = {}
        for name in names:
            labels = source.blocks(labels_of(name)) if labels_of(name) in source.claims else None
            count = source.claims[name].shape[0]
            parts[name] = Incoming(count, _counted(source.blocks(name), tick), labels)
        return write_packed(target, parts, visible, shape, source.columns)


def _counted(blocks: Iterator[Array], tick: Watch) -> Iterator[Array]:
    for block in blocks:
        yield block
        tick.add(len(block))


def used(source: Source) -> list[str]:
    """The parts of a source that a data set has."""
    if "train" in source.claims and "test" in source.claims:
        return [name for name in ("train", "test", "valid") if name in source.claims]
    return [name for name in ("samples", "valid") if name in source.claims and "samples" in source.claims]


def shape_of(row: tuple[int, ...]) -> tuple[int, int]:
    """How a row is drawn: an image if it is one, or a square; else a line."""
    if len(row) == 2:
        return row[0], row[1]
    side = math.isqrt(row[0])
    return (side, side) if side * side == row[0] else (1, row[0])


def _check_disk(folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if size + SPARE > free:
        raise InputError(
            f"the packed rows take {size / 1e9:.3g} GB, and {folder} has {free / 1e9:.3g} GB left; make "
            "room, name another folder for the cache in XDG_CACHE_HOME, or another file"
        )


# -- the cache ----------------------------------------------------------------------------------------


def cached(path: Path, source: Source) -> Packed:
    """The packed copy of a file, made if there is none of the file as it is."""
    folder = cache_folder() / "packed"
    make_folder(folder, "name another folder for the cache in XDG_CACHE_HOME")
    name = hashlib.sha256(str(path.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:32]
    copy, note = folder / f"{name}{ENDING}", folder / f"{name}.json"
    stamp = {"file": str(path.resolve()), "stamp": _stamp(path)}
    with suppress(OSError, ValueError, InputError):
        if json.loads(note.read_text()) == stamp:
            return Packed(copy)
    note.unlink(missing_ok=True)  # another process may be at the same: what it writes is the same, too
    _packed(path, source, copy)
    if _stamp(path) != stamp["stamp"]:
        copy.unlink(missing_ok=True)
        raise InputError(f"{path} changed while it was read; try again when it is complete")
    with suppress(OSError):  # the next time packs again
        note.write_text(json.dumps(stamp))
    return Packed(copy)


def _stamp(path: Path) -> str:
    """Changes when the file, or any file in the folder, does."""
    digest = hashlib.sha256()
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    for file in files:
        found = file.lstat()
        digest.update(
            f"{file} {found.st_size} {found.st_mtime_ns} {found.st_ino}\n".encode("utf-8", "replace")
        )
    return digest.hexdigest()
