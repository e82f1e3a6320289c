"""Has the machine of a table learned, can its samples be trusted, what next: three sentences.

    gain  =  ⟨ log p(row) − log p(row | independent columns) ⟩       held-out rows             (1)
    gap   =  ⟨ log p(row) ⟩ training rows − ⟨ log p(row) ⟩ held-out rows                       (2)

Intervals are of 95 %: of which rows were held out, and of log Z in (1). Chains start from random states
and from training rows, half and half, so that R-hat sees a mode that only one of them knows.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..data.splits import Dataset, Split
from ..display import Displayable
from ..errors import InputError, check_count
from ..inference.chains import AGREED, split_rhat
from ..inference.rows import log_p
from ..likelihood.independent import log_columns
from ..machines import trusted
from ..machines.machine import Machine
from ..progress import watch
from ..random import stream
from ..sampling.gibbs import run_sweeps
from .evaluation import normaliser

ROWS = 500  # of a part
RECORDS = 100  # of each chain
DIRECTIONS = 3  # of the training rows, along which chains are compared
SIDES = 1.96  # standard errors of an interval
LITTLE = 0.5  # of the gain: a gap below that is usual


@dataclass(frozen=True, repr=False)
class TableDiagnosis(Displayable):
    """What is to be said of the machine of a table.

    Attributes
    ----------
    learned : str
        Whether it knows more than independent columns, and by how much.
    mixes : str
        Whether its chains agree, so that samples can be trusted.
    overfits : str
        Whether it knows training rows better than others, and what to do next.
    numbers : dict of str to float
        What the sentences tell, with the ends of intervals.
    """

    learned: str
    mixes: str
    overfits: str
    numbers: dict[str, float]

    @property
    def sentences(self) -> tuple[str, str, str]:
        """All three."""
        return self.learned, self.mixes, self.overfits


def diagnose_table(
    machine: Machine,
    data: Dataset,
    *,
    chains: int = 64,
    sweeps: int = 500,
    seed: int = 0,
    limit: float | None = None,
) -> TableDiagnosis:
    """Three sentences on a machine of one replica and its data."""
    if machine.replicas != 1:
        raise InputError(
            f"a diagnosis looks at one machine at a time, this one has {machine.replicas} replicas; take "
            "machine.replica(i)"
        )
    machine.check_chains(chains, least=4)
    check_count("the number of sweeps", sweeps)
    machine = copy.deepcopy(machine).requires_grad_(False)
    with watch("diagnosis", 3, limit=limit, remedy="take fewer chains or sweeps") as tick:

        def stage(number: int, text: str) -> None:
            tick.what = f"diagnosis ({text})"
            tick(number)

        stage(0, "log p")
        numbers = _of_log_p(machine, data, seed)
        stage(1, "chains")
        numbers["rhat"] = _rhat(machine, data.train, chains, sweeps, seed)
        stage(2, "words")
    return TableDiagnosis(_learned(numbers), _mixes(numbers, sweeps), _overfits(numbers), numbers)


@torch.no_grad()
def _of_log_p(machine: Machine, data: Dataset, seed: int) -> dict[str, float]:
    """log p of both parts and of independent columns, (1) and (2), each with its interval."""
    z, _ = normaliser(machine, data.train, seed, "auto")
    first = machine.layers.encode(data.train)
    each = {}
    for name, part in (("train", data.train), ("test", data.test)):
        some = part.take(slice(None, None, -(-len(part) // ROWS)))
        found = log_p(machine, some.spins, some.observed, normaliser=z, seed=seed)
        alone = log_columns(
            machine, first, machine.layers.encode(some), data.train.observed, some.observed
        )
        each[name] = found.value[0].double().cpu(), alone.double().cpu()
    (train, _), (test, columns) = each["train"], each["test"]
    of_z = float(z.upper - z.lower) / 2
    gain, gap = test - columns, float(train.mean() - test.mean())
    numbers = {
        "log_p_train": float(train.mean()),
        "log_p_test": float(test.mean()),
        "independent_columns": float(columns.mean()),
        "log_z_half_width": of_z,
    }
    numbers |= _interval("gain", float(gain.mean()), math.hypot(SIDES * _error(gain), of_z))
    return numbers | _interval("gap", gap, SIDES * math.hypot(_error(train), _error(test)))


def _error(values: Tensor) -> float:
    """Of a mean; infinite for one value."""
    return float(values.std()) / len(values) ** 0.5 if len(values) > 1 else math.inf


def _interval(name: str, value: float, half: float) -> dict[str, float]:
    return {name: value, f"{name}_from": value - half, f"{name}_to": value + half}


@torch.no_grad()
def _rhat(machine: Machine, train: Split, chains: int, sweeps: int, seed: int) -> float:
    """R-hat of the energy, and of the visible columns along the largest directions of the data."""
    rng = stream(seed, "diagnose", "table", device=machine.device)
    rows = machine.layers.encode(train).to(machine.device, machine.dtype)
    half = chains // 2
    some = torch.randperm(len(rows), generator=stream(seed, "rows"))[:half].to(rows.device)
    starts = [machine.random(chains - len(some), rng), machine.with_visible(rows[some])]
    spins = torch.cat([start.to(machine.dtype) for start in starts], 1)
    spins = run_sweeps(machine, spins, rng, sweeps)
    centred = (rows - rows.mean(0)).double()
    directions = torch.linalg.eigh(centred.T @ centred).eigenvectors[:, -DIRECTIONS:].to(machine.dtype)
    series: list[Tensor] = []
    with watch("chains", RECORDS) as tick:
        for _ in range(RECORDS):
            spins = run_sweeps(machine, spins, rng, max(1, sweeps // RECORDS))
            along = spins[0, :, : machine.visible] @ directions
            energy = trusted.energy(machine, spins)[0]
            series.append(torch.cat([energy[:, None].double(), along.double()], 1))
            tick()
    return float(split_rhat(torch.stack(series, -1).permute(1, 0, 2)).amax())


# -- words --------------------------------------------------------------------------------------------


def _told(numbers: dict[str, float], name: str) -> str:
    value, low, high = (_plain(numbers[f"{name}{end}"]) for end in ("", "_from", "_to"))
    return f"{value} nats [{low}, {high}]"


def _plain(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def _learned(numbers: dict[str, float]) -> str:
    both = f"{_plain(numbers['log_p_test'])} against {_plain(numbers['independent_columns'])}"
    if numbers["gain_from"] > 0:
        return (
            f"It has learned how columns hang together: a held-out row has {_told(numbers, 'gain')} more "
            f"log p than under independent columns ({both})."
        )
    if numbers["gain_to"] < 0:
        lost = {
            end: -numbers[f"gain{other}"] for end, other in (("", ""), ("_from", "_to"), ("_to", "_from"))
        }
        told = _told({f"gain{end}": value for end, value in lost.items()}, "gain")
        return (
            f"It is worse than independent columns: a held-out row has {told} less log p than under them "
            f"({both})."
        )
    return (
        "It is not proven to know more than independent columns: the log p of a held-out row is larger "
        f"by {_told(numbers, 'gain')} ({both})."
    )


def _mixes(numbers: dict[str, float], sweeps: int) -> str:
    told = (
        f"R-hat {numbers['rhat']:.3f} after {sweeps:,} sweeps, from random starts and from training rows"
    )
    known = numbers["log_z_half_width"]
    exact = "log p is exact" if known == 0 else f"log p is known to ± {known:.2g} nats"
    if numbers["rhat"] <= AGREED:
        return f"Its chains mix ({told}), so that its samples can be trusted; {exact}."
    return (
        f"Its chains do not mix ({told}): samples depend on where they start; {exact}. Draw more slowly "
        "(rapidbm sample --sampler pt, or more --sweeps)."
    )


def _overfits(numbers: dict[str, float]) -> str:
    told = f"training rows have {_told(numbers, 'gap')} more log p than held-out ones"
    if numbers["gain_to"] < 0 or numbers["gain_from"] <= 0:
        if numbers["gap_from"] > 0:
            return f"It overfits: {told}. Train again with more --weight-decay or fewer hidden units."
        return (
            f"It does not overfit: {told}. Train for longer, or give it a --budget to choose settings by."
        )
    if numbers["gap_from"] <= 0:
        return (
            f"It does not overfit: {told}. Longer training or more hidden units may still gain; see the "
            "rows it draws by rapidbm report."
        )
    if numbers["gap"] < LITTLE * numbers["gain"]:
        return f"It overfits a little, as is usual: {told}. See the rows it draws by rapidbm report."
    return (
        f"It overfits: {told}. Train again with more --weight-decay or fewer hidden units, or with "
        "--valid 0.1, which keeps the best machine; see by rapidbm report whether it copies rows."
    )
