"""Sampled rows of a table beside real ones: similarities, a classifier, models of a column, copies."""

import random
from itertools import combinations

import numpy as np
import pytest
import torch

import rapidbm as rb
from rapidbm.data.mixed import table_of
from rapidbm.estimates import Bounds
from rapidbm.quality import privacy as of_privacy
from rapidbm.quality.comparable import comparable
from rapidbm.random import stream


def people(seed, rows=240):
    """Smokers live in Rome and are older; weights go with sizes."""
    rng = np.random.default_rng(seed)
    smokes = rng.random(rows) < 0.5
    size = rng.normal(170, 10, rows).round(1)
    return {
        "smokes": np.where(smokes, "yes", "no"),
        "city": np.where(smokes & (rng.random(rows) < 0.9), "Rome", rng.choice(("Bonn", "Oslo"), rows)),
        "age": np.where(smokes, 60, 30) + rng.integers(0, 20, rows),
        "size": size,
        "weight": (size - 100 + rng.normal(0, 8, rows)).round(1),
        "income": np.exp(rng.normal(7, 1, rows)).round(),
    }


def take(table, rows):
    return {name: cells[rows] for name, cells in table.items()}


# -- similarities -------------------------------------------------------------------------------------


def survey(seed, shift):
    """Columns with gaps, the same in every version of numpy."""
    draw = random.Random(seed)
    found = {"city": [], "age": [], "size": [], "smokes": []}
    for _ in range(300):
        smokes = draw.random() < 0.4
        age = round(draw.gauss(40 + 20 * smokes + shift, 8))
        found["smokes"].append(None if draw.random() < 0.1 else "yes" if smokes else "no")
        found["city"].append(draw.choice(("Rome", "Rome", "Oslo") if smokes else ("Oslo", "Bonn")))
        found["age"].append(None if draw.random() < 0.1 else age)
        found["size"].append(round(100 + age + draw.gauss(0, 5 + shift), 1))
    return found


# By sdmetrics 0.32.0 of survey(0, 0) and survey(1, 4). It asks for pandas below 3, and so it is not among
# the packages that the tests install.
SDMETRICS = {
    "age": 0.8602230483271376,
    "size": 0.9,
    "city": 0.97,
    "smokes": 0.9714002314432137,
    ("age", "size"): 0.9231167051187597,
    ("city", "age"): 0.8333333333333333,
    ("city", "size"): 0.8066666666666666,
    ("city", "smokes"): 0.9333333333333333,
    ("age", "smokes"): 0.7999999999999999,
    ("size", "smokes"): 0.7733333333333333,
}


def test_similarities_are_those_of_sdmetrics():
    found = rb.fidelity(survey(0, 0), survey(1, 4))
    assert {**found.columns, **found.pairs} == pytest.approx(SDMETRICS, abs=1e-12)
    assert found.column_mean == pytest.approx(np.mean([*found.columns.values()]))
    assert found.pair_mean == pytest.approx(np.mean([*found.pairs.values()]))


def test_the_numbers_of_sdmetrics_are_what_it_says_today():
    pytest.importorskip("sdmetrics")
    import pandas as pd
    from sdmetrics.column_pairs import ContingencySimilarity, CorrelationSimilarity
    from sdmetrics.single_column import KSComplement, TVComplement

    real, other = pd.DataFrame(survey(0, 0)), pd.DataFrame(survey(1, 4))
    numbers = ("age", "size")
    for name in real:
        metric = KSComplement if name in numbers else TVComplement
        assert metric.compute(real[name], other[name]) == pytest.approx(SDMETRICS[name], abs=1e-9)
    for pair in combinations(real, 2):
        both = [table[list(pair)].copy() for table in (real, other)]
        if pair == numbers:
            score = CorrelationSimilarity.compute(*both)
        else:
            some = [name for name in pair if name in numbers] or None
            score = ContingencySimilarity.compute(*both, continuous_column_names=some)
        assert score == pytest.approx(SDMETRICS[pair], abs=1e-9)


