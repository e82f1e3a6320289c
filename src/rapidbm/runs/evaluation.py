"""All that can be said about a trained run: likelihoods, reconstruction errors, energies."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .. import pictures
from ..accel.devices import device_named
from ..accel.ranks import current_ranks
from ..arrays import mean_one
from ..data.splits import Split
from ..display import Displayable, spread
from ..errors import InputError, TimeLimit, check_choice, lookup
from ..estimates import Bounds
from ..glass.accessibility import gibbs_accessibility, method_accessibility
from ..ground.ground_state import ground_state
from ..inference.labels import predict
from ..likelihood.bridging import log_z_along
from ..likelihood.exact import can_be_exact
from ..likelihood.independent import log_columns
from ..likelihood.log_z import HIDDEN, log_bound, log_likelihood, log_z
from ..likelihood.row_means import RowMeans
from ..machines.cells import known_and_filled, place_of
from ..machines.enumeration import states_of
from ..machines.files import load_tensors
from ..machines.machine import Machine
from ..machines.units.spin import SPIN
from ..progress import watch
from ..random import check_seed, stream
from ..training.negative import HasConfigurations, NegativePhase
from ..training.sharded.shards import apart
from . import incomplete
from .folder import as_list
from .incomplete import has_gaps
from .metrics import BOUND, LIKELIHOOD, WATCHED, hamming_distance, mean_free_energy
from .pretrained.packed import open_trained
from .trained import Checkpoint, Trained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIKELIHOODS = ("auto", "exact", "ais", "none")
WORTH = 2**22  # terms of an exact sum that are worth waiting for
CHAINS = 500  # of annealing
LABELLED = 2000  # rows whose labels are predicted
WAIT = 300.0  # seconds that an annealed likelihood is worth


@dataclass(frozen=True, repr=False)
class Evaluation(Displayable):
    """What `rapidbm evaluate` prints: measured values per replica.

    `evaluation["name"]` is the row of that name.

    Attributes
    ----------
    rows : dict of str to list
        Values per replica; None where one could not be measured.
    notes : tuple of str
        How the values were obtained.
    of : str
        Which machine.
    """

    rows: dict[str, list[float | None]]
    notes: tuple[str, ...]
    of: str  # which machine

    def __getitem__(self, name: str) -> list[float | None]:
        """A row by its name, a value per replica."""
        return lookup("row of this evaluation", name, self.rows)

    def _title(self) -> str:
        return f"Evaluation of {self.of}"

    def _facts(self) -> list[tuple[str, str]]:
        rows = [(name, spread(values)) for name, values in self.rows.items()]
        return [*rows, *(("note", note) for note in self.notes)]


def evaluate(
    machine: Machine | Trained | str | Path,
    data: Any = None,
    *,
    update: Checkpoint = None,
    likelihood: str = "auto",
    seed: int = 0,
    device: str | None = None,
    limit: float | None = None,
) -> Evaluation:
    """Likelihood, reconstruction error and energies of a trained machine, as in `rapidbm evaluate`.

    Parameters
    ----------
    machine : Machine, Run, str or Path
        A machine, a run, a run folder, a file of a machine, or `pretrained:NAME`.
    data : Dataset, str, Path or array, optional
        What to measure on; by default the data of the run. Without any there is no likelihood.
    update : int or {"best", "last"}, optional
        Which checkpoint; by default the best by validation where there is one, else the last.
    likelihood : {"auto", "exact", "ais", "none"}, default "auto"
        How log Z is found.
    seed : int, default 0
        Seed of the draws.
    device : str, optional
        Where to compute; by default as the run.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    Evaluation
        Rows by name, a value per replica.

    Raises
    ------
    InputError
        If the folder, the checkpoint or the data cannot be used.

    Examples
    --------
    >>> found = rb.evaluate(rb.rbm(16, 8, seed=0), "bars4")
    >>> "log_likelihood_test" in found.rows
    True
    """
    check_seed(seed)
    with watch("evaluation", limit=limit, remedy="take likelihood='none'"):
        return evaluation(open_trained(machine, data), update, seed, device, likelihood)


def evaluation(
    run: Trained,
    update: Checkpoint = None,
    seed: int = 0,
    device: str | None = "cpu",
    likelihood: str = "auto",
    shards: int | None = None,
) -> Evaluation:
    """Named values per replica, and notes on how they were had, or why not. Chains of annealing may be in
    shards, where other ranks `assist`."""
    check_choice("choice of --likelihood", likelihood, LIKELIHOODS)
    splits, machine = run.parts(), copy.deepcopy(run.machine(update)).requires_grad_(False)
    machine = machine if device is None else machine.to(device_named(device))
    train = next(iter(splits.values()), None)
    rng = stream(seed, "evaluate", device=machine.device)
    rows: dict[str, Tensor] = {}
    notes = list(run.notes)
    for part, split in splits.items():
        if split.of is not None:
            notes.append(f"{part}: measured on {len(split):,} of {split.of:,} rows, evenly spread")
        if split.weights is not None:
            told = f"{split.effective_rows:,.1f} effective of {len(split):,}"
            notes.append(f"{part}: means of log p and free energy are by the weights of rows, {told}")
    if train is None:
        notes.append("without data there is neither a likelihood nor a reconstruction; name some: --data")
    if machine.layers.spins:
        for part, split in splits.items():
            rows[f"hamming_{part}"] = hamming_distance(machine, split, rng)
    elif train is not None:  # how much is gained over columns that know nothing of each other
        first = machine.layers.encode(train)
        for part, split in splits.items():
            masks, weights = (train.observed, split.observed), mean_one(train.weights)
            rows_of = machine.layers.encode(split)
            each = log_columns(machine, first, rows_of, *masks, weights=weights)
            alone = RowMeans.of(each[None], mean_one(split.weights)).mean
            rows[f"independent_columns_{part}"] = alone.expand(machine.replicas)
    if not splits:
        pass
    elif states_of(machine.layers, machine.layers.visible) <= HIDDEN:
        for part, split in splits.items():
            if has_gaps(split):
                continue
            rows[f"free_energy_{part}"] = mean_free_energy(machine, split, rng)
    else:
        bits = states_of(machine.layers, machine.layers.visible).bit_length() - 1
        notes.append(f"the free energy would take 2^{bits} hidden states per image: left out")
    if run.label is not None:
        for part, split in splits.items():
            rows |= label_rows(machine, split, run.label, part, seed)
    if likelihood != "none":
        try:
            found, note = likelihoods(machine, splits, seed, likelihood, shards)
        except TimeLimit as error:
            notes.append(f"no likelihood: {error} (--likelihood ais takes its time)")
        else:
            rows |= found
            notes.append(
                f"{note}; _from and _to are the 95 % interval" if "log_z_from" in found else note
            )
    if machine.layers.spins:
        _energies(run, update, machine, train, rng, rows, notes)
    values = {name: as_list(value) for name, value in rows.items()}
    return Evaluation(values, tuple(notes), run.where(update)[1])


def label_rows(machine: Machine, split: Split, unit: int, part: str, seed: int) -> dict[str, Tensor]:
    """How often the most probable label of a row is another one than it has, and the mean of log p(label
    given the rest), of at most `LABELLED` rows with a label; nothing where there are none."""
    number, place = place_of(machine, unit)
    if place.states is None:
        return {}
    values = machine.layers.decode(machine.layers.encode(split))
    observed = torch.ones_like(values, dtype=torch.bool)
    if split.observed is not None:
        observed = known_and_filled(machine, split.spins, split.observed)[1].cpu()
    kept = observed[:, number].nonzero()[:, 0][:LABELLED]
    if not len(kept):
        return {}
    p = predict(machine, values[kept], number, observed[kept], seed=seed).probabilities
    assert p is not None
    states = place.values
    assert states is not None
    truth = (values[kept, number].double().cpu()[:, None] == states.cpu()).double().argmax(1)
    own = p.cpu().gather(2, truth.expand(len(p), -1)[..., None])[..., 0]
    wrong = (p.argmax(2).cpu() != truth).double().mean(1)
    return {f"label_error_{part}": wrong, f"log_p_label_{part}": own.log().mean(1)}


def _energies(
    run: Trained,
    update: Checkpoint,
    machine: Machine,
    train: Split | None,
    rng: torch.Generator,
    rows: dict[str, Tensor],
    notes: list[str],
) -> None:
    """Adds the ground state of spins, what reaches it, and energies beside it."""
    ground = ground_state(machine, rng=rng)
    rows["ground_state_energy"] = ground.energy
    if ground.method != "exact":
        rows["ground_state_bound"] = ground.bound
        rows["ground_state_found"] = ground.found
    notes.append(f"ground state: {ground.method}, {ground.effort}")
    rows["gibbs_accessibility"] = gibbs_accessibility(machine, None, rng, ground=ground.energy)
    negative = run.negative
    shows = isinstance(negative, HasConfigurations)
    if train is not None and negative is not None and shows:
        each = _chains(run, machine) if run.chosen(update) == "last" else None
        found_by = [
            method_accessibility(machine, train, rng, negative=phase, chains=chains, ground=ground.energy)
            for phase, chains in each or [(negative, None)]
        ]
        rows["method_accessibility"] = torch.stack(found_by).amax(0)  # the lowest energy of any shard
    spins = machine.random(100, rng)
    rows["energy_random"] = machine.energy(spins).mean(1)
    if machine.patterns is not None:
        rows["energy_patterns"] = machine.energy(SPIN.nearest(machine.patterns)).mean(1)


def assist(
    run: Trained,
    update: Checkpoint = None,
    seed: int = 0,
    device: str | None = "cpu",
    likelihood: str = "auto",
    shards: int | None = None,
) -> None:
    """What another rank than the first has to do in an `evaluation`: its share of the annealing."""
    check_choice("choice of --likelihood", likelihood, LIKELIHOODS)
    if likelihood == "none":
        return
    machine = copy.deepcopy(run.machine(update)).requires_grad_(False)
    machine = machine if device is None else machine.to(device_named(device))
    with suppress(TimeLimit):  # the first one tells of it
        _normaliser(machine, next(iter(run.parts().values()), None), seed, likelihood, shards)


def likelihoods(
    machine: Machine,
    parts: Mapping[str, Split],
    seed: int = 0,
    likelihood: str = "auto",
    shards: int | None = None,
) -> tuple[dict[str, Tensor], str]:
    """log Z and log p of every part, and how they were had: the first part tells where the data are.

    Where hidden units are coupled to each other there is a lower bound besides, and log p itself, unless
    it is insisted on, where that is a matter of minutes."""
    z, note = _normaliser(machine, next(iter(parts.values()), None), seed, likelihood, shards)
    rows = named("log_z", z)
    if states_of(machine.layers, machine.layers.visible) <= HIDDEN:
        for part, split in parts.items():
            found = _of_part(machine, split, z, seed)
            rows |= named(f"log_likelihood_{part}", found)
            if has_gaps(split):
                note = f"{note}; {part}: {found.effort.rpartition('; ')[2]}"
        return rows, note
    limit = WAIT / max(1, len(parts)) if likelihood == "auto" else None
    told = [note]
    for part, split in parts.items():
        if has_gaps(split):
            rows |= named(f"log_likelihood_{part}", _of_part(machine, split, z, seed))
            continue
        rows |= named(f"log_bound_{part}", log_bound(machine, split, z))
        try:
            found = log_likelihood(machine, split, normaliser=z, seed=seed, limit=limit)
        except TimeLimit as error:
            told.append(f"no likelihood of {part} beside its bound: {error} (--likelihood ais insists)")
            continue
        rows |= named(f"log_likelihood_{part}", found)
        rows[f"variational_gap_{part}"] = torch.as_tensor(found.gap)
        told.append(f"{part}: hidden units annealed too,{found.effort.removeprefix(z.effort)[1:]}")
    return rows, "; ".join([*told, "log_bound is what mean field proves: log p is not smaller"])


def _of_part(machine: Machine, split: Split, z: Bounds, seed: int) -> Bounds:
    """The mean of log p over a part, missing cells summed over."""
    if has_gaps(split):
        return incomplete.log_likelihood(machine, split, z, seed)
    return log_likelihood(machine, split, normaliser=z, seed=seed)


def named(name: str, found: Bounds) -> dict[str, Tensor]:
    """The value, and unless it is exact the ends of its 95 % interval."""
    if found.method == "exact":
        return {name: found.value}
    return {name: found.value, f"{name}_from": found.lower, f"{name}_to": found.upper}


def _normaliser(
    machine: Machine, data: Split | None, seed: int, likelihood: str, shards: int | None = None
) -> tuple[Bounds, str]:
    if likelihood == "exact" or (likelihood == "auto" and can_be_exact(machine, WORTH)):
        z = log_z(machine, method="exact")
        return z, f"log Z is exact, over {z.effort}"
    limit = WAIT if likelihood == "auto" and current_ranks().first else None
    how: Any = {"seed": seed, "data": data, "chains": CHAINS, "limit": limit, "shards": shards}
    z = log_z(machine, method="ais", **how)
    smallest, largest = float(z.ess.min()), float(z.largest.max())
    told = (
        f"log Z is annealed there and back, {z.effort}; at least {smallest:.0f} of them effective, the "
        f"largest weight {largest:.1%}"
    )
    return z, f"{told}; {z.note}" if z.note else told


def _chains(run: Trained, machine: Machine) -> list[tuple[NegativePhase, Tensor | None]] | None:
    """The chains of the newest checkpoint with their phase, in each shard, if the phase keeps any."""
    assert run.negative is not None  # it was asked for its configurations
    chains = load_tensors(run.latest)[0].get("training/chains")
    if chains is None or not chains.shape[1]:
        return None
    return [*apart(run.negative, machine, chains, run.shards)]


def likelihood_curve(
    run: Trained,
    seed: int = 0,
    device: str = "cpu",
    track: Callable[[range], Iterable[int]] = iter,
    replica: int | None = None,
) -> list[dict[str, Any]]:
    """The likelihood of every checkpoint, bridged from one to the next: a record for each, with values of
    all replicas or of one. Where hidden units are coupled to each other it is the lower bound that is
    cheap."""
    if not (updates := sorted(run.checkpoints())):
        raise InputError(f"a curve goes along checkpoints, and {run} has none; leave --curve out")
    parts = run.parts()
    where = device_named(device)
    machines = [run.machine(u, replica).to(where).requires_grad_(False) for u in updates]
    deep = states_of(machines[0].layers, machines[0].layers.visible) > HIDDEN
    found = log_z_along(machines, seed=seed, data=next(iter(parts.values())), chains=CHAINS, track=track)
    records = []
    for update, machine, z in zip(updates, machines, found, strict=True):
        values = named("log_z", z)
        for part, split in parts.items():
            if deep:
                name, bounds = BOUND, log_bound(machine, split, z)
            else:
                name, bounds = LIKELIHOOD, log_likelihood(machine, split, normaliser=z, seed=seed)
            values[f"{name}_{part}_from"] = bounds.interval[0]
            values[f"{name}_{part}_to"] = bounds.interval[1]
        record: dict[str, Any] = {"update": update, "method": z.method, "effort": z.effort}
        records.append(record | {name: as_list(value) for name, value in values.items()})
    return records


def curve_figure(records: list[dict[str, Any]], title: str) -> Figure:
    """Log-likelihood of every part of the data, or its bound, against updates; bands are the 95 %
    intervals' hull over replicas."""
    import numpy as np

    fig = pictures.figure(5.6, 3.8)
    axes = fig.subplots()
    x = [record["update"] for record in records]
    pens = ((pictures.BLUE, "-"), (pictures.ORANGE, "--"), (pictures.INK, ":"))
    measured = measured_parts(records[0])
    for (part, name), (colour, style) in zip(measured.items(), pens, strict=False):
        low, high = (
            np.array([[np.nan if v is None else v for v in r[key]] for r in records], dtype=float)
            for key in (f"{name}_from", f"{name}_to")
        )
        axes.plot(x, np.nanmean((low + high) / 2, 1), style, color=colour, lw=1.8, label=part)
        axes.fill_between(x, low.min(1), high.max(1), color=colour, alpha=0.2, lw=0)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xlabel("update")
    axes.set_ylabel(pictures.label_of(next(iter(measured.values()), "").rpartition("_")[0]))
    axes.legend(frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, fontsize=10, color=pictures.INK)
    return fig


def measured_parts(record: dict[str, Any]) -> dict[str, str]:
    """The parts of the data that a record of `likelihood_curve` tells of, and what it tells of each."""
    found = (re.fullmatch(f"(({'|'.join(WATCHED)})_(.*))_from", key) for key in record)
    return {match[3]: match[1] for match in found if match}


def middle(record: dict[str, Any], name: str) -> list[float | None]:
    """The middle of each replica's interval."""
    ends = zip(record[f"{name}_from"], record[f"{name}_to"], strict=True)
    return [None if a is None or b is None else 0.5 * (a + b) for a, b in ends]
