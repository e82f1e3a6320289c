"""log Z of a machine while it is trained, followed from look to look.

    log Z_{t+1} = log Z_t + c_t,        c_t by a bridge (`bridging.py`)                   (1)

from independent units in the biases, or a tree (`chow_liu.py`), whose log Z is known, or from an anchor,
where it was annealed. The chains that arrive at one look go on to the next. They walk in G groups that
never mix, so that what chains remember shows: with d_g the sum of what group g says of the c_t beyond
what all of them say,

    error² = anchor² + max( Σ_t error(c_t)², Σ_g d_g² / G (G − 1) )                       (2)

A mode that no chain has is missed by all of them. So chains from the data walk back over each bridge too,
and where they contradict the others by more than noise, error(c_t) grows by that; and what lies below a
bound that is proven (`independent.py`) is not known. Where that is so, where a bridge fails or eq. (2)
has grown, and now and then, log Z is annealed anew from several bases, over few temperatures first and
over more where those do not tell; where that contradicts eq. (1) the value is in the middle and 1.96
errors to each side hold the intervals of both, and where neither can be had the value is NaN. After a
bridge that failed, the next look does not try another: it is annealed.

Nothing here looks at a clock. What a look may cost is counted in sweeps of a chain, beside those of the
training, so that the same training is looked at at the same moments wherever it runs. At the end,
`anneal_saved` anneals machines that were saved on the way, within what looks have left over and a share
besides.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..accel.devices import by_device
from ..arrays import mean_one
from ..data.splits import Split
from ..errors import InputError, TimeLimit
from ..estimates import WIDE, Bounds, Estimate
from ..machines import trusted
from ..machines.enumeration import log_prob_unnormalised, states_of
from ..machines.machine import Machine
from ..machines.spins import weights_of
from ..random import seed_from, stream
from ..sampling.bases import STARTS, UNIT_STATES
from ..sampling.gibbs import run_sweeps
from ..sampling.paths import repeat_chains
from .annealed import FIRST, SETTLE, annealed
from .bridging import AGREE, bridge
from .chow_liu import ChowLiuTree
from .exact import can_be_exact
from .hidden_sums import ITERATIONS, bounds_of
from .independent import least_log_z
from .log_z import log_z
from .row_means import RowMeans

CHEAP = 2**16  # terms of an exact sum that cost no more than a bridge
CHAINS, GROUPS = 200, 8
OTHERS = 100  # chains from the data that contradict a bridge, or do not
ANNEALED = 100, 1000  # chains of an annealing from each base, on a CPU and on a GPU
LONGEST = 40  # steps of a bridge: annealing costs no more
QUICK, MOST = 50, 2000  # temperatures of an annealing: at first, and where those do not tell
NAMED = 50  # rows of the data, and chains, where the search for modes begins too
TRUSTED = 10  # chains that carry a value, from which on its error is believed
UNSEEN = 20.0  # nats that log Z may be above what some modes of many say (decisions/intervals.md)
FEW = 10  # temperatures with which nobody begins
WEIGHED = 3  # sweeps that take as long as a step of a bridge, one way and with its weights
STEP = 3, 15  # the same of an annealing, on a CPU and on a GPU
MODES = 100, 500  # sweeps that take as long as the search for its bases
FINE = 8  # times as many temperatures, where as few as serve do not tell
ROUNDS = 5  # steps of an annealing for each of the temperatures that it may take
SPAN = 1.96  # errors to each side that hold all of what contradicts itself
BRIDGES, ANCHORS = (0.06, 0.1), (0.07, 0.2)  # of the training's sweeps, on them: a CPU's share, a GPU's
AGAIN, FREELY = (0.03, 0.05), 4  # the same of what is annealed again at the end; and times `FREE`
SLOW = 2**14  # sweeps of a chain that a GPU makes while it makes one of a few chains
FREE = 2**33  # multiplications that cost nobody anything
DRAW = 64  # multiplications that take as long as a unit's draw
LEAST = 5000  # sweeps that take as long as a proven bound
WANTED = 0.2  # nats of error at which an anchor is wanted
COUNTS = ("looks", "spent", "last_cost", "anchoring", "anchored", "last_anchor", "failed")
COUNTED = (*COUNTS, "asked", "unknown")  # files of earlier versions have `COUNTS` alone
ROWS = 10_000  # of a part of the data that are looked at, at most
BOUNDED = 2500  # of them on a CPU where mean field is iterated for each
SUMMED, FEWEST = 2**22, 100  # hidden states of all rows together that are summed; rows at least


@dataclass
class Follower:
    """What is known of log Z, and all that the next look depends on."""

    data: Tensor  # (samples, v): training data, for the marginals of a base
    seed: int
    rows: int = 0  # sweeps that take as long as `mean_log_p` of the data does at each look
    end: float = 2.0  # times an anchor's share: what the last look may cost where nothing is known
    tree: ChowLiuTree | None = None  # that the training starts from
    looks: int = 0
    spent: int = 0  # sweeps of a chain, on bridges
    last_cost: int = 0  # of the last bridge
    anchoring: int = 0  # sweeps of a chain, on annealing
    anchored: int = 0  # sweeps of the training at the last anchor
    last_anchor: int = 0  # sweeps of a chain that it took
    failed: int = 0  # the last bridge: 1 for some replicas, 2 for all
    asked: int = 0  # looks that were asked for, `looks` of which were made
    unknown: int = 0  # looks that could not tell
    machine: Machine | None = None  # at the last look
    chains: Tensor = field(default_factory=lambda: torch.empty(0))  # (e, c, n)
    known: dict[str, Tensor] = field(default_factory=dict)  # value, anchor², Σ error², d: eq. (2)

    def wants(self, machine: Machine, trained: int) -> bool:
        """Whether a look is within what it may cost after so many sweeps of the training."""
        exact = can_be_exact(machine, CHEAP)
        lost = not exact and bool(self.known) and bool(self.known["value"].isnan().any())
        if self.failed or lost:  # then only annealing helps, and all that is left may go there
            return self._left(machine, trained, BRIDGES, ANCHORS) >= self.rows + 1.2 * self.last_anchor
        usual = (
            40 * _price(machine, CHAINS) * WEIGHED
        )  # the way to the next look is short where the last one was not
        expected = self.rows + (_terms(machine) if exact else min(self.last_cost or usual, usual))
        return expected <= min(
            _free(machine) + by_device(machine.device, *BRIDGES) * trained - self.spent,
            self._left(machine, trained, BRIDGES, ANCHORS),
        )

    def look(self, machine: Machine, trained: int, *, last: bool = False) -> Estimate:
        """log Z of the machine after so many sweeps of the training, with the standard error; the last
        look may cost more."""
        machine = copy.deepcopy(machine).requires_grad_(False)
        self.looks += 1
        self.spent += self.rows
        if can_be_exact(machine, CHEAP):
            self.machine = None
            self.spent += _terms(machine)
            exact = log_z(machine, method="exact").value
            return Estimate(exact, torch.zeros_like(exact))
        if self.machine is None:
            self.machine = self._begin(machine)
        if self.failed == 2:  # the next one would fail as well
            self.failed = 0
            nothing = torch.zeros_like(self.known["value"])
            self._know(nothing + torch.nan, nothing)
        else:
            self._cross(self.machine, machine)
        self._compare(machine)
        self.machine = machine
        wanted = last or self._doubtful() or trained >= max(1, 2 * self.anchored)
        if wanted:
            self._anchor(machine, trained, last)
        found = self.estimate
        self.unknown += int(bool(found.value.isnan().any()))
        return found

    @property
    def estimate(self) -> Estimate:
        """Eq. (2)."""
        apart = self.known["apart"]
        groups = apart.square().sum(1) / (GROUPS * (GROUPS - 1))
        variance = self.known["start"] + torch.maximum(self.known["bridges"], groups)
        return Estimate(self.known["value"], variance.sqrt())

    def _doubtful(self) -> bool:
        found = self.estimate
        return bool((found.value.isnan() | (found.error > WANTED)).any())

    def _streams(self, machine: Machine) -> partial[torch.Generator]:
        return partial(stream, self.seed, "follow", self.looks, device=machine.device)

    def _begin(self, machine: Machine) -> Machine:
        """The same machine without couplings, or with those of a tree alone, of which all is known."""
        free, rng = copy.deepcopy(machine), self._streams(machine)("begin")
        if self.tree is not None:
            log_z = self.tree.put(free, alone=True)
            self.chains = self.tree.states(free, by_device(machine.device, CHAINS, 5 * CHAINS), rng)
            value = torch.full((machine.replicas,), log_z, dtype=torch.float64, device=machine.device)
            self._know(value, torch.zeros_like(value))
            return free
        for name, parameter in free.named_parameters():
            if name.startswith("couplings."):
                parameter.data.zero_()
        count = by_device(machine.device, CHAINS, 5 * CHAINS)
        self.chains = run_sweeps(free, free.random(count, rng), rng)
        value = torch.zeros(machine.replicas, dtype=torch.float64, device=machine.device)
        for layer in range(len(free.layers.sizes)):
            field = trusted.field(free, self.chains[:, :1], layer).double()
            value += free.unit(layer).log_sum(field).sum((1, 2))
        self._know(value, torch.zeros_like(value))
        return free

    def _know(self, value: Tensor, error: Tensor) -> None:
        zero = torch.zeros_like(value)
        apart = zero[:, None].repeat(1, GROUPS)
        self.known = {"value": value, "start": error.square(), "bridges": zero, "apart": apart}

    def _cross(self, here: Machine, there: Machine) -> None:
        """Eq. (1)."""
        streams = self._streams(there)
        rows = torch.randperm(len(self.data), generator=stream(self.seed, "rows", self.looks))
        others = there.with_visible(self.data[rows[:OTHERS]])
        found, self.chains = bridge(
            here, there, self.chains, streams, LONGEST, groups=GROUPS, others=others, hasty=True
        )
        self.failed = 0 if found.holds else 1 if bool(found.well.any()) else 2
        count = self.chains.shape[1]
        self.last_cost = found.work * WEIGHED * _price(there, count) // count
        self.spent += self.last_cost
        old, good = self.known, found.well
        c = torch.where(good, found.best.value, torch.nan)
        self.known = {
            "value": old["value"] + c,
            "start": old["start"],
            "bridges": old["bridges"] + (found.best.error.square() + found.doubt.square()).where(good, 0),
            "apart": old["apart"] + (found.parts - found.best.value[:, None]).where(good[:, None], 0),
        }

    def _compare(self, machine: Machine) -> None:
        """What lies below a proven bound is not known."""
        found, least = self.estimate, self._least(machine, self._streams(machine)("least"))
        short = least > found.value + WIDE * found.error
        self.known["value"] = found.value.masked_fill(short, torch.nan)
        self.spent += LEAST

    def _least(self, machine: Machine, rng: torch.Generator) -> Tensor:
        images = self.data[:: -(-len(self.data) // OTHERS)]
        return least_log_z(machine, copy.deepcopy(machine).double(), images, rng)

    def _left(self, machine: Machine, trained: int, *shares: tuple[float, float]) -> float:
        """Sweeps of a chain that are left of these shares, in which all looks so far have a part."""
        spent = self.anchoring + (self.spent if BRIDGES in shares else 0)
        share = sum(by_device(machine.device, *each) for each in shares)
        return len(shares) * _free(machine) + share * trained - spent

    def _anchor(self, machine: Machine, trained: int, last: bool) -> None:
        """Anneals, if that is within what it may cost, and believes the better of the two."""
        lost = self.failed or bool(self.known["value"].isnan().any())
        shares = (BRIDGES, ANCHORS) if lost else (ANCHORS,)
        left, least = self._left(machine, trained, *shares), least_of_annealing(machine)
        if self.looks == 1:  # all else depends on it
            left = math.inf
        elif last and lost:
            left = max(left, _free(machine) + self.end * by_device(machine.device, *ANCHORS) * trained)
            left = max(left, least)
        elif left < least or (not lost and left < 1.2 * self.last_anchor):
            return
        rng = self._streams(machine)("anchor")
        found, cost = anneal(machine, rng, self.data, left, self.chains)
        self.anchoring += cost
        self.last_anchor = cost
        if found is None:
            return
        self.anchored = max(1, trained)
        (whole, settled), before = found, self.estimate
        better = combined(whole, before)
        if bool((better.error != before.error).any() | before.value.isnan().any()):
            self.chains = _grouped(settled, self.chains.shape[1])
        self._know(better.value, better.error)

    def left(self, machine: Machine, trained: int) -> float:
        """Sweeps of a chain that the comparison at the end may take."""
        share = by_device(machine.device, *AGAIN) * trained + FREELY * _free(machine)
        return self._left(machine, trained, BRIDGES, ANCHORS) + share

    def anneal_saved(self, machine: Machine, update: int, left: float) -> tuple[Estimate | None, int]:
        """log Z of a machine that was saved after an update, beside none of the looks, within the sweeps
        of a chain that are `left`; and how many it took."""
        machine = copy.deepcopy(machine).requires_grad_(False)
        if can_be_exact(machine, CHEAP):
            exact = log_z(machine, method="exact").value
            return Estimate(exact, torch.zeros_like(exact)), _terms(machine)
        if left < least_of_annealing(machine):
            return None, 0
        rng = stream(self.seed, "again", update, device=machine.device)
        found, cost = anneal(machine, rng, self.data, left)
        return (None if found is None else found[0]), cost

    def proven(self, machine: Machine, update: int) -> Estimate:
        """A value that log Z of a saved machine is not below, for `LEAST` sweeps of a chain."""
        machine = copy.deepcopy(machine).requires_grad_(False)
        least = self._least(machine, stream(self.seed, "proven", update, device=machine.device))
        return Estimate(least, torch.zeros_like(least))

    # -- saving -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """All that later looks depend on."""
        saved = {"counts": torch.tensor([getattr(self, name) for name in COUNTED])}
        if self.machine is None:
            return saved
        saved |= {f"machine/{name}": p.data for name, p in self.machine.named_parameters()}
        saved |= {f"known/{name}": value for name, value in self.known.items()}
        return saved | {"chains": self.chains.to(self.machine.layers.recorded or self.machine.dtype)}

    def load(self, saved: Mapping[str, Tensor], like: Machine) -> None:
        """Goes back to a saved state, of machines like this one."""
        for name, count in zip(COUNTED, saved["counts"].tolist(), strict=False):
            setattr(self, name, count)
        if "chains" not in saved:
            return
        self.machine = copy.deepcopy(like).requires_grad_(False)
        for name, parameter in self.machine.named_parameters():
            parameter.data.copy_(saved[f"machine/{name}"])
        self.chains = saved["chains"].to(like.device, like.dtype)
        names = ("value", "start", "bridges", "apart")
        self.known = {name: saved[f"known/{name}"].to(like.device) for name in names}


def anneal(
    machine: Machine, rng: torch.Generator, data: Tensor, left: float, chains: Tensor | None = None
) -> tuple[tuple[Estimate, Tensor] | None, int]:
    """log Z by annealing over few temperatures, and over `FINE` times as many where those do not tell and
    sweeps are `left`, with chains of the machine; None where that is not enough. And how many sweeps it
    took. Rows of the data, and `chains` where some are known, name modes to begin at."""
    step = by_device(machine.device, *STEP) * _price(machine, chains_of(machine))
    least, cost, found = least_of_annealing(machine), 0, None
    starts = machine.with_visible(data[:: -(-len(data) // NAMED)])
    if chains is not None:
        starts = torch.cat([starts, chains[:, :: -(-chains.shape[1] // NAMED)]], 1)

    def temperatures(left: float) -> int:
        return int(min(MOST, max(FEW, (left - least) / (ROUNDS * step))))

    most, variance = min(QUICK, temperatures(left)), FIRST
    while True:
        how: Any = {"chains": chains_of(machine), "most": most, "variance": variance}
        try:
            whole = annealed(machine, seed_from(None, rng), data=data, starts=starts, **how)
        except TimeLimit:
            if found is None:
                raise
            return found, cost  # fewer temperatures have told
        except InputError:  # more temperatures than that
            cost += least + 2 * most * step
        else:
            cost += least + whole.work * step
            now = _believed(whole.bounds)
            # log Z lies between the value and this much above it, 1.96 errors to each side.
            above = torch.where(whole.blind, UNSEEN / 2, 0.0)
            now = Estimate(now.value + above, now.error + above / SPAN)
            found = now if found is None else combined(now, found[0]), whole.settled
            if not bool(whole.blind.any()):
                variance = FIRST / FINE
        known = found is not None and bool(((found[0].error <= WANTED) & found[0].value.isfinite()).all())
        if known or temperatures(left - cost) < 2 * most:
            return found, cost
        most = min(10 * most, temperatures(left - cost))


def _believed(bounds: Bounds) -> Estimate:
    """The middle of an annealed interval and the error: of one that spans a contradiction `SPAN` of them
    hold it, and it is at least that of the chains that carry it where these are few."""
    middle, width = 0.5 * (bounds.lower + bounds.upper), bounds.upper - bounds.lower
    error = width / (2.0 * (SPAN if bounds.note else WIDE))
    few = bounds.ess < TRUSTED
    return Estimate(middle, torch.where(few, torch.maximum(error, bounds.ess.rsqrt()), error))


def chains_of(machine: Machine) -> int:
    """Chains of an annealing from each base: on a GPU many take as long as a few."""
    few, many = ANNEALED
    return by_device(machine.device, few, max(few, min(many, SLOW // machine.replicas)))


def contradict(one: Estimate, two: Estimate) -> Tensor:
    """Where two values of the same thing are too far apart for their errors, (e,)."""
    return (one.value - two.value).abs() > AGREE * torch.hypot(one.error, two.error)


def spanning(one: Estimate, two: Estimate) -> Estimate:
    """The middle of two values, and the error of which `SPAN` to each side hold the intervals of both."""
    low = torch.minimum(one.value - WIDE * one.error, two.value - WIDE * two.error)
    high = torch.maximum(one.value + WIDE * one.error, two.value + WIDE * two.error)
    return Estimate(0.5 * (low + high), (high - low) / (2.0 * SPAN))


def combined(one: Estimate, two: Estimate) -> Estimate:
    """What two values of the same thing, each of which may not be known (NaN), come to: the one with the
    smaller error, or where they contradict each other what spans both."""
    new = two.value.isnan() | ((one.error < two.error) & ~one.value.isnan())
    against, both = contradict(one, two), spanning(one, two)
    return Estimate(
        torch.where(against, both.value, torch.where(new, one.value, two.value)),
        torch.where(against, both.error, torch.where(new, one.error, two.error)),
    )


def _grouped(spins: Tensor, chains: int) -> Tensor:
    """So many chains in groups, each from spins (e, c, n) of its own: what groups shared they would
    agree on."""
    each = (repeat_chains(spins[:, g::GROUPS], chains // GROUPS) for g in range(GROUPS))
    return torch.cat(list(each), 1)


def least_of_annealing(machine: Machine) -> int:
    """Sweeps of a chain that annealing takes before its first temperature: the search for its bases, and
    the sweeps between its two directions."""
    patterns = machine.patterns
    hints = machine.layers.columns - machine.visible if patterns is None else 2 * patterns.shape[1]
    starts = STARTS + 2 * NAMED + 2 * min(hints, UNIT_STATES)
    search = by_device(machine.device, *MODES) * _price(machine, starts)
    return search + SETTLE * _price(machine, chains_of(machine))


def _terms(machine: Machine) -> int:
    return min(CHEAP, states_of(machine.layers))


def _price(machine: Machine, chains: int) -> int:
    """Sweeps of a chain that take as long as one of so many chains."""
    return max(chains, by_device(machine.device, 0, SLOW // machine.replicas))


def _free(machine: Machine) -> float:
    """Sweeps of a chain that cost nobody anything."""
    count = sum(p.numel() for p in machine.parameters())
    return FREE / (2 * count + DRAW * machine.replicas * machine.layers.columns)


def most_rows(machine: Machine, *, bound: bool) -> int:
    """Rows of a part of the data that `mean_log_p` looks at, at most."""
    if bound:
        return by_device(machine.device, BOUNDED, ROWS)
    return min(ROWS, max(FEWEST, SUMMED // states_of(machine.layers, machine.layers.visible)))


def work_of_rows(machine: Machine, counts: Iterable[int], *, bound: bool) -> int:
    """Sweeps of a chain that take as long as `mean_log_p` of parts of so many rows."""
    most = most_rows(machine, bound=bound)
    each = (
        ITERATIONS // 2 + 1 if bound else states_of(machine.layers, machine.layers.visible)
    )  # visible units are held
    return each * sum(min(count, most) for count in counts)


@torch.no_grad()
def mean_log_p(
    machine: Machine, data: Tensor | Split, normaliser: Estimate, *, bound: bool = False
) -> Estimate:
    """Mean log p of some data, in nats per row, or the lower `bound` on it that mean field proves; of
    very many rows some, evenly spaced, and the error says so, as it does of rows that were taken from
    many on disk."""
    spins = machine.layers.encode(data)
    rows = data.of if isinstance(data, Split) and data.of else len(spins)
    step = -(-len(spins) // most_rows(machine, bound=bound))
    some, weights = spins[::step], mean_one(weights_of(data))
    logs = bounds_of(machine, some) if bound else _log_sums(machine, some)  # (e, rows)
    found = RowMeans.of(logs, None if weights is None else weights[::step])
    drawn = found.deviation * ((1.0 - len(some) / rows) / found.count) ** 0.5
    return Estimate(found.mean - normaliser.value, torch.hypot(normaliser.error, drawn))


def _log_sums(machine: Machine, spins: Tensor) -> Tensor:
    double = copy.deepcopy(machine).double()
    step = max(1, 2**22 // (machine.layers.columns * machine.replicas))
    return torch.cat([log_prob_unnormalised(double, x) for x in torch.split(spins, step)], 1)
