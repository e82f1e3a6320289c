"""Steps of optimisers by kernels against the plain path: on a GPU if there is one, else in Triton's
interpreter."""

import math

import pytest
import torch

from rapidbm.accel import fused, moves
from rapidbm.accel.rounding import current, precision
from rapidbm.machines.constructors import dbm, rbm
from rapidbm.random import stream
from rapidbm.training.negative import Persistent
from rapidbm.training.optimisers import TorchOptimizer, adam, sgd
from rapidbm.training.projections import Clip, Sign
from rapidbm.training.trainer import Trainer

pytest.importorskip("triton")
from rapidbm.accel.kernels import moves as kernel

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ROUNDING = {"rtol": 1e-5, "atol": 1e-6}  # a sum of three numbers near 1 may be rounded in other places
FEW = 3  # steps
pytestmark = [
    pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning"),
]

MACHINES = {
    "patterns": lambda: rbm(5, 8, 3, continuous=True, **OPTIONS),
    "patterns with biases": lambda: rbm(5, 8, 3, continuous=True, biases=True, **OPTIONS),
    "dense": lambda: rbm(5, 8, biases=True, **OPTIONS),
    "deep": lambda: dbm(4, (5, 3), biases=True, **OPTIONS),
}
OPTIONS = {"replicas": 3, "scale": 0.5, "seed": 1, "device": DEVICE}
OPTIMISERS = {
    "sgd": sgd(0.1),
    "a rate each": sgd([0.1, 0.3, 0.02], weight_decay=0.5),
    "momentum": sgd(0.1, momentum=0.7, weight_decay=0.5),
    "adam": adam(0.1),
    "adam by epochs": adam([0.1, 0.3, 0.02], betas=(0.5, 0.9), weight_decay=0.5, clock="epoch"),
}
QUICK = {  # each machine and each optimiser; all pairs are slow
    ("patterns", "sgd"),
    ("patterns", "adam by epochs"),
    ("patterns with biases", "adam"),
    ("dense", "momentum"),
    ("deep", "a rate each"),
}


def pairs(first, second, quick):
    return [
        pytest.param(a, b, marks=() if (a, b) in quick else pytest.mark.slow)
        for a in first
        for b in second
    ]


@pytest.fixture(autouse=True)
def not_rounded():
    """Unless a test says so: where nobody chooses, trainings on a GPU are rounded."""
    with precision("float32"):
        yield


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """A parameter has several blocks, the last of them not full, as in a large machine."""
    monkeypatch.setattr(kernel, "BLOCK", 16)
    monkeypatch.setattr(kernel, "KEEPERS", 2)
    monkeypatch.setattr(fused, "_refused", set())


def trainer_of(machine, optimizer, projection=None):
    rows = torch.ones((4, machine.visible), dtype=torch.int8, device=DEVICE)
    rows[0] = -1  # no column is constant
    if projection is None and machine.patterns is not None:
        projection = Clip(1)
    options = {"epochs": 9, "batch_size": 2, "projection": projection, "seed": 0}
    return Trainer(machine, rows, Persistent(4, 1), optimizer, **options)


def gradients_of(machine, number):
    rng = stream(number, "gradients")
    return {
        name: torch.randn(p.shape, generator=rng).to(DEVICE) for name, p in machine.named_parameters()
    }


@torch.no_grad()
def moved(
    monkeypatch, trainer, steps, *, by_kernels, spoil=lambda gradients: None, rates=None, devices=None
):
    """The trainer's state after so many steps and before the last, whose gradient is spoilt."""
    either = ("cuda", "cpu") if by_kernels else ()
    monkeypatch.setattr(fused, "DEVICES", either if devices is None else devices)
    for i in range(steps):
        gradients = gradients_of(trainer.machine, i)
        if i == steps - 1:
            before = trainer.state()
            spoil(gradients)
        each = trainer.rates(i) if rates is None else rates
        served = trainer.stepper.by_kernels(gradients, each, True, trainer.rng)
        assert served == by_kernels
        if not served:
            trainer.stepper.plainly(gradients, each, True, trainer.rng)
    return trainer.state(), before


