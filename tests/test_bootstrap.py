"""Errors of couplings by resampled rows: weights, q-values, coverage, and the commands."""

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import rapidbm as rb
from rapidbm.cli.main import app
from rapidbm.errors import InputError
from rapidbm.inference.couplings import EffectiveCouplings
from rapidbm.machines.layers import Layers
from rapidbm.random import stream


def test_resampled_weights_are_draws_in_proportion_to_weights():
    weights = [1.0, 0.5, 0.5, 0.0, 1.0]
    found = rb.bootstrap_weights(weights, 4000, seed=0)
    assert found.shape == (4001, 5)
    assert found[0].tolist() == weights
    counts = found[1:]  # each draw of the three counts one here
    assert torch.equal(counts, counts.round())
    assert (counts.sum(1) == 3).all()
    assert not counts[:, 3].any()
    p = torch.tensor(weights, dtype=torch.float64) / 3
    torch.testing.assert_close(counts.mean(0), 3 * p, rtol=0, atol=0.06)
    torch.testing.assert_close(counts.var(0), 3 * p * (1 - p), rtol=0, atol=0.06)
    assert torch.equal(found, rb.bootstrap_weights(weights, 4000, seed=0))
    assert torch.equal(rb.bootstrap_weights(4, 2, seed=1)[0], torch.ones(4, dtype=torch.float64))


@pytest.mark.parametrize("weights", [[-1.0, 2.0], [0.0, 0.0], [float("nan"), 1.0], 0])
def test_other_weights_are_refused(weights):
    with pytest.raises(InputError):
        rb.bootstrap_weights(weights, 3, seed=0)


def of_scores(each):
    """Couplings of spins with these (e, n, n)."""
    layers = Layers((each.shape[-1],), (), (rb.Spin(),), 1)
    return EffectiveCouplings(torch.zeros(each.shape[:2]).double(), each, layers, True)


def test_intervals_and_q_values_are_those_of_scipy():
    from scipy import stats

    rng = stream(0)
    mean = torch.randn((6, 6), generator=rng, dtype=torch.float64).abs().triu(1)
    each = mean + 0.3 * torch.randn((12, 6, 6), generator=rng, dtype=torch.float64).triu(1)
    found = of_scores(each + each.mT)
    errors = rb.bootstrap_errors(found)
    scores = found.contacts().numpy()
    spread = scores[1:].std(0, ddof=1)
    i, j = np.triu_indices(6, 1)
    np.testing.assert_allclose(errors.score, scores[0])
    np.testing.assert_allclose(errors.low[i, j], (scores[0] - 1.959964 * spread)[i, j], rtol=1e-6)
    np.testing.assert_allclose(errors.high[i, j], (scores[0] + 1.959964 * spread)[i, j], rtol=1e-6)
    noise = ((each[1:] - each[:1]) ** 2).numpy()[:, i, j]  # (replicas, pairs)
    degrees = 2 / (noise.var(0, ddof=1) / noise.mean(0) ** 2).mean()
    assert 0.5 < degrees < 2  # of spins it is 1, but for few replicas
    p = stats.f.sf((each[0] ** 2).numpy()[i, j] / noise.mean(0), degrees, 11 * degrees)
    np.testing.assert_allclose(errors.q[i, j], stats.false_discovery_control(p), rtol=1e-8)
    assert (np.diagonal(errors.q) == 1).all()
    np.testing.assert_allclose(errors.pairs_error, found.pairs[1:].std(0))
    with pytest.raises(InputError, match="resampled"):
        rb.bootstrap_errors(of_scores(each[:3]))


def test_intervals_of_couplings_hold_the_true_ones():
    """Spins whose couplings are known, by exact gradients: 95 % intervals, of 60 couplings 50 or more."""
    held = total = 0
    for seed in range(4):
        truth = rb.bm(6, biases=True, scale=0.4, seed=seed, dtype=torch.float64)
        rows = truth.random(1, stream(0))[0]
        states = torch.tensor(
            [[1.0 if k >> i & 1 else -1.0 for i in range(6)] for k in range(64)]
        ).double()
        p = torch.softmax(-truth.energy(states).detach()[0], 0)
        rows = states[torch.multinomial(p, 1500, replacement=True, generator=stream(seed))]
        machine = rb.bm(6, biases=True, scale=1e-6, replicas=26, seed=0, dtype=torch.float64)
        weights = rb.bootstrap_weights(1500, 25, seed=seed)
        steps = rb.train(
            machine, rows, rb.Exact(), rb.sgd(0.3), epochs=150, batch_size=1500, seed=0, weights=weights
        )
        for _ in steps:
            pass
        found = rb.effective_couplings(machine)
        error = rb.bootstrap_errors(found).pairs_error
        wanted = rb.effective_couplings(truth).pairs[0]
        i, j = torch.triu_indices(6, 6, 1)
        inside = (found.pairs[0] - wanted).abs()[i, j] <= 1.96 * error[i, j]
        held, total = held + int(inside.sum()), total + len(i)
    assert total == 60
    assert 50 <= held < 60


