"""The sum over hidden states of machines whose hidden units are coupled to each other.

    log p*(v) = log Σ_h exp(−E(v, h))                                                     (1)
    log p*(v) ≥ −E(v, μ) − Σ_i [ (1+μ_i)/2 log (1+μ_i)/2 + (1−μ_i)/2 log (1−μ_i)/2 ]      (2)

(2) is the variational bound at the mean-field means μ; what it lacks is the variational gap. Annealing
with the visible units held, from independent hidden units with the means μ, gives (1) from below, and
back from there from above (`ais.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from . import ais
from .errors import check_count
from .gibbs import sweeps
from .machine import Machine
from .positive import mean_field
from .routes import Path

SETTLE = 20  # sweeps between the two directions


@dataclass(frozen=True)
class HiddenSums:
    """Means over images of eq. (1), from both sides, with standard errors, and of the bound (2)."""

    lower: Tensor  # (e,) float64
    upper: Tensor  # (e,)
    lower_error: Tensor  # (e,)
    upper_error: Tensor  # (e,)
    mean_field: Tensor  # (e,)
    steps: int


@torch.no_grad()
def hidden_sums(
    machine: Machine,
    visible: Tensor,
    rng: torch.Generator,
    *,
    chains: int = 20,
    most: int = 3200,
) -> HiddenSums:
    """Eq. (1) averaged over images (d, v), `chains` annealed for each; their number of temperatures
    doubles from 50 to `most` until a typical image has half of its chains effective."""
    check_count("the number of chains", chains, least=2)
    step = max(1, 2**22 // (machine.replicas * machine.layers.units * chains))
    parts = [_some(machine, some, rng, chains, most) for some in torch.split(visible, step)]
    below, above, bound, below_error, above_error = (
        torch.cat([values[i] for values, _ in parts], 1) for i in range(5)
    )
    count = len(visible)
    return HiddenSums(
        below.mean(1),
        above.mean(1),
        below_error.square().sum(1).sqrt() / count,
        above_error.square().sum(1).sqrt() / count,
        bound.mean(1),
        max(steps for _, steps in parts),
    )


def _some(
    machine: Machine, visible: Tensor, rng: torch.Generator, chains: int, most: int
) -> tuple[list[Tensor], int]:
    """Eq. (1) from below and above, eq. (2), and both errors, each (e, d); and the temperatures."""
    means = mean_field(machine, visible, iterations=50)  # (e, d, n)
    e, images, n = means.shape
    paths = [
        Path(machine, base.repeat_interleave(chains, 1), given.repeat_interleave(chains, 1))
        for base, given in _bases(machine, visible, means)
    ]
    apart = (e * images, chains)
    starts = [path.log_z0().reshape(apart) for path in paths]
    clamp = torch.arange(n, device=machine.device) < machine.visible
    steps = 50
    while True:
        betas = [i / steps for i in range(steps + 1)]
        runs = [ais.forward(path, betas, images * chains, rng) for path in paths]
        logs = [start + run[0].reshape(apart) for start, run in zip(starts, runs, strict=True)]
        # The ends of both paths, weighted, are one population; each path takes half of it back.
        ends = torch.cat([run[1].reshape(*apart, n) for run in runs], 1)
        again = ais.resample(ends, torch.cat(logs, 1), rng).split(chains, 1)
        ways = []
        for path, start, log, half in zip(paths, starts, logs, again, strict=True):
            settled = sweeps(machine, half.reshape(e, -1, n), rng, SETTLE, clamp=clamp)
            back = ais.backward(path, betas, settled, rng).reshape(apart) - start
            forward, back = ais.LogMean.of(log), ais.LogMean.of(back)
            ess = torch.minimum(forward.ess, back.ess)
            ways.append(torch.stack([forward.value, -back.value, forward.error, back.error, ess]))
        one, two = ways  # (5, e·d)
        found = torch.where(_doubt(one) <= _doubt(two), one, two)
        if float(found[4].median()) >= 0.5 * chains or 2 * steps > most:
            break
        steps *= 2
    below, above, below_error, above_error, _ = found.reshape(-1, e, images)
    return [below, above, variational_bound(machine, means), below_error, above_error], steps


def _bases(machine: Machine, visible: Tensor, means: Tensor) -> list[tuple[Tensor, Tensor]]:
    """b⁰ of the two paths, each with the units that are held, (e, d, n).

    Mean field is near a machine that has one mode, and blind to the others where there are more;
    half of the field of the visible units is far from all of them, and finds them.
    """
    given = machine.with_visible(visible)
    edge = 1.0 - 1e-4  # a base that is certain could not be left
    near = torch.atanh(means.clamp(-edge, edge))
    near[..., : machine.visible] = 0.0
    far = torch.zeros_like(near)
    for layer in machine.layers.hidden:
        far[..., machine.layers.slices[layer]] = 0.5 * machine.field(given, layer)
    return [(near, given), (far, given)]


def _doubt(way: Tensor) -> Tensor:
    """How far the two directions are apart, and how uncertain they are."""
    below, above, below_error, above_error, _ = way
    return (above - below).square() + below_error.square() + above_error.square()


def variational_bound(machine: Machine, means: Tensor) -> Tensor:
    """Eq. (2), (e, c), of configurations whose hidden units hold means."""
    up = (1.0 + means[..., machine.visible :].double()) / 2.0
    entropy = torch.special.entr(up) + torch.special.entr(1.0 - up)
    found: Tensor = entropy.sum(-1) - machine.energy(means).double()
    return found
