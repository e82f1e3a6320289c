"""Bars and stripes: images whose rows, or whose columns, are all the same line of spins."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from ..errors import InputError
from ..machines.spins import to_spins
from ..machines.units.spin import SPIN
from ..random import check_seed, stream
from .splits import SPLIT_SEED, TEST_SHARE, Dataset, Split


def bars4() -> Dataset:
    """The paper's 4×4 bars: 10 images to train and 4 to test, each with its negative."""
    chosen = {"train": ["1000", "1100", "1110", "1011", "1101"], "test": ["1010", "1001"]}
    splits = {}
    for part, codes in chosen.items():
        lines = to_spins([[int(bit) for bit in code] for code in codes])
        lines = torch.cat([lines, -lines])
        splits[part] = Split(_bars(lines), known=_first_line(4).expand(len(lines), -1))
    return Dataset("bars4", splits["train"], splits["test"], (4, 4))


def bars_and_stripes(size: int, seed: Annotated[int, SPLIT_SEED] = 0) -> Dataset:
    """N×N images of bars (label 0) or stripes (label 1), without the two uniform ones, which are both.

    An image and its negative stay in the same split: without biases a machine cannot tell them
    apart. There are 2(2^N − 2) images; beyond N = 16 a seeded draw of 100,000 to 131,072 serves.
    """
    if not 2 <= size <= 32:
        raise InputError(f"bars and stripes have a side of 2 to 32 pixels, not {size}")
    check_seed(seed)
    rng = stream(seed, "bas", size)
    if size <= 16:
        half = SPIN.states(
            size, torch.arange(1, 2 ** (size - 1))
        )  # first line at −1; the rest are the negatives
    else:
        half = torch.randint(2, (2**15, size), generator=rng, dtype=torch.int8) * 2 - 1
        half[:, 0] = -1
        half = torch.unique(half, dim=0)
        half = half[half.sum(1) > -size]
    count = 2 * len(half)  # a bar and a stripe for each
    lines = torch.cat([half, half])
    labels = torch.arange(count) // len(half)
    images = torch.where(labels[:, None] == 0, _bars(lines), _stripes(lines))
    known = torch.where(labels[:, None] == 0, _first_line(size), _first_column(size))
    order = torch.randperm(count, generator=rng)
    cut = min(round(count * (1 - TEST_SHARE)), count - 1)

    def split(rows: Tensor) -> Split:
        spins = torch.cat([images[rows], -images[rows]])
        return Split(spins, labels[rows].repeat(2), known[rows].repeat(2, 1))

    return Dataset(f"bas{size}", split(order[:cut]), split(order[cut:]), (size, size))


def _bars(lines: Tensor) -> Tensor:
    return lines.repeat(1, lines.shape[1])  # every row of the image is the line


def _stripes(lines: Tensor) -> Tensor:
    return lines.repeat_interleave(lines.shape[1], 1)  # every column is


def _first_line(size: int) -> Tensor:
    return torch.arange(size * size) < size


def _first_column(size: int) -> Tensor:
    return torch.arange(size * size) % size == 0
