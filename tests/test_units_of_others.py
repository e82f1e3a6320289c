"""Units that a third party writes: a spin of size 1 from `rb.Levels` and from `rb.Unit` itself, and
counts with a Poisson distribution. Each trains, samples, has a likelihood that sums to one, and passes
the public contracts."""

import itertools
import math
from dataclasses import dataclass

import pytest
import torch
from scipy import stats

import rapidbm as rb
from rapidbm.errors import InputError
from rapidbm.machines.units.kinds import KINDS
from rapidbm.random import stream
from rapidbm.testing import SMALLEST_P, check_negative_phase, check_sampler, chi_squared, small_machines

# -- what the third party writes ------------------------------------------------------------------------


class SpinOne(rb.Levels):
    """−1, 0 and 1; 0 is lower by ½."""

    kind = "spin-one"
    values = (-1.0, 0.0, 1.0)
    energies = (0.0, -0.5, 0.0)


@dataclass(frozen=True)
class Ternary(rb.Unit):
    """The same without a base but `Unit`: p(x) ∝ exp β (f x − u(x)), u = ½ x² − ½."""

    kind = "ternary"
    has_energy = True

    def encode(self, values, *, what):
        if bool((values.abs() > 1).any()) or bool((values != values.round()).any()):
            raise InputError(f"{what} are −1, 0 or 1")
        return values.to(torch.int8)

    def count(self, columns):
        return 3**columns

    def states(self, columns, numbers):
        places = 3 ** torch.arange(columns - 1, -1, -1, device=numbers.device)
        return (numbers[:, None] // places % 3 - 1).to(torch.int8)

    def energy(self, states):
        return 0.5 * states.abs() - 0.5  # between two states by the line that joins them

    def logits(self, field, beta):
        if isinstance(beta, torch.Tensor) and beta.dim():
            beta = beta[..., None]
        values = torch.tensor([-1.0, 0.0, 1.0], dtype=field.dtype, device=field.device)
        return values, beta * (field[..., None] * values - self.energy(values))

    def draw(self, field, rng, beta=1.0, *, overwrite=False, out=None):
        total = torch.softmax(self.logits(field, beta)[1], -1).cumsum(-1)
        level = torch.rand(field.shape, generator=rng, dtype=field.dtype)
        drawn = (level[..., None] > total[..., :2]).sum(-1).to(field.dtype) - 1
        return drawn if out is None else out.copy_(drawn)

    def mean(self, field, beta=1.0, *, overwrite=False, out=None):
        values, logits = self.logits(field, beta)
        means = torch.softmax(logits, -1) @ values
        return means if out is None else out.copy_(means)

    def log_sum(self, field, beta=1.0):
        return torch.logsumexp(self.logits(field, beta)[1], -1)

    def nearest(self, field):
        values, logits = self.logits(field.detach(), 1.0)
        return values[logits.argmax(-1)]

    def smoothed_mean(self, total, rows):
        return total / (rows + 3.0)


@dataclass(frozen=True)
class Poisson(rb.Unit):
    """Counts: u(x) = log x!, so that p(x) is Poisson's with the mean exp f. At β = 1 alone."""

    kind = "poisson"
    has_energy = True

    def encode(self, values, *, what):
        if bool((values < 0).any()) or bool((values != values.round()).any()):
            raise InputError(f"{what} are counts, whole numbers from 0")
        return values.float()

    def energy(self, states):
        return torch.lgamma(states + 1.0)

    def check(self, beta):
        if isinstance(beta, torch.Tensor) or beta != 1.0:
            raise InputError("counts have no other temperature than 1")

    def draw(self, field, rng, beta=1.0, *, overwrite=False, out=None):
        self.check(beta)
        drawn = torch.poisson(field.exp(), generator=rng)
        return drawn if out is None else out.copy_(drawn)

    def mean(self, field, beta=1.0, *, overwrite=False, out=None):
        self.check(beta)
        return field.exp() if out is None else out.copy_(field.exp())

    def log_sum(self, field, beta=1.0):
        self.check(beta)
        return field.exp()

    def field_of(self, mean):
        return mean.log()

    def smoothed_mean(self, total, rows):
        return (total + 1.0) / (rows + 1.0)


# -- what it may rely on --------------------------------------------------------------------------------

DOUBLE = {"dtype": torch.float64, "seed": 0, "biases": True}
THREE = [SpinOne(), Ternary()]


def ready(machine, size=0.4):
    rng = stream(3)
    for p in machine.parameters():
        p.data.copy_(size * torch.randn(p.shape, generator=rng, dtype=torch.float64))
    return machine


def of_three(unit):
    """Machines with such units on either side."""
    for patterns in (None, 2):
        yield ready(rb.rbm(3, 2, patterns, units=unit, **DOUBLE))
        yield ready(rb.rbm(2, 3, patterns, hidden_units=unit, **DOUBLE))
        yield ready(rb.dbm(2, (2, 2), patterns, units=unit, hidden_units=(rb.Spin(), unit), **DOUBLE))
        yield ready(rb.bm(3, 0, patterns, units=unit, **DOUBLE))
        yield ready(rb.rbm((2, 1), 2, patterns, units=(unit, rb.Categorical(3)), **DOUBLE))


@pytest.mark.parametrize("unit", THREE)
def test_spins_of_size_one_have_likelihoods_that_sum_to_one(unit):
    for machine in of_three(unit):
        layers = machine.layers
        rows = layers.states(layers.visible, torch.arange(layers.count(layers.visible)))
        logs = machine.log_prob_unnormalised(rows) - rb.log_z(machine, method="exact").value
        assert float(logs.detach().exp().sum()) == pytest.approx(1.0, abs=1e-10)


@pytest.mark.parametrize("beta", [1.0, 0.6])
def test_both_ways_to_write_it_are_the_same_machine(beta):
    for one, other in zip(of_three(SpinOne()), of_three(Ternary()), strict=True):
        x = one.random(9, seed=0)
        assert torch.allclose(one.energy(x), other.energy(x), atol=1e-12)
        assert torch.allclose(
            rb.log_z(one, method="exact", beta=beta).value,
            rb.log_z(other, method="exact", beta=beta).value,
            atol=1e-12,
        )
        moments = [rb.exact_moments(m, beta=beta) for m in (one, other)]
        assert torch.allclose(moments[0].pairs, moments[1].pairs, atol=1e-12)


def test_spins_of_size_one_by_hand():
    machine = ready(rb.rbm(2, 1, units=SpinOne(), **DOUBLE))
    w, b = machine.couplings.weights["0-1"][0, :, 0].tolist(), machine.biases[0].tolist()
    total = 0.0
    for x, y, h in itertools.product((-1, 0, 1), (-1, 0, 1), (-1, 1)):
        u = -0.5 * ((x == 0) + (y == 0))
        total += math.exp((w[0] * x + w[1] * y + b[2]) * h + b[0] * x + b[1] * y - u)
    assert float(rb.log_z(machine).value) == pytest.approx(math.log(total), abs=1e-12)


@pytest.mark.parametrize("unit", THREE)
def test_spins_of_size_one_pass_the_public_contracts(unit):
    for name, machine in [*small_machines(units=unit), *small_machines(hidden_units=unit)]:
        if machine.layers.count(range(len(machine.layers.sizes))) <= 2**10:
            check_sampler(rb.sweep, machine, chains=10_000)
            check_sampler(rb.sweep, machine, beta=0.7, chains=10_000)
        for phase in (rb.Exact(), rb.ContrastiveDivergence(), rb.Persistent(5), rb.Tempered(3, rungs=3)):
            check_negative_phase(phase, machine)
        if name.endswith("patterns"):
            check_negative_phase(rb.PatternInduced(), machine)


@pytest.mark.parametrize("unit", THREE)
def test_spins_of_size_one_train(unit):
    rows = torch.tensor([[1, 1, 0], [1, 0, 0], [-1, -1, 0], [-1, 0, 1], [1, 1, 1], [-1, -1, 0]])
    for graph in ("rbm", "dbm", "bm"):
        hidden = {"rbm": 3, "dbm": (2, 2), "bm": 1}[graph]
        machine = getattr(rb, graph)(3, hidden, units=unit, **DOUBLE)
        machine.start_biases(rows)
        before = float(rb.log_likelihood(machine, rows).value)
        options = {"epochs": 60, "batch_size": 6, "seed": 0, "positive": rb.Enumerated()}
        for _ in rb.train(machine, rows, rb.Exact(), rb.adam(0.05), **options):
            pass
        assert float(rb.log_likelihood(machine, rows).value) > before + 0.3
        assert set(rb.sample(machine, 50, steps=5, seed=0)[..., :3].unique().tolist()) <= {-1, 0, 1}


@pytest.mark.parametrize("unit", THREE)
def test_annealing_and_tempering_of_spins_of_size_one(unit):
    machine = ready(rb.rbm(3, 2, units=unit, **DOUBLE))
    exact = rb.log_z(machine, method="exact").value
    found = rb.log_z(machine, method="ais", seed=0, chains=100)
    assert bool((found.lower <= exact).all())
    assert bool((exact <= found.upper).all())
    check_sampler(rb.ParallelTempering(rungs=3), machine, chains=2000)


def test_values_that_are_no_levels_are_refused():
    machine = rb.rbm(3, 2, units=SpinOne(), seed=0)
    for bad in ([0, 0.5, 1], [0, 2, 1], [0, float("nan"), 1]):
        with pytest.raises(InputError, match="row 0, unit 1 holds"):
            machine.free_energy([bad])


def test_kinds_of_others_come_back_from_files(tmp_path, monkeypatch):
    """With an entry point `rapidbm.units`, which this stands for."""
    path = tmp_path / "machine.safetensors"
    machine = ready(rb.rbm(3, 2, units=SpinOne(), **DOUBLE))
    rb.save_machine(machine, path)
    with pytest.raises(InputError, match="spin-one"):
        rb.load_machine(path)
    monkeypatch.setattr(KINDS, "own", {**KINDS.own, "spin-one": SpinOne})
    back = rb.load_machine(path)
    assert back.layers == machine.layers
    assert torch.equal(back.free_energy([[0, 1, -1]]), machine.free_energy([[0, 1, -1]]))


# -- counts ---------------------------------------------------------------------------------------------


def of_counts(patterns=None, hidden=2):
    return ready(rb.rbm(2, hidden, patterns, units=Poisson(), **DOUBLE))


@pytest.mark.parametrize("patterns", [None, 2])
def test_the_likelihood_of_counts_sums_to_one(patterns):
    machine = of_counts(patterns)
    each = torch.arange(60.0)
    rows = torch.cartesian_prod(each, each)
    logs = machine.log_prob_unnormalised(rows) - rb.log_z(machine, method="exact").value
    assert float(logs.detach().exp().sum()) == pytest.approx(1.0, abs=1e-10)
    mean = (logs.detach().exp()[0][:, None] * rows).sum(0)
    moments = rb.exact_moments(machine)
    assert torch.allclose(moments.mean[0, :2], mean, atol=1e-8)
    pairs = (logs.detach().exp()[0][:, None] * rows).T @ rows.double()
    assert torch.allclose(moments.pairs[0, :2, :2], pairs, atol=1e-8)  # variances, too


def test_counts_are_drawn_from_the_exact_distribution():
    machine, chains = of_counts(), 20_000
    rng = stream(0)
    hidden = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=torch.float64)] * 2)
    w, b = machine.couplings.weights["0-1"][0].detach(), machine.biases[0].detach()
    rates = (hidden @ w.T + b[:2]).exp()
    p = torch.softmax(hidden @ b[2:] + rates.sum(1), 0)
    start = hidden[torch.multinomial(p, chains, replacement=True, generator=rng)]
    visible = torch.poisson((start @ w.T + b[:2]).exp(), generator=rng)
    ends = rb.sweeps(machine, torch.cat([visible, start], 1), stream(1), 3)[0]
    which = ((ends[:, 2:] + 1) / 2 @ torch.tensor([2.0, 1.0], dtype=torch.float64)).long()
    assert chi_squared(which.bincount(minlength=4), p) > SMALLEST_P
    for number, rate in enumerate(rates):
        mine = ends[which == number, 0].long().clamp(max=6)
        wanted = torch.tensor([float(stats.poisson.pmf(k, float(rate[0]))) for k in range(6)])
        wanted = torch.cat([wanted, 1.0 - wanted.sum()[None]])
        assert chi_squared(mine.bincount(minlength=7), wanted) > SMALLEST_P


