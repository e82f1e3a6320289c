"""Fused kernels against the plain path: on a GPU if there is one, else in Triton's interpreter."""

import threading
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import replace

import pytest
import torch

from rapidbm.accel import executors, fused, operands, rounding
from rapidbm.errors import InputError
from rapidbm.machines.constructors import bm, dbm, rbm
from rapidbm.machines.ensembles import AllStates, GivenVisible, WeightedSpins
from rapidbm.machines.files import load_tensors
from rapidbm.machines.layers import Layers
from rapidbm.machines.machine import Machine
from rapidbm.random import stream
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run
from rapidbm.sampling.gibbs import sweeps
from rapidbm.sampling.mean_field import mean_field, relax
from rapidbm.testing import (
    SMALLEST_P,
    check_negative_phase,
    check_sampler,
    chi_squared,
    exact_distribution,
    sampler_p_values,
)
from rapidbm.training import trainer as training
from rapidbm.training.batches import batches_for
from rapidbm.training.negative import ContrastiveDivergence, Exact, PatternInduced, Persistent
from rapidbm.training.optimisers import adam, sgd
from rapidbm.training.positive import ClampedChains, MeanField
from rapidbm.training.projections import Clip, Sign
from rapidbm.training.train import train
from rapidbm.training.trainer import Trainer

pytest.importorskip("triton")
import triton
import triton.language as tl

from rapidbm.accel.kernels import chains, layers, states
from rapidbm.accel.kernels.chains import Cut

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
MANY = 40_000 if GPU else 1_024  # chains: the interpreter is slow
on_gpu = pytest.mark.skipif(not GPU, reason="no GPU; the interpreter does not multiply bf16")
pytestmark = [
    pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning"),  # e^x = ∞ is right
    pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning"),
]


@pytest.fixture
def few_states(monkeypatch):
    """The interpreter multiplies the terms of a step one by one."""
    if not GPU:
        monkeypatch.setattr(states, "STATES", 16)


@pytest.fixture
def kernels(few_states, monkeypatch):
    """They serve wherever the tests run."""
    monkeypatch.setattr(fused, "DEVICES", ("cuda", "cpu"))
    monkeypatch.setattr(fused, "WORTH", 0)
    monkeypatch.setattr(fused, "_refused", set())


@pytest.fixture(autouse=True)
def not_rounded():
    """Unless a test says so: where nobody chooses, trainings on a GPU are rounded."""
    with rounding.precision("float32"):
        yield


@pytest.fixture
def nothing_plain(kernels, monkeypatch):
    """And nothing is left to the plain path."""
    for name in ("sweeps", "gradient", "mean_field", "products"):
        serve = getattr(fused, name)

        def served(*args, serve=serve, name=name):
            found = serve(*args)
            assert found is not None, f"the plain path took {name}"
            return found

        monkeypatch.setattr(fused, name, served)


@pytest.fixture
def one_block(monkeypatch):
    """All chains of a replica in one block in the interpreter, which takes a block at a time."""
    if not GPU:
        for name in ("cut_of", "layer_cut"):
            cut = getattr(fused, name)

            def whole(pair, count, cut=cut, **options):
                size = chains.power_of_two(count)
                return replace(cut(pair, count, **options), chains=min(size, MANY), units=64)

            monkeypatch.setattr(fused, name, whole)


@pytest.fixture
def plain(monkeypatch):
    monkeypatch.setattr(fused, "DEVICES", ())


def machine(v, h, patterns=None, *, replicas=2, biases=True, scale=0.35) -> Machine:
    options = {"replicas": replicas, "scale": scale, "seed": 1, "device": DEVICE}
    made = rbm(v, h, patterns, continuous=patterns is not None, biases=biases, **options)
    if made.biases is not None:
        noise = torch.randn((replicas, v + h), generator=stream(4))
        made.biases.data.copy_(0.4 * noise)
    return made


def visible(of: Machine, chains: int) -> torch.Tensor:
    return of.random(chains, stream(3, device=DEVICE))[..., : of.visible]


KINDS = {
    "patterns": (9, 20, 3),
    "two pieces": (20, 70, 40),  # K = 32 + 16
    "many patterns": (9, 20, 400),
    "narrow": (5, 40, None),
    "not a power of two": (40, 30, None),
    "wide": (130, 40, None),
}
kinds = pytest.mark.parametrize("sizes", KINDS.values(), ids=KINDS.keys())


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


def test_pieces_hold_all_patterns_with_the_least_left_over():
    assert chains.pieces(KINDS["two pieces"][2]) == (32, 16)  # else the second one is never run
    sizes = [16, 32, 64, 128, 256]
    sums = {a + b for a in sizes for b in (0, *sizes) if b < a}
    for count in range(1, 193):
        first, second = chains.pieces(count)
        assert first in sizes
        assert second == 0 or (second in sizes and second < first)
        assert first + second == min(total for total in sums if total >= count)


@pytest.mark.parametrize(
    ("patterns", "road"),
    [
        (None, "chains"),
        (2, "chains"),
        slow(None, "layers"),  # in the quick suite they draw the spins of `chains`
        slow(2, "layers"),
        slow(2, "patterns"),
    ],
)
def test_spins_have_the_exact_distribution(nothing_plain, one_block, monkeypatch, patterns, road):
    small = machine(4, 3, patterns, scale=0.7)
    monkeypatch.setattr(fused, "_road", lambda *_, **__: road)

    def sampler(m, s, rng, beta):
        return sweeps(m, s, rng, 2, beta)

    check_sampler(sampler, small, beta=0.8, sweeps=1, chains=MANY)
    wrong = sampler_p_values(lambda m, s, r, b: sweeps(m, s, r, 2, 2 * b), small, 0.8, 1, MANY)
    assert max(wrong) < SMALLEST_P  # a temperature that is not the right one shows


