"""Machines: couplings and biases, and what follows from their energy alone.

    E(s) = − Σ_pairs J_ij s_i s_j − Σ_i b_i s_i,        P(s) ∝ exp(−β E(s))               (1)
    F(v) = − (1/β) log Σ_h exp(−β E(v, h))                                                (2)

and for a restricted machine F(v) = − Σ_i b_i v_i − (1/β) Σ_α log 2cosh(β field_α(v)).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from ..accel import fused
from ..accel.elementwise import sum_of_sizes
from ..accel.memory import check_room
from ..accel.operands import BipartiteOperands
from ..arrays import as_tensor, as_weights, effective_rows, finite, mean_one
from ..display import Displayable, of_tensor
from ..errors import InputError, check_beta, check_count, is_whole
from ..random import rng_from
from . import trusted
from .couplings import Couplings, as_parameter
from .ensembles import Ensemble, GivenVisible, WeightedSpins, given_visible
from .enumeration import log_prob_unnormalised
from .layers import Layers
from .spins import as_spins, column_sums, weights_of
from .units.spin import SPIN
from .units.unit import Beta, Unit

if TYPE_CHECKING:
    from . import weights

# What kernels read of machines whose parameters rest; not with the machine, or a copy would have it, too.
_fixed: WeakKeyDictionary[Machine, BipartiteOperands] = WeakKeyDictionary()


class Machine(Displayable, nn.Module):
    """A Boltzmann machine, or `replicas` independent ones of the same shape side by side.

    Visible data are values of the units (`Layers.encode`): of spins ±1, {0, 1} or booleans. A
    configuration holds the columns of all units, states of each; a hidden unit may be 0, unknown.
    Anything else is refused, but for numbers that come with `means=True`: they are taken as they are, a
    mean of each unit, 0 for one that is unknown.
    """

    couplings: Couplings
    biases: nn.Parameter | None
    own: nn.ParameterDict | None  # of units with parameters, by the number of their layer, (e, p, units)

    def __init__(
        self, couplings: Couplings, biases: Any = None, own: Mapping[str, Any] | None = None
    ) -> None:
        """`own` are the parameters of units that have some, by the number of their layer; left out, they
        start where their kind says."""
        super().__init__()
        self.couplings = couplings
        vars(self)["couplings"] = couplings  # found at once: the cost of a small machine is calls
        self.biases = None
        if biases is not None:
            given = as_parameter(biases, what="biases", like=couplings.first)
            shape = (couplings.replicas, couplings.layers.columns)
            if tuple(given.shape) != shape:
                raise InputError(f"biases must be {shape}, (replicas, units), not {tuple(given.shape)}")
            self.biases = nn.Parameter(given)
        self.own = _own_parameters(couplings, own or {})
        vars(self)["own"] = self.own

    @property
    def layers(self) -> Layers:
        return self.couplings.layers

    @property
    def replicas(self) -> int:
        return self.couplings.replicas

    @property
    def visible(self) -> int:
        """Visible columns, the first ones of a configuration; of spins the visible units."""
        return self.layers.visible_columns

    @property
    def patterns(self) -> Tensor | None:
        """ξ (e, k, n), or None for dense couplings."""
        patterned = self.couplings.patterned
        return None if patterned is None else patterned.patterns

    @property
    def dtype(self) -> torch.dtype:
        return self.couplings.first.dtype

    @property
    def device(self) -> torch.device:
        return self.couplings.first.device

    @property
    def symmetric(self) -> bool:
        """True when E(s) = E(−s)."""
        return self.biases is None and all(unit.mirrored for unit in self.layers.kinds)

    # -- units ------------------------------------------------------------------------------------

    def unit(self, layer: int) -> Unit:
        """What the units of a layer are, with their own parameters."""
        kind = self.layers.kinds[layer]
        if self.own is None or str(layer) not in self.own:
            return kind
        return kind.with_parameters(self.own[str(layer)])

    def by_layer(self, what: Callable[[Unit, Tensor], Tensor], values: Tensor) -> Tensor:
        """Something that each unit does, for whole configurations (…, n)."""
        if self.layers.spins:
            return what(self.layers.kinds[0], values)
        slices = self.layers.slices
        return torch.cat([what(self.unit(i), values[..., x]) for i, x in enumerate(slices)], -1)

    def describe(self) -> str:
        """The machine in a few words."""
        kind = "dense" if self.patterns is None else f"K={self.patterns.shape[1]}"
        return f"{self.layers.describe()}, {kind}"

    def _line(self) -> str:
        return self.describe() if self.replicas == 1 else f"{self.describe()}, {self.replicas} replicas"

    def _facts(self) -> list[tuple[str, str]]:
        size = sum(p.numel() for p in self.parameters()) // self.replicas
        return [
            ("units", self._units()),
            ("couplings", "dense" if self.patterns is None else f"{self.patterns.shape[1]} patterns"),
            ("biases", "none" if self.biases is None else of_tensor(self.biases)),
            ("parameters", f"{size:,}, {str(self.dtype).removeprefix('torch.')} on {self.device}"),
            ("replicas", str(self.replicas)),
        ]

    def _units(self) -> str:
        sizes = self.layers.describe()
        return sizes if self.layers.spins else f"{sizes}: {self.layers.words}"

    # -- configurations ---------------------------------------------------------------------------

    def configuration(self, spins: Any, *, means: bool = False) -> Tensor:
        """`spins` as (e, c, n) of this machine's type and device; (c, n) serves every replica."""
        if not means:
            spins = self._known(spins)
        whole = _tensor(spins, "a configuration")
        return trusted.shaped(self, whole, self.layers.columns, "a configuration").to(self.dtype)

    def visible_spins(self, visible: Any, *, means: bool = False) -> Tensor:
        """Visible data as (e, c, v) of this machine's type and device, columns."""
        return trusted.visible(self, self._rows(visible, means))

    def _rows(self, visible: Any, means: bool = False) -> Tensor:
        """Visible data as a tensor, encoded; with `means` numbers as they are."""
        if means:
            return _tensor(visible, "a visible configuration")
        return self.layers.encode(visible, what="visible data")

    def _known(self, spins: Any) -> Tensor:
        """A configuration of states, but for hidden units at 0."""
        if self.layers.spins and not self.layers.hidden:
            return as_spins(spins, what="a configuration")
        given = as_tensor(spins, what="a configuration")
        if given.dtype == torch.bool:
            return as_spins(given) if self.layers.spins else given
        if given.shape[-1:] != (self.layers.columns,):  # of another machine: the shape says so
            return given
        for layer, where in enumerate(self.layers.slices):
            part = given[..., where]
            unknown = self.unit(layer).unknown(part) | (part.abs().sum(-1, keepdim=True) == 0)
            if layer in self.layers.hidden:
                part = torch.where(
                    unknown, self.unit(layer).nearest(torch.zeros_like(part.double())), part
                )
            self._check_states(layer, part)
        return given

    def _check_states(self, layer: int, part: Tensor) -> None:
        """Refuses columns (…, n_l) that are no states of a layer's units."""
        unit = self.layers.kinds[layer]
        if unit == SPIN:
            wrong = part.abs() != 1
            if bool(wrong.any()):
                raise InputError(
                    "a configuration of all units is ±1, and 0 where a hidden unit is unknown, but it "
                    f"holds {part[wrong].flatten()[0].item():g}; `to_spins` converts {{0, 1}}, "
                    "`with_visible` takes visible data alone, and means of units come with means=True"
                )
        else:
            finite(part, what="a configuration")
            unit.encode_columns(part, what=f"a configuration in layer {layer}")

    def with_visible(self, visible: Any, *, means: bool = False) -> Tensor:
        """A new configuration with this visible layer and every hidden unit at 0, unknown."""
        return trusted.with_visible(self, self._rows(visible, means))

    def complete(self, visible: Any, beta: Beta = 1.0, *, means: bool = False) -> Tensor:
        """The same with the hidden units at their means given the visible ones; restricted machines."""
        return trusted.complete(self, self._rows(visible, means), beta)

    def random(
        self, chains: int, rng: torch.Generator | None = None, *, seed: int | None = None
    ) -> Tensor:
        """Units without a field, of spins fair ones, (e, c, n)."""
        rng = rng_from(seed, rng, "random", device=self.device)
        self.check_chains(chains)
        shape = torch.empty(()).expand(self.replicas, chains, self.layers.columns)
        return self.by_layer(lambda unit, x: unit.random(x.shape, rng, self.dtype), shape)

    def check_chains(self, chains: int, *, steps: int = 1, least: int = 1) -> None:
        """Refuses a number of chains that is none, or that no memory holds; with `steps` a record."""
        check_count("the number of chains", chains, least=least)
        count = self.replicas * chains * steps * self.layers.columns
        what = f"{chains:,} chains" if steps == 1 else f"{steps:,} steps of {chains:,} chains"
        small = steps > 1 and self.layers.recorded is not None  # a record is int8
        size = 1 if small else self.couplings.first.element_size()
        check_room(
            f"{what}, of {self.layers.columns:,} units and {self.replicas:,} replicas,",
            count,
            size=size,
            device=self.device,
        )

    def infer(self, spins: Any, beta: Beta = 1.0, *, means: bool = False) -> Tensor:
        """A copy whose `layers.inferred` hold their means given the rest: the same pair moments,
        less noise."""
        spins = self.configuration(spins, means=means)
        return trusted.infer(self, spins.clone(), self.layers.inferred, beta)

    def given_visible(self, visible: Any, *, means: bool = False) -> WeightedSpins | GivenVisible:
        """Equal weights for these visible spins, hidden units at their means; restricted machines."""
        return given_visible(self, self._rows(visible, means))

    def smoothed(self, spins: Tensor) -> WeightedSpins | GivenVisible:
        """Equal weights for the chains of a negative phase, their `layers.inferred` at their means."""
        if self.layers.is_restricted:
            return given_visible(self, spins[..., : self.visible])
        inferred = self.layers.inferred
        return WeightedSpins.equal(trusted.infer(self, spins.clone(), inferred), means=inferred)

    # -- energies ---------------------------------------------------------------------------------

    def energy(self, spins: Any, *, means: bool = False) -> Tensor:
        """E(s), (e, c); with `means` that of independent units, on average."""
        spins = self.configuration(spins, means=means)
        if not means and bool(self.unknown(spins).any()):
            raise InputError(
                "the energy of a configuration needs all units, but a hidden one is 0, unknown; draw it "
                "with `sweep`, sum over it with `free_energy`, or give means=True, where 0 is a mean"
            )
        return trusted.energy(self, spins)

    def unknown(self, spins: Tensor) -> Tensor:
        """Which columns of configurations (e, c, n) belong to units that are 0 and have no such state."""
        return self.by_layer(lambda unit, x: unit.unknown(x), spins)

    @torch.no_grad()
    def finite(self) -> Tensor:
        """Which replicas have finite energies in all their configurations, (e,); of real units, within
        numbers of the size of 1."""
        finite = self.couplings.finite()
        for layer in self.own or ():
            of_units = self.unit(int(layer)).finite()
            finite = finite if of_units is None else finite & of_units
        if self.biases is None:
            return finite
        return finite & (self.couplings.over_all_units(sum_of_sizes(self.biases)) < math.inf)

    def bias_energy(self, spins: Any, *, means: bool = False) -> Tensor:
        """The part of E(s) that the biases give, (e, c)."""
        return trusted.bias_energy(self, self.configuration(spins, means=means))

    def field(self, spins: Any, layer: int, *, own: bool = True, means: bool = False) -> Tensor:
        """The field on a layer, biases included, (e, c, n_l): what its columns x add to the energy is
        −field·x; of spins E(s_i=−1) − E(s_i=+1) = 2 field_i."""
        return trusted.field(self, self.configuration(spins, means=means), layer, own=own)

    def log_prob_unnormalised(self, visible: Any, beta: float = 1.0) -> Tensor:
        """log Σ_h exp(−β E(v, h)) = −β F(v) in float64, (e, c)."""
        check_beta(beta)
        return log_prob_unnormalised(self, self._rows(visible), beta)

    def free_energy(self, visible: Any, beta: float = 1.0) -> Tensor:
        """F(v), eq. (2), in float64, (e, c)."""
        check_beta(beta)
        if not beta:
            raise InputError(f"the free energy needs β > 0, not {beta}")
        return self.log_prob_unnormalised(visible, beta) / -beta

    def hidden_mean(self, visible: Any, beta: float = 1.0) -> Tensor:
        """⟨h⟩ given the visible layer, (e, c, h); only a restricted machine has it in closed form."""
        if not self.layers.hidden_independent or not self.layers.hidden:
            raise InputError(
                "hidden means in closed form need a hidden layer that is not coupled to itself or "
                f"to another one; this machine has layers {self.layers.sizes} and edges "
                f"{self.layers.edges}: use a positive phase, such as MeanField, instead"
            )
        check_beta(beta)
        spins = self.with_visible(visible)
        each = [self.unit(i).mean(trusted.field(self, spins, i), beta) for i in self.layers.hidden]
        return torch.cat(each, -1)

    # -- training ---------------------------------------------------------------------------------

    @torch.no_grad()
    def gradient(self, ensemble: Ensemble) -> dict[str, Tensor]:
        """∂⟨E⟩/∂θ for every parameter, under its name in `named_parameters()`."""
        return ensemble.gradient(self)

    @contextmanager
    def fixed_parameters(self, chains: int = 0) -> Iterator[None]:
        """In this block the parameters stay as they are: what kernels read of them is made once. So many
        chains are drawn in it, or as many as there are patterns."""
        pair = self.operands()
        if pair is None:
            yield
            return
        pair = replace(pair, fixed=True)
        fused.ready(pair, chains)
        _fixed[self] = pair
        try:
            yield
        finally:
            _fixed.pop(self, None)

    def operands(self) -> BipartiteOperands | None:
        """The two sides of a machine of spins (`layers.sides`) as kernels read them; None for any other,
        and for a deep one where no kernel would use it."""
        if self in _fixed:
            return _fixed[self]
        layers = self.layers
        if layers.sides is None or not layers.spins or layers.seen > 1:
            return None
        if not layers.two_layers and not fused.runs(self.couplings.first, layers.columns**2):
            return None
        biases = None if self.biases is None else layers.bipartite_order(self.biases.detach())
        return self.couplings.operands(biases)

    @torch.no_grad()
    def gradient_over(
        self, spins: Tensor, weights: Tensor, means: tuple[int, ...] = ()
    ) -> dict[str, Tensor]:
        """The same over configurations (e, c, n) with weights (e, c); units of the layers `means` hold
        their means in their fields."""
        found = {f"couplings.{k}": v for k, v in self.couplings.gradient(spins, weights).items()}
        if self.biases is not None:
            found["biases"] = -(weights[:, None] @ spins).squeeze(1)
        return found if self.own is None else found | self.gradient_of_units(spins, weights, means)

    @torch.no_grad()
    def gradient_of_units(
        self, spins: Tensor, weights: Tensor, means: tuple[int, ...]
    ) -> dict[str, Tensor]:
        """∂⟨u⟩/∂θ of the units' own parameters."""
        found = {}
        for name in self.own or ():
            layer = int(name)
            part = spins[..., self.layers.slices[layer]]
            found[f"own.{name}"] = self.unit(layer).parameter_gradient(part, weights, layer in means)
        return found

    @torch.no_grad()
    def gradient_of(self, product: Tensor, mean: Tensor) -> dict[str, Tensor]:
        """The same from ⟨s_i s_j⟩ (e, n_0, n_1) and ⟨s⟩ (e, n) of two layers."""
        found = {f"couplings.{k}": v for k, v in self.couplings.gradient_of(product).items()}
        return found if self.biases is None else {**found, "biases": -mean}

    def start_biases(self, visible: Any, observed: Any = None, weights: Any = None) -> None:
        """Sets the visible biases to the data's marginals, of spins ⟨v_i⟩ = tanh b_i, smoothed by one
        observation of each state, and own parameters of visible units, as precisions, to the data's.
        Cells that are not `observed`, a mask by unit or column or that of a `Split`, do not count, and
        rows count by their weights, (samples,) or (e, samples) or those of the `Split`."""
        if self.biases is None:
            raise InputError("this machine has no biases to start; build it with biases=True")
        observed = getattr(visible, "observed", None) if observed is None else observed
        weights = weights_of(visible) if weights is None else weights
        held = None
        if observed is not None:
            from .cells import known_and_filled

            visible, known = known_and_filled(self, visible, observed, what="visible data")
            held = self.layers.column_mask(known)
        rows = self.layers.encode(visible, what="visible data")
        if rows.dim() != 2:
            raise InputError(f"biases start from data (samples, {self.visible}), not {tuple(rows.shape)}")
        uneven = None if weights is None else mean_one(as_weights(weights, len(rows), self.replicas))
        uneven = None if uneven is None else uneven.to(rows.device)
        each = [uneven] if uneven is None or uneven.dim() == 1 else list(uneven)  # of each replica
        for name, own in (self.own or {}).items():
            if int(name) in self.layers.visible:
                where, kind = self.layers.slices[int(name)], self.layers.kinds[int(name)]
                there = None if held is None else held[:, where]
                fitted = torch.stack([_fitted(kind, rows[:, where], there, w) for w in each])
                own.data.copy_(fitted.to(own).expand_as(own))
        fields = [self.marginal_fields(rows, held, w) for w in each]
        found = fields[0]
        if len(each) > 1:
            found = torch.stack([x if x.dim() == 1 else x[i] for i, x in enumerate(fields)])
        self.biases.data[:, : self.visible] = found.to(self.dtype)

    @torch.no_grad()
    def marginal_fields(
        self, rows: Tensor, held: Tensor | None = None, weights: Tensor | None = None
    ) -> Tensor:
        """The fields on the visible columns in which units have the smoothed means of these rows, encoded
        ones (samples, v): (v,), or (e, v) where units have parameters of their own. Of a mask `held` of
        columns only what it marks counts; rows may have weights (samples,), as many of equal weight as
        tell as much of a mean are then smoothed by one observation."""
        if rows.dim() != 2 or rows.shape[1] != self.visible:
            raise InputError(
                f"marginals are those of data (samples, {self.visible}), not {tuple(rows.shape)}"
            )
        counts: Tensor | None = None
        whole_count: Any = len(rows)
        if weights is not None:
            whole_count = effective_rows(weights)
            weights = weights * (whole_count / weights.sum())
        if held is not None:
            rows, counts = rows.masked_fill(~held, 0), column_sums(held, weights).clamp(min=1.0)
        sums, fields = column_sums(rows, weights), []
        for layer in self.layers.visible:
            unit, where = self.unit(layer), self.layers.slices[layer]
            count: Any = whole_count if counts is None else counts[where]
            mean = unit.smoothed_mean(sums[where], count).to(self.device)
            fields.append(unit.field_of(mean).reshape(-1, len(mean)))
        whole = max(map(len, fields))
        found = torch.cat([x.expand(whole, -1) for x in fields], -1)
        return found if whole > 1 else found[0]

    # -- other packages ---------------------------------------------------------------------------

    @staticmethod
    def from_weights(
        W: Any, b: Any = None, c: Any = None, levels: tuple[float, float] = (0, 1)
    ) -> Machine:
        """The restricted machine of weights W, (v, h) or (e, v, h), and biases b and c of units at these
        levels: −xᵀW y − b·x − c·y is its energy plus a constant, which `to_weights` tells."""
        from . import weights

        return weights.from_weights(W, b, c, levels)

    def to_weights(self, levels: tuple[float, float] = (0, 1)) -> weights.Weights:
        """W, b and c of units with these levels, whose energies are this machine's plus `constant`."""
        from . import weights

        return weights.to_weights(self, levels)

    @staticmethod
    def from_bqm(
        bqm: Any,
        layers: Sequence[Sequence[Hashable]] | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> Machine:
        """The machine of a binary quadratic model of dimod, whose energies have `bqm.spin.offset` more.

        `layers` names the variables that are visible, then those of each hidden layer; by default
        `bqm_layers(bqm)`: two layers if the graph has two sides, else one, all visible. Units of two
        layers are coupled where the model couples any of them."""
        from . import weights

        return weights.from_bqm(bqm, layers, dtype)

    def to_bqm(self, *, names: Sequence[Hashable] | None = None, vartype: str = "SPIN") -> Any:
        """A binary quadratic model of dimod with this energy, of variables 0 … n − 1 in the order of the
        units or of these names; needs `rapidbm[dwave]`."""
        from . import weights

        return weights.to_bqm(self, names=names, vartype=vartype)

    # -- replicas ---------------------------------------------------------------------------------

    def replica(self, index: int) -> Machine:
        """A copy of one replica as a machine of its own."""
        if not (is_whole(index) and -self.replicas <= index < self.replicas):
            raise InputError(
                f"this machine has replicas 0 to {self.replicas - 1}, there is no replica {index!r}"
            )
        index %= self.replicas
        one = copy.deepcopy(self)
        for parameter in one.parameters():
            parameter.data = parameter.data[index : index + 1].clone()
        return one


def _fitted(kind: Unit, rows: Tensor, held: Tensor | None, weights: Tensor | None = None) -> Tensor:
    """The parameters (p, units) that fit a layer's columns (samples, n_l), those that are held."""
    if held is None or bool(held.all()):
        return _fitted_by_weight(kind, rows, weights)
    parts = []
    for where, one in kind.one_by_one(rows.shape[1]):
        known = held[:, where].all(1)
        some = rows[known, where]
        own = None if weights is None else weights[known]
        parts.append(_fitted_by_weight(one, some, own) if len(some) > 1 else one.start(1))
    return torch.cat(parts, -1)


def _fitted_by_weight(kind: Unit, rows: Tensor, weights: Tensor | None) -> Tensor:
    if weights is None or not bool((weights > 0).any()):
        return kind.fitted(rows)
    return kind.fitted(rows, weights)


def _tensor(values: Any, what: str) -> Tensor:
    """Numbers as they are: a tensor itself, with its gradient."""
    return values if isinstance(values, Tensor) else as_tensor(values, what=what)


def stack(machines: Sequence[Machine]) -> Machine:
    """Machines of the same shape as the replicas of one.

    Examples:
        >>> machines = [rb.rbm(4, 3, seed=seed) for seed in range(2)]
        >>> rb.stack(machines).replicas
        2
    """
    if not machines:
        raise InputError("stack needs at least one machine, got none")
    first = machines[0]
    names = {name: tuple(p.shape[1:]) for name, p in first.named_parameters()}
    for other in machines[1:]:
        shapes = {name: tuple(p.shape[1:]) for name, p in other.named_parameters()}
        if other.layers != first.layers or shapes != names or other.dtype != first.dtype:
            raise InputError(
                f"machines stack when their shapes and types agree: {names}, {first.dtype} "
                f"is not {shapes}, {other.dtype}"
            )
    whole = copy.deepcopy(first)
    for name, parameter in whole.named_parameters():
        parameter.data = torch.cat([m.get_parameter(name).data for m in machines])
    return whole


def scaled(machine: Machine, beta: float) -> Machine:
    """A machine whose energy is β times this one's."""
    other = weakened(machine, beta)
    for name in other.own or ():
        own = other.own[name]  # type: ignore[index]
        own.data.copy_(other.layers.kinds[int(name)].tempered(own.data, beta))
    for unit in other.layers.kinds:
        if unit.has_energy and not unit.parameters and beta != 1:
            raise InputError(
                f"{unit} has energies of its own without a field, which a temperature would change, and "
                "no parameter for that; take β = 1"
            )
    return other


def weakened(machine: Machine, share: float) -> Machine:
    """A machine with this share of the couplings and biases; the units' own energies are as they were."""
    other = copy.deepcopy(machine)
    for name, parameter in other.named_parameters():
        if not name.startswith("own."):
            degree = 1 if name == "biases" else other.couplings.degree
            parameter.data.mul_(share ** (1.0 / degree))
    return other


def _own_parameters(couplings: Couplings, given: Mapping[str, Any]) -> nn.ParameterDict | None:
    """The units' own parameters, given or where they start."""
    layers, like, found = couplings.layers, couplings.first, {}
    for layer, (unit, count) in enumerate(zip(layers.kinds, layers.counts, strict=True)):
        if unit.parameters:
            shape = (couplings.replicas, len(unit.parameters), count)
            own = given.get(str(layer), unit.start(count))
            own = as_parameter(own, what=f"the parameters of layer {layer}", like=like)
            if tuple(own.shape) not in (shape, shape[1:]):
                raise InputError(
                    f"the parameters {', '.join(unit.parameters)} of layer {layer} must be {shape}, "
                    f"(replicas, parameters, units), not {tuple(own.shape)}"
                )
            found[str(layer)] = nn.Parameter(own.expand(shape).clone())
    if unused := set(given) - set(found):
        raise InputError(
            f"the units of layers {', '.join(sorted(unused))} have no parameters of their own"
        )
    return nn.ParameterDict(found) if found else None
