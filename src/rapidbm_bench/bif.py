"""Bayesian networks of categories, from files in the BIF format: draws of rows, and their exact log p.

p(x) = Π_i p(x_i | x_parents(i))                                                              (1)
"""

from __future__ import annotations

import gzip
import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rapidbm.arrays import Array
from rapidbm.errors import InputError

LARGEST = 10**7  # bytes of a file
VARIABLE = re.compile(r"variable\s+(\S+)\s*\{[^{}]*?\[\s*(\d+)\s*\]\s*\{([^{}]*)\}[^{}]*\}", re.DOTALL)
GIVEN = re.compile(r"probability\s*\(\s*([^|()]+?)\s*(?:\|([^()]*))?\)\s*\{([^{}]*)\}", re.DOTALL)
ENTRY = re.compile(r"(?:\(([^()]*)\)|table)([^;]*);", re.DOTALL)


@dataclass(frozen=True)
class Node:
    """A variable: its words, the places of its parents, and p(word | words of the parents)."""

    name: str
    words: tuple[str, ...]
    parents: tuple[int, ...]
    table: Array  # (states of parent, …, own states)


@dataclass(frozen=True)
class Network:
    """Eq. (1); parents may stand behind their children."""

    nodes: tuple[Node, ...]

    def order(self) -> list[int]:
        """Places of the nodes, parents first."""
        found: list[int] = []
        while len(found) < len(self.nodes):
            ready = [
                i
                for i, node in enumerate(self.nodes)
                if i not in found and all(parent in found for parent in node.parents)
            ]
            if not ready:
                raise InputError(
                    "the network has a cycle, and a Bayesian network has none; mend the file"
                )
            found += ready
        return found

    def draw(self, rows: int, rng: np.random.Generator) -> Array:
        """Codes of so many independent rows, (rows, variables)."""
        codes = np.zeros((rows, len(self.nodes)), np.int64)
        for i in self.order():
            node = self.nodes[i]
            upto = node.table[tuple(codes[:, p] for p in node.parents)].cumsum(-1)
            codes[:, i] = (rng.random((rows, 1)) * upto[..., -1:] >= upto).sum(-1)
        return codes

    def log_p(self, codes: Array) -> Array:
        """log p of each row, (rows,)."""
        total = np.zeros(len(codes))
        for i, node in enumerate(self.nodes):
            places = (*(codes[:, p] for p in node.parents), codes[:, i])
            with np.errstate(divide="ignore"):
                total += np.log(node.table[places])
        return total

    def words(self, codes: Array) -> dict[str, Array]:
        """Rows as columns of words."""
        return {node.name: np.array(node.words, object)[codes[:, i]] for i, node in enumerate(self.nodes)}


def read(path: Path) -> Network:
    """The network of a file, which may be compressed by gzip."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        text = file.read(LARGEST + 1)
    if len(text) > LARGEST:
        raise InputError(
            f"{path} has more than {LARGEST:,} characters; a network of that size is not read"
        )
    return parsed(text, str(path))


def parsed(text: str, what: str) -> Network:
    """The network of a text; `what` names it in errors."""
    words: dict[str, tuple[str, ...]] = {}
    for name, count, told in VARIABLE.findall(text):
        words[name] = tuple(word.strip() for word in told.split(","))
        if len(words[name]) != int(count):
            raise InputError(
                f"{what}: variable {name} says {count} words and lists {len(words[name])}; mend it"
            )
    if not words:
        raise InputError(f"{what} has no variable; give a file in the BIF format")
    places = {name: i for i, name in enumerate(words)}
    nodes: dict[str, Node] = {}
    for name, told, body in GIVEN.findall(text):
        parents = [part.strip() for part in told.split(",") if part.strip()]
        for other in (name, *parents):
            if other not in words:
                raise InputError(f"{what}: a probability names {other}, which is no variable; mend it")
        table = np.full([len(words[p]) for p in (*parents, name)], math.nan)
        for given, numbers in ENTRY.findall(body):
            try:
                at = tuple(
                    words[p].index(word.strip())
                    for p, word in zip(parents, given.split(",") if given else (), strict=True)
                )
                table[at] = np.array([float(x) for x in numbers.split(",")]).reshape(table[at].shape)
            except ValueError:
                raise InputError(
                    f"{what}: the probabilities of {name} do not fit its words or those of its parents: "
                    f"({given}) {numbers.strip()[:60]}; mend it"
                ) from None
        if not (np.abs(table.sum(-1) - 1) < 1e-3).all():
            raise InputError(
                f"{what}: the probabilities of {name} are incomplete or do not sum to one; mend it"
            )
        table /= table.sum(-1, keepdims=True)
        nodes[name] = Node(name, words[name], tuple(places[p] for p in parents), table)
    if missing := [name for name in words if name not in nodes]:
        raise InputError(f"{what} has no probability of {missing[0]}; add one")
    return Network(tuple(nodes[name] for name in words))