SPECIAL = ("plain", "pushed", "held")
QUICK = {"patterns": "held", "two pieces": "plain", "many patterns": "pushed", "narrow": "held",
         "not a power of two": "pushed", "wide": "plain"}  # fmt: skip


@pytest.mark.parametrize(("kind", "special"), QUICK.items(), ids=str)
def test_all_roads_draw_the_same_spins(nothing_plain, kind, special):
    """At one cut of each kernel, with two blocks, the second not full, or two tiles."""
    compare_roads(KINDS[kind], special, (Cut(16, 64, 4, 2), Cut(32, 32, 4, 2)), Cut(16, 32, 4, 2))


@pytest.mark.slow
@kinds
@pytest.mark.parametrize("special", SPECIAL)
def test_all_roads_draw_the_same_spins_at_all_cuts(nothing_plain, sizes, special):
    cuts = (Cut(64, 32, 4, 2), Cut(128, 128, 8, 3))
    compare_roads(sizes, special, cuts, Cut(16, 64, 4, 2), Cut(64, 32, 4, 2))


def compare_roads(sizes, special, layer_cuts, *chain_cuts):
    these = machine(*sizes)
    start = these.random(21, stream(3, device=DEVICE))
    beta = torch.rand((2, 21), generator=stream(5)).to(DEVICE) + 0.5
    mask = torch.rand((2, 21, these.layers.columns), generator=stream(6)) < 0.2
    settings = {
        "plain": {},
        "pushed": {"push": these.biases[:, None].detach().expand(2, 21, -1)},
        "held": {"held": torch.where(mask.to(DEVICE), start, torch.nan)},
    }[special]
    keep = mask.to(DEVICE) if special == "held" else None
    how = chains.Settings(2, beta, torch.tensor([7], device=DEVICE), **settings)
    pair = these.operands()
    given = [operands.matrix(pair)] + ([] if pair.dense else [operands.factors(pair)])
    found = [layers.sample(x, start, how, cut, keep) for x in given for cut in layer_cuts]
    if operands.few_patterns(pair) or (pair.dense and these.visible <= fused.NARROW):
        found += [chains.sample(operands.operands(pair), start, how, cut) for cut in chain_cuts]
    for spins in found[1:]:  # a field within rounding of its random number may go either way
        assert (spins != found[0]).float().mean() < 1e-3
    assert not torch.equal(found[0][0], found[0][1])
    if special == "held":
        mask = mask.to(DEVICE)
        assert torch.equal(found[0][mask], start[mask])
        assert not torch.equal(found[0][~mask], start[~mask])


@pytest.mark.parametrize(("patterns", "road"), [(None, "chains"), (2, "chains"), slow(300, "patterns")])
def test_clamped_and_pushed_spins_have_the_exact_distribution(
    nothing_plain, one_block, monkeypatch, patterns, road
):
    """One visible unit clamped, the others pushed: a machine with other biases, given that unit."""
    monkeypatch.setattr(fused, "_road", lambda *_, **__: road)
    small = machine(3, 3, patterns, replicas=1, biases=False, scale=0.7)
    push = torch.tensor([0.0, 0.5, -0.4, 0.3, -0.2, 0.6], device=DEVICE)
    pushed = Machine(small.couplings, push[None])
    everything, p = exact_distribution(pushed)
    p = torch.where(everything[:, 0] > 0, p, 0.0)
    p /= p.sum()
    rng = stream(0, device=DEVICE)
    start = everything[torch.multinomial(p, MANY, replacement=True, generator=rng)]
    clamp = torch.arange(6, device=DEVICE) == 0
    spins = sweeps(small, start, rng, 2, clamp=clamp, push=push.expand(1, MANY, -1))
    powers = 2 ** torch.arange(5, -1, -1, device=DEVICE)
    numbers = ((spins > 0).long() * powers).sum(2)[0]
    assert chi_squared(numbers.bincount(minlength=64), p[0]) > SMALLEST_P


@pytest.mark.parametrize("road", ["chains", "layers", "patterns"])
def test_values_may_lie_in_memory_in_any_order(nothing_plain, one_block, monkeypatch, road):
    monkeypatch.setattr(fused, "_road", lambda *_, **__: road)
    these = machine(9, 20, 3)
    start = these.random(10, stream(0, device=DEVICE))
    push = torch.randn((2, 10, 29), generator=stream(1)).to(DEVICE)
    clamp = torch.rand((2, 10, 29), generator=stream(2)).to(DEVICE) < 0.3

    def turned(values):
        return values.mT.contiguous().mT

    found = [
        sweeps(these, f(start), stream(3, device=DEVICE), 1, clamp=f(clamp), push=f(push))
        for f in (lambda x: x, turned)
    ]
    assert torch.equal(*found)


def test_means_of_values_in_any_order(kernels):
    these = machine(130, 40)
    rows, cut = visible(these, 10), Cut(64, 32, 4, 3)
    found = [
        layers.hidden_means(operands.matrix(these.operands()), x, cut)
        for x in (rows, rows.mT.contiguous().mT)
    ]
    assert torch.equal(*found)
    wanted = these.complete(rows)[..., 130:]
    assert torch.allclose(found[0][..., :40], wanted, atol=1e-5)


