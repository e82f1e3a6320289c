"""Units of every kind in every graph: energies, fields, gradients, sums and moments against code that
knows nothing of units but their states (kinds.py), and that what comes in is checked."""

import itertools

import pytest
import torch

import rapidbm as rb
from kinds import (
    COUNTS,
    choices,
    energy_by_hand,
    log_p_by_hand,
    log_z_by_hand,
    machines,
    make,
    moments_by_hand,
    random_rows,
    random_states,
    randomised,
    real_columns,
    states_by_hand,
)
from rapidbm.errors import InputError
from rapidbm.machines import trusted
from rapidbm.machines.gauge import fix_gauge, has_gauge
from rapidbm.machines.units import categorical
from rapidbm.random import stream

EVERY = [*machines()]
RBM_OR_BM = [*machines(graphs=("rbm", "bm"))]


def near(found, wanted, limit=1e-10):
    assert torch.allclose(found, wanted.to(found), rtol=limit, atol=limit), (found, wanted)


@pytest.mark.parametrize("machine", EVERY)
def test_energies_and_fields_by_hand(machine):
    x = random_states(machine, 7)
    fields = trusted.fields(machine, x)
    for e in range(machine.replicas):
        near(machine.energy(x)[e], energy_by_hand(machine, e, x[e]))
        at = x[e].clone().requires_grad_()
        (slope,) = torch.autograd.grad(energy_by_hand(machine, e, at, of_units=False).sum(), at)
        near(fields[e], -slope)
    for layer, where in enumerate(machine.layers.slices):
        near(machine.field(x, layer), fields[..., where])


@pytest.mark.parametrize("beta", [1.0, 0.6])
@pytest.mark.parametrize("machine", EVERY)
def test_log_z_log_p_and_free_energies_by_hand(machine, beta):
    found = rb.log_z(machine, method="exact", beta=beta).value
    near(found, log_z_by_hand(machine, beta))
    rows = random_rows(machine, 6)
    by_hand = log_p_by_hand(machine, rows, beta)
    near(machine.log_prob_unnormalised(rows, beta) - found[:, None], by_hand)
    near(-beta * machine.free_energy(rows, beta) - found[:, None], by_hand)
    near(rb.log_likelihood(machine, rows, method="exact", beta=beta).value, by_hand.mean(1))


