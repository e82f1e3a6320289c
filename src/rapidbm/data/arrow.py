"""Tables of any kind as Arrow tables: text, Parquet, Feather, frames of other libraries; and back.

A table that was read has text without blanks around it, and one way to say that a cell is missing (null).
Text that is read is bounded before it is unpacked; Parquet and Feather are read by a process of their own
(`reading`), which gives the rows as Arrow's stream.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..accel.memory import check_room
from ..disk import reading, write_bytes
from ..errors import InputError, require
from .cells import LONGEST, shown
from .reading.parent import reading_child
from .tables import FORMULAS, no_formula
from .text_files import as_utf8, content_of

if TYPE_CHECKING:
    import pyarrow

TEXT = {".csv": ",", ".tsv": "\t", ".txt": ",", ".data": ","}  # endings, and what separates cells
ARROW = {".parquet": "Parquet", ".feather": "Feather", ".arrow": "Feather"}
MISSING = ("", "?", "NA", "N/A", "NaN", "null")  # in files of text; capitals do not matter
NOTHING = ("",)  # elsewhere, where there are nulls
MOST_COLUMNS = 20_000
CELL = 2**20  # characters
INDEX = re.compile(r"__index_level_\d+__")  # what pandas calls row labels without a name
GUARDED = re.compile("'+[" + re.escape("".join(FORMULAS)) + "]")
TEXT_REMEDY = "write it as a table of text, a line of names and a line per row, each with as many cells"
ARROW_REMEDY = "it may be truncated; write it again"


def read_table(source: Any, *, missing: Collection[str] | None = None) -> pyarrow.Table:
    """A table from a file, a frame or columns by name.

    Row labels of a pandas frame are no column; use `reset_index` to keep them.

    Parameters
    ----------
    source : path, frame or dict
        `.csv`, `.tsv`, `.txt`, `.data` (also `.gz`), `.parquet`, `.feather` or `.arrow`; any object with
        `__arrow_c_stream__`, as frames of pandas, polars and duckdb have it; or columns by name.
    missing : collection of str, optional
        Text that says that a cell is missing, whatever its capitals; by default "", "?", "NA", "N/A",
        "NaN" and "null" in files of text, and "" elsewhere. NaN and null are always missing.

    Returns
    -------
    pyarrow.Table
        Booleans, numbers and text; columns of other types are as they were.

    Raises
    ------
    InputError
        If it cannot be read, is too large, or its columns have no names of their own.
    """
    require("pyarrow", "reading a table")
    if isinstance(source, str | Path):
        table, default = _of_file(Path(source))
    elif isinstance(source, Mapping):
        table, default = _of_columns(source), NOTHING
    elif hasattr(source, "__arrow_c_stream__"):
        table, default = _of_frame(source), NOTHING
    else:
        raise InputError(
            "a table is a path, a frame with __arrow_c_stream__ (pandas 2.2, polars 1, duckdb) or a "
            f"dict of columns, not {type(source).__name__}; an array has no names: give them as a dict"
        )
    table = table.rename_columns([name.strip() for name in table.column_names])
    check_names(table.column_names)
    words = {word.lower() for word in (default if missing is None else missing)} | {""}
    import pyarrow

    plain = [_plain(column, words) for column in table.columns]
    return pyarrow.table(plain, names=table.column_names)


def check_names(names: list[str]) -> None:
    """Refuses columns whose names cannot tell them apart."""
    if not names:
        raise InputError("a table must have a column, and this one has none; check what was given")
    if len(names) > MOST_COLUMNS:
        raise InputError(
            f"a table has at most {MOST_COLUMNS:,} columns, not {len(names):,}; leave some out"
        )
    seen: dict[str, tuple[int, str]] = {}
    for number, name in enumerate(names, 1):
        if not name:
            raise InputError(
                f"column {number} has no name; name it, or leave it out if it only counts rows (pandas: "
                "to_csv(…, index=False))"
            )
        if len(name) > LONGEST or "\0" in name:
            raise InputError(
                f"column {number}: a name has at most {LONGEST:,} characters and no character 0, not "
                f"{shown(name)}; shorten it"
            )
        first, other = seen.setdefault("".join(name.split()), (number, name))
        if first != number:
            how = "have the same name" if other == name else "have names that differ by blanks only"
            raise InputError(
                f"columns {first} and {number} {how}, {shown(other)} and {shown(name)}; rename one (the "
                "first line of a file names the columns)"
            )


# -- where tables come from -----------------------------------------------------------------------------


def _of_columns(columns: Mapping[str, Any]) -> pyarrow.Table:
    import pyarrow

    arrays = {}
    for name, values in columns.items():
        if not isinstance(name, str):
            raise InputError(f"columns have names of text, not {name!r:.60}; rename it")
        try:
            arrays[name] = pyarrow.chunked_array([values]) if _is_arrow(values) else pyarrow.array(values)
            if isinstance(arrays[name], pyarrow.Array):
                arrays[name] = pyarrow.chunked_array([arrays[name]])
        except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"column {shown(name)} must be a list or an array of one kind of value: {_line(error)}; "
                "convert it"
            ) from error
    lengths = {name: len(values) for name, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        few, many = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
        raise InputError(
            f"columns must have the same number of rows: {shown(few)} has {lengths[few]:,}, "
            f"{shown(many)} {lengths[many]:,}; complete it"
        )
    return pyarrow.table(arrays)


def _is_arrow(values: Any) -> bool:
    return hasattr(values, "__arrow_c_array__") and not hasattr(values, "__array__")


def _of_frame(frame: Any) -> pyarrow.Table:
    import pyarrow

    names = list(getattr(frame, "columns", ()))
    if names and all(isinstance(name, str) for name in names):  # pandas refuses these in words of its own
        check_names([name.strip() for name in names])
    try:
        table = frame if isinstance(frame, pyarrow.Table) else pyarrow.table(frame)
    except Exception as error:  # whatever its library raises
        raise InputError(
            f"{type(frame).__name__} cannot be read by its __arrow_c_stream__: {_line(error)}; give each "
            "column one type"
        ) from error
    return _without_index(table)


def _without_index(table: pyarrow.Table) -> pyarrow.Table:
    """Without the row labels that pandas writes beside its columns."""
    told = (table.schema.metadata or {}).get(b"pandas")
    labels = {name for name in table.column_names if INDEX.fullmatch(name)}
    if told is not None and len(told) < 2**24:
        try:
            found = json.loads(told).get("index_columns", [])
            labels |= {name for name in found if isinstance(name, str)}
        except (ValueError, AttributeError, TypeError):
            pass  # not pandas'
    return table.select([i for i, name in enumerate(table.column_names) if name not in labels])


def _line(error: Exception) -> str:
    words = " ".join(f"{error}".split()) or type(error).__name__
    return words if len(words) < 200 else f"{words[:200]}…"


def _plain(column: pyarrow.ChunkedArray, missing: set[str]) -> pyarrow.ChunkedArray:
    """Booleans, numbers or text, with nulls where something is missing; other types as they are."""
    import pyarrow
    import pyarrow.compute

    types, kind = pyarrow.types, column.type
    if types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if types.is_large_string(kind) or f"{kind}" == "string_view":
        column = column.cast(pyarrow.string())
    elif types.is_decimal(kind):
        column = column.cast(pyarrow.float64())
    elif types.is_float16(kind):
        column = column.cast(pyarrow.float32())
    if types.is_floating(column.type):
        nan = pyarrow.compute.is_nan(column)
        return pyarrow.compute.if_else(nan, pyarrow.scalar(None, column.type), column)
    if types.is_string(column.type):
        column = pyarrow.compute.utf8_trim_whitespace(column)
        low = pyarrow.compute.utf8_lower(column)
        lost = pyarrow.compute.is_in(low, value_set=pyarrow.array(sorted(missing), pyarrow.string()))
        return pyarrow.compute.if_else(lost, pyarrow.scalar(None, pyarrow.string()), column)
    return column


def _of_file(path: Path) -> tuple[pyarrow.Table, Collection[str]]:
    ending = path.suffix.lower()
    packed = ending == ".gz"
    if packed:
        ending = Path(path.stem).suffix.lower()
    if ending not in TEXT and (packed or ending not in ARROW):
        raise InputError(
            f"{path} has the ending {path.suffix!r}; a table is {', '.join((*TEXT, *ARROW))}, text also "
            ".gz: convert it"
        )
    if not path.is_file():
        raise InputError(f"there is no file {path}; check the path")
    if ending in ARROW:
        return _without_index(_of_arrow_file(path, ARROW[ending])), NOTHING
    with reading(path, "a table of text", TEXT_REMEDY):
        return _of_text(as_utf8(content_of(path))), MISSING


def _of_arrow_file(path: Path, kind: str) -> pyarrow.Table:
    """The rows of Parquet or Feather, as another process has read them."""
    import pyarrow

    with reading(path, kind, ARROW_REMEDY), reading_child("arrow_tables", path, ["table"], kind) as child:
        check_room(f"reading {path}", 3 * child.claims["table"].size, size=1, free=True)
        table = pyarrow.ipc.open_stream(pyarrow.py_buffer(child.array("table"))).read_all()
        table.validate(full=True)
    return table


# -- text -----------------------------------------------------------------------------------------------


def _of_text(content: bytes) -> pyarrow.Table:
    """A table of text: its first line, after lines that begin with #, names the columns."""
    import pyarrow
    import pyarrow.csv

    start = 0
    while (line := content[start : content.find(b"\n", start) + 1 or None]) and (
        not line.strip() or line.startswith(b"#")
    ):
        start += len(line)
    content = content[start:]
    if not content:
        raise ValueError("it holds no line of names")
    if b"\0" in content:
        raise ValueError("it holds the character 0, so it is no text")
    head = content[: content.find(b"\n") + 1 or None].decode()
    bare = "".join(head.split('"')[::2])  # outside quotes
    separator = max(",;\t|", key=bare.count)
    csv.field_size_limit(CELL)
    first = io.StringIO(content[:CELL].decode(errors="ignore"), newline="")
    names = [cell.strip() for cell in next(csv.reader(first, delimiter=separator, skipinitialspace=True))]
    check_names([_unguarded(name) for name in names])
    wrong: list[Any] = []

    def take(row: Any) -> str:
        wrong.append(row)
        return "error"

    try:
        table = pyarrow.csv.read_csv(
            pyarrow.py_buffer(_quotes_first(content, separator)),
            read_options=pyarrow.csv.ReadOptions(
                use_threads=False, block_size=2**24, autogenerate_column_names=True
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=separator,
                newlines_in_values=b'"' in content,
                invalid_row_handler=take,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types={f"f{i}": pyarrow.string() for i in range(len(names))},
                strings_can_be_null=False,
                check_utf8=True,
            ),
        )
    except pyarrow.ArrowInvalid:
        if not wrong:
            raise
        row = wrong[0]
        at = f"row {row.number - 1}" if row.number else "a row"
        raise ValueError(
            f"every row must have {row.expected_columns} cells, as many as the first line, and {at} "
            f"({shown(row.text)}) has {row.actual_columns}"
        ) from None
    table = table.slice(1).rename_columns([_unguarded(name) for name in names])
    return pyarrow.table(
        [_typed(column, separator) for column in table.columns], names=table.column_names
    )


