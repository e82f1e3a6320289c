"""The trainings on MNIST: likelihoods from below, images turned upright, verdicts."""

import re

import numpy as np
import pytest
import torch

import rapidbm as rb
from rapidbm.data.catalogue import load
from rapidbm.random import stream
from rapidbm.runs.recipe import Recipe
from rapidbm_paper.claims import MISSED, claims_of, judged
from rapidbm_paper.digits import likelihood, mnist, patterns, probe
from rapidbm_paper.lab import Lab
from rapidbm_paper.records import Record, pack

CONFIG = mnist.Scale.at("tiny")


def verdict(module, name, records):
    return judged(next(c for c in claims_of(module) if c.name == name), records).verdict


def record(name, scale="paper", **values):
    settings = {"patterns": 190, "more_patterns": 290, "sweeps": 10, "dataset": "mnist"}
    return {name: Record(name, scale, 0, settings, values)}


def test_log_z_from_below_is_near_the_exact_one():
    machine = rb.rbm(10, 30, patterns=3, scale=0.5, replicas=3, seed=0).requires_grad_(False)
    data = torch.where(torch.rand(50, 10, generator=stream(1)) < 0.3, 1, -1)
    found = mnist.log_z_below(machine, data, mnist.Scale.at("quick"), stream(2))
    exact = rb.log_z(machine, method="exact").lower
    assert ((found - exact).abs() < 0.3).all()


def test_each_look_has_a_log_z_of_its_own(monkeypatch):
    """Both sets share it, and an update later there is another one."""
    asked = []

    def exact(machine, *_):
        asked.append(rb.log_z(machine, method="exact").value)
        return asked[-1]

    monkeypatch.setattr(mnist, "log_z_below", exact)
    data = load("bars4")
    chosen = {"hidden": (8,), "patterns": 3, "replicas": 2, "rate": (0.3,), "device": "cpu"}
    trainer = Recipe.made("bars4", chosen, "paper-mnist").trainer(data, torch.device("cpu"))
    looks = mnist._nll(CONFIG)
    for count in (1, 2, 3):
        progress = trainer.progress()
        for part, see in looks.items():
            found = see(progress, data, progress.rng)
            wanted = -rb.log_likelihood(
                progress.machine, data.parts[part.removeprefix("nll_")], method="exact"
            ).value
            assert torch.allclose(found.double(), wanted, rtol=1e-5)
        assert len(asked) == count
        trainer.step()
    assert (torch.stack(asked).diff(dim=0).abs() > 1e-3).all()


@pytest.mark.parametrize("name", mnist.VARIANTS)
def test_what_each_training_is(monkeypatch, tmp_path, name):
    """The variants differ in what their names say; all but one take the nominal size of a batch."""
    made = []

    def train(lab, recipe, observables, **_):
        made.append(recipe)
        return {}, None

    monkeypatch.setattr(Lab, "train", train)
    monkeypatch.setattr(Lab, "machine", lambda lab, run: rb.rbm(64, 2, seed=0))
    monkeypatch.setattr(mnist, "_final", lambda *_: {"final": True})
    bench = Lab(f"mnist.{name}", torch.device("cpu"), 5, tmp_path, lambda share: None)
    found = mnist._train(bench, CONFIG, name)
    (recipe,) = made
    assert recipe.batch_mean == ("true" if name == "true-mean" else "nominal")
    assert recipe.patterns == (CONFIG.more_patterns if name == "more" else CONFIG.patterns)
    assert recipe.sweeps == {"one": 1, "pure": 0}.get(name, CONFIG.sweeps)
    assert recipe.replicas == (CONFIG.instances if name == "rapid" else CONFIG.variants)
    assert recipe.seed == bench.seed
    assert bool(found) == (name in ("rapid", "more"))
    assert bench.kept(f"mnist.{name}").visible == 64


def test_looks_are_many_where_the_likelihood_falls():
    at = mnist.with_zoom(500, 16)
    chosen = [epoch for epoch in range(1, 501) if at(epoch)]
    assert chosen[0] == 1
    assert chosen[-1] == 500
    assert 12 <= len(chosen) <= 16
    assert sum(epoch >= 250 for epoch in chosen) >= 5


def test_images_are_turned_to_the_side_of_the_data():
    training = torch.tensor([[-1, -1, -1, 1], [-1, -1, 1, -1]], dtype=torch.int8)
    images = torch.tensor([[[1.0, 1, 1, -1], [-1, -1, -1, 1]]])
    turned = mnist.upright(images, training)
    assert torch.equal(turned[0, 0], turned[0, 1])
    assert torch.equal(turned[0, 1], images[0, 1])


