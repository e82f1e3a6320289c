"""How much each row of a data set counts: read from a file or a column, and divided as the rows are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..arrays import Array, as_weights, effective_rows
from ..disk import reading
from ..errors import InputError
from ..registry import Setting
from .cells import first_row, numbers_of, shown
from .sources import numpy_arrays
from .splits import Dataset, Split
from .text_files import as_utf8, content_of

if TYPE_CHECKING:
    import pyarrow

NONE = "none"
OF_ROWS = Setting(
    "how much each row counts: a file with a number per row (.npy or text), the name of a column of the "
    "table, or none; sequences count by identity unless this says otherwise"
)


def is_weights_file(told: str | Path | None) -> bool:
    """Whether this names a file of weights."""
    return told is not None and told != NONE and Path(told).is_file()


def read_weights(path: str | Path) -> Array:
    """Numbers of a file, one per row: `.npy`, or text with one on each line and perhaps a name above."""
    path = Path(path)
    if path.suffix.lower() == ".npy":
        found = np.asarray(numpy_arrays(path)["samples"]())
        if found.ndim != 1 or found.dtype.kind not in "biuf":
            raise InputError(
                f"{path} must hold a weight for each row, (rows,), not {found.dtype} of shape "
                f"{found.shape}; write it again"
            )
        return found.astype(np.float64)
    with reading(path, "weights", "write one number on each line"):
        text = as_utf8(content_of(path)).decode()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines and not _is_number(lines[0]):
        lines = lines[1:]
    wrong = next((i for i, word in enumerate(lines) if not _is_number(word)), None)
    if wrong is not None:
        raise InputError(
            f"{path}, row {wrong + 1}: a weight is a number, not {shown(lines[wrong])}; write one on "
            "each line"
        )
    return np.array(lines, np.float64)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def weights_of_column(table: pyarrow.Table, name: str) -> Array:
    """The numbers of a column, none of them missing."""
    found = numbers_of(table.column(name), f"column {shown(name)}", whole=False)
    if np.isnan(found).any():
        raise InputError(
            f"column {shown(name)}, row {first_row(np.isnan(found))}: the weight is missing; give 0 to a "
            "row that is not to count"
        )
    return found


def weighted(data: Dataset, weights: Any, *, told: str = "") -> Dataset:
    """The data set with weights of its rows, in the order in which they were given.

    Parameters
    ----------
    data : Dataset
        Rows in memory, of which this library set the test part aside, or with parts of their own.
    weights : array of shape (samples,)
        One for each row; of data with parts of their own, for the rows of all parts, one part after the
        other.
    told : str, optional
        Where they come from, in words.

    Returns
    -------
    Dataset
        With weights in every part.

    Raises
    ------
    InputError
        If rows stay on disk, or weights are not as many, negative or not finite.

    Examples
    --------
    >>> data = rb.weighted(rb.from_arrays([[0, 1], [1, 1], [1, 0], [0, 0], [1, 1]]), [1, 1, 2, 1, 0])
    >>> data.train.effective_rows < len(data.train)
    True
    """
    if any(split.on_disk for split in data.parts.values()):
        raise InputError("rows that stay on disk have no weights; load them with stream=False")
    counts = [len(split) for split in data.parts.values()]
    each = as_weights(weights, sum(counts))
    if data.order is not None and data.valid is None:
        each = each[data.order]
    parts = dict(zip(data.parts, torch.split(each, counts), strict=True))
    found = {part: _with_weights(split, parts[part]) for part, split in data.parts.items()}
    words = (
        f"{told}{', ' if told else ''}{float(effective_rows(each)):,.1f} effective rows of {len(each):,}"
    )
    return replace(data, **found, weighted=words)  # type: ignore[arg-type]


def _with_weights(split: Split, weights: Tensor) -> Split:
    return Split.owning(split.spins, split.labels, split.known, split.of, split.observed, weights.clone())
