"""What results look like at a prompt and in a notebook."""

import dataclasses
import html.parser
import inspect
import typing

import numpy as np
import pytest
import torch

import rapidbm as rb
from rapidbm import display
from rapidbm.data.splits import Dataset

MACHINE = rb.rbm(6, 4, patterns=2, replicas=2, biases=True, seed=0)
BITS = np.random.default_rng(0).integers(0, 2, (40, 6))
SPINS = rb.sample(MACHINE, 8, steps=3, seed=0)
SERIES = rb.record(MACHINE, 4, 6, seed=0)[0]


class Cells(html.parser.HTMLParser):
    """Tags and texts of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.texts.append(data)


RESULTS = {
    "Machine": lambda: MACHINE,
    "Dataset": lambda: rb.from_arrays(BITS),
    "Split": lambda: rb.from_arrays(BITS).train,
    "Estimate": lambda: rb.edwards_anderson(SERIES),
    "Bounds": lambda: rb.log_z(MACHINE, method="ais", seed=0),
    "exact": lambda: rb.log_z(MACHINE),
    "GroundState": lambda: rb.ground_state(MACHINE),
    "Ultrametricity": lambda: rb.ultrametricity(SPINS, seed=0),
    "OverlapDistribution": lambda: rb.overlap_distribution(SPINS),
    "Moments": lambda: rb.exact_moments(MACHINE),
    "Mixing": lambda: rb.mixing(MACHINE, SERIES),
    "Freezing": lambda: rb.freezing(SERIES),
    "Minima": lambda: rb.minima(MACHINE, 20, seed=0),
    "Growth": lambda: rb.growth(MACHINE, 10, seed=0, fractions=(0.5, 1.0), tries=2),
    "Spectrum": lambda: rb.spectrum(MACHINE),
    "PatternOverlaps": lambda: rb.pattern_overlaps(MACHINE),
    "PhasePoint": lambda: rb.phase_point(MACHINE),
    "Glassiness": lambda: rb.glassiness(MACHINE, SERIES, seed=0, starts=5, fractions=(0.5, 1.0), tries=2),
    "AdversarialAccuracy": lambda: rb.adversarial_accuracy(SPINS[..., :6], BITS, seed=0),
    "Walkers": lambda: rb.record(MACHINE, 2, 1, sampler=rb.ParallelTempering(rungs=2), seed=0)[1],
    "WeightedSpins": lambda: rb.WeightedSpins.equal(SPINS),
    "Progress": lambda: next(
        rb.train(
            rb.rbm(6, 4, seed=0),
            BITS,
            rb.ContrastiveDivergence(),
            rb.sgd(0.1),
            epochs=1,
            batch_size=10,
            seed=0,
        )
    ),
    "Relaxation": lambda: rb.relaxation(MACHINE, BITS, seed=0, sweeps=(0, 1), chains=4),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_a_few_lines_and_a_table(name):
    found = RESULTS[name]()
    text = repr(found)
    assert text.startswith(type(found).__name__)
    assert len(text.splitlines()) <= 13
    assert "tensor(" not in text
    assert " at 0x" not in text
    cells = Cells(found._repr_html_())
    assert {"table", "tr", "td", "th"} <= set(cells.tags)
    assert type(found).__name__ in cells.texts[0]


def test_whatever_a_public_function_answers_with_is_readable():
    functions = [x for x in (getattr(rb, name) for name in dir(rb)) if inspect.isfunction(x)]
    answers = {typing.get_type_hints(function)["return"] for function in functions}
    results = {kind for kind in answers if dataclasses.is_dataclass(kind)}
    choices = {
        kind for kind in results if kind.__module__.startswith(("rapidbm.training", "rapidbm.reg"))
    }
    assert len(results - choices) > 10
    assert not [kind for kind in results - choices if not issubclass(kind, display.Displayable)]
    assert all(
        issubclass(kind, display.Displayable) for kind in (rb.Machine, rb.Run, rb.Split, rb.Diagnosis)
    )


def test_values_stand_in_the_lines():
    one = rb.Estimate(torch.tensor([12.3456]), torch.tensor([0.0123]))
    assert repr(one) == "Estimate: 12.346 ± 0.012"
    many = rb.Estimate(torch.arange(6.0), torch.full((6,), 0.25))
    assert repr(many) == "Estimate: 6 numbers, 0 to 5, errors up to 0.25"
    z = rb.log_z(MACHINE)
    assert f"{float(z.value[0]):.7g}" in repr(z)
    assert "exact" in repr(z)
    annealed = rb.log_z(MACHINE, method="ais", seed=0)
    assert "95 % interval" in repr(annealed)
    noted = dataclasses.replace(annealed, note="the bases disagree")
    assert "the bases disagree" in repr(noted)
    assert "6×4" in repr(MACHINE)
    assert "2 patterns" in repr(MACHINE)


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (1.0, 0.0, "1"),
        (123456.0, 1234.0, "123456 ± 1234"),
        (0.5, float("nan"), "0.5 ± ?"),
        (float("nan"), 1.0, "not defined"),
        (-0.00123, 4.5e-5, "-0.001230 ± 0.000045"),
    ],
)
def test_digits_that_an_error_leaves(value, error, text):
    assert display.with_error(value, error) == text


def test_names_of_strangers_stay_text():
    evil = "<script>alert(1)</script>\x1b[2J"
    split = rb.Split(BITS)
    data = Dataset(evil, split, split, (1, 6), columns=(evil, "b", "c", "d", "e", "f"))
    assert "\x1b" not in repr(data)
    assert "script" not in Cells(data._repr_html_()).tags
    table = display.Table(evil, ("a", evil), (("1", evil),), (evil,))
    assert "\x1b" not in repr(table)
    assert Cells(table._repr_html_()).tags.count("script") == 0
    assert "&lt;script&gt;" in table._repr_html_()


def test_a_name_is_not_endless():
    assert len(display.clean("x" * 5000)) == display.LONGEST
    assert display.clean("two\nlines") == "two lines"


def test_a_table_is_aligned():
    table = display.Table("t", ("name", "x"), (("a", "1"), ("longer", "2")), ("a note",))
    assert repr(table) == "t\n  name    x\n  a       1\n  longer  2\na note"
