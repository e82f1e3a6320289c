"""Deep and full machines: what the studies measure, and what claims say of it."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from rapidbm.data.catalogue import load
from rapidbm.errors import LoadWarning
from rapidbm.machines.constructors import bm, rbm
from rapidbm.random import stream
from rapidbm.runs.recipe import Recipe
from rapidbm_paper import item, parts, settings
from rapidbm_paper.claims import claims_of, judged
from rapidbm_paper.deep import (
    depth,
    ghosts,
    glass,
    likelihood,
    minima,
    mixing,
    moments,
    negatives,
    shapes,
    steering,
    worth,
)
from rapidbm_paper.lab import Lab
from rapidbm_paper.records import Record, plain, settings_of
from rapidbm_paper.reproduction import item_names

ITEMS = (
    "deep-steering",
    "deep-moments",
    "deep-phases",
    "deep-worth",
    "deep-digits",
    "deep-bars",
    "deep-mnist",
    "deep-ghosts",
    "deep-glass",
    "deep-watched",
    "deep-minima",
)
STUDIES = tuple(name for name in ITEMS if name not in ("deep-bars", "deep-watched"))
MODULES = (steering, moments, negatives, worth, depth, likelihood, ghosts, glass, minima)
pytestmark = pytest.mark.filterwarnings(f"ignore::{LoadWarning.__module__}.LoadWarning")


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
    assert item_names(["deep"]) == list(ITEMS)


@pytest.mark.parametrize("name", ITEMS)
def test_items_are_drawn_and_claims_judged(records, name):
    fig = item(name).draw(item(name).records(records))
    assert fig.axes
    assert item(name).caption(records)
    for module in MODULES:
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


# -- what a unit is worth -------------------------------------------------------------------------


def test_units_are_added_in_either_place(records):
    scale = settings("deep-worth", "tiny")
    for kind in worth.NAMES:
        record = records[f"deep-worth.{kind}"]
        places = [("first", 0)] + [(p, more) for more in scale.more for p in ("first", "second")]
        assert list(zip(record["place"], record["more"], strict=True)) == places
        assert record.array("test").shape == (len(places), scale.instances)
        assert set(worth._gains(record, "second")) == set(scale.more)


@pytest.mark.parametrize(
    ("second", "verdict"), [(0.9, "holds"), (0.1, "does not hold"), (0.5, "undecided")]
)
def test_what_is_said_of_a_unit(second, verdict):
    spread = np.array([-0.02, 0.0, 0.02])
    rows = [(-20.0 + gain + spread).tolist() for gain in (0.0, 1.0, second)]
    values = {"place": ["first", "first", "second"], "more": [0, 2, 2], "test": rows}
    names = [f"deep-worth.{kind}" for kind in worth.NAMES]
    found = {name: Record(name, "paper", 0, {}, values) for name in names}
    (claim,) = claims_of(worth)
    assert judged(claim, found).verdict == verdict


# -- depth ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "names"),
    [
        (shapes.Sizes(64, 100, 50, 40, 3e-3, 1e-3), depth.NAMES),
        (shapes.Sizes(784, 1000, 200, 222, 1e-3, 4e-4), likelihood.NAMES),
    ],
)
def test_machines_have_about_as_many_parameters(sizes, names):
    counts = {}
    for name in names:
        chosen = shapes.settings_of(name, sizes)
        units = sizes.visible + sum(chosen["hidden"])
        if chosen["patterns"] is not None:
            counts[name] = chosen["patterns"] * units
        elif chosen["model"] == "bm":
            counts[name] = math.comb(units, 2)
        else:
            counts[name] = sum(a * b for a, b in pairwise((sizes.visible, *chosen["hidden"])))
    smaller = [name for name in counts if name in ("rbm-most", "rbm-half")]
    assert all(counts.pop(name) < 0.95 * sizes.numbers for name in smaller)
    if sizes.visible == 64:  # all that 64 units can have
        assert counts.pop("bm-visible") == 64 * 64
    assert max(counts.values()) / min(counts.values()) < 1.05, counts


def test_a_name_says_what_is_another():
    sizes = shapes.Sizes(64, 100, 50, 40, 3e-3, 1e-3)
    plain = shapes.settings_of("dbm", sizes)
    assert (plain["hidden"], plain["deep_start"], plain["positive"]) == ((80, 20), 0.1, "meanfield")
    assert shapes.settings_of("dbm-strong", sizes) == {**plain, "deep_start": 1.0}
    assert shapes.settings_of("dbm-clamped", sizes) == {**plain, "positive": "clamped"}
    assert shapes.settings_of("dbm-plain", sizes) == {**plain, "centred": False}
    assert shapes.settings_of("dbm-even", sizes)["hidden"] == (50, 50)
    assert shapes.settings_of("rbm-most", sizes)["hidden"] == plain["hidden"][:1]


def test_chains_forget():
    one = torch.ones(2, 40, 64).bernoulli_(0.5, generator=stream(0)) * 2 - 1
    other = torch.ones(2, 40, 64).bernoulli_(0.5, generator=stream(1)) * 2 - 1
    assert torch.allclose(mixing.memory(one, one), torch.ones(2), atol=0.02)
    assert float(mixing.memory(one, other).abs().max()) < 0.1
    same = one[:, :1].expand(2, 40, 64)  # all chains in one state: nothing of their own to remember
    assert torch.allclose(mixing.memory(same, same), torch.zeros(2), atol=1e-6)


def test_a_time_is_that_of_the_machine():
    """Free spins forget in a sweep, frozen ones never."""
    sizes, data = {"chains": 30, "settle": 2, "record": 20}, load("digits")
    free, cold = rbm(64, 10, seed=0, scale=1e-6), rbm(64, 100, seed=0, scale=5.0)
    assert mixing.forgetting(free, data, stream(0), **sizes)[0] <= 1.0
    assert mixing.forgetting(cold, data, stream(0), **sizes)[0] == 20.0


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


def test_bounds_are_below_what_enumeration_says(records):
    for name in ("dbm", "dbm3", "dense-dbm"):
        record = records[f"deep-mnist.{name}"]
        assert record["bound_test"][0][0] <= record["test"][0][0] + 1e-6
        value, low, high = (x[0] for x in record["bound_test"])
        assert low <= value <= high


def test_a_deep_machine_starts_from_a_restricted_one(tmp_path):
    scale = settings("deep-mnist", "tiny")
    lab = Lab("deep-mnist.x", torch.device("cpu"), 0, tmp_path, lambda share: None)
    data = load("digits")
    recipe = likelihood._recipe(lab, scale, data, "dbm-layerwise")
    start = shapes.first_layer(lab, recipe, data)
    first = lab.machine(next(iter(_runs(tmp_path))))
    trainer = recipe.trainer(data, torch.device("cpu"))
    before = trainer.machine.patterns.detach().clone()
    start(trainer)
    n = first.layers.columns
    assert torch.equal(trainer.machine.patterns[..., :n], first.patterns)
    assert torch.equal(trainer.machine.biases[..., :n], first.biases)
    assert torch.equal(trainer.machine.patterns[..., n:], before[..., n:])
    coupled = before[..., :n].abs()
    assert float(before[..., n:].abs().max()) < 0.2 * float(coupled[coupled > 0].min())


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
    values = {"test": [[value], [low], [high]], "classes": [most, *[rest] * 9]}
    found = {"deep-mnist.bm": Record("deep-mnist.bm", "paper", 0, {}, values)}
    (claim,) = [c for c in claims_of(likelihood) if c.name == "deep-full"]
    assert judged(claim, found).verdict == verdict


@pytest.mark.parametrize(("deep", "verdict"), [(-84.8, "holds"), (-85.3, "does not hold")])
def test_a_deep_machine_is_compared_with_the_best_restricted_one(deep, verdict):
    """Of all seeds: the one that stands beside it may be lost."""
    values = {"rbm": [[-270.0]] * 3, "dbm": [[-86.0]] * 3, "dbm-clamped": [[deep]] * 3}
    found = {
        f"deep-mnist.{name}": Record(f"deep-mnist.{name}", "paper", 0, {}, {"test": ends})
        for name, ends in values.items()
    }
    seeds = {"test": [[-85.1, -85.2], [-85.1, -85.2], [-85.1, -85.2]]}
    found["deep-ghosts.random"] = Record("deep-ghosts.random", "paper", 0, {}, seeds)
    (claim,) = [c for c in claims_of(likelihood) if c.name == "deep-likelihood"]
    assert judged(claim, found).verdict == verdict


@pytest.mark.parametrize(
    ("dense", "patterned", "verdict"),
    [(0.2, 0.02, "holds"), (0.02, 0.02, "does not hold"), (0.2, 0.2, "does not hold")],
)
def test_what_is_said_of_windows(dense, patterned, verdict):
    names = [name for name in likelihood.WINDOWED for _ in range(2)]
    ends = {name: dense if name.startswith("dense") else patterned for name in names}
    apart = [[0.3 if i % 2 == 0 else ends[name]] for i, name in enumerate(names)]
    values = {"machine": names, "window": [200, 3000] * (len(names) // 2), "apart": apart}
    values["error"] = [[0.01]] * len(names)
    found = {"deep-mnist.windows": Record("deep-mnist.windows", "paper", 0, {}, values)}
    (claim,) = [c for c in claims_of(likelihood) if c.name == "deep-watched-control"]
    assert judged(claim, found).verdict == verdict


# -- ghosts ---------------------------------------------------------------------------------------


def test_a_state_that_patterns_hold_is_found_from_them():
    """One pattern is what images have in common, which holds chains from them; another one is deeper."""
    data = load("digits")
    below = {}
    for strength in (0.8, 0.2):
        machine = rbm(64, 100, 2, seed=0)
        machine.patterns.data[:, 0, :64] = 0.5 * data.train.spins.float().mean(0).sign()
        machine.patterns.data[:, 1, :64] = strength * torch.tensor([1.0, -1.0]).repeat(32)
        below[strength] = ghosts.below(machine, data, stream(0), count=2, walk=30)["below_patterns"]
    assert float(below[0.8]) > 500.0
    assert float(below[0.2]) < 50.0


@pytest.mark.parametrize(
    ("random", "patterns", "verdict"),
    [(-183.0, -85.0, "holds"), (-85.0, -85.0, "undecided"), (-183.0, -183.0, "does not hold")],
)
def test_what_is_said_of_births(random, patterns, verdict):
    values = {"random": [[-85.0, random]], "patterns": [[-85.1, patterns]]}
    found = {
        f"deep-ghosts.{name}": Record(f"deep-ghosts.{name}", "paper", 0, {}, {"test": rows})
        for name, rows in values.items()
    }
    (claim,) = claims_of(ghosts)
    assert judged(claim, found).verdict == verdict


# -- glass and minima -----------------------------------------------------------------------------


def test_a_paramagnet_forgets_and_a_cold_glass_does_not():
    sizes, data = {"chains": 16, "sweeps": 40, "starts": 30}, load("digits")
    free = rbm(64, 40, seed=0, scale=1e-3)
    cold = rbm(64, 40, seed=0, scale=1.0)
    warm = glass.glassiness(free, data, stream(0), **sizes)
    frozen = glass.glassiness(cold, data, stream(0), **sizes)
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
    sizes = {"chains": 40, "sweeps": 30, "starts": 5}
    assert float(glass.glassiness(machine, dark, stream(0), **sizes)["lost"]) < -0.1


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
