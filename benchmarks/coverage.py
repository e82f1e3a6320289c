"""How often annealing's bounds hold: random and trained machines that can be enumerated.

200 machines: RBM, DBM and BM, dense and patterns, with and without biases, of several strengths, half of
them trained on 4×4 bars. Each is annealed on its own with the default settings.
"""

import warnings

import torch

from rapidbm.data import load
from rapidbm.errors import LoadWarning
from rapidbm.likelihood import log_z
from rapidbm.machine import Machine, bm, dbm, rbm
from rapidbm.negative import Persistent
from rapidbm.optim import adam
from rapidbm.streams import generator
from rapidbm.training import train


def built(graph: str, patterns: int | None, biases: bool, scale: float, seed: int) -> Machine:
    options = {"patterns": patterns, "scale": scale, "biases": biases, "seed": seed}
    if graph == "rbm":
        machine = rbm(16, 10, **options)
    elif graph == "dbm":
        machine = dbm(16, (8, 6), **options)
    else:
        machine = bm(16, 2 if patterns else 0, **options)
    if biases:
        noise = torch.randn(machine.biases.shape, generator=generator(seed, "biases"))
        machine.biases.data.copy_(0.5 * noise)
    return machine


def machines() -> list[Machine]:
    data = load("bars4")
    found = []
    for seed in range(200):
        graph = ("rbm", "dbm", "bm")[seed % 3]
        patterns = (None, 3)[seed // 3 % 2]
        biases = bool(seed // 6 % 2)
        trained = seed >= 100
        strength = (0.5, 1.0, 1.5, 2.0)[seed // 12 % 4]
        scale = strength * (0.2 if patterns is None else 0.5)
        machine = built(graph, patterns, biases, 0.1 if trained else scale, seed)
        if trained:
            for _ in train(
                machine,
                data.train,
                Persistent(100, 2),
                adam(0.01),
                epochs=(20, 40, 80, 160)[seed % 4],
                batch_size=5,
                seed=seed,
            ):
                pass
        found.append(machine.requires_grad_(False))
    return found


def run() -> dict[str, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoadWarning)
        made = machines()
    inside, ordered, widths = 0, 0, []
    for seed, machine in enumerate(made):
        exact = float(log_z(machine, method="exact").lower)
        found = log_z(machine, method="ais", seed=seed)
        low, high = (float(x) for x in found.interval)
        inside += low <= exact <= high
        # lower ≤ exact ≤ upper, each within its own 95 % error
        below, above = float(found.lower), float(found.upper)
        ordered += min(below, low) <= exact <= max(above, high)
        widths.append(high - low)
    return {
        "machines": len(made),
        "share of intervals that hold the exact log Z": inside / len(made),
        "lower ≤ exact ≤ upper within the errors": ordered / len(made),
        "median width, nat": float(torch.tensor(widths).median()),
        "widest, nat": max(widths),
    }
