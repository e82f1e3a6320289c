"""Hidden patterns that move more slowly."""

import pytest
import torch

import rapidbm as rb
from rapidbm.errors import InputError
from rapidbm.runs.presets import OF_TASKS, preset_for
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run

DEEP = {"model": "dbm", "hidden": (20, 20), "patterns": 3, "epochs": 1}


def moved(pace, optimizer="sgd", updates=1, rate=0.02):
    recipe = Recipe.made("bars4", {**DEEP, "optimizer": optimizer, "rate": (rate,), "pace": pace})
    trainer = recipe.trainer(recipe.data(), torch.device("cpu"))
    start = trainer.machine.patterns.detach().clone()
    for _ in range(updates):
        trainer.step()
    return trainer.machine.patterns.detach() - start


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("pace", [0.0, 0.25, 1.0])
def test_a_pace_slows_hidden_patterns_alone(pace, optimizer):
    whole, slow = moved(1.0, optimizer), moved(pace, optimizer)
    assert torch.allclose(slow[..., :16], whole[..., :16])
    assert torch.allclose(slow[..., 16:], pace * whole[..., 16:], atol=1e-6)
    assert float(whole[..., 16:].abs().max()) > 0.01


def test_no_pace_leaves_hidden_patterns_where_they_are():
    after = moved(0.0, updates=4, rate=2.0)  # an epoch, with its projection
    assert not after[..., 16:].any()
    assert after[..., :16].any()


def test_train_takes_one():
    machine = rb.rbm(16, 8, 3, seed=0)
    before = machine.patterns.detach().clone()
    data = rb.load("bars4").train
    for _ in rb.train(
        machine, data, rb.Persistent(10), rb.sgd(0.1), epochs=1, batch_size=5, pace=0.0, seed=0
    ):
        pass
    assert torch.equal(machine.patterns[..., 16:], before[..., 16:])
    assert not torch.equal(machine.patterns[..., :16], before[..., :16])


@pytest.mark.parametrize("pace", [-0.1, 1.5, float("nan"), "fast"])
def test_a_pace_is_a_share(pace):
    with pytest.raises(InputError, match="from 0 to 1"):
        Recipe.made("bars4", {**DEEP, "pace": pace})


def test_dense_couplings_have_none():
    with pytest.raises(InputError, match="dense couplings have none"):
        Recipe.made("bars4", {"patterns": None, "pace": 0.5}, "small")
    assert Recipe.made("bars4", {"model": "dbm", "patterns": None, "negative": "cd"}).pace == 1.0


def test_a_run_with_a_pace_goes_on_to_the_same_bits(tmp_path):
    recipe = Recipe.made("bars4", {**DEEP, "epochs": 4, "pace": 0.1})
    ends = []
    for name, halts in (("whole", ()), ("halved", (5, 9))):
        run = Run.create(tmp_path / name, recipe)
        for halt in halts:
            seen = iter(range(100))
            for _ in run.go(stop=lambda seen=seen, halt=halt: next(seen) >= halt):
                pass
        for _ in run.go():
            pass
        ends.append(run.machine().patterns)
    assert torch.equal(*ends)


@pytest.mark.parametrize(("dataset", "served"), [("bars4", "paper-bars"), ("bas12", "paper-bas12")])
@pytest.mark.parametrize("model", ["dbm", "bm"])
def test_deep_and_full_machines_have_recipes_of_their_own(dataset, served, model):
    assert preset_for(dataset, {"model": model}) == f"{model}-{served}" in OF_TASKS
    recipe = Recipe.made(dataset, {"model": model})
    assert (recipe.negative, recipe.sweeps, recipe.projection) == ("pid", None, "sign")
    machine = recipe.machine(recipe.data(), torch.device("cpu"))
    assert len(machine.layers.sizes) == 1 + len(recipe.hidden)
    other = Recipe.made(dataset, {"model": model, "hidden": (9, 8, 7)[: 3 if model == "dbm" else 1]})
    other.machine(other.data(), torch.device("cpu"))  # whatever its layers are


@pytest.mark.parametrize("model", ["dbm", "bm"])
def test_pure_pid_learns_the_bars(model):
    """Two equal hidden layers, or full connectivity: 0.5 and 0.15 without a pace."""
    recipe = Recipe.made("bars4", {"model": model, "replicas": 3, "epochs": 40})
    trainer, data = recipe.trainer(recipe.data(), torch.device("cpu")), recipe.data()
    for _ in range(recipe.epochs):
        trainer.finish_epoch()
    found = rb.hamming_distance(trainer.machine, data.test, seed=0)
    assert float(found.max()) < 0.1
