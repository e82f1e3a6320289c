"""Files that are written whole, folders that one process works in, and what is read from either.

A write goes to a temporary file that then takes the place of the old one: a reader sees the old file or
the new one, never half of it. A folder may come from a stranger, so nothing in it is followed: a path
that leads out of the folder is refused (`inside`), and what is written replaces a link, never its target.
Whatever somebody else's parser raises over a damaged file is the file's fault (`reading`).
"""

from __future__ import annotations

import errno
import json
import os
import stat
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

from . import interrupts
from .errors import DiskError, InputError
from .schema import Shape

NO_FOLLOW, BINARY = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_BINARY", 0)
JSON_BYTES = 2**24  # of a description; what holds more is none
_PARTS: set[Path] = set()  # temporary files that are being written


def inside(folder: Path, *names: str) -> Path:
    """A path below a folder; one that a link takes elsewhere is refused."""
    path = folder.joinpath(*names)
    if not path.resolve().is_relative_to(folder.resolve()):
        raise InputError(
            f"{path} leads out of {folder}, to {path.resolve()}: what a folder holds lies in it; put the "
            "file itself there, or remove the link"
        )
    return path


def cache_folder() -> Path:
    """Where this user keeps what can be had again: `$XDG_CACHE_HOME/rapidbm`, or ~/.cache/rapidbm."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rapidbm"


def make_folder(path: Path, remedy: str = "choose another --out") -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path} cannot be made: {error}; {remedy}") from error


def write_bytes(path: Path, content: bytes) -> None:
    """Replaces a file as a whole."""
    write_pieces(path, (content,))


def write_pieces(path: Path, pieces: Iterable[bytes | memoryview], *, before: Path | None = None) -> None:
    """The same of pieces, none of which is copied; what there was is then under the name `before`. At
    every moment one of the two is there and whole."""
    with writing(path), part_of(path) as temporary:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o666)
        with os.fdopen(handle, "wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        if before is not None:
            _keep(path, before)
        os.replace(temporary, path)


@contextmanager
def part_of(path: Path) -> Iterator[Path]:
    """The name of a temporary file that is to take the place of `path`; it is removed at the end of the
    block, or by a signal that ends the command."""
    temporary = path.with_name(f".{path.name}.{token_hex(8)}.part")  # cannot be guessed
    _PARTS.add(temporary)
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
        _PARTS.discard(temporary)


def _remove_parts() -> None:
    for path in tuple(_PARTS):
        path.unlink(missing_ok=True)


interrupts.clean_up.append(_remove_parts)


def _keep(path: Path, before: Path) -> None:
    """Gives a file a second name, or another one where files have one name only."""
    with part_of(before) as spare:  # which stays where both were names of one file already
        try:
            os.link(path, spare, follow_symlinks=False)
            os.replace(spare, before)
        except FileNotFoundError:  # the first of them
            return
        except OSError:
            os.replace(path, before)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What the system refuses to write is told with its place."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        reason = error.strerror or type(error).__name__
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        remedy = "make room on the disk" if full else "check its permissions, and the disk"
        raise DiskError(f"{path} cannot be written: {reason}; {remedy}") from error


def write_json(path: Path, value: Any) -> None:
    write_bytes(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def append_line(path: Path, text: str) -> None:
    with writing(path):
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | NO_FOLLOW, 0o666)
        with os.fdopen(handle, "a", encoding="utf-8") as file:
            file.write(text + "\n")


class Steady:
    """A file that stays as it was when it was opened, and is read at any place; ValueError where it has
    changed, or ends too early. It is read, not mapped: a mapped one that is cut ends this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.handle = os.open(path, os.O_RDONLY | BINARY)
        self.close = weakref.finalize(self, os.close, self.handle)
        self.stamp = self._stamp()

    def _stamp(self) -> tuple[int, int]:
        found = os.fstat(self.handle)
        return found.st_size, found.st_mtime_ns

    @property
    def size(self) -> int:
        return self.stamp[0]

    def read(self, start: int, count: int) -> bytearray:
        """So many bytes from there on."""
        found = bytearray(count)
        view, at = memoryview(found), 0
        while at < count:
            got = os.preadv(self.handle, [view[at : at + 2**30]], start + at)
            if not got:
                raise ValueError(f"it ends after {start + at:,} bytes")
            at += got
        if self._stamp() != self.stamp:
            raise ValueError("it has changed since it was opened")
        return found


@contextmanager
def reading(path: Path, what: str, remedy: str) -> Iterator[None]:
    """Whatever is raised inside becomes one error about the file: only parsers belong there."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        words = " ".join(f"{error}".split()) or type(error).__name__
        words = words if len(words) < 200 else f"{words[:200]}…"
        raise InputError(f"{path} cannot be read as {what}: {words}; {remedy}") from error


def parse_json(text: bytes | str) -> Any:
    """JSON without the NaN and Infinity that Python adds to it."""
    return json.loads(text, parse_constant=_no_number)


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no number of JSON")


def read_json(path: Path, shape: Shape, what: str, remedy: str) -> Any:
    """A file of JSON, of that shape."""
    with reading(path, what, remedy):
        size = path.stat().st_size
        if size > JSON_BYTES:
            raise ValueError(f"it has {size:,} bytes, more than {JSON_BYTES:,}")
        found = parse_json(path.read_bytes())
    return shape.checked(found, f"{path} cannot be read as {what}:", remedy)


@contextmanager
def locked(folder: Path, doing: str) -> Iterator[None]:
    """One process works in a folder at a time; what a killed one left half written is removed."""
    try:
        import fcntl
    except ImportError:  # a system without it
        yield
        return
    path = folder / ".lock"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o666)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC):
            raise DiskError(
                f"{folder} cannot be written to: {error.strerror}; {doing} needs that: give the right to "
                "it, make room, or copy the folder to where you may write"
            ) from error
        raise InputError(f"{path} cannot be opened: {error.strerror}; remove it") from error
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise InputError(f"{path} is no file of rapidbm's; remove it")
        for patience in (0.05, 0.0):  # one that only asks (`is_locked`) has it for a moment
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if not patience:
                    raise InputError(
                        f"another process is {doing} into {folder}; wait for it or stop it"
                    ) from error
                time.sleep(patience)
        for left in folder.rglob(".*.part"):
            with suppress(OSError):
                left.unlink()
        yield
    finally:
        os.close(handle)


def is_locked(folder: Path) -> bool | None:
    """Whether some process works in a folder; None on a system that cannot tell."""
    try:
        import fcntl
    except ImportError:
        return None
    try:
        handle = os.open(folder / ".lock", os.O_RDONLY | NO_FOLLOW | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def is_free(folder: Path) -> bool:
    """True for a folder that is not there, or holds at most what a kill left of a first write."""
    if not folder.exists():
        return True
    return folder.is_dir() and all(
        path.suffix == ".part" or path.name == ".lock" for path in folder.iterdir()
    )
