"""How fast chains of a trained machine forget: of chains that have started at images and settled,

C(t) = overlap of a chain with itself t sweeps ago, less that with others,   C(τ) = C(0)/e    (1)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rapidbm.data.splits import Dataset
from rapidbm.machines.machine import Machine
from rapidbm.sampling.gibbs import sweeps

from ..claims import crossing


@torch.no_grad()
def forgetting(
    machine: Machine, data: Dataset, rng: torch.Generator, *, chains: int, settle: int, record: int
) -> list[float]:
    """τ of eq. (1) in sweeps for each instance; `record` of them where C does not fall so far."""
    n = machine.visible
    images = data.train.spins[torch.arange(chains) * len(data.train) // chains]
    now = sweeps(machine, machine.with_visible(images, means=True), rng, settle, means=True)
    first, lags, courses = now[..., :n], [0], [memory(now[..., :n], now[..., :n])]
    while lags[-1] < record:
        lags.append(min(record, max(lags[-1] + 1, lags[-1] * 5 // 4)))
        now = sweeps(machine, now, rng, lags[-1] - lags[-2])
        courses.append(memory(first, now[..., :n]))
    times = []
    for course in torch.stack(courses, 1).double().cpu().numpy():  # (e, t)
        found = crossing(lags, course, float(course[0]) / math.e)
        times.append(float(record) if found is None else found)
    return times


def memory(one: Tensor, other: Tensor) -> Tensor:
    """C of eq. (1) between spins (e, c, v) of the same chains, (e,)."""
    overlap = one @ other.mT / one.shape[2]  # (e, c, c)
    own, all_of_them, c = overlap.diagonal(dim1=1, dim2=2).sum(1), overlap.sum((1, 2)), one.shape[1]
    found: Tensor = own / c - (all_of_them - own) / (c * (c - 1))
    return found
