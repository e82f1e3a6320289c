"""Readings of the algorithm: where they must agree, and what claims say."""

import numpy as np
import pytest
import torch

from rapidbm.machines.constructors import rbm
from rapidbm.training.negative import PatternInduced
from rapidbm_paper import parts
from rapidbm_paper.bars import algorithm
from rapidbm_paper.bars.algorithm import RawPatterns
from rapidbm_paper.claims import claims_of
from rapidbm_paper.lab import Lab
from rapidbm_paper.records import Record


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("machines")
    found = {}
    for name, part in parts("readings").items():
        values = part.run(
            Lab(name, torch.device("cpu"), 0, folder, lambda share: None),
            algorithm.Scale.at("tiny"),
        )
        found[name] = Record(name, "tiny", 0, {}, values)
    return found


def test_raw_patterns_are_spins_where_the_patterns_are():
    machine = rbm(4, 9, 3, replicas=2, seed=0, dtype=torch.float64).requires_grad_(False)
    rng = torch.Generator()
    chains, data = torch.zeros(2, 0, 13), torch.ones(2, 1, 4)
    raw, spins = (x.step(machine, chains, data, rng)[0] for x in (RawPatterns(), PatternInduced()))
    assert torch.allclose(raw.spins, spins.spins)
    assert torch.allclose(raw.weights, spins.weights)
    machine.couplings.patterns *= 0.9
    raw, spins = (x.step(machine, chains, data, rng)[0] for x in (RawPatterns(), PatternInduced()))
    assert torch.allclose(raw.spins[..., :4], 0.9 * spins.spins[..., :4])
    wanted = torch.tanh(raw.spins[..., :4] @ machine.couplings.matrix(0, 1))
    assert torch.allclose(raw.spins[..., 4:], wanted)


def test_readings_share_their_start_and_part_ways(records):
    for data in algorithm.DATA:
        found = [records[f"readings.{data}-{name}"].values for name in algorithm.READINGS]
        first = [values["hamming_test"][0] for values in found]
        assert all(each == first[0] for each in first)
        assert len({str(values) for values in found}) == len(found)


GOOD, BAD, WIDE = (0.01, 0.02), (0.4, 0.42), (0.0, 0.2)


@pytest.mark.parametrize(
    ("claim", "name"), list(zip(claims_of(algorithm), ("all-true", "visible-true"), strict=False))
)
@pytest.mark.parametrize(("end", "holds"), [(GOOD, True), (BAD, False), (WIDE, None)])
def test_a_claim_is_about_its_own_reading(claim, name, end, holds):
    made = {}
    for need in claim.needs:
        last = end if need.endswith(f"-{name}") else GOOD
        values = {f"hamming_{part}": [list(last)] for part in algorithm.SPLITS}
        made[need] = Record(need, "quick", 0, {}, values)
    assert claim.check(made).holds is holds
    tiny = {k: Record(k, "tiny", 0, {}, r.values) for k, r in made.items()}
    assert claim.check(tiny).holds is None


def test_patterns_between_two_signs(records):
    for data, epochs in (("bars", 2), ("bas", 1)):
        record = records[f"readings.{data}-drift"]
        close, off = record.array("close"), record.array("off")
        assert close.shape == off.shape == (epochs, 2)
        assert ((close >= 0) & (close <= 1)).all()
        assert (off > 0).all()


def test_the_sign_taken_by_hand_is_the_papers_training(tmp_path, monkeypatch):
    """The drift is that of RAPID itself: a look before the sign, and then the sign."""
    from rapidbm.training.trainer import Trainer

    ends = {}
    run = Trainer.together

    def watched(self, *args):
        try:
            yield from run(self, *args)
        finally:  # also where the last update ends the loop
            ends[name] = self.machine.patterns.detach().clone()

    monkeypatch.setattr(Trainer, "together", watched)
    for name in ("readings.bars-visible", "readings.bars-drift"):
        part = parts("readings")[name]
        part.run(
            Lab(name, torch.device("cpu"), 0, tmp_path, lambda share: None),
            algorithm.Scale.at("tiny"),
        )
    assert torch.equal(*ends.values())


@pytest.mark.parametrize(("share", "holds"), [(0.9, True), (0.2, False), (0.5, None)])
def test_close_to_spins_is_what_the_components_are(share, holds):
    """Not how well a machine learns that averages over them."""
    values = {"close": [[share - 0.01, share + 0.01] * 4], "off": [[0.2] * 8]}
    claim = next(c for c in claims_of(algorithm) if c.name == "patterns-stay-close-to-spins")
    made = {need: Record(need, "quick", 0, {}, values) for need in claim.needs}
    for data in algorithm.DATA:
        for name in ("raw", "visible"):
            bad = {f"hamming_{part}": [list(BAD)] for part in algorithm.SPLITS}
            key = f"readings.{data}-{name}"
            made[key] = Record(key, "quick", 0, {}, bad)
    found = claim.check(made)
    assert found.holds is holds
    assert "as they are" in found.note


def test_the_figure_shows_means(records):
    fig = algorithm.readings.draw(records)
    shown = fig.axes[3].lines[0].get_ydata()
    assert np.allclose(shown, records["readings.bas-visible"].array("hamming_test").mean(1))
