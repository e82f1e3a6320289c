"""Deep and full machines: what the studies measure, and what claims say of it."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from rapidbm.data.catalogue import load
from rapidbm.errors import LoadWarning
from rapidbm.machines.constructors import bm, rbm
from rapidbm.paper import item, parts, settings
from rapidbm.paper.claims import claims_of, judged
from rapidbm.paper.deep import depth, glass, likelihood, minima, moments, negatives, steering
from rapidbm.paper.lab import Lab
from rapidbm.paper.records import Record, plain, settings_of
from rapidbm.paper.reproduction import item_names
from rapidbm.random import stream
from rapidbm.runs.recipe import Recipe

STUDIES = (
    "deep-steering",
    "deep-moments",
    "deep-phases",
    "deep-digits",
    "deep-mnist",
    "deep-glass",
    "deep-minima",
)
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{LoadWarning.__module__}.LoadWarning"),
    pytest.mark.xdist_group("deep"),  # records are made once
]


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deep")
    found = {}
    for study in STUDIES:
        scale = settings(study, "tiny")
        for name, part in parts(study).items():
            lab = Lab(name, torch.device("cpu"), 0, folder, lambda share: None)
            values = part.run(lab, scale)
            found[name] = Record(name, "tiny", 0, settings_of(scale), plain(values))
    return found


def test_one_word_stands_for_all_of_it():
    assert item_names(["deep"]) == list(STUDIES)


@pytest.mark.parametrize("name", STUDIES)
def test_items_are_drawn_and_claims_judged(records, name):
    fig = item(name).draw(item(name).records(records))
    assert fig.axes
    assert item(name).caption(records)
    for module in (steering, moments, negatives, depth, likelihood, glass, minima):
        for claim in claims_of(module):
            assert judged(claim, records).finding.measured


# -- steering -------------------------------------------------------------------------------------


def test_every_pace_is_trained(records):
    record, scale = records["deep-steering.dbm-bars"], settings("deep-steering", "tiny")
    assert record["pace"] == list(scale.paces)
    assert np.array(record["hamming_test"]).shape == (len(scale.paces), scale.instances)


def test_hidden_patterns_of_a_deep_machine_are_rewritten_and_those_of_a_restricted_one_are_not():
    shares = {}
    for name, more in {"rbm": {"hidden": (300,)}, "dbm": {"model": "dbm", "hidden": (300, 300)}}.items():
        recipe = Recipe.made("bars4", {**more, "replicas": 3}, "paper-bars")
        data, device = recipe.data(), torch.device("cpu")
        see = steering.rewritten(recipe.machine(data, device))
        trainer = recipe.trainer(data, device)
        trainer.finish_epoch()
        shares[name] = float(see(trainer.progress(), data, stream(0)).mean())
    assert shares["rbm"] < 0.01
    assert shares["dbm"] > 0.08


def steered(plain_one, best):
    paced = {"pace": [0.01, 1.0], "hamming_test": [best, plain_one], "rewritten": [[0.0] * 3, [0.5] * 3]}
    strong = {f"{name}_hamming_test": best for name in ("rbm", "dbm", "bm-1", "bm-2", "bm-4")}
    values = {"dbm-bars": paced, "bm-bars": paced, "strong-bars": strong, "strong-bas": strong}
    return {
        f"deep-steering.{name}": Record(f"deep-steering.{name}", "paper", 0, {}, x)
        for name, x in values.items()
    }


@pytest.mark.parametrize(
    ("plain_one", "best", "verdicts"),
    [
        ([0.4, 0.41, 0.42], [0.01, 0.011, 0.012], ["does not hold", "holds"]),
        ([0.01, 0.01, 0.01], [0.01, 0.01, 0.01], ["holds", "holds"]),
        ([0.4, 0.41, 0.42], [0.2, 0.21, 0.22], ["does not hold", "does not hold"]),
    ],
)
def test_what_is_said_of_pure_pid(plain_one, best, verdicts):
    found = steered(plain_one, best)
    assert [judged(claim, found).verdict for claim in claims_of(steering)] == verdicts


# -- moments --------------------------------------------------------------------------------------


def test_the_small_bars():
    data = moments.small_bars()
    assert (len(data.train), len(data.test), data.shape) == (12, 2, (2, 4))
    lines = data.test.spins[:, :4]
    assert bool((lines[:, 1:] == -lines[:, :-1]).all())
    assert torch.equal(data.train.spins[:, :4], data.train.spins[:, 4:])


def test_a_machine_without_couplings_misses_what_patterns_have():
    """Its pairs are independent, ⟨s_i s_j⟩ = 0: what PID's states have is all error."""
    machine = rbm(4, 3, 2, seed=0, scale=1e-9, dtype=torch.float64)
    missed = moments._missed(machine, moments.small_bars(), stream(0))
    assert float(missed) < 1e-6  # hidden units at their means: no correlation
    full = bm(6, patterns=2, seed=0, scale=1e-9, dtype=torch.float64)
    signs = full.patterns.detach().sign()
    pairs = (signs.mT @ signs / 2)[0][torch.ones(6, 6).triu(1).bool()]
    assert float(moments._missed(full, moments.small_bars(), stream(0))) == pytest.approx(
        float(pairs.square().mean().sqrt())
    )


