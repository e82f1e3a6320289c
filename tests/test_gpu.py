"""The same contracts on a GPU; skipped where there is none."""

import copy
import socket

import numpy as np
import pytest
import torch

from rapidbm.accel import executors, fused, moves, rounding
from rapidbm.accel.executors import Graph
from rapidbm.accel.ranks import Ranks, in_ranks
from rapidbm.data import packed
from rapidbm.data.catalogue import load
from rapidbm.ground.ground_state import ground_state
from rapidbm.likelihood.bridging import log_z_along
from rapidbm.likelihood.log_z import log_z
from rapidbm.likelihood.moments import exact_moments
from rapidbm.machines.constructors import dbm, rbm
from rapidbm.machines.ensembles import WeightedSpins
from rapidbm.machines.files import load_tensors
from rapidbm.machines.machine import scaled
from rapidbm.random import stream
from rapidbm.runs.diagnosis import diagnose
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run
from rapidbm.sampling import annealing
from rapidbm.sampling.bases import paths_to
from rapidbm.sampling.gibbs import sweep
from rapidbm.sampling.paths import Trajectory
from rapidbm.sampling.samplers import ParallelTempering, sample
from rapidbm.testing import check_sampler, chi_squared, exact_distribution, small_machines
from rapidbm.training import batches
from rapidbm.training.negative import PatternInduced, Persistent, Tempered
from rapidbm.training.optimisers import adam, sgd
from rapidbm.training.positive import ClampedChains, MeanField
from rapidbm.training.projections import Clip, Sign
from rapidbm.training.train import train
from rapidbm.training.trainer import Trainer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
MACHINES = [pytest.param(machine, id=name) for name, machine in small_machines(2)]


@pytest.fixture(autouse=True)
def not_rounded():
    """Unless a test says so: where nobody chooses, trainings on a GPU are rounded."""
    with rounding.precision("float32"):
        yield


@pytest.mark.parametrize("machine", MACHINES)
def test_sampler(machine):
    check_sampler(sweep, machine.cuda())


@pytest.mark.parametrize("machine", MACHINES)
def test_energies_and_gradients_are_those_of_the_cpu(machine):
    spins = machine.cpu().random(50, stream(0))
    weights = torch.rand((2, 50), generator=stream(1), dtype=torch.float64)
    energy, z = machine.energy(spins).detach(), log_z(machine).lower
    gradient = machine.gradient(WeightedSpins(spins, weights))
    machine.cuda()
    assert torch.allclose(machine.energy(spins.cuda()).cpu(), energy, atol=1e-12)
    assert torch.allclose(log_z(machine).lower.cpu(), z, atol=1e-10)
    found = machine.gradient(WeightedSpins(spins.cuda(), weights.cuda()))
    for name, value in gradient.items():
        assert torch.allclose(found[name].cpu(), value, atol=1e-12)


@pytest.mark.parametrize("negative", [PatternInduced(), PatternInduced(1), Persistent(20, 2)], ids=str)
def test_training_repeats_to_the_bit(negative):
    data = torch.where(torch.rand((100, 30), generator=stream(0)) < 0.5, 1, -1)
    ends = []
    for _ in range(2):
        machine = rbm(30, 200, 5, replicas=4, seed=0, device="cuda")
        optimizer = sgd(0.01) if isinstance(negative, PatternInduced) else adam(1e-3)
        for _ in train(
            machine, data, negative, optimizer, epochs=5, batch_size=20, projection=Sign(), seed=1
        ):
            pass
        ends.append(machine.patterns.detach().clone())
    assert torch.equal(*ends)


