"""The study of inverse problems: rows, other methods, what is learned, and what claims say of it."""

import numpy as np
import pytest
import torch

from rapidbm.inference.couplings import effective_couplings
from rapidbm.random import stream
from rapidbm.training.negative import Exact
from rapidbm_paper import item, parts, settings
from rapidbm_paper.claims import FAILS, HOLDS, UNDECIDED, claims_of, judged
from rapidbm_paper.inverse import couplings, intervals
from rapidbm_paper.inverse.others import mean_field, pseudo_likelihood, screening
from rapidbm_paper.inverse.truths import SPINS, STATES, rows_of, truth
from rapidbm_paper.lab import Lab
from rapidbm_paper.records import Record, plain, settings_of
from rapidbm_paper.reproduction import item_names

ITEMS = ("inverse-rows", "inverse-temperature", "inverse-patterns", "inverse-intervals")


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder, found = tmp_path_factory.mktemp("inverse"), {}
    for study in ("inverse", "inverse-intervals"):
        scale = settings(study, "tiny")
        for name, part in parts(study).items():
            if name.partition("-")[2] not in ("ferromagnet", "random-glass", "lattice-glass", "chain"):
                values = part.run(Lab(name, torch.device("cpu"), 0, folder, lambda share: None), scale)
                found[name] = Record(name, "tiny", 0, settings_of(scale), plain(values))
    return found


def test_one_word_stands_for_all_of_it():
    assert item_names(["inverse"]) == list(ITEMS)


@pytest.mark.parametrize("name", ITEMS)
def test_items_are_drawn_and_claims_judged(records, name):
    one = item(name)
    fig = one.draw({n: r for n, r in records.items() if n in one.needs})
    assert fig.axes
    for module in (couplings, intervals):
        for claim in claims_of(module):
            assert judged(claim, records).finding.measured


# -- rows whose couplings are known -------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*SPINS, "potts"])
def test_rows_are_those_of_the_machine(kind):
    units = 9 if kind != "potts" else 6
    machine = truth(kind, units, 0.5, stream(0, kind)).requires_grad_(False)
    matrix = effective_couplings(machine).pairs[0]
    assert torch.equal(matrix, matrix.T)
    if kind == "chain":
        assert torch.equal(matrix.diagonal(1), torch.full((8,), 0.5, dtype=torch.float64))
        assert int((matrix != 0).sum()) == 16
    if kind.endswith("glass"):
        assert {*matrix.abs().unique().tolist()} == {0.0, 0.5}
        assert {*matrix.sign().unique().tolist()} == {-1.0, 0.0, 1.0}
    if kind in ("ferromagnet", "lattice-glass"):
        assert ((matrix != 0).sum(1) == 4).all()
    # The energy of independent rows beside that of all states.
    rows = rows_of(machine, 4000, stream(1, kind))
    layers = machine.layers
    states = layers.states(layers.visible, torch.arange(layers.count(layers.visible))).float()
    energies = machine.energy(states)[0].double()
    weights = torch.softmax(-energies, 0)
    mean = weights @ energies
    spread = (weights @ (energies - mean).square() / len(rows)).sqrt()
    assert abs(float((machine.energy(rows)[0].double().mean() - mean) / spread)) < 4


# -- other methods ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [pseudo_likelihood, screening])
def test_methods_find_couplings_from_all_states_exactly(method):
    """Rows in proportion to their probabilities: what is consistent has no error."""
    machine = truth("random-glass", 5, 0.7, stream(3, "glass")).requires_grad_(False)
    states = machine.layers.states((0,), torch.arange(32)).float()
    weights = torch.softmax(-machine.energy(states)[0].double(), 0)
    rows = states.repeat_interleave((weights * 200_000).round().long(), 0)
    true = effective_couplings(machine).pairs[0]
    assert true.any()
    assert couplings.relative_error(method(rows), true) < 2e-3
    assert couplings.relative_error(mean_field(rows), true) > 0.05


