"""What a machine can do, one number per replica.

A metric is a function `(machine, split, rng) -> (e,)`. Reconstruction is the task of the paper's
appendix C: unknown pixels are set to 0, one Gibbs pass up and down with nothing clamped, and

    HD = |B − A| / 2V                                                                     (1)

between the original A and the reconstruction B.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..accel.devices import by_device, lone_thread
from ..accel.elementwise import signs_ahead, skip_signs
from ..arrays import mean_one
from ..data.splits import Dataset, Split
from ..errors import InputError, check_count
from ..estimates import Estimate
from ..glass.accessibility import gibbs_accessibility
from ..likelihood.independent import UNITS
from ..likelihood.log_z import HIDDEN, log_likelihood, log_z
from ..machines import trusted
from ..machines.enumeration import check_states
from ..machines.machine import Machine
from ..machines.units.spin import SPIN
from ..progress import watch, watched
from ..random import rng_from
from ..registry import Registry
from ..sampling.gibbs import run_sweeps
from .incomplete import has_gaps, mean_log_p

Measure = Callable[[Machine, Any, torch.Generator], Tensor]
LIKELIHOOD, BOUND = WATCHED = ("log_likelihood", "log_bound")  # for which a run follows log Z
ROOM = 2**20  # numbers at a time on a CPU
FEW = 2**18  # numbers that one thread is done with before a second has come (docs/decisions/threads.md)
TRIED, WIDE = 4000, 2**14  # reconstructions that a Hamming distance is the mean of, if they are not wide


@dataclass(frozen=True)
class Metric:
    """What a run measures while it trains: a function with a description of what it needs.

    Calling it checks that the answer has one number per replica.

    Parameters
    ----------
    measure : callable
        (machine, split, rng) -> Tensor of shape (e,).
    of_split : bool, default True
        Whether it measures a part of the data; False if it looks at the machine alone.
    check : callable, optional
        Called with the machine first; raises InputError if the machine is too large.

    Examples
    --------
    >>> metric = rb.Metric(lambda machine, split, rng: machine.energy(machine.random(9, rng)).mean(1))
    >>> metric(rb.rbm(16, 8, replicas=2, seed=0), None, rb.stream(0, "metric")).shape
    torch.Size([2])
    """

    measure: Measure
    of_split: bool = True  # else of the machine alone
    check: Callable[[Machine], None] = lambda machine: None  # InputError if the machine is too large

    def __call__(self, machine: Machine, split: Any, rng: torch.Generator) -> Tensor:
        found = self.measure(machine, split, rng)
        if not isinstance(found, Tensor) or found.shape != (machine.replicas,):
            raise InputError(
                f"a metric answers with a tensor of one number per replica, ({machine.replicas},), not "
                f"{getattr(found, 'shape', type(found).__name__)}; mend it or leave it out"
            )
        return found


def measured(name: str, machine: Machine, data: Dataset, rng: torch.Generator) -> dict[str, Tensor]:
    """A metric of every part of the data, or of the machine alone, by the key it is written under."""
    metric = METRICS[name]
    if not metric.of_split:
        return {name: metric(machine, data.train, rng)}
    return {f"{name}_{part}": metric(machine, split, rng) for part, split in data.parts.items()}


def corrupt(data: Any) -> Tensor:
    """The images with their unknown pixels at NaN, which nothing takes for data, (samples, v)."""
    split, known = _masked(data)
    return torch.where(known, split.spins, torch.nan)


def _masked(data: Any) -> tuple[Split, Tensor]:
    """A split and its mask of known pixels."""
    split = _split(data)
    if split.known is None:
        raise InputError("reconstruction needs a mask of known pixels; give Split(spins, known=mask)")
    return split, split.known


def _split(data: Any) -> Split:
    return data.in_memory() if isinstance(data, Split) else Split(data)


def _started(machine: Machine, split: Split, known: Tensor) -> Tensor:
    """Configurations with unknown units at 0, (e, samples, n)."""
    machine.layers.check_spins("a reconstruction", "a measure of error; fill cells with `impute`")
    return trusted.with_visible(machine, torch.where(known, split.spins, 0))


@watched("reconstruction", remedy="take fewer images or passes")
@torch.no_grad()
def reconstruct(
    machine: Machine,
    data: Any,
    rng: torch.Generator | None = None,
    *,
    known: Any = None,
    passes: int = 1,
    clamp: bool = False,
    seed: int | None = None,
    limit: float | None = None,
) -> Tensor:
    """Rows with their unknown values filled in by Gibbs sampling.

    The paper's task is one pass with nothing clamped.

    Parameters
    ----------
    machine : Machine
        A machine of spins.
    data : Split or array of shape (samples, v)
        Rows; unknown values are ignored.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    known : array of shape (samples, v) or (v,), bool, optional
        True where a value is known; by default the mask of the split.
    passes : int, default 1
        Gibbs passes from unknown values at 0.
    clamp : bool, default False
        Hold the known values.
    seed : int, optional
        Seed of the draws.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    Tensor of shape (e, samples, v)
        Spins ±1.

    Raises
    ------
    InputError
        If nothing says which values are known.

    Examples
    --------
    >>> machine, data = rb.rbm(16, 8, seed=0), rb.load("bars4")
    >>> rb.reconstruct(machine, data.test, seed=0).shape
    torch.Size([1, 4, 16])
    """
    rng = rng_from(seed, rng, "reconstruct", device=machine.device)
    split, known = _masked(data if known is None else replace(_split(data), known=known))
    spins = _started(machine, split, known)
    keep = None
    if clamp:
        keep = torch.zeros(spins.shape[1:], dtype=torch.bool, device=machine.device)
        keep[:, : machine.visible] = known.to(machine.device)
    return run_sweeps(machine, spins, rng, passes, clamp=keep)[..., : machine.visible]


def wrong_pixels(filled: Tensor, split: Split, *, unknown: bool) -> float:
    """The share of wrong pixels of images (samples, v): of all of them, as in eq. (1), or of the
    unknown ones alone, which is what counts where the known ones are held."""
    wrong = (filled.cpu() != split.spins).double()
    if not unknown:
        return float(wrong.mean())
    if split.known is None or bool(split.known.all()):
        raise InputError(
            "every pixel is known, there is nothing to fill in; give a mask that is false somewhere"
        )
    return float(wrong[~split.known.expand(wrong.shape)].mean())


@watched("the Hamming distance", remedy="take fewer images or tries")
@torch.no_grad()
def hamming_distance(
    machine: Machine,
    data: Any,
    rng: torch.Generator | None = None,
    *,
    tries: int | None = None,
    seed: int | None = None,
    limit: float | None = None,
) -> Tensor:
    """The share of values that reconstruction gets wrong, averaged over rows and tries, eq. (1).

    It counts all values, and none is clamped.

    Parameters
    ----------
    machine : Machine
        A machine of spins.
    data : Split
        Rows with a mask of known values.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    tries : int, optional
        Reconstructions of each row; by default 100, fewer for more than 40 rows or 16,384 columns.
        Without it at most the first 10,000 rows are taken.
    seed : int, optional
        Seed of the draws.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    Tensor of shape (e,)
        0 is perfect, 0.5 is guessing everything.

    Examples
    --------
    >>> machine, data = rb.rbm(16, 8, scale=1e-6, seed=0), rb.load("bars4")
    >>> distance = rb.hamming_distance(machine, data.test, rb.stream(0, "example"))
    >>> round(float(distance), 1)  # guessing
    0.5
    """
    rng = rng_from(seed, rng, "hamming", device=machine.device)
    split = _split(data)
    if tries is None:
        tries = max(1, min(100, TRIED * min(WIDE, machine.visible) // (machine.visible * len(split))))
        split = split.take(slice(0, 10_000))
    check_count("the number of tries", tries)
    truth = trusted.visible(machine, split.spins)
    room = by_device(machine.device, ROOM, 2**8 * ROOM)
    step = max(1, room // (machine.layers.columns * machine.replicas))
    wrong = torch.zeros(machine.replicas, dtype=torch.float64, device=machine.device)
    few = min(step, len(split)) * machine.layers.columns * machine.replicas <= FEW
    lone = few or _draws_ahead(machine)  # where a thread draws ahead, torch's own would wait for it
    with watch("reconstructions", tries * len(split)) as tick, lone_thread() if lone else nullcontext():
        for start in range(0, len(split), step):
            part = split.take(slice(start, start + step))
            for found in _mismatches(machine, part, truth[:, start : start + step], rng, tries):
                wrong += found
                tick.add(len(part))
    return (wrong / (tries * len(split) * machine.visible)).to(machine.dtype)


def _mismatches(
    machine: Machine, split: Split, truth: Tensor, rng: torch.Generator, tries: int
) -> Iterator[Tensor]:
    """Wrong pixels of every try, (e,)."""
    layers = machine.layers
    if not layers.hidden_independent or layers.self_coupled(0):
        for _ in range(tries):
            yield (reconstruct(machine, split, rng) != truth).sum((1, 2))
        return
    spins = _started(machine, *_masked(split))
    keep = torch.arange(layers.columns, device=machine.device) < machine.visible
    again = (run_sweeps(machine, spins, rng, clamp=keep) for _ in range(tries))
    for filled in _hidden_draws(machine, spins, rng, tries) if _draws_ahead(machine) else again:
        # The last half-step in expectation: the probability of a wrong pixel instead of a draw.
        wrong = SPIN.up(-truth * trusted.field(machine, filled, 0))
        yield wrong.sum((1, 2), dtype=torch.float64)


def _draws_ahead(machine: Machine) -> bool:
    """Whether `_hidden_draws` serves: a GPU's kernels draw other numbers."""
    layers = machine.layers
    spins = by_device(machine.device, layers.spins, False)
    return spins and layers.hidden_independent and not layers.self_coupled(0)