def assert_graphs_give_the_bits_of_single_launches(monkeypatch, trainer_of):
    """Kernels included: no sweep is too small for them here."""
    monkeypatch.setattr(fused, "WORTH", 0)
    data = torch.where(torch.rand((100, 30), generator=stream(0)) < 0.5, 1, -1)
    ends = []
    for launches in ("graph", "single"):
        trainer = trainer_of(data)
        if launches == "single":
            monkeypatch.setattr(trainer.executor.replay, "run", lambda key, work: work())
        for _ in trainer.run("epoch"):
            pass
        ends.append([*trainer.machine.parameters(), trainer.chains, trainer.rng.get_state()])
    for a, b in zip(*ends, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    ("negative", "patterns"),
    [
        (PatternInduced(2), 5),
        (Persistent(300, 3), 5),
        (Persistent(50, 3), None),
        (Persistent(300, 3, lifetime=7), 5),
        (Tempered(20, 4), 5),
    ],
    ids=str,
)
@pytest.mark.parametrize("clock", ["update", "epoch"])
@pytest.mark.parametrize("long", [2**60, 0], ids=["one batch", "two streams"])
def test_graphs(monkeypatch, negative, patterns, clock, long):
    monkeypatch.setattr(fused, "LONG", long)

    def trainer_of(data):
        machine = rbm(30, 200, patterns, replicas=4, seed=0, device="cuda")
        optimizer = adam(1e-3, clock=clock)
        return Trainer(machine, data, negative, optimizer, epochs=20, batch_size=40, seed=0)

    assert_graphs_give_the_bits_of_single_launches(monkeypatch, trainer_of)


@pytest.mark.parametrize("patterns", [5, None])
@pytest.mark.parametrize("rounded", ["float32", "bf16"])
def test_graphs_of_centred_gradients(monkeypatch, patterns, rounded):
    def trainer_of(data):
        machine = rbm(30, 200, patterns, replicas=4, biases=True, seed=0, device="cuda")
        how = {"epochs": 20, "batch_size": 40, "seed": 0, "centred": True, "precision": rounded}
        return Trainer(machine, data, Persistent(300, 3), adam(1e-3), **how)

    assert_graphs_give_the_bits_of_single_launches(monkeypatch, trainer_of)


@pytest.mark.parametrize(
    "optimizer",
    [sgd(0.01), sgd([0.01, 0.02, 0.03, 0.04], momentum=0.5, weight_decay=0.1), adam(1e-3)],
    ids=["sgd", "momentum", "adam"],
)
@pytest.mark.parametrize("projection", [Clip(0.5), Clip(0.5, every="epoch"), Sign("update")], ids=str)
def test_graphs_of_steps_and_projections(monkeypatch, optimizer, projection):
    def trainer_of(data):
        machine = rbm(30, 200, 5, replicas=4, continuous=True, biases=True, seed=0, device="cuda")
        options = {"epochs": 20, "batch_size": 40, "projection": projection, "seed": 0}
        return Trainer(machine, data, PatternInduced(2), optimizer, **options)

    assert_graphs_give_the_bits_of_single_launches(monkeypatch, trainer_of)


@pytest.mark.parametrize("clock", ["update", "epoch"])
def test_steps_by_kernels_end_where_the_plain_path_ends(monkeypatch, clock):
    """Of 10,000 values each: more than one block. One replica diverges on the way."""
    ends = []
    for serves in (moves.serves, lambda parameters: False):
        monkeypatch.setattr(moves, "serves", serves)
        machine = rbm(60, 140, 50, replicas=3, continuous=True, biases=True, seed=0, device="cuda")
        data = torch.where(torch.rand((40, 60), generator=stream(0)) < 0.5, 1, -1)
        optimizer = adam([0.01, 0.02, 0.03], clock=clock, weight_decay=0.1)
        trainer = Trainer(machine, data, Persistent(4, 1), optimizer, epochs=9, batch_size=20, seed=0)
        gradients = [
            {
                name: torch.randn(p.shape, generator=stream(i)).cuda()
                for name, p in trainer.stepper.parameters.items()
            }
            for i in range(9)
        ]
        gradients[4]["couplings.patterns"][2, 7, 100] = torch.inf
        with torch.no_grad():
            for gradient in gradients:
                how = gradient, (0.01, 0.02, 0.03), False, trainer.rng
                if not trainer.stepper.by_kernels(*how):
                    trainer.stepper.plainly(*how)
        assert trainer.diverged() == (2,)
        ends.append(trainer.state())
    for name, value in ends[0].items():
        if name.startswith("parameter/"):
            assert torch.allclose(value, ends[1][name], rtol=1e-5, atol=1e-6), name


