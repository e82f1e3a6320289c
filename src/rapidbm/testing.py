"""Contracts that a negative phase or a sampler keeps, for the library's own and for yours.

    from rapidbm.testing import check_negative_phase, check_sampler, small_machines

    for name, machine in small_machines():
        check_negative_phase(MyPhase(), machine)
        check_sampler(MySampler(), machine)
        check_sampler(my_sweep, machine)      # my_sweep(machine, spins, rng) -> spins

Each check raises AssertionError with what was broken. A sampler is tested by χ² against enumeration:
many independent chains that start from exact draws, a few sweeps, one final state of each. (From random
starts a correct sampler of a cold machine fails for want of mixing; one that starts by itself, such as
tempering, gets more steps instead.) The number of chains sets the tolerance; a wrong factor in a field
shows.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from .errors import InputError
from .machines.constructors import bm, dbm, rbm
from .machines.enumeration import check_states
from .machines.machine import Machine, scaled
from .machines.units.spin import SPIN
from .machines.units.unit import Unit
from .random import stream
from .sampling.samplers import Moves, Sampler, as_sampler
from .training.negative import NegativePhase, SplitPhases, Splits

Checked = Sampler[Any] | Callable[..., Tensor]
SWEEPS, STEPS = 3, 30  # from exact draws, and from where a sampler starts by itself
# A correct sampler of up to ten replicas fails in at most one of a million tests. Where cells
# hold ten counts the true tail is above that of χ², 1.5 times at 1e-5 by simulation.
SMALLEST_P = 3e-8


def small_machines(
    replicas: int = 1,
    *,
    biases: bool = True,
    units: Unit = SPIN,
    hidden_units: Unit = SPIN,
    dtype: torch.dtype = torch.float64,
) -> Iterator[tuple[str, Machine]]:
    """One small machine of each graph and each kind of couplings, for tests against enumeration.

    Parameters
    ----------
    replicas : int, default 1
        Replicas of each machine.
    biases : bool, default True
        Whether they have random biases.
    units : Unit, default Spin()
        Kind of the visible units; without a list of states they are in no fully connected machine.
    hidden_units : Unit, default Spin()
        Kind of the hidden units; without a list of states they are in restricted machines alone.
    dtype : torch.dtype, default float64
        Type of the parameters.

    Yields
    ------
    (str, Machine)
        Name, such as "rbm-patterns", and machine.
    """
    for kind, patterns, scale in (("dense", None, 0.35), ("patterns", 2, 0.7)):
        common: dict[str, Any] = {"replicas": replicas, "scale": scale, "dtype": dtype}
        common |= {"units": units, "hidden_units": hidden_units}
        made = {"rbm": rbm(4, 3, patterns, seed=1, **common)}
        if _listed(hidden_units):
            made["dbm"] = dbm(3, (3, 2), patterns, seed=2, **common)
        if _listed(units) and _listed(hidden_units):
            made["bm"] = bm(4, 2, patterns, seed=3, **common)
        for name, machine in made.items():
            if biases:
                shape = (replicas, machine.layers.columns)
                noise = torch.randn(shape, generator=stream(4, name, kind), dtype=dtype)
                machine = Machine(machine.couplings, 0.3 * noise)
            yield f"{name}-{kind}", machine


def _listed(unit: Unit) -> bool:
    """Whether a kind of unit has a list of states."""
    return unit.count(unit.columns(1)) is not None


@torch.no_grad()
def exact_distribution(machine: Machine, beta: float = 1.0) -> tuple[Tensor, Tensor]:
    """All configurations and their probabilities, by brute force over every unit.

    Parameters
    ----------
    machine : Machine
        A machine of at most 2^20 states.
    beta : float, default 1.0
        Inverse temperature.

    Returns
    -------
    configurations : Tensor of shape (x, n)
        All states.
    probabilities : Tensor of shape (e, x), float64
        Their Boltzmann weights.

    Raises
    ------
    InputError
        If the machine has more states, or some of its units no list of them.
    """
    layers, each = machine.layers, tuple(range(len(machine.layers.sizes)))
    count = layers.count(each)
    if count is None or count > 2**20:
        states = "none that can be listed" if count is None else f"{count:,}"
        raise InputError(
            f"brute force is for machines of at most 2^20 states, and this one of {layers.words} has "
            f"{states}; take a smaller one of units whose states are listed"
        )
    everything = layers.states(each, torch.arange(count, device=machine.device))
    energy = machine.energy(everything).double()
    return everything.to(machine.dtype), torch.softmax(-beta * energy, 1)


def check_negative_phase(
    negative: NegativePhase, machine: Machine, *, seed: int = 0, batch: int = 5
) -> None:
    """Checks the contract of `rapidbm.NegativePhase` on one machine.

    Shapes; weights that sum to one; inputs that are not changed; chains that keep their shape; the same
    bits for the same seed. Of a phase with `split`: parts that are phases themselves, with shares that
    sum to one.

    Parameters
    ----------
    negative : NegativePhase
        The phase to check.
    machine : Machine
        A machine of units of any kind.
    seed : int, default 0
        Seed of data and phase.
    batch : int, default 5
        Rows of the batch.

    Raises
    ------
    AssertionError
        With what was broken.
    """
    e, n, v = machine.replicas, machine.layers.columns, machine.visible
    rng = stream(seed, "data", device=machine.device)
    if machine.layers.spins:
        data = SPIN.random((e, batch, v), rng, machine.dtype)
    else:
        data = machine.random(batch, rng)[..., :v]
    before = {name: p.detach().clone() for name, p in machine.named_parameters()}

    def run() -> tuple[Tensor, Tensor, Tensor]:
        rng = stream(seed, "check", device=machine.device)
        chains = negative.init(machine, rng)
        assert chains.dim() == 3, f"chains are (e, c, n), not {tuple(chains.shape)}"
        assert chains.shape[0] == e, f"chains have {chains.shape[0]} replicas, the machine has {e}"
        assert chains.shape[2] >= n, f"chains have {chains.shape[2]} units, the machine has {n}"
        given, batch_before = chains.clone(), data.clone()
        weighted, after = negative.step(machine, chains, data, rng)
        assert torch.equal(chains, given), "step changed the chains it was given"
        assert torch.equal(data, batch_before), "step changed the data it was given"
        assert after.shape == chains.shape, "step changed the number of chains"
        for name, parameter in machine.named_parameters():
            assert torch.equal(parameter, before[name]), f"step changed the parameter {name}"
        return weighted.spins, weighted.weights, after

    spins, weights, chains = run()
    assert spins.dim() == 3, f"spins are (e, c, n), not {tuple(spins.shape)}"
    assert spins.shape[::2] == (e, n), f"spins are ({e}, c, {n}), not {tuple(spins.shape)}"
    assert weights.shape == spins.shape[:2], "weights are (e, c), one for each configuration"
    assert bool((weights >= 0).all()), "weights are not negative"
    total = weights.double().sum(1)
    assert bool(((total - 1).abs() < 1e-5).all()), f"weights sum to one, not {total.tolist()}"
    _check_means(machine, spins)
    again = run()
    same = all(torch.equal(a, b) for a, b in zip((spins, weights, chains), again, strict=True))
    assert same, "the same seed must give the same bits"
    if isinstance(negative, Splits):
        for count in (1, 2, 5):
            _check_parts(negative.split(machine, count), machine, count, seed)


def _check_means(machine: Machine, spins: Tensor) -> None:
    """States and means of spins lie in [−1, 1]; of other listed units between the lowest and the highest
    value of their columns, and where columns sum to one so do the means."""
    assert bool(spins.isfinite().all()), "states and means are finite"
    for layer, where in enumerate(machine.layers.slices):
        unit, part, size = machine.unit(layer), spins[..., where], machine.layers.sizes[layer]
        _, one = next(iter(unit.one_by_one(size)))
        columns = one.columns(1)
        count = one.count(columns)
        if count is None:
            continue
        states = one.states(columns, torch.arange(count))
        low, high = float(states.min()), float(states.max())
        words = f"{'spins' if unit == SPIN else 'states'} and means lie in [{low:g}, {high:g}]"
        inside = (part >= low - 1e-6) & (part <= high + 1e-6)
        assert bool(inside.all()), words.replace("-", "−")
        if unit.gauge(part) is not None:
            sums = unit.per_unit(part)
            assert bool(((sums - 1).abs() < 1e-5).all()), "the columns of each unit sum to one"


def _check_parts(parts: SplitPhases, machine: Machine, count: int, seed: int) -> None:
    assert len(parts) == count, f"split into {count} answers with as many phases, not {len(parts)}"
    shares = [share for _, share in parts]
    if any(share is None for share in shares):  # each has that of its images
        assert all(share is None for share in shares), "either all shares are those of images or none"
    else:
        total = sum(share for share in shares if share is not None)
        assert abs(total - 1) < 1e-9, f"the shares of the parts sum to one, not {total}"
    for phase, share in parts:
        if share != 0:
            chains = phase.init(machine, stream(seed, "part", device=machine.device))
            assert chains.dim() == 3, "a part has chains (e, c, n), as the whole phase has"


def check_sampler(
    sampler: Checked,
    machine: Machine,
    *,
    beta: float = 1.0,
    sweeps: int | None = None,
    chains: int = 40_000,
    seed: int = 0,
) -> None:
    """Checks the contract of `rapidbm.Sampler` on one machine.

    Shapes, states of the units, inputs that are not changed, the same bits for the same seed, and for
    every replica a χ² test of the final states against enumeration. A correct sampler fails in at most
    one of a million calls.

    Parameters
    ----------
    sampler : Sampler or callable
        The sampler, or a function (machine, spins, rng) -> spins. A function with a fourth argument gets
        β; everything else gets a machine scaled by β.
    machine : Machine
        A machine of at most 2^16 states, of units of any kind that has a list of them.
    beta : float, default 1.0
        Inverse temperature.
    sweeps : int, optional
        Steps of each chain; by default 3 from exact draws, 30 for samplers that start by themselves.
    chains : int, default 40_000
        Number of chains; more show smaller errors.
    seed : int, default 0
        Seed of the chains.

    Raises
    ------
    AssertionError
        With what was broken.
    """
    for replica, p in enumerate(sampler_p_values(sampler, machine, beta, sweeps, chains, seed)):
        assert p > SMALLEST_P, (
            f"replica {replica}: the sampler's states differ from the exact distribution at β = "
            f"{beta}, p = {p:.1e} with {chains} chains"
        )
    few = [_final(*_adapted(sampler, machine, beta), sweeps, 8, seed, None) for _ in range(2)]
    assert torch.equal(*few), "the same seed must give the same bits"


def sampler_p_values(
    sampler: Checked,
    machine: Machine,
    beta: float = 1.0,
    sweeps: int | None = None,
    chains: int = 40_000,
    seed: int = 0,
) -> list[float]:
    """The p-values of the χ² test of a sampler against enumeration.

    Parameters
    ----------
    sampler : Sampler or callable
        The sampler, as in `check_sampler`.
    machine : Machine
        A machine of at most 2^16 states, of units of any kind that has a list of them.
    beta : float, default 1.0
        Inverse temperature.
    sweeps : int, optional
        Steps of each chain.
    chains : int, default 40_000
        Number of chains.
    seed : int, default 0
        Seed of the chains.

    Returns
    -------
    list of float
        One per replica.
    """
    check_states(machine.layers, largest=2**16, what="the test of a sampler")
    everything, exact = exact_distribution(machine, beta)
    before = {name: p.detach().clone() for name, p in machine.named_parameters()}
    spins = _final(*_adapted(sampler, machine, beta), sweeps, chains, seed, (everything, exact))
    for name, parameter in machine.named_parameters():
        assert torch.equal(parameter, before[name]), f"the sampler changed the parameter {name}"
    found = _numbers(machine, everything, spins)
    return [
        chi_squared(found[e].bincount(minlength=len(everything)), exact[e]) for e in range(len(exact))
    ]


def _numbers(machine: Machine, everything: Tensor, spins: Tensor) -> Tensor:
    """The number of the state of each configuration (e, c, n), (e, c)."""
    if machine.layers.spins:
        bits = (spins > 0).long()
        powers = 2 ** torch.arange(bits.shape[2] - 1, -1, -1, device=bits.device)
        return (bits * powers).sum(2)
    found, mine = torch.zeros_like(spins[..., 0]).long(), torch.zeros_like(everything[:, 0]).long()
    size = 1
    for column, values in zip(everything.unbind(1), spins.unbind(2), strict=True):
        levels = torch.tensor(sorted(set(column.tolist()))).to(column)
        mine += size * torch.searchsorted(levels, column.contiguous())
        found += size * torch.searchsorted(levels, values.contiguous())
        size *= len(levels)
    order = torch.argsort(mine)  # of the states among all values of the columns
    return order[torch.searchsorted(mine[order], found).clamp(max=len(order) - 1)]


def _check_states(machine: Machine, spins: Tensor) -> None:
    """Of a hidden unit 0 alone would count as unknown, so that layers are asked one by one."""
    if machine.layers.spins:
        assert bool((spins.abs() == 1).all()), "a sweep returns spins, ±1"
        return
    for layer, where in enumerate(machine.layers.slices):
        try:
            machine.unit(layer).encode_columns(spins[..., where], what=f"layer {layer}")
        except InputError as error:
            raise AssertionError(f"a sweep returns states of the units: {error}") from error
        assert not bool(machine.unit(layer).unknown(spins[..., where]).any()), "no unit is unknown"


def _adapted(sampler: Checked, machine: Machine, beta: float) -> tuple[Sampler[Any], Machine]:
    """A sampler, and the machine that it samples at β = 1."""
    if not isinstance(sampler, Sampler) and callable(sampler):
        places = inspect.signature(sampler).parameters.values()
        if sum(x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD) for x in places) > 3:
            return Moves(lambda m, spins, rng: sampler(m, spins, rng, beta)), machine
    return as_sampler(sampler), machine if beta == 1.0 else scaled(machine, beta)


def _final(
    sampler: Sampler[Any],
    machine: Machine,
    sweeps: int | None,
    chains: int,
    seed: int,
    exact: tuple[Tensor, Tensor] | None,
) -> Tensor:
    """The spins of all chains in the end; from draws of the `exact` states and probabilities where the
    state of a sampler is its spins."""
    shape, dtype = (machine.replicas, chains, machine.layers.columns), machine.dtype
    state = sampler.init(machine, chains, stream(seed, "start", device=machine.device))
    rng = stream(seed, "sampler", device=machine.device)
    own = not isinstance(state, Tensor)
    steps = min(sampler.steps, STEPS if own else SWEEPS) if sweeps is None else sweeps
    if exact is not None and not own and steps:
        everything, p = exact
        state = everything[torch.multinomial(p, chains, replacement=True, generator=rng)]
    spins = sampler.spins(state)
    for _ in range(steps):
        before = spins.clone()
        after = sampler.step(machine, state, rng)
        assert torch.equal(sampler.spins(state), before), "a sweep leaves its input as it is"
        state, spins = after, sampler.spins(after)
        _check_states(machine, spins)
    assert spins.shape == shape, f"a sampler answers spins {shape}, not {tuple(spins.shape)}"
    assert spins.dtype == dtype, f"the machine's spins are {dtype}, not {spins.dtype}"
    return spins


def chi_squared(counts: Tensor, probabilities: Tensor) -> float:
    """The p-value of a χ² test of counts against probabilities; rare states are pooled.

    Parameters
    ----------
    counts : Tensor of shape (x,)
        How often each state occurred.
    probabilities : Tensor of shape (x,)
        Their probabilities.

    Returns
    -------
    float
        From 0 to 1.
    """
    counts, probabilities = counts.cpu(), probabilities.cpu()
    expected = probabilities.double() * counts.sum()
    often = expected >= 10
    kept = torch.cat([counts[often].double(), counts[~often].sum()[None].double()])
    wanted = torch.cat([expected[often], expected[~often].sum()[None]])
    if float(wanted[-1]) < 10:  # too rare even together: count them with the last of the others
        kept = torch.cat([kept[:-2], kept[-2:].sum()[None]])
        wanted = torch.cat([wanted[:-2], wanted[-2:].sum()[None]])
    statistic = ((kept - wanted).square() / wanted).sum()
    freedom = torch.tensor((len(kept) - 1) / 2.0, dtype=torch.float64)
    return float(torch.special.gammaincc(freedom, statistic / 2.0))