@pytest.mark.parametrize("machine", EVERY)
def test_p_sums_to_one_over_what_is_visible(machine):
    """Real columns by the trapezoid rule, exact to rounding for smooth functions that fall off."""
    rows = states_by_hand(machine, machine.layers.visible)
    cell = 1.0
    for column in (i for i in real_columns(machine) if i < machine.visible):
        grid = torch.arange(-14.0, 14.0, 0.25, dtype=torch.float64)
        rows = rows.repeat_interleave(len(grid), 0)
        rows[:, column] = grid.repeat(len(rows) // len(grid))
        cell *= 0.25
    logs = machine.log_prob_unnormalised(rows) - rb.log_z(machine, method="exact").value[:, None]
    near(logs.exp().sum(1) * cell, torch.ones(machine.replicas), 1e-9)


@pytest.mark.parametrize("machine", EVERY)
def test_the_gradient_is_that_of_the_likelihood_by_hand(machine):
    rows = random_rows(machine, 5)
    rng = stream(0)
    independent = machine.layers.hidden_independent
    positives = [rb.Enumerated(), *([rb.ConditionalMean()] if independent else [])]
    named = dict(machine.named_parameters())
    by_hand = log_p_by_hand(machine, rows).mean(1).sum()
    wanted = torch.autograd.grad(by_hand, [*named.values()], materialize_grads=True)
    model, _ = rb.Exact().step(machine, rb.Exact().init(machine, rng), rows, rng)
    data = rows.expand(machine.replicas, -1, -1)
    for positive in positives:
        found = rb.log_likelihood_gradient(machine, positive.step(machine, data, rng), model)
        assert found.keys() == named.keys()
        for name, gradient in zip(named, wanted, strict=True):
            near(found[name], gradient)


@pytest.mark.parametrize("beta", [1.0, 0.6])
@pytest.mark.parametrize("machine", EVERY)
def test_exact_moments_by_hand(machine, beta):
    found = rb.exact_moments(machine, beta=beta)
    for e in range(machine.replicas):
        mean, pairs = moments_by_hand(machine, e, beta)
        near(found.mean[e], mean)
        near(found.pairs[e], pairs)


@pytest.mark.parametrize("machine", EVERY)
def test_all_states_are_weighted_as_by_hand(machine):
    """What the exact phase answers, written down: means of configurations under its weights."""
    states, _ = rb.Exact().step(machine, rb.Exact().init(machine, stream(0)), None, stream(0))
    whole = states.whole()
    near(whole.weights.sum(1), torch.ones(machine.replicas))
    for e in range(machine.replicas):
        near(whole.weights[e] @ whole.spins[e], moments_by_hand(machine, e)[0])


# -- the same machine in other units ----------------------------------------------------------------


def rewritten(machine, low):
    """A machine of units at (low, 1) in its layer 0 as one of units in two states, one-hot: the energies
    are the same."""
    layers, size = machine.layers, machine.layers.sizes[0]
    spread = torch.zeros((2 * size, size), dtype=machine.dtype)  # columns to units
    for i in range(size):
        spread[2 * i, i], spread[2 * i + 1, i] = low, 1.0
    kinds = (rb.Categorical(2), *layers.kinds[1:])
    wide = rb.Layers((2 * size, *layers.sizes[1:]), layers.edges, kinds)

    def columns(values):
        return torch.cat([values[..., :size] @ spread.T, values[..., size:]], -1).detach()

    if machine.patterns is not None:
        couplings = rb.Patterns(wide, columns(machine.patterns))
    else:
        weights = {}
        for a, b in layers.edges:
            weight = machine.couplings.matrix(a, b).detach()
            weight = spread @ weight if a == 0 else weight
            weights[a, b] = weight @ spread.T if b == 0 else weight
        couplings = rb.Dense(wide, weights)
    return rb.Machine(couplings, columns(machine.biases))


@pytest.mark.parametrize("patterns", [None, 2])
@pytest.mark.parametrize("graph", ["rbm", "dbm", "bm"])
@pytest.mark.parametrize("kind", ["spin", "binary"])
def test_two_categories_are_a_spin_and_a_binary_unit(kind, graph, patterns):
    machine = randomised(make(graph, "visible", kind, patterns))
    other = rewritten(machine, -1.0 if kind == "spin" else 0.0)
    size = machine.layers.sizes[0]
    bits = torch.cartesian_prod(*[torch.arange(2.0, dtype=torch.float64)] * size)
    hidden = random_states(machine, len(bits))[..., size:]
    codes = bits.repeat_interleave(2, 1)
    codes[:, ::2] = 1.0 - bits
    states = 2.0 * bits - 1.0 if kind == "spin" else bits
    energies = machine.energy(torch.cat([states.expand(2, -1, -1), hidden], -1))
    same = other.energy(torch.cat([codes.expand(2, -1, -1), hidden], -1))
    near(same - same[:, :1], energies - energies[:, :1], 1e-12)
    z, of_other = (rb.log_z(m, method="exact").value for m in (machine, other))
    near(of_other, z, 1e-12)
    near(
        other.log_prob_unnormalised(bits) - of_other[:, None],
        machine.log_prob_unnormalised(bits) - z[:, None],
        1e-12,
    )


def test_free_energies_are_those_of_the_potts_machine_of_rbms():
    potts = pytest.importorskip("rbms.potts_bernoulli.classes")
    rng = stream(0)
    weights, vbias, hbias = (torch.randn(shape, generator=rng) for shape in ((5, 4, 6), (5, 4), (6,)))
    theirs = potts.PBRBM(weights, vbias, hbias)
    machine = rb.rbm(5, 6, units=rb.Categorical(4), hidden_units=rb.Binary(), biases=True, seed=0)
    machine.couplings.weights["0-1"].data.copy_(weights.reshape(1, 20, 6))
    machine.biases.data.copy_(torch.cat([vbias.flatten(), hbias])[None])
    codes = torch.randint(4, (50, 5), generator=rng)
    assert torch.allclose(
        machine.free_energy(codes)[0].float(), theirs.compute_energy_visibles(codes), atol=1e-5, rtol=1e-5
    )
    fix_gauge(machine)
    found = machine.free_energy(codes)[0].float()
    wanted = theirs.compute_energy_visibles(codes)
    assert torch.allclose(found - found[0], wanted - wanted[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("patterns", [1, 3])
def test_gaussian_hidden_units_are_the_full_machine_of_as_many_patterns(patterns):
    """∫dz exp(Σ_k z_k m_k K^−¼ − ½z²) ∝ exp((1/2√K) Σ_k m_k²): eq. (1) of sampling/gibbs.py."""
    full = randomised(rb.bm(5, 0, patterns, replicas=2, biases=True, seed=0, dtype=torch.float64))
    restricted = rb.rbm(
        5, patterns, hidden_units=rb.Gaussian(), replicas=2, biases=True, seed=0, dtype=torch.float64
    )
    restricted.couplings.weights["0-1"].data.copy_(full.patterns.detach().mT / patterns**0.25)
    restricted.biases.data.zero_()
    restricted.biases.data[:, :5] = full.biases.detach()
    rows = states_by_hand(full)
    logs = [
        m.log_prob_unnormalised(rows) - rb.log_z(m, method="exact").value[:, None]
        for m in (full, restricted)
    ]
    near(*logs)


# -- gauge ----------------------------------------------------------------------------------------------

GAUGED = [choice for choice in choices() if choice.values[2] in ("categorical", "mixed q", "mixed")]


def largest_sum(machine):
    """The largest sum over the columns of a unit whose columns sum to one, of any parameter."""
    found, slices = [], machine.layers.slices
    for layer, kind in enumerate(machine.layers.kinds):
        if not isinstance(kind, rb.Categorical):
            continue
        where = slices[layer]
        found.append(kind.per_unit(machine.biases.detach()[:, where]))
        if machine.patterns is not None:
            found.append(kind.per_unit(machine.patterns.detach()[..., where]))
            continue
        for a, b in machine.layers.edges:
            if layer in (a, b):
                other = b if layer == a else a
                found.append(kind.per_unit(machine.couplings.matrix(other, layer).detach()))
    return max(float(x.abs().max()) for x in found)


@pytest.mark.parametrize("choice", [choice.values for choice in GAUGED], ids=[c.id for c in GAUGED])
def test_the_gauge_changes_no_probability(choice):
    fresh = make(*choice)
    assert has_gauge(fresh.layers)
    assert largest_sum(fresh) < 1e-15  # at the start
    machine = randomised(fresh)
    rows = random_rows(machine, 9)
    before = machine.log_prob_unnormalised(rows) - rb.log_z(machine, method="exact").value[:, None]
    moments = rb.exact_moments(machine)
    assert largest_sum(machine) > 0.1
    fix_gauge(machine)
    assert largest_sum(machine) < 1e-14
    near(
        machine.log_prob_unnormalised(rows) - rb.log_z(machine, method="exact").value[:, None],
        before,
        1e-12,
    )
    near(rb.exact_moments(machine).pairs, moments.pairs, 1e-12)
    kept = [p.detach().clone() for p in machine.parameters()]
    fix_gauge(machine)
    for old, new in zip(kept, machine.parameters(), strict=True):
        near(new, old, 1e-14)


@pytest.mark.parametrize(
    "optimizer", [rb.sgd(0.05, momentum=0.9), rb.adam(0.05)], ids=["momentum", "adam"]
)
@pytest.mark.parametrize("choice", [choice.values for choice in GAUGED], ids=[c.id for c in GAUGED])
def test_updates_stay_in_the_gauge(choice, optimizer):
    machine = make(*choice)
    rows = random_rows(machine, 12)
    for _ in rb.train(machine, rows, rb.Exact(), optimizer, epochs=3, batch_size=5, seed=0):
        pass
    assert largest_sum(machine) < 1e-14


@pytest.mark.parametrize("kind", ["spin", "binary", "gaussian"])
def test_units_of_one_column_have_no_gauge(kind):
    machine = randomised(make("rbm", "visible", kind))
    before = [p.detach().clone() for p in machine.parameters()]
    assert not has_gauge(machine.layers)
    fix_gauge(machine)
    assert all(map(torch.equal, before, machine.parameters()))


# -- what comes in --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "row", "words"),
    [
        ("categorical", [3, 0], "row 1, unit 0 holds 3"),
        ("categorical", [0, -1], "row 1, unit 1 holds -1"),
        ("categorical", [0.5, 0], "row 1, unit 0 holds 0.5"),
        ("mixed q", [2, 0], "row 1, unit 0 holds 2"),
        ("mixed q", [1, 4], "row 1, unit 1 holds 4"),
        ("categorical", [0, float("nan")], "row 1, unit 1 holds nan"),
        ("gaussian", [float("inf"), 0], "row 1, unit 0 holds inf"),
        ("binary", [0, 2, 1], "row 1, unit 1 holds 2"),
        ("binary", [0, 1, -1], "row 1, unit 2 holds -1"),
        ("categorical", [0, 1, 0, 0, 1, 1], "row 1, unit 1 holds 0, 1, 1"),
        ("categorical", [0, 0, 0, 0, 1, 0], "row 1, unit 0 holds 0, 0, 0"),
        ("mixed q", [0, 1, 0, 0.5, 0.5, 0], "row 1, unit 1 holds 0, 0.5, 0.5, 0"),
        ("mixed", [1, 1, 0, 3, 0.0], "layer 1 .*row 1, unit 1 holds 3"),
        ("mixed", [1, 1, 0, 0, float("nan")], "layer 2 .*row 1, unit 0 holds nan"),
    ],
)
def test_values_that_are_no_states_are_refused_by_their_place(kind, row, words):
    machine = make("rbm", "visible", kind)
    right = [[0.0] * machine.layers.visible_units]
    if len(row) == machine.visible != machine.layers.visible_units:
        right = machine.layers.encode(right).tolist()
    for door in (machine.layers.encode, machine.free_energy, lambda x: rb.log_likelihood(machine, x)):
        with pytest.raises(InputError, match=words):
            door([*right, [float(x) for x in row]])


@pytest.mark.parametrize("kind", [*COUNTS, "mixed"])
def test_rows_of_another_width_are_refused(kind):
    machine = make("rbm", "visible", kind)
    for width in (1, machine.visible + 1):
        with pytest.raises(InputError):
            machine.free_energy(torch.zeros((2, width)))


def test_codes_are_never_taken_for_columns():
    """Three units with the codes 1, 0, 0 look like one unit of three columns."""
    machine = rb.rbm(3, 2, units=rb.Categorical(3), seed=0)
    assert machine.layers.encode([[1, 0, 0]]).tolist() == [[0, 1, 0, 1, 0, 0, 1, 0, 0]]
    assert machine.layers.encode([[0, 1, 0, 1, 0, 0, 1, 0, 0]]).tolist() == [[0, 1, 0, 1, 0, 0, 1, 0, 0]]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float32, torch.bool])
