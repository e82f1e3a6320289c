"""`python -m benchmarks features`: probes of machines whose features are known."""

import importlib
import json

import pytest
import torch

import rapidbm as rb
from rapidbm.machines.layers import Layers
from rapidbm_paper.linear_probe import fit_probe

WORDS = ["--data", "digits", "--valid", "300", "--iterations", "30", "--device", "cpu"]


@pytest.fixture
def features(monkeypatch):
    module = importlib.import_module("rapidbm_bench.features")
    monkeypatch.setattr(module, "STRENGTHS", (0.01, 1e-3))
    monkeypatch.setattr(module, "SIZES", (1.0, 2.0))
    return module


def saved(path, weights):
    """A dense machine of these couplings (replicas, 64, h)."""
    layers = Layers((64, weights.shape[-1]), ((0, 1),))
    rb.save_machine(rb.Machine(rb.Dense(layers, {(0, 1): weights})), path)
    return str(path)


def test_a_small_study(features, tmp_path):
    eye = torch.eye(64)[None]
    pixels = saved(tmp_path / "pixels.safetensors", torch.cat([eye, 0.5 * eye]))
    nothing = saved(tmp_path / "nothing.safetensors", 0 * eye)
    out = tmp_path / "features.json"
    told = features.run([*WORDS, "--rows", "500", "--machines", pixels, nothing, "--out", str(out)])
    names = ["pixels", "random 64×64 dense", "pixels 64×64 dense", "nothing 64×64 dense"]
    assert list(told) == names
    assert told["pixels 64×64 dense"]["test %"] == pytest.approx(told["pixels"]["test %"], abs=2)
    assert told["nothing 64×64 dense"]["test %"] < 20
    assert told["random 64×64 dense"]["test %"] > 50
    kept = json.loads(out.read_text())
    assert [row["name"] for row in kept["rows"]] == names
    assert [len(row["seeds"]) for row in kept["rows"]] == [1, 2, 2, 1]
    assert kept["settings"]["machines"] == ["pixels.safetensors", "nothing.safetensors"]


def test_each_replica_is_probed_by_its_means(features, tmp_path):
    weights = 0.1 * torch.randn((2, 64, 9), generator=torch.Generator().manual_seed(0))
    path = saved(tmp_path / "one.safetensors", weights)
    out = tmp_path / "features.json"
    features.run([*WORDS, "--rows", "500", "--machines", path, "--no-controls", "--out", str(out)])
    (row,) = json.loads(out.read_text())["rows"]
    data = rb.load("digits")
    for replica, found in enumerate(row["seeds"]):
        x = torch.tanh(data.train.spins.float() @ weights[replica])
        held = x[-300:], data.train.labels[-300:]
        probe = fit_probe(
            x[:500], data.train.labels[:500], held, strengths=features.STRENGTHS, iterations=30
        )
        test = torch.tanh(data.test.spins.float() @ weights[replica])
        assert found["strength"] == probe.strength
        assert found["test"] == pytest.approx(probe.accuracy(test, data.test.labels), abs=0.01)


@pytest.mark.parametrize("patterns", [None, 5])
def test_the_fields_of_a_control_are_centred_and_of_the_size_it_says(features, patterns):
    images = rb.load("digits").train.spins
    machine, size = features.control((64, 30, patterns), 3, images, torch.device("cpu"))
    field = machine.field(machine.with_visible(images), 1)[0]
    assert field.mean(0).abs().max() < 1e-3 * size
    assert float(field.square().mean().sqrt()) == pytest.approx(size, rel=1e-4)


def test_a_control_takes_the_size_that_validates_best(features, monkeypatch):
    how = features.arguments(WORDS)
    parts = features.splits(how)

    def probed(means, given, how):
        return {"valid": -abs(float(means(given["train"].spins).abs().max()) - 0.02), "test": 0.0}

    monkeypatch.setattr(features, "SIZES", (1.0, 0.01, 3.0))
    monkeypatch.setattr(features, "probed", probed)
    assert [row["size"] for row in features.controls((64, 5, None), 3, parts, how)] == [0.01] * 3


def test_parts_do_not_overlap(features):
    train = rb.load("digits").train
    parts = features.splits(features.arguments([*WORDS, "--rows", "100"]))
    assert torch.equal(parts["train"].spins, train.spins[:100])
    assert torch.equal(parts["valid"].spins, train.spins[-300:])
    assert torch.equal(parts["test"].labels, rb.load("digits").test.labels)


def test_the_deviation_is_over_seeds(features):
    seeds = [
        {"test": t, "valid": 0.9, "train": 1.0, "strength": 0.1, "seconds": 1.0} for t in (0.9, 0.92)
    ]
    told = features.summary({"name": "a", "seeds": seeds})
    assert told["test %"] == pytest.approx(91)
    assert told["deviation"] == pytest.approx(2**0.5)
    assert told["seconds"] == 2


def test_what_cannot_be_probed_is_refused(features, tmp_path, capsys):
    with pytest.raises(rb.InputError, match="needs labels and bars4 has none"):
        features.run(["--data", "bars4"])
    with pytest.raises(rb.InputError, match="--valid is from 1 to"):
        features.run(["--data", "digits"])
    deep = tmp_path / "deep.safetensors"
    rb.save_machine(rb.dbm(64, (4, 3)), deep)
    with pytest.raises(rb.InputError, match=r"layers \(64, 4, 3\)"):
        features.run([*WORDS, "--no-controls", "--machines", str(deep)])
    with pytest.raises(SystemExit):
        features.run([*WORDS, "--machines", str(deep), str(deep)])
    assert "different names" in capsys.readouterr().err