def assert_close(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if value.is_floating_point():
            assert torch.allclose(found[name], value, **ROUNDING, equal_nan=True), name
        else:
            assert torch.equal(found[name], value), name


@pytest.mark.parametrize(("machine", "optimizer"), pairs(MACHINES, OPTIMISERS, QUICK))
def test_steps_are_those_of_the_plain_path(monkeypatch, machine, optimizer):
    ends = []
    for by_kernels in (True, False):
        trainer = trainer_of(MACHINES[machine](), OPTIMISERS[optimizer])
        begun = trainer.state()
        end, _ = moved(monkeypatch, trainer, FEW, by_kernels=by_kernels)
        ends.append(end)
    assert_close(*ends)
    for name, value in begun.items():
        if name.startswith("parameter/"):
            change = (ends[0][name] - value).abs().flatten(1).amax(1)
            assert bool((change > 100 * ROUNDING["atol"]).all()), name  # in every replica


def test_patterns_are_clipped_and_biases_are_not(monkeypatch):
    trainer = trainer_of(MACHINES["patterns with biases"](), sgd(3.0, momentum=0.5), Clip(0.25))
    end, _ = moved(monkeypatch, trainer, FEW, by_kernels=True)
    assert end["parameter/couplings.patterns"].abs().max() == 0.25
    assert end["parameter/biases"].abs().max() > 1.0


def test_nothing_is_clipped_in_updates_that_do_not_project(monkeypatch):
    monkeypatch.setattr(fused, "DEVICES", ("cuda", "cpu"))
    trainer = trainer_of(MACHINES["patterns"](), sgd(3.0), Clip(0.25, every="epoch"))
    with torch.no_grad():
        gradients = gradients_of(trainer.machine, 0)
        assert trainer.stepper.by_kernels(gradients, (3.0,), False, trainer.rng)
    assert trainer.machine.patterns.abs().max() > 1.0


def test_other_projections_come_after_the_step(monkeypatch):
    ends = [
        moved(
            monkeypatch,
            trainer_of(MACHINES["patterns"](), sgd(0.5), Sign("update")),
            FEW,
            by_kernels=by_kernels,
        )[0]
        for by_kernels in (True, False)
    ]
    assert_close(*ends)
    assert set(ends[0]["parameter/couplings.patterns"].unique().tolist()) == {-1.0, 1.0}


LARGE = 3e38  # and two of them are infinite
SPOILT = {
    "infinite": ("patterns", {"couplings.patterns": [math.inf]}),
    "no number": ("patterns", {"couplings.patterns": [math.nan]}),
    "too large for energies": ("patterns", {"couplings.patterns": [1.9e19]}),
    "its sum too large for energies": ("patterns", {"couplings.patterns": [1e18] * 20}),
    "large": ("patterns", {"couplings.patterns": [1e19]}),
    "a bias": ("patterns with biases", {"biases": [-math.inf]}),
    "large biases": ("patterns with biases", {"biases": [1e38, -1e38]}),
    "biases whose sum is infinite": ("patterns with biases", {"biases": [LARGE, -LARGE]}),
    "large couplings": ("dense", {"couplings.weights.0-1": [1e38, -1e38]}),
    "couplings whose sum is infinite": ("dense", {"couplings.weights.0-1": [LARGE, -LARGE]}),
    "couplings and biases apart": ("dense", {"couplings.weights.0-1": [LARGE], "biases": [LARGE]}),
    "edges whose sum is infinite": (
        "deep",
        {"couplings.weights.0-1": [LARGE], "couplings.weights.1-2": [LARGE]},
    ),
}
LIVES = {"large", "large biases", "large couplings", "couplings and biases apart"}


QUICK_CASES = {("infinite", 0.0), ("large biases", 0.0), *((case, 0.5) for case in SPOILT)}


@pytest.mark.parametrize(("case", "momentum"), pairs(SPOILT, (0.0, 0.5), QUICK_CASES))
def test_a_replica_that_diverges_stays_where_it_was(monkeypatch, case, momentum):
    machine, values = SPOILT[case]

    def spoil(gradients):
        for name, some in values.items():
            flat = gradients[name][1].flatten()  # values stand apart, in several blocks
            flat[:: flat.numel() // len(some)][: len(some)] = torch.tensor(some, device=DEVICE)
            gradients[name][1] = flat.view(gradients[name][1].shape)

    ends = []
    for by_kernels in (True, False):
        trainer = trainer_of(MACHINES[machine](), sgd(1.0, momentum=momentum))
        end, before = moved(monkeypatch, trainer, FEW, by_kernels=by_kernels, spoil=spoil)
        ends.append(end)
        assert trainer.diverged() == (() if case in LIVES else (1,))
        for name, value in before.items():
            if name.startswith("parameter/"):
                assert torch.equal(end[name][1], value[1]) == (case not in LIVES), name
                assert not torch.equal(end[name][0], value[0])
                assert bool(end[name].isfinite().all())
    assert_close(*ends)


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_who_is_dead_stays_dead(monkeypatch, optimizer):
    """And the optimiser's memory of it goes on, as in the plain path."""
    ends = []
    for by_kernels in (True, False):
        trainer = trainer_of(MACHINES["patterns"](), OPTIMISERS[optimizer])
        trainer.status.alive[2] = False
        before = trainer.machine.patterns.detach().clone()
        end, _ = moved(monkeypatch, trainer, FEW, by_kernels=by_kernels)
        assert torch.equal(trainer.machine.patterns[2], before[2])
        assert trainer.diverged() == (2,)
        ends.append(end)
    assert_close(*ends)


def test_rates_may_be_numbers_or_tensors(monkeypatch):
    """As the host and as a graph have them: to the same bits."""
    for rates in ((0.1,), (0.1, 0.3, 0.02)):
        ends = []
        for given in (rates, torch.tensor([*rates, 7.0], dtype=torch.float64, device=DEVICE)[:-1]):
            trainer = trainer_of(MACHINES["patterns"](), sgd(rates if len(rates) > 1 else rates[0]))
            end, _ = moved(monkeypatch, trainer, 1, by_kernels=True, rates=given)
            ends.append(end["parameter/couplings.patterns"])
        assert torch.equal(*ends)


def test_gradients_may_lie_in_memory_in_any_order(monkeypatch):
    ways = (
        lambda g: g,
        lambda g: torch.cat([g, g], -1)[..., : g.shape[-1]],  # rows apart
        lambda g: torch.cat([g, g], 1)[:, : g.shape[1]],  # replicas apart
        lambda g: g.mT.contiguous().mT,
        lambda g: g.double(),
    )
    ends = []
    for way in ways:

        def spoil(gradients, way=way):
            gradients["couplings.patterns"] = way(gradients["couplings.patterns"])

        trainer = trainer_of(MACHINES["patterns"](), sgd(0.1))
        ends.append(moved(monkeypatch, trainer, 1, by_kernels=True, spoil=spoil)[0])
    for end in ends[1:]:
        assert torch.equal(end["parameter/couplings.patterns"], ends[0]["parameter/couplings.patterns"])


def test_what_is_left_to_the_plain_path(monkeypatch):
    monkeypatch.setattr(fused, "DEVICES", ("cuda", "cpu"))
    gradients = gradients_of(MACHINES["patterns"](), 0)
    for machine, optimizer in (
        (MACHINES["patterns"]().double(), sgd(0.1)),
        (MACHINES["patterns"](), TorchOptimizer("SGD", 0.1)),
    ):
        trainer = trainer_of(machine, optimizer)
        assert not trainer.stepper.by_kernels(gradients, (0.1,), True, trainer.rng)
    monkeypatch.setattr(moves, "MOST", 8 * 3)
    trainer = trainer_of(MACHINES["patterns"](), sgd(0.1))
    assert not trainer.stepper.by_kernels(gradients, (0.1,), True, trainer.rng)


def test_a_step_that_is_refused_is_made_once_by_the_plain_path(monkeypatch):
    ends = []
    for devices in (("cuda", "cpu"), ()):
        monkeypatch.setattr(fused, "_refused", {("steps", current())})
        trainer = trainer_of(MACHINES["patterns"](), adam(0.1))
        end, _ = moved(monkeypatch, trainer, FEW, by_kernels=False, devices=devices)
        assert int(end["optimizer/steps"]) == FEW
        ends.append(end["parameter/couplings.patterns"])
    assert torch.equal(*ends)
