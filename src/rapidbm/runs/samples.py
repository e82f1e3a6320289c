"""Samples and reconstructions of a run, for the command."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import pictures
from ..accel.devices import device_named
from ..data import arrow
from ..data.splits import Dataset, Split
from ..data.tables import write_table
from ..disk import write_bytes
from ..errors import InputError, check_beta, check_choice, lookup
from ..machines.layers import Layers
from ..machines.machine import Machine, scaled
from ..random import stream
from ..registry import build
from ..sampling.chain_shards import ChainShards
from ..sampling.paths import repeat_chains
from ..sampling.samplers import SAMPLERS, Sampler
from ..sampling.tempering import Walkers
from ..training.negative import nearest_states
from .metrics import corrupt, reconstruct, wrong_pixels
from .trained import Checkpoint, Trained

STARTS = {"random": "random spins", "data": "training images", "patterns": "the patterns"}


PICTURES = (".png", ".pdf")
ARRAYS = (".npy", ".csv")
TABLES = (".csv", ".tsv", ".parquet", ".feather")  # of columns of any kind


def target(out: Path | None, run: Trained, name: str, endings: Sequence[str] = PICTURES + ARRAYS) -> Path:
    """Where a picture or an array goes; a file that the user names is never overwritten."""
    if out is None:
        return run.picture(name)
    check_new(out, endings)
    return out


def write_array(
    path: Path, columns: Tensor, names: Sequence[str] = (), layers: Layers | None = None
) -> bool:
    """Writes ±1 as `.npy`, or 0 and 1 as `.csv` under the names of its columns, of units other than spins
    (`layers`) their values; whether it did."""
    if path.suffix not in (".npy", ".csv"):
        return False
    if layers is None or layers.visible_spins:
        array = columns.to(torch.int8).cpu().numpy()
        cells = (array > 0).astype(np.int8)
    else:
        array = cells = layers.decode(columns).cpu().numpy()
    if path.suffix == ".csv":
        content = write_table(cells, names)
    else:
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        content = buffer.getvalue()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, content)
    return True


def write_rows(path: Path, table: Any) -> None:
    """Writes a table of columns of any kind into a new file; a folder that is not there is made."""
    check_new(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    arrow.write_table(table, path)


def check_new(path: Path, endings: Sequence[str] = TABLES) -> None:
    """Refuses a file that is there, or of a kind that is not written."""
    if path.suffix not in endings:
        raise InputError(f"--out ends in {', '.join(endings[:-1])} or {endings[-1]}, not {str(path)!r}")
    if path.exists():
        raise InputError(f"{path} exists; choose another --out")


def numbered(path: Path, count: int) -> list[Path]:
    """The new file itself, or so many of that name with -1, -2, … before the ending."""
    paths = [path] if count == 1 else [path.with_stem(f"{path.stem}-{i + 1}") for i in range(count)]
    for one in paths:
        check_new(one)
    return paths


def sampler_named(
    name: str,
    run: Trained,
    machine: Machine,
    start: str,
    update: Checkpoint,
    replica: int,
    seed: int,
    given: Mapping[str, Any] | None = None,
) -> Sampler[Any]:
    """A sampler by its name in the registry, with the options `given`.

    What it wants of the run are fields of these names: `start`, where its chains start; `data`, images
    for the marginals of a base; `machines`, the checkpoints of the training up to this machine.
    """
    wants = {field.name for field in fields(lookup("sampler", name, SAMPLERS))}  # type: ignore[arg-type]
    check_choice("start", start, STARTS)
    filled: dict[str, Any] = {}
    if "start" in wants:
        filled["start"] = _start(run, machine, start, seed)
    elif start != "random":
        raise InputError(f"{name} starts on its own, not from {start!r}; leave --start out")
    if "data" in wants:
        first = next(iter(run.parts().values()), None)
        filled["data"] = None if first is None else first.take(slice(0, 2000))
    if "machines" in wants:
        if not run.checkpoints():
            raise InputError(
                f"{name} goes along the checkpoints of a training, and {run} has none; take --sampler pt"
            )
        last, _ = run.where(update)
        past = [u for u in run.checkpoints() if last is not None and u < last]
        machines = [run.machine(u, replica).to(machine.device) for u in past]
        filled["machines"] = (*machines, machine)
    return build(SAMPLERS, name, given or {}, **filled)


def _start(run: Trained, machine: Machine, start: str, seed: int) -> Tensor | None:
    if start == "random":
        return None
    if start == "data":
        run.data()  # says so where there are none
        images = next(iter(run.parts().values())).spins
        order = torch.randperm(len(images), generator=stream(seed, "rows"))
        return machine.with_visible(images[order])
    if machine.patterns is None:
        raise InputError("these couplings are dense, there are no patterns to start from")
    return machine.with_visible(
        nearest_states(machine, machine.patterns.detach())[..., : machine.visible]
    )


def samples(
    machine: Machine,
    sampler: Sampler[Any],
    count: int,
    sweeps: int | None,
    beta: float,
    seed: int,
    track: Callable[[range], Iterable[int]] = iter,
    shards: int | None = None,
) -> tuple[Tensor, int, str]:
    """Visible spins (count, v) after so many steps, how many there were, and how the sampler fared.
    Chains may be in shards, each with a sampler of its own."""
    check_beta(beta)
    if beta != 1.0:
        if hasattr(sampler, "machines"):
            raise InputError(
                f"a trajectory ends at the machine itself, β = 1, not {beta}; leave --beta out"
            )
        machine = scaled(machine, beta)
    steps = sampler.steps if sweeps is None else sweeps

    def draw_part(part: slice, *words: object) -> tuple[Tensor, Tensor]:
        rng = stream(seed, "sample", *words, device=machine.device)
        own = sampler
        if words and getattr(sampler, "start", None) is not None:  # chains start side by side
            start = repeat_chains(machine.configuration(sampler.start), count)  # type: ignore[attr-defined]
            own = replace(sampler, start=start[:, part])  # type: ignore[type-var]
        state = own.init(machine, part.stop - part.start, rng)
        for _ in track(range(steps)):
            state = own.step(machine, state, rng)
        return own.spins(state)[:, :, : machine.visible], _walked(state)

    spins, walked = ChainShards.over(shards)(count, draw_part)
    return spins[0].cpu(), steps, _exchange_words(walked[0], count) if steps > 1 else ""


def _walked(state: Any) -> Tensor:
    """How walkers of tempering fared, (1, 1, 4): rungs, lowest and highest rate of exchange, round trips;
    nothing of other samplers."""
    if not isinstance(state, Walkers):
        return torch.empty((1, 0, 4), dtype=torch.float64)
    rates = float(state.rates.min()), float(state.rates.max())
    return torch.tensor([[[state.rungs.shape[1], *rates, int(state.trips[0])]]], dtype=torch.float64)


def _exchange_words(walked: Tensor, count: int) -> str:
    """The same in words, of all shards (s, 4)."""
    if not len(walked):
        return ""
    rungs, low, high = int(walked[:, 0].max()), float(walked[:, 1].min()), float(walked[:, 2].max())
    trips = int(walked[:, 3].sum())
    told = f"{rungs} rungs, swap rates {low:.2f} to {high:.2f}, {trips} round trips"
    if trips < count:
        told += ", fewer than chains: these may not be samples yet, take more --sweeps"
    return told


def reconstructions(
    run: Trained,
    part: str | None,
    mask: Path | None,
    count: int,
    passes: int,
    clamp: bool,
    replica: int,
    update: Checkpoint,
    seed: int,
    device: str,
    path: Path,
) -> tuple[int, dict[str, float]]:
    """Draws or writes reconstructions; answers how many, and their shares of wrong pixels: of the
    unknown ones, and where none was held the Hamming distance, of all."""
    data, parts = run.data(), run.parts()
    name = part or ("test" if "test" in parts else next(iter(parts)))
    split = lookup("split", name, parts).take(slice(0, count))
    if mask is not None:
        split = Split(split.spins, split.labels, read_mask(mask, data))
    machine = run.machine(update, replica).to(device_named(device))
    rng = stream(seed, "reconstruct", device=machine.device)
    filled = reconstruct(machine, split, rng, passes=passes, clamp=clamp)[0].cpu()
    wrong = {"wrong_unknown": wrong_pixels(filled, split, unknown=True)}
    if not clamp:
        wrong["hamming"] = wrong_pixels(filled, split, unknown=False)
    if not write_array(path, filled, data.columns or run.columns):
        rows = (
            ("original", split.spins),
            ("given", corrupt(split).nan_to_num()),
            ("filled in", filled),
        )
        pictures.save(pictures.comparison_figure(rows, run.shape, data.columns or run.columns), path)
    return len(split), wrong


def read_mask(path: Path, data: Dataset) -> Tensor:
    """The known pixels, as booleans."""
    from ..data.sources import numpy_arrays

    if not path.is_file():
        raise InputError(f"there is no mask {path}; check the path")
    found = list(numpy_arrays(path).values())
    if len(found) != 1:
        raise InputError(f"a mask file holds one array, {path} holds {len(found)}; save it as .npy")
    array = found[0]()
    if array.size != data.visible or not np.isin(array, (0, 1)).all():
        raise InputError(
            f"a mask holds {data.visible} booleans, true where a pixel is known; {path} holds "
            f"{array.dtype} of shape {array.shape}"
        )
    return torch.from_numpy(array.astype(bool).reshape(-1))
