"""Claims: sentences of the paper, judged from records alone, as strictly as they are put."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from types import ModuleType
from typing import Any

import numpy as np

from .records import Array, Record, Records, any_tiny

HOLDS, FAILS = "holds", "does not hold"
MISSED = "not reproduced with this recipe"  # which refutes nothing
UNDECIDED = "undecided"  # measured, but its errors or its sizes leave it open
OPEN = "not measured"  # at this scale, or not yet
VERDICTS = (HOLDS, FAILS, MISSED, UNDECIDED, OPEN)
# Student's t: what takes the place of 2 standard errors with so few degrees of freedom.
STUDENT = (13.97, 4.53, 3.31, 2.87, 2.65, 2.52, 2.43, 2.37, 2.32, 2.28)


@dataclass(frozen=True)
class Finding:
    """What records say of a claim; `holds` is None when they cannot tell."""

    holds: bool | None
    measured: str  # the numbers, with their errors
    note: str = ""  # what a reader should know beside the verdict


Check = Callable[[Records], Finding]


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper and how it is judged."""

    name: str
    where: str  # in the paper
    says: str  # the paper, in short
    reads: str  # what we take it to mean, as something that can be measured
    rule: str  # when it holds: a limit, and how many standard errors σ it must be passed by
    needs: tuple[str, ...]  # records, 'study.part', without which it is not measured
    check: Check
    also: tuple[str, ...] = ()  # records that say more, where they are there
    full: bool = False  # it speaks of trainings at the paper's sizes to their end: not judged below
    one_recipe: bool = False  # when it fails, it fails with the recipe tried: no refutation


def claim(
    needs: tuple[str, ...],
    also: tuple[str, ...] = (),
    *,
    full: bool = False,
    one_recipe: bool = False,
) -> Callable[[Check], Claim]:
    """Makes a claim of the function that checks it: its name, and what its docstring says,

        WHERE: what the paper says.
        Read as: …
        Rule: …

    with the constants of its module in braces.
    """

    def made(check: Check) -> Claim:
        head, reads, rule = re.split(r" Read as: | Rule: ", words_of(check))
        where, _, says = head.partition(": ")
        name = check.__name__.replace("_", "-")
        return Claim(name, where, says, reads, rule, needs, check, also, full, one_recipe)

    return made


def words_of(function: Any) -> str:
    """A docstring as one line, with the constants of its module filled in."""
    return " ".join(str(function.__doc__).split()).format(**function.__globals__)


def claims_of(module: ModuleType) -> list[Claim]:
    """The claims that a module makes, in its order."""
    return [each for each in vars(module).values() if isinstance(each, Claim)]


@dataclass(frozen=True)
class Verdict:
    """A claim and what the records say of it."""

    claim: Claim
    verdict: str  # one of VERDICTS
    finding: Finding

    def as_dict(self) -> dict[str, Any]:
        return {
            "claim": self.claim.name,
            "where": self.claim.where,
            "says": self.claim.says,
            "reads": self.claim.reads,
            "rule": self.claim.rule,
            "verdict": self.verdict,
            "measured": self.finding.measured,
            "note": self.finding.note,
            "records": [*self.claim.needs, *self.claim.also],
        }


def judged(claim: Claim, records: Mapping[str, Record]) -> Verdict:
    """A claim without all its records, or at a scale too small for it, is not measured; one that they
    leave open is undecided."""
    missing = [name for name in claim.needs if name not in records]
    if missing:
        return Verdict(claim, OPEN, Finding(None, f"no record of {', '.join(missing)}"))
    nothing = OPEN if any_tiny({name: records[name] for name in claim.needs}) else UNDECIDED
    try:
        known = (*claim.needs, *claim.also)
        finding = claim.check({name: records[name] for name in known if name in records})
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError) as error:
        finding, nothing = Finding(None, f"the records do not have what it takes ({error!r})"), OPEN
    if claim.full and any(records[name].scale != "paper" for name in claim.needs):
        note = "Judged at the paper's sizes and numbers of epochs only."
        finding, nothing = Finding(None, finding.measured, f"{note} {finding.note}".strip()), OPEN
    fails = MISSED if claim.one_recipe else FAILS
    return Verdict(claim, {True: HOLDS, False: fails, None: nothing}[finding.holds], finding)


