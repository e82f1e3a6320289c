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
from ..machines.machine import Machine, scaled, weakened
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
    """Protocol of samplers: draws configurations of a machine, carrying a state from step to step.

    `sample` and `record` do the loop. `rapidbm.testing.check_sampler` tests an implementation. `steps`
    is the number of steps that `sample` makes by default.

    Examples
    --------
    >>> isinstance(rb.Gibbs(), rb.Sampler)
    True
    """

    steps: ClassVar[int]  # how many `sample` makes unless told otherwise

    def init(self, machine: Machine, chains: int, rng: torch.Generator) -> State:
        """The state to start from.

        Parameters
        ----------
        machine : Machine
            The machine to sample.
        chains : int
            Number of chains.
        rng : torch.Generator
            Source of random numbers.

        Returns
        -------
        state
            Whatever `step` and `spins` take.
        """
        ...

    def step(self, machine: Machine, state: State, rng: torch.Generator) -> State:
        """The state after one step; the given state is left as it is.

        Parameters
        ----------
        machine : Machine
            The machine to sample.
        state : state
            From `init` or `step`.
        rng : torch.Generator
            Source of random numbers.

        Returns
        -------
        state
            The next state.
        """
        ...

    def spins(self, state: State) -> Tensor:
        """The configurations of a state.

        Parameters
        ----------
        state : state
            From `init` or `step`.

        Returns
        -------
        Tensor of shape (e, c, n)
            Spins ±1 at the machine's own temperature.
        """
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
    """Sampler by block-Gibbs sweeps.

    Parameters
    ----------
    sweeps : int, default 1
        Gibbs sweeps per step.
    start : Tensor of shape (e, c, n) or (c, n), optional
        Where chains start; by default at random spins.

    Examples
    --------
    >>> rb.sample(rb.rbm(16, 8, seed=0), 10, sampler=rb.Gibbs(sweeps=2), steps=5, seed=0).shape
    torch.Size([1, 10, 24])
    """

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
    """Sampler that draws anew at every step: annealed importance sampling with resampling.

    Chains go from independent units to the machine along an even schedule and are resampled by their
    importance weights.

    Parameters
    ----------
    temperatures : int, default 1000
        About how many temperatures the schedule has, at least 2.
    data : Split or array of shape (samples, v), optional
        Start from the marginals of these data instead of the biases.

    Examples
    --------
    >>> machine = rb.rbm(8, 4, seed=0)
    >>> rb.sample(machine, 20, sampler=rb.Annealing(temperatures=10), seed=0).shape
    torch.Size([1, 20, 12])
    """

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
    """Sampler by parallel tempering between independent units and the machine.

    The temperatures adapt in `init` until neighbours exchange at even rates.

    Parameters
    ----------
    rungs : int, optional
        Number of temperatures; by default as many as the exchange rates need.
    sweeps : int, default 1
        Gibbs sweeps per step.
    most : int, default 64
        Largest number of temperatures.
    data : Split or array of shape (samples, v), optional
        The hottest rung has the marginals of these data instead of the biases.

    Examples
    --------
    >>> sampler = rb.ParallelTempering(rungs=8)  # for `sample` and `record`
    >>> sampler.sweeps, sampler.most
    (1, 64)
    """

    rungs: int | None = None
    sweeps: int = 1
    most: int = 64
    data: Any = field(default=None, compare=False)

    def path(self, machine: Machine) -> Cooling:
        """The path of temperatures.

        Parameters
        ----------
        machine : Machine
            The machine at its cold end.

        Returns
        -------
        Cooling
            From independent units to the machine.
        """
        return path_to(machine, self.data, exact=False)


@dataclass(frozen=True)
class TrajectoryTempering(Tempering):
    """Sampler by tempering along a training: the rungs are the training's own checkpoints.

    Where a machine passes a first-order transition in temperature, its own past may be the easier way.

    Parameters
    ----------
    machines : tuple of Machine
        Checkpoints in order; the last must be the machine that is sampled.
    rungs : int, optional
        Number of rungs; by default as many as the exchange rates need. Machines are interpolated.
    sweeps : int, default 1
        Gibbs sweeps per step.
    most : int, default 64
        Largest number of rungs.

    Raises
    ------
    InputError
        If there are no machines, or the last one is not the one to sample.

    Examples
    --------
    >>> machines = tuple(rb.rbm(8, 4, scale=s, seed=0) for s in (0.1, 0.2))
    >>> sampler = rb.TrajectoryTempering(machines)  # samples machines[-1]
    >>> len(sampler.machines)
    2
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
        """The machines of the path, with heated copies of the first before it."""
        heated = [weakened(self.machines[0], beta) for beta in HEATED]
        return Trajectory([*heated, *self.machines])

    def path(self, machine: Machine) -> Trajectory:
        """The path along the training.

        Parameters
        ----------
        machine : Machine
            The machine at its end.

        Returns
        -------
        Trajectory
            From the first machine, heated, to the last.
        """
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
    """Configurations that a sampler draws from a machine.

    Parameters
    ----------
    machine : Machine
        The machine.
    chains : int
        Number of independent chains; each gives one configuration.
    sampler : Sampler or callable, optional
        `Gibbs()` by default. A function `(machine, spins, rng) -> spins` works too.
    steps : int, optional
        Steps of the sampler; by default `sampler.steps` (1,000 of Gibbs).
    beta : float, default 1.0
        Inverse temperature.
    seed : int, optional
        Seed of the draws.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    track : callable, optional
        Wraps the range of steps, for a progress bar.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    Tensor of shape (e, chains, n)
        Columns of all layers, of spins ±1; `[..., :machine.visible]` are the visible ones, whose values
        `machine.layers.decode` gives.

    Examples
    --------
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
    """Time series of configurations, and the sampler's last state.

    Parameters
    ----------
    machine : Machine
        The machine.
    chains : int
        Number of independent chains.
    steps : int
        Number of recorded steps.
    sampler : Sampler or callable, optional
        `Gibbs()` by default.
    skip : int, optional
        Steps before the first recorded one; by default as many as the recording takes.
    every : int, default 1
        Record every so many steps.
    seed : int, optional
        Seed of the draws.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    track : callable, optional
        Wraps the range of steps, for a progress bar.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    series : Tensor of shape (e, chains, steps, n)
        Columns of all layers, of spins ±1; int8, but where a state is no whole number of the machine's
        type.
    state : state of the sampler
        After the last step; of tempering it has exchange rates and round trips.

    Examples
    --------
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
    kind = machine.layers.recorded or machine.dtype
    with watch("recording", 1 + count, limit=limit, remedy="take fewer chains or steps") as tick:
        states = _states(sampler, machine, chains, count, rng, track, tick)
        for number, state in enumerate(states):
            if number > skip and (number - skip) % every == 0:
                kept.append(sampler.spins(state).to(kind))
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
