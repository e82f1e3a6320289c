"""Trees of columns, machines that are one, and trainings that start there."""

import math
from itertools import combinations, product
from unittest import mock

import numpy as np
import pytest
import torch

import rapidbm as rb
from rapidbm.data.splits import Dataset, Split
from rapidbm.errors import InputError
from rapidbm.likelihood import following
from rapidbm.likelihood.chow_liu import ChowLiuTree
from rapidbm.random import stream
from rapidbm.runs import auto_settings
from rapidbm.runs.baseline import COLUMNS, best_tree, independent_columns
from rapidbm.runs.recipe import Recipe, start_tree
from rapidbm.testing import chi_squared


def drawn(seed, rows, columns=5, copied=0.8):
    """Rows of a tree, ±1: each column copies an earlier one, or not."""
    rng = np.random.default_rng(seed)
    found = np.empty((rows, columns), np.int8)
    found[:, 0] = rng.random(rows) < 0.6
    for j in range(1, columns):
        same = rng.random(rows) < copied
        found[:, j] = np.where(same, found[:, (j - 1) // 2], rng.random(rows) < 0.3)
    return torch.from_numpy(2 * found - 1)


def every_state(columns):
    return torch.tensor([*product((-1, 1), repeat=columns)])


@pytest.mark.parametrize("pairs", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.4])
def test_a_tree_is_a_distribution_with_the_smoothed_marginals(pairs, share):
    rows = drawn(1, 200)
    model = ChowLiuTree.fitted(rows, 0.5, pairs=pairs).loosened(share)
    p = np.exp(model.log_p(every_state(5)))
    assert p.sum() == pytest.approx(1, abs=1e-12)
    ups = (rows > 0).sum(0).numpy()
    assert p @ (every_state(5) > 0).double().numpy() == pytest.approx((ups + 1) / 202, abs=1e-12)
    assert len(model.pairs) == (4 if pairs else 0)


def trees(columns):
    """All trees: sets of edges that join all columns."""
    for edges in combinations([*combinations(range(columns), 2)], columns - 1):
        joined = [{i} for i in range(columns)]
        for i, j in edges:
            one, other = (next(g for g in joined if k in g) for k in (i, j))
            if one is other:
                break
            joined = [g for g in joined if g is not one and g is not other] + [one | other]
        else:
            yield edges


@pytest.mark.parametrize("seed", range(5))
def test_no_tree_is_better(seed):
    spins = drawn(seed, 300)
    rows = (spins > 0).int().numpy()
    best = ChowLiuTree.fitted(spins, 1e-9)
    single = [np.array([1 - column.mean(), column.mean()]) for column in rows.T]
    scores = {}
    for edges in trees(5):
        total = sum(np.log(single[i][rows[:, i]]) for i in range(5))
        for i, j in edges:
            both = [[np.mean((rows[:, i] == a) & (rows[:, j] == b)) for b in (0, 1)] for a in (0, 1)]
            ratio = np.array(both) / np.outer(single[i], single[j])
            total = total + np.log(ratio[rows[:, i], rows[:, j]])
        scores[edges] = total.mean()
    assert len(scores) == 5**3  # Cayley
    assert best.log_p(spins).mean() == pytest.approx(max(scores.values()), abs=1e-6)
    assert {tuple(sorted(map(int, pair))) for pair in best.pairs} == {*max(scores, key=scores.get)}


def test_pairs_that_say_nothing_stay_out():
    """Eq. (2) of columns without a connection is χ² of one degree over 2 N: of 45 pairs none is above
    log N = 9.2 here, and with another seed one is in 45 · 0.24 % of cases."""
    rng = np.random.default_rng(1)
    rows = torch.from_numpy(np.where(rng.random((10_000, 10)) < 0.3, 1, -1))
    constant = torch.ones((10_000, 2), dtype=rows.dtype)
    assert not len(ChowLiuTree.fitted(torch.cat([rows, constant], 1)).pairs)
    alike = ChowLiuTree.fitted(torch.cat([rows, rows, constant], 1))
    assert {frozenset(map(int, pair)) for pair in alike.pairs} == {
        frozenset((i, i + 10)) for i in range(10)
    }


def test_weights_count_rows_as_often():
    rows = drawn(3, 60)
    weights = torch.arange(60) % 3
    whole = ChowLiuTree.fitted(rows.repeat_interleave(weights, 0))
    weighted = ChowLiuTree.fitted(rows, weights=weights.double())
    assert np.allclose(whole.joint, weighted.joint)
    assert np.array_equal(whole.pairs, weighted.pairs)


@pytest.mark.parametrize("free", [0, 3])
def test_the_machine_is_the_tree(free):
    """log p of every state and log Z, also where columns are nearly the same or opposite."""
    rows = drawn(0, 400, copied=0.97)
    rows = torch.cat([rows, -rows[:, :1]], 1)
    tree = ChowLiuTree.fitted(rows)
    assert len(tree.pairs) == 5
    assert np.abs(tree.ratios).max() > 3
    machine = rb.rbm(6, 5 + free, biases=True, replicas=2, scale=0.5, seed=0, dtype=torch.float64)
    log_z = tree.put(machine, alone=True)
    assert rb.log_z(machine, method="exact").value.tolist() == pytest.approx([log_z] * 2, abs=1e-12)
    states = every_state(6)
    log_p = -machine.free_energy(states.double()) - log_z
    assert torch.allclose(log_p, torch.from_numpy(tree.log_p(states)).expand(2, -1), atol=1e-12)


def test_other_hidden_units_stay_as_they_are():
    machine = rb.rbm(5, 8, biases=True, scale=0.5, seed=0)
    before = machine.couplings.weights["0-1"].detach().clone()
    ChowLiuTree.fitted(drawn(0, 100)).put(machine)
    after = machine.couplings.weights["0-1"].detach()
    assert torch.equal(after[..., 4:], before[..., 4:])
    assert not torch.equal(after[..., :4], before[..., :4])
    assert ((after[..., :4] != 0).sum(1) == 2).all()


def test_samples_are_those_of_the_tree():
    tree = ChowLiuTree.fitted(drawn(0, 300)).loosened(0.1)
    spins = tree.draw((2, 20_000), stream(0, "draw"))
    assert spins.shape == (2, 20_000, 5)
    bits = (spins > 0).long().flatten(0, 1) @ (2 ** torch.arange(4, -1, -1))
    counts = torch.bincount(bits, minlength=32)
    assert chi_squared(counts, torch.from_numpy(np.exp(tree.log_p(every_state(5))))) > 1e-6
    other = ChowLiuTree.fitted(drawn(1, 300))
    assert chi_squared(counts, torch.from_numpy(np.exp(other.log_p(every_state(5))))) < 1e-6


def test_states_have_hidden_units_of_the_machine():
    tree = ChowLiuTree.fitted(drawn(0, 300)).loosened()
    machine = rb.rbm(5, 4, biases=True, replicas=2, seed=0, dtype=torch.float64)
    tree.put(machine)
    states = tree.states(machine, 50_000, stream(0, "states"))
    both = torch.einsum("eci,ecj->eij", states, states) / 50_000
    assert (both - rb.exact_moments(machine).pairs).abs().max() < 6 / math.sqrt(50_000)


def test_chains_begin_as_samples_of_the_tree():
    tree = ChowLiuTree.fitted(drawn(0, 300))
    machine = rb.rbm(5, 4, biases=True, seed=0)
    tree.put(machine)
    phase = rb.Persistent(2000, start=tree, lifetime=7)
    chains = phase.init(machine, stream(0, "chains"))
    assert chains.shape == (1, 2000, 10)  # and the number of the update
    together = float((chains[0, :, 0] * chains[0, :, 1]).mean())
    assert together == pytest.approx(
        float(tree.draw((20_000,), stream(1, "x"))[:, :2].prod(1).mean()), abs=0.12
    )
    assert abs(float((rb.Persistent(2000).init(machine, stream(0, "c"))[0, :, :2].prod(1)).mean())) < 0.12


CHOSEN = {
    "model": "rbm", "hidden": (12,), "patterns": None, "start": "tree", "biases": True, "negative": "pcd",
    "particles": 40, "sweeps": 1, "optimizer": "adam", "rate": (0.002,), "epochs": 4, "batch_size": 20,
    "metrics": ("log_likelihood",), "evaluate": "epoch", "device": "cpu", "projection": "none",
}  # fmt: skip


def dataset(rows=200, columns=10):
    spins = drawn(5, rows + 80, columns)
    return Dataset("tree", Split(spins[80:]), Split(spins[:40]), (1, columns), valid=Split(spins[40:80]))


def test_a_run_starts_at_the_tree_and_is_resumed_to_the_same_bits(tmp_path):
    data, recipe = dataset(), Recipe.made("bars4", CHOSEN, "small")
    whole = rb.Run.create(tmp_path / "whole", recipe, data=data)
    records = [step.record for step in whole.go() if step.record]
    tree, machine = start_tree(data), whole.machine(0)
    tree_log_p = tree.log_p(data.test.spins).mean()
    free = rb.rbm(10, 12, biases=True, dtype=torch.float64)
    tree.put(free)
    assert records[0]["log_likelihood_test"][0] == pytest.approx(tree_log_p, abs=0.05)
    assert torch.allclose(machine.biases, free.biases.float(), atol=1e-6)
    assert records[-1]["log_likelihood_train"][0] > records[0]["log_likelihood_train"][0]
    cut = rb.Run.create(tmp_path / "cut", recipe, data=data)
    for _ in cut.go(stop=iter([False] * 12 + [True] * 99).__next__):
        pass
    assert cut.status == "interrupted"
    resumed = rb.Run(tmp_path / "cut", data)
    for _ in resumed.go():
        pass
    for (name, a), (_, b) in zip(
        whole.machine("last").named_parameters(), resumed.machine("last").named_parameters(), strict=True
    ):
        assert torch.equal(a, b), name


def test_what_is_watched_begins_at_the_log_z_of_the_tree():
    data, recipe = dataset(), Recipe.made("bars4", {**CHOSEN, "replicas": 2}, "small")
    trainer = recipe.trainer(data, torch.device("cpu"))
    tree = start_tree(data)
    with mock.patch.object(following, "CHEAP", 1):
        follower = following.Follower(data.train.spins, 0, tree=tree)
        found = follower.look(trainer.machine, 0)
    exact = rb.log_z(trainer.machine, method="exact").value
    assert follower.anchoring == 0  # nothing was annealed
    assert (found.value - exact).abs().max() < 5 * found.error.max() + 1e-6
    assert found.error.max() < 0.05


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"patterns": 3}, "dense couplings and biases"),
        ({"biases": False}, "dense couplings and biases"),
        ({"model": "dbm", "hidden": (12, 3)}, "a tree of columns is the start of a restricted machine"),
        ({"hidden": (5,)}, "needs a hidden unit for each, not 5; give --hidden 9"),
        ({"start": "forest"}, "start"),
    ],
)
def test_what_cannot_start_as_a_tree_is_refused(change, words):
    data = dataset()
    with pytest.raises(InputError, match=words):
        Recipe.made("bars4", {**CHOSEN, **change}, "small").trainer(data, torch.device("cpu"))


