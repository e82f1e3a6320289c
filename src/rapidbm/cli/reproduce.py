"""The command `reproduce`: one progress display over all parts, and what it says at the end."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from .. import paper as experiments
from ..machines.files import device_named
from ..paper.claims import FAILS, HOLDS, MISSED, OPEN, Verdict
from ..paper.page import duration
from ..paper.reproduction import Event, Interrupted, Reproduction, item_names
from ..progress import quiet
from .console import Screen, Stopper


def list_items(screen: Screen) -> None:
    """Every item and what it shows."""
    for name in experiments.ITEMS:
        item = experiments.item(name)
        screen.say(f"{name:<12} {item.title}")
        screen.result({"item": name, "title": item.title, "records": list(item.needs)})


def reproduce_items(
    words: list[str],
    folder: Path,
    scale: str,
    seed: int,
    device: str,
    screen: Screen,
    stopper: Stopper,
) -> int:
    """Measures, draws and judges; answers the exit code."""
    items = item_names(words)
    on = device_named(device)  # a device that is not there is said before a folder is made
    reproduction = Reproduction.open(folder, scale, seed)
    names = reproduction.part_names(items)
    left = sum(reproduction.record(name) is None for name in names)
    _tell_passed_over(reproduction, screen)
    screen.say(
        f"{len(items)} item{'s' if len(items) > 1 else ''} at scale {scale}, seed {seed}: {left} of "
        f"{len(names)} parts to measure → {folder}"
    )
    if left and scale == "paper" and on.type == "cpu":
        screen.warn(
            "the paper's sizes take a GPU minutes and a CPU many hours; --scale quick is meant for one"
        )
    again = shlex.join(
        [
            "rapidbm",
            "reproduce",
            *words,
            "--scale",
            scale,
            "--seed",
            str(seed),
            "--out",
            str(folder),
        ]
    )
    try:
        with quiet(), stopper.listening(), _Display(screen, len(names)) as display:
            well = reproduction.go(items, device, tell=display.tell, stop=stopper)
    except Interrupted:
        screen.say(f"interrupted; finished parts are kept. Go on with: {again}")
        screen.result({"event": "interrupted", "out": str(folder)})
        return 128 + (stopper.signal or 2)
    _tell_claims(reproduction.verdicts(), screen, brief=True)
    page = folder / "report.html"
    failed = reproduction.info["failed"]
    screen.say(f"everything on one page: {page}")
    if failed:
        screen.say(f"failed: {', '.join(failed)}. To retry: {again}")
    screen.result(
        {
            "event": "finished" if well else "failed",
            "out": str(folder),
            "report": str(page),
            "failed": failed,
        }
    )
    return 0 if well else 1


def show_claims(folder: Path, screen: Screen) -> None:
    """The verdicts on the records of a folder."""
    _tell_claims(Reproduction(folder).verdicts(), screen, brief=False)


def _tell_passed_over(reproduction: Reproduction, screen: Screen) -> None:
    if names := reproduction.passed_over():
        screen.warn(
            f"{', '.join(names)}: no record of this scale, seed and settings, or damaged; passed over"
        )


def write_report(folder: Path, out: Path | None, screen: Screen) -> int:
    """Figures, verdicts and page from the records alone; answers the exit code."""
    reproduction = Reproduction(folder, out)
    _tell_passed_over(reproduction, screen)

    def tell(event: Event) -> None:
        if event.kind == "failed":
            screen.warn(f"{event.name} could not be drawn: {event.text}")

    well = reproduction.draw(experiments.ITEMS, tell, anew=True)
    _tell_claims(reproduction.judge(), screen, brief=True)
    page = reproduction.report()
    screen.say(f"everything on one page: {page}")
    screen.result({"event": "finished" if well else "failed", "report": str(page)})
    return 0 if well else 1


def _tell_claims(verdicts: list[Verdict], screen: Screen, *, brief: bool) -> None:
    counts = Counter(v.verdict for v in verdicts)
    for verdict in verdicts:
        screen.result({"event": "claim", **verdict.as_dict()})
        if not brief:
            claim, finding = verdict.claim, verdict.finding
            screen.say(f"{verdict.verdict}: {claim.name} ({claim.where}). {claim.says}")
            screen.say(f"    read as   {claim.reads}")
            screen.say(f"    rule      {claim.rule}")
            screen.say(f"    measured  {finding.measured}")
            if finding.note:
                screen.say(f"              {finding.note}")
    screen.say(
        f"claims: {counts[HOLDS]} hold, {counts[FAILS]} do not, {counts[MISSED]} were {MISSED}, "
        f"{counts[OPEN]} not measured at this scale"
    )


class _Display:
    """A bar over all parts and the name of the one at work; plain lines where there is no terminal."""

    def __init__(self, screen: Screen, total: int) -> None:
        self.screen = screen
        self.bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[parts]}", markup=False),
            TimeElapsedColumn(),
            console=screen.out,
            disable=screen.as_json or not screen.out.is_terminal,
            transient=True,
        )
        self.task = self.bar.add_task("reproducing", total=max(total, 1), parts="")

    def __enter__(self) -> _Display:
        self.bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.bar.stop()

    def tell(self, event: Event) -> None:
        if event.kind in ("start", "share", "done"):
            self.bar.update(
                self.task,
                completed=event.done + (event.share if event.kind == "share" else 0.0),
                description=event.name,
                parts=f"part {min(event.done + 1, event.total)} of {event.total}",
            )
        if event.kind == "figure":
            self.bar.update(self.task, description=f"drawing {event.name}", parts="")
        if event.kind == "done":
            self.screen.say(f"  {event.name:<24} {duration(event.seconds)}")
            self.screen.result(
                {"event": "part", "name": event.name, "seconds": round(event.seconds, 2)}
            )
        if event.kind == "failed":
            self.screen.warn(f"{event.name} failed: {event.text}")
            self.screen.result({"event": "failed", "name": event.name, "error": event.text})
