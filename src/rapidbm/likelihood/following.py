"""log Z of a machine while it is trained, followed from look to look.

    log Z_{t+1} = log Z_t + c_t,        c_t by a bridge (`bridging.py`)                   (1)

from independent units in the biases, whose log Z is known, or from an anchor, where it was annealed. The
chains that arrive at one look go on to the next. They walk in G groups that never mix, so that what
chains remember shows: with d_g the sum of what group g says of the c_t beyond what all of them say,

    error² = anchor² + max( Σ_t error(c_t)², Σ_g d_g² / G (G − 1) )                       (2)

A mode that no chain has is missed by all of them. So chains from the data walk back over each bridge too,
and where they contradict the others by more than noise, error(c_t) grows by that; and what lies below a
bound that is proven (`independent.py`) is not known. Where that is so, where a bridge fails or eq. (2)
has grown, and now and then, log Z is annealed anew from several bases; where that contradicts eq. (1) the
interval spans both, and where neither can be had the value is NaN.

Nothing here looks at a clock. What a look may cost is counted in sweeps of a chain, beside those of the
training, so that the same training is looked at at the same moments wherever it runs.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from ..accel.devices import by_device
from ..data.splits import Split
from ..errors import InputError, TimeLimit
from ..estimates import WIDE, Estimate
from ..machines.enumeration import states_of
from ..machines.machine import Machine
from ..machines.spins import as_spins
from ..random import seed_from, stream
from ..sampling.gibbs import sweep
from ..sampling.paths import again
from .annealed import annealed
from .bridging import AGREE, bridge
from .exact import can_be_exact
from .independent import least_log_z
from .log_z import log_z

CHEAP = 2**16  # terms of an exact sum that cost no more than a bridge
CHAINS, GROUPS = 200, 8
ANNEALED = 100  # chains of an annealing from each base
LONGEST = 40  # steps of a bridge: annealing costs no more
MOST = 2000  # temperatures of an annealing
WEIGHED = 3  # sweeps that take as long as a step of a bridge, both ways and with its weights
STEP = 30  # the same of an annealing, with what is tried before it is believed
MODES = 50_000  # sweeps of a chain that take as long as the search for its bases
BRIDGES, ANCHORS = (0.06, 0.1), (0.07, 0.2)  # of the training's sweeps, on them: a CPU's share, a GPU's
SLOW = 2**14  # sweeps of a chain that a GPU makes while it makes one of a few chains
FREE = 2**33  # multiplications that cost nobody anything
DRAW = 64  # multiplications that take as long as a unit's draw
LEAST = 5000  # sweeps that take as long as a proven bound
WANTED = 0.2  # nats of error at which an anchor is wanted
COUNTS = ("looks", "spent", "last_cost", "anchoring", "anchored", "last_anchor", "failed")
ROWS = 10_000  # of a part of the data that are looked at, at most


@dataclass
class Follower:
    """What is known of log Z, and all that the next look depends on."""

    data: Tensor  # (samples, v): training data, for the marginals of a base
    seed: int
    rows: int = 0  # of data that `mean_log_p` goes through at each look
    end: float = 2.0  # times an anchor's share: what the last look may cost where nothing is known
    looks: int = 0
    spent: int = 0  # sweeps of a chain, on bridges
    last_cost: int = 0  # of the last bridge
    anchoring: int = 0  # sweeps of a chain, on annealing
    anchored: int = 0  # sweeps of the training at the last anchor
    last_anchor: int = 0  # sweeps of a chain that it took
    failed: int = 0  # whether the last bridge did
    machine: Machine | None = None  # at the last look
    chains: Tensor = field(default_factory=lambda: torch.empty(0))  # (e, c, n)
    known: dict[str, Tensor] = field(default_factory=dict)  # value, anchor², Σ error², d: eq. (2)

    def wants(self, machine: Machine, trained: int) -> bool:
        """Whether a look is within what it may cost after so many sweeps of the training."""
        exact = can_be_exact(machine, CHEAP)
        usual = (
            40 * _price(machine, CHAINS) * WEIGHED
        )  # the way to the next look is short where the last one was not
        expected = _terms(machine) if exact else min(self.last_cost or usual, usual)
        if (
            self.spent + expected + self.rows
            > _free(machine) + by_device(machine.device, *BRIDGES) * trained
        ):
            return False
        lost = not exact and bool(self.known) and bool(self.known["value"].isnan().any())
        far = self.failed or lost  # then only an anchor helps
        return not far or self._left(machine, trained) >= 1.2 * self.last_anchor

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
        self._cross(self.machine, machine)
        self._compare(machine)
        self.machine = machine
        wanted = last or self._doubtful() or trained >= max(1, 2 * self.anchored)
        if wanted:
            self._anchor(machine, trained, last)
        return self.estimate

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
        """The same machine without couplings, of which all is known."""
        free, rng = copy.deepcopy(machine), self._streams(machine)("begin")
        for name, parameter in free.named_parameters():
            if name != "biases":
                parameter.data.zero_()
        count = by_device(machine.device, CHAINS, 5 * CHAINS)
        self.chains = sweep(free, free.random(count, rng), rng)
        value = torch.zeros(machine.replicas, dtype=torch.float64, device=machine.device)
        for layer in range(len(free.layers.sizes)):
            field = free.field(self.chains[:, :1], layer).double()
            value += free.layers.unit(layer).log_sum(field).sum((1, 2))
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
        others = there.with_visible(self.data[rows[:ANNEALED]])
        found, self.chains = bridge(
            here, there, self.chains, streams, LONGEST, groups=GROUPS, others=others, hasty=True
        )
        self.failed = int(not found.holds)
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
        rng = self._streams(machine)("least")
        images = self.data[:: -(-len(self.data) // ANNEALED)]
        least = least_log_z(machine, copy.deepcopy(machine).double(), images, rng)
        found = self.estimate
        short = least > found.value + WIDE * found.error
        self.known["value"] = found.value.masked_fill(short, torch.nan)
        self.spent += LEAST

    def _left(self, machine: Machine, trained: int) -> float:
        """Sweeps of a chain that an anchor may take."""
        return _free(machine) + by_device(machine.device, *ANCHORS) * trained - self.anchoring

    def _anchor(self, machine: Machine, trained: int, last: bool) -> None:
        """Anneals, if that is within what it may cost, and believes the better of the two."""
        price = STEP * _price(machine, ANNEALED)  # of a temperature
        search = MODES * _price(machine, ANNEALED) // ANNEALED
        first = self.looks == 1  # all else depends on it
        left = self._left(machine, trained)
        if last and bool(self.known["value"].isnan().any()):
            left = _free(machine) + self.end * by_device(machine.device, *ANCHORS) * trained
        elif not first and left < max(1.2 * self.last_anchor, search + 50 * price):
            return
        most = MOST if first else max(2, min(MOST, int(left / price)))
        own = seed_from(None, self._streams(machine)("anchor"))
        try:
            whole = annealed(machine, own, data=self.data, chains=ANNEALED, most=most)
        except TimeLimit:
            raise
        except InputError:  # more temperatures than that
            self.last_anchor = search + 2 * most * price
            self.anchoring += search + most * price
            return
        self.last_anchor = search + price * whole.steps
        self.anchoring += self.last_anchor
        self.anchored = max(1, trained)
        bounds, before = whole.bounds, self.estimate
        value, error = 0.5 * (bounds.lower + bounds.upper), bounds.error
        apart = (value - before.value).abs()
        new = before.value.isnan() | (error < before.error)
        against = apart > AGREE * torch.hypot(error, before.error)
        if bool((new | against).any()):
            self.chains = again(whole.settled, self.chains.shape[1])
        low = torch.minimum(bounds.lower, before.value - WIDE * before.error)
        high = torch.maximum(bounds.upper, before.value + WIDE * before.error)
        value = torch.where(against, 0.5 * (low + high), torch.where(new, value, before.value))
        error = torch.where(against, (high - low) / (2 * WIDE), torch.where(new, error, before.error))
        self._know(value, error)

    # -- saving -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """All that later looks depend on."""
        saved = {"counts": torch.tensor([getattr(self, name) for name in COUNTS])}
        if self.machine is None:
            return saved
        saved |= {f"machine/{name}": p.data for name, p in self.machine.named_parameters()}
        saved |= {f"known/{name}": value for name, value in self.known.items()}
        return saved | {"chains": self.chains.to(torch.int8)}

    def load(self, saved: Mapping[str, Tensor], like: Machine) -> None:
        """Goes back to a saved state, of machines like this one."""
        for name, count in zip(COUNTS, saved["counts"].tolist(), strict=True):
            setattr(self, name, count)
        if "chains" not in saved:
            return
        self.machine = copy.deepcopy(like).requires_grad_(False)
        for name, parameter in self.machine.named_parameters():
            parameter.data.copy_(saved[f"machine/{name}"])
        self.chains = saved["chains"].to(like.device, like.dtype)
        names = ("value", "start", "bridges", "apart")
        self.known = {name: saved[f"known/{name}"].to(like.device) for name in names}


def _terms(machine: Machine) -> int:
    return min(CHEAP, states_of(machine.layers))


def _price(machine: Machine, chains: int) -> int:
    """Sweeps of a chain that take as long as one of so many chains."""
    return max(chains, by_device(machine.device, 0, SLOW // machine.replicas))


def _free(machine: Machine) -> float:
    """Sweeps of a chain that cost nobody anything."""
    count = sum(p.numel() for p in machine.parameters())
    return FREE / (2 * count + DRAW * machine.replicas * machine.layers.units)


@torch.no_grad()
def mean_log_p(machine: Machine, data: Tensor | Split, normaliser: Estimate) -> Estimate:
    """Mean log p of some data, in nats per row; of more than `ROWS` rows some, evenly spaced, and the
    error says so, as it does of rows that were taken from many on disk."""
    spins = as_spins(data)
    rows = data.of if isinstance(data, Split) and data.of else len(spins)
    some = spins[:: -(-len(spins) // ROWS)]
    double = copy.deepcopy(machine).double()
    step = max(1, 2**22 // (machine.layers.units * machine.replicas))
    logs = torch.cat([double.log_prob_unnormalised(x) for x in torch.split(some, step)], 1)  # (e, rows)
    left = 1.0 - len(some) / rows
    drawn = logs.std(1, correction=0) * (left / len(some)) ** 0.5
    return Estimate(logs.mean(1) - normaliser.value, torch.hypot(normaliser.error, drawn))
