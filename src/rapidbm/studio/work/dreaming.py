"""Dreams: grids of Gibbs chains, one for each page, that move as long as somebody looks.

    P(s) ∝ exp( −β E(s) + β h Σ_i v_i ),      held pixels do not move                     (1)

with β and the field h as the page's sliders stand. A frame is made when one is due and the page has seen
those before it: what a slow page cannot take is not made, and nothing waits in line.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import InputError, check_beta, is_number
from ...machines import trusted
from ...machines.machine import Machine
from ...machines.units.spin import SPIN
from ...random import stream
from ...sampling.gibbs import run_sweeps, sweeps
from .arrays import Arrays, numbers, spins
from .ladder import Ladder
from .machines import Subject, cell_names, check_spins, subject, without_places
from .pipe import Pipe

FRAME = 1 / 30  # seconds between two frames, at least
AHEAD = 2  # frames that a page need not have seen before the next is made
CHAINS = 64
MOST = 256  # chains of a page
FRESH = 2.0  # seconds between two looks whether a training has saved a newer machine
BINS = 40  # of the overlaps of the chains
EVERY = 6  # frames between two histograms of overlaps


def work(pipe: Pipe, first: dict[str, Any]) -> None:
    """Serves dreams until the pipe ends."""
    torch.set_num_threads(max(1, torch.get_num_threads() // 2))  # a training may run beside
    folder, dreams = Path(first["folder"]), dict[str, Dream]()
    while True:
        now = time.monotonic()
        due = [dream for dream in dreams.values() if dream.moves]
        wait = max(0.0, min((dream.due for dream in due), default=now + 10.0) - now)
        told = pipe.receive(wait)
        for message in ([told] if told else []) + pipe.receive_all():
            _handle(pipe, folder, dreams, message)
        for dream in list(dreams.values()):
            if dream.moves and dream.due <= time.monotonic():
                _guarded(pipe, folder, dreams, dream.page, dream.frame)


def _handle(pipe: Pipe, folder: Path, dreams: dict[str, Dream], told: Mapping[str, Any]) -> None:
    page = str(told.get("page"))
    do = told.get("do")
    if do == "close":
        dreams.pop(page, None)
    elif do == "open":
        made = partial(Dream, pipe, folder, page, told)
        _guarded(pipe, folder, dreams, page, lambda: dreams.__setitem__(page, made()))
    elif page in dreams:
        _guarded(pipe, folder, dreams, page, lambda: dreams[page].handle(told))


def _guarded(pipe: Pipe, folder: Path, dreams: dict[str, Dream], page: str, call: Any) -> None:
    """What goes wrong in one dream is told to its page and leaves the others alone."""
    try:
        call()
    except (InputError, MemoryError, RuntimeError) as error:
        dream = dreams.get(page)
        if dream is not None:
            dream.running = False
        pipe.send({"event": "remark", "page": page, "text": without_places(error, folder)[:600]})


class Dream:
    """The chains of one page."""

    def __init__(self, pipe: Pipe, folder: Path, page: str, asked: Mapping[str, Any]) -> None:
        self.pipe, self.folder, self.page = pipe, folder, page
        self.subject: Subject = subject(folder, dict(asked))
        self.seed = time.time_ns() % 2**31  # no two dreams are the same
        self.rng = stream(self.seed, "dream")
        self.beta, self.field, self.sweeps = 1.0, 0.0, 1
        self.running, self.once, self.hidden = True, False, False
        self.unseen, self.count, self.due = 0, 0, 0.0
        self.ladder: Ladder | None = None
        self.chains = _count(asked.get("chains"), CHAINS, MOST)
        self.held = torch.zeros(self.machine.visible, dtype=torch.bool)
        self.drawn = torch.ones(self.machine.visible)
        self.checked, self.stamp = time.monotonic(), self.subject.saved()
        self.spins: Tensor = self.machine.random(self.chains, self.rng)
        self._tell_what()
        self.handle({**asked, "do": "set"})
        self.start(asked.get("start") or {"from": "noise"})

    @property
    def machine(self) -> Machine:
        return self.subject.machine

    @property
    def moves(self) -> bool:
        return not self.hidden and (self.running or self.once) and self.unseen < AHEAD

    def _tell_what(self) -> None:
        machine, found = self.machine, self.subject
        data = found.data()
        labels = None if data is None or data.train.labels is None else torch.unique(data.train.labels)
        arrays = {}
        if data is not None and labels is not None and data.label_units:
            first = [int((data.train.labels == label).int().argmax()) for label in labels]
            arrays["codes"] = spins(data.train.spins[first, -data.label_units :])
        self.pipe.send(
            {
                "event": "dream",
                "page": self.page,
                "machine": found.name,
                "words": machine.describe(),
                "shape": list(found.shape),
                "columns": cell_names(found),
                "spins": machine.layers.spins,
                "patterns": 0
                if not machine.layers.spins or machine.patterns is None
                else machine.patterns.shape[1],
                "replicas": found.trained.replicas,
                "data": data is not None,
                "table": found.trained.schema is not None,
                "labels": [] if labels is None else labels.tolist()[:100],
                "label_units": 0 if data is None else data.label_units,
            },
            arrays,
        )

    # -- what it is told --------------------------------------------------------------------------

    def handle(self, told: Mapping[str, Any]) -> None:
        do = told.get("do")
        if do == "seen":
            self.unseen = max(0, self.unseen - 1)
        elif do == "hidden":  # its tab is not looked at
            self.hidden = told.get("on") is True
            self.due = time.monotonic()
        elif do == "set":
            self._set(told)
        elif do == "start":
            self.start(told.get("start") or {})
        elif do == "hold":
            self.hold(told)
        elif do == "once":
            self.once = True
        elif do == "ladder":
            self.ladder = (
                Ladder(self.subject, told, stream(self.seed, "ladder")) if told.get("on") else None
            )

    def _set(self, told: Mapping[str, Any]) -> None:
        if "beta" in told:
            check_beta(told["beta"])
            self.beta = min(float(told["beta"]), 100.0)
        if "field" in told:
            if not is_number(told["field"]):
                raise InputError(f"a field is a number, not {told['field']!r}")
            if told["field"]:
                check_spins(self.machine, "A field", "Change the temperature instead.")
            self.field = max(-20.0, min(20.0, float(told["field"])))
        if "sweeps" in told:
            self.sweeps = _count(told["sweeps"], 1, 200)
        if "running" in told:
            self.running = bool(told["running"])

    def hold(self, told: Mapping[str, Any]) -> None:
        """Pixels that stay: `up` and `down` are lists of them, and all others are free."""
        visible = self.machine.visible
        if told.get("up") or told.get("down"):
            check_spins(self.machine, "The board", "Let the chains run free.")
        held, drawn = torch.zeros(visible, dtype=torch.bool), torch.ones(visible)
        for name, value in (("up", 1.0), ("down", -1.0)):
            places = told.get(name) or []
            if len(places) > visible or not all(isinstance(i, int) and 0 <= i < visible for i in places):
                raise InputError(f"pixels are numbers from 0 to {visible - 1}")
            held[places], drawn[places] = True, value
        self.held, self.drawn = held, drawn
        self.spins[..., :visible] = torch.where(held, drawn, self.spins[..., :visible])

    def start(self, told: Mapping[str, Any]) -> None:
        """Chains from noise, from the data (of one `label`), or from a `pattern`."""
        machine, where = self.machine, told.get("from")
        v = machine.visible
        if where in ("data", "pattern"):
            images = (
                self._images(told.get("label"))
                if where == "data"
                else self._patterns(told.get("pattern"))
            )
            start, clamp = machine.with_visible(images), torch.arange(machine.layers.columns) < v
            self.spins = sweeps(machine, start, self.rng, clamp=clamp)  # hidden units as images have them
        else:
            self.spins = machine.random(self.chains, self.rng)
        self.spins[..., :v] = torch.where(self.held, self.drawn, self.spins[..., :v])
        self.once = True

    def _images(self, label: Any) -> Tensor:
        data = self.subject.data()
        if data is None:
            raise InputError(f"{self.subject.name} has no data to start from; start from noise")
        rows = torch.arange(len(data.train))
        if label is not None and data.train.labels is not None:
            rows = rows[data.train.labels == label]
            if not len(rows):
                raise InputError(f"no image of the data has the label {label!r}")
        chosen = rows[torch.randint(len(rows), (self.chains,), generator=self.rng)]
        return data.train.spins[chosen].to(self.machine.dtype)

    def _patterns(self, which: Any) -> Tensor:
        patterns = self.machine.patterns
        if patterns is None:
            raise InputError("these couplings are dense, there are no patterns to start from")
        check_spins(self.machine, "Starting from patterns", "Start from noise or from data.")
        signs = SPIN.nearest(patterns[0, :, : self.machine.visible])
        if isinstance(which, int) and 0 <= which < len(signs):
            return signs[which].expand(self.chains, -1)
        return signs[torch.arange(self.chains) % len(signs)]

    # -- what it shows ----------------------------------------------------------------------------

    def frame(self) -> None:
        self.due = max(self.due + FRAME, time.monotonic() - FRAME)
        self.once = False
        self._refresh()
        header = {"event": "dreamt", "page": self.page, "number": self.count}
        arrays: Arrays
        if self.ladder is not None:
            more, arrays = self.ladder.frame(self.sweeps)
        else:
            more, arrays = self._chains()
        self.unseen += 1
        self.count += 1
        self.pipe.send({**header, **more}, arrays)

    def _chains(self) -> tuple[dict[str, Any], Arrays]:
        machine, v = self.machine, self.machine.visible
        clamp = push = None
        if bool(self.held.any()):
            clamp = torch.zeros(machine.layers.columns, dtype=torch.bool)
            clamp[:v] = self.held
        if self.field:
            push = torch.zeros(1, 1, machine.layers.columns)
            push[..., :v] = self.beta * self.field
        self.spins = run_sweeps(machine, self.spins, self.rng, self.sweeps, self.beta, clamp, push)
        energy = trusted.energy(machine, self.spins)[0] / machine.layers.columns
        arrays: dict[str, Any] = {"spins": spins(self.spins[0, :, :v]), "energy": numbers(energy)}
        if self.count % EVERY == 0 and self.chains > 1 and machine.layers.spins:
            arrays["overlaps"] = numbers(_overlaps(self.spins[0, :, :v]))
        return {"beta": self.beta, "field": self.field, "sweeps": self.sweeps}, arrays

    def _refresh(self) -> None:
        """Goes on with the newer machine of a training that goes on."""
        now = time.monotonic()
        if now - self.checked < FRESH or self.subject.update is not None:
            return
        self.checked = now
        if (stamp := self.subject.saved()) != self.stamp:
            self.stamp = stamp
            asked = {"machine": self.subject.name, "replica": self.subject.replica}
            self.subject = subject(self.folder, asked)


def _overlaps(chains: Tensor) -> Tensor:
    """How many pairs of chains have an overlap in each of `BINS` bins from −1 to 1, as shares."""
    gram = chains @ chains.mT / chains.shape[1]
    i, j = torch.triu_indices(len(gram), len(gram), 1)
    counts = torch.histc(gram[i, j].clamp(-1, 1), BINS, -1.0, 1.0)
    return counts / counts.sum()


def _count(value: Any, usual: int, most: int) -> int:
    return max(1, min(most, value)) if isinstance(value, int) and not isinstance(value, bool) else usual
