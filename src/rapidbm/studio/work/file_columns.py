"""What the columns of a file are, one by one, so that a person can confirm or change it before training.

A column that cannot be recognised does not refuse the file: it is left out until it is named.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from ...data.arrow import read_table
from ...data.columns import Constant, Empty, Numbers, Skipped, Words
from ...data.mixed import overrides_of
from ...data.recognition import OVERRIDES, Reals, recognise_column
from ...data.tables import ENDINGS, has_names
from ...errors import InputError

EXAMPLES = 3  # cells that are shown
LONGEST = 30  # letters of one
KINDS = {Words: "category", Constant: "constant", Empty: "empty", Skipped: "skip"}


def is_named(path: Path) -> bool:
    """Whether a file is a table whose first line names columns."""
    return path.suffix.lower() in ENDINGS and has_names(path)


def columns_of(path: Path, kinds: Any = None) -> list[dict[str, Any]]:
    """Each column: its name, what it is, or why that cannot be said, and some of its cells. `kinds` names
    some, "age=real,zip=skip"."""
    if not is_named(path):
        return []
    wanted = overrides_of(kinds if isinstance(kinds, str) else None)
    there = path.stat()
    table = _table(path, there.st_size, there.st_mtime_ns, there.st_ino)
    return [_column(name, table.column(name), wanted.get(name)) for name in table.column_names]


def left_out(path: Path) -> str | None:
    """What to name so that a table can be read although some columns cannot be recognised; None where all
    can, where none can, or where it is no table."""
    try:
        found = columns_of(path)
    except InputError:
        return None  # reading it says why
    refused = [one["name"] for one in found if one["error"]]
    if not refused or len(refused) == len(found) or any("," in name for name in refused):
        return None
    return ",".join(f"{name}=skip" for name in refused)


@lru_cache(2)
def _table(path: Path, *stamp: int) -> Any:
    return read_table(path)


def _column(name: str, cells: Any, wanted: str | None) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": name,
        "wanted": wanted,
        "missing": cells.null_count,
        "examples": [
            f"{x}"[:LONGEST] for x in cells.drop_null().slice(0, 200).unique()[:EXAMPLES].to_pylist()
        ],
        "kinds": [] if "," in name else list(OVERRIDES),  # a name with a comma cannot be named by text
        "line": "",
        "is": "",
        "error": "",
    }
    try:
        column = recognise_column(name, cells, wanted, Reals("bins"))
    except InputError as error:
        return {**told, "error": f"{error}"}
    numbers = isinstance(column, Numbers) and ("integer" if column.whole else "real")
    return {**told, "line": column.describe(), "is": numbers or KINDS[type(column)]}
