"""Labels as visible units: images with rows of units below them that say which class they are of.

A machine that learns both can be asked either way: with pixels held it guesses the label, with the label
held it dreams images of that class. Each class has a unit, or where a row has room several alike; what is
left of the rows is always down.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import torch
from torch import Tensor

from ..errors import InputError
from .digits import THRESHOLD, digits, mnist
from .splits import SPLIT_SEED, Dataset, Split, top_half

MOST = 100  # classes


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
