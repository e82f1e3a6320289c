"""Machines in files: safetensors, with what is needed to build the machine in the header.

The header also has a checksum of all that the file says: one whose bits have changed is refused (files of
earlier versions have none). Everything is checked against `HEADER`, and tensors against the layers that
it names, before a machine is built.

Parameters are float32 or float64, as the machine's are. A file that is to be small has them in half
precision, if its header says so (`precision`); what is built from it is float32.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from ..disk import parse_json, reading, write_pieces
from ..errors import InputError
from ..schema import Anything, Names, OneOf, Real, Several, Text, Whole
from .couplings import Couplings
from .dense import Dense
from .layers import Layers
from .machine import Machine
from .patterns import Patterns
from .units.kinds import described, kind_of

FORMAT = 1
FLOATS = (torch.float32, torch.float64)
HALF = torch.half
HEADER = Names(
    {
        "format": Whole(),
        "sizes": Several(Whole(1, 2**31), most=1000),
        "edges": Several(Several(Whole(0, 1000), count=2)),
        "couplings": OneOf(("patterns", "dense")),
    },
    {
        "update": Whole(),
        "seconds": Real(0),
        "evaluations": Whole(),
        "wall": Real(0),
        "sha256": Text(64),
        "precision": OneOf(("half",)),
        "strengths": Several(Real(0)),
        "units": Several(Anything(), most=1000),  # the kind of each layer; all spins if left out
        "visible_layers": Whole(1, 1000),
        "card": Anything(),  # of a machine of the package: `runs/pretrained`
    },
)


def save_tensors(
    path: Path,
    machine: Machine,
    tensors: Mapping[str, Tensor],
    extra: Mapping[str, Any],
    *,
    before: Path | None = None,
) -> None:
    """Tensors with a header that says which machine they belong to; what there was is then `before`."""
    layers = machine.layers
    header = {
        "format": FORMAT,
        "sizes": layers.sizes,
        "edges": layers.edges,
        "couplings": machine.couplings.kind,
        **({} if layers.spins else {"units": [described(unit) for unit in layers.kinds]}),
        **({} if layers.seen == 1 else {"visible_layers": layers.seen}),
        **({} if machine.couplings.strengths is None else {"strengths": machine.couplings.strengths}),
        **extra,
    }
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    header["sha256"] = _checksum(plain, header)
    write_pieces(path, _pieces(plain, {"rapidbm": json.dumps(header)}), before=before)


def _pieces(tensors: Mapping[str, Tensor], words: Mapping[str, str]) -> Iterator[bytes | memoryview]:
    """A file of safetensors piece by piece: its own writer would copy all of it."""
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))  # so all are aligned
    told: dict[str, Any] = {"__metadata__": dict(words)}
    at = 0
    for name in order:
        value = tensors[name]
        told[name] = {
            "dtype": _kind(value),
            "shape": list(value.shape),
            "data_offsets": [at, at + value.nbytes],
        }
        at += value.nbytes
    text = json.dumps(told, separators=(",", ":")).encode()
    text = text.ljust(-(-len(text) // 8) * 8)
    yield len(text).to_bytes(8, "little") + text
    yield from (_bytes(tensors[name]) for name in order if tensors[name].nbytes)


def _kind(value: Tensor) -> str:
    """A type in the words of safetensors."""
    if value.dtype == torch.bool:
        return "BOOL"
    known = (*FLOATS, HALF, torch.uint8, torch.int8, torch.int32, torch.int64)
    if value.dtype not in known:
        raise InputError(f"a file of tensors holds no {value.dtype}; convert it first")
    letter = "F" if value.is_floating_point() else "I" if value.is_signed() else "U"
    return f"{letter}{8 * value.element_size()}"


def _bytes(value: Tensor) -> memoryview:
    return memoryview(value.reshape(-1).view(torch.uint8).numpy().data)


def _checksum(tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> str:
    said = {name: value for name, value in header.items() if name != "sha256"}
    digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode())
    for name in sorted(tensors):
        value = tensors[name].contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(_bytes(value))
    return digest.hexdigest()


def load_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a file and its header, checked."""
    path = Path(path)
    remedy = "it may be truncated or damaged, take another checkpoint"
    if not path.is_file():
        raise InputError(f"there is no checkpoint {path}; check the path")
    with reading(path, "safetensors", remedy), safe_open(path, framework="pt") as file:
        header = parse_json((file.metadata() or {}).get("rapidbm", "{}"))
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    version = header.get("format") if isinstance(header, dict) else None
    if version != FORMAT:
        raise InputError(
            f"{path} has the format {version!r}, this version of rapidbm reads {FORMAT}; use the "
            "version that wrote it"
        )
    HEADER.checked(header, f"{path} does not say which machine it holds:", remedy)
    if header.pop("sha256", None) not in (None, _checksum(tensors, header)):
        raise InputError(f"{path} is not what was written: its checksum differs; {remedy}")
    return tensors, header


def save_machine(
    machine: Machine,
    path: str | Path,
    *,
    half: bool = False,
    beside: Mapping[str, Tensor] | None = None,
    card: Mapping[str, Any] | None = None,
) -> None:
    """Writes a machine to a file; one that is there is replaced. `half` rounds its parameters to half
    precision. `beside` and `card` are more tensors and words to keep with it."""
    path = Path(path)
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent} to save {path.name} in; make it first")
    extra: dict[str, Any] = {} if card is None else {"card": card}
    named = {f"parameter/{name}": p.data for name, p in machine.named_parameters()}
    if half:
        named = {name: _rounded(value) for name, value in named.items()}
        extra["precision"] = "half"
    save_tensors(path, machine, {**named, **(beside or {})}, extra)


