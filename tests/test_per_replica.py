"""Numbers that each replica may have its own of: it trains as it would among equals."""

import pytest
import torch

from rapidbm.errors import InputError
from rapidbm.machines.constructors import bm, dbm, rbm
from rapidbm.runs.recipe import PER_REPLICA, Recipe
from rapidbm.training.optimisers import sgd
from rapidbm.training.projections import Clip
from rapidbm.training.train import train

COMMON = {"hidden": (8,), "patterns": 3, "replicas": 3, "epochs": 2, "batch_size": 3, "device": "cpu"}
COMMON |= {"negative": "pcd", "particles": 5, "biases": True, "scale": 0.3, "projection": "clip"}
COMMON |= {"optimizer": "sgd", "rate": (0.05,), "momentum": 0.3}
VALUES = {
    "rate": (0.01, 0.1, 0.3),
    "weight_decay": (0.0, 0.1, 0.9),
    "scale": (0.1, 0.5, 0.9),
    "momentum": (0.0, 0.5, 0.9),
    "bound": (0.2, 0.31, 2.0),
}


def trained(**chosen):
    recipe = Recipe.made("bars4", {**COMMON, **chosen}, "small")
    trainer = recipe.trainer(recipe.data(), torch.device("cpu"))
    for _ in trainer.run("epoch"):
        pass
    return trainer.machine


def test_all_of_them_are_tried():
    assert set(VALUES) == set(PER_REPLICA)


@pytest.mark.parametrize("name", VALUES)
def test_a_replica_with_its_own_number_trains_as_among_equals(name):
    together = trained(**{name: VALUES[name]})
    for i, value in enumerate(VALUES[name]):
        equals = trained(**{name: (value,)})
        for one, other in zip(together.parameters(), equals.parameters(), strict=True):
            torch.testing.assert_close(one[i], other[i], rtol=0, atol=1e-6)
    assert not torch.allclose(together.patterns[0], together.patterns[2], atol=1e-3)


def test_one_number_is_written_as_one():
    assert Recipe.made("bars4", {**COMMON, "scale": (0.5,), "momentum": ()}).as_dict()["scale"] == 0.5
    assert Recipe.made("bars4", {**COMMON, "momentum": ()}).momentum is None


@pytest.mark.parametrize("name", ["scale", "momentum", "bound"])
def test_as_many_numbers_as_replicas(name):
    with pytest.raises(InputError, match=f"one {name}, or one for each of the 3 replicas, not 2"):
        Recipe.made("bars4", {**COMMON, name: (0.1, 0.2)}, "small")


def test_objects_say_it_too():
    machine = rbm(16, 4, 2, replicas=3, seed=0)
    data = torch.ones(4, 16)
    for optimizer, projection in ((sgd(0.1, momentum=(0.1, 0.2)), None), (sgd(0.1), Clip((1.0, 2.0)))):
        more = {"epochs": 1, "batch_size": 2, "projection": projection, "seed": 0}
        with pytest.raises(InputError, match="one for each of the 3 replicas, not 2"):
            next(train(machine, data, Recipe("bars4").negative_phase(), optimizer, **more))
    for make in (rbm, bm, lambda v, h, k, **more: dbm(v, (h,), k, **more)):
        with pytest.raises(InputError, match="one for each of the 2 replicas, not 3"):
            make(4, 3, None, replicas=2, scale=(0.1, 0.2, 0.3), seed=0)
        sizes = make(4, 3, 2, replicas=2, scale=[0.1, 0.7], seed=0).patterns.abs()
        torch.testing.assert_close(sizes.amax((1, 2)), torch.tensor([0.1, 0.7]))


def test_torch_optimisers_take_one_momentum():
    chosen = {**COMMON, "optimizer": "rmsprop", "momentum": (0.1, 0.2, 0.3), "rate": (0.1,)}
    with pytest.raises(InputError, match="rmsprop takes one momentum for all replicas"):
        Recipe.made("bars4", chosen, "small")
