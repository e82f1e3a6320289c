"""How well rows determine the couplings of a full machine: standard errors, and which couplings are real.

A full machine without hidden units is an exponential family of its statistics S, the units' columns and
their products over pairs, with parameters θ, fields and couplings. At the maximum of the likelihood of n
rows

    Cov(θ) = I⁻¹ / n,        I = Cov_θ(S)                                                  (1)

the Fisher information, a covariance under the machine. A machine that training left beside the maximum
is brought there by Newton's steps

    θ ← θ + I⁻¹ ( ⟨S⟩_data − ⟨S⟩_machine )                                                 (2)

Where ⟨S⟩_machine and I are averages over M samples of p statistics, the mean of Î⁻¹ is I⁻¹ times
(M − 1)/(M − p − 2), which is divided out, and the error of ⟨S⟩_machine, from independent chains, is
added to (1). Of a categorical unit S has q − 1 orthonormal contrasts of its columns, so that I is
regular and θ is in the zero-sum gauge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..accel.memory import check_room
from ..arrays import as_weights, effective_rows
from ..display import Displayable, words
from ..errors import InputError, check_count, is_number
from ..estimates import Estimate
from ..machines import trusted
from ..machines.dense import Dense
from ..machines.layers import Layers
from ..machines.machine import Machine
from ..machines.units.binary import Binary
from ..machines.units.categorical import Categorical
from ..machines.units.spin import Spin
from ..progress import Watch, report_progress, watch
from ..random import seed_from, stream
from ..sampling.gibbs import run_sweeps
from .couplings import effective_couplings

EXACT = 2**34  # states times squares of the number of statistics: what is summed over, not sampled
MOST = 6_000  # statistics: matrices of their squares are inverted
PER_STATISTIC, PER_ROW = 20, 15  # samples: for I; at the maximum, for ⟨S⟩ to add little to the errors
WARM, EVERY = 100, 5  # sweeps before the first recorded state, and between two
ROUNDS = 8  # of Newton's steps
NEAR, NEAR_EXACT = 1.0, 0.01  # standard errors, root mean square: a step so small is the last
FURTHEST = 1.0  # what one step changes a parameter by
FAR = 5.0  # standard errors between chains from rows and from random states that chance does not explain
CHUNK = 2**22  # numbers of a block of statistics


@dataclass(frozen=True, repr=False)
class CouplingErrors(Displayable):
    """Fields and couplings at the maximum of the likelihood, with standard errors.

    Attributes
    ----------
    fields : Estimate
        Of the columns, (e, columns); zero sums over the columns of a categorical unit.
    pairs : Estimate
        (e, columns, columns), symmetric, 0 between columns of one unit.
    p_values : Tensor of shape (e, units, units), float64
        Of the hypothesis that a pair is not coupled, by Wald's test; 1 on the diagonal.
    rows : int
        Number of rows.
    step : Tensor of shape (e,), float64
        How far the machine was from the maximum, in standard errors, root mean square.
    layers : Layers
        The visible layers.
    note : str
        What keeps the errors from being right; empty if nothing does.
    """

    fields: Estimate
    pairs: Estimate
    p_values: Tensor
    rows: int
    step: Tensor
    layers: Layers
    note: str = ""

    def _facts(self) -> list[tuple[str, str]]:
        units = self.layers.visible_units
        found = self.discoveries().sum((1, 2)) // 2
        facts = [
            ("units", self.layers.words),
            ("rows", f"{self.rows:,}"),
            ("error", words(self.pairs.error.amax((1, 2)))),
            ("moved by", f"{words(self.step)} standard errors to the maximum"),
            (
                "coupled",
                f"{words(found)} of {units * (units - 1) // 2} pairs",
            ),
        ]
        return [*facts, ("note", self.note)] if self.note else facts

    def discoveries(self, rate: float = 0.05) -> Tensor:
        """The pairs that are coupled, at a false-discovery rate (Benjamini and Hochberg 1995).

        Parameters
        ----------
        rate : float, default 0.05
            Expected share of pairs in the answer that are not coupled.

        Returns
        -------
        Tensor of shape (e, units, units), bool
            Symmetric, False on the diagonal.
        """
        if not (is_number(rate) and 0 < rate < 1):
            raise InputError(f"the false-discovery rate is between 0 and 1, not {rate!r}; 0.05 is usual")
        return torch.stack([_discoveries(each, rate) for each in self.p_values])


def _discoveries(p_values: Tensor, rate: float) -> Tensor:
    """p_(k) ≤ rate k/m: all up to the largest such k."""
    first, second = torch.triu_indices(len(p_values), len(p_values), 1, device=p_values.device)
    each = p_values[first, second]
    ordered = each.sort().values
    limits = rate * torch.arange(1, len(each) + 1, device=each.device) / max(len(each), 1)
    passed = (ordered <= limits).nonzero()
    found = torch.zeros_like(p_values, dtype=torch.bool)
    if len(passed):
        found[first, second] = each <= ordered[passed[-1, 0]]
    return found | found.T


@torch.no_grad()
def coupling_errors(
    machine: Machine,
    data: Any,
    *,
    chains: int = 2000,
    sweeps: int = WARM,
    seed: int | None = None,
    rng: torch.Generator | None = None,
    limit: float | None = None,
) -> CouplingErrors:
    """Couplings of a full machine at the maximum of the likelihood of some rows, with standard errors.

    From the Fisher information, which is a sum over all states of machines of up to 18 spins or so,
    else an average over Gibbs chains, half of which start at the rows. Errors hold for rows that are
    independent of each other, and many more than the machine has parameters.

    Parameters
    ----------
    machine : Machine
        Dense, without hidden units, every pair of units coupled (`bm`); spins, binary or categorical
        units.
    data : Split or array-like of shape (rows, units)
        The rows that it was trained on. Rows with weights count as (Σ w)² / Σ w² of equal ones.
    chains : int, default 2000
        Chains to sample with.
    sweeps : int, default 100
        Sweeps of a chain before its first sample.
    seed : int, optional
        Seed of the chains.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    CouplingErrors
        `fields` and `pairs` with errors, `p_values`, and which pairs are coupled: `discoveries`.

    Raises
    ------
    InputError
        If the machine is another, rows do not fit it or have missing cells, or leave a parameter without
        bounds: two states that never occur together.

    Examples
    --------
    >>> truth = rb.bm(4, scale=0.5, seed=1)
    >>> rows = rb.sample(truth, 2000, steps=100, seed=0)[0]
    >>> machine = rb.bm(4, seed=0)
    >>> for progress in rb.train(
    ...     machine, rows, rb.Exact(), rb.sgd(0.2), epochs=5, batch_size=200, seed=0
    ... ):
    ...     pass
    >>> found = rb.coupling_errors(machine, rows)
    >>> found.pairs.error[0, 0, 1] < 0.1
    tensor(True)
    """
    check_count("the number of chains", chains, least=4)
    check_count("the number of sweeps", sweeps)
    _check(machine)
    rows = _rows(machine, data)
    weights = getattr(data, "weights", None)
    if weights is not None:
        weights = as_weights(weights, rows.shape[1]).to(machine.device)
    rng = stream(seed_from(seed, rng), "coupling errors", device=machine.device)
    statistics = Statistics(machine)
    with watch("errors of couplings", limit=limit, remedy="take fewer chains or sweeps") as tick:
        found = [
            _Search(
                machine.replica(i), statistics, rows[min(i, len(rows) - 1)], weights, chains, sweeps, rng
            ).run(tick)
            for i in range(machine.replicas)
        ]
    notes = dict.fromkeys(note for each in found for note in each.notes)
    return CouplingErrors(
        Estimate.stack([each.fields for each in found]),
        Estimate.stack([each.pairs for each in found]),
        torch.stack([each.p_values for each in found]),
        rows.shape[1],
        torch.stack([each.step for each in found]),
        machine.layers,
        "; ".join(notes),
    )


def _check(machine: Machine) -> None:
    layers = machine.layers
    every = {(a, b) for a in layers.visible for b in layers.visible if a <= b}
    if layers.hidden or set(layers.edges) != every or machine.patterns is not None:
        raise InputError(
            "errors of couplings are those of a dense machine without hidden units, every pair of units "
            f"coupled, and this one is {machine.describe()}; train rb.bm(visible), or compare machines "
            "trained on resampled rows"
        )
    for layer, unit in enumerate(layers.kinds):
        if not isinstance(unit, Spin | Binary | Categorical):
            raise InputError(
                "errors of couplings take units that are Spin, Binary or Categorical, and layer "
                f"{layer} has {unit}; leave it out"
            )
    if machine.biases is None and not layers.spins:
        raise InputError(
            "errors of couplings of binary or categorical units need their fields, and this machine has "
            "no biases; build it with biases=True"
        )


def _rows(machine: Machine, data: Any) -> Tensor:
    observed = getattr(data, "observed", None)
    if observed is not None and not bool(torch.as_tensor(observed).all()):
        raise InputError(
            "errors of couplings need rows without missing cells; give those that are complete"
        )
    rows = machine.visible_spins(getattr(data, "spins", data))
    if rows.shape[1] < 2:
        raise InputError(f"errors of couplings need two rows or more, not {rows.shape[1]}")
    return rows


class Statistics:
    """The statistics S of a machine's configurations, and parameters as vectors of as many."""

    def __init__(self, machine: Machine) -> None:
        layers = machine.layers
        self.layers, self.biased = layers, machine.biases is not None
        blocks, owner, unit = [], [], 0
        for layer in layers.visible:
            kind = layers.kinds[layer]
            each = kind.each(layers.sizes[layer]) if isinstance(kind, Categorical) else None
            for q in each or (1,) * layers.sizes[layer]:
                blocks.append(_contrasts(q) if each else torch.ones((1, 1), dtype=torch.float64))
                owner += [unit] * blocks[-1].shape[1]
                unit += 1
        self.units = unit
        whole: Tensor = torch.block_diag(*blocks)  # type: ignore[no-untyped-call]
        self.basis = whole.to(machine.device)  # (columns, r)
        self.owner = torch.tensor(owner, device=machine.device)  # the unit of each of r
        first, second = torch.triu_indices(len(owner), len(owner), 1, device=machine.device)
        other = self.owner[first] != self.owner[second]
        self.first, self.second = first[other], second[other]
        self.singles = len(owner) if self.biased else 0
        self.count = self.singles + len(self.first)
        if self.count > MOST:
            raise InputError(
                f"errors of couplings invert a matrix of all pairs of parameters, and this machine has "
                f"{self.count:,} of them, more than {MOST:,}; compare machines trained on resampled rows"
            )
        check_room(
            f"the Fisher information of {self.count:,} parameters",
            4 * self.count**2,
            size=8,
            device=machine.device,
            remedy="take fewer units",
        )

    def of(self, spins: Tensor) -> Tensor:
        """S of configurations (c, columns), (c, p) in float64."""
        x = spins.double() @ self.basis
        pairs = x[:, self.first] * x[:, self.second]
        return torch.cat([x, pairs], 1) if self.biased else pairs

    def mean(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """⟨S⟩ over rows (c, columns), which may have weights (c,)."""
        total = torch.zeros(self.count, dtype=torch.float64, device=rows.device)
        each = torch.ones(len(rows), dtype=torch.float64, device=rows.device)
        each = each if weights is None else weights
        for start in range(0, len(rows), self.block):
            some = slice(start, start + self.block)
            total += each[some] @ self.of(rows[some])
        return total / each.sum()

    @property
    def block(self) -> int:
        return max(1, CHUNK // self.count)

    def parameters(self, machine: Machine) -> Tensor:
        """θ of a machine of one replica."""
        found = effective_couplings(machine)
        fields, pairs = self.basis.T @ found.fields[0], self.basis.T @ found.pairs[0] @ self.basis
        own = pairs[self.first, self.second]
        return torch.cat([fields, own]) if self.biased else own

    def on_columns(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """θ as fields (columns,) and pairs (columns, columns)."""
        r = len(self.owner)
        fields = theta[: self.singles] if self.biased else theta.new_zeros(r)
        pairs = theta.new_zeros((r, r))
        pairs[self.first, self.second] = theta[self.singles :]
        pairs = pairs + pairs.T
        return self.basis @ fields, self.basis @ pairs @ self.basis.T

    def machine(self, theta: Tensor, like: Machine) -> Machine:
        """The machine of θ."""
        fields, pairs = self.on_columns(theta)
        slices, layers = self.layers.slices, self.layers
        weights = {(a, b): pairs[None, slices[a], slices[b]].to(like.dtype) for a, b in layers.edges}
        return Machine(Dense(layers, weights), fields[None].to(like.dtype) if self.biased else None)


def _contrasts(q: int) -> Tensor:
    """q − 1 orthonormal vectors orthogonal to a constant, (q, q − 1)."""
    whole = torch.eye(q, dtype=torch.float64)
    whole[:, 0] = 1.0
    orthogonal: Tensor = torch.linalg.qr(whole).Q
    return orthogonal[:, 1:]


@dataclass
class _Averages:
    """⟨S⟩ and its covariance under a machine; of samples with what chains say of the error of ⟨S⟩."""

    mean: Tensor  # (p,)
    covariance: Tensor  # (p, p)
    chains: Tensor | None = None  # ⟨S⟩ of each chain, (c, p)
    samples: int = 0
    apart: float = 0.0  # most standard errors between chains from rows and from random states

    def inverse(self) -> Tensor:
        """I⁻¹."""
        factor, failed = torch.linalg.cholesky_ex(self.covariance)
        size = factor.diagonal().square()
        if bool(failed) or bool((size <= 1e-10 * self.covariance.diagonal()).any()):
            raise InputError(
                "the errors of couplings have no bounds: the machine has hardly any probability for some "
                "states, or for two of them together; merge rare states, or train at a smaller rate or "
                "with weight decay"
            )
        inverse = torch.cholesky_inverse(factor)
        if self.samples:
            inverse *= (self.samples - len(inverse) - 2) / (self.samples - 1)
        return inverse


@dataclass
class _Search:
    """The maximum of the likelihood of one replica, and what is known of it there."""

    machine: Machine
    statistics: Statistics
    data: Tensor  # (rows, columns)
    weights: Tensor | None  # (rows,)
    chains: int
    sweeps: int
    rng: torch.Generator

    def run(self, tick: Watch) -> _Search:
        wanted = self.statistics.mean(self.data, self.weights)
        count = len(self.data) if self.weights is None else float(effective_rows(self.weights))
        start = theta = self.statistics.parameters(self.machine)
        machine, self.notes = self.machine, []
        last = False  # the maximum is near: the samples are to be many
        for _ in range(ROUNDS):
            averages = self._averages(machine, PER_ROW if last else 1)
            inverse = averages.inverse()
            step = inverse @ (wanted - averages.mean)
            covariance = self._covariance(inverse / count, inverse, averages)
            error = covariance.diagonal().sqrt()
            size = float((step / error).square().mean().sqrt())
            theta = theta + step * min(1.0, FURTHEST / float(step.abs().max()))
            tick()
            exact = averages.chains is None
            if size < (NEAR_EXACT if exact else NEAR):
                if exact or last:
                    break
                last = True
            machine = self.statistics.machine(theta, self.machine)
        if size >= NEAR:
            self.notes.append(
                f"the last of {ROUNDS} steps to the maximum was still {size:.2g} standard errors: train "
                "for longer, or give more rows"
            )
        if averages.apart > FAR:
            self.notes.append(
                "averages of chains from the rows and from random states differ by "
                f"{averages.apart:.1f} standard errors: the samples are not those of the machine; take "
                "more sweeps="
            )
        if count < self.statistics.count:
            self.notes.append(
                f"{count:,.0f} rows for {self.statistics.count:,} parameters: errors are too small"
            )
        self._told(theta, covariance)
        self.step = ((theta - start) / error).square().mean().sqrt()
        return self

    def _covariance(self, covariance: Tensor, inverse: Tensor, averages: _Averages) -> Tensor:
        """Eq. (1) with what sampling adds."""
        if averages.chains is not None:
            known = covariance.diagonal()
            spread = (averages.chains @ inverse).var(0) / len(averages.chains)
            by = (1.0 + spread / known).sqrt()
            covariance = covariance * by * by[:, None]
        return covariance

    def _averages(self, machine: Machine, per_row: int) -> _Averages:
        count = machine.layers.count(machine.layers.visible)
        if count is not None and count * self.statistics.count**2 <= EXACT:
            return self._exact(machine, count)
        return self._sampled(machine, per_row)

    def _exact(self, machine: Machine, count: int) -> _Averages:
        layers = machine.layers
        numbers = torch.arange(count, device=machine.device)
        states = layers.states(layers.visible, numbers).to(machine.dtype)
        weights = torch.softmax(-trusted.energy(machine, states[None])[0].double(), 0)
        block = self.statistics.block
        parts = [(states[i : i + block], weights[i : i + block]) for i in range(0, count, block)]
        mean = torch.zeros(self.statistics.count, dtype=torch.float64, device=machine.device)
        for x, w in parts:
            mean += w @ self.statistics.of(x)
        covariance = torch.zeros((len(mean), len(mean)), dtype=torch.float64, device=mean.device)
        for x, w in parts:
            centred = (self.statistics.of(x) - mean) * w.sqrt()[:, None]
            covariance += centred.T @ centred
        return _Averages(mean, covariance)

    def _sampled(self, machine: Machine, per_row: int) -> _Averages:
        """Averages over Gibbs chains, the first half of which starts at the rows; so many samples for
        each row, at least."""
        rows = torch.randint(
            len(self.data), (self.chains // 2,), generator=self.rng, device=self.data.device
        )
        others = machine.random(self.chains - len(rows), self.rng)
        spins = torch.cat([self.data[rows][None].to(machine.dtype), others], 1)
        spins = run_sweeps(machine, spins, self.rng, self.sweeps)
        p, count = self.statistics.count, len(spins[0])
        first = math.ceil(PER_STATISTIC * p / count)  # states of each chain that I is made of
        each = max(first, math.ceil(per_row * len(self.data) / count))
        sums = torch.zeros((count, p), dtype=torch.float64, device=spins.device)
        squares = torch.zeros((p, p), dtype=torch.float64, device=spins.device)
        every = torch.arange(count, device=spins.device)
        origin = self.statistics.mean(spins[0])  # near the mean: no digits are lost in the squares
        for number in range(each):
            spins = run_sweeps(machine, spins, self.rng, EVERY)
            for where in torch.split(every, self.statistics.block):
                part = self.statistics.of(spins[0, where]) - origin
                sums[where] += part
                if number < first:
                    squares.addmm_(part.T, part)
            if number + 1 == first:
                mean = sums.sum(0) / (first * count)
                squares = squares / (first * count) - torch.outer(mean, mean)
            report_progress()
        samples = first * count
        covariance = squares * samples / (samples - 1)
        mean = sums.mean(0) / each
        of_rows, of_random = sums[: len(rows)] / each, sums[len(rows) :] / each
        spread = of_rows.var(0) / len(of_rows) + of_random.var(0) / len(of_random)
        z = (of_rows.mean(0) - of_random.mean(0)).abs() / spread.sqrt()
        apart = float(z.nan_to_num(nan=0.0, posinf=0.0).max())
        return _Averages(mean + origin, covariance, sums / each, samples, apart)

    def _told(self, theta: Tensor, covariance: Tensor) -> None:
        """θ and its errors on columns, and Wald's test of each pair of units."""
        s = self.statistics
        variances = covariance.diagonal()
        fields, pairs = s.on_columns(theta)
        r = len(s.owner)
        field_errors, pair_errors = torch.zeros_like(fields), torch.zeros_like(pairs)
        p_values = torch.ones((s.units, s.units), dtype=torch.float64, device=theta.device)
        starts = [(s.owner == unit).nonzero()[:, 0] for unit in range(s.units)]
        columns = [s.basis[:, mine].abs().sum(1).nonzero()[:, 0] for mine in starts]
        bases = [s.basis[at][:, mine] for at, mine in zip(columns, starts, strict=True)]
        if s.biased:
            for mine, at, basis in zip(starts, columns, bases, strict=True):
                block = covariance[mine][:, mine]
                field_errors[at] = (basis @ block @ basis.T).diagonal().sqrt()
        place = torch.zeros((r, r), dtype=torch.long, device=theta.device)
        place[s.first, s.second] = torch.arange(len(s.first), device=theta.device) + s.singles
        if len(s.basis) == s.units:  # a column for each unit
            own = variances[s.singles :].sqrt()
            pair_errors[s.first, s.second] = own
            z = theta[s.singles :] / own
            p_values[s.first, s.second] = torch.special.erfc(z.abs() / math.sqrt(2.0))
        else:
            for i in range(s.units):
                for j in range(i + 1, s.units):
                    where = place[starts[i]][:, starts[j]].flatten()
                    block = covariance[where][:, where]
                    both = torch.kron(bases[i], bases[j])
                    error = (both @ block @ both.T).diagonal().clamp(min=0.0).sqrt()
                    shape = (len(columns[i]), len(columns[j]))
                    pair_errors[columns[i][:, None], columns[j]] = error.reshape(shape)
                    wald = theta[where] @ torch.linalg.solve(block, theta[where])
                    half = torch.tensor(0.5 * len(where), dtype=torch.float64, device=theta.device)
                    p_values[i, j] = torch.special.gammaincc(half, 0.5 * wald)
        self.fields = Estimate(fields, field_errors)
        self.pairs = Estimate(pairs, pair_errors + pair_errors.T)
        self.p_values = torch.minimum(p_values, p_values.T)
