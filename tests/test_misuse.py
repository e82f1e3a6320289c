"""Calls that go wrong in Python: each kind of input has one rule, and every door keeps it. A call works,
or it ends in an InputError that states the rule; never in the words of torch or numpy, never in a number
that is wrong."""

import copy
import inspect
import math
import re
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
import torch

import rapidbm as rb
from rapidbm.arrays import as_labels, as_tensor
from rapidbm.pictures import curve_figure, image_figure
from rapidbm.random import stream
from rapidbm.sampling.bases import path_to

BITS = rb.to_bits(rb.load("bars4").train.spins[:8]).numpy()
SPINS = BITS * 2 - 1
SMALL = rb.rbm(16, 4, 2, seed=0)
FULL = rb.bm(16, seed=0, scale=0.3)
SERIES = rb.record(SMALL, 4, 4, seed=0)[0]
KNOWN = np.arange(16) < 4
ROWS = {"a": ["x", "y"] * 10, "b": list(range(20))}
VAST = 10**12


def rng():
    return stream(0)


def refused(call, value, words, door):
    """One line of a table: an InputError with these words."""
    told = f"{door} takes {value!r}"
    try:
        call(value)
    except rb.InputError as error:
        told = str(error)
    assert re.search(words, told), told


def trained(data=SPINS, **options):
    machine = rb.rbm(16, 4, 2, seed=0)
    options = {"epochs": 1, "batch_size": 4, "seed": 0, **options}
    negative = options.pop("negative", rb.PatternInduced())
    optimizer = options.pop("optimizer", rb.sgd(0.01))
    for _ in rb.train(machine, data, negative, optimizer, **options):
        pass
    return machine.patterns.detach()


# -- arrays -------------------------------------------------------------------------------------------


def pandas(values):
    return pytest.importorskip("pandas").DataFrame(values)


ARRAYS = {
    "list": BITS.tolist(),
    "tuples": tuple(map(tuple, BITS.tolist())),
    "list of arrays": list(BITS),
    "list of tensors": list(torch.from_numpy(BITS)),
    "object": BITS.astype(object),
    "object of bool": BITS.astype(bool).astype(object),
    "object of fractions": np.array([[Fraction(int(x)) for x in row] for row in BITS]),
    "int16": BITS.astype(np.int16),
    "uint16": BITS.astype(np.uint16),
    "uint64": BITS.astype(np.uint64),
    "float16": BITS.astype(np.float16),
    "longdouble": BITS.astype(np.longdouble),
    "big-endian int": SPINS.astype(">i4"),
    "big-endian float": SPINS.astype(">f8"),
    "backwards": SPINS[::-1, ::-1].copy()[::-1, ::-1],
    "transposed": np.asfortranarray(SPINS),
    "read only": np.frombuffer(SPINS.tobytes(), np.int8).reshape(SPINS.shape),
    "masked, nothing hidden": np.ma.masked_array(SPINS, mask=np.zeros_like(BITS)),
    "matrix": scipy.sparse.csr_matrix(BITS),
    "sparse": scipy.sparse.coo_array(BITS),
    "frame": lambda: pandas(BITS),
    "frame of bool": lambda: pandas(BITS.astype(bool)),
    "frame with a column `spins`": lambda: pandas(BITS).rename(columns={0: "spins"}),
    "frame of mixed types": lambda: pandas(BITS).astype({0: bool, 1: float, 2: object}),
    "bfloat16": torch.from_numpy(SPINS).to(torch.bfloat16),
    "float8": torch.from_numpy(SPINS).float().to(torch.float8_e4m3fn),
    "tensor of uint16": torch.from_numpy(BITS).to(torch.uint16),
    "tensor that is sparse": torch.from_numpy(SPINS).float().to_sparse(),
    "tensor with a gradient": torch.from_numpy(SPINS).float().requires_grad_(),
}
HOLES = np.ma.masked_array(SPINS, mask=KNOWN[None].repeat(8, 0))
NOT_ARRAYS = {
    "ragged": ([[0, 1], [1]], "must be an array of numbers"),
    "words": (np.full((8, 16), "up"), "numbers or booleans, not text"),
    "digits as text": (BITS.astype(str), "numbers or booleans, not text"),
    "objects": (np.full((8, 16), None), "'NoneType', which is no number"),
    "text in objects": (BITS.astype(str).astype(object), "'str', which is no number"),
    "dict": ({"a": 1}, "which is no number"),
    "set": ({0, 1}, "which is no number"),
    "nothing": (None, "which is no number"),
    "complex": (SPINS.astype(complex), "numbers or booleans, not complex"),
    "dates": (SPINS.astype("datetime64[s]"), "numbers or booleans"),
    "records": (np.zeros((8, 16), "i1,i1"), "numbers or booleans"),
    "huge integers": (np.full((8, 16), 10**30), "must be an array of numbers"),
    "masked": (HOLES, "are masked"),
    "empty": ([], "at least one value"),
    "nan": (np.full((8, 16), np.nan), "finite"),
    "infinite": (np.full((8, 16), np.inf), "finite"),
    "nan in a sparse one": (scipy.sparse.coo_array(np.full((8, 16), np.nan)), "finite"),
    "nan in bfloat16": (torch.full((8, 16), torch.nan, dtype=torch.bfloat16), "finite"),
}
DOORS = {
    "to_spins": rb.to_spins,
    "Split": lambda x: rb.Split(x).spins,
    "from_arrays": lambda x: rb.from_arrays(x, x).test.spins,
    "train": trained,
    "free_energy": SMALL.free_energy,
    "hidden_mean": SMALL.hidden_mean,
    "log_likelihood": lambda x: rb.log_likelihood(SMALL, x).value,
    "hamming_distance": lambda x: rb.hamming_distance(SMALL, rb.Split(x, known=KNOWN), rng(), tries=1),
    "method_accessibility": lambda x: rb.method_accessibility(
        SMALL, x, rng(), negative=rb.ContrastiveDivergence()
    ),
    "adversarial_accuracy": lambda x: rb.adversarial_accuracy(x, x, rng()).truth.value,
    "relaxation": lambda x: rb.relaxation(SMALL, x, rng(), sweeps=(0,), chains=2).data.accuracy.value,
    "sweep": lambda x: rb.sweep(FULL, x, rng()),
    "sweeps": lambda x: rb.sweeps(FULL, x, rng(), 2),
    "descend": lambda x: rb.descend(FULL, x),
    "energy": FULL.energy,
    "base of annealing": lambda x: path_to(SMALL, x).bases,  # of log_z, ParallelTempering, Annealing
}
REFUSING = {
    "log_z": lambda x: rb.log_z(SMALL, method="ais", data=x, seed=0),
    "log_z_along": lambda x: rb.log_z_along([rb.bm(16, 14, seed=0)], data=x, seed=0),
    "Annealing": lambda x: rb.sample(SMALL, 2, sampler=rb.Annealing(data=x)),
    "ParallelTempering": lambda x: rb.sample(SMALL, 2, sampler=rb.ParallelTempering(data=x)),
}


