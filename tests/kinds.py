"""Machines of every kind of unit, and their energies and sums by hand.

Nothing here asks a unit or a layer for a formula: pairs of columns are taken one by one from the
parameters, states are listed unit by unit, and real units are integrated by hand,

    E(x) = − Σ_{i<j} J_ij x_i x_j − Σ_i b_i x_i + Σ_real ½ a_i x_i²                        (1)
    ∫ dx exp β (f x − ½ a x²) = exp(½ β f² / a) √(2π / βa)                                 (2)

with the pairs of one unit left out.
"""

import itertools
import math

import pytest
import torch

import rapidbm as rb
from rapidbm.random import stream

COUNTS = {  # visible or hidden units of each kind
    "spin": (rb.Spin(), 3),
    "binary": (rb.Binary(), 3),
    "categorical": (rb.Categorical(3), 2),
    "mixed q": (rb.Categorical((2, 4)), 2),
    "gaussian": (rb.Gaussian(), 2),
}
SIDE_BY_SIDE = (rb.Spin(), rb.Categorical((2, 3)), rb.Gaussian())
SPIN = rb.Spin()


def randomised(machine, seed=0, size=0.5):
    """The machine itself, with parameters in no gauge and none of them 0, those that are not read too."""
    rng = stream(seed, "parameters")
    for name, p in machine.named_parameters():
        scale = (0.6 if name.startswith("own") else 1.2) * size
        p.data.copy_(scale * torch.randn(p.shape, generator=rng, dtype=torch.float64))
    return machine


def make(graph, side, kind, patterns=None, *, replicas=2, dtype=torch.float64, biases=True):
    """A small machine with this kind of units on one side, spins on the other; None if there is none."""
    more = {"replicas": replicas, "biases": biases, "dtype": dtype, "seed": 0}
    if kind == "mixed":
        kinds = SIDE_BY_SIDE if graph != "bm" else (rb.Spin(), rb.Binary(), rb.Categorical((2, 3)))
        if side == "visible":
            more |= {"units": kinds}
            counts = (2, 2, 1) if graph != "bm" else (2, 1, 2)
            return {
                "rbm": lambda: rb.rbm(counts, 2, patterns, **more),
                "dbm": lambda: rb.dbm(counts, (2, 2), patterns, **more),
                "bm": lambda: rb.bm(counts, 0, patterns, **more),
            }[graph]()
        if graph != "dbm":
            return None
        return rb.dbm(3, (2, 2), patterns, hidden_units=(rb.Categorical(3), rb.Gaussian()), **more)
    unit, count = COUNTS[kind]
    if graph == "bm" and kind == "gaussian":
        return None
    if side == "visible":
        more |= {"units": unit}
        return {
            "rbm": lambda: rb.rbm(count, 2, patterns, **more),
            "dbm": lambda: rb.dbm(count, (2, 2), patterns, **more),
            "bm": lambda: rb.bm(count, 1, patterns, **more),
        }[graph]()
    return {
        "rbm": lambda: rb.rbm(3, count, patterns, hidden_units=unit, **more),
        "dbm": lambda: rb.dbm(3, (count, 2), patterns, hidden_units=(unit, SPIN), **more),
        "bm": lambda: rb.bm(2, count, patterns, hidden_units=unit, **more),
    }[graph]()


def choices(graphs=("rbm", "dbm", "bm"), couplings=("dense", "patterns"), sides=("visible", "hidden")):
    """(graph, side, kind, number of patterns) of every machine that exists."""
    for graph, side, kind, how in itertools.product(graphs, sides, [*COUNTS, "mixed"], couplings):
        patterns = None if how == "dense" else 2
        if make(graph, side, kind, patterns) is not None:
            yield pytest.param(graph, side, kind, patterns, id=f"{graph}-{how}-{side}-{kind}")


def machines(**which):
    """The machines as parameters of a test."""
    for choice in choices(**which):
        yield pytest.param(randomised(make(*choice.values)), id=choice.id)


# -- by hand --------------------------------------------------------------------------------------------


def levels(unit):
    """The states of one unit of a kind with one column each, real ones as (0,) alone."""
    if isinstance(unit, rb.Levels):
        return [(x,) for x in unit.values]
    return {"spin": [(-1.0,), (1.0,)], "binary": [(0.0,), (1.0,)], "gaussian": [(0.0,)]}[unit.kind]


