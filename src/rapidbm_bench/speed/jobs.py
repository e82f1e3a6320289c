"""What is timed: updates, sampling and annealing of this library, updates of a plain loop in torch, and
updates and looks of the paper's 4×4 bars."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from rapidbm.machines.constructors import bm, dbm, rbm
from rapidbm.machines.machine import Machine
from rapidbm.random import stream
from rapidbm.runs.metrics import measured
from rapidbm.runs.recipe import Recipe
from rapidbm.sampling import annealing
from rapidbm.sampling.bases import path_to
from rapidbm.sampling.gibbs import sweeps as gibbs_sweeps
from rapidbm.sampling.tempering import new_walkers, tempering_step
from rapidbm.training.negative import NegativePhase, PatternInduced, Persistent
from rapidbm.training.optimisers import Optimizer, adam, sgd
from rapidbm.training.projections import Clip
from rapidbm.training.trainer import Trainer

from ..clock import Action

BATCHES = 4  # in the data
PER_CALL = 40  # updates of the bars (ten epochs), or of a small machine


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


def images(size: Size, device: torch.device, seed: int, batches: int = BATCHES) -> Tensor:
    """Random images with a fifth of the pixels up, {0, 1}."""
    rng = stream(seed, "images", device=device)
    shape = (batches * size.chains, size.visible)
    return (torch.rand(shape, generator=rng, device=device) < 0.2).float()


def ours(size: Size, sweeps: int, device: torch.device, seed: int) -> Action:
    """An update of persistent chains with Adam."""
    made, negative = machine(size, device, seed), Persistent(size.chains, sweeps)
    return _trainer(made, size, negative, adam(1e-3), seed).step


def rapid(size: Size, sweeps: int, images: int, device: torch.device, seed: int) -> Action:
    """An update of the paper's training on MNIST: PID, SGD, patterns in [−1, 1]."""
    made, data = machine(size, device, seed, biases=False), replace(size, chains=images)
    more: dict[str, Any] = {"projection": Clip(1.0), "batch_mean": "nominal"}
    return _trainer(made, data, PatternInduced(sweeps), sgd(1e-3), seed, **more).step


def epoch(size: Size, sweeps: int, device: torch.device, seed: int) -> Action:
    """`PER_CALL` updates of persistent chains by SGD, as `train` makes them."""
    made, negative = machine(size, device, seed), Persistent(size.chains, sweeps)
    return _trainer(made, size, negative, sgd(0.01), seed, PER_CALL).finish_epoch


def deep(hidden: tuple[int, ...], size: Size, sweeps: int, device: torch.device, seed: int) -> Action:
    """An update of a deep machine; of `size` all but the hidden units."""
    options: dict[str, Any] = {"biases": True, "scale": 0.1, "seed": seed, "device": device}
    made = dbm(size.visible, hidden, size.patterns, **options)
    return _trainer(made, size, Persistent(size.chains, sweeps), adam(1e-3), seed).step


def full(size: Size, sweeps: int, device: torch.device, seed: int) -> Action:
    """An update of a fully connected machine."""
    options: dict[str, Any] = {"biases": True, "scale": 0.1, "seed": seed, "device": device}
    made = bm(size.visible, size.hidden, size.patterns, **options)
    return _trainer(made, size, Persistent(size.chains, sweeps), adam(1e-3), seed).step


def _trainer(
    made: Machine,
    size: Size,
    negative: NegativePhase,
    optimizer: Optimizer,
    seed: int,
    batches: int = BATCHES,
    **more: Any,
) -> Trainer:
    """A training without an end on random images."""
    data = (images(size, made.device, seed, batches) * 2 - 1).to(torch.int8)
    more |= {"epochs": 10**9, "batch_size": size.chains, "seed": seed}
    return Trainer(made, data, negative, optimizer, **more)


def gibbs(
    size: Size,
    sweeps: int,
    device: torch.device,
    seed: int,
    *,
    biases: bool = True,
    held: int = 0,
) -> Action:
    """So many sweeps in one call; one unit in `held` stays."""
    made = machine(size, device, seed, biases=biases).requires_grad_(False)
    rng = stream(seed, "sweeps", device=device)
    spins = made.random(size.chains, rng)
    clamp = torch.arange(made.layers.columns, device=device) % held == 0 if held else None
    return lambda: gibbs_sweeps(made, spins, rng, sweeps, clamp=clamp, means=True)


def annealed(
    size: Size, steps: int, device: torch.device, seed: int, *, data: bool, back: bool
) -> Action:
    """So many temperatures between free spins, or the marginals of `data` and their mirror image, and the
    machine, or on the way back."""
    made = machine(size, device, seed).requires_grad_(False)
    rng = stream(seed, "annealing", device=device)
    path = path_to(made, images(size, device, seed, 1) if data else None)
    betas = torch.linspace(0, 1, steps + 1, dtype=torch.float64).tolist()
    spins = made.random(size.chains, rng)
    if back:
        return lambda: annealing.backward(path, betas, spins, rng)
    return lambda: annealing.forward(path, betas, size.chains, rng)


def tempered(size: Size, rungs: int, turns: int, device: torch.device, seed: int) -> Action:
    """So many turns of parallel tempering with `size.chains` on every rung."""
    made = machine(size, device, seed).requires_grad_(False)
    rng = stream(seed, "tempering", device=device)
    path = path_to(made, exact=False)
    places = torch.linspace(0, 1, rungs, dtype=torch.float64, device=device)
    walkers = new_walkers(places[None], path.start(rungs * size.chains, rng))

    def work() -> None:
        nonlocal walkers
        for _ in range(turns):
            walkers = tempering_step(path, walkers, rng)

    return work


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
    recipe = _bars_recipe(replicas, seed)
    trainer = recipe.trainer(recipe.data(), device)

    def updates() -> None:
        for _ in range(PER_CALL):
            trainer.step()

    return updates


def look(replicas: int, device: torch.device, seed: int = 1) -> Action:
    """All metrics that the paper's training on 4×4 bars evaluates at a look."""
    recipe = _bars_recipe(replicas, seed)
    data = recipe.data()
    made, rng = recipe.trainer(data, device).machine, stream(seed, "look", device=device)
    return lambda: [measured(name, made, data, rng) for name in recipe.metrics]


def _bars_recipe(replicas: int, seed: int) -> Recipe:
    return Recipe.made("bars4", {"replicas": replicas, "seed": seed, "epochs": 10**9}, "paper-bars")
