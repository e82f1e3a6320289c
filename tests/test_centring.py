"""Centred gradients: the formulas, and trainings that take them."""

import pytest
import torch

from rapidbm.errors import InputError
from rapidbm.likelihood.log_z import log_likelihood
from rapidbm.machines.constructors import bm, dbm, rbm
from rapidbm.machines.ensembles import WeightedSpins
from rapidbm.runs.recipe import Recipe
from rapidbm.training.coordinates.centring import Centring
from rapidbm.training.negative import ContrastiveDivergence, Exact, Persistent
from rapidbm.training.optimisers import adam, sgd
from rapidbm.training.positive import Enumerated
from rapidbm.training.train import train
from rapidbm.training.trainer import Trainer

DATA = torch.randint(0, 2, (20, 5), generator=torch.Generator().manual_seed(1)) * 2 - 1


def made(patterns=None, **more):
    machine = rbm(5, 4, patterns, biases=True, scale=0.5, seed=0, **more)
    machine.start_biases(DATA)
    return machine


@pytest.fixture(params=[None, 3], ids=["dense", "patterns"])
def machine(request):
    return made(request.param, replicas=2, dtype=torch.float64)


def trainer_of(machine, negative=None, **more):
    optimizer = more.pop("optimizer", sgd(0.1))
    how = {"epochs": 1, "batch_size": 10, "seed": 0, "centred": True, **more}
    return Trainer(machine, DATA, negative or Persistent(10), optimizer, **how)


KINDS = {
    "rbm": lambda **more: rbm(5, 4, **more),
    "dbm": lambda **more: dbm(5, (2, 1, 1), **more),
    "bm": lambda **more: bm(5, 4, **more),
    "bm alone": lambda **more: bm(9, **more),
}


@pytest.mark.parametrize("patterns", [None, 3], ids=["dense", "patterns"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_centred_gradient_is_that_of_centred_moments(kind, patterns):
    machine = KINDS[kind](
        patterns=patterns, biases=True, scale=0.5, seed=0, replicas=2, dtype=torch.float64
    )
    rng = torch.Generator().manual_seed(2)
    weights = torch.full((2, 7), 1 / 7, dtype=torch.float64)
    data, model = (
        WeightedSpins(torch.randint(0, 2, (2, 7, 9), generator=rng).double() * 2 - 1, weights)
        for _ in "dm"
    )
    images = torch.randint(0, 2, (20, machine.visible), generator=rng) * 2 - 1
    centring = Centring(machine, images, persistent=True)
    assert torch.equal(centring.offsets[0, 0, : machine.visible], images.double().mean(0))
    centring.offsets.copy_(torch.rand(2, 1, 9, generator=rng, dtype=torch.float64))
    plain = data.gradient_difference(model, machine)
    found = centring.gradient(plain)

    def mean_energy(x):
        s = x.spins - centring.offsets  # of the couplings alone
        return (machine.couplings.energy(s) * x.weights).sum()

    names = sorted(set(plain) - {"biases"})
    each = [machine.get_parameter(name) for name in names]
    wanted = torch.autograd.grad(mean_energy(data) - mean_energy(model), each)
    for name, one in zip(names, wanted, strict=True):
        assert torch.allclose(found[name], one), name
    assert found["biases"] is plain["biases"]


@pytest.mark.parametrize("patterns", [None, 3], ids=["dense", "patterns"])
@pytest.mark.parametrize("kind", ["dbm", "bm"])
def test_deep_and_full_machines_learn_by_it(kind, patterns):
    """By exact hidden sums and many chains it is as near to the maximum as plain gradients come."""
    ends = []
    for centred in (False, True):
        machine = KINDS[kind](patterns=patterns, biases=True, scale=0.3, seed=0, dtype=torch.float64)
        machine.start_biases(DATA)
        optimizer = adam(0.03, fall="linear")
        how = {"epochs": 300, "batch_size": 20, "positive": Enumerated(), "seed": 0}
        for _ in train(machine, DATA, Persistent(500, 2), optimizer, centred=centred, **how):
            pass
        ends.append(float(log_likelihood(machine, DATA).value))
    assert abs(ends[1] - ends[0]) < 0.05
    assert ends[1] > -3.3  # independent columns have −3.37


def test_a_step_of_the_couplings_leaves_the_means_alone(machine):
    """It changes E by −(v−μ)ᵀ ΔJ (h−λ) and a constant."""
    trainer = trainer_of(machine)
    trainer.centring.offsets[..., 5:] = 0.3
    offsets = trainer.centring.offsets.clone()
    before, old = machine.couplings.matrix(0, 1).detach().clone(), machine.biases.detach().clone()
    gradient = trainer.gradient
    trainer.gradient = lambda *given: {k: v * (k != "biases") for k, v in gradient(*given).items()}
    trainer.step()
    change = machine.couplings.matrix(0, 1).detach() - before
    mu, hidden = offsets[..., :5], offsets[..., 5:]
    assert float(change.abs().max()) > 1e-3
    moved = machine.biases.detach() - old
    assert torch.allclose(moved[:, None, :5], -(hidden @ change.mT))
    assert torch.allclose(moved[:, None, 5:], -(mu @ change))


@pytest.mark.parametrize("negative", [Persistent(4000), ContrastiveDivergence(1), Exact()])
def test_hidden_means_are_followed(machine, negative):
    trainer = trainer_of(machine, negative, optimizer=sgd(1e-9), epochs=200, batch_size=20)
    for _ in range(200):
        trainer.step()
    batch = DATA.double().expand(2, -1, -1)
    wanted = machine.complete(batch, means=True)[..., 5:].mean(1)
    assert torch.allclose(trainer.centring.offsets[:, 0, 5:], wanted, atol=0.02)


@pytest.mark.parametrize("patterns", [None, 3])
def test_it_finds_the_maximum_that_plain_gradients_find(patterns):
    ends = []
    for centred in (False, True):
        machine = made(patterns, dtype=torch.float64)
        optimizer = adam(0.05, fall="linear")
        for _ in train(
            machine, DATA, Exact(), optimizer, epochs=500, batch_size=20, centred=centred, seed=0
        ):
            pass
        ends.append(float(log_likelihood(machine, DATA).value))
    assert abs(ends[1] - ends[0]) < 0.05
    assert ends[1] > -3.3  # independent columns have −3.37


def test_a_cut_changes_no_bit(machine):
    whole = trainer_of(machine, optimizer=adam(0.01), epochs=40)
    state = None
    for number in range(80):
        if number == 45:
            state = whole.state()
        whole.step()
    again = made(3 if machine.patterns is not None else None, replicas=2, dtype=torch.float64)
    other = trainer_of(again, optimizer=adam(0.01), epochs=40)
    other.load(state)
    while other.update < 80:
        other.step()
    for one, two in zip(machine.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, two)
    assert torch.equal(whole.centring.offsets, other.centring.offsets)


def test_what_cannot_be_centred():
    with pytest.raises(InputError, match="centred gradients are for a machine with biases"):
        trainer_of(rbm(5, 4, seed=0))
    with pytest.raises(InputError, match="follow the means of hidden units by persistent chains"):
        trainer_of(dbm(5, (4, 3), biases=True, seed=0), ContrastiveDivergence(1))


def test_a_recipe_says_what_it_cannot_centre():
    with pytest.raises(InputError, match="centred gradients are for machines with biases; give --biases"):
        Recipe("digits", centred=True)
    assert Recipe.made("digits", {}, "auto").centred
    assert not Recipe.made("digits", {"biases": False}, "auto").centred