def test_equal_tables_are_equal_and_others_are_not():
    table = people(0)
    same = rb.fidelity(table, table)
    assert set(same.columns.values()) == set(same.pairs.values()) == {1.0}
    far = {name: np.array([f"{x}!" for x in table[name]]) for name in ("smokes", "city")}
    far |= {name: table[name] + 1e6 for name in ("age", "size", "weight", "income")}
    other = rb.fidelity(table, far)
    assert set(other.columns.values()) == {0.0}  # words that were never seen are different ones
    assert other.pairs["smokes", "city"] == 0.0
    assert float(other.auc.value) == 1.0


def test_a_column_of_one_value_is_not_compared():
    table = {**people(0), "land": ["D"] * 240}
    assert "land" not in rb.fidelity(table, table).columns


def test_real_gaps_are_laid_over_samples_that_have_none():
    rng = np.random.default_rng(9)
    real, sampled = people(0, 400), people(1, 400)
    cells = real["age"].astype(float)
    cells[rng.random(400) < 0.5] = np.nan
    found = rb.fidelity(real | {"age": cells}, sampled)
    assert abs(float(found.auc.value) - 0.5) < 4 * float(found.auc.error)
    assert found.pairs["smokes", "age"] > 0.8


def test_bad_tables_are_refused_by_name():
    table = people(0)
    with pytest.raises(rb.InputError, match=r"synthetic must have the columns of real, and 'size' is"):
        rb.fidelity(table, {name: x for name, x in table.items() if name != "size"})
    with pytest.raises(rb.InputError, match="held_out must have 10 rows or more"):
        rb.privacy(table, take(table, slice(0, 9)), table)
    with pytest.raises(rb.InputError, match="height"):
        rb.utility(table, table, table, "height")
    with pytest.raises(rb.InputError, match="is the only one"):
        rb.utility(*[{"a": table["size"]}] * 3, "a")
    with pytest.raises(rb.InputError, match="10 finite numbers or more"):
        rb.privacy(table, table, table, log_p=([1.0] * 20, [np.nan] * 20))


# -- the classifier -----------------------------------------------------------------------------------


def test_a_classifier_cannot_tell_rows_of_one_source_and_its_error_is_right():
    scores = []
    for seed in range(12):
        auc = rb.fidelity(people(2 * seed, 150), people(2 * seed + 1, 150), seed=seed).auc
        scores.append((float(auc.value) - 0.5) / float(auc.error))
    assert abs(np.mean(scores)) < 1.2  # cross-fitting leans a little below ½
    assert 0.5 < np.std(scores) < 1.8


def test_a_classifier_sees_what_single_columns_do_not_show():
    real, sampled = people(0, 400), people(1, 400)
    rng = np.random.default_rng(0)
    broken = {name: rng.permutation(x) for name, x in sampled.items()}
    found = rb.fidelity(real, broken)
    assert found.column_mean == pytest.approx(rb.fidelity(real, sampled).column_mean)
    assert float(found.auc.value) > 0.7
    assert found.pair_mean < rb.fidelity(real, sampled).pair_mean - 0.1


# -- models of a column -------------------------------------------------------------------------------


@pytest.mark.parametrize(("column", "measure"), [("city", "accuracy"), ("age", "R²")])
def test_models_of_samples_are_as_good_as_the_samples(column, measure):
    train, test, sampled = people(0, 400), people(1, 400), people(2, 1000)
    good = rb.utility(train, test, sampled, column)
    assert good.measure == measure
    assert good.rows == (400, 400)
    assert abs(float(good.gap.value)) < 4 * float(good.gap.error)
    assert float(good.real.value) > good.baseline + 0.1
    assert float(good.gap.value) == pytest.approx(float(good.real.value - good.synthetic.value))
    broken = sampled | {column: np.random.default_rng(0).permutation(sampled[column])}
    bad = rb.utility(train, test, broken, column)
    assert float(bad.gap.value) > 0.15
    assert float(bad.gap.value) > 4 * float(bad.gap.error)


