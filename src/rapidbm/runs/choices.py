"""What a recipe's choices mean: one number or each replica's, the optimiser that it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import InputError, check_count, unknown
from ..machines.constructors import check_deep_start
from ..training.optimisers import Optimizer, TorchOptimizer, adam, sgd, torch_optimizers
from ..training.schedules import Schedule

if TYPE_CHECKING:
    from .recipe import Recipe


def one_or_each(value: Any) -> Any:
    """None, a number, or a tuple of several."""
    if isinstance(value, tuple) and len(value) < 2:
        return value[0] if value else None
    return value


def tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a file says, its lists as tuples: JSON knows lists only."""
    return {k: _tuple(v) for k, v in values.items()}


def _tuple(value: Any) -> Any:
    return tuple(map(_tuple, value)) if isinstance(value, list) else value


def optimizer_of(recipe: Recipe) -> Optimizer:
    """What moves the parameters, and how its rate falls."""
    own = 0.02 if recipe.optimizer == "sgd" else 1e-3
    rate = recipe.rate if len(recipe.rate) > 1 else (*recipe.rate, own)[0]
    each: Any = recipe.weight_decay  # a tuple
    decay = each if len(each) > 1 else (*each, 0.0)[0]
    fall: Any = recipe.fall  # words that the schedule and Adam check
    clock: Any = recipe.adam_clock or "update"
    slower = recipe.decay, recipe.decay_after, recipe.rate_floor
    schedule = Schedule(*slower, fall, recipe.falls, recipe.rate_changes)
    if recipe.adam_clock is not None and recipe.optimizer != "adam":
        raise InputError(f"{recipe.optimizer} has no clock; use adam, or leave --adam-clock out")
    if recipe.optimizer == "sgd":
        plain = sgd(rate, momentum=recipe.momentum or 0.0, weight_decay=decay)
        return replace(plain, schedule=schedule)
    if recipe.optimizer == "adam":
        if recipe.momentum is not None:
            raise InputError("adam has no momentum option; use sgd, or leave --momentum out")
        return replace(adam(rate, weight_decay=decay, clock=clock), schedule=schedule)
    if isinstance(recipe.momentum, tuple):
        raise InputError(f"{recipe.optimizer} takes one momentum for all replicas, not {recipe.momentum}")
    names = {name.lower(): name for name in torch_optimizers()}
    if recipe.optimizer not in names:
        raise unknown("optimiser", recipe.optimizer, {"sgd", "adam", *names})
    if isinstance(decay, tuple):
        raise InputError(f"{recipe.optimizer} takes one weight decay for all replicas, not {decay}")
    given = {"momentum": recipe.momentum, "weight_decay": decay if each else None}
    options = tuple((k, v) for k, v in given.items() if v is not None)
    if not isinstance(rate, float):
        raise InputError(f"{recipe.optimizer} takes one rate for all replicas, not {rate}")
    return TorchOptimizer(names[recipe.optimizer], rate, options, schedule)


def check_bootstrap(recipe: Recipe) -> None:
    """Refuses replicas that are not those of resampled rows."""
    if recipe.bootstrap is None:
        return
    check_count("the number of resampled replicas", recipe.bootstrap)
    if recipe.replicas != 1 + recipe.bootstrap or recipe.shard_by != "chains":
        raise InputError(
            f"--bootstrap {recipe.bootstrap} trains {1 + recipe.bootstrap} replicas, the first one on "
            "the rows as they are, in no shards of replicas or units; leave --replicas and --shard-by out"
        )


def check_machine(recipe: Recipe) -> None:
    """Refuses layers and patterns that no machine of this kind has."""
    model, hidden = recipe.model, recipe.hidden
    if model == "rbm" and len(hidden) != 1:
        raise InputError(f"an rbm has one hidden layer, not {hidden}; use --model dbm for more")
    if model == "bm" and len(hidden) > 1:
        raise InputError(f"a bm has at most one group of hidden units, not {hidden}")
    if recipe.patterns is None and recipe.continuous:
        raise InputError("continuous patterns need patterns; give --patterns K or leave it out")
    if recipe.patterns is None and recipe.strengths:
        raise InputError("strengths are those of patterns; give --patterns K or leave them out")
    if recipe.deep_start != 1:
        check_deep_start(recipe.deep_start, len(hidden) if model == "dbm" else min(1, len(hidden)))
