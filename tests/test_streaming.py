"""Training on rows that stay on disk: every row once in an epoch, by seed and epoch alone, to the same
bits however it is stored, batched, planned ahead or resumed."""

import numpy as np
import pytest
import torch

import rapidbm as rb
from rapidbm.accel.executors import Eager
from rapidbm.data import packed
from rapidbm.data.shuffle import Groups, Later, epoch_of
from rapidbm.errors import InputError
from rapidbm.likelihood.following import mean_log_p
from rapidbm.runs.evaluation import evaluation
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run
from rapidbm.training import batches
from rapidbm.training.trainer import Trainer

ROWS, VISIBLE = 1000, 20


@pytest.fixture(autouse=True)
def small(tmp_path, monkeypatch):
    """Chunks of 16 rows, groups of 100."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(packed, "CHUNK", 16 * 3)
    monkeypatch.setattr(batches, "GROUP", 100 * 3)


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(0)
    count = (np.arange(ROWS)[:, None] >> np.arange(10)) & 1
    noise = np.repeat(rng.random((ROWS, 5)) < 0.4, 2, 1)
    np.save(tmp_path / "a.npy", np.hstack([count, noise]).astype(np.int8))
    return tmp_path / "a.npy"


@pytest.fixture
def split(path):
    return rb.load(path, stream=True).train


def made(split, negative=None, *, replicas=2, size=37, seed=1, **more):
    machine = rb.rbm(VISIBLE, 8, 3, replicas=replicas, seed=0, biases=True)
    negative = negative or rb.Persistent(5)
    optimiser = rb.adam(1e-2)
    return Trainer(machine, split, negative, optimiser, epochs=3, batch_size=size, seed=seed, **more)


def counted(spins):
    """The numbers that rows (…, v) count in their first ten columns."""
    return ((spins[..., :10] > 0).long() << torch.arange(10)).sum(-1)


def epoch(trainer, number, seed=1):
    taken = trainer.batches
    whole = [taken.spins(taken.taken(seed, number, i)) for i in range(trainer.per_epoch)]
    return counted(torch.cat(whole, 1))


# -- the order ----------------------------------------------------------------------------------------


def test_every_row_comes_once_in_an_epoch(split):
    trainer = made(split)
    assert trainer.per_epoch == 22
    own = sorted(counted(split.take(slice(0, 800)).spins).tolist())
    seen = [epoch(trainer, t) for t in range(3)]
    for rows in seen:
        assert [sorted(each.tolist()) for each in rows] == [own, own]
    orders = [tuple(each.tolist()) for rows in seen for each in rows]
    assert len(set(orders)) == 6  # of replicas and of epochs
    assert tuple(epoch(trainer, 0, seed=2)[0].tolist()) not in orders
    assert torch.equal(epoch(made(split), 1), seen[1])  # by seed and epoch alone


def test_groups_hold_at_least_a_batch_and_follow_each_other(split):
    whole = epoch_of(split, 1, 0, 100)
    assert sorted(chunk for group in whole.chunks for chunk in group) == list(range(len(split.sizes)))
    sizes = np.diff(whole.starts)
    assert whole.starts[0] == 0
    assert whole.starts[-1] == len(split)
    assert (sizes[:-1] >= 100).all()
    assert (sizes < 100 + max(split.sizes)).all()
    for group, start in enumerate(whole.starts[:-1]):
        assert whole.group_of(start) == group
        assert whole.group_of(whole.starts[group + 1] - 1) == group
    assert made(split, size=500).batches.groups.least == 500


def test_rows_are_mixed_within_their_group_and_not_beyond(split):
    trainer = made(split, replicas=1)
    whole = trainer.batches.groups.epoch(1, 0)
    rows = epoch(trainer, 0)[0]
    for number, chunks in enumerate(whole.chunks):
        mine = rows[whole.starts[number] : whole.starts[number + 1]]
        assert set((mine // 16).tolist()) == set(chunks)
        assert not torch.equal(mine, mine.sort().values)


def test_a_row_may_come_at_any_place(split):
    """Places of some rows over many epochs are uniform: χ² over ten bins of the epoch."""
    groups = Groups(split, 1, 100)
    rows, places = counted(split.take(slice(0, 800)).spins), []
    for t in range(100):
        whole = groups.epoch(0, t)
        for number in range(len(whole.chunks)):
            group = groups.read((0, t, number))
            spins = torch.from_numpy(packed.unpacked(group.rows.numpy(), VISIBLE))
            order = counted(spins)[group.order[0]]
            places += [
                group.start + int(i) for i in torch.nonzero(torch.isin(order, rows[[0, 300, 799]]))
            ]
    seen = np.histogram(places, 10, (0, 800))[0]
    assert len(places) == 300
    assert ((seen - 30) ** 2 / 30).sum() < 46.7  # false alarms: 10⁻⁶, nine degrees of freedom


def test_some_columns_of_a_batch(split):
    trainer = made(split)
    whole = trainer.batches.taken(1, 0, 2)
    for columns in (slice(0, 18), slice(18, None), slice(1, None, 2)):
        assert torch.equal(trainer.batches.taken(1, 0, 2, columns), whole[:, columns])


@pytest.mark.parametrize("size", [1, 37, 99, 150, 800])
def test_batches_that_are_planned_ahead_are_those_taken_one_by_one(split, size):
    one, ahead = made(split, size=size), made(split, size=size)
    number = 0
    while number < one.per_epoch:
        together = min(ahead.batches.together(1, 0, number), one.per_epoch - number, 16)
        plans = [ahead.batches.taken(1, 0, number + i) for i in range(together)]
        for i, plan in enumerate(plans):
            alone = one.batches.spins(one.batches.taken(1, 0, number + i))
            assert torch.equal(ahead.batches.spins(plan), alone)
        number += together


def test_batches_in_any_order(split):
    one, other = made(split), made(split)
    wanted = {i: one.batches.spins(one.batches.taken(1, 0, i)) for i in range(one.per_epoch)}
    for i in torch.randperm(one.per_epoch, generator=torch.Generator().manual_seed(0)).tolist():
        assert torch.equal(other.batches.spins(other.batches.taken(1, 0, i)), wanted[i])


def test_a_graph_asks_for_as_many_as_the_window_holds(split):
    trainer = made(split, size=10)
    trainer.executor.together = 16
    starts = trainer.batches.groups.epoch(1, 0).starts
    most = min(16, (starts[2] - 80) // 10)  # in the rest of the first group, and in the second
    assert most < 16
    assert [trainer.most() for trainer.update in (0, 8, 79)] == [16, most, 1]


def test_what_a_thread_fails_at_is_told_to_who_asks():
    def fails():
        raise InputError("the disk is gone")

    later = Later(fails)
    with pytest.raises(InputError, match="the disk is gone"):
        later.result()
    assert Later(lambda: 3).result() == 3


# -- training -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("negative", [rb.PatternInduced(), rb.ContrastiveDivergence(), rb.Persistent(5)])
def test_recorded_updates_are_those_of_the_host(split, negative):
    """The window changes under a recording, which reads it anew."""
    recorded, plain = made(split, negative, size=10), made(split, negative, size=10)
    plain.executor = Eager()
    for trainer in (recorded, plain):
        for _ in trainer.run("epoch"):
            pass
    assert recorded.executor.replay.trusted
    for name, value in recorded.state().items():
        assert torch.equal(value, plain.state()[name]), name


def test_a_resumed_training_takes_the_same_rows(split):
    whole = made(split)
    for _ in whole.run("update"):
        pass
    first, found = made(split), whole.state()
    for progress in first.run("update"):
        if progress.update not in (1, 21, 22, 23, 40):
            continue
        second = made(split)
        second.load(first.state())
        for _ in second.run("update"):
            pass
        for name, value in second.state().items():
            assert torch.equal(value, found[name]), (progress.update, name)


def test_the_same_bits_from_every_kind_of_file(path, tmp_path):
    import zarr

    values = np.load(path)
    rb.pack(path, tmp_path / "a.spins")
    zarr.create_array(tmp_path / "a.zarr", shape=values.shape, dtype="int8", chunks=(50, 7))[:] = values
    found = []
    for name in ("a.npy", "a.spins", "a.zarr"):
        trainer = made(rb.load(tmp_path / name, stream=True).train, centred=True)
        for _ in trainer.run("epoch"):
            pass
        found.append(trainer.machine.patterns.detach())
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_train_takes_a_split_on_disk(split):
    machine = rb.rbm(VISIBLE, 8, 3, seed=0)
    steps = rb.train(machine, split, rb.PatternInduced(), rb.sgd(0.01), epochs=2, batch_size=50, seed=0)
    assert [progress.update for progress in steps] == [16, 32]
    with pytest.raises(InputError, match=r"\(samples, 12\), not \(800, 20\)"):
        rb.train(rb.rbm(12, 3), split, rb.Persistent(2), rb.sgd(0.1), epochs=1, batch_size=5)


@pytest.mark.parametrize("visible", [1, 7, 8, 9, 17])
def test_rows_of_any_width(visible, tmp_path):
    bits = np.random.default_rng(0).random((40, visible)) < 0.5
    np.save(tmp_path / "b.npy", bits)
    data = rb.load(tmp_path / "b.npy", stream=True)
    machine = rb.rbm(visible, 3, replicas=2, seed=0, dtype=torch.float64)
    trainer = Trainer(machine, data.train, rb.Persistent(2), rb.sgd(0.1), epochs=1, batch_size=7, seed=0)
    rows = trainer.batches.spins(trainer.batches.taken(0, 0, 0))
    assert rows.shape == (2, 7, visible)
    assert rows.dtype == torch.float64
    assert rows.is_contiguous()
    trainer.step()
    assert machine.finite().all()


@pytest.mark.parametrize("by", ["chains", "units", "replicas"])
def test_shards_of_rows_on_disk(path, by):
    """PID draws nothing: the parts of a batch, or of its columns, add up to what the whole gives."""
    chosen = CHOSEN | {"negative": "pid", "particles": None, "dtype": "float64", "metrics": ()}
    chosen |= {"optimizer": "sgd", "rate": (0.02,), "fall": "none", "replicas": 2}
    found = []
    for shards in (1, 2):
        recipe = Recipe.made(str(path), chosen | {"shards": shards, "shard_by": by}, "small")
        trainer = recipe.trainer(recipe.data(), torch.device("cpu"))
        for _ in range(20):
            trainer.step()
        trainer.gather()
        found.append(trainer.machine.patterns.detach().clone())
    if by == "replicas":  # each has an order of its own
        assert torch.isfinite(found[1]).all()
    else:
        assert torch.allclose(found[0], found[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("columns", [slice(0, 7), slice(3, 20), slice(8, 16), slice(9, 10), slice(0, 20)])
def test_some_columns_of_rows_on_disk(split, columns):
    narrow = split.narrowed(columns)
    assert (len(narrow), narrow.visible) == (len(split), columns.stop - columns.start)
    assert torch.equal(narrow.in_memory().spins, split.in_memory().spins[:, columns])
    assert torch.equal(narrow.take(slice(5, 9)).spins, split.take(slice(5, 9)).spins[:, columns])
    assert torch.equal(narrow.known, split.known[columns])
    again = narrow.narrowed(slice(0, 1))
    assert torch.equal(
        again.in_memory().spins, split.in_memory().spins[:, columns.start : columns.start + 1]
    )
    whole, part = (made_for(x) for x in (split, narrow))
    assert torch.equal(part.spins(part.taken(1, 0, 3)), whole.spins(whole.taken(1, 0, 3))[..., columns])


def made_for(split):
    machine = rb.rbm(split.visible, 3, replicas=2, seed=0)
    return batches.Streamed(split, machine, Eager(), 37)


# -- runs ---------------------------------------------------------------------------------------------

CHOSEN = {
    "hidden": (8,),
    "patterns": 3,
    "epochs": 2,
    "replicas": 2,
    "device": "cpu",
    "batch_size": 50,
    "negative": "pcd",
    "particles": 5,
    "stream": True,
}


def run_on(path, folder, **more):
    run = Run.create(folder, Recipe.made(str(path), CHOSEN | more, "small"))
    for _ in run.go():
        pass
    return run


def test_a_run_on_rows_that_stay_on_disk(path, tmp_path, monkeypatch):
    run = run_on(path, tmp_path / "R", valid=0.1)
    data = run.info["data"]
    assert (data["train"], data["test"], data["valid"], data["on_disk"]) == (720, 200, 80, True)
    assert run.metrics()[-1]["log_likelihood_valid"][0] is not None
    assert run.data().train.on_disk
    assert not any(split.on_disk for split in run.parts().values())
    monkeypatch.setattr("rapidbm.data.stored.ROWS", 100)
    found = evaluation(Run(run.folder))
    assert "train: measured on 100 of 720 rows, evenly spread" in found.notes
    assert found["hamming_test"][0] < 0.5
    assert found["log_likelihood_test_from"][0] < found["log_likelihood_test"][0]


def test_a_run_is_resumed_to_the_same_bits(path, tmp_path):
    whole = run_on(path, tmp_path / "A", epochs=3)
    run = Run.create(tmp_path / "B", Recipe.made(str(path), CHOSEN | {"epochs": 3}, "small"))
    updates = iter(range(1, 49))
    for _ in run.go(stop=lambda: next(updates) == 21):
        pass
    assert (run.status, run.info["update"]) == ("interrupted", 21)
    for _ in Run(tmp_path / "B").go():
        pass
    a, b = whole.machine("last"), Run(tmp_path / "B").machine("last")
    assert torch.equal(a.patterns, b.patterns)


def test_a_value_in_the_middle_ends_a_run_that_can_go_on(path, tmp_path, monkeypatch):
    monkeypatch.setattr("rapidbm.data.stored.SURVEYED", 2)  # so that nobody looks at it before
    monkeypatch.setattr("rapidbm.data.stored.ROWS", 20)
    values = np.load(path)
    values[0] = 1 - values[0]  # a constant column would be looked for in all rows
    np.save(path, values)
    whole = run_on(path, tmp_path / "A", epochs=3)
    values[777, 3] = 5
    np.save(path, values)
    run = Run.create(tmp_path / "B", Recipe.made(str(path), CHOSEN | {"epochs": 3}, "small"))
    with pytest.raises(InputError, match="row 778, column 4 holds 5"):
        for _ in run.go():
            pass
    assert run.status == "failed"
    values[777, 3] = (777 >> 3) & 1
    np.save(path, values)
    for _ in Run(tmp_path / "B").go():
        pass
    a, b = whole.machine("last"), Run(tmp_path / "B").machine("last")
    assert torch.equal(a.patterns, b.patterns)


# -- what is measured on some of the rows -------------------------------------------------------------


def test_the_interval_of_a_likelihood_knows_that_rows_were_drawn(split, monkeypatch):
    monkeypatch.setattr("rapidbm.data.stored.ROWS", 100)
    machine = rb.rbm(VISIBLE, 8, seed=0)
    machine.couplings.weights["0-1"].data.mul_(20)
    found = rb.log_likelihood(machine, split)
    z = rb.log_z(machine, method="exact")
    truth = machine.log_prob_unnormalised(split.take(slice(0, 800)).spins).mean(1) - z.value
    assert found.method == "rows"
    assert "100 of 800 rows" in found.effort
    assert found.lower < truth < found.upper
    each = machine.log_prob_unnormalised(split.in_memory().spins)
    error = each.std(1, correction=0) * (0.875 / 100) ** 0.5
    assert torch.allclose(found.error, error)
    mean = mean_log_p(machine, split.in_memory(), rb.log_z(machine, method="exact"))
    assert torch.allclose(mean.error, error)
    plain = rb.log_likelihood(machine, split.in_memory().spins)
    assert plain.method == "exact"
    assert torch.equal(plain.value, found.value)


def test_measures_take_some_rows(split):
    machine = rb.rbm(VISIBLE, 8, seed=0)
    some = split.in_memory()
    assert torch.equal(
        rb.hamming_distance(machine, split, seed=0), rb.hamming_distance(machine, some, seed=0)
    )
    found = rb.evaluate(machine, split, likelihood="none")
    assert "free_energy_data" in found.rows