@pytest.mark.parametrize("door", DOORS)
def test_what_numpy_can_read_works(door):
    wanted = DOORS[door](SPINS)
    for name, form in ARRAYS.items():
        data = form() if callable(form) else form
        assert torch.equal(DOORS[door](data), wanted), name


@pytest.mark.parametrize("door", [*DOORS, *REFUSING])
def test_what_is_no_array_of_spins_is_refused(door):
    for name, (data, words) in NOT_ARRAYS.items():
        if data is None and (door in REFUSING or door == "base of annealing"):
            continue  # no data at all
        refused((DOORS | REFUSING)[door], data, words, door)


CONFIGURATIONS = {
    "energy": SMALL.energy,
    "field": lambda x: SMALL.field(x, 0),
    "sweep": lambda x: rb.sweep(SMALL, x, rng()),
    "descend": lambda x: rb.descend(SMALL, x),
    "configuration": SMALL.configuration,  # of log_z's samples
    "Gibbs": lambda x: rb.sample(SMALL, 2, sampler=rb.Gibbs(start=x), steps=1, seed=0),
    "overlaps": rb.overlaps,
    "overlap_distribution": lambda x: rb.overlap_distribution(x).mean.value,
    "ultrametricity": lambda x: rb.ultrametricity(x, rng(), triples=20).found.k.value,
    "to_bits": rb.to_bits,
}
WHOLE = SERIES[:, :, -1]
RECORDS = {
    "freezing": lambda x: rb.freezing(x).gap.value,
    "edwards_anderson": lambda x: rb.edwards_anderson(x).value,
    "mixing": lambda x: rb.mixing(SMALL, x).ess.nan_to_num(0.0),
    "glassiness": lambda x: (
        rb.glassiness(SMALL, x, rng(), starts=4, fractions=(0.5, 1.0), tries=2).gap.value
    ),
}
FORMS = {
    "int8": lambda x: x,
    "numpy": lambda x: x.numpy(),
    "big-endian": lambda x: x.numpy().astype(">i2"),
    "backwards": lambda x: x.flip(-1).numpy()[..., ::-1],
    "object": lambda x: x.numpy().astype(object),
    "list": lambda x: x.tolist(),
    "bfloat16": lambda x: x.to(torch.bfloat16),
}


