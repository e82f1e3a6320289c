"""Trainers abreast: a machine whose replicas or units are in parts trains as a whole one does."""

from __future__ import annotations

from functools import partial

import pytest
import torch

import rapidbm as rb
from rapidbm.accel.ranks import Ranks, ThreadRanks
from rapidbm.data.splits import Dataset, Split
from rapidbm.machines.layers import Layers
from rapidbm.runs.recipe import Recipe
from rapidbm.training.sharded.abreast import Abreast, ByReplicas, ByUnits
from rapidbm.training.trainer import Trainer
from rapidbm_paper.bars.algorithm import LiteralRecipe

CPU = torch.device("cpu")
BASE = {"hidden": (9,), "batch_size": 10, "epochs": 3, "seed": 5, "dtype": "float64", "metrics": ()}
BASE |= {"optimizer": "sgd", "rate": (0.05,), "device": "cpu"}


def data() -> Dataset:
    rows = torch.where(torch.rand((23, 12), generator=rb.stream(5)) < 0.4, 1, -1).to(torch.int8)
    return Dataset("rows", Split(rows), Split(rows[:4]), (3, 4))


def training(kind=Recipe, **more):
    return kind(**Recipe.made("bars4", {**BASE, **more}, "small").as_dict()).trainer(data(), CPU)


def finished(trainer):
    for _ in trainer.run("update"):
        pass
    trainer.gather()
    return trainer


def parameters(trainer):
    return {name: p.detach().clone() for name, p in trainer.machine.named_parameters()}


def same(one, two, tolerance=1e-12):
    ours, theirs = parameters(one), parameters(two)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert torch.allclose(value, theirs[name], rtol=0, atol=tolerance), name


def test_what_is_cut_by_replicas_and_units_joins_again():
    values = torch.arange(5 * 2 * 17.0).reshape(5, 2, 17)
    for split in (ByReplicas(5, 3), ByUnits(Layers((10, 7), ((0, 1),)), 3)):
        for groups in ([range(1), range(1, 2), range(2, 3)], [range(2), range(2, 3)], [range(3)]):
            parts = [(group, split.cut(values, group)) for group in groups]
            assert torch.equal(split.joined(parts), values)
    assert ByUnits(Layers((10, 7), ((0, 1),)), 3).sizes(range(1, 2)) == [3, 2]


# -- replicas -----------------------------------------------------------------------------------------


def test_replicas_in_shards_are_trainings_of_their_own():
    """Each shard has the start of its replicas, their own numbers, and streams under its own name."""
    settings = {"replicas": 5, "negative": "pcd", "particles": 6, "rate": (0.01, 0.02, 0.03, 0.04, 0.05)}
    settings |= {"momentum": (0.0, 0.1, 0.2, 0.3, 0.4), "average": 3, "biases": True}
    trainer = training(shards=2, shard_by="replicas", **settings)
    assert isinstance(trainer, Abreast)
    assert [part.machine.replicas for part in trainer.trainers] == [2, 3]
    same(trainer, training(**settings), 0.0)  # they start as ever
    assert trainer.trainers[1].choice.rate == (0.03, 0.04, 0.05)
    assert trainer.trainers[1].choice.momentum == (0.2, 0.3, 0.4)
    assert trainer.rates(0) == (0.01, 0.02, 0.03, 0.04, 0.05)
    finished(trainer)
    for number, (first, last) in enumerate(((0, 2), (2, 5))):
        recipe = Recipe.made("bars4", {**BASE, **settings}, "small").of_replicas(slice(first, last))
        part = trainer.trainers[number]
        alone = Trainer(
            ByReplicas(5, 2).machine(training(**settings).machine, number),
            data().train.spins,
            recipe.negative_phase(),
            recipe.optimizer_choice(),
            epochs=3,
            batch_size=10,
            seed=part.seed,
            average=3,
            projection=recipe.projection_choice(),
        )
        finished(alone)
        for name, value in parameters(trainer).items():
            assert torch.equal(value[first:last], alone.stepper.parameters[name]), name
            assert torch.equal(trainer.average.means[name][first:last], alone.average.means[name]), name
    orders = [part.batches.taken(part.seed, 0, 0)[0] for part in trainer.trainers]
    assert not torch.equal(*orders)


