"""The leaderboard as a table: rows that were measured, beside published numbers.

A row of the table is a set, a column a method. Of several seeds the median stands there, a measured one,
with its 95 % interval, and the worst pessimistic end; a lower bound of log p has ≥ before it. The best
of several on a set, by the pessimistic end, is bold.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rapidbm.disk import read_json, write_bytes, write_json
from rapidbm.schema import Flag, Maybe, Names, OneOf, Real, Several, Text, Whole

from .debd_methods import METHODS
from .debd_sets import SETS
from .running import Row

DOCS = Path(__file__).parents[2] / "docs"
PAGE, RECORDS = DOCS / "results.md", DOCS / "results" / "debd.json"
BEGIN, END = "<!-- debd -->", "<!-- end -->"
NUMBER = Real()
ROW = Names(
    {
        "set": OneOf(tuple(SETS)),
        "method": OneOf(tuple(METHODS)),
        "seed": Maybe(Whole(0)),
        "budget": Maybe(Real(0)),  # seconds
        "log_p": NUMBER,
        "low": NUMBER,
        "high": NUMBER,
        "valid": NUMBER,
        "bound": Flag(),
        "chosen": Text(),
        "device": Text(),
        "seconds": Maybe(Real(0)),
        "data": Several(Text(64), 3),  # SHA-256 of train, valid and test
        "versions": Names({}, others=Text()),
    }
)


class Published(NamedTuple):
    """What others reported: mean test log p, and where it was read."""

    title: str
    source: str
    log_p: Mapping[str, float]


PUBLISHED = (
    Published(
        "HCLT",
        "HCLT, hidden Chow–Liu trees, are probabilistic circuits (Liu and Van den Broeck 2021, "
        "[Tractable regularization](https://arxiv.org/abs/2106.02264)): the mean of five seeds at the "
        "end of their training, as the authors' script takes it from their logs (github "
        "UCLA-StarAI/Tractable-PC-Regularization). Of cr52 and c20ng one log ends early; the other "
        "four have −84.45 to −84.69 and −151.54 to −151.92.",
        {
            "nltcs": -6.00,
            "msnbc": -6.06,
            "kdd": -2.18,
            "plants": -14.26,
            "baudio": -39.77,
            "jester": -52.46,
            "bnetflix": -56.28,
            "accidents": -26.74,
            "tretail": -10.87,
            "pumsb_star": -23.65,
            "dna": -79.06,
            "kosarek": -10.67,
            "msweb": -9.99,
            "book": -33.83,
            "tmovie": -50.82,
            "cwebkb": -152.77,
            "cr52": -86.26,
            "c20ng": -153.40,
            "bbc": -251.05,
            "ad": -16.07,
        },
    ),
)


def read_rows(path: Path) -> list[Row]:
    """The rows of a file of records, or none where there is no file."""
    remedy = "write it anew with `python -m benchmarks debd --write`"
    return read_json(path, Several(ROW), "records", remedy) if path.is_file() else []


def key(row: Row) -> tuple[str, str, int | None]:
    """What there is one row of."""
    return row["set"], row["method"], row["seed"]


def merged(old: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """The new rows and those old ones that they do not replace, in the order of sets, methods and seeds.
    Of a method on a set all seeds have one budget, that of the new rows."""
    new = list(new)
    budgets = {(row["set"], row["method"]): row["budget"] for row in new}
    kept = {key(row): row for row in old if budgets.get(key(row)[:2], row["budget"]) == row["budget"]}
    kept |= {key(row): row for row in new}
    sets, methods = list(SETS), list(METHODS)
    return sorted(
        kept.values(), key=lambda r: (sets.index(r["set"]), methods.index(r["method"]), r["seed"] or 0)
    )


def table(rows: Sequence[Row], names: Iterable[str] = ()) -> tuple[list[str], list[list[str]]]:
    """Titles and cells of the sets that were measured, of `names`, or that others have numbers of."""
    methods = [method for method in METHODS if any(row["method"] == method for row in rows)]
    shown = {row["set"] for row in rows} | set(names)
    if not names:
        shown |= {name for one in PUBLISHED for name in one.log_p}
    titles = ["set", "columns", "training rows", *(METHODS[m].title for m in methods)]
    titles += [one.title for one in PUBLISHED]
    lines = []
    for name in [name for name in SETS if name in shown]:
        found = [[r for r in rows if (r["set"], r["method"]) == (name, m)] for m in methods]
        ends = [median(some)["low"] if some else None for some in found]
        ends += [one.log_p.get(name) for one in PUBLISHED]
        cells = [cell(some) for some in found]
        cells += [number(one.log_p[name]) if name in one.log_p else "–" for one in PUBLISHED]
        known = [end for end in ends if end is not None]
        best = max(known) if len(known) > 1 else None
        size = SETS[name]
        marked = [
            f"**{c}**" if e is not None and e == best else c for c, e in zip(cells, ends, strict=True)
        ]
        lines.append([name, f"{size.columns:,}", f"{size.train:,}", *marked])
    return titles, lines


def median(rows: Sequence[Row]) -> Row:
    """The row in the middle by its pessimistic end, of an even number the lower one."""
    return sorted(rows, key=lambda row: row["low"])[(len(rows) - 1) // 2]


def cell(rows: Sequence[Row]) -> str:
    """One value with its interval; of several seeds the median and the worst."""
    if not rows:
        return "–"
    middle = median(rows)
    text = ("≥ " if middle["bound"] else "") + number(middle["log_p"])
    if middle["low"] < middle["high"]:
        text += f" [{number(middle['low'])}, {number(middle['high'])}]"
    if len(rows) > 1:
        text += f", worst {number(min(row['low'] for row in rows))}"
    return text


def number(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def how(rows: Sequence[Row]) -> str:
    """Budgets, devices and seeds of what was trained, in words."""
    if all(row["budget"] is None for row in rows):
        return "No machine has been trained for this table yet."
    told: dict[tuple[float, str, str], list[str]] = {}
    for name, method in dict.fromkeys((row["set"], row["method"]) for row in rows):
        some = [row for row in rows if (row["set"], row["method"]) == (name, method)]
        if some[0]["budget"] is not None:
            seeds = ", ".join(str(row["seed"]) for row in some)
            devices = " and ".join(sorted({row["device"] for row in some}))
            titles = told.setdefault((some[0]["budget"], devices, seeds), [])
            if METHODS[method].title not in titles:
                titles.append(METHODS[method].title)
    return "\n".join(
        f"{', '.join(titles)}: `--budget {seconds:g}s` on {devices}, seed{'s' * (',' in seeds)} {seeds}."
        for (seconds, devices, seeds), titles in told.items()
    )


def section(rows: Sequence[Row]) -> str:
    """The table in Markdown, and under it where the numbers come from."""
    titles, lines = table(rows)
    right = ["---", "---:", "---:", *["---"] * (len(titles) - 3)]
    text = [f"| {' | '.join(cells)} |" for cells in (titles, right, *lines)]
    notes = [how(rows), *(one.source for one in PUBLISHED)]
    return "\n".join(text) + "\n\n" + "\n\n".join(note for note in notes if note)


def page(text: str, rows: Sequence[Row]) -> str:
    """The page with its section made anew."""
    pattern = re.compile(f"{BEGIN}\n.*?{END}", re.DOTALL)
    found, count = pattern.subn(lambda _: f"{BEGIN}\n{section(rows)}\n{END}", text)
    assert count == 1, f"the page has {count} sections between {BEGIN} and {END}"
    return found


def write(rows: Iterable[Row], page_file: Path = PAGE, records: Path = RECORDS) -> None:
    """Puts the rows beside those of the records, and the table that follows into the page."""
    every = merged(read_rows(records), rows)
    text = page(page_file.read_text(encoding="utf-8"), every)
    write_json(records, every)
    write_bytes(page_file, text.encode())