def test_rows_with_gaps_have_no_tree():
    data = dataset()
    known = torch.ones(data.train.spins.shape, dtype=torch.bool)
    known[3, 2] = False
    gaps = Dataset("gaps", Split(data.train.spins, observed=known), data.test, (1, 10), valid=data.valid)
    with pytest.raises(InputError, match="without missing cells"):
        start_tree(gaps)


def test_the_tree_is_a_machine_that_a_run_has_to_better():
    data, recipe = dataset(), Recipe.made("bars4", CHOSEN, "small")
    tree, columns = best_tree(recipe, data), independent_columns(recipe, data)
    machine = recipe.machine(data, torch.device("cpu"))
    for name, parameter in machine.named_parameters():
        parameter.data.copy_(tree.parameters[name])
    exact = rb.log_likelihood(machine, data.valid, method="exact")
    assert tree.value == pytest.approx(float(exact.value), abs=1e-4)
    assert tree.worst > columns.worst + 0.5
    assert columns.what == COLUMNS


def test_auto_compares_trees_of_two_valued_columns():
    data, fixed = dataset(columns=50), set()
    recipe = Recipe.made("table", {"device": "cpu"}, "auto")
    shapes = [one.shape for one in auto_settings.candidates(recipe, fixed, data)]
    assert {s for s in shapes if s[2] == "tree"} == {((200,), None, "tree")}
    assert any(s[1] for s in shapes)
    fixed = {"start"}
    assert all(c.start == "columns" for c in auto_settings.candidates(recipe, fixed, data))
    known = torch.ones(data.train.spins.shape, dtype=torch.bool)
    gaps = Dataset("g", Split(data.train.spins, observed=known), data.test, (1, 50), valid=data.valid)
    assert all(c.start == "columns" for c in auto_settings.candidates(recipe, set(), gaps))


def test_auto_falls_back_on_a_tree_where_no_trial_is_better(monkeypatch):
    """Trials that come to nothing: the run has to better the tree, and has its shape."""
    monkeypatch.setattr(auto_settings, "compared", lambda *_, **__: [])
    data, told = dataset(), []
    recipe = Recipe.made("table", {"device": "cpu", "budget": "5s", "hidden": (20,)}, "auto")
    found = auto_settings.find_settings(recipe, {"hidden"}, data, told.append)
    assert found.start.what == "a tree"
    assert found.recipe.start == "tree"
    assert found.recipe.patterns is None
    assert any("a tree is better than all trials" in line for line in told)
