"""What came out of a run, as numbers, images and tables for the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ...data.splits import Dataset
from ...data.table_schema import state_names
from ...estimates import WIDE
from ...machines.machine import Machine
from ...machines.spins import unpack
from ..folder import Record, RunFolder
from ..metrics import BOUND, WATCHED, corrupt
from .charts import Chart, Curve, Value
from .html import duration
from .images import field_image, spin_image
from .learning import PARTS, fit_of, spread
from .measured import over_replicas

FIELDS = 48  # patterns, or hidden units, that are drawn
BINDS = 12  # of a table: those that are listed, and rows that are shown
STRONGEST = 6  # columns that each binds
MOST_COLUMNS = 60  # of a table of samples
PART_WORDS = {"train": "training", "test": "test", "valid": "validation"}
UNIT = "visible unit"
Found = dict[str, Any]


def numbers(run: RunFolder, records: Sequence[Record], found: Found) -> list[tuple[str, str]]:
    """What stands at the top: a number and its words."""
    seen = likelihood(run, records, found)
    least, parts = " or more" if seen["bound"] else "", [row["part"] for row in seen["rows"]]
    judging = "test" if "test" in parts else "valid"
    told = [
        (row["value"], f"nats{least}, log p of a {row['name']} {_what(run)}{_interval(row)}")
        for row in seen["rows"]
        if row["part"] == judging
    ]
    if (distances := _hamming(run, records, found)) and "test" in distances:
        told.append((distances["test"], f"Hamming distance, test {_what(run)}s"))
    info = run.info
    done, planned = info.get("update", 0), info.get("updates", 0)
    told.append((f"{done:,}", "updates" if done == planned else f"of {planned:,} updates"))
    if "seconds" in info:
        told.append((duration(info["seconds"]), "of training"))
    if run.recipe.replicas > 1:
        told.append((str(run.recipe.replicas), "replicas; ± is their standard deviation"))
    return [(number.replace("\u00a0", " "), words) for number, words in told]  # it may be broken here


def _interval(row: dict[str, Any]) -> str:
    return f", {row['from']} to {row['to']}" if row["from"] else ""


def _what(run: RunFolder) -> str:
    return "row" if run.info["data"]["shape"][0] == 1 else "image"


def _hamming(run: RunFolder, records: Sequence[Record], found: Found) -> dict[str, str]:
    lost = run.info.get("diverged", [])
    values = found.get("hamming")
    if values is None:
        last: Record = next((r for r in reversed(records) if "hamming_test" in r), {})
        values = {part: last[f"hamming_{part}"] for part in PARTS if f"hamming_{part}" in last}
    return {part: spread(v) for part, v in over_replicas(values, lost).items()}


def likelihood(run: RunFolder, records: Sequence[Record], found: Found) -> dict[str, Any]:
    """log p of each part with its interval, or its lower bound: as measured for this page, else as the
    run has watched it."""
    lost = run.info.get("diverged", [])
    rows: list[dict[str, Any]] = []
    beside: list[tuple[str, str]] = []
    note = log_z = name = ""
    if "likelihood" in found:
        values = over_replicas(found["likelihood"]["rows"], lost)
        note = found["likelihood"]["note"]
        note = f"{note[:1].upper()}{note[1:]}."
        name = _first(values)
        rows = [
            _row(part, *(values.get(f"{name}_{part}{end}", []) for end in _ENDS))
            for part in PARTS
            if f"{name}_{part}" in values
        ]
        if "log_z" in values:
            row = _row("", *(values.get(f"log_z{end}", []) for end in _ENDS))
            log_z = row["value"] + _interval(row)
        if "independent_columns_test" in values:
            row = _row("", values["independent_columns_test"], [], [])
            beside = [("independent columns, test", row["value"])]
        if "variational_gap_test" in values:
            beside += [("variational gap, test", spread(values["variational_gap_test"]))]
    elif (best := run.info.get("best_from")) is not None:
        # What the run watched is of other machines than the one that it keeps.
        value, error = best["value"], WIDE * best["error"]
        rows = [_row("valid", [value], [value - error], [value + error])]
        note = f"Of {best['what']}, the best machine, as it was judged before the run."
    else:
        last: Record = next((r for r in reversed(records) if _first(r)), {})
        name = _first(last)
        for part in PARTS:
            if f"{name}_{part}" in last:
                pair = {k: last[f"{name}{k}_{part}"] for k in ("", "_error")}
                pair = over_replicas(pair, lost)
                both = [(v, WIDE * e) for v, e in zip(*pair.values(), strict=True) if None not in (v, e)]
                rows.append(_row(part, pair[""], [v - e for v, e in both], [v + e for v, e in both]))
        if rows:
            note = f"As the run watched it after update {last['update']:,}; the intervals are of 95 %."
    fit = fit_of(run)
    columns = fit.get("independent_columns")
    coins = -math.prod(run.shape) * math.log(2.0)
    if isinstance(columns, float) and not beside:
        beside = [("independent columns", f"{columns:.2f}")]
    if _of_spins(run):
        beside.append(("fair coins", f"{coins:.2f}"))
    return {
        "rows": rows,
        "bound": name == BOUND,
        "note": note,
        "log_z": log_z,
        "hamming": _hamming(run, records, found),
        "beside": [(name, value.replace("-", "−")) for name, value in beside],
        "worse": _worse(fit),
    }


def _of_spins(run: RunFolder) -> bool:
    """Whether each visible unit has two states."""
    schema = run.schema
    return not run.alphabet and (schema is None or [kind for kind, _ in schema.layers()] == ["spin"])


_ENDS = ("", "_from", "_to")


def _first(values: Mapping[str, Any]) -> str:
    """The likelihood of the test part, where it is there, or its bound."""
    return next((name for name in WATCHED if f"{name}_test" in values), "")


def _worse(fit: Any) -> bool:
    """Whether the run has proven that some replica is below independent columns."""
    most, columns = fit.get("log_likelihood_at_most"), fit.get("independent_columns")
    if not isinstance(most, list) or not isinstance(columns, float):
        return False
    return any(isinstance(x, float) and x < columns - 0.1 for x in most)


def _row(
    part: str, values: Sequence[Value], low: Sequence[Value], high: Sequence[Value]
) -> dict[str, Any]:
    lows, highs = ([x for x in side if x is not None] for side in (low, high))
    digits = 3 if lows and highs and 0 < highs[0] - lows[0] < 0.02 else 2

    def told(value: float) -> str:
        return f"{value:,.{digits}f}".replace("-", "−")

    single = values[0] if len(values) == 1 else None
    ends = {"from": told(min(lows)), "to": told(max(highs))} if lows and highs else {"from": "", "to": ""}
    name = PART_WORDS.get(part, part)
    return {
        "part": part,
        "name": name,
        "value": spread(values) if single is None else told(single),
        **ends,
    }


# -- spins ----------------------------------------------------------------------------------------


def samples_of(run: RunFolder, data: Dataset | None, found: Found) -> dict[str, Any] | None:
    """Samples beside training data: two images, or two tables and the shares of their columns."""
    shape = run.shape
    if "samples" not in found:
        return None
    drawn = _kept(found["samples"]["rows"], shape)
    if drawn is None:
        return None
    train = None if data is None else data.train.spins
    told: dict[str, Any] = {"sweeps": found["samples"]["sweeps"], "table": shape[0] == 1}
    if shape[0] > 1:
        told["drawn"] = spin_image(drawn[:64], shape, 8)
        told["train"] = None if train is None else spin_image(train[:64], shape, 8)
        return told
    names = _names(run)
    told["names"] = names[:MOST_COLUMNS]
    told["more"] = max(0, len(names) - MOST_COLUMNS)
    told["drawn"] = _bits(drawn[:BINDS])
    told["train"] = None if train is None else _bits(train[:BINDS])
    told["shares"] = [] if train is None else _shares(names, train, drawn)
    return told


def _kept(rows: list[str], shape: tuple[int, int]) -> Tensor | None:
    """Spins from the cache; None where it holds something else."""
    try:
        return unpack(rows, shape[0] * shape[1])
    except ValueError:
        return None


def _bits(spins: Tensor) -> list[list[int]]:
    return [[int(x > 0) for x in row[:MOST_COLUMNS]] for row in spins.tolist()]


def _shares(names: Sequence[str], train: Tensor, drawn: Tensor) -> list[tuple[str, str, str, str]]:
    """How often each column is 1, in the training data and in samples; the largest difference first."""
    ours, theirs = ((x > 0).double().mean(0).tolist() for x in (drawn, train))
    rows = sorted(zip(names, theirs, ours, strict=True), key=lambda row: -abs(row[1] - row[2]))
    return [(n, f"{a:.3f}", f"{b:.3f}", f"{b - a:+.3f}".replace("-", "−")) for n, a, b in rows]


def filled_of(run: RunFolder, data: Dataset | None, found: Found) -> dict[str, Any] | None:
    """Test images, what the machine is given of them, and what it makes of that."""
    shape = run.shape
    if data is None or data.test.known is None or "filled" not in found:
        return None
    filled = _kept(found["filled"], shape)
    if filled is None or len(filled) > len(data.test):
        return None
    some = data.test.take(slice(0, len(filled)))
    assert some.known is not None
    known = some.known.expand(some.spins.shape)
    wrong = (filled != some.spins) & ~known
    told: dict[str, Any] = {
        "table": shape[0] == 1,
        "share": f"{float(wrong[~known].double().mean()):.3f}",
    }
    if shape[0] > 1:
        rows = {"Test images": some.spins, "What is given; blue is unknown": corrupt(some).nan_to_num()}
        rows["Filled in"] = filled
        told["images"] = [(name, spin_image(x, shape, 4)) for name, x in rows.items()]
        return told
    told["names"] = _names(run)[:MOST_COLUMNS]
    told["rows"] = [
        [(int(f > 0), not k, w) for f, k, w in zip(*map(Tensor.tolist, row), strict=True)][:MOST_COLUMNS]
        for row in list(zip(filled, known, wrong, strict=True))[: BINDS // 2]
    ]
    return told


def _names(run: RunFolder) -> list[str]:
    given, (_, columns) = run.columns, run.shape
    return list(given) if len(given) == columns else [f"column {i + 1}" for i in range(columns)]


# -- couplings ------------------------------------------------------------------------------------


def fields_of(run: RunFolder, machine: Machine | None) -> dict[str, Any] | None:
    """The patterns, or the couplings of units, that are largest: images, or columns that each binds."""
    if machine is None:
        return None
    kind, rows = _rows(machine)
    order = rows.norm(dim=1).argsort(descending=True)
    shape = run.shape
    told: dict[str, Any] = {"kind": kind, "table": shape[0] == 1, "count": len(rows)}
    if told["table"] and kind == UNIT:
        told["kind"] = "column"
    if shape[0] > 1:
        some = order[:FIELDS]
        told["shown"] = len(some)
        told["image"] = field_image(rows[some], shape, _columns(len(some)))
        return told
    names = _names(run) if (schema := run.schema) is None else state_names(schema)
    told["rows"] = []
    for i in order[:BINDS].tolist():
        best = rows[i].abs().argsort(descending=True)[:STRONGEST].tolist()
        label = names[i] if kind == UNIT else str(i)
        told["rows"].append((label, [(names[j], f"{rows[i, j]:+.2g}".replace("-", "−")) for j in best]))
    return told


def _columns(count: int) -> int:
    """Between 8 and 12, so that the last line has few places left."""
    return min(range(12, 7, -1), key=lambda columns: -count % columns)


@torch.no_grad()
def _rows(machine: Machine) -> tuple[str, Tensor]:
    """What a row is, and rows of numbers, one for each visible unit."""
    if machine.patterns is not None:
        return "pattern", machine.patterns[0, :, : machine.visible].detach().float()
    visible = machine.layers.visible
    hidden = [layer for layer in machine.layers.neighbours(0) if layer not in visible]
    if hidden:
        rows = [machine.couplings.matrix(layer, min(hidden))[0] for layer in visible]
        return "hidden unit", torch.cat(rows).T.detach().float()
    return UNIT, machine.couplings.matrix(0, 0)[0].detach().float()


def sizes_of(found: Found, run: RunFolder) -> list[Chart]:
    """Norms along the training, and the spectrum beside what random couplings would have."""
    charts = []
    if "norms" in found and len(updates := found["norms"]["updates"]) > 1:
        lost, curves = run.info.get("diverged", []), []
        for name in ("couplings", "biases"):
            rows = found["norms"].get(name, [])
            known = [[x for i, x in enumerate(r) if i not in lost and x is not None] for r in rows]
            if len(known) == len(updates):
                curves.append(_mean_curve(name, updates, known))
        below = "√Σx² over all of a kind."
        charts.append(Chart("Norms of the parameters", "update", curves, log=True, below=below))
    if "spectrum" in found and found["spectrum"]["values"]:
        one = found["spectrum"]
        ranks = (("now", one["values"]), ("start", one["first"]))
        curves = [Curve(name, list(range(1, len(v) + 1)), v) for name, v in ranks if v]
        lie = f"{one['outliers']} {'lies' if one['outliers'] == 1 else 'lie'}"
        below = f"Dotted: how far random couplings of the same size reach; {lie} beyond."
        title = f"{one['kind'].capitalize()} of the couplings"
        charts.append(Chart(title, "rank", curves, one["limit"], below=below))
    return charts


def _mean_curve(name: str, x: list[int], rows: list[list[float]]) -> Curve:
    mean: list[Value] = [sum(row) / len(row) if row else None for row in rows]
    half: list[Value] = [None if len(row) < 2 else float(torch.tensor(row).std()) for row in rows]
    return Curve(name, [float(u) for u in x], mean, half if any(half) else ())
