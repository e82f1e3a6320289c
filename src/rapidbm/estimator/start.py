"""A machine before its training, and what it completes after it.

It starts, with μ the means of the data and λ = tanh(RARE), at

    J_ij from N(0, 2 / (V + H)),        c = RARE − Jᵀ μ,        b = atanh μ − J λ                 (1)

so that one hidden unit in twenty is up: features that are rare differ more from each other, and are
learnt sooner.
"""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor

from ..errors import InputError, check_count
from ..machines import trusted
from ..machines.constructors import rbm
from ..machines.machine import Machine
from ..machines.units.spin import SPIN
from ..sampling.gibbs import run_sweeps

RARE = -1.5  # the field of a hidden unit
PATTERNED = 0.1  # patterns start at ± this
SETTLE = 5  # the first of so many parts of the passes does not count


def started(
    spins: Tensor,
    hidden: int,
    patterns: int | None,
    *,
    seed: int,
    device: torch.device,
    size: float = 1.0,
) -> Machine:
    """Eq. (1), couplings times `size`; patterns start at their own scale."""
    visible = spins.shape[1]
    scale = PATTERNED if patterns else (2.0 / (visible + hidden)) ** 0.5
    machine = rbm(visible, hidden, patterns, biases=True, scale=size * scale, seed=seed, device=device)
    machine.start_biases(spins)
    assert machine.biases is not None
    means = trusted.with_visible(machine, spins.to(machine.dtype).mean(0, keepdim=True))
    means[..., visible:] = math.tanh(RARE)
    fields = [machine.couplings.field(means, layer)[:, 0].detach() for layer in (0, 1)]
    machine.biases.data[:, visible:] = RARE
    machine.biases.data -= torch.cat(fields, -1)
    return machine


def independent(machine: Machine, spins: Tensor) -> Machine:
    """The same with no couplings, and the marginals of the data."""
    free = copy.deepcopy(machine)
    for parameter in free.parameters():
        parameter.data.zero_()
    free.start_biases(spins)
    assert free.biases is not None
    free.biases.data[:, free.visible :] = RARE
    return free


def going_on(machine: Machine, **asked: int | None) -> Machine:
    """The machine to go on from, if it has the hidden units and patterns that are asked for; one without
    biases gets some of 0."""
    xi = machine.patterns
    there = {"hidden": machine.layers.sizes[1], "patterns": None if xi is None else int(xi.shape[1])}
    for name, wanted in asked.items():
        if there[name] != wanted:
            raise InputError(
                f"the machine to go on from has {there[name] or 'no'} {name}, and {wanted or 'none'} are "
                "asked for; fit with warm_start=False to begin anew"
            )
    zeros = torch.zeros((1, machine.layers.columns), dtype=machine.dtype, device=machine.device)
    return machine if machine.biases is not None else Machine(machine.couplings, zeros)


@torch.no_grad()
def completed(
    machine: Machine, spins: Tensor, known: Tensor, rng: torch.Generator, passes: int
) -> Tensor:
    """P(v = +1) of visible units given the known ones, (c, v): of so many passes the mean, but for the
    first fifth. Means are known as well as spins."""
    check_count("the number of passes", passes)
    state = trusted.with_visible(machine, spins)
    keep = torch.zeros(state.shape[1:], dtype=torch.bool, device=machine.device)
    keep[:, : machine.visible] = known.to(machine.device)
    first, total = passes // SETTLE, torch.zeros_like(state[0, :, : machine.visible])
    for number in range(passes):
        state = run_sweeps(machine, state, rng, clamp=keep)
        if number >= first:
            total += SPIN.up(trusted.field(machine, state, 0))[0]
    return total / (passes - first)