def _rounded(value: Tensor) -> Tensor:
    largest, most = float(value.abs().max()), torch.finfo(HALF).max
    if largest > most:
        raise InputError(
            f"half precision holds parameters up to {most:g}, the largest here is {largest:g}; leave "
            "half out"
        )
    return value.to(HALF)


def load_machine(path: str | Path, *, averaged: bool = False, replica: int | None = None) -> Machine:
    """The machine of a file, or one replica of it; `averaged` takes the running average of its
    parameters. Energies that are not finite are refused."""
    tensors, header = load_tensors(path)
    part = "average/" if averaged else "parameter/"
    found = {k.removeprefix(part): v for k, v in tensors.items() if k.startswith(part)}
    if not found:
        raise InputError(f"{path} holds no {part.rstrip('/')}; it has {', '.join(tensors)}")
    layers = layers_of(path, header)
    kind, half = header["couplings"], header.get("precision") == "half"
    _check_parameters(Path(path), found, layers, kind, (HALF,) if half else FLOATS)
    if replica is not None:
        last = min(map(len, found.values())) - 1
        if not 0 <= replica <= last:
            raise InputError(f"{path} has replicas 0 to {last}, there is no replica {replica}")
        found = {name: value[replica : replica + 1] for name, value in found.items()}
    whole = torch.stack([value.flatten(1).isfinite().all(1) for value in found.values()]).all(0)
    _check_finite(path, whole, replica)
    if half:
        found = {name: value.float() for name, value in found.items()}
    couplings: Couplings
    if kind == "patterns":
        xi, strengths = found["couplings.patterns"], header.get("strengths")
        couplings = Patterns(layers, xi, strengths=strengths)
    else:
        couplings = Dense(layers, {(a, b): found[f"couplings.weights.{a}-{b}"] for a, b in layers.edges})
    own = {k.removeprefix("own."): v for k, v in found.items() if k.startswith("own.")}
    machine = Machine(couplings, found.get("biases"), own)
    _check_finite(path, machine.finite(), replica)
    return machine


def layers_of(path: str | Path, header: Mapping[str, Any]) -> Layers:
    """The layers that a header names."""
    units = header.get("units", [])
    if not all(isinstance(unit, dict) and isinstance(unit.get("kind"), str) for unit in units):
        raise InputError(
            f"{path} does not say the kinds of its units: {units!r}; take another checkpoint"
        )
    kinds = tuple(kind_of(unit) for unit in units)
    edges = tuple((a, b) for a, b in header["edges"])
    return Layers(tuple(header["sizes"]), edges, kinds, header.get("visible_layers", 1))


def _check_finite(path: str | Path, finite: Tensor, replica: int | None) -> None:
    lost = torch.nonzero(~finite).flatten().tolist()
    if lost:
        which = ", ".join(map(str, lost if replica is None else [replica]))
        raise InputError(
            f"{path} holds a machine whose energies are not finite (replica {which}); take another "
            "checkpoint (--update)"
        )


def _check_parameters(
    path: Path,
    found: Mapping[str, Tensor],
    layers: Layers,
    kind: str,
    types: tuple[torch.dtype, ...] = FLOATS,
) -> None:
    """Refuses tensors that are not the parameters of these layers."""
    sizes, n = layers.sizes, layers.columns
    wanted: dict[str, tuple[int | None, ...]]  # sizes after the replicas
    if kind == "patterns":
        wanted = {"couplings.patterns": (None, n)}
    else:
        wanted = {f"couplings.weights.{a}-{b}": (sizes[a], sizes[b]) for a, b in layers.edges}
    of_units = {
        f"own.{i}": (len(unit.parameters), count)
        for i, (unit, count) in enumerate(zip(layers.kinds, layers.counts, strict=True))
        if unit.parameters
    }
    wanted |= of_units
    rules = {**wanted, "biases": (n,)}
    if lost := [name for name in wanted if name not in found]:
        raise InputError(f"{path} lacks the tensor {lost[0]}; take another checkpoint")
    first = found[next(iter(wanted))] if wanted else None
    for name, value in found.items():
        rule = rules.get(name)
        fits = (
            rule is not None
            and value.dim() == len(rule) + 1
            and all(size in (None, seen) for size, seen in zip(rule, value.shape[1:], strict=True))
            and 0 not in value.shape
            and value.dtype in types
            and (first is None or (value.dtype, value.shape[:1]) == (first.dtype, first.shape[:1]))
        )
        if not fits:
            raise InputError(
                f"{path} holds the tensor {name}, {value.dtype} of {tuple(value.shape)}, which is no "
                f"parameter of a machine of layers {sizes}; take another checkpoint"
            )


def check_sizes(path: Path, sizes: Sequence[int], seen: int, wanted: tuple[int, ...]) -> None:
    """Refuses a checkpoint of another machine: `wanted` are the visible columns and the hidden layers."""
    found = (sum(sizes[:seen]), *sizes[seen:])
    if found != wanted:
        raise InputError(
            f"{path} holds a machine of layers {found}, but the recipe asks for {wanted}; "
            "the checkpoint belongs to another run"
        )