@pytest.mark.parametrize("door", [*CONFIGURATIONS, *RECORDS])
def test_configurations_and_records_come_in_any_container(door):
    call, given = (CONFIGURATIONS[door], WHOLE) if door in CONFIGURATIONS else (RECORDS[door], SERIES)
    if door == "mixing":
        pytest.importorskip("arviz")
    wanted = call(given)
    forms = FORMS if door in CONFIGURATIONS else {"backwards": FORMS["backwards"]}
    for name, form in forms.items():
        assert torch.equal(call(form(given)), wanted), name
    words = r"number|±1|spins|shape|must|is \("
    holes = np.ma.masked_less(given.numpy(), 0)
    for wrong in ("up", None, [[1, -1], [1]], given * torch.nan, holes):
        if wrong is None and door == "Gibbs":
            continue  # no start
        refused(call, wrong, words, door)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["cat"] * 8, "numbers or booleans, not text"),
        (np.full(8, 1e300), "below 2.63, not 1e.300"),
        (np.full(8, -1e300), "below 2.63"),
        (np.full(8, 2**63, np.uint64), "below 2.63"),
        (np.full(8, 10**30), "array of numbers"),
        (np.full(8, np.nan), "whole numbers"),
        (np.full(8, 0.5), "whole numbers"),
        (np.ma.masked_array(np.arange(8), mask=[1] * 8), "masked"),
        ([[0], [1, 2]], "array of numbers"),
        ([0, 1], "need 8 labels"),
    ],
)
def test_labels_are_whole_numbers(labels, words):
    for call in (
        lambda: rb.Split(SPINS, labels),
        lambda: rb.from_arrays(SPINS, train_labels=labels),
        lambda: rb.from_arrays(SPINS, SPINS, test_labels=labels),
        lambda: rb.from_arrays(SPINS, SPINS, SPINS, valid_labels=labels),
    ):
        with pytest.raises(rb.InputError, match=words):
            call()


@pytest.mark.parametrize(
    "labels",
    [
        list(range(8)),
        np.arange(8, dtype=">i4"),
        np.arange(8, dtype=np.uint16),
        np.arange(8).astype(object),
        np.arange(8.0)[::-1][::-1],
        torch.arange(8, dtype=torch.bfloat16),
    ],
)
def test_labels_come_in_any_container(labels):
    found = rb.Split(SPINS, labels).labels
    assert found.dtype == torch.int64
    assert found.tolist() == list(range(8))


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (["known"] * 16, "numbers or booleans, not text"),
        (np.full(16, None), "no number"),
        (np.ones(16), "booleans"),
        (np.ma.masked_array(KNOWN, mask=KNOWN), "masked"),
        (KNOWN[:5], r"\(16,\)"),
    ],
)
def test_masks_are_booleans(mask, words):
    with pytest.raises(rb.InputError, match=words):
        rb.Split(SPINS, known=mask)
    with pytest.raises(rb.InputError, match=words.replace("16", "20")):
        rb.sweep(SMALL, WHOLE, rng(), clamp=mask)


def test_masks_come_in_any_container():
    for mask in (KNOWN, KNOWN.tolist(), KNOWN.astype(object), KNOWN[::-1][::-1]):
        assert rb.Split(SPINS, known=mask).known.tolist() == KNOWN.tolist()
    held = np.arange(20) < 16
    after = rb.sweep(SMALL, WHOLE, rng(), clamp=held)
    assert torch.equal(after[..., :16], WHOLE[..., :16].float())


# -- what is the caller's stays the caller's ----------------------------------------------------------


@pytest.mark.parametrize("form", [np.array, torch.tensor, lambda x: torch.tensor(x).float()])
def test_what_is_written_into_an_array_later_changes_nothing(form):
    known, labels = form(KNOWN).__eq__(1), form(np.arange(8, dtype=np.int64))
    data = form(SPINS)
    split = rb.Split(data, labels, known)
    before = copy.deepcopy((split.spins, split.labels, split.known))
    machine = rb.rbm(16, 4, 2, seed=0)
    wanted = rb.rbm(16, 4, 2, seed=0)
    options = {"epochs": 4, "batch_size": 4, "seed": 0}
    for _ in rb.train(wanted, SPINS, rb.PatternInduced(), rb.sgd(0.01), **options):
        pass
    for _ in rb.train(machine, data, rb.PatternInduced(), rb.sgd(0.01), **options):
        data[:] = 1
        labels[:] = 1
        known[:] = True
    assert torch.equal(machine.patterns, wanted.patterns)
    for now, then in zip((split.spins, split.labels, split.known), before, strict=True):
        assert torch.equal(now, then)


def test_a_machine_does_not_train_the_callers_arrays():
    layers = rb.Layers((2, 2), ((0, 1),))
    for make in (torch.ones, np.ones):
        xi, w, b = make((1, 3, 4)), make((1, 2, 2)), make((1, 4))
        machines = rb.Machine(rb.Patterns(layers, xi), b), rb.Machine(rb.Dense(layers, {(0, 1): w}))
        for machine in machines:
            for parameter in machine.parameters():
                parameter.data.zero_()
        assert float(xi.sum()) == 12
        assert float(w.sum() + b.sum()) == 8


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda x: rb.Patterns(rb.Layers((2, 2), ((0, 1),)), x), "patterns"),
        (lambda x: rb.Dense(rb.Layers((2, 2), ((0, 1),)), {(0, 1): x}), "weights"),
        (lambda x: rb.Machine(SMALL.couplings, x), "biases"),
    ],
)
def test_parameters_are_finite_numbers(make, words):
    for wrong in (
        "up",
        [[1], [1, 2]],
        np.full((1, 2, 2), np.nan),
        np.ones((1, 2, 2), complex),
    ):
        with pytest.raises(rb.InputError, match=words):
            make(wrong)


