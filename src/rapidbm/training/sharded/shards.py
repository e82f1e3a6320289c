"""Shards: parts of every update that may be computed anywhere.

The rows of a batch and the chains are cut into S shards, each with random numbers of its own. With n_s of
the n rows and c_s of the c chains in shard s

    g = Σ_s ( n_s/n ⟨∂E/∂θ⟩_data,s − c_s/c ⟨∂E/∂θ⟩_model,s )                               (1)

With weights w_i of rows, of mean 1 over all data, a batch B of n rows gives

    g = (1/n) Σ_{i∈B} w_i ( ∂E/∂θ(v_i) − ⟨∂E/∂θ⟩_model )                                   (2)

the gradient of Σ_{i∈B} w_i log p(v_i) / n. Its mean over batches is that of the weighted mean of log p,
which weights divided by their sum in the batch would only come near.

A process computes the shards that it has, the sum goes over all processes (`accel/ranks.py`), and each of
them makes the same step. So a training depends on its seed and on S, but not on how many processes there
are. One shard is the training without any.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ...accel.ranks import Ranks, portion
from ...errors import InputError, LostRank, check_count
from ...machines import trusted
from ...machines.ensembles import Ensemble
from ...machines.machine import Machine
from ...random import stream
from ..negative import HasConfigurations, NegativePhase, Persistent, SplitPhases, Splits


@dataclass(frozen=True)
class Weights:
    """Weights of the rows of a batch, eq. (2)."""

    rows: Tensor  # (e, b), of mean 1 over all rows of the data; of a shard its own
    scale: Tensor  # (e, 1), their mean over the whole batch

    def of(self, places: slice) -> Weights:
        """Those of some of the rows."""
        return replace(self, rows=self.rows[:, places])

    def of_rows(self, ensemble: Any) -> Any:
        """An ensemble of as many configurations for each row, one row after the other, by weight."""
        each = ensemble.weights.shape[1] // self.rows.shape[1]
        return ensemble.times(self.rows.repeat_interleave(each, 1) if each > 1 else self.rows)

    def of_model(self, ensemble: Any) -> Any:
        """What does not follow the rows, as often as the rows of the batch count."""
        return ensemble.times(self.scale)


@dataclass
class Shard:
    """What one shard carries from update to update."""

    number: int
    count: int  # of all shards
    negative: NegativePhase
    share: float | None  # of the model's average; None: that of its images
    rng: torch.Generator
    chains: Tensor  # (e, c, n)

    def rows(self, size: int) -> slice:
        """Those of a batch of so many that are its own."""
        return portion(size, self.number, self.count)

    def model(
        self,
        machine: Machine,
        batch: Tensor,
        size: int,
        weights: Weights | None = None,
        *,
        in_place: bool,
    ) -> Ensemble | None:
        """Moves the chains and answers the model's configurations, times its share; None for a shard that
        has nothing to do. With `in_place` the chains stay in their memory."""
        share = batch.shape[1] / size if self.share is None else self.share
        if not share:
            return None
        model, chains = self.negative.step(machine, self.chains, batch, self.rng)
        if not in_place:
            self.chains = chains
        elif chains.numel():
            self.chains.copy_(chains)
        weighed: Ensemble = times(model, share)
        if weights is not None:
            by_row = getattr(self.negative, "row_by_row", False)
            weighed = weights.of_rows(weighed) if by_row else weights.of_model(weighed)
        return weighed

    def hidden(
        self, machine: Machine, batch: Tensor, size: int, weights: Weights | None = None
    ) -> Tensor:
        """Means of the hidden units, (e, 1, h), times its share: of the chains, and without any that stay
        those given the images."""
        persists = isinstance(self.negative, Persistent)
        if persists:
            spins, share = self.chains[..., : machine.layers.columns], self.share or 0.0
        else:
            spins, share = trusted.complete(machine, batch.to(machine.dtype)), batch.shape[1] / size
        hidden = spins[..., machine.visible :]
        if weights is not None:
            hidden = hidden * (weights.scale if persists else weights.rows)[..., None]
        mean = hidden.mean(1, keepdim=True)
        return mean if share == 1.0 else torch.zeros_like(mean) if not share else share * mean


class Shards:
    """The shards of this process, one of the `ranks`; a lone one draws from `rng`, and otherwise each has
    a stream of its own under the seed."""

    def __init__(
        self,
        negative: NegativePhase,
        machine: Machine,
        count: int,
        ranks: Ranks,
        rng: torch.Generator,
        seed: int,
    ) -> None:
        check_count("the number of shards", count)
        self.count, self.ranks, self.device = count, ranks, machine.device
        self.mine: list[Shard] = []
        parts = _parts(negative, machine, count)
        for number in ranks.share_of(count):
            phase, share = parts[number]
            own = rng if count == 1 else stream(seed, "shard", number, count, device=machine.device)
            chains = phase.init(machine, own)
            chains = chains[:, :0] if share == 0.0 else chains
            self.mine.append(Shard(number, count, phase, share, own, chains))
        ranks.all_true(True)  # one of them may have had to wait for its data
        self.rngs = (rng,) if count == 1 else (rng, *(shard.rng for shard in self.mine))
        counts = torch.zeros(count, dtype=torch.int64)
        for shard in self.mine:
            counts[shard.number] = shard.chains.shape[1]
        self.counts: list[int] = ranks.summed({"counts": counts})["counts"].tolist()  # chains of each

    def __iter__(self) -> Iterator[Shard]:
        return iter(self.mine)

    @property
    def chains(self) -> Tensor:
        """Those of this process, side by side."""
        return self.mine[0].chains if len(self.mine) == 1 else torch.cat([s.chains for s in self.mine], 1)

    @property
    def most(self) -> int:
        """Chains that are drawn at once."""
        return max(shard.chains.shape[1] for shard in self.mine)

    def rows(self, size: int) -> slice:
        """Those of a batch of so many that this process takes."""
        return slice(self.mine[0].rows(size).start, self.mine[-1].rows(size).stop)

    def summed(self, parts: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
        """Eq. (1), from the terms of each shard here."""
        total = parts[0]
        for part in parts[1:]:
            for name, value in total.items():
                value.add_(part[name])
        return self.ranks.summed(total)

    def configurations(self, machine: Machine, data: Tensor, rng: torch.Generator) -> Tensor:
        """The spins that the negative phase averages over, of this process."""
        used = [
            shard.negative.configurations(machine, shard.chains, data, rng)
            for shard in self.mine
            if shard.share != 0.0 and isinstance(shard.negative, HasConfigurations)
        ]
        return torch.cat(used, 1)

    def check_same(self, parameters: Iterable[Tensor]) -> None:
        """Refuses to go on where ranks, which make the same steps, have come to different parameters."""

        def checksum() -> int:
            found = 0
            for parameter in parameters:
                found = zlib.crc32(parameter.detach().cpu().contiguous().numpy().data, found)
            return found

        if not self.ranks.all_equal(checksum):
            raise LostRank(
                "the parameters of the ranks have come apart, which computers of one kind never do; the "
                "last checkpoint is from before that"
            )

    # -- saving -----------------------------------------------------------------------------------

    def state(self, *, gathered: bool) -> dict[str, Tensor]:
        """What later updates depend on: of this process, or, gathered by the first one, of all."""
        found = {"training/chains": self.chains}
        if self.count > 1:
            found["shards/rng"] = torch.stack([shard.rng.get_state() for shard in self.mine])
        if gathered:
            parts = {name: self.ranks.gathered(value) for name, value in found.items()}
            axis = {"training/chains": 1, "shards/rng": 0}
            found |= {name: torch.cat(each, axis[name]) for name, each in parts.items() if len(each) > 1}
        if self.count > 1:
            found["shards/chains"] = torch.tensor(self.counts)
        return found

    def own(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Of a saved state of all shards what this process goes on with."""
        found, there = dict(state), len(state.get("shards/chains", [0]))
        if there != self.count:
            raise InputError(
                f"the saved state is of a training in {there} shards, not in {self.count}; go on with as "
                "many"
            )
        if self.count == 1:
            return found
        counts, first, last = state["shards/chains"].tolist(), self.mine[0].number, self.mine[-1].number
        chains, rng = state["training/chains"], state["shards/rng"]
        if counts != self.counts or chains.shape[1] != sum(counts) or len(rng) != self.count:
            raise InputError(
                f"the saved state does not fit: its shards have {counts} chains, here {self.counts}"
            )
        start, stop = sum(counts[:first]), sum(counts[: last + 1])
        return found | {"training/chains": chains[:, start:stop], "shards/rng": rng[first : last + 1]}

    def load(self, own: Mapping[str, Tensor]) -> None:
        """Goes back to what `own` answers."""
        sizes = [self.counts[shard.number] for shard in self.mine]
        for shard, chains in zip(self.mine, torch.split(own["training/chains"], sizes, 1), strict=True):
            # A copy of its own: memory that a file lent may be aligned otherwise and change the bits.
            shard.chains = chains.to(self.device, copy=True).clone(memory_format=torch.contiguous_format)
        if self.count > 1:
            for shard, drawn in zip(self.mine, own["shards/rng"], strict=True):
                shard.rng.set_state(drawn.cpu().clone())


