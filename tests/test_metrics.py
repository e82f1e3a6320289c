import pytest
import torch

from conftest import states
from rapidbm.data.catalogue import load
from rapidbm.data.splits import Split
from rapidbm.errors import InputError
from rapidbm.glass import accessibility
from rapidbm.glass.accessibility import gibbs_accessibility, method_accessibility
from rapidbm.ground.ground_state import ground_state
from rapidbm.likelihood.log_z import log_likelihood
from rapidbm.machines.constructors import bm, dbm, rbm
from rapidbm.random import stream
from rapidbm.runs import metrics
from rapidbm.runs.metrics import (
    METRICS,
    corrupt,
    hamming_distance,
    mean_free_energy,
    reconstruct,
    wrong_pixels,
)
from rapidbm.sampling.gibbs import sweep, sweeps
from rapidbm.training.negative import ContrastiveDivergence, Exact, PatternInduced, Persistent

DATA = load("bars4")


def test_one_hidden_unit_tells_the_rest():
    machine = rbm(4, 1, 1, seed=0)
    machine.patterns.data.fill_(5.0)
    known = torch.tensor([True, True, False, False])
    found = hamming_distance(machine, Split(torch.ones(3, 4), known=known), stream(0))
    assert float(found) < 1e-6


def test_wrong_pixels_of_all_and_of_the_unknown_ones():
    spins = torch.tensor([[1, 1, -1, -1], [1, -1, 1, -1]])
    filled = torch.tensor([[1.0, -1.0, 1.0, -1.0], [1.0, -1.0, 1.0, 1.0]])  # 3 of 8 are wrong
    one, each = torch.tensor([True, True, True, False]), torch.tensor([[True, False] * 2] * 2)
    for known, share in ((one, 1 / 2), (each, 2 / 4)):
        split = Split(spins, known=known)
        assert wrong_pixels(filled, split, unknown=False) == 3 / 8
        assert wrong_pixels(filled, split, unknown=True) == share
    for known in (None, torch.ones(4, dtype=torch.bool)):
        with pytest.raises(InputError, match="every pixel is known"):
            wrong_pixels(filled, Split(spins, known=known), unknown=True)


def repeated(data, times):
    """The same images many times over, which takes less time than as many tries."""
    return Split(data.spins.repeat(times, 1), known=data.known.repeat(times, 1))


@pytest.mark.parametrize(
    "machine",
    [
        rbm(16, 12, 3, replicas=2, seed=0, scale=0.6),
        dbm(16, (6, 5), replicas=2, seed=0, scale=0.3),
        bm(16, 3, 2, replicas=2, seed=0, scale=0.5),
        bm(16, 0, 2, replicas=2, seed=0, scale=0.5),
    ],
)
def test_hamming_distance_is_the_plain_definition(machine):
    """One pass up and down from the corrupted image, nothing clamped, |B − A| / 2V."""
    start = machine.with_visible(corrupt(DATA.test).nan_to_num(), means=True)
    tries = 3000
    out = sweep(machine, start.repeat(1, tries, 1), stream(1), means=True)[..., :16]
    wanted = (out - DATA.test.spins.repeat(tries, 1)).abs().mean((1, 2)) / 2
    found = hamming_distance(machine, repeated(DATA.test, 1000), stream(2), tries=3)
    # Five standard errors of the difference of two means of numbers in [0, 1], at most: 6 of 10⁷.
    assert torch.allclose(found, wanted, atol=5 * 2**0.5 * 0.5 / (tries * 4) ** 0.5)


def test_hamming_distance_of_known_machines():
    blind = rbm(16, 4, seed=0, scale=1e-6)  # a paramagnet guesses
    assert abs(float(hamming_distance(blind, DATA.train, stream(0))) - 0.5) < 0.02
    data = Split(DATA.train.spins[:1], known=DATA.train.known[:1])
    wise = rbm(16, 200, 1, seed=0)  # its only pattern is the image
    wise.couplings.patterns.data[..., :16] = data.spins.float()
    assert float(hamming_distance(wise, data, stream(0))) < 1e-3


@pytest.mark.parametrize("images", [1, 3, 8, 10])
def test_images_that_come_in_parts_are_each_compared_with_itself(monkeypatch, images):
    """A cold machine with one pattern fills in ±ξ, the sign that the known pixels have: no chance."""
    machine = rbm(7, 500, 1, replicas=2, seed=0)
    machine.couplings.patterns.data[..., :7] = 1.0
    truth = torch.where(torch.rand((10, 7), generator=stream(1)) < 0.5, 1, -1)
    data = Split(truth, known=torch.arange(7) < 5)
    side = truth[:, :5].sum(1).sign()
    wanted = float((truth != side[:, None]).double().mean())
    monkeypatch.setattr(metrics, "ROOM", images * 2 * 507)
    found = hamming_distance(machine, data, stream(0), tries=2)
    assert found.tolist() == pytest.approx([wanted] * 2)


def test_corrupted_images():
    images = corrupt(DATA.test).reshape(-1, 4, 4)
    assert bool(images[:, 1:].isnan().all())  # and nothing takes it for data
    assert bool((images[:, 0].abs() == 1).all())
    with pytest.raises(InputError, match="known=mask"):
        corrupt(Split(DATA.test.spins))


