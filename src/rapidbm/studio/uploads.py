"""Files that are dropped onto the page: taken in up to a size, and read by the readers of the library.

Nothing is believed of what a browser says: the size is counted while the file comes, the name becomes one
of letters that lies in the folder `data`, and what the file holds is read by a worker, as a file on the
command line is. One that cannot be read does not stay.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

from ..disk import inside, part_of

UPLOADS = "data"  # the folder of what was dropped onto the page
UPLOADED = "upload:"  # before the name of such a file
ENDINGS = (".npy", ".npz", ".h5", ".hdf5", ".csv", ".tsv", ".txt", ".data")
MAX_BYTES = 64 * 2**20  # bytes


class UploadError(Exception):
    """A file that is not taken in: a status of HTTP, and why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def safe_name(name: str) -> str:
    """The name under which a file is kept."""
    stem, dot, ending = re.split(r"[/\\]", name)[-1].rpartition(".")
    if f"{dot}{ending.lower()}" not in ENDINGS:
        raise UploadError(415, f"files of data end in {', '.join(ENDINGS)}, not in {ending[:20]!r}")
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-_")[:60]
    return f"{plain or 'table'}.{ending.lower()}"


async def save_upload(
    folder: Path, name: str, claimed: str | None, pieces: AsyncIterator[bytes], largest: int = MAX_BYTES
) -> str:
    """Writes the file into the folder, under a name that no other has; answers the name."""
    fit = safe_name(name)
    too_large = UploadError(413, f"a file may have {largest:,} bytes; train larger ones by the command")
    if claimed is not None and (not claimed.isdecimal() or int(claimed) > largest):
        raise too_large
    place = inside(folder, UPLOADS)
    place.mkdir(parents=True, exist_ok=True)
    size = 0
    with part_of(place / fit) as part:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            async for piece in pieces:
                size += len(piece)
                if size > largest:
                    raise too_large
                file.write(piece)
        if not size:
            raise UploadError(400, "the file is empty")
        return _publish(part, place, Path(fit))


def _publish(part: Path, place: Path, name: Path) -> str:
    """Gives the file its name, with a number after it where that is taken."""
    number, path = 1, place / name
    while True:
        try:
            os.link(part, path)  # fails where there is one, unlike a rename
            return path.name
        except FileExistsError:
            number += 1
            path = place / f"{name.stem}-{number}{name.suffix}"