# -- seeds and generators -----------------------------------------------------------------------------

SEEDED = {
    "rbm": lambda s: rb.rbm(3, 2, seed=s),
    "dbm": lambda s: rb.dbm(3, (2,), seed=s),
    "bm": lambda s: rb.bm(3, seed=s),
    "train": lambda s: trained(seed=s),
    "log_z": lambda s: rb.log_z(SMALL, method="ais", seed=s),
    "log_z_along": lambda s: rb.log_z_along([SMALL], seed=s),
    "log_likelihood": lambda s: rb.log_likelihood(SMALL, SPINS, seed=s),
    "ground_state": lambda s: rb.ground_state(SMALL, method="descent", starts=2, seed=s),
    "sample": lambda s: rb.sample(SMALL, 2, steps=1, seed=s),
    "record": lambda s: rb.record(SMALL, 2, 1, seed=s),
    "diagnose": lambda s: rb.diagnose(SMALL, seed=s),
    "sweep": lambda s: rb.sweep(SMALL, WHOLE, seed=s),
    "sweeps": lambda s: rb.sweeps(SMALL, WHOLE, count=2, seed=s),
    "random": lambda s: SMALL.random(2, seed=s),
    "thermodynamics": lambda s: rb.thermodynamics(SMALL, 1.0, method="tempering", steps=2, seed=s),
    "reconstruct": lambda s: rb.reconstruct(SMALL, SPINS, known=KNOWN, seed=s),
    "hamming_distance": lambda s: rb.hamming_distance(SMALL, rb.Split(SPINS, known=KNOWN), seed=s),
    "from_arrays": lambda s: rb.from_arrays(SPINS, seed=s),
    "load": lambda s: rb.load("digits", seed=s),
    "fidelity": lambda s: rb.fidelity(ROWS, ROWS, seed=s),
    "utility": lambda s: rb.utility(ROWS, ROWS, ROWS, "a", seed=s),
    "log_p": lambda s: rb.log_p(SMALL, SPINS, seed=s),
    "scores": lambda s: rb.scores(SMALL, SPINS, seed=s),
    "predict": lambda s: rb.predict(SMALL, SPINS, 0, seed=s),
    "draw_missing": lambda s: rb.draw_missing(SMALL, SPINS, np.ones_like(SPINS, bool), seed=s),
    "bootstrap_weights": lambda s: rb.bootstrap_weights(4, 2, seed=s),
    "sample_given": lambda s: rb.sample_given(SMALL, rb.Condition(0, among=1), 2, seed=s),
    "coupling_errors": lambda s: rb.coupling_errors(rb.bm(16, seed=0), SPINS, seed=s),
}


@pytest.mark.parametrize("door", SEEDED)
def test_seeds_are_whole_numbers(door):
    for wrong in (1.5, -1, True, "7", 2**63, math.nan, 1j, [1], rng()):
        refused(SEEDED[door], wrong, "a seed", door)


@pytest.mark.parametrize("seed", [np.int64(7), np.uint8(7), torch.tensor(7)])
def test_a_seed_is_the_same_in_any_container(seed):
    assert torch.equal(rb.rbm(3, 2, seed=seed).couplings.first, rb.rbm(3, 2, seed=7).couplings.first)
    assert torch.equal(
        rb.from_arrays(SPINS, seed=seed).train.spins, rb.from_arrays(SPINS, seed=7).train.spins
    )


DRAWING = {
    "rbm": lambda r: rb.rbm(3, 2, rng=r),
    "dbm": lambda r: rb.dbm(3, (2,), rng=r),
    "bm": lambda r: rb.bm(3, rng=r),
    "train": lambda r: trained(seed=None, rng=r),
    "log_z": lambda r: rb.log_z(SMALL, method="ais", rng=r),
    "log_z_along": lambda r: rb.log_z_along([SMALL], rng=r),
    "ground_state": lambda r: rb.ground_state(SMALL, method="descent", starts=2, rng=r),
    "sample": lambda r: rb.sample(SMALL, 2, steps=1, rng=r),
    "record": lambda r: rb.record(SMALL, 2, 1, rng=r),
    "sweep": lambda r: rb.sweep(SMALL, WHOLE, r),
    "sweeps": lambda r: rb.sweeps(SMALL, WHOLE, r, 2),
    "random": lambda r: SMALL.random(2, r),
    "thermodynamics": lambda r: rb.thermodynamics(SMALL, 1.0, method="tempering", steps=2, rng=r),
    "minima": lambda r: rb.minima(SMALL, 2, r),
    "basins": lambda r: rb.basins(rb.rbm(3, 2, 1, seed=0), r),
    "growth": lambda r: rb.growth(SMALL, 2, r),
    "glassiness": lambda r: rb.glassiness(SMALL, SERIES, r, starts=2, fractions=(0.5, 1), tries=2),
    "ultrametricity": lambda r: rb.ultrametricity(WHOLE, r),
    "relaxation": lambda r: rb.relaxation(SMALL, SPINS, r, sweeps=(0,), chains=2),
    "adversarial_accuracy": lambda r: rb.adversarial_accuracy(SPINS, SPINS, r),
    "reconstruct": lambda r: rb.reconstruct(SMALL, rb.Split(SPINS, known=KNOWN), r),
    "hamming_distance": lambda r: rb.hamming_distance(SMALL, rb.Split(SPINS, known=KNOWN), r),
    "gibbs_accessibility": lambda r: rb.gibbs_accessibility(SMALL, None, r),
    "method_accessibility": lambda r: rb.method_accessibility(
        SMALL, SPINS, r, negative=rb.PatternInduced()
    ),
    **{
        type(phase).__name__: lambda r, phase=phase: phase.step(
            SMALL, phase.init(SMALL, r), SMALL.visible_spins(SPINS), r
        )
        for phase in (rb.ContrastiveDivergence(), rb.Persistent(2), rb.Tempered(2, 2))
    },
    **{
        type(sampler).__name__: lambda r, sampler=sampler: sampler.init(SMALL, 2, r)
        for sampler in (rb.Gibbs(), rb.Annealing(2))
    },
    "GibbsProjection": lambda r: rb.GibbsProjection().apply(copy.deepcopy(SMALL), r),
    "ClampedChains": lambda r: rb.ClampedChains().step(SMALL, SMALL.visible_spins(SPINS), r),
}


