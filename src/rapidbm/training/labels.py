"""The label of a row given all else: exact in a restricted machine, for a term of the objective and for
rows that lack it.

    log p(y | v) = a_y − log Σ_y' exp a_y',        a_y = b·s_y + Σ_j A_j( f_j(v) + J_j s_y )          (1)
    −∂ log p(y | v)/∂θ = Σ_y' c_y' ∂E/∂θ (v, y', ⟨h⟩),        c_y' = [y' = y] − p(y' | v)             (2)

with s_y the columns of state y, f_j(v) the field on a hidden unit of all else, A_j its log sum and ⟨h⟩
the means of hidden units given v and y'. E is linear in v and in h, so that (2) needs no configuration
for each pair of a row and a state: v goes with Σ_y' c_y' ⟨h⟩, and s_y' with its sum over rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError, is_number
from ..machines import trusted
from ..machines.cells import Place, place_of
from ..machines.machine import Machine


@dataclass(frozen=True)
class LabelUnit:
    """The visible unit of the label."""

    place: Place
    states: Tensor  # (q, columns)

    @staticmethod
    def of(machine: Machine, unit: Any) -> LabelUnit | None:
        """By its number; None where p(y | rest) is no sum of few terms."""
        _, place = place_of(machine, unit)
        states = place.states
        if states is None or place.kind.has_energy or not machine.layers.is_restricted:
            return None
        return LabelUnit(place, states.to(machine.device, machine.dtype))

    def seen(self, held: Tensor) -> Tensor:
        """Which rows have a label, by the mask of their columns, (…)."""
        return held[..., self.place.where.start]

    def fields(self, machine: Machine, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Rows without their label as configurations (e, b, n), and the fields on hidden units with each
        label, (e, b, q, h)."""
        (hidden,) = machine.layers.hidden
        blank = trusted.with_visible(machine, rows.to(machine.dtype))
        blank[..., self.place.where].zero_()  # an assigned number would be copied from the CPU
        alone = self.alone(machine)
        of_label = machine.couplings.field(alone, hidden)  # (e, q, h)
        return blank, trusted.field(machine, blank, hidden)[:, :, None] + of_label[:, None]

    def alone(self, machine: Machine) -> Tensor:
        """Configurations of the label alone, (e, q, n)."""
        shape = (machine.replicas, len(self.states), machine.layers.columns)
        alone = torch.zeros(shape, dtype=machine.dtype, device=machine.device)
        alone[..., self.place.where] = self.states
        return alone

    def logits(self, machine: Machine, fields: Tensor) -> Tensor:
        """a of eq. (1), (e, b, q)."""
        (hidden,) = machine.layers.hidden
        sums = machine.unit(hidden).log_sum(fields.flatten(1, 2)).sum(-1).view(fields.shape[:3])
        if machine.biases is None:
            return sums
        own = machine.biases.detach()[:, self.place.where] @ self.states.mT  # (e, q)
        return sums + own[:, None]

    @torch.no_grad()
    def log_p(self, machine: Machine, rows: Tensor) -> Tensor:
        """log p(y | v) of every state y, (e, b, q)."""
        return torch.log_softmax(self.logits(machine, self.fields(machine, rows)[1]), -1)

    @torch.no_grad()
    def completed(self, machine: Machine, batch: Tensor, held: Tensor, rng: torch.Generator) -> Tensor:
        """Rows (e, b, v) of which those that lack a label have one that is drawn by eq. (1)."""
        logits, where = self.logits(machine, self.fields(machine, batch)[1]), self.place.where
        noise = torch.rand(logits.shape, generator=rng, dtype=logits.dtype, device=logits.device)
        drawn = self.states[(logits - torch.log(-torch.log(noise))).argmax(-1)].to(batch.dtype)
        found = batch.clone()
        found[..., where] = torch.where(self.seen(held)[..., None], batch[..., where], drawn)
        return found

    @torch.no_grad()
    def gradient(self, machine: Machine, rows: Tensor, weights: Tensor) -> dict[str, Tensor]:
        """Eq. (2) summed over rows (e, b, v) with weights (e, b)."""
        (layer,), where = machine.layers.hidden, self.place.where
        unit = machine.unit(layer)
        blank, fields = self.fields(machine, rows)
        apart = (rows[..., where].to(machine.dtype)[..., None, :] - self.states).abs().sum(-1)
        which = apart.argmin(-1, keepdim=True) == torch.arange(len(self.states), device=rows.device)
        c = which.to(machine.dtype) - torch.softmax(self.logits(machine, fields), -1)
        c = c * weights[..., None]  # (e, b, q)
        means = unit.mean(fields.flatten(1, 2)).view(fields.shape)
        hidden, label = machine.layers.slices[layer], self.alone(machine)
        blank[..., hidden] = (c[..., None, :] @ means).squeeze(2)
        label[..., hidden] = (c[..., None] * means).sum(1)
        both = torch.cat([blank, label], 1)
        one = torch.ones(both.shape[:2], dtype=both.dtype, device=both.device)
        found = {f"couplings.{k}": v for k, v in machine.couplings.gradient(both, one).items()}
        if machine.biases is not None:
            found["biases"] = torch.zeros_like(machine.biases.data)
            found["biases"][:, hidden] = -blank[..., hidden].sum(1)
            found["biases"][:, where] = -c.sum(1) @ self.states
        for name, own in (machine.own or {}).items():
            found[f"own.{name}"] = torch.zeros_like(own.data)
            if int(name) == layer:
                each = means.flatten(1, 2), c.flatten(1, 2)
                found[f"own.{name}"] += unit.parameter_gradient(*each, True)
        return found


