"""Projections at other intervals agree with the library's own where they must."""

import numpy as np
import pytest
import torch

from rapidbm_paper import parts
from rapidbm_paper.bars import projections
from rapidbm_paper.claims import claims_of
from rapidbm_paper.lab import Lab
from rapidbm_paper.records import Record, settings_of


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("machines")
    settings = settings_of(projections.Scale.at("tiny"))
    found = {}
    for name, part in parts("projections").items():
        values = part.run(
            Lab(name, torch.device("cpu"), 0, folder, lambda share: None),
            projections.Scale.at("tiny"),
        )
        found[name] = Record(name, "tiny", 0, settings, values)
    return found


@pytest.mark.parametrize("data", projections.DATA)
def test_a_sign_every_epoch_by_hand_is_the_projection(records, data):
    """At this scale all intervals are one epoch."""
    usual = records[f"projections.{data}-sign-epoch"].values
    for name in ("sign-some", "sign-many", "sign-end"):
        assert records[f"projections.{data}-{name}"].values == usual
    for name in ("sign-update", "clip-half", "gibbs-update", "gibbs-epoch", "none"):
        assert records[f"projections.{data}-{name}"].values != usual


def test_the_sign_is_taken_when_it_is_due(tmp_path):
    class Half:
        """A trainer of two patterns after a given epoch."""

        def __init__(self, epoch):
            from rapidbm.machines.constructors import rbm

            self.machine = rbm(4, 6, 2, scale=0.5, seed=0)
            self.rng = torch.Generator()
            self.epoch = epoch

        def progress(self):
            return self

    for epoch, size in ((5, 1.0), (7, 0.5), (10, 1.0)):
        trainer = Half(epoch)
        projections.every(5)(trainer)
        assert trainer.machine.patterns.abs().unique().item() == size


def made(**ends):
    """Records whose test and training distances end at the given values, the same on both data."""
    return {
        f"projections.{data}-{name.replace('_', '-')}": Record(
            name,
            "quick",
            0,
            {},
            {"hamming_train": [list(end)], "hamming_test": [list(end)]},
        )
        for data in projections.DATA
        for name, end in ends.items()
    }


GOOD, BAD, WIDE = (0.01, 0.02) * 4, (0.4, 0.42) * 4, (0.0, 0.9)  # instances


@pytest.mark.parametrize(("often", "holds"), [(BAD, True), ((0.0, 0.001) * 4, False), (WIDE, None)])
def test_too_often(often, holds):
    claim = claims_of(projections)[0]
    assert claim.check(made(sign_epoch=GOOD, sign_update=often)).holds is holds


def test_too_often_may_erase_and_need_not_everywhere():
    found = made(sign_epoch=GOOD, sign_update=BAD)
    found["projections.bars-sign-update"] = made(sign_update=(0.0, 0.001) * 4)[
        "projections.bars-sign-update"
    ]
    assert claims_of(projections)[0].check(found).holds is True


@pytest.mark.parametrize(("rare", "holds"), [(BAD, True), ((0.0, 0.001) * 4, False)])
def test_too_rarely(rare, holds):
    claim = claims_of(projections)[1]
    found = made(sign_epoch=GOOD, sign_some=GOOD, sign_many=rare, sign_end=BAD)
    assert claim.check(found).holds is holds


@pytest.mark.parametrize(
    ("one", "two", "holds"), [(GOOD, GOOD, True), (GOOD, BAD, False), (BAD, BAD, None)]
)
def test_a_bound_matters_only_where_something_is_learnt(one, two, holds):
    found = claims_of(projections)[2].check(made(clip_half=one, clip_one=one, clip_two=two))
    assert found.holds is holds
    assert ("nowhere" in found.note) == (one == BAD)


@pytest.mark.parametrize(
    ("fast", "slow", "holds"),
    [(GOOD, BAD, True), (BAD, GOOD, True), (BAD, BAD, False), (WIDE, BAD, None)],
)
def test_gibbs_works_at_either_rate(fast, slow, holds):
    found = made(gibbs_update=fast, gibbs_slow=slow, gibbs_epoch=BAD)
    assert claims_of(projections)[3].check(found).holds is holds


def test_claims_do_not_judge_the_tiny_scale(records):
    assert all(claim.check(records).holds is None for claim in claims_of(projections))


def test_the_figure_names_intervals_and_shows_means(records):
    fig = projections.projections.draw(records)
    words = [text.get_text() for legend in fig.legends for text in legend.get_texts()]
    assert "sign, every 1/1 epochs" in words
    shown = fig.axes[0].lines[0].get_ydata()
    wanted = records["projections.bars-sign-epoch"].array("hamming_test").mean(1)
    assert np.allclose(shown, wanted)
    assert projections.projections.draw({}).axes  # no record, no curve, no error
