"""One update of persistent chains on a CPU, beside what else trains restricted machines.

Dense 784×500, batch and chains 500: rapidbm, a plain loop in torch, `rbms` if it is installed, and for
one sweep scikit-learn. Then Regularized Axons, K=40 at 784×500 and K=190 at 784×3000, against plain
loops of the same sizes. All in one process, rounds alternating.
"""

import warnings
from collections.abc import Callable

import torch

from rapidbm.errors import LoadWarning
from rapidbm.machine import rbm
from rapidbm.negative import Persistent
from rapidbm.optim import adam
from rapidbm.streams import generator
from rapidbm.training import Trainer

from .clock import interleaved

VISIBLE, BATCH = 784, 500


def images() -> torch.Tensor:
    """Random images with a fifth of the pixels up, {0, 1}."""
    return (torch.rand((4 * BATCH, VISIBLE), generator=generator(0)) < 0.2).float()


def ours(hidden: int, patterns: int | None, sweeps: int) -> Callable[[], None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoadWarning)
        machine = rbm(
            VISIBLE, hidden, patterns, biases=True, scale=0.1 if patterns else 0.01, seed=0
        )
    trainer = Trainer(
        machine,
        (images() * 2 - 1).to(torch.int8),
        Persistent(BATCH, sweeps),
        adam(1e-3),
        epochs=10**6,
        batch_size=BATCH,
        positive=None,
        projection=None,
        batch_mean="true",
        average=None,
        seed=0,
    )
    return trainer.step


def plain(hidden: int, sweeps: int) -> Callable[[], None]:
    """What anyone would write: {0, 1} units, torch.bernoulli, Adam."""
    data = images()
    weights = torch.nn.Parameter(0.01 * torch.randn(VISIBLE, hidden))
    a, b = torch.nn.Parameter(torch.zeros(VISIBLE)), torch.nn.Parameter(torch.zeros(hidden))
    optimizer = torch.optim.Adam([weights, a, b], 1e-3)
    chains = torch.bernoulli(torch.full((BATCH, VISIBLE), 0.5))

    @torch.no_grad()
    def update() -> None:
        nonlocal chains
        v = data[torch.randint(len(data), (BATCH,))]
        h = torch.sigmoid(v @ weights + b)
        for _ in range(sweeps):
            up = torch.bernoulli(torch.sigmoid(chains @ weights + b))
            chains = torch.bernoulli(torch.sigmoid(up @ weights.T + a))
        model = torch.sigmoid(chains @ weights + b)
        weights.grad = (chains.T @ model - v.T @ h) / BATCH
        a.grad, b.grad = chains.mean(0) - v.mean(0), model.mean(0) - h.mean(0)
        optimizer.step()

    return update


def by_rbms(hidden: int, sweeps: int) -> Callable[[], None] | None:
    """`rbms` (Decelle, Béreux and others), if it is installed: pip install rapidbm[bench]."""
    try:
        from rbms.bernoulli_bernoulli.classes import BBRBM
        from rbms.training.pcd import fit_batch_pcd
    except ImportError:
        return None
    data, ones = images(), torch.ones(BATCH)
    machine = BBRBM(0.01 * torch.randn(VISIBLE, hidden), torch.zeros(VISIBLE), torch.zeros(hidden))
    for parameter in machine.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer = torch.optim.SGD(machine.parameters(), 1e-2, maximize=True)
    chains = machine.init_chains(BATCH)

    @torch.no_grad()
    def update() -> None:
        nonlocal chains
        batch = (data[torch.randint(len(data), (BATCH,))], ones)
        optimizer.zero_grad(set_to_none=False)
        chains, _ = fit_batch_pcd(batch, chains, machine, sweeps, 1.0)
        optimizer.step()

    return update


def by_sklearn(hidden: int) -> Callable[[], None]:
    """scikit-learn's BernoulliRBM: one sweep of as many chains as the batch has images."""
    from sklearn.neural_network import BernoulliRBM

    data = images()[:BATCH].numpy()
    model = BernoulliRBM(hidden, learning_rate=0.01, batch_size=BATCH, random_state=0)
    return lambda: model.partial_fit(data)


def run() -> dict[str, float]:
    jobs = {
        "rapidbm, dense, PCD-10": ours(500, None, 10),
        "plain torch, PCD-10": plain(500, 10),
        "rbms, PCD-10": by_rbms(500, 10),
        "rapidbm, dense, PCD-1": ours(500, None, 1),
        "rapidbm, K=40, PCD-10": ours(500, 40, 10),
        "rapidbm, 784×3000, K=190, PCD-10": ours(3000, 190, 10),
        "plain torch, 784×3000, PCD-10": plain(3000, 10),
        "scikit-learn, PCD-1": by_sklearn(500),
    }
    there = {name: job for name, job in jobs.items() if job is not None}
    times = interleaved(there, 7)
    found = {f"ms per update, {name}": 1e3 * t for name, t in times.items()}
    mine = times["rapidbm, dense, PCD-10"]
    for peer in ("plain torch, PCD-10", "rbms, PCD-10"):
        if peer in times:
            found[f"{peer} over rapidbm"] = times[peer] / mine
    found["scikit-learn over rapidbm, PCD-1"] = (
        times["scikit-learn, PCD-1"] / times["rapidbm, dense, PCD-1"]
    )
    found["plain torch over rapidbm with K=40"] = (
        times["plain torch, PCD-10"] / times["rapidbm, K=40, PCD-10"]
    )
    found["plain torch over rapidbm, 784×3000, K=190"] = (
        times["plain torch, 784×3000, PCD-10"] / times["rapidbm, 784×3000, K=190, PCD-10"]
    )
    return found
