"""Clamped chains, every row its own, and whether they have mixed.

A row's chains start from independent units, come to the machine by annealing and are drawn again by
their weights, so that a mode has as many chains as it has weight; then they sweep. With the variances
B/t of the means of half chains and W within them, over t steps,

    R-hat = √( ((t − 1)/t · W + B/t) / W )                                                (1)

of two statistics, the energy and the missing cells along a random direction; the larger one counts. Rows
whose chains disagree start again, with four times as many temperatures and sweeps.

The effective number of draws of m chains of t steps, with the autocorrelations ρ_l of all chains
together,

    m t / (1 + 2 Σ_l ρ_l),        the sum up to the first pair ρ_2l + ρ_2l+1 < 0          (2)

(Geyer 1992). For thousands of rows at once both are tensors here; a test compares them with arviz.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..machines import trusted
from ..machines.cells import Cells
from ..machines.machine import Machine
from ..progress import report_progress
from ..sampling import annealing
from ..sampling.gibbs import run_sweeps
from .annealed_rows import AT_ONCE, bases_of, path_of

FEWEST = 4  # chains of a row
TEMPERATURES = 50
AGREED = 1.1  # R-hat up to which chains agree
ROUNDS = 2  # of a row whose chains do not


@dataclass(frozen=True)
class Clamped:
    """Where the chains of every row have come to."""

    spins: Tensor  # (e, c, m, n)
    means: Tensor  # (e, c, v): ⟨x⟩ of visible columns given their neighbours, over all chains and sweeps
    rhat: Tensor  # (e, c)


@torch.no_grad()
def clamped_chains(
    machine: Machine, cells: Cells, chains: int, sweeps: int, rng: torch.Generator
) -> Clamped:
    """So many chains of every row, or `FEWEST`, the observed cells held."""
    chains = max(FEWEST, chains)
    step = max(1, AT_ONCE // (machine.replicas * machine.layers.columns * chains))
    parts = [_settled(machine, some, chains, sweeps, rng) for some in cells.split(step)]
    return Clamped(*(torch.cat([getattr(x, f) for x in parts], 1) for f in ("spins", "means", "rhat")))


def _settled(machine: Machine, cells: Cells, chains: int, sweeps: int, rng: torch.Generator) -> Clamped:
    found = _run(machine, cells, chains, sweeps, TEMPERATURES, rng)
    for further in range(1, ROUNDS):
        rows = (found.rhat > AGREED).any(0).nonzero()[:, 0]
        if not len(rows):
            break
        more = 4**further
        again = _run(machine, cells.take(rows), chains, more * sweeps, more * TEMPERATURES, rng)
        for name in ("spins", "means", "rhat"):
            getattr(found, name)[:, rows] = getattr(again, name)
    return found


def _run(
    machine: Machine, cells: Cells, chains: int, sweeps: int, steps: int, rng: torch.Generator
) -> Clamped:
    e, c, n = machine.replicas, len(cells), machine.layers.columns
    path = path_of(machine, cells, bases_of(machine, cells)[1], chains)
    betas = [i / steps for i in range(steps + 1)]
    logs, ends = annealing.forward(path, betas, c * chains, rng)
    drawn, _ = annealing.resample(ends.reshape(e * c, chains, n), logs.reshape(e * c, chains), rng)
    spins = drawn.reshape(e, c * chains, n)
    # The first half of the sweeps lets chains that were drawn twice come apart.
    spins = run_sweeps(machine, spins, rng, -(-sweeps // 2), clamp=path.held)
    weights = torch.randn(machine.visible, generator=rng, device=machine.device, dtype=machine.dtype)
    series, means, count = (
        [],
        torch.zeros((e, c, machine.visible), dtype=torch.float64),
        max(16, sweeps),
    )
    means = means.to(machine.device)
    for _ in range(count):
        report_progress()
        spins = run_sweeps(machine, spins, rng, 1, clamp=path.held)
        along = spins[..., : machine.visible] @ weights
        series.append(torch.stack([trusted.energy(machine, spins).double(), along.double()]))
        means += _visible_means(machine, spins).reshape(e, c, chains, -1).double().mean(2) / count
    means = torch.where(cells.held, cells.columns, means)
    whole = torch.stack(series, -1).reshape(2, e, c, chains, count)
    return Clamped(spins.reshape(e, c, chains, n), means, split_rhat(whole).amax(0))


def _visible_means(machine: Machine, spins: Tensor) -> Tensor:
    """⟨x⟩ of visible columns given all the others, (e, c, v); of a layer coupled to itself its states."""
    parts = []
    for layer in machine.layers.visible:
        if machine.layers.self_coupled(layer):
            parts.append(spins[..., machine.layers.slices[layer]])
        else:
            parts.append(machine.unit(layer).mean(trusted.field(machine, spins, layer)))
    return torch.cat(parts, -1)


def split_rhat(series: Tensor) -> Tensor:
    """Eq. (1) of series (…, m, t), (…); 1 where nothing moves."""
    half = series.shape[-1] // 2
    halves = torch.cat([series[..., :half], series[..., -half:]], -2).double()
    within = halves.var(-1).mean(-1)
    between = halves.mean(-1).var(-1)
    found = (((half - 1) / half) + between / within).sqrt()
    size = halves.abs().amax((-1, -2)).clamp(min=1.0) ** 2
    still, equal = within <= 1e-12 * size, between <= 1e-12 * size
    return torch.where(still, torch.where(equal, 1.0, torch.inf), found)


def effective_draws(series: Tensor) -> Tensor:
    """Eq. (2) of series (…, m, t), (…); all of them where nothing moves."""
    series = series.double()
    m, t = series.shape[-2:]
    centred = series - series.mean(-1, keepdim=True)
    padded = torch.fft.rfft(centred, 2 * t)
    covariance = torch.fft.irfft(padded * padded.conj(), 2 * t)[..., :t].mean(-2) / t  # over chains
    within = covariance[..., 0] * t / max(1, t - 1)
    spread = within * (t - 1) / t + (series.mean(-1).var(-1) if m > 1 else 0.0)
    rho = 1.0 - (within[..., None] - covariance) / spread[..., None]
    rho[..., 0] = 1.0
    pairs = rho[..., : t - t % 2].unflatten(-1, (-1, 2)).sum(-1)
    kept = (pairs > 0).cumprod(-1)
    time = (2.0 * (pairs * kept).cummin(-1).values.clamp(min=0.0).sum(-1) - 1.0).clamp(min=1.0 / m / t)
    still = spread <= 1e-12 * series.abs().amax((-1, -2)).clamp(min=1.0) ** 2
    return torch.where(still, float(m * t), (m * t / time).clamp(max=float(m * t)))
