"""Tempering and the other samplers against enumeration."""

from dataclasses import replace

import pytest
import torch

from conftest import machines
from rapidbm.errors import InputError
from rapidbm.machines.constructors import rbm
from rapidbm.machines.machine import Machine, scaled
from rapidbm.random import stream
from rapidbm.sampling import annealing, samplers, tempering
from rapidbm.sampling.bases import own_biases, path_to
from rapidbm.sampling.gibbs import sweeps
from rapidbm.sampling.paths import Cooling, Trajectory
from rapidbm.sampling.samplers import (
    SAMPLERS,
    Annealing,
    Gibbs,
    ParallelTempering,
    TrajectoryTempering,
    sample,
)
from rapidbm.testing import SMALLEST_P, check_sampler, chi_squared, exact_distribution
from rapidbm.training.negative import Tempered

EVERY = machines(2) + machines(1, biases=False)


@pytest.fixture
def any_ladder(monkeypatch):
    """One that is not measured to the end: it serves small machines."""
    monkeypatch.setattr(tempering, "ROUNDS", 2)


def numbers(spins):
    """The number of each state, (e, c)."""
    powers = 2 ** torch.arange(spins.shape[2] - 1, -1, -1)
    return ((spins > 0).long() * powers).sum(2)


def p_values(spins, exact):
    found = numbers(spins)
    return [chi_squared(found[e].bincount(minlength=exact.shape[1]), exact[e]) for e in range(len(exact))]


def three_rungs(machine, chains, seed=0):
    """Exact draws on three rungs of a path, and the exact distributions there."""
    path = Cooling(machine, own_biases(machine))
    rungs = torch.tensor([[0.0, 0.45, 1.0]] * machine.replicas, dtype=torch.float64)
    every, _ = exact_distribution(machine)
    base = path.bases[0, :, 0].double() @ every.double().T
    exact, starts = [], []
    for beta in rungs[0]:
        logs = -beta * machine.energy(every).detach() + (1 - beta) * base
        exact.append(torch.softmax(logs, 1))
        rows = torch.multinomial(exact[-1], chains, True, generator=stream(seed, float(beta)))
        starts.append(every[rows])
    return path, rungs, torch.cat(starts, 1), exact


def turned(machine, chains=20_000, turns=4):
    path, rungs, spins, exact = three_rungs(machine, chains)
    walkers = tempering.new_walkers(rungs, spins)
    rng = stream(1)
    for _ in range(turns):
        walkers = tempering.tempering_step(path, walkers, rng)
    apart = walkers.spins.unflatten(1, (3, chains))
    return [p for t in range(3) for p in p_values(apart[:, t], exact[t])]


@pytest.mark.parametrize("machine", EVERY)
def test_turns_leave_every_rung_in_place(machine):
    assert min(turned(machine)) > SMALLEST_P


def test_a_wrong_chance_shows(monkeypatch):
    machine = rbm(4, 3, scale=0.8, seed=1, dtype=torch.float64)
    assert min(turned(machine)) > SMALLEST_P
    plain = torch.Tensor.clamp
    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "clamp", lambda x, *a, **k: plain(0.5 * x, *a, **k))
        assert min(turned(machine)) < SMALLEST_P


def test_chances_are_those_of_equation_one():
    machine = rbm(3, 2, scale=0.7, seed=0, biases=True, dtype=torch.float64)
    path, rungs, spins, _ = three_rungs(machine, 5)
    index, chance = tempering.exchange(path, spins, rungs, stream(0), odd=False)
    log_f = path.weights(spins)
    f = [log_f(float(b)).reshape(1, 3, 5) for b in rungs[0]]
    _, other = tempering.exchange(path, spins, rungs, stream(0), odd=True)
    assert chance.shape == other.shape == (1, 1, 5)
    for t, found in enumerate((chance, other)):
        ratio = f[t][:, t + 1] + f[t + 1][:, t] - f[t][:, t] - f[t + 1][:, t + 1]
        assert torch.allclose(found[:, 0], ratio.clamp(max=0).exp(), atol=1e-12)
    assert torch.equal(index[:, 10:], torch.arange(10, 15)[None])  # the odd pair waits
    assert sorted(index[0].tolist()) == list(range(15))