def test_more_patterns_than_fit_on_the_chip(kernels):
    these = machine(10, 20, 400, replicas=1)
    assert fused._road(these.operands(), 10, plain=True) == "layers"
    start = these.random(50, stream(0, device=DEVICE))
    spins = sweeps(these, start, stream(1, device=DEVICE), 1)
    assert bool((spins.abs() == 1).all())
    rows = visible(these, 5)
    weights = torch.ones((1, 5), device=DEVICE)
    assert fused.gradient(these.operands(), rows, weights) is None  # the plain path's
    found = these.gradient(GivenVisible(these, rows, weights))
    wanted = these.gradient(WeightedSpins(these.complete(rows), weights))
    assert torch.equal(found["couplings.patterns"], wanted["couplings.patterns"])


@pytest.mark.parametrize(
    ("sizes", "count", "precision", "plain", "road"),
    [
        ((784, 3000, 190), 16_384, "bf16", True, "chains"),
        ((784, 3000, 190), 16_384, "tf32", True, "chains"),
        ((784, 3000, 190), 16_384, "float32", True, None),  # cuBLAS
        ((784, 3000, 190), 16_384, "bf16", False, "patterns"),  # pushed or clamped
        ((4096, 4096, 1000), 16_384, "bf16", True, "patterns"),
        ((4096, 4096, 400), 16_384, "tf32", True, None),  # cuBLAS
        ((784, 3000, 190), 190, "float32", True, "layers"),  # too few to fill the chip
        ((784, 3000, 190), 190, "bf16", True, "layers"),
        ((784, 3000, 190), 2000, "bf16", True, "patterns"),
        ((784, 3000, 384), 16_384, "bf16", True, "layers"),  # J is cheaper
        ((784, 500, None), 16_384, "bf16", True, "layers"),
        ((16, 1000, None), 16_384, "float32", True, "chains"),
    ],
)
def test_the_road_is_the_one_that_was_measured_to_win(sizes, count, precision, plain, road):
    these = machine(*sizes, replicas=1)
    with rounding.precision(precision):
        assert fused._road(these.operands(), count, plain=plain) == road


@pytest.mark.parametrize(
    ("sizes", "precision", "served"),
    [
        ((784, 3000, 190), "bf16", True),
        ((784, 3000, 190), "float32", False),
        ((784, 3000, 384), "bf16", True),
        ((784, 3000, 384), "tf32", False),
        ((784, 500, None), "tf32", False),
        ((784, 500, None), "bf16", True),
        ((16, 1000, None), "float32", True),
    ],
)
def test_gradients_by_kernels_where_they_win(kernels, monkeypatch, sizes, precision, served):
    these = machine(*sizes, replicas=1)
    monkeypatch.setattr(fused, "_gradient", lambda *_: {})
    with rounding.precision(precision):
        found = fused.gradient(these.operands(), visible(these, 3), torch.ones((1, 3), device=DEVICE))
    assert (found is not None) == served


