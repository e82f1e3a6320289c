"""Labels as visible units: images with rows of units below them that say which class they are of.

A machine that learns both can be asked either way: with pixels held it guesses the label, with the label
held it dreams images of that class. Each class has a unit, or where a row has room several alike; what is
left of the rows is always down. `with_labels` has the label as one category instead.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import torch
from torch import Tensor

from ..errors import InputError
from ..machines.layers import Layers
from ..machines.units.categorical import Categorical
from ..registry import Setting
from .digits import THRESHOLD, digits, mnist
from .splits import SPLIT_SEED, Dataset, Split, top_half

MOST = 100  # classes
OF_LABEL = Setting(
    "the label: of a table the column that is predicted; of images with labels nothing more, they become "
    "a unit"
)
NO_LABEL = -1


def with_label_units(data: Dataset) -> Dataset:
    """The data set with each image's label as additional visible units below the image.

    Parameters
    ----------
    data : Dataset
        Images with labels in every part.

    Returns
    -------
    Dataset
        Images with rows of label units appended; `label_units` says how many units were added. Label
        units count as unknown in the reconstruction task.

    Raises
    ------
    InputError
        If a part has no labels, or if there are too many classes.

    Examples
    --------
    >>> data = rb.with_label_units(rb.load("digits"))
    >>> data.shape, data.label_units  # two rows of eight below 8×8 pixels
    ((10, 8), 16)
    """
    if any(split.labels is None for split in data.parts.values()):
        raise InputError(f"{data.name} has no labels that could become units; give data that have")
    classes = torch.unique(torch.cat([_labels(split) for split in data.parts.values()]))
    if len(classes) > MOST:
        raise InputError(f"labels become units up to {MOST} classes, {data.name} has {len(classes)}")
    rows, columns = data.shape
    more = -(-len(classes) // columns)
    copies = more * columns // len(classes)
    code = torch.eye(len(classes)).repeat_interleave(copies, 1)  # (classes, units)
    code = torch.nn.functional.pad(code, (0, more * columns - code.shape[1])).mul(2).sub(1).to(torch.int8)
    known = torch.cat([top_half(data.shape), torch.zeros(more * columns, dtype=torch.bool)])

    def labelled(split: Split) -> Split:
        labels = _labels(split)
        units = code[torch.searchsorted(classes, labels)]
        return Split.owning(torch.cat([split.spins, units], 1), labels, known)

    return replace(
        data,
        name=f"{data.name}-labelled",
        train=labelled(data.train),
        test=labelled(data.test),
        valid=None if data.valid is None else labelled(data.valid),
        shape=(rows + more, columns),
        label_units=more * columns,
    )


def with_labels(data: Dataset) -> Dataset:
    """The data set with each row's label as one more visible unit, a category.

    A row whose label is −1 has none: the unit is missing there.

    Parameters
    ----------
    data : Dataset
        Rows in memory, with labels in every part.

    Returns
    -------
    Dataset
        With a categorical unit after all others; `classes` are the labels that it stands for.

    Raises
    ------
    InputError
        If a part has no labels, there is one class alone, or there are too many.

    Examples
    --------
    >>> data = rb.with_labels(rb.load("digits"))
    >>> data.units.words, data.classes
    ('Spin(), Categorical(q=10)', (0, 1, 2, 3, 4, 5, 6, 7, 8, 9))
    """
    if data.schema is not None:
        raise InputError(f"{data.name} is a table: name the column of its label, --labels COLUMN")
    if data.classes or data.label_units:
        raise InputError(f"{data.name} has its label among its units already; leave --labels out")
    if any(split.on_disk for split in data.parts.values()):
        raise InputError("labels become units of rows in memory; load them with stream=False")
    if any(split.labels is None for split in data.parts.values()):
        raise InputError(f"{data.name} has no labels that could become a unit; give data that have")
    every = torch.unique(torch.cat([_labels(split) for split in data.parts.values()]))
    classes = every[every != NO_LABEL]
    if not 2 <= len(classes) <= MOST:
        raise InputError(
            f"a label has 2 to {MOST} classes, {data.name} has {len(classes)} (−1 says that a row has "
            "none); give other labels"
        )
    counts, kinds = data.visible_units
    unit = Categorical(len(classes))
    sizes = (*(kind.columns(count) for count, kind in zip(counts, kinds, strict=True)), len(classes))
    layers = Layers(sizes, (), (*kinds, unit), len(sizes))

    def labelled(split: Split) -> Split:
        labels = _labels(split)
        there, known = labels != NO_LABEL, torch.searchsorted(classes, labels).clamp(0, len(classes) - 1)
        columns = torch.cat([split.spins, unit.of_codes(known[:, None]).to(split.spins.dtype)], 1)
        observed = split.observed
        if observed is not None or not bool(there.all()):
            rest = torch.ones_like(split.spins, dtype=torch.bool) if observed is None else observed
            observed = torch.cat([rest, there[:, None].expand(-1, len(classes))], 1)
        return Split.owning(columns, labels, None, split.of, observed, split.weights)

    return replace(
        data,
        train=labelled(data.train),
        test=labelled(data.test),
        valid=None if data.valid is None else labelled(data.valid),
        shape=(1, sum(sizes)),
        units=layers,
        classes=tuple(classes.tolist()),
    )


def _labels(split: Split) -> Tensor:
    assert split.labels is not None
    return split.labels


def digits_labelled(
    threshold: Annotated[float, THRESHOLD] = 0.5, seed: Annotated[int, SPLIT_SEED] = 0
) -> Dataset:
    """scikit-learn's digits with two rows of units below each that say which digit it is."""
    return with_label_units(digits(threshold, seed))


def mnist_labelled(threshold: Annotated[float | None, THRESHOLD] = None) -> Dataset:
    """MNIST with a row of units below each image that says which digit it is."""
    return with_label_units(mnist(threshold))
