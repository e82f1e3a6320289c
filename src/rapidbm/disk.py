"""Files that are written whole, folders that one process works in, and what is read from either.

A write goes to a temporary file that then takes the place of the old one: a reader sees the old file or
the new one, never half of it. A folder may come from a stranger, so nothing in it is followed: a path
that leads out of the folder is refused (`inside`), and what is written replaces a link, never its target.
Whatever somebody else's parser raises over a damaged file is the file's fault (`reading`).
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

from .errors import InputError
from .schema import Shape

NO_FOLLOW, BINARY = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_BINARY", 0)
JSON_BYTES = 2**24  # of a description; what holds more is none


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


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path} cannot be made: {error}; choose another --out") from error


def write_bytes(path: Path, content: bytes) -> None:
    """Replaces a file as a whole."""
    temporary = path.with_name(f".{path.name}.{token_hex(8)}.part")  # which nobody could foresee
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    write_bytes(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def append_line(path: Path, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | NO_FOLLOW, 0o666)
    with os.fdopen(handle, "a", encoding="utf-8") as file:
        file.write(text + "\n")


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
