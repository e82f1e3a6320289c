"""Our optimisers against torch's, and torch's through ours."""

import math

import pytest
import torch
from torch import nn

from rapidbm.errors import InputError
from rapidbm.random import stream
from rapidbm.training.optimisers import (
    SGD,
    Adam,
    TorchOptimizer,
    adam,
    bind_torch,
    sgd,
    torch_optimizers,
)
from rapidbm.training.schedules import Schedule


def parameters():
    start = torch.randn((3, 4, 5), generator=stream(0), dtype=torch.float64)
    return {
        "couplings.patterns": nn.Parameter(start.clone()),
        "biases": nn.Parameter(start[:, 0].clone()),
    }


def gradients(i):
    rng = stream(1, i)
    whole = torch.randn((3, 4, 5), generator=rng, dtype=torch.float64)
    return {"couplings.patterns": whole, "biases": whole[:, 0].clone()}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (sgd(0.1), lambda p: torch.optim.SGD(p, 0.1)),
        (sgd(0.1, momentum=0.9), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)),
        (adam(0.1), lambda p: torch.optim.Adam(p, 0.1)),
        (
            adam(0.1, betas=(0.5, 0.9), epsilon=1e-3),
            lambda p: torch.optim.Adam(p, 0.1, (0.5, 0.9), 1e-3),
        ),
    ],
)
def test_same_path_as_torch(ours, theirs):
    mine, yours = parameters(), parameters()
    a, b = ours.bind(mine), bind_torch(theirs, yours)
    for i in range(6):
        a.step(gradients(i), (0.1,))
        b.step(gradients(i), (0.1,))
    for name in mine:
        assert torch.allclose(mine[name], yours[name], atol=1e-12)


@pytest.mark.parametrize("turned", ["parameter", "gradient"])
def test_adam_does_not_mind_how_memory_lies(turned):
    plain, other = parameters(), parameters()
    name = "couplings.patterns"
    if turned == "parameter":
        other[name] = nn.Parameter(other[name].data.mT.contiguous().mT)
    a, b = adam(0.1).bind(plain), adam(0.1).bind(other)
    for i in range(3):
        given = gradients(i)
        a.step(given, (0.1,))
        if turned == "gradient":
            given[name] = given[name].mT.contiguous().mT
        b.step(given, (0.1,))
    assert torch.allclose(plain[name], other[name], atol=1e-12)


def test_weight_decay_is_decoupled_and_spares_biases():
    for ours, theirs in (
        (sgd(0.1, weight_decay=0.2), torch.optim.SGD),
        (adam(0.1, weight_decay=0.2), torch.optim.AdamW),
    ):
        mine, yours = parameters(), parameters()
        a = ours.bind(mine)
        couplings, biases = yours["couplings.patterns"], yours["biases"]
        options = [
            {"params": [couplings], "weight_decay": 0.2},
            {"params": [biases], "weight_decay": 0.0},
        ]
        b = bind_torch(theirs(options, lr=0.1), yours)
        for i in range(4):
            a.step(gradients(i), (0.1,))
            b.step(gradients(i), (0.1,))
        for name in mine:
            assert torch.allclose(mine[name], yours[name], atol=1e-12)


def test_torch_moves_the_biases_with_the_rest():
    mine, yours = parameters(), parameters()
    a, b = TorchOptimizer("SGD", 0.1).bind(mine), sgd(0.1).bind(yours)
    for i in range(2):
        a.step(gradients(i), (0.1,))
        b.step(gradients(i), (0.1,))
    for name in mine:
        assert torch.allclose(mine[name], yours[name], atol=1e-12), name


def test_torch_spares_the_biases_too():
    mine = parameters()
    start = {name: p.detach().clone() for name, p in mine.items()}
    updater = TorchOptimizer("SGD", 0.1, (("weight_decay", 0.5),)).bind(mine)
    updater.step({name: torch.zeros_like(p) for name, p in mine.items()}, (0.1,))
    assert torch.equal(mine["biases"], start["biases"])
    assert torch.allclose(mine["couplings.patterns"], 0.95 * start["couplings.patterns"])


@pytest.mark.parametrize(
    "make",
    [lambda r: sgd(r, momentum=0.5, weight_decay=0.1), adam, lambda r: adam(r, clock="epoch")],
)
def test_a_rate_for_each_replica(make):
    rates = (0.1, 0.2, 0.05)
    together = parameters()
    whole = make(rates).bind(together, 3)
    for i in range(4):
        whole.step(gradients(i), rates)
    for e, rate in enumerate(rates):
        alone = {name: nn.Parameter(p.data[e : e + 1].clone()) for name, p in parameters().items()}
        one = make(rate).bind(alone, 3)
        for i in range(4):
            one.step({name: g[e : e + 1] for name, g in gradients(i).items()}, (rate,))
        for name, value in alone.items():
            assert torch.allclose(value, together[name][e : e + 1], atol=1e-12)


