"""Which sequences of an alignment are near each other: weights, and parts without near twins.

    w_i = 1 / #{ j : sites at which i and j agree > identity · L },   M_eff = Σ_i w_i                  (1)

i itself is counted; gaps agree with gaps. Codes are cut into bits: bit p of 64 sites is one word, and the
sites at which two sequences differ are the ones of  ∨_p (a_p ⊕ b_p).  The most variable sites come first,
so that some bits of one word tell that most pairs are far.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch

from ..arrays import Array
from ..errors import InputError, is_number
from ..progress import watch
from ..random import check_rng
from .splits import check_share

ROWS, COLUMNS = 32, 4096  # pairs of a block: its words stay in the cache
FOLLOWED = 100  # a pair that is followed costs as much as so many operations on words
PAIRS = 2**23  # that wait to be joined into clusters
COMPARING = "comparing pairs of sequences"
REMEDY = "take an identity of 1, at which no two sequences are near"
SPARSE = 8  # fewer near pairs than one in so many are followed one by one


def sequence_weights(codes: Array, *, identity: float = 0.8) -> Array:
    """Weights (1) of sequences: one over the number of those that are near.

    Parameters
    ----------
    codes : array of shape (sequences, sites)
        Codes below 256.
    identity : float, default 0.8
        Share of sites; sequences that agree at more of them are near.

    Returns
    -------
    array of shape (sequences,), float64
        Between 0 and 1; their sum is M_eff.

    Raises
    ------
    InputError
        If `identity` is not between 0 and 1.
    """
    words = Words.of(codes, identity)
    count = len(codes)

    def near_of(first: int) -> Array:
        """How many sequences are near, of pairs whose first one is in a block of rows."""
        own = slice(first, min(first + ROWS, count))
        found = np.zeros(count, np.int64)
        for start in range(first, count, COLUMNS):
            other = slice(start, min(start + COLUMNS, count))
            near = words.near(own, other)
            found[own] += near.sum(1)
            # Pairs of two sequences of this block of rows have been counted from both sides.
            later = max(own.stop, other.start)
            found[later : other.stop] += near[:, later - other.start :].sum(0)
        return found

    if words.most < 0:  # no two are near
        return np.ones(count)
    total = np.zeros(count, np.int64)
    with watch(COMPARING, _after(count, count), remedy=REMEDY) as tick:
        for number, found in enumerate(_in_threads(near_of, count), 1):
            total += found
            tick(_after(number, count))
    return np.asarray(1.0 / np.maximum(total, 1))


def clusters(codes: Array, *, identity: float = 0.8) -> Array:
    """The cluster of each sequence: sequences that are near, and all that are near to these, share one.

    Parameters
    ----------
    codes : array of shape (sequences, sites)
        Codes below 256.
    identity : float, default 0.8
        Share of sites; sequences that agree at more of them are near.

    Returns
    -------
    array of shape (sequences,), int64
        0, 1, … in the order of their first sequences.
    """
    words = Words.of(codes, identity)
    count = len(codes)

    def pairs_of(first: int) -> Array:
        """Near pairs (2, pairs) whose first sequence is in a block of rows."""
        own = slice(first, min(first + ROWS, count))
        found = []
        for start in range(first, count, COLUMNS):
            rows, columns = np.nonzero(words.near(own, slice(start, min(start + COLUMNS, count))))
            found.append(np.stack([rows + first, columns + start]))
        return np.concatenate(found, axis=1)

    label, waiting, size = np.arange(count), [np.empty((2, 0), np.int64)], 0
    if words.most < 0:  # no two are near
        return label
    with watch(COMPARING, _after(count, count), remedy=REMEDY) as tick:
        for number, pairs in enumerate(_in_threads(pairs_of, count), 1):
            waiting.append(pairs)
            size += pairs.shape[1]
            if size > PAIRS:
                label, waiting, size = _joined(label, waiting), [], 0
            tick(_after(number, count))
    return _joined(label, waiting) if size else label


def _joined(label: Array, pairs: list[Array]) -> Array:
    """Clusters after pairs of sequences have been joined, in the order of their first sequences."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    one, other = label[np.concatenate(pairs, axis=1)]
    number = int(label.max()) + 1
    graph = coo_array((np.ones(len(one), np.int8), (one, other)), shape=(number, number))
    joined = connected_components(graph, directed=False)[1][label]
    _, first, place = np.unique(joined, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[place])


def split_by_identity(
    codes: Array, rng: torch.Generator, *, share: float = 0.2, identity: float = 0.8
) -> tuple[Array, Array]:
    """Training and test sequences, no two of which are near.

    Whole clusters are drawn into the test part while they fit into its share. Where most sequences are in
    one cluster, the part may be smaller than asked; at less than half of it the split is refused.

    Parameters
    ----------
    codes : array of shape (sequences, sites)
        Codes below 256.
    rng : torch.Generator
        Draws the order of clusters.
    share : float, default 0.2
        Share of the test part.
    identity : float, default 0.8
        Share of sites; sequences that agree at more of them are near.

    Returns
    -------
    train, test : arrays of int64
        Rows, in their order.

    Raises
    ------
    InputError
        If clusters are too large for such a part.
    """
    check_share(share)
    check_rng(rng)
    label = clusters(codes, identity=identity)
    sizes = np.bincount(label)
    left = wanted = round(share * len(codes))
    in_test = np.zeros(len(sizes), bool)
    for number in torch.randperm(len(sizes), generator=rng, device=rng.device).tolist():
        if sizes[number] <= left:
            in_test[number] = True
            left -= int(sizes[number])
    if wanted - left < max(1, wanted / 2):
        raise InputError(
            f"a test part of {share:g} must be made of whole clusters, and {sizes.max():,} of "
            f"{len(codes):,} sequences are in one at an identity of {identity:g}; give a higher identity "
            "or a larger share"
        )
    test = in_test[label]
    return np.flatnonzero(~test), np.flatnonzero(test)