def test_the_angle_is_that_of_exact_gradients():
    """The true gradient against itself: PID's states of a machine with one pattern, cold, are its own."""
    machine = rbm(8, 3, 1, seed=0, scale=2.0, dtype=torch.float64)
    assert float(moments._angle(machine, moments.small_bars(), stream(0))) > 0.99


def test_energies_are_over_that_of_the_ground_state(records):
    for name in moments.KINDS:
        record = records[f"deep-moments.{name}"]
        for reading in moments.READINGS:
            assert float(record.array(f"energy_{reading}").max()) <= 1.0 + 1e-6
        minimum, signs = (record.array(f"energy_{r}") for r in ("minimum", "all"))
        assert bool((minimum >= signs - 1e-6).all())


# -- what stands in for the model average ---------------------------------------------------------


def test_seeds_are_the_patterns_one_after_another():
    chosen = {
        "hidden": (6,),
        "patterns": 3,
        "particles": 7,
        "negative": "pcd",
        "epochs": 1,
        "replicas": 2,
    }
    recipe = Recipe.made("bars4", chosen, "small")
    trainer = recipe.trainer(recipe.data(), torch.device("cpu"))
    negatives.seeded(trainer)
    signs = trainer.machine.patterns.detach().sign()
    assert torch.equal(trainer.chains, signs[:, [0, 1, 2, 0, 1, 2, 0]])
    trainer.step()
    assert trainer.chains.shape == (2, 7, 22)


def test_every_average_is_tried_and_no_end_beats_the_best_machine(records):
    for model in negatives.MODELS:
        record = records[f"deep-phases.{model}"]
        assert record["phase"] == list(negatives.PHASES)
        assert float(record.array("likelihood").max()) < -math.log(12)


@pytest.mark.parametrize(
    ("below", "verdict"), [(0.02, "holds"), (0.3, "does not hold"), (0.1, "undecided")]
)
def test_what_is_said_of_averages(below, verdict):
    exact = np.array([-3.0, -3.1, -3.2])
    rows = [exact - below * np.array([0.9, 1.0, 1.1]) * (name != "exact") for name in negatives.PHASES]
    values = {"phase": list(negatives.PHASES), "likelihood": [row.tolist() for row in rows]}
    names = [f"deep-phases.{model}" for model in negatives.MODELS]
    found = {name: Record(name, "paper", 0, {}, values) for name in names}
    (claim,) = claims_of(negatives)
    assert judged(claim, found).verdict == verdict


# -- depth ----------------------------------------------------------------------------------------


