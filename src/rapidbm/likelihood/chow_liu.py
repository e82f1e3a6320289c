"""Trees of columns (Chow and Liu 1968), and machines that are such a tree.

Of all trees of pairs of columns the one with the largest sum of mutual informations has the largest
likelihood. With counts n of N rows, smoothed by s observations of each pair of states,

    p_ij(a, b) = (n_ij(a, b) + s) / (N + 4s),    p_i(a) = Σ_b p_ij(a, b)                      (1)
    I_ij = Σ_ab p_ij(a, b) log [p_ij(a, b) / p_i(a) p_j(b)]                                   (2)
    log p(v) = Σ_i log p_i(v_i) + Σ_{ij in T} log [p_ij(v_i, v_j) / p_i(v_i) p_j(v_j)]         (3)

A pair stays out of T where a parameter for it would not pay, 2 N I_ij < log N (Schwarz 1978).

A hidden unit whose couplings to v_i and v_j are w and σw, σ = ±1, and all others zero, couples them by

    J = σ/2 log cosh 2w,                                                                  (4)

any value that eq. (3) asks for. So a restricted machine with dense couplings and a hidden unit for each
pair of T is the tree: log Z is known, and samples are drawn from one column to the next, without a Markov
chain. There a training can start, with chains that are samples of its machine (docs/decisions/tree.md).

Gibbs sweeps hardly move columns that nearly always agree. A loose tree takes from each pair a share c,

    p_ij → (1 − c) p_ij + c p_i p_j,                                                      (5)

which keeps the marginals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..arrays import Array
from ..errors import InputError
from ..machines.machine import Machine
from ..sampling.gibbs import run_sweeps

SMOOTHING = 0.3  # s
LOOSE = 0.3  # c of a tree that a training starts from
ROWS = 10_000  # that are counted, or whose log p is taken, at a time
EDGE = (0, 1)  # of a restricted machine


@dataclass(frozen=True, eq=False)
class ChowLiuTree:
    """Columns of two values in a tree, or several trees, of pairs (Chow and Liu 1968).

    Parameters
    ----------
    marginals : array of shape (v, 2)
        p_i(a) of each column; a = 0 is −1, 1 is +1.
    pairs : array of shape (edges, 2)
        Columns that depend on each other, in an order in which the first one of a pair comes in an
        earlier pair or has none.
    joint : array of shape (edges, 2, 2)
        p_ij(a, b) of each pair.

    Examples
    --------
    >>> rows = rb.load("bars4").train
    >>> tree = rb.ChowLiuTree.fitted(rows.spins).loosened()
    >>> machine = rb.rbm(16, 20, biases=True, seed=0)
    >>> log_z = tree.put(machine)
    >>> phase = rb.Persistent(100, start=tree)  # chains that begin as samples of the tree
    """

    marginals: Array
    pairs: Array
    joint: Array

    @staticmethod
    def fitted(
        rows: Any, smoothing: float = SMOOTHING, *, weights: Any = None, pairs: bool = True
    ) -> ChowLiuTree:
        """The best tree of some rows.

        Parameters
        ----------
        rows : Tensor of shape (samples, v)
            What is above 0 is +1.
        smoothing : float, default 0.3
            Observations of each pair of states that are added.
        weights : Tensor of shape (samples,), optional
            How often each row counts.
        pairs : bool, default True
            False for independent columns.

        Returns
        -------
        ChowLiuTree
            With the pairs that pay for a parameter each.
        """
        both, ones, count = _counts(rows, weights)
        return ChowLiuTree.of_counts(both, ones, count, smoothing, pairs=pairs)

    @staticmethod
    def of_counts(
        both: Array, ones: Array, count: float, smoothing: float, *, pairs: bool = True
    ) -> ChowLiuTree:
        """The best tree by counts.

        Parameters
        ----------
        both : array of shape (v, v)
            In how many rows two columns are +1.
        ones : array of shape (v,)
            In how many one is.
        count : float
            The number of rows.
        smoothing : float
            Observations of each pair of states that are added.
        pairs : bool, default True
            False for independent columns.

        Returns
        -------
        ChowLiuTree
            As `fitted` answers.
        """
        whole = count + 4.0 * smoothing
        marginals = np.stack([count - ones, ones], -1) / whole + 2.0 * smoothing / whole  # (v, 2)
        from scipy.sparse.csgraph import minimum_spanning_tree  # takes long to import

        none = np.empty((0, 2), int), np.empty((0, 2, 2))
        if not pairs or len(ones) < 2:
            return ChowLiuTree(marginals, *none)
        information = np.zeros_like(both)
        for a in (0, 1):
            for b in (0, 1):
                joint = (_cell(both, ones, count, a, b) + smoothing) / whole  # (v, v), eq. (1)
                information += joint * np.log(joint / (marginals[:, a, None] * marginals[None, :, b]))
        pays = 2.0 * count * information > math.log(max(2.0, count))
        # The shortest tree of positive lengths: one of length 0 would be no edge to scipy.
        lengths = np.where(pays, information.max() + 1.0 - information, 0.0)
        graph = minimum_spanning_tree(np.triu(lengths, 1))
        found = _ordered(graph)
        if not len(found):
            return ChowLiuTree(marginals, *none)
        i, j = found.T
        cells = [
            [(_cell(both, ones, count, a, b)[i, j] + smoothing) / whole for b in (0, 1)] for a in (0, 1)
        ]
        return ChowLiuTree(marginals, found, np.moveaxis(np.array(cells), -1, 0))

    def loosened(self, share: float = LOOSE) -> ChowLiuTree:
        """The same tree with weaker dependences and the same marginals.

        Parameters
        ----------
        share : float, default 0.3
            Share of independent columns in each pair.

        Returns
        -------
        ChowLiuTree
            Where Gibbs sweeps move.
        """
        apart = self.marginals[self.pairs[:, 0], :, None] * self.marginals[self.pairs[:, 1], None, :]
        return ChowLiuTree(self.marginals, self.pairs, (1.0 - share) * self.joint + share * apart)

    @property
    def ratios(self) -> Array:
        """log p_ij / p_i p_j of each pair, (edges, 2, 2)."""
        p = self.marginals
        apart: Array = np.log(p[self.pairs[:, 0], :, None] * p[self.pairs[:, 1], None, :])
        return np.log(self.joint) - apart

    def log_p(self, rows: Any) -> Array:
        """log p of rows.

        Parameters
        ----------
        rows : Tensor of shape (samples, v)
            What is above 0 is +1.

        Returns
        -------
        array of shape (samples,)
            In nats, exact.
        """
        columns, edges, ratios = np.arange(len(self.marginals)), np.arange(len(self.pairs)), self.ratios
        logs, found = np.log(self.marginals), []
        for some in torch.split(torch.as_tensor(rows), ROWS):
            ups = (some > 0).long().cpu().numpy()
            a, b = ups[:, self.pairs[:, 0]], ups[:, self.pairs[:, 1]]
            found.append(logs[columns, ups].sum(1) + ratios[edges, a, b].sum(1))
        return np.concatenate(found)

    def draw(self, shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
        """Samples without a Markov chain.

        Parameters
        ----------
        shape : tuple of int
            How many.
        rng : torch.Generator
            Source of random numbers.

        Returns
        -------
        Tensor of shape (*shape, v)
            ±1.
        """
        spins = torch.rand((*shape, len(self.marginals)), generator=rng, device=rng.device)
        first, second = self.pairs.T if len(self.pairs) else (np.empty(0, int),) * 2
        roots = np.setdiff1d(np.arange(len(self.marginals)), second)
        up = torch.as_tensor(self.marginals[:, 1], dtype=spins.dtype, device=rng.device)
        ups = torch.zeros(spins.shape, dtype=torch.bool, device=rng.device)
        ups[..., roots] = spins[..., roots] < up[roots]
        given = self.joint[..., 1] / self.joint.sum(2)  # (edges, 2): second one up, given the first
        least, most = torch.as_tensor(given.T, dtype=spins.dtype, device=rng.device)
        for level in _levels(first, second):
            i, j = first[level], second[level]
            ups[..., j] = spins[..., j] < torch.where(ups[..., i], most[level], least[level])
        return 2.0 * ups.to(spins.dtype) - 1.0

    # -- as a machine -----------------------------------------------------------------------------

    def check(self, machine: Machine) -> None:
        """Refuses a machine that cannot be this tree.

        Parameters
        ----------
        machine : Machine
            A restricted machine with dense couplings and biases.

        Raises
        ------
        InputError
            If it is another, or has fewer hidden units than the tree has pairs.
        """
        layers = machine.layers
        restricted = layers.edges == (EDGE,) and machine.patterns is None and layers.spins
        if not restricted or machine.biases is None:
            raise InputError(
                "a tree of columns is the start of a restricted machine of units with two values, dense "
                "couplings and biases; give --dense and --biases, or leave --start tree out"
            )
        if layers.sizes[1] < len(self.pairs):
            raise InputError(
                f"a tree of these columns has {len(self.pairs)} pairs and needs a hidden unit for each, "
                f"not {layers.sizes[1]}; give --hidden {len(self.pairs)}, or leave --start tree out"
            )

    @torch.no_grad()
    def put(self, machine: Machine, *, alone: bool = False) -> float:
        """Makes a machine this tree.

        Parameters
        ----------
        machine : Machine
            A restricted machine with dense couplings and biases; its parameters are changed.
        alone : bool, default False
            Uncouple the hidden units that the tree does not need, which else stay as they are.

        Returns
        -------
        float
            log Z of the machine when these are uncoupled.

        Raises
        ------
        InputError
            If the machine cannot be this tree.
        """
        self.check(machine)
        assert machine.biases is not None
        i, j = self.pairs.T if len(self.pairs) else (np.empty(0, int),) * 2
        r, logs = self.ratios, np.log(self.marginals)
        fields = 0.5 * (logs[:, 1] - logs[:, 0])
        np.add.at(fields, i, 0.25 * (r[:, 1, 1] + r[:, 1, 0] - r[:, 0, 1] - r[:, 0, 0]))
        np.add.at(fields, j, 0.25 * (r[:, 1, 1] + r[:, 0, 1] - r[:, 1, 0] - r[:, 0, 0]))
        couplings = 0.25 * (r[:, 1, 1] + r[:, 0, 0] - r[:, 1, 0] - r[:, 0, 1])  # J
        # cosh 2w = exp 2|J|
        w = 0.5 * (2.0 * np.abs(couplings) + np.log1p(np.sqrt(-np.expm1(-4.0 * np.abs(couplings)))))
        free = machine.layers.sizes[1] - len(i)
        matrix = np.zeros((machine.visible, len(i)))
        matrix[i, np.arange(len(i))], matrix[j, np.arange(len(i))] = w, np.copysign(w, couplings)
        ((_, weights),) = machine.couplings.named_parameters()
        weights.data[:, :, : len(i)] = torch.as_tensor(matrix).to(weights)
        if alone:
            weights.data[:, :, len(i) :] = 0.0
        machine.biases.data.zero_()
        machine.biases.data[:, : machine.visible] = torch.as_tensor(fields).to(machine.biases)
        constant = 0.5 * logs.sum() + 0.25 * r.sum()
        pairs = 0.5 * (np.logaddexp(2.0 * w, -2.0 * w) + math.log(2.0)).sum()
        return float(pairs + free * math.log(2.0) - constant)

    def states(self, machine: Machine, chains: int, rng: torch.Generator) -> Tensor:
        """Samples of the tree with hidden units of a machine.

        Parameters
        ----------
        machine : Machine
            The machine.
        chains : int
            How many.
        rng : torch.Generator
            Source of random numbers.

        Returns
        -------
        Tensor of shape (e, chains, n)
            Configurations.
        """
        spins, v = machine.random(chains, rng), machine.visible
        spins[..., :v] = self.draw((machine.replicas, chains), rng).to(spins.dtype)
        held = torch.arange(machine.layers.columns, device=machine.device) < v
        return run_sweeps(machine, spins, rng, clamp=held)


def _counts(rows: Any, weights: Any) -> tuple[Array, Array, float]:
    """How often two columns are +1 together and one is, and the number of rows, all by their weights."""
    rows = torch.as_tensor(rows)
    both = np.zeros((rows.shape[1],) * 2)
    ones, count = np.zeros(rows.shape[1]), 0.0
    each = torch.ones(len(rows)) if weights is None else torch.as_tensor(weights)
    for some, w in zip(torch.split(rows, ROWS), torch.split(each, ROWS), strict=True):
        ups = (some > 0).cpu().to(torch.float32)  # whole numbers below 2^24 are exact
        weighted = ups if weights is None else ups * w[:, None].to(ups)
        both += (weighted.T @ ups).double().numpy()
        ones += weighted.sum(0, dtype=torch.float64).numpy()
        count += float(w.sum(dtype=torch.float64))
    return both, ones, count


def _cell(both: Array, ones: Array, rows: float, a: int, b: int) -> Array:
    """(v, v) n_ij(a, b)."""
    if a and b:
        return both
    if a:
        return ones[:, None] - both
    if b:
        return ones[None, :] - both
    return rows - ones[:, None] - ones[None, :] + both


def _ordered(graph: Any) -> Array:
    """The edges of a forest, parents before children, (edges, 2)."""
    from scipy.sparse.csgraph import breadth_first_order

    found, seen = [], np.zeros(graph.shape[0], bool)
    degrees = np.diff(graph.tocsr().indptr) + np.bincount(graph.indices, minlength=graph.shape[0])
    for root in np.argsort(-degrees, kind="stable"):  # from the middle: few steps to the leaves
        if seen[root]:
            continue
        order, parents = breadth_first_order(graph, root, directed=False)
        seen[order] = True
        found += [(int(parents[j]), int(j)) for j in order[1:]]
    return np.array(found, int).reshape(-1, 2)


def _levels(first: Array, second: Array) -> list[Array]:
    """Numbers of the edges that can be drawn at the same time, one after the other."""
    depth: dict[int, int] = {}
    for i, j in zip(first.tolist(), second.tolist(), strict=True):
        depth[j] = depth.get(i, 0) + 1
    each = np.array([depth[j] for j in second.tolist()], int)
    return [np.flatnonzero(each == d) for d in range(1, each.max(initial=0) + 1)]