def _hidden_draws(machine: Machine, spins: Tensor, rng: torch.Generator, tries: int) -> Iterator[Tensor]:
    """The spins, with hidden ones drawn anew for each try, in the place of the old ones and with the
    random numbers of a whole sweep. Their fields, those of the visible units, are the same in every try;
    the random numbers of the next try are drawn while this one is looked at."""
    layers = machine.layers
    up = {i: SPIN.up(trusted.field(machine, spins, i)) for i in layers.hidden}

    def ahead() -> list[tuple[int, Callable[[Tensor], Tensor]]]:
        draws = []
        for i in layers.order:
            if i in up:
                draws.append((i, signs_ahead(up[i], rng, pool)))
            else:
                skip_signs(spins[..., layers.slices[i]], rng)
        return draws

    with ThreadPoolExecutor(1) as pool:
        draws = ahead()
        for left in range(tries - 1, -1, -1):
            now, draws = draws, ahead() if left else []
            for i, draw in now:
                draw(spins[..., layers.slices[i]])
            yield spins


def mean_log_likelihood(machine: Machine, split: Any, rng: torch.Generator) -> Tensor:
    """Mean log p(v), exact or annealed. A run follows it from look to look instead (`monitor.py`)."""
    rows = _split(split).in_memory()
    if has_gaps(rows):
        z = log_z(machine, rng=rng, data=rows.spins)
        return mean_log_p(machine, rows, Estimate(z.value, z.error)).value
    return log_likelihood(machine, split, rng=rng).value


