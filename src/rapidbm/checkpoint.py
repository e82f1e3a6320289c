"""Machines in files: safetensors, with what is needed to build the machine in the header.

Every write goes to a temporary file that then takes the place of the old one: a reader sees the
old file or the new one, never half of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from .couplings import Couplings, Dense, Patterns
from .errors import InputError
from .layers import Layers
from .machine import Machine

FORMAT = 1


def write_bytes(path: Path, content: bytes) -> None:
    """Replaces a file as a whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    write_bytes(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


@contextmanager
def locked(folder: Path, doing: str) -> Iterator[None]:
    """One process works in a folder at a time; what a killed one left half written is removed."""
    try:
        import fcntl
    except ImportError:  # a system without it
        yield
        return
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(
                f"another process is {doing} into {folder}; wait for it or stop it"
            ) from error
        for left in folder.rglob(".*.part"):
            left.unlink(missing_ok=True)
        yield


def save_tensors(
    path: Path, machine: Machine, tensors: Mapping[str, Tensor], extra: Mapping[str, Any]
) -> None:
    """Tensors with a header that says which machine they belong to."""
    header = {
        "format": FORMAT,
        "sizes": machine.layers.sizes,
        "edges": machine.layers.edges,
        "couplings": "patterns" if isinstance(machine.couplings, Patterns) else "dense",
        **extra,
    }
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    write_bytes(path, save(plain, metadata={"rapidbm": json.dumps(header)}))


def load_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a file and its header, checked."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no checkpoint {path}; check the path")
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get("rapidbm", "{}"))
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, json.JSONDecodeError) as error:
        raise InputError(
            f"{path} cannot be read as safetensors: {error}; it may be truncated, take another "
            "checkpoint"
        ) from error
    version = header.get("format") if isinstance(header, dict) else None
    if version != FORMAT:
        raise InputError(
            f"{path} has the format {version!r}, this version of rapidbm reads {FORMAT}; use the "
            "version that wrote it"
        )
    if not {"sizes", "edges", "couplings"} <= set(header):
        raise InputError(f"{path} does not say which machine it holds; take another checkpoint")
    return tensors, header


def save_machine(machine: Machine, path: str | Path) -> None:
    """Writes a machine to a file; one that is there is replaced."""
    save_tensors(Path(path), machine, _named(machine), {})


def load_machine(path: str | Path, *, averaged: bool = False) -> Machine:
    """The machine of a file; `averaged` takes the running average of its parameters."""
    tensors, header = load_tensors(path)
    part = "average/" if averaged else "parameter/"
    found = {k.removeprefix(part): v for k, v in tensors.items() if k.startswith(part)}
    if not found:
        raise InputError(f"{path} holds no {part.rstrip('/')}; it has {', '.join(tensors)}")
    layers = Layers(tuple(header["sizes"]), tuple((a, b) for a, b in header["edges"]))
    couplings: Couplings
    try:
        if header["couplings"] == "patterns":
            couplings = Patterns(layers, found["couplings.patterns"])
        else:
            couplings = Dense(
                layers, {(a, b): found[f"couplings.weights.{a}-{b}"] for a, b in layers.edges}
            )
    except KeyError as error:
        raise InputError(f"{path} lacks the tensor {error}; take another checkpoint") from error
    return Machine(couplings, found.get("biases"))


def check_sizes(path: Path, found: Sequence[int], wanted: tuple[int, ...]) -> None:
    """Refuses a checkpoint of another machine."""
    if tuple(found) != wanted:
        raise InputError(
            f"{path} holds a machine of layers {tuple(found)}, but the recipe asks for {wanted}; "
            "the checkpoint belongs to another run"
        )


def _named(machine: Machine) -> dict[str, Tensor]:
    return {f"parameter/{name}": p.data for name, p in machine.named_parameters()}


def device_named(name: str) -> torch.device:
    """`auto` is the GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
        torch.Generator(device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].partition(". ")[0]
        raise InputError(
            f"the device {name!r} cannot be used here: {reason}; use auto or cpu"
        ) from error
    return device
