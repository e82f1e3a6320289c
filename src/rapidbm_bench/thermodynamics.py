"""How often values of `thermodynamics` by tempering lie within 1.96 of their errors from the exact ones.

Forty machines of each kind, side by side as replicas, at four β. Errors are a jackknife over 20 blocks:
of Student's t with 19 degrees of freedom 93.5 % lie within.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

import rapidbm as rb

from .running import option_parser

MACHINES = 40
BETAS = (0.2, 0.6, 1.0, 1.5)
QUANTITIES = ("log_z", "energy", "heat_capacity", "entropy", "magnetisation", "susceptibility")


def machines() -> dict[str, rb.Machine]:
    found = {
        "restricted, biases": rb.rbm(10, 8, biases=True, scale=0.5, replicas=MACHINES, seed=1),
        "restricted, patterns": rb.rbm(12, 8, patterns=3, scale=0.6, replicas=MACHINES, seed=2),
        "full, biases": rb.bm(10, biases=True, scale=0.4, replicas=MACHINES, seed=3),
        "deep": rb.dbm(6, (5, 4), scale=0.6, replicas=MACHINES, seed=4),
    }
    for machine in found.values():
        if machine.biases is not None:
            machine.biases.data.normal_(0.0, 0.3, generator=torch.Generator().manual_seed(0))
    return found


def run(words: Sequence[str] = ()) -> dict[str, dict[str, float]]:
    """Shares within 1.96 errors; of machines without biases the magnetisation is known, NaN here."""
    option_parser(__name__, __doc__).parse_args(words)
    shares = {}
    for name, machine in machines().items():
        exact = rb.thermodynamics(machine, BETAS, method="exact")
        found = rb.thermodynamics(machine, BETAS, method="tempering", check=False, seed=5)
        shares[name] = {q: _share(getattr(exact, q), getattr(found, q)) for q in QUANTITIES}
    return shares


def _share(exact: rb.Estimate, found: rb.Estimate) -> float:
    if not bool(found.error.any()):
        return float("nan")
    return float(((found.value - exact.value).abs() < 1.96 * found.error).double().mean())
