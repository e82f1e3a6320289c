"""The runs below a folder, each in a line: what was trained, how far it is, how good, how large.

A folder that cannot be read is listed with the reason. One that says it is running, but in which no
process holds the lock, was `killed`: `rapidbm train --resume` goes on with it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any, overload

import torch

from ..disk import is_locked
from ..display import MEASURED, as_html, as_text
from ..errors import InputError, check_choice, printable
from ..estimates import Estimate
from ..progress import watch
from ..training.replicas import Divergence
from .folder import ASIDE, Record, RunFolder
from .metrics import WATCHED
from .recipe import Recipe
from .timing import OPEN

UNREADABLE, KILLED, RUNNING = "unreadable", "killed", "running"
PARTS = ("test", "valid", "train")  # whose likelihood is shown, by preference
LOW = ("hamming",)  # metrics that are better when they are lower
NAMES = ("name", "status", "data", "machine", "epochs", "last", "best", "size", "changed")


@dataclass(frozen=True)
class RunSummary:
    """A run as it lies in its folder."""

    name: str  # its path below the folder that was listed
    folder: Path
    status: str  # created, running, finished, interrupted, failed; killed; unreadable
    size: int  # bytes on disk
    changed: datetime
    reason: str = ""  # why it cannot be read
    data: str = ""
    machine: str = ""
    epoch: int = 0
    epochs: int | None = None  # None: as many as fit into a budget
    replicas: int = 0
    diverged: tuple[str, ...] = ()  # when and why, of each replica that did
    measure: str = ""  # what `last` and `best` are, a name of metrics.jsonl
    last: Estimate | None = None  # per replica; an error that was not measured is NaN
    best: Estimate | None = None  # at the look where the mean over replicas was best

    @property
    def low(self) -> bool:
        """Whether less is better of what is measured."""
        return self.measure.startswith(LOW)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        told = {k: v for k, v in vars(self).items() if k not in ("folder", "last", "best", "changed")}
        told |= {"folder": _written(self.folder), "changed": self.changed.isoformat(timespec="seconds")}
        for name in ("last", "best"):
            found: Estimate | None = getattr(self, name)
            told[name] = None if found is None else _plain(found.value)
            told[f"{name}_error"] = None if found is None else _plain(found.error)
        return told

    def __repr__(self) -> str:
        name, status, data, machine, epochs, last, _, size, _ = _row(self)
        if self.reason:
            return printable(f"{name}: {status}, {size}: {self.reason}")
        return printable(f"{name}: {status}, {data}, {machine}, {epochs} epochs, {last}, {size}")


KEYS: dict[str, Callable[[RunSummary], Any]] = {
    **{name: attrgetter(name) for name in ("name", "status", "data", "machine")},
    "epochs": lambda run: -run.epoch,
    "last": lambda run: _rank(run, run.last),
    "best": lambda run: _rank(run, run.best),
    "size": lambda run: -run.size,
    "changed": lambda run: -run.changed.timestamp(),
}


class Runs(Sequence[RunSummary]):
    """The runs below a folder, the newest first; printed, it is a table.

    It is a sequence: `runs[0]` is a summary with name, status, likelihood and size.

    Parameters
    ----------
    folder : str or Path, default "runs"
        Folder to search.
    sort : str, default "changed"
        Column to sort by.

    Raises
    ------
    InputError
        If there is no such folder or column.
    """

    def __init__(self, folder: str | Path = "runs", sort: str = "changed") -> None:
        check_choice("order of runs", sort, KEYS)
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise InputError(f"there is no folder {folder}; name the one that holds your runs")
        found = []
        with watch(f"runs below {folder}") as tick:
            for path in _folders(self.folder):
                found.append(listed(path, self.folder))
                tick()
        self._runs = tuple(sorted(found, key=lambda run: (KEYS[sort](run), run.name)))

    @overload
    def __getitem__(self, index: int) -> RunSummary: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RunSummary]: ...
    def __getitem__(self, index: int | slice) -> RunSummary | Sequence[RunSummary]:
        return self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def rows(self) -> list[list[str]]:
        """The cells of the table.

        Returns
        -------
        list of list of str
            A row per run.
        """
        return [_row(run) for run in self]

    def __repr__(self) -> str:
        if not self:
            return f"no runs below {self.folder}"
        told = [repr(run) for run in self if run.reason]
        told += [printable(f"{run.name}: {words}") for run in self for words in run.diverged]
        return "\n".join([as_text(NAMES, self.rows(), ("epochs", "size")), *told])

    def _repr_html_(self) -> str:
        return as_html(NAMES, self.rows(), ("epochs", "size"))


def listed(folder: Path, below: Path) -> RunSummary:
    """What can be said of one folder."""
    name = _written(folder.relative_to(below) if folder != below else folder)
    files = [folder / "run.json", folder / "metrics.jsonl"]
    times = [path.lstat().st_mtime for path in files if path.exists()] or [folder.stat().st_mtime]
    changed = datetime.fromtimestamp(max(times), UTC)
    bare = RunSummary(name, folder, UNREADABLE, _size(folder), changed)
    try:
        return _read(RunFolder(folder), bare)
    except (InputError, OSError) as error:
        return replace(bare, reason=str(error))


def _read(run: RunFolder, bare: RunSummary) -> RunSummary:
    info, recipe, records = run.info, run.recipe, run.metrics()
    status = run.status
    if status == RUNNING and is_locked(run.folder) is False:
        status = KILLED
    done, planned = info.get("update", 0), info.get("updates", 0)
    measure = measured(records)
    found = [estimate(record, measure) for record in records if measure in record]
    sign = -1.0 if measure.startswith(LOW) else 1.0
    best = max(found, key=lambda x: sign * float(x.value.nanmean()), default=None) if found else None
    return replace(
        bare,
        status=status,
        data=info["data"]["name"],
        machine=machine_words(recipe, info["data"]["shape"]),
        epoch=max([done * recipe.epochs // planned if planned else 0, *(r["epoch"] for r in records)]),
        epochs=None if recipe.epochs >= OPEN else recipe.epochs,
        replicas=recipe.replicas,
        diverged=tuple(str(Divergence(**each)) for each in info.get("divergences", [])),
        measure=measure,
        last=found[-1] if found else None,
        best=best,
    )


def machine_words(recipe: Recipe, shape: Sequence[int]) -> str:
    """Kind, sizes and couplings of what a recipe trains on images of this shape."""
    sizes = "×".join(map(str, (shape[0] * shape[1], *recipe.hidden)))
    kind = f"K={recipe.patterns}" if recipe.patterns else "dense"
    return f"{recipe.model} {sizes} {kind}"


def measured(records: Sequence[Record]) -> str:
    """What a run is judged by: the likelihood of its test part, or its bound, where that is there, else
    another part's, else the Hamming distance, else its first metric."""
    keys = dict.fromkeys(key for record in records for key in record if key not in ASIDE)
    preferred = [f"{metric}_{part}" for metric in (*WATCHED, *LOW) for part in PARTS]
    return next((key for key in (*preferred, *keys) if key in keys), "")


