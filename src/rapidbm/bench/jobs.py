"""What is timed: updates of this library, of a plain loop in torch, and of the paper's 4×4 bars."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from ..data.catalogue import load
from ..errors import LoadWarning
from ..machines.machine import Machine, rbm
from ..random import generator
from ..runs.recipe import Recipe
from ..sampling.gibbs import sweeps as gibbs_sweeps
from ..training.negative import PatternInduced, Persistent
from ..training.optimisers import adam, sgd
from ..training.projections import Clip
from ..training.trainer import Trainer
from .clock import Action

BATCHES = 4  # in the data
PER_CALL = 40  # updates of the bars: ten epochs


@dataclass(frozen=True)
class Size:
    """A restricted machine, its chains and images per update (as many), and its replicas."""

    visible: int
    hidden: int
    patterns: int | None = None
    chains: int = 500
    replicas: int = 1

    def __str__(self) -> str:
        kind = "dense" if self.patterns is None else f"K={self.patterns}"
        return f"{self.visible}×{self.hidden}, {kind}"


def machine(size: Size, device: torch.device, seed: int, *, biases: bool = True) -> Machine:
    with warnings.catch_warnings():  # sizes are swept, not chosen
        warnings.simplefilter("ignore", LoadWarning)
        return rbm(
            size.visible,
            size.hidden,
            size.patterns,
            replicas=size.replicas,
            biases=biases,
            scale=0.1 if size.patterns else 0.01,
            seed=seed,
            device=device,
        )


def images(size: Size, device: torch.device, seed: int) -> Tensor:
    """Random images with a fifth of the pixels up, {0, 1}."""
    rng = generator(seed, "images", device=device)
    shape = (BATCHES * size.chains, size.visible)
    return (torch.rand(shape, generator=rng, device=device) < 0.2).float()


def ours(size: Size, sweeps: int, device: torch.device, seed: int) -> Action:
    """An update of persistent chains with Adam."""
    trainer = Trainer(
        machine(size, device, seed),
        (images(size, device, seed) * 2 - 1).to(torch.int8),
        Persistent(size.chains, sweeps),
        adam(1e-3),
        epochs=10**9,
        batch_size=size.chains,
        seed=seed,
    )
    return trainer.step


def rapid(size: Size, sweeps: int, images: int, device: torch.device, seed: int) -> Action:
    """An update of the paper's training on MNIST: PID, SGD, patterns in [−1, 1]."""
    rng = generator(seed, "images", device=device)
    shape = (BATCHES * images, size.visible)
    trainer = Trainer(
        machine(size, device, seed, biases=False),
        (torch.rand(shape, generator=rng, device=device) < 0.2).to(torch.int8) * 2 - 1,
        PatternInduced(sweeps),
        sgd(1e-3),
        epochs=10**9,
        batch_size=images,
        projection=Clip(1.0),
        batch_mean="nominal",
        seed=seed,
    )
    return trainer.step


def gibbs(
    size: Size, sweeps: int, device: torch.device, seed: int, *, biases: bool = True
) -> Action:
    """So many sweeps in one call."""
    made = machine(size, device, seed, biases=biases).requires_grad_(False)
    rng = generator(seed, "sweeps", device=device)
    spins = made.random(size.chains, rng)
    return lambda: gibbs_sweeps(made, spins, rng, sweeps, means=True)


def plain(size: Size, sweeps: int, device: torch.device, seed: int) -> Action:
    """What anyone would write: dense couplings, {0, 1} units, torch.bernoulli, Adam."""
    data, batch = images(size, device, seed), size.chains
    weights = 0.01 * torch.randn(size.visible, size.hidden, device=device)
    parameters = [weights, *(torch.zeros(n, device=device) for n in (size.visible, size.hidden))]
    w, a, b = (torch.nn.Parameter(p) for p in parameters)
    optimizer = torch.optim.Adam([w, a, b], 1e-3)
    chains = torch.bernoulli(torch.full((batch, size.visible), 0.5, device=device))

    @torch.no_grad()
    def update() -> None:
        nonlocal chains
        v = data[torch.randint(len(data), (batch,), device=device)]
        h = torch.sigmoid(v @ w + b)
        for _ in range(sweeps):
            up = torch.bernoulli(torch.sigmoid(chains @ w + b))
            chains = torch.bernoulli(torch.sigmoid(up @ w.T + a))
        model = torch.sigmoid(chains @ w + b)
        w.grad = (chains.T @ model - v.T @ h) / batch
        a.grad, b.grad = chains.mean(0) - v.mean(0), model.mean(0) - h.mean(0)
        optimizer.step()

    return update


def bars(replicas: int, device: torch.device, seed: int = 1) -> Action:
    """`PER_CALL` updates of the paper's training on 4×4 bars."""
    recipe = Recipe.made("bars4", {"replicas": replicas, "seed": seed}, "paper-bars")
    data = load("bars4")
    trainer = Trainer(
        recipe.machine(data, device),
        data.train.spins,
        recipe.negative_phase(),
        recipe.optimizer_choice(),
        epochs=10**9,
        batch_size=recipe.batch_size,
        projection=recipe.projection_choice(),
        batch_mean="nominal",
        seed=seed,
    )

    def updates() -> None:
        for _ in range(PER_CALL):
            trainer.step()

    return updates
