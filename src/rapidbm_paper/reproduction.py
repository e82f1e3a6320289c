"""A reproduction: a folder in which the paper is measured, drawn and judged, piece by piece.

    reproduction.json    scale, seed, versions, time spent, what failed
    times.json           per part: seconds, device, versions
    records/             study.part.json: the numbers, with the settings that gave them
    machines/            machines that later parts need
    trainings/           run folders of a part that is not finished
    figures/             a PDF, a PNG and an SVG per item
    claims.json          the verdicts
    report.html          all of it on one page

A part is finished when its record is there, and a record is written as a whole. Its random numbers are
named by the seed and the part alone, and its trainings are runs that go on where they stopped, so that an
interrupted reproduction ends with the same records as one that never stopped. Everything after them is
made from them.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rapidbm import __version__
from rapidbm.accel import rounding
from rapidbm.accel.devices import by_device, device_named, lone_thread, peak_bytes, words
from rapidbm.disk import inside, is_free, locked, make_folder, read_json, write_bytes, write_json
from rapidbm.errors import InputError, check_choice, unknown
from rapidbm.machines.files import load_machine
from rapidbm.pictures import print_style
from rapidbm.random import check_seed
from rapidbm.schema import Anything, Names, Real, Text, Whole

from . import registry
from .claims import Verdict, judged
from .drawing import Item
from .lab import SCALE_NAMES, Lab, machine_path
from .page import page
from .records import Record, read_record, settings_of, write_record

FORMAT = 1
REPRODUCTION = Names(
    {"format": Whole(), "scale": Text(), "seed": Whole()},
    {"started": Text(), "seconds": Real(0), "failed": Names({}, others=Text(2**16))},
    others=Anything(),
)
SPENT = Names(
    {
        "seconds": Real(0),
        **dict.fromkeys(("device", "python", "torch", "numpy", "rapidbm"), Text()),
    },
    others=Anything(),
)
PICTURES = (".png", ".pdf", ".svg")
SPEND_SECONDS = 10.0  # how often the time that was spent is written down


class Interrupted(Exception):
    """The work was asked to stop."""


@dataclass(frozen=True)
class Event:
    """What a reproduction tells its caller."""

    kind: str  # "start", "share", "done", "failed", "figure"
    name: str  # of a part or an item
    done: int  # parts that are finished
    total: int
    share: float = 0.0
    seconds: float = 0.0
    text: str = ""


def item_names(words: Iterable[str]) -> list[str]:
    """Ids of items; `all` stands for every one, `fig2` for fig2a and fig2b, `deep` for all deep-…."""
    found: dict[str, None] = {}
    for word in words:
        if word == "all":
            some = list(registry.ITEMS)
        elif word in registry.ITEMS:
            some = [word]
        else:
            some = [n for n in registry.ITEMS if n[:-1] == word and n[-2].isdecimal()]
            some += [n for n in registry.ITEMS if n.startswith(f"{word}-")]
        if not some:
            raise unknown("item", word, ["all", *registry.ITEMS])
        found.update(dict.fromkeys(some))
    return list(found)


class Reproduction:
    """The folder, at one scale and with one seed."""

    def __init__(self, folder: str | Path, out: Path | None = None) -> None:
        """The reproduction in `folder`; figures, verdicts and the page go to `out` instead, if given."""
        self.folder = Path(folder)
        self.out = out or self.folder
        self._began = time.monotonic()
        self._read()

    def _read(self) -> None:
        path = inside(self.folder, "reproduction.json")
        if not path.is_file():
            raise InputError(
                f"{self.folder} is no reproduction: it has no reproduction.json; check the path, or "
                "make one with `rapidbm reproduce`"
            )
        self.info: dict[str, Any] = read_json(
            path, REPRODUCTION, "a reproduction", "restore or remove it"
        )
        self.info = {"failed": {}, "seconds": 0.0, "started": "at an unknown time", **self.info}
        self.scale, self.seed = self.info["scale"], self.info["seed"]
        version = self.info["format"]
        if version != FORMAT or self.scale not in SCALE_NAMES:
            raise InputError(
                f"{path} has the format {version!r} and the scale {self.scale!r}; this version of "
                f"rapidbm reads format {FORMAT} and {', '.join(SCALE_NAMES)}"
            )

    @staticmethod
    def open(folder: str | Path, scale: str, seed: int) -> Reproduction:
        """The reproduction in a folder, or a new one; another scale or seed there is refused."""
        folder = Path(folder)
        check_choice("scale", scale, SCALE_NAMES)
        check_seed(seed)
        if (folder / "reproduction.json").is_file():
            found = Reproduction(folder)
            if (found.scale, found.seed) != (scale, seed):
                raise InputError(
                    f"{folder} is a reproduction at scale {found.scale} with seed {found.seed}, not "
                    f"{scale} with {seed}; choose another --out, or the same --scale and --seed"
                )
            return found
        if (folder / "records").is_dir():
            raise InputError(
                f"{folder} has records but no reproduction.json; restore it, or choose another --out"
            )
        taken = InputError(f"{folder} exists and is not empty; choose another --out")
        if not is_free(folder):
            raise taken
        make_folder(folder)
        info = {
            "format": FORMAT,
            "rapidbm": __version__,
            "scale": scale,
            "seed": seed,
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": 0.0,
            "failed": {},
        }
        with locked(folder, "working"):
            if not is_free(folder):  # another process was quicker
                raise taken
            write_json(folder / "reproduction.json", info)
        return Reproduction(folder)

    # -- reading ----------------------------------------------------------------------------------

    def record(self, name: str) -> Record | None:
        """A finished record; one of other settings, or one that cannot be read, counts as none."""
        study = name.partition(".")[0]
        if study not in registry.STUDIES:
            return None
        try:
            path = inside(self.folder, "records", f"{name}.json")
            if not path.is_file():
                return None
            found = read_record(path)
        except InputError:
            return None
        wanted = settings_of(registry.settings(study, self.scale))
        same = (found.name, found.scale, found.seed) == (name, self.scale, self.seed)
        return found if same and found.settings == wanted else None

    def records(self) -> dict[str, Record]:
        """All finished records."""
        paths = sorted((self.folder / "records").glob("*.json"))
        found = {path.stem: self.record(path.stem) for path in paths}
        return {name: record for name, record in found.items() if record is not None}

    def passed_over(self) -> list[str]:
        """Files among the records that count as none."""
        found = (path.stem for path in sorted((self.folder / "records").glob("*.json")))
        return [name for name in found if self.record(name) is None]

    def times(self) -> dict[str, dict[str, Any]]:
        """Per part: seconds, device, versions; what cannot be read is left out."""
        try:
            path = inside(self.folder, "times.json")
            known = Names({}, others=Anything())
            found = read_json(path, known, "times", "remove it") if path.is_file() else {}
        except InputError:
            return {}
        return {name: spent for name, spent in found.items() if SPENT.fits(spent)}

    def part_names(self, items: Iterable[str]) -> list[str]:
        """The parts that the items need, in the order of the studies; `all` items take every part."""
        wanted = set(items)
        every = wanted == set(registry.ITEMS)
        needs = {need for name in wanted for need in registry.item(name).needs}
        found = []
        for study in registry.STUDIES:
            if every or any(need.partition(".")[0] == study for need in needs):
                names = registry.parts(study)
                found += [n for n in names if every or n in needs or study in needs]
        return found

    # -- working ----------------------------------------------------------------------------------

    def go(
        self,
        items: list[str],
        device: str = "auto",
        *,
        tell: Callable[[Event], None] = lambda event: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Measures what is missing, draws, judges and writes the page; False if something failed.

        A part that fails is reported and the others go on. Raises `Interrupted` when `stop` says so;
        what is finished stays.
        """
        on = device_named(device)
        # A second thread costs the small machines of the scale tiny more than it does for them.
        threads = lone_thread() if self.scale == "tiny" else nullcontext()
        with locked(self.folder, "working"), _precision(on), threads:
            self._read()  # as another process may have left it
            well = self._measure_all(self.part_names(items), on, tell, stop)
            well = self.draw(items, tell, stop) and well
            self.judge()
            self.report()
        return well

    def _measure_all(
        self,
        names: list[str],
        device: torch.device,
        tell: Callable[[Event], None],
        stop: Callable[[], bool],
    ) -> bool:
        todo = [name for name in names if self.record(name) is None]
        done, total, well = len(names) - len(todo), len(names), True
        for name in [n for n in self.info["failed"] if self.record(n) is not None]:
            del self.info["failed"][name]

        def tick(share: float) -> None:
            if stop():
                raise Interrupted
            if time.monotonic() - self._began > SPEND_SECONDS:
                self._spend()
            tell(Event("share", name, done, total, share=share))

        for name in todo:
            tell(Event("start", name, done, total))
            self._began = began = time.monotonic()
            try:
                self._measure(name, device, tick)
            except Interrupted:
                self._spend()
                raise
            except Exception as error:
                well = False
                self.info["failed"][name] = _words(error)
                self._spend()
                tell(Event("failed", name, done, total, text=_words(error)))
                continue
            self.info["failed"].pop(name, None)
            self._spend()
            done += 1
            tell(Event("done", name, done, total, seconds=time.monotonic() - began))
        return well

    def _measure(self, name: str, device: torch.device, tick: Callable[[float], None]) -> None:
        study = name.partition(".")[0]
        part, scale = registry.parts(study)[name], registry.settings(study, self.scale)
        for need in part.needs:  # a machine that is gone is made again, to the same bits
            if not self._has_machine(need):
                self._measure(need, device, tick)
        tick(0.0)
        began = time.monotonic()
        peak_bytes(device, anew=True)
        lab = Lab(name, device, self.seed, self.folder, tick)
        values = part.run(lab, scale)
        if self.record(name) is None:  # else only its machine was missing
            peak = peak_bytes(device)
            times = self.times()
            times[name] = {
                "seconds": round(time.monotonic() - began, 2),
                "device": _device_words(device),
                "peak_bytes": peak,
                "python": platform.python_version(),
                "torch": torch.__version__,
                "numpy": np.__version__,
                "rapidbm": __version__,
            }
            write_json(self.folder / "times.json", times)
            record = Record(name, self.scale, self.seed, settings_of(scale), values)
            write_record(inside(self.folder, "records"), record)
        shutil.rmtree(lab.trainings, ignore_errors=True)

    def _has_machine(self, name: str) -> bool:
        try:
            load_machine(machine_path(self.folder, name))
        except (InputError, OSError):
            return False
        return True

    def _spend(self) -> None:
        """Adds the time since it was last called; a kill loses little of it."""
        now = time.monotonic()
        self.info["seconds"] = round(self.info["seconds"] + now - self._began, 2)
        self._began = now
        write_json(self.folder / "reproduction.json", self.info)

    # -- from the records -------------------------------------------------------------------------

    def draw(
        self,
        items: Iterable[str],
        tell: Callable[[Event], None] = lambda event: None,
        stop: Callable[[], bool] = lambda: False,
        *,
        anew: bool = False,
    ) -> bool:
        """A PDF, a PNG and an SVG of each item whose records are there; False if one could not be drawn.

        What was drawn from the same records is left, unless it is to be drawn `anew`.
        """
        well = True
        folder = inside(self.out, "figures")
        index, every = _index(folder), self.records()
        for name in items:
            if stop():
                raise Interrupted
            item = registry.item(name)
            records = item.records(every)
            files = [inside(self.out, "figures", name + end) for end in (*PICTURES, ".txt")]
            digest = self._digest(records)
            there = records and index.get(name) == digest and all(f.is_file() for f in files)
            if there and not anew:
                continue
            for file in files:  # nothing stale stays, whatever happens next
                file.unlink(missing_ok=True)
            index.pop(name, None)
            if not records:
                continue
            tell(Event("figure", name, 0, 0))
            try:
                self._draw(item, records, folder / f"{name}.png")
            except Exception as error:
                well = False
                self.info["failed"][name] = _words(error)
                if self.out == self.folder:
                    write_json(self.folder / "reproduction.json", self.info)
                tell(Event("failed", name, 0, 0, text=_words(error)))
            else:
                self.info["failed"].pop(name, None)
                index[name] = digest
                write_json(folder / "index.json", index)
        return well

    def _digest(self, records: dict[str, Record]) -> str:
        digest = hashlib.sha256(__version__.encode())
        for name in sorted(records):
            digest.update(inside(self.folder, "records", f"{name}.json").read_bytes())
        return digest.hexdigest()

    def _draw(self, item: Item, records: dict[str, Record], target: Path) -> None:
        from rapidbm import pictures

        with print_style():
            fig = item.draw(records)
            for end in PICTURES:
                pictures.save(fig, target.with_suffix(end))
                fig.set_layout_engine(None)  # the others stand as the first does, laid out once
        write_bytes(target.with_suffix(".txt"), (item.caption(records) + "\n").encode())

    def verdicts(self) -> list[Verdict]:
        """Every claim, judged by the records that are there."""
        records = self.records()
        return [judged(claim, records) for claim in registry.claims()]

    def judge(self) -> list[Verdict]:
        found = self.verdicts()
        self.out.mkdir(parents=True, exist_ok=True)
        write_json(self.out / "claims.json", [verdict.as_dict() for verdict in found])
        return found

    def report(self) -> Path:
        self.out.mkdir(parents=True, exist_ok=True)
        target = self.out / "report.html"
        html = page(self.info, self.out, self.records(), self.times(), self.verdicts())
        write_bytes(target, html.encode())
        return target


def _index(folder: Path) -> dict[str, str]:
    """Which records each figure was drawn from."""
    try:
        path = inside(folder, "index.json")
        found: dict[str, str] = read_json(path, Names({}, others=Text()), "an index", "remove it")
    except InputError:
        return {}
    return found


def _precision(device: torch.device) -> AbstractContextManager[None]:
    """On a GPU matrix products of float32 take TF32: ±1 is exact in it, patterns round at 10⁻³."""
    return by_device(device, nullcontext(), rounding.precision("tf32"))


def _device_words(device: torch.device) -> str:
    threads = torch.get_num_threads()
    each = by_device(device, f"{threads} thread{'s' if threads > 1 else ''}", "TF32")
    return f"{words(device)}, {each}"


def _words(error: Exception) -> str:
    if isinstance(error, InputError):
        return str(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})"