def _quotes_first(content: bytes, separator: str) -> bytes:
    """The same with quotes that follow a separator at once: Arrow takes `, "a, b"` for two cells."""
    if not re.search(f'{re.escape(separator)} +"'.encode(), content):
        return content
    text = io.StringIO(newline="")
    lines = io.StringIO(content.decode(), newline="")
    csv.writer(text, delimiter=separator).writerows(
        csv.reader(lines, delimiter=separator, skipinitialspace=True)
    )
    return text.getvalue().encode()


def _unguarded(cell: str) -> str:
    """A cell without the ' that kept a spreadsheet from taking it for a formula."""
    return cell[1:] if GUARDED.match(cell) else cell


def _typed(column: pyarrow.ChunkedArray, separator: str) -> pyarrow.ChunkedArray:
    """Text as whole numbers, or as numbers, if all cells are; a 0 in front (a zip code) keeps it text."""
    import pyarrow
    import pyarrow.compute as pc

    column = _plain(column, {word.lower() for word in MISSING})
    column = pc.if_else(
        pc.match_substring_regex(column, GUARDED.pattern.replace("'+", "^'+")),
        pc.utf8_slice_codeunits(column, 1),
        column,
    )
    if column.null_count == len(column):
        return column
    told = column
    if separator != "," and not pc.any(pc.match_substring(column, ".")).as_py():
        told = pc.replace_substring(column, ",", ".", max_replacements=1)  # 1,5 is a number there
    if pc.any(pc.match_substring_regex(told, r"^[-+]?0\d")).as_py():
        return column
    told = pc.replace_substring_regex(told, r"^\+(\d)", r"\1")
    for kind in (pyarrow.int64(), pyarrow.float64()):
        try:
            return told.cast(kind)
        except pyarrow.ArrowInvalid:
            pass
    return column


