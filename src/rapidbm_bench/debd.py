"""The leaderboard: log p of the test parts of the density-estimation tables, method beside method.

    python -m benchmarks debd nltcs jester --budget 5m --seeds 5
    python -m benchmarks debd all --methods auto,ra,dense,dbm,bm --out runs/debd
    python -m benchmarks debd --write          # measures nothing: what --out has, into docs/results.md

NAMES are sets of github arranger1044/DEBD, or `all`; without any it is those that need no download: of
`$RAPIDBM_DATA/debd` and of earlier downloads. `auto` is `rapidbm train FILE --budget B` and nothing else;
`ra` and `dense` have these couplings and 4 hidden units a column, 100 to 1,000; `dbm` and `bm` are
`--model dbm` and `--model bm`; all get the same budget, and so does scikit-learn's BernoulliRBM, with its
defaults and three rates. Chow-Liu trees and independent columns need none.

Every number is a file in the folder --out, and what is there is not measured again: the same command goes
on after an interruption, with an unfinished training too. A file that is damaged, or of other data, is
measured anew.
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import rapidbm
from rapidbm.accel.devices import device_named
from rapidbm.disk import make_folder, read_json, write_json
from rapidbm.errors import InputError, check_choice, check_count, lookup
from rapidbm.progress import quiet
from rapidbm.runs.timing import seconds_of

from . import debd_sets
from .debd_methods import METHODS, USUAL, Failed, Task
from .debd_page import PAGE, PUBLISHED, ROW, how, table, write
from .running import Row, option_parser, tell

PACKAGES = ("torch", "numpy", "scipy", "scikit-learn")
ALL = "all"


def arguments(words: Sequence[str] = ()) -> Namespace:
    parser = option_parser(__name__, __doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAMES", help=f"{ALL}, or some of {', '.join(debd_sets.SETS)}"
    )
    parser.add_argument(
        "--methods", default=",".join(USUAL), help=f"some of {', '.join(METHODS)}, with commas"
    )
    parser.add_argument("--budget", default="5m", help="of each training, such as 90s, 5m or 1h")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each method on each set")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, …")
    parser.add_argument("--out", type=Path, default=Path("runs/debd"), help="folder of what was measured")
    parser.add_argument(
        "--write",
        action="store_true",
        help="measure nothing: put what --out has of this budget into docs/results.md",
    )
    return parser.parse_args(words)


def chosen(names: Sequence[str]) -> list[str]:
    """The sets that are meant, each once."""
    for name in names:
        if name != ALL:
            lookup("density-estimation table", name, debd_sets.SETS)
    if ALL in names:
        return list(debd_sets.SETS)
    if found := list(dict.fromkeys(names)) or debd_sets.at_hand():
        return found
    raise InputError(
        "a leaderboard needs tables, and none is in $RAPIDBM_DATA/debd or was downloaded before; name "
        f"some of {', '.join(debd_sets.SETS)}, or all, to download them"
    )


def row_file(out: Path, name: str, method: str, seconds: float, seed: int) -> Path:
    """Where a number stands; a budget and a seed belong to what is trained."""
    trained = f".{seconds:g}s.{seed}" if METHODS[method].trained else ""
    return out / f"{name}.{method}{trained}.json"


def kept(path: Path, data: list[str] | None = None) -> Row | None:
    """The row of a file; None of one that is damaged, or was not measured on these data."""
    if not path.is_file():
        return None
    try:
        row: Row = read_json(path, ROW, "a row", "it has to be measured again")
    except InputError as error:
        tell(str(error))
        return None
    if data is not None and row["data"] != data:
        tell(f"{path} was measured on other data; it has to be measured again")
        return None
    return row


def measured(name: str, method: str, task: Task, data: list[str]) -> Row:
    """The row of a set, a method and a seed."""
    score, trained = METHODS[method].measure(task), METHODS[method].trained
    return {
        "set": name,
        "method": method,
        "seed": task.seed if trained else None,
        "budget": task.seconds if trained else None,
        **score._asdict(),
        "data": data,
        "versions": {"rapidbm": rapidbm.__version__, **{name: version(name) for name in PACKAGES}},
    }


def run(words: Sequence[str] = ()) -> dict[str, Any]:
    given = arguments(words)
    seconds = seconds_of(given.budget)
    if given.write:
        return write_rows(given.out, seconds)
    names = chosen(given.names)
    methods = given.methods.split(",")
    for method in methods:
        check_choice("method", method, METHODS)
    check_count("the number of --seeds", given.seeds)
    device_named(given.device)
    make_folder(given.out)
    rows: list[Row] = []
    failed: list[str] = []
    try:
        with quiet():
            for name in names:
                measure_set(name, methods, seconds, given, rows, failed)
    except KeyboardInterrupt:
        tell(f"stopped; what was measured is in {given.out}, and the same command goes on")
        sys.exit(130)
    return as_record(rows, failed)


def as_record(rows: list[Row], failed: Sequence[str] = ()) -> dict[str, Any]:
    return {"rows": rows, "published": [one._asdict() for one in PUBLISHED], "failed": [*failed]}


def write_rows(out: Path, seconds: float) -> dict[str, Any]:
    """Puts the rows of a folder, those that need no training and those of this budget, into the docs."""
    found = [row for path in sorted(out.glob("*.json")) if (row := kept(path))]
    rows = [row for row in found if row["budget"] in (None, seconds)]
    if not rows:
        raise InputError(
            f"--write needs rows of --budget {seconds:g}s, and {out} has none of these among its "
            f"{len(found)}; measure some first, or give their --out and --budget"
        )
    write(rows)
    tell(f"the table is in {PAGE}")
    return as_record(rows)


def measure_set(
    name: str,
    methods: Sequence[str],
    seconds: float,
    given: Namespace,
    rows: list[Row],
    failed: list[str],
) -> None:
    """Adds the rows of a set, those at hand and those that are measured now."""
    file, parts = debd_sets.load(name)
    data = [debd_sets.digest(parts[part]) for part in debd_sets.PARTS]
    for method in methods:
        for seed in range(given.seeds if METHODS[method].trained else 1):
            path = row_file(given.out, name, method, seconds, seed)
            row = kept(path, data)
            if row is None:
                tell(path.stem)
                task = Task(file, parts, path.with_suffix(""), seconds, seed, given.device)
                try:
                    row = measured(name, method, task, data)
                except Failed as error:
                    failed.append(f"{path.stem}: {error}")
                    tell(failed[-1])
                    continue
                write_json(path, row)
            rows.append(row)


def show(result: dict[str, Any]) -> None:
    """The table on the terminal."""
    rows = result["rows"]
    titles, lines = table(rows, {row["set"] for row in rows})
    shown = Table(title="log p of the test part, nats per row, 95 % interval")
    for number, title in enumerate(titles):
        shown.add_column(title.replace("`", ""), justify="right" if number in (1, 2) else "left")
    for line in lines:
        shown.add_row(*(marked(cell) for cell in line))
    console = Console()
    console.print(shown)
    console.print(how(rows).replace("`", ""), markup=False)


def marked(cell: str) -> str:
    """A cell of Markdown as rich has it."""
    plain = cell.strip("*").replace("[", "\\[")
    return f"[bold]{plain}[/bold]" if cell.startswith("**") else plain


def failed(result: dict[str, Any]) -> bool:
    """Whether a training failed."""
    return bool(result["failed"])