def test_a_function_that_moves_spins_is_a_sampler():
    machine, moved = rbm(3, 2, seed=0), []

    def move(machine, spins, rng):
        moved.append(spins)
        return -spins

    found = samplers.sample(machine, 4, sampler=move, steps=3, seed=0)
    assert torch.equal(found, -moved[-1])
    assert len(moved) == 3
    with pytest.raises(InputError, match="init, step, spins and steps, or is a function"):
        samplers.sample(machine, 4, sampler="gibbs")


def test_turns_add_up_their_chances():
    machine = rbm(3, 2, scale=0.7, seed=0, biases=True, dtype=torch.float64)
    path, rungs, spins, _ = three_rungs(machine, 5)
    walkers, total = tempering.new_walkers(rungs, spins), torch.zeros((1, 2), dtype=torch.float64)
    first = walkers
    for odd in (False, True, False):
        _, chance = tempering.exchange(path, walkers.spins, rungs, stream(3), odd)
        total[:, int(odd)] += chance.mean((1, 2))
        walkers = tempering.tempering_step(path, walkers, stream(3))
    assert torch.allclose(walkers.rate_sum, total)
    assert torch.allclose(walkers.rates, total / torch.tensor([2.0, 1.0]))
    assert (walkers.tried.tolist(), walkers.turns) == ([2, 1], 3)
    assert not bool(first.rate_sum.any())
    assert not bool(first.tried.any())
    assert torch.equal(first.spins, spins)
    assert first.heading.tolist() == [[1] * 5 + [0] * 10]


def test_rungs_are_placed_by_hand():
    """Rejections of ½ and ½: new rungs at quarters of their sum, by ratios where there are any."""
    rungs = torch.tensor([[0.0, 0.01, 1.0]], dtype=torch.float64)
    walkers = tempering.new_walkers(rungs, torch.arange(3.0)[None, :, None])
    halves = torch.full((1, 2), 0.5, dtype=torch.float64)
    walkers = replace(walkers, rate_sum=2 * halves, tried=torch.tensor([2, 2]))
    ladder = tempering.respaced(walkers, 5, 64)
    assert ladder.rungs.tolist() == [pytest.approx([0.0, 0.005, 0.01, 0.1, 1.0])]
    assert ladder.spins.flatten().tolist() == [0, 1, 1, 2, 2]  # the nearest rung's
    assert tempering.respaced(walkers, None, 64).rungs.tolist() == [pytest.approx([0.0, 0.01, 1.0])]
    assert tempering.respaced(walkers, None, 2).rungs.tolist() == [[0.0, 1.0]]


def test_the_ladder_has_even_rates_and_counts_round_trips(monkeypatch):
    monkeypatch.setattr(tempering, "ROUNDS", 4)
    machine = rbm(30, 30, 2, replicas=2, seed=0)
    path = path_to(machine, exact=False)
    rng = stream(0)
    walkers = tempering.start_walkers(path, 20, rng)
    for _ in range(100):
        walkers = tempering.tempering_step(path, walkers, rng)
    assert walkers.rungs[0, 0] == 0
    assert walkers.rungs[0, -1] == 1
    assert bool((walkers.rungs.diff(dim=1) > 0).all())
    assert float(walkers.rates.min()) > 0.35
    assert float(walkers.rates.max()) < 0.75
    assert int(walkers.trips.min()) > 3
    plain = torch.linspace(0, 1, walkers.rungs.shape[1], dtype=torch.float64)
    spread = tempering.new_walkers(plain.expand(2, -1).clone(), walkers.spins)
    for _ in range(30):
        spread = tempering.tempering_step(path, spread, rng)
    assert float(spread.rates.min()) < 0.1  # evenly spaced β do much worse
    monkeypatch.setattr(tempering, "ROUNDS", 1)
    fixed = tempering.start_walkers(path, 5, rng, rungs=4)
    assert fixed.rungs.shape == (2, 4)
    assert fixed.rungs.dtype == torch.float64
    assert fixed.turns == 0  # rungs 0 and 1 have the first turn
    assert tempering.start_walkers(path, 5, rng, most=6).rungs.shape == (2, 6)


