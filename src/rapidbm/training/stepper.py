"""From a gradient to new parameters: the optimiser, the projection, and what neither may move.

θ ← θ − rate · direction(g),      g = 0 for what belongs to constant columns               (1)
ξ ← projection(ξ)                 where it is due                                          (2)
θ ← θ as before                   of a replica whose energies could overflow, for good     (3)

Parameters of units whose columns sum to one then go back to their gauge (`machines/gauge.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from ..accel import moves
from ..accel.moves import Guard
from ..accel.ranks import Ranks
from ..accel.recording import unseen
from ..errors import InputError
from ..machines.gauge import fix_gauge, has_gauge
from ..machines.machine import Machine
from .check_inputs import check_each
from .constants import Constants
from .coordinates.pace import Slowed, check_pace
from .coordinates.strengths import Measured
from .optimisers import AtOnce, Optimizer, Rates, Updater, bind_torch
from .projections import Clip, Projection
from .replicas import ReplicaStatus


class Stepper:
    """Moves the parameters of a machine; `others` move parts of the same machine, or copies of it."""

    def __init__(
        self,
        machine: Machine,
        updater: Updater,
        projection: Projection,
        constants: Constants | None,
        status: ReplicaStatus,
        others: Ranks,
    ) -> None:
        self.machine, self.updater, self.projection = machine, updater, projection
        self.constants, self.status, self.others = constants, status, others
        self.parameters = dict(machine.named_parameters())
        self.kind = (machine.dtype, machine.device)
        self.gauged = has_gauge(machine.layers)
        self.settled = others.all_true(self._dead_stay_projected())

    def check(self) -> None:
        """Refuses to move parameters that are no longer the machine's."""
        mine = list(self.parameters.values())
        same = [id(p) for p in _parameters(self.machine)] == [id(p) for p in mine]
        if same and all((p.dtype, p.device) == self.kind for p in mine):
            return
        now = dict(self.machine.named_parameters())
        for name in {**self.parameters, **now}:
            old, new = self.parameters.get(name), now.get(name)
            if old is None or old is not new or (old.dtype, old.device) != self.kind:
                raise InputError(
                    f"the parameter {name} was replaced during the training, which moves the one it "
                    f"began with; parameters are changed in place, machine.{name}.data.copy_(values), "
                    "and another machine is trained by another call of train"
                )

    def step(
        self, gradient: dict[str, Tensor], rates: Rates, project: bool, rng: torch.Generator
    ) -> None:
        """Eqs. (1) to (3)."""
        if self.constants is not None:
            gradient = self.constants.masked(gradient)
        if not self.by_kernels(gradient, rates, project, rng):
            self.plainly(gradient, rates, project, rng)
        self.status.lived += self.status.alive

    def back_to_gauge(self) -> None:
        """What comes last in an update; it changes no probability."""
        if self.gauged:
            fix_gauge(self.machine)

    def plainly(
        self, gradient: dict[str, Tensor], rates: Rates, project: bool, rng: torch.Generator
    ) -> None:
        """The step and then the projection, call by call of torch."""
        self.keeping_dead(lambda: self.updater.step(gradient, rates))
        if project:
            self.project(rng)

    def by_kernels(
        self, gradient: dict[str, Tensor], rates: Rates, project: bool, rng: torch.Generator
    ) -> bool:
        """The same in a few passes over the parameters, where kernels serve; answers whether they did."""
        if not moves.serves(self.parameters) or not isinstance(self.updater, AtOnce):
            return False
        if self.machine.couplings.others is not None:  # what diverges is a sum over all units
            return False
        clips = project and type(self.projection) is Clip and len(self.projection.each) == 1
        bound = self.projection.each[0] if clips and isinstance(self.projection, Clip) else None
        guard = Guard(self.status.alive, self.machine.couplings.limit, bound)
        if not self.updater.at_once(gradient, rates, guard):
            return False
        if project and bound is None:
            self.project(rng)
        return True

    def project(self, rng: torch.Generator) -> None:
        """Eq. (2)."""
        if self.settled:
            self.projection.apply(self.machine, rng)
        else:
            self.keeping_dead(lambda: self.projection.apply(self.machine, rng))
        if self.constants is not None:  # a projection to ±1 couples them again
            self.constants.uncouple()

    def keeping_dead(self, change: Callable[[], None]) -> None:
        """Eq. (3): a change that replicas which diverge, now or earlier, do not take part in."""
        now = [p.data for p in self.parameters.values()]
        kept = [p.clone() for p in now]
        change()
        alive, grown = self.status.alive, self.status.grown
        alive &= self.machine.finite()
        if self.kind[1].type == "cpu":
            unseen(_put_back_if_any, [*now, grown], kept, alive)
        else:  # a GPU is not asked whether any diverged: the host would wait for it
            _put_back(now, kept, alive)

    def load(self, parameters: Mapping[str, Tensor], memory: Mapping[str, Tensor]) -> None:
        """Goes on from these parameters, and from what the optimiser remembered."""
        try:
            self.updater.load(memory)
        except KeyError as error:
            raise InputError(
                f"the saved state lacks the optimiser's {error}; it is of another optimiser"
            ) from error
        for name, parameter in self.parameters.items():
            parameter.data.copy_(parameters[name])
        if self.constants is not None:  # of a state of before constant columns were left out
            self.constants.uncouple()
        self.settled = self.others.all_true(self._dead_stay_projected())

    def _dead_stay_projected(self) -> bool:
        """Whether the projection leaves in place what no update moves, so that it needs no copy."""
        clip, patterns = self.projection, self.machine.patterns
        if not isinstance(clip, Clip) or clip.every != "update" or patterns is None:
            return False
        if self.machine.couplings.strengths is not None:
            return False
        sizes = patterns.detach().abs().flatten(1).amax(1).tolist()
        bounds = clip.each if len(clip.each) > 1 else clip.each * len(sizes)
        return all(size <= x for size, x in zip(sizes, bounds, strict=True))


