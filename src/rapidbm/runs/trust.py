"""Files that the user has named, the only ones outside a run folder that its recipe may have read.

A run folder tells where its data lie, and a stranger's tells what he likes. So a file counts once the
user has trained on it or given it as --data: a mark in the cache says so. A cache that is lost, or
another computer, asks again.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

from ..disk import cache_folder


def _mark(path: Path) -> Path:
    name = hashlib.sha256(str(path.resolve()).encode("utf-8", "surrogateescape")).hexdigest()
    return cache_folder() / "named" / name


def trust(path: Path) -> None:
    """From now on a recipe may point at this file."""
    with suppress(OSError):  # no place to remember it: the next time asks
        mark = _mark(path)
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()


def is_trusted(path: Path) -> bool:
    return _mark(path).is_file()
