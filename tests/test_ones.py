"""One-hot columns as sums of rows: the same fields, states and gradients as by products, and draws with
the right probabilities."""

import pytest
import torch

import rapidbm as rb
from rapidbm.accel import elementwise
from rapidbm.accel.executors import Eager
from rapidbm.machines import trusted
from rapidbm.sampling import gibbs
from rapidbm.training.negative import Persistent
from rapidbm.training.optimisers import sgd
from rapidbm.training.trainer import Trainer

SAME, MIXED = rb.Categorical(5), rb.Categorical((3, 6, 4, 5))
MORE = {"biases": True, "seed": 3, "dtype": torch.float64, "scale": 0.7}
MACHINES = {
    "dense": lambda **m: rb.rbm(4, 6, units=SAME, **MORE, **m),
    "dense, mixed q": lambda **m: rb.rbm(4, 6, units=MIXED, **MORE, **m),
    "patterns": lambda **m: rb.rbm(4, 6, 3, units=SAME, **MORE, **m),
    "patterns, mixed q": lambda **m: rb.rbm(4, 6, 3, units=MIXED, **MORE, **m),
    "many patterns": lambda **m: rb.rbm(4, 6, 60, units=SAME, **MORE, **m),
    "two categorical layers": lambda **m: rb.rbm(4, 3, units=SAME, hidden_units=SAME, **MORE, **m),
    "deep": lambda **m: rb.dbm(4, (6, 3), 3, units=MIXED, **MORE, **m),
    "full": lambda **m: rb.bm(4, 3, 3, units=SAME, **MORE, **m),
}
each_machine = pytest.mark.parametrize("made", MACHINES.values(), ids=MACHINES)
both_counts = pytest.mark.parametrize("replicas", [1, 3])


def rng(seed: int = 5) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(machine, chains=7):
    """Chains, and the ones of every categorical layer."""
    spins = machine.random(chains, rng())
    ones = {}
    for layer, where in enumerate(machine.layers.slices):
        if isinstance(machine.unit(layer), rb.Categorical):
            part = spins[..., where]
            units = machine.unit(layer).units(part.shape[-1])
            ones[layer] = part.nonzero()[:, -1].reshape(*part.shape[:-1], units)
    return spins, ones


@pytest.fixture
def by_products(monkeypatch):
    """Switches sums of rows off."""

    def off():
        monkeypatch.setattr(gibbs, "FEWER", 10**9)

    return off


@both_counts
@pytest.mark.parametrize("transposed", [False, True])
def test_a_sum_of_rows_is_the_product(replicas, transposed):
    ones = torch.randint(4, (replicas, 9, 6), generator=rng()) + 4 * torch.arange(6)
    columns = torch.zeros(replicas, 9, 24, dtype=torch.float64).scatter_(-1, ones, 1.0)
    matrix = torch.randn(replicas, 5, 24, dtype=torch.float64, generator=rng()).mT
    matrix = matrix if transposed else matrix.contiguous()
    found = elementwise.product(columns, matrix, ones)
    assert torch.allclose(found, columns @ matrix, rtol=0, atol=1e-13)
    assert not torch.allclose(elementwise.product(columns, matrix, ones.roll(1, 1)), found)


@pytest.fixture
def looks(monkeypatch):
    """Products small enough for a test are looked into; answers what was found each time."""
    monkeypatch.setattr(elementwise, "WIDE", 1)
    monkeypatch.setattr(elementwise, "MANY", 1)
    found, real = [], elementwise.one_hot_columns

    def noted(columns, count):
        ones = real(columns, count)
        found.append(ones is not None)
        return ones

    monkeypatch.setattr(elementwise, "one_hot_columns", noted)
    return found


