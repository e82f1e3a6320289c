"""Units that may have some of their states only: a machine under conditions is a machine of such units.

    p(x) ∝ exp β (f·x − u(x)) over the allowed x,     A = log Σ_allowed exp β (f·x − u(x))    (1)

So sweeps, annealing and exact sums serve a condition like any machine, and Z of the restricted machine
over Z of the whole one is the probability of the condition.

A real unit between two ends has a truncated normal distribution, drawn by its inverse distribution
function in logarithms, on the side of the nearer tail:

    Φ(x) = (1 − r) Φ(α) + r Φ(β),        r uniform in (0, 1)                              (2)
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from ..accel import elementwise
from ..machines.cells import columns_of
from ..machines.layers import Layers
from ..machines.machine import Machine
from ..machines.units.categorical import Categorical
from ..machines.units.gaussian import Gaussian
from ..machines.units.unit import Beta, Unit

HALF_LOG = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Chosen(Unit):
    """Listed units, each with some of the states of its kind, by their numbers in its list."""

    unit: Unit
    allowed: tuple[tuple[int, ...], ...]  # of every unit of the layer

    kind = "chosen"

    def __str__(self) -> str:
        return f"{self.unit} under conditions"

    @property
    def has_energy(self) -> bool:  # type: ignore[override]
        return self.unit.has_energy

    @property
    def closest(self) -> float:  # type: ignore[override]
        return self.unit.closest

    @property
    def square(self) -> Literal["constant", "linear", "other"]:  # type: ignore[override]
        return self.unit.square

    # -- how it is written -----------------------------------------------------------------------

    def units(self, columns: int) -> int:
        return self.unit.units(columns)

    def columns(self, units: int) -> int:
        return self.unit.columns(units)

    def unit_of_column(self, columns: int) -> Tensor:
        return self.unit.unit_of_column(columns)

    def one_by_one(self, columns: int) -> Iterator[tuple[slice, Unit]]:
        for (where, one), allowed in zip(self.unit.one_by_one(columns), self.allowed, strict=True):
            yield where, Chosen(one, (allowed,))

    def encode(self, values: Tensor, *, what: str) -> Tensor:
        return self.unit.encode(values, what=what)

    def decode(self, columns: Tensor) -> Tensor:
        return self.unit.decode(columns)

    def gauge(self, values: Tensor) -> Tensor | None:
        return self.unit.gauge(values)

    # -- states ----------------------------------------------------------------------------------

    def count(self, columns: int) -> int:
        return math.prod(len(each) for each in self.allowed)

    def states(self, columns: int, numbers: Tensor) -> Tensor:
        codes = []
        for allowed in reversed(self.allowed):
            listed = torch.tensor(allowed, device=numbers.device)
            codes.append(listed[numbers % len(allowed)])
            numbers = torch.div(numbers, len(allowed), rounding_mode="floor")
        return columns_of(self.unit, torch.stack(codes[::-1], -1), columns)

    def energy(self, states: Tensor) -> Tensor:
        return self.unit.energy(states)

    def unknown(self, states: Tensor) -> Tensor:
        return self.unit.unknown(states)

    def nearest(self, field: Tensor) -> Tensor:
        logits = self._logits(field.detach(), 1.0)
        return self._columns(torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]), field)

    # -- in a field ------------------------------------------------------------------------------

    def _logits(self, field: Tensor, beta: Beta) -> Tensor:
        """β (f·x − u(x)) of every state of every unit, (…, units, most states), −∞ where it is not
        allowed."""
        if isinstance(self.unit, Categorical):
            return self.unit.padded(field * beta, -math.inf) + self._closed(field)
        values = self._values(field)
        energies = self.unit.energy(values[:, None])[:, 0]
        beta = beta[..., None] if isinstance(beta, Tensor) and beta.dim() else beta
        return (field[..., None] * values - energies) * beta + self._closed(field)

    def _values(self, like: Tensor) -> Tensor:
        """The states of one unit of one column, (q,)."""
        count = self.unit.count(1)
        assert count is not None
        return self.unit.states(1, torch.arange(count, device=like.device))[:, 0].to(like.dtype)

    def _closed(self, like: Tensor) -> Tensor:
        """0 where a state is allowed and −∞ where it is not, (units, most states)."""
        if isinstance(self.unit, Categorical):
            most = max(self.unit.each(like.shape[-1]))
        else:
            most = self.unit.count(1) or 0
        closed = torch.full((len(self.allowed), most), -math.inf)
        for row, allowed in zip(closed, self.allowed, strict=True):
            row[list(allowed)] = 0.0
        return closed.to(like)

    def _columns(self, weights: Tensor, like: Tensor) -> Tensor:
        """Columns of the mean of states with these weights, (…, units, most states)."""
        if isinstance(self.unit, Categorical):
            return self.unit.flat(weights.to(like.dtype))
        return weights.to(like.dtype) @ self._values(like)

    def draw(
        self,
        field: Tensor,
        rng: torch.Generator,
        beta: Beta = 1.0,
        *,
        overwrite: bool = False,
        out: Tensor | None = None,
    ) -> Tensor:
        total = torch.softmax(self._logits(field.detach(), beta), -1).cumsum(-1)
        level = elementwise.uniform(total[..., -1:], rng).mul_(total[..., -1:])
        above = (total > level).to(field.dtype)  # 0 … 0 1 … 1, and the last one is 1
        above[..., 1:] -= above[..., :-1].clone()
        drawn = self._columns(above, field)
        return drawn if out is None else out.copy_(drawn)

    def mean(
        self, field: Tensor, beta: Beta = 1.0, *, overwrite: bool = False, out: Tensor | None = None
    ) -> Tensor:
        means = self._columns(torch.softmax(self._logits(field, beta), -1), field)
        return means if out is None else out.copy_(means)

    def log_sum(self, field: Tensor, beta: Beta = 1.0) -> Tensor:
        return torch.logsumexp(self._logits(field, beta), -1)

    def field_of(self, mean: Tensor) -> Tensor:
        if isinstance(self.unit, Categorical):
            return self.unit.field_of(mean)
        return super().field_of(mean).to(mean.dtype)


@dataclass(frozen=True)
class Within(Unit):
    """Real units, each between two ends; one whose ends are equal has that value."""

    unit: Gaussian
    low: tuple[float, ...]
    high: tuple[float, ...]

    kind = "within"
    has_energy = True
    parameters = Gaussian.parameters

    def __str__(self) -> str:
        return f"{self.unit} under conditions"

    def one_by_one(self, columns: int) -> Iterator[tuple[slice, Unit]]:
        for where, one in self.unit.one_by_one(columns):
            assert isinstance(one, Gaussian)
            yield where, Within(one, self.low[where], self.high[where])

    def encode(self, values: Tensor, *, what: str) -> Tensor:
        return self.unit.encode(values, what=what)

    def with_parameters(self, own: Tensor) -> Within:
        return replace(self, unit=self.unit.with_parameters(own))

    def start(self, units: int) -> Tensor:
        return self.unit.start(units)

    def energy(self, states: Tensor) -> Tensor:
        return self.unit.energy(states)

    def finite(self) -> Tensor | None:
        return self.unit.finite()

    def tempered(self, own: Tensor, beta: float) -> Tensor:
        return self.unit.tempered(own, beta)

    def _ends(self, like: Tensor) -> tuple[Tensor, Tensor]:
        ends = (torch.tensor(x, dtype=torch.float64, device=like.device) for x in (self.low, self.high))
        low, high = ends
        return low, high

    def _standard(self, field: Tensor, beta: Beta) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Mean and deviation without ends, and the ends in units of them, in float64."""
        a = self.unit.precision(field).detach().double()
        mean, low, high = field.detach().double() / a, *self._ends(field)
        sigma = (1.0 / (a * beta)) ** 0.5
        return mean, sigma, (low - mean) / sigma, (high - mean) / sigma

    def draw(
        self,
        field: Tensor,
        rng: torch.Generator,
        beta: Beta = 1.0,
        *,
        overwrite: bool = False,
        out: Tensor | None = None,
    ) -> Tensor:
        mean, sigma, left, right = self._standard(field, beta)
        r = torch.rand(mean.shape, generator=rng, dtype=torch.float64, device=mean.device)
        low, high = self._ends(field)
        drawn = (mean + sigma * truncated_normal(left, right, r)).clamp(low, high)
        drawn = self._rounded_inside(drawn, low, high, field.dtype)
        return drawn if out is None else out.copy_(drawn)

    @staticmethod
    def _rounded_inside(drawn: Tensor, low: Tensor, high: Tensor, dtype: torch.dtype) -> Tensor:
        """In another precision, and not beyond the ends by rounding."""
        found = drawn.to(dtype)
        up = torch.nextafter(found, torch.full_like(found, math.inf))
        down = torch.nextafter(found, torch.full_like(found, -math.inf))
        found = torch.where((found.double() < low) & (low < high), up, found)
        return torch.where((found.double() > high) & (low < high), down, found)

    def mean(
        self, field: Tensor, beta: Beta = 1.0, *, overwrite: bool = False, out: Tensor | None = None
    ) -> Tensor:
        mean, sigma, left, right = self._standard(field, beta)
        mass = log_mass(left, right)
        slope = _density_over(left, mass) - _density_over(right, mass)
        low, high = self._ends(field)
        inside = (mean + sigma * slope).clamp(low, high)
        means = torch.where(low == high, low, inside).to(field.dtype)
        return means if out is None else out.copy_(means)

    def log_sum(self, field: Tensor, beta: Beta = 1.0) -> Tensor:
        _, _, left, right = self._standard(field, beta)
        low, high = self._ends(field)
        point = low == high
        whole = self.unit.log_sum(field, beta).double() + log_mass(
            left, torch.where(point, torch.inf, right)
        )
        value = torch.where(point, low, 0.0)
        at = (field.double() * value - self.unit.energy(value.expand_as(field))) * beta
        return torch.where(point, at, whole)


