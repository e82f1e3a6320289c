"""A data set: spins to train and to test on, labels, and what reconstruction is given.

`known` is the mask of the reconstruction task (appendix C of the paper): the first line of bars or
stripes; the upper half of other images.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from ..arrays import as_labels, as_mask, as_weights, effective_rows
from ..display import Displayable, words
from ..errors import InputError, is_number
from ..machines.layers import Layers
from ..machines.spins import column_sums, to_spins
from ..machines.units.spin import SPIN
from ..machines.units.unit import Unit
from ..random import stream
from ..registry import Setting

if TYPE_CHECKING:
    from .table_schema import TableSchema

TEST_SHARE = 0.2
SPLIT_SEED = Setting(
    "seed of the split into training and test set, of a file too", flag="data_seed", least=0
)


@dataclass(frozen=True, repr=False)
class Split(Displayable):
    """One part of a data set: rows of spins, with labels and a mask if there are any.

    Parameters
    ----------
    spins : Tensor of shape (samples, v)
        Rows as ±1; {0, 1} and booleans are converted. Kept as int8.
    labels : Tensor of shape (samples,), optional
        Class of each row.
    known : Tensor of shape (samples, v) or (v,), bool, optional
        True where the reconstruction task is given the value.
    of : int, optional
        Number of rows that these were taken from, evenly spread; None when they are all.
    observed : Tensor of shape (samples, v), bool, optional
        False where a cell is missing and what `spins` holds there means nothing; None when all are known.
    weights : Tensor of shape (samples,), optional
        How much each row counts in training and in means of log p; None when all count the same.

    Raises
    ------
    InputError
        If there are no rows, or values or shapes do not fit.

    Examples
    --------
    >>> rb.Split([[1, 0, 1], [0, 0, 1]]).spins
    tensor([[ 1, -1,  1],
            [-1, -1,  1]], dtype=torch.int8)
    """

    spins: Tensor  # (samples, v) int8, ±1
    labels: Tensor | None = None  # (samples,)
    known: Tensor | None = None  # (samples, v) or (v,) bool: what reconstruction is given
    of: int | None = None  # rows that these were taken from, evenly spread; None: they are all
    observed: Tensor | None = None  # (samples, v) bool: False where a cell is missing; None: none is
    weights: Tensor | None = None  # (samples,) float64: how much a row counts; None: all the same
    on_disk: ClassVar[bool] = False  # whether the rows stay there

    def __post_init__(self) -> None:
        object.__setattr__(self, "spins", to_spins(self.spins))
        if self.labels is not None:
            object.__setattr__(self, "labels", as_labels(self.labels))
        self._check_shapes()
        if self.weights is not None:
            object.__setattr__(self, "weights", as_weights(self.weights, len(self)))
        if self.known is not None:
            shapes = (tuple(self.spins.shape), (self.visible,))
            known = as_mask(self.known, shapes, what="a mask of known pixels")
            object.__setattr__(self, "known", known)
        if self.observed is not None:
            shape = (tuple(self.spins.shape),)
            object.__setattr__(
                self, "observed", as_mask(self.observed, shape, what="a mask of observed cells")
            )

    @staticmethod
    def owning(
        spins: Tensor,
        labels: Tensor | None,
        known: Tensor | None,
        of: int | None = None,
        observed: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> Split:
        """A split of tensors that were checked; they are not copied.

        Parameters
        ----------
        spins : Tensor of shape (samples, v), int8
            Rows as ±1.
        labels : Tensor of shape (samples,), optional
            Class of each row.
        known : Tensor, optional
            Mask of the reconstruction task.
        of : int, optional
            Number of rows that these were taken from.
        observed : Tensor, optional
            Mask of the cells that are not missing.
        weights : Tensor, optional
            How much each row counts.

        Returns
        -------
        Split
            A view of these tensors.
        """
        split = object.__new__(Split)
        given = {"spins": spins, "labels": labels, "known": known, "of": of, "observed": observed}
        given["weights"] = weights
        for name, value in given.items():
            object.__setattr__(split, name, value)
        split._check_shapes()
        return split

    def _check_shapes(self) -> None:
        if not len(self):
            raise InputError("a split holds at least one sample, and there are none")
        if self.spins.dim() != 2:
            raise InputError(
                f"the spins of a split are (samples, visible), not {tuple(self.spins.shape)}; "
                "flatten images first"
            )
        if self.labels is not None and tuple(self.labels.shape) != (len(self),):
            raise InputError(
                f"{len(self)} samples need {len(self)} labels, not {tuple(self.labels.shape)}"
            )

    def _line(self) -> str:
        labels = "" if self.labels is None else f", {len(torch.unique(self.labels))} labels"
        labels += "" if self.of is None else f", of {self.of:,} on disk"
        known = "" if self.known is None else ", some units known"
        lost = 0.0 if self.observed is None else 1.0 - float(self.observed.double().mean())
        more = f"{labels}{known}{f', {lost:.2g} of the cells missing' if lost else ''}"
        if self.weights is not None:
            more += f", weighted, {self.effective_rows:,.1f} effective"
        if self.spins.is_floating_point() or not bool((self.spins[:1].abs() == 1).all()):
            return f"{len(self):,} rows of {self.visible} columns{more}"
        return f"{len(self):,} rows of {self.visible} spins, {100 * self.share_up:.0f} % up{more}"

    def __repr__(self) -> str:
        return f"{self._title()}: {self._line()}"

    def __len__(self) -> int:
        return len(self.spins)

    @property
    def share_up(self) -> float:
        """The share of spins that are +1."""
        count = self.spins.numel()
        return (float(column_sums(self.spins).sum()) + count) / (2 * count)

    @property
    def visible(self) -> int:
        """Number of columns."""
        return self.spins.shape[1]

    @property
    def effective_rows(self) -> float:
        """How many rows of equal weight tell as much of a mean, (Σ w)² / Σ w²."""
        return float(len(self) if self.weights is None else effective_rows(self.weights))

    @property
    def rows(self) -> Tensor | Split:
        """What a training takes: the spins, or the split itself when its rows stay on disk, have weights
        or lack cells."""
        return self.spins if self.observed is None and self.weights is None else self

    def in_memory(self) -> Split:
        """As many rows as fit into memory; of rows in memory, all.

        Returns
        -------
        Split
            Rows in memory.
        """
        return self

    def digest(self) -> Any:
        """The bytes of the rows, for a checksum.

        Returns
        -------
        buffer
            Contiguous int8 values.
        """
        whole = self.spins if self.observed is None else torch.where(self.observed, self.spins, 0)
        if self.weights is None:
            return whole.contiguous().numpy().data
        return whole.contiguous().numpy().tobytes() + self.weights.numpy().tobytes()

    def parted(self, word: str, seed: int, share: float) -> tuple[Split, Split]:
        """The split in two, by a random draw; both parts keep the order of the rows.

        Parameters
        ----------
        word : str
            Name of the random stream.
        seed : int
            Seed of the draw.
        share : float
            Share of the rows that goes to the second part; each part gets at least one row.

        Returns
        -------
        tuple of Split
            (the rest, the part held out).
        """
        count = len(self)
        order = torch.randperm(count, generator=stream(seed, word))
        cut = min(max(1, round(share * count)), count - 1)
        return self.take(order[cut:].sort().values), self.take(order[:cut].sort().values)

    def narrowed(self, columns: slice) -> Split:
        """The same rows with a range of columns.

        Parameters
        ----------
        columns : slice
            Columns to keep.

        Returns
        -------
        Split
            Rows of `spins[:, columns]`, with the mask cut likewise.
        """
        known = None if self.known is None else self.known[..., columns]
        observed = None if self.observed is None else self.observed[:, columns]
        return Split.owning(self.spins[:, columns], self.labels, known, self.of, observed, self.weights)

    def __add__(self, other: Split) -> Split:
        """The samples of both; what only one of them has is left out."""
        labels = known = None
        if self.labels is not None and other.labels is not None:
            labels = torch.cat([self.labels, other.labels])
        if self.known is not None and other.known is not None:
            known = self.known
            if known.dim() == 2 or not torch.equal(known, other.known):
                known = torch.cat([x.known.expand_as(x.spins) for x in (self, other)])  # type: ignore[union-attr]
        observed = None
        if self.observed is not None or other.observed is not None:
            observed = torch.cat([x._mask() for x in (self, other)])
        weights = None
        if self.weights is not None or other.weights is not None:
            weights = torch.cat([x._weights() for x in (self, other)])
        spins = torch.cat([self.spins, other.spins])
        return Split.owning(spins, labels, known, observed=observed, weights=weights)

    def _weights(self) -> Tensor:
        """How much each row counts, (samples,)."""
        return torch.ones(len(self), dtype=torch.float64) if self.weights is None else self.weights

    def _mask(self) -> Tensor:
        """What is observed, (samples, v)."""
        return torch.ones_like(self.spins, dtype=torch.bool) if self.observed is None else self.observed

    def take(self, rows: Tensor | slice) -> Split:
        """Selected rows.

        Parameters
        ----------
        rows : Tensor or slice
            Numbers of the rows, or a slice, whose rows are not copied.

        Returns
        -------
        Split
            These rows, with their labels and mask.
        """
        labels = None if self.labels is None else self.labels[rows]
        known = self.known if self.known is None or self.known.dim() == 1 else self.known[rows]
        observed = None if self.observed is None else self.observed[rows]
        weights = None if self.weights is None else self.weights[rows]
        return Split.owning(self.spins[rows], labels, known, observed=observed, weights=weights)


@dataclass(frozen=True, repr=False)
class Dataset(Displayable):
    """A training and a test part, and a validation part if there is one.

    Parameters
    ----------
    name : str
        Name in tables and run folders.
    train : Split
        Rows to train on.
    test : Split
        Rows to measure on.
    shape : tuple of int
        (rows, columns) of an image; (1, columns) for a table.
    valid : Split, optional
        Rows to choose settings and checkpoints by.
    columns : tuple of str, default ()
        Names of the columns of a table.
    order : Tensor, optional
        Number of each row in the data as given, for the rows of `train` and then of `test`.
    label_units : int, default 0
        How many of the last visible units encode the label.
    undivided : Split, optional
        All rows in the order of the file, when they stay on disk.
    units : Layers, optional
        The visible layers of a machine for these data, where their units are not all spins; the rows of
        the parts are columns of these layers then.
    schema : TableSchema, optional
        What the columns of a table are, and the way back from rows of units to tables.
    alphabet : str, default ""
        The symbols of aligned sequences, in the order of their codes.
    weighted : str, default ""
        Where the weights of rows come from and how many rows they leave, in words.
    classes : tuple of int, default ()
        The labels that the last visible unit stands for, where it is the label.

    Raises
    ------
    InputError
        If the parts have different widths, or `shape` has another number of columns.

    Examples
    --------
    >>> data = rb.load("bars4")
    >>> data.visible, list(data.parts)
    (16, ['train', 'test'])
    """

    name: str
    train: Split
    test: Split
    shape: tuple[int, int]
    valid: Split | None = None
    columns: tuple[str, ...] = ()  # names, of a table that has them
    order: Tensor | None = None  # which row of what was given each row of train, then of test, is
    label_units: int = 0  # visible units, the last ones, that say which class an image is of
    undivided: Split | None = None  # those rows themselves, where they stay on disk
    units: Layers | None = None  # the visible layers of a machine for them; None: spins
    schema: TableSchema | None = None  # of a table of any kind
    alphabet: str = ""  # of aligned sequences: the symbol of each state
    weighted: str = ""  # on the weights of rows
    classes: tuple[int, ...] = ()  # labels that the states of the last unit stand for

    def _title(self) -> str:
        return f"Dataset {self.name}"

    def _facts(self) -> list[tuple[str, str]]:
        rows, columns = self.shape
        shape = f"a table of {columns} columns" if rows == 1 else f"images of {rows}×{columns}"
        named = [("columns", words(tuple(dict.fromkeys(self.columns))))] if self.columns else []
        if self.units is not None:
            shape = f"{self.units.visible_units} units in {columns} columns: {self.units.words}"
        parts = [(part, split._line()) for part, split in self.parts.items()]
        weighted = [("weights", self.weighted)] if self.weighted else []
        return [("rows are", shape), *parts, *named, *weighted]

    def __post_init__(self) -> None:
        widths = [split.visible for split in self.parts.values()]
        if {*widths, math.prod(self.shape)} != {self.visible}:
            raise InputError(
                f"all splits and the image shape must agree on the number of pixels, but they have "
                f"{', '.join(map(str, widths))} and {self.shape}"
            )
        for part, split in self.parts.items():
            if split.weights is not None and not bool((split.weights > 0).any()):
                raise InputError(
                    f"of the {len(split):,} rows of {part} none has a weight above 0; give other "
                    "weights, or another seed of the split"
                )

    @property
    def parts(self) -> dict[str, Split]:
        """The parts by name: `train`, `test` and, if there is one, `valid`."""
        both = {"train": self.train, "test": self.test}
        return both if self.valid is None else {**both, "valid": self.valid}

    @property
    def visible(self) -> int:
        """Number of columns of every part."""
        return self.train.visible

    @property
    def visible_units(self) -> tuple[tuple[int, ...], tuple[Unit, ...]]:
        """What a constructor of a machine takes as `visible` and `units`.

        Returns
        -------
        tuple
            The number of units of each visible layer, and their kinds.
        """
        if self.units is None:
            return (self.visible,), (SPIN,)
        return self.units.counts, self.units.kinds

    @property
    def label(self) -> int | None:
        """The number of the visible unit that is the label, where one is."""
        if self.classes:
            return sum(self.visible_units[0]) - 1
        return None if self.schema is None else self.schema.label_unit

    def in_memory(self) -> Dataset:
        """The data set with as many rows of each part as fit into memory.

        Returns
        -------
        Dataset
            The data set itself when all rows are in memory.
        """
        if not any(split.on_disk for split in self.parts.values()):
            return self
        return replace(
            self,
            train=self.train.in_memory(),
            test=self.test.in_memory(),
            valid=None if self.valid is None else self.valid.in_memory(),
            undivided=None if self.undivided is None else self.undivided.in_memory(),
            order=None,
        )

    @property
    def original_parts(self) -> dict[str, Split]:
        """The parts as the user gave them.

        When the test part was set aside by this library, training and test rows are joined again, in the
        order of the file, as `data`.
        """
        if self.undivided is not None:
            whole = {"data": self.undivided}
            return whole if self.valid is None else {**whole, "valid": self.valid}
        if self.order is None:
            return self.parts
        whole = {"data": (self.train + self.test).take(self.order.argsort())}
        return whole if self.valid is None else {**whole, "valid": self.valid}


def check_share(share: object) -> None:
    if not (is_number(share) and 0 <= float(share) < 1):  # type: ignore[arg-type]
        raise InputError(f"the share held out to validate is in [0, 1), not {share!r}")


def held_out(data: Dataset, share: float, seed: int) -> Dataset:
    """A seeded share of the training data is set aside to validate; with 0 a part that is there is
    trained on."""
    check_share(share)
    if not share:
        if data.valid is None:
            return data
        both = data.train + data.valid
        return replace(data, train=both, valid=None, order=None, undivided=None)
    if data.valid is not None:
        raise InputError(
            f"{data.name} has a validation part of its own, of {len(data.valid)}; leave --valid out, or "
            "give 0 to train on it too"
        )
    count = len(data.train)
    if count < 2:
        raise InputError(f"{data.name} has {count} sample to train on and none to hold out")
    kept, held = data.train.parted("valid", seed, share)
    return replace(data, train=kept, valid=held, order=None, undivided=None)


def top_half(shape: tuple[int, int]) -> Tensor:
    rows, columns = shape
    if rows == 1:  # not an image: the first half of the line
        return torch.arange(columns) < (columns + 1) // 2
    return torch.arange(rows * columns) < (rows // 2) * columns


def divided(name: str, whole: Split, shape: tuple[int, int], seed: int) -> Dataset:
    """A seeded fifth of the rows, which are checked and not shared, is set aside to test."""
    count = len(whole)
    if count < 2:
        raise InputError(f"{name} needs at least 2 samples, one of them to test; it has {count}")
    order = torch.randperm(count, generator=stream(seed, "split"))
    cut = min(round(count * (1 - TEST_SHARE)), count - 1)
    return Dataset(name, whole.take(order[:cut]), whole.take(order[cut:]), shape, order=order)
