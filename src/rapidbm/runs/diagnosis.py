"""Is it glassy, does it mix, what are its minima, are its samples good: one machine, all numbers.

Two samplers look at it. Gibbs chains from random starts are what training sees: they give q_EA, the
overlap of chains that may have got stuck, R-hat and the verdict. Walkers of parallel tempering cross
barriers: they give the overlap distribution, triples and energies. Samples are judged as a user draws
them, by Gibbs sampling from random starts.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .. import pictures
from ..accel.devices import device_named
from ..data.splits import Dataset
from ..disk import write_json
from ..display import Displayable, Table
from ..errors import InputError, check_count
from ..estimates import Estimate
from ..glass.accessibility import gibbs_accessibility
from ..glass.neighbours import adversarial_accuracy, nearest
from ..glass.overlaps import energies_per_unit, overlap_distribution, ultrametricity
from ..glass.phases import boundaries, phase_point
from ..glass.pictures import (
    landscape_figure,
    show_moments,
    show_nearest,
    show_phases,
    show_projections,
    show_relaxation,
)
from ..glass.relaxation import relaxation
from ..glass.sample_moments import moments, projections
from ..glass.spectra import pattern_overlaps
from ..glass.verdict import glassiness
from ..ground.ground_state import ground_state
from ..machines.machine import Machine
from ..progress import watch
from ..random import check_seed, stream
from ..sampling.convergence import mixing
from ..sampling.samplers import Gibbs, ParallelTempering, record, sample
from .trained import Checkpoint, Trained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STAGED = (
    "place among the phases",
    "Gibbs chains from random starts",
    "minima",
    "parallel tempering",
    "ground state",
    "quality of samples",
)
STAGES = len(STAGED)
SERIES = 100  # recorded times of each Gibbs chain
_Number = Estimate | Tensor | float | str | None
_Numbers = dict[str, _Number]
PATH = 200  # checkpoints that draw the way through the phases, at most
IMAGES = 2000  # samples and data that quality compares, at most


@dataclass(frozen=True)
class DiagnosisRow:
    """A number with its error, or words."""

    section: str
    name: str
    value: float | str | None
    error: float | None = None

    def text(self) -> str:
        if self.value is None or (isinstance(self.value, float) and not math.isfinite(self.value)):
            return "not defined"
        if isinstance(self.value, str):
            return self.value
        if self.error is None:
            whole = self.value == round(self.value) and abs(self.value) < 1e9
            return f"{self.value:,.0f}" if whole else f"{self.value:.4g}"
        return f"{self.value:.4g} ± {self.error if self.error > 1e-12 else 0.0:.2g}"


@dataclass(frozen=True, repr=False)
class Diagnosis(Displayable):
    """Numbers about one machine with errors, figures, and a verdict in words.

    Attributes
    ----------
    rows : tuple of DiagnosisRow
        Section, name, value and error of each number; `table()` shows them.
    figures : dict of str to matplotlib.figure.Figure
        Figures by name.
    verdict : str
        Whether the machine is paramagnetic, ordered or a spin glass, and why.
    """

    rows: tuple[DiagnosisRow, ...]
    figures: dict[str, Figure]
    verdict: str

    def _facts(self) -> list[tuple[str, str]]:
        sections = dict.fromkeys(row.section for row in self.rows)
        return [
            ("verdict", self.verdict),
            ("table()", f"{len(self.rows)} rows: {'; '.join(sections)}"),
            ("figures", ", ".join(self.figures)),
        ]

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def table(self) -> Table:
        """All numbers as a table.

        Returns
        -------
        Table
            Columns: section, name, value with its error.
        """
        cells = tuple((row.section, row.name, row.text()) for row in self.rows)
        return Table("Diagnosis", ("of", "what", "value"), cells)

    def as_dict(self) -> dict[str, Any]:
        """All numbers as plain values, for JSON.

        Returns
        -------
        dict
            Sections of names, each with `value` and `error`; None where a value is not finite.
        """
        sections: dict[str, Any] = {}
        for row in self.rows:
            entry: Any = row.value
            if isinstance(entry, float):
                entry = entry if math.isfinite(entry) else None  # JSON has no NaN
                entry = {"value": entry, "error": row.error}
            sections.setdefault(row.section, {})[row.name] = entry
        return sections

    def save(self, folder: Path, of: str, prefix: str = "", suffix: str = "") -> dict[str, str]:
        """Writes the figures and `diagnosis.json` into a folder.

        Parameters
        ----------
        folder : Path
            Where to write.
        of : str
            What was diagnosed, in words.
        prefix : str, default ""
            Put before the names of the files.
        suffix : str, default ""
            Put after the names of the files.

        Returns
        -------
        dict of str to str
            Paths of the figures by name.
        """
        rows = [(row.section, row.name, row.text()) for row in self.rows]
        files = {
            key: str(pictures.save(figure, folder / f"{prefix}{key}{suffix}.png"))
            for key, figure in self.figures.items()
        }
        names = {key: Path(path).name for key, path in files.items()}
        told = {"of": of, "verdict": self.verdict, "rows": rows, "figures": names}
        write_json(folder / f"{prefix}diagnosis{suffix}.json", told)
        return files


def opened(
    run: Trained, update: Checkpoint, replica: int, device: str
) -> tuple[Machine, Dataset | None, list[Machine]]:
    """One machine of what is looked at, its data, and checkpoints up to there, `PATH` at most."""
    machine = run.machine(update, replica).to(device_named(device))
    past = [run.machine(before, replica) for before in run.checkpoints_until(update, PATH)]
    return machine, run.data().in_memory() if run.has_data else None, past


def gibbs_series(machine: Machine, chains: int, sweeps: int, rng: torch.Generator) -> Tensor:
    """What the verdict looks at: states (e, c, t, n) of chains after `sweeps` from random starts."""
    every = max(1, sweeps // SERIES)
    skip = math.ceil(sweeps / every)
    return record(machine, chains, SERIES, sampler=Gibbs(sweeps=every), skip=skip, rng=rng)[0]


def diagnose(
    machine: Machine,
    data: Dataset | None = None,
    *,
    past: Sequence[Machine] = (),
    chains: int = 64,
    sweeps: int = 500,
    starts: int = 400,
    seed: int = 0,
    title: str = "",
    tell: Callable[[str], None] = lambda text: None,
    limit: float | None = None,
) -> Diagnosis:
    """Whether a machine is a spin glass and how good its samples are: numbers, figures, a verdict.

    Parameters
    ----------
    machine : Machine
        A machine of spins with one replica.
    data : Dataset, optional
        What it was trained on, to judge samples by.
    past : sequence of Machine, default ()
        Checkpoints of its training.
    chains : int, default 64
        Chains of each sampler, at least 4.
    sweeps : int, default 500
        Sweeps before anything is recorded.
    starts : int, default 400
        Random states from which descent looks for minima.
    seed : int, default 0
        Seed of the draws.
    title : str, default ""
        Title of the figures.
    tell : callable, optional
        Called with the name of each stage.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    Diagnosis
        Table, figures and verdict.

    Raises
    ------
    InputError
        If the machine has several replicas, no couplings, or parameters that are not finite.
    """
    machine.layers.check_spins("a diagnosis")
    if machine.replicas != 1:
        raise InputError(
            f"diagnose looks at one machine at a time, this one has {machine.replicas} replicas; take "
            "machine.replica(i)"
        )
    if not all(bool(torch.isfinite(p).all()) for p in machine.parameters()):
        raise InputError("a machine to diagnose has finite parameters, this one has NaN or infinity")
    if not any(bool(machine.couplings.matrix(*edge).any()) for edge in machine.layers.edges):
        raise InputError("a machine to diagnose has couplings, but these are all zero")
    if data is not None and not isinstance(data, Dataset):
        raise InputError(
            f"diagnose takes a Dataset, as `load` and `from_arrays` give it, not {type(data).__name__}"
        )
    check_seed(seed)
    machine.check_chains(chains, least=4)
    check_count("the number of sweeps", sweeps)
    check_count("the number of starts", starts, least=2)
    remedy = "take fewer chains, sweeps or starts"
    with watch("diagnosis", STAGES - (data is None), limit=limit, remedy=remedy) as tick:

        def stage(text: str) -> None:
            tick.what = f"diagnosis ({text})"
            tick(STAGED.index(text))
            tell(text)

        work = _Work(copy.deepcopy(machine).requires_grad_(False), chains, sweeps, starts, seed, stage)
        return _diagnosed(work, data, past, title)


def _diagnosed(work: _Work, data: Dataset | None, past: Sequence[Machine], title: str) -> Diagnosis:
    machine, figures = work.machine, {}
    sections, figures["phases"] = work.place(past, title)
    found, figures["landscape"], verdict = work.landscape(title)
    sections |= found
    if data is not None:
        few = machine.visible < 3 or len(data.train) < 4 or len(data.test) < 2
        if few or len(torch.unique(data.train.spins, dim=0)) < 2:
            told = "needs 3 pixels, 4 training and 2 test images, not all of them alike"
            sections["samples"] = {"quality": told}
        else:
            found, figures["quality"] = work.quality(data, title)
            sections |= found
    rows = [_row(section, *each) for section, rows in sections.items() for each in rows.items()]
    known = (row for row in rows if row is not None)
    return Diagnosis((DiagnosisRow("verdict", "this machine", verdict), *known), figures, verdict)


@dataclass(frozen=True)
class _Work:
    machine: Machine
    chains: int
    sweeps: int
    starts: int
    seed: int
    tell: Callable[[str], None]

    def rng(self, name: str) -> torch.Generator:
        return stream(self.seed, "diagnose", name, device=self.machine.device)

    def place(self, past: Sequence[Machine], title: str) -> tuple[dict[str, _Numbers], Figure]:
        """Load and temperature, and the way there."""
        self.tell("place among the phases")
        here = phase_point(self.machine)
        path = [phase_point(m) for m in past] or [here]
        fig = pictures.figure(5.6, 4.4)
        show_phases(
            fig.subplots(),
            boundaries(here.theory, here.aspect),
            [(float(x.load[0]), float(x.temperature[0])) for x in path],
            title=title,
        )
        kind = "patterns K" if self.machine.patterns is not None else "patterns that J amounts to"
        rows: _Numbers = {
            kind: here.patterns,
            "load": here.load,
            "temperature": here.temperature,
            "a random machine there": here.phase[0],
        }
        if past:
            first = path[0]
            rows |= {"load at the start": first.load, "temperature at the start": first.temperature}
            rows["a random machine at the start"] = first.phase[0]
        return {f"place ({here.theory}, replica symmetry)": rows}, fig

    def landscape(self, title: str) -> tuple[dict[str, _Numbers], Figure, str]:
        machine, fold = self.machine, self.machine.symmetric
        self.tell("Gibbs chains from random starts")
        series = gibbs_series(machine, self.chains, self.sweeps, self.rng("gibbs"))
        self.tell("minima")
        glass = glassiness(machine, series, self.rng("minima"), starts=self.starts)
        self.tell("parallel tempering")
        tempered, state = record(
            machine,
            self.chains,
            SERIES,
            sampler=ParallelTempering(),
            skip=self.sweeps,
            rng=self.rng("pt"),
        )
        walkers = tempered[:, :, -1].to(machine.dtype)
        pairs = overlap_distribution(walkers, fold=False)
        triples = ultrametricity(walkers, self.rng("triples"), fold=fold)
        warm = energies_per_unit(machine, walkers)
        self.tell("ground state")
        ground = ground_state(machine, rng=self.rng("ground"))
        reached = gibbs_accessibility(
            machine, None, self.rng("reach"), chains=self.chains, ground=ground.energy
        )
        found, spectrum = glass.minima, glass.spectrum
        q = "|q|" if fold else "q"
        sections: dict[str, _Numbers] = {
            "chains at β = 1 (Gibbs)": {
                "q_EA": glass.edwards_anderson,
                "overlap of different chains": glass.between,
                "difference": glass.gap,
                f"variance of {q}": glass.variance,
                **self._mixing(series),
            },
            "walkers (parallel tempering)": {
                **self._mixing(tempered),
                "rungs": state.rungs.shape[1],
                "lowest swap rate": state.rates.min(),
                "highest swap rate": state.rates.max(),
                "round trips": state.trips[0],
            },
            "overlaps of walkers": {
                "⟨|q|⟩": pairs.size,
                "⟨q²⟩": pairs.square,
                "variance of q": pairs.variance,
                "Binder ratio": pairs.binder,
                f"P(|q| < {pairs.near:g})": pairs.near_zero,
            },
            "triples of walkers": {
                "⟨K⟩, 0 if ultrametric": triples.found.k,
                "⟨K⟩ of shuffled spins": triples.null.k,
                "isosceles": triples.found.isosceles,
                "isosceles, shuffled": triples.null.isosceles,
            },
            "energy per unit": {"walkers": Estimate.of(warm)},
            "minima": {
                f"distinct, of {found.starts} descents": found.distinct,
                "in all, at least (Chao 1)": found.total,
                "two descents meet (Y)": found.coincidence,
                "share of the most frequent": found.top,
                "slope of log(minima) per unit": glass.growth.slope,
                "descents that end in a pattern": found.retrieval,
                "overlap that a pattern keeps": glass.stability,
            },
            "ground state": {
                "energy": ground.energy,
                "no state is below": ground.bound,
                "how": f"{ground.method}: {ground.effort}",
                "share of starts that found it": ground.found,
                "Gibbs accessibility": reached,
            },
            f"couplings ({spectrum.kind})": {
                "largest": spectrum.values[0].abs().max(),
                "edge of random ones": spectrum.edge,
                "beyond it": spectrum.outliers,
                "effective rank": spectrum.effective_rank,
            },
            "overlaps among patterns": self._patterns(),
        }
        fig = landscape_figure(pairs, triples, warm, found, glass.growth, spectrum, title=title)
        return sections, fig, glass.verdict[0]

    def _mixing(self, series: Tensor) -> dict[str, str]:
        try:
            found = mixing(self.machine, series)
        except InputError as error:  # arviz is an extra
            return {"R-hat, ESS": str(error)}
        told = {}
        for i, name in enumerate(found.names):
            rhat = float(found.rhat[0, i])
            if not math.isfinite(rhat):
                still = math.isinf(rhat)
                words = "infinite: every chain stays at its place" if still else "no change at all"
            else:
                words = (
                    f"{rhat:.3f}; ESS {float(found.ess[0, i]):.0f} of "
                    f"{series.shape[1] * series.shape[2]}, autocorrelation time "
                    f"{float(found.time[0, i]):.1f} records"
                )
            told[f"R-hat of {name}"] = words
        return told

    def _patterns(self) -> _Numbers:
        found = pattern_overlaps(self.machine)
        rows: _Numbers = {}
        if found is None:
            return rows
        for layer in range(found.rms.shape[1]):
            name = "visible" if not layer else f"hidden {layer}"
            rows |= {f"{name}, rms": found.rms[0, layer]}
            rows |= {f"{name}, of independent ones": found.expected[layer]}
        return rows

    def quality(self, data: Dataset, title: str) -> tuple[dict[str, _Numbers], Figure]:
        machine, rng = self.machine, self.rng("quality")
        self.tell("quality of samples")
        whole, test = (machine.visible_spins(x.spins)[0] for x in (data.train, data.test))
        some = torch.randperm(len(whole), generator=stream(self.seed, "images"))[:IMAGES]
        train = whole[some.to(whole.device)]
        count = max(20, len(train))
        spins = sample(machine, count, steps=self.sweeps, rng=self.rng("samples"))
        spins = spins[..., : machine.visible]
        judged = adversarial_accuracy(spins, train, rng)
        orders = moments(spins, train, rng)
        near = nearest(spins, whole, test[:IMAGES])
        many = min(10, machine.visible, len(train) - 1)
        axes = projections(spins, train, rng, components=many)
        way = relaxation(machine, train, rng, chains=min(count, 500), sweeps=_decades(self.sweeps))
        rows: _Numbers = {
            "adversarial accuracy, data": judged.truth,
            "adversarial accuracy, samples": judged.synthetic,
        }
        for moment in orders:
            name = f"moments of order {moment.order}"
            rows |= {f"{name}, rms error": moment.rms, f"{name}, rms of chance": moment.floor}
        for i in range(min(3, many)):
            one = Estimate(axes.distance.value[:, i], axes.distance.error[:, i])
            rows |= {f"distance along component {i + 1}": one}
            rows |= {f"of chance, component {i + 1}": axes.floor[i]}
        settled = way.equilibrium[0]
        late = f"not within {way.sweeps[-1]} sweeps"
        rows |= {
            "distance to the nearest training image": near.mean,
            "the same of test images": near.test_mean,
            "copies of training images": near.copies,
            "copies among test images": near.test_copies,
            "equilibrium from random starts": late if settled is None else f"after {settled} sweeps",
        }
        fig = pictures.figure(13.0, 6.4)
        panels = fig.subplots(2, 3)
        show_moments(panels[0, 0], orders[1])
        show_moments(panels[0, 1], orders[2])
        show_projections(panels[0, 2], axes) if many > 1 else panels[0, 2].set_axis_off()
        show_nearest(panels[1, 0], near)
        show_relaxation(panels[1, 1], way, statistic="accuracy")
        show_relaxation(panels[1, 2], way, statistic="second")
        fig.suptitle(pictures.plain(title), fontsize=11, color=pictures.INK)
        return {f"samples ({self.sweeps} Gibbs sweeps from random starts)": rows}, fig


def _decades(last: int) -> tuple[int, ...]:
    """0, 1, 3, 10, 30, … up to a number of sweeps."""
    steps = [s * 10**d for d in range(9) for s in (1, 3) if s * 10**d < last]
    return (0, *steps, last)


def _row(section: str, name: str, number: _Number) -> DiagnosisRow | None:
    """A number of replica 0, or words; None for what is not there."""
    if number is None or isinstance(number, str):
        return None if number is None else DiagnosisRow(section, name, number)
    if not isinstance(number, Estimate):
        value = float(torch.as_tensor(number).flatten()[0])
        return DiagnosisRow(section, name, None if math.isnan(value) else value)
    known, error = (x if math.isfinite(x) else None for x in number.replica(0))
    return DiagnosisRow(section, name, known, None if known is None else error)