def test_whatever_asks_for_a_generator_takes_a_seed():
    functions = {name: getattr(rb, name) for name in dir(rb) if inspect.isfunction(getattr(rb, name))}
    asked = {name for name, f in functions.items() if "rng" in inspect.signature(f).parameters}
    assert len(asked) > 20
    for name in asked:
        for word in ("rng", "seed"):
            assert inspect.signature(functions[name]).parameters[word].default is None, name
    assert asked <= {*SEEDED, *DRAWING}


@pytest.mark.parametrize("door", ["sweep", "sweeps", "random", "reconstruct"])
def test_a_seed_fixes_every_draw(door):
    one, two = SEEDED[door](3), SEEDED[door](3)
    assert torch.equal(one, two)
    assert not all(torch.equal(one, SEEDED[door](seed)) for seed in range(4, 12))


def test_a_seed_beside_a_generator_is_refused():
    with pytest.raises(rb.InputError, match="not both"):
        rb.sweep(SMALL, WHOLE, rng(), seed=3)
    with pytest.raises(rb.InputError, match="not both"):
        rb.hamming_distance(SMALL, rb.Split(SPINS, known=KNOWN), rng(), seed=3)


@pytest.mark.parametrize("door", DRAWING)
def test_a_generator_is_one_of_torch(door, monkeypatch):
    monkeypatch.setattr("rapidbm.sampling.tempering.ROUNDS", 1)  # of finding a ladder
    DRAWING[door](rng())
    for wrong in (3, np.random.default_rng(0), np.random.RandomState(0), "7", torch.Generator):
        refused(DRAWING[door], wrong, r"torch\.Generator", door)


def test_a_generator_is_where_the_machine_is():
    elsewhere = copy.deepcopy(SMALL).to("meta")
    with pytest.raises(rb.InputError, match=r"generator on cpu.*meta"):
        elsewhere.random(2, rng())
    with pytest.raises(rb.InputError, match=r"generator on cpu.*meta"):
        rb.sweep(elsewhere, elsewhere.couplings.first, rng(), means=True)


# -- devices and types --------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["gpu", "cuda:99", 3.5, "", "cpu:x", 99])
def test_unknown_devices(device):
    for make in (rb.rbm, rb.dbm, rb.bm):
        with pytest.raises(rb.InputError, match=r"the device .* cannot be used here"):
            make(3, (2,) if make is rb.dbm else 2, device=device)


@pytest.mark.parametrize("dtype", ["float64", 64, None, float, np.float64, torch.float16, torch.int8])
def test_the_type_of_a_machine_is_torchs(dtype):
    for make in (rb.rbm, rb.dbm, rb.bm):
        with pytest.raises(rb.InputError, match=r"torch\.float32 or torch\.float64, not"):
            make(3, (2,) if make is rb.dbm else 2, dtype=dtype)


# -- numbers ------------------------------------------------------------------------------------------

