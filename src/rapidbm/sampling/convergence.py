"""Have the chains mixed? R-hat, effective sample sizes and autocorrelation times, from arviz.

They are taken of scalar time series: the energy, and the visible spins along the leading principal
directions of what was sampled, where slow modes show. The integrated autocorrelation time is

    τ = chains · steps / ESS        steps                                                 (1)

R-hat near 1 (below 1.01) says that the chains agree with each other; it cannot see a region that none
visited.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..arrays import as_tensor
from ..display import Displayable, words
from ..errors import InputError, require
from ..machines.machine import Machine
from ..machines.spins import as_spins
from ..progress import report_progress, watched

DIRECTIONS = 3


@dataclass(frozen=True, repr=False)
class Mixing(Displayable):
    """Convergence diagnostics, one value per replica and statistic.

    Attributes
    ----------
    names : tuple of str
        The statistics: energy, and visible spins along leading principal directions.
    rhat : Tensor of shape (e, x)
        R-hat; near 1 (below 1.01) when the chains agree.
    ess : Tensor of shape (e, x)
        Effective sample size over all chains.
    time : Tensor of shape (e, x)
        Integrated autocorrelation time in recorded steps.
    """

    names: tuple[str, ...]
    rhat: Tensor  # (e, x)
    ess: Tensor  # (e, x)
    time: Tensor  # (e, x): τ in recorded steps, eq. (1)

    def _facts(self) -> list[tuple[str, str]]:
        return [
            (name, f"R-hat {words(rhat)}; ESS {words(ess)}; τ {words(time)}")
            for name, rhat, ess, time in zip(
                self.names, self.rhat.T, self.ess.T, self.time.T, strict=True
            )
        ]


@torch.no_grad()
def statistics(machine: Machine, series: Tensor) -> dict[str, Tensor]:
    """Scalar time series (e, c, t) of recorded configurations (e, c, t, n)."""
    machine.layers.check_spins("a record")
    series = as_tensor(series, what="a record")
    if series.dim() != 4 or series.shape[::3] != (machine.replicas, machine.layers.columns):
        raise InputError(
            f"a record of this machine is ({machine.replicas}, chains, steps, "
            f"{machine.layers.columns}), as `record` gives it, not {tuple(series.shape)}"
        )
    series = as_spins(series, what="a record")
    e, c, t, _ = series.shape
    flat = series.reshape(e, c * t, -1)
    parts = [machine.energy(part).double() for part in torch.split(flat, 2**16, 1)]
    series_of = {"energy": torch.cat(parts, 1).reshape(e, c, t)}
    seen = flat[..., : machine.visible].to(machine.device, machine.dtype)
    seen = seen - seen.mean(1, keepdim=True)
    _, vectors = torch.linalg.eigh((seen.mT @ seen).double())  # (e, v, v), the largest last
    count = min(DIRECTIONS, machine.visible)
    along = seen @ vectors[..., -count:].flip(-1).to(seen.dtype)
    # A spin moves by 2: a direction along which less is seen holds rounding errors.
    along = torch.where(along.amax(1, True) - along.amin(1, True) > 1e-3, along, 0.0)
    for i in range(count):
        series_of[f"direction {i + 1}"] = along[..., i].double().reshape(e, c, t)
    return series_of


@watched("mixing", remedy="give fewer chains or steps")
def mixing(machine: Machine, series: Tensor, *, limit: float | None = None) -> Mixing:
    """R-hat, effective sample sizes and autocorrelation times of recorded chains, from arviz.

    Parameters
    ----------
    machine : Machine
        The machine that was sampled.
    series : Tensor of shape (e, c, t, n)
        At least two chains of at least four steps, as `record` gives them.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    Mixing
        Values per replica, for the energy and the leading principal directions.

    Raises
    ------
    InputError
        If there are too few chains or steps, or `rapidbm[diagnostics]` is not installed.
    """
    series = as_tensor(series, what="a record")
    if series.dim() == 4 and (series.shape[1] < 2 or series.shape[2] < 4):
        raise InputError(
            f"R-hat compares two chains or more of four steps or more, not {tuple(series.shape[1:3])}"
        )
    arviz = _arviz()
    scalars = statistics(machine, series)
    e, c, t = next(iter(scalars.values())).shape
    rhat, ess = np.full((2, e, len(scalars)), np.nan)
    for x, values in enumerate(scalars.values()):
        for replica in range(e):
            report_progress()
            each = values[replica].cpu().numpy()
            if np.ptp(each) == 0:  # nothing moved: neither is defined
                continue
            if np.ptp(each, axis=1).max() < 1e-9 * np.ptp(each):  # each chain stays at its place
                rhat[replica, x], ess[replica, x] = np.inf, c
                continue
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rhat[replica, x] = float(arviz.rhat(each))
                ess[replica, x] = float(arviz.ess(each))
    times = torch.from_numpy(c * t / ess)
    return Mixing(tuple(scalars), torch.from_numpy(rhat), torch.from_numpy(ess), times)


def _arviz() -> Any:
    require("arviz", "measuring R-hat, effective sample sizes and autocorrelation times")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own future
        import arviz
    return arviz
