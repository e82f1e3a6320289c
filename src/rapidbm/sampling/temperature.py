"""At which temperature spins look drawn: β by maximal pseudo-likelihood.

A sampler that is not ours may follow exp(−βE) with a β that nobody knows. Given the rest, each unit has

    P(s_i | rest) = σ(2 β s_i f_i),        f_i its field                                  (1)

and the β under which the units of all configurations c are likeliest, each given its rest, solves

    Σ_c g_c(β) + H'(β)/2H(β) = 0,        g_c = Σ_i f_i (s_i − tanh β f_i)                 (2)
    H = Σ_c Σ_i f_i² (1 − tanh² β f_i)                                                    (3)

For many configurations drawn at β it is β (Besag 1975). The second term is a prior √H (Firth 1993): it
takes the bias of few configurations away, and gives states that follow all their fields, as quenched ones
do, a finite β. The error is that of a sum over independent configurations, whose units are not,

    error² = R / H,        R = max(1, Σ_c g_c² / H)                                       (4)

and no smaller than half the way to the colder β₂ that two errors would be, if the likelihood were normal,

    L(β) − L(β₂) = 2 R,        L = Σ_c Σ_i log σ(2 β s_i f_i)                             (5)

Where few units stand against their fields that is far, and where none does there is no such β₂: they may
be as cold as they like, β is about the least that it can be, and the error is ∞. It is a local
temperature: whether modes have their due shares it does not see.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..estimates import Estimate
from ..machines.machine import Machine
from ..machines.units.spin import SPIN

DOUBLINGS, HALVINGS = 60, 50
ROUGHLY = 12  # halvings for an error


@torch.no_grad()
def effective_beta(machine: Machine, spins: Any) -> Estimate:
    """The inverse temperature at which given configurations look drawn, by maximal pseudo-likelihood.

    Parameters
    ----------
    machine : Machine
        A machine of spins.
    spins : Tensor of shape (e, c, n)
        Independent configurations, for instance of an annealer.

    Returns
    -------
    Estimate
        β, (e,). The error is ∞ where all units follow their fields; NaN ± ∞ where there is no field.

    Examples
    --------
    >>> machine = rb.rbm(20, 20, scale=0.3, seed=0)
    >>> spins = rb.sample(machine, 1000, steps=50, seed=0)
    >>> abs(rb.effective_beta(machine, spins).value.item() - 1) < 0.1
    True
    """
    machine.layers.check_spins("an effective temperature")
    whole = machine.configuration(spins)
    layers = range(len(machine.layers.sizes))
    fields = torch.cat([machine.field(whole, i) for i in layers], -1).double()  # (e, c, n)
    along = fields * whole.double()
    total, sizes = along.sum((1, 2)), fields.abs()
    sign = torch.where(total < 0, -1.0, 1.0)  # below 0 everything is the same upside down
    low, high = torch.zeros_like(total), 1 / sizes.mean((1, 2))
    for _ in range(DOUBLINGS):
        below = _slope(total * sign, sizes, high) > 0
        if not bool(below.any()):
            break
        low, high = torch.where(below, high, low), torch.where(below, 2 * high, high)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        below = _slope(total * sign, sizes, middle) > 0
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    beta = high * sign
    mean = SPIN.mean(fields, beta[:, None, None])
    bend = (fields.square() * (1 - mean.square())).sum((1, 2))
    each = (along - fields * mean).sum(2)  # g_c, (e, c)
    excess = (each.square().sum(1) / bend).clamp(min=1.0)  # R
    half = (_colder(along * sign[:, None, None], high, 2 * excess) - high) / 2
    error = torch.maximum((excess / bend).sqrt(), half)
    known = beta.isfinite()
    return Estimate(torch.where(known, beta, torch.nan), torch.where(known, error, torch.inf))


def _colder(along: Tensor, beta: Tensor, drop: Tensor) -> Tensor:
    """β₂ of eq. (5), (e,), with s f and β > 0; ∞ where the likelihood falls by no such drop."""

    def likelihood(at: Tensor) -> Tensor:
        scaled = at[:, None, None] * along
        return (scaled - SPIN.log_sum(scaled)).sum((1, 2))

    least = likelihood(beta) - drop
    low, high = beta, 2 * beta
    for _ in range(DOUBLINGS):
        above = (likelihood(high) > least) & (along < 0).any(2).any(1)
        if not bool(above.any()):
            break
        low, high = torch.where(above, high, low), torch.where(above, 2 * high, high)
    for _ in range(ROUGHLY):
        middle = (low + high) / 2
        above = likelihood(middle) > least
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return torch.where((along < 0).any(2).any(1), high, torch.inf)


def _slope(total: Tensor, sizes: Tensor, beta: Tensor) -> Tensor:
    """The left side of eq. (2), (e,), with Σ f s and |f|, at β > 0."""
    mean = SPIN.mean(sizes, beta[:, None, None])
    terms = sizes.square() * (1 - mean.square())
    prior = (sizes * mean * terms).sum((1, 2)) / terms.sum((1, 2))
    return total - (sizes * mean).sum((1, 2)) - prior
