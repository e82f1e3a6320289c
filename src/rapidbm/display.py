"""What a result looks like: a few lines at a prompt, a small table in a notebook.

A dataclass that derives from `Displayable` is shown by its fields, or by its own `_facts`. Names may come
from a stranger's file: control characters are replaced, and a tag in HTML stays text.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from html import escape
from typing import TYPE_CHECKING, Any
from unicodedata import combining, east_asian_width

from .errors import printable

if TYPE_CHECKING:  # the command shows things before torch is loaded
    from torch import Tensor

FEW = 4  # numbers that are written one by one
LONGEST = 1000  # characters of a line: a note may be long, a name from a file may not
CELL = "text-align:left;vertical-align:top"
MEASURED = {"log_likelihood": "log p", "log_bound": "log p ≥"}  # metrics, as lines call them


class Displayable:
    """Something with a readable `repr`, and a table in its place in notebooks."""

    def _title(self) -> str:
        return type(self).__name__

    def _facts(self) -> Iterable[tuple[str, str]]:
        """Names and words, a line each."""
        every = ((field.name, getattr(self, field.name)) for field in fields(self) if field.repr)  # type: ignore[arg-type]
        return [(name.replace("_", " "), words(value)) for name, value in every if not _silent(value)]

    def _line(self) -> str:
        """The whole in a line, where it is a part of something else."""
        return self._title()

    def __repr__(self) -> str:
        return lines(self._title(), self._facts())

    def _repr_html_(self) -> str:
        return html(self._title(), self._facts())


@dataclass(frozen=True, repr=False)
class Table(Displayable):
    """Rows under names of columns; `str` is the table as text, `_repr_html_` the same in a notebook."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        text = as_text(self.columns, self.rows, most=LONGEST).splitlines()
        return "\n".join([clean(self.title), *(f"  {line}" for line in text), *map(clean, self.notes)])

    def _repr_html_(self) -> str:
        told = "".join(f"<p>{_safe(note)}</p>" for note in self.notes)
        return f"<p><b>{_safe(self.title)}</b></p>{as_html(self.columns, self.rows)}{told}"


def as_text(
    names: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = (), most: int = 60
) -> str:
    """Lines of equal columns, of `most` letters at most; those named in `right` end at the same place."""
    cells = [[clean(word, most) for word in row] for row in (names, *rows)]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    text = []
    for row in cells:
        padded = []
        for name, word, width in zip(names, row, widths, strict=True):
            gap = " " * (width - _width(word))
            padded.append(gap + word if name in right else word + gap)
        text.append("  ".join(padded).rstrip())
    return "\n".join(text)


def as_html(names: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> str:
    """The same as a table of a notebook."""
    sides = ["right" if name in right else "left" for name in names]

    def line(cells: Sequence[str], tag: str) -> str:
        pairs = zip(sides, cells, strict=True)
        told = (f'<{tag} style="text-align:{s};vertical-align:top">{_safe(x)}</{tag}>' for s, x in pairs)
        return f"<tr>{''.join(told)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f"<table><thead>{line(names, 'th')}</thead><tbody>{body}</tbody></table>"


def _width(word: str) -> int:
    """Columns of a terminal that it takes."""
    return sum(0 if combining(c) else 1 + (east_asian_width(c) in "WF") for c in word)


def lines(title: str, facts: Iterable[tuple[str, str]]) -> str:
    """A title and indented lines."""
    cleaned = [(clean(name), clean(text)) for name, text in facts]
    width = max((len(name) for name, _ in cleaned), default=0)
    return "\n".join([clean(title), *(f"  {name:<{width}}  {text}".rstrip() for name, text in cleaned)])


def html(title: str, facts: Iterable[tuple[str, str]]) -> str:
    """The same as a table of two columns."""
    rows = (
        f'<tr><th style="{CELL}">{_safe(name)}</th><td style="{CELL}">{_safe(text)}</td></tr>'
        for name, text in facts
    )
    return f"<p><b>{_safe(title)}</b></p><table>{''.join(rows)}</table>"


def clean(text: str, most: int = LONGEST) -> str:
    """One line without control characters, of a bearable length."""
    plain = printable(text).replace("\n", " ")
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def _safe(text: str) -> str:
    return escape(clean(text))


def _silent(value: Any) -> bool:
    return value is None or (isinstance(value, (str, tuple, list, dict)) and not value)


def words(value: Any) -> str:
    """One line about a value."""
    if hasattr(value, "numel"):  # a tensor
        return of_tensor(value)
    if isinstance(value, Displayable):
        return value._line()
    if isinstance(value, float):
        return number(value)
    if isinstance(value, (tuple, list)):
        some = ", ".join(words(x) for x in value[:FEW])
        return some if len(value) <= FEW else f"{some}, … ({len(value)})"
    if isinstance(value, dict):
        return "; ".join(f"{name} {words(x)}" for name, x in [*value.items()][:FEW])
    return str(value)


def of_tensor(value: Tensor, one: Callable[[tuple[int, ...]], str] | None = None) -> str:
    """A few numbers one by one; of many the shape, and between what they lie. `one` writes the number
    at a place."""
    write = one or (lambda place: number(value[place].item()))
    if value.dim() <= 1 and value.numel() <= FEW:
        places: list[tuple[int, ...]] = [(i,) for i in range(value.numel())] if value.dim() else [()]
        return ", ".join(write(place) for place in places)
    size = "×".join(map(str, value.shape))
    if not value.numel() or value.is_complex():
        return f"{size} numbers"
    sound = value.detach().double()
    sound = sound[sound.isfinite()]
    between = "none finite"
    if len(sound):
        low, high = number(float(sound.min())), number(float(sound.max()))
        between = f"all {low}" if low == high else f"{low} to {high}"
    return f"{size} numbers, {between}"


def number(value: Any) -> str:
    """Four digits, a whole number as it is."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    whole = isinstance(value, int) or (value.is_integer() and abs(value) < 1e9)
    return f"{value:,.0f}" if whole else f"{value:.4g}"


def with_error(value: float, error: float) -> str:
    """A value to the digits that its error leaves: 12.346 ± 0.012."""
    if not math.isfinite(value):
        return "not defined"
    if not math.isfinite(error):
        return f"{number(value)} ± ?"
    if error <= 1e-12 * max(1.0, abs(value)):
        return f"{value:.7g}"
    digits = max(0, min(9, 1 - math.floor(math.log10(error))))
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def spread(values: Sequence[float | None]) -> str:
    """Mean ± standard deviation over replicas; of one replica its value."""
    found = [v for v in values if v is not None]
    if not found:
        return "not finite"
    text = f"{statistics.fmean(found):.4g}"
    if len(found) > 1:
        text += f" ± {short(statistics.stdev(found))}"
    return text if len(found) == len(values) else f"{text} (finite: {len(found)} of {len(values)})"


def short(value: float) -> str:
    """An error to two digits."""
    return f"{value:.0f}" if 100 <= value < 1e6 else f"{value:.2g}"