def _density_over(x: Tensor, log_of: Tensor) -> Tensor:
    """φ(x) / exp(log_of); 0 at ±∞."""
    return torch.exp(-0.5 * x.square() - HALF_LOG - log_of)


def log_mass(left: Tensor, right: Tensor) -> Tensor:
    """log (Φ(right) − Φ(left)) in float64, without loss in the tails."""
    left, right = _to_the_left(left, right)[:2]
    above, below = torch.special.log_ndtr(right), torch.special.log_ndtr(left)
    mass: Tensor = above + torch.log(-torch.expm1(below - above))
    return mass


def _to_the_left(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The interval or its mirror image, whichever lies nearer to the left tail; and which it is."""
    turned = right.abs() > left.abs()
    return torch.where(turned, -right, left), torch.where(turned, -left, right), turned


def truncated_normal(left: Tensor, right: Tensor, r: Tensor) -> Tensor:
    """Eq. (2): standard normal numbers between two ends from uniform ones."""
    low, high, turned = _to_the_left(left, right)
    r = torch.where(turned, 1.0 - r, r)
    tiny = torch.finfo(torch.float64).tiny
    log_p = torch.logaddexp(
        torch.special.log_ndtr(low) + torch.log1p(-r).clamp(min=-745.0),
        torch.special.log_ndtr(high) + torch.log(r.clamp(min=tiny)),
    )
    x = inverse_log_ndtr(log_p).clamp(low, high)
    return torch.where(turned, -x, x)


def inverse_log_ndtr(log_p: Tensor) -> Tensor:
    """x with log Φ(x) = log_p ≤ 0: Newton's steps on log Φ, which is concave, from the left."""
    middle = torch.special.ndtri(log_p.clamp(min=-300.0).exp())
    far = log_p < -300.0
    x = torch.where(far, -torch.sqrt(-2.0 * log_p), middle)
    for _ in range(6):
        log_ndtr = torch.special.log_ndtr(x)
        step = (log_ndtr - log_p) * torch.exp(log_ndtr + 0.5 * x.square() + HALF_LOG)
        x = torch.where(far, x - step, x)
    return x


def restricted(machine: Machine, kinds: Sequence[Unit]) -> Machine:
    """A copy of the machine with other kinds of units in its layers, of the same columns."""
    other = copy.deepcopy(machine).requires_grad_(False)
    layers = machine.layers
    other.couplings.layers = Layers(layers.sizes, layers.edges, tuple(kinds), layers.seen)
    return other