@triton.jit
def _both_philox(ours, theirs, seed_at, phase, M: tl.constexpr, N: tl.constexpr):
    chain, start, seed = 5 + tl.arange(0, M), 64, tl.load(seed_at)
    zero = tl.zeros((M, N // 16, 4), tl.int32)
    place = start // 4 + tl.arange(0, N // 16)[None, :, None] * 4 + tl.arange(0, 4)[None, None, :] + zero
    a, b, c, d = tl.philox(seed, place, chain[:, None, None] + zero, zero + phase, zero, chains.ROUNDS)
    words = tl.permute(tl.join(tl.join(a, b), tl.join(c, d)), (0, 1, 4, 2, 3))
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(theirs + at, tl.reshape(words, (M, N)).to(tl.int32, bitcast=True))
    own = chains._words(seed, chain, start, phase, M, N)
    tl.store(ours + at, own.to(tl.int32, bitcast=True))


@pytest.mark.parametrize("seed", [7, 2**62 + 12345678901])
def test_random_words_are_those_of_philox(seed):
    """Ours take one multiplication for two words."""
    ours, theirs = (torch.zeros((16, 32), dtype=torch.int32, device=DEVICE) for _ in range(2))
    _both_philox[(1,)](ours, theirs, torch.tensor([seed], device=DEVICE), 3, M=16, N=32)
    assert torch.equal(ours, theirs)
    assert len(ours.unique()) == ours.numel()


def test_every_chain_unit_and_sweep_has_a_number_of_its_own(nothing_plain):
    free = machine(32, 32, None, biases=False, scale=1e-9)
    spins = sweeps(free, free.random(64, stream(0, device=DEVICE)), stream(1, device=DEVICE), 1)
    later = sweeps(free, spins, stream(1, device=DEVICE), 2)
    whole = torch.cat([spins, later], 2).reshape(128, 128)  # rows: replica and chain
    whole = whole.double()
    for matrix in (whole @ whole.T, whole.T @ whole):  # of fair independent spins
        off = (matrix - torch.diag(matrix.diagonal())) / 128**0.5
        assert off.abs().max() < 7.2  # by Hoeffding's bound 16,256 pairs fail in 2 of 10⁷ tests
    assert abs(float(whole.mean())) < 5.6 / 128  # in 3 of 10⁷


def test_strong_fields_leave_no_choice(nothing_plain):
    strong = machine(6, 8, None, biases=False, scale=1e4)
    start = strong.random(20, stream(0, device=DEVICE))
    spins = sweeps(strong, start, stream(1, device=DEVICE), 1)
    field = strong.field(spins, 0)
    assert torch.equal(spins[..., :6], torch.sign(field))


def test_a_temperature_for_each_chain(nothing_plain, one_block):
    these = machine(9, 20, 3, biases=False)
    beta = torch.cat([torch.zeros(50), torch.full((50,), 1e5)]).to(DEVICE)
    start = these.random(100, stream(0, device=DEVICE))
    spins = sweeps(these, start, stream(1, device=DEVICE), 3, beta)
    aligned = (torch.sign(these.field(spins, 0)) == spins[..., :9]).float().mean((0, 2))
    assert aligned[50:].min() == 1.0
    assert aligned[:50].mean() < 0.7  # 900 fair spins: 12 standard deviations


# -- deep machines ------------------------------------------------------------------------------------

DEEP = {
    "dense": (None, (3, 2)),
    "patterns": (2, (3, 2)),  # all of one side is coupled to all of the other
    "four layers, dense": (None, (2, 2, 1)),
    "four layers, patterns": (2, (2, 2, 1)),  # 0 between the first and the last
}
deep = pytest.mark.parametrize(("patterns", "hidden"), DEEP.values(), ids=DEEP.keys())


def deep_machine(patterns, hidden, *, visible=3, scale=0.7) -> Machine:
    options = {"replicas": 2, "scale": scale, "seed": 2, "device": DEVICE}
    made = dbm(visible, hidden, patterns, biases=True, **options)
    noise = torch.randn(made.biases.shape, generator=stream(4))
    made.biases.data.copy_(0.4 * noise)
    return made


@deep
@pytest.mark.parametrize("road", ["chains", pytest.param("layers", marks=pytest.mark.slow)])
def test_spins_of_a_deep_machine_have_the_exact_distribution(
    nothing_plain, one_block, monkeypatch, patterns, hidden, road
):
    monkeypatch.setattr(fused, "_road", lambda *_, **__: road)
    these = deep_machine(patterns, hidden)
    check_sampler(lambda m, s, r, b: sweeps(m, s, r, 1, b), these, beta=0.8, sweeps=1, chains=MANY)


@deep
@pytest.mark.parametrize("road", ["chains", "layers"])
def test_cold_spins_of_a_deep_machine_are_those_of_the_plain_path(
    nothing_plain, one_block, monkeypatch, patterns, hidden, road
):
    """Along the field: nothing is left to the random numbers, which differ."""
    monkeypatch.setattr(fused, "_road", lambda *_, **__: road)
    these = deep_machine(patterns, hidden)
    start = these.random(12, stream(0, device=DEVICE))

    def swept():
        return sweeps(these, start, stream(1, device=DEVICE), 1, 1e6)

    by_kernels = swept()
    with monkeypatch.context() as patch:
        patch.setattr(Layers, "layer_order", lambda self, values: values)
        assert not torch.equal(swept(), by_kernels)  # sides that are mixed up show
    monkeypatch.setattr(these, "operands", lambda: None)
    assert torch.equal(swept(), by_kernels)


@deep
def test_units_of_a_deep_machine_stay_or_are_pushed_where_they_are(
    nothing_plain, one_block, patterns, hidden
):
    these = deep_machine(patterns, hidden)
    units = these.layers.columns
    start = these.random(20, stream(0, device=DEVICE))
    clamp = torch.arange(units, device=DEVICE) % 2 == 0
    push = torch.where(torch.arange(units, device=DEVICE) % 3 == 0, 1e4, -1e4)
    spins = sweeps(these, start, stream(1, device=DEVICE), 1, clamp=clamp, push=push.expand(2, 20, -1))
    assert torch.equal(spins[..., clamp], start[..., clamp])
    assert torch.equal(spins[..., ~clamp], torch.sign(push)[~clamp].expand(2, 20, -1))


@deep
@pytest.mark.parametrize(("visible", "rounds"), [(3, 1), (70, 3)])
def test_mean_field_is_that_of_the_plain_path(
    nothing_plain, one_block, patterns, hidden, visible, rounds
):
    these = deep_machine(patterns, hidden, visible=visible, scale=0.3)
    rows = these.random(21, stream(3, device=DEVICE))[..., :visible]
    order = these.layers.order[:-1]  # but for the visible layer
    wanted = relax(these, these.with_visible(rows), order, rounds)
    for given in (rows, rows.to(torch.bfloat16)):  # as a graph gets it
        assert torch.allclose(mean_field(these, given, rounds), wanted, atol=1e-5)
    assert wanted[..., visible:].abs().max() > 0.1


@on_gpu
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("tf32", 2e-3), ("bf16", 2e-2)])
@pytest.mark.parametrize("patterns", [None, 100], ids=["dense", "patterns"])
def test_mean_field_of_a_large_machine(nothing_plain, patterns, precision, tolerance):
    options = {"scale": 0.03 if patterns is None else 0.2, "seed": 2, "device": DEVICE}
    these = dbm(784, (500, 400), patterns, continuous=patterns is not None, biases=True, **options)
    rows = these.random(500, stream(3, device=DEVICE))[..., :784]
    wanted = relax(these, these.with_visible(rows), these.layers.order[:-1], 30)
    with rounding.precision(precision):
        found = mean_field(these, rows, 30)
    assert (found - wanted).square().mean().sqrt() < tolerance
    assert wanted[..., 784:].abs().mean() > 0.1


@deep
def test_phases_of_a_deep_machine_go_as_one_batch(nothing_plain, patterns, hidden):
    these = deep_machine(patterns, hidden)
    data, model = (WeightedSpins.equal(these.random(c, stream(c, device=DEVICE))) for c in (5, 9))
    assert fused.joined(data.spins, model.spins)
    found, one, two = data.gradient_difference(model, these), these.gradient(data), these.gradient(model)
    for name, value in found.items():
        assert torch.allclose(value, one[name] - two[name], atol=1e-5)


