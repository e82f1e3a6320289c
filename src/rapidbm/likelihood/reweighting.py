"""Averages at any β from states recorded at several: the multistate Bennett ratio.

Of N_t states recorded at each β_t, every one counts at every β (Shirts and Chodera 2008),

    w_n(β) = exp(−βE_n) / Σ_t N_t exp(f_t − β_t E_n),        log Z(β) = log Σ_n w_n(β)     (1)
    ⟨A⟩_β = Σ_n w_n(β) A_n / Σ_n w_n(β)                                                   (2)

with f_t = −log Z(β_t), where the convex function

    κ(f) = Σ_n log Σ_t N_t exp(f_t − β_t E_n) − Σ_t N_t f_t                               (3)

is least; one f is known. Newton's method finds the others. Where a start is far off, κ is flat and the
method stands still; so it starts where neighbours alone agree, with x = (β_t − β_{t+1}) E,

    Σ_{n of t} σ(x_n − Δ) = Σ_{n of t+1} σ(Δ − x_n),        Δ = log Z(β_{t+1}) − log Z(β_t)   (4)
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..progress import report_progress

STEPS = 50  # of Newton's method
CLOSE = 1e-9  # nats
HALVINGS = 60  # of the interval of Δ


def log_sums(energies: Tensor, rungs: Tensor, known: float, start: Tensor | None = None) -> Tensor:
    """log Z(β_t), (t,), from energies (t, c) recorded at rungs β_t (t,); that of the first is known."""
    count = energies.shape[1]
    flat = energies.flatten()
    minus = -rungs[:, None] * flat  # (t, n)
    f = -_bridged(energies, rungs) if start is None else -start
    f = f - f[0]
    least = _kappa(f, minus, count)
    for _ in range(STEPS):
        report_progress()
        share = torch.softmax(f[:, None] + minus, 0)  # (t, n): of each state, by whom it was recorded
        slope = share.sum(1) - count
        bend = torch.diag(share.sum(1)) - share @ share.mT
        step = torch.zeros_like(f)  # f_0 stays
        step[1:] = torch.linalg.lstsq(bend[1:, 1:], slope[1:, None]).solution[:, 0]
        size = 1.0
        while size > 1e-6:  # back until (3) falls
            there = f - size * step
            value = _kappa(there, minus, count)
            if value <= least + 1e-12 * abs(least):
                break
            size /= 2.0
        f, least = there, value
        if float(step.abs().max()) < CLOSE:
            break
    return known - f


def _kappa(f: Tensor, minus: Tensor, count: int) -> float:
    """Eq. (3), all N_t being equal."""
    return float(torch.logsumexp(f[:, None] + minus, 0).sum() - count * f.sum())


def _bridged(energies: Tensor, rungs: Tensor) -> Tensor:
    """log Z along the rungs, of each pair by its Bennett ratio alone: eq. (4)."""
    up = -rungs.diff()[:, None] * energies[:-1]  # (t − 1, c)
    down = -rungs.diff()[:, None] * energies[1:]
    low, high = torch.minimum(up, down).amin(1), torch.maximum(up, down).amax(1)
    for _ in range(HALVINGS):
        middle = (low + high)[:, None] / 2
        above = torch.sigmoid(up - middle).sum(1) > torch.sigmoid(middle - down).sum(1)
        low, high = torch.where(above, middle[:, 0], low), torch.where(above, high, middle[:, 0])
    return torch.cat([low.new_zeros(1), low.cumsum(0)])


def averages(
    energies: Tensor, rungs: Tensor, sums: Tensor, betas: Tensor, values: Tensor
) -> tuple[Tensor, Tensor]:
    """log Z(β), (b,), and the averages (2) of values (a, t, c), (b, a), at betas (b,)."""
    flat = energies.flatten()
    logs = torch.logsumexp(-rungs[:, None] * flat - sums[:, None], 0)  # over N_t, which cancels below
    count = energies.shape[1]
    found, means = [], []
    for beta in betas:
        weights = -beta * flat - logs
        total = torch.logsumexp(weights, 0)
        found.append(total - torch.log(torch.tensor(float(count), dtype=torch.float64)))
        means.append(values.flatten(1) @ (weights - total).exp())
    return torch.stack(found), torch.stack(means)