def apart(
    negative: NegativePhase, machine: Machine, chains: Tensor, count: int
) -> list[tuple[NegativePhase, Tensor]]:
    """The phase of every shard that has something to do, and its part of the chains of all, (e, c, n)."""
    phases = [phase for phase, share in _parts(negative, machine, count) if share != 0.0]
    rng = stream(0, device=machine.device)
    begun = [phase.init(machine, rng) for phase in phases]
    wanted = (machine.replicas, sum(x.shape[1] for x in begun), *begun[0].shape[2:])
    if (tuple(chains.shape), chains.dtype) != (wanted, begun[0].dtype):
        raise InputError(
            f"there are chains {tuple(chains.shape)}, the negative phase keeps {wanted}; take another "
            "checkpoint (--update)"
        )
    parts = torch.split(chains.to(machine.device), [x.shape[1] for x in begun], 1)
    return list(zip(phases, parts, strict=True))


def times(ensemble: Any, share: float) -> Any:
    """With all weights times a share."""
    return ensemble if share == 1.0 else ensemble.times(share)


def difference(
    data: Ensemble | None,
    model: Ensemble | None,
    machine: Machine,
    of_data: dict[str, Tensor] | None,
) -> dict[str, Tensor]:
    """The data's gradient, which may be given, less the model's; a shard may lack either."""
    if data is not None:
        return (
            data.gradient(machine) if model is None else data.gradient_difference(model, machine, of_data)
        )
    if model is not None:
        return {name: -value for name, value in model.gradient(machine).items()}
    return {name: torch.zeros_like(p.data) for name, p in machine.named_parameters()}


def _parts(negative: NegativePhase, machine: Machine, count: int) -> SplitPhases:
    """The phase of each shard, with its share in the model's average."""
    if count == 1:
        return [(negative, 1.0)]
    if not isinstance(negative, Splits):
        raise InputError(
            f"the negative phase {type(negative).__name__} cannot be cut into {count} shards: it has no "
            "split(machine, count); take one shard, or another phase"
        )
    return negative.split(machine, count)
