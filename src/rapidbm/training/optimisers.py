"""Optimisers whose rate, weight decay and momentum may differ from replica to replica.

Every one works element by element, so that no update couples two replicas. A weight decay leaves the
biases alone; here it is decoupled from the gradient, θ ← θ (1 − rate · decay), while torch's optimisers
have it their own way.

    SGD    u ← momentum · u + g,                 θ ← θ − rate · u                         (1)
    Adam   a ← β₁ a + (1−β₁) g,  q ← β₂ q + (1−β₂) g²,
           θ ← θ − rate · â / (√q̂ + ε),  â = a / (1−β₁ᵗ),  q̂ = q / (1−β₂ᵗ)               (2)

a and q start at 0, and the division makes up for that when t counts updates. The paper's released program
counts epochs: of n updates each, its steps are shorter by up to √n for the first 1/(1−β₂) epochs or so,
after a few that are longer. `clock` says which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, cast, runtime_checkable

import torch
from torch import Tensor

from ..accel import moves
from ..accel.devices import by_device
from ..accel.moves import Guard, Rule
from ..errors import InputError, check_choice, is_number, unknown
from .schedules import Schedule

Rate = float | tuple[float, ...]  # one for all replicas, or one for each
Decay = Rate  # the same of a weight decay
Momentum = Rate
Rates = moves.Rates
Parameters = Mapping[str, torch.nn.Parameter]
Clock = Literal["update", "epoch"]
CLOCKS = ("update", "epoch")
# They mix the elements of a tensor, and replicas are elements of it.
NOT_ELEMENTWISE = ("LBFGS", "Adafactor", "Muon", "SparseAdam")


class Updater(Protocol):
    """An optimiser bound to parameters: it moves them, and its memory can be saved."""

    def step(self, gradients: Mapping[str, Tensor], rates: Rates) -> None: ...
    def state(self) -> dict[str, Tensor]: ...
    def load(self, state: Mapping[str, Tensor]) -> None: ...


@runtime_checkable
class AtOnce(Protocol):
    """An updater that can step, check for divergence and clip at once, by `accel.moves`."""

    def at_once(self, gradients: Mapping[str, Tensor], rates: Rates, guard: Guard) -> bool:
        """Whether it did; if not, nothing has changed."""
        ...


@runtime_checkable
class Optimizer(Protocol):
    """Protocol of optimisers: a choice of rate and schedule, which `bind` turns into updates."""

    @property
    def rate(self) -> Rate: ...
    @property
    def schedule(self) -> Schedule: ...
    def bind(self, parameters: Parameters, per_epoch: int = 1) -> Updater:
        """The optimiser of given parameters.

        Parameters
        ----------
        parameters : mapping of str to Parameter
            Parameters by name.
        per_epoch : int, default 1
            Updates per epoch.

        Returns
        -------
        Updater
            Moves the parameters by gradients.
        """
        ...


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent, eq. (1); `sgd` makes one."""

    capturable: ClassVar[bool] = True

    rate: Rate
    momentum: Momentum = 0.0
    weight_decay: Decay = 0.0
    schedule: Schedule = field(default_factory=Schedule)

    def __post_init__(self) -> None:
        _check_rate(self.rate, self.weight_decay)
        for value in _listed(self.momentum):
            if not (is_number(value) and 0 <= value < 1):
                raise InputError(f"the momentum is in [0, 1), not {value!r}")

    def bind(self, parameters: Parameters, per_epoch: int = 1) -> Updater:
        return _SGDUpdater(self, parameters)


@dataclass(frozen=True)
class Adam:
    """Eq. (2)."""

    capturable: ClassVar[bool] = True

    rate: Rate
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    weight_decay: Decay = 0.0
    schedule: Schedule = field(default_factory=Schedule)
    clock: Clock = "update"  # what t counts

    def __post_init__(self) -> None:
        _check_rate(self.rate, self.weight_decay)
        check_choice("clock of adam", self.clock, CLOCKS)
        pair = isinstance(self.betas, Sequence) and len(self.betas) == 2
        if (
            not pair
            or not all(is_number(beta) and 0 <= beta < 1 for beta in self.betas)
            or not (is_number(self.epsilon) and self.epsilon > 0)
        ):
            raise InputError(f"Adam needs betas in [0, 1) and ε > 0, not {self.betas} and {self.epsilon}")

    def bind(self, parameters: Parameters, per_epoch: int = 1) -> Updater:
        return _AdamUpdater(self, parameters, per_epoch)