def test_a_replica_that_diverges_is_told_of_by_its_number():
    trainer = training(replicas=4, shards=2, shard_by="replicas", negative="cd")
    trainer.trainers[1].machine.couplings.first.data[0] = 1e308
    finished(trainer)
    assert trainer.diverged() == (2,)


# -- units --------------------------------------------------------------------------------------------


UNITS = {
    "pid": {"negative": "pid", "patterns": 4, "projection": "sign"},
    "all": {"negative": "pid", "patterns": 4, "projection": "none", "kind": LiteralRecipe},
    "deep": {
        "negative": "pid",
        "patterns": 4,
        "model": "dbm",
        "hidden": (7, 5),
        "positive": "meanfield",
        "projection": "clip",
        "batch_mean": "nominal",
    },
}


@pytest.mark.parametrize("shards", [2, 3])
@pytest.mark.parametrize("name", UNITS)
def test_units_in_shards_without_random_numbers_are_the_whole_machine(name, shards):
    settings = {**UNITS[name], "biases": True, "average": 5}
    whole = finished(training(**settings))
    parts = finished(training(shards=shards, shard_by="units", **settings))
    assert isinstance(parts, Abreast)
    same(whole, parts)
    for key, value in whole.average.means.items():
        assert torch.allclose(parts.average.means[key], value, rtol=0, atol=1e-12)


def test_a_sweep_of_units_in_shards_draws_from_the_fields_of_the_whole_machine():
    """The same draws, given the same random numbers: one shard's units against those of a whole machine
    whose numbers are the shards' side by side."""
    machine = rb.rbm(12, 9, 4, scale=0.5, seed=3, dtype=torch.float64)
    split = ByUnits(machine.layers, 2)
    threads = ThreadRanks(2, Ranks())
    parts = [split.machine(machine, i, threads.members[i]) for i in range(2)]
    spins = machine.random(50, seed=1)
    own = [split.cut(spins, range(i, i + 1)) for i in range(2)]
    for layer in (0, 1):
        fields = threads.run([partial(parts[i].field, own[i], layer, means=True) for i in range(2)])
        sizes = [split.within(range(i, i + 1))[layer] for i in range(2)]
        whole = machine.field(spins, layer)
        for field, part in zip(fields, sizes, strict=True):
            assert torch.allclose(field, whole[..., part], atol=1e-12)
    swept = threads.run(
        [lambda i=i: rb.sweep(parts[i], own[i], rb.stream(7, i), means=True) for i in range(2)]
    )
    streams, spins = [rb.stream(7, i) for i in range(2)], spins.clone()
    for layer in machine.layers.order:
        where = machine.layers.slices[layer]
        up = torch.sigmoid(2 * machine.field(spins, layer, means=True))
        for i, rng in enumerate(streams):
            part = split.within(range(i, i + 1))[layer]
            chance = torch.rand(up[..., part].shape, generator=rng, dtype=torch.float64)
            spins[..., where.start + part.start : where.start + part.stop] = torch.copysign(
                torch.ones(()), up[..., part] - chance
            )
    assert torch.equal(split.joined([(range(i, i + 1), swept[i]) for i in range(2)]), spins)
    # and the gradient over them
    whole = machine.gradient(machine.given_visible(spins[..., :12]))["couplings.patterns"]
    found = threads.run(
        [
            lambda i=i: parts[i].gradient(parts[i].given_visible(swept[i][..., : parts[i].visible]))
            for i in range(2)
        ]
    )
    joined = split.joined([(range(i, i + 1), found[i]["couplings.patterns"]) for i in range(2)])
    assert torch.allclose(joined, whole, atol=1e-12)