def test_the_nearest_image_and_its_distance():
    training = torch.tensor([[1, 1, 1, 1], [-1, -1, -1, -1]], dtype=torch.int8)
    images = torch.tensor([[1.0, 1, 1, -1], [-1, -1, -1, -1]])
    far, which = mnist.nearest_images(images, training)
    assert far.tolist() == [0.25, 0.0]
    assert which.tolist() == [0, 1]


def course(start, end, gap=1.0, instances=10):
    scatter = np.linspace(-1, 1, instances)
    test = [(start + scatter).tolist(), (end + gap + scatter).tolist()]
    train = [(start + scatter).tolist(), (end + scatter).tolist()]
    return {"epochs": [0, 500], "nll_train": train, "nll_test": test}


def test_verdicts_on_likelihoods():
    three = record("mnist.rapid", **course(100_000, 120))
    assert verdict(likelihood, "nll-falls-by-orders", three) == "does not hold"  # 2.9 are not four
    assert verdict(likelihood, "nll-comparable", three) == MISSED  # the table ends at 106
    four = record("mnist.rapid", **course(900_000, 100))
    assert verdict(likelihood, "nll-falls-by-orders", four) == "holds"
    assert verdict(likelihood, "nll-in-parallel", four) == "holds"
    assert verdict(likelihood, "nll-comparable", four) == "holds"
    wide = record("mnist.rapid", **course(100_000, 120, gap=20))
    assert verdict(likelihood, "nll-in-parallel", wide) == "does not hold"
    slow = record("mnist.rapid", **course(200, 120, gap=60))
    assert verdict(likelihood, "nll-falls-by-orders", slow) == "does not hold"
    assert verdict(likelihood, "nll-in-parallel", slow) == "does not hold"
    assert verdict(likelihood, "nll-comparable", slow) == MISSED
    apart = course(900_000, 100)
    apart["nll_test"][0] = [2 * x for x in apart["nll_test"][0]]  # at the start, not at the end
    found = record("mnist.rapid", **apart)
    assert verdict(likelihood, "nll-in-parallel", found) == "does not hold"
    small = record("mnist.rapid", "quick", **course(100_000, 120))
    assert verdict(likelihood, "nll-comparable", small) == "not measured"


@pytest.mark.parametrize(("more", "expected"), [(200, "holds"), (100, "does not hold")])
def test_fewer_patterns(more, expected):
    several = record("mnist.rapid", **course(1e5, 120)) | record("mnist.more", **course(1e5, more))
    assert verdict(likelihood, "fewer-patterns-lower-nll", several) == expected


def test_the_same_machines_have_one_likelihood():
    """Whatever was seen on the way, claims take the end from the interval, and say when they cannot."""
    ends = {f"final_{part}_interval": [[x - 1.0] * 10, [x + 1.0] * 10] for part, x in ENDS.items()}
    rapid = record("mnist.rapid", **course(1e5, 115, gap=3), **ends)
    several = rapid | {
        name: r
        for other in ("pure", "one", "true-mean", "more")
        for name, r in record(f"mnist.{other}", **course(1e5, 700)).items()
    }
    told = [judged(claim, several).finding.measured for claim in claims_of(likelihood)[:8]]
    told = [text for text in told if "nearest" not in text and not text.startswith("no record")]
    assert len(told) == 7
    assert all("122.0" in text or "122 ± 0" in text for text in told)
    assert not any("118" in text or "115" in text for text in told)  # what the looks had
    assert all("annealed forward" in text for text in told[:1] + told[4:])
    assert "2 ± 0 apart" in told[1] or "2.0" in told[1]


ENDS = {"train": 120.0, "test": 122.0}


@pytest.mark.parametrize(("true", "expected"), [(300, "holds"), (120, "undecided")])
def test_the_divisors_are_told_apart(true, expected):
    several = record("mnist.rapid", **course(1e5, 120, gap=0))
    several |= record("mnist.true-mean", **course(1e5, true, gap=0))
    assert verdict(likelihood, "needs-the-divisor", several) == expected
    told = judged(claim_named("needs-the-divisor"), several).finding.measured
    assert re.search(rf"120.* divided by the nominal batch size, {true}.* when by its own", told)
    for name in ("nll-falls-by-orders", "nll-comparable"):
        told = judged(claim_named(name), several).finding.measured
        assert re.search(rf"120.*true mean of the smaller last batch it ends at {true}", told)


def claim_named(name):
    return next(claim for claim in claims_of(likelihood) if claim.name == name)


