"""Chains in shards, each with random numbers of its own, which the ranks share (`accel/ranks.py`).

Independent chains may walk anywhere: what they find is gathered, and every rank goes on with all of it.
So an answer depends on its seed and the number of shards, but not on how many processes there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..accel.ranks import Ranks, current_ranks, portion
from ..errors import InputError, TimeLimit, check_count

# The chains of a part, which of all they are, and words that name its random numbers.
Work = Callable[..., tuple[Tensor, ...]]


@dataclass(frozen=True)
class ChainShards:
    """So many shards; one is the work of a process alone."""

    shards: int = 1
    ranks: Ranks = field(default_factory=Ranks)

    @staticmethod
    def over(shards: int | None) -> ChainShards:
        """Shards that the ranks of this process share; None is for one process alone, whatever others
        there are."""
        if shards is None:
            return ChainShards()
        check_count("the number of shards", shards)
        return ChainShards(shards, current_ranks())

    def __call__(self, count: int, work: Work) -> tuple[Tensor, ...]:
        """What `work(part, *words)` answers of each part of so many chains, a slice, side by side,
        (e, c, …); bad input and limits of time on one rank end it on all."""
        if self.shards == self.ranks.world == 1:
            return work(slice(0, count))
        if count < self.shards:
            raise InputError(
                f"{count} chains cannot be cut into {self.shards} shards; take more chains, or fewer "
                "shards or processes"
            )
        found, error = [], None
        try:
            for number in self.ranks.share_of(self.shards):
                part = portion(count, number, self.shards)
                found.append(work(part, "shard", number, self.shards))
        except InputError as raised:
            error = raised
        if not self.ranks.all_true(error is None):
            raise error or TimeLimit("another process came to a limit, or to bad input")
        return self._gathered(found)

    def _gathered(self, found: list[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        here = [torch.cat(parts, 1) for parts in zip(*found, strict=True)]
        if self.ranks.world == 1:
            return tuple(here)
        each = [self.ranks.gathered(part) for part in here]
        whole = {str(i): torch.cat(parts, 1) for i, parts in enumerate(each) if parts}
        return tuple(x.to(here[0].device) for x in self.ranks.broadcast_tensors(whole).values())
