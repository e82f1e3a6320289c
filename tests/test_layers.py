from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rapidbm.errors import InputError
from rapidbm.layers import Layers

RBM = Layers((4, 3), ((0, 1),))
DBM = Layers((4, 3, 5, 2), ((0, 1), (1, 2), (2, 3)))
BM = Layers((4, 3), ((0, 0), (0, 1), (1, 1)))


def test_shapes():
    assert DBM.units == 14
    assert DBM.slices == (slice(0, 4), slice(4, 7), slice(7, 12), slice(12, 14))
    assert DBM.neighbours(2) == (1, 3)
    assert DBM.order == (3, 1, 2, 0)
    assert RBM.order == (1, 0)
    assert [x.restricted for x in (RBM, DBM, BM)] == [True, False, False]
    assert [x.inferred for x in (RBM, DBM, BM)] == [(1,), (1, 3), ()]


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
