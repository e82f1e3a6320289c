import math
import sys

import pytest
import torch

from rapidbm.data.catalogue import load
from rapidbm.errors import InputError, LoadWarning
from rapidbm.likelihood.log_z import log_likelihood
from rapidbm.machines.constructors import bm, dbm, rbm
from rapidbm.machines.machine import stack
from rapidbm.random import stream
from rapidbm.runs.metrics import hamming_distance
from rapidbm.training.negative import ContrastiveDivergence, Exact, PatternInduced, Persistent
from rapidbm.training.optimisers import TorchOptimizer, adam, sgd
from rapidbm.training.positive import ConditionalMean
from rapidbm.training.projections import Clip, GibbsProjection, Sign
from rapidbm.training.train import train
from rapidbm.training.trainer import Trainer

BARS = load("bars4").train


def finish(machine, negative, optimizer, **options):
    for _ in train(
        machine, BARS, negative, optimizer, **{"epochs": 3, "batch_size": 4, "seed": 5, **options}
    ):
        pass
    return machine


def parameters(machine):
    return [p.detach().clone() for p in machine.parameters()]


CASES = {
    "rapid": lambda: (
        rbm(16, 20, 4, replicas=2, seed=0),
        PatternInduced(),
        sgd(0.02),
        {"projection": Sign()},
    ),
    "pid-gibbs": lambda: (
        rbm(16, 20, 4, replicas=2, seed=0),
        PatternInduced(2),
        sgd(0.02, momentum=0.5, decay=0.9),
        {"projection": Clip(), "batch_mean": "nominal"},
    ),
    "gibbs-projection": lambda: (
        rbm(16, 20, 4, replicas=2, seed=0),
        PatternInduced(1),
        sgd(0.02),
        {"projection": GibbsProjection()},
    ),
    "pcd": lambda: (
        rbm(16, 20, biases=True, replicas=2, seed=0),
        Persistent(9, 2),
        adam(1e-2),
        {"average": 4},
    ),
    "dbm": lambda: (
        dbm(16, (6, 5), 3, replicas=2, seed=0),
        Persistent(9),
        adam(1e-2, fall="linear"),
        {},
    ),
    "released": lambda: (
        rbm(16, 20, replicas=2, seed=0),
        ContrastiveDivergence(2),
        adam((1e-2, 2e-2), clock="epoch"),
        {},
    ),
    "bm": lambda: (bm(16, 4, 2, replicas=2, seed=0), ContrastiveDivergence(2), adam(1e-2), {}),
    "exact": lambda: (rbm(16, 4, replicas=2, seed=0), Exact(), sgd(0.1), {}),
    "torch": lambda: (
        rbm(16, 20, replicas=2, seed=0),
        ContrastiveDivergence(),
        TorchOptimizer("RMSprop", 1e-3),
        {},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_same_seed_same_bits_and_resuming_anywhere_changes_nothing(case):
    machine, negative, optimizer, options = CASES[case]()
    finish(machine, negative, optimizer, **options)
    again, *_ = CASES[case]()
    finish(again, negative, optimizer, **options)
    for a, b in zip(parameters(machine), parameters(again), strict=True):
        assert torch.equal(a, b)
        assert bool(torch.isfinite(a).all())
    for stop in (1, 2, 3, 7, 9):
        part, *_ = CASES[case]()
        common = {"epochs": 3, "batch_size": 4, "seed": 5, **options}
        for progress in train(part, BARS, negative, optimizer, every="update", **common):
            hamming_distance(part, BARS, progress.rng, tries=1)  # looking changes nothing
            if progress.update == stop:
                state = progress.state()
                break
        fresh, *_ = CASES[case]()
        for _ in train(fresh, BARS, negative, optimizer, state=state, **common):
            pass
        for a, b in zip(parameters(machine), parameters(fresh), strict=True):
            assert torch.equal(a, b)


def test_the_machine_moves_and_another_seed_moves_it_elsewhere():
    start = parameters(CASES["rapid"]()[0])
    ends = []
    for seed in (1, 2):
        machine, negative, optimizer, _ = CASES["rapid"]()
        finish(machine, negative, optimizer, seed=seed)
        assert not torch.equal(parameters(machine)[0], start[0])
        ends.append(parameters(machine)[0])
    assert not torch.equal(*ends)


def test_exact_training_climbs_the_likelihood():
    machine = rbm(16, 8, replicas=2, seed=0, dtype=torch.float64)
    values = [log_likelihood(machine, BARS.spins).lower]
    for _ in train(machine, BARS, Exact(), sgd(0.1), epochs=60, batch_size=10, seed=0):
        values.append(log_likelihood(machine, BARS.spins).lower)
    gains = torch.stack(values).diff(dim=0)
    assert bool((gains > 0).all())  # full batches: every step of gradient ascent climbs
    assert bool((values[-1] > values[0] + 2).all())


def test_rapid_learns_the_bars():
    machine = rbm(16, 300, 8, replicas=10, seed=1)
    before = float(hamming_distance(machine, BARS, stream(0)).mean())
    for progress in train(
        machine,
        BARS,
        PatternInduced(),
        sgd(0.02, decay=0.96, floor=1e-5),
        epochs=60,
        batch_size=3,
        projection=Sign(),
        batch_mean="nominal",
        seed=1,
    ):
        rng = progress.rng
    assert float(hamming_distance(machine, BARS, rng).mean()) < 0.12 < before


def test_replicas_do_not_meet():
    """With the same numbers, a replica in an ensemble takes the step it takes alone."""
    whole = rbm(16, 20, 4, replicas=3, seed=0, dtype=torch.float64)
    alone = [whole.replica(i) for i in range(3)]

    def trainer(machine):
        return Trainer(
            machine,
            BARS.spins,
            PatternInduced(),
            sgd(0.02),
            epochs=2,
            batch_size=10,  # the whole set: the order of the images does not matter
            positive=ConditionalMean(),
            projection=Sign(),
            seed=0,
        )

    together = trainer(whole)
    for _ in range(2):
        together.step()
    for one in alone:
        single = trainer(one)
        for _ in range(2):
            single.step()
    again = stack(alone)
    assert torch.allclose(again.patterns, whole.patterns, atol=1e-12)


def test_each_replica_has_its_own_order():
    trainer = Trainer(
        rbm(16, 4, replicas=3, seed=0),
        BARS.spins,
        Persistent(2),
        sgd(0.1),
        epochs=2,
        batch_size=4,
        seed=0,
    )
    batches = trainer.batches
    taken = [batches.taken(0, 0, i) for i in range(3)]
    assert [rows.shape[1] for rows in taken] == [4, 4, 2]
    whole = batches.spins(torch.cat(taken, 1))
    assert not torch.equal(whole[0], whole[1])
    for e in range(3):
        rows = sorted(map(tuple, whole[e].int().tolist()))
        assert rows == sorted(map(tuple, BARS.spins.tolist()))
    for seed, epoch in ((0, 1), (1, 0)):  # and another one in the next epoch, or of another seed
        assert not torch.equal(batches.taken(seed, epoch, 0), taken[0])
    assert torch.equal(batches.taken(0, 0, 1), taken[1])  # whatever was asked for before
    assert torch.equal(batches.taken(0, 0, 1, slice(1, 3)), taken[1][:, 1:3])


def test_the_nominal_divisor_weakens_the_positive_phase_of_the_last_batch():
    moves = {}
    for mean in ("true", "nominal"):
        machine = rbm(16, 8, seed=0, dtype=torch.float64, scale=0.5)
        start = machine.couplings.matrix(0, 1).detach().clone()
        rows = BARS.spins[:1].repeat(3, 1)  # one image: a batch of 1 against a nominal 4
        for _ in train(
            machine,
            rows,
            Persistent(500, 5),
            sgd(1.0),
            epochs=1,
            batch_size=4,
            batch_mean=mean,
            seed=0,
        ):
            pass
        moves[mean] = machine.couplings.matrix(0, 1).detach() - start
    image = BARS.spins[:1].double()
    machine = rbm(16, 8, seed=0, dtype=torch.float64, scale=0.5)
    hidden = machine.hidden_mean(image).detach()
    positive = image[0][:, None] * hidden[0]  # v_i ⟨h_α⟩
    wanted = -0.25 * positive  # 3/4 of the positive phase instead of the whole
    assert torch.allclose(moves["nominal"] - moves["true"], wanted[None], atol=1e-12)


def test_the_projection_comes_with_the_last_update_of_an_epoch():
    machine = rbm(16, 20, 4, seed=0)
    options = {"epochs": 2, "batch_size": 4, "projection": Sign(), "seed": 0}
    for progress in train(machine, BARS, PatternInduced(), sgd(0.01), every="update", **options):
        spins = bool((machine.patterns.abs() == 1).all())
        assert spins == progress.epoch_end


def test_the_rates_that_the_updater_gets():
    machine = rbm(16, 8, seed=0)
    trainer = Trainer(
        machine,
        BARS.spins,
        ContrastiveDivergence(),
        sgd(0.1, decay=0.5, after=1, fall="linear"),
        epochs=4,
        batch_size=5,
        seed=0,
    )
    seen = []
    plain = trainer.stepper.updater.step
    trainer.stepper.updater.step = lambda gradients, rates: (
        seen.append(float(rates[0])) or plain(gradients, rates)
    )
    for _ in trainer.run("epoch"):
        pass
    wanted = [0.1 * 0.5 ** max(0, u // 2 - 1) * (1 - u / 8) for u in range(8)]
    assert seen == pytest.approx(wanted)


def test_adams_clock_ticks_with_the_epochs():
    """Of one image per batch Adam per epoch is Adam whose divisors stand still during an epoch."""

    def trained(clock, **options):
        machine = rbm(16, 8, replicas=2, seed=0, dtype=torch.float64)
        finish(machine, Exact(), adam(1e-2, clock=clock), **options)
        return parameters(machine)[0]

    one, other = (trained(clock, epochs=2, batch_size=1) for clock in ("update", "epoch"))
    assert not torch.allclose(one, other, atol=1e-3)
    # An epoch of one update: both clocks tick alike.
    one, other = (trained(clock, epochs=4, batch_size=10) for clock in ("update", "epoch"))
    assert torch.equal(one, other)
    # The trainer tells the optimiser how long an epoch is.
    machine = rbm(16, 8, seed=0, dtype=torch.float64)
    trainer = Trainer(
        machine, BARS.spins, Exact(), adam(1e-2, clock="epoch"), epochs=1, batch_size=3, seed=0
    )
    assert trainer.stepper.updater.per_tick == 4


def test_one_bad_gradient_of_several_is_enough():
    machine = rbm(16, 8, biases=True, replicas=2, seed=0)
    machine.couplings.weights["0-1"].data[0] = math.nan
    for progress in train(machine, BARS, Persistent(4), sgd(0.1), epochs=1, batch_size=10, seed=0):
        assert progress.diverged == (0,)
    healthy = rbm(16, 8, biases=True, replicas=2, seed=0)
    trainer = Trainer(
        healthy, BARS.spins, Persistent(4), sgd(0.1), epochs=1, batch_size=10, positive=None,
        projection=None, batch_mean="true", average=None, seed=0,
    )  # fmt: skip
    gradients = {name: torch.ones_like(p) for name, p in healthy.named_parameters()}
    first = next(iter(gradients))
    gradients[first][1] = math.inf
    trainer.stepper.plainly(gradients, (0.1,), False, trainer.rng)
    assert trainer.diverged() == (1,)


def test_a_rate_per_replica():
    machine = rbm(16, 20, 4, replicas=2, seed=0)
    start = machine.patterns.detach().clone()
    finish(machine, PatternInduced(), sgd((1e-9, 0.02)))
    moved = (machine.patterns.detach() - start).abs().amax((1, 2))
    assert float(moved[0]) < 1e-5 < float(moved[1])


def test_a_replica_that_diverges_is_frozen_and_the_others_go_on():
    rates = (0.01, 1e5, 0.01)
    machine = rbm(16, 20, 4, replicas=3, seed=0)
    reported = []
    for progress in train(machine, BARS, PatternInduced(), sgd(rates), epochs=40, batch_size=4, seed=0):
        reported.append(progress.diverged)
    assert reported[-1] == (1,)
    assert bool(torch.isfinite(machine.patterns).all())
    calm = rbm(16, 20, 4, replicas=3, seed=0)
    for _ in train(calm, BARS, PatternInduced(), sgd((0.01,) * 3), epochs=40, batch_size=4, seed=0):
        pass
    for i in (0, 2):
        assert torch.equal(machine.patterns[i], calm.patterns[i])


def test_a_poisoned_replica_keeps_its_parameters():
    machine = rbm(16, 20, 4, replicas=2, biases=True, seed=0)
    machine.couplings.patterns.data[0, 1, 3] = math.nan
    frozen = machine.patterns[0].detach().clone()
    for progress in train(
        machine,
        BARS,
        Persistent(5),
        adam(0.01, weight_decay=0.1),
        epochs=3,
        batch_size=4,
        projection=Sign("update"),
        seed=0,
    ):
        pass
    assert progress.diverged == (0,)
    assert torch.allclose(machine.patterns[0], frozen, rtol=0, atol=0, equal_nan=True)
    assert bool(torch.isfinite(machine.patterns[1]).all())


def test_the_average_follows_the_parameters():
    machine = rbm(16, 4, seed=0, dtype=torch.float64)
    path = []
    for progress in train(
        machine, BARS, Exact(), sgd(0.1), epochs=4, batch_size=4, average=5, every="update", seed=0
    ):
        path.append(machine.couplings.matrix(0, 1).detach().clone())
    mean = path[0]
    for i, value in enumerate(path[1:], 2):
        share = max(1 / 5, 1 / i)
        mean = mean + share * (value - mean)
    assert torch.allclose(progress.averaged().couplings.matrix(0, 1), mean, atol=1e-12)
    assert not torch.allclose(mean, path[-1], atol=1e-6)


def test_the_average_is_of_projected_patterns():
    machine = rbm(16, 8, 3, seed=0)
    options = {"epochs": 2, "batch_size": 4, "projection": Clip(1.0), "average": 2, "seed": 0}
    for progress in train(machine, BARS, PatternInduced(), sgd(5.0), **options):
        pass
    assert float(progress.averaged().patterns.detach().abs().max()) <= 1.0


def test_patterns_within_their_clip_stay_where_they_are():
    def projected(projection, scale=1.0):
        machine = rbm(16, 8, 3, seed=0)
        machine.patterns.data.mul_(scale)
        options = {"epochs": 1, "batch_size": 4, "projection": projection, "seed": 0}
        return Trainer(machine, BARS, PatternInduced(), sgd(0.1), **options).stepper.settled

    assert projected(Clip(1.0))
    assert not projected(Clip(1.0), scale=1.5)
    assert not projected(Clip(1.0, every="epoch"))
    assert not projected(None)


def test_data_as_an_array_of_numpy():
    a, b = rbm(16, 8, 3, seed=0), rbm(16, 8, 3, seed=0)
    for machine, data in ((a, BARS.spins.numpy()), (b, BARS)):
        for _ in train(machine, data, PatternInduced(), sgd(0.1), epochs=1, batch_size=4, seed=0):
            pass
    assert torch.equal(a.patterns, b.patterns)


def test_no_epochs_are_no_updates():
    machine = rbm(16, 4, seed=0)
    before = parameters(machine)
    assert list(train(machine, BARS, Persistent(3), sgd(0.1), epochs=0, batch_size=4, seed=0)) == []
    assert all(map(torch.equal, parameters(machine), before))


def test_stopping_is_leaving_the_loop():
    machine = rbm(16, 4, 2, seed=0)
    for progress in train(machine, BARS, PatternInduced(), sgd(0.1), epochs=100, batch_size=3, seed=0):
        if progress.epoch == 2:
            break
    assert (progress.epoch, progress.update, progress.updates) == (2, 8, 400)


def test_an_optimizer_of_torch_made_by_the_caller():
    for make in (
        lambda m: torch.optim.SGD(m.parameters(), lr=0.05),
        lambda m: lambda p: torch.optim.SGD(p, lr=0.05),
    ):
        machine = rbm(16, 8, seed=0)
        finish(machine, ContrastiveDivergence(), make(machine))
        ours = finish(rbm(16, 8, seed=0), ContrastiveDivergence(), sgd(0.05))
        assert torch.allclose(machine.couplings.matrix(0, 1), ours.couplings.matrix(0, 1), atol=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epochs": -1}, "at least 0"),
        ({"batch_size": 0}, "batch size"),
        ({"batch_mean": "half"}, "known are nominal, true"),
        ({"average": 0}, "average over"),
        ({"precision": "bf16"}, "is for a GPU, but this machine is on cpu"),
        ({"precision": "int8"}, "unknown precision 'int8'"),
        ({"every": "day"}, "known are epoch, update"),
        ({"projection": Sign()}, "dense"),
        ({"data": torch.ones(3, 15)}, r"\(samples, 16\), not \(3, 15\)"),
        ({"data": torch.full((3, 16), 0.5)}, "two levels"),
        ({"optimizer": sgd((0.1, 0.2, 0.3))}, "each of the 1 replicas"),
        ({"negative": PatternInduced()}, "dense"),
        ({"negative": "pid"}, "negative phase must be an object with step"),
        ({"negative": Persistent}, "negative phase must be an object"),
        ({"optimizer": "adam"}, "optimiser must be one"),
        ({"projection": "sign"}, "projection must be an object"),
        ({"data": load("bars4")}, "or a Split, such as data.train, not Dataset"),
        ({"data": torch.full((3, 16), torch.nan)}, "finite"),
    ],
)
def test_bad_training(options, words):
    given = {
        "data": BARS,
        "negative": Persistent(3),
        "optimizer": sgd(0.1),
        "epochs": 1,
        "batch_size": 4,
    }
    given |= options
    data, negative, optimizer = (given.pop(k) for k in ("data", "negative", "optimizer"))
    with pytest.raises(InputError, match=words):
        list(train(rbm(16, 4, seed=0), data, negative, optimizer, seed=0, **given))


def test_a_cpu_has_one_precision_and_may_say_so():
    ours, plain = (
        finish(rbm(16, 4, seed=0), Persistent(3), sgd(0.1), precision=precision)
        for precision in ("float32", None)
    )
    assert all(map(torch.equal, parameters(ours), parameters(plain)))


def test_all_that_train_is_told_reaches_the_trainer(monkeypatch):
    told = {}

    class Told:
        def __init__(self, *given, **options):
            told.update(options, given=given)

        def load(self, state):
            told["state"] = state

        def run(self, every):
            return every

    monkeypatch.setattr(sys.modules["rapidbm.training.train"], "Trainer", Told)
    options = {
        "epochs": 2, "batch_size": 3, "positive": "mean", "projection": "clip", "batch_mean": "nominal",
        "average": 5, "precision": "tf32", "seed": 7, "state": {"a": 1}, "centred": True,
        "shards": 3, "pace": 0.5, "observed": [[True]], "weights": [1.0],
        "gap_sweeps": 4, "label": 2, "discriminative": 0.5,
    }  # fmt: skip
    assert train("machine", "data", "pcd", "sgd", every="update", **options) == "update"
    assert told.pop("ranks").world == 1
    assert told == options | {"given": ("machine", "data", "pcd", "sgd")}


def test_a_state_of_another_machine_is_refused():
    first = rbm(16, 4, seed=0)
    for progress in train(first, BARS, Persistent(3), sgd(0.1), epochs=1, batch_size=4, seed=0):
        state = progress.state()
    with pytest.raises(InputError, match=r"\(1, 16, 5\) here and .* \(1, 16, 4\) there"):
        train(rbm(16, 5, seed=0), BARS, Persistent(3), sgd(0.1), epochs=1, batch_size=4, state=state)


@pytest.mark.parametrize("optimizer", [adam(0.1), TorchOptimizer("Adam", 0.1)])
def test_a_state_is_copied_when_it_is_saved_and_loaded(optimizer):
    options = {"epochs": 2, "batch_size": 5, "seed": 0, "average": 3}
    made = [
        Trainer(rbm(16, 3, seed=0, replicas=2), BARS, Persistent(4), optimizer, **options)
        for _ in range(2)
    ]
    made[0].step()
    state = made[0].state()
    kept = {name: value.clone() for name, value in state.items()}
    made[0].step()
    assert all(torch.equal(state[name], value) for name, value in kept.items())
    made[1].load(state)
    for value in state.values():
        value.zero_()
    found = made[1].state()
    assert all(torch.equal(found[name], value) for name, value in kept.items())


def test_a_state_may_be_of_any_update_from_the_first_to_the_last():
    options = {"epochs": 2, "batch_size": 5, "seed": 0}
    trainer = Trainer(rbm(16, 3, seed=0), BARS, Persistent(4), sgd(0.1), **options)
    for update in (0, 4, -1, 5):
        state = trainer.state() | {"training/update": torch.tensor(update)}
        if 0 <= update <= 4:
            trainer.load(state)
            assert trainer.update == update
        else:
            with pytest.raises(InputError, match=f"of update {update}, and this training has 4"):
                trainer.load(state)


def test_a_state_that_does_not_fit_changes_nothing():
    machine = rbm(16, 4, seed=0)
    for progress in train(machine, BARS, Persistent(3), sgd(0.1), epochs=1, batch_size=4, seed=0):
        state = progress.state()
    other = rbm(16, 4, seed=1)
    before = parameters(other)
    with pytest.raises(InputError, match="training/chains is"):
        train(other, BARS, Persistent(5), sgd(0.1), epochs=1, batch_size=4, state=state)
    with pytest.raises(InputError, match="another optimiser"):
        train(other, BARS, Persistent(3), adam(0.1), epochs=1, batch_size=4, state=state)
    assert torch.equal(parameters(other)[0], before[0])


PRESETS_TO_MEET = {
    "paper-bars": ("bars4", {"replicas": 20}, 0.06, 0.04),
    "paper-bas12": ("bas12", {"replicas": 2}, 0.06, 0.06),
}


@pytest.mark.parametrize("preset", ["paper-bars", pytest.param("paper-bas12", marks=pytest.mark.slow)])
def test_the_papers_settings_learn(preset):
    from rapidbm.runs.recipe import Recipe

    name, chosen, train_bar, test_bar = PRESETS_TO_MEET[preset]
    recipe = Recipe.made(name, {**chosen, "seed": 1}, preset)
    data = recipe.data()
    machine = recipe.machine(data, torch.device("cpu"))
    for progress in train(
        machine,
        data.train,
        recipe.negative_phase(),
        recipe.optimizer_choice(),
        epochs=recipe.epochs,
        batch_size=recipe.batch_size,
        projection=recipe.projection_choice(),
        batch_mean=recipe.batch_mean,
        seed=1,
    ):
        rng = progress.rng
    assert float(hamming_distance(machine, data.train, rng, tries=1).mean()) < train_bar
    assert float(hamming_distance(machine, data.test, rng, tries=5).mean()) < test_bar


def started(machine, negative):
    spins = torch.ones((2, machine.visible))
    Trainer(machine, spins, negative, sgd(0.1), epochs=1, batch_size=2, seed=0)


@pytest.mark.filterwarnings("error::rapidbm.errors.LoadWarning")
def test_a_training_by_patterns_says_when_they_are_too_many():
    few = [dbm(100, (100, 20), 15, seed=0), bm(50, 450, 40, seed=0)]
    papers = ((16, 1000, 8), (144, 1000, 40), (784, 3000, 190), (784, 3000, 290))
    for machine in [*few, *(rbm(*sizes, seed=0) for sizes in papers)]:
        started(machine, PatternInduced())
    for machine in (
        rbm(16, 1000, 13, seed=0),
        rbm(100, 100, 30, seed=0),
        dbm(100, (100, 20), 25, seed=0),
        bm(100, 0, 15, seed=0),
        bm(60, 40, 15, seed=0),
    ):
        started(machine, Persistent(2))  # which does not rely on them
        with pytest.warns(LoadWarning, match="no longer low-energy states"):
            started(machine, PatternInduced())


@pytest.mark.filterwarnings("error::rapidbm.errors.LoadWarning")
def test_one_pattern_is_never_too_many():
    started(bm(3, 0, 1, seed=0), PatternInduced())
    started(rbm(100, 400, 40, seed=0), PatternInduced())  # as many as the limit
    for machine in (rbm(100, 400, 41, seed=0), bm(3, 0, 2, seed=0)):
        with pytest.warns(LoadWarning):
            started(machine, PatternInduced())


def test_a_training_that_breaks_off_knows_how_far_it_is():
    class Breaks(Persistent):
        left = 3

        def step(self, *given):
            Breaks.left -= 1
            if not Breaks.left:
                raise KeyboardInterrupt
            return super().step(*given)

    machine = rbm(16, 4, seed=0)
    trainer = Trainer(machine, BARS, Breaks(5), sgd(0.1), epochs=1, batch_size=2, seed=0)
    with pytest.raises(KeyboardInterrupt):
        trainer.finish_epoch()
    assert trainer.update == 2