def test_heading_and_trips_by_hand(monkeypatch):
    """One walker is carried up a ladder of three rungs and back: one round trip."""
    spins = torch.arange(3.0).reshape(1, 3, 1)
    walkers = tempering.new_walkers(torch.tensor([[0.0, 0.5, 1.0]]), spins)
    trades = iter([[1, 0, 2], [0, 2, 1], [0, 2, 1], [1, 0, 2]])
    monkeypatch.setattr(
        tempering, "exchange", lambda *a: (torch.tensor([next(trades)]), torch.ones(1, 1, 1))
    )

    class Still:
        def move(self, spins, rng, at):
            return spins

    seen = []
    for _ in range(4):
        walkers = tempering.tempering_step(Still(), walkers, stream(0))
        seen.append((walkers.spins.flatten().tolist(), int(walkers.trips)))
    assert [trips for _, trips in seen] == [0, 0, 0, 1]
    assert seen[1][0][2] == 0  # walker 0 at the cold end
    assert seen[3][0][0] == 0


def two_wells():
    """±ξ with a barrier of about 30 kT between them and a bias that prefers one of them."""
    machine = rbm(8, 10, 1, scale=0.75, seed=3, dtype=torch.float64)
    tilt = 0.03 * machine.patterns.detach()[:, 0].sign()
    return Machine(machine.couplings, tilt)


def wells(machine, spins):
    return ((spins * machine.biases.detach()[:, None]).sum(2) > 0).long()  # (e, c)


def test_tempering_crosses_where_gibbs_does_not():
    machine = two_wells()
    every, exact = exact_distribution(machine)
    right = float((exact[0] * wells(machine, every[None])[0]).sum())
    assert 0.6 < right < 0.9
    start = machine.biases.detach().sign()[:, None].expand(-1, 100, -1)
    stuck = sweeps(machine, start, stream(0), 1000)  # 10⁵ sweeps in all
    assert bool((wells(machine, stuck) == 1).all())
    # Independent walkers, one final state each.
    spins = sample(machine, 4000, sampler=ParallelTempering(), steps=60, seed=0)
    counts = wells(machine, spins)[0].bincount(minlength=2)
    assert chi_squared(counts, torch.tensor([1 - right, right])) > SMALLEST_P


def choices(machine):
    steps = tuple(scaled(machine, beta) for beta in (0.5, 1.0))
    return {
        "gibbs": Gibbs(),
        "annealing": Annealing(temperatures=60),
        "pt": ParallelTempering(3),
        "trajectory": TrajectoryTempering(steps, 3),
    }


@pytest.mark.parametrize(
    ("machine", "name"),
    [
        pytest.param(case.values[0], name, id=f"{case.id}-{name}")
        for case in EVERY
        for name in SAMPLERS
        # Tempering is slow: without biases, and with them and two replicas once.
        if name in ("gibbs", "annealing")
        or case.values[0].replicas == 1
        or (name == "pt" and case.id.startswith("rbm-patterns"))
    ],
)
def test_every_sampler_keeps_the_contract(machine, name, any_ladder):
    check_sampler(choices(machine)[name], machine, chains=2000, seed=5)


def test_gibbs_starts_where_it_is_told_and_beta_is_heard(any_ladder):
    machine = rbm(5, 4, scale=0.6, seed=0, dtype=torch.float64)
    start = machine.random(3, stream(0))
    assert torch.equal(Gibbs(start=start).init(machine, 3, stream(1)), start)
    assert torch.equal(sample(machine, 2, sampler=Gibbs(start=start), steps=0, seed=0), start[:, :2])
    spins = sample(machine, 8000, sampler=ParallelTempering(), steps=10, beta=1.6, seed=0)
    _, exact = exact_distribution(machine, 1.6)
    assert min(p_values(spins, exact)) > SMALLEST_P


def test_sweeps_of_a_step_are_made(any_ladder, monkeypatch):
    machine = rbm(4, 3, scale=0.5, seed=0)
    data = machine.random(2, stream(0))[..., :4]
    thrice = sample(machine, 5, sampler=Gibbs(sweeps=3), steps=2, seed=0)
    assert torch.equal(thrice, sample(machine, 5, sampler=Gibbs(), steps=6, seed=0))
    chains = Tempered(4, 3).init(machine, stream(1))
    once, twice = stream(2), stream(2)
    _, found = Tempered(4, 3, sweeps=2).step(machine, chains, data, twice)
    for _ in range(2):
        _, chains = Tempered(4, 3).step(machine, chains, data, once)
    assert torch.equal(found, chains)
    both = (ParallelTempering(2, sweeps=3), TrajectoryTempering((machine,), 2, sweeps=3))
    states, moves = [sampler.init(machine, 2, stream(0)) for sampler in both], []
    assert [(state.turns, state.rungs.dtype) for state in states] == [(0, torch.float64)] * 2
    for path in (Cooling, Trajectory):
        monkeypatch.setattr(path, "move", lambda self, x, *rest: (moves.append(1), x)[1])
    for sampler, state in zip(both, states, strict=True):
        sampler.step(machine, state, stream(1))
    assert len(moves) == 6


