from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import rapidbm as rb
from rapidbm.errors import InputError
from rapidbm.machines.layers import Layers

RBM = Layers((4, 3), ((0, 1),))
DBM = Layers((4, 3, 5, 2), ((0, 1), (1, 2), (2, 3)))
BM = Layers((4, 3), ((0, 0), (0, 1), (1, 1)))


def test_shapes():
    assert DBM.units == 14
    assert DBM.slices == (slice(0, 4), slice(4, 7), slice(7, 12), slice(12, 14))
    assert DBM.neighbours(2) == (1, 3)
    assert DBM.order == (3, 1, 2, 0)
    assert RBM.order == (1, 0)
    assert [x.hidden_independent for x in (RBM, DBM, BM)] == [True, False, False]
    assert [x.inferred for x in (RBM, DBM, BM)] == [(1,), (1, 3), ()]


def test_sides_of_layers_that_are_coupled_to_the_other_side_alone():
    assert [x.sides for x in (RBM, DBM, BM)] == [((0,), (1,)), ((0, 2), (1, 3)), None]
    assert Layers((4, 3), ()).sides is None
    assert Layers((4, 3, 2), ((0, 1), (0, 2), (1, 2))).sides is None
    units = torch.arange(14)[None]
    assert DBM.bipartite_order(units).tolist() == [[0, 1, 2, 3, 7, 8, 9, 10, 11, 4, 5, 6, 12, 13]]
    assert torch.equal(DBM.layer_order(DBM.bipartite_order(units)), units)
    assert RBM.bipartite_order(units) is units  # nothing to move
    assert RBM.layer_order(units) is units


def test_cover_enumerates_the_fewest_units():
    assert RBM.cover() == (1,)
    assert RBM.cover((0,)) == ()
    assert DBM.cover() == (1, 3)
    assert DBM.cover((0,)) == (1, 3)
    assert sum(DBM.sizes[i] for i in DBM.cover((0,))) == 5
    assert BM.cover() == (0, 1)
    assert BM.cover((0,)) == (1,)


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 4))
    sizes = tuple(draw(st.integers(1, 4)) for _ in range(count))
    pairs = [(i, i) for i in range(count)] + list(combinations(range(count), 2))
    return Layers(sizes, tuple(draw(st.lists(st.sampled_from(pairs), unique=True))))


@given(graphs())
def test_what_is_not_covered_is_independent(layers):
    for given_layers in ((), (0,)):
        fixed = given_layers + layers.cover(given_layers)
        free = tuple(i for i in range(len(layers.sizes)) if i not in fixed)
        assert layers.independent(free)
    assert layers.independent(layers.inferred)
    assert sorted(layers.order) == list(range(len(layers.sizes)))
    assert layers.order[-1] == 0


@pytest.mark.parametrize(
    ("sizes", "edges", "words"),
    [
        ((), (), "at least one layer"),
        ((4, 0), ((0, 1),), "at least 1, not 0"),
        ((4, 2.5), ((0, 1),), "whole number"),
        ((4, 3), ((0, 2),), "layers 0 to 1"),
        ((4, 3), ((0, 1), (1, 0)), "once"),
    ],
)
def test_bad_layers(sizes, edges, words):
    with pytest.raises(InputError, match=words):
        Layers(sizes, edges)


def brute_force(layers, given):
    """Every set of layers that serves, and of those the first with the fewest units."""
    rest = [i for i in range(len(layers.sizes)) if i not in given]
    choices = [c for r in range(len(rest) + 1) for c in combinations(rest, r)]
    serving = (c for c in choices if layers.independent(tuple(i for i in rest if i not in c)))
    return min(serving, key=lambda c: (sum(layers.sizes[i] for i in c), c))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_the_cover_is_the_one_of_brute_force(data):
    count = data.draw(st.integers(1, 8))
    sizes = tuple(data.draw(st.integers(1, 4)) for _ in range(count))
    pairs = [(a, b) for a in range(count) for b in range(a, count)]
    edges = tuple(data.draw(st.sets(st.sampled_from(pairs))))
    fixed = tuple(sorted(data.draw(st.sets(st.integers(0, count - 1)))))
    layers = Layers(sizes, edges)
    assert layers.cover(fixed) == brute_force(layers, fixed)


def test_a_deep_machine_is_built_trained_and_sampled():
    """Trying every set of layers, 2^30 of them, would not end."""
    count = 30
    machine = rb.dbm(4, (3,) * (count - 1), 2, seed=0)
    layers = machine.layers
    assert layers.independent(tuple(set(range(count)) - set(layers.cover())))
    assert sum(layers.sizes[i] for i in layers.cover()) == 3 * (count // 2)
    spins = rb.to_spins([[0, 1, 1, 0], [1, 1, 0, 0]])
    for _ in rb.train(machine, spins, rb.Persistent(4), rb.sgd(0.01), epochs=1, batch_size=1, seed=0):
        pass
    assert rb.sample(machine, 2, steps=2, seed=0).shape == (1, 2, layers.columns)
    with pytest.raises(rb.InputError, match="enumerates at most"):
        rb.log_z(machine, method="exact")
