"""`python -m benchmarks precision`: tiny trainings on a CPU, and verdicts about made-up numbers."""

import importlib
import json

import pytest
import torch

from rapidbm.data.catalogue import load
from rapidbm.likelihood.log_z import log_likelihood
from rapidbm.sampling.gibbs import sweep
from rapidbm.testing import SMALLEST_P

TINY = {
    "data": "digits", "patterns": "4", "hidden": "8", "replicas": "2", "updates": "9", "batch": "500",
    "chains": "20", "sweeps": "1", "ais-chains": "50", "temperatures": "200", "samples": "2000",
    "device": "cpu",
}  # fmt: skip


@pytest.fixture
def precision(monkeypatch):
    return importlib.import_module("rapidbm_bench.precision")


def words(**changed):
    return [word for key, value in {**TINY, **changed}.items() for word in (f"--{key}", value)]


def test_a_small_study(precision, tmp_path, monkeypatch):
    machines = []
    trained = precision.trained
    monkeypatch.setattr(precision, "trained", lambda *all: machines.append(trained(*all)) or machines[-1])
    one, both = tmp_path / "one.json", tmp_path / "both.json"
    told = precision.run([*words(), "--out", str(one)])
    assert list(told) == ["digits, K=4, float32"]
    (row,) = json.loads(one.read_text())["rows"]
    exact = -log_likelihood(machines[0], load("digits").test.spins, method="exact").value
    for replica in range(2):
        assert row["lower"][replica] - 0.1 < float(exact[replica]) < row["upper"][replica] + 0.1
    assert told["digits, K=4, float32"]["test NLL"] == pytest.approx(sum(row["nll"]) / 2)
    more = precision.run([*words(patterns="5"), "--earlier", str(one), "--out", str(both)])
    assert list(more) == ["digits, K=4, float32", "digits, K=5, float32"]
    found = json.loads(both.read_text())
    assert set(found["p_values"]) == {"K=4, float32", "K=5, float32"}
    assert len(found["rows"]) == 2
    with pytest.raises(SystemExit, match="another updates"):
        precision.run([*words(updates="12"), "--earlier", str(one)])


def test_more_updates_give_a_better_likelihood(precision):
    few, many = (precision.run(words(updates=n, rate="0.01")) for n in ("3", "90"))
    key = "digits, K=4, float32"
    assert many[key]["test NLL"] < few[key]["test NLL"] - 1


@pytest.mark.parametrize(
    ("changed", "told"),
    [({"precision": "bf16"}, "cpu has the precision float32, not 'bf16'"), ({"replicas": "1"}, "two")],
)
def test_what_cannot_be_measured_is_refused(precision, changed, told, capsys):
    with pytest.raises(SystemExit) as leaving:
        precision.run(words(**changed))
    assert leaving.value.code == 2
    assert told in capsys.readouterr().err


def test_a_wrong_sampler_shows(precision, monkeypatch):
    how = precision.arguments(words(samples="20000"))
    assert precision.p_value(40, "float32", how) > SMALLEST_P

    def hotter(machine, spins, rng):
        return sweep(machine, spins, rng, 0.9)

    monkeypatch.setattr(precision, "sweep", hotter)
    assert precision.p_value(40, "float32", how) < SMALLEST_P


def rows(shift):
    """Ten replicas of two settings, their NLL by bf16 `shift` above float32's; standard errors 0.1."""
    spread = torch.linspace(-1, 1, 10, dtype=torch.float64)
    spread = 0.1 * 10**0.5 * spread / spread.std()
    return [
        {
            "data": "digits", "patterns": k, "precision": name, "seconds": 1.0,
            "nll": (100.0 + k + (name == "bf16") * shift + spread).tolist(),
            "lower": [0.0] * 10, "upper": [1.0] * 10,
        }
        for k in (40, 190)
        for name in ("float32", "bf16")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("shift", "said"), [(0.5, "worse, +0.500 ± 0.100"), (-0.5, "better"), (0.15, "no different")]
)
def test_verdicts(precision, shift, said):
    told = precision.table(rows(shift))
    assert told["digits, K=40, bf16"]["above float32"] == pytest.approx(shift)
    assert told["digits, K=40, bf16"]["error of that"] == pytest.approx(0.1 * 2**0.5)
    line = precision.verdict(told, "bf16", {"K=40, bf16": 0.5})
    assert said in line
    assert ("worse alone" in line) == (shift == 0.5)
    assert "wrong" not in line
    assert "K=40, bf16" in precision.verdict(told, "bf16", {"K=40, bf16": 1e-5})


def test_without_float32_there_is_nothing_to_compare_with(precision):
    told = precision.table([row for row in rows(0.5) if row["precision"] == "bf16"])
    assert precision.verdict(told, "bf16", {}) == "bf16: nothing to compare with"