def test_the_ladder_is_heard(monkeypatch):
    machine, heard = rbm(4, 3, seed=0), []
    monkeypatch.setattr(samplers, "start_walkers", lambda *given, **options: heard.append(options))
    for sampler in (ParallelTempering(5, most=9), TrajectoryTempering((machine,), 5, most=9)):
        sampler.init(machine, 2, stream(0))
    assert heard == [{"rungs": 5, "most": 9}] * 2


def test_data_and_temperatures_are_heard(any_ladder, monkeypatch):
    machine = rbm(4, 3, scale=0.5, seed=0)
    data = machine.random(9, stream(0))[0, :, :4]
    seen, lengths = [], []

    def noted(machine, data=None, **options):
        seen.append(data)
        return path_to(machine, data, **options)

    def forward(path, betas, *rest, plain=annealing.forward):
        lengths.append(len(betas))
        return plain(path, betas, *rest)

    monkeypatch.setattr(samplers, "path_to", noted)
    monkeypatch.setattr(annealing, "forward", forward)
    sample(machine, 4, sampler=ParallelTempering(rungs=2, data=data), steps=2, seed=0)
    sample(machine, 4, sampler=Annealing(40, data=data), steps=1, seed=0)
    assert len(seen) == 5
    assert all(given is data for given in seen)
    assert all(30 <= length <= 50 for length in lengths)


def test_annealed_chains_are_drawn_by_their_weights(monkeypatch):
    machine = rbm(4, 3, scale=0.5, seed=0)
    ends = machine.random(5, stream(0))
    logs = torch.tensor([[-1e3, -1e3, 0.0, -1e3, -1e3]], dtype=torch.float64)
    monkeypatch.setattr(annealing, "forward", lambda *given: (logs, ends))
    monkeypatch.setattr(samplers, "run_sweeps", lambda machine, spins, *rest: spins)
    found = sample(machine, 5, sampler=Annealing(), seed=0)
    assert torch.equal(found, ends[:, [2] * 5])


@pytest.mark.parametrize("machine", machines(3))
def test_trajectories_pass_through_their_machines(machine):
    other = scaled(machine, 0.4)
    path = Trajectory([other, machine])
    spins = machine.random(6, stream(0))
    at = torch.tensor([[0.0, 1.0]] * 3)
    both = path.at(at)
    assert both.replicas == 6
    wanted = torch.stack([other.energy(spins), machine.energy(spins)], 1).flatten(0, 1)
    doubled = spins.repeat_interleave(2, 0)
    assert torch.allclose(both.energy(doubled), wanted)
    before = spins.clone()
    logs = path.weights(spins)(1.0)
    assert torch.allclose(logs, path_to(machine).weights(spins)(1.0))
    assert torch.equal(spins, before)
    half = path.at(0.5)
    name, parameter = next(iter(half.named_parameters()))
    mean = 0.5 * (other.get_parameter(name) + machine.get_parameter(name))
    assert torch.allclose(parameter, mean)


@pytest.mark.parametrize("machine", EVERY)
def test_the_tempered_phase_against_enumeration(machine):
    phase = Tempered(particles=1000, rungs=4, sweeps=2)
    rng = stream(0)
    chains = phase.init(machine, rng)
    data = machine.random(2, rng)[..., : machine.visible]
    for _ in range(15):
        _, chains = phase.step(machine, chains, data, rng)
    _, exact = exact_distribution(machine)
    assert min(p_values(phase.configurations(machine, chains, data, rng), exact)) > SMALLEST_P
    answer, chains = phase.step(machine, chains, data, rng)  # of the coldest rung
    cold = phase.configurations(machine, chains, data, rng)
    assert torch.equal(answer.spins, machine.infer(cold))
    assert torch.equal(cold, chains[:, -1000:, :-1])


