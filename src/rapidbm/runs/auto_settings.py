"""The preset `auto`: settings that suit the data, found by short trainings.

Candidates are couplings, dense, dense from a tree of the columns (`likelihood/chow_liu.py`) or of
patterns, with a rate and a weight decay each. Those of equal shapes
train side by side as replicas, each with a fall of its rate to zero, and are judged by the pessimistic
end of the likelihood of a validation part, value − 2 errors, deep and full machines by that of the lower
bound on it that mean field proves:

    first     couplings and rates, at the usual decay, for a `FIRST` share of the time
    second    the best rate of each kind of couplings, the usual one of a kind that could not be judged,
              with every decay, for longer, a `SECOND` share: patterns begin slowly, and what overfits
              shows late
    last      the best of these: the run itself, for what is left

Trials and their looks leave the run a share `RUNNING` of the time: candidates of which nothing is known
by then are passed over.

Nothing is lost: the best machine of all trials, or that of independent columns or of a tree, whose log Z
is known, is what the run has to better (`baseline.py`).
A longer training with dense couplings wants a lower rate: with r times the updates of the second round

    rate → rate / √r,    at least a quarter of it                                         (1)

The candidates lie around what suits the size of a machine and of its data: one of C couplings, V H in a
restricted machine, moves the fields of many others, and few rows overfit,

    rate of dense couplings    10⁻³ · min(3, 128 / √C)                                    (2)
    weight decay               min(1, 150 / rows)                                         (3)

Rates are (0.5, 1.5, 4.5) times (2), of patterns times five times (2), where rows are few (0.15, 0.5, 1.5)
times;
decays are 0, 1, 4 and 12 times (3): (3) is what 60,000 images want, 1,600 rows of 180 columns want 12
times as much. Few rows also try a quarter of the hidden units, dense. Gradients are centred
(`training/coordinates/centring.py`). Nothing that the caller has chosen is varied.

Other layers are rules, not trials: h hidden units for a restricted machine, 4h/5 and h/5 for a deep one,
h/2 for a full one, K patterns of four fifths of the parameters of dense couplings. So are `DEEP`,
`DEEP_START` and `LIFETIME` of deep and full machines (docs/decisions/deep.md).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from ..accel.devices import by_device, device_named
from ..data.splits import Dataset
from ..display import MEASURED
from ..errors import InputError
from .baseline import TREE, Baseline, best_tree, independent_columns
from .monitor import DOUBT, Trial, judging, trial
from .presets import DEEP, DEEP_START, LIFETIME, two_layers
from .recipe import Recipe, can_be_tree
from .timing import KEPT, OPEN, epochs_within, seconds_of

FIRST, SECOND = 0.1, 0.25  # of the time
LOOKING = 0.15  # of it, at what the first round came to
LOOKS = 100  # of the run, at most
SERVED = {"negative": "pcd", "optimizer": "adam"}
RATES = (0.5, 1.5, 4.5)  # times `USUAL`, and of dense couplings times eq. (2)
LOWER = (0.15, 0.5, 1.5)  # the same where there are fewer rows than `FEW_ROWS`
DECAYS = (0.0, 1.0, 4.0, 12.0)  # times eq. (3); the usual one is 1
USUAL, LARGEST, WIDE, ROWS = 1e-3, 3.0, 128.0, 150.0
LONGEST = 1.5  # of the time that a trial was given: an epoch may take longer
LATE = 0.4  # of the time: no second round after
RUNNING = 0.4  # of the time that trials and their looks leave to the run
SHORTEST = 1.0  # seconds that a round always has
MOST_UPDATES = 400_000  # of the run
SLOWER = 4.0  # of eq. (1), at most
WARM_UP = 40  # updates before speed is measured: the first ones are slower
MEASURING = 0.03  # of the time, about, after which fewer will do
PATTERNED = 5.0  # times eq. (2): rates of patterns
LEAST_PATTERNED = 48  # columns from which on patterns are tried
MANY_HIDDEN = 200  # hidden units from which on a quarter of them is tried
ONE_BY_ONE = 600  # units of a dense full machine, which is swept unit by unit, up to which it is tried
ENUMERATED = 6  # hidden units up to which their mean is exact, and cheaper
BUDGET = "5m"  # where none is given
VALID = 0.1  # of the rows, where the data have no validation part
FEW_ROWS, MANY_ROWS = 5_000, 20_000
PATIENT = 50  # looks without a better one, where rows are few
ENDING = 3.0  # seconds of a command after its run: curves, a proof of its fit


CandidateShape = tuple[tuple[int, ...], int | None, str]  # hidden units, patterns, start


@dataclass(frozen=True)
class Candidate:
    """One way to train."""

    hidden: tuple[int, ...]
    patterns: int | None
    rate: float
    decay: float
    start: str = "columns"

    @property
    def shape(self) -> CandidateShape:
        return self.hidden, self.patterns, self.start

    def __str__(self) -> str:
        kind = "dense" if self.patterns is None else f"K={self.patterns}"
        kind += ", from a tree" if self.start == "tree" else ""
        layers = " + ".join(map(str, self.hidden)) or "no"
        return f"{layers} hidden units, {kind}, rate {self.rate:.2g}, weight decay {self.decay:.2g}"


@dataclass(frozen=True)
class Judged:
    """A candidate and what it came to, nats per row."""

    candidate: Candidate
    train: float
    valid: float
    error: float
    updates: int  # that it took
    parameters: dict[str, Tensor] = field(default_factory=dict, repr=False)  # (1, …)

    @property
    def worst(self) -> float:
        """The pessimistic end that candidates are compared by; −∞ where it is not known."""
        end = self.valid - DOUBT * self.error
        return end if math.isfinite(end) else -math.inf


@dataclass(frozen=True)
class AutoSettings:
    """What suits the data, and the machine that its run has to better."""

    recipe: Recipe
    start: Baseline


def applies_to(settings: Mapping[str, Any]) -> bool:
    """Whether these settings leave it what it tries."""
    return all(settings.get(name, value) == value for name, value in SERVED.items())


def is_default_for(settings: Mapping[str, Any]) -> bool:
    """Whether it is the default with these settings: not where so many epochs are asked for, and no time
    is given."""
    return applies_to(settings) and (settings.get("budget") is not None or "epochs" not in settings)


def find_settings(
    recipe: Recipe,
    fixed: Collection[str],
    data: Dataset | None = None,
    tell: Callable[[str], object] = lambda line: None,
    began: float | None = None,
    loaded: Callable[[Dataset], object] = lambda data: None,
) -> AutoSettings:
    """The recipe with what suits its data, and the best machine of the trials; settings of `fixed` stay.
    `tell` hears what was found, `loaded` is called with the data; the time counts from `began`, by the
    monotonic clock."""
    if not applies_to(vars(recipe)):
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
    loaded(data)
    share = recipe.valid
    if data.valid is None:
        share = VALID
        data = replace(recipe, valid=share).data(given)
    recipe = _sized(replace(recipe, valid=None), fixed, data)  # the data have it by now
    rivals, decays = list(candidates(recipe, fixed, data)), _decays(recipe, fixed, data)
    recipe = _sized_deep(recipe, fixed, rivals[0].hidden)
    log_p = MEASURED[judging(recipe)]
    if log_p != MEASURED["log_likelihood"]:
        tell(
            f"auto: a {recipe.model} is judged by a lower bound of log p; by rule, not by trial, "
            f"{_rules(recipe)}"
        )
    if len(rivals) == len(decays) == 1:
        tell(f"auto: nothing to compare, all of it is given: {rivals[0]}")
    else:
        tell(
            f"auto: {len(rivals)} pairs of couplings and rate, then {len(decays)} weight decays; "
            f"{whole * (FIRST + SECOND):.0f} s of {whole:.0f} s to compare"
        )
    usual = usual_of_shapes(rivals)
    # Unless one is judged. Patterns at their usual rate ran away from few rows of many columns, where
    # few dense couplings did not, and cost more to look at.
    few = len(data.train) < FEW_ROWS
    best, kept, first, tried = usual[0 if few else -1], usual, None, False
    for part in (FIRST, SECOND):
        if part == SECOND:
            rivals = [replace(c, decay=decay) for c in kept for decay in decays]
        if len(rivals) == 1:
            continue
        if part == SECOND and time.monotonic() - began > LATE * whole:
            break
        left = (1.0 - RUNNING) * whole - (time.monotonic() - began)
        training = min(part * whole, 0.5 * max(left, SHORTEST))
        tried = True
        looking = min(left - training, LOOKING * whole) if part == FIRST else left - training
        judged = compared(recipe, data, rivals, training, max(looking, SHORTEST))
        if not judged:
            tell(f"auto: none could be judged in this time; {best} is usual")
            continue
        found = judged[0]
        if first is None or found.worst > first.worst:
            best, first = found.candidate, found
        tell(
            f"auto: {found.candidate}: {log_p} train {found.train:.2f}, valid {found.valid:.2f} ± "
            f"{found.error:.2f}, best of {len(judged)}, of which the last has {judged[-1].valid:.2f}"
        )
        kept = best_of_shapes(judged)
        # Couplings that could not be judged in a short time may be the best in a longer one.
        kept += [c for c in usual if c.shape not in {k.shape for k in kept}]
    start = independent_columns(_with(recipe, [best]), data)
    trees = [c for c in usual if c.start == "tree"]
    if trees:
        # A tree has a shape of its own, and the run that of what it has to better.
        own = best if best.start == "tree" else trees[0]
        if (tree := best_tree(_with(recipe, [own]), data)).worst > start.worst:
            start = tree
    if first is not None and first.worst >= start.worst:
        start = Baseline("a trial", first.valid, first.error, first.parameters)
    else:
        if tried and (first is not None or start.what == TREE):
            tell(f"auto: {start.what} {start.verb} better than all trials: valid {start.value:.2f}")
        if start.what == TREE and best.start != "tree":
            best, first = trees[0], None
    winner = replace(_with(recipe, [best]), replicas=recipe.replicas)
    rest = max(1.0, whole - (time.monotonic() - began) - ENDING)
    per_epoch = math.ceil(len(data.train) / recipe.batch_size)
    epochs = recipe.epochs if recipe.epochs < OPEN else max(1, MOST_UPDATES // per_epoch)
    updates = min(epochs * per_epoch, KEPT * rest * _speed(winner, data))
    if "evaluate" not in fixed:
        winner = replace(winner, evaluate=str(max(per_epoch, int(updates) // LOOKS)))
    if "patience" not in fixed and len(data.train) < FEW_ROWS:
        winner = replace(winner, patience=PATIENT)
    slower = first is not None and first.updates and best.patterns is None
    if first is not None and slower and "rate" not in fixed:
        longer = updates / first.updates
        if (spent := time.monotonic() - began) > whole:
            tell(
                f"auto: the trials took {spent:.0f} s of {whole:.0f} s, so that nothing is left for a "
                "run and the best of them is kept; a larger --budget trains it on"
            )
        rate = winner.rate[0] / min(max(1.0, longer) ** 0.5, SLOWER)  # eq. (1)
        tell(f"auto: rate {rate:.2g} for the run, which is about {longer:.1f} times as long")
        winner = replace(winner, rate=(rate,))
    return AutoSettings(
        replace(winner, budget=f"{rest:.1f}s", epochs=epochs, valid=share, **shards), start
    )


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
    """Shapes by the number of columns, times rates."""
    decay = _decays(recipe, fixed, data)[:2][-1]  # the usual one
    for hidden, patterns, start in _shapes(recipe, fixed, data):
        usual = usual_rate(couplings(recipe.model, data.visible, hidden), patterns is None)
        times = LOWER if len(data.train) < FEW_ROWS else RATES
        rates = recipe.rate if "rate" in fixed else [usual * x for x in times]
        for rate in rates:
            yield Candidate(hidden, patterns, rate, decay, start)


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
    """What suits a training of minutes, where dense couplings would be so many: eq. (2)."""
    scale: float = min(LARGEST, WIDE / max(1, count) ** 0.5)
    return USUAL * scale * (1.0 if dense else PATTERNED)


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


def _shapes(recipe: Recipe, fixed: Collection[str], data: Dataset) -> Iterator[CandidateShape]:
    device = device_named(recipe.device)
    v = data.visible
    hidden = recipe.hidden if "hidden" in fixed else usual_layers(recipe.model, v, device)
    if recipe.patterns is not None and "patterns" in fixed:
        yield hidden, recipe.patterns, recipe.start
        return
    tree = _tree_shape(recipe, fixed, data, hidden)
    if tree is not None:
        yield tree
    if recipe.start == "tree":
        return
    units = v + sum(hidden)
    few = recipe.model == "rbm" and len(data.train) < FEW_ROWS and hidden[0] >= MANY_HIDDEN
    if few and not {"hidden", "patterns"} & set(fixed):
        yield (hidden[0] // 4,), None, "columns"
    slow = recipe.model == "bm" and units > ONE_BY_ONE and "patterns" not in fixed
    if not slow and not (few and tree is not None):
        yield hidden, None, "columns"
    if "patterns" not in fixed and (slow or v >= LEAST_PATTERNED):
        # Four fifths of the parameters of the dense one.
        yield hidden, max(16, round(0.8 * couplings(recipe.model, v, hidden) / units)), "columns"


def _tree_shape(
    recipe: Recipe, fixed: Collection[str], data: Dataset, hidden: tuple[int, ...]
) -> CandidateShape | None:
    """Hidden units that a tree of the columns has room in."""
    least = data.visible - 1
    if recipe.start == "tree" or (
        "start" not in fixed
        and recipe.model == "rbm"
        and can_be_tree(data)
        and ("hidden" not in fixed or hidden[0] >= least)
    ):
        return (hidden if "hidden" in fixed else (max(least, *hidden),)), None, "tree"
    return None


def compared(
    recipe: Recipe, data: Dataset, rivals: list[Candidate], seconds: float, looking: float | None = None
) -> list[Judged]:
    """Trains them, in so many seconds together and at most so many of `looking` at what they come to, and
    sorts them, the best first."""
    judged: list[Judged] = []
    for group in by_shape(rivals):
        share = len(group) / len(rivals)
        looks = None if looking is None else share * looking
        judged += _trained(_with(recipe, group), data, group, share * seconds, looks)
    return sorted((x for x in judged if math.isfinite(x.worst)), key=lambda x: -x.worst)


def best_of_shapes(judged: list[Judged]) -> list[Candidate]:
    return [group[0] for group in by_shape([one.candidate for one in judged])]


def usual_of_shapes(rivals: list[Candidate]) -> list[Candidate]:
    """The middle rate of each kind of couplings."""
    return [group[len(group) // 2] for group in by_shape(rivals)]


def by_shape(rivals: list[Candidate]) -> list[list[Candidate]]:
    """Those that can train side by side."""
    groups: dict[CandidateShape, list[Candidate]] = {}
    for one in rivals:
        groups.setdefault(one.shape, []).append(one)
    return list(groups.values())


def _trained(
    recipe: Recipe, data: Dataset, group: list[Candidate], seconds: float, looking: float | None
) -> list[Judged]:
    per_epoch = math.ceil(len(data.train) / recipe.batch_size)
    epochs = epochs_within(KEPT * seconds, 0, per_epoch, _speed(recipe, data))
    one = replace(recipe, epochs=epochs, budget=None)
    found = trial(one, data, seconds=LONGEST * seconds, looking=looking)
    parts = {part: (e.value.tolist(), e.error.tolist()) for part, e in found.log_p.items()}
    (train, _), (valid, error) = parts["train"], parts["valid"]
    return [
        Judged(
            c,
            train[i],
            -math.inf if i in found.diverged else valid[i],
            error[i],
            found.update,
            _parameters(found, i),
        )
        for i, c in enumerate(group)
    ]


def _parameters(found: Trial, replica: int) -> dict[str, Tensor]:
    """Those of one replica, (1, …)."""
    each = found.machine.named_parameters()
    return {name: p.detach()[replica : replica + 1].cpu() for name, p in each}


def _speed(recipe: Recipe, data: Dataset) -> float:
    """Updates per second, without the first ones; fewer are measured where they take long."""
    trainer = recipe.trainer(data, device_named(recipe.device))
    most = max(SHORTEST, MEASURING * seconds_of(recipe.budget or BUDGET))
    start, began, first = time.monotonic(), 0.0, 0
    for progress in trainer.together():
        now = time.monotonic()
        slow = now - start > most
        if not first and (slow or progress.update >= WARM_UP):
            trainer.wait()
            began, first = time.monotonic(), progress.update
        elif first and now - began >= 0.5 and (slow or progress.update >= first + WARM_UP):
            break
    trainer.wait()
    return (trainer.update - first) / (time.monotonic() - began)


def _with(recipe: Recipe, group: list[Candidate]) -> Recipe:
    """The recipe of these candidates, which share their shape, side by side."""
    first = group[0]
    dense = first.patterns is None
    more: dict[str, Any] = {"scale": None, "scouts": None} if dense else {}
    return replace(
        recipe,
        hidden=first.hidden,
        patterns=first.patterns,
        start=first.start,
        replicas=len(group),
        rate=tuple(c.rate for c in group),
        weight_decay=tuple(c.decay for c in group),
        **more,
    )
