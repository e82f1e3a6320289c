"""A linear probe: how much of the labels can be read off features, such as sampled hidden spins.

    min over W, b of   −(1/S) Σ_s log softmax(W x_s + b)_{y_s}  +  (λ/2) |W|²             (1)

Multinomial logistic regression, convex, to its minimum by L-BFGS on the features' own device; λ is the
one whose classifier does best on validation data. scikit-learn's C is 1/(λ S). The search takes
the features less their mean: b, which costs nothing, makes up for it, and far fewer steps are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rapidbm.display import Displayable
from rapidbm.errors import InputError
from rapidbm.machines import trusted
from rapidbm.machines.machine import Machine
from rapidbm.machines.spins import as_spins
from rapidbm.machines.units.spin import SPIN
from rapidbm.progress import Watch, report_progress, watch, watched

STRENGTHS = (0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5)
PATIENCE = 2  # weaker ones in a row that do no better, and the rest is not tried
ROOM = 2**33  # bytes that features may take as float32


@dataclass(frozen=True, repr=False)
class Probe(Displayable):
    """A fitted classifier and how often it is right."""

    weights: Tensor  # (features, classes)
    offsets: Tensor  # (classes,)
    strength: float  # λ
    validation: float  # accuracy there

    def accuracy(self, features: Tensor, labels: Tensor) -> float:
        """The share of labels that it gets right."""
        right = 0
        for x, y in _batches(features, labels):
            right += int(((x @ self.weights + self.offsets).argmax(1) == y).sum())
        return right / len(labels)


@watched("the probe", remedy="take fewer strengths or iterations")
def fit_probe(
    features: Tensor,
    labels: Tensor,
    validation: tuple[Tensor, Tensor],
    *,
    strengths: Sequence[float] = STRENGTHS,
    iterations: int = 100,
    limit: float | None = None,
) -> Probe:
    """The best of the probes (1), one per λ; ties go to the stronger λ."""
    if len(features) != len(labels) or features.dim() != 2:
        raise InputError(
            f"a probe needs features (samples, f) and as many labels, not {tuple(features.shape)} "
            f"and {tuple(labels.shape)}"
        )
    classes = int(max(labels.max(), validation[1].max())) + 1
    if features.numel() * 4 <= ROOM:  # converted once instead of at every step
        features = features.float()
    mean = torch.stack([x.sum(0) for x, _ in _batches(features, labels)]).sum(0) / len(labels)
    parameters = torch.zeros((features.shape[1] + 1, classes), device=features.device, requires_grad=True)
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")  # a line search does not bear rounded slopes
    try:
        return _best(parameters, mean, features, labels, validation, strengths, iterations)
    finally:
        torch.set_float32_matmul_precision(precision)


def _best(
    parameters: Tensor,
    mean: Tensor,
    features: Tensor,
    labels: Tensor,
    validation: tuple[Tensor, Tensor],
    strengths: Sequence[float],
    iterations: int,
) -> Probe:
    best: Probe | None = None
    worse = 0
    for strength in sorted(strengths, reverse=True):  # each starts where the stronger one ended
        with watch(f"strength {strength:g}", iterations) as tick:
            _minimise(parameters, mean, features, labels, strength, iterations, tick)
        found = parameters.detach().clone()
        probe = Probe(found[:-1], found[-1] - mean @ found[:-1], strength, 0.0)
        score = probe.accuracy(*validation)
        if best is None or score > best.validation:
            best, worse = Probe(probe.weights, probe.offsets, strength, score), 0
        else:
            worse += 1
        if worse == PATIENCE:
            break
    assert best is not None
    return best


def _minimise(
    parameters: Tensor,
    mean: Tensor,
    features: Tensor,
    labels: Tensor,
    strength: float,
    iterations: int,
    tick: Watch,
) -> None:
    search = torch.optim.LBFGS(
        [parameters],
        max_iter=iterations,
        history_size=20,
        tolerance_grad=1e-5,
        tolerance_change=1e-8,
        line_search_fn="strong_wolfe",
    )

    def loss() -> Tensor:
        tick()
        search.zero_grad()
        with torch.no_grad():
            total = 0.5 * strength * parameters[:-1].square().sum()
            gradient = torch.zeros_like(parameters)
            gradient[:-1] = strength * parameters[:-1]
            offsets = parameters[-1] - mean @ parameters[:-1]
            for x, y in _batches(features, labels):
                # Few classes: on a CPU the transposed products are several times faster.
                scores = (parameters[:-1].mT @ x.mT).mT + offsets
                logits = torch.log_softmax(scores, 1)
                total = total - logits.gather(1, y[:, None]).sum() / len(labels)
                error = logits.exp()  # p − 1 at the true class is the slope of the loss
                error.scatter_add_(1, y[:, None], torch.full_like(error[:, :1], -1.0))
                gradient[:-1] += (error.mT @ x).mT / len(labels)
                gradient[-1] += error.sum(0) / len(labels)
            gradient[:-1] -= torch.outer(mean, gradient[-1])
        parameters.grad = gradient
        return total

    search.step(loss)  # type: ignore[no-untyped-call]


def _batches(features: Tensor, labels: Tensor, elements: int = 2**28) -> list[tuple[Tensor, Tensor]]:
    step = max(1, elements // features.shape[1])
    return [
        (x.float(), y)
        for x, y in zip(torch.split(features, step), torch.split(labels, step), strict=True)
    ]


@torch.no_grad()
def hidden_samples(machine: Machine, visible: Any, rng: torch.Generator) -> Tensor:
    """One draw of the hidden spins given each image, (samples, h) int8; a machine of one replica."""
    if machine.replicas != 1 or not machine.layers.hidden_independent:
        raise InputError(
            "hidden samples need a restricted machine of one replica; take machine.replica(i)"
        )
    images = as_spins(visible, what="visible data")
    drawn = []
    step = max(1, 2**26 // machine.layers.columns)
    for some in torch.split(images, step):
        report_progress()
        spins = trusted.with_visible(machine, some)
        fields = [trusted.field(machine, spins, i) for i in machine.layers.hidden]
        field = torch.cat(fields, -1)[0]
        uniform = torch.rand(field.shape, generator=rng, device=field.device)
        drawn.append((uniform < SPIN.up(field)).to(torch.int8) * 2 - 1)
    return torch.cat(drawn)
