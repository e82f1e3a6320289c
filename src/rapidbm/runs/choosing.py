"""The preset `auto`: settings that suit the data, by short trainings that go on from round to round.

A candidate is a kind of couplings, dense or of patterns, a number of hidden units, a rate, a weight decay
and a lifetime of chains. Those of one shape train side by side (`rounds.py`) and are judged by the
pessimistic end of the likelihood of a validation part, value − 2 error; deep and full machines by the
lower bound on it that mean field proves:

    rates     every shape that there is time for, at three rates each, at the usual decay
    halving   the better half of all of them, from where they are, at lower rates
    decays    the best one, from where it is, with every decay
    the run   the best of these goes on from where it is, for what is left of the time

Each takes its share of the time (`SHARES`). Nothing is lost: the best machine of all looks is what the
run has to better, and so are independent columns, whose log Z is known.

Where r times as many updates follow as a candidate made in its first round, it goes on with

    rate → rate / √r,    at least a quarter of it                                         (1)

The candidates lie around what suits the size of a machine and of its data: one of C couplings, V H in a
restricted machine, moves the fields of many others, and few rows overfit,

    rate of dense couplings    10⁻³ · min(1, 128 / √C)                                    (2)
    weight decay               min(1, 150 / rows)                                         (3)

Rates are (0.5, 1.5, 4.5) times (2), of patterns times 10⁻³, decays 1, 12, 4 and 0 times (3): (3) is what
60,000 images want, 1,600 rows of 180 columns want 12 times as much. Gradients are centred
(`training/coordinates/centring.py`). Nothing that the caller has chosen is varied.

A restricted machine has h hidden units or h/4, a deep one 4h/5 and h/5, a full one h/2, and K patterns
four fifths of the parameters of dense couplings. `DEEP`, `DEEP_START` and `LIFETIME` of deep and full
machines are rules (docs/decisions/deep.md).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch

from ..accel.devices import by_device, device_named
from ..data.splits import Dataset
from ..display import MEASURED
from ..errors import InputError
from .presets import DEEP, DEEP_START, LIFETIME, two_layers
from .recipe import Recipe
from .rounds import Bench, Candidate, Judged, Start, checked, independent_columns, of_candidates
from .spacing import OPEN, seconds_of
from .watching import judging

SHARES = {"rates": 0.2, "halving": 0.1, "decays": 0.1}  # of the time
EACH = 3.0  # seconds that a candidate wants in a later round: fewer of them where there are fewer
GROUP = 12.0  # seconds that those of one shape want to be told apart: fewer shapes where there are fewer
FEWEST = 2  # candidates of one shape that are left where none could be judged
LOOKS = 100  # of the run, at most
PATIENT = 50  # of them, where there are fewer rows than `FEW_ROWS`
SERVED = {"negative": "pcd", "optimizer": "adam"}
RATES = (0.5, 1.5, 4.5)  # times `USUAL`, and of dense couplings times eq. (2)
DECAYS = (1.0, 12.0, 4.0, 0.0)  # times eq. (3), the usual one first
USUAL, WIDE, ROWS = 1e-3, 128.0, 150.0
LIVES = 300, 1000  # lifetime of chains that is tried: on a CPU, on a GPU
MOST_UPDATES = 400_000  # of the run
SLOWER = 4.0  # of eq. (1), at most
CHECK = 0.1  # of the time, to check the best trial, at most
ENDING = 3.0  # seconds of a command after its run: curves, a proof of its fit
LEAST_PATTERNED = 48  # columns from which on patterns are tried
MANY_HIDDEN = 200  # hidden units from which on a quarter of them is tried
ONE_BY_ONE = 600  # units of a dense full machine, which is swept unit by unit, up to which it is tried
ENUMERATED = 6  # hidden units up to which their mean is exact, and cheaper
BUDGET = "5m"  # where none is given
VALID = 0.1  # of the rows, where the data have no validation part
FEW_ROWS, MANY_ROWS = 5_000, 20_000


@dataclass(frozen=True)
class Chosen:
    """What suits the data, and what its run begins with."""

    recipe: Recipe
    start: Start | None


def serves(settings: Mapping[str, Any]) -> bool:
    """Whether these settings leave it what it tries."""
    return all(settings.get(name, value) == value for name, value in SERVED.items())


def tries(settings: Mapping[str, Any]) -> bool:
    """Whether it is the default with these settings: not where so many epochs are asked for, and no time
    is given."""
    return serves(settings) and (settings.get("budget") is not None or "epochs" not in settings)


def chosen(
    recipe: Recipe,
    fixed: Collection[str],
    data: Dataset | None = None,
    tell: Callable[[str], object] = lambda line: None,
    began: float | None = None,
) -> Chosen:
    """The recipe with what suits its data, and the best machine of the trials; settings of `fixed` stay.
    `tell` hears what was found; the time counts from `began`, by the monotonic clock."""
    if not serves(vars(recipe)):
        raise InputError(
            f"the preset auto trains by pcd and adam, not by {recipe.negative} and {recipe.optimizer}; "
            "leave these out, or give another --preset"
        )
    if recipe.valid == 0:
        raise InputError(
            "the preset auto judges by a validation part; leave --valid 0 out, or give another --preset"
        )
    began = time.monotonic() if began is None else began
    whole = seconds_of(recipe.budget or BUDGET)
    shards: Any = {"shards": recipe.shards, "shard_by": recipe.shard_by}
    recipe = replace(recipe, shards=1, shard_by="chains")  # trials are the work of one process
    given, data = data, recipe.data(data)
    share = recipe.valid
    if data.valid is None:
        share = VALID
        data = replace(recipe, valid=share).data(given)
    recipe = _sized(replace(recipe, valid=None), fixed, data)  # the data have it by now
    groups = _groups(recipe, fixed, data, max(1, int(SHARES["rates"] * whole / GROUP)))
    recipe = _sized_deep(recipe, fixed, groups[0][0].hidden)
    log_p = MEASURED[judging(recipe)]
    if log_p != MEASURED["log_likelihood"]:
        tell(
            f"auto: a {recipe.model} is judged by a lower bound of log p; by rule, not by trial, "
            f"{_rules(recipe)}"
        )
    best, start = _tried(recipe, fixed, data, groups, (began, whole), tell, log_p)
    winner = replace(of_candidates(recipe, [best.candidate]), replicas=recipe.replicas)
    rest = max(1.0, whole - (time.monotonic() - began) - ENDING)
    per_epoch = math.ceil(len(data.train) / recipe.batch_size)
    epochs = recipe.epochs if recipe.epochs < OPEN else max(1, MOST_UPDATES // per_epoch)
    updates = min(epochs * per_epoch, rest * best.speed) or per_epoch
    if "evaluate" not in fixed:
        winner = replace(winner, evaluate=str(max(1, int(updates) // LOOKS)))
    if "patience" not in fixed and len(data.train) < FEW_ROWS:
        winner = replace(winner, patience=PATIENT)
    if best.updates and "rate" not in fixed:
        rate, longer = slower(best, updates), updates / best.updates
        tell(f"auto: rate {rate:.2g} for the run, about {longer:.1f} times as long as its trials")
        winner = replace(winner, rate=(rate,))
    winner = replace(winner, budget=f"{rest:.1f}s", epochs=epochs, valid=share, **shards)
    return Chosen(winner, start)


def _tried(
    recipe: Recipe,
    fixed: Collection[str],
    data: Dataset,
    groups: list[list[Candidate]],
    clock: tuple[float, float],
    tell: Callable[[str], object],
    log_p: str,
) -> tuple[Judged, Start]:
    """The best of all rounds, and what a run begins with."""
    (began, whole), decays = clock, _decays(recipe, fixed, data)
    shapes = f"{len(groups)} shape{'s' if len(groups) > 1 else ''}"
    tell(
        f"auto: {sum(map(len, groups))} candidates of {shapes}, then the better half, then up to "
        f"{len(decays)} weight decays; {sum(SHARES.values()) * whole:.0f} s of {whole:.0f} s to compare"
    )
    bench, told = Bench(data), 0.0
    rivals = [[Judged(one) for one in group] for group in groups]
    for part, share in SHARES.items():
        told += share
        if part != "rates" and bench.best is None:  # all the time that is left for a few of them
            told = sum(SHARES.values())
            rivals = [sorted(rivals[0], key=lambda x: x.candidate.rate)[:FEWEST]]
        left = began + told * whole - time.monotonic()
        if part == "halving" and bench.best is not None:
            rivals = _better_half(rivals, left, "rate" in fixed)
        elif part == "decays" and bench.best is not None:
            rivals = _with_decays(bench.best, decays, left, "rate" in fixed)
        many = sum(map(len, rivals))
        if many < 2 or left <= 0.0:
            continue
        rivals = _round(bench, recipe, rivals, began + told * whole)
        judged = sorted((x for group in rivals for x in group), key=lambda x: -x.worst)
        known = [x for x in judged if math.isfinite(x.worst)]
        if not known:
            tell(f"auto: none of {many} could be judged in this time")
            continue
        first, last = known[0], known[-1]
        lost = f"; {many - len(known)} could not be judged" if len(known) < many else ""
        tell(
            f"auto: {first.candidate}: {log_p} train {first.train:.2f}, valid {first.valid:.2f} ± "
            f"{first.error:.2f}, best of {many}, of which the last has {last.valid:.2f}{lost}"
        )
    return _best(bench, recipe, data, groups, tell, max(1.0, CHECK * whole))


def _best(
    bench: Bench,
    recipe: Recipe,
    data: Dataset,
    groups: list[list[Candidate]],
    tell: Callable[[str], object],
    seconds: float,
) -> tuple[Judged, Start]:
    """The best of all looks, checked in so many seconds, or the usual candidate, and what a run begins
    with, which is at least independent
    columns."""
    best = bench.best or Judged(usual(groups))
    if bench.best is None:
        tell(f"auto: {best.candidate} is usual")
    alone = of_candidates(recipe, [best.candidate])
    start = checked(alone, data, best, seconds)
    if start.value != best.valid and best.state:
        tell(f"auto: annealed once more, this trial has {start.value:.2f} ± {start.error:.2f}")
    columns = independent_columns(alone, data)
    if columns.worst >= start.worst:
        tell(f"auto: independent columns are better: valid {columns.value:.2f}")
        start = columns
    return best, start


def _round(bench: Bench, recipe: Recipe, rivals: list[list[Judged]], end: float) -> list[list[Judged]]:
    """Trains all of them until a moment, shape by shape, each for its share of what is left."""
    judged, many = [], sum(map(len, rivals))
    for group in rivals:
        seconds = max(1.0, end - time.monotonic()) * len(group) / many
        many -= len(group)
        judged.append(bench.round(recipe, group, seconds))
    return judged


def _better_half(rivals: list[list[Judged]], seconds: float, fixed: bool) -> list[list[Judged]]:
    """Of all of them, at the rates of a longer training."""
    ranked = sorted((x for group in rivals for x in group), key=lambda x: -x.worst)
    most = min((len(ranked) + 1) // 2, max(1, int(seconds / EACH)))
    kept = [x for x in ranked if math.isfinite(x.worst)][:most]
    return by_shape([_going_on(x, seconds / len(kept), fixed) for x in kept])


def _with_decays(best: Judged, decays: list[float], seconds: float, fixed: bool) -> list[list[Judged]]:
    """The best one with every decay that there is time for, from where it is."""
    decays = decays[: max(1, int(seconds / EACH))]
    one = _going_on(best, seconds / len(decays), fixed)
    return [[replace(one, candidate=replace(one.candidate, decay=decay)) for decay in decays]]


def _going_on(one: Judged, seconds: float, fixed: bool) -> Judged:
    """At the rate for what is to come, unless rates are chosen."""
    if fixed or not one.updates:
        return one
    return replace(one, candidate=replace(one.candidate, rate=slower(one, seconds * one.speed)))


def slower(one: Judged, updates: float) -> float:
    """Eq. (1), for so many more updates."""
    rate, first = one.begun
    return rate / min(math.sqrt(max(1.0, updates / max(1, first))), SLOWER)


def _sized(recipe: Recipe, fixed: Collection[str], data: Dataset) -> Recipe:
    """Chains and images that suit the device: a GPU takes many at once for the time of a few."""
    device = device_named(recipe.device)
    sizes: dict[str, Any] = {
        "particles": by_device(device, 100, 1000),
        "sweeps": by_device(device, 1, 10),
        "batch_size": by_device(device, 100, 500 if len(data.train) >= MANY_ROWS else 100),
    }
    return replace(recipe, **{name: value for name, value in sizes.items() if name not in fixed})


def _sized_deep(recipe: Recipe, fixed: Collection[str], hidden: tuple[int, ...]) -> Recipe:
    """The layers, and the inference of hidden units and the chains that deep and full machines want."""
    recipe = replace(recipe, hidden=hidden)
    if recipe.model == "rbm":
        return recipe
    wanted: dict[str, Any] = {"lifetime": LIFETIME}
    if recipe.model == "dbm" and len(hidden) > 1:
        wanted["deep_start"] = DEEP_START
    if sum(hidden) > ENUMERATED and "positive_steps" not in fixed:
        wanted |= DEEP
    return replace(recipe, **{name: value for name, value in wanted.items() if name not in fixed})


def _rules(recipe: Recipe) -> str:
    """What deep and full machines are given that is not compared."""
    told = [f"{' + '.join(map(str, recipe.hidden)) or 'no'} hidden units"]
    if recipe.positive_steps is not None:
        told.append(f"{recipe.positive_steps} steps of {recipe.positive} per update")
    told.append(f"chains that live for {recipe.lifetime} updates" if recipe.lifetime else "no lifetime")
    return ", ".join(told)


def candidates(recipe: Recipe, fixed: Collection[str], data: Dataset) -> Iterator[Candidate]:
    """Shapes by the number of columns, those first that are to be tried first, times rates."""
    decay = _decays(recipe, fixed, data)[0]  # the usual one
    for hidden, patterns, lifetime in _shapes(recipe, fixed, data):
        middle = usual_rate(couplings(recipe.model, data.visible, hidden), patterns is None)
        rates = recipe.rate if "rate" in fixed else [middle * x for x in RATES]
        for rate in rates:
            yield Candidate(hidden, patterns, rate, decay, lifetime)


def _groups(recipe: Recipe, fixed: Collection[str], data: Dataset, most: int) -> list[list[Candidate]]:
    """Candidates by shape, at most so many shapes."""
    groups: dict[tuple[object, ...], list[Candidate]] = {}
    for one in candidates(recipe, fixed, data):
        groups.setdefault(one.shape, []).append(one)
    return list(groups.values())[:most]


def _decays(recipe: Recipe, fixed: Collection[str], data: Dataset) -> list[float]:
    given = recipe.weight_decay if isinstance(recipe.weight_decay, tuple) else ()
    if "weight_decay" in fixed:
        return list(given or (0.0,))
    return [usual_decay(len(data.train)) * x for x in DECAYS]


def couplings(model: str, visible: int, hidden: tuple[int, ...]) -> int:
    """How many a dense machine has."""
    sizes = (visible, *hidden)
    if model == "bm":
        return sum(sizes) * (sum(sizes) - 1) // 2
    return sum(a * b for a, b in pairwise(sizes))


def usual_rate(count: int, dense: bool) -> float:
    """What suits a training of minutes; of so many dense couplings eq. (2)."""
    return USUAL * (min(1.0, WIDE / max(1, count) ** 0.5) if dense else 1.0)


def usual_decay(rows: int) -> float:
    """Eq. (3)."""
    return min(1.0, ROWS / rows)


def usual_hidden(visible: int, device: torch.device, each: int = 4) -> int:
    """Hidden units that suit so many columns, so many for each of them."""
    return min(by_device(device, 400, 1000), max(100, each * visible))


def usual_layers(model: str, visible: int, device: torch.device) -> tuple[int, ...]:
    """About as many units as suit a restricted machine, of a deep one a fifth of them in a second layer,
    or half as many that are coupled to each other as well."""
    count = usual_hidden(visible, device)
    return {"rbm": (count,), "dbm": two_layers(count), "bm": (count // 2,)}[model]


def _shapes(
    recipe: Recipe, fixed: Collection[str], data: Dataset
) -> Iterator[tuple[tuple[int, ...], int | None, int]]:
    """Hidden units, patterns and lifetimes."""
    device, kinds = device_named(recipe.device), list(_kinds(recipe, fixed, data))
    if "lifetime" in fixed or recipe.model != "rbm":
        given = recipe.lifetime or 0
        lives = given if "lifetime" in fixed else LIFETIME
        yield from ((*kind, lives) for kind in kinds)
        return
    limited = by_device(device, *LIVES)
    dense = [kind for kind in kinds if kind[1] is None]
    # Dense ones, every second with a lifetime; patterns, whose scouts do better than a lifetime
    # (docs/decisions/scouts.md); then the dense ones the other way round.
    yield from ((*kind, 0 if i % 2 else limited) for i, kind in enumerate(dense))
    yield from ((*kind, 0) for kind in kinds if kind[1] is not None)
    yield from ((*kind, limited if i % 2 else 0) for i, kind in enumerate(dense))


def _kinds(
    recipe: Recipe, fixed: Collection[str], data: Dataset
) -> Iterator[tuple[tuple[int, ...], int | None]]:
    """Hidden units and patterns, what is quick first."""
    device = device_named(recipe.device)
    v = data.visible
    hidden = recipe.hidden if "hidden" in fixed else usual_layers(recipe.model, v, device)
    if "patterns" in fixed:
        yield hidden, recipe.patterns
        return
    units = v + sum(hidden)
    slow = recipe.model == "bm" and units > ONE_BY_ONE
    if recipe.model == "rbm" and "hidden" not in fixed and hidden[0] >= MANY_HIDDEN:
        yield (hidden[0] // 4,), None
    if not slow:
        yield hidden, None
    if slow or v >= LEAST_PATTERNED:
        # Four fifths of the parameters of the dense one.
        yield hidden, max(16, round(0.8 * couplings(recipe.model, v, hidden) / units))


def usual(groups: list[list[Candidate]]) -> Candidate:
    """The lowest rate of the first shape: what is the least likely to lose a machine."""
    return min(groups[0], key=lambda one: one.rate)


def by_shape(rivals: list[Judged]) -> list[list[Judged]]:
    """Those that can train side by side."""
    groups: dict[tuple[object, ...], list[Judged]] = {}
    for one in rivals:
        groups.setdefault(one.candidate.shape, []).append(one)
    return list(groups.values())