@pytest.mark.parametrize("positive", [MeanField(3), ClampedChains(2)], ids=str)
def test_a_deep_machine_trains_as_a_graph_would(nothing_plain, one_block, monkeypatch, positive):
    monkeypatch.setattr(executors, "Graphs", AsItIs)
    these = deep_machine(2, (3, 2))
    rows = torch.ones((4, 3), dtype=torch.int8, device=DEVICE)
    options = {"epochs": 3, "batch_size": 2, "positive": positive, "seed": 0}
    trainer = Trainer(these, rows, Persistent(8, 2), adam(0.1), **options)
    as_graph(trainer)
    before = these.patterns.detach().clone()
    trainer.step(2)
    assert bool(these.patterns.isfinite().all())
    assert not torch.equal(these.patterns, before)
    assert bool((trainer.chains.abs() == 1).all())


# -- moments ------------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("biases", [True, False], ids=["biases", "none"])
@pytest.mark.parametrize(
    ("precision", "tolerance"),
    [("float32", 2e-6), slow("tf32", 3e-3), pytest.param("bf16", 2e-2, marks=on_gpu)],
)
def test_gradients_are_those_of_the_plain_path(
    nothing_plain, monkeypatch, sizes, biases, precision, tolerance
):
    monkeypatch.setattr(fused, "_gradient_served", lambda _: True)
    these = machine(*sizes, biases=biases)
    rows = visible(these, 37)
    weights = torch.rand((2, 37), generator=stream(2)).to(DEVICE) - 0.3
    wanted = these.gradient(WeightedSpins(these.complete(rows), weights))
    with rounding.precision(precision):
        found = these.gradient(GivenVisible(these, rows.to(torch.int8), weights))
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert (found[name] - value).norm() < tolerance * value.norm(), name


# All pairs of pieces of `chains`; beyond them `layers` knows one kind.
COUNTS = (16, 30, 48, 64, 70, 96, 128, 140, 160, 190, 200, 384, 512, 600)


def large_blocks_of(precision: str) -> list[int]:
    return [
        count for count in COUNTS if precision == "bf16" or count <= operands.MOST_PATTERNS[precision]
    ]


@on_gpu
@pytest.mark.parametrize(
    ("precision", "patterns"), [(p, k) for p in rounding.PRECISIONS for k in large_blocks_of(p)]
)
def test_large_blocks(nothing_plain, precision, patterns):
    """As they are compiled for many chains, which the interpreter does not show."""
    these = machine(64, 333, patterns, biases=patterns % 3 == 0, scale=1.2 / patterns**0.5)
    pair, many_chains = these.operands(), 2**15
    start = these.random(many_chains, stream(3, device=DEVICE))
    rows = start[..., :64].to(torch.bfloat16)
    weights = torch.rand((2, many_chains), generator=stream(2)).to(DEVICE) - 0.3
    wanted = these.gradient(WeightedSpins(these.complete(rows), weights))
    keep = torch.rand(start.shape, generator=stream(5)).to(DEVICE) < 0.1
    push = torch.randn((1, 1, 397), generator=stream(6)).to(DEVICE).expand(start.shape)
    tolerance = {"float32": 1e-5, "tf32": 3e-3, "bf16": 1e-2}[precision]
    with rounding.precision(precision):
        found = fused.gradient(pair, rows, weights)
        for name, value in wanted.items():
            assert (found[name] - value).norm() < tolerance * value.norm(), name
        for more, held in (({}, None), ({"push": push}, keep)):
            seed = torch.tensor([7], device=DEVICE)
            how = chains.Settings(2, torch.ones_like(weights), seed, **more)
            drawn = [
                layers.sample(operands.matrix(pair), start, how, cut, held)
                for cut in (Cut(64, 32, 4, 4), operands.layer_cut(pair, many_chains))
            ]
            if operands.few_patterns(pair) and not more:
                cut = operands.cut_of(pair, many_chains, drawing=True)
                drawn.append(chains.sample(operands.operands(pair), start, how, cut))
            cut = operands.layer_cut(pair, many_chains, through=True)
            drawn.append(layers.sample(operands.factors(pair), start, how, cut, held))
            for other in drawn[1:]:
                assert (drawn[0] != other).float().mean() < tolerance


def test_trainings_on_a_gpu_are_rounded_where_nobody_chooses(monkeypatch):
    monkeypatch.setattr(rounding, "_precision", ContextVar("precision", default=None))
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert rounding.current() == "float32"
    assert rounding.of_training(None, gpu) == "bf16"
    assert rounding.of_training(None, cpu) is None
    assert rounding.of_training("float32", gpu) == "float32"
    with rounding.precision("tf32"):
        assert rounding.of_training(None, gpu) is None  # as the block says
        assert rounding.current() == "tf32"


def test_rounded_weights_favour_no_phase():
    """A pixel that is always +1, in 8,000 images and in 190 chains: the phases cancel."""
    weights = torch.cat([torch.full((1, 8000), 1 / 8000), torch.full((1, 190), -1 / 190)], 1)
    ones = torch.ones((1, 8190, 1), device=DEVICE)
    with rounding.precision("bf16"):
        assert abs(float(fused._weighted(weights.to(DEVICE), ones, ones))) < 1e-4
        plain = fused._product(weights.to(DEVICE)[..., None], ones)
    assert abs(float(plain)) > 1e-3  # what it would be


