"""Dense machines from large weights: the same starts, the rates apart, and what claims say."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rapidbm.machines.constructors import rbm
from rapidbm_paper import parts
from rapidbm_paper.bars import large_weights
from rapidbm_paper.bars.bars4 import METHODS
from rapidbm_paper.bars.large_weights import STARTS, of_rate
from rapidbm_paper.claims import claims_of
from rapidbm_paper.lab import Lab
from rapidbm_paper.records import Record, plain


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("machines")
    found = {}
    for name, part in parts("large-start").items():
        values = part.run(
            Lab(name, torch.device("cpu"), 0, folder, lambda share: None),
            large_weights.Scale.at("tiny"),
        )
        found[name] = Record(name, "tiny", 0, {}, plain(values))
    return found


@pytest.mark.parametrize("start", STARTS)
def test_cd_and_pcd_start_from_the_same_machines(records, start):
    one, two = (records[f"large-start.{method}-{start}"] for method in ("cd", "pcd"))
    assert one["hamming_test"][0] == two["hamming_test"][0]
    assert one["hamming_test"][-1] != two["hamming_test"][-1]


def test_larger_weights_are_colder(records):
    """At 0.01 all is thermal noise: half of the unknown pixels are wrong, and of the known ones."""
    hot, cold = (records[f"large-start.cd-{start}"] for start in ("hundredth", "three"))
    assert hot.array("hamming_train")[0] == pytest.approx(0.5, abs=0.02)
    assert hot.array("gibbs_start").max() < cold.array("gibbs_start").min()


def test_the_larger_rate_moves_further(records):
    record = records["large-start.cd-hundredth"]
    assert record["rates"] == [0.001, 0.01]
    slow, fast = (of_rate(record, "hamming_train", rate) for rate in (0, 1))
    assert slow.shape == fast.shape == (2, 1)
    assert abs(fast[-1] - fast[0]) > abs(slow[-1] - slow[0])


@pytest.mark.parametrize(("method", "each"), [("cd", 3), ("pcd", 3), ("exact", 2)])
def test_the_halves_of_a_record_are_the_rates(monkeypatch, tmp_path, method, each):
    """Training is replaced by the rates that it would have had, replica by replica."""

    def rates_of(lab, recipe, observables):
        return {name: [list(recipe.rate)] for name in observables}, None

    monkeypatch.setattr(Lab, "train", rates_of)
    monkeypatch.setattr(Lab, "machine", lambda lab, run: rbm(2, 2, seed=0))
    monkeypatch.setattr(large_weights, "gibbs_accessibility", lambda *_: torch.zeros(1))
    config = replace(large_weights.Scale.at("tiny"), instances=3, exact_instances=2)
    bench = Lab("large-start.x", torch.device("cpu"), 0, tmp_path, lambda share: None)
    record = Record("x", "tiny", 0, {}, plain(large_weights._train(bench, config, method, "one")))
    for part in ("hamming_train", "hamming_test"):
        for rate, value in enumerate(record["rates"]):
            assert of_rate(record, part, rate).tolist() == [[value] * each]


def record_of(name, test, epochs=(0, 10, 100), **more):
    values = {"epochs": list(epochs), "hamming_test": test, "rates": [0.001, 0.01], **more}
    return Record(name, "quick", 0, {}, values)


def made(one_fast):
    """All starts never learn, but the larger rate from 1 by PCD does at the epoch `one_fast`."""
    found = {}
    for need in claims_of(large_weights)[1].needs:
        never = [[0.5] * 4] * 3
        found[need] = record_of(need, never)
    rows = [[0.5, 0.5, 0.5, 0.5] for _ in range(3)]
    for row, epoch in zip(rows, (0, 10, 100), strict=True):
        if epoch >= one_fast:
            row[2:] = [0.01, 0.02]
    found["large-start.pcd-one"] = record_of("large-start.pcd-one", rows)
    return found


@pytest.mark.parametrize(
    ("rapid", "one_fast", "holds"),
    [(10, 10, True), (10, 100, False), (100, 10, True), (10, 1000, False), (1000, 10, None)],
)
def test_as_fast_means_within_twice_the_epochs(rapid, one_fast, holds):
    found = made(one_fast)
    test = [[0.01] * 2 if epoch >= rapid else [0.4] * 2 for epoch in (0, 10, 100)]
    found["bars.rapid"] = record_of("bars.rapid", test)
    assert claims_of(large_weights)[1].check(found).holds is holds


def test_a_distance_that_comes_back_is_not_settled():
    rows = np.array([[0.5, 0.4], [0.01, 0.02], [0.3, 0.3], [0.01, 0.03]])
    record = record_of("bars.rapid", rows.tolist(), epochs=(0, 1, 2, 5))
    assert large_weights.settled(record, rows) == 5
    assert large_weights.settled(record, rows[:2]) == 1
    assert large_weights.settled(record, rows[:3]) == np.inf


@pytest.mark.parametrize(("gain", "holds"), [(0.8, True), (0.1, False)])
def test_accessible_means_well_above_the_small_start(gain, holds):
    found = {"bars.rapid": Record("bars.rapid", "quick", 0, {}, {"gibbs": [[0.99, 0.98]]})}
    for start in STARTS:
        level = 0.1 + (gain if start == "one" else 0)
        values = {"gibbs_start": [level, level + 0.01]}
        found[f"large-start.cd-{start}"] = Record(start, "quick", 0, {}, values)
    assert claims_of(large_weights)[0].check(found).holds is holds


def test_the_figure_shows_the_paper_rate(records):
    fig = large_weights.large_start.draw(records)
    shown = fig.axes[1].lines[0].get_ydata()
    wanted = of_rate(records["large-start.cd-hundredth"], "hamming_test", 0).mean(1)
    assert np.allclose(shown, wanted)


def test_the_ends_are_drawn_under_the_rate_that_they_had(records):
    fig = large_weights.large_start.draw(records)
    distance, access = fig.axes[2], fig.axes[5]
    shown = dict(zip(*reversed(distance.get_legend_handles_labels()), strict=True))
    for method in large_weights.SAMPLED:
        of = [records[f"large-start.{method}-{start}"] for start in STARTS]
        for rate, value in enumerate((0.001, 0.01)):
            line = shown[f"{METHODS[method]}, rate {value:g}"].lines[0]
            wanted = [of_rate(record, "hamming_test", rate)[-1].mean() for record in of]
            assert line.get_ydata() == pytest.approx(wanted)
        ends = dict(zip(*reversed(access.get_legend_handles_labels()), strict=True))
        line = ends[f"at the end, {METHODS[method]}"].lines[0]
        wanted = [of_rate(record, "gibbs_end", 0).mean() for record in of]
        assert line.get_ydata() == pytest.approx(wanted)
