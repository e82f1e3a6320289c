"""`rapidbm reproduce`, and `rapidbm report` of a reproduction: one bar over all parts, and what is
said at the end."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import TextColumn, TimeElapsedColumn

from rapidbm import interrupts
from rapidbm.accel.devices import device_named
from rapidbm.cli.terminal.console import Screen, Stopper
from rapidbm.cli.terminal.options import Device, Json, Seed, offers
from rapidbm.progress import quiet
from rapidbm.runs.report.html import duration

from . import ITEMS, item
from .claims import FAILS, HOLDS, MISSED, OPEN, UNDECIDED, Verdict
from .lab import SCALE_NAMES
from .reproduction import Event, Interrupted, Reproduction, item_names


def reproduce(
    items: Annotated[
        list[str],
        typer.Argument(
            metavar="ITEM…",
            help="all, a figure or table (fig1, fig2a, …, probe, costs: [bold]list[/] shows them), or "
            "[bold]claims[/]: the verdicts on what --out holds.",
            autocompletion=offers(["all", *ITEMS, "list", "claims"]),
            show_default=False,
        ),
    ],
    scale: Annotated[
        str,
        typer.Option(
            help="tiny (seconds), quick (minutes on two cores) or paper (the paper's sizes, a GPU).",
            autocompletion=offers(SCALE_NAMES),
        ),
    ] = "quick",
    out: Annotated[
        Path | None,
        typer.Option(help="The folder (default: runs/reproduction-SCALE); what it has is not redone."),
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """The paper's figures, tables and claims, measured anew, on one page.

    Everything, in minutes on two cores:
    [bold]rapidbm reproduce all --out R[/]

    One figure at the paper's size:
    [bold]rapidbm reproduce fig5 --scale paper[/]

    The same command goes on where it was interrupted, to the same records.
    """
    screen = Screen(as_json)
    folder = out or Path("runs") / f"reproduction-{scale}"
    if items == ["list"]:
        for name in ITEMS:
            shown = item(name)
            screen.say(f"{name:<12} {shown.title}")
            screen.result({"item": name, "title": shown.title, "records": list(shown.needs)})
    elif items == ["claims"]:
        tell_claims(Reproduction(folder).verdicts(), screen, brief=False)
    elif code := _reproduced(items, folder, scale, seed, device, screen):
        raise typer.Exit(code)


def _reproduced(
    words: list[str], folder: Path, scale: str, seed: int, device: str, screen: Screen
) -> int:
    """Measures, draws and judges; answers the exit code."""
    items = item_names(words)
    on = device_named(device)  # a device that is not there is said before a folder is made
    reproduction = Reproduction.open(folder, scale, seed)
    names = reproduction.part_names(items)
    left = sum(reproduction.record(name) is None for name in names)
    tell_passed_over(reproduction, screen)
    screen.say(
        f"{len(items)} item{'s' if len(items) > 1 else ''} at scale {scale}, seed {seed}: {left} of "
        f"{len(names)} parts to measure → {folder}"
    )
    if left and scale == "paper" and on.type == "cpu":
        screen.warn(
            "the paper's sizes take a GPU minutes and a CPU many hours; --scale quick is meant for one"
        )
    chosen = ["--scale", scale, "--seed", str(seed), "--out", str(folder)]
    again, stopper = shlex.join(["rapidbm", "reproduce", *words, *chosen]), Stopper()
    interrupts.go_on_with(lambda: again)
    try:
        with quiet(), stopper.listening(), _Display(screen, len(names)) as display:
            well = reproduction.go(items, device, tell=display.tell, stop=stopper)
    except Interrupted:
        screen.say(f"interrupted; finished parts are kept. Go on with: {again}")
        screen.result({"event": "interrupted", "out": str(folder)})
        return stopper.code
    tell_claims(reproduction.verdicts(), screen, brief=True)
    page = folder / "report.html"
    failed = reproduction.info["failed"]
    screen.say(f"everything on one page: {page}")
    if failed:
        screen.say(f"failed: {', '.join(failed)}. To retry: {again}")
    event = "finished" if well else "failed"
    screen.result({"event": event, "out": str(folder), "report": str(page), "failed": failed})
    return 0 if well else 1


def write_again(folder: Path, out: Path | None, screen: Screen) -> None:
    """`rapidbm report` of a reproduction: draws, judges and writes its page, from the records."""
    reproduction = Reproduction(folder, out)
    tell_passed_over(reproduction, screen)

    def tell(event: Event) -> None:
        if event.kind == "failed":
            screen.warn(f"{event.name} could not be drawn: {event.text}")

    well = reproduction.draw(ITEMS, tell, anew=True)
    tell_claims(reproduction.judge(), screen, brief=True)
    page = reproduction.report()
    screen.say(f"everything on one page: {page}")
    screen.result({"event": "finished" if well else "failed", "report": str(page)})
    if not well:
        raise typer.Exit(1)


def tell_passed_over(reproduction: Reproduction, screen: Screen) -> None:
    """Names the records that do not count."""
    if names := reproduction.passed_over():
        screen.warn(
            f"{', '.join(names)}: no record of this scale, seed and settings, or damaged; passed over"
        )


def tell_claims(verdicts: list[Verdict], screen: Screen, *, brief: bool) -> None:
    """The verdicts, one by one or how many of each."""
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
        f"{counts[UNDECIDED]} are undecided, {counts[OPEN]} not measured at this scale"
    )


class _Display:
    """A bar over all parts and the name of the one at work; plain lines where there is no terminal."""

    def __init__(self, screen: Screen, total: int) -> None:
        self.screen = screen
        parts = TextColumn("{task.fields[parts]}", markup=False)
        self.bar = screen.bar(parts, TimeElapsedColumn())
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
            self.screen.result({"event": "part", "name": event.name, "seconds": round(event.seconds, 2)})
        if event.kind == "failed":
            self.screen.warn(f"{event.name} failed: {event.text}")
            self.screen.result({"event": "failed", "name": event.name, "error": event.text})
