"""Alignments of sequences as codes: FASTA, A2M and Stockholm, also .gz.

Codes follow the order of an alphabet, 0 is the gap:

    protein  -ACDEFGHIKLMNPQRSTVWY        RNA  -ACGU        DNA  -ACGT

Lower-case letters and dots of A2M are insertions, which no column of the alignment has: they are dropped.
A file is read so if that gives sequences of one length; in others a dot is a gap, and case means nothing.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import Array
from ..disk import reading, write_bytes
from ..errors import InputError, check_choice, require
from .cells import shown
from .text_files import as_utf8, content_of

ALPHABETS = {"protein": "-ACDEFGHIKLMNPQRSTVWY", "rna": "-ACGU", "dna": "-ACGT"}
FASTA = (".fasta", ".fa", ".faa", ".fna", ".fas", ".afa", ".a2m", ".a3m")
STOCKHOLM = (".sto", ".stk", ".stockholm")
REMEDY = "write it as FASTA, a line that begins with > and the aligned sequence below it"
UNKNOWN = 255
MOST_SITES = 20_000
CLEAR = 15  # letters from which on a sequence of A, C, G, T and U alone is of no protein


@dataclass(frozen=True)
class Alignment:
    """Sequences of one length as codes, and what was left out on the way."""

    codes: Array  # (sequences, sites) uint8
    names: tuple[str, ...]
    alphabet: str
    dropped: Mapping[str, int] = field(default_factory=dict)
    rows: Array | None = None  # their numbers in the file, from 0
    of: int = 0  # sequences of the file

    def lines(self) -> list[str]:
        """What was read, and what was left out, a line each."""
        kind = next((name for name, symbols in ALPHABETS.items() if symbols == self.alphabet), "symbols")
        first = (
            f"{len(self.codes):,} sequences of {self.codes.shape[1]:,} sites, {kind} ({self.alphabet})"
        )
        return [first, *(f"{count:,} left out: {why}" for why, count in self.dropped.items() if count)]

    def text(self, codes: Array | None = None) -> list[str]:
        """Codes (sequences, sites) as letters; its own unless others are given."""
        codes = self.codes if codes is None else np.asarray(codes)
        letters = np.frombuffer(self.alphabet.encode(), np.uint8)
        if codes.ndim != 2 or codes.min(initial=0) < 0 or codes.max(initial=0) >= len(letters):
            raise InputError(
                f"codes must be (sequences, sites) from 0 to {len(letters) - 1}; check the machine"
            )
        return [row.tobytes().decode() for row in letters[codes.astype(np.int64)]]


def read_alignment(
    path: str | Path,
    *,
    alphabet: str | None = None,
    unknown: str = "drop",
    duplicates: str = "drop",
    lengths: str = "refuse",
) -> Alignment:
    """An alignment from a file.

    Parameters
    ----------
    path : str or Path
        FASTA or A2M (`.fasta`, `.fa`, `.faa`, `.fna`, `.fas`, `.afa`, `.a2m`, `.a3m`) or Stockholm
        (`.sto`, `.stk`, `.stockholm`), also `.gz`.
    alphabet : str, optional
        "protein", "rna", "dna", or the symbols, the gap first; by default what the letters say.
    unknown : {"drop", "gap", "refuse"}, default "drop"
        Sequences with other symbols: left out, with gaps there, or refused.
    duplicates : {"drop", "keep", "refuse"}, default "drop"
        Sequences that occur again.
    lengths : {"refuse", "drop"}, default "refuse"
        Sequences whose length is not that of most.

    Returns
    -------
    Alignment
        Codes of what is left, at least two sequences.

    Raises
    ------
    InputError
        If the file is no alignment, or what is in it was to be refused.
    """
    require("Bio", "reading an alignment")
    check_choice("way with unknown symbols", unknown, ("drop", "gap", "refuse"))
    check_choice("way with duplicates", duplicates, ("drop", "keep", "refuse"))
    check_choice("way with lengths", lengths, ("refuse", "drop"))
    path = Path(path)
    names, texts = _records(path)
    count, texts = len(names), _without_insertions(texts)
    usual = _of_one_length(path, names, texts, lengths)
    other_lengths, whole = count - len(usual), (names, texts)
    names, texts = ([values[i] for i in usual] for values in whole)
    symbols = _alphabet(path, names, texts, alphabet)
    codes = _codes(texts, symbols)
    dropped = {"another length": other_lengths}
    kept = np.ones(len(codes), bool)
    wrong = codes == UNKNOWN
    if wrong.any() and unknown == "refuse":
        row, site = (int(i[0]) for i in np.nonzero(wrong))
        raise InputError(
            f"{path}, sequence {row + 1} ({shown(names[row])}), site {site + 1}: "
            f"{shown(texts[row][site])} is none of {symbols}; correct it, or have such sequences dropped "
            "(unknown='drop')"
        )
    if unknown == "gap":
        codes[wrong] = 0
    else:
        kept &= ~wrong.any(1)
    dropped["unknown symbols"] = int((~kept).sum())
    gaps = kept & (codes == 0).all(1)
    dropped["nothing but gaps"] = int(gaps.sum())
    kept &= ~gaps
    again = kept.copy()
    rows = np.flatnonzero(kept)
    again[rows[np.unique(codes[rows], axis=0, return_index=True)[1]]] = False
    if again.any() and duplicates == "refuse":
        row = int(again.argmax())
        raise InputError(
            f"{path}, sequence {row + 1} ({shown(names[row])}) occurs before; remove it, or have "
            "duplicates dropped (duplicates='drop')"
        )
    if duplicates == "drop":
        dropped["duplicates"] = int(again.sum())
        kept &= ~again
    left = tuple(np.array(names, object)[kept])
    found = Alignment(codes[kept], left, symbols, dropped, np.array(usual)[kept], count)
    if len(found.codes) < 2:
        others = Counter("".join(texts)) if wrong.any() else Counter[str]()
        often = [shown(letter) for letter, _ in others.most_common() if letter not in symbols][:5]
        which = f", most often {' '.join(often)}" if often else ""
        raise InputError(
            f"{path} must hold two different sequences or more; {'; '.join(found.lines())}{which}: give "
            "a larger alignment, or its alphabet"
        )
    return found


def codes_of(text: str, alphabet: str, sites: int) -> Array:
    """Codes (sites,) of one aligned sequence; lower case and dots are insertions where that fits."""
    text = "".join(text.split())
    aligned = next((x for x in (text, *_without_insertions([text])) if len(x) == sites), text)
    if len(aligned) != sites:
        raise InputError(
            f"the sequence must have the {sites:,} sites of the alignment, gaps with them, not "
            f"{len(aligned):,}; align it to the family"
        )
    codes = _codes([aligned.upper()], alphabet)[0] if aligned.isascii() else np.full(sites, UNKNOWN)
    wrong = np.flatnonzero(codes == UNKNOWN)
    if len(wrong):
        raise InputError(
            f"site {wrong[0] + 1} of the sequence, {shown(aligned[wrong[0]])}, is none of {alphabet}; "
            "correct it"
        )
    return codes


def first_sequence(path: Path) -> tuple[str, str]:
    """The name and the letters of the first sequence of a file, as they are there."""
    require("Bio", "reading an alignment")
    names, texts = _records(path)
    return names[0], texts[0]


def _records(path: Path) -> tuple[list[str], list[str]]:
    """Names and sequences as they are in the file."""
    ending = Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()
    if ending not in (*FASTA, *STOCKHOLM):
        raise InputError(
            f"{path} has the ending {ending!r}; an alignment is {', '.join((*FASTA, *STOCKHOLM))}, also "
            ".gz: convert or rename it"
        )
    if not path.is_file():
        raise InputError(f"there is no file {path}; check the path")
    with reading(path, "an alignment", REMEDY):
        content = content_of(path)
        if b"\0" in content and not content.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise ValueError("it holds the character 0, so it is no text")
        text = io.StringIO(as_utf8(content).decode())
        if not text.read(1).strip():
            if not text.read().strip():
                raise ValueError("it is empty")
        text.seek(0)
        if ending in FASTA:
            from Bio.SeqIO.FastaIO import SimpleFastaParser

            records = [(name, "".join(sequence.split())) for name, sequence in SimpleFastaParser(text)]
        else:
            from Bio import AlignIO

            records = [(one.id, str(one.seq)) for one in AlignIO.read(text, "stockholm")]
        if not records:
            raise ValueError("it holds no sequence")
    names, texts = zip(*records, strict=True)
    for row, sequence in enumerate(texts, 1):
        if not sequence.isascii():
            raise InputError(
                f"{path}, sequence {row} ({shown(names[row - 1])}) must be letters of ASCII; correct it"
            )
    return list(names), list(texts)


def _without_insertions(texts: list[str]) -> list[str]:
    """Sequences of the columns of an alignment; insertions as A2M has them are gone."""
    table = {ord(letter): None for letter in "abcdefghijklmnopqrstuvwxyz."}
    columns = [sequence.translate(table) for sequence in texts]
    changed = any(len(a) != len(b) for a, b in zip(columns, texts, strict=True))
    aligned = len(set(map(len, columns))) == 1 and any(map(str.isupper, columns))
    if changed and aligned:
        return columns
    return [sequence.upper().replace(".", "-") for sequence in texts]


def _of_one_length(path: Path, names: list[str], texts: list[str], lengths: str) -> list[int]:
    """The numbers of those whose length most have."""
    ((usual, count),) = Counter(map(len, texts)).most_common(1)
    if not 0 < usual <= MOST_SITES:
        raise InputError(
            f"{path}: sequences must have 1 to {MOST_SITES:,} sites, not {usual:,}; {REMEDY}"
        )
    if count == len(texts):
        return list(range(len(texts)))
    row = next(i for i, sequence in enumerate(texts) if len(sequence) != usual)
    if lengths == "refuse":
        raise InputError(
            f"{path} must be aligned: sequence {row + 1} ({shown(names[row])}) has {len(texts[row]):,} "
            f"sites, {count:,} of {len(texts):,} have {usual:,}; align them, or remove those of "
            "another length (in Python, lengths='drop')"
        )
    return [i for i, sequence in enumerate(texts) if len(sequence) == usual]


def _alphabet(path: Path, names: Sequence[str], texts: Sequence[str], asked: str | None) -> str:
    """The symbols, gap first: those that were asked for, or those that the letters say."""
    if asked is not None:
        symbols = ALPHABETS.get(asked.lower(), asked)
        if not (2 <= len(symbols) <= 64 and len(set(symbols)) == len(symbols) and symbols.isascii()):
            raise InputError(
                f"an alphabet is one of {', '.join(ALPHABETS)}, or 2 to 64 different symbols, the gap "
                f"first, not {shown(asked)}; list each symbol once"
            )
        return symbols
    letters = Counter[str]()
    for sequence in texts:
        letters.update(sequence)
    del letters["-"]
    bases = sum(letters[letter] for letter in "ACGTUN")
    if bases >= 0.9 * letters.total() > 0:
        if letters["T"] and letters["U"]:
            raise InputError(
                f"{path} must have one alphabet, and has T (of DNA) {letters['T']:,} times and U (of "
                f"RNA) {letters['U']:,} times; replace one, or name the alphabet"
            )
        return ALPHABETS["rna" if letters["U"] else "dna"]
    for row, sequence in enumerate(texts):
        own = set(sequence) - {"-"}
        if own <= set("ACGTU") and len(own) >= 3 and len(sequence) - sequence.count("-") >= CLEAR:
            raise InputError(
                f"{path} must have one alphabet: most sequences are of a protein, and sequence {row + 1} "
                f"({shown(names[row])}) is of nucleotides; remove it, or name the alphabet"
            )
    return ALPHABETS["protein"]


def _codes(texts: Sequence[str], symbols: str) -> Array:
    """(sequences, sites) uint8, `UNKNOWN` for other symbols."""
    table = np.full(256, UNKNOWN, np.uint8)
    table[np.frombuffer(symbols.encode(), np.uint8)] = np.arange(len(symbols), dtype=np.uint8)
    return table[np.frombuffer("".join(texts).encode(), np.uint8)].reshape(len(texts), -1)


def write_fasta(path: str | Path, texts: Sequence[str], names: Sequence[Any] | None = None) -> None:
    """Writes aligned sequences as FASTA, a line each; without names they are counted from 1."""
    names = range(1, len(texts) + 1) if names is None else names
    pieces = [f">{name}\n{text}\n" for name, text in zip(names, texts, strict=True)]
    write_bytes(Path(path), "".join(pieces).encode())
