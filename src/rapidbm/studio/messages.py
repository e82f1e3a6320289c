"""Messages between the server, its workers and the pages.

    message    uint32 bytes of the header | header, JSON, padded by blanks to 4 bytes | payload
    pipe       uint32 bytes of the message | message

The header says under "arrays" what the payload holds, one after the other, each padded to 4 bytes: a
name, a kind (bits, i8, u8, f32) and a shape. Rows of `bits` are packed, the first unit first. The server
reads headers and passes payloads on as they are.
"""

from __future__ import annotations

import json
import struct
from typing import Any

Header = dict[str, Any]
SIZE = struct.Struct("<I")
LARGEST = 2**27  # bytes of a message
ALIGNED = 4
QUERIES = (
    "machines",
    "runs",
    "run",
    "datasets",
    "data",
    "columns",
    "recipe",
    "words",
    "check",
    "place",
    "label",
    "delete",
)  # methods of `Queries`
CHANGES = ("label", "delete")  # those that write
TABLE_QUESTIONS = ("table", "row", "scores", "gaps")  # methods of `Tables`


def message(header: Header, payload: bytes = b"") -> bytes:
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-len(text) % ALIGNED)
    return SIZE.pack(len(text)) + text + payload


def parse_header(whole: bytes) -> Header:
    """ValueError where it is none."""
    if len(whole) < SIZE.size:
        raise ValueError("a message has a header")
    (size,) = SIZE.unpack_from(whole)
    found = json.loads(whole[SIZE.size : SIZE.size + size])
    if not isinstance(found, dict):
        raise ValueError("a header is a set of names with values")
    return found


def with_size(whole: bytes) -> bytes:
    """As it goes through a pipe."""
    return SIZE.pack(len(whole)) + whole


def message_size(prefix: bytes) -> int:
    """Bytes of the message that follows in a pipe."""
    (size,) = SIZE.unpack(prefix)
    if not SIZE.size <= size <= LARGEST:
        raise ValueError(f"a message of {size:,} bytes")
    return int(size)
