"""What a person calls takes `seed=` or `rng=`: the same seed, the same numbers; never both."""

import numpy as np
import pytest
import torch

import rapidbm as rb
from rapidbm.accel import elementwise

MACHINE = rb.rbm(6, 5, 2, scale=0.5, seed=0)
SPINS = MACHINE.random(20, rb.stream(1))[0]
IMAGES = SPINS[:, :6]
SERIES = rb.record(MACHINE, 8, 4, seed=0)[0]
DOORS = {
    "minima": lambda **r: rb.minima(MACHINE, 5, **r).valleys[0].energies,
    "growth": lambda **r: rb.growth(MACHINE, 5, tries=2, **r).total,
    "glassiness": lambda **r: rb.glassiness(MACHINE, SERIES, starts=5, tries=2, **r).growth.total,
    "ultrametricity": lambda **r: rb.ultrametricity(SPINS[None], triples=5, **r).found.distances,
    "adversarial_accuracy": lambda **r: rb.adversarial_accuracy(IMAGES[:9], IMAGES, **r).truth.value,
    "relaxation": lambda **r: (
        rb.relaxation(MACHINE, IMAGES, sweeps=(0, 1), chains=9, **r).random.accuracy.value
    ),
    "gibbs_accessibility": lambda **r: rb.gibbs_accessibility(MACHINE, chains=2, steps=1, **r),
    "method_accessibility": lambda **r: rb.method_accessibility(
        MACHINE, IMAGES[:1], negative=rb.ContrastiveDivergence(), repeats=1, **r
    ),
    "log_z": lambda **r: rb.log_z(MACHINE, method="ais", chains=5, most=50, **r).value,
    "log_likelihood": lambda **r: rb.log_likelihood(MACHINE, IMAGES, method="ais", **r).value,
    "ground_state": lambda **r: rb.ground_state(MACHINE, method="annealing", starts=1, **r).spins,
    "sample": lambda **r: rb.sample(MACHINE, 9, steps=2, **r),
    "record": lambda **r: rb.record(MACHINE, 9, 2, **r)[0],
}


def test_a_stream_is_its_seed_and_its_words():
    def draw(*words):
        return torch.rand(3, generator=rb.stream(*words))

    assert torch.equal(draw(7, "chains", 3), draw(7, "chains", 3))
    others = [draw(7), draw(8, "chains", 3), draw(7, "chains", 4), draw(7, "chain", 3)]
    assert not any(torch.equal(draw(7, "chains", 3), other) for other in others)


@pytest.mark.parametrize("door", DOORS)
def test_a_seed_or_a_generator(door):
    call = DOORS[door]
    assert torch.equal(call(seed=3), call(seed=3))
    assert torch.equal(call(rng=rb.stream(3)), call(rng=rb.stream(3)))
    assert call().shape[0] == call(seed=3).shape[0] or door == "minima"
    with pytest.raises(rb.InputError, match="seed= or rng=, not both"):
        call(seed=3, rng=rb.stream(3))
    with pytest.raises(rb.InputError, match="a seed must be a whole number"):
        call(seed=0.5)
    moving = rb.stream(3)
    call(rng=moving)
    assert not torch.equal(moving.get_state(), rb.stream(3).get_state())  # it has moved on


def test_uniform_numbers_are_below_one_whatever_the_words_are(monkeypatch):
    """The largest words of 32 bits are 2³² as float32."""

    def largest(into, rng):
        into.view(-1).numpy()[...] = np.uint32(2**32 - 1)

    monkeypatch.setattr(elementwise, "_words", largest)
    like = torch.empty(elementwise.MANY)
    assert float(elementwise.uniform(like, torch.Generator()).max()) == 1 - 2.0**-24
