"""Negative phase: the model average in the gradient of the log-likelihood.

    ∂ log p(v) / ∂θ  =  −⟨∂E/∂θ⟩_data  +  ⟨∂E/∂θ⟩_model                                  (1)

Every estimator answers with weighted spins, so training evaluates (1) in one way. What an estimator
carries from one update to the next is a plain tensor of chains, (e, c, n) with c = 0 for none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from .couplings import Patterns
from .enumeration import AllStates, check_states
from .errors import InputError, check_choice, check_count
from .gibbs import sweeps as run_sweeps
from .machine import Machine
from .positive import mean_field
from .spins import WeightedSpins, sign


class NegativePhase(Protocol):
    """An estimator of the model average; `rapidbm.testing.check_negative_phase` is its contract."""

    def init(self, machine: Machine, rng: torch.Generator) -> Tensor:
        """The chains to start with; raises InputError for a machine that it cannot serve."""
        ...

    def step(
        self, machine: Machine, chains: Tensor, data: Tensor, rng: torch.Generator
    ) -> tuple[WeightedSpins | AllStates, Tensor]:
        """Weighted configurations, and the chains for the next call. `data` is the batch (e, b, v)."""
        ...


@runtime_checkable
class HasConfigurations(Protocol):
    """A negative phase that can show the spins it averages over, before any of them become means."""

    def configurations(
        self, machine: Machine, chains: Tensor, data: Tensor, rng: torch.Generator
    ) -> Tensor: ...


@dataclass(frozen=True)
class Exact:
    """All states with their Boltzmann weights; what can be summed in closed form is not enumerated."""

    largest: ClassVar[int] = 2**20  # states; each update runs through all of them

    def init(self, machine: Machine, rng: torch.Generator) -> Tensor:
        check_states(machine.layers, largest=self.largest, what="the exact negative phase")
        return _no_chains(machine)

    def step(
        self, machine: Machine, chains: Tensor, data: Tensor, rng: torch.Generator
    ) -> tuple[AllStates, Tensor]:
        return AllStates(machine), chains


@dataclass(frozen=True)
class ContrastiveDivergence:
    """CD-k: `sweeps` Gibbs passes that start from the batch."""

    sweeps: int = 1

    def __post_init__(self) -> None:
        check_count("the number of sweeps of contrastive divergence", self.sweeps)

    def init(self, machine: Machine, rng: torch.Generator) -> Tensor:
        return _no_chains(machine)

    def step(
        self, machine: Machine, chains: Tensor, data: Tensor, rng: torch.Generator
    ) -> tuple[WeightedSpins, Tensor]:
        spins = self.configurations(machine, chains, data, rng)
        return WeightedSpins.even(machine.infer(spins)), chains

    def configurations(
        self, machine: Machine, chains: Tensor, data: Tensor, rng: torch.Generator
    ) -> Tensor:
        return run_sweeps(machine, machine.with_visible(data), rng, self.sweeps)


@dataclass(frozen=True)
class Persistent:
    """PCD-k: `particles` chains that live through the training, `sweeps` passes per update."""

    particles: int = 1000
    sweeps: int = 1

    def __post_init__(self) -> None:
        check_count("the number of particles", self.particles)
        check_count("the number of sweeps of persistent chains", self.sweeps)

    def init(self, machine: Machine, rng: torch.Generator) -> Tensor:
        return machine.random(self.particles, rng)

    def step(
        self, machine: Machine, chains: Tensor, data: Tensor, rng: torch.Generator
    ) -> tuple[WeightedSpins, Tensor]:
        chains = run_sweeps(machine, chains, rng, self.sweeps)
        return WeightedSpins.even(machine.infer(chains)), chains

    def configurations(
        self, machine: Machine, chains: Tensor, data: Tensor, rng: torch.Generator
    ) -> Tensor:
        return chains


@dataclass(frozen=True)
class PatternInduced:
    """PID: the patterns stand in for low-energy samples; `sweeps` Gibbs passes refine them.

    `units="visible"` takes sign(ξ_v) and infers the hidden units from it (conditional means, mean
    field in deep and full machines); `units="all"` takes sign(ξ) on every unit, as the paper's
    Algorithm 1 reads. `docs/decisions/pid.md` compares the two.
    """

    sweeps: int = 0
    units: Literal["visible", "all"] = "visible"

    def __post_init__(self) -> None:
        check_count("the number of sweeps from the patterns", self.sweeps, least=0)
        check_choice("choice of pattern units", self.units, ("visible", "all"))

    def init(self, machine: Machine, rng: torch.Generator) -> Tensor:
        if not isinstance(machine.couplings, Patterns):
            raise InputError(
                "pattern-induced correlations need couplings built from patterns, but these are "
                "dense; build the machine with patterns=K (--patterns K), or use another negative "
                "phase, 'cd' or 'pcd' (--negative)"
            )
        return _no_chains(machine)

    def step(
        self, machine: Machine, chains: Tensor, data: Tensor, rng: torch.Generator
    ) -> tuple[WeightedSpins, Tensor]:
        if self.units == "visible" and not self.sweeps:
            visible = sign(_patterns(machine)[..., : machine.visible])  # k configurations
            return WeightedSpins.even(mean_field(machine, visible, iterations=30)), chains
        spins = self.configurations(machine, chains, data, rng)
        return WeightedSpins.even(machine.infer(spins) if self.sweeps else spins), chains

    def configurations(
        self, machine: Machine, chains: Tensor, data: Tensor, rng: torch.Generator
    ) -> Tensor:
        spins = sign(_patterns(machine))
        if not self.sweeps:
            return spins
        if self.units == "visible":
            spins = machine.with_visible(spins[..., : machine.visible])
        return run_sweeps(machine, spins, rng, self.sweeps)


def _patterns(machine: Machine) -> Tensor:
    assert machine.patterns is not None  # init refuses dense couplings
    return machine.patterns.detach()  # (e, k, n)


def _no_chains(machine: Machine) -> Tensor:
    return torch.zeros(
        (machine.replicas, 0, machine.layers.units), dtype=machine.dtype, device=machine.device
    )


NEGATIVE: dict[str, type[NegativePhase]] = {
    "exact": Exact,
    "cd": ContrastiveDivergence,
    "pcd": Persistent,
    "pid": PatternInduced,
}