@dataclass(frozen=True)
class TorchOptimizer:
    """An elementwise optimiser of `torch.optim` by name, with one rate for all replicas.

    Parameters
    ----------
    name : str
        Name of the class, such as "RMSprop".
    rate : float
        Learning rate.
    options : tuple of (str, Any), default ()
        Further arguments of the class.
    schedule : Schedule, optional
        How the rate changes; constant by default.

    Raises
    ------
    InputError
        If the name is unknown, not elementwise, or refuses its options.

    Examples
    --------
    >>> rb.TorchOptimizer("RMSprop", 1e-3, (("alpha", 0.9),)).rate
    0.001
    """

    name: str
    rate: Rate  # one number
    options: tuple[tuple[str, Any], ...] = ()
    schedule: Schedule = field(default_factory=Schedule)

    def __post_init__(self) -> None:
        if self.name not in torch_optimizers():
            raise unknown("torch optimiser", self.name, torch_optimizers())
        if isinstance(self.rate, tuple | list):
            raise InputError(
                f"torch.optim.{self.name} takes one rate for all replicas, not {self.rate}; "
                "sgd and adam take one per replica"
            )
        _check_rate(self.rate, 0.0)

    def bind(self, parameters: Parameters, per_epoch: int = 1) -> Updater:
        """The optimiser of given parameters.

        Parameters
        ----------
        parameters : mapping of str to Parameter
            Parameters by name; biases have no weight decay.
        per_epoch : int, default 1
            Updates per epoch.

        Returns
        -------
        Updater
            Moves the parameters by gradients.
        """
        kind = getattr(torch.optim, self.name)
        try:
            made = kind(self._groups(parameters), **dict(self.options))  # every step has its rate
        except (TypeError, ValueError) as error:
            raise InputError(f"torch.optim.{self.name} refuses its options: {error}") from error
        return _TorchUpdater(made, parameters)

    def _groups(self, parameters: Parameters) -> list[dict[str, Any]]:
        groups: list[dict[str, Any]] = [{"params": [p for name, p in parameters.items() if decays(name)]}]
        rest = [p for name, p in parameters.items() if not decays(name)]
        if rest:
            spared = {"weight_decay": 0.0} if "weight_decay" in dict(self.options) else {}
            groups.append({"params": rest, **spared})
        return groups


def sgd(
    rate: float | Iterable[float],
    *,
    momentum: float | Iterable[float] = 0.0,
    weight_decay: float | Iterable[float] = 0.0,
    decay: float = 1.0,
    after: int = 0,
    floor: float = 0.0,
    fall: Literal["none", "linear", "cosine"] = "none",
) -> SGD:
    """Stochastic gradient descent, with momentum and decoupled weight decay.

    Numbers may differ per replica: give a sequence with one number each.

    Parameters
    ----------
    rate : float or sequence of float
        Learning rate.
    momentum : float or sequence of float, default 0.0
        Factor on the last step, eq. (1).
    weight_decay : float or sequence of float, default 0.0
        Couplings shrink by rate · weight_decay per update; biases do not.
    decay : float, default 1.0
        Factor on the rate after each epoch.
    after : int, default 0
        Last epoch with the full rate.
    floor : float, default 0.0
        The decay ends at this rate.
    fall : {"none", "linear", "cosine"}, default "none"
        Fall of the rate to zero over the whole training.

    Returns
    -------
    SGD
        For `train`.

    Raises
    ------
    InputError
        If a number is out of range.

    Examples
    --------
    >>> rb.sgd([0.1, 0.01], momentum=0.5).rate  # two replicas
    (0.1, 0.01)
    """
    return SGD(_each(rate), _each(momentum), _each(weight_decay), Schedule(decay, after, floor, fall))


