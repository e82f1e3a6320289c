"""Minima against brute force, urns with known contents, and the verdict on machines of known kind."""

import math
from dataclasses import replace

import pytest
import torch

from conftest import machines, states
from rapidbm.errors import InputError
from rapidbm.estimates import Estimate
from rapidbm.glass.growth import diluted, growth
from rapidbm.glass.minima import Minima, Valleys, chao1, coincidence, minima, minima_below, stability
from rapidbm.glass.overlaps import energies_per_unit, overlap_distribution, ultrametricity
from rapidbm.glass.pictures import landscape_figure
from rapidbm.glass.spectra import spectrum
from rapidbm.glass.verdict import Glassiness, glassiness
from rapidbm.machines.constructors import bm, dbm, rbm
from rapidbm.machines.dense import Dense
from rapidbm.machines.layers import Layers
from rapidbm.machines.machine import Machine
from rapidbm.machines.patterns import Patterns
from rapidbm.machines.units.spin import SPIN
from rapidbm.random import stream
from rapidbm.sampling.gibbs import sweep


def brute_force(machine):
    """The valleys of replica 0: connected sets of equal energy that no single flip leaves downwards."""
    n = machine.layers.columns
    every = states(n, 0, 2**n).to(machine.dtype)
    energy = machine.energy(every)[0]
    flips = 2 ** torch.arange(n - 1, -1, -1)
    near = torch.arange(2**n)[:, None] ^ flips  # (x, n): the neighbours of each state
    rise = energy[near] - energy[:, None]
    flat = rise.abs() < 1e-9
    weak = (rise > -1e-9).all(1)
    label = torch.arange(2**n)
    open_ = ~weak
    while True:  # spread the smallest label and every exit along the plateaus
        new = torch.minimum(label, torch.where(flat, label[near], 2**n).amin(1))
        leak = open_ | (flat & open_[near]).any(1)
        if torch.equal(new, label) and torch.equal(leak, open_):
            break
        label, open_ = new, leak
    return every, label, ~open_


EXACT = [
    rbm(6, 5, scale=1.0, seed=1, dtype=torch.float64),
    bm(7, 3, scale=1.0, seed=2, dtype=torch.float64),
    dbm(4, (4, 3), scale=1.0, seed=3, dtype=torch.float64),
    rbm(6, 5, 4, seed=4, continuous=True, dtype=torch.float64),
]


