"""Content of text files that may come from a stranger: whole, within bounds, as UTF-8."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from ..accel.memory import check_room

SMALL, RATIO = 2**26, 200  # a .gz may unpack to so many bytes, or to so many times its size
TIMES = 12  # bytes that reading takes for each of the content


def content_of(path: Path) -> bytes:
    """The content of a file, unpacked if its name ends in .gz."""
    if path.suffix.lower() == ".gz":
        return _unpacked(path)
    check_room(f"reading {path}", path.stat().st_size, size=TIMES, free=True)
    return path.read_bytes()


def _unpacked(path: Path) -> bytes:
    """The content of a .gz, piece by piece, until it is too much."""
    packed, pieces, size = path.stat().st_size, [], 0
    try:
        with gzip.open(path, "rb") as file:
            while piece := file.read(2**22):
                size += len(piece)
                if size > max(SMALL, RATIO * packed):
                    raise ValueError(
                        f"it unpacks to more than {RATIO} times its {packed:,} bytes, which no text does"
                    )
                if size % 2**26 < len(piece):
                    check_room(f"reading {path}", size, size=TIMES, free=True)
                pieces.append(piece)
    except (EOFError, zlib.error) as error:
        raise ValueError(f"it is no whole .gz: {error}") from error
    return b"".join(pieces)


def as_utf8(content: bytes) -> bytes:
    """UTF-8 without a mark, from that, from UTF-16 with a mark, or else from Windows' old encoding."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16").encode()
    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        content.decode()
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace").encode()
    return content