def test_mean_field_is_right_where_couplings_are_weak():
    machine = truth("chain", 6, 0.02, stream(0, "chain")).requires_grad_(False)
    states = machine.layers.states((0,), torch.arange(64)).float()
    weights = torch.softmax(-machine.energy(states)[0].double(), 0)
    rows = states.repeat_interleave((weights * 1e6).round().long(), 0)
    assert couplings.relative_error(mean_field(rows), effective_couplings(machine).pairs[0]) < 0.01


def test_pseudo_likelihood_of_potts_units():
    machine = truth("potts", 4, 1.2, stream(1, "potts")).requires_grad_(False)
    true = effective_couplings(machine).pairs[0]
    assert true.any()
    rows = rows_of(machine, 20_000, stream(2, "rows"))
    found = pseudo_likelihood(rows, STATES)
    assert couplings.relative_error(found, true) < 0.1
    blocks = found.reshape(4, STATES, 4, STATES)
    assert blocks.sum(1).abs().max() < 1e-8
    assert couplings.relative_error(pseudo_likelihood(rows[:1000], STATES), true) > 0.05


def test_patterns_as_many_as_units_reach_what_dense_couplings_reach():
    machine = truth("chain", 5, 0.5, stream(0, "chain")).requires_grad_(False)
    rows = rows_of(machine, 2000, stream(1, "rows"))
    scale = couplings.Scale.at("tiny")
    long = type(scale)(**{**settings_of(scale), "updates": 600})
    found = {
        k: couplings.matrix_of(couplings.trained(rows, machine, Exact(), k, long, 0))
        for k in (None, 1, 5)
    }
    assert couplings.relative_error(found[5], found[None]) < 0.05
    assert couplings.relative_error(found[1], found[None]) > 0.3


# -- claims -------------------------------------------------------------------------------------------


def record_of(name, **methods):
    rows = [(300, method, errors) for method, errors in methods.items()]
    x, method, error = map(list, zip(*rows, strict=True))
    return Record(name, "quick", 0, {}, {"x": x, "method": method, "error": error})


def verdict(name, records):
    (claim,) = [c for m in (couplings, intervals) for c in claims_of(m) if c.name == name]
    return judged(claim, records).verdict


@pytest.mark.parametrize(
    ("few", "expected"),
    [([0.1, 0.1001], HOLDS), ([0.3, 0.3001], FAILS), ([0.05, 0.2], UNDECIDED)],
)
def test_whether_few_patterns_restrict(few, expected):
    names = [f"inverse.rows-{kind}" for kind in SPINS]
    dense = [0.1, 0.1]
    records = {n: record_of(n, dense=dense, **{"ra-few": few}) for n in names}
    assert verdict("inverse-few-patterns", records) == expected
    record = record_of(names[-1], dense=[0.2, 0.2], **{"ra-few": few})
    assert verdict("inverse-few-memories", {names[-1]: record}) == expected


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, HOLDS),
        ({"maximum": [0.12, 0.1201]}, FAILS),
        ({"wrong_signs": [0, 1]}, FAILS),
        ({"covered": [0.9, 0.9001]}, FAILS),
        ({"false": [20, 24]}, FAILS),
        ({"false": [0, 1], "called": [69, 76]}, UNDECIDED),
        ({"covered": [0.9, 0.9999]}, HOLDS),
    ],
)
def test_whether_errors_of_couplings_are_right(changed, expected):
    values = {
        "maximum": [0.1, 0.1001],
        "pseudo": [0.1, 0.1],
        "wrong_signs": [0, 0],
        "covered": [0.94, 0.96],
        "called": [100, 100],
        "false": [4, 6],
    }
    record = Record("inverse-intervals.glass", "quick", 0, {}, {**values, **changed})
    assert verdict("inverse-glass", {record.name: record}) == expected


def test_a_part_says_how_far_it_is(tmp_path):
    told = []
    scale = settings("inverse", "tiny")
    lab = Lab("inverse.patterns-chain", torch.device("cpu"), 0, tmp_path, told.append)
    values = parts("inverse")["inverse.patterns-chain"].run(lab, scale)
    assert told == sorted(told)
    assert told[-1] == 1
    assert np.shape(values["error"]) == (len(scale.patterns) * 3, scale.instances)