def estimate(record: Record, measure: str) -> Estimate:
    """A measure at one look, per replica, with its error where there is one."""
    name, _, part = measure.rpartition("_")
    value = _numbers(record[measure])
    errors = record.get(f"{name}_error_{part}")
    return Estimate(value, torch.full_like(value, torch.nan) if errors is None else _numbers(errors))


def in_words(found: Estimate | None) -> str:
    """One replica's value ± its error; of several the mean ± their standard deviation."""
    if found is None:
        return "–"
    value = found.value[found.value.isfinite()]
    if not len(value):
        return "not finite"
    spread = float(value.std()) if len(value) > 1 else float(found.error[found.value.isfinite()][0])
    return with_spread(float(value.mean()), spread)


def with_spread(value: float, spread: float) -> str:
    """A value to the digits that its error leaves."""
    if not math.isfinite(spread) or spread <= 0:
        return f"{value:.4g}"
    digits = min(8, max(0, 1 - math.floor(math.log10(spread))))
    return f"{value:.{digits}f} ± {spread:.{digits}f}"


def in_bytes(size: int) -> str:
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            break
        amount /= 1000
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 10 else f"{amount:.1f} {unit}"


def _row(run: RunSummary) -> list[str]:
    when = run.changed.astimezone().strftime("%Y-%m-%d %H:%M")
    size = in_bytes(run.size)
    if run.reason:
        return [run.name, run.status, *["–"] * 5, size, when]
    name, _, part = run.measure.rpartition("_")
    what = f"{MEASURED.get(name, name)} {part} " if name else f"{run.measure} "
    last = f"{what}{in_words(run.last)}" if run.last is not None else "–"
    kind = f"{run.machine}, {run.replicas} replicas" if run.replicas > 1 else run.machine
    status = f"{run.status}, {len(run.diverged)} diverged" if run.diverged else run.status
    epochs = f"{run.epoch}/{'…' if run.epochs is None else run.epochs}"
    return [run.name, status, run.data, kind, epochs, last, in_words(run.best), size, when]


def _rank(run: RunSummary, found: Estimate | None) -> tuple[str, float]:
    """The best of each measure first; what has none last."""
    if found is None or not bool(found.value.isfinite().any()):
        return "~", 0.0
    value = float(found.value[found.value.isfinite()].mean())
    return run.measure, value if run.low else -value


def _folders(below: Path) -> Iterator[Path]:
    """Folders that hold a run, or what is left of one."""
    for place, folders, files in os.walk(below):
        if "run.json" in files or ("checkpoints" in folders and "metrics.jsonl" in files):
            folders.clear()
            yield Path(place)
        folders[:] = sorted(name for name in folders if not name.startswith("."))


def _size(folder: Path) -> int:
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):  # gone by now
                total += os.lstat(os.path.join(place, name)).st_size
    return total


def _written(path: Path) -> str:
    """A path in letters, whatever bytes it is made of."""
    return os.fsencode(path).decode("utf-8", "replace")


def _numbers(values: Sequence[float | None]) -> torch.Tensor:
    return torch.tensor([math.nan if x is None else x for x in values], dtype=torch.float64)


def _plain(values: torch.Tensor) -> list[float | None]:
    return [x if math.isfinite(x) else None for x in values.tolist()]
