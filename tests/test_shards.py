"""A training in shards is what eq. (1) of `training/sharded/shards.py` says, whoever computes them."""

from __future__ import annotations

import pytest
import torch

import rapidbm as rb
from rapidbm.accel.ranks import Ranks, portion, portions
from rapidbm.machines.files import load_tensors
from rapidbm.runs.evaluation import evaluation
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run
from rapidbm.runs.samples import samples
from rapidbm.training.positive import ClampedChains, Enumerated, MeanField
from rapidbm.training.projections import GibbsProjection
from rapidbm.training.sharded.shards import apart
from rapidbm.training.trainer import Trainer

ROWS = torch.where(torch.rand((23, 12), generator=rb.stream(5)) < 0.4, 1.0, -1.0)
MACHINES = {
    "rbm": lambda **more: rb.rbm(12, 9, seed=1, dtype=torch.float64, **more),
    "dbm": lambda **more: rb.dbm(12, (7, 5), seed=1, dtype=torch.float64, **more),
    "bm": lambda **more: rb.bm(12, 3, seed=1, dtype=torch.float64, **more),
}


def trained(machine, negative, *, shards=1, epochs=3, **more):
    options = {"epochs": epochs, "batch_size": 10, "seed": 4, **more}
    trainer = Trainer(
        machine, ROWS, negative, options.pop("optimizer", rb.adam(0.01)), shards=shards, **options
    )
    for _ in trainer.run("update"):
        pass
    return trainer


def same(one, two, tolerance=1e-12):
    for a, b in zip(one.machine.parameters(), two.machine.parameters(), strict=True):
        assert torch.allclose(a, b, rtol=0, atol=tolerance)


def far(one, two):
    return max(
        float((a - b).detach().abs().max())
        for a, b in zip(one.machine.parameters(), two.machine.parameters(), strict=True)
    )


def test_portions_are_as_equal_as_can_be():
    assert portions(10, 4) == [2, 3, 2, 3]
    assert portions(1, 3) == [0, 0, 1]
    assert [range(7)[portion(7, i, 3)] for i in range(3)] == [range(2), range(2, 4), range(4, 7)]


@pytest.mark.parametrize(("shards", "batch_mean"), [(2, "true"), (7, "nominal")])
@pytest.mark.parametrize("kind", ["rbm", "dbm"])
def test_a_phase_without_random_numbers_does_not_notice_shards(kind, shards, batch_mean):
    """PID without sweeps and the exact phase: batches of 10, 10 and 3 rows, 5 patterns."""
    for negative in (rb.PatternInduced(), rb.PatternInduced(units="all"), rb.Exact()):
        found = [
            trained(
                MACHINES[kind](patterns=5, biases=True),
                negative,
                shards=count,
                batch_mean=batch_mean,
                average=4,
                optimizer=rb.sgd(0.1),  # Adam would divide rounding by rounding where a gradient is 0
                positive=None if kind == "rbm" else MeanField(5),
            )
            for count in (1, shards)
        ]
        same(*found)
        for a, b in zip(found[0].average.means.values(), found[1].average.means.values(), strict=True):
            assert torch.allclose(a, b, rtol=0, atol=1e-12)
        assert far(found[0], trained(MACHINES[kind](patterns=5, biases=True), negative, epochs=1)) > 1e-3


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "patterns"])
@pytest.mark.parametrize("kind", MACHINES)
@pytest.mark.parametrize(
    "negative",
    [rb.ContrastiveDivergence(2), rb.Persistent(7, 2), rb.Tempered(5, 3)],
    ids=["cd", "pcd", "pt"],
)
def test_the_gradient_is_the_weighted_sum_of_its_shards(kind, dense, negative):
    """Each shard's part, times its share, by the machine's own gradients."""
    machine = MACHINES[kind](patterns=None if dense else 3, biases=True)
    trainer = Trainer(machine, ROWS, negative, rb.sgd(0.1), epochs=1, batch_size=10, seed=2, shards=3)
    again = Trainer(machine, ROWS, negative, rb.sgd(0.1), epochs=1, batch_size=10, seed=2, shards=3)
    batch = trainer.batches.spins(trainer.batches.taken(2, 0, 0))
    total = {name: torch.zeros_like(p) for name, p in machine.named_parameters()}
    for shard, rows, share in zip(again.shards, (3, 3, 4), again.shards.counts, strict=True):
        start = shard.rows(10).start
        own = batch[:, start : start + rows]
        data = again.positive.step(machine, own, shard.rng)
        model, _ = shard.negative.step(machine, shard.chains, own, shard.rng)
        model_share = rows / 10 if not sum(again.shards.counts) else share / sum(again.shards.counts)
        for name in total:
            total[name] += rows / 10 * machine.gradient(data)[name]
            total[name] -= model_share * machine.gradient(model)[name]
    with torch.no_grad():
        found = trainer.gradient(batch, 10)
    for name, value in total.items():
        assert torch.allclose(found[name], value, atol=1e-12), name


