"""Whatever takes a machine is right for other units than spins, with the test that says so, or refuses
them with the one sentence of `Layers.check_spins`: nothing answers wrongly in silence."""

import inspect

import pytest
import torch

import rapidbm as rb
from kinds import COUNTS, make, random_rows, random_states, randomised
from rapidbm.errors import InputError
from rapidbm.machines.dense import Dense
from rapidbm.random import stream
from rapidbm.training.coordinates.centring import Centring

HERE, SAMPLES, TRAININGS, PATHS = (
    "test_units",
    "test_units_sampling",
    "test_units_training",
    "test_units_annealed",
)
OPEN = {  # name: where it is seen to be right, or why no unit enters
    "log_z": HERE,
    "log_likelihood": HERE,
    "exact_moments": HERE,
    "log_likelihood_gradient": HERE,
    "sweep": SAMPLES,
    "sweeps": SAMPLES,
    "sample": SAMPLES,
    "record": SAMPLES,
    "train": TRAININGS,
    "save_machine": TRAININGS,
    "log_z_along": PATHS,
    "TrajectoryTempering": PATHS,
    **dict.fromkeys(("log_p", "scores", "predict", "draw_missing"), "test_inference.py"),
    "sample_given": "test_conditions.py",
    "effective_couplings": "test_effective_couplings.py",
    "scan": "test_scan.py",
    "save_adabm": "test_adabm_files.py",
    "coupling_errors": "test_coupling_errors.py",
    "evaluate": "test_table_commands.py, below",
    "descend": PATHS,  # real units have no list of states, and it says so
    "pattern_overlaps": "of the parameters alone",
    "spectrum": "of the parameters alone",
    "stack": "puts parameters side by side",
    "Progress": "holds a machine",
    "Metric": "calls a function of others",
}
OPEN_METHODS = {
    **dict.fromkeys(("energy", "field", "free_energy", "log_prob_unnormalised", "start_biases"), HERE),
    **dict.fromkeys(("configuration", "infer", "random", "visible_spins", "with_visible"), HERE),
    **dict.fromkeys(("gradient", "gradient_over", "gradient_of", "gradient_of_units"), HERE),
    **dict.fromkeys(("bias_energy", "unit", "unknown", "by_layer", "finite", "marginal_fields"), HERE),
    **dict.fromkeys(("given_visible", "smoothed", "complete"), TRAININGS),
    "hidden_mean": "below",
    "operands": "below",
    "replica": TRAININGS,
    "check_chains": "counts columns",
    "describe": "words",
    "fixed_parameters": "kernels, which know spins alone: operands",
    "from_weights": "makes machines of spins",
    "from_bqm": "makes machines of spins",
}


def known_half(machine):
    """A split of ±1 of the machine's width, of which one column is known."""
    mask = torch.zeros(machine.visible, dtype=torch.bool)
    mask[0] = True
    ones = torch.ones((6, machine.visible), dtype=torch.int8)
    return rb.Split(ones, known=mask)


def series(machine):
    return torch.ones((1, 4, 8, machine.layers.columns), dtype=torch.int8)


CLOSED = {
    "basins": lambda m, _: rb.basins(m, seed=0),
    "diagnose": lambda m, _: rb.diagnose(m),
    "effective_beta": lambda m, _: rb.effective_beta(m, random_states(m, 3)),
    "gibbs_accessibility": lambda m, _: rb.gibbs_accessibility(m, seed=0),
    "glassiness": lambda m, _: rb.glassiness(m, series(m), seed=0),
    "ground_state": lambda m, _: rb.ground_state(m),
    "growth": lambda m, _: rb.growth(m, 4, seed=0),
    "hamming_distance": lambda m, _: rb.hamming_distance(m, known_half(m), seed=0),
    "method_accessibility": lambda m, _: rb.method_accessibility(
        m, random_rows(m, 6), negative=rb.ContrastiveDivergence(), ground=torch.tensor([-1.0])
    ),
    "minima": lambda m, _: rb.minima(m, 4, seed=0),
    "mixing": lambda m, _: rb.mixing(m, series(m)),
    "phase_point": lambda m, _: rb.phase_point(m),
    "a plot of phases": lambda m, _: rb.plot.phases(m),
    "reconstruct": lambda m, _: rb.reconstruct(m, known_half(m), seed=0),
    "relaxation": lambda m, _: rb.relaxation(m, random_rows(m, 6), seed=0),
    "save_rbms": rb.save_rbms,
    "thermodynamics": lambda m, _: rb.thermodynamics(m),
    "to_sklearn": lambda m, _: rb.to_sklearn(m),
    "RapidRBM.from_machine": lambda m, _: rb.RapidRBM.from_machine(m),
    "an annealer": lambda m, _: rb.Annealer().init(m, stream(0)),
    "the projection 'gibbs'": lambda m, _: rb.GibbsProjection().check(m),
    "to_bqm": lambda m, _: m.to_bqm(),
    "to_weights": lambda m, _: m.to_weights(),
}
CLOSED_METHODS = {"to_bqm", "to_weights"}
OTHERS = [("visible", kind) for kind in (*COUNTS, "mixed") if kind != "spin"]
OTHERS += [("hidden", kind) for kind in COUNTS if kind != "spin"]


