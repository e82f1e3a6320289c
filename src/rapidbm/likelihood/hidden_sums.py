"""The sum over hidden states of machines whose hidden units are coupled to each other.

    log p*(v) = log Σ_h exp(−E(v, h))                                                     (1)
    log p*(v) ≥ −E(v, μ) − Σ_i [ (1+μ_i)/2 log (1+μ_i)/2 + (1−μ_i)/2 log (1−μ_i)/2 ]      (2)

(2) is the variational bound at the mean-field means μ; what it lacks is the variational gap, which
differs far less from image to image than (1) does: of many images some are annealed, and their mean gap
is added to the bound of all. Annealing with the visible units held, from independent hidden units, gives
(1) from below, and back from there from above (`annealing.py`). It starts from two bases: the means μ,
which are near a posterior of one mode and miss the others where there are more, and half of the field of
the visible units, far from all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..accel.devices import by_device
from ..errors import check_count
from ..estimates import Estimate
from ..machines import trusted
from ..machines.machine import Machine
from ..machines.units.unit import Unit
from ..progress import report_progress
from ..sampling import annealing
from ..sampling.gibbs import run_sweeps
from ..sampling.mean_field import mean_field, variational_bound
from ..sampling.paths import Cooling
from .row_means import RowMeans, mean_error

SETTLE = 20  # sweeps between the two directions
MOST = 3200  # temperatures
AT_ONCE = 2**22  # units of all the chains of some images
ANNEALED = (2**19, 2**22)  # units of all the images that are, on a CPU, on a GPU
FEWEST = 100  # images that are
ITERATIONS = 10  # of mean field where the bound alone is wanted: it has settled by then


@dataclass(frozen=True)
class HiddenSums:
    """Means over images of eq. (1), in both directions, and of the bound (2)."""

    forward: Estimate
    back: Estimate
    mean_field: Tensor  # (e,)
    steps: int
    images: int  # that were annealed

    def interval(self, errors: float) -> tuple[Tensor, Tensor]:
        """The span of both directions, so many standard errors wide, above the proven bound."""
        ways = (self.forward, self.back)
        low = torch.stack([way.value - errors * way.error for way in ways]).amin(0)
        high = torch.stack([way.value + errors * way.error for way in ways]).amax(0)
        return torch.maximum(low, self.mean_field), torch.maximum(high, self.mean_field)


@torch.no_grad()
def hidden_sums(
    machine: Machine,
    visible: Tensor,
    rng: torch.Generator,
    *,
    chains: int = 20,
    weights: Tensor | None = None,
) -> HiddenSums:
    """Eq. (1) averaged over images (d, v), which may have weights (d,), `chains` annealed for each from
    either base; their number of temperatures doubles from 50 to 3,200 until a typical image has half of
    its chains effective."""
    check_count("the number of chains", chains, least=2)
    stride = -(-len(visible) // most_annealed(machine))
    some = visible[::stride]
    step = max(1, AT_ONCE // (machine.replicas * machine.layers.columns * chains))
    parts = [_of_images(machine, images, rng, chains) for images in torch.split(some, step)]
    below, above, below_error, above_error, bound = torch.cat([numbers for numbers, _ in parts], 2)
    own = None if weights is None else weights[::stride]
    proven = RowMeans.of(bound, own).mean
    shift = drawn = torch.zeros_like(proven)
    if stride > 1:
        whole = bounds_of(machine, visible)
        proven = RowMeans.of(whole, weights).mean
        shift = proven - RowMeans.of(whole[:, ::stride], own).mean
        gaps, left = 0.5 * (below + above) - bound, 1.0 - len(some) / len(visible)
        count = RowMeans.of(gaps, own).count
        drawn = gaps.std(1) * (left / count) ** 0.5

    def mean(values: Tensor, errors: Tensor) -> Estimate:  # over images
        error = torch.hypot(mean_error(errors, own), drawn)
        return Estimate(RowMeans.of(values, own).mean + shift, error)

    steps = max(steps for _, steps in parts)
    return HiddenSums(mean(below, below_error), mean(above, above_error), proven, steps, len(some))


def most_annealed(machine: Machine) -> int:
    """Images for each of which the sum is annealed, at most."""
    return max(FEWEST, by_device(machine.device, *ANNEALED) // machine.layers.columns)


@torch.no_grad()
def bounds_of(machine: Machine, visible: Tensor) -> Tensor:
    """Eq. (2) for images (d, v) in float64, (e, d): log p* is not smaller, and that of a restricted
    machine no larger."""
    step = max(1, AT_ONCE // (machine.layers.columns * machine.replicas))
    parts = []
    for images in torch.split(visible, step):
        means = mean_field(machine, images, ITERATIONS)
        parts.append(variational_bound(machine, means, machine.layers.visible))
        report_progress()
    return torch.cat(parts, 1)


def _of_images(
    machine: Machine, visible: Tensor, rng: torch.Generator, chains: int
) -> tuple[Tensor, int]:
    """Eq. (1) from below and above, both errors, and eq. (2), (5, e, d); and the temperatures."""
    means = mean_field(machine, visible, iterations=50)  # (e, d, n)
    e, images, n = means.shape
    given = trusted.with_visible(machine, visible)
    bases = _bases(machine, given, means)
    clamp = torch.arange(n, device=machine.device) < machine.visible
    held = clamp.expand(e, images * chains, n)
    paths = [
        Cooling(
            machine,
            base.repeat_interleave(chains, 1)[None],
            None,
            given.repeat_interleave(chains, 1),
            held,
        )
        for base in bases
    ]
    apart = (e * images, chains)
    steps = 50
    while True:
        betas = [i / steps for i in range(steps + 1)]
        runs = [annealing.forward(path, betas, images * chains, rng) for path in paths]
        logs = [run[0].reshape(apart) for run in runs]
        # The ends of both paths, weighted, are one population; each path takes half of it back.
        ends = torch.cat([run[1].reshape(*apart, n) for run in runs], 1)
        again, _ = annealing.resample(ends, torch.cat(logs, 1), rng)
        ways = []
        for path, log, half in zip(paths, logs, torch.split(again, chains, 1), strict=True):
            settled = run_sweeps(machine, half.reshape(e, -1, n), rng, SETTLE, clamp=clamp)
            forward = annealing.LogMean.of(log)
            back = annealing.LogMean.of(annealing.backward(path, betas, settled, rng).reshape(apart))
            ess = torch.minimum(forward.ess, back.ess)
            ways.append(torch.stack([forward.value, -back.value, forward.error, back.error, ess]))
        near, far = ways  # (5, e·d)
        # An estimate that misses a mode looks certain: the far path is taken where it is good enough.
        sound = (far[4] >= 0.5 * chains) | (_doubt(far) <= _doubt(near))
        taken = torch.where(sound, far, near)
        if float(taken[4].median()) >= 0.5 * chains or 2 * steps > MOST:
            break
        steps *= 2
    bound = variational_bound(machine, means, machine.layers.visible)
    return torch.cat([taken[:4].reshape(4, e, images), bound[None]]), steps


def _bases(machine: Machine, given: Tensor, means: Tensor) -> tuple[Tensor, Tensor]:
    """b⁰ of the two paths, (e, d, n): near the mean-field mode, and far from every mode."""
    edge = 1.0 - 1e-4  # a base that is certain could not be left
    strongest = math.log(2.0 / 1e-4)  # the same of other units, as a field

    def field_of(unit: Unit, mean: Tensor) -> Tensor:
        if unit.mirrored:
            return unit.field_of(mean.clamp(-edge, edge))
        field = unit.field_of(mean)
        return field.clamp(-strongest, strongest) if unit.listed else field

    near = machine.by_layer(field_of, means)
    near[..., : machine.visible] = 0.0
    far = torch.zeros_like(near)
    for layer in machine.layers.hidden:
        far[..., machine.layers.slices[layer]] = 0.5 * trusted.field(machine, given, layer)
    return near, far


def _doubt(way: Tensor) -> Tensor:
    """How far the two directions are apart, and how uncertain they are."""
    return (way[1] - way[0]).square() + way[2].square() + way[3].square()
