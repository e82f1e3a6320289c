"""Every call that may take long shows how far it is, and stops at its limit; time leaps at every look."""

import dataclasses
import functools
import inspect

import pytest
import torch

import rapidbm as rb
from rapidbm import progress
from rapidbm.glass.neighbours import nearest
from rapidbm.glass.sample_moments import moments, projections
from rapidbm.likelihood.counting import log_z_by_counting
from rapidbm.likelihood.quadrature import log_z_by_quadrature
from rapidbm.random import stream
from rapidbm.runs import diagnosis
from rapidbm.runs.metrics import mean_free_energy
from rapidbm_paper import linear_probe

DATA = rb.load("bars4")
SPINS = DATA.train.spins
SMALL = rb.rbm(16, 6, 2, seed=0)
DEEP = rb.dbm(16, (5, 4), seed=0, scale=0.3)
FULL = rb.bm(10, 0, 2, seed=0)
SIGNS = torch.randn(40, 3, generator=stream(0))


COARSE = functools.cache(functools.partial(rb.boundaries, load=torch.tensor([0.05, 0.2])))


def series():
    return rb.record(SMALL, 8, 10, seed=0)[0]


def features(limit):
    x, y = SIGNS, (SIGNS[:, 0] > 0).long()
    return linear_probe.fit_probe(x, y, (x, y), strengths=(0.1, 0.01), limit=limit).weights


CALLS = {
    "ground state, enumerated": lambda n: rb.ground_state(SMALL, method="enumeration", limit=n),
    "ground state, zonotope": lambda n: rb.ground_state(SMALL, method="zonotope", limit=n),
    "ground state, descent": lambda n: rb.ground_state(DEEP, method="descent", seed=0, limit=n),
    "ground state, annealing": lambda n: rb.ground_state(DEEP, method="annealing", seed=0, limit=n),
    "ground state, tempering": lambda n: rb.ground_state(
        SMALL, method="tempering", starts=4, sweeps=3, seed=0, limit=n
    ),
    "exact_moments, enumeration": lambda n: rb.exact_moments(DEEP, limit=n),
    "exact_moments, counting": lambda n: rb.exact_moments(SMALL, limit=n),
    "exact_moments, quadrature": lambda n: rb.exact_moments(FULL, limit=n),
    "minima": lambda n: rb.minima(SMALL, 20, stream(0), limit=n),
    "growth": lambda n: rb.growth(DEEP, 5, stream(0), tries=2, limit=n),
    "boundaries": lambda n: rb.boundaries(load=torch.tensor([0.05]), limit=n),
    "hamming_distance": lambda n: rb.hamming_distance(SMALL, DATA.test, stream(0), limit=n),
    "reconstruct": lambda n: rb.reconstruct(SMALL, DATA.test, stream(0), passes=5, limit=n),
    "mean_free_energy": lambda n: mean_free_energy(DEEP, DATA.test, stream(0), limit=n),
    "gibbs_accessibility": lambda n: rb.gibbs_accessibility(SMALL, None, stream(0), limit=n),
    "method_accessibility": lambda n: rb.method_accessibility(
        SMALL, DATA.test, stream(0), negative=rb.ContrastiveDivergence(), limit=n
    ),
    "adversarial_accuracy": lambda n: rb.adversarial_accuracy(SPINS, SPINS, stream(0), limit=n),
    "nearest": lambda n: nearest(SPINS, SPINS, SPINS, limit=n),
    "moments": lambda n: moments(SPINS.expand(3, -1, -1), SPINS, stream(0), triples=5, limit=n),
    "projections": lambda n: projections(SPINS, SPINS, stream(0), components=2, limit=n),
    "relaxation": lambda n: rb.relaxation(SMALL, SPINS, stream(0), sweeps=(0, 1, 3), chains=6, limit=n),
    "overlap_distribution": lambda n: rb.overlap_distribution(SMALL.random(8, stream(0)), limit=n),
    "mixing": lambda n: rb.mixing(SMALL, series(), limit=n),
    "probe": features,
    "diagnose": lambda n: rb.diagnose(SMALL, DATA, chains=4, sweeps=2, starts=4, limit=n).as_dict(),
    "log_z_by_counting": lambda n: within(n, lambda: log_z_by_counting(SMALL)),
    "log_z_by_quadrature": lambda n: within(n, lambda: log_z_by_quadrature(FULL)),
    "free_energy": lambda n: within(n, lambda: DEEP.free_energy(SPINS)),
    "sweeps": lambda n: within(n, lambda: rb.sweeps(DEEP, DEEP.random(4, stream(0)), stream(0), 5)),
    "descend": lambda n: within(n, lambda: rb.descend(DEEP, DEEP.random(4, stream(0)))),
    "states": lambda n: within(n, lambda: rb.log_z(DEEP, method="exact")),
}


def whole(found):
    """A result with all of its numbers, as text."""
    if isinstance(found, (list, tuple)):
        return [whole(x) for x in found]
    return repr(dataclasses.asdict(found) if dataclasses.is_dataclass(found) else found)


def within(limit, call):
    """For what takes no limit itself: that of the call around it."""
    with progress.watch("the call around it", limit=limit):
        return call()


@pytest.fixture(autouse=True)
def few_points(monkeypatch):
    """On the lines of a diagnosis."""
    monkeypatch.setattr(diagnosis, "boundaries", COARSE)


@pytest.fixture
def leaping(monkeypatch):
    """A clock on which every look is ten seconds after the last."""
    now = [0.0]

    def clock():
        now[0] += 10.0
        return now[0]

    monkeypatch.setattr(progress, "clock", clock)
    monkeypatch.delenv(progress.SWITCH, raising=False)


@pytest.mark.parametrize("name", CALLS)
def test_it_stops_at_its_limit(name, leaping):
    with pytest.raises(rb.TimeLimit, match=r"stopped at its limit of 2 s: .*; give a larger limit="):
        CALLS[name](2.0)
    assert progress._here.watch is None


@pytest.mark.parametrize("name", CALLS)
def test_it_says_how_far_it_is_and_answers_the_same(name, leaping, capsys, monkeypatch):
    told = CALLS[name](None)
    assert "so far" in capsys.readouterr().err
    monkeypatch.setenv(progress.SWITCH, "off")
    quiet = CALLS[name](1e9)
    assert not capsys.readouterr().err
    assert whole(told) == whole(quiet)


def test_an_epoch_of_training_is_watched(leaping, capsys):
    machine = rb.rbm(16, 6, seed=0)
    for _ in rb.train(
        machine, SPINS, rb.ContrastiveDivergence(), rb.sgd(0.1), epochs=2, batch_size=1, seed=0
    ):
        pass
    told = capsys.readouterr().err
    assert "epoch 1 of 2: " in told
    assert f"of {len(SPINS)} done" in told


def test_what_people_call_takes_a_limit_by_name():
    names = ("ground_state", "exact_moments", "minima", "growth", "boundaries", "hamming_distance")
    names += ("reconstruct", "relaxation", "adversarial_accuracy", "mixing", "diagnose")
    for name in names:
        limit = inspect.signature(getattr(rb, name)).parameters["limit"]
        assert limit.kind is inspect.Parameter.KEYWORD_ONLY, name
        with pytest.raises(rb.InputError, match="positive number of seconds"):
            within(-1, lambda: None)