def test_the_coldest_chains_are_those_of_the_tempered_phase():
    machine, phase = rbm(4, 3, replicas=2, seed=0), Tempered(particles=3, rungs=4)
    chains = phase.init(machine, stream(0))
    assert chains.shape == (2, 12, 8)
    assert torch.equal(phase.ladder(chains), torch.linspace(0, 1, 4).expand(2, -1))
    data = torch.ones(2, 1, 4)
    cold = phase.configurations(machine, chains, data, stream(1))
    assert torch.equal(cold, chains[:, 9:, :7])


def test_the_tempered_ladder_follows_the_machine():
    machine = rbm(20, 20, 2, replicas=2, seed=0)
    phase = Tempered(particles=50, rungs=10)
    rng = stream(0)
    chains = phase.init(machine, rng)
    data = machine.random(2, rng)[..., :20]

    def lowest(chains):
        path = path_to(machine, exact=False)
        spins, ladder = chains[..., :-1], phase.ladder(chains)
        both = [tempering.exchange(path, spins, ladder, stream(1), odd) for odd in (False, True)]
        return min(float(chance.mean(2).min()) for _, chance in both)

    for _ in range(20):
        _, chains = phase.step(machine, chains, data, rng)
    early = lowest(chains)
    for _ in range(400):
        _, chains = phase.step(machine, chains, data, rng)
    assert lowest(chains) > early + 0.2
    ladder = phase.ladder(chains)
    assert torch.equal(ladder[:, [0, -1]], torch.tensor([[0.0, 1.0]] * 2))
    assert bool((ladder.diff(dim=1) > 0).all())


@pytest.mark.parametrize("patterns", [None, 2])
def test_every_draw_along_a_route_is_the_generators(patterns):
    machine = rbm(6, 5, patterns, replicas=2, scale=0.5, seed=0)
    data = machine.random(9, stream(0))[0, :, :6]
    rungs = torch.tensor([[0.0, 0.5, 1.0]] * 2, dtype=torch.float64)
    for route in (path_to(machine, data), Trajectory([scaled(machine, 0.1), machine])):
        drawn = []
        for _ in range(2):
            rng = stream(1)
            start = route.start(60, rng)
            moved = route.move(start, rng, rungs)
            index, _ = tempering.exchange(route, moved, rungs, rng, odd=False)
            drawn.append((start, moved, index))
        assert all(map(torch.equal, *drawn))


def test_the_fewest_temperatures_and_rungs():
    assert Annealing(2).temperatures == 2
    assert ParallelTempering(2, most=2).most == TrajectoryTempering((None,), 2, most=2).most == 2
    assert (Gibbs().sweeps, ParallelTempering().sweeps) == (1, 1)
    assert TrajectoryTempering((None,)).sweeps == 1


def test_bad_choices():
    machine = rbm(4, 3, seed=0)
    for call, text in (
        (lambda: ParallelTempering(rungs=1), "rungs"),
        (lambda: TrajectoryTempering((machine,), rungs=1), "rungs"),
        (lambda: TrajectoryTempering(()), "machines of a training"),
        (lambda: Trajectory([machine]), "two machines"),
        (lambda: Trajectory([machine, rbm(4, 3, biases=True, seed=0)]), "one shape"),
        (lambda: Tempered(rungs=1), "rungs"),
        (lambda: Gibbs(sweeps=0), "sweeps a step"),
        (lambda: Annealing(1), "number of temperatures must be a whole number of at least 2"),
        (lambda: Annealing(2).init(machine, 1, stream(0)), "at least 2, not 1"),
        (lambda: ParallelTempering(sweeps=0), "sweeps a step"),
        (lambda: ParallelTempering(most=1), "largest number of rungs"),
        (lambda: tempering.start_walkers(path_to(machine), 0, stream(0)), "chains"),
        (lambda: tempering.start_walkers(path_to(machine), 2, stream(0), rungs=1), "rungs"),
        (lambda: sample(machine, 2, steps=-1), "number of steps"),
        (lambda: sample(machine, 2, beta=-1.0), "at least 0, not -1"),
        (lambda: sample(machine, 0), "chains"),
        (
            lambda: sample(machine, 2, sampler=TrajectoryTempering((scaled(machine, 2.0),))),
            "the last machine of a trajectory",
        ),
    ):
        with pytest.raises(InputError, match=text):
            call()
