"""`rapidbm couplings`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from .. import pictures
from ..accel.devices import device_named
from ..errors import InputError
from ..exchange.adabm_files import ENDING, write_params
from ..inference.bootstrap import BootstrapErrors, bootstrap_errors
from ..inference.couplings import EffectiveCouplings, effective_couplings
from ..runs.pretrained.packed import open_trained
from ..runs.samples import check_new, write_rows
from ..runs.trained import Trained
from .terminal.console import Screen
from .terminal.options import FIGURES, Device, Folder, Json, Limit, Replica, Update

SHOWN = 5  # pairs on the screen
CALLED = 0.05  # the false-discovery rate that is told
NEAR = 4  # sites along a sequence between which a high score is no news


def couplings(
    run: Folder,
    out: Annotated[
        Path,
        typer.Option(
            help="A new .csv, .tsv, .parquet or .feather; or .dat, all parameters for adabmDCA."
        ),
    ],
    gaps: Annotated[
        bool, typer.Option(help="Of sequences: count couplings of the gap, the first symbol.")
    ] = False,
    picture: Annotated[
        Path | None,
        typer.Option(help=f"A new .png or .pdf with the map (default: couplings.png in {FIGURES})."),
    ] = None,
    values: Annotated[
        Path | None,
        typer.Option(
            help="A new .csv, .tsv, .parquet or .feather with every coupling, and of a run with "
            "--bootstrap its standard error."
        ),
    ] = None,
    replica: Replica = 0,
    update: Update = None,
    limit: Limit = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Which pairs of units are coupled: contacts in a family of sequences.

    Hidden units are summed over. The table has a row for each pair, the highest score first: the
    Frobenius norm of its couplings in the zero-sum gauge, and the score, that less the average product
    of the two units. Of a run with --bootstrap the score has a 95 % interval, and q is the
    false-discovery rate of the pairs whose couplings are as clear; --values writes each coupling.
    """
    screen, opened = Screen(as_json), open_trained(run)
    if picture is not None:
        check_new(picture, (".png", ".pdf"))
    check_new(out, *([(ENDING,)] if out.suffix == ENDING else []))
    if values is not None:
        check_new(values)
    recipe = getattr(opened, "recipe", None)
    resampled = replica == 0 and recipe is not None and recipe.bootstrap is not None
    machine = opened.machine(update, None if resampled else replica)
    machine = machine.to(device_named(device)).requires_grad_(False)
    with screen.watching("couplings", limit=limit):
        found = effective_couplings(machine)
    without = 0 if opened.alphabet and not gaps else None
    scores = found.contacts(without=without)[0].cpu()
    errors = bootstrap_errors(found, without=without) if resampled else None
    table = _table(found, scores, opened, without, errors)
    if out.suffix == ENDING:
        if not opened.alphabet:
            raise InputError(f"{out} would hold couplings of sequences, and {run} has none; give a .csv")
        write_params(out, found.fields[0], found.pairs[0], found.layers, opened.alphabet)
    else:
        write_rows(out, table)
    if values is not None:
        write_rows(values, _each(found, opened, errors))
    path = pictures.save(
        pictures.map_figure(scores, opened.columns), picture or opened.picture("couplings.png")
    )
    rows, of = table.num_rows, opened.where(update)[1]
    screen.result({"run": str(run), "pairs": rows, "out": str(out), "picture": str(path)})
    more = "" if found.complete else "; couplings of three units and more are not in it"
    if errors is not None:
        count = int((errors.q.triu(1)[errors.q.triu(1) > 0] <= CALLED).sum())
        more += f"; {count:,} at a false-discovery rate of {CALLED:.0%}, by {errors.replicas} resamplings"
    screen.say(f"{rows:,} pairs by {of} → {out}, {path}{more}")
    for row in _first(table, bool(opened.alphabet)):
        ends = "" if errors is None else f" [{row['score_from']:.3f}, {row['score_to']:.3f}]"
        screen.say(f"  {row['i']} – {row['j']}: {row['score']:.3f}{ends}")


def _names(opened: Trained, units: int) -> list[Any]:
    """Of the units: sites of sequences as numbers."""
    names: list[Any] = list(opened.columns)
    if len(names) != units:
        names = [str(unit) for unit in range(1, units + 1)]
    return [int(name) for name in names] if opened.alphabet else names


def _each(found: EffectiveCouplings, opened: Trained, errors: BootstrapErrors | None) -> Any:
    """Every coupling between columns of two units, in the zero-sum gauge."""
    import pyarrow

    units: list[int] = []
    states: list[int] = []
    for layer in found.layers.visible:
        kind, size = found.layers.kinds[layer], found.layers.sizes[layer]
        for where, _ in kind.one_by_one(size):
            width = where.stop - where.start
            units += [1 + (units[-1] if units else -1)] * width
            states += list(range(width))
    unit, pairs = torch.tensor(units), found.pairs[0].cpu()
    i, j = (unit[:, None] < unit).nonzero(as_tuple=True)
    names = _names(opened, units[-1] + 1)
    letters = [*opened.alphabet] if opened.alphabet else None
    letters = letters and ["gap" if letter == "-" else letter for letter in letters]
    columns: dict[str, Any] = {}
    for name, column in (("i", i), ("j", j)):
        columns[name] = [names[units[k]] for k in column.tolist()]
    for name, column in (("a", i), ("b", j)):
        codes = [states[k] for k in column.tolist()]
        columns[name] = [letters[code] for code in codes] if letters else codes
    columns["coupling"] = pairs[i, j].numpy()
    if errors is not None:
        columns["error"] = errors.pairs_error.cpu()[i, j].numpy()
    return pyarrow.table(columns)


def _table(
    found: EffectiveCouplings,
    scores: torch.Tensor,
    opened: Trained,
    without: int | None,
    errors: BootstrapErrors | None,
) -> Any:
    """Pairs with their scores, the highest first."""
    import pyarrow

    units = len(scores)
    values = _names(opened, units)
    i, j = torch.triu_indices(units, units, 1)
    order = scores[i, j].argsort(descending=True, stable=True)
    i, j = i[order], j[order]
    norms = found.norms(without=without)[0].cpu()
    columns: dict[str, Any] = {
        "i": [values[k] for k in i.tolist()],
        "j": [values[k] for k in j.tolist()],
        "score": scores[i, j].numpy(),
        "norm": norms[i, j].numpy(),
    }
    if errors is not None:
        ends = {"score_from": errors.low, "score_to": errors.high, "q": errors.q}
        columns |= {name: one.cpu()[i, j].numpy() for name, one in ends.items()}
    return pyarrow.table(columns)


def _first(table: Any, sites: bool) -> list[dict[str, Any]]:
    """The pairs on the screen; of sites those that are not near along the sequence."""
    rows: list[dict[str, Any]] = table.slice(0, 10_000).to_pylist()
    if sites:
        rows = [row for row in rows if row["j"] - row["i"] > NEAR]
    return rows[:SHOWN]