def adam(
    rate: float | Iterable[float] = 1e-3,
    *,
    betas: tuple[float, float] = (0.9, 0.999),
    epsilon: float = 1e-8,
    weight_decay: float | Iterable[float] = 0.0,
    decay: float = 1.0,
    after: int = 0,
    floor: float = 0.0,
    fall: Literal["none", "linear", "cosine"] = "none",
    clock: Clock = "update",
) -> Adam:
    """The optimiser Adam, with decoupled weight decay.

    Numbers may differ per replica: give a sequence with one number each.

    Parameters
    ----------
    rate : float or sequence of float, default 1e-3
        Learning rate.
    betas : tuple of float, default (0.9, 0.999)
        Decay of the running means of gradient and squared gradient.
    epsilon : float, default 1e-8
        Added to the root of the squared gradient.
    weight_decay : float or sequence of float, default 0.0
        Couplings shrink by rate · weight_decay per update; biases do not.
    decay : float, default 1.0
        Factor on the rate after each epoch.
    after : int, default 0
        Last epoch with the full rate.
    floor : float, default 0.0
        The decay ends at this rate.
    fall : {"none", "linear", "cosine"}, default "none"
        Fall of the rate to zero over the whole training.
    clock : {"update", "epoch"}, default "update"
        What the bias correction counts; "epoch" is as in the paper's released program.

    Returns
    -------
    Adam
        For `train`.

    Raises
    ------
    InputError
        If a number is out of range.

    Examples
    --------
    >>> rb.adam(1e-2, fall="linear").betas
    (0.9, 0.999)
    """
    schedule = Schedule(decay, after, floor, fall)
    return Adam(_each(rate), betas, epsilon, _each(weight_decay), schedule, clock)


def torch_optimizers() -> list[str]:
    """Names of the optimisers of torch that may serve."""
    return sorted(
        name
        for name, kind in vars(torch.optim).items()
        if isinstance(kind, type)
        and issubclass(kind, torch.optim.Optimizer)
        and kind is not torch.optim.Optimizer
        and name not in NOT_ELEMENTWISE
    )


def bind_torch(
    made: torch.optim.Optimizer | Callable[..., torch.optim.Optimizer], parameters: Parameters
) -> Updater:
    """An optimiser of torch that the caller made, or makes from the parameters; its rates are the
    caller's affair."""
    optimizer = made if isinstance(made, torch.optim.Optimizer) else made(parameters.values())
    kind = type(optimizer).__name__
    if kind in NOT_ELEMENTWISE:
        raise InputError(
            f"torch.optim.{kind} mixes the elements of a tensor and with them the replicas; "
            "use an elementwise optimiser, such as sgd, adam or torch.optim.RMSprop"
        )
    owned = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if owned != {id(p) for p in parameters.values()}:
        raise InputError(
            "the optimiser moves other parameters than this machine's; make it from machine.parameters()"
        )
    return _TorchUpdater(optimizer, parameters, scheduled=False)


def _each(rate: Any) -> Rate:
    """One number, or a tuple of them; what is neither stays as it is, for `_check_rate` to refuse."""
    if is_number(rate):
        return float(rate)
    many = isinstance(rate, Iterable) and not isinstance(rate, str) and getattr(rate, "shape", 1) != ()
    return tuple(float(r) if is_number(r) else r for r in rate) if many else rate


def _listed(value: Any) -> tuple[Any, ...]:
    return (value or (value,)) if isinstance(value, tuple) else (value,)


def _check_rate(rate: Any, weight_decay: Any) -> None:
    for value in _listed(rate):
        if not (is_number(value) and 0 < value <= 1e6):
            raise InputError(f"a learning rate is positive and at most 10⁶, not {value!r}")
    for value in _listed(weight_decay):
        if not (is_number(value) and value >= 0):
            raise InputError(f"the weight decay is at least 0, not {value!r}")


def _decay_of(choice: SGD | Adam, parameters: Parameters) -> float | Tensor | None:
    """The weight decay; a tensor, made before a graph is, where each replica has its own."""
    return _number(choice.weight_decay, parameters)


def _number(given: Rate, parameters: Parameters) -> float | Tensor | None:
    if not isinstance(given, tuple):
        return given or None
    where = next(iter(parameters.values())).device
    return torch.tensor(given, dtype=torch.float64, device=where) if any(given) else None