def test_a_model_of_one_word_says_that_word():
    table = people(0)
    only = table | {"city": np.array(["Rome"] * 240)}
    found = rb.utility(table, table, only, "city")
    assert float(found.synthetic.value) == pytest.approx((table["city"] == "Rome").mean())


# -- copies -------------------------------------------------------------------------------------------


def divided(seed, rows=240):
    table = people(seed, rows)
    order, cut = np.random.default_rng(seed).permutation(rows), int(0.8 * rows)
    return take(table, order[:cut]), take(table, order[cut:])


def copier(train, seed, how, count=1000):
    """Rows of the training data, as they are or with a little noise, or half of them new."""
    rng = np.random.default_rng(seed)
    rows = take(train, rng.integers(0, len(train["age"]), count))
    if how == "noise":
        for name, size in (("size", 0.5), ("weight", 0.5), ("income", 20)):
            rows[name] = (rows[name] + rng.normal(0, size, count)).round(1)
        rows["age"] = rows["age"] + rng.integers(-1, 2, count)
    if how == "half":
        new = people(1000 + seed, count)
        rows = {name: np.where(np.arange(count) < count // 2, rows[name], new[name]) for name in rows}
    return rows


@pytest.mark.parametrize("how", ["exact", "noise", "half"])
def test_a_copier_is_caught(how):
    for seed in range(3):
        train, held_out = divided(seed)
        found = rb.privacy(train, held_out, copier(train, seed, how))
        assert found.copies
        assert found.verdict.startswith("copies training rows")
        if how == "exact":
            assert found.exact == (1.0, 0.0)
            assert float(found.copied.value) == pytest.approx(1.0)
        if how == "half":
            assert abs(float(found.copied.value) - 0.5) < 0.2


def test_new_rows_are_no_copies():
    for seed in range(5):
        train, held_out = divided(seed)
        found = rb.privacy(train, held_out, people(1000 + seed, 1000))
        assert not found.copies
        assert found.verdict == "no sign that it copies training rows"


def test_copies_of_held_out_rows_are_no_copies_of_training_rows():
    train, held_out = divided(0)
    found = rb.privacy(train, held_out, copier(held_out, 0, "exact"))
    assert not found.copies
    assert float(found.copied.value) < -1


def test_rows_that_everyone_has_are_no_copies():
    """Of few columns with few values each row is in the table many times."""
    rng = np.random.default_rng(0)
    tables = [{name: rng.choice(list("xyz"), size) for name in "abc"} for size in (400, 100, 500)]
    train, held_out, new = tables
    assert not rb.privacy(train, held_out, new).copies
    rows = take(train, rng.integers(0, 400, 500))
    assert not rb.privacy(train, held_out, rows).copies


def test_too_few_rows_are_too_few():
    train, held_out = divided(0, 60)
    few = take(train, slice(0, 12)), take(held_out, slice(0, 12))
    found = rb.privacy(*few, few[0])
    assert found.copies or "too few rows" in found.verdict


def test_distances_and_weights_are_those_of_their_definition():
    tables = survey(0, 0), survey(1, 4), survey(2, 0)
    some = [{name: cells[:30] for name, cells in table.items()} for table in tables]
    found = rb.privacy(*some)
    both = comparable(None, some, ("train", "held_out", "synthetic"))
    ours, others, samples = of_privacy.ranked(both)

    def distance(a, b):
        each = []
        for x, y, ranks in zip(a, b, both.numeric, strict=True):
            if np.isnan(x) or np.isnan(y):
                each.append(0.0 if np.isnan(x) and np.isnan(y) else 0.5)
            else:
                each.append(abs(x - y) if ranks else float(x != y))
        return np.mean(each)

    nearer = 0.0
    for i, row in enumerate(samples):
        every = np.array([distance(row, other) for other in (*ours, *others)])
        assert found.distances[i] == pytest.approx(every[:30].min())
        least = np.isclose(every, every.min(), atol=1e-9)
        nearer += least[:30].sum() / least.sum() / 30
    assert found.nearer == pytest.approx(nearer)
    assert found.expected == 0.5
    assert float(found.copied.value) == pytest.approx((nearer - 0.5) / 0.5)
    assert found.held_out == pytest.approx([min(distance(x, y) for y in ours) for x in others])


def test_the_error_is_that_of_random_parts():
    """Over random choices of which rows are held out, for the same samples."""
    table, sampled = people(0, 60), people(1, 40)
    rng, shares, errors = np.random.default_rng(0), [], []
    for _ in range(400):
        order = rng.permutation(60)
        found = rb.privacy(take(table, order[:40]), take(table, order[40:]), sampled)
        shares.append(float(found.copied.value))
        errors.append(float(found.copied.error))
    assert np.mean(shares) == pytest.approx(0.0, abs=4 * np.std(shares) / 20)
    assert np.mean(errors) == pytest.approx(np.std(shares), rel=0.15)


def test_log_p_gives_away_what_is_known_by_heart():
    train, held_out = divided(0)
    rng, new = np.random.default_rng(0), people(1000, 300)
    for gap, copies in ((0.0, False), (0.5, False), (3.0, True)):
        logs = rng.normal(gap, 2, 192), rng.normal(0, 2, 48)
        found = rb.privacy(train, held_out, new, log_p=logs)
        assert found.copies == copies
        assert abs(float(found.gap.value) - gap) < 4 * float(found.gap.error)
        pairs = (logs[0][:, None] > logs[1]).mean()
        assert float(found.pairs.value) == pytest.approx(pairs)
    assert "by heart" in found.verdict


# -- machines -----------------------------------------------------------------------------------------


def learned(data, hidden, epochs, seed):
    counts, kinds = data.visible_units
    machine = rb.rbm(counts, hidden, units=kinds, biases=True, seed=seed)
    machine.start_biases(data.train)
    how = {"epochs": epochs, "batch_size": 50, "seed": seed}
    rate = rb.adam(0.02, fall="linear")
    for _ in rb.train(machine, data.train, rb.Persistent(200, sweeps=2), rate, **how):
        pass
    return machine.requires_grad_(False)


def judged(machine, data, seed):
    """The verdict on rows of a machine, as the report makes it."""
    drawn = rb.sample(machine, 500, steps=200, seed=seed)[0][:, : machine.visible]
    rows = table_of(data.schema, drawn, stream(seed))
    none = Bounds.exactly(torch.zeros(1, dtype=torch.float64), "left out")
    logs = [
        rb.log_p(machine, part.spins, normaliser=none, seed=0).value[0]
        for part in (data.train, data.test)
    ]
    tables = data.tables
    return rb.privacy(tables["train"], tables["test"], rows, schema=data.schema, log_p=tuple(logs))


def test_an_honest_machine_passes_and_one_that_knows_its_rows_does_not():
    data = rb.from_table(people(0))
    assert not judged(learned(data, 8, 30, 0), data, 0).copies
    assert judged(learned(data, 60, 300, 0), data, 0).copies


@pytest.mark.slow
def test_copiers_are_caught_twenty_times_of_twenty_and_honest_machines_never():
    copies = dict.fromkeys(("exact", "noise", "new", "honest", "overfitted"), 0)
    for seed in range(20):
        train, held_out = divided(seed)
        for how in ("exact", "noise"):
            copies[how] += rb.privacy(train, held_out, copier(train, seed, how)).copies
        copies["new"] += rb.privacy(train, held_out, people(1000 + seed, 1000)).copies
        data = rb.from_table(people(seed), seed=seed)
        copies["honest"] += judged(learned(data, 8, 30, seed), data, seed).copies
        copies["overfitted"] += judged(learned(data, 60, 300, seed), data, seed).copies
    assert copies == {"exact": 20, "noise": 20, "new": 0, "honest": 0, "overfitted": 20}
