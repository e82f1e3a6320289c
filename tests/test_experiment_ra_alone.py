"""RA without PID: known starts, and what claims say."""

import math

import numpy as np
import pytest
import torch

from rapidbm.experiments import parts, ra_alone
from rapidbm.experiments.bench import Bench, Record, plain


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("machines")
    found = {}
    for name, part in parts("ra-alone", "tiny").items():
        values = part.run(Bench(name, torch.device("cpu"), 0, folder, lambda share: None))
        found[name] = Record(name, "tiny", 0, {}, plain(values))
    return found


def test_looks_are_few():
    assert [e for e in range(1, 300) if ra_alone.few(e)] == [1, 2, 5, 10, 20, 50, 100, 200]


def test_every_negative_phase_starts_from_the_same_machines(records):
    first = records["ra-alone.pid"]
    for name in ("cd", "pcd"):
        for key in ("hamming_train", "hamming_test", "likelihood_train", "gibbs"):
            assert np.array_equal(records[f"ra-alone.{name}"].array(key)[0], first.array(key)[0])
    end = [
        records[f"ra-alone.{name}"].array("likelihood_train")[-1] for name in ("pid", "cd", "pcd")
    ]
    assert not np.allclose(end[0], end[1])
    assert not np.allclose(end[1], end[2])


def test_small_patterns_start_at_the_uniform_distribution(records):
    """ξ = ±0.1 couples by 0.01 √K, next to nothing; ξ = ±1 puts the data far below chance."""
    assert pytest.approx(-math.log(2**16)) == ra_alone.UNIFORM
    small = records["ra-alone.small-pcd"].array("likelihood_train")[0]
    assert small == pytest.approx(ra_alone.UNIFORM, abs=0.1)
    assert (records["ra-alone.pid"].array("likelihood_train")[0] < ra_alone.UNIFORM - 5).all()


def test_the_exact_gradient_raises_the_likelihood(records):
    exact = records["ra-alone.small-exact"].array("likelihood_train")
    assert (exact[-1] > exact[0]).all()


def made(hamming, likelihood, scale="quick"):
    """Records of all parts with the same values at the end, each pair four times."""
    hamming, likelihood = list(hamming) * 4, list(likelihood) * 4
    values = {
        "epochs": [1],
        "likelihood_train": [likelihood],
        **{f"hamming_{part}": [hamming] for part in ("train", "test")},
    }
    return {need: Record(need, scale, 0, {}, values) for need in ra_alone.CLAIMS[0].needs}


@pytest.mark.parametrize(
    ("hamming", "holds"), [((0.01, 0.02), True), ((0.3, 0.31), False), ((0.0, 0.25), None)]
)
def test_independent_when_the_others_learn(hamming, holds):
    assert ra_alone.CLAIMS[0].check(made(hamming, (-5.0, -5.0))).holds is holds
    assert ra_alone.CLAIMS[0].check(made(hamming, (-5.0, -5.0), "tiny")).holds is None


@pytest.mark.parametrize(
    ("likelihoods", "holds"),
    [
        ((-1, -2, -3, -4, -5, -6), True),  # the smaller the distance, the more likely
        ((-6, -5, -4, -3, -2, -1), False),
        ((-1, -2, -6, -5, -3, -4), None),
    ],
)
def test_distances_and_likelihoods_must_agree(likelihoods, holds):
    found = {}
    for i, (name, likelihood) in enumerate(zip(ra_alone.NAMES, likelihoods, strict=True)):
        pair = made((0.01 * i, 0.01 * i), (likelihood, likelihood))
        found[f"ra-alone.{name}"] = pair[f"ra-alone.{name}"]
    assert ra_alone.CLAIMS[1].check(found).holds is holds


def test_the_figure_shows_what_is_there(records):
    some = {"ra-alone.cd": records["ra-alone.cd"]}
    fig = ra_alone.ITEMS["ra-alone"].draw(some)
    shown = fig.axes[1].lines[0].get_ydata()
    assert np.allclose(shown, records["ra-alone.cd"].array("hamming_test").mean(1))
