"""What every kind of unit answers.

A unit has states x; what is coupled is its statistic, one or more columns of the configuration (e, c, n).
In the field f on its columns it has the energy u(x) − f·x, so that at inverse temperature β

    p(x) ∝ exp β (f·x − u(x)),        A(f, β) = log Σ_x exp β (f·x − u(x))                 (1)
    mean = ∂A/∂(βf),        S(μ) = max over p with ⟨x⟩ = μ of entropy(p) − ⟨u⟩ + u(μ)      (2)

so that A(f, 1) = max_μ f·μ − u(μ) + S(μ): what mean field needs. u is 0 for most kinds.

Fields, states and means are (e, c, n) or any shape that ends in the columns of the units; A, S and u are
one number for each unit, (e, c, units).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ...errors import InputError

Beta = float | Tensor  # a tensor has one value per chain, (c, 1) or (e, c, 1), or one for all, ()


class Unit(ABC):
    """One kind of unit. `draw`, `mean` and `log_sum` are eq. (1); a kind with a list of states also has
    `count` and `states`. The rest has an answer here that a kind may better."""

    kind: ClassVar[str]  # its word in files
    mirrored: ClassVar[bool] = False  # whether −x is a state like x
    has_energy: ClassVar[bool] = False  # whether u(x) is anything but 0
    parameters: ClassVar[tuple[str, ...]] = ()  # own trained parameters, a number of each for each unit
    closest: ClassVar[float] = 1.0  # Σ |x − x'| over the columns of two different states, at least
    square: ClassVar[Literal["constant", "linear", "other"]] = (
        "other"  # x_a² of a column, x_a x_b = 0 else
    )

    one_hot: ClassVar[bool] = False  # whether of a unit's columns one is 1 and the others are 0

    # -- how it is written -----------------------------------------------------------------------

    def units(self, columns: int) -> int:
        """How many units have so many columns."""
        return columns

    def columns(self, units: int) -> int:
        """How many columns so many units have."""
        return units

    def unit_of_column(self, columns: int) -> Tensor:
        """Which unit each column belongs to, (columns,)."""
        return torch.arange(columns)

    def per_unit(self, values: Tensor) -> Tensor:
        """Sums over the columns of each unit, (…, units)."""
        columns = values.shape[-1]
        if self.units(columns) == columns:
            return values
        found = values.new_zeros((*values.shape[:-1], self.units(columns)))
        return found.index_add_(-1, self.unit_of_column(columns).to(values.device), values)

    def on_columns(self, values: Tensor, columns: int) -> Tensor:
        """What is one number per unit, (…, units), on each of its columns."""
        if self.units(columns) == columns:
            return values
        return values.index_select(-1, self.unit_of_column(columns).to(values.device))

    def one_by_one(self, columns: int) -> Iterator[tuple[slice, Unit]]:
        """The columns of each unit, and its kind."""
        for i in range(columns):
            yield slice(i, i + 1), self

    def settings(self) -> dict[str, Any]:
        """What its constructor is called with, for files."""
        return {}

    @abstractmethod
    def encode(self, values: Tensor, *, what: str) -> Tensor:
        """Columns (…, columns) from what people write, finite numbers (…, units); raises InputError for
        a value that is no state."""

    def encode_columns(self, columns: Tensor, *, what: str) -> Tensor:
        """The same from finite numbers (…, columns), which configurations have."""
        return self.encode(columns, what=what)

    def decode(self, columns: Tensor) -> Tensor:
        """What people write, (…, units), from columns."""
        return columns

    # -- states ----------------------------------------------------------------------------------

    @property
    def listed(self) -> bool:
        """Whether a unit has a list of states: a kind that has gives `count`."""
        return type(self).count is not Unit.count

    def count(self, columns: int) -> int | None:
        """How many states the units of so many columns have together; None if they have no list."""
        return None

    def states(self, columns: int, numbers: Tensor) -> Tensor:
        """The states of these numbers, (c, columns) in int8; the first unit changes slowest."""
        raise InputError(f"{self} has no list of states")

    def energy(self, states: Tensor) -> Tensor:
        """u(x) of each unit, of states or of means."""
        return states.new_zeros((*states.shape[:-1], self.units(states.shape[-1])))

    def nearest(self, field: Tensor) -> Tensor:
        """The state of lowest energy in a field, always one of the states."""
        return self.mean(field)

    def unknown(self, states: Tensor) -> Tensor:
        """Which columns belong to a unit at 0 that has no such state, (…, columns)."""
        return torch.zeros_like(states, dtype=torch.bool)

    def flip_cost(self, states: Tensor, field: Tensor) -> Tensor:
        """What the energy rises by, on each column, when its unit changes to the `nearest` state."""
        new = self.nearest(field)
        rise = self.per_unit(field * (states - new)) + self.energy(new) - self.energy(states)
        return self.on_columns(rise, states.shape[-1])

    def random(
        self, shape: tuple[int, ...], rng: torch.Generator, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Units without a field, of a shape that ends in columns."""
        return self.draw(torch.zeros(shape, dtype=dtype, device=rng.device), rng)

    # -- in a field ------------------------------------------------------------------------------

    @abstractmethod
    def draw(
        self,
        field: Tensor,
        rng: torch.Generator,
        beta: Beta = 1.0,
        *,
        overwrite: bool = False,
        out: Tensor | None = None,
    ) -> Tensor:
        """States from eq. (1), into `out` or a tensor of their own; with `overwrite` the field need not
        outlive the call."""

    def draw_ones(self, field: Tensor, rng: torch.Generator, beta: Beta, out: Tensor) -> Tensor:
        """Draws into `out`, and which columns are 1, (…, units), of a kind that is `one_hot`."""
        raise NotImplementedError

    @abstractmethod
    def mean(
        self, field: Tensor, beta: Beta = 1.0, *, overwrite: bool = False, out: Tensor | None = None
    ) -> Tensor:
        """Eq. (2); `overwrite` and `out` as of `draw`."""

    @abstractmethod
    def log_sum(self, field: Tensor, beta: Beta = 1.0) -> Tensor:
        """A(f, β) of each unit, without overflow."""

    def variance(self, field: Tensor, beta: Beta = 1.0) -> Tensor:
        """⟨x²⟩ − ⟨x⟩² of each column, ∂mean/∂(βf)."""
        with torch.enable_grad():
            at = field.detach().clone().requires_grad_()
            (slope,) = torch.autograd.grad(self.mean(at, beta).sum(), at)
        return slope / beta

    def add_log_sums(self, total: Tensor, field: Tensor, beta: Beta = 1.0) -> None:
        """Adds it, summed over the units, to `total` (e, c) in float64."""
        total += self.log_sum(field, beta).sum(-1, dtype=torch.float64)

    def field_of(self, mean: Tensor) -> Tensor:
        """The field in which a unit has this mean, at β = 1."""
        return inverse_mean(self, mean)

    def entropy(self, mean: Tensor) -> Tensor:
        """S(μ) of each unit, eq. (2), in float64."""
        mean = mean.double()
        field = self.field_of(mean)
        return self.log_sum(field) - self.per_unit(field * mean) + self.energy(mean)

    # -- from data -------------------------------------------------------------------------------

    def smoothed_mean(self, total: Tensor, rows: int | Tensor) -> Tensor:
        """The mean of each column from its sum over so many rows, such that it has a finite field."""
        return total / rows

    # -- own parameters --------------------------------------------------------------------------

    def with_parameters(self, own: Tensor) -> Unit:
        """The same kind with these parameters, (e, p, units), one row for each of `parameters`."""
        return self

    def start(self, units: int) -> Tensor:
        """Parameters to start from, (p, units)."""
        return torch.zeros(len(self.parameters), units)

    def fitted(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """Parameters that fit the columns of data (samples, columns) without couplings, (p, units); rows
        may have weights (samples,)."""
        return self.start(self.units(rows.shape[-1]))

    def parameter_gradient(self, states: Tensor, weights: Tensor, means: bool) -> Tensor:
        """∂⟨u⟩/∂parameters, (e, p, units), over states (e, c, columns) with weights (e, c); with `means`
        units hold their means in their fields."""
        return torch.zeros(len(states), 0, self.units(states.shape[-1]))

    def finite(self) -> Tensor | None:
        """Which replicas have parameters that give finite energies, (e,); None where it has none."""
        return None

    def tempered(self, own: Tensor, beta: float) -> Tensor:
        """The parameters of a unit whose u is β times this one's."""
        return own

    def mixed(self, own: Tensor, other: Tensor, x: float) -> Tensor:
        """The parameters of (1 − x) u + x u', u' of the other parameters."""
        return torch.lerp(own, other, x)

    # -- gauge -----------------------------------------------------------------------------------

    def gauge(self, values: Tensor) -> Tensor | None:
        """What may be taken off the columns of every unit, (…, columns), because they sum to one: the
        mean over its columns. None for a kind whose columns do not."""
        return None


def inverse_mean(unit: Unit, mean: Tensor) -> Tensor:
    """The field of a mean of one column by bisection, for kinds without a formula: means rise with the
    field."""
    mean = mean.double()
    low, high = torch.full_like(mean, -1.0), torch.full_like(mean, 1.0)
    for _ in range(12):  # up to ±4096
        low = torch.where(unit.mean(low.clone()) > mean, 2.0 * low, low)
        high = torch.where(unit.mean(high.clone()) < mean, 2.0 * high, high)
    for _ in range(60):
        middle = 0.5 * (low + high)
        below = unit.mean(middle.clone()) < mean
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return 0.5 * (low + high)


def refuse(what: str, rule: str, values: Tensor, wrong: Tensor, remedy: str) -> InputError:
    """The error for values that are no states, `wrong` (…, units) marks them."""
    place = wrong.nonzero()[0].tolist()
    value = values[tuple(place)].item()
    where = f"row {place[-2]}, unit {place[-1]}" if len(place) > 1 else f"unit {place[-1]}"
    return InputError(f"{what} {rule}, but {where} holds {value:g} ({int(wrong.sum())} such); {remedy}")
