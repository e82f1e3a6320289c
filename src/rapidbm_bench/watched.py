"""Watched likelihoods beside exact ones, and what choosing by them loses.

Trainings with persistent chains at high rates on rows in clusters, so that chains do not mix and modes
are lost. The machines have at most 17 hidden units, so log Z is a sum over their states; a run may not
take that sum (`following.CHEAP` is 1) and follows log Z as it does for large machines. Counted are

    within     looks whose value ± 2 errors holds the exact value, of those that have a value
    unknown    looks that say that they do not know
    made       looks that were made, of those that were asked for
    kept       trainings whose best machine is within 0.3 nat of the best saved checkpoint, both by the
               exact likelihood of the validation part

    python -m benchmarks watched --trainings 20 --visible 60,784
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import torch
from torch import Tensor

from rapidbm.data.splits import Dataset, Split
from rapidbm.estimates import Estimate
from rapidbm.likelihood import following
from rapidbm.likelihood.log_z import log_likelihood, log_z
from rapidbm.machines.machine import Machine
from rapidbm.progress import quiet
from rapidbm.random import stream
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run

from .running import option_parser, tell

CLOSE = 0.3  # nats
ASKED = 20  # looks per training, about
SAVED = 10  # checkpoints


@dataclass
class Watched:
    """One training."""

    asked: int = 0
    looks: list[tuple[int, float, float, float]] = field(
        default_factory=list
    )  # update, value, error, exact
    lost: float = 0.0  # nats, of the best machine to the best saved one

    @property
    def known(self) -> list[tuple[int, float, float, float]]:
        return [look for look in self.looks if look[1] == look[1] and look[2] < float("inf")]

    @property
    def missed(self) -> list[tuple[int, float, float, float]]:
        return [look for look in self.known if abs(look[1] - look[3]) > 2.0 * look[2] + 1e-6]


def clusters(seed: int, visible: int, rows: int = 600) -> tuple[Dataset, torch.Generator]:
    """Rows around a few centres of unequal weight, and a stream for more choices."""
    rng = stream(seed, "watched", visible)
    count = int(torch.randint(3, 9, (), generator=rng))
    noise = (0.02, 0.05, 0.1)[int(torch.randint(3, (), generator=rng))]
    centres = torch.rand((count, visible), generator=rng) < 0.5
    weights = torch.rand(count, generator=rng) + 0.1
    which = torch.multinomial(weights, rows, True, generator=rng)
    flipped = torch.rand((rows, visible), generator=rng) < noise
    spins = torch.where(centres[which] ^ flipped, 1, -1).to(torch.int8)
    parts = [Split(spins[a:b]) for a, b in ((0, 300), (300, 400), (400, rows))]
    return Dataset(f"clusters-{seed}", parts[0], parts[2], (1, visible), valid=parts[1]), rng


def settings(rng: torch.Generator) -> dict[str, object]:
    """Of one training: the same for the same stream."""

    def one(*of: object) -> object:
        return of[int(torch.randint(len(of), (), generator=rng))]

    return {
        "hidden": (one(8, 11, 14),),
        "patterns": one(None, None, 12),
        "rate": (one(0.002, 0.005, 0.015, 0.05),),
        "epochs": one(20, 60, 200),
    }


def watch(number: int, visible: int) -> Watched:
    """Trains, looks and compares."""
    data, rng = clusters(number, visible)
    chosen = settings(rng)
    updates = int(chosen["epochs"]) * 6  # type: ignore[call-overload]
    chosen |= {"batch_size": 50, "particles": 50, "sweeps": 1, "replicas": 1, "device": "cpu"}
    chosen |= {"evaluate": str(updates // ASKED), "checkpoints": str(updates // SAVED)}
    recipe = Recipe.made("bars4", {**chosen, "metrics": ("log_likelihood",), "seed": number}, "small")
    found = Watched()
    look = following.Follower.look

    def beside(self: following.Follower, machine: Machine, trained: int, **more: bool) -> Estimate:
        seen = look(self, machine, trained, **more)
        with mock.patch.object(following, "CHEAP", 2**16):
            exact = float(log_z(machine, method="exact").value)
        found.looks.append((self.looks, float(seen.value), float(seen.error), exact))
        return seen

    with tempfile.TemporaryDirectory() as folder, quiet():
        run = Run.create(Path(folder) / "R", recipe, data=data)
        with (
            mock.patch.object(following, "CHEAP", 1),
            mock.patch.object(following.Follower, "look", beside),
        ):
            for _ in run.go():
                pass
        found.asked = 1 + ASKED
        saved = [_exact(run.machine(update), data.valid) for update in run.checkpoints()]
        found.lost = max(saved) - _exact(run.machine(), data.valid)
    tell(
        f"{visible} columns, {number}: {chosen['hidden']} {chosen['patterns']} {chosen['rate']} "
        f"{chosen['epochs']}: {len(found.looks)} looks, {len(found.known)} known, missed "
        f"{[tuple(round(x, 2) for x in look) for look in found.missed]}, lost {found.lost:.2f}, "
        f"errors {[round(x[2], 2) for x in found.looks]}",
    )
    return found


def _exact(machine: Machine, part: Split | None) -> float:
    values: Tensor = log_likelihood(machine, part, method="exact").value
    return float(values)


def run(words: Sequence[str] = ()) -> dict[str, dict[str, float]]:
    parser = option_parser(__name__, __doc__)
    parser.add_argument("--trainings", type=int, default=20, help="of each number of columns")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--visible", default="60,784", help="columns, with commas between")
    chosen = parser.parse_args(words)
    table = {}
    for visible in map(int, chosen.visible.split(",")):
        numbers = range(chosen.first, chosen.first + chosen.trainings)
        found = [watch(number, visible) for number in numbers]
        known = [look for one in found for look in one.known]
        errors = torch.tensor([look[2] for look in known]) if known else torch.zeros(1)
        table[f"{visible} columns"] = {
            "trainings": len(found),
            "asked": sum(one.asked for one in found),
            "made": sum(len(one.looks) for one in found),
            "unknown": sum(len(one.looks) - len(one.known) for one in found),
            "within": len(known) - sum(len(one.missed) for one in found),
            "median error": float(errors.median()),
            "widest": float(errors.max()),
            "kept": sum(one.lost <= CLOSE for one in found),
            "worst loss": max(one.lost for one in found),
        }
    return table