def test_deep_and_full_machines_have_as_many_parameters():
    scale, counts = settings("deep-digits", "paper"), {}
    for name in depth.NAMES:
        chosen = depth._chosen(scale, 64, name)
        if name == "bm-visible":  # which has all that 64 units can have
            continue
        if chosen["patterns"] is not None:
            counts[name] = chosen["patterns"] * (64 + sum(chosen["hidden"]))
        elif chosen["model"] == "bm":
            counts[name] = math.comb(64 + sum(chosen["hidden"]), 2)
        else:
            counts[name] = sum(a * b for a, b in pairwise((64, *chosen["hidden"])))
    assert max(counts.values()) / min(counts.values()) < 1.05, counts


def test_chains_forget():
    one = torch.ones(2, 40, 64).bernoulli_(0.5, generator=stream(0)) * 2 - 1
    other = torch.ones(2, 40, 64).bernoulli_(0.5, generator=stream(1)) * 2 - 1
    assert torch.allclose(depth._memory(one, one), torch.ones(2), atol=0.02)
    assert float(depth._memory(one, other).abs().max()) < 0.1
    same = one[:, :1].expand(2, 40, 64)  # all chains in one state: nothing of their own to remember
    assert torch.allclose(depth._memory(same, same), torch.zeros(2), atol=1e-6)


def test_a_time_is_that_of_the_machine(tmp_path):
    """Free spins forget in a sweep, frozen ones never."""
    scale = settings("deep-digits", "quick")
    scale = type(scale)(**{**vars(scale), "chains": 30, "settle": 2, "record": 20})
    lab = Lab("deep-digits.x", torch.device("cpu"), 0, tmp_path, lambda share: None)
    data = load("digits")
    assert depth._time(lab, scale, rbm(64, 10, seed=0, scale=1e-6), data)[0] <= 1.0
    assert depth._time(lab, scale, rbm(64, 100, seed=0, scale=5.0), data)[0] == 20.0


@pytest.mark.parametrize(
    ("deep", "verdict"), [(-15.9, "holds"), (-16.9, "does not hold"), (-16.0, "undecided")]
)
def test_what_is_said_of_depth(deep, verdict):
    spread = np.array([-0.02, 0.0, 0.02])
    values = dict.fromkeys(("dbm", "dbm-layerwise", "dbm3"), deep) | {"rbm": -16.0}
    found = {
        f"deep-digits.{name}": Record(
            f"deep-digits.{name}", "paper", 0, {}, {"test": (x + spread).tolist()}
        )
        for name, x in values.items()
    }
    (claim,) = claims_of(depth)
    assert judged(claim, found).verdict == verdict


# -- likelihood -----------------------------------------------------------------------------------


def test_machines_have_about_as_many_parameters():
    scale = settings("deep-mnist", "paper")
    counts = {}
    for name in likelihood.NAMES:
        shape = likelihood._shape(scale, name)
        sizes = (784, *shape["hidden"])
        if shape["patterns"] is not None:
            counts[name] = shape["patterns"] * sum(sizes)
        else:
            counts[name] = sum(a * b for a, b in pairwise(sizes))
    assert max(counts.values()) / min(counts.values()) < 1.05, counts


def test_bounds_are_below_what_enumeration_says(records):
    for name in ("dbm", "dbm3", "dense-dbm"):
        record = records[f"deep-mnist.{name}"]
        assert float(record["gap"][0]) >= -1e-6
        value, low, high = (x[0] for x in record["bound_test"])
        assert low <= value <= high


def test_a_deep_machine_starts_from_a_restricted_one(tmp_path):
    scale = settings("deep-mnist", "tiny")
    lab = Lab("deep-mnist.x", torch.device("cpu"), 0, tmp_path, lambda share: None)
    data = load("digits")
    recipe = likelihood._recipe(lab, scale, data, "dbm-layerwise", 8)
    start = likelihood.first_layer(lab, recipe, data)
    first = lab.machine(next(iter(_runs(tmp_path))))
    trainer = recipe.trainer(data, torch.device("cpu"))
    before = trainer.machine.patterns.detach().clone()
    start(trainer)
    n = first.layers.units
    assert torch.equal(trainer.machine.patterns[..., :n], first.patterns)
    assert torch.equal(trainer.machine.biases[..., :n], first.biases)
    assert torch.allclose(trainer.machine.patterns[..., n:], 0.1 * before[..., n:])


