"""Data sets of aligned sequences: each site is a categorical unit, its states the symbols.

Parts are made of whole clusters of sequences that are near each other (`identity`), so that no sequence
to test has a near twin in training.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..arrays import Array, as_weights
from ..disk import write_bytes
from ..errors import DataWarning, InputError
from ..machines.layers import Layers
from ..machines.units.categorical import Categorical
from ..random import stream
from ..registry import Setting
from .alignments import FASTA, STOCKHOLM, Alignment, read_alignment
from .identity import sequence_weights, split_by_identity
from .splits import TEST_SHARE, Dataset, Split, check_share
from .weights import NONE, is_weights_file, read_weights

ENDINGS = (*FASTA, *STOCKHOLM)
IDENTITY = 0.8
MANY = 300_000  # sequences that are not compared in minutes
OF_ALPHABET = Setting("alphabet of an alignment: protein, rna, dna, or its symbols, the gap first")
OF_IDENTITY = Setting(
    "share of sites above which two sequences are near: these share a weight, and no test sequence is "
    "near one in training"
)


def is_alignment(path: str | Path) -> bool:
    """Whether a file is one of sequences, by its ending."""
    path = Path(path)
    ending = path.suffix.lower()
    return (Path(path.stem).suffix.lower() if ending == ".gz" else ending) in ENDINGS


def of_file(
    path: Path,
    *,
    seed: int = 0,
    valid: float | None = None,
    alphabet: str | None = None,
    identity: float | None = None,
    weights: str | None = None,
) -> Dataset:
    """The data set of a file of aligned sequences, duplicates dropped; a warning counts what was left
    out. Sequences count by identity, by the `weights` of a file, or all the same ("none")."""
    found = read_alignment(path, alphabet=alphabet)
    if any(found.dropped.values()):
        first, *lines = found.lines()
        warnings.warn(f"{path}: {first}; {'; '.join(lines)}", DataWarning, stacklevel=4)
    near = IDENTITY if identity is None else identity
    if len(found.codes) > MANY and near < 1:
        warnings.warn(
            f"{path}: {len(found.codes):,} sequences are compared in pairs to divide them, which may "
            "take hours; an identity of 1 (--identity 1) divides them at random",
            DataWarning,
            stacklevel=4,
        )
    train, test = _divided(path, found.codes, stream(seed, "split"), TEST_SHARE, near)
    held = None
    if valid is not None:
        check_share(valid)
    if valid:
        rest = found.codes[train]
        kept, chosen = _divided(path, rest, stream(seed, "valid"), valid, near)
        train, held = train[kept], train[chosen]
    each, told = _weights(found, near, weights)
    return of_rows(found, _name(path), train, test, held, each, told)


def _weights(found: Alignment, near: float, told: str | None) -> tuple[Tensor | None, str]:
    """How much each sequence counts, and words about it."""
    count = len(found.codes)
    if told == NONE:
        return None, ""
    if told is None:
        each = torch.from_numpy(sequence_weights(found.codes, identity=near))
        how = f"weights of sequences at {near:.0%} identity"
    elif is_weights_file(told):
        numbers = read_weights(told)
        if found.rows is not None and len(numbers) == found.of:  # of all that the file holds
            numbers = numbers[found.rows]
        each, how = as_weights(numbers, count), f"weights of {Path(told).name}"
    else:
        raise InputError(
            f"weights of sequences are a file with a number for each, or none, and {told!r} is neither; "
            "check the path, or leave it out for weights by identity"
        )
    return each, f"{how}, M_eff {float(each.sum()):,.1f} of {count:,} sequences"


def as_rows(path: Path, alphabet: str) -> Dataset:
    """All sequences of a file, to measure on: every alphabet and every family is taken."""
    found = read_alignment(path, alphabet=alphabet, duplicates="keep")
    rows = np.arange(len(found.codes))
    return of_rows(found, _name(path), rows[:-1], rows[-1:])


def of_rows(
    found: Alignment,
    name: str,
    train: Array,
    test: Array,
    valid: Array | None = None,
    weights: Tensor | None = None,
    told: str = "",
) -> Dataset:
    """The data set of an alignment with these rows in its parts, which may have weights, with words
    about them."""
    unit = Categorical(len(found.alphabet))
    sites = found.codes.shape[1]
    layers = Layers((unit.columns(sites),), (), (unit,), 1)
    columns = unit.of_codes(torch.from_numpy(found.codes.astype(np.int64)))
    whole = Split.owning(columns, None, None, weights=weights)
    parts = [
        None if rows is None else whole.take(torch.from_numpy(rows)) for rows in (train, test, valid)
    ]
    order = torch.from_numpy(np.concatenate([train, test])) if valid is None else None
    return Dataset(
        name,
        parts[0],  # type: ignore[arg-type]
        parts[1],  # type: ignore[arg-type]
        (1, layers.visible_columns),
        parts[2],
        tuple(str(site) for site in range(1, sites + 1)),
        order,
        units=layers,
        alphabet=found.alphabet,
        weighted=told,
    )


def _divided(
    path: Path, codes: Array, rng: torch.Generator, share: float, identity: float
) -> tuple[Array, Array]:
    try:
        return split_by_identity(codes, rng, share=share, identity=identity)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _name(path: Path) -> str:
    return Path(path.stem).stem if path.suffix.lower() == ".gz" else path.stem


def check_alphabet(told: object) -> str:
    """The alphabet of a run, of a file that may come from a stranger."""
    if (
        not isinstance(told, str)
        or not 2 <= len(told) <= 64
        or len(set(told)) != len(told)
        or not all("!" <= letter <= "~" and letter != ">" for letter in told)
    ):
        raise InputError(
            f"an alphabet is 2 to 64 different symbols that can be printed, not {told!r:.80}; restore "
            "the description of the run"
        )
    return told


def write_sequences(path: Path, codes: Array, alphabet: str) -> None:
    """Writes codes (sequences, sites) as a new FASTA file, names counted from 1."""
    texts = Alignment(np.asarray(codes), (), alphabet).text()
    width = max(1, math.ceil(math.log10(len(texts) + 1)))
    lines = [f">sample-{i:0{width}d}\n{text}\n" for i, text in enumerate(texts, 1)]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, "".join(lines).encode())
