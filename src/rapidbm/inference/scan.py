"""What every change of one unit does to log p of a row: log-odds, which need no log Z.

    Δ_i(a) = log p(v with v_i = a) − log p(v) = log Σ_h e^{−βE(v', h)} − log Σ_h e^{−βE(v, h)}     (1)

Of a family of sequences it is the score of single mutations.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError, check_beta
from ..machines.machine import Machine
from ..progress import watch

ROWS = 2**22  # numbers of changed rows that are held at a time


@torch.no_grad()
def scan(machine: Machine, row: Any, *, beta: float = 1.0) -> Tensor:
    """The change of log p by every change of one visible unit, exact: no log Z is needed.

    Parameters
    ----------
    machine : Machine
        Whose hidden units can be summed over; for deep and full machines few of them.
    row : array of shape (v,)
        Values of the visible units, such as the codes of a sequence.
    beta : float, default 1.0
        Inverse temperature.

    Returns
    -------
    Tensor of shape (e, units, states), float64
        log p of the row with unit i in state a, less that of the row; 0 where it is in that state.
        States are in the order of the unit's list: of spins −1, +1. NaN where a unit has fewer states
        than others, or no list of them, as real units.

    Raises
    ------
    InputError
        If the row does not fit, or hidden units are too many to be summed over.

    Examples
    --------
    >>> machine = rb.rbm(4, 6, units=rb.Categorical(3), biases=True, seed=0)
    >>> changes = rb.scan(machine, [0, 2, 1, 1])
    >>> changes.shape, float(changes[0, 1, 2])
    (torch.Size([1, 4, 3]), 0.0)
    """
    check_beta(beta)
    layers = machine.layers
    start = layers.encode(row, what="the row to scan")
    if start.dim() != 1:
        raise InputError(
            f"one row (units,) is scanned at a time, not {tuple(start.shape)}; call it for each row"
        )
    if machine.dtype != torch.float64:  # small differences of large numbers
        machine = copy.deepcopy(machine).double()
    start = start.to(machine.device, machine.dtype)
    places, states = [], []  # of each change: its unit and state, and what it writes
    unit = 0
    for layer in layers.visible:
        for where, one in layers.kinds[layer].one_by_one(layers.sizes[layer]):
            count = one.count(where.stop - where.start)
            first = layers.slices[layer].start + where.start
            if count is not None:
                numbers = torch.arange(count, device=machine.device)
                values = one.states(where.stop - where.start, numbers).to(machine.dtype)
                places += [(unit, state, slice(first, first + values.shape[1])) for state in range(count)]
                states += list(values)
            unit += 1
    if not places:
        raise InputError(
            f"a scan changes units that have a list of states, and these are {layers.words}; none has"
        )
    most = 1 + max(state for _, state, _ in places)
    found = torch.full((machine.replicas, unit, most), math.nan, dtype=torch.float64)
    whole = machine.log_prob_unnormalised(start[None], beta)  # (e, 1)
    step = max(1, ROWS // (layers.columns * machine.replicas))
    with watch("scan", len(places)) as tick:
        for at in range(0, len(places), step):
            some = places[at : at + step]
            rows = start.repeat(len(some), 1)
            for changed, (_, _, where), values in zip(rows, some, states[at : at + step], strict=True):
                changed[where] = values
            logs = machine.log_prob_unnormalised(rows, beta) - whole
            logs[:, (rows == start).all(1)] = 0.0  # else but for rounding
            units, numbers = (torch.tensor([place[k] for place in some]) for k in (0, 1))
            found[:, units, numbers] = logs.cpu()
            tick.add(len(some))
    return found.to(machine.device)