def write_table(table: Any, path: str | Path) -> None:
    """Writes a table: text, Parquet or Feather, by the ending of its name.

    In text a missing cell is empty, and a word that a spreadsheet would take for a formula gets a ' in
    front, which `read_table` takes away.

    Parameters
    ----------
    table : pyarrow.Table or whatever `read_table` takes
        What is written.
    path : str or Path
        `.csv`, `.tsv`, `.csv.gz`, `.tsv.gz`, `.parquet`, `.feather` or `.arrow`.

    Raises
    ------
    InputError
        If the ending is another one.
    DiskError
        If it cannot be written.
    """
    require("pyarrow", "writing a table")
    import pyarrow

    path = Path(path)
    packed = path.suffix.lower() == ".gz"
    ending = Path(path.stem).suffix.lower() if packed else path.suffix.lower()
    if (ending not in TEXT) if packed else ending not in (*TEXT, *ARROW):
        raise InputError(f"{path} must end in {', '.join((*TEXT, *ARROW))} (text also .gz); rename it")
    table = table if isinstance(table, pyarrow.Table) else read_table(table)
    if ending in TEXT:
        text = "".join(_lines(table, TEXT[ending])).encode()
        write_bytes(path, gzip.compress(text, mtime=0) if packed else text)
        return
    sink = pyarrow.BufferOutputStream()
    if ARROW[ending] == "Parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, sink)
    else:
        with pyarrow.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    write_bytes(path, memoryview(sink.getvalue()).tobytes())


def _lines(table: pyarrow.Table, separator: str) -> Iterable[str]:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=separator, lineterminator="\n")
    writer.writerow([_guarded(name) for name in table.column_names])
    for batch in table.to_batches(max_chunksize=2**14):
        columns = [[_cell(value) for value in column.to_pylist()] for column in batch.columns]
        writer.writerows(zip(*columns, strict=True))
        yield text.getvalue()
        text.seek(0)
        text.truncate()
    yield text.getvalue()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return _guarded(value) if isinstance(value, str) else value


def _guarded(cell: str) -> str:
    """`no_formula`, for words that begin with ' before such a mark, too: reading takes one ' away."""
    return f"'{cell}" if GUARDED.match(cell) else no_formula(cell)
