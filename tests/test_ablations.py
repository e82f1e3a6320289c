"""`python -m benchmarks ablations`: the altered trainings against plain formulas, and tiny runs."""

import importlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rapidbm.errors import InputError
from rapidbm.likelihood.log_z import log_z
from rapidbm.machines.constructors import rbm
from rapidbm.training.negative import Persistent
from rapidbm.training.optimisers import sgd
from rapidbm.training.positive import ConditionalMean

TINY = ["--hidden", "6", "--patterns", "3", "--updates", "24", "--seeds", "2"]
DATA = torch.randint(0, 2, (20, 5), generator=torch.Generator().manual_seed(1)) * 2 - 1


@pytest.fixture(params=[None, 3], ids=["dense", "patterns"])
def machine(request):
    made = rbm(5, 4, request.param, replicas=2, biases=True, scale=0.5, seed=0, dtype=torch.float64)
    made.start_biases(DATA)
    return made


@pytest.fixture
def modules(monkeypatch):
    return [importlib.import_module(f"rapidbm_bench.{name}") for name in ("altered", "ablations")]


def couplings(machine):
    return machine.couplings.first


def trained(kind, machine, **told):
    trainer = kind(machine, DATA, Persistent(10), sgd(0.1), epochs=1, batch_size=10, seed=0)
    for name, value in told.items():
        setattr(trainer, name, value)
    return trainer


def test_penalties_are_gradients(modules, machine):
    altered, _ = modules
    theta = couplings(machine)
    metric = altered.covariance_metric(DATA).double()
    visible = theta[..., :5] if machine.patterns is not None else theta.mT
    quadratic = 0.5 * (visible @ metric * visible).sum()
    if machine.patterns is not None:
        quadratic = quadratic + 0.5 * theta[..., 5:].square().sum()
    of_j = 0.5 * machine.couplings.matrix(0, 1).square().sum()
    for value, given in ((quadratic, metric), (of_j, None)):
        (wanted,) = torch.autograd.grad(value, theta)
        assert torch.allclose(altered.penalty(machine, given), wanted)


def test_metrics(modules):
    altered, _ = modules
    smooth = altered.smooth_metric((2, 3))
    flat, field = torch.ones(6), torch.tensor([0.0, 1.0, 3.0, 0.0, 2.0, 2.0])
    assert torch.allclose(smooth @ flat, torch.zeros(6))
    jumps = 1 + 4 + 4 + 0 + 0 + 1 + 1  # squares, between neighbours
    assert torch.allclose(field @ smooth @ field * 14 / 6, torch.tensor(float(jumps)))
    metric = altered.covariance_metric(DATA, least=0.5).double()
    c = torch.cov(DATA.double().T, correction=0) + 0.5 * torch.eye(5)
    product = metric @ c
    assert torch.allclose(product, product[0, 0] * torch.eye(5).double(), atol=1e-5)
    assert float(metric.trace()) == pytest.approx(5)


def test_a_decay_shrinks_beside_the_update(modules, machine):
    altered, _ = modules
    twin = rbm(5, 4, getattr(machine.patterns, "shape", [0, None])[1], replicas=2, biases=True,
               scale=0.5, seed=0, dtype=torch.float64)  # fmt: skip
    twin.start_biases(DATA)
    plain, decays = trained(altered.Trainer, twin), trained(altered.Decaying, machine, decay=0.3)
    plain.step()
    decays.step()
    wanted = couplings(twin) - 0.1 * 0.3 * altered.penalty(twin, None)
    assert torch.allclose(couplings(machine), wanted)


def test_hidden_patterns_take_longer_steps(modules):
    altered, _ = modules
    machines = [rbm(5, 4, 3, biases=True, scale=0.5, seed=0) for _ in "ab"]
    before = machines[0].patterns.detach().clone()
    trained(altered.Trainer, machines[0]).step()
    trained(altered.Sided, machines[1], faster=3.0).step()
    one, three = (m.patterns.detach() - before for m in machines)
    assert torch.allclose(three[..., :5], one[..., :5])
    assert torch.allclose(three[..., 5:], 3 * one[..., 5:], atol=1e-6)


def test_noise_flips_so_many_pixels(modules):
    altered, _ = modules
    trainer, seen = trained(altered.Noisy, rbm(5, 4, biases=True, seed=0), flips=0.25), []

    class Seen(ConditionalMean):
        def step(self, machine, data, rng):
            seen.append(data)
            return super().step(machine, data, rng)

    trainer.positive = Seen()
    batch = torch.ones(1, 4000, 5)
    trainer.gradient(batch, 4000)
    share = float((seen[0] < 0).float().mean())
    assert abs(share - 0.25) < 5 * (0.25 * 0.75 / 20_000) ** 0.5
    assert bool((batch == 1).all())


