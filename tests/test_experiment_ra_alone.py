"""RA without PID: known starts, and what claims say."""

import math

import numpy as np
import pytest
import torch

from rapidbm_paper import parts
from rapidbm_paper.bars import without_pid
from rapidbm_paper.claims import claims_of
from rapidbm_paper.lab import Lab
from rapidbm_paper.records import Record, plain


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("machines")
    found = {}
    for name, part in parts("ra-alone").items():
        values = part.run(
            Lab(name, torch.device("cpu"), 0, folder, lambda share: None),
            without_pid.Scale.at("tiny"),
        )
        found[name] = Record(name, "tiny", 0, {}, plain(values))
    return found


def test_looks_are_few():
    assert [e for e in range(1, 300) if without_pid.few(e)] == [1, 2, 5, 10, 20, 50, 100, 200]


def test_every_negative_phase_starts_from_the_same_machines(records):
    first = records["ra-alone.pid"]
    for name in ("cd", "pcd"):
        for key in ("hamming_train", "hamming_test", "likelihood_train", "gibbs"):
            assert np.array_equal(records[f"ra-alone.{name}"].array(key)[0], first.array(key)[0])
    end = [records[f"ra-alone.{name}"].array("likelihood_train")[-1] for name in ("pid", "cd", "pcd")]
    assert not np.allclose(end[0], end[1])
    assert not np.allclose(end[1], end[2])


def test_small_patterns_start_at_the_uniform_distribution(records):
    """ξ = ±0.1 couples by 0.01 √K, next to nothing; ξ = ±1 puts the data far below chance."""
    assert pytest.approx(-math.log(2**16)) == without_pid.UNIFORM
    small = records["ra-alone.small-pcd"].array("likelihood_train")[0]
    assert small == pytest.approx(without_pid.UNIFORM, abs=0.1)
    assert (records["ra-alone.pid"].array("likelihood_train")[0] < without_pid.UNIFORM - 5).all()


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
    return {need: Record(need, scale, 0, {}, values) for need in claims_of(without_pid)[0].needs}


@pytest.mark.parametrize(
    ("hamming", "holds"), [((0.01, 0.02), True), ((0.3, 0.31), False), ((0.0, 0.25), None)]
)
def test_independent_when_the_others_learn(hamming, holds):
    assert claims_of(without_pid)[0].check(made(hamming, (-5.0, -5.0))).holds is holds
    assert claims_of(without_pid)[0].check(made(hamming, (-5.0, -5.0), "tiny")).holds is None


def test_one_other_phase_that_learns_is_enough():
    """“It is possible to replace PID with other techniques”: not with every one."""
    found = made((0.3, 0.31), (-5.0, -5.0)) | {
        "ra-alone.cd": made((0.01, 0.02), (-5.0, -5.0))["ra-alone.cd"]
    }
    assert claims_of(without_pid)[0].check(found).holds is True
    only_pid = made((0.3, 0.31), (-5.0, -5.0)) | {
        "ra-alone.pid": made((0.01, 0.02), (-5.0, -5.0))["ra-alone.pid"]
    }
    assert claims_of(without_pid)[0].check(only_pid).holds is False


def followed(shift, *, likelihoods=(-6, -5, -4, -3, -2, -1)):
    """Trainings whose distances fall; instance i sees the likelihoods turned by i·shift looks."""
    found = {}
    for n, need in enumerate(claims_of(without_pid)[1].needs):
        rows = np.array([np.roll(likelihoods, i * shift) for i in range(6)], dtype=float).T
        distances = np.repeat(np.arange(6, 0, -1)[:, None] / 10, 6, 1)
        values = {
            "epochs": [0, 1, 2, 3, 4, 5],
            "likelihood_train": (rows - n).tolist(),
            "hamming_train": (distances - 0.001 * n).tolist(),
        }
        found[need] = Record(need, "quick", 0, {}, values)
    return found


def test_distance_and_likelihood_must_go_together_along_a_training():
    claim = claims_of(without_pid)[1]
    assert claim.check(followed(0)).holds is True
    # Now and then two looks change places.
    near = followed(0)
    for record in near.values():
        record.values["likelihood_train"][2][0], record.values["likelihood_train"][3][0] = (
            record.values["likelihood_train"][3][0],
            record.values["likelihood_train"][2][0],
        )
    assert claim.check(near).holds is True
    assert claim.check(followed(1)).holds is False
    # From training to training the smaller distance is the less likely one; with its error.
    between = without_pid.between(near)
    assert between.value == pytest.approx(-1)
    assert between.error >= 0
    assert str(between) in claim.check(near).measured


def test_the_figure_shows_what_is_there(records):
    some = {"ra-alone.cd": records["ra-alone.cd"]}
    fig = without_pid.ra_alone.draw(some)
    shown = fig.axes[1].lines[0].get_ydata()
    assert np.allclose(shown, records["ra-alone.cd"].array("hamming_test").mean(1))
