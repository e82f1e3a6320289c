"""Ground states, exact where that can be had and with a proven bound where it cannot.

Over the free units of an enumeration the energy has its minimum in closed form,

    min_free E = E(s; free = 0) − Σ_{i free} |field_i|                                    (1)

so that the ground state of an RBM costs 2^min(V, H) states, half of them without biases. Patterns have a
second way, polynomial in the number of units (`zonotope.py`). Beyond both, many starts descend or cool
down,

    β_t = β_0 (β_1 / β_0)^{t/T},        β_0 = 0.1 / max_l F_l,   β_1 = 10 / min_l F_l         (2)

with F_l the typical field on layer l in a random state, and the lowest energy stands above the bound of
`lower_bound.py`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..display import Displayable
from ..errors import InputError, check_choice, check_count
from ..exchange.dimod_samplers import read_spins, sampler_of, takes
from ..machines import trusted
from ..machines.enumeration import (
    LARGEST,
    check_states,
    enumerate_spins,
    free_layers,
    given_energy,
    states_of,
)
from ..machines.machine import Machine, scaled
from ..machines.units.spin import SPIN
from ..progress import watch, watched
from ..random import seed_from, stream
from ..sampling.bases import path_to
from ..sampling.gibbs import run_sweeps
from ..sampling.quench import quench
from ..sampling.tempering import start_walkers, tempering_step
from .lower_bound import lower_bound
from .zonotope import LARGEST as LARGEST_ZONOTOPE
from .zonotope import Zonotope, lowest_spins, too_many, zonotopes

WORTH = 2**22  # states that "auto" enumerates
WORTH_ZONOTOPE = 2**23  # candidates that it searches: about a second for a thousand units
EXACT = ("exact", "enumeration", "zonotope")
SAME = 1e-6  # energies this close, relatively, are one


@dataclass(frozen=True, repr=False)
class GroundState(Displayable):
    """The lowest energy of each replica, a configuration that has it, and how certain it is.

    Attributes
    ----------
    energy : Tensor of shape (e,), float64
        Lowest energy found.
    spins : Tensor of shape (e, n)
        A configuration with this energy.
    method : str
        "exact", or the name of the search.
    bound : Tensor of shape (e,)
        Proven lower bound on the energy; the energy itself when that is exact.
    found : Tensor of shape (e,)
        Share of the starts that ended at this energy; 1 when exact.
    effort : str
        What was computed, in words.
    """

    energy: Tensor  # (e,) float64
    spins: Tensor  # (e, n)
    method: str  # "exact", or the name of the heuristic
    bound: Tensor  # (e,): no configuration lies below; the energy itself when that is exact
    found: Tensor  # (e,): the share of the starts that came to this energy; 1 when exact
    effort: str


@watched("the ground state", remedy="take method='descent', or fewer starts and sweeps")
def ground_state(
    machine: Machine,
    *,
    method: str = "auto",
    starts: int = 100,
    sweeps: int = 100,
    seed: int | None = None,
    rng: torch.Generator | None = None,
    limit: float | None = None,
    sampler: Any = None,
    parameters: Mapping[str, Any] | None = None,
) -> GroundState:
    """The ground state of each replica: exact where feasible, else the best of a search, with a bound.

    Parameters
    ----------
    machine : Machine
        A machine of spins.
    method : str, default "auto"
        "auto" is exact where that takes seconds, else the best of "descent" (from patterns and random
        states) and "annealing". "tempering" is a search by parallel tempering. "exact" takes the cheaper
        of "enumeration" and "zonotope" (few patterns).
    starts : int, default 100
        Number of starts of a search.
    sweeps : int, default 100
        Gibbs sweeps of annealing, or turns of tempering.
    seed : int, optional
        Seed of the search.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.
    sampler : dimod sampler or str, optional
        Search by this sampler, or by "sa" or "tabu": `starts` samples, each followed by descent.
    parameters : mapping, optional
        Passed to the sampler.

    Returns
    -------
    GroundState
        Energy, configuration and lower bound of each replica.

    Raises
    ------
    InputError
        If an exact method is asked for that is out of reach.

    Examples
    --------
    >>> found = rb.ground_state(rb.rbm(30, 40, patterns=2, seed=0))
    >>> found.method, bool(found.energy == found.bound)
    ('exact', True)
    """
    machine.layers.check_spins("the ground state")
    check_choice("method", method, (*EXACT, "auto", *HEURISTICS))
    check_count("the number of starts", starts)
    check_count("the number of sweeps", sweeps)
    if sampler is not None:
        if method != "auto":
            raise InputError(f"a sampler is a method of its own: give sampler= or method={method!r}")
        rng = stream(seed_from(seed, rng), "ground", device=machine.device)
        found = partial(_sampled, sampler_of(sampler), parameters or {})
        return _best_of(machine, {"dimod": found}, starts, sweeps, rng)
    if parameters is not None:
        raise InputError("parameters are those of a sampler; give sampler=, or leave them out")
    if method == "enumeration":
        return _by_enumeration(machine)
    if method == "zonotope":
        return _by_zonotope(machine, zonotopes(machine))
    names = [method]
    if method in ("exact", "auto"):
        plan = zonotopes(machine)
        candidates = math.inf if plan is None else max(z.candidates for z in plan)
        states = states_of(machine.layers) // (2 if machine.symmetric else 1)
        limits = (LARGEST, LARGEST_ZONOTOPE) if method == "exact" else (WORTH, WORTH_ZONOTOPE)
        if states_of(machine.layers) <= limits[0] and states <= candidates:
            return _by_enumeration(machine)
        if candidates <= limits[1]:
            return _by_zonotope(machine, plan)
        if method == "exact":
            raise _out_of_reach(machine, plan)
        names = ["descent", "annealing"]
    rng = stream(seed_from(seed, rng), "ground", device=machine.device)
    return _best_of(machine, {name: HEURISTICS[name] for name in names}, starts, sweeps, rng)


# -- exact --------------------------------------------------------------------------------------------


def _out_of_reach(machine: Machine, plan: list[Zonotope] | None) -> InputError:
    more = ""
    if plan is not None:
        dearest = max(plan, key=lambda z: z.candidates)
        more = f"; its zonotope has {too_many(dearest)}, more than {LARGEST_ZONOTOPE:,}"
    try:
        check_states(machine.layers, what="the exact ground state")
    except InputError as error:
        return InputError(f"{error}{more}; method='auto' searches and bounds instead")
    raise AssertionError("an enumeration within its limit was refused")


def _fill(machine: Machine, spins: Tensor) -> Tensor:
    """The free units, at 0, follow their fields; spins are (e, n)."""
    for layer, where in enumerate(machine.layers.slices):
        follow = machine.unit(layer).nearest(trusted.field(machine, spins[:, None], layer)).squeeze(1)
        spins[:, where] = torch.where(spins[:, where] == 0, follow, spins[:, where])
    return spins


def _proven(machine: Machine, exact: Machine, spins: Tensor, effort: str) -> GroundState:
    """`exact` is the machine in float64."""
    energy = exact.energy(spins[:, None]).squeeze(1)
    one = torch.ones_like(energy)
    return GroundState(energy, spins.to(machine.dtype), "exact", energy, one, effort)


@torch.no_grad()
def _by_enumeration(machine: Machine) -> GroundState:
    check_states(machine.layers, what="the exact ground state")
    exact = copy.deepcopy(machine).double()
    free = free_layers(exact.layers)
    best = torch.full((exact.replicas,), torch.inf, dtype=exact.dtype, device=exact.device)
    spins = torch.zeros((exact.replicas, exact.layers.columns)).to(best)  # (e, n)
    count = 0
    with watch("enumeration", states_of(exact.layers) // (1 + exact.symmetric)) as tick:
        for states in enumerate_spins(exact, half=exact.symmetric):
            count += states.shape[1]
            energy = given_energy(exact, states, free)
            for layer in free:
                energy -= trusted.field(exact, states, layer).abs_().sum(-1)
            lowest, where = energy.min(1)
            better = lowest < best
            best = torch.where(better, lowest, best)
            rows = where[:, None, None].expand(-1, 1, states.shape[2])
            spins = torch.where(better[:, None], states.gather(1, rows).squeeze(1), spins)
            tick(count)
    return _proven(machine, exact, _fill(exact, spins), f"{count:,} states")


@torch.no_grad()
def _by_zonotope(machine: Machine, plan: list[Zonotope] | None) -> GroundState:
    spins, effort = lowest_spins(machine, plan)
    exact = copy.deepcopy(machine).double()
    # Two corners that differ by less than the search's rounding: descent takes the lower one.
    spins = quench(exact, _fill(exact, spins)[:, None]).squeeze(1)
    return _proven(machine, exact, spins, effort)


# -- heuristic ----------------------------------------------------------------------------------------


@torch.no_grad()
def _patterns_and_random(machine: Machine, starts: int, sweeps: int, rng: torch.Generator) -> Tensor:
    """The patterns and their negatives, whole and with all but the visible layer inferred, and random
    states."""
    random = machine.random(starts, rng)
    if machine.patterns is None:
        return random
    whole = SPIN.nearest(machine.patterns)  # (e, k, n)
    whole = torch.cat([whole, -whole], 1)
    seen = trusted.with_visible(machine, whole[..., : machine.visible])
    for layer in sorted(machine.layers.hidden, key=lambda i: machine.layers.depths[i]):
        seen[..., machine.layers.slices[layer]] = SPIN.nearest(trusted.field(machine, seen, layer))
    return torch.cat([whole, seen, random], 1)


def _scales(machine: Machine, spins: Tensor) -> tuple[Tensor, Tensor]:
    """β_0 and β_1 of eq. (2), (e,), from random states."""
    count = range(len(machine.layers.sizes))
    sizes = torch.stack([trusted.field(machine, spins, i).square().mean((1, 2)).sqrt() for i in count])
    largest = sizes.amax(0)  # of (layers, e)
    smallest = torch.where(sizes > 0, sizes, torch.inf).amin(0)
    none = largest == 0  # no field anywhere: any temperature will do
    return torch.where(none, 1.0, 0.1 / largest), torch.where(none, 1.0, 10.0 / smallest)


@torch.no_grad()
def _annealing(machine: Machine, starts: int, sweeps: int, rng: torch.Generator) -> Tensor:
    """Random states cooled down as in eq. (2), each replica on its own scale."""
    spins = machine.random(starts, rng)
    hot, cold = _scales(machine, spins)
    with watch("annealing", sweeps) as tick:
        for step in range(sweeps):
            beta = hot * (cold / hot) ** (step / max(sweeps - 1, 1))  # (e,)
            spins = run_sweeps(machine, spins, rng, beta=beta[:, None].expand(-1, starts))
            tick()
    return spins


@torch.no_grad()
def _tempering(machine: Machine, starts: int, sweeps: int, rng: torch.Generator) -> Tensor:
    """The lowest of the walkers of parallel tempering, on all rungs down to the last temperature of
    eq. (2); each replica on its own ladder."""
    coldest = []
    for i in range(machine.replicas):
        one = machine.replica(i)
        random = one.random(starts, rng)
        _, cold = _scales(one, random)
        # From free spins: biases as strong as this would hold them already at the hot end.
        path = path_to(scaled(one, float(cold)), exact=False)
        walkers = start_walkers(path, starts, rng)
        with watch(f"tempering of replica {i}", sweeps) as tick:
            for _ in range(sweeps):
                walkers = tempering_step(path, walkers, rng)
                tick()
        lowest = one.energy(walkers.spins)[0].argsort()[:starts]
        coldest.append(walkers.spins[:, lowest])
    return torch.cat(coldest)


@torch.no_grad()
def _sampled(
    sampler: Any,
    parameters: Mapping[str, Any],
    machine: Machine,
    starts: int,
    sweeps: int,
    rng: torch.Generator,
) -> Tensor:
    """What a sampler of dimod answers."""
    own = {"num_sweeps": sweeps} if takes(sampler, "num_sweeps") else {}
    return read_spins(sampler, machine, starts, rng, parameters={**own, **parameters})


# Name → function(machine, starts, sweeps, rng) → candidates (e, c, n); each of them then descends.
Heuristic = Callable[[Machine, int, int, torch.Generator], Tensor]
HEURISTICS: dict[str, Heuristic] = {
    "descent": _patterns_and_random,
    "annealing": _annealing,
    "tempering": _tempering,
}


@torch.no_grad()
def _best_of(
    machine: Machine,
    searches: Mapping[str, Heuristic],
    starts: int,
    sweeps: int,
    rng: torch.Generator,
) -> GroundState:
    exact = copy.deepcopy(machine).double()
    candidates = torch.cat([search(machine, starts, sweeps, rng) for search in searches.values()], 1)
    spins = quench(exact, candidates)
    energies = exact.energy(spins)  # (e, c)
    energy, where = energies.min(1)
    reached = energies <= (energy + SAME * energy.abs())[:, None]
    best = spins.gather(1, where[:, None, None].expand(-1, 1, spins.shape[2])).squeeze(1)
    bound = lower_bound(machine)
    annealed = f", {sweeps} sweeps each" if list(searches) not in (["descent"], ["dimod"]) else ""
    return GroundState(
        energy,
        best.to(machine.dtype),
        "+".join(searches),
        bound.energy,
        reached.double().mean(1),
        f"{spins.shape[1]:,} starts{annealed}; bound {bound.method}",
    )
