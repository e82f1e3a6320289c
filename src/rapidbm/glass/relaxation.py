"""The way to equilibrium: chains from random spins beside chains from data, after so many sweeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from ..display import Displayable
from ..errors import InputError, is_whole
from ..estimates import Estimate
from ..machines import trusted
from ..machines.machine import Machine
from ..progress import watch, watched
from ..random import rng_from
from ..sampling.gibbs import run_sweeps
from .neighbours import adversarial_accuracy, checked, shuffled
from .sample_moments import moments

AGREE = 3.0  # combined errors


@dataclass(frozen=True, repr=False)
class QualityCurve(Displayable):
    """Quality after each number of sweeps: |AA − 1/2| (`neighbours.py`), rms of the second moments."""

    accuracy: Estimate  # (e, s)
    second: Estimate  # (e, s)


@dataclass(frozen=True, repr=False)
class Relaxation(Displayable):
    """Chains from random spins beside chains from data; `between` is |AA − 1/2| of one to the other."""

    sweeps: tuple[int, ...]
    random: QualityCurve
    data: QualityCurve
    between: Estimate  # (e, s)
    equilibrium: tuple[int | None, ...]  # sweeps from which on both agree, per replica


@watched("relaxation", remedy="take fewer chains or sweeps")
@torch.no_grad()
def relaxation(
    machine: Machine,
    data: Any,
    rng: torch.Generator | None = None,
    *,
    sweeps: Sequence[int] = (0, 1, 3, 10, 30, 100, 300, 1000),
    chains: int = 1000,
    beta: float = 1.0,
    seed: int | None = None,
    limit: float | None = None,
) -> Relaxation:
    """Quality of chains from random spins and of chains from data, by number of Gibbs sweeps.

    Half of the data starts chains, the other half judges them. In equilibrium the start is forgotten:
    both kinds of chains agree with each other, in quality and with the last checkpoint, within three
    combined errors.

    Parameters
    ----------
    machine : Machine
        A machine of spins.
    data : Split or array of shape (samples, v)
        At least four rows.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    sweeps : sequence of int, default (0, 1, 3, …, 1000)
        Numbers of Gibbs sweeps at which quality is measured, rising.
    chains : int, default 1000
        Chains of each kind.
    beta : float, default 1.0
        Inverse temperature.
    seed : int, optional
        Seed of the draws.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    Relaxation
        Quality by sweeps of both kinds of chains, how well they agree, and from when on.

    Raises
    ------
    InputError
        If `sweeps` do not rise or there are fewer than four rows.
    """
    machine.layers.check_spins("a relaxation")
    machine.check_chains(chains, least=2)
    sweeps = tuple(sweeps) if isinstance(sweeps, Iterable) else ()
    whole = all(map(is_whole, sweeps))
    if not sweeps or not whole or sweeps[0] < 0 or any(a >= b for a, b in pairwise(sweeps)):
        raise InputError(f"sweeps must be numbers of at least 0 that increase, not {sweeps}")
    _, data = checked(machine.visible_spins(data), data)
    if len(data) < 4:
        raise InputError(f"relaxation halves the data and needs 4 images, not {len(data)}; give more")
    rng = rng_from(seed, rng, "relaxation", device=machine.device)
    order = shuffled(len(data), rng, data)
    half = len(data) // 2
    pool, judges = data[order[:half]], data[order[half:]]
    rows = torch.randint(half, (chains,), generator=rng, device=rng.device).to(data.device)
    starts = pool[:chains] if half >= chains else pool[rows]
    states = [machine.random(chains, rng), trusted.with_visible(machine, starts)]
    done, checkpoints = 0, []
    with watch("sweeps", sweeps[-1]) as tick:
        for target in sweeps:
            states = [run_sweeps(machine, spins, rng, target - done, beta) for spins in states]
            done = target
            seen = [spins[..., : machine.visible] for spins in states]
            checkpoints.append(
                (*(_quality(x, judges, rng) for x in seen), _each_other(seen[0], seen[1], rng))
            )
            tick(done)
    random, from_data, between = (list(x) for x in zip(*checkpoints, strict=True))
    courses = [
        QualityCurve(*(Estimate.stack(x, 1) for x in zip(*each, strict=True)))
        for each in (random, from_data)
    ]
    other = Estimate.stack([x for x, _ in between], 1)
    agree = torch.stack([x for _, x in between], 1).to(other.value.device)  # (e, s)
    for name in ("accuracy", "second"):
        one, two = getattr(courses[0], name), getattr(courses[1], name)
        agree &= _agree(one, two)
        for each in (one, two):  # two starts may meet on the way: nor may quality move any more
            agree &= _agree(each, Estimate(each.value[:, -1:], each.error[:, -1:]))
    lasting = agree.flip(1).cummin(1).values.flip(1)
    first = [row.nonzero() for row in lasting]
    equilibrium = tuple(sweeps[int(x[0])] if len(x) else None for x in first)
    return Relaxation(sweeps, courses[0], courses[1], other, equilibrium)


def _quality(samples: Tensor, data: Tensor, rng: torch.Generator) -> tuple[Estimate, Estimate]:
    return (
        adversarial_accuracy(samples, data, rng).distance,
        moments(samples, data, rng, triples=0)[1].rms,
    )


def _each_other(one: Tensor, other: Tensor, rng: torch.Generator) -> tuple[Estimate, Tensor]:
    """|AA − 1/2| of two sets of chains, replica by replica, and whether both halves are 1/2."""
    accuracies = [adversarial_accuracy(a, b, rng) for a, b in zip(one, other, strict=True)]
    agree = [
        all(bool((x.value - 0.5).abs() <= AGREE * x.error) for x in (each.truth, each.synthetic))
        for each in accuracies
    ]
    value = torch.cat([each.distance.value for each in accuracies])
    return Estimate(value, torch.cat([each.distance.error for each in accuracies])), torch.tensor(agree)


def _agree(one: Estimate, other: Estimate) -> Tensor:
    errors = torch.hypot(one.error, other.error.expand_as(one.error))
    return (one.value - other.value).abs() <= AGREE * errors