def test_values_of_any_type_are_the_same_rows(dtype):
    machine = make("rbm", "visible", "mixed")
    rows = torch.tensor([[0, 1, 1, 1, 1], [1, 0, 0, 0, 0]])
    wanted = [[-1, 1, 0, 1, 0, 1, 0, 1], [1, -1, 1, 0, 1, 0, 0, 0]]
    assert machine.layers.encode(rows.to(dtype)).tolist() == wanted
    assert machine.layers.encode(rows.to(dtype).numpy()).tolist() == wanted


@pytest.mark.parametrize("kind", [*COUNTS, "mixed"])
def test_decoding_is_the_inverse_of_encoding(kind):
    machine = make("rbm", "visible", kind)
    rows = random_rows(machine, 20)
    values = machine.layers.decode(rows)
    assert values.shape == (20, machine.layers.visible_units)
    near(machine.layers.encode(values), rows, 0.0)
    near(machine.layers.encode(rows), rows, 0.0)


@pytest.mark.parametrize("kind", ["spin", "binary", "categorical", "mixed q"])
@pytest.mark.parametrize("side", ["visible", "hidden"])
def test_configurations_that_are_no_states_are_refused(kind, side):
    machine = randomised(make("rbm", side, kind))
    good = random_states(machine, 3)
    where = machine.layers.slices[0 if side == "visible" else 1]
    for value in (0.5, -1.0 if kind != "spin" else 2.0, 2.0, float("nan")):
        bad = good.clone()
        bad[1, 2, where.start] = value
        for door in (machine.energy, lambda x: rb.sweep(machine, x, seed=0), machine.infer):
            with pytest.raises(InputError):
                door(bad)
    if kind in ("categorical", "mixed q"):
        bad = good.clone()
        bad[1, 2, where.start : where.start + 2] = 1.0
        with pytest.raises(InputError, match="one-hot"):
            machine.energy(bad)


