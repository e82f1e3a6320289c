"""Rows that meet conditions, and how probable the conditions are.

A condition leaves a unit some of its states, or a range of real numbers. The machine of such units
(`restricted.py`) has the distribution under the conditions C, and

    p(C) = Z_C / Z                                                                        (1)

however rare they are: nothing is drawn to be thrown away. Where few terms do, rows are drawn exactly;
else chains come from independent units by annealing, from two bases, are drawn again by their weights
and sweep until they agree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from ..display import Displayable
from ..errors import InputError, check_choice, check_count, is_number
from ..estimates import Bounds
from ..likelihood.log_z import log_z
from ..machines import trusted
from ..machines.cells import Place, places, precise
from ..machines.enumeration import enumerate_spins, free_layers, log_weight, states_of
from ..machines.machine import Machine
from ..machines.units.gaussian import Gaussian
from ..machines.units.unit import Unit
from ..progress import report_progress, watch
from ..random import seed_from, stream
from ..sampling import annealing
from ..sampling.bases import free_spins, own_biases
from ..sampling.gibbs import run_sweeps
from ..sampling.paths import Cooling
from .chains import AGREED, effective_draws, split_rhat
from .restricted import Chosen, Within, restricted

STATES = 2**20  # that are listed to draw from them exactly
CHAINS = 2000  # at most, and at least:
LEAST_CHAINS = 100
SWEEPS = 100
ROUNDS = 3  # of sweeps, each twice as many, of chains that do not agree
STEPS = 200  # temperatures
Method = Literal["auto", "exact", "chains"]


@dataclass(frozen=True)
class Condition:
    """What one visible unit may be: some of its states, or a range.

    Parameters
    ----------
    unit : int
        Number of the visible unit, from 0.
    among : number or sequence of numbers, optional
        Values that it may have, as rows have them; of a real unit one value.
    low : float, optional
        Least value.
    high : float, optional
        Largest value.
    name : str, optional
        What errors call the unit.

    Raises
    ------
    InputError
        If nothing is asked, or what is asked is no number.

    Examples
    --------
    >>> rb.Condition(0, among=(1, 2)), rb.Condition(3, low=30, high=40)
    (Condition(unit 0 among 1, 2), Condition(unit 3 from 30 to 40))
    """

    unit: int
    among: Any = None
    low: float = -math.inf
    high: float = math.inf
    name: str = ""

    def __post_init__(self) -> None:
        if self.among is not None:
            given = self.among if isinstance(self.among, Iterable) else (self.among,)
            values = tuple(float(x) for x in given if is_number(x) or isinstance(x, bool))
            if not values or len(values) != len(tuple(given)):
                raise InputError(
                    f"a condition takes values of {self.called} that are numbers, as rows have them, not "
                    f"{self.among!r}"
                )
            object.__setattr__(self, "among", values)
        for end in (self.low, self.high):
            if isinstance(end, bool) or not isinstance(end, int | float) or math.isnan(end):
                raise InputError(f"the ends of the range of {self.called} are numbers, not {end!r}")
        if self.among is None and self.low == -math.inf and self.high == math.inf:
            raise InputError(f"a condition on {self.called} gives among=, low= or high=")

    @property
    def called(self) -> str:
        """What errors call the unit."""
        return self.name or f"unit {self.unit}"

    def allows(self, value: float) -> bool:
        """Whether a value meets it.

        Parameters
        ----------
        value : float
            A value of the unit.

        Returns
        -------
        bool
            True where it does.
        """
        return (self.among is None or value in self.among) and self.low <= value <= self.high

    def __repr__(self) -> str:
        return f"Condition({self.called} {self.words})"

    @property
    def words(self) -> str:
        """What it asks, in words."""
        parts = []
        if self.among is not None:
            parts.append("among " + ", ".join(f"{x:g}" for x in self.among))
        if (self.low, self.high) != (-math.inf, math.inf):
            parts.append(f"from {self.low:g} to {self.high:g}")
        return ", ".join(parts)


@dataclass(frozen=True, repr=False)
class Given(Displayable):
    """Rows under conditions.

    Attributes
    ----------
    rows : Tensor of shape (e, count, units)
        Values of the visible units.
    log_probability : Bounds, optional
        log p of all conditions together, (e,); of a real unit that has one value, a log density.
    rhat : Tensor of shape (e,)
        R-hat of the chains, of the energy and of one direction; 1 where rows are drawn exactly.
    ess : Tensor of shape (e,)
        How many independent rows these are worth.
    method : str
        "exact" or "chains".
    effort : str
        What was computed, in words.
    """

    rows: Tensor
    log_probability: Bounds | None
    rhat: Tensor
    ess: Tensor
    method: str
    effort: str


@torch.no_grad()
def sample_given(
    machine: Machine,
    conditions: Condition | Sequence[Condition],
    count: int,
    *,
    method: Method = "auto",
    sweeps: int = SWEEPS,
    probability: bool = True,
    normaliser: Bounds | None = None,
    seed: int | None = None,
    rng: torch.Generator | None = None,
    limit: float | None = None,
) -> Given:
    """Rows that meet conditions, drawn from the machine, and the probability of the conditions.

    Parameters
    ----------
    machine : Machine
        The machine.
    conditions : Condition or sequence of Condition
        What units may be; all hold together.
    count : int
        Rows.
    method : {"auto", "exact", "chains"}, default "auto"
        "auto" is exact where at most 2^20 states suffice.
    sweeps : int, default 100
        Gibbs sweeps of the chains after annealing; chains that do not agree make up to 7 times as many.
    probability : bool, default True
        Whether log p of the conditions is wanted, which takes two partition functions.
    normaliser : Bounds, optional
        log Z of this machine, if it is known already.
    seed : int, optional
        Seed of the draws.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    Given
        Rows, probability, and how far the chains agree.

    Raises
    ------
    InputError
        If there is no such unit, a value is none of its states, or the conditions contradict each other.

    Examples
    --------
    >>> machine = rb.rbm(3, 2, units=rb.Categorical((2, 3, 4)), biases=True, seed=0)
    >>> conditions = rb.Condition(0, among=1), rb.Condition(2, low=1, high=2)
    >>> found = rb.sample_given(machine, conditions, 50, seed=0)
    >>> found.rows[0, :, 0].unique().tolist(), found.rows[0, :, 2].unique().tolist()
    ([1.0], [1.0, 2.0])
    >>> round(float(found.log_probability.value.exp()), 2)
    0.25
    """
    check_choice("method for conditions", method, ("auto", "exact", "chains"))
    check_count("the number of rows", count)
    check_count("the number of sweeps", sweeps)
    machine.check_chains(count)
    if isinstance(conditions, Condition):
        conditions = (conditions,)
    under = restricted(machine, kinds_under(machine, conditions))
    seed = seed_from(seed, rng)
    draws = stream(seed, "conditions", device=machine.device)
    states = states_of(under.layers)
    if method == "exact" and states > STATES:
        raise InputError(
            f"exact draws list at most {STATES:,} states, and under these conditions there are about "
            f"2^{min(9999, states.bit_length() - 1)}; take method='chains'"
        )
    with watch("rows under conditions", limit=limit, remedy="give a smaller count= or fewer sweeps="):
        if method != "chains" and states <= STATES:
            found = _exact(under, count, draws)
        else:
            found = _by_chains(under, count, sweeps, draws)
        if not probability:
            return found
        above = log_z(under, seed=seed)
        below = normaliser or log_z(machine, seed=seed)
    return replace(found, log_probability=_ratio(above, below))


def kinds_under(machine: Machine, conditions: Sequence[Condition]) -> list[Unit]:
    """The kinds of the layers under conditions; contradictions are refused."""
    layers, every = machine.layers, places(machine)
    asked: dict[int, list[Condition]] = {}
    for condition in conditions:
        if not isinstance(condition, Condition):
            raise InputError(f"conditions are rapidbm.Condition(unit, …), not {condition!r}")
        try:
            number = range(len(every))[condition.unit]
        except (IndexError, TypeError):
            raise InputError(
                f"visible units have the numbers 0 to {len(every) - 1}, there is no unit "
                f"{condition.unit!r} to put a condition on"
            ) from None
        asked.setdefault(number, []).append(condition)
    kinds, first = list(layers.kinds), 0
    for layer in layers.visible:
        here = range(first, first + layers.counts[layer])
        first = here.stop
        if not any(number in asked for number in here):
            continue
        kind = kinds[layer]
        if isinstance(kind, Gaussian):
            ends = [_range(asked.get(number, [])) for number in here]
            kinds[layer] = Within(kind, tuple(x for x, _ in ends), tuple(x for _, x in ends))
        elif not kind.listed:
            raise InputError(f"{kind} have no list of states, so that conditions on them cannot be drawn")
        else:
            chosen = tuple(_allowed(every[number], asked.get(number, [])) for number in here)
            kinds[layer] = Chosen(kind, chosen)
    return kinds


def _allowed(place: Place, conditions: list[Condition]) -> tuple[int, ...]:
    """The numbers of the states that all conditions allow."""
    values = place.values
    assert values is not None
    listed = values.tolist()
    if not conditions:
        return tuple(range(len(listed)))
    conditions = [_in_units(condition, listed) for condition in conditions]
    found = tuple(i for i, value in enumerate(listed) if all(c.allows(value) for c in conditions))
    if not found:
        states = ", ".join(f"{x:g}" for x in listed[:20])
        raise _contradiction(conditions, f"its states are {states}")
    return found


def _in_units(condition: Condition, listed: list[float]) -> Condition:
    """The lower level of two may be called 0 or −1; any other value has to be a state."""
    if condition.among is None:
        return condition
    if sorted(listed) in ([-1.0, 1.0], [0.0, 1.0]):
        among = tuple(min(listed) if x in (0.0, -1.0) else x for x in condition.among)
        condition = replace(condition, among=among)
    wrong = [x for x in condition.among if x not in listed]
    if wrong:
        states = ", ".join(f"{x:g}" for x in listed[:20]) + (", …" if len(listed) > 20 else "")
        raise InputError(
            f"{condition.called} has no state {wrong[0]:g}; its states are {states}: take one of these"
        )
    return condition


def _range(conditions: list[Condition]) -> tuple[float, float]:
    """The ends of a real unit under all conditions."""
    low, high = -math.inf, math.inf
    for condition in conditions:
        low, high = max(low, condition.low), min(high, condition.high)
        if condition.among is not None:
            if len(set(condition.among)) > 1:
                raise InputError(
                    f"{condition.called} is a real number: give it one value or a range, not "
                    f"{len(condition.among)} values"
                )
            low, high = max(low, condition.among[0]), min(high, condition.among[0])
    if low > high or (low == high and math.isinf(low)):
        raise _contradiction(conditions, f"no number is between {low:g} and {high:g}")
    return low, high


def _contradiction(conditions: list[Condition], why: str) -> InputError:
    asked = " and ".join(condition.words for condition in conditions)
    what = "contradict each other" if len(conditions) > 1 else "allow nothing"
    return InputError(
        f"the conditions on {conditions[0].called} {what}: {asked}, but {why}; leave one out or widen it"
    )


def _exact(under: Machine, count: int, rng: torch.Generator) -> Given:
    """Rows from a list of all states that are not summed."""
    exact, layers = precise(under), under.layers
    chosen, free = layers.cover(), free_layers(layers)
    parts = [log_weight(exact, spins, free, 1.0) for spins in enumerate_spins(exact, half=False)]
    logs = torch.cat(parts, 1)  # (e, states)
    numbers = torch.multinomial(torch.softmax(logs, 1), count, True, generator=rng)
    spins = torch.zeros((under.replicas, count, layers.columns), dtype=torch.float64, device=rng.device)
    for replica, drawn in enumerate(numbers):
        values, start = layers.states(chosen, drawn), 0
        for layer in chosen:
            stop = start + layers.sizes[layer]
            spins[replica, :, layers.slices[layer]] = values[:, start:stop].double()
            start = stop
    for layer in free:
        field = trusted.field(exact, spins, layer)
        spins[..., layers.slices[layer]] = exact.unit(layer).draw(field, rng)
    e = under.replicas
    rows = layers.decode(spins[..., : under.visible]).double()
    worth = torch.full((e,), float(count), dtype=torch.float64)
    return Given(
        rows, None, torch.ones_like(worth), worth, "exact", f"drawn from {logs.shape[1]:,} states"
    )


def _by_chains(under: Machine, count: int, sweeps: int, rng: torch.Generator) -> Given:
    """Rows from chains of their own, or several of each chain where they are very many."""
    chains = min(max(count, LEAST_CHAINS), CHAINS)
    ends, logs, betas = [], [], [i / STEPS for i in range(STEPS + 1)]
    for base in (free_spins(under), own_biases(under)):
        log, spins = annealing.forward(Cooling(under, base), betas, -(-chains // 2), rng)
        ends.append(spins)
        logs.append(log)
    spins, _ = annealing.resample(torch.cat(ends, 1), torch.cat(logs, 1), rng, chains)
    # These sweeps let chains that were drawn twice come apart.
    spins = run_sweeps(under, spins, rng, -(-sweeps // 2))
    direction = torch.randn(under.visible, generator=rng, device=under.device, dtype=under.dtype)
    batches, made = -(-count // chains), -(-sweeps // 2)
    for further in range(ROUNDS):
        apart = -(-(max(16, sweeps) * 2**further) // batches)
        series, rows = [], []
        for look in range(apart * batches):
            report_progress()
            spins = run_sweeps(under, spins, rng)
            along = spins[..., : under.visible] @ direction
            series.append(torch.stack([trusted.energy(under, spins).double(), along.double()]))
            if (look + 1) % apart == 0:
                rows.append(under.layers.decode(spins[..., : under.visible]).double())
        made += apart * batches
        whole = torch.stack(series, -1)  # (2, e, c, t)
        rhat = split_rhat(whole).amax(0)
        if bool((rhat <= AGREED).all()):
            break
    ess = effective_draws(whole).amin(0).clamp(max=float(count))
    effort = f"{chains:,} chains over {STEPS:,} temperatures from two bases and {made:,} sweeps"
    drawn = torch.cat(rows, 1)[:, :count]
    return Given(drawn, None, rhat.cpu(), ess.cpu(), "chains", effort)


def _ratio(above: Bounds, below: Bounds) -> Bounds:
    """log of one partition function over another."""
    value = above.value - below.value
    exact = above.method == below.method == "exact"
    return Bounds(
        value,
        value - torch.hypot(above.value - above.lower, below.upper - below.value),
        value + torch.hypot(above.upper - above.value, below.value - below.lower),
        above.forward - below.forward,
        above.back - below.back,
        torch.minimum(above.ess, below.ess),
        torch.maximum(above.largest, below.largest),
        "exact" if exact else "ais",
        f"{above.effort} under the conditions, {below.effort} without",
        note="; ".join(filter(None, (above.note, below.note))),
    )
