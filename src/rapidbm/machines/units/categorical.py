"""Units that are in one of q states, written as q columns of which one is 1 and the others are 0.

    p(a) = exp(βf_a) / Σ_b exp(βf_b),        A = log Σ_a exp(βf_a),        ⟨x_a⟩ = p(a)       (1)

The columns of a unit sum to one: what is the same on all of them changes no probability. Machines keep
their parameters where it is 0, each unit's columns sum to zero (`gauge`, machines/gauge.py).

Where q differs from unit to unit, fields are laid out as (…, units, largest q), −∞ where a unit has no
such state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ...accel import elementwise
from ...errors import InputError, is_whole
from .unit import Beta, Unit, refuse

LEAST = 1e-30  # of a mean whose field is asked for
CHECKED = 2**22  # columns that are checked at a time


@dataclass(frozen=True)
class Categorical(Unit):
    """Units in one of q states: eq. (1). Data are codes 0 … q − 1, (…, units); columns are one-hot.

    Parameters
    ----------
    q : int or sequence of int
        Number of states: one for all units, or one for each.

    Examples
    --------
    >>> machine = rb.rbm(3, 10, units=rb.Categorical((2, 4, 3)), seed=0)
    >>> machine.visible  # columns
    9
    >>> machine.layers.encode([[1, 3, 0]]).tolist()
    [[0, 1, 0, 0, 0, 1, 1, 0, 0]]
    """

    kind: ClassVar[str] = "categorical"
    closest: ClassVar[float] = 2.0
    one_hot: ClassVar[bool] = True
    square: ClassVar[Literal["constant", "linear", "other"]] = "linear"

    q: int | tuple[int, ...]

    def __post_init__(self) -> None:
        each = tuple(self.q) if isinstance(self.q, list | tuple) else (self.q,)
        if not each or not all(is_whole(x) and x >= 2 for x in each):
            raise InputError(
                f"a categorical unit has two states or more, given as one number or one for each unit, "
                f"not q = {self.q!r}"
            )
        each = tuple(int(x) for x in each)
        # One number for equal units: the same kind whichever way it was written.
        object.__setattr__(self, "q", each if isinstance(self.q, list | tuple) else each[0])

    # -- how it is written -----------------------------------------------------------------------

    def units(self, columns: int) -> int:
        if isinstance(self.q, int):
            if columns % self.q:
                raise InputError(
                    f"units of {self.q} states take {self.q} columns each, and {columns} columns are no "
                    "multiple of that"
                )
            return columns // self.q
        if columns != sum(self.q):
            raise InputError(
                f"units of {self.q} states take {sum(self.q)} columns together, not {columns}"
            )
        return len(self.q)

    def columns(self, units: int) -> int:
        if isinstance(self.q, int):
            return self.q * units
        if units != len(self.q):
            raise InputError(
                f"q = {self.q} has the states of {len(self.q)} units, and the layer has {units}; give q "
                "for each unit, or one number for all"
            )
        return sum(self.q)

    def each(self, columns: int) -> tuple[int, ...]:
        """q of every unit of so many columns."""
        return (self.q,) * self.units(columns) if isinstance(self.q, int) else self.q

    def unit_of_column(self, columns: int) -> Tensor:
        return _of_column(self.each(columns), torch.device("cpu"))

    def one_by_one(self, columns: int) -> Iterator[tuple[slice, Categorical]]:
        start = 0
        for q in self.each(columns):
            yield slice(start, start + q), Categorical(q)
            start += q

    def settings(self) -> dict[str, Any]:
        return {"q": self.q if isinstance(self.q, int) else list(self.q)}

    def encode(self, values: Tensor, *, what: str) -> Tensor:
        self.columns(values.shape[-1])  # refuses another number of units than q has
        q = torch.tensor(self.q, device=values.device)
        whole = values == values.round() if values.is_floating_point() else torch.ones_like(values).bool()
        wrong = ~whole | (values < 0) | (values >= q)
        if bool(wrong.any()):
            raise refuse(
                what,
                f"of categorical units are codes 0 … q − 1 with q = {self._words()}, or one-hot columns",
                values,
                wrong,
                "number the states from 0",
            )
        return self.of_codes(values)

    def encode_columns(self, columns: Tensor, *, what: str) -> Tensor:
        if columns.dim() < 2:
            self._check_ones(columns, 0, what)
        else:  # some rows at a time: what the check makes takes several times their memory
            step = max(1, CHECKED // max(1, columns[..., 0, :].numel()))
            for start in range(0, columns.shape[-2], step):
                self._check_ones(columns[..., start : start + step, :], start, what)
        return columns.to(torch.int8)

    def _check_ones(self, columns: Tensor, first: int, what: str) -> None:
        """Refuses columns that are not one-hot; `first` is the number of the first row."""
        ones = columns == 1
        wrong = (self.per_unit(ones.int()) != 1) | (self.per_unit((~ones & (columns != 0)).int()) > 0)
        if bool(wrong.any()):
            *row, unit = wrong.nonzero()[0].tolist()
            mine = self.unit_of_column(columns.shape[-1]).to(columns.device) == unit
            held = ", ".join(f"{x:g}" for x in columns[tuple(row)][mine].tolist())
            where = f"row {row[-1] + first}, unit {unit}" if row else f"unit {unit}"
            raise InputError(
                f"columns of {what} are one-hot, one 1 and else 0 for each unit of {self._words()} "
                f"states, but {where} holds {held} ({int(wrong.sum())} such); codes 0 … q − 1, one for "
                "each unit, serve as data"
            )

    def of_codes(self, codes: Tensor) -> Tensor:
        """Columns (…, columns) in int8 of codes (…, units) that are known to be right."""
        units = codes.shape[-1]
        each = self.each(self.columns(units))
        first = _first_column(each, codes.device)
        found = torch.zeros((*codes.shape[:-1], sum(each)), dtype=torch.int8, device=codes.device)
        return found.scatter_(-1, codes.long() + first, 1)

    def decode(self, columns: Tensor) -> Tensor:
        wide = columns if columns.is_floating_point() else columns.float()
        return self.padded(wide, -math.inf).argmax(-1)

    def _words(self) -> str:
        return str(self.q) if isinstance(self.q, int) else f"({', '.join(map(str, self.q[:20]))})"

    # -- states ----------------------------------------------------------------------------------

    def count(self, columns: int) -> int:
        return math.prod(self.each(columns))

    def states(self, columns: int, numbers: Tensor) -> Tensor:
        digits = []
        for q in reversed(self.each(columns)):
            digits.append(numbers % q)
            numbers = torch.div(numbers, q, rounding_mode="floor")
        return self.of_codes(torch.stack(digits[::-1], -1))

    def unknown(self, states: Tensor) -> Tensor:
        return self.on_columns(self.per_unit(states.abs()) == 0, states.shape[-1])

    def nearest(self, field: Tensor) -> Tensor:
        return self.of_codes(self.decode(field.detach())).to(field.dtype)

    # -- in a field ------------------------------------------------------------------------------

    def padded(self, values: Tensor, fill: float) -> Tensor:
        """(…, columns) as (…, units, largest q)."""
        if isinstance(self.q, int):
            return values.reshape(*values.shape[:-1], self.units(values.shape[-1]), self.q)
        wide: Tensor = torch.nn.functional.pad(values, (0, 1), value=fill)
        return wide[..., _padding(self.q, values.device)[0]]

    def flat(self, padded: Tensor) -> Tensor:
        """The same back."""
        if isinstance(self.q, int):
            return padded.flatten(-2)
        return padded.flatten(-2).index_select(-1, _padding(self.q, padded.device)[1])

    def draw(
        self,
        field: Tensor,
        rng: torch.Generator,
        beta: Beta = 1.0,
        *,
        overwrite: bool = False,
        out: Tensor | None = None,
    ) -> Tensor:
        drawn = torch.empty_like(field) if out is None else out
        self.draw_ones(field.detach(), rng, beta, drawn)
        return drawn

    def draw_ones(self, field: Tensor, rng: torch.Generator, beta: Beta, out: Tensor) -> Tensor:
        """Draws into `out`, and answers which of its columns are 1, (…, units)."""
        total = self._probabilities(field, beta).cumsum_(-1)
        level = elementwise.uniform(total[..., -1:], rng).mul_(total[..., -1:])
        # In place 0 and 1 take the type of `total`, which is four times as fast as bool. The last one is
        # 0: a number below 1 times the total is below the total.
        codes = total.le_(level).sum(-1)
        ones = codes.long().add_(_first_column(self.each(field.shape[-1]), field.device))
        out.zero_().scatter_(-1, ones, 1.0)
        return ones

    def _probabilities(self, field: Tensor, beta: Beta) -> Tensor:
        """Eq. (1), (…, units, largest q)."""
        scaled = field if isinstance(beta, float) and beta == 1.0 else field * beta
        return torch.softmax(self.padded(scaled, -math.inf), -1)

    def mean(
        self, field: Tensor, beta: Beta = 1.0, *, overwrite: bool = False, out: Tensor | None = None
    ) -> Tensor:
        means = self.flat(self._probabilities(field, beta))
        return means if out is None else out.copy_(means)

    def log_sum(self, field: Tensor, beta: Beta = 1.0) -> Tensor:
        return torch.logsumexp(self.padded(field * beta, -math.inf), -1)

    def field_of(self, mean: Tensor) -> Tensor:
        logs = mean.clamp(min=LEAST).log()
        return logs - self.gauge(logs)

    def entropy(self, mean: Tensor) -> Tensor:
        return self.per_unit(torch.special.entr(mean.double()))

    def smoothed_mean(self, total: Tensor, rows: int | Tensor) -> Tensor:
        q = _states(self.each(total.shape[-1]), total.device)
        return (total + 1.0) / (rows + self.on_columns(q, total.shape[-1]))

    def gauge(self, values: Tensor) -> Tensor:
        columns = values.shape[-1]
        if isinstance(self.q, int):
            means = self.padded(values, 0.0).mean(-1, keepdim=True)
            return means.expand(*means.shape[:-1], self.q).flatten(-2)
        q = _states(self.q, values.device)
        return self.on_columns(self.per_unit(values) / q, columns)


@lru_cache(64)
def _states(each: tuple[int, ...], device: torch.device) -> Tensor:
    """q of every unit, made once: a graph on a GPU copies nothing from the CPU."""
    return torch.tensor(each, device=device)


@lru_cache(64)
def _of_column(each: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.repeat_interleave(torch.arange(len(each)), torch.tensor(each)).to(device)


@lru_cache(64)
def _first_column(each: tuple[int, ...], device: torch.device) -> Tensor:
    ends = torch.tensor(each).cumsum(0)
    return torch.cat([ends.new_zeros(1), ends[:-1]]).to(device)


@lru_cache(64)
def _padding(each: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """The column of every place of (units, largest q), one after the last where there is none, and the
    place of every column."""
    places: list[int] = []
    widest = max(each)
    index = torch.full((len(each), widest), sum(each))
    column = 0
    for unit, q in enumerate(each):
        index[unit, :q] = torch.arange(column, column + q)
        places += range(unit * widest, unit * widest + q)
        column += q
    return index.to(device), torch.tensor(places, device=device)