def test_clamped_reconstruction_keeps_what_is_known():
    machine = rbm(16, 12, 3, replicas=2, seed=0, scale=0.3)
    out = reconstruct(machine, DATA.test, stream(0), passes=3, clamp=True)
    known = DATA.test.known
    assert out.shape == (2, 4, 16)
    assert bool((out[:, known] == DATA.test.spins[known]).all())
    free = reconstruct(machine, DATA.test, stream(0), passes=3)
    assert not bool((free[:, known] == DATA.test.spins[known]).all())


def test_accessibilities():
    cold = rbm(16, 200, 2, replicas=3, seed=0)
    assert float(gibbs_accessibility(cold, DATA.train, stream(0)).min()) > 0.95
    hot = rbm(16, 200, replicas=3, seed=0, scale=1e-3)
    assert float(gibbs_accessibility(hot, DATA.train, stream(0)).max()) < 0.6
    ground = ground_state(cold).energy
    for negative in (
        PatternInduced(),
        PatternInduced(3),
        ContrastiveDivergence(5),
        Persistent(20, 5),
    ):
        found = method_accessibility(cold, DATA.train, stream(0), negative=negative, ground=ground)
        assert found.shape == (3,)
        assert 0.5 < float(found.min()) <= float(found.max()) <= 1 + 1e-6


def test_a_paramagnet_is_not_made_cold_by_its_means():
    """The configurations that cd and pcd use, not the best hidden state for each of them."""
    hot = rbm(16, 300, replicas=2, seed=0, scale=1e-2)
    ground = ground_state(hot).energy
    for negative in (ContrastiveDivergence(5), Persistent(50, 5)):
        found = method_accessibility(hot, DATA.train, stream(0), negative=negative, ground=ground)
        assert float(found.max()) < 0.5
    chains = hot.random(50, stream(1))
    found = method_accessibility(
        hot, DATA.train, stream(0), negative=Persistent(50), chains=chains, ground=ground
    )
    assert torch.allclose(found, hot.energy(chains).detach().amin(1) / ground)
    cd = ContrastiveDivergence(2)
    found = method_accessibility(hot, DATA.train, stream(3), negative=cd, repeats=4, ground=ground)
    rng, lowest = stream(3), torch.full((2,), torch.inf)
    for _ in range(4):
        spins = sweeps(hot, hot.with_visible(DATA.train.spins), rng, 2)
        lowest = torch.minimum(lowest, hot.energy(spins).detach().amin(1))
    assert torch.allclose(found, lowest / ground)
    with pytest.raises(InputError, match="no configurations of its own"):
        method_accessibility(hot, DATA.train, stream(0), negative=Exact())


def test_gibbs_accessibility_is_the_lowest_of_the_chains():
    machine = rbm(16, 30, replicas=2, seed=0, scale=0.2)
    found = gibbs_accessibility(machine, DATA.train, stream(5), chains=4, steps=3)
    rng = stream(5)
    spins = sweeps(machine, machine.random(4, rng), rng, 3)
    lowest = machine.energy(spins).detach().amin(1)
    assert torch.allclose(found, lowest / ground_state(machine).energy.float())
    low = gibbs_accessibility(machine, None, stream(5), ground=torch.full((2,), -1e-3))
    assert torch.equal(low, torch.ones(2))  # a search that missed lower energies


@pytest.mark.parametrize(
    ("images", "tries"), [(10, 100), (40, 100), (41, 97), (100, 40), (4001, 1), (10_500, 1)]
)
def test_the_default_number_of_tries(monkeypatch, images, tries):
    seen = []

    def none_wrong(machine, split, truth, rng, tries):
        seen.append(tries * len(split))
        return iter(())

    monkeypatch.setattr(metrics, "_mismatches", none_wrong)
    rows = DATA.train.spins[:1].expand(images, -1)
    hamming_distance(rbm(16, 4, seed=0), Split(rows, known=DATA.train.known[0]), stream(0))
    assert sum(seen) == tries * min(images, 10_000)


def test_hamming_distance_is_exact_in_expectation():
    """Against the sum over all hidden states of a small machine."""
    machine = rbm(16, 5, seed=0, scale=0.5, dtype=torch.float64)
    start = machine.with_visible(corrupt(DATA.test).nan_to_num(), means=True)
    up = torch.sigmoid(2 * machine.field(start, 1, means=True))  # (1, c, 5)
    hidden = states(5, 0, 32).double()
    p = torch.where(hidden[:, None] > 0, up, 1 - up).prod(-1)  # (32, c)
    wrong = 0.0
    for h, weight in zip(hidden, p, strict=True):
        spins = start.clone()
        spins[..., 16:] = h
        field = machine.field(spins, 0, means=True)
        wrong = wrong + weight * torch.sigmoid(-2 * DATA.test.spins * field).mean(-1)[0]
    found = hamming_distance(machine, repeated(DATA.test, 1000), stream(0), tries=4)
    wrong = wrong.detach()
    error = float((wrong * (1 - wrong)).mean().sqrt()) / (4000 * len(wrong)) ** 0.5  # at most
    assert abs(float(found) - float(wrong.mean())) < 5 * error < 0.02  # 6 of 10⁷ are farther off


