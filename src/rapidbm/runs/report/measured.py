"""What the page of a run measures, within a limit: samples, reconstructions, likelihoods, spectra.

Everything draws from streams of its own names, so that looking changes nothing. What was found is kept in
`report.json` beside the page, under the digest of the machine's file; it serves as long as that is the
same. A cache may come from a stranger with the rest of the folder, so that its shape is checked.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ... import __version__
from ...accel.devices import device_named
from ...data.splits import Dataset
from ...disk import inside, read_json, write_json
from ...errors import InputError, TimeLimit
from ...glass.spectra import spectrum
from ...machines.machine import Machine
from ...machines.spins import pack
from ...progress import watch
from ...random import stream
from ...sampling.samplers import Gibbs
from ...schema import Maybe, Names, Real, Several, Text, Whole
from ..evaluation import independent_columns, likelihoods
from ..folder import RunFolder, as_list
from ..metrics import hamming_distance, reconstruct
from ..samples import samples
from ..trained import Checkpoint
from . import rows

CACHE = "report.json"
SHOWN = 64  # samples of images
ROWS = 1000  # samples of a table
SWEEPS = 1000  # of Gibbs sampling
FILLED = 12  # reconstructions
HISTORY = 40  # checkpoints whose norms are drawn
VALUES = 60  # singular values that are drawn
REMEDY = "measure it alone (rapidbm evaluate)"
REMEDIES = {"table": "name one --column"}
_NUMBERS = Names({}, others=Several(Maybe(Real())))
_CURVE = Several(Real())
KEPT = Names(
    {"of": Text(64)},
    {
        "likelihood": Names({"rows": _NUMBERS, "note": Text()}),
        "hamming": _NUMBERS,
        "samples": Names({"rows": Several(Text(2**18), most=ROWS), "sweeps": Whole()}),
        "filled": Several(Text(2**18), most=FILLED),
        "spectrum": Names(
            {"values": _CURVE, "first": _CURVE, "limit": Real(), "kind": Text(), "outliers": Whole()}
        ),
        "table": rows.SHAPE,
        "norms": Names(
            {"updates": Several(Whole()), "couplings": Several(Several(Maybe(Real())))},
            {"biases": Several(Several(Maybe(Real())))},
        ),
    },
)


@dataclass
class Measured:
    """What was found, by the names of `KEPT`, and why something is not there."""

    found: dict[str, Any] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Choice:
    """The machine of a run that its page shows, and how it is measured."""

    run: RunFolder
    update: Checkpoint
    replica: int
    seed: int
    device: str
    column: str | None = None  # of a table, that models predict

    def machine(self, update: Checkpoint) -> Machine:
        """All replicas after an update."""
        return self.run.machine(update).to(device_named(self.device)).requires_grad_(False)


def measure(
    chosen: Choice,
    data: Dataset | None,
    out: Path,
    *,
    limit: float,
    quick: bool,
    tell: Callable[[str], object] = lambda text: None,
) -> Measured:
    """What the cache in `out` has, and unless it is to be `quick` the rest, in about `limit` seconds."""
    digest, seed = _digest(chosen), chosen.seed
    work = Measured(_kept(out, digest))
    if quick:
        return work
    before = work.found.get("table", {"column": "", "left_out": []})
    if before["column"] != (chosen.column or "") or before["left_out"]:
        work.found.pop("table", None)
    machine = chosen.machine(chosen.update)
    one = machine.replica(chosen.replica)
    deadline = time.monotonic() + limit
    count = ROWS if chosen.run.shape[0] == 1 else SHOWN
    tasks: dict[str, tuple[str, Callable[[], Any]]] = {}
    if len(one.layers.visible) == 1:  # the couplings are one matrix
        tasks["spectrum"] = ("the spectrum", lambda: _spectrum(chosen, one))
    tasks["norms"] = ("norms of the checkpoints", lambda: _norms(chosen))
    if spins := one.layers.visible_spins:
        tasks["samples"] = ("samples", lambda: _samples(one, count, seed))
    if data is not None:
        if spins and data.test.known is not None:
            tasks["filled"] = ("reconstructions", lambda: _filled(one, data, seed))
            tasks["hamming"] = ("Hamming distances", lambda: _hamming(machine, data, seed))
        tasks["likelihood"] = ("the likelihood", lambda: _likelihood(machine, data, seed))
        if (schema := chosen.run.schema) is not None and data.tables:
            make, most = rows.measure_rows, min(SWEEPS, rows.SWEEPS)
            tasks["table"] = (
                "rows beside real ones",
                lambda: make(one, data, schema, chosen.column, ROWS, most, seed, tell),
            )
    for name, (words, task) in tasks.items():
        if name in work.found:
            continue
        if name == "table":  # it has as long again
            deadline = time.monotonic() + limit
        left = deadline - time.monotonic()
        try:
            if left <= 0:
                raise TimeLimit(f"no time was left of the limit of {limit:g} s")
            tell(words)
            with watch(words, limit=left, remedy=REMEDIES.get(name, REMEDY)):
                work.found[name] = task()
        except (InputError, MemoryError) as error:
            work.left_out.append(f"Without {words}: {error}.")
    write_json(out / CACHE, {"of": digest, **work.found})
    return work


def _digest(chosen: Choice) -> str:
    """Of the machine's file and of all else that the numbers depend on."""
    digest = hashlib.sha256(chosen.run.file(chosen.update).read_bytes())
    data = chosen.run.info["data"]["sha256"]
    digest.update(f"{chosen.replica}/{chosen.seed}/{__version__}/{data}".encode())
    return digest.hexdigest()