def test_the_average_is_that_of_the_machine_whose_weights_they_are(nothing_plain):
    one, other = machine(5, 9, 2), machine(5, 9, 2, scale=0.9)
    rows, weights = visible(one, 4), torch.ones((2, 4), device=DEVICE)
    for mine, plain_spins in (
        (GivenVisible(other, rows, weights), WeightedSpins(other.complete(rows), weights)),
        (AllStates(other), AllStates(other).whole()),
    ):
        found, wanted = one.gradient(mine), one.gradient(plain_spins)
        for name, value in wanted.items():
            assert torch.allclose(found[name], value, atol=1e-4), name


EVER, NEVER = 0, 2**60  # multiplications


def test_a_gradient_of_middling_size_goes_on_its_own(nothing_plain, monkeypatch):
    these = machine(9, 20, 3)
    weights = torch.rand((2, 30), generator=stream(2)).to(DEVICE)
    data, model = (GivenVisible(these, visible(these, n), weights[:, :n]) for n in (30, 20))
    assert not data.gradient_comes_first(these)
    joined = data.gradient_difference(model, these)
    monkeypatch.setattr(fused, "LONG", EVER)
    assert data.gradient_comes_first(these)
    apart = data.gradient_difference(model, these, data.gradient(these))
    for name, value in joined.items():
        assert torch.allclose(apart[name], value, atol=1e-4), name
    wrong = data.gradient_difference(model, these, model.gradient(these))
    assert not torch.allclose(wrong["biases"], joined["biases"], atol=1e-4)
    monkeypatch.setattr(fused, "DEVICES", ())
    assert not data.gradient_comes_first(these)


@pytest.mark.parametrize("wrong", [5, 29])
def test_visible_spins_of_another_width_are_refused(nothing_plain, wrong):
    these = machine(9, 20, 3)
    with pytest.raises(InputError, match="visible configuration"):
        these.given_visible(torch.ones((2, 4, wrong), device=DEVICE))
    with pytest.raises(InputError, match="finite"):
        these.given_visible(torch.full((2, 4, 9), torch.nan, device=DEVICE))


def test_a_large_batch_comes_in_parts(nothing_plain, monkeypatch):
    these = machine(9, 20, 3)
    rows = visible(these, 37)
    weights = torch.rand((2, 37), generator=stream(2)).to(DEVICE)
    whole = fused.gradient(these.operands(), rows, weights)
    monkeypatch.setattr(fused, "ROOM", 2 * 20 * 4 * 10)
    parts = fused.gradient(these.operands(), rows, weights)
    for name, value in whole.items():
        assert torch.allclose(parts[name], value, atol=1e-5)


@pytest.mark.parametrize(
    ("sizes", "biases"),
    [
        ((5, 70, None), True),
        ((5, 70, 2), False),
        ((40, 5, None), True),
        slow((5, 70, None), False),
        slow((5, 70, 2), True),
        slow((40, 5, None), False),
    ],
    ids=str,
)
def test_sums_over_all_states(nothing_plain, sizes, biases):
    these = machine(*sizes, biases=biases)
    product, mean = AllStates(these).products()
    fused_product, fused_mean = fused.products(these.operands())
    assert torch.allclose(fused_product, product, atol=1e-5)
    assert torch.allclose(fused_mean, mean, atol=1e-5)
    gradient = these.gradient(AllStates(these))
    assert {k: v.shape for k, v in gradient.items()} == {k: v.shape for k, v in these.named_parameters()}


def test_log_weights_count_no_unit_that_is_not_there():
    couplings = torch.randn((2, 3, 70), generator=stream(0)).to(DEVICE)
    logs = states.log_weights(states.padded(couplings, None), 3, 70, 8, "ieee")  # in a block of 64
    from conftest import states as all_states

    field = all_states(3, 0, 8, device=DEVICE).double() @ couplings.double()
    wanted = torch.log(2 * torch.cosh(field)).sum(-1)
    assert torch.allclose(logs, wanted, atol=1e-4)


# -- training -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "negative",
    [PatternInduced(), PatternInduced(2), Persistent(7, 2), ContrastiveDivergence(1), Exact()],
    ids=lambda n: type(n).__name__ + str(getattr(n, "sweeps", "")),
)
def test_phases_keep_their_contract(nothing_plain, one_block, negative):
    check_negative_phase(negative, machine(6, 9, 2))


def ends(negative):
    these = machine(4, 40, 3, biases=False)
    rows = torch.where(torch.rand((25, 4), generator=stream(0)) < 0.3, 1, -1).to(torch.int8)
    options = {"epochs": 1, "batch_size": 10, "projection": Clip(1.0), "batch_mean": "nominal"}
    for _ in train(these, rows, negative, sgd(0.05, momentum=0.5), seed=3, **options):
        pass
    return these.patterns.detach().clone()


@pytest.mark.parametrize("negative", [PatternInduced(), Exact()], ids=["pid", "exact"])
def test_training_ends_where_the_plain_path_ends(few_states, monkeypatch, negative):
    found = []
    for devices, long in (((), EVER), (("cuda", "cpu"), NEVER), (("cuda", "cpu"), EVER)):
        monkeypatch.setattr(fused, "DEVICES", devices)
        monkeypatch.setattr(fused, "LONG", long)
        found.append(ends(negative))
    for other in found[1:]:
        assert torch.allclose(found[0], other, atol=1e-4)
    assert found[0].std() > 0.05