def test_shards_draw_numbers_of_their_own():
    trainer = Trainer(
        MACHINES["rbm"](), ROWS, rb.Persistent(8), rb.sgd(0.1), epochs=1, batch_size=8, seed=2, shards=2
    )
    first, second = trainer.shards
    assert first.chains.shape == second.chains.shape == (1, 4, 21)
    assert not torch.equal(first.chains, second.chains)
    assert not torch.equal(first.rng.get_state(), second.rng.get_state())
    # and those do not depend on the other shards that a process has
    alone = Trainer(
        MACHINES["rbm"](), ROWS, rb.Persistent(8), rb.sgd(0.1), epochs=1, batch_size=8, seed=2, shards=2
    )
    assert torch.equal(trainer.chains, alone.chains)


def test_chains_that_do_not_divide_have_weights():
    """Of 5 chains in 2 shards the parts have 2 and 3, and every chain counts the same."""
    machine = MACHINES["rbm"]()
    trainer = Trainer(
        machine, ROWS, rb.Persistent(5), rb.sgd(0.1), epochs=1, batch_size=8, seed=2, shards=2
    )
    assert trainer.shards.counts == [2, 3]
    assert [shard.share for shard in trainer.shards] == [0.4, 0.6]


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_centred_gradients_follow_the_means_of_all_shards(shards):
    """λ is followed from the chains, or from the data where none stay; both are averages over shards."""
    for negative in (rb.Persistent(10), rb.ContrastiveDivergence()):
        machine = MACHINES["rbm"](patterns=4, biases=True)
        trainer = Trainer(
            machine,
            ROWS,
            negative,
            rb.sgd(1e-9),
            epochs=1,
            batch_size=20,
            seed=2,
            shards=shards,
            centred=True,
        )
        before = trainer.centring.offsets.clone()
        batch = trainer.batches.spins(trainer.batches.taken(2, 0, 0))
        trainer.step()
        given = machine.hidden_mean(batch)
        followed = before[..., 12:] + 0.05 * (given.mean(1, keepdim=True) - before[..., 12:])
        noise = 0.05 if isinstance(negative, rb.Persistent) else 1e-6  # drawn hidden spins against means
        assert torch.allclose(trainer.centring.offsets[..., 12:], followed, atol=noise)


