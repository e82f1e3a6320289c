"""Errors of couplings from trainings on resampled rows, side by side as replicas.

The first replica has the rows as they are, each other one M draws of them with replacement in proportion
to their weights w, so that rows which count little vary together as one,

    M = Σ w / max w                                                                         (1)

which is the number of rows where all count the same, and M_eff of sequences weighted by identity. The
spread σ of a score over the B resampled replicas gives its 95 % interval, score ± 1.96 σ.

Whether two units are coupled at all is another question: the norm of couplings that are nothing but noise
is not 0. What noise does is seen in the differences of resampled couplings J⁽ʳ⁾ and those of the rows, J,

    N⁽ʳ⁾ = |J⁽ʳ⁾ − J|²,    F = |J|² / mean N,    ν = 2 (mean N)² / variance of N           (2)

Without a coupling F has the F-distribution with ν and B ν degrees of freedom, if N is a multiple of a χ²
of ν; for spins ν is 1. The mean is that of each pair, ν is shared by all pairs. p-values of F give
q-values by Benjamini and Hochberg: of the pairs with q ≤ 0.05 one in twenty at most is expected to be
chance alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..arrays import as_weights
from ..display import Displayable
from ..errors import InputError, check_count, is_whole
from ..random import rng_from
from .couplings import EffectiveCouplings

Z = 1.959963984540054  # standard deviations of a 95 % interval
LEAST = 3  # resampled replicas that say something of a spread


@dataclass(frozen=True, repr=False)
class BootstrapErrors(Displayable):
    """Scores of pairs of units and their couplings, with errors by resampled replicas.

    Attributes
    ----------
    score : Tensor of shape (units, units)
        As of `EffectiveCouplings.contacts`, of the first replica.
    low : Tensor of shape (units, units)
        The lower end of its 95 % interval.
    high : Tensor of shape (units, units)
        The upper end.
    q : Tensor of shape (units, units)
        The rate of false discoveries among pairs whose couplings are as clear; 1 on the diagonal.
    pairs_error : Tensor of shape (columns, columns)
        Standard error of each coupling; a 95 % interval is 1.96 of them to either side.
    fields_error : Tensor of shape (columns,)
        Standard error of each field.
    replicas : int
        Resampled replicas.
    """

    score: Tensor
    low: Tensor
    high: Tensor
    q: Tensor
    pairs_error: Tensor
    fields_error: Tensor
    replicas: int

    def _facts(self) -> list[tuple[str, str]]:
        count = int((self.q.triu(1) + 2.0 * torch.ones_like(self.q).tril() <= 0.05).sum())
        return [
            ("units", str(len(self.score))),
            ("resampled replicas", str(self.replicas)),
            ("pairs", f"{count:,} at a false-discovery rate of 5 %"),
        ]


def bootstrap_weights(
    weights: Any, count: int, rng: torch.Generator | None = None, *, seed: int | None = None
) -> Tensor:
    """Weights of rows for trainings side by side: the rows as they are, then resampled ones.

    Parameters
    ----------
    weights : array of shape (samples,) or int
        How much each row counts, or the number of rows where all count the same.
    count : int
        Resampled replicas.
    rng : torch.Generator, optional
        Source of random numbers; or give a seed.
    seed : int, optional
        Seed in place of a generator.

    Returns
    -------
    Tensor of shape (1 + count, samples), float64
        For `rb.train(…, weights=…)` of a machine with 1 + count replicas.

    Raises
    ------
    InputError
        If weights are negative, not finite or all 0.

    Examples
    --------
    >>> rb.bootstrap_weights(5, 3, seed=0).sum(1).tolist()
    [5.0, 5.0, 5.0, 5.0]
    """
    check_count("the number of resampled replicas", count)
    rng = rng_from(seed, rng, "bootstrap")
    if is_whole(weights):
        check_count("the number of rows", weights)
        given = torch.ones(int(weights), dtype=torch.float64)
    else:
        given = as_weights(weights, len(weights))
    draws = max(1, round(float(given.sum() / given.max())))  # eq. (1)
    shape = (count, draws)
    drawn = torch.multinomial(
        given.expand(count, -1).to(rng.device), draws, replacement=True, generator=rng
    ).view(shape)
    counts = torch.zeros((count, len(given)), dtype=torch.float64)
    counts.scatter_add_(1, drawn.cpu(), torch.ones(shape, dtype=torch.float64))
    return torch.cat([given[None], counts * (given.sum() / draws)])


def bootstrap_errors(found: EffectiveCouplings, *, without: int | None = None) -> BootstrapErrors:
    """Intervals of couplings and false-discovery rates of pairs, from resampled replicas.

    Parameters
    ----------
    found : EffectiveCouplings
        Of a machine whose first replica was trained on the rows as they are, the others on
        `bootstrap_weights`.
    without : int, optional
        A state of categorical units that is left out of scores, such as the gap.

    Returns
    -------
    BootstrapErrors
        Scores with intervals and q-values, standard errors of couplings and fields.

    Raises
    ------
    InputError
        If there are fewer than 3 resampled replicas.

    Examples
    --------
    >>> machine = rb.bm(4, biases=True, replicas=9, scale=0.1, seed=0)
    >>> rb.bootstrap_errors(rb.effective_couplings(machine)).score.shape
    torch.Size([4, 4])
    """
    count = len(found.pairs) - 1
    if count < LEAST:
        raise InputError(
            f"errors by resampling take the replica of the rows as they are and {LEAST} resampled ones "
            f"or more, and there are {count + 1} replicas; train with --bootstrap 20, or by "
            "bootstrap_weights"
        )
    each = found.contacts(without=without)  # (e, units, units)
    score, spread = each[0], each[1:].std(0)
    p = _p_values(found, without)
    return BootstrapErrors(
        score=score,
        low=score - Z * spread,
        high=score + Z * spread,
        q=_q_values(p),
        pairs_error=found.pairs[1:].std(0),
        fields_error=found.fields[1:].std(0),
        replicas=count,
    )


def _p_values(found: EffectiveCouplings, without: int | None) -> Tensor:
    """p of every pair of units, eq. (2), (units, units)."""
    from scipy import stats

    noise = replace(found, pairs=found.pairs[1:] - found.pairs[:1]).norms(without=without).square()
    mine = found.norms(without=without)[0].square()
    mean = noise.mean(0).clamp(min=torch.finfo(noise.dtype).tiny)
    i, j = torch.triu_indices(len(mine), len(mine), 1)
    relative = (noise.var(0) / mean.square())[i, j].mean()  # 2 / ν
    degrees = float(2.0 / relative.clamp(min=1e-6))
    p = stats.f.sf((mine / mean).cpu().numpy(), degrees, degrees * len(noise))
    return torch.as_tensor(p, dtype=mine.dtype, device=mine.device)


def _q_values(each: Tensor) -> Tensor:
    """q of every pair by Benjamini and Hochberg, from its p, (units, units)."""
    i, j = torch.triu_indices(len(each), len(each), 1)
    p = each[i, j]
    order = p.argsort()
    scaled = p[order] * len(p) / torch.arange(1, len(p) + 1, device=p.device)
    least = scaled.flip(0).cummin(0).values.flip(0).clamp(max=1.0)
    q = torch.ones_like(each)
    q[i[order], j[order]] = least
    q[j[order], i[order]] = least
    return q