@pytest.mark.parametrize("patterns", [None, 5])
@pytest.mark.parametrize("positive", [MeanField(5), ClampedChains(2)], ids=str)
def test_graphs_of_deep_machines(monkeypatch, positive, patterns):
    def trainer_of(data):
        machine = dbm(30, (200, 70), patterns, replicas=2, biases=True, seed=0, device="cuda")
        options = {"epochs": 8, "batch_size": 40, "positive": positive, "seed": 0}
        return Trainer(machine, data, Persistent(300, 3), adam(1e-3), **options)

    assert_graphs_give_the_bits_of_single_launches(monkeypatch, trainer_of)


def test_resume_on_a_gpu(tmp_path):
    chosen = {
        "device": "cuda",
        "negative": "pcd",
        "particles": 30,
        "optimizer": "adam",
        "epochs": 9,
    }

    def go(folder, cut):
        count = iter(range(1000))
        run = Run.create(folder, Recipe.made("bars4", chosen))
        for _ in run.go(lambda: next(count) == cut):
            pass
        return run

    whole, part = go(tmp_path / "whole", -1), go(tmp_path / "part", 4)
    assert part.status == "interrupted"
    for _ in Run(tmp_path / "part").go():
        pass
    a, b = load_tensors(whole.latest)[0], load_tensors(part.latest)[0]
    for name, value in a.items():
        assert torch.equal(value, b[name]), name


@pytest.mark.parametrize("machine", MACHINES)
def test_samplers_and_annealing(machine):
    machine.cuda()
    _, exact = exact_distribution(machine)
    spins = sample(machine, 3000, sampler=ParallelTempering(), steps=25, seed=0)
    powers = 2 ** torch.arange(spins.shape[2] - 1, -1, -1, device="cuda")
    numbers = ((spins > 0).long() * powers).sum(2)
    for e in range(2):
        assert chi_squared(numbers[e].bincount(minlength=exact.shape[1]), exact[e]) > 1e-7
    wanted = log_z(machine, method="exact").lower
    found = log_z(machine, method="ais", seed=0)
    assert bool((found.lower - 0.1 < wanted).all())
    assert bool((wanted < found.upper + 0.1).all())
    along = log_z_along([scaled(machine, 0.8), machine], seed=0, chains=200)
    assert float((along[-1].value - wanted).abs().max()) < 0.2
    moments = exact_moments(machine)
    assert torch.allclose(moments.mean.cpu(), exact_moments(machine.cpu()).mean, atol=1e-10)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("worth", [0, fused.WORTH], ids=["kernels", "plain"])