def test_counts_train_by_every_phase():
    rng = stream(2)
    high = torch.rand((200, 1), generator=rng) < 0.5
    rows = torch.poisson(torch.where(high, 6.0, 1.0).expand(-1, 4).contiguous(), generator=rng)
    for phase in (rb.Exact(), rb.ContrastiveDivergence(), rb.Persistent(50), rb.Tempered(20, rungs=3)):
        machine = rb.rbm(4, 3, units=Poisson(), biases=True, seed=0)
        machine.start_biases(rows)
        before = float(rb.log_likelihood(machine, rows).value)
        for _ in rb.train(machine, rows, phase, rb.adam(0.01), epochs=20, batch_size=50, seed=0):
            pass
        assert float(rb.log_likelihood(machine, rows).value) > before + 0.5
        assert bool((rb.sample(machine, 20, steps=5, seed=0)[..., :4] >= 0).all())


def test_the_gradient_of_counts_is_that_of_their_likelihood():
    machine = of_counts(2)
    rows = torch.tensor([[0.0, 3.0], [1.0, 1.0], [4.0, 0.0]], dtype=torch.float64)
    model, _ = rb.Exact().step(machine, None, None, stream(0))
    found = rb.log_likelihood_gradient(
        machine, rb.ConditionalMean().step(machine, rows, stream(0)), model
    )
    for name, p in machine.named_parameters():
        for place in itertools.islice(itertools.product(*map(range, p.shape)), 4):
            ends = []
            for step in (1e-5, -1e-5):
                p.data[place] += step
                ends.append(float(rb.log_likelihood(machine, rows, method="exact").value))
                p.data[place] -= step
            assert float(found[name][place]) == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-6)


def test_the_annealed_log_z_of_counts_holds_the_exact_one():
    machine = of_counts()
    exact = rb.log_z(machine, method="exact").value
    found = rb.log_z(machine, method="ais", seed=0, chains=200)
    assert bool((found.lower <= exact).all())
    assert bool((exact <= found.upper).all())
    with pytest.raises(InputError, match="energies of its own"):
        rb.log_z(machine, method="ais", beta=0.5, seed=0)
    with pytest.raises(InputError, match="no other temperature"):
        rb.log_z(machine, method="exact", beta=0.5)


def test_records_of_counts_are_whole():
    machine = of_counts()
    gibbs = rb.Gibbs(start=torch.tensor([[300.0, 2.0, 1.0, 1.0]]))
    series, state = rb.record(machine, 3, 2, sampler=gibbs, skip=0, seed=0)
    assert torch.equal(series[:, :, -1], state)