def decays(name: str) -> bool:
    """Whether weight decay shrinks a parameter: couplings, not biases or the units' own parameters."""
    return name != "biases" and not name.startswith("own.")


def _shrink(name: str, parameter: Tensor, rates: Rates, decay: float | Tensor | None) -> None:
    if decay is None or not decays(name):
        return
    kept: Rates
    if isinstance(rates, Tensor):
        kept = 1.0 - rates * decay
    elif isinstance(decay, Tensor):
        kept = 1.0 - torch.tensor(rates, dtype=decay.dtype, device=decay.device) * decay
    else:
        kept = tuple(1.0 - rate * decay for rate in rates)
    parameter.mul_(_per_replica(kept, parameter))


def _per_replica(rates: Rates, like: Tensor) -> float | Tensor:
    if isinstance(rates, Tensor):
        values = rates.to(like.dtype)
    elif len(rates) == 1:
        return rates[0]
    else:
        values = torch.tensor(rates, dtype=like.dtype, device=like.device)
    return values.reshape(-1, *[1] * (like.dim() - 1))


def _subtract(parameter: Tensor, direction: Tensor, rates: Rates) -> None:
    each = _per_replica(rates, parameter)
    if isinstance(each, Tensor):
        parameter.addcmul_(direction, each, value=-1.0)
    else:
        parameter.add_(direction, alpha=-each)


def _simple(parameter: Tensor) -> bool:
    """Whether torch moves it by one call, which reads memory in its order."""
    return by_device(parameter.device, True, False) and parameter.is_contiguous()