def _parameters(module: torch.nn.Module) -> Iterator[torch.nn.Parameter]:
    """As module.parameters() of one that shares none, at a third of its cost."""
    yield from (p for p in module._parameters.values() if p is not None)
    for part in module._modules.values():
        if part is not None:
            yield from _parameters(part)


def _put_back_if_any(into: list[Tensor], kept: list[Tensor], alive: Tensor) -> None:
    if bool(alive.all()):
        return
    *now, grown = into
    for replica in torch.nonzero(~alive & (grown == 0)).flatten().tolist():  # how far the step went
        grown[replica] = sum(x[replica].abs().sum(dtype=torch.float64) for x in now)
    _put_back(now, kept, alive)


def _put_back(now: list[Tensor], kept: list[Tensor], alive: Tensor) -> None:
    """Replicas that are not alive as they were kept."""
    for new, old in zip(now, kept, strict=True):
        torch.where(alive.view(-1, *[1] * (new.dim() - 1)), new, old, out=new)


def updater_for(
    machine: Machine,
    optimizer: Optimizer | torch.optim.Optimizer | Callable[..., torch.optim.Optimizer],
    per_epoch: int,
    pace: float,
) -> Updater:
    """The optimiser of this machine's parameters, in units of their strengths and at their pace."""
    parameters, patterned = dict(machine.named_parameters()), machine.couplings.patterned
    check_pace(pace, patterned is not None)
    if isinstance(optimizer, Optimizer):
        check_each(optimizer, machine.replicas)
        updater = optimizer.bind(parameters, per_epoch)
    else:
        updater = bind_torch(optimizer, parameters)
    if patterned is not None and patterned.unit_strengths is not None:
        updater = Measured(updater, patterned.patterns, patterned.unit_strengths)
    return updater if pace == 1 else Slowed(updater, machine, pace)
