"""A training that ends below independent columns says so; one that does not never does."""

import warnings

import pytest
import torch

import rapidbm as rb
from conftest import machines
from rapidbm.likelihood import independent
from rapidbm.likelihood.independent import Fit, fit, log_z_by_means, log_z_by_states, warn_of_fit
from rapidbm.machines.machine import scaled
from rapidbm.random import stream

LATENT = torch.randint(2, (200, 3), generator=stream(0)).float() * 2 - 1
TABLE = (LATENT @ torch.randn(3, 16, generator=stream(1))) > 0  # 16 columns, as booleans
ALL = pytest.mark.parametrize("machine", [*machines(2), *machines(2, biases=False)])


@ALL
@pytest.mark.parametrize("beta", [0.1, 1.0, 5.0])
def test_bounds_on_log_z_hold(machine, beta):
    cold = scaled(machine, beta)
    exact = rb.log_z(cold, method="exact").lower
    for seed in range(5):
        spins = rb.sweeps(cold, cold.random(20, stream(seed)), stream(seed), 3)
        for bound in (log_z_by_states(cold, spins), log_z_by_means(cold, spins)):
            assert bool((bound <= exact + 1e-9).all())


@ALL
def test_bounds_are_tight_where_they_should_be(machine):
    cold, hot = scaled(machine, 20.0), scaled(machine, 1e-3)
    spins = cold.random(400, stream(0))
    exact = rb.log_z(cold, method="exact").lower
    assert torch.allclose(log_z_by_states(cold, spins), exact, atol=1.0)  # of 100 and more
    exact = rb.log_z(hot, method="exact").lower
    assert torch.allclose(log_z_by_means(hot, spins), exact, atol=1e-5)


def test_the_best_start_counts():
    machine = scaled(rb.rbm(6, 5, 3, seed=0, dtype=torch.float64), 3.0)
    spins = machine.random(9, stream(0))
    each = torch.stack([log_z_by_means(machine, start[:, None]) for start in spins.unbind(1)])
    assert float(each.max() - each.min()) > 0.1
    assert torch.allclose(log_z_by_means(machine, spins), each.amax(0), rtol=1e-12)


def test_data_in_parts_count_like_data_at_once(monkeypatch):
    monkeypatch.setattr(independent, "EXACT", 2**40)
    machine = rb.rbm(16, 2, seed=0, replicas=1500, scale=0.5)  # too many for 200 images at a time
    found = fit(machine, TABLE, stream(0))
    for i in (0, 1499):
        alone = fit(machine.replica(i), TABLE, stream(0))
        assert float(found.most[i]) == pytest.approx(float(alone.most), rel=1e-9)


def test_a_state_counts_once():
    machine = rb.rbm(4, 3, seed=0, scale=0.5, dtype=torch.float64)
    spins = machine.random(1, stream(0))
    many = spins.repeat(1, 50, 1)
    assert torch.equal(log_z_by_states(machine, many), log_z_by_states(machine, spins))


@pytest.mark.parametrize("enumerated", [True, False])
def test_the_bound_is_above_the_likelihood(enumerated, monkeypatch):
    if not enumerated:
        monkeypatch.setattr(independent, "EXACT", 0)
    for machine in (
        rb.rbm(16, 6, 3, seed=0, replicas=2),
        rb.dbm(16, (4, 3), seed=0, scale=0.5),
        rb.bm(16, 3, 2, seed=0),
    ):
        found = fit(machine, TABLE, stream(0))
        exact = rb.log_likelihood(machine, TABLE, method="exact").lower
        assert bool((found.most >= exact - 1e-6).all())
        if enumerated:
            assert torch.allclose(found.most, exact)


def test_columns_are_the_marginals():
    machine = rb.rbm(16, 3, seed=0, biases=True, dtype=torch.float64, scale=1e-9)
    machine.start_biases(TABLE)
    found = fit(machine, TABLE, stream(0))
    assert float(found.most) == pytest.approx(found.columns, abs=1e-6)
    assert not bool(found.below.any())


def test_a_sum_that_takes_long_is_left_out():
    assert fit(rb.bm(16, 40, seed=0), TABLE, stream(0)) is None
    warn_of_fit(None)


def training(negative, **options):
    machine = rb.rbm(16, 50, 4, seed=0, **options)
    optimizer = rb.sgd(0.02) if isinstance(negative, rb.PatternInduced) else rb.adam(3e-3)
    return rb.train(machine, TABLE, negative, optimizer, epochs=5, batch_size=20, seed=0)


