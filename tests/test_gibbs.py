"""Samplers against enumeration, and the proof that the test bites."""

import pytest
import torch

from conftest import machines
from rapidbm.errors import InputError
from rapidbm.machines.constructors import rbm
from rapidbm.machines.units.spin import SPIN, Spin
from rapidbm.random import stream
from rapidbm.sampling import gibbs
from rapidbm.sampling.gibbs import resample, sweep, sweeps
from rapidbm.testing import SMALLEST_P, chi_squared, exact_distribution, sampler_p_values

EVERY = machines(1) + machines(2, biases=False)


@pytest.mark.parametrize("beta", [0.0, 0.6, 1.0, 1.7])
@pytest.mark.parametrize("machine", EVERY)
def test_sweep_samples_the_boltzmann_distribution(machine, beta):
    assert min(sampler_p_values(sweep, machine, beta)) > SMALLEST_P


@pytest.mark.parametrize("machine", EVERY)
def test_that_test_fails_when_2_beta_becomes_beta(machine, monkeypatch):
    monkeypatch.setattr(Spin, "up", lambda _, field, beta=1.0, **__: torch.sigmoid(field * beta))
    assert max(sampler_p_values(sweep, machine)) < SMALLEST_P


@pytest.mark.parametrize("machine", [m for m in machines(1) if m.id == "bm-patterns-1"])
@pytest.mark.parametrize("power", [0.25, 1.0])
def test_that_test_fails_when_the_gaussian_field_is_scaled_wrongly(machine, power, monkeypatch):
    couplings = machine.couplings
    right = couplings.scale

    def wrong(machine, state, rng, beta):
        couplings.scale = right  # the energy's own scale stays
        outside = state.clone()
        for layer in machine.layers.order:
            where = machine.layers.slices[layer]
            m = couplings.overlap(outside, layer)
            root = right**power  # √(1/√K) is right
            z = root * m + torch.randn(m.shape, generator=rng, dtype=m.dtype)
            field = machine.field(outside, layer, own=False) + (root * z) @ couplings.of_layer(layer)
            outside[..., where] = SPIN.draw(field, rng)
        return outside

    assert max(sampler_p_values(wrong, machine)) < SMALLEST_P


@pytest.mark.parametrize("machine", machines(1))
def test_each_chain_may_have_its_own_temperature(machine):
    betas = torch.tensor([0.4, 1.5], dtype=torch.float64)
    count = 20_000
    states = []
    rng = stream(0)
    for beta in betas:
        every, p = exact_distribution(machine, float(beta))
        states.append(every[torch.multinomial(p[0], count, replacement=True, generator=rng)])
    start = torch.cat(states)[None]
    out = sweeps(machine, start, rng, 2, beta=betas.repeat_interleave(count))
    powers = 2 ** torch.arange(out.shape[2] - 1, -1, -1)
    numbers = ((out[0] > 0).long() * powers).sum(1)
    for i, beta in enumerate(betas):
        every, p = exact_distribution(machine, float(beta))
        counts = numbers[i * count : (i + 1) * count].bincount(minlength=len(every))
        assert chi_squared(counts, p[0]) > SMALLEST_P


@pytest.mark.parametrize("machine", machines(2))
def test_clamped_units_stay_and_the_rest_is_conditional(machine):
    every, p = exact_distribution(machine)
    clamp = torch.zeros(machine.layers.columns, dtype=torch.bool)
    clamp[[0, machine.visible]] = True  # a visible and a hidden unit
    fixed = torch.tensor([1.0, -1.0], dtype=torch.float64)
    match = (every[:, clamp] == fixed).all(1)
    rng = stream(0)
    conditional = torch.where(match, p, 0.0)
    conditional /= conditional.sum(1, keepdim=True)
    start = every[torch.multinomial(conditional, 30_000, replacement=True, generator=rng)]
    out = sweeps(machine, start, rng, 3, clamp=clamp)
    assert bool((out[..., clamp] == fixed).all())
    powers = 2 ** torch.arange(out.shape[2] - 1, -1, -1)
    numbers = ((out > 0).long() * powers).sum(2)
    for e in range(2):
        counts = numbers[e].bincount(minlength=len(every))
        assert chi_squared(counts[match], conditional[e][match]) > SMALLEST_P


@pytest.mark.parametrize("machine", machines(3))
def test_the_same_seed_gives_the_same_bits_and_the_input_stays(machine):
    start = machine.random(10, stream(1))
    kept = start.clone()
    one, two = (sweep(machine, start, stream(5)) for _ in range(2))
    assert torch.equal(one, two)
    assert torch.equal(start, kept)


@pytest.mark.parametrize("machine", machines(2))
def test_a_layer_is_drawn_beside_the_state_that_was_given(machine):
    start = machine.random(10, stream(1))
    kept = start.clone()
    for layer in range(len(machine.layers.sizes)):
        new = resample(machine, start, layer, stream(5))
        assert new.shape == start[..., machine.layers.slices[layer]].shape
        assert torch.equal(start, kept)


@pytest.mark.parametrize("machine", machines(1))
def test_unknown_hidden_units_do_not_matter_to_the_first_draw(machine):
    """0 stands for unknown: after a sweep every unit is a spin."""
    start = machine.with_visible(torch.ones(6, machine.visible))
    out = sweep(machine, start, stream(0))
    assert bool((out.abs() == 1).all())


def test_mask_per_image():
    machine = rbm(4, 3, seed=0)
    start = machine.random(2, stream(0))
    mask = torch.zeros(2, 7, dtype=torch.bool)
    mask[0, :4] = True
    outs = torch.stack([sweep(machine, start, stream(i), clamp=mask) for i in range(40)])
    assert bool((outs[:, 0, 0, :4] == start[0, 0, :4]).all())
    assert not bool((outs[:, 0, 1, :4] == start[0, 1, :4]).all())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"beta": -0.1}, "at least 0"),
        ({"beta": torch.tensor([1.0, -2.0])}, "at least 0, not -2"),
        ({"clamp": torch.ones(6, dtype=torch.bool)}, "all 7 units"),
        ({"beta": float("nan")}, "finite"),
        ({"beta": float("inf")}, "finite"),
        ({"beta": torch.ones(3)}, r"one per chain \(2,\)"),
        ({"clamp": torch.ones(7)}, "booleans"),
        ({"clamp": torch.ones(3, 7, dtype=torch.bool)}, r"not torch.bool of \(3, 7\)"),
    ],
)
def test_bad_sweeps(options, words):
    machine = rbm(4, 3, seed=0)
    with pytest.raises(InputError, match=words):
        sweep(machine, machine.random(2, stream(0)), stream(0), **options)


def test_a_temperature_of_another_type():
    machine = rbm(4, 3, 2, seed=0)
    beta = torch.ones(2, dtype=torch.float64)
    assert sweep(machine, machine.random(2, stream(0)), stream(0), beta).dtype == torch.float32


def test_gradients_are_not_tracked():
    machine = rbm(4, 3, 2, seed=0)
    assert not gibbs.resample(machine, machine.random(2, stream(0)), 1, stream(0)).requires_grad