@pytest.mark.parametrize(("gap", "expected"), [(50, "holds"), (0.1, MISSED)])
def test_overfitting(gap, expected):
    several = record("mnist.rapid", **course(1e5, 120))
    several |= record("mnist.pure", **course(1e5, 120, gap=gap))
    assert verdict(likelihood, "pure-pid-overfits", several) == expected


@pytest.mark.parametrize(("end", "expected"), [(300, "holds"), (543, "undecided"), (745, MISSED)])
def test_one_sweep_must_beat_fair_coins(end, expected):
    several = {}
    for name in ("one", "rapid", "pure"):
        several |= record(f"mnist.{name}", **course(1e5, end, gap=0))
    assert verdict(likelihood, "one-sweep-is-enough", several) == expected


def test_what_is_not_finite_is_no_verdict():
    values = course(1e5, 120)
    values["nll_train"][-1] = [None] * 10
    several = record("mnist.rapid", **course(1e5, 120)) | record("mnist.pure", **values)
    assert verdict(likelihood, "pure-pid-overfits", several) == "undecided"
    assert verdict(likelihood, "nll-in-parallel", record("mnist.rapid", **values)) == "undecided"


def test_errors_of_the_probe_are_standard_errors():
    rows = (0.9 + 0.01 * np.linspace(-1, 1, 25)).tolist()
    found = record("probe.rapid", train=rows, test=rows)
    told = judged(claims_of(probe)[0], found).finding.measured
    deviation = 100 * np.std(rows, ddof=1)
    assert f"90.00 ± {deviation / 5:.2f} %" in told
    assert f"standard deviations over machines {deviation:.2f} and {deviation:.2f}" in told


@pytest.mark.parametrize(
    ("visible", "whole", "expected"), [(0.72, 0.45, "holds"), (0.3, 0.63, "does not hold")]
)
def test_trained_patterns_are_binarized_as_released(visible, whole, expected):
    energies = {"pattern_visible": visible, "pattern": whole, "pattern_swept": 0.6, "sample": 0.63}
    rows = {key: (x + 0.001 * np.linspace(-1, 1, 9)).tolist() for key, x in energies.items()}
    found = record("mnist.binarized", **rows, random=[0.0] * 9)
    assert verdict(likelihood, "binarized-trained-patterns", found) == expected


def test_twins():
    images = torch.tensor([[1.0] * 100, [1.0] * 99 + [-1], [-1.0] * 100])
    assert likelihood.twins(pack(images), 100) == pytest.approx(2 / 3)


def test_the_interval_is_preferred_to_the_bound():
    found = record("mnist.rapid", **course(1e5, 120), final_test_interval=[[130.0], [132.0]])
    assert likelihood.last(found["mnist.rapid"], "test").tolist() == [131.0]


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ([3, 4, 2, 3] * 3, "holds"),
        ([0, 0, 1, 0] * 3, "does not hold"),
        ([0, 1, 1, 3], "undecided"),
    ],
)
def test_one_pattern_several_classes(classes, expected):
    found = record("mnist.patterns", classes=classes, classes_of_all=classes, chains=32, digits=0.5)
    assert verdict(patterns, "one-pattern-several-classes", found) == expected
    few = record("mnist.patterns", classes=classes, classes_of_all=classes, chains=32, digits=0.01)
    assert verdict(patterns, "one-pattern-several-classes", few) == "undecided"


def test_the_probe_is_judged_against_its_controls():
    def of(name, test, scale="paper"):
        rows = (test + 0.001 * np.linspace(-1, 1, 10)).tolist()
        ahead = [x + 0.0163 for x in rows]
        return record(f"probe.{name}", scale, train=ahead, test=rows)

    several = of("rapid", 0.94) | of("random", 0.95) | of("pixels", 0.92) | of("control", 0.92)
    assert verdict(probe, "probe-accuracy", several) == "holds"
    assert verdict(probe, "probe-beats-control", several) == "holds"
    assert verdict(probe, "probe-shows-learning", several) == "does not hold"
    assert verdict(probe, "probe-accuracy", of("rapid", 0.89)) == MISSED
    assert verdict(probe, "probe-accuracy", of("rapid", 0.94, "quick")) == "not measured"


def test_the_test_images_of_the_probe_were_seen_by_nothing():
    seen, test = probe._splits(probe.Scale.at("tiny"))
    assert len(seen.train) + len(seen.test) + len(test) <= 1797
    parts = [{row.numpy().tobytes() for row in s.spins} for s in (seen.train, seen.test, test)]
    # A few of the digits are alike; the splits themselves do not share rows.
    assert len(parts[2] & parts[0]) <= 2
    assert len(test) == 50