@pytest.mark.parametrize(("unit", "count"), [(rb.Spin(), 6), (rb.Categorical(3), 5)])
def test_pairs_are_called_where_they_are_coupled_and_seldom_elsewhere(unit, count):
    """Of 15 or 10 pairs of five data sets, all but one independent."""
    called, clear, pairs = 0, 0, 0
    for seed in range(5):
        rng, states = stream(seed), 2 if isinstance(unit, rb.Spin) else 3
        rows = torch.multinomial(torch.tensor([0.7, 0.2, 0.1][:states]), 500 * count, True, generator=rng)
        rows = rows.view(500, count)
        rows[:, 1] = torch.where(torch.rand(500, generator=rng) < 0.5, rows[:, 0], rows[:, 1])
        more = {"biases": True, "scale": 1e-6, "replicas": 16, "seed": 0, "dtype": torch.float64}
        machine = rb.bm(count, units=unit, **more)
        machine.start_biases(rows)
        weights = rb.bootstrap_weights(500, 15, seed=seed)
        more = {"epochs": 150, "batch_size": 500, "seed": 0, "weights": weights}
        for _ in rb.train(machine, rows, rb.Exact(), rb.sgd(0.5 if states == 2 else 1.0), **more):
            pass
        q = rb.bootstrap_errors(rb.effective_couplings(machine)).q
        i, j = torch.triu_indices(count, count, 1)
        real = (i == 0) & (j == 1)
        clear += bool((q[i, j][real] < 0.05).all())
        called += int((q[i, j][~real] < 0.05).sum())
        pairs += int((~real).sum())
    assert clear == 5
    assert called <= 3  # of 45 or more; one in twenty of what is called is expected


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bootstrap")
    letters, rng = np.array([*"-ACGU"]), np.random.default_rng(0)
    codes = rng.integers(0, 5, (400, 5))
    codes[:, 3] = np.where(rng.random(400) < 0.8, codes[:, 0], codes[:, 3])
    lines = [f">{i}\n{''.join(row)}\n" for i, row in enumerate(letters[codes])]
    (folder / "rna.fasta").write_text("".join(lines))
    words = [
        "train", folder / "rna.fasta", "--model", "bm", "--hidden", 0, "--dense", "--alphabet", "rna",
        "--bootstrap", 6, "--epochs", 60, "--particles", 200, "--rate", 0.2, "--out", folder / "T",
        "--evaluate-at", "end", "--identity", 0.99, "--until-correlation", 0.99,
    ]  # fmt: skip
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert found.exit_code == 0, (found.output, found.exception)
    return folder / "T"


def test_a_run_trains_resampled_replicas_side_by_side(run):
    told = json.loads((run / "run.json").read_text())["recipe"]
    assert (told["bootstrap"], told["replicas"]) == (6, 7)
    machine = rb.Run(run).machine("last")
    assert machine.replicas == 7
    each = rb.effective_couplings(machine).pairs
    assert float((each[1:] - each[:1]).abs().amax((1, 2)).min()) > 0.01


def test_the_table_of_couplings_has_intervals_and_rates(run, tmp_path):
    words = ["couplings", run, "--out", tmp_path / "c.csv", "--values", tmp_path / "v.csv"]
    words += ["--picture", tmp_path / "c.png"]
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert found.exit_code == 0, (found.output, found.exception)
    rows = np.genfromtxt(tmp_path / "c.csv", delimiter=",", names=True)
    errors = rb.bootstrap_errors(rb.effective_couplings(rb.Run(run).machine()), without=0)
    i, j = (rows[name].astype(int) - 1 for name in ("i", "j"))
    assert (rows["i"][0], rows["j"][0]) == (1, 4)
    for name, values in (("score", errors.score), ("score_from", errors.low), ("q", errors.q)):
        np.testing.assert_allclose(rows[name], values[i, j], rtol=1e-6)
    assert rows["q"][0] < 0.05 < rows["q"][-1]
    assert "false-discovery rate of 5%" in found.output
    values = [line.split(",") for line in (tmp_path / "v.csv").read_text().splitlines()]
    assert values[0] == ["i", "j", "a", "b", "coupling", "error"]
    assert len(values) == 1 + 10 * 25
    assert values[1][:4] == ["1", "2", "gap", "gap"]
    assert all(float(line[5]) > 0 for line in values[1:])


def test_replicas_of_another_number_are_refused():
    chosen = {"model": "bm", "hidden": (), "patterns": None, "negative": "pcd", "bootstrap": 5}
    assert rb.Recipe.made("x", chosen).replicas == 6
    with pytest.raises(InputError, match="--bootstrap 5"):
        rb.Recipe.made("x", chosen | {"replicas": 3})
