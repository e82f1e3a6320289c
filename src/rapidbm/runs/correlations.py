"""How well pairs of units of the chains agree with the data: what a training may stop at.

    C_ab = ⟨x_a x_b⟩ − ⟨x_a⟩⟨x_b⟩                                                          (1)

over columns a, b of two different visible units; rows of the data count by their weights. Pearson's
coefficient over all pairs of columns compares C of the data with C of `SAMPLES` configurations. They are
those of the chains, and of copies of these that go on sweeping: the noise of fewer configurations keeps
the coefficient low (docs/sequences.md). The training's chains and random numbers stay as they are.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..data.splits import Split
from ..errors import InputError, is_number
from ..machines.machine import Machine
from ..sampling.gibbs import run_sweeps
from ..training.loop import Progress
from ..training.negative import Persistent

if TYPE_CHECKING:
    from .recipe import Recipe

NAME = "correlation"  # of its values in records
SAMPLES = 10_000
APART = 3  # sweeps between two configurations of a chain, at least
MOST_COLUMNS = 8192  # of the data: C has as many rows
FIRST = 16  # the update of the first look
PARTS = 8  # looks while the number of updates doubles
ROWS = 4096  # configurations at a time


class PairCorrelations:
    """C of the data, and Pearson's coefficient with that of chains."""

    def __init__(self, machine: Machine, rows: Tensor, weights: Tensor | None) -> None:
        """For rows (samples, v) of columns, and weights of them (samples,)."""
        if machine.visible > MOST_COLUMNS:
            raise InputError(
                f"correlations of pairs are looked at for up to {MOST_COLUMNS:,} columns of visible "
                f"units, and these are {machine.visible:,}; leave --until-correlation out"
            )
        self.machine = machine
        unit, first = [], 0
        for layer in machine.layers.visible:
            own = machine.layers.kinds[layer].unit_of_column(machine.layers.sizes[layer])
            unit.append(own + first)
            first += machine.layers.counts[layer]
        of_column = torch.cat(unit).to(machine.device)
        self.pairs = of_column[:, None] < of_column  # each pair once
        self.of_data = self._centred(rows[None].to(machine.device), weights)[0]

    def _centred(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """C of rows (e, c, v) at the pairs, less its mean, (e, pairs)."""
        e, c, v = rows.shape
        share = (
            torch.full((c,), 1.0 / c, dtype=torch.float64) if weights is None else weights / weights.sum()
        )
        share = share.to(rows.device, torch.float64)
        total = torch.zeros((e, v, v), dtype=torch.float64, device=rows.device)
        mean = torch.zeros((e, v), dtype=torch.float64, device=rows.device)
        dtype = self.machine.dtype
        for start in range(0, c, ROWS):
            some, part = rows[:, start : start + ROWS].to(dtype), share[start : start + ROWS]
            mean += (part[:, None] * some).sum(1)
            total += some.mT @ (some * part.to(dtype)[:, None])
        values: Tensor = (total - mean[:, :, None] * mean[:, None])[:, self.pairs]
        return values - values.mean(-1, keepdim=True)

    @torch.no_grad()
    def with_chains(
        self, chains: Tensor, rng: torch.Generator, sweeps: int, machine: Machine | None = None
    ) -> Tensor:
        """Pearson's coefficient of every replica, (e,), for chains (e, c, n) that sweep so often between
        two of their configurations; of another machine with the same visible units, if one is given."""
        machine = self.machine if machine is None else machine
        kept = [chains[..., : self.machine.visible]]
        for _ in range(math.ceil(SAMPLES / chains.shape[1]) - 1):
            chains = run_sweeps(machine, chains, rng, sweeps)
            kept.append(chains[..., : self.machine.visible])
        mine = self._centred(torch.cat(kept, 1))
        norms = mine.norm(dim=-1) * self.of_data.norm()
        found: Tensor = (mine @ self.of_data) / norms.clamp(min=torch.finfo(torch.float64).tiny)
        return found


def correlations_for(recipe: Recipe, machine: Machine, split: Split) -> PairCorrelations | None:
    """What compares chains with these rows, where the recipe asks for it."""
    if recipe.until_correlation is None:
        return None
    if split.observed is not None:
        raise InputError(
            "correlations of pairs need rows without missing cells; leave --until-correlation out"
        )
    return PairCorrelations(machine, split.spins, split.weights)


def looks_at_pairs(recipe: Recipe, progress: Progress) -> bool:
    """Whether correlations are looked at after this update: `PARTS` times or more while the number of
    updates doubles, and at the end."""
    if recipe.until_correlation is None or progress.update < FIRST:
        return False
    spacing = max(FIRST, 2 ** (progress.update.bit_length() - 1) // PARTS)
    return progress.update % spacing == 0 or progress.update == progress.updates


def seen_by(pairs: PairCorrelations, progress: Progress, *, first: bool = False) -> Tensor:
    """Pearson's coefficient of every replica of a training now, or of the first alone."""
    trainer = progress.trainer
    negative = trainer.negative
    assert isinstance(negative, Persistent)
    chains = trainer.chains[..., : trainer.machine.layers.columns]  # type: ignore[attr-defined]
    machine, sweeps = trainer.machine, max(negative.sweeps, APART)
    if first:
        machine, chains = machine.replica(0).requires_grad_(False), chains[:1]
    return pairs.with_chains(chains, progress.rng, sweeps, machine)


def check_target(recipe: Recipe) -> None:
    """Refuses a coefficient outside 0 to 1, or chains that do not stay."""
    target = recipe.until_correlation
    if target is None:
        return
    if not is_number(target) or not 0 < target < 1:
        raise InputError(
            f"--until-correlation is a coefficient above 0 and below 1, such as 0.95, not {target!r}"
        )
    if recipe.negative != "pcd" or recipe.shard_by != "chains":
        raise InputError(
            "--until-correlation looks at chains that live through the training; give --negative pcd and "
            "no --shard-by, or leave it out"
        )
