"""Tables of text: a row per sample; cells between commas, semicolons, tabs or blanks, in quotes or not.

The first line may hold the names of the columns; lines before it that begin with # are comments. What
a cell may be: 0 or 1, −1 or 1, or a word for a boolean; other numbers are refused by the name of their
column. 1,0 is a number where something else separates the cells.
"""

from __future__ import annotations

import codecs
import csv
import io
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TextIO

import numpy as np

from ..arrays import Array
from ..errors import InputError

ENDINGS = (".csv", ".tsv", ".txt", ".data")
SEPARATORS = ",;\t"
WORDS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
MISSING = ("", "?", "na", "n/a", "nan", "null", "none")
LEVELS = {"0": 0, "1": 1, "-1": 255}  # as bytes
LONGEST = 2**20  # characters of a cell
FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet computes begins so


def read_table(path: Path) -> tuple[Array, tuple[str, ...]]:
    """The numbers (samples, columns), and the names of the columns if there are any."""
    try:
        with path.open(encoding=_encoding(path), errors="replace", newline="") as file:
            names, values = _parsed(path, _rows(file))
    except csv.Error as error:
        raise InputError(f"{path} is no table of text: {error}; mend the file") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}; check its permissions") from error
    if not len(values):
        raise InputError(
            f"{path} holds no row of text in UTF-8 below a line of names; write one row per sample"
        )
    if values.dtype != np.int8:
        _check_levels(path, values, names)
    return values, names


def has_names(path: Path) -> bool:
    """Whether the first line of cells of a table of text names columns: none of them is empty or a
    number, but for those that count 0, 1, 2, …"""
    with path.open(encoding=_encoding(path), errors="replace", newline="") as file:
        lines = _rows(file)
        try:
            _, cells = next(lines)
            next(lines)  # a table has a row
        except (StopIteration, csv.Error):
            return False
    if isinstance(cells, np.ndarray) or len(set(cells)) < len(cells):
        return False
    return _count(cells) or not any(
        not cell or _is_number(cell) or cell.lower() in MISSING for cell in cells
    )


