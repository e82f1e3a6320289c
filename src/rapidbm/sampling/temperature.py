"""At which temperature spins look drawn: β by maximal pseudo-likelihood.

A sampler that is not ours may follow exp(−βE) with a β that nobody knows. Given the rest, each unit has

    P(s_i | rest) = σ(2 β s_i f_i),        f_i its field                                  (1)

and the β under which the units of all configurations are likeliest given their rests solves

    Σ_c g_c(β) = 0,        g_c = Σ_i f_i (s_i − tanh β f_i)                               (2)

It is consistent: for many configurations drawn at β it is β (Besag 1975). Its error is that of a sum over
independent configurations, whose units are not independent,

    error² = Σ_c g_c² / H²,        H = Σ_c Σ_i f_i² (1 − tanh² β f_i)                     (3)

and no smaller than 1/√H. It is a local temperature: whether modes have their due shares it does not see.
"""

from __future__ import annotations

from typing import Any

import torch

from ..estimates import Estimate
from ..machines.machine import Machine


@torch.no_grad()
def effective_beta(machine: Machine, spins: Any) -> Estimate:
    """β of eq. (2) of independent configurations (e, c, n), with the error of eq. (3).

    One configuration in c is taken to be upside down, so that states that follow all their fields, as
    quenched ones do, have a finite β. Without a field there is none: NaN ± ∞.
    """
    machine.layers.check_spins("an effective temperature")
    whole = machine.configuration(spins)
    layers = range(len(machine.layers.sizes))
    fields = torch.cat([machine.field(whole, i) for i in layers], -1).double()  # (e, c, n)
    along = fields * whole.double()
    count = whole.shape[1]
    wanted = along.sum((1, 2)) * (1 - 1 / max(count, 2))  # (e,)
    beta = torch.zeros_like(wanted)
    for _ in range(200):  # from 0, Newton's steps come to the root from below
        mean = torch.tanh(beta[:, None, None] * fields)
        bend = (fields.square() * (1 - mean.square())).sum((1, 2))  # H
        step = (wanted - (fields * mean).sum((1, 2))) / bend
        beta = beta + torch.where(bend > 0, step, torch.nan)
        if not bool((step.abs() > 1e-9 * (1 + beta.abs())).any()):
            break
    each = (along - fields * mean).sum(2)  # g_c, (e, c)
    spread = each.square().sum(1) / bend.square()
    error = torch.maximum(spread, 1 / bend).sqrt()
    return Estimate(beta, torch.where(beta.isfinite(), error, torch.inf))