@pytest.mark.parametrize("patterns", [3, None])
def test_centred_training_ends_where_the_plain_path_ends(few_states, monkeypatch, patterns):
    rows = torch.where(torch.rand((25, 4), generator=stream(0)) < 0.3, 1, -1).to(torch.int8)
    found = []
    for devices in ((), ("cuda", "cpu")):
        monkeypatch.setattr(fused, "DEVICES", devices)
        these = machine(4, 40, patterns)
        how = {"epochs": 1, "batch_size": 10, "centred": True, "seed": 3}
        for _ in train(these, rows, Exact(), adam(0.02, weight_decay=0.1), **how):
            pass
        found.append([p.detach().clone() for p in these.parameters()])
    for plain, kernels in zip(*found, strict=True):
        assert torch.allclose(plain, kernels, atol=1e-3)


class AsItIs:
    """In the place of a graph: the same work, run as it is."""

    def __init__(self, *rngs, alone=True):
        pass

    def run(self, key, work):
        work()


def graph_for(device, rngs, parameters, parts, rounding=None, alone=True):
    return executors.Graph(rngs, parameters, rounding)


def as_graph(trainer):
    """The same training, as a graph would run it."""
    trainer.executor = graph_for(None, trainer.shards.rngs, trainer.stepper.parameters.values(), ())
    rows = trainer.batches.stored
    trainer.batches = batches_for(rows, trainer.machine, trainer.executor, trainer.batch_size)