NOT_NUMBERS = ("fast", None, math.nan, math.inf, 1j, np.complex64(1), True, [[1.0]], 10**400)
NUMBERS = {
    "sgd": (rb.sgd, "learning rate"),
    "adam": (rb.adam, "learning rate"),
    "rate per replica": (lambda x: rb.sgd([0.1, x]), "learning rate"),
    "TorchOptimizer": (lambda x: rb.TorchOptimizer("RMSprop", x), "rate"),
    "momentum": (lambda x: rb.sgd(0.1, momentum=x), "momentum"),
    "weight_decay": (lambda x: rb.sgd(0.1, weight_decay=x), "weight decay"),
    "decay": (lambda x: rb.sgd(0.1, decay=x), "decay"),
    "floor": (lambda x: rb.sgd(0.1, floor=x), "floor"),
    "Schedule": (rb.Schedule, "decay"),
    "betas": (lambda x: rb.adam(0.1, betas=(x, 0.9)), "betas"),
    "epsilon": (lambda x: rb.adam(0.1, epsilon=x), "ε"),
    "Clip": (rb.Clip, "x > 0"),
    "scale of rbm": (lambda x: rb.rbm(3, 2, scale=[] if x is None else x), "scale"),
    "scale of dbm": (lambda x: rb.dbm(3, (2,), scale=[] if x is None else x), "scale"),
    "scale of bm": (lambda x: rb.bm(3, scale=[] if x is None else x), "scale"),
    "sweep": (lambda x: rb.sweep(SMALL, WHOLE, rng(), x), "β"),
    "sweeps": (lambda x: rb.sweeps(SMALL, WHOLE, rng(), 1, x), "β"),
    "β per chain": (lambda x: rb.sweep(SMALL, WHOLE, rng(), [1.0, 1.0, 1.0, x]), "β"),
    "free_energy": (lambda x: SMALL.free_energy(SPINS, x), "β"),
    "log_prob_unnormalised": (lambda x: SMALL.log_prob_unnormalised(SPINS, x), "β"),
    "hidden_mean": (lambda x: SMALL.hidden_mean(SPINS, x), "β"),
    "sample": (lambda x: rb.sample(SMALL, 2, steps=1, beta=x), "β"),
    "log_z": (lambda x: rb.log_z(SMALL, beta=x), "β"),
    "log_likelihood": (lambda x: rb.log_likelihood(SMALL, SPINS, beta=x), "β"),
    "exact_moments": (lambda x: rb.exact_moments(SMALL, beta=x), "β"),
    "phase_point": (lambda x: rb.phase_point(SMALL, x), "β"),
    "relaxation": (
        lambda x: rb.relaxation(SMALL, SPINS, rng(), sweeps=(0, 1), chains=2, beta=x),
        "β",
    ),
    "aspect": (lambda x: rb.boundaries(aspect=x), "aspect"),
    "load": (lambda x: rb.boundaries(load=[0.1, x]), "load"),
    "near": (lambda x: rb.overlap_distribution(WHOLE, near=x), "near"),
    "fractions": (lambda x: rb.growth(SMALL, 2, rng(), fractions=(0.5, x)), "share"),
    "threshold": (lambda x: rb.load("digits", threshold=x), "threshold"),
}


@pytest.mark.parametrize("door", NUMBERS)
def test_numbers_are_numbers(door):
    call, words = NUMBERS[door]
    for wrong in NOT_NUMBERS:
        if wrong is True and door in ("β per chain", "load"):
            continue  # a list of numbers with a boolean is one of numbers to numpy
        refused(call, wrong, words, door)


def test_rates_and_temperatures_in_any_container():
    assert rb.sgd(np.float32(0.5)).rate == rb.sgd(torch.tensor(0.5)).rate == 0.5
    assert rb.sgd(np.array([0.5, 0.25])).rate == rb.sgd(torch.tensor([0.5, 0.25])).rate
    for empty in ([], np.array([])):
        with pytest.raises(rb.InputError, match="learning rate"):
            rb.sgd(empty)
    wanted = rb.sweep(SMALL, WHOLE, rng(), torch.tensor([0.5, 1.0, 1.5, 2.0]))
    for form in (list, np.array):
        assert torch.equal(rb.sweep(SMALL, WHOLE, rng(), form([0.5, 1.0, 1.5, 2.0])), wanted)


# -- counts -------------------------------------------------------------------------------------------

