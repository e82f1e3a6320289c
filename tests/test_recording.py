"""Updates that a CPU repeats leave the same bits as updates that it runs as they are."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import rapidbm as rb
from rapidbm.accel import elementwise, executors, recording
from rapidbm.training.negative import (
    ContrastiveDivergence,
    Exact,
    PatternInduced,
    Persistent,
    Tempered,
)
from rapidbm.training.optimisers import adam, sgd
from rapidbm.training.positive import ClampedChains, Enumerated, MeanField
from rapidbm.training.projections import Clip, GibbsProjection, Sign
from rapidbm.training.trainer import Trainer

pytestmark = pytest.mark.filterwarnings("ignore::rapidbm.FitWarning", "ignore::rapidbm.LoadWarning")
SPINS = torch.where(torch.arange(25 * 6).reshape(25, 6) * 7 % 11 < 4, 1, -1)  # batches of 10, 10, 5
UPDATES = 15


def dense(**more):
    return rb.rbm(6, 5, seed=1, biases=True, **more)


def axons(**more):
    return rb.rbm(6, 5, 3, seed=1, continuous=True, **more)


def deep(**more):
    return rb.dbm(6, (4, 3), seed=1, **more)


def full(**more):
    return rb.bm(6, 3, 3, seed=1, continuous=True, **more)


def full_dense(**more):
    return rb.bm(6, 3, seed=1, biases=True, **more)


PCD = Persistent(8, 2)
CASES = {
    "pcd": (dense, PCD, adam(0.01), {}),
    "pcd, mortal": (dense, Persistent(8, 2, lifetime=5), adam(0.01), {}),
    "axons": (axons, PCD, sgd(0.05), {"projection": Clip()}),
    "cd": (dense, ContrastiveDivergence(1), sgd(0.05, momentum=0.5, weight_decay=0.1), {}),
    "pid": (axons, PatternInduced(), sgd(0.05), {"projection": Sign("update")}),
    "pid, swept": (axons, PatternInduced(1), adam(0.01), {"projection": GibbsProjection()}),
    "pid, all units": (axons, PatternInduced(0, "all"), sgd(0.05), {"projection": Sign()}),
    "pt": (dense, Tempered(6, 3), sgd(0.05), {}),
    "exact": (dense, Exact(), adam(0.01, weight_decay=0.1), {}),
    "exact, axons": (axons, Exact(), sgd(0.05), {}),
    "average": (dense, PCD, sgd(0.05), {"average": 4}),
    "nominal": (dense, PCD, sgd(0.05), {"batch_mean": "nominal"}),
    "fall": (dense, PCD, sgd(0.05, fall="cosine"), {}),
    "clock": (dense, PCD, adam(0.01, clock="epoch"), {}),
    "rates": (dense, PCD, adam((0.01, 0.02, 0.03)), {}),
    "deep": (deep, PCD, sgd(0.05), {"positive": MeanField(3)}),
    "deep, enumerated": (deep, PCD, sgd(0.05), {"positive": Enumerated()}),
    "full": (full, PCD, sgd(0.05), {"positive": ClampedChains(2)}),
    "full, dense": (full_dense, PCD, sgd(0.05), {}),
}
cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def trainer(case, **more) -> Trainer:
    make, negative, optimizer, options = case
    return Trainer(
        make(replicas=3, **more), SPINS, negative, optimizer, epochs=9, batch_size=10, seed=4, **options
    )


def advance(made: Trainer, updates: int = UPDATES) -> dict[str, torch.Tensor]:
    for _ in range(updates):
        made.step()
    return made.state()


def as_it_is(case, updates: int = UPDATES, **more) -> dict[str, torch.Tensor]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording, "AFTER", 10**9)
        return advance(trainer(case, **more), updates)


def same(found, wanted) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert torch.equal(found[name].nan_to_num(7.0), value.nan_to_num(7.0)), name


def repeats(made: Trainer) -> int:
    """Kinds of updates that it repeats."""
    assert not made.executor.replay.refused
    return len(made.executor.replay.trusted)


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(recording, "AFTER", 2)


@cases
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_repeated_update_leaves_the_same_bits(case, dtype):
    made = trainer(case, dtype=dtype)
    same(advance(made), as_it_is(case, dtype=dtype))
    assert repeats(made) == 2  # whole batches, and the last of an epoch


def test_many_random_numbers_are_drawn_again(monkeypatch):
    monkeypatch.setattr(elementwise, "MANY", 8)
    made = trainer(CASES["pcd"])
    same(advance(made), as_it_is(CASES["pcd"]))
    assert repeats(made)


def test_a_replica_that_diverges_while_updates_are_repeated_stays_where_it_was():
    case = (dense, PCD, sgd((0.05, 0.05, 0.05), momentum=0.9), {})
    made, other = trainer(case), trainer(case)
    for one in (made, other):
        if one is other:
            one.executor.replay.refused = "not this one"
        advance(one)
        one.stepper.updater.speed["biases"][1] = torch.inf
        kept = one.machine.biases[1].detach().clone()
        advance(one, 3)
        assert one.diverged() == (1,)
        assert torch.equal(one.machine.biases[1], kept)
    same(made.state(), other.state())
    assert repeats(made)


@pytest.mark.parametrize("at", [1, 4, 11])
def test_a_training_resumed_beside_repeated_updates_is_the_same(at):
    whole = trainer(CASES["average"])
    first = trainer(CASES["average"])
    second = trainer(CASES["average"])
    second.load(advance(first, at))
    same(advance(second, 20 - at), advance(whole, 20))
    first.load(first.state())  # goes on in the same trainer, its chains elsewhere
    same(advance(first, 20 - at), whole.state())


def test_parameters_that_moved_in_memory_are_found():
    made = trainer(CASES["pcd"])
    advance(made)
    made.machine.biases.data = made.machine.biases.data.clone()
    same(advance(made), as_it_is(CASES["pcd"], 2 * UPDATES))


def test_values_written_between_updates_count():
    made, other = trainer(CASES["pcd"]), trainer(CASES["pcd"])
    other.executor.replay.refused = "not this one"
    for one in (made, other):
        advance(one)
        one.machine.biases.data.add_(0.5)
        advance(one)
    same(made.state(), other.state())
    assert repeats(made)


@dataclass(frozen=True)
class Looking(Persistent):
    """A phase that promises too much: it looks at a value."""

    capturable: ClassVar[bool] = True

    def step(self, machine, chains, data, rng):
        return super().step(machine, chains if bool((chains.sum() > -1e9).all()) else -chains, data, rng)


@dataclass(frozen=True)
class Counting(Persistent):
    """The same with a number that changes and lies in no tensor."""

    capturable: ClassVar[bool] = True
    calls: ClassVar[list[int]] = []

    def step(self, machine, chains, data, rng):
        self.calls.append(0)
        model, chains = super().step(machine, chains, data, rng)
        return model.times(1.0 + 0.01 * len(self.calls)), chains


@dataclass(frozen=True)
class Elsewhere(Persistent):
    """The same with random numbers of its own."""

    capturable: ClassVar[bool] = True

    def step(self, machine, chains, data, rng):
        torch.rand(3)
        return super().step(machine, chains, data, rng)


@pytest.mark.parametrize(
    ("phase", "why"), [(Looking, "host"), (Counting, "else"), (Elsewhere, "generator")]
)
def test_what_cannot_be_repeated_runs_as_it_is(phase, why):
    case = (dense, phase(8, 1), sgd(0.05), {})
    with torch.random.fork_rng():  # one of them draws from torch's own generator
        Counting.calls.clear()
        wanted = as_it_is(case)
        Counting.calls.clear()
        made = trainer(case)
        same(advance(made), wanted)
    assert why in made.executor.replay.refused


def test_memory_that_nothing_reads_any_more_serves_again():
    start, ends = torch.arange(1000.0), torch.zeros(2, 1000)

    def work(end, factor):
        ones, value = start > -1, start
        for _ in range(9):
            value = value * factor + 1.0
        ends[end].copy_(value * ones)

    recorded, wanted = recording.Recordings(), torch.zeros(2, 1000)
    for _ in range(6):
        for end, factor in enumerate((0.5, 2.0)):
            recorded.run(end, lambda end=end, factor=factor: work(end, factor))
    for end, factor in enumerate((0.5, 2.0)):
        ends.zero_()
        start += 1.0
        recorded.run(end, lambda: 1 / 0)
        wanted.copy_(ends)
        work(end, factor)
        assert torch.equal(ends, wanted)
        assert bool(ends[end].any())
    assert len(recorded.trusted) == 2
    # `ones` is needed to the end. Of the values two at a time are, whoever makes them.
    assert sorted(memory.nbytes() for memory in recorded.lent) == [1000, 4000, 4000]


def test_much_memory_is_not_held(monkeypatch):
    monkeypatch.setattr(recording, "MOST", 1000)
    made = trainer(CASES["pcd"])
    same(advance(made), as_it_is(CASES["pcd"]))
    assert "memory" in made.executor.replay.refused


class Listener(TorchDispatchMode):
    calls = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.calls += 1
        return function(*args, **(kwargs or {}))


def test_whoever_listens_hears_all_calls():
    made = trainer(CASES["pcd"])
    counts = []
    for _ in range(9):
        with Listener() as listener:
            made.step()
        counts.append(listener.calls)
    assert not made.executor.replay.trusted
    assert counts[4] == counts[7] > 50
    same(advance(made, UPDATES - 9), as_it_is(CASES["pcd"]))


def test_an_interrupted_update_is_not_counted_as_recorded(monkeypatch):
    made = trainer(CASES["pcd"])
    advance(made, 2)
    gradient = Trainer.gradient
    monkeypatch.setattr(Trainer, "gradient", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        made.step()
    monkeypatch.setattr(Trainer, "gradient", gradient)
    same(advance(made, UPDATES - 2), as_it_is(CASES["pcd"]))
    assert repeats(made)


def test_parts_that_do_not_promise_run_as_they_are():
    case = (dense, PCD, lambda parameters: torch.optim.SGD(parameters, 0.05), {})
    made = trainer(case)
    assert isinstance(made.executor, executors.Eager)
    assert isinstance(trainer(CASES["pcd"]).executor, executors.RecordingExecutor)