@pytest.mark.parametrize("centred", [False, True], ids=["plain", "centred"])
@pytest.mark.parametrize("every", ["update", "epoch"])
def test_a_graph_reads_what_changes_from_tensors(every, centred, monkeypatch):
    """The work of a graph, run as it is, gives the updates of the plain loop."""
    rows = torch.where(torch.rand((25, 12), generator=stream(0)) < 0.3, 1, -1).to(torch.int8)
    monkeypatch.setattr(executors, "Graphs", AsItIs)
    found = []
    for replayed in (True, False):
        these = machine(12, 40, 3)
        trainer = Trainer(
            these,
            rows.to(DEVICE),
            Persistent(8, 1),
            adam([0.01, 0.03], decay=0.9, weight_decay=0.5),
            epochs=3,
            batch_size=10,
            projection=Clip(0.5),
            batch_mean="nominal",
            average=5,
            seed=0,
            centred=centred,
        )
        if replayed:
            as_graph(trainer)
        start = trainer.state()
        begun = {key: value.clone() for key, value in start.items()}
        for _ in range(2):  # once more from the start: rates go back to what they were
            trainer.load(start)
            for _ in trainer.run(every):
                pass
        found.append([*these.parameters(), *trainer.average.means.values(), trainer.chains])
        for key, value in start.items():
            assert torch.equal(value, begun[key]), key  # a state is not written to
    for a, b in zip(*found, strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_a_graph_is_for_one_place_and_one_precision(monkeypatch):
    heard = []

    class Listening(AsItIs):
        def run(self, key, work):
            heard.append(key)
            work()

    monkeypatch.setattr(executors, "Graphs", Listening)
    these = machine(6, 9, 2)
    rows = torch.ones((4, 6), dtype=torch.int8, device=DEVICE)
    trainer = Trainer(these, rows, Persistent(8, 1), adam(0.1), epochs=9, batch_size=2, seed=0)
    as_graph(trainer)
    trainer.step(2)
    trainer.step(2)
    assert heard[0] == heard[1]
    with rounding.precision("tf32"):
        trainer.step(2)
    for parameter in these.parameters():
        parameter.data = parameter.data.clone()
    trainer.step(2)
    trainer.step(1)
    assert len(set(heard)) == 4  # other products; another place; another number of updates
    before = trainer.executor.replay
    trainer.load(trainer.state())
    assert trainer.executor.replay is not before  # its graphs know chains that are no longer there


def test_a_run_of_graphs_halts_where_it_should(tmp_path, monkeypatch):
    chosen = {"negative": "pcd", "particles": 8, "optimizer": "adam", "epochs": 3, "device": "cpu"}
    chosen |= {"evaluate": "7", "checkpoints": "12"}
    ends = []
    for name in ("single", "together"):
        with monkeypatch.context() as patch:
            patch.setattr(executors, "Graphs", AsItIs)
            if name == "together":
                patch.setattr(training, "executor_for", graph_for)
            run = Run.create(tmp_path / name, Recipe.made("bars4", chosen))
            steps = [step.update for step in run.go()]
        looks = [record["update"] for record in run.metrics()]
        files = sorted(path.name for path in (run.folder / "checkpoints").iterdir())
        ends.append((looks, files, load_tensors(run.latest)[0], steps))
    assert ends[0][:2] == ends[1][:2]
    assert len(ends[1][3]) < len(ends[0][3])
    for key, value in ends[0][2].items():
        if key.startswith("parameter/"):
            assert torch.allclose(value, ends[1][2][key], atol=1e-5), key


@pytest.mark.parametrize("projection", [None, Sign("update"), Clip(0.5)], ids=str)
def test_in_a_graph_a_replica_that_diverges_stays(nothing_plain, monkeypatch, projection):
    these = machine(6, 9, None if projection is None else 2, biases=False, scale=0.8)
    trainer = Trainer(
        these,
        torch.ones((4, 6), dtype=torch.int8, device=DEVICE),
        Persistent(8, 1),
        adam(0.1),
        epochs=3,
        batch_size=2,
        projection=projection,
        seed=0,
    )
    monkeypatch.setattr(executors, "Graphs", AsItIs)
    as_graph(trainer)
    values = next(iter(these.parameters())).data
    values[1, 0, 0] = float("nan")
    before = values.clone()
    trainer.step(2)
    assert trainer.diverged() == (1,)
    assert torch.allclose(values[1], before[1], rtol=0, atol=0, equal_nan=True)
    assert not torch.equal(values[0], before[0])
    assert bool(values[0].isfinite().all())


# -- the choice ---------------------------------------------------------------------------------------


def test_which_machines_are_served(kernels):
    assert fused.serves(machine(4, 3, 2).operands())
    assert fused.serves(machine(200, 3).operands())
    assert not fused.serves(machine(4, 3).double().operands())
    assert fused.serves(dbm(4, (3, 2), seed=0, device=DEVICE).operands())
    assert dbm(4, (3, 2), seed=0, device=DEVICE).double().operands() is None
    assert bm(4, 3, seed=0, device=DEVICE).operands() is None


def test_nothing_is_put_together_for_nobody(plain):
    assert dbm(4, (3, 2), seed=0, device=DEVICE).operands() is None


def test_small_work_is_left_to_the_plain_path(monkeypatch):
    monkeypatch.setattr(fused, "DEVICES", ("cuda", "cpu"))
    these = machine(4, 3, 2)
    start = these.random(10, stream(0, device=DEVICE))
    work = 3 * 2 * 10 * 7 * 2  # sweeps, replicas, chains, units, patterns
    for worth, served in ((work, True), (work + 1, False)):
        monkeypatch.setattr(fused, "WORTH", worth)
        found = fused.sweeps(these.operands(), start, stream(1, device=DEVICE), 3, 1.0)
        assert (found is not None) == served


def test_a_kernel_that_is_refused_leaves_the_plain_path(monkeypatch):
    monkeypatch.setattr(fused, "_refused", set())
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    gpu = torch.device("cuda")
    assert fused.tried(gpu, "chains", lambda: 3) == 3

    def refuse():
        raise ValueError("no such instruction")

    with pytest.warns(RuntimeWarning, match="chains does not run here in float32 .*instruction"):
        assert fused.tried(gpu, "chains", refuse) is None
    assert fused.tried(gpu, "chains", lambda: 3) is None  # not tried again
    assert fused.tried(gpu, "layers", lambda: 3) == 3
    with rounding.precision("bf16"):
        assert fused.tried(gpu, "chains", lambda: 3) == 3

    def full():
        raise torch.OutOfMemoryError("full")

    with pytest.raises(torch.OutOfMemoryError):  # that is no fault of the kernel
        fused.tried(gpu, "layers", full)


def test_the_plain_path_where_nothing_serves(plain, monkeypatch):
    these = machine(4, 3, 2)
    assert not fused.serves(these.operands())
    assert fused.products(these.operands()) is None
    rows = visible(these, 5)
    assert fused.gradient(these.operands(), rows, torch.ones((2, 5), device=DEVICE)) is None
    many = visible(these, fused.FEW_ROWS + 1)
    assert fused.joins(these.operands(), many.shape[1])  # a small machine
    monkeypatch.setattr(fused, "FEW_PRODUCTS", many.shape[1])
    assert not fused.joins(these.operands(), many.shape[1])
    with pytest.raises(InputError, match="at least one value"):
        these.given_visible(many[:, :0])


def test_few_rows_go_as_one_batch(plain):
    """The phases together give the gradient that they give apart."""
    these = machine(4, 30, 2)
    data, model = (these.given_visible(rows) for rows in (visible(these, 5), visible(these, 9)))
    assert isinstance(data, GivenVisible)
    found = data.gradient_difference(model, these)
    first, second = (these.gradient(WeightedSpins(x.spins, x.weights)) for x in (data, model))
    for name, value in found.items():
        assert torch.allclose(value, first[name] - second[name], atol=1e-5)


def test_threads_do_not_disturb_each_others_precision():
    before, steps = torch.get_float32_matmul_precision(), []
    a_in, b_in, a_out = (threading.Event() for _ in range(3))

    def low():
        with rounding.precision("bf16"):
            a_in.set()
            assert b_in.wait(60)
            steps.append((rounding.current(), torch.get_float32_matmul_precision()))
        a_out.set()

    def exact():
        assert a_in.wait(60)
        with rounding.precision("float32"):
            b_in.set()
            assert a_out.wait(60)
            steps.append((rounding.current(), torch.get_float32_matmul_precision()))

    threads = [threading.Thread(target=work) for work in (low, exact)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert steps == [("bf16", "highest"), ("float32", "highest")]  # never less than was asked for
    assert torch.get_float32_matmul_precision() == before


def test_precision_is_put_back():
    before = torch.get_float32_matmul_precision()
    with rounding.precision("bf16"):
        assert torch.get_float32_matmul_precision() == "high"
        with rounding.precision("float32"):
            assert torch.get_float32_matmul_precision() == "highest"
    assert torch.get_float32_matmul_precision() == before
    with pytest.raises(InputError, match="precision"), rounding.precision("fp8"):
        pass


def test_low_precision_is_refused_on_a_cpu():
    with pytest.raises(InputError, match="GPU"):
        train(rbm(4, 3, seed=0), torch.ones((2, 4)), Persistent(), sgd(0.1), epochs=1, batch_size=1,
              precision="bf16")  # fmt: skip


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_blocks_are_small_where_there_are_few_chains_and_wide_where_they_are_not_drawn(precision):
    pair = rbm(20, 30, 4, seed=0).couplings.operands(None)
    with rounding.precision(precision):
        few, many = 10, 2**16
        assert operands.cut_of(pair, few, drawing=True).chains == 16
        drawn, means = (operands.cut_of(pair, many, drawing=d) for d in (True, False))
    assert drawn.chains == means.chains == 64
    assert (drawn.units, drawn.stages) == (32, 3 if precision == "bf16" else 1)
    assert means.units == (64 if precision == "bf16" else 32)