COUNTED = {
    "visible": lambda n: rb.rbm(n, 2),
    "hidden": lambda n: rb.rbm(2, n),
    "hidden of dbm": lambda n: rb.dbm(2, (2, n)),
    "hidden of bm": lambda n: rb.bm(2, n),
    "patterns": lambda n: rb.rbm(2, 2, n),
    "replicas": lambda n: rb.rbm(2, 2, replicas=n),
    "Layers": lambda n: rb.Layers((2, n), ((0, 1),)),
    "from_dense": lambda n: rb.Patterns.from_dense(rb.rbm(2, 2).couplings, n),
    "epochs": lambda n: trained(epochs=n),
    "batch_size": lambda n: trained(batch_size=n),
    "average": lambda n: trained(average=n),
    "after": lambda n: rb.sgd(0.1, after=n),
    "ends": lambda n: rb.Schedule(fall="linear", ends=(n,)),
    "ContrastiveDivergence": rb.ContrastiveDivergence,
    "Persistent": rb.Persistent,
    "PatternInduced": rb.PatternInduced,
    "Tempered": rb.Tempered,
    "MeanField": rb.MeanField,
    "ClampedChains": rb.ClampedChains,
    "GibbsProjection": rb.GibbsProjection,
    "Gibbs": rb.Gibbs,
    "Annealing": rb.Annealing,
    "rungs": rb.ParallelTempering,
    "TrajectoryTempering": lambda n: rb.TrajectoryTempering((SMALL,), n),
    "sample": lambda n: rb.sample(SMALL, n),
    "steps": lambda n: rb.sample(SMALL, 2, steps=n),
    "record": lambda n: rb.record(SMALL, 2, n),
    "every": lambda n: rb.record(SMALL, 2, 2, every=n),
    "random": lambda n: SMALL.random(n, rng()),
    "chains of log_z": lambda n: rb.log_z(SMALL, method="ais", chains=n),
    "temperatures of log_z": lambda n: rb.log_z(SMALL, method="ais", most=n),
    "log_z_along": lambda n: rb.log_z_along([SMALL], chains=n),
    "temperatures of log_z_along": lambda n: rb.log_z_along([SMALL], most=n),
    "starts": lambda n: rb.ground_state(SMALL, starts=n),
    "ground_state": lambda n: rb.ground_state(SMALL, sweeps=n),
    "minima": lambda n: rb.minima(SMALL, n, rng()),
    "growth": lambda n: rb.growth(SMALL, n, rng()),
    "tries of growth": lambda n: rb.growth(SMALL, 2, rng(), tries=n),
    "sweeps": lambda n: rb.sweeps(SMALL, WHOLE, rng(), n),
    "descend": lambda n: rb.descend(SMALL, WHOLE, passes=n),
    "passes": lambda n: rb.reconstruct(SMALL, rb.Split(SPINS, known=KNOWN), rng(), passes=n),
    "tries": lambda n: rb.hamming_distance(
        SMALL, rb.Split(SPINS, known=KNOWN), rng(), tries=0.5 if n is None else n
    ),
    "gibbs_accessibility": lambda n: rb.gibbs_accessibility(SMALL, None, rng(), chains=n),
    "steps of gibbs_accessibility": lambda n: rb.gibbs_accessibility(SMALL, None, rng(), steps=n),
    "repeats": lambda n: rb.method_accessibility(
        SMALL, SPINS, rng(), negative=rb.ContrastiveDivergence(), repeats=n
    ),
    "relaxation": lambda n: rb.relaxation(SMALL, SPINS, rng(), chains=n),
    "sweeps of relaxation": lambda n: rb.relaxation(SMALL, SPINS, rng(), sweeps=(0, n)),
    "ultrametricity": lambda n: rb.ultrametricity(WHOLE, rng(), triples=n),
    "diagnose": lambda n: rb.diagnose(SMALL, chains=n),
}
OPTIONAL = ("patterns", "average", "rungs", "TrajectoryTempering", "steps", "chains of log_z")


@pytest.mark.parametrize("door", COUNTED)
def test_counts_are_whole_numbers(door):
    for wrong in (1.5, 2.0, True, "3", None, -1, [2], math.nan, 1j):
        if (wrong is None and door in OPTIONAL) or (wrong == [2] and door == "visible"):
            continue
        refused(COUNTED[door], wrong, r"whole number|rising|increase", door)


VASTLY = {
    "visible": lambda n: rb.rbm(n, 2),
    "hidden": lambda n: rb.dbm(2, (2, n)),
    "a full machine": lambda n: rb.bm(10**6, 10**6),
    "patterns": lambda n: rb.rbm(1000, 2, n),
    "replicas": lambda n: rb.rbm(2, 2, 1, replicas=n),
    "from_dense": lambda n: rb.Patterns.from_dense(rb.rbm(2, 2).couplings, n),
    "random": lambda n: SMALL.random(n, rng()),
    "sample": lambda n: rb.sample(SMALL, n),
    "sample, tempering": lambda n: rb.sample(SMALL, n, sampler=rb.ParallelTempering()),
    "sample, from a start": lambda n: rb.sample(SMALL, n, sampler=rb.Gibbs(start=WHOLE)),
    "record": lambda n: rb.record(SMALL, 100, n),
    "log_z": lambda n: rb.log_z(SMALL, method="ais", chains=n),
    "log_z_along": lambda n: rb.log_z_along([rb.rbm(40, 40)], chains=n),
    "ground_state": lambda n: rb.ground_state(SMALL, method="annealing", starts=n),
    "minima": lambda n: rb.minima(SMALL, n, rng()),
    "growth": lambda n: rb.growth(SMALL, n, rng()),
    "gibbs_accessibility": lambda n: rb.gibbs_accessibility(SMALL, None, rng(), chains=n),
    "relaxation": lambda n: rb.relaxation(SMALL, SPINS, rng(), chains=n),
    "ultrametricity": lambda n: rb.ultrametricity(WHOLE, rng(), triples=n),
    "Persistent": lambda n: trained(negative=rb.Persistent(n)),
    "Tempered": lambda n: trained(negative=rb.Tempered(n, 2)),
    "diagnose": lambda n: rb.diagnose(SMALL, chains=n),
    "sparse data": lambda n: rb.to_spins(scipy.sparse.coo_array(([1], ([0], [0])), (n, 100))),
}