CASES = {
    "pcd": (rb.Persistent(7), {}),
    "cd": (rb.ContrastiveDivergence(), {"optimizer": rb.sgd(0.05, momentum=0.5)}),
    "pt": (rb.Tempered(6, 3), {}),
    "pid": (rb.PatternInduced(1), {"projection": GibbsProjection()}),
    "lifetime": (rb.Persistent(7, lifetime=9), {}),
    "clamped": (rb.Persistent(4), {"positive": ClampedChains(2)}),
    "enumerated": (rb.Persistent(4), {"positive": Enumerated(), "centred": False}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_training_in_shards_goes_on_from_its_state(name):
    """To the same bits; recorded (40 updates and more) or not, since a state forgets its recordings."""
    negative, more = CASES[name]
    whole = trained(MACHINES["rbm"](patterns=3), negative, shards=3, epochs=15, **more)
    half = Trainer(
        MACHINES["rbm"](patterns=3),
        ROWS,
        negative,
        more.get("optimizer", rb.adam(0.01)),
        epochs=15,
        batch_size=10,
        seed=4,
        shards=3,
        **{k: v for k, v in more.items() if k != "optimizer"},
    )
    half.step()
    half.step()
    state = half.state()
    rest = trained(MACHINES["rbm"](patterns=3), negative, shards=3, epochs=0, **more)
    rest.epochs = 15
    rest.load(state)
    assert rest.update == 2
    for _ in rest.run("epoch"):
        pass
    same(whole, rest, 0.0)
    assert torch.equal(whole.chains, rest.chains)
    ends = [trained(MACHINES["rbm"](patterns=3), negative, shards=n, epochs=2, **more) for n in (1, 3)]
    assert far(*ends) > 1e-6  # other random numbers


def test_a_state_of_other_shards_is_refused():
    two = trained(MACHINES["rbm"](), rb.Persistent(8), shards=2, epochs=1)
    for shards in (1, 4):
        other = Trainer(
            MACHINES["rbm"](),
            ROWS,
            rb.Persistent(8),
            rb.adam(0.01),
            epochs=1,
            batch_size=10,
            seed=4,
            shards=shards,
        )
        with pytest.raises(rb.InputError, match="in 2 shards, not"):
            other.load(two.state())
    damaged = two.state()
    damaged["shards/rng"][1] = 0
    with pytest.raises(rb.InputError, match="random numbers"):
        two.load(damaged)


def test_saved_chains_come_apart_by_their_phases():
    machine, negative = MACHINES["rbm"](), rb.Tempered(5, 3)
    trainer = Trainer(machine, ROWS, negative, rb.sgd(0.1), epochs=1, batch_size=10, seed=2, shards=2)
    trainer.step()
    parts = apart(negative, machine, trainer.chains, 2)
    assert [phase.particles for phase, _ in parts] == [2, 3]
    for (phase, chains), shard in zip(parts, trainer.shards, strict=True):
        assert torch.equal(chains, shard.chains)
        assert bool((phase.ladder(chains)[:, -1] == 1).all())
    with pytest.raises(rb.InputError, match="keeps"):
        apart(negative, machine, trainer.chains[:, 1:], 2)


def test_what_cannot_be_cut_is_refused():
    class Whole:
        def init(self, machine, rng):
            return torch.empty((machine.replicas, 0, machine.layers.columns))

        def step(self, machine, chains, data, rng):
            raise AssertionError

    with pytest.raises(rb.InputError, match="Whole cannot be cut"):
        Trainer(MACHINES["rbm"](), ROWS, Whole(), rb.sgd(0.1), epochs=1, batch_size=8, seed=2, shards=2)
    with pytest.raises(rb.InputError, match="number of shards"):
        Trainer(
            MACHINES["rbm"](),
            ROWS,
            rb.Persistent(),
            rb.sgd(0.1),
            epochs=1,
            batch_size=8,
            seed=2,
            shards=0,
        )


def test_alone_a_process_has_all_shards_and_nothing_travels():
    ranks = Ranks()
    assert list(ranks.share_of(3)) == [0, 1, 2]
    several = Ranks()
    several.rank, several.world = 2, 3
    assert list(several.share_of(4)) == [2, 3]
    with pytest.raises(rb.InputError, match="3 ranks share at least as many shards, not 2"):
        several.share_of(2)
    tensors = {"a": torch.ones(2)}
    assert ranks.summed(tensors)["a"] is tensors["a"]
    assert ranks.broadcast(lambda: 3) == 3
    assert not ranks.sent


def test_train_takes_shards():
    found = []
    for _ in range(2):
        machine = MACHINES["rbm"]()
        steps = rb.train(
            machine, ROWS, rb.Persistent(8), rb.sgd(0.1), epochs=2, batch_size=8, seed=3, shards=2
        )
        last = list(steps)[-1]
        assert last.trainer.shards.count == 2
        found.append(machine.couplings.weights["0-1"].detach().clone())
    assert torch.equal(*found)


# -- runs, samples, likelihoods -----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::rapidbm.LoadWarning")
def test_a_run_in_shards_is_resumed_looked_at_and_evaluated(tmp_path):
    """Tempered chains lie in the checkpoint shard by shard, and are taken apart again."""
    chosen = {"hidden": (6,), "patterns": 3, "negative": "pt", "particles": 5, "rungs": 3, "epochs": 4}
    recipe = Recipe.made("bars4", {**chosen, "shards": 2, "device": "cpu", "metrics": ()}, "small")
    whole = Run.create(tmp_path / "whole", recipe)
    for _ in whole.go():
        pass
    cut = Run.create(tmp_path / "cut", recipe)
    seen = [0]
    for step in cut.go(lambda: seen[-1] == 2):
        seen.append(step.update)
    assert cut.status == "interrupted"
    again = Run(tmp_path / "cut")
    assert again.recipe.shards == 2
    for _ in again.go():
        pass
    ends = [load_tensors(run.latest)[0] for run in (whole, again)]
    assert {k: v.tolist() for k, v in ends[0].items()} == {k: v.tolist() for k, v in ends[1].items()}
    found = evaluation(whole, likelihood="none")
    machine, chains = whole.machine().requires_grad_(False), ends[0]["training/chains"]
    cold = torch.cat([chains[:, 4:6, :-1], chains[:, 6 + 6 :, :-1]], 1)  # of 2 and of 3 particles
    lowest = machine.energy(cold).amin(1)
    ground = rb.ground_state(machine, seed=0).energy
    assert found["method_accessibility"][0] == pytest.approx(float(lowest / ground), rel=1e-5)


def test_samples_in_shards_are_those_of_their_streams():
    machine = MACHINES["rbm"](patterns=3)
    found, steps, _ = samples(machine, rb.Gibbs(), 5, 3, 1.0, 7, shards=2)
    assert (tuple(found.shape), steps) == ((5, 12), 3)
    parts = []
    for number, count in ((0, 2), (1, 3)):
        rng = rb.stream(7, "sample", "shard", number, 2)
        spins = machine.random(count, rng)
        for _ in range(3):
            spins = rb.sweep(machine, spins, rng)
        parts.append(spins[0, :, :12])
    assert torch.equal(found, torch.cat(parts))
    start = machine.random(3, seed=1)
    begun, _, _ = samples(machine, rb.Gibbs(start=start), 5, 0, 1.0, 7, shards=2)
    assert torch.equal(begun, start[0, [0, 1, 2, 0, 1], :12])
    with pytest.raises(rb.InputError, match="5 chains cannot be cut into 6 shards"):
        samples(machine, rb.Gibbs(), 5, 1, 1.0, 7, shards=6)


def test_intervals_of_an_annealing_in_shards_hold_the_exact_value():
    """20 intervals of 95 % (4 replicas, 5 seeds). Nine misses have a probability of 2·10⁻⁷."""
    machine = rb.rbm(10, 8, 3, scale=0.5, biases=True, seed=3, replicas=4, dtype=torch.float64)
    machine.biases.data.normal_(generator=rb.stream(1))
    exact, hits = rb.log_z(machine, method="exact").value, 0
    for seed in range(5):
        found = rb.log_z(machine, method="ais", seed=seed, chains=24, shards=3)
        hits += int(((found.lower <= exact) & (exact <= found.upper)).sum())
    assert hits >= 12
    alone = rb.log_z(machine, method="ais", seed=seed, chains=24)
    assert not torch.equal(found.value, alone.value)
    wide = (found.upper - found.lower) / (alone.upper - alone.lower)  # no wider than those of one shard
    assert bool(((wide > 0.4) & (wide < 2.5)).all()), wide