def test_a_walk_in_a_graph_has_the_bits_of_single_launches(monkeypatch, machine, worth):
    monkeypatch.setattr(fused, "WORTH", worth)
    monkeypatch.setattr(executors, "PAYS", 2)
    machine = copy.deepcopy(machine).float().cuda()
    data = machine.random(9, stream(1, device="cuda"))[0, :, : machine.visible]
    paths = [*paths_to(machine, data, stream(0, device="cuda"))[0].values()]
    paths.append(Trajectory([scaled(machine, 0.3), scaled(machine, 0.6), machine]))
    launch = executors.Graphs.run
    for path in paths:
        betas, found = [path.end * i / 7 for i in range(8)], []
        for run in (launch, lambda self, key, work: work()):
            monkeypatch.setattr(executors.Graphs, "run", run)
            rng = stream(2, device="cuda")
            logs, ends = annealing.forward(path, betas, 300, rng)
            back = annealing.backward(path, betas, ends, rng)
            found.append([logs, ends, back, rng.get_state()])
        for a, b in zip(*found, strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize("machine", MACHINES)
def test_ground_states(machine):
    machine.cuda()
    exact = ground_state(machine, method="enumeration").energy
    methods = ("exact", "descent", "annealing", "tempering")
    if machine.patterns is not None:
        methods += ("zonotope",)
    for method in methods:
        found = ground_state(machine, method=method, starts=20, sweeps=20, seed=0)
        assert torch.allclose(found.energy, exact)
        assert bool((found.bound <= exact + 1e-9).all())


@pytest.mark.parametrize("patterns", [None, 2])
def test_diagnosis(patterns):
    data = load("bars4")
    machine = rbm(16, 20, patterns, seed=0, scale=0.5).cuda()
    found = diagnose(machine, data, chains=8, sweeps=20, starts=20)
    assert set(found.figures) == {"phases", "landscape", "quality"}
    assert found.verdict


@pytest.mark.parametrize("negative", [PatternInduced(2), Persistent(300, 3), Tempered(20, 4)], ids=str)
@pytest.mark.parametrize("patterns", [5, None])
def test_graphs_of_shards(monkeypatch, negative, patterns):
    """Each shard draws from a generator of its own, which the graph knows."""
    if patterns is None and isinstance(negative, PatternInduced):
        pytest.skip("PID needs patterns")

    def trainer_of(data):
        machine = rbm(30, 200, patterns, replicas=4, seed=0, device="cuda")
        how = {"epochs": 20, "batch_size": 40, "seed": 0, "shards": 3}
        return Trainer(machine, data, negative, adam(1e-3), **how)

    assert_graphs_give_the_bits_of_single_launches(monkeypatch, trainer_of)


def test_a_graph_sums_over_ranks(monkeypatch):
    """NCCL, with one rank, in a graph: the same bits as without it."""
    there = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        there["MASTER_PORT"] = str(found.getsockname()[1])
    for name, value in there.items():
        monkeypatch.setenv(name, value)
    data = torch.where(torch.rand((100, 30), generator=stream(0)) < 0.5, 1, -1)
    ends = []
    with in_ranks(force=True) as ranks:
        for who in (ranks, Ranks()):
            machine = rbm(30, 200, 5, replicas=4, biases=True, seed=0, device="cuda")
            how = {"epochs": 40, "batch_size": 40, "seed": 0, "shards": 2, "ranks": who}
            trainer = Trainer(machine, data, Persistent(64, 2), adam(1e-3), **how)
            assert isinstance(trainer.executor, Graph)
            for _ in trainer.run("epoch"):
                pass
            assert not trainer.executor.replay.refused
            assert any(trainer.executor.replay.graphs.values())
            ends.append([*machine.parameters(), trainer.chains, *trainer.state().values()])
        assert ranks.sent["sum"] > 0
    for a, b in zip(*ends, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("negative", [PatternInduced(), Persistent(10)])
def test_rows_that_stay_on_disk(negative, tmp_path, monkeypatch):
    """Batches through a window on the device are those of the host, and a graph of several updates makes
    what updates one by one do, from group to group."""
    monkeypatch.setattr(packed, "CHUNK", 16 * 3)
    monkeypatch.setattr(batches, "GROUP", 200 * 3)
    bits = torch.rand((1000, 20), generator=stream(0)) < 0.4
    np.save(tmp_path / "a.npy", bits.numpy())
    split = load(tmp_path / "a.npy", stream=True).train

    def trainer(device, together):
        machine = rbm(20, 8, 3, replicas=2, seed=0, biases=True).to(device)
        made = Trainer(machine, split, negative, sgd(0.01), epochs=3, batch_size=10, seed=1)
        made.executor.together = together
        return made

    several, single, host = trainer("cuda", 16), trainer("cuda", 1), trainer("cpu", 1)
    for number in (0, 30, 79):
        ours, theirs = (x.batches.spins(x.batches.taken(1, 0, number)) for x in (several, host))
        assert torch.equal(ours.cpu().float(), theirs)
    for made in (several, single):
        for _ in made.run("epoch"):
            pass
    assert isinstance(several.executor, Graph)
    for name, value in several.state().items():
        assert torch.equal(value, single.state()[name]), name