class _SGDUpdater:
    def __init__(self, choice: SGD, parameters: Parameters) -> None:
        self.choice, self.parameters = choice, parameters
        self.decay = _decay_of(choice, parameters)
        self.momentum = _number(choice.momentum, parameters)
        moving = {} if self.momentum is None else parameters
        self.speed = {name: torch.zeros_like(p.data) for name, p in moving.items()}

    def step(self, gradients: Mapping[str, Tensor], rates: Rates) -> None:
        for name, parameter in self.parameters.items():
            direction = gradients[name]
            if self.speed:
                kept = self.momentum if isinstance(self.momentum, Tensor) else (self.momentum or 0.0,)
                direction = self.speed[name].mul_(_per_replica(kept, parameter)).add_(direction)
            _shrink(name, parameter.data, rates, self.decay)
            _subtract(parameter.data, direction, rates)

    def at_once(self, gradients: Mapping[str, Tensor], rates: Rates, guard: Guard) -> bool:
        if isinstance(self.decay, Tensor) or isinstance(self.momentum, Tensor):
            return False
        memory = (self.speed,) if self.speed else ()
        rule = Rule(memory, (self.momentum or 0.0, 0.0), decay=self.decay or 0.0)
        return moves.step(self.parameters, gradients, rates, rule, guard)

    def state(self) -> dict[str, Tensor]:
        return {f"speed/{name}": value for name, value in self.speed.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        for name, value in self.speed.items():
            value.copy_(state[f"speed/{name}"])


class _AdamUpdater:
    def __init__(self, choice: Adam, parameters: Parameters, per_epoch: int) -> None:
        self.choice, self.parameters = choice, parameters
        self.decay = _decay_of(choice, parameters)
        self.per_tick = per_epoch if choice.clock == "epoch" else 1  # updates
        self.mean = {name: torch.zeros_like(p.data) for name, p in parameters.items()}
        self.square = {name: torch.zeros_like(p.data) for name, p in parameters.items()}
        where = next(iter(parameters.values())).device
        self.steps = torch.zeros((), dtype=torch.float64, device=where)

    def step(self, gradients: Mapping[str, Tensor], rates: Rates) -> None:
        self.steps += 1
        b1, b2 = self.choice.betas
        if len(rates) == 1 and all(_simple(p.data) for p in self.parameters.values()):
            self._by_torch(gradients, rates)
            return
        kind = next(iter(self.mean.values())).dtype
        first, second = self._unbias()
        unbias1, unbias2 = first.to(kind), second.sqrt().to(kind)
        for name, parameter in self.parameters.items():
            gradient = gradients[name]
            mean = self.mean[name].lerp_(gradient, 1.0 - b1)
            square = self.square[name].mul_(b2).addcmul_(gradient, gradient, value=1.0 - b2)
            size = square.sqrt().div_(unbias2).add_(self.choice.epsilon)
            _shrink(name, parameter.data, rates, self.decay)
            _subtract(parameter.data, mean / size.mul_(unbias1), rates)

    def _unbias(self) -> tuple[Tensor, Tensor]:
        (b1, b2), t = self.choice.betas, self._time()
        return 1.0 - b1**t, 1.0 - b2**t

    def _time(self) -> Tensor:
        return self.steps if self.per_tick == 1 else (self.steps / self.per_tick).ceil()

    def at_once(self, gradients: Mapping[str, Tensor], rates: Rates, guard: Guard) -> bool:
        if isinstance(self.decay, Tensor):
            return False
        self.steps += 1
        own, memory = self.choice, (self.mean, self.square)
        rule = Rule(memory, own.betas, own.epsilon, self.decay or 0.0, self._unbias())
        done = moves.step(self.parameters, gradients, rates, rule, guard)
        if not done:
            self.steps -= 1
        return done

    def _by_torch(self, gradients: Mapping[str, Tensor], rates: Rates) -> None:
        """Eq. (2) by one call of torch."""
        for name, parameter in self.parameters.items():
            _shrink(name, parameter.data, rates, self.decay)
        (b1, b2), names = self.choice.betas, list(self.parameters)
        torch._fused_adam_(
            [p.data for p in self.parameters.values()],
            [gradients[name].contiguous() for name in names],
            [self.mean[name] for name in names],
            [self.square[name] for name in names],
            [],
            [self._time().to(self.mean[names[0]].dtype)] * len(names),
            lr=cast(float, rates[0]),  # or a tensor
            beta1=b1,
            beta2=b2,
            weight_decay=0.0,
            eps=self.choice.epsilon,
            amsgrad=False,
            maximize=False,
        )

    def state(self) -> dict[str, Tensor]:
        saved = {f"mean/{name}": value for name, value in self.mean.items()}
        saved |= {f"square/{name}": value for name, value in self.square.items()}
        return saved | {"steps": self.steps.long()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        for name in self.parameters:
            self.mean[name].copy_(state[f"mean/{name}"])
            self.square[name].copy_(state[f"square/{name}"])
        self.steps.copy_(state["steps"])


class _TorchUpdater:
    def __init__(
        self, optimizer: torch.optim.Optimizer, parameters: Parameters, *, scheduled: bool = True
    ) -> None:
        self.optimizer, self.parameters, self.scheduled = optimizer, parameters, scheduled

    def step(self, gradients: Mapping[str, Tensor], rates: Rates) -> None:
        if self.scheduled:
            for group in self.optimizer.param_groups:
                group["lr"] = float(rates[0])
        for name, parameter in self.parameters.items():
            parameter.grad = gradients[name]
        self.optimizer.step()
        for parameter in self.parameters.values():
            parameter.grad = None

    def state(self) -> dict[str, Tensor]:
        memory = self.optimizer.state_dict()["state"]
        return {
            f"{index}/{key}": torch.as_tensor(value)
            for index, entries in memory.items()
            for key, value in entries.items()
            if value is not None
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        # Not by load_state_dict, which changes types on the way and with them the bits.
        found = [p for group in self.optimizer.param_groups for p in group["params"]]
        for name, value in state.items():
            index, _, key = name.partition("/")
            if index not in map(str, range(len(found))):
                raise KeyError(name)
            home = found[int(index)]
            if key != "step" and value.dim() and value.shape != home.shape:
                raise InputError(
                    f"the optimiser's memory {name} is {tuple(value.shape)}, its parameter "
                    f"{tuple(home.shape)}; it is damaged, or of another machine"
                )
            # A step count stays where it is; everything else lies beside its parameter. Copies: what
            # was saved may be loaded again.
            where = value.device if key == "step" else home.device
            self.optimizer.state[home][key] = value.to(where, copy=True)