@pytest.mark.parametrize("every", ["exactly", "by bounds"])
def test_pure_pid_on_a_table_warns_and_persistent_chains_do_not(every, monkeypatch):
    if every == "by bounds":
        monkeypatch.setattr(independent, "EXACT", 0)
    with pytest.warns(rb.FitWarning, match="ends below independent columns.*preset small"):
        for _ in training(rb.PatternInduced()):
            pass
    small = {"scale": 0.1, "continuous": True, "biases": True}
    with warnings.catch_warnings():
        warnings.simplefilter("error", rb.FitWarning)
        for _ in training(rb.Persistent(100, 2), **small):
            pass


def test_it_warns_at_the_last_update_and_changes_no_bit():
    def parameters(quiet):
        machine = rb.rbm(16, 50, 4, seed=0)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            run = rb.train(
                machine,
                TABLE,
                rb.PatternInduced(2),
                rb.sgd(0.02),
                epochs=2,
                batch_size=50,
                every="update",
                seed=0,
            )
            if quiet:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr("rapidbm.training.loop.warn_of_fit", lambda found: None)
                    patch.setattr("rapidbm.training.loop.fit", lambda *given: None)
                    states = [p.state() for p in run]
            else:
                states, seen = [], []
                for progress in run:
                    states.append(progress.state())
                    seen.append(len([w for w in told if w.category is rb.FitWarning]))
                assert seen == [0] * 7 + [1]
        return states

    for one, two in zip(parameters(True), parameters(False), strict=True):
        assert all(torch.equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize("scale", [1e-6, 0.3, 1.5])
def test_the_gain_over_columns_is_near_the_truth(scale, monkeypatch):
    machine = rb.rbm(16, 6, seed=0, biases=True, scale=scale)
    machine.start_biases(TABLE)
    exact = independent.gain(machine, TABLE, stream(0))
    truth = (
        rb.log_likelihood(machine, TABLE, method="exact").value - fit(machine, TABLE, stream(0)).columns
    )
    assert torch.allclose(exact, truth)
    monkeypatch.setattr(independent, "EXACT", 0)
    found = independent.gain(machine, TABLE, stream(0))
    assert torch.allclose(found, truth, atol=0.5)
    assert independent.gain(rb.bm(16, 40, seed=0), TABLE, stream(0)) is None


def test_a_tenth_of_a_nat_below_is_not_clear():
    most = torch.tensor([-5.0, -5.1, -5.11, 0.0], dtype=torch.float64)
    assert Fit(most - 0.0, -5.1 + independent.CLEAR, 9, most, True).below.tolist() == [
        False,
        False,
        True,
        False,
    ]


def test_the_warning_counts_replicas():
    found = Fit(torch.tensor([-5.0, -30.0, -20.0]), -10.0, 7, torch.zeros(3), True)
    with pytest.warns(rb.FitWarning, match=r"2 of 3 replicas end .* 7 training images is -20.0"):
        warn_of_fit(found)


def test_a_sum_is_exact_up_to_so_many_numbers(monkeypatch):
    machine, methods, plain = rb.rbm(16, 2, seed=0, replicas=2), [], independent.log_z

    def log_z(machine, **options):
        methods.append(options)
        return plain(machine, **options)

    monkeypatch.setattr(independent, "log_z", log_z)
    for least in (0, 1):
        monkeypatch.setattr(independent, "EXACT", 4 * 18 * 2 - least)
        fit(machine, TABLE, stream(0))
    assert methods == [{"method": "exact"}]


def test_the_states_that_bounds_start_from_stay():
    machine = rb.bm(5, 3, seed=0, scale=0.3, biases=True, replicas=2).double()
    spins = machine.random(4, stream(0))
    kept = spins.clone()
    log_z_by_states(machine, spins)
    log_z_by_means(machine, spins)
    assert torch.equal(spins, kept)


def test_half_of_the_states_do_where_mirror_images_weigh_the_same():
    machine = rb.rbm(3, 2, scale=0.8, seed=0, dtype=torch.float64)
    up = [state for state in torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * 5) if state[0] > 0]
    half = torch.stack(up).double()[None]
    assert torch.allclose(log_z_by_states(machine, half), rb.log_z(machine).value)
    biased = rb.Machine(machine.couplings, torch.full((1, 5), 0.3))
    assert bool((log_z_by_states(biased, half) < rb.log_z(biased).value - 0.1).all())
