"""A training that is steered from a page: an ordinary run, whose steps are told and whose pace is set.

What is shown costs at most `SHARE` of the time: a frame is made when one is due and what frames have cost
so far is below that. Everything that is drawn for a picture comes from streams of its own, so that
looking changes no bit of the training.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...accel.devices import lone_thread
from ...data.splits import Dataset
from ...disk import make_folder
from ...errors import InputError
from ...machines.machine import Machine
from ...random import stream
from ...runs.auto_settings import find_settings
from ...runs.listing import machine_words
from ...runs.metrics import reconstruct
from ...runs.run import Run, Step
from ...sampling.gibbs import sweep
from ...training.negative import Persistent
from ...training.trainer import Trainer
from .arrays import Arrays, fields, spins
from .machines import run_folder, without_places
from .page_words import without_options
from .pipe import Pipe, PipeClosed
from .recipes import recipe_of
from .steered import SteeredRun

FRAMES = 0.1  # seconds between two frames, at least
SHARE = 0.05  # of the time that may go into them
TILES, PATTERNS, FILLED, EACH = 36, 64, 8, 100  # images of each kind in a frame, at most


def work(pipe: Pipe, first: dict[str, Any]) -> None:
    """Trains the run that the first message describes, or goes on with one, until it ends."""
    try:
        run = _resumed(first) if first.get("resume") else _begun(pipe, first)
    except (InputError, OSError, MemoryError, RuntimeError) as error:
        reason = without_places(error, Path(first["folder"]))
        return pipe.send({"event": "ended", "status": "refused", "reason": reason})
    return TrainingControl(pipe, run, first).drive()


def _begun(pipe: Pipe, first: Mapping[str, Any]) -> SteeredRun:
    """A new run; with the preset auto after short trainings that compare settings, told to the page."""
    folder = Path(first["folder"])
    recipe, preset = recipe_of(folder, first)
    found: list[str] = []
    start = None
    if preset == "auto":

        def hear(line: str) -> None:
            found.append(line)
            pipe.send({"event": "search", "line": line})

        budget = recipe.budget
        settings = find_settings(recipe, set(first.get("chosen") or {}), tell=hear)
        recipe, start = settings.recipe, settings.start
    make_folder(folder)
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    name = first.get("name") or f"{Path(recipe.dataset).stem}-{recipe.negative}-{stamp}"
    run = Run.create(folder / name, recipe, preset, renamed=True, start=start)
    if preset == "auto":
        run.note("auto", {"budget": budget, "found": found})
    return SteeredRun.of(run)


def _resumed(first: Mapping[str, Any]) -> SteeredRun:
    run = SteeredRun(run_folder(Path(first["folder"]), first["resume"]))
    if run.status == "finished":
        raise InputError(f"{first['resume']} is finished; train anew, or make it longer: --epochs")
    if run.recipe.shards > 1 and run.recipe.shard_by != "chains":  # the machine is in parts meanwhile
        raise InputError(
            f"{first['resume']} is cut by {run.recipe.shard_by} into {run.recipe.shards} shards; resume "
            "it by the command, rapidbm train --resume"
        )
    return run


class TrainingControl:
    """Between the run and the page."""

    def __init__(self, pipe: Pipe, run: SteeredRun, first: Mapping[str, Any]) -> None:
        self.pipe, self.run = pipe, run
        self.name = str(run.folder.relative_to(first["folder"]))
        self.paused = bool(first.get("paused"))
        self.pace = _pace(first.get("pace"))  # updates a second, 0 for as fast as it goes
        self.steps = 0  # to make although it is paused
        self.stopping = False
        self.closed = False
        self.watched = bool(first.get("watched", True))
        self.frames = Frames(run, int(first.get("replica") or 0))
        self.frame_sent = self.reported = 0.0
        self.started = time.monotonic()
        self.speed: tuple[float, int, float] = (self.started, 0, 0.0)  # when, at which update, of late

    def drive(self) -> None:
        pipe, run = self.pipe, self.run
        info, recipe = run.info, run.recipe
        pipe.send(
            {
                "event": "created",
                "run": self.name,
                "recipe": recipe.as_dict(),
                "machine": machine_words(recipe, info["data"]["shape"]),
                "data": info["data"],
                "records": run.metrics() if info.get("update") else [],
            }
        )
        try:
            for step in run.go(lambda: self.stopping or self.closed):
                self.after_step(step)
        except PipeClosed:  # while it was paused; what it had was kept then
            return
        except Exception as error:
            reason = without_places(error, run.folder.parent)[:1000]
            return pipe.send({"event": "ended", "status": "failed", "reason": reason})
        told = {name: run.info.get(name) for name in ("update", "diverged", "fit")}
        pipe.send({"event": "ended", "status": run.status, **told})

    def after_step(self, step: Step) -> None:
        """Tells of a step, obeys what came, and waits as long as it is to wait."""
        if step.record is not None:
            self.pipe.send({"event": "record", "record": step.record})
        self.handle_messages(step)
        last = step.update == step.updates
        if self.paused and not last:
            if self.steps:
                self.steps -= 1
            if not self.steps:
                self.wait_paused(step)
        self.report(step, wanted=last)
        if self.pace and not self.paused and not last:
            self.keep_pace(step)

    def handle_messages(self, step: Step) -> None:
        """What came since the last step."""
        try:
            messages = self.pipe.receive_all()
        except PipeClosed:
            self.closed = True  # the run saves and ends as interrupted
            return
        for told in messages:
            self.handle(told, step)

    def handle(self, told: Mapping[str, Any], step: Step) -> None:
        do = told.get("do")
        if do == "pause":
            self.paused, self.steps = True, 0
        elif do == "go":
            self.paused, self.steps = False, 0
        elif do == "step":
            self.paused, self.steps = True, 1
        elif do == "stop":
            self.stopping = True
        elif do == "pace":
            self.pace = _pace(told.get("pace"))
        elif do == "watched":
            self.watched = bool(told.get("watched"))
            self.frame_sent = 0.0
        elif do == "replica":
            self.frames.choose(told.get("replica"))
            self.frame_sent = 0.0
        elif do == "rate":
            try:
                self.run.change_rate(told.get("rate"))
                self.reported = 0.0
            except InputError as error:
                self.pipe.send({"event": "remark", "text": without_options(str(error))})

    def wait_paused(self, step: Step) -> None:
        """While it is paused: what there is lies in the folder, so that others may look at it."""
        self.run.keep()
        self.report(step, wanted=True)
        while self.paused and not self.steps and not self.stopping:
            self.handle(self.pipe.receive(), step)
            self.report(step, wanted=True)

    def keep_pace(self, step: Step) -> None:
        """So long that there are `pace` updates a second; a message wakes it."""
        until = time.monotonic() + 1.0 / self.pace
        while (left := until - time.monotonic()) > 0 and not (self.stopping or self.closed):
            try:
                told = self.pipe.receive(left)
            except PipeClosed:
                self.closed = True
                return
            if told:
                self.handle(told, step)
                if self.paused:
                    return

    def report(self, step: Step, *, wanted: bool) -> None:
        """Where it stands, now and then; a frame, if somebody looks and it is not too dear."""
        now = time.monotonic()
        if wanted or now - self.reported > FRAMES:
            self.reported = now
            self.pipe.send(self.state(step, now))
        if not self.watched or (now - self.frame_sent < FRAMES and not wanted):
            return
        if not wanted and self.frames.spent > SHARE * (now - self.started):
            return
        self.frame_sent = now
        about, arrays = self.frames.make(step)
        self.pipe.send({"event": "frame", "run": self.name, "update": step.update, **about}, arrays)

    def state(self, step: Step, now: float) -> dict[str, Any]:
        since, update, speed = self.speed
        if now - since > 0.5:
            speed = (step.update - update) / (now - since)
            self.speed = (now, step.update, speed)
        trainer = step.progress.trainer
        return {
            "event": "state",
            "status": "paused" if self.paused else "running",
            "update": step.update,
            "updates": step.updates,
            "epoch": step.epoch,
            "rate": trainer.rates(step.update)[0],
            "base": self.run.base_rate(step.update),
            "changes": [list(change) for change in self.run.recipe.rate_changes],
            "pace": self.pace,
            "speed": round(speed, 2),
            "diverged": list(step.diverged),
        }


def _pace(value: Any) -> float:
    """Updates a second; what is no such number is no limit."""
    return float(value) if isinstance(value, int | float) and 0 < value < 1e6 else 0.0


class Frames:
    """What a frame shows of one replica, and a sample of each of several."""

    def __init__(self, run: SteeredRun, replica: int) -> None:
        self.run, self.spent = run, 0.0
        self.replica = replica if 0 <= replica < run.recipe.replicas else 0
        self.chains: Tensor | None = None  # (e, 1, n): one of each replica
        self.tiles: Tensor | None = None  # (1, c, n): of the one that is shown
        self.count = 0

    def choose(self, replica: Any) -> None:
        if isinstance(replica, int) and 0 <= replica < self.run.recipe.replicas:
            self.replica, self.tiles = replica, None

    def make(self, step: Step) -> tuple[dict[str, Any], Arrays]:
        began = time.monotonic()
        with torch.no_grad(), lone_thread():  # small work, and others may want the other cores
            found = self._drawn(step)
        self.spent += time.monotonic() - began
        return found

    def _drawn(self, step: Step) -> tuple[dict[str, Any], Arrays]:
        whole, trainer = step.progress.machine, step.progress.trainer
        machine = whole.replica(self.replica)
        self.count += 1
        rng = stream(self.run.recipe.seed, "studio", self.count, device=machine.device)
        v = machine.visible
        if isinstance(trainer, Trainer) and isinstance(trainer.negative, Persistent):
            samples = trainer.chains[self.replica, :TILES, :v]
            each = trainer.chains[:EACH, 0, :v]
        else:
            if self.tiles is None:
                self.tiles = machine.random(TILES, rng)
            self.tiles = sweep(machine, self.tiles, rng)
            samples = self.tiles[0, :, :v]
            each = self._each(whole, rng)
        couplings, most = fields(_couplings(machine))
        about = {"replica": self.replica, "scale": most, "patterned": machine.patterns is not None}
        arrays = {"couplings": couplings, "samples": spins(samples)}
        if whole.replicas > 1:
            arrays["each"] = spins(each)
        arrays |= _filled(machine, step.data, rng)
        return about, arrays

    def _each(self, machine: Machine, rng: torch.Generator) -> Tensor:
        if machine.replicas == 1:
            return torch.empty(0, machine.visible)
        if self.chains is None:
            self.chains = machine.random(1, rng)
        self.chains = sweep(machine, self.chains, rng)
        return self.chains[:EACH, 0, : machine.visible]


def _couplings(machine: Machine) -> Tensor:
    """The visible part of the patterns, or what the first hidden units are coupled to, (k, v)."""
    v = machine.visible
    if machine.patterns is not None:
        return machine.patterns[0, :PATTERNS, :v]
    layers = machine.layers
    if layers.self_coupled(0):
        return machine.couplings.matrix(0, 0)[0].mT[:PATTERNS]
    hidden = min(unit for unit in layers.neighbours(0) if unit not in layers.visible)
    parts = [  # of each visible layer, those of tables may have several
        machine.couplings.matrix(layer, hidden)[0].mT[:PATTERNS]
        if hidden in layers.neighbours(layer)
        else torch.zeros(min(PATTERNS, layers.sizes[hidden]), layers.sizes[layer], device=machine.device)
        for layer in layers.visible
    ]
    return torch.cat(parts, -1)


def _filled(machine: Machine, data: Dataset, rng: torch.Generator) -> Arrays:
    """Test images, which of their pixels are known, and what one pass makes of them."""
    some = data.test.take(slice(0, FILLED))
    if some.known is None:
        return {}
    filled = reconstruct(machine, some, rng)[0]
    known = some.known.expand_as(some.spins)
    return {"given": spins(some.spins), "known": ("bits", known), "filled": spins(filled)}