@both_counts
def test_products_find_theone_hot_columns_states_and_of_nothing_else(replicas, looks):
    ones = torch.randint(4, (replicas, 9, 6), generator=rng()) + 4 * torch.arange(6)
    columns = torch.zeros(replicas, 9, 24, dtype=torch.float64).scatter_(-1, ones, 1.0)
    matrix = torch.randn(replicas, 24, 5, dtype=torch.float64, generator=rng())
    others = torch.randn(replicas, 9, 5, dtype=torch.float64, generator=rng())
    means, negative, uneven = columns.clone(), columns.clone(), columns.clone()
    means[0, 3, :2] = 0.5
    negative[0, 3, 5] = -1.0
    uneven[0, 3], uneven[0, 4] = 0.0, 1.0
    uneven[0, 4, ::2] = 0.0  # twelve ones here and none there: as many together
    for values, states in ((columns, True), (means, False), (negative, False), (uneven, False)):
        looks.clear()
        quick = elementwise.product(values, matrix, count=6), elementwise.moment(values, others, 6)
        assert looks == [states, states]
        assert torch.allclose(quick[0], values @ matrix, rtol=0, atol=1e-13)
        assert torch.allclose(quick[1], values.mT @ others, rtol=0, atol=1e-13)


def test_a_product_that_autograd_follows_stays_one(looks):
    columns, matrix = torch.eye(6)[None], torch.zeros(1, 6, 5).requires_grad_()
    elementwise.product(columns, matrix, count=1).sum().backward()
    assert torch.equal(matrix.grad, torch.ones(1, 6, 5))
    assert not looks


@each_machine
@both_counts
def test_fields_and_gradients_of_states_are_those_of_products(made, replicas, looks):
    machine = made(replicas=replicas).requires_grad_(False)
    spins, _ = drawn(machine)
    weights = torch.rand(spins.shape[:2], generator=rng(), dtype=spins.dtype)
    quick = trusted.fields(machine, spins), machine.gradient_over(spins, weights)
    assert any(looks) == (machine.couplings.kind == "dense")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elementwise, "WIDE", 10**9)
        plain = trusted.fields(machine, spins), machine.gradient_over(spins, weights)
    assert torch.allclose(quick[0], plain[0], rtol=0, atol=1e-12)
    for name, value in plain[1].items():
        assert torch.allclose(quick[1][name], value, rtol=0, atol=1e-12), name


def test_spins_are_never_looked_at(looks):
    machine = rb.rbm(40, 30, biases=True, seed=1)
    trainer = Trainer(
        machine,
        torch.ones(20, 40),
        Persistent(6, 2),
        sgd(0.05),
        epochs=9,
        batch_size=10,
        seed=1,
    )
    trainer.step()
    assert not looks


@each_machine
@both_counts
def test_fields_from_ones_are_fields(made, replicas):
    machine = made(replicas=replicas)
    spins, ones = drawn(machine)
    assert ones
    for layer in range(len(machine.layers.sizes)):
        plain = machine.couplings.field(spins, layer)
        quick = machine.couplings.field(torch.full_like(spins, torch.nan), layer, ones=ones)
        rest = [i for i in machine.layers.neighbours(layer) if i not in ones]
        if rest or machine.layers.self_coupled(layer):  # these do need the configuration
            quick = machine.couplings.field(spins, layer, ones=ones)
        assert torch.allclose(quick, plain, rtol=0, atol=1e-12)


@each_machine
@both_counts
def test_sweeps_by_sums_of_rows_draw_the_same_states(made, replicas, by_products):
    machine = made(replicas=replicas)
    start = machine.random(40, rng(1))
    clamp = torch.arange(machine.layers.columns) < machine.visible
    quick = [
        gibbs.run_sweeps(machine, start, rng(), 3),
        gibbs.run_sweeps(machine, start, rng(), 3, beta=0.4),
        gibbs.run_sweeps(machine, start, rng(), 3, clamp=clamp),
    ]
    by_products()
    assert torch.equal(quick[0], gibbs.run_sweeps(machine, start, rng(), 3))
    assert torch.equal(quick[1], gibbs.run_sweeps(machine, start, rng(), 3, beta=0.4))
    assert torch.equal(quick[2], gibbs.run_sweeps(machine, start, rng(), 3, clamp=clamp))


