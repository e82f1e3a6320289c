"""Trainings for tables of any kind: a dense restricted machine, persistent chains, Adam.

Biases start at the marginals of observed cells. The rate falls to zero. Some rows are held out, and of
the machines along the way the one with the largest log probability of hidden cells is kept:

    ⟨log p(x_i | x_O∖M)⟩, i in M, over rows held out                                           (1)

M a fifth of their observed cells, or the label. Of a real unit it is −(x − mean)² / 2.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..data.mixed import layers_of
from ..data.splits import Split
from ..data.table_schema import TableSchema
from ..inference.labels import predict
from ..inference.missing import draw_missing
from ..machines.cells import places
from ..machines.constructors import rbm
from ..machines.machine import Machine
from ..random import stream
from ..training.negative import Persistent
from ..training.optimisers import adam
from ..training.trainer import Trainer

HELD, MOST_HELD = 0.1, 1000  # share of the rows that are held out, and at most so many
FEWEST = 50  # rows from which on some are held out
LOOKS = 10  # at the rows held out
HIDDEN = 0.2  # of their cells
SWEEPS = 20  # of chains that fill these, where they are not summed exactly
TINY = 1e-6  # probability
CHAINS = 500
SCALE = 0.05  # of the couplings at the start


@dataclass(frozen=True)
class TableFit:
    """A trained machine, the epoch that it was best at, and eq. (1) after each look."""

    machine: Machine
    epoch: int
    curve: tuple[tuple[int, float], ...]


def encoded(schema: TableSchema, table: Any) -> tuple[Tensor, Tensor]:
    """Values of units (rows, units), and which of them are observed."""
    values, observed = schema.encode(table)
    return torch.from_numpy(values), torch.from_numpy(observed)


def trained(
    schema: TableSchema,
    values: Tensor,
    observed: Tensor,
    *,
    hidden: int,
    epochs: int,
    rate: float,
    decay: float,
    batch_size: int,
    seed: int,
    label: int | None = None,
    sweeps: int = 1,
) -> TableFit:
    """A machine for these rows; `label` is the unit that it is chosen by."""
    layers = layers_of(schema)
    kept, held = _held_out(observed, seed, label)
    filled = _marginal_fill(values, observed, seed)
    columns = layers.encode(filled, what="the table")
    machine = rbm(layers.counts, hidden, units=layers.kinds, biases=True, scale=SCALE, seed=seed)
    machine.start_biases(columns[kept])
    mask = None if bool(observed.all()) else layers.column_mask(observed)[kept]
    rows = Split.owning(columns[kept], None, None, observed=mask).rows
    trainer = Trainer(
        machine,
        rows,
        Persistent(CHAINS, sweeps),
        adam(rate, weight_decay=decay, fall="linear"),
        epochs=epochs,
        batch_size=batch_size,
        seed=seed,
        centred=True,
    )
    best, state, curve = -math.inf, copy.deepcopy(machine), []
    each = max(1, epochs // LOOKS)
    chosen = 0
    for epoch in range(1, epochs + 1):
        trainer.finish_epoch()
        if trainer.diverged():
            break
        last = epoch == epochs
        if not last and epoch % each:
            continue
        gain = float(epoch) if not len(held) else judged(machine, values[held], observed[held], label)
        curve.append((epoch, gain))
        if gain > best:
            best, chosen, state = gain, epoch, copy.deepcopy(machine)
    return TableFit(state.requires_grad_(False), chosen, tuple(curve))


def judged(machine: Machine, values: Tensor, observed: Tensor, label: int | None) -> float:
    """Eq. (1)."""
    if label is not None:
        p = predict(machine, values, label, observed, seed=0).probabilities
        assert p is not None
        return float(_log_of(p[0], values[:, label]).mean())
    hidden = observed & (torch.rand(observed.shape, generator=stream(0, "hidden cells")) < HIDDEN)
    found = draw_missing(machine, values, observed & ~hidden, sweeps=SWEEPS, means=True, seed=0).means
    assert found is not None
    gains = []
    for number, place in enumerate(places(machine)):
        x = values[hidden[:, number], number]
        means = found[0, hidden[:, number], place.where]
        if place.states is None:
            gains.append(-0.5 * (x - means[:, 0]).square())
        else:
            gains.append(_log_of(probabilities(means), x))
    together = torch.cat(gains)
    return float(together.mean()) if len(together) else 0.0


def probabilities(means: Tensor) -> Tensor:
    """Of the states of a unit, (rows, q), from the means of its columns."""
    return torch.cat([1 - means, 1 + means], 1) / 2 if means.shape[1] == 1 else means


def _log_of(p: Tensor, values: Tensor) -> Tensor:
    """log p of the state that each row has."""
    states = (values + 1) / 2 if p.shape[1] == 2 else values
    return p.gather(1, states.long()[:, None])[:, 0].clamp(min=TINY).log()


def _held_out(observed: Tensor, seed: int, label: int | None) -> tuple[Tensor, Tensor]:
    """Rows to train on and rows to choose by, which have something to be judged."""
    able = observed.any(1) if label is None else observed[:, label]
    count = min(MOST_HELD, round(HELD * int(able.sum()))) if len(observed) >= FEWEST else 0
    order = torch.randperm(len(observed), generator=stream(seed, "held out"))
    held = order[able[order]][:count].sort().values
    keep = torch.ones(len(observed), dtype=torch.bool)
    keep[held] = False
    return keep.nonzero()[:, 0], held


def _marginal_fill(values: Tensor, observed: Tensor, seed: int) -> Tensor:
    """Values with those that are missing drawn from the observed ones of their unit: marginals to start
    biases from. A training marginalises these cells, and does not look at them."""
    rng = stream(seed, "marginals")
    filled = values.clone()
    for unit in range(values.shape[1]):
        known = values[observed[:, unit], unit]
        lost = ~observed[:, unit]
        if len(known) and bool(lost.any()):
            places = torch.randint(len(known), (int(lost.sum()),), generator=rng)
            filled[lost, unit] = known[places]
    return filled
