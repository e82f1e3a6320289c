"""Rows of words under their names, as text and as HTML. Words may come from a stranger's file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from unicodedata import combining, east_asian_width

from ...errors import printable

MOST = 60  # letters of a cell


def as_text(names: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> str:
    """Lines of equal columns; those named in `right` end at the same place."""
    cells = [[_cell(word) for word in row] for row in (names, *rows)]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        padded = []
        for name, word, width in zip(names, row, widths, strict=True):
            gap = " " * (width - _width(word))
            padded.append(gap + word if name in right else word + gap)
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def as_html(names: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> str:
    """The same as a table of a notebook."""
    sides = ["right" if name in right else "left" for name in names]

    def line(words: Sequence[str], tag: str) -> str:
        cells = zip(sides, words, strict=True)
        told = (f'<{tag} style="text-align:{s}">{escape(printable(w))}</{tag}>' for s, w in cells)
        return f"<tr>{''.join(told)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f"<table><thead>{line(names, 'th')}</thead><tbody>{body}</tbody></table>"


def _cell(word: str) -> str:
    word = " ".join(printable(word).split())
    return word if len(word) <= MOST else f"{word[: MOST - 1]}…"


def _width(word: str) -> int:
    """Columns of a terminal that it takes."""
    return sum(0 if combining(c) else 1 + (east_asian_width(c) in "WF") for c in word)