# -- numbers and answers ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Number:
    """A mean over instances with its standard error; `count` 0 stands for an error that is known."""

    value: float
    error: float
    count: int = 0

    @staticmethod
    def of(values: Sequence[float] | Array) -> Number:
        found = np.asarray(values, dtype=float)
        found = found[np.isfinite(found)]
        if not len(found):
            return Number(math.nan, math.nan, 0)
        error = float(found.std(ddof=1) / math.sqrt(len(found))) if len(found) > 1 else math.nan
        return Number(float(found.mean()), error, len(found))

    @staticmethod
    def each(rows: Iterable[Sequence[float] | Array]) -> list[Number]:
        """Of each row."""
        return [Number.of(row) for row in rows]

    def __sub__(self, other: Number) -> Number:
        error = math.hypot(self.error, other.error)
        counts = [n.count for n in (self, other) if n.count]  # a known error costs no freedom
        return Number(self.value - other.value, error, min(counts, default=0))

    def __mul__(self, factor: float) -> Number:
        return Number(self.value * factor, self.error * factor, self.count)

    def margin(self, sigmas: float = 2.0) -> float:
        """So many standard errors, more of them the fewer the instances; infinite without an error."""
        if not math.isfinite(self.error):
            return math.inf
        wide = 1.0
        if self.count > 1:
            free = self.count - 1
            wide = (STUDENT[free - 1] if free <= len(STUDENT) else 2.0 + 2.7 / free) / 2.0
        return sigmas * wide * self.error

    def above(self, limit: float, sigmas: float = 2.0) -> bool | None:
        """Whether it lies above the limit; None when the error leaves it open."""
        apart = self.value - limit
        if not math.isfinite(apart) or abs(apart) <= self.margin(sigmas):
            return None
        return apart > 0

    def below(self, limit: float, sigmas: float = 2.0) -> bool | None:
        found = self.above(limit, sigmas)
        return None if found is None else not found

    def within(self, limit: float, sigmas: float = 2.0) -> bool | None:
        """Whether its size is below the limit."""
        return Number(abs(self.value), self.error, self.count).below(limit, sigmas)

    def __str__(self) -> str:
        if max(abs(self.value), self.error) < 1e-12:
            return "0"
        if not math.isfinite(self.error):
            return f"{self.value:.4g}"
        if self.error < 1e-6 * abs(self.value):  # all instances alike: a record has seven digits
            return f"{self.value:.4g} ± 0"
        digits = max(0, 1 - math.floor(math.log10(self.error)))
        if digits > 6 or abs(self.value) >= 1e6:
            return f"{self.value:.4g} ± {self.error:.2g}"
        return f"{self.value:.{digits}f} ± {self.error:.{digits}f}"


def any_of(*answers: bool | None) -> bool | None:
    """True if one is, None if one is open, else False."""
    if any(answers):
        return True
    return None if any(answer is None for answer in answers) else False


def all_of(*answers: bool | None) -> bool | None:
    """False if one is, None if one is open, else True."""
    if any(answer is False for answer in answers):
        return False
    return None if any(answer is None for answer in answers) else True


def allowance(comparisons: int) -> float:
    """Standard errors that the largest of so many differences exceeds by chance once in twenty."""
    return NormalDist().inv_cdf(1 - 0.025 / max(comparisons, 1))


def crossing(x: Sequence[float] | Array, y: Array, limit: float) -> float | None:
    """Where y first falls below the limit, by a straight line between two points; None if never."""
    below = np.nonzero(y < limit)[0]
    if not len(below):
        return None
    i = int(below[0])
    if i == 0:
        return float(x[0])
    share = (y[i - 1] - limit) / (y[i - 1] - y[i])
    return float(x[i - 1] + share * (x[i] - x[i - 1]))


def rank_correlation(x: Array, y: Array) -> float:
    """Spearman's, with mean ranks for ties; NaN where nothing varies."""
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return math.nan
    ranks = [np.array([(a < b).sum() + 0.5 * (a == b).sum() for b in a]) for a in (x, y)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])