def test_costs_are_equal(modules):
    _, ablations = modules
    how = ablations.arguments(["--updates", "1000"])
    data = ablations.data_of(how)
    rows = len(data.train)
    costs, rates = {}, {}
    for name in ("base", "sweeps 10", "chains 1000", "batch 1000", "tempering, 4 × 50", "cd 1"):
        variant = replace(ablations.VARIANTS[name], rates=(1.0,))
        trainer = ablations.trainer_of(how, "dense", variant, data)
        recipe = ablations.recipe_of(how, "dense", variant)
        costs[name] = trainer.epochs * ablations.cost_of(recipe, rows)
        rates[name] = trainer.rates(0)[0]
    assert all(abs(cost / costs["base"] - 1) < 0.05 for cost in costs.values()), costs
    assert rates["base"] == 2e-3
    update = 100 + 100 + rows / 12  # 12 updates an epoch, the last with fewer images
    assert rates["sweeps 10"] == pytest.approx(2e-3 * ((update + 900) / update) ** 0.5)


def test_annealing_agrees_with_the_exact_sum(modules, machine, monkeypatch):
    _, ablations = modules
    monkeypatch.setattr(ablations, "EXACT", 1)
    monkeypatch.setattr(ablations, "can_be_exact", lambda *_: False)
    found = ablations.normaliser(machine, DATA, ablations.arguments(["--ais-chains", "500"]))
    exact = log_z(machine, method="exact").value
    assert bool((found.lower <= exact).all() and (exact <= found.upper).all())
    assert float((found.upper - found.lower).max()) < 0.3


def test_a_tiny_table_goes_on_where_it_was_left(modules, tmp_path, monkeypatch):
    _, ablations = modules
    path = tmp_path / "rows.json"
    some = "base;average;betas 0.9, 0.99;centred;covariance 0.1;smooth 0.1;noise 0.01;hidden patterns × 3"
    told = ablations.run([*TINY, "--variants", some, "--out", str(path)])
    assert told["dense: base"]["less base"] == 0
    assert len(told) == 15  # dense couplings have no hidden patterns
    rows = json.loads(path.read_text())["rows"]
    assert len(rows) == 2 * (3 + 5 + 3) + 1
    assert all("test" not in row and len(row["valid"]) == 2 for row in rows)
    monkeypatch.setattr(ablations, "measured", lambda *_: pytest.fail("made again"))
    assert ablations.run([*TINY, "--variants", some, "--out", str(path)]) == told
    with pytest.raises(InputError, match="other settings"):
        ablations.run([*TINY, "--decay", "0.7", "--variants", some, "--out", str(path)])
    with pytest.raises(InputError, match="no variant 'nonsense'"):
        ablations.run(["--variants", "nonsense"])


def test_the_best_rate_by_the_validation_part_counts(modules):
    _, ablations = modules
    row = {"kind": "dense", "updates": 1, "width": [0.1]}
    rows = [
        row | {"variant": "base", "rate": 1, "train": [0.0, 0.0], "valid": [-4.0, -4.0]},
        row | {"variant": "base", "rate": 2, "train": [-2.0, -2.0], "valid": [-6.0, -6.0]},
        row | {"variant": "base", "rate": 4, "train": [-2.0, -2.0], "valid": [-3.5, -2.5]},
        row | {"variant": "centred", "rate": 1, "train": [-9.0, -9.0], "valid": [-9.0, -9.0]},
        row | {"variant": "centred", "rate": 2, "train": [-1.0, -1.0], "valid": [-2.0, -2.0]},
        row | {"variant": "cosine", "rate": 2, "train": [-1.0, -1.0], "valid": [-5.0, -5.0]},
    ]
    told = ablations.summary(rows)
    assert told["dense", "base"]["rate"] == 4
    less = told["dense", "centred"]["less base"]
    assert float(less.value) == 1.0
    assert float(less.error) == 0.5  # of two values ½ from their mean
    assert told["dense", "centred"]["gap"] == 1.0
    assert (
        float(told["dense", "cosine"]["less base"].value) == 1.0
    )  # at the usual rate, that of the second


def test_the_table_shows_what_is_more_than_noise(modules):
    _, ablations = modules
    row = {"kind": "dense", "updates": 1, "width": [0.1], "rate": 1, "train": [0.0, 0.0]}
    base = row | {"variant": "base", "valid": [-3.1, -2.9]}
    variants = {"cosine": [-1.0, -1.0], "average": [-2.9, -2.9], "centred": [-5.0, -5.0]}
    rows = [base, *(row | {"variant": name, "valid": valid} for name, valid in variants.items())]
    worse = [base, row | {"variant": "cosine", "valid": [-9.0, -9.0]}]
    lines = ablations.table({"one": rows, "two": worse})
    assert "| base |  | −3.00 ± 0.10 (gap 3.00) |  | −3.00 ± 0.10 (gap 3.00) | |" in lines
    assert "| average |  | +0.10 ± 0.10 |  |  | no difference |" in lines
    assert "| centred |  | −2.00 ± 0.10 |  |  | worse |" in lines
    assert "| cosine |  | +2.00 ± 0.10 |  | −6.00 ± 0.10 | mixed |" in lines


def test_the_page_tells_what_was_recorded(modules):
    _, ablations = modules
    folder = Path(__file__).parents[1] / "docs" / "results"
    files = {name: folder / f"ablations-{name}.json" for name in ("digits", "mnist")}
    records = {name: json.loads(path.read_text())["rows"] for name, path in files.items()}
    page = (folder / "ablations.md").read_text()
    lines = ablations.table(records)
    assert len(lines) > 10
    assert not [line for line in lines if line not in page]