def mean_log_bound(machine: Machine, split: Any, rng: torch.Generator) -> Tensor:
    """A lower bound on the same, where the sum over hidden units is bounded by mean field: below log p by
    the variational gap, and known as well as log Z is."""
    rows = _split(split).in_memory()
    return mean_log_p(machine, rows, log_z(machine, rng=rng, data=rows.spins), bound=True).value


@torch.no_grad()
def mean_free_energy(
    machine: Machine, data: Any, rng: torch.Generator, *, limit: float | None = None
) -> Tensor:
    """Mean F(v), by the weights of a split that has some."""
    split = _split(data)
    step = max(1, 2**4 * ROOM // (machine.layers.columns * machine.replicas))
    parts, weights = [], mean_one(split.weights)
    with watch("free energies", len(split), limit=limit) as tick:
        for start in range(0, len(split), step):
            each = machine.free_energy(split.spins[start : start + step])
            if weights is not None:
                each = each * weights[start : start + step].to(each)
            parts.append(each.sum(1))
            tick.add(each.shape[1])
    return torch.stack(parts).sum(0) / len(split)


def _check_hidden(machine: Machine, name: str = "free_energy") -> None:
    try:
        check_states(machine.layers, machine.layers.visible, largest=HIDDEN, what=f"the metric {name}")
    except InputError as error:
        if name != LIKELIHOOD:
            raise
        raise InputError(f"{error}, or its lower bound, the metric {BOUND}") from error


def _check_likelihood(machine: Machine) -> None:
    _check_hidden(machine, LIKELIHOOD)
    _check_size(machine)


def _check_size(machine: Machine) -> None:
    if machine.layers.columns > UNITS:
        raise InputError(
            f"the likelihood is followed for up to {UNITS:,} units, and this machine has "
            f"{machine.layers.columns:,}: it would cost more than the training; give --metric hamming, "
            "and a --preset other than auto"
        )


def _adapted(thing: Any) -> Metric:
    if not callable(thing):
        raise TypeError(f"a function of machine, split and rng, or a Metric, is needed, not {thing!r}")
    return thing if isinstance(thing, Metric) else Metric(thing)


METRICS: Registry[Metric] = Registry(
    "metric",
    {
        "hamming": Metric(hamming_distance),
        LIKELIHOOD: Metric(mean_log_likelihood, check=_check_likelihood),
        BOUND: Metric(mean_log_bound, check=_check_size),
        "free_energy": Metric(mean_free_energy, check=_check_hidden),
        "gibbs_accessibility": Metric(gibbs_accessibility, of_split=False),
    },
    "rapidbm.metrics",
    _adapted,
)
