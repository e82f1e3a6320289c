"""Which trainings of a study run side by side.

The unit is one training: a row of the grid, once. Trainings that differ in numbers which each replica may
have its own of (`PER_REPLICA`: rate, weight decay, scale, …) are the replicas of one machine, and so are
the seeds of a row: replicas of one recipe start independently and have their own data order. All else,
sizes above all, makes another batch.

A plan is a file, written before anything is trained:

    batches/001, 002, …     a run folder each
    plan.json               their recipes

Planned again, for a study that has changed since, a training that some batch has is taken from there, and
what is missing goes into new batches; a batch that was not begun and holds what nobody wants any more is
gone. The j-th batch of the same shape has the seed of the study plus j, so that no two trainings of a row
draw the same numbers.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ..disk import inside, read_json, write_json
from ..display import as_html, as_text
from ..errors import InputError
from ..runs.recipe import IN_A_FILE, ONE_OR_EACH, PER_REPLICA, Recipe
from ..schema import Names, Several, Text, Whole
from .study import DENSE, Study, shown

FORMAT = 1
PLAN = Names(
    {
        "format": Whole(),
        "batches": Several(
            Names({"name": Text(20), "seed": Whole(), "preset": Text(), "recipe": IN_A_FILE})
        ),
    }
)
OF_OPTIMISER = ("rate", "weight_decay", "momentum")  # which only our own take per replica
OWN_OPTIMISERS = ("sgd", "adam")


@dataclass(frozen=True)
class Batch:
    """Trainings side by side: the replicas of one recipe."""

    name: str  # of its run folder, below batches/
    recipe: Recipe
    preset: str
    seed: int  # the study's

    @cached_property
    def trainings(self) -> list[str]:
        """What each replica is a training of."""
        whole = self.recipe.as_dict() | {"seed": self.seed, "replicas": 1}
        each = [single(self.recipe, i) for i in range(self.recipe.replicas)]
        return [_key(whole | own) for own in each]

    @property
    def shape(self) -> str:
        return shape_of(replace(self.recipe, seed=self.seed))

    def folder(self, study: Path) -> Path:
        return inside(study, "batches", self.name)

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "seed": self.seed,
            "preset": self.preset,
            "recipe": self.recipe.as_dict(),
        }


@dataclass(frozen=True)
class Plan:
    """The batches of a study, and which of their replicas are trainings of which row."""

    study: Study
    batches: tuple[Batch, ...]
    rows: tuple[tuple[tuple[Batch, int], ...], ...]  # of each point: batch and replica
    passed_over: tuple[Batch, ...] = field(default=())  # begun for a study that was another

    def points_of(self, batch: Batch) -> list[dict[str, Any]]:
        """The rows that a batch has trainings of."""
        points = zip(self.study.points(), self.rows, strict=True)
        return [point for point, row in points if any(some is batch for some, _ in row)]

    def save(self, folder: Path) -> None:
        batches = [batch.as_dict() for batch in (*self.batches, *self.passed_over)]
        write_json(folder / "plan.json", {"format": FORMAT, "batches": batches})

    def cells(self) -> tuple[list[str], list[list[str]]]:
        names = ["batch", "trainings", "machine", *self.study.varied]
        cells = []
        for batch in self.batches:
            points, hidden = self.points_of(batch), "×".join(map(str, batch.recipe.hidden))
            kind = f"K={batch.recipe.patterns}" if batch.recipe.patterns else DENSE
            varied = [
                ", ".join(dict.fromkeys(shown(point[name]) for point in points))
                for name in self.study.varied
            ]
            machine = f"{batch.recipe.model} {hidden} {kind}"
            cells.append([batch.name, str(batch.recipe.replicas), machine, *varied])
        return names, cells

    def __repr__(self) -> str:
        return as_text(*self.cells(), ("trainings",))

    def _repr_html_(self) -> str:
        return as_html(*self.cells(), ("trainings",))


def plan(study: Study, folder: Path) -> Plan:
    """The batches of a study; those that a folder has are kept."""
    keys = [key_of(recipe) for recipe in study.recipes]
    needed = Counter(dict.fromkeys(keys, study.seeds))
    begun = {b: (b.folder(folder) / "run.json").exists() for b in _saved(folder)}
    old = [b for b, there in begun.items() if there or Counter(b.trainings) <= needed]
    served: dict[str, list[tuple[Batch, int]]] = defaultdict(list)

    def take(batch: Batch) -> bool:
        """Takes those trainings of a batch that are still wanted."""
        before = needed.total()
        for i, key in enumerate(batch.trainings):
            if needed[key] > 0:
                needed[key] -= 1
                served[key].append((batch, i))
        return needed.total() < before

    kept = [batch for batch in old if take(batch)]
    fresh = [b for b in _fresh(study, keys, needed, old) if take(b)]
    others = [b for b in old if b not in kept and begun[b]]
    rows = tuple(tuple(served[key]) for key in keys)
    return Plan(study, (*kept, *fresh), rows, tuple(others))


def single(recipe: Recipe, replica: int) -> dict[str, Any]:
    """The numbers that one replica has of its own."""
    own: dict[str, Any] = {}
    for name in PER_REPLICA:
        value = getattr(recipe, name)
        if isinstance(value, tuple) and len(value) > 1:
            own[name] = value[replica] if name in ONE_OR_EACH else (value[replica],)
    return own


def key_of(recipe: Recipe) -> str:
    """What tells one training from another, but for its seed."""
    return _key(recipe.as_dict())


def _key(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)


def shape_of(recipe: Recipe) -> str:
    """What trainings that can be replicas of one machine have in common."""
    common = OF_OPTIMISER if recipe.optimizer not in OWN_OPTIMISERS else ()
    own = {"replicas", *PER_REPLICA} - {*common}
    return _key({k: v for k, v in recipe.as_dict().items() if k not in own})


def _fresh(study: Study, keys: Sequence[str], needed: Counter[str], old: Sequence[Batch]) -> list[Batch]:
    """Batches for what is needed still; seeds of a row lie side by side."""
    groups: dict[str, list[str]] = defaultdict(list)
    recipes = dict(zip(keys, study.recipes, strict=True))
    presets = dict(zip(keys, map(study.preset_of, study.points()), strict=True))
    for key, recipe in recipes.items():
        groups[shape_of(recipe)] += [key] * needed[key]
    number = max((int(batch.name) for batch in old), default=0)
    made: list[Batch] = []
    for shape, left in groups.items():
        base = recipes[left[0]].seed if left else 0
        seed = max((batch.recipe.seed for batch in old if batch.shape == shape), default=base - 1) + 1
        together = study.seeds if study.judges else study.together  # what is judged goes by itself
        for start in range(0, len(left), together):
            some = left[start : start + together]
            number += 1
            recipe = _joined([recipes[key] for key in some], seed)
            made.append(Batch(f"{number:03d}", recipe, presets[some[0]], base))
            seed += 1
    return made


def _joined(recipes: Sequence[Recipe], seed: int) -> Recipe:
    """Recipes of equal shape as the replicas of one."""
    first = recipes[0]
    own: dict[str, Any] = {}
    for name in PER_REPLICA:
        values = [getattr(recipe, name) for recipe in recipes]
        if any(value != values[0] for value in values):
            own[name] = tuple(value[0] if isinstance(value, tuple) else value for value in values)
    return replace(first, replicas=len(recipes), seed=seed, **own)


def _saved(folder: Path) -> list[Batch]:
    path = inside(folder, "plan.json")
    if not path.is_file():
        return []
    what, remedy = "the plan of a sweep", "restore it, or sweep into another --out"
    found = read_json(path, PLAN, what, remedy)
    if found["format"] != FORMAT:
        raise InputError(
            f"{path} has the format {found['format']}, this version of rapidbm reads {FORMAT}; use the "
            "version that wrote it"
        )
    batches = []
    for each in found["batches"]:
        if not (each["name"].isdecimal() and each["name"].isascii()):
            raise InputError(f"{path} cannot be read as {what}: no batch is {each['name']!r}; {remedy}")
        recipe = Recipe.from_dict(each["recipe"])
        batches.append(Batch(each["name"], recipe, each["preset"], each["seed"]))
    return batches