def _kept(out: Path, digest: str) -> dict[str, Any]:
    path = inside(out, CACHE)
    if not path.is_file():
        return {}
    try:
        found: dict[str, Any] = read_json(path, KEPT, "what a report found", "remove it")
    except InputError:
        return {}  # it is measured again
    return {k: v for k, v in found.items() if k != "of"} if found["of"] == digest else {}


# -- what is measured -----------------------------------------------------------------------------


def _likelihood(machine: Machine, data: Dataset, seed: int) -> dict[str, Any]:
    rows, note = likelihoods(machine, data.parts, seed)
    if not machine.layers.spins:
        rows |= independent_columns(machine, data.parts)
    return {"rows": {name: as_list(value) for name, value in rows.items()}, "note": note}


def _hamming(machine: Machine, data: Dataset, seed: int) -> dict[str, list[float | None]]:
    rng = stream(seed, "report", "hamming", device=machine.device)
    return {part: as_list(hamming_distance(machine, split, rng)) for part, split in data.parts.items()}


def _samples(machine: Machine, count: int, seed: int) -> dict[str, Any]:
    def ticking(steps: range) -> Any:
        with watch("sweeps", len(steps)) as tick:
            for step in steps:
                yield step
                tick()

    drawn, sweeps, _ = samples(machine, Gibbs(), count, SWEEPS, 1.0, seed, ticking)
    return {"rows": pack(drawn), "sweeps": sweeps}


def _filled(machine: Machine, data: Dataset, seed: int) -> list[str]:
    rng = stream(seed, "report", "reconstruct", device=machine.device)
    return pack(reconstruct(machine, data.test.take(slice(0, FILLED)), rng)[0])


def _spectrum(chosen: Choice, machine: Machine) -> dict[str, Any]:
    now = spectrum(machine)
    first = now.values[0][:0]
    if saved := sorted(chosen.run.checkpoints()):
        first = spectrum(chosen.run.machine(saved[0], chosen.replica)).values[0]
    return {
        "values": _floats(now.values[0]),
        "first": _floats(first),
        "limit": float(now.limit[0]),
        "kind": now.kind,
        "outliers": int(now.outliers[0]),
    }


def _norms(chosen: Choice) -> dict[str, Any]:
    """√(Σ J²) and √(Σ b²) of each replica at checkpoints, spread evenly over those there are."""
    updates = chosen.run.checkpoints_until(chosen.update, HISTORY)
    found: dict[str, Any] = {"updates": updates, "couplings": []}
    with watch("checkpoints", len(updates)) as tick:
        for update in updates:
            machine = chosen.machine(update)
            squares = [machine.couplings.norm(*edge).square() for edge in machine.layers.edges]
            found["couplings"].append(as_list(torch.stack(squares).sum(0).sqrt()))
            if machine.biases is not None:
                found.setdefault("biases", []).append(as_list(machine.biases.norm(dim=-1)))
            tick()
    return found


def _floats(values: Tensor) -> list[float]:
    some = values[:VALUES].double().tolist()
    return [float(f"{x:.7g}") for x in some if math.isfinite(x)]


def over_replicas(
    values: Mapping[str, list[float | None]], lost: list[int]
) -> dict[str, list[float | None]]:
    """Without the replicas that diverged."""
    return {k: [x for i, x in enumerate(v) if i not in lost] for k, v in values.items()}