@pytest.mark.parametrize(("side", "kind"), OTHERS)
@pytest.mark.parametrize("door", [*CLOSED])
def test_what_is_for_spins_alone_refuses_other_units(door, side, kind, tmp_path):
    machine = randomised(make("rbm", side, kind, 2, replicas=1))
    path = tmp_path / "machine.h5"
    before = [p.detach().clone() for p in machine.parameters()]
    with pytest.raises(InputError, match=r"is for spins, ±1, but the layers of this machine have .*need"):
        CLOSED[door](machine, path)
    assert not path.exists()
    assert all(map(torch.equal, before, machine.parameters()))


def test_no_door_is_forgotten():
    takes = {
        name
        for name in rb.__all__
        if callable(value := getattr(rb, name))
        and not (isinstance(value, type) and issubclass(value, Exception))
        and any("Machine" in str(p) for p in inspect.signature(value).parameters.values())
    }
    assert takes <= OPEN.keys() | CLOSED.keys()
    methods = {
        name
        for name, value in vars(rb.Machine).items()
        if not name.startswith("_") and (callable(value) or isinstance(value, staticmethod))
    }
    assert methods == OPEN_METHODS.keys() | CLOSED_METHODS
    assert not OPEN.keys() & CLOSED.keys()


@pytest.mark.parametrize(("side", "kind"), OTHERS)
def test_kernels_know_spins_alone(side, kind):
    assert make("rbm", side, kind).operands() is None
    assert make("rbm", side, "spin").operands() is not None


@pytest.mark.parametrize(("side", "kind"), OTHERS)
def test_hidden_means_are_slopes_of_log_p(side, kind):
    """⟨h⟩ given v is the gradient of log Σ_h exp(−E) by the hidden biases."""
    machine = randomised(make("rbm", side, kind))
    rows = random_rows(machine, 4)
    found = machine.hidden_mean(rows)
    for i in range(4):
        total = machine.log_prob_unnormalised(rows[i : i + 1]).sum()
        (slope,) = torch.autograd.grad(total, machine.biases)
        assert torch.allclose(found[:, i], slope[:, machine.visible :], atol=1e-10)


@pytest.mark.parametrize("kind", ["gaussian", "mixed"])
def test_a_descent_of_real_units_is_refused(kind):
    machine = make("rbm", "visible", kind)
    with pytest.raises(InputError, match="no list of them"):
        rb.descend(machine, random_states(machine, 2))


def test_each_layer_has_a_kind():
    with pytest.raises(InputError, match="a kind of unit for each of 2 layers"):
        rb.Layers((3, 2), ((0, 1),), (rb.Spin(),))
    assert rb.Layers((3, 2), ((0, 1),)) == rb.Layers((3, 2), ((0, 1),), (rb.Spin(), rb.Spin()))
    with pytest.raises(InputError, match="one kind of unit for the visible layers"):
        rb.rbm(3, 2, units="spin")
    with pytest.raises(InputError, match="one for each of 2"):
        rb.rbm((3, 2), 2, units=(rb.Spin(),))


@pytest.mark.parametrize("kind", [*COUNTS, "mixed"])
@pytest.mark.parametrize("patterns", [None, 2])
def test_centred_gradients_are_those_of_the_centred_machine(kind, patterns):
    """An update moves the parameters as one of the machine of eq. (1) of centring.py does: the likelihood
    rises, and biases take back what the fields of the means have gained, gauge or not."""
    machine = randomised(make("rbm", "visible", kind, patterns), size=0.3)
    rows = random_rows(machine, 20)
    options = {"epochs": 5, "batch_size": 20, "seed": 0, "centred": True}
    last = rb.log_likelihood(machine, rows, method="exact").value
    for _ in rb.train(machine, rows, rb.Exact(), rb.sgd(0.03), **options):
        now = rb.log_likelihood(machine, rows, method="exact").value
        assert bool((now > last).all())
        last = now


@pytest.mark.parametrize("kind", ["categorical", "mixed q"])
def test_the_gauge_takes_no_part_in_centring(kind, monkeypatch):
    """With Adam, whose steps leave the gauge, too."""
    from rapidbm.training import stepper

    found = []
    for gauge in (stepper.fix_gauge, lambda machine: None):
        monkeypatch.setattr(stepper, "fix_gauge", gauge)
        machine = make("rbm", "visible", kind)
        rows = random_rows(machine, 20)
        options = {"epochs": 1, "batch_size": 20, "seed": 0, "centred": True}
        for _ in rb.train(machine, rows, rb.Exact(), rb.adam(0.03), **options):
            pass
        found.append(machine.log_prob_unnormalised(rows) - rb.log_z(machine).value[:, None])
    assert torch.allclose(*found, atol=1e-12)
    centring = Centring(machine, rows, persistent=False)
    assert centring.offsets.shape == (2, 1, machine.layers.columns)
    assert isinstance(machine.couplings, Dense)


@pytest.mark.parametrize("side", ["visible", "hidden"])
def test_an_evaluation_of_other_units_has_their_likelihood(side):
    """And no energies of ground states, which are for spins."""
    kinds = {"units" if side == "visible" else "hidden_units": rb.Binary()}
    machine = rb.rbm(3, 2, biases=True, scale=0.5, seed=0, **kinds)
    rows = rb.to_bits(machine.random(30, seed=0)[0, :, :3] * 2 - 1) if side == "visible" else None
    data = rb.Split(machine.random(30, seed=0)[0, :, :3] if rows is None else rows)
    found = rb.evaluate(machine, data).rows
    exact = rb.log_likelihood(machine, data).value
    assert found["log_likelihood_data"][0] == pytest.approx(float(exact), abs=1e-6)
    assert "ground_state_energy" not in found