@pytest.mark.filterwarnings("ignore::rapidbm.errors.LoadWarning")
@pytest.mark.parametrize("door", VASTLY)
def test_what_no_memory_holds_is_refused_before_it_is_taken(door):
    with pytest.raises(rb.InputError, match=r"would take .*[TP]B of memory, and there are "):
        VASTLY[door](VAST)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rb.Layers((2, 2), ((0,),)), "a pair of the layers"),
        (lambda: rb.Layers((2, 2), ((0, 1, 1),)), "a pair of the layers"),
        (lambda: rb.Layers((2, 2), (("0", "1"),)), "a pair of the layers"),
        (lambda: rb.Layers((2, 2), ((0.0, 1.0),)), "a pair of the layers"),
        (lambda: rb.Layers((2, 2), (3,)), "a pair of the layers"),
        (lambda: rb.Layers(2, ()), "sizes of the layers"),
        (lambda: rb.dbm(2, 3), "sizes of its hidden layers"),
        (lambda: rb.dbm(2, None), "sizes of its hidden layers"),
        (lambda: rb.WeightedSpins(np.ones((1, 2, 3)), np.ones((2, 1))), "weights"),
        (lambda: rb.WeightedSpins("up", 1.0), "spins"),
        (lambda: rb.diagnose(SMALL, SPINS), "Dataset"),
        (lambda: SMALL.replica(0.0), "there is no replica"),
        (lambda: SMALL.replica("0"), "there is no replica"),
        (
            lambda: rb.train(SMALL, SPINS, rb.Persistent, rb.sgd(0.1), epochs=1, batch_size=1),
            "object",
        ),
    ],
)
def test_shapes_of_machines_and_objects(call, words):
    with pytest.raises(rb.InputError, match=words):
        call()


# -- between two yields of a training -----------------------------------------------------------------


def replaced(machine):
    machine.couplings.patterns = torch.nn.Parameter(machine.patterns.detach() * 2)


def given_biases(machine):
    machine.biases = torch.nn.Parameter(torch.zeros(1, 20))


@pytest.mark.parametrize("change", [replaced, given_biases, lambda machine: machine.double()])
@pytest.mark.parametrize("every", ["epoch", "update"])
def test_parameters_that_were_replaced_are_noticed(change, every):
    machine = rb.rbm(16, 4, 2, seed=0)
    options = {"epochs": 3, "batch_size": 4, "seed": 0, "every": every}
    updates = rb.train(machine, SPINS, rb.PatternInduced(), rb.sgd(0.01), **options)
    next(updates)
    change(machine)
    with pytest.raises(rb.InputError, match="changed in place"):
        next(updates)


def test_parameters_may_change_in_place():
    machine = rb.rbm(16, 4, 2, seed=0)
    options = {"epochs": 2, "batch_size": 4, "seed": 0}
    for progress in rb.train(machine, SPINS, rb.PatternInduced(), rb.sgd(0.01), **options):
        machine.patterns.data.mul_(0.5)
    assert float(machine.patterns.detach().abs().max()) < 0.6
    assert progress.epoch == 2


# -- names --------------------------------------------------------------------------------------------

NAMES = ("$_$", "$\\frac{$", "a $ b", "\x1b[31mred", "\x07bell", "two\nlines", "back\\slash")


@pytest.mark.parametrize("name", NAMES)
def test_any_name_can_stand_in_a_picture(name, tmp_path):
    from rapidbm.pictures import save

    records = [{"epoch": 1, name: [0.5]}, {"epoch": 2, name: [0.4]}]
    save(curve_figure(records, name), tmp_path / "a.png")
    save(image_figure(torch.from_numpy(SPINS), (4, 4), title=name), tmp_path / "b.png")


@pytest.mark.parametrize("name", NAMES)
def test_no_name_commands_the_terminal(name, capsys):
    from rapidbm.cli.terminal.console import Screen

    screen = Screen()
    screen.say(f"data {name}")
    screen.warn(f"data {name}")
    screen.fail(f"data {name}")
    told = "".join(capsys.readouterr())
    assert "data" in told
    assert not set(told) & {chr(i) for i in [*range(32), *range(127, 160)] if chr(i) != "\n"}


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.uint64])
def test_unsigned_numbers_keep_their_values(dtype):
    large = np.array([0, 1, min(np.iinfo(dtype).max, 2**63 - 1)], dtype=dtype)
    assert as_labels(large).tolist() == as_tensor(large, what="x").tolist() == large.tolist()
    with pytest.raises(rb.InputError, match=r"x must be below 2\^63, not 9223372036854775808"):
        as_tensor(np.array([2**63], dtype=np.uint64), what="x")


@pytest.mark.parametrize("labels", [[1.0, 1e300], [1.0, math.inf], [0.5, 2.0], [2.0**63]])
def test_labels_that_are_no_whole_numbers_are_refused(labels):
    with pytest.raises(rb.InputError, match=r"whole numbers below 2\^63"):
        as_labels(labels)
    assert as_labels([1.0, -(2.0**63)]).tolist() == [1, -(2**63)]