@pytest.mark.parametrize("make", [sgd, adam])
def test_a_weight_decay_for_each_replica(make):
    decays = (0.0, 0.2, 3.0)
    for rates in ((0.1,), (0.1, 0.2, 0.05)):
        together = parameters()
        whole = make(rates if len(rates) > 1 else 0.1, weight_decay=decays).bind(together)
        for i in range(3):
            whole.step(gradients(i), rates)
        for e, decay in enumerate(decays):
            alone = {name: nn.Parameter(p.data[e : e + 1].clone()) for name, p in parameters().items()}
            rate = rates[e % len(rates)]
            one = make(rate, weight_decay=decay).bind(alone)
            for i in range(3):
                one.step({name: g[e : e + 1] for name, g in gradients(i).items()}, (rate,))
            for name, value in alone.items():
                assert torch.allclose(value, together[name][e : e + 1], atol=1e-12), (name, e)
    with pytest.raises(InputError, match="weight decay is at least 0, not -1"):
        make(0.1, weight_decay=[0.1, -1.0])


@pytest.mark.parametrize(
    "choice",
    [sgd(0.1), sgd(0.1, momentum=0.9), adam(0.1), adam(0.1, clock="epoch")]
    + [TorchOptimizer(name, 0.1) for name in torch_optimizers()],
    ids=str,
)
def test_memory_is_saved_and_restored(choice):
    through, first, second = parameters(), parameters(), parameters()
    a, b = choice.bind(through, 4), choice.bind(first, 4)
    for i in range(6):
        a.step(gradients(i), (0.1,))
    for i in range(3):
        b.step(gradients(i), (0.1,))
    for name, p in first.items():
        second[name].data.copy_(p.data)
    c = choice.bind(second, 4)
    saved = {name: value.clone() for name, value in b.state().items()}
    kept = {name: value.clone() for name, value in saved.items()}
    c.load(saved)
    for i in range(3, 6):
        c.step(gradients(i), (0.1,))
    for name in through:
        assert torch.equal(through[name], second[name]), name
    assert all(torch.equal(saved[name], kept[name]) for name in kept)  # to be loaded again
    assert all(p.grad is None for p in second.values())


def test_schedules():
    paper = Schedule(decay=0.99, after=100, floor=1e-3)
    assert paper.rate(0.015, 0, 0) == 0.015
    assert paper.rate(0.015, 100, 0) == 0.015
    assert paper.rate(0.015, 102, 0) == pytest.approx(0.015 * 0.99**2)
    assert paper.rate(0.015, 10_000, 0) == 1e-3
    assert paper.rate(1e-4, 10_000, 0) == 1e-4  # a floor does not lift a rate that starts below it
    assert Schedule(fall="linear").rate(0.5, 3, 0.25) == 0.375
    assert Schedule(fall="cosine").rate(0.5, 3, 0.25) == pytest.approx(0.25 * (1 + math.cos(math.pi / 4)))
    for fall in ("linear", "cosine"):
        assert Schedule(fall=fall).rate(0.5, 3, 1.0) == pytest.approx(0, abs=1e-15)


def test_what_nobody_asks_of_an_optimiser():
    plain = Schedule(decay=1.0, after=0, floor=0.0, fall="none", ends=())
    assert Schedule() == plain
    assert sgd(0.1) == SGD(0.1) == SGD(0.1, momentum=0.0, weight_decay=0.0, schedule=plain)
    assert adam(0.1) == Adam(0.1)
    assert Adam(0.1) == Adam(0.1, (0.9, 0.999), 1e-8, 0.0, plain, "update")
    assert TorchOptimizer("SGD", 0.1) == TorchOptimizer("SGD", 0.1, (), plain)
    assert Adam(0.1, clock="epoch").bind(parameters()).per_tick == 1  # epochs of one update
    chosen = Schedule(decay=0.9, after=3, floor=1e-3, fall="cosine")
    options = {"decay": 0.9, "after": 3, "floor": 1e-3, "fall": "cosine"}
    assert sgd(0.1, **options).schedule == adam(0.1, **options).schedule == chosen


def test_the_ends_of_what_is_allowed_are_allowed():
    assert sgd(1e6, momentum=0, weight_decay=0, decay=1, after=0, floor=0).rate == 1e6
    assert adam(0.1, betas=(0.0, 0.0), weight_decay=0).betas == (0.0, 0.0)
    assert Schedule(fall="linear", ends=(1, 2)).ends == (1, 2)


