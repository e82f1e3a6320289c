"""Negative phase: the model average in the gradient of the log-likelihood.

    ∂ log p(v) / ∂θ  =  −⟨∂E/∂θ⟩_data  +  ⟨∂E/∂θ⟩_model                                  (1)

Every estimator answers with weighted spins, so training evaluates (1) in one way. What an estimator
carries from one update to the next is a plain tensor of chains, (e, c, n) with c = 0 for none; columns
after the n spins are the estimator's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from ..accel.ranks import portion, portions
from ..errors import InputError, check_choice, check_count, is_number
from ..likelihood.chow_liu import ChowLiuTree
from ..machines import trusted
from ..machines.ensembles import AllStates, Ensemble, WeightedSpins, given_visible
from ..machines.enumeration import check_states
from ..machines.machine import Machine
from ..machines.units.spin import SPIN
from ..registry import Registry, a_class_with, setting
from ..sampling.bases import own_biases
from ..sampling.gibbs import run_sweeps
from ..sampling.mean_field import mean_field
from ..sampling.paths import Cooling
from ..sampling.tempering import eased_rungs, exchange_all
from .annealer import Annealer
from .positive import Weighted


class NegativePhase(Protocol):
    """Protocol of negative phases: estimators of the model average in the gradient.

    `rapidbm.testing.check_negative_phase` tests an implementation. Optional methods: `configurations`,
    the configurations of a step, and `split`, the phase in parts for several shards.

    Examples
    --------
    >>> machine = rb.rbm(4, 3, seed=0)
    >>> phase, rng = rb.Exact(), rb.stream(0, "phase")
    >>> average, chains = phase.step(machine, phase.init(machine, rng), None, rng)
    >>> type(average).__name__
    'AllStates'
    """

    def init(self, machine: Machine, rng: torch.Generator) -> Tensor:
        """The chains to start with.

        Parameters
        ----------
        machine : Machine
            The machine to train.
        rng : torch.Generator
            Source of random numbers.

        Returns
        -------
        Tensor of shape (e, c, n) or wider
            Chains; c is 0 for a phase without any.

        Raises
        ------
        InputError
            If the phase does not work for this machine.
        """
        ...

    def step(
        self, machine: Machine, chains: Tensor, data: Tensor, rng: torch.Generator
    ) -> tuple[Ensemble, Tensor]:
        """Weighted configurations for one update, and the chains for the next.

        Parameters
        ----------
        machine : Machine
            The machine at this update; it is not changed.
        chains : Tensor
            From `init` or the last `step`; not changed.
        data : Tensor of shape (e, b, v)
            The batch, ±1.
        rng : torch.Generator
            Source of random numbers.

        Returns
        -------
        ensemble : WeightedSpins or another ensemble
            Configurations whose weights sum to one.
        chains : Tensor
            Chains of the same shape.
        """
        ...


SplitPhases = list[tuple[NegativePhase, float | None]]
COUNTED = 2**23  # updates that float32 counts exactly


@runtime_checkable
class Splits(Protocol):
    """Protocol of negative phases that can be cut into shards (`shards.py`)."""

    def split(self, machine: Machine, count: int) -> SplitPhases:
        """The phase of each shard, and its share in the model average.

        Parameters
        ----------
        machine : Machine
            The machine that is trained.
        count : int
            Number of shards.

        Returns
        -------
        list of (NegativePhase, float or None)
            Shares sum to one; None stands for the share of the shard's rows, 0 for a shard without work.
        """
        ...


@runtime_checkable
class HasConfigurations(Protocol):
    """Protocol of negative phases that can show the spins that they average over."""

    def configurations(
        self, machine: Machine, chains: Tensor, data: Tensor, rng: torch.Generator
    ) -> Tensor:
        """The spins of one step, before any of them become means.

        Parameters
        ----------
        machine : Machine
            The machine at this update.
        chains : Tensor
            Chains of the phase.
        data : Tensor of shape (e, b, v)
            The batch, ±1.
        rng : torch.Generator
            Source of random numbers.

        Returns
        -------
        Tensor of shape (e, c, n)
            Configurations.
        """
        ...


@dataclass(frozen=True)
class Exact:
    """Negative phase by summing over all states with their Boltzmann weights.

    Layers that can be summed in closed form are not enumerated. For machines of up to 2^20 states.

    Examples
    --------
    >>> machine, data = rb.rbm(16, 8, seed=0), rb.load("bars4")
    >>> steps = rb.train(machine, data.train, rb.Exact(), rb.sgd(0.1), epochs=1, batch_size=10, seed=0)
    >>> next(steps).update
    1
    """

    capturable: ClassVar[bool] = True

    largest: ClassVar[int] = 2**20  # states; each update runs through all of them

    def init(self, machine: Machine, rng: torch.Generator) -> Tensor:
        check_states(machine.layers, largest=self.largest, what="the exact negative phase")
        return _no_chains(machine)

    def step(
        self, machine: Machine, chains: Tensor, data: Tensor, rng: torch.Generator
    ) -> tuple[AllStates, Tensor]:
        return AllStates(machine), chains

    def split(self, machine: Machine, count: int) -> SplitPhases:
        return [(self, float(i == 0)) for i in range(count)]  # the states are summed over once


@dataclass(frozen=True)
class ContrastiveDivergence:
    """Negative phase CD-k: Gibbs sweeps that start from the batch.

    Chains count by the weights of the rows that they start from.

    Parameters
    ----------
    sweeps : int, default 1
        Gibbs sweeps per update (k).

    Examples
    --------
    >>> rb.ContrastiveDivergence(10).sweeps
    10
    """

    capturable: ClassVar[bool] = True
    row_by_row: ClassVar[bool] = True  # configuration i starts from row i of the batch

    sweeps: int = setting(1, "Gibbs sweeps per update, from the data")

    def __post_init__(self) -> None:
        check_count("the number of sweeps of contrastive divergence", self.sweeps)

    def init(self, machine: Machine, rng: torch.Generator) -> Tensor:
        return _no_chains(machine)

    def step(
        self, machine: Machine, chains: Tensor, data: Tensor, rng: torch.Generator
    ) -> tuple[Weighted, Tensor]:
        spins = self.configurations(machine, chains, data, rng)
        return machine.smoothed(spins), chains

    def configurations(
        self, machine: Machine, chains: Tensor, data: Tensor, rng: torch.Generator
    ) -> Tensor:
        start = trusted.with_visible(machine, data)
        return run_sweeps(machine, start, rng, self.sweeps)

    def split(self, machine: Machine, count: int) -> SplitPhases:
        return [(self, None)] * count


@dataclass(frozen=True)
class Persistent:
    """Negative phase PCD-k: chains that live through the training.

    Chains that live forever cannot notice a state far from all of them that comes to outweigh the data.
    Two options help; both put the number of the update beside the spins of a chain, (e, c, n + 1).

    With a `lifetime` L each chain restarts after L updates, one after another, and counts again when a
    share `REST` of its life is over. Chain i of c restarts at the update that is, modulo L,

        t_i = ⌈(i + 1) L / c⌉ − 1                                                            (2)

    `scouts`, the last of the chains, start at sign(ξ) of one pattern after the other, and at the mirror
    image the next time. They live for `FORAY` sweeps and count after a share `RELAXED` of these. With
    `born="patterns"` the other chains restart at patterns, too: chain i at pattern i mod K, mirrored
    where ⌊i/K⌋ is odd. docs/training.md shows when this matters.

    Parameters
    ----------
    particles : int, default 1000
        Number of chains.
    sweeps : int, default 1
        Gibbs sweeps per update (k).
    lifetime : int, default 0
        Updates after which a chain restarts; 0 means never.
    born : {"random", "patterns"}, default "random"
        Where a chain restarts: at random spins or at the patterns.
    scouts : float, default 0.0
        Share of the chains that start at the patterns, every 200 sweeps; below 1.
    start : ChowLiuTree, optional
        The tree that the machine is at the start: the first chains are its samples.

    Raises
    ------
    InputError
        If scouts would leave no persistent chain, or `born="patterns"` has no lifetime.

    Examples
    --------
    >>> rb.Persistent(100, sweeps=5, scouts=0.1).scouting
    10
    """

    capturable: ClassVar[bool] = True

    particles: int = setting(1000, "chains that live through the training")
    sweeps: int = setting(1, "Gibbs sweeps of the chains per update")
    lifetime: int = setting(0, "updates after which a chain starts anew; 0: never", least=0)
    born: Literal["random", "patterns"] = setting(
        "random", "where a chain starts anew: at random spins, or at the patterns"
    )
    scouts: float = setting(
        0.0, "share of the particles that start at the patterns, again every 200 sweeps", least=0
    )
    start: ChowLiuTree | None = None

    REST: ClassVar[float] = 0.05
    FORAY: ClassVar[int] = 200
    RELAXED: ClassVar[float] = 0.25

    def __post_init__(self) -> None:
        check_count("the number of particles", self.particles)
        check_count("the number of sweeps of persistent chains", self.sweeps)
        check_count("the lifetime of a chain", self.lifetime, least=0)
        check_choice("birth of a chain", self.born, ("random", "patterns"))
        if not (is_number(self.scouts) and 0 <= self.scouts < 1 and self.scouting < self.particles):
            raise InputError(
                f"scouts are a share of the particles, from 0 to below 1, and {self.scouts!r} of "
                f"{self.particles} would leave none that persist; 0.1 serves well (--scouts)"
            )
        if self.born == "patterns" and not self.lifetime:
            raise InputError(
                "chains are born at patterns when they start anew, and these live for ever; give a "
                "lifetime (--lifetime), or leave born (--born) out"
            )

    @property
    def scouting(self) -> int:
        """Number of scouts."""
        return max(1, round(self.scouts * self.particles)) if self.scouts else 0

    @property
    def foray(self) -> int:
        """Updates that a scout lives."""
        return -(-self.FORAY // self.sweeps)

    def init(self, machine: Machine, rng: torch.Generator) -> Tensor:
        for name, given in (("scouts", bool(self.scouts)), ("born", self.born == "patterns")):
            if given and machine.patterns is None:
                raise InputError(
                    "chains that start at patterns need couplings built from them, but these are dense; "
                    f"build the machine with patterns=K (--patterns K), or leave {name} (--{name}) out"
                )
        if self.start is None:
            spins = machine.random(self.particles, rng)
        else:
            spins = self.start.states(machine, self.particles, rng)
        counted = self.lifetime or self.scouts
        return torch.cat([spins, torch.zeros_like(spins[..., :1])], 2) if counted else spins

    def step(
        self, machine: Machine, chains: Tensor, data: Tensor, rng: torch.Generator
    ) -> tuple[Weighted, Tensor]:
        if not self.lifetime and not self.scouts:
            chains = run_sweeps(machine, chains, rng, self.sweeps)
            return machine.smoothed(chains), chains
        spins, now = chains[..., :-1], chains[0, 0, -1].long()
        count = spins.shape[1] - self.scouting
        lasting, scouts = spins[:, :count], spins[:, count:]
        olds = []
        if self.lifetime:
            lasting = self._renewed(machine, lasting, now, self.lifetime, rng)
            olds.append(_rested(count, now, self.lifetime, self.REST))
        else:
            olds.append(torch.ones(count, dtype=torch.bool, device=spins.device))
        if self.scouts:
            scouts = self._renewed(machine, scouts, now, self.foray, None)
            olds.append(_rested(self.scouting, now, self.foray, self.RELAXED))
        spins = torch.cat([lasting, scouts], 1) if self.scouts else lasting
        spins = run_sweeps(machine, spins, rng, self.sweeps)
        old = torch.cat(olds)
        weights = (old / old.sum()).to(spins.dtype).expand(spins.shape[:2])
        model = replace(machine.smoothed(spins), weights=weights)
        after = ((now + 1) % self._cycle(machine)).to(spins.dtype).expand(*spins.shape[:2], 1)
        return model, torch.cat([spins, after], 2)

    def _cycle(self, machine: Machine) -> int:
        """Updates after which the count of them begins anew: all patterns have had their turn."""
        if not self.scouts or machine.patterns is None:
            return self.lifetime
        once = math.lcm(self.lifetime or 1, self.foray)
        lives = -(-2 * machine.patterns.shape[1] // self.scouting)
        return once * max(1, min(lives, COUNTED // once))

    def _renewed(
        self, machine: Machine, spins: Tensor, now: Tensor, life: int, rng: torch.Generator | None
    ) -> Tensor:
        """The chains with those born again whose time has come, eq. (2); without `rng` as scouts."""
        count = spins.shape[1]
        time = now % life
        first, last = (torch.div(x * count, life, rounding_mode="floor") for x in (time, time + 1))
        rows = first + torch.arange(-(-count // life), device=spins.device)
        places = rows % count  # of more than come at any one time
        if rng is None:  # patterns that follow those of the life before
            new = _at_patterns(machine, places + torch.div(now, life, rounding_mode="floor") * count)
        elif self.born == "patterns":
            new = _at_patterns(machine, places)
        else:
            new = machine.random(len(places), rng)
        return spins.index_copy(
            1, places, torch.where((rows < last)[:, None], new, spins.index_select(1, places))
        )

    def configurations(
        self, machine: Machine, chains: Tensor, data: Tensor, rng: torch.Generator
    ) -> Tensor:
        return chains[..., : machine.layers.columns]

    def split(self, machine: Machine, count: int) -> SplitPhases:
        each = portions(self.particles, count)
        return [
            (replace(self, particles=n or 1, scouts=self.scouts if n > 1 else 0.0), n / self.particles)
            for n in each
        ]


def _at_patterns(machine: Machine, numbers: Tensor) -> Tensor:
    """sign(ξ) of these patterns, (e, c, n): number k is pattern k mod K, where ⌊k/K⌋ is odd its mirror
    image."""
    assert machine.patterns is not None  # init refuses dense couplings
    xi = machine.patterns.detach()  # (e, k, n)
    count = xi.shape[1]
    signs = 1 - 2 * (torch.div(numbers, count, rounding_mode="floor") % 2)
    chosen = xi.index_select(1, numbers % count)
    if machine.layers.spins:
        return SPIN.nearest(chosen) * signs[:, None].to(xi.dtype)
    return nearest_states(machine, chosen * signs[:, None].to(xi.dtype))


def _rested(count: int, now: Tensor, life: int, rest: float) -> Tensor:
    """Which of so many chains have lived for long enough to count, (c,)."""
    each = torch.arange(1, count + 1, device=now.device) * life
    born = torch.div(each - 1, count, rounding_mode="floor")
    old = (now - born) % life >= int(rest * life)
    return old | ~old.any()  # where all are young they have to serve


@dataclass(frozen=True)
class PatternInduced:
    """Negative phase PID: the patterns stand in for low-energy samples.

    docs/decisions/pid.md compares the two choices of `units`.

    Parameters
    ----------
    sweeps : int, default 0
        Gibbs sweeps per update from the patterns; with 0 no Monte Carlo is needed.
    units : {"visible", "all"}, default "visible"
        "visible" takes sign(ξ_v) and infers the hidden units (conditional means; mean field in deep and
        full machines). "all" takes sign(ξ) on every unit, as the paper's Algorithm 1 reads.
    part : tuple of int, default (0, 1)
        Which part of the patterns, and of how many; set by `split`.

    Examples
    --------
    >>> machine, data = rb.rbm(16, 8, patterns=4, seed=0), rb.load("bars4")
    >>> phase, optimiser = rb.PatternInduced(), rb.sgd(0.01)
    >>> steps = rb.train(machine, data.train, phase, optimiser, epochs=1, batch_size=10, seed=0)
    >>> next(steps).update
    1
    """

    capturable: ClassVar[bool] = True

    sweeps: int = setting(0, "Gibbs sweeps per update, from the patterns")
    units: Literal["visible", "all"] = "visible"  # no option of the command: "all" does not learn
    part: tuple[int, int] = (0, 1)  # of the patterns: its number, of so many

    def __post_init__(self) -> None:
        check_count("the number of sweeps from the patterns", self.sweeps, least=0)
        check_choice("choice of pattern units", self.units, ("visible", "all"))

    def init(self, machine: Machine, rng: torch.Generator) -> Tensor:
        if machine.patterns is None:
            raise InputError(
                "pattern-induced correlations need couplings built from patterns, but these are "
                "dense; build the machine with patterns=K (--patterns K), or use another negative "
                "phase, 'cd' or 'pcd' (--negative)"
            )
        return _no_chains(machine)

    def step(
        self, machine: Machine, chains: Tensor, data: Tensor, rng: torch.Generator
    ) -> tuple[Weighted, Tensor]:
        if self.units == "visible" and not self.sweeps:
            visible = self._visible(machine)  # k configurations
            if machine.layers.hidden_independent:
                return given_visible(machine, visible), chains
            means = mean_field(machine, visible, iterations=30)
            return WeightedSpins.equal(means, machine.layers.hidden), chains
        spins = self.configurations(machine, chains, data, rng)
        return (machine.smoothed(spins) if self.sweeps else WeightedSpins.equal(spins)), chains

    def configurations(
        self, machine: Machine, chains: Tensor, data: Tensor, rng: torch.Generator
    ) -> Tensor:
        xi = self._patterns(machine)
        if not self.sweeps:
            return nearest_states(machine, xi)
        if self.units == "visible":
            spins = trusted.with_visible(machine, self._visible(machine))
        else:
            spins = nearest_states(machine, xi)
        return run_sweeps(machine, spins, rng, self.sweeps)

    def _visible(self, machine: Machine) -> Tensor:
        """The states of the patterns on the visible columns, (e, k, v)."""
        xi = self._patterns(machine)
        if machine.layers.visible_spins:
            return SPIN.nearest(xi[..., : machine.visible])
        return nearest_states(machine, xi)[..., : machine.visible]

    def _patterns(self, machine: Machine) -> Tensor:
        assert machine.patterns is not None  # init refuses dense couplings
        xi = machine.patterns.detach()  # (e, k, n)
        return xi if self.part == (0, 1) else xi[:, portion(xi.shape[1], *self.part)]

    def split(self, machine: Machine, count: int) -> SplitPhases:
        whole = 1 if machine.patterns is None else machine.patterns.shape[1]
        each = enumerate(portions(whole, count))
        return [(replace(self, part=(i, count)), n / whole) for i, n in each]


@dataclass(frozen=True)
class Tempered:
    """Negative phase PT: persistent chains at several temperatures that are exchanged.

    β runs from 0 (the biases alone) to 1. Temperatures move until all neighbours exchange equally often,
    so that they follow the machine. A chain carries its β beside its spins, (e, c, n + 1).

    Parameters
    ----------
    particles : int, default 100
        Chains at each temperature.
    rungs : int, default 10
        Number of temperatures, at least 2.
    sweeps : int, default 1
        Gibbs sweeps per update.

    Examples
    --------
    >>> rb.Tempered(particles=20, rungs=5).sweeps
    1
    """

    capturable: ClassVar[bool] = True

    particles: int = setting(100, "chains on every rung")
    rungs: int = setting(10, "temperatures of the ladder")
    sweeps: int = setting(1, "Gibbs sweeps of the chains per update")

    pace: ClassVar[float] = 0.1  # how fast the gaps of the ladder follow their rates

    def __post_init__(self) -> None:
        check_count("the number of particles", self.particles)
        check_count("the number of rungs", self.rungs, least=2)
        check_count("the number of sweeps of tempered chains", self.sweeps)

    def init(self, machine: Machine, rng: torch.Generator) -> Tensor:
        spins = machine.random(self.rungs * self.particles, rng)
        ladder = torch.linspace(0, 1, self.rungs, dtype=machine.dtype, device=machine.device)
        return self._chains(spins, ladder.expand(machine.replicas, -1))

    def _chains(self, spins: Tensor, ladder: Tensor) -> Tensor:
        return torch.cat([spins, ladder.repeat_interleave(self.particles, 1)[..., None]], 2)

    def ladder(self, chains: Tensor) -> Tensor:
        """The inverse temperatures of a state.

        Parameters
        ----------
        chains : Tensor of shape (e, c, n + 1)
            State of the phase.

        Returns
        -------
        Tensor of shape (e, rungs)
            β of every rung, rising.
        """
        return chains[:, :: self.particles, -1]

    def step(
        self, machine: Machine, chains: Tensor, data: Tensor, rng: torch.Generator
    ) -> tuple[Weighted, Tensor]:
        path = Cooling(machine, own_biases(machine), exact=False)
        ladder, spins = self.ladder(chains), chains[..., :-1]
        for _ in range(self.sweeps):
            spins, rates = exchange_all(path, spins, ladder, rng)
            spins = path.move(spins, rng, ladder)
            ladder = eased_rungs(ladder, rates, self.pace)
        return machine.smoothed(spins[:, -self.particles :]), self._chains(spins, ladder)

    def configurations(
        self, machine: Machine, chains: Tensor, data: Tensor, rng: torch.Generator
    ) -> Tensor:
        return chains[:, -self.particles :, :-1]

    def split(self, machine: Machine, count: int) -> SplitPhases:
        each = portions(self.particles, count)  # each shard has a ladder of its own
        return [(replace(self, particles=n or 1), n / self.particles) for n in each]


def nearest_states(machine: Machine, xi: Tensor) -> Tensor:
    """The states of patterns (e, k, n): of units whose states are listed the state of lowest energy in
    the field ξ, sign(ξ) of spins, arg max over the columns of a categorical unit; of real units the mean
    given the others, of which there is a field in place of a state."""
    near = machine.by_layer(lambda unit, x: unit.nearest(x), xi)
    layers = machine.layers
    real = tuple(i for i in layers.order if not layers.kinds[i].listed)
    return trusted.infer(machine, near, real) if real else near


def _no_chains(machine: Machine) -> Tensor:
    return torch.empty(
        (machine.replicas, 0, machine.layers.columns), dtype=machine.dtype, device=machine.device
    )


NEGATIVE: Registry[type[NegativePhase]] = Registry(
    "negative phase",
    {
        "exact": Exact,
        "cd": ContrastiveDivergence,
        "pcd": Persistent,
        "pid": PatternInduced,
        "pt": Tempered,
        "dimod": Annealer,
    },
    "rapidbm.negative_phases",
    a_class_with("init", "step"),
)