@pytest.mark.parametrize("machine", EXACT)
@pytest.mark.parametrize("biases", [False, True])
def test_minima_are_all_states_that_no_flip_lowers(machine, biases):
    noise = torch.randn((1, machine.layers.columns), generator=stream(0), dtype=torch.float64)
    machine = Machine(machine.couplings, 0.5 * noise if biases else None)
    every, _, closed = brute_force(machine)
    exact = {tuple(row) for row in every[closed].long().tolist()}
    found = minima(machine, 3000, stream(1))
    valley = found.valleys[0]
    rows = {tuple(row) for row in valley.spins.long().tolist()}
    assert valley.counts.sum() == 3000
    assert (valley.counts.diff() <= 0).all()
    assert found.signed.tolist() == [len(exact)]
    if biases:
        assert rows == exact
    else:
        assert rows | {tuple(-x for x in row) for row in rows} == exact
        assert found.distinct.tolist() == [len(exact) // 2]
    energy = machine.energy(valley.spins.double()[None])[0] / machine.layers.columns
    assert torch.allclose(valley.energies, energy)


@pytest.mark.parametrize("sizes", [(6, 6), (5, 6), (4, 8)])
@pytest.mark.parametrize("patterns", [1, 2, 3, 4, 5])
def test_with_ties_each_plateau_counts_once(sizes, patterns):
    machine = rbm(*sizes, patterns, seed=0, dtype=torch.float64)
    _, label, closed = brute_force(machine)
    assert minima(machine, 1000, stream(0)).signed.item() == len(label[closed].unique())


@pytest.mark.parametrize("size", [6, 7, 48])
def test_one_pattern_has_two_minima_and_no_saddle_counts(size):
    machine = rbm(size, size, 1, replicas=20, seed=0)
    found = minima(machine, 200, stream(0))
    assert found.distinct.tolist() == [1] * 20
    assert found.signed.tolist() == [2] * 20
    assert found.retrieval.value.tolist() == [1.0] * 20
    assert stability(machine, stream(0)).value.tolist() == [1.0] * 20


def test_no_couplings_at_all_is_one_plateau():
    machine = Machine(Dense(Layers((3, 3), ((0, 1),)), {(0, 1): torch.zeros(1, 3, 3)}))
    assert minima(machine, 50, stream(0)).distinct.tolist() == [1]


def test_rounded_ties_come_to_rest():
    # With K = 10 a field of 0 is 1e-7 in float32, and plain descent goes round in circles.
    found = minima(rbm(100, 100, 10, replicas=3, seed=2), 500, stream(2))
    assert (found.distinct < 500).all()


def test_ends_are_stable_and_starts_are_left_as_they_are():
    machine = rbm(20, 30, 4, replicas=2, seed=0)
    start = machine.random(50, stream(0))
    before = start.clone()
    ends, tied = minima_below(machine, start, stream(1))
    assert torch.equal(start, before)
    assert ends.dtype == machine.dtype
    field = torch.cat([machine.field(ends, i) for i in (0, 1)], -1)
    assert (field * ends > -1e-4).all()
    assert (field[tied].abs() < 1e-4).all()
    assert (field[~tied].abs() > 0.1).all()
    assert (machine.energy(ends) <= machine.energy(start) + 1e-3).all()


# -- counting -------------------------------------------------------------------------------------


def urn(probabilities, draws, rng):
    drawn = torch.multinomial(probabilities, draws, replacement=True, generator=rng)
    counts = drawn.bincount(minlength=len(probabilities))
    return counts[counts > 0].sort(descending=True).values


def found_in(counts):
    """Minima that were found so often, without the rest."""
    blank = torch.zeros(len(counts), 1)
    return Minima((Valleys(blank, counts, blank[:, 0], None, len(counts)),), int(counts.sum()))


def test_chao_counts_an_urn_of_equal_shares_and_knows_its_error():
    even = torch.full((300,), 1 / 300, dtype=torch.float64)
    many = Estimate.stack([chao1(urn(even, 400, stream(i))) for i in range(400)])
    value, error = many.value, many.error
    # Of 400 urns: the mean ± 1, the deviation to 3.5 %; both bounds are beyond five of these, p < 1e-6.
    assert abs(value.mean() - 300) < 6
    assert 0.8 < error.mean() / value.std() < 1.25
    uneven = torch.arange(1, 301).double().reciprocal()
    some = [chao1(urn(uneven / uneven.sum(), 400, stream(i))).value for i in range(50)]
    assert sum(some) / 50 < 300  # a bound from below


def test_chao_by_hand():
    assert chao1(torch.tensor([5, 2, 2, 1, 1, 1])).value == 6 + 3 * 2 / (2 * 3)
    assert chao1(torch.tensor([1, 1, 1])).value == 3 + 3
    found = chao1(torch.tensor([40, 60]))
    assert found.value == 2
    assert found.error < 1e-6


def test_errors_of_chao_by_hand():
    """Chao 1987 for f_1 = 3, f_2 = 0, where Ŝ = 7, and for f_1 = 0."""
    error = chao1(torch.tensor([4, 1, 1, 1])).error
    assert float(error**2) == pytest.approx(3 * 2 / 2 + 3 * 5**2 / 4 - 3**4 / (4 * 7))
    error = chao1(torch.tensor([2, 2, 3])).error
    left = 2 * math.exp(-2) + math.exp(-3)
    assert float(error**2) == pytest.approx(left - (4 * math.exp(-2) + 3 * math.exp(-3)) ** 2 / 7)


def test_shares_of_starts_and_of_minima_by_hand():
    counts, overlaps = torch.tensor([6, 3, 1]), torch.tensor([0.95, 0.5, 0.99])
    blank = torch.zeros(3, 1)
    found = Minima((Valleys(blank, counts, blank[:, 0], overlaps, 3),), 10)
    assert found.top.replica(0) == pytest.approx((0.6, math.sqrt(0.6 * 0.4 / 10)))
    assert found.retrieval.replica(0) == pytest.approx((0.7, math.sqrt(0.7 * 0.3 / 10)))
    assert found.patterns.tolist() == pytest.approx([2 / 3])


def test_coincidence_is_the_sum_of_squares_and_knows_its_error():
    p = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
    many = Estimate.stack([coincidence(urn(p, 60, stream(i))) for i in range(400)])
    value, error = many.value, many.error
    assert abs(value.mean() - 0.3) < 5.5 * value.std() / math.sqrt(400)  # p < 1e-7
    # 1.08, on the safe side; the deviation is known to 3.8 %: p < 1e-6.
    assert 0.85 < error.mean() / value.std() < 1.4
    never = coincidence(torch.ones(10))
    assert (float(never.value), float(never.error)) == (0.0, 2 / 90)


def test_rarefaction_is_the_mean_over_subsets():
    counts = torch.tensor([5, 3, 1, 1])
    m, found = found_in(counts).rarefaction()
    assert m.tolist() == list(range(1, 11))
    assert found.value[0, 0] == pytest.approx(1.0)
    assert found.value[0, -1] == pytest.approx(4.0)
    owners = torch.repeat_interleave(torch.arange(4), counts)
    rng = stream(0)
    subsets = [owners[torch.randperm(10, generator=rng)[:4]].unique().numel() for _ in range(4000)]
    assert found.value[0, 3] == pytest.approx(sum(subsets) / 4000, abs=0.06)  # six errors


def test_error_of_rarefaction_is_what_repetition_gives():
    p = torch.arange(1, 41).double().reciprocal()
    curves = [found_in(urn(p / p.sum(), 100, stream(i))).rarefaction() for i in range(200)]
    half = [int((m <= 50).sum()) - 1 for m, _ in curves]
    value = torch.stack([c.value[0, i] for (_, c), i in zip(curves, half, strict=True)])
    error = torch.stack([c.error[0, i] for (_, c), i in zip(curves, half, strict=True)])
    # 1.5: for a fixed landscape on the safe side; the deviation of 200 is known to 5 %, p < 1e-6.
    assert 1.1 < error.mean() / value.std() < 2.1


# -- dilution and growth --------------------------------------------------------------------------


@pytest.mark.parametrize("machine", machines(2))
def test_a_cut_machine_has_the_energy_of_those_units_alone(machine):
    small = diluted(machine, 0.6, stream(0))
    sizes = machine.layers.sizes
    assert small.layers.sizes == tuple(max(1, round(0.6 * n)) for n in sizes)
    assert small.layers.edges == machine.layers.edges
    rng = stream(0)  # the same draws, to find the units that stayed
    kept = [
        torch.rand((2, n), generator=rng).argsort(1)[:, :k].sort(1).values
        for n, k in zip(sizes, small.layers.sizes, strict=True)
    ]
    units = torch.cat([k + s.start for k, s in zip(kept, machine.layers.slices, strict=True)], 1)
    spins = small.random(10, stream(1))
    whole = torch.zeros((2, 10, machine.layers.columns), dtype=machine.dtype)
    whole.scatter_(2, units[:, None].expand(-1, 10, -1), spins)  # units at 0 do not count
    assert torch.allclose(small.energy(spins), machine.energy(whole, means=True))
    if machine.patterns is not None:
        assert small.patterns.shape[1] == machine.patterns.shape[1]


@pytest.mark.parametrize("machine", machines(3))
def test_a_full_cut_is_the_machine_itself(machine):
    same = diluted(machine, 1.0, stream(0))
    spins = machine.random(5, stream(1))
    assert torch.allclose(same.energy(spins), machine.energy(spins))


def test_minima_of_random_couplings_grow_with_size_and_those_of_one_pattern_do_not():
    dense = growth(rbm(32, 32, scale=1.0, seed=0), 150, stream(0), tries=3)
    assert dense.units.tolist() == [16, 32, 48, 64]
    assert dense.slope.value > 10 * dense.slope.error > 0
    assert dense.slope_found.value < dense.slope.value  # the starts run out
    one = growth(rbm(32, 32, 1, seed=0), 150, stream(0), tries=3)
    assert one.slope.value.abs() < 1e-12
    assert not one.saturated.any()
    full = growth(rbm(60, 60, scale=1.0, seed=0), 50, stream(0), fractions=(0.1, 1.0), tries=2)
    assert full.saturated.tolist() == [[False, True]]


def test_slope_is_that_of_the_logarithm():
    found = growth(rbm(16, 16, scale=1.0, seed=1), 60, stream(0), fractions=(0.5, 1.0), tries=4)
    rise = found.total[..., 1].log() - found.total[..., 0].log()
    assert found.slope.value.tolist() == pytest.approx((rise.mean(1) / 16).tolist())
    assert found.slope.error.tolist() == pytest.approx((rise.std(1) / 2 / 16).tolist())


# -- where a machine stands -----------------------------------------------------------------------


def series(machine, rng, chains=20, burn=60, times=40):
    spins = machine.random(chains, rng)
    kept = []
    for step in range(burn + times):
        spins = sweep(machine, spins, rng)
        if step >= burn:
            kept.append(spins)
    return torch.stack(kept, 2)


KINDS = {
    "dense": ({"scale": 1.0}, "spin glass"),
    "one": ({"patterns": 1}, "ordered: few minima"),
    "three": ({"patterns": 3}, "ordered: few minima"),
    "sixty": ({"patterns": 60}, "spin glass, patterns lost"),
    "weak": ({"scale": 0.01}, "paramagnet"),
    "faint": ({"patterns": 3, "scale": 0.05}, "paramagnet"),
}


@pytest.mark.parametrize("name", KINDS)
def test_the_verdict_tells_the_phases_apart(name):
    options, verdict = KINDS[name]
    machine = rbm(72, 72, replicas=2, seed=5, **options)
    rng = stream(0, name)
    found = glassiness(machine, series(machine, rng), rng, starts=150, tries=2)
    assert found.verdict == (verdict,) * 2
    if name == "sixty":
        assert (found.stability.value < 0.6).all()
        assert (found.minima.retrieval.value == 0).all()
    if name in ("one", "three"):
        assert (found.stability.value == 1).all()
        assert (found.minima.patterns > 0.3).all()
        assert (found.growth.slope.value < 0.01).all()


def test_within_two_errors_the_verdict_is_open():
    def at(value, error=0.001):
        return Estimate(torch.tensor([value]), torch.tensor([error]))

    many = found_in(torch.ones(100, dtype=torch.long))
    machine = rbm(16, 16, scale=1.0, seed=0)
    grown = growth(machine, 60, stream(0), fractions=(0.25, 0.5), tries=3)
    random, mode = spectrum(machine), spectrum(rbm(16, 16, 1, seed=0))

    def of(q=0.9, gap=0.5, square=0.5, found=many, kept=None, grown=grown, variance=0.0, modes=random):
        overlaps = (at(q), at(q - gap), at(gap), at(square), at(variance))
        return Glassiness(*overlaps, found, grown, kept, modes).verdict

    assert of() == ("spin glass",)
    assert of(q=0.0, square=0.0) == ("paramagnet",)
    assert of(q=0.1015, square=0.0)[0].startswith("undecided: q_EA = 0.1 ± 0.001")
    assert of(q=0.0, square=max(0.0515, 3 / float(grown.units.max())))[0].startswith("undecided: ⟨q²⟩")
    flat, steep = (replace(grown, slope=at(slope)) for slope in (0.0, 0.5))
    large = replace(grown, units=torch.tensor([200.0, 400.0]))
    assert of(q=0.0, square=0.03, grown=large)[0].endswith("of frozen ones, 0.013 and 0.05")
    one = ("one state: many minima, all crossed at this temperature",)
    assert of(q=0.5, gap=0.0) == one
    crossed = ("spin glass, its states crossed at this temperature",)
    warm = {"q": 0.5, "gap": 0.0, "variance": 0.03, "grown": replace(large, slope=at(0.5))}
    assert of(**warm) == crossed
    assert of(**{**warm, "gap": 0.1}) == crossed
    several = "undecided: chains cross between minima"
    for other in (
        {"modes": mode},
        {"kept": at(0.5)},
        {"square": 0.04},
        {"square": 10 / float(grown.units.max()), "grown": steep},  # as at the critical temperature
        {"grown": replace(large, slope=at(0.0))},
    ):
        assert of(**{**warm, **other})[0].startswith(several), other
    assert of(q=0.5, gap=0.0, variance=0.007) == one
    assert "less than 0.005" in of(q=0.5, gap=0.0, variance=0.007, grown=large, modes=mode)[0]
    # Cold chains that agree: something must single their state out.
    assert "small glass in its ground state" in of(gap=0.0)[0]
    assert of(gap=0.0, modes=mode) == one
    assert of(gap=0.0, kept=at(0.99)) == one
    assert "small glass in its ground state" in of(gap=0.0, kept=at(0.5), modes=mode)[0]
    assert of(gap=0.101)[0].startswith("undecided: q_EA − ⟨|q|⟩")
    assert of(grown=replace(grown, slope=at(0.001)))[0].startswith("undecided: growth")
    assert of(grown=replace(grown, slope=at(-0.01))) == (
        "many minima, no more of them in a larger machine",
    )
    assert of(kept=at(0.99)) == ("patterns among many minima",)
    assert of(kept=at(0.5)) == ("spin glass, patterns lost",)
    assert of(kept=at(0.9))[0].startswith("undecided: overlap kept")
    assert of(found=found_in(torch.tensor([20] + [1] * 80)))[0].startswith("undecided: Y")
    # Few minima are order only if there is a reason for them to be few.
    few = found_in(torch.tensor([60, 40]))
    ordered = ("ordered: few minima",)
    assert of(found=few, grown=flat) == ordered
    assert "too small to tell order from a glass" in of(found=few, grown=steep)[0]
    assert of(found=few, kept=at(0.99), grown=steep) == ordered
    assert of(found=few, kept=at(0.5), grown=steep) == ("spin glass, patterns lost",)
    assert "patterns are not among them" in of(found=few, kept=at(0.5), grown=flat)[0]
    assert of(found=few, kept=at(0.9), grown=flat) == ordered
    assert of(found=few, gap=0.0, modes=mode, grown=steep) == ordered
    assert "too small" in of(found=few, gap=0.0, variance=0.03, modes=mode, grown=steep)[0]


def small_glasses():
    yield "SK, 40 units", bm(40, scale=2 / 40**0.5, seed=0)
    yield "bipartite, T = 0.7", rbm(30, 30, scale=30**-0.5 / 0.7, seed=0)
    yield "bipartite, larger", rbm(64, 64, scale=64**-0.5 / 0.7, seed=0)
    yield "BAM, K = 10", rbm(30, 30, 10, seed=0)
    yield "BAM, K = 30", rbm(30, 30, 30, seed=0)
    yield "Hopfield, K = 12", bm(40, 0, 12, seed=0)


@pytest.mark.parametrize(("name", "machine"), list(small_glasses()))
def test_small_or_warm_glasses_are_not_called_what_they_are_not(name, machine):
    machine.requires_grad_(False)
    rng = stream(0, name)
    found = glassiness(machine, series(machine, rng, burn=100), rng, starts=100, tries=2)
    assert found.verdict[0].startswith(("undecided: ", "spin glass")), (name, found.verdict)


def test_without_biases_a_state_and_its_negative_are_one():
    machine = rbm(10, 8, 1, seed=0)
    xi = machine.patterns.detach().sign()
    chains = torch.cat([xi, -xi, xi, -xi], 1)[:, :, None].expand(-1, -1, 4, -1)
    options = {"starts": 20, "fractions": (0.5, 1.0), "tries": 2}
    found = glassiness(machine, chains, stream(0), **options)
    assert (float(found.between.value), float(found.gap.value)) == (1.0, 0.0)
    tilted = Machine(machine.couplings, 0.1 * xi[:, 0])
    assert float(glassiness(tilted, chains, stream(0), **options).gap.value) > 1


@pytest.mark.parametrize("machine", [rbm(10, 8, 2, seed=0), bm(10, scale=1.0, seed=0)])
def test_every_panel_is_drawn(machine, tmp_path):
    rng = stream(0)
    spins = series(machine, rng, times=4)
    found = glassiness(machine, spins, rng, starts=40, fractions=(0.5, 1.0), tries=2)
    last = spins[:, :, -1]
    fig = landscape_figure(
        overlap_distribution(last),
        ultrametricity(last, rng, triples=100),
        energies_per_unit(machine, last),
        found.minima,
        found.growth,
        found.spectrum,
        title="x",
    )
    assert [bool(axes.get_xlabel() and axes.get_ylabel()) for axes in fig.axes] == [True] * 6
    if machine.patterns is not None:  # with its overlaps
        fig.savefig(tmp_path / "x.png")


# -- contracts ------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_minima_and_the_machine_stays():
    machine = rbm(20, 20, 3, replicas=2, seed=0)
    before = machine.patterns.detach().clone()
    first, again = (minima(machine, 50, stream(7)) for _ in range(2))
    for a, b in zip(first.valleys, again.valleys, strict=True):
        assert torch.equal(a.spins, b.spins)
        assert torch.equal(a.counts, b.counts)
    assert torch.equal(machine.patterns, before)
    assert machine.dtype == torch.float32
    assert first.top.value.shape == first.total.value.shape == first.coincidence.error.shape == (2,)


def test_dense_couplings_have_no_patterns_to_retrieve():
    machine = rbm(8, 8, scale=1.0, seed=0)
    found = minima(machine, 20, stream(0))
    assert found.retrieval is None
    assert found.patterns is None
    assert stability(machine, stream(0)) is None


def test_overlap_of_a_minimum_is_the_largest_over_patterns():
    layers = Layers((8, 8), ((0, 1),))
    xi = 0.3 * SPIN.random((1, 1, 16), stream(0))
    found = minima(Machine(Patterns(layers, xi)), 20, stream(0))
    assert found.valleys[0].overlaps.tolist() == pytest.approx([1.0])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m, rng: minima(m, 1, rng), "starts must be .* at least 2, not 1"),
        (lambda m, rng: diluted(m, 0.0, rng), "above 0 and at most 1, not 0.0"),
        (lambda m, rng: diluted(m, 1.5, rng), "above 0 and at most 1, not 1.5"),
        (lambda m, rng: growth(m, 10, rng, tries=1), "tries must be .* at least 2, not 1"),
        (lambda m, rng: growth(m, 10, rng, fractions=(1.0,)), r"two different .* not \(1.0,\)"),
        (
            lambda m, rng: glassiness(m, torch.ones(1, 5, 7), rng),
            r"is \(1, chains, times, 7\), not",
        ),
        (lambda m, rng: glassiness(m, torch.ones(1, 5, 4, 8), rng), r"not \(1, 5, 4, 8\); stack"),
    ],
)
def test_errors_say_the_rule_the_value_and_the_remedy(call, words):
    with pytest.raises(InputError, match=words):
        call(rbm(4, 3, seed=0), stream(0))