def units_of(machine):
    """(layer, its columns, its states) of every unit, in order."""
    found, column = [], 0
    for layer, (kind, size) in enumerate(zip(machine.layers.kinds, machine.layers.sizes, strict=True)):
        stop = column + size
        if kind.kind == "categorical":
            each = [kind.q] * (size // kind.q) if isinstance(kind.q, int) else kind.q
            for q in each:
                states = [tuple(float(a == b) for b in range(q)) for a in range(q)]
                found.append((layer, list(range(column, column + q)), states))
                column += q
        else:
            found += [(layer, [i], levels(kind)) for i in range(column, stop)]
        column = stop
    return found


def real_columns(machine):
    return [c[0] for layer, c, _ in units_of(machine) if machine.layers.kinds[layer].kind == "gaussian"]


def couplings_by_hand(machine, replica):
    """J of every pair once, above the diagonal, (n, n)."""
    units, layers = units_of(machine), machine.layers
    starts = [sum(layers.sizes[:i]) for i in range(len(layers.sizes))]
    rows, columns, values = [], [], []
    for (a, mine, _), (b, theirs, _) in itertools.combinations(units, 2):
        for i, j in itertools.product(mine, theirs):
            if (a, b) in layers.edges:
                rows.append(i)
                columns.append(j)
                if machine.patterns is None:
                    weight = machine.couplings.weights[f"{a}-{b}"][replica]
                    values.append(weight[i - starts[a], j - starts[b]])
                else:
                    xi = machine.patterns[replica]
                    values.append((xi[:, i] * xi[:, j]).sum() / math.sqrt(len(xi)))
    n = layers.columns
    empty = torch.zeros((n, n), dtype=machine.dtype)
    return empty.index_put((torch.tensor(rows), torch.tensor(columns)), torch.stack(values))


def precisions_by_hand(machine, replica):
    """a of the real columns, 0 of the others, (n,)."""
    parts = []
    for layer, (kind, size) in enumerate(zip(machine.layers.kinds, machine.layers.sizes, strict=True)):
        if kind.kind == "gaussian":
            parts.append(machine.own[str(layer)][replica, 0].exp())
        else:
            parts.append(torch.zeros(size, dtype=machine.dtype))
    return torch.cat(parts)


def energy_by_hand(machine, replica, x, *, of_units=True):
    """Eq. (1), (…,), of configurations (…, n); with or without the last sum."""
    energy = -((x @ couplings_by_hand(machine, replica)) * x).sum(-1)
    if machine.biases is not None:
        energy = energy - x @ machine.biases[replica]
    return energy + 0.5 * x.square() @ precisions_by_hand(machine, replica) if of_units else energy


def states_by_hand(machine, layers=None):
    """All states of the units of these layers side by side, (s, columns), real ones at 0."""
    chosen = [unit for unit in units_of(machine) if layers is None or unit[0] in layers]
    rows = [sum(states, ()) for states in itertools.product(*(s for _, _, s in chosen))]
    return torch.tensor(rows, dtype=torch.float64)


def terms_by_hand(machine, replica, rows=None, beta=1.0):
    """log of every term of the sum over what is not given in the visible rows (r, v), real units
    integrated, and the configurations with these at their means: (r, s) and (r, s, n)."""
    hidden = [i for i in range(len(machine.layers.sizes)) if i >= machine.layers.seen]
    if rows is None:
        x = states_by_hand(machine)[None]
        real = real_columns(machine)
    else:
        rest = states_by_hand(machine, hidden)
        rest = rest[None].expand(len(rows), -1, -1)
        x = torch.cat([rows[:, None].expand(-1, rest.shape[1], -1).double(), rest], -1)
        real = [i for i in real_columns(machine) if i >= rows.shape[1]]
    logs = -beta * energy_by_hand(machine, replica, x)
    if real:
        j = couplings_by_hand(machine, replica)
        field = x @ (j + j.T)[:, real]
        if machine.biases is not None:
            field = field + machine.biases[replica, real]
        a = precisions_by_hand(machine, replica)[real]
        logs = logs + (0.5 * beta * field.square() / a + 0.5 * torch.log(2 * math.pi / (beta * a))).sum(
            -1
        )
        x = x.clone()
        x[..., real] = (field / a).detach()
    return logs, x


def log_z_by_hand(machine, beta=1.0):
    logs = [terms_by_hand(machine, e, None, beta)[0] for e in range(machine.replicas)]
    return torch.stack([torch.logsumexp(x.flatten(), 0) for x in logs])


def log_p_by_hand(machine, rows, beta=1.0):
    """log p of visible columns (r, v), (e, r)."""
    each = [torch.logsumexp(terms_by_hand(machine, e, rows, beta)[0], 1) for e in range(machine.replicas)]
    return torch.stack(each) - log_z_by_hand(machine, beta)[:, None]


def moments_by_hand(machine, replica, beta=1.0):
    """⟨x_i⟩ and ⟨x_i x_j⟩ of the columns, (n,) and (n, n)."""
    logs, x = terms_by_hand(machine, replica, None, beta)
    p = torch.softmax(logs[0], 0)
    pairs = (x[0] * p[:, None]).T @ x[0]
    for i in real_columns(machine):
        pairs[i, i] += 1.0 / (beta * precisions_by_hand(machine, replica)[i])
    return p @ x[0], pairs


def random_rows(machine, count, seed=0):
    """Visible columns of random states, real ones normal, (count, v)."""
    rng = stream(seed, "rows")
    parts = []
    for layer, columns, states in units_of(machine):
        if layer >= machine.layers.seen:
            continue
        if machine.layers.kinds[layer].kind == "gaussian":
            parts.append(torch.randn((count, 1), generator=rng, dtype=torch.float64))
        else:
            picked = torch.randint(len(states), (count,), generator=rng)
            parts.append(torch.tensor(states, dtype=torch.float64)[picked].reshape(count, len(columns)))
    return torch.cat(parts, 1)


def random_states(machine, count, seed=0):
    """Columns of all layers, (e, count, n)."""
    rng = stream(seed, "states")
    parts = []
    for layer, _, states in units_of(machine):
        shape = (machine.replicas, count)
        if machine.layers.kinds[layer].kind == "gaussian":
            parts.append(torch.randn((*shape, 1), generator=rng, dtype=torch.float64))
        else:
            picked = torch.randint(len(states), shape, generator=rng)
            parts.append(torch.tensor(states, dtype=torch.float64)[picked])
    return torch.cat(parts, -1)
