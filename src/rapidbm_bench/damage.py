"""Damaged files: bytes that changed, and words that say something else (`fuzz`)."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save

from rapidbm.data import packed, sources

ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    7,
    0.5,
    1e308,
    10**30,
    2**63,
    -(2**63),
    "",
    "x",
    "\ud800",
    "a\0b",
    "\x1b[2J",
    "../../x",
    "/etc/passwd",
    [],
    {},
    [[]],
    [None],
    [0],
    [1, "x"],
    {"x": 1},
    [[[[[1]]]]],
    [2**40, 2**40],
]


def bytes_damaged(honest: bytes, rng: random.Random) -> bytes:
    """A few blows to the bytes, more often near the beginning, where headers are."""
    found = bytearray(honest)
    for _ in range(rng.choice((1, 1, 1, 2, 5, 20))):
        size = len(found)
        if not size:
            break
        where = rng.randrange(min(size, 400)) if rng.random() < 0.5 else rng.randrange(size)
        width = rng.choice((1, 1, 2, 4, 8, 64))
        kind = rng.randrange(7)
        if kind == 0:
            found[where] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del found[where:]
        elif kind == 2:
            found[where:where] = rng.randbytes(width)
        elif kind == 3:
            del found[where : where + width]
        elif kind == 4:
            found[where : where + width] = bytes([rng.choice((0, 255))]) * width
        elif kind == 5:
            found[where:where] = found[where : where + width]
        else:
            found[where : where + width] = rng.randbytes(width)
    return bytes(found)


def said_otherwise(value: Any, rng: random.Random) -> Any:
    """JSON with one node replaced, dropped or doubled."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        if rng.random() < 0.1:
            return {k: v for k, v in value.items() if k != key}
        if rng.random() < 0.05:
            return {**value, rng.choice(("x", "", "\ud800", key * 300)): rng.choice(ODD)}
        return {**value, key: said_otherwise(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.7:
        where = rng.randrange(len(value))
        if rng.random() < 0.2:
            return value[:where] + value[where + 1 :]
        if rng.random() < 0.2:
            return [*value, value[where]]
        return [*value[:where], said_otherwise(value[where], rng), *value[where + 1 :]]
    return rng.choice(ODD)


def json_damaged(honest: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.4:
        return bytes_damaged(honest, rng)
    if rng.random() < 0.02:
        return b"[" * 100_000
    text = json.dumps(said_otherwise(json.loads(honest), rng))
    return text.replace("Infinity", "1e999").encode("utf-8", "surrogatepass")


def lines_damaged(honest: bytes, rng: random.Random) -> bytes:
    lines = honest.splitlines(keepends=True)
    where = rng.randrange(len(lines))
    lines[where] = json_damaged(lines[where], rng) + (b"\n" if rng.random() < 0.8 else b"")
    return b"".join(lines)


def checkpoint_damaged(honest: bytes, rng: random.Random) -> bytes:
    """Bytes; or a header or a tensor, with no checksum left to tell."""
    if rng.random() < 0.2:
        return bytes_damaged(honest, rng)
    size = int.from_bytes(honest[:8], "little")
    header = json.loads(json.loads(honest[8 : 8 + size])["__metadata__"]["rapidbm"])
    header.pop("sha256")
    tensors = load(honest)
    if rng.random() < 0.5:
        header = said_otherwise(header, rng)
    else:
        name = rng.choice(list(tensors))
        if rng.random() < 0.1:
            del tensors[name]
        else:
            tensors[name] = tensor_damaged(tensors[name], rng)
    text = json.dumps(header) if rng.random() < 0.98 else "[" * 100_000
    return save(tensors, metadata={"rapidbm": text})


def tensor_damaged(value: torch.Tensor, rng: random.Random) -> torch.Tensor:
    kind = rng.randrange(6)
    if kind == 0:
        types = (torch.int64, torch.uint8, torch.bool, torch.float16, torch.float64, torch.bfloat16)
        return value.to(rng.choice(types))
    if kind == 1:
        return torch.zeros(rng.choice(((), (0,), (1,), (2, 3), (1, 1, 1), (3, 0, 2), (1, 2, 3, 4))))
    if kind == 2 and value.numel():
        return value.flatten()[: rng.randrange(value.numel()) + 1].clone()
    if kind == 3 and value.is_floating_point():
        found = value.clone().flatten()
        bad = (torch.nan, torch.inf, -torch.inf, 1e38, -3.0, 0.0)
        if found.numel():
            found[rng.randrange(found.numel())] = rng.choice(bad)
        return found.reshape(value.shape)
    if kind == 4 and value.dim():
        return torch.cat([value, value])
    if value.dtype == torch.uint8 or not value.is_floating_point():
        return (
            torch.from_numpy(np.frombuffer(rng.randbytes(value.nbytes), np.uint8).copy())
            .to(value.dtype)[: value.numel()]
            .reshape(value.shape)
        )
    return value * rng.choice((-1.0, 1e30, 0.0))


def ends_damaged(honest: bytes, rng: random.Random) -> bytes:
    """The same for a file whose header is at its end."""
    if rng.random() < 0.3:
        return bytes_damaged(honest, rng)
    size = int.from_bytes(honest[-8:-4], "little")
    start = max(0, len(honest) - 8 - size) if rng.random() < 0.8 else 0
    body = bytes_damaged(honest[start:-8], rng)
    return (
        honest[:start]
        + body
        + len(body).to_bytes(4, "little") * (start > 0)
        + honest[-8 + 4 * (start > 0) :]
    )


def spins_damaged(honest: bytes, rng: random.Random) -> bytes:
    """Bytes; or what the header says, under a checksum that agrees with it."""
    if rng.random() < 0.3:
        return bytes_damaged(honest, rng)
    size = int.from_bytes(honest[:8], "little")
    header = json.loads(honest[8 : 8 + size])
    said = json.loads(header["__metadata__"]["rapidbm"])
    if rng.random() < 0.5:
        said = said_otherwise(said, rng)
    else:
        header = said_otherwise(header, rng)
    if (
        isinstance(said, dict)
        and isinstance(header, dict)
        and isinstance(header.get("__metadata__"), dict)
    ):
        body = honest[8 + size :]
        parts = {}
        for name in sources.PARTS:
            checks: Any = header.get(f"{name}_checks")
            with suppress(TypeError, KeyError, ValueError, IndexError, AttributeError):
                a, b = checks["data_offsets"]
                table = np.frombuffer(body[a:b], np.uint8).reshape(-1, 16)
                labels = 0 if sources.labels_of(name) in header else None
                parts[name] = packed.Part(header[name]["shape"][0], 0, table, labels)
        with suppress(TypeError, ValueError):
            said["sha256"] = packed.identity(said, parts)
        header["__metadata__"]["rapidbm"] = json.dumps(said)
    text = json.dumps(header).replace("Infinity", "1e999").encode("utf-8", "surrogatepass")
    return len(text).to_bytes(8, "little") + text + honest[8 + size :]