COUPLED = {  # to themselves, and drawn unit by unit
    "one layer": lambda **m: rb.bm(4, units=SAME, **MORE, **m),
    "mixed q": lambda **m: rb.bm(4, units=MIXED, **MORE, **m),
    "two layers": lambda **m: rb.bm(4, 3, units=MIXED, hidden_units=SAME, **MORE, **m),
}


@pytest.fixture
def ways(monkeypatch):
    """Which way each layer was drawn unit by unit."""
    found = []
    for name in ("_by_rows", "_by_products"):
        real = getattr(gibbs, name)

        def noted(*given, name=name, real=real):
            found.append(name)
            real(*given)

        monkeypatch.setattr(gibbs, name, noted)
    return found


@pytest.mark.parametrize("made", COUPLED.values(), ids=COUPLED)
@both_counts
def test_units_drawn_one_by_one_from_sums_of_rows_are_those_from_products(made, replicas, monkeypatch):
    machine = made(replicas=replicas)
    start = machine.random(40, rng(1))
    clamp = machine.layers.column_mask(torch.rand(machine.layers.units, generator=rng(2)) < 0.5)
    push = torch.randn(machine.layers.columns, generator=rng(3), dtype=torch.float64)
    every = {"clamp": clamp}, {"push": push}, {"beta": torch.rand(40, generator=rng(4))}, {}

    def ends():
        return [gibbs.run_sweeps(machine, start, rng(), 3, **more) for more in every]

    quick = ends()
    monkeypatch.setattr(gibbs, "one_hot_columns", lambda columns, count: None)
    for mine, theirs in zip(quick, ends(), strict=True):
        assert torch.equal(mine, theirs)
    wrong = made(replicas=replicas)
    wrong.couplings.weights["0-0"].data.mul_(1.5)
    assert not torch.equal(gibbs.run_sweeps(wrong, start, rng(), 3), quick[-1])


def test_units_that_hold_means_are_drawn_from_products(ways):
    machine = COUPLED["two layers"]()
    states = machine.random(40, rng(1))
    gibbs.run_sweeps(machine, states, rng())
    assert ways == ["_by_rows"] * 2
    ways.clear()
    unknown = states.clone()
    unknown[..., machine.visible :] = 0.0  # hidden units, which are drawn first
    ends = gibbs.run_sweeps(machine, unknown, rng())
    assert ways == ["_by_rows", "_by_products", "_by_rows"]
    assert torch.equal(ends, machine.configuration(ends))


def test_columns_of_a_unit_that_stay_alone_are_drawn_from_products(ways):
    machine = COUPLED["one layer"]()
    clamp = torch.zeros(20, dtype=torch.bool)
    clamp[3] = True
    gibbs.run_sweeps(machine, machine.random(40, rng(1)), rng(), clamp=clamp)
    assert ways == ["_by_rows", "_by_products"]


@pytest.mark.parametrize("kind", ["dense", "patterns", "patterns, mixed q"])
def test_means_in_place_of_states_count_as_they_are(kind, by_products):
    """The hidden units are drawn first, from visible means."""
    machine = MACHINES[kind]()
    states = machine.random(500, rng(1))
    field = trusted.field(machine, states, 0) * 0.3
    states[..., : machine.visible] = machine.unit(0).mean(field)
    quick = gibbs.run_sweeps(machine, states, rng(), 2)
    by_products()
    assert torch.equal(quick, gibbs.run_sweeps(machine, states, rng(), 2))


def test_a_sweep_uses_sums_of_rows_only_after_a_draw(monkeypatch):
    asked = []
    real = elementwise.product

    def noted(columns, matrix, ones=None, count=0):
        asked.append(ones is not None)
        return real(columns, matrix, ones, count)

    monkeypatch.setattr("rapidbm.machines.dense.product", noted)
    machine = MACHINES["dense"]()
    gibbs.run_sweeps(machine, machine.random(4, rng()), rng(), 3)
    assert asked == [False, False, True, False, True, False]  # hidden, visible; then twice more


