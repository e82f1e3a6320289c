"""Samplers behind one interface: Gibbs, annealing, parallel tempering, trajectory tempering.

    state = sampler.init(machine, chains, rng)
    state = sampler.step(machine, state, rng)       # as often as wanted
    spins = sampler.spins(state)                    # (e, c, n) at the machine's own temperature

`sample` does this for you, and `mixing` says whether it was enough. A function of (machine, spins, rng)
that answers spins is a sampler too. `rapidbm.testing.check_sampler` is the contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from ..errors import InputError, check_beta, check_count
from ..machines.machine import Machine, scaled
from ..progress import Watch, watch
from ..random import seed_from, stream
from ..registry import Registry, a_class_with
from . import annealing
from .bases import path_to
from .gibbs import sweeps as run_sweeps
from .paths import Cooling, Path, Trajectory, repeat_chains
from .tempering import Walkers, start_walkers, tempering_step

State = TypeVar("State")
Move = Callable[[Machine, Tensor, torch.Generator], Tensor]
HEATED = (0.0, 0.03, 0.1, 0.3)  # β of the first machine where a trajectory starts


@runtime_checkable
class Sampler(Protocol[State]):
    """Draws configurations of a machine; what it carries from step to step is its state."""

    steps: ClassVar[int]  # how many `sample` makes unless told otherwise

    def init(self, machine: Machine, chains: int, rng: torch.Generator) -> State: ...
    def step(self, machine: Machine, state: State, rng: torch.Generator) -> State: ...
    def spins(self, state: State) -> Tensor:
        """The configurations, (e, c, n)."""
        ...


@dataclass(frozen=True)
class Moves:
    """A function as a sampler: chains that start from random spins and follow it."""

    steps: ClassVar[int] = 1000
    move: Move

    def init(self, machine: Machine, chains: int, rng: torch.Generator) -> Tensor:
        return machine.random(chains, rng)

    def step(self, machine: Machine, state: Tensor, rng: torch.Generator) -> Tensor:
        return self.move(machine, state, rng)

    def spins(self, state: Tensor) -> Tensor:
        return state


def as_sampler(sampler: Sampler[Any] | Move | None) -> Sampler[Any]:
    """A sampler, or a function that moves spins as one; Gibbs for None."""
    if sampler is None:
        return Gibbs()
    if isinstance(sampler, type):
        raise InputError(f"give a sampler, not its class: {sampler.__name__}(…)")
    if isinstance(sampler, Sampler):
        return sampler
    if callable(sampler):
        return Moves(sampler)
    raise InputError(
        "a sampler has init, step, spins and steps, or is a function (machine, spins, rng) -> spins, "
        f"not {sampler!r}"
    )


@dataclass(frozen=True)
class Gibbs:
    """`sweeps` Gibbs passes a step, from random spins or from `start` (e, c, n) or (c, n)."""

    steps: ClassVar[int] = 1000
    sweeps: int = 1
    start: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_count("the number of sweeps a step", self.sweeps)

    def init(self, machine: Machine, chains: int, rng: torch.Generator) -> Tensor:
        if self.start is None:
            return machine.random(chains, rng)
        machine.check_chains(chains)
        return repeat_chains(machine.configuration(self.start), chains)

    def step(self, machine: Machine, state: Tensor, rng: torch.Generator) -> Tensor:
        return run_sweeps(machine, state, rng, self.sweeps)

    def spins(self, state: Tensor) -> Tensor:
        return state


@dataclass(frozen=True)
class Annealing:
    """Every step draws anew: chains walk from independent units to the machine along an even
    schedule of about `temperatures`, and are drawn again by their importance weights."""

    steps: ClassVar[int] = 0
    temperatures: int = 1000
    data: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_count("the number of temperatures", self.temperatures, least=2)

    def init(self, machine: Machine, chains: int, rng: torch.Generator) -> Tensor:
        check_count("the number of chains", chains, least=2)
        return self.step(machine, machine.random(chains, rng), rng)

    def step(self, machine: Machine, state: Tensor, rng: torch.Generator) -> Tensor:
        path = path_to(machine, self.data)
        coarse, _ = annealing.pilot(path, rng)
        betas = annealing.resized(coarse, self.temperatures)
        logs, ends = annealing.forward(path, betas, state.shape[1], rng)
        return run_sweeps(machine, annealing.resample(ends, logs, rng)[0], rng, 1)

    def spins(self, state: Tensor) -> Tensor:
        return state


class Tempering(ABC):
    """Walkers on the rungs of a path to the machine; the ladder adapts in `init` to even exchange rates,
    with as many `rungs` as that takes, at `most` so many, unless they are given."""

    steps: ClassVar[int] = 500
    rungs: int | None
    sweeps: int
    most: int

    @abstractmethod
    def path(self, machine: Machine) -> Path: ...

    def __post_init__(self) -> None:
        if self.rungs is not None:
            check_count("the number of rungs", self.rungs, least=2)
        check_count("the number of sweeps a step", self.sweeps)
        check_count("the largest number of rungs", self.most, least=2)

    def init(self, machine: Machine, chains: int, rng: torch.Generator) -> Walkers:
        return start_walkers(self.path(machine), chains, rng, rungs=self.rungs, most=self.most)

    def step(self, machine: Machine, state: Walkers, rng: torch.Generator) -> Walkers:
        return tempering_step(self.path(machine), state, rng, self.sweeps)

    def spins(self, state: Walkers) -> Tensor:
        return state.cold


@dataclass(frozen=True)
class ParallelTempering(Tempering):
    """Walkers between independent units (the data's marginals with `data`) and the machine; the
    ladder adapts in `init` to even exchange rates. `rungs` fixes how many there are."""

    rungs: int | None = None
    sweeps: int = 1
    most: int = 64
    data: Any = field(default=None, compare=False)

    def path(self, machine: Machine) -> Cooling:
        return path_to(machine, self.data, exact=False)


@dataclass(frozen=True)
class TrajectoryTempering(Tempering):
    """Tempering along a training: the rungs are `machines`, such as a run's checkpoints, and machines
    between them, from the first, heated, to the last, which must be the one that is sampled.

    Where a machine heats up through a first-order transition, its own past may be the easier way.
    """

    machines: tuple[Machine, ...]
    rungs: int | None = None
    sweeps: int = 1
    most: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.machines:
            raise InputError("trajectory tempering needs the machines of a training, got none")

    @cached_property
    def trajectory(self) -> Trajectory:
        heated = [scaled(self.machines[0], beta) for beta in HEATED]
        return Trajectory([*heated, *self.machines])

    def path(self, machine: Machine) -> Trajectory:
        return self.trajectory

    def init(self, machine: Machine, chains: int, rng: torch.Generator) -> Walkers:
        ends = self.machines[-1].parameters()
        same = self.machines[-1].layers == machine.layers and all(
            torch.equal(a, b) for a, b in zip(ends, machine.parameters(), strict=True)
        )
        if not same:
            raise InputError(
                "the last machine of a trajectory is the one that is sampled, at β = 1, but this is "
                "another one; end `machines` with it"
            )
        return super().init(machine, chains, rng)


def _states(
    sampler: Sampler[State],
    machine: Machine,
    chains: int,
    steps: int,
    rng: torch.Generator,
    track: Callable[[range], Iterable[int]],
    tick: Watch,
) -> Iterator[State]:
    """The sampler's state at the start and after each step."""
    machine.layers.check_spins("sampling")
    state = sampler.init(machine, chains, rng)
    tick()
    yield state
    for _ in track(range(steps)):
        state = sampler.step(machine, state, rng)
        tick()
        yield state


@torch.no_grad()
def sample(
    machine: Machine,
    chains: int,
    *,
    sampler: Sampler[Any] | Move | None = None,
    steps: int | None = None,
    beta: float = 1.0,
    seed: int | None = None,
    rng: torch.Generator | None = None,
    track: Callable[[range], Iterable[int]] = iter,
    limit: float | None = None,
) -> Tensor:
    """Configurations (e, chains, n) after so many steps of a sampler (Gibbs by default); after `limit`
    seconds it gives up.

    Examples:
        >>> machine = rb.rbm(16, 8, seed=0)
        >>> rb.sample(machine, 100, steps=10, seed=0).shape
        torch.Size([1, 100, 24])
    """
    machine.check_chains(chains)
    check_beta(beta)
    sampler = as_sampler(sampler)
    steps = sampler.steps if steps is None else steps
    check_count("the number of steps", steps, least=0)
    if beta != 1.0:
        machine = scaled(machine, beta)
    rng = stream(seed_from(seed, rng), "sample", device=machine.device)
    with watch("sampling", 1 + steps, limit=limit, remedy="take fewer chains or steps=") as tick:
        for state in _states(sampler, machine, chains, steps, rng, track, tick):
            last = state
    return sampler.spins(last)


@torch.no_grad()
def record(
    machine: Machine,
    chains: int,
    steps: int,
    *,
    sampler: Sampler[Any] | Move | None = None,
    skip: int | None = None,
    every: int = 1,
    seed: int | None = None,
    rng: torch.Generator | None = None,
    track: Callable[[range], Iterable[int]] = iter,
    limit: float | None = None,
) -> tuple[Tensor, Any]:
    """Time series of configurations as int8, (e, chains, steps, n), and the sampler's last state.

    The first `skip` steps are left out (as many as are recorded, unless told otherwise), and of the
    rest each `every`-th is kept. After `limit` seconds it gives up.

    Examples:
        >>> machine = rb.rbm(16, 8, seed=0)
        >>> series, state = rb.record(machine, 4, 10, sampler=rb.Gibbs(), seed=0)
        >>> series.shape
        torch.Size([1, 4, 10, 24])
    """
    machine.check_chains(chains)
    check_count("the number of recorded steps", steps)
    machine.check_chains(chains, steps=steps)
    check_count("the steps between two recorded ones", every)
    skip = steps * every if skip is None else skip
    check_count("the number of skipped steps", skip, least=0)
    sampler = as_sampler(sampler)
    rng = stream(seed_from(seed, rng), "record", device=machine.device)
    kept, count = [], skip + steps * every
    with watch("recording", 1 + count, limit=limit, remedy="take fewer chains or steps") as tick:
        states = _states(sampler, machine, chains, count, rng, track, tick)
        for number, state in enumerate(states):
            if number > skip and (number - skip) % every == 0:
                kept.append(sampler.spins(state).to(torch.int8))
    return torch.stack(kept, 2), state


SAMPLERS: Registry[type[Sampler[Any]]] = Registry(
    "sampler",
    {
        "gibbs": Gibbs,
        "annealing": Annealing,
        "pt": ParallelTempering,
        "trajectory": TrajectoryTempering,
    },
    "rapidbm.samplers",
    a_class_with("init", "step", "spins", "steps"),
)