def test_rows_of_columns_that_are_wrong_are_found_in_every_block(monkeypatch):
    monkeypatch.setattr(categorical, "CHECKED", 12)
    unit = categorical.Categorical(3)
    good = unit.of_codes(torch.randint(3, (2, 11, 2), generator=torch.Generator().manual_seed(0)))
    assert torch.equal(unit.encode_columns(good.float(), what="data"), good)
    for row in (0, 5, 10):
        bad = good.clone()
        bad[1, row, 3:] = 1
        with pytest.raises(InputError, match=f"row {row}, unit 1 holds 1, 1, 1"):
            unit.encode_columns(bad, what="data")


@pytest.mark.parametrize("machine", EVERY)
def test_random_configurations_are_states(machine):
    spins = machine.random(200, seed=0)
    assert torch.equal(machine.configuration(spins), spins)
    wanted = states_by_hand(machine)
    listed = [i for i in range(spins.shape[2]) if i not in real_columns(machine)]
    seen = {tuple(row) for row in spins[0][:, listed].tolist()}
    assert seen <= {tuple(row) for row in wanted[:, listed].tolist()}
    for column in listed:  # every value of every column is among them
        assert set(spins[..., column].unique().tolist()) == set(wanted[:, column].tolist())


def test_real_units_are_not_coupled_to_each_other():
    with pytest.raises(InputError, match="not coupled to each other"):
        rb.rbm(3, 2, units=rb.Gaussian(), hidden_units=rb.Gaussian())
    with pytest.raises(InputError, match="not coupled to each other"):
        rb.bm(3, units=rb.Gaussian())
    for unit, count in itertools.product((rb.Categorical((2, 3)),), (1, 3)):
        with pytest.raises(InputError, match="has the states of 2 units"):
            rb.rbm(count, 2, units=unit)
