"""The public contract suite accepts what is right and refuses what is wrong."""

import pytest
import torch

from rapidbm.errors import InputError
from rapidbm.machines.ensembles import WeightedSpins
from rapidbm.sampling import tempering
from rapidbm.sampling.gibbs import sweep
from rapidbm.sampling.samplers import Gibbs, ParallelTempering, sample
from rapidbm.testing import check_negative_phase, check_sampler, chi_squared, small_machines
from rapidbm.training.negative import ContrastiveDivergence, Exact


@pytest.fixture
def machine():
    return dict(small_machines(2))["rbm-patterns"]


def test_the_librarys_own_pass(machine):
    check_negative_phase(Exact(), machine)
    check_sampler(sweep, machine)


class Broken:
    """A negative phase with one fault."""

    def __init__(self, fault):
        self.fault = fault
        self.calls = 0

    def init(self, machine, rng):
        shape = (machine.replicas + (self.fault == "replicas"), 3, machine.layers.columns)
        return torch.ones(shape, dtype=machine.dtype)

    def step(self, machine, chains, data, rng):
        self.calls += 1
        spins = chains.clone()
        weights = torch.full(spins.shape[:2], 1 / 3, dtype=machine.dtype)
        if self.fault == "weights":
            weights = weights * 2
        if self.fault == "range":
            spins = spins * 3
        if self.fault == "seed":
            spins = spins * (0.5 if self.calls > 1 else 1.0)
        if self.fault == "data":
            data.neg_()
        if self.fault == "chains":
            chains.neg_()
        if self.fault == "parameters":
            machine.couplings.patterns.data.neg_()
        if self.fault == "shape":
            spins = spins[..., :-1]
        return WeightedSpins(spins, weights), chains


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("weights", "sum to one"),
        ("range", r"\[−1, 1\]"),
        ("seed", "same bits"),
        ("data", "changed the data"),
        ("chains", "changed the chains"),
        ("parameters", "changed the parameter couplings.patterns"),
        ("shape", r"\(2, c, 7\)"),
        ("replicas", "3 replicas"),
    ],
)
def test_broken_phases_are_caught(machine, fault, words):
    check_negative_phase(Broken(None), machine)
    with pytest.raises(AssertionError, match=words):
        check_negative_phase(Broken(fault), machine)


def test_broken_samplers_are_caught(machine):
    with pytest.raises(AssertionError, match="differ from the exact distribution"):
        check_sampler(lambda m, s, rng, beta: sweep(m, s, rng, 0.8 * beta), machine)
    with pytest.raises(AssertionError, match="leaves its input"):
        check_sampler(lambda m, s, rng, beta: s.neg_(), machine)
    with pytest.raises(AssertionError, match="returns spins"):
        check_sampler(lambda m, s, rng, beta: s * 0.5, machine)


def test_a_sampler_is_an_object_or_a_function(machine, monkeypatch):
    monkeypatch.setattr(tempering, "ROUNDS", 1)  # any ladder serves so small a machine

    def three(machine, spins, rng):
        return sweep(machine, spins, rng)

    for sampler in (Gibbs(), three, sweep, ParallelTempering(rungs=3)):
        check_sampler(sampler, machine, chains=2000)
    check_sampler(three, machine, beta=0.6)
    check_sampler(Gibbs(sweeps=2), machine, beta=0.6)
    found = sample(machine, 4, sampler=three, steps=2, seed=0)
    assert torch.equal(found, sample(machine, 4, sampler=Gibbs(), steps=2, seed=0))
    with pytest.raises(InputError, match=r"not its class: Gibbs\(…\)"):
        check_sampler(Gibbs, machine)
    with pytest.raises(InputError, match=r"a sampler has init, step, spins and steps"):
        sample(machine, 4, sampler=3)


class Hot(Gibbs):
    """A sampler with one fault."""

    def __init__(self, fault):
        super().__init__()
        object.__setattr__(self, "fault", fault)

    def step(self, machine, state, rng):
        if self.fault == "input":
            return state.neg_()
        if self.fault == "parameters":
            machine.couplings.patterns.data.neg_()
        if self.fault == "seed":
            rng = torch.Generator()
            rng.seed()
        return sweep(machine, state, rng, 0.8 if self.fault == "heat" else 1.0)

    def spins(self, state):
        if self.fault == "shape":
            return state[:, 1:]
        return state.float() if self.fault == "type" else state


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("heat", "differ from the exact distribution"),
        ("input", "leaves its input"),
        ("parameters", "changed the parameter couplings.patterns"),
        ("seed", "same bits"),
        ("shape", "answers spins"),
        ("type", "spins are torch.float64"),
    ],
)
def test_broken_sampler_objects_are_caught(machine, fault, words):
    with pytest.raises(AssertionError, match=words):
        check_sampler(Hot(fault), machine)


def test_chi_squared_is_scipys():
    from scipy import stats

    counts, p = (
        torch.tensor([40, 35, 60, 65]),
        torch.tensor([0.2, 0.2, 0.3, 0.3], dtype=torch.float64),
    )
    wanted = stats.chisquare(counts.numpy(), (p * 200).numpy()).pvalue
    assert chi_squared(counts, p) == pytest.approx(wanted, rel=1e-5)


def test_a_third_partys_phase_needs_no_base_class(machine):
    check_negative_phase(ContrastiveDivergence(2), machine)
