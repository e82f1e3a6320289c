import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from conftest import states
from rapidbm.accel.elementwise import MANY
from rapidbm.errors import InputError
from rapidbm.machines.ensembles import WeightedSpins
from rapidbm.machines.spins import to_bits, to_spins
from rapidbm.machines.units.spin import SPIN
from rapidbm.random import seed_from, stream

SHAPES = hnp.array_shapes(min_dims=1, max_dims=3, max_side=6)


@given(hnp.arrays(bool, SHAPES))
def test_every_two_level_form_gives_the_same_spins(bits):
    wanted = np.where(bits, 1, -1)
    forms = [bits, bits.astype(np.int64), bits.astype(np.float32), torch.from_numpy(bits.copy())]
    forms += [wanted, wanted.astype(np.float64)] if not bits.all() else []
    for form in forms:
        spins = to_spins(form)
        assert spins.dtype == torch.int8
        assert np.array_equal(spins.numpy(), wanted)
    assert np.array_equal(to_bits(to_spins(bits)).numpy(), bits)


@given(hnp.arrays(np.float64, SHAPES, elements=st.floats(-3, 3)))
def test_other_values_are_refused(values):
    allowed = np.isin(values, (0, 1)).all() or np.isin(values, (-1, 1)).all()
    if allowed:
        to_spins(values)
    else:
        with pytest.raises(InputError, match="two levels"):
            to_spins(values)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([[0.0, math.nan]], "1 of 2 values are NaN"),
        ([[0.0, math.inf]], "finite"),
        ([[0, 255]], "two levels"),
        ([["a"]], "numbers"),
        (np.empty((0, 3)), "at least one value"),
    ],
)
def test_the_error_names_the_trouble(values, words):
    with pytest.raises(InputError, match=words):
        to_spins(values)


def test_field_and_probability_agree():
    field = torch.linspace(-4, 4, 9, dtype=torch.float64)
    for beta in (0.3, 1.0, 2.0):
        assert torch.allclose(SPIN.mean(field, beta), torch.tanh(beta * field), atol=1e-15)
        up, down = torch.exp(beta * field), torch.exp(-beta * field)
        assert torch.allclose(SPIN.up(field, beta), up / (up + down))


def test_mean_spin_keeps_its_gradient():
    field = torch.linspace(-2, 2, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(SPIN.mean, (field,))


def test_draw_has_the_right_frequency():
    field = torch.full((200_000,), 0.4, dtype=torch.float64)
    mean = float(SPIN.draw(field, stream(0)).mean())
    error = math.sqrt((1 - math.tanh(0.4) ** 2) / 200_000)
    assert abs(mean - math.tanh(0.4)) < 5 * error  # 6 of 10⁷ are farther off


def test_log_2cosh_does_not_overflow():
    x = torch.tensor([-1e4, -1.0, 0.0, 1.0, 1e4], dtype=torch.float64)
    assert torch.allclose(SPIN.log_sum(x), torch.logaddexp(x, -x))


def test_states_are_all_different_and_negatives_mirror():
    every = states(5, 0, 32)
    assert len({tuple(row.tolist()) for row in every}) == 32
    assert torch.equal(every.flip(0), -every)
    assert torch.equal(states(5, 7, 19), every[7:19])


def test_sign_is_never_zero():
    assert SPIN.nearest(torch.tensor([-2.0, 0.0, 3.0])).tolist() == [-1, 1, 1]


def test_streams_are_independent_of_what_was_drawn_before():
    one = torch.rand(5, generator=stream(3, "order", 7))
    assert torch.equal(one, torch.rand(5, generator=stream(3, "order", 7)))
    assert not torch.equal(one, torch.rand(5, generator=stream(3, "order", 8)))
    assert not torch.equal(one, torch.rand(5, generator=stream(4, "order", 7)))


def test_seeds():
    assert seed_from(5, None) == 5
    assert seed_from(None, stream(1)) == seed_from(None, stream(1))
    assert seed_from(None, None) != seed_from(None, None)
    with pytest.raises(InputError, match="not both"):
        seed_from(5, stream(1))
    with pytest.raises(InputError, match="at least 0"):
        seed_from(-1, None)


@pytest.mark.parametrize("count", [100, 3 * MANY + 1], ids=["few", "many"])
def test_draws_have_their_probabilities(count):
    """Below and above the number from which on another generator serves."""
    fields = torch.tensor([-3.0, -0.5, 0.0, 0.2, 1.0])
    rng = stream(5)
    rounds = 400 if count < MANY else 4
    drawn = torch.stack([SPIN.draw(fields[:, None].expand(-1, count), rng) for _ in range(rounds)])
    assert set(drawn.unique().tolist()) == {-1.0, 1.0}
    mean = drawn.double().mean((0, 2))
    exact = torch.tanh(fields.double())
    error = ((1 - exact**2) / (rounds * count)).sqrt()
    assert ((mean - exact).abs() < 6 * error).all()  # 2 of 10⁹ are farther off
    # Neither neighbours, nor two units, nor two calls know of each other.
    rest = (drawn.double() - exact[:, None]) / (1 - exact**2).sqrt()[:, None]
    for one, other in (
        (rest[..., 1:], rest[..., :-1]),
        (rest[:, 1:], rest[:, :-1]),
        (rest[1:], rest[:-1]),
    ):
        assert abs(float((one * other).mean())) < 6 / one.numel() ** 0.5


def test_many_draws_are_the_same_for_the_same_seed():
    field = torch.linspace(-2, 2, 2 * MANY)
    first, again = (SPIN.draw(field, stream(3)) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, SPIN.draw(field, stream(4)))


def test_certain_spins_are_never_missed():
    """Among 2^23 draws the smallest and the largest random number come up."""
    field = torch.tensor([-1e4, 1e4])[:, None].expand(-1, 2**22)
    drawn = SPIN.draw(field, stream(0))
    assert drawn.mean(1).tolist() == [-1.0, 1.0]


def test_the_field_is_left_as_it_was():
    for count in (10, 2 * MANY):
        field = torch.linspace(-1, 1, count)
        before = field.clone()
        SPIN.draw(field, stream(0))
        assert torch.equal(field, before)


def test_an_average_over_nothing_is_refused():
    with pytest.raises(InputError, match="configurations to average over"):
        WeightedSpins.equal(torch.ones(2, 0, 3))
    assert WeightedSpins.equal(torch.ones(2, 4, 3)).weights.tolist() == [[0.25] * 4] * 2