@dataclass(frozen=True)
class Words:
    """Sequences as words of 64 sites, (bits, sequences, words); near ones differ at `most` sites.

    `first` are some bits of the first word, (some bits, sequences). Sites that differ in them are no more
    than those that differ, so a pair that is far by them is far.
    """

    bits: Array
    first: Array
    most: int

    @classmethod
    def of(cls, codes: Array, identity: float) -> Words:
        if not (is_number(identity) and 0 < identity <= 1):
            raise InputError(f"the identity of sequences must be above 0 and at most 1, not {identity!r}")
        codes = np.asarray(codes)
        if codes.ndim != 2 or 0 in codes.shape or codes.dtype.kind not in "iu":
            raise InputError(
                f"sequences are whole numbers (sequences, sites), not {codes.dtype} of shape "
                f"{codes.shape}"
            )
        if codes.min() < 0 or codes.max() > 255:
            raise InputError("codes of symbols must be from 0 to 255; read the alignment again")
        count, sites = codes.shape
        words = -(-sites // 64)
        codes = codes.astype(np.uint8)[:, _variable_first(codes)]
        bits = np.zeros((max(1, int(codes.max()).bit_length()), count, words), np.uint64)
        for plane in range(len(bits)):
            padded = np.zeros((count, 64 * words), np.uint8)
            padded[:, :sites] = codes >> plane & 1
            bits[plane] = np.packbits(padded, axis=1, bitorder="little").view(np.uint64)
        # Near is m / L > identity; 1e-9 takes 0.8 · 50 for 40.
        most = sites - math.floor(identity * sites + 1e-9) - 1
        return cls(bits, _first_bits(bits, most), most)

    def near(self, own: slice | Array, other: slice | Array) -> Array:
        """Which pairs of sequences are near, (own, other) booleans."""
        near = _far_apart(self.first[:, own], self.first[:, other]) <= self.most
        found = np.count_nonzero(near)
        if not found:
            return np.asarray(near)
        a, b = self.bits[:, own], self.bits[:, other]
        if SPARSE * found < near.size:
            rows, columns = np.nonzero(near)
            different = a[0, rows] ^ b[0, columns]  # (pairs, words)
            for plane in range(1, len(a)):
                different |= a[plane, rows] ^ b[plane, columns]
            near[rows, columns] = ones(different).sum(1, dtype=np.uint16) <= self.most
            return np.asarray(near)
        count = np.zeros(near.shape, np.uint16)
        for word in range(a.shape[2]):
            count += _far_apart(a[:, :, word], b[:, :, word])
        return count <= self.most


def _far_apart(a: Array, b: Array) -> Array:
    """At how many of 64 sites pairs differ, (bits, own) and (bits, other) → (own, other)."""
    different = a[0][:, None] ^ b[0]
    one = np.empty_like(different)
    for plane in range(1, len(a)):
        np.bitwise_xor(a[plane][:, None], b[plane], out=one)
        np.bitwise_or(different, one, out=different)
    return ones(different)


def _first_bits(bits: Array, most: int) -> Array:
    """The bits of the first word that tell far pairs in the least time, as some pairs say."""
    word = bits[:, :, 0]
    some = word[:, :: max(1, word.shape[1] // 500)]
    best, least, chosen = list(range(len(word))), math.inf, list[int]()
    for _ in range(len(word)):  # one more at a time, the one by which most pairs are far
        left = [plane for plane in range(len(word)) if plane not in chosen]
        shares = [float((_far_apart(x, x) <= most).mean()) for x in (some[[*chosen, p]] for p in left)]
        chosen = [*chosen, left[int(np.argmin(shares))]]
        cost = 2 * len(chosen) + FOLLOWED * min(shares)
        if cost < least:
            best, least = chosen, cost
    return np.ascontiguousarray(word[best])


def ones(words: Array) -> Array:
    """The number of ones in each word."""
    if hasattr(np, "bitwise_count"):
        return np.asarray(np.bitwise_count(words))
    pairs = words - (words >> np.uint64(1) & np.uint64(0x5555555555555555))
    four = np.uint64(0x3333333333333333)
    fours = (pairs & four) + (pairs >> np.uint64(2) & four)
    bytes_ = fours + (fours >> np.uint64(4)) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.asarray(bytes_ * np.uint64(0x0101010101010101) >> np.uint64(56)).astype(np.uint8)


def _variable_first(codes: Array) -> Array:
    """Sites by how often two of some sequences differ there, most first."""
    some = codes[:: max(1, len(codes) // 1000)]
    agree = [((np.bincount(site) / len(some)) ** 2).sum() for site in some.T]
    return np.argsort(agree, kind="stable")


def _in_threads(function: Callable[[int], Array], count: int) -> Iterator[Array]:
    """The function of the first row of each block, in as many threads as there are cores; numpy frees the
    interpreter."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    starts = range(0, count, ROWS)
    with ThreadPoolExecutor(cores) as pool:
        for at in range(0, len(starts), 8 * cores):  # what is done is not kept
            yield from pool.map(function, starts[at : at + 8 * cores])


def _after(blocks: int, count: int) -> int:
    """Pairs of sequences that so many blocks have compared, each with all later sequences."""
    rows = min(blocks * ROWS, count)
    return rows * count - rows * (rows - 1) // 2