def test_energies_of_units_in_shards_are_finite_together():
    """A replica whose patterns grow too large in one shard stops in all."""
    machine = rb.rbm(12, 9, 4, replicas=2, seed=3)
    threads = ThreadRanks(2, Ranks())
    parts = [ByUnits(machine.layers, 2).machine(machine, i, threads.members[i]) for i in range(2)]
    parts[1].patterns.data[0, 0, 0] = 1e20
    for found in threads.run([part.finite for part in parts]):
        assert found.tolist() == [False, True]


def test_an_error_in_one_thread_ends_the_others():
    threads = ThreadRanks(2, Ranks())

    def waits():
        return threads.members[0].add(torch.ones(1))

    def fails():
        raise rb.InputError("not this one")

    with pytest.raises(rb.InputError, match="not this one"):
        threads.run([waits, fails])
    assert threads.run(
        [lambda i=i: int(threads.members[i].add(torch.tensor([i + 1]))) for i in range(2)]
    ) == [
        3,
        3,
    ]


WRONG = {
    "dense": ({"patterns": None, "negative": "cd"}, "dense"),
    "bm": ({"model": "bm", "negative": "pcd"}, "not coupled to themselves"),
    "pt": ({"negative": "pt"}, "pid, cd or pcd"),
    "exact": ({"negative": "exact"}, "pid, cd or pcd"),
    "lifetime": ({"negative": "pcd", "lifetime": 50}, "lifetime"),
    "centred": ({"negative": "pcd", "centred": True, "biases": True}, "centred"),
    "enumerated": (
        {"negative": "pcd", "model": "dbm", "hidden": (5, 4), "positive": "enumerated"},
        "enumerate",
    ),
    "few": ({"negative": "pcd", "hidden": (1,)}, "1 units cannot be cut"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_needs_all_units_is_refused(name):
    settings, why = WRONG[name]
    with pytest.raises(rb.InputError, match=why):
        training(shards=2, shard_by="units", **{"patterns": 4, **settings})


def test_more_shards_than_replicas_are_refused():
    with pytest.raises(rb.InputError, match="2 replicas cannot be cut into 3"):
        training(shards=3, shard_by="replicas", replicas=2, negative="cd")


# -- saving -------------------------------------------------------------------------------------------

SAVED = {
    "replicas": {"shard_by": "replicas", "replicas": 3, "negative": "pcd", "particles": 5, "average": 4},
    "units": {"shard_by": "units", "negative": "pcd", "particles": 5, "biases": True},
    "units, adam": {"shard_by": "units", "negative": "cd", "optimizer": "adam", "projection": "gibbs"},
    "replicas, torch": {"shard_by": "replicas", "replicas": 2, "negative": "cd", "optimizer": "rmsprop"},
}


@pytest.mark.parametrize("name", SAVED)
def test_trainers_abreast_go_on_from_a_state_of_the_whole(name):
    settings = {"patterns": 4, "shards": 2, **SAVED[name]}
    whole = finished(training(**settings))
    half = training(**settings)
    half.step()
    half.step()
    state = half.state()
    n = whole.machine.layers.columns
    assert state["parameter/couplings.patterns"].shape == (whole.machine.replicas, 4, n)
    assert state["training/chains"].shape[2] in (n, n + 1)  # scouts carry the number of the update
    rest = training(**settings)
    rest.load(state)
    assert rest.update == 2
    half.gather()
    same(half, rest, 0.0)
    finished(rest)
    same(whole, rest, 0.0)
    one = training(**{**settings, "shards": 1})
    with pytest.raises(rb.InputError, match=r"shards|lacks"):
        one.load(state)
    with pytest.raises(rb.InputError, match="shards, not in 2"):
        rest.load(one.state())
