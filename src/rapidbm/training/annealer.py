"""A negative phase from any sampler of dimod, its temperature estimated and corrected.

Samples of an annealer follow exp(−β_s E') with E' the energy that it is given and β_s unknown. It is
given E' = E/β, with β what is known of β_s by now: its samples are the machine's when β = β_s. How far
they are from that the samples of each update show, `effective_beta`, β̂ ± error:

    log β ← log β + gain · log β̂,      gain = P / (P + (error/β̂)²),      P ← (1 − gain) P     (1)

a filter with P, the variance of log β, which begins at 1 and grows by DRIFT² between updates: couplings
that grow freeze an annealer at other temperatures. While they are too small to tell, so is the gain.
Samples without a unit against its field say no more than that β is about β̂ or larger: those with β̂ > 1
count with an error of β̂ itself, and leave P as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from ..accel.ranks import portions
from ..errors import InputError, check_count
from ..estimates import Estimate
from ..exchange.dimod_samplers import check_sampler, read_spins, sampler_of, takes
from ..machines.machine import Machine
from ..registry import setting
from ..sampling.temperature import effective_beta
from .positive import Weighted

DRIFT = 0.02  # of log β from one update to the next
FARTHEST = math.log(1e3)  # log β that no fixed temperature explains
# Simulated annealing ends at β = 1; left alone it would cool until nothing moves, whatever the energy.
ENDS_AT_1 = {"beta_range": (0.0, 1.0), "beta_schedule_type": "linear"}


@dataclass(frozen=True)
class Annealer:
    """Negative phase from samples of a dimod sampler, such as a quantum or a simulated annealer.

    The model is scaled so that the samples come at β = 1. The chain state is the first sample, log β of
    the sampler and its variance, (e, 1, n + 2).

    Parameters
    ----------
    sampler : dimod sampler or str, default "sa"
        Anything with `sample(bqm, **parameters)`; or "sa" (simulated annealing that ends at β = 1),
        "tree" (exact, for few units on one side) or "tabu" of dwave-samplers.
    reads : int, default 100
        Samples per update.
    sweeps : int, default 100
        Sweeps for each sample, if the sampler takes `num_sweeps`.
    corrected : bool, default True
        Estimate the sampler's temperature from its samples and rescale the model by it.
    parameters : mapping, default {}
        Passed to every call of the sampler.

    Raises
    ------
    InputError
        If the sampler is none, or its package is not installed.

    Examples
    --------
    >>> rb.Annealer(reads=50).sampler
    'sa'
    """

    sampler: str | Any = setting(
        "sa", "sampler of dwave-samplers, sa (simulated annealing), tree (exact) or tabu", flag="annealer"
    )
    reads: int = setting(100, "samples of the annealer per update")
    sweeps: int = setting(100, "sweeps of the annealer for each sample, if it has num_sweeps")
    corrected: bool = setting(True, "correct the annealer's temperature by what its samples say of it")
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_count("the number of reads", self.reads)
        check_count("the number of sweeps of an annealer", self.sweeps)
        check_sampler(self.sampler)

    def init(self, machine: Machine, rng: torch.Generator) -> Tensor:
        machine.layers.check_spins("the negative phase 'dimod'")
        sampler_of(self.sampler)  # says what is missing
        start = torch.tensor([0.0, 1.0], dtype=machine.dtype, device=machine.device)
        return torch.cat([machine.random(1, rng), start.expand(machine.replicas, 1, 2)], 2)

    def temperature(self, chains: Tensor) -> Estimate:
        """The inverse temperature at which the sampler draws from the unscaled energy.

        Parameters
        ----------
        chains : Tensor of shape (e, 1, n + 2)
            State of the phase.

        Returns
        -------
        Estimate
            β of the sampler, (e,).
        """
        log_beta, variance = chains[:, 0, -2].double(), chains[:, 0, -1].double()
        return Estimate(log_beta.exp(), log_beta.exp() * variance.sqrt())

    def step(
        self, machine: Machine, chains: Tensor, data: Tensor, rng: torch.Generator
    ) -> tuple[Weighted, Tensor]:
        sampler = sampler_of(self.sampler)
        own = ENDS_AT_1 if self.sampler == "sa" else {}
        sweeps = {"num_sweeps": self.sweeps} if takes(sampler, "num_sweeps") else {}
        log_beta, variance = chains[:, 0, -2].double(), chains[:, 0, -1].double()
        spins = read_spins(
            sampler,
            machine,
            self.reads,
            rng,
            parameters={**own, **sweeps, **self.parameters},
            scale=torch.exp(-log_beta),
        )
        if self.corrected:
            log_beta, variance = _corrected(log_beta, variance, effective_beta(machine, spins))
        state = torch.stack([log_beta, variance], 1)[:, None].to(machine.dtype)
        return machine.smoothed(spins), torch.cat([spins[:, :1], state], 2)

    def split(self, machine: Machine, count: int) -> list[tuple[Annealer, float]]:
        """The phase in parts, one per shard; each shard estimates the temperature from its own samples.

        Parameters
        ----------
        machine : Machine
            The machine that is trained.
        count : int
            Number of shards.

        Returns
        -------
        list of (Annealer, float)
            A phase with part of the reads, and its share of them.
        """
        return [(replace(self, reads=n or 1), n / self.reads) for n in portions(self.reads, count)]


def _corrected(log_beta: Tensor, variance: Tensor, seen: Estimate) -> tuple[Tensor, Tensor]:
    """Eq. (1)."""
    frozen = (seen.value > 1) & seen.error.isinf()
    told = ((seen.value > 0) & seen.error.isfinite()) | frozen
    value = torch.where(told, seen.value, 1.0)
    noise = torch.where(told, (seen.error / value).square(), torch.inf)
    noise = torch.where(frozen, 1.0, noise)
    before = (variance + DRIFT**2).clamp(max=1.0)
    gain = before / (before + noise)
    log_beta = log_beta + gain * value.log()
    if bool((log_beta.abs() > FARTHEST).any()):
        raise InputError(
            "the sampler's temperature does not follow the scale of the energies that it is given: it "
            "seems to scale them itself; turn that off by a parameter, auto_scale=False or a beta_range, "
            "or give corrected=False"
        )
    return log_beta, torch.where(frozen, before, (1 - gain) * before)
