"""Trainings for tables of any kind: a dense restricted machine, persistent chains, Adam.

Biases start at the marginals of observed cells. The rate falls to zero.

`trained_together` trains several machines on all rows, as replicas of one, with weight decays that
differ: what fills a gap is averaged over them. For `trained` some rows are held out, and of the machines
along the way the one with the largest log probability of hidden cells is kept:

    ⟨log p(x_i | x_O∖M)⟩, i in M, over rows held out                                           (1)

M a fifth of their observed cells, or the label. Of a real unit it is −(x − mean)² / 2.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..data.mixed import layers_of
from ..data.splits import Split
from ..data.table_schema import TableSchema
from ..errors import InputError
from ..inference.labels import predict
from ..inference.missing import draw_missing, probabilities
from ..machines.cells import places
from ..machines.constructors import rbm
from ..machines.machine import Machine, stack
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
SWEEPS_TOGETHER = 3  # per update: with one, of four machines of 344 rows with gaps one was lost
SCALE = 0.05  # of the couplings at the start
TRIES = 3  # of a training, at lower and lower rates


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
) -> TableFit:
    """A machine for these rows; `label` is the unit that it is chosen by."""
    kept, held = _held_out(observed, seed, label)
    trainer = _trainer(schema, values, observed, kept, hidden, epochs, rate, (decay,), batch_size, seed)
    machine = trainer.machine
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


def trained_together(
    schema: TableSchema,
    values: Tensor,
    observed: Tensor,
    *,
    hidden: int,
    epochs: int,
    rate: float,
    decays: Sequence[float],
    batch_size: int,
    seed: int,
) -> Machine:
    """Machines for these rows, a replica for each weight decay, but for those that diverged; where all
    did they train anew, at a quarter of the rate."""
    every = torch.arange(len(values))
    for step in (rate / 4**i for i in range(TRIES)):
        trainer = _trainer(
            schema,
            values,
            observed,
            every,
            hidden,
            epochs,
            step,
            decays,
            batch_size,
            seed,
            SWEEPS_TOGETHER,
        )
        for _ in range(epochs):
            trainer.finish_epoch()
        machine = trainer.machine.requires_grad_(False)
        lost = trainer.diverged()
        if len(lost) < machine.replicas:
            if not lost:
                return machine
            return stack([machine.replica(i) for i in range(machine.replicas) if i not in lost])
    raise InputError(
        f"all {len(decays)} machines diverged, at rates from {rate:g} down to {step:g}; give a lower "
        "learning_rate"
    )


def _trainer(
    schema: TableSchema,
    values: Tensor,
    observed: Tensor,
    kept: Tensor,
    hidden: int,
    epochs: int,
    rate: float,
    decays: Sequence[float],
    batch_size: int,
    seed: int,
    sweeps: int = 1,
) -> Trainer:
    """Of a machine with a replica for each weight decay, on the rows that are kept."""
    layers = layers_of(schema)
    filled = _marginal_fill(values, observed, seed)
    columns = layers.encode(filled, what="the table")
    machine = rbm(
        layers.counts,
        hidden,
        units=layers.kinds,
        biases=True,
        scale=SCALE,
        seed=seed,
        replicas=len(decays),
    )
    machine.start_biases(columns[kept])
    mask = None if bool(observed.all()) else layers.column_mask(observed)[kept]
    return Trainer(
        machine,
        Split.owning(columns[kept], None, None, observed=mask).rows,
        Persistent(CHAINS, sweeps),
        adam(rate, weight_decay=decays, fall="linear"),
        epochs=epochs,
        batch_size=batch_size,
        seed=seed,
        centred=True,
    )


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