def test_every_fall_goes_from_the_full_rate_to_nothing():
    fall = Schedule(fall="linear", ends=(2, 3))  # of 5 epochs with 4 updates each
    found = [fall.fraction(update, 4, 5) for update in range(20)]
    wanted = [*(i / 8 for i in range(8)), *(i / 4 for i in range(4)), *(i / 8 for i in range(8))]
    assert found == wanted
    assert Schedule(fall="linear").fraction(20, 4, 5) == 0.0  # after the end


def test_optimisers_that_mix_elements_are_refused():
    assert "LBFGS" not in torch_optimizers()
    assert "RMSprop" in torch_optimizers()
    with pytest.raises(InputError, match="mixes the elements"):
        bind_torch(torch.optim.LBFGS, parameters())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sgd(0.0), "positive and at most"),
        (lambda: sgd(math.nan), "positive"),
        (lambda: sgd(1.1e6), "at most 10⁶"),
        (lambda: sgd(()), r"not \(\)"),
        (lambda: sgd((0.1, 0.0)), "not 0.0"),
        (lambda: adam([0.1, -1.0]), "not -1"),
        (lambda: sgd(0.1, momentum=1.0), r"\[0, 1\)"),
        (lambda: sgd(0.1, momentum=-0.1), r"\[0, 1\)"),
        (lambda: sgd(0.1, weight_decay=-1), "at least 0"),
        (lambda: adam(0.1, weight_decay=-1), "at least 0"),
        (lambda: sgd(0.1, decay=1.5), r"\(0, 1\]"),
        (lambda: sgd(0.1, decay=0.0), r"\(0, 1\]"),
        (lambda: sgd(0.1, after=-1), "at least 0"),
        (lambda: sgd(0.1, floor=-1e-3), "floor of the rate"),
        (lambda: sgd(0.1, floor=math.nan), "floor of the rate"),
        (lambda: Schedule(fall="linear", ends=(0,)), "rising epochs from 1 on"),
        (lambda: Schedule(fall="linear", ends=(2, 2)), "rising epochs"),
        (lambda: Schedule(fall="linear", ends=(1.5,)), "rising epochs"),
        (lambda: Schedule(fall="linear", ends=[1]), "rising epochs"),
        (lambda: Schedule(ends=(1,)), "of a rate that falls"),
        (
            lambda: TorchOptimizer("Adagrad", 0.1, (("momentum", 0.5),)).bind(parameters()),
            "refuses",
        ),
        (
            lambda: bind_torch(torch.optim.SGD([nn.Parameter(torch.ones(1))], 0.1), parameters()),
            "other",
        ),
        (lambda: sgd(0.1, fall="sudden"), "known are cosine, linear, none"),
        (lambda: adam(0.1, betas=(1.0, 0.9)), "betas"),
        (lambda: adam(0.1, betas=(0.9, -0.1)), "betas"),
        (lambda: adam(0.1, betas=(0.9, 0.9, 0.9)), "betas"),
        (lambda: adam(0.1, betas=0.9), "betas"),
        (lambda: adam(0.1, epsilon=0.0), "ε > 0"),
        (lambda: TorchOptimizer("RMSprop", -0.1), "positive"),
        (lambda: adam(0.1, clock="week"), "known are epoch, update"),
        (lambda: TorchOptimizer("RMSProp", 0.1), "did you mean 'RMSprop'"),
        (lambda: TorchOptimizer("RMSprop", (0.1, 0.2)), "one rate for all"),
    ],
)
def test_bad_optimisers(make, words):
    with pytest.raises(InputError, match=words):
        make()


@pytest.mark.parametrize("clock", ["update", "epoch"])
@pytest.mark.parametrize("per_epoch", [1, 3, 7])
def test_what_adams_correction_counts(clock, per_epoch):
    rate, epsilon, (b1, b2) = 0.1, 1e-8, (0.9, 0.999)
    mine = parameters()
    wanted = mine["couplings.patterns"].detach().clone()
    updater = adam(rate, clock=clock).bind(mine, per_epoch)
    mean, square = torch.zeros_like(wanted), torch.zeros_like(wanted)
    for i in range(20):
        updater.step(gradients(i), (rate,))
        g = gradients(i)["couplings.patterns"]
        mean, square = b1 * mean + (1 - b1) * g, b2 * square + (1 - b2) * g**2
        t = i + 1 if clock == "update" else i // per_epoch + 1  # during epoch number t
        wanted -= rate * (mean / (1 - b1**t)) / ((square / (1 - b2**t)).sqrt() + epsilon)
        assert torch.allclose(mine["couplings.patterns"].detach(), wanted, atol=1e-12)