@dataclass(frozen=True)
class Discriminative:
    """λ times the mean of log p(y | rest) over the rows that have a label."""

    unit: LabelUnit
    factor: Tensor  # (e, 1): λ times all rows over those with a label, by weight

    @staticmethod
    def of(
        machine: Machine,
        label: int | None,
        strength: Any,
        held: Tensor | None,
        weights: Tensor | None,
    ) -> Discriminative | None:
        """None for a strength of 0; refused where it is not exact. Rows have a mask `held` (samples, v)
        and weights (e or 1, samples) of mean 1."""
        if not is_number(strength) or not 0 <= strength < 1e6:
            raise InputError(
                f"the strength of the discriminative term is a number from 0 on, not {strength!r}"
            )
        if not strength:
            return None
        if label is None:
            raise InputError(
                "a discriminative term needs to know which unit is the label; name it (--labels, or "
                "label= in Python), or leave it out"
            )
        unit = LabelUnit.of(machine, label)
        if unit is None:
            raise InputError(
                "a discriminative term takes a label of a few states in a restricted machine, where "
                f"p(label | rest) is exact; this machine is {machine.layers.describe()} of "
                f"{machine.layers.words}: use --model rbm with a label of words, or leave "
                "--discriminative out"
            )
        share = torch.ones((), dtype=machine.dtype, device=machine.device).expand(machine.replicas, 1)
        if held is not None:
            if not only_label_missing(unit, held):
                raise InputError(
                    "a discriminative term is exact where no cell but the label is missing; leave out "
                    "the other rows, or --discriminative"
                )
            seen = unit.seen(held).to(machine.dtype)  # (samples,)
            share = seen.mean().expand(machine.replicas, 1)
            if weights is not None:
                share = (weights * seen).mean(1, keepdim=True).expand(machine.replicas, 1)
            if not bool((share > 0).all()):
                raise InputError(
                    "a discriminative term needs rows with a label, and none has one; leave it out"
                )
        return Discriminative(unit, strength / share)

    def gradient(
        self, machine: Machine, rows: Tensor, held: Tensor | None, weights: Tensor | None, size: int
    ) -> dict[str, Tensor]:
        """Of −λ ⟨log p(y | rest)⟩, of the rows (e, b, v) of a batch of `size`."""
        each = (self.factor / size).expand(rows.shape[:2])
        if held is not None:
            each = each * self.unit.seen(held)
        return self.unit.gradient(machine, rows, each if weights is None else each * weights)


def only_label_missing(unit: LabelUnit, held: Tensor) -> bool:
    """Whether a mask (samples, v) has no gaps but those of the label."""
    others = held.clone()
    others[:, unit.place.where] = True
    return bool(others.all())