def _runs(folder):
    from rapidbm.runs.run import Run

    yield from (Run(path.parent, load("digits")) for path in folder.rglob("run.json"))


def test_classes_are_shares(records):
    for name in likelihood.NAMES:
        assert sum(records[f"deep-mnist.{name}"]["classes"]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("value", "low", "high", "most", "verdict"),
    [
        (-90.0, -90.3, -89.7, 0.15, "holds"),
        (-94.9, -95.2, -94.6, 0.15, "does not hold"),
        (-90.0, -90.6, -89.4, 0.15, "does not hold"),
        (-90.0, -90.3, -89.7, 0.3, "does not hold"),
    ],
)
def test_what_is_said_of_full_machines(value, low, high, most, verdict):
    rest = (1 - most) / 9
    values = {"bound_test": [[value], [low], [high]], "classes": [most, *[rest] * 9]}
    found = {"deep-mnist.bm": Record("deep-mnist.bm", "paper", 0, {}, values)}
    (claim,) = [c for c in claims_of(likelihood) if c.name == "deep-full"]
    assert judged(claim, found).verdict == verdict


# -- glass and minima -----------------------------------------------------------------------------


def test_a_paramagnet_forgets_and_a_cold_glass_does_not():
    scale = settings("deep-glass", "quick")
    scale = type(scale)(**{**vars(scale), "chains": 16, "sweeps": 40, "starts": 30})
    data = load("digits")
    free = rbm(64, 40, seed=0, scale=1e-3)
    cold = rbm(64, 40, seed=0, scale=1.0)
    warm = glass._seen(free, data, stream(0), scale)
    frozen = glass._seen(cold, data, stream(0), scale)
    assert abs(float(warm["frozen"])) < 0.05
    assert float(frozen["frozen"]) > 0.6
    assert float(frozen["apart"]) > 0.5
    assert float(frozen["meet"]) < 0.02
    assert abs(float(warm["lost"])) < 0.05


def test_energies_of_random_starts_show_a_state_that_outweighs_the_data():
    """All units of one sign, bright, where the images are dark: chains from images do not get there."""
    data = load("digits")
    machine = rbm(64, 10, seed=0, scale=1e-3, biases=True)
    machine.couplings.weights["0-1"].data += 0.5
    machine.biases.data += 0.3
    dark = type(data)("dark", data.train.take(data.train.spins.sum(1) < -20), data.test, (8, 8))
    scale = settings("deep-glass", "tiny")
    scale = type(scale)(**{**vars(scale), "chains": 40, "sweeps": 30})
    assert float(glass._seen(machine, dark, stream(0), scale)["lost"]) < -0.1


@pytest.mark.parametrize(("meet", "share"), [(0.001, 1.0), (0.5, 0.0)])
def test_a_glass_is_frozen_apart_and_has_many_minima(meet, share):
    values = {"frozen": [[0.9, 0.9]], "apart": [[0.5, 0.5]], "meet": [[meet, meet]]}
    (number,) = glass.glassy(Record("x", "tiny", 0, {}, values))
    assert number.value == share


def test_minima_below_images_of_a_machine_that_knows_them():
    """Patterns that are two images: descent from either ends there."""
    data = load("digits")
    images = data.train.spins[:2].float()
    machine = rbm(64, 300, 2, seed=0)
    machine.patterns.data[..., :64] = images
    small = type(data)("two", data.train.take(slice(0, 2)), data.test, (8, 8))
    found = minima._below(machine, small)
    assert float(found["own"]) > 0.95
    assert float(found["seen"]) > 0.95
    assert float(found["pure"]) == 1.0
    assert int(found["below"]) == 2


def test_nothing_is_compared_with_itself(records):
    for name in minima.NAMES:
        record = records[f"deep-minima.{name}"]
        assert all(0 < x <= 1 + 1e-6 for row in record["own"] for x in row)
        assert all(math.isfinite(x) for row in record["seen"] for x in row)
        assert len(record["minima"]) == len(record["nearest"]) == len(record["fell"])