@pytest.mark.parametrize("hidden", [20, 1200])  # random numbers of torch, and of SFC64
@pytest.mark.parametrize("patterns", [3, None])
def test_hidden_units_are_drawn_as_by_sweeps_that_hold_the_image(hidden, patterns):
    machine, tries = rbm(16, hidden, patterns, seed=0, replicas=3, biases=True), 3
    rng, mine = stream(4), stream(4)
    start = machine.with_visible(corrupt(DATA.train).nan_to_num(), means=True)
    keep = torch.arange(machine.layers.columns) < 16
    wrong = torch.zeros(3, dtype=torch.float64)
    for _ in range(tries):
        spins = sweep(machine, start, rng, clamp=keep, means=True)
        field = machine.field(spins, 0, means=True).detach()
        wrong += torch.sigmoid(-2 * DATA.train.spins * field).sum((1, 2), dtype=torch.float64)
    found = hamming_distance(machine, DATA.train, mine, tries=tries)
    assert torch.equal(found, (wrong / (tries * 16 * len(DATA.train))).float())
    assert torch.equal(mine.get_state(), rng.get_state())


@pytest.mark.parametrize("made", [rbm(16, 3, seed=0), dbm(16, (3, 2), seed=0), bm(16, 3, seed=0)])
def test_the_last_half_step_is_in_expectation_where_it_can_be(made):
    """A draw gets a whole number of pixels wrong."""
    wrong = 16 * 3 * float(hamming_distance(made, load("bars4").train.take(slice(3)), stream(0), tries=1))
    assert (abs(wrong - round(wrong)) > 1e-3) == made.layers.hidden_independent


def test_the_number_of_passes():
    machine = rbm(16, 12, 3, seed=0, scale=0.3)
    found = reconstruct(machine, DATA.test, stream(0), passes=3)
    wanted = sweeps(
        machine,
        machine.with_visible(corrupt(DATA.test).nan_to_num(), means=True),
        stream(0),
        3,
        means=True,
    )
    assert torch.equal(found, wanted[..., :16])


def test_method_accessibility_of_pure_pid_is_the_energy_of_the_patterns():
    machine = rbm(16, 100, 4, replicas=2, seed=0)
    found = method_accessibility(machine, DATA.train, stream(0), negative=PatternInduced())
    wanted = machine.energy(machine.patterns).detach().amin(1) / ground_state(machine).energy
    assert torch.allclose(found, wanted)


def test_every_metric_has_one_value_per_replica():
    machine = rbm(16, 6, 2, replicas=3, seed=0)
    for name, metric in METRICS.items():
        one, two = (metric(machine, DATA.test, stream(0)) for _ in range(2))
        assert one.shape == (3,), name
        assert torch.equal(one, two), name
        assert not one.requires_grad


@pytest.mark.parametrize("room", [2**20, 2 * 22 * 3 // 2**4, 1])
def test_mean_free_energy(monkeypatch, room):
    machine = rbm(16, 6, 2, replicas=2, seed=0)
    wanted = machine.free_energy(DATA.train.spins).mean(1)
    monkeypatch.setattr(metrics, "ROOM", room)  # of the 10 images all at once, 2 or 1 at a time
    assert torch.allclose(mean_free_energy(machine, DATA.train, stream(0)), wanted)


def test_metrics_that_a_machine_is_too_large_for_are_refused_beforehand():
    small, deep, wide = bm(3, 16, seed=0), bm(3, 17, seed=0), rbm(27, 27, seed=0)
    for name in METRICS:
        METRICS[name].check(small)
    for name in ("log_likelihood", "free_energy"):
        with pytest.raises(InputError, match=r"the metric .* 65,536 states per image .* 2\^17"):
            METRICS[name].check(deep)
    for name in METRICS:
        METRICS[name].check(wide)  # its hidden units are summed in closed form
    METRICS["hamming"].check(deep)


def test_the_ground_state_is_searched_with_the_callers_numbers(monkeypatch):
    machine, heard = rbm(4, 3, seed=0), []
    lowest = ground_state(machine)
    monkeypatch.setattr(
        accessibility, "ground_state", lambda machine, **options: (heard.append(options), lowest)[1]
    )
    rng = stream(0)
    gibbs_accessibility(machine, None, rng, steps=0)
    assert heard == [{"rng": rng}]
    gibbs_accessibility(machine, None, rng, ground=lowest.energy)
    assert len(heard) == 1


def test_the_likelihood_by_itself_is_exact_or_annealed(monkeypatch):
    heard, machine = [], rbm(16, 4, seed=0)
    wanted = log_likelihood(machine, DATA.test)

    def likelihood(machine, split, **options):
        heard.append(options)
        return wanted

    monkeypatch.setattr(metrics, "log_likelihood", likelihood)
    rng = stream(0)
    found = METRICS["log_likelihood"](machine, DATA.test, rng)
    assert torch.equal(found, wanted.value)
    assert heard == [{"rng": rng}]
