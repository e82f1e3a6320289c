"""Exact sums over all states: which of three ways takes the fewest terms.

    enumeration    the states of the layers that are not free (`machines/enumeration.py`)
    counting       the states by the kinds of their units (`counting.py`)
    quadrature     the points of a lattice of Gaussian fields (`quadrature.py`)

The choice is made here, for log Z and for moments.
"""

from __future__ import annotations

from ..errors import InputError
from ..machines.enumeration import check_states, most_states, states_of
from ..machines.machine import Machine
from .counting import can_count, terms_of
from .quadrature import can_integrate, points_of

LARGEST = 2**33  # terms of counting or quadrature; 250 million take half a minute on two cores
QUICK = 2**20  # terms that are summed where nobody names a method
TERMS = {
    "counting": "terms of states counted by the kinds of units",
    "quadrature": "points of a lattice of Gaussian fields",
    "enumeration": "states",
}


def _costs(machine: Machine, beta: float, half: bool) -> dict[str, int]:
    """How many terms each way takes; `half` of the states do where s and −s weigh the same."""
    costs = {}
    if can_count(machine):
        costs["counting"] = terms_of(machine)
    if can_integrate(machine):
        costs["quadrature"] = points_of(machine, beta)
    states = states_of(machine.layers)
    return costs | {"enumeration": max(1, states // 2) if half else states}


def exact_method(machine: Machine, beta: float, *, half: bool, what: str) -> tuple[str, int]:
    """The way with the fewest terms, and how many they are; raises InputError where they are too many."""
    costs = _costs(machine, beta, half)
    method = min(costs, key=lambda name: costs[name])
    if method == "enumeration":
        check_states(machine.layers, largest=most_states(machine.device), what=what)
    elif costs[method] > LARGEST:
        raise InputError(
            f"{what} of this machine takes {costs[method]:,} terms by {method}, more than "
            f"{LARGEST:,}; use a sampled method"
        )
    return method, costs[method]


def can_be_exact(machine: Machine, largest: int | None = None, beta: float = 1.0) -> bool:
    """True when log Z takes at most so many terms."""
    terms = min(_costs(machine, beta, machine.symmetric).values())
    return terms <= (largest or most_states(machine.device))