# -- draws -----------------------------------------------------------------------------------------------


def chi_squared(counts, chances):
    """Its value in standard deviations from the mean, of counts that have these chances."""
    expected = chances * counts.sum(-1, keepdim=True)
    value = ((counts - expected) ** 2 / expected.clamp(min=1e-9)).sum()
    freedom = (chances > 0).sum() - counts.shape[0]
    return float((value - freedom) / (2 * freedom) ** 0.5)


@pytest.mark.parametrize("unit", [rb.Categorical(2), rb.Categorical(21), MIXED], ids=str)
@pytest.mark.parametrize("beta", [1.0, 0.5, torch.tensor([[0.7]])], ids=["1", "0.5", "tensor"])
def test_states_have_their_probabilities(unit, beta):
    columns = unit.columns(4)
    field = 2.0 * torch.randn(1, 1, columns, generator=rng(2))
    rows = field.expand(1, 40_000, -1)
    states = unit.draw(rows, rng(), beta)
    counts = unit.padded(states.sum(1).double(), 0.0)[0]
    log_chances = unit.padded(field.double() * beta, -torch.inf)[0, 0]
    assert chi_squared(counts, torch.softmax(log_chances, -1)) < 5
    assert chi_squared(counts, torch.softmax(0.9 * log_chances, -1)) > 5  # a factor off is seen
    assert chi_squared(counts.roll(1, -1), torch.softmax(log_chances, -1)) > 5


@pytest.mark.parametrize("unit", [SAME, MIXED], ids=str)
def test_each_unit_has_one_column_at_1_and_it_is_told(unit):
    field = 300.0 * torch.randn(2, 50, unit.columns(4), generator=rng())
    wide = torch.full((2, 50, field.shape[-1] + 3), torch.nan)
    ones = unit.draw_ones(field, rng(), 1.0, wide[..., 2:-1])
    states = wide[..., 2:-1]
    assert torch.equal(states.nonzero()[:, -1].view(2, 50, 4), ones)
    assert torch.equal(unit.per_unit(states), torch.ones(2, 50, 4))
    assert wide[..., :2].isnan().all()
    assert wide[..., -1].isnan().all()
    assert torch.equal(states, unit.draw(field, rng()))
    assert torch.equal(states, unit.draw(field, rng(), out=torch.empty_like(field)))


@pytest.mark.parametrize("number", [0.0, 1 - 2**-24])
def test_the_least_and_the_largest_number_choose_states_that_occur(number, monkeypatch):
    monkeypatch.setattr(
        elementwise,
        "uniform",
        lambda like, rng: torch.full_like(like, number, memory_format=torch.contiguous_format),
    )
    for unit in (SAME, MIXED):
        for seed in range(50):
            field = 30.0 * torch.randn(1, 20, unit.columns(4), generator=rng(seed))
            field[..., 0] = -1e4  # of the first unit the first state never occurs
            states = unit.draw(field, rng())
            assert torch.equal(unit.per_unit(states), torch.ones(1, 20, 4))
            assert (unit.mean(field)[states == 1] > 0).all()


# -- training --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dense", "dense, mixed q", "patterns, mixed q"])
def test_recorded_updates_of_categorical_units_have_the_same_bits(kind, looks):
    found = []
    for eager in (False, True):
        machine = MACHINES[kind]()
        codes = torch.randint(3, (40, 4), generator=rng())
        trainer = Trainer(machine, codes, Persistent(6, 2), sgd(0.05), epochs=99, batch_size=10, seed=1)
        if eager:
            trainer.executor = Eager()
        for _ in range(60):
            trainer.step()
        assert eager or trainer.executor.replay.trusted
        found.append((machine.couplings.first.detach(), trainer.chains.clone()))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])
