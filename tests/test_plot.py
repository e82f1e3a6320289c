"""Public plotting functions: figures of what they are given, and no state of pyplot."""

import inspect
import sys

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import rapidbm as rb
from rapidbm_bench import benchmark
from rapidbm_bench.speed import report
from rapidbm_bench.speed import run as bench

MACHINE = rb.rbm(9, 5, patterns=2, replicas=2, seed=0)
DENSE = rb.rbm(9, 5, biases=True, seed=0)
SPINS = rb.sample(MACHINE, 12, steps=5, seed=0)
SEEN = SPINS[..., :9]
BITS = np.random.default_rng(0).integers(0, 2, (40, 9))
MINIMA = rb.minima(MACHINE, 20, seed=0)
RECORDS = [
    {"epoch": i, "update": i, "hamming_train": [0.5 - 0.1 * i], "hamming_test": [0.5]} for i in range(3)
]
CURVE = [
    {"update": i, "log_likelihood_data_from": [-3.0 + i], "log_likelihood_data_to": [-2.5 + i]}
    for i in range(3)
]

CALLS = {
    "images": lambda **k: rb.plot.images(BITS, **k),
    "patterns": lambda **k: rb.plot.patterns(MACHINE, **k),
    "curves": lambda **k: rb.plot.curves(RECORDS, **k),
    "likelihood": lambda **k: rb.plot.likelihood(CURVE, **k),
    "thermodynamics": lambda **k: rb.plot.thermodynamics(rb.thermodynamics(MACHINE, (0.5, 1.0)), **k),
    "overlaps": lambda **k: rb.plot.overlaps(SPINS, **k),
    "triples": lambda **k: rb.plot.triples(rb.ultrametricity(SPINS, seed=0), **k),
    "energies": lambda **k: rb.plot.energies(MACHINE, SPINS, MINIMA, **k),
    "minima": lambda **k: rb.plot.minima(MINIMA, **k),
    "growth": lambda **k: rb.plot.growth(
        rb.growth(MACHINE, 10, seed=0, fractions=(0.5, 1.0), tries=2), **k
    ),
    "spectrum": lambda **k: rb.plot.spectrum(MACHINE, **k),
    "phases": lambda **k: rb.plot.phases(MACHINE, **k),
    "moments": lambda **k: rb.plot.moments(SEEN, BITS, **k),
    "projections": lambda **k: rb.plot.projections(SEEN, BITS, **k),
    "nearest": lambda **k: rb.plot.nearest(SEEN, BITS, BITS[::2], **k),
    "relaxation": lambda **k: rb.plot.relaxation(
        rb.relaxation(DENSE, BITS, seed=0, sweeps=(0, 1), chains=6), **k
    ),
}


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    """Few points on the lines between the phases."""
    load = torch.linspace(0.01, 1.0, 5, dtype=torch.float64)
    monkeypatch.setattr(rb.plot, "boundaries", lambda *where: rb.boundaries(*where, load=load))


def test_every_function_is_here():
    assert set(CALLS) == set(rb.plot.__all__)


@pytest.mark.parametrize("name", CALLS)
def test_a_figure_and_no_state(name):
    figure = CALLS[name]()
    assert isinstance(figure, Figure)
    assert any(a.lines or a.images or a.patches or a.collections for a in figure.axes)
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()
    parameters = inspect.signature(getattr(rb.plot, name)).parameters
    if "axes" in parameters:
        whole = Figure()
        left, right = whole.subplots(1, 2)
        assert CALLS[name](axes=right) is whole
        assert not [*left.lines, *left.images, *left.patches]
    if "replica" in parameters and name != "relaxation":
        CALLS[name](replica=1)


def test_what_is_drawn_is_what_was_given():
    tiles = rb.plot.images(BITS[:4]).axes[0].images[0].get_array()
    assert np.nanmax(tiles) == 1
    table = rb.plot.images(BITS, names=list("abcdefghi")).axes[0]
    assert np.array_equal(table.images[0].get_array(), 2 * BITS - 1)
    values = rb.plot.spectrum(MACHINE).axes[0].lines
    drawn = np.sort(np.concatenate([line.get_ydata() for line in values[:2]]))
    assert np.allclose(drawn, np.sort(rb.spectrum(MACHINE).values[0].numpy()))
    means = rb.plot.moments(SEEN, BITS, order=1).axes[0].lines[1]
    assert np.allclose(means.get_xdata(), (2 * BITS - 1).mean(0), atol=1e-6)
    assert np.allclose(means.get_ydata(), SEEN[0].double().mean(0), atol=1e-6)
    named = rb.plot.phases([MACHINE, DENSE], names=("one", "two")).axes[0]
    assert {"one", "two"} <= {text.get_text() for text in named.texts}


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: rb.plot.images(SPINS), "one replica"),
        (lambda: rb.plot.images(BITS, (2, 2)), r"no shape \(2, 2\)"),
        (lambda: rb.plot.patterns(DENSE), "no patterns"),
        (lambda: rb.plot.curves([]), "none yet"),
        (lambda: rb.plot.phases([]), "got none"),
        (lambda: rb.plot.phases([MACHINE], names=("a", "b")), "not 2"),
        (lambda: rb.plot.moments(SEEN, BITS, order=4), "order 1, 2 or 3, not 4"),
        (lambda: rb.plot.relaxation(None, statistic="third"), "accuracy or second, not 'third'"),
        (lambda: rb.plot.moments(SEEN, BITS, rng=7), r"torch\.Generator"),
    ],
)
def test_bad_input(call, told):
    with pytest.raises(rb.InputError, match=told):
        call()


def test_what_is_all_the_same_is_drawn_without_a_warning():
    rb.plot.spectrum(rb.Machine.from_weights(np.zeros((3, 2)), levels=(-1, 1)))
    rb.plot.moments(np.zeros((5, 3)), np.zeros((5, 3)))


def test_a_generator_serves_as_well_as_a_seed():
    rb.plot.moments(SEEN, BITS, rng=torch.Generator().manual_seed(0))


def test_benchmarks_in_python(monkeypatch):
    known = {"peers": 2}
    monkeypatch.setattr(bench, "measured", lambda *a, **k: known)
    monkeypatch.setattr(report, "lines", lambda found: [f"{k} {v}" for k, v in found.items()])
    found = benchmark(quick=True, device="cpu")
    assert found.numbers is known
    assert repr(found) == "peers 2"
    with pytest.raises(rb.InputError, match="leave --precision out"):
        benchmark(device="cpu", precision="bf16")


def test_data_sets_in_python():
    found = rb.datasets()
    assert {"bars4", "digits", "mnist"} <= {row[0] for row in found.rows}
    assert "scikit-learn" in repr(found)
    assert "<table>" in found._repr_html_()