def no_formula(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula; numbers, which begin like one, stay."""
    return f"'{cell}" if cell.startswith(FORMULAS) and not _is_number(cell) else cell


def _plain(cell: str) -> str:
    """The same back."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(FORMULAS) else cell


def write_table(values: Array, names: Sequence[str]) -> bytes:
    """Text of whole numbers, with a first line of names if there are any."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if names:
        writer.writerow([no_formula(name) for name in names])
    writer.writerows(values.tolist())
    return text.getvalue().encode()


def _encoding(path: Path) -> str:
    """UTF-16 if the file says so, as what spreadsheets call Unicode text does; else UTF-8, or where its
    beginning is none, that of older Windows programs."""
    with path.open("rb") as file:
        start = file.read(LONGEST)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8-sig"


def _rows(file: TextIO) -> Iterator[tuple[int, Array | list[str]]]:
    """Cells of each line that has any, with its number from 1; of many lines of nothing but 0 and 1 their
    values at once, (lines, columns) int8, with the number of the first."""
    number = 1
    for first in file:
        if first.strip() and not first.startswith("#"):
            break
        number += 1
    else:
        return
    csv.field_size_limit(LONGEST)
    bare = "".join(first.split('"')[::2])  # outside quotes
    separator = max(SEPARATORS, key=bare.count)
    for mark in ";\t":  # 1,0;0,0;1,0
        if mark in bare and all(map(_is_number, bare.replace(",", ".").split(mark))):
            separator = mark
    blanks = not bare.count(separator)
    some = [first]
    while some:
        block = _block(some, " " if blanks else separator)
        if block is not None:
            yield number, block
            number += len(some)
            some = []
        lines = iter(some)
        for line in lines:
            if blanks:
                cells = line.split()
            else:
                reader = csv.reader(
                    chain([line], lines, file), delimiter=separator, skipinitialspace=True
                )
                cells = [cell.strip() for cell in next(reader)]
                number += reader.line_num - 1  # what is in quotes may go on over several lines
                if separator != ",":
                    cells = [_with_point(cell) for cell in cells]
            if any(cells):
                yield number, cells
            number += 1
        some = file.readlines(LONGEST)


def _block(lines: list[str], separator: str) -> Array | None:
    """The values of lines of 0 and 1 between single separators, all of one length; None for others."""
    text, length, end = "".join(lines), len(lines[0]), len(lines[0].rstrip("\r\n"))
    if not text.isascii() or len(text) != length * len(lines) or end % 2 == 0:
        return None
    table = np.frombuffer(text.encode(), np.int8).reshape(len(lines), length)
    digits = table[:, :end:2] - np.int8(48)  # "0" and "1" are 48 and 49
    plain = ((digits & 1) == digits).all() and (table[:, 1:end:2] == ord(separator)).all()
    return digits if plain and (table[:, end:] == table[0, end:]).all() else None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _with_point(cell: str) -> str:
    """A number with its decimal comma as a point; any other cell as it is."""
    pointed = cell.replace(",", ".")
    return pointed if pointed != cell and _is_number(pointed) else cell


def _parsed(path: Path, lines: Iterator[tuple[int, Array | list[str]]]) -> tuple[tuple[str, ...], Array]:
    """The names of the columns, and the rows: int8 where all values are −1, 0 and 1."""
    names: tuple[str, ...] = ()
    small, wide = bytearray(), array("d")  # rows up to the first that holds something else; those after
    width = count = 0
    for number, cells in lines:
        rows, columns = cells.shape if isinstance(cells, np.ndarray) else (1, len(cells))
        if width and columns != width:
            raise InputError(
                f"{path} must have the same number of columns in every row: line {number} has "
                f"{columns}, those before {width} (truncated?); mend the file"
            )
        width = columns
        if not isinstance(cells, np.ndarray):
            if not (count or names) and (_count(cells) or _are_names(path, number, cells)):
                names = tuple(map(_plain, cells))
                continue
            cells = _values(path, number, cells, names)
        count += rows
        if cells.dtype == np.int8 and not wide:
            small += cells.tobytes()
        else:
            wide.frombytes(cells.astype(np.float64).tobytes())
    head = np.frombuffer(small, np.int8).reshape(-1, width) if width else np.empty((0, 0), np.int8)
    if not wide:
        return names, head
    return names, np.concatenate([head, np.frombuffer(wide).reshape(-1, width)])


def _values(path: Path, number: int, cells: list[str], names: tuple[str, ...]) -> Array:
    """The numbers of a line: int8 where all are −1, 0 and 1."""
    try:
        return np.frombuffer(bytes(map(LEVELS.__getitem__, cells)), np.int8)
    except KeyError:
        pass
    try:
        row = np.array([float(cell) for cell in cells])
    except ValueError:
        row = np.array([_value(path, number, i, cell, names) for i, cell in enumerate(cells)])
    if np.isnan(row).any():
        at = int(np.isnan(row).argmax())
        _value(path, number, at, "nan", names)
    whole = bool((np.abs(row) <= 1).all() and (row == np.rint(row)).all())
    return row.astype(np.int8) if whole else row


def _check_levels(path: Path, values: Array, names: tuple[str, ...]) -> None:
    """Names the columns that have more than two levels, if they are only some: `to_spins` tells of a
    table that has no others."""
    wrong = np.flatnonzero(~np.isin(values, (-1, 0, 1)).all(0)).tolist()
    if len(wrong) == values.shape[1]:
        return
    told = ", ".join(repr(names[i][:40]) if names else str(i + 1) for i in wrong[:5])
    told += ", …" if len(wrong) > 5 else ""
    levels = np.unique(values[:, wrong[0]])
    shown = ", ".join(f"{level:g}" for level in levels[:5]) + (", …" if levels.size > 5 else "")
    raise InputError(
        f"{path}: every column must have two levels, 0 and 1 or −1 and 1, which {len(wrong)} of "
        f"{values.shape[1]} do not: {told} (the first of them holds {shown}); "
        "threshold it, make a column of 0 and 1 for each of its values, or leave it out"
    )


def _are_names(path: Path, number: int, cells: list[str]) -> bool:
    """Whether the first line holds names rather than values."""
    index = cells[0] == "" and _count(cells[1:])
    if any(map(_is_value, cells)) and not index:
        return False
    if "" in cells:
        raise InputError(
            f"{path}, line {number}, column {cells.index('') + 1}: this line names the columns, but for "
            "this one; name it, or leave it out if it only counts rows (pandas: to_csv(…, index=False))"
        )
    return True


def _count(cells: list[str]) -> bool:
    """Whether they are 0, 1, 2, … or 1, 2, …: names, as pandas gives; no row of two levels has a 2."""
    return "2" in cells and cells in ([str(first + i) for i in range(len(cells))] for first in (0, 1))


def _is_value(cell: str) -> bool:
    """Whether a line with this cell holds values rather than names."""
    return _is_number(cell) or cell.lower() in WORDS or (cell.lower() in MISSING and cell != "")


def _value(path: Path, line: int, column: int, cell: str, names: tuple[str, ...]) -> float:
    word = cell.lower()
    where = f"{path}, line {line}, column {column + 1}"
    where += f" ({names[column][:40]!r})" if names else ""
    if word in MISSING:
        raise InputError(f"{where}: a value is missing ({cell!r}); fill it in, or leave the row out")
    if word in WORDS:
        return WORDS[word]
    try:
        return float(cell)
    except ValueError as error:
        raise InputError(
            f"{where}: a table holds numbers between commas, semicolons, tabs or blanks, not "
            f"{cell[:60]!r}; make a column of 0 and 1 for each of its words, or leave the column out"
        ) from error
