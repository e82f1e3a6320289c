"""One rule for visible data at every door: {0, 1}, booleans and ±1 in any container give one answer, and
what is neither is refused. What nobody could tell apart has a name of its own."""

import copy

import numpy as np
import pytest
import torch

import rapidbm as rb
from rapidbm.data.splits import Split
from rapidbm.glass.neighbours import adversarial_accuracy
from rapidbm.glass.sample_moments import moments
from rapidbm.random import stream
from rapidbm.runs.metrics import corrupt, mean_free_energy, mean_log_likelihood
from rapidbm_paper.linear_probe import hidden_samples

SPINS = rb.load("bars4").train.spins[:8, 4:13].contiguous()  # some of the pixels: few states
KNOWN = torch.arange(9) < 4
BITS = rb.to_bits(SPINS)
FORMS = {
    "bits": BITS,
    "bits uint8": BITS.to(torch.uint8),
    "bits float": BITS.float(),
    "bits double": BITS.double(),
    "bits bfloat16": BITS.to(torch.bfloat16),
    "bits numpy": BITS.numpy(),
    "bits numpy float": BITS.numpy().astype(np.float32),
    "bits list": BITS.tolist(),
    "bool": BITS.bool(),
    "bool numpy": BITS.numpy().astype(bool),
    "spins float": SPINS.float(),
    "spins double": SPINS.double(),
    "spins long": SPINS.long(),
    "spins numpy": SPINS.numpy(),
    "spins list": SPINS.tolist(),
    "split": Split(BITS),
}
FEW = ("bits", "bits numpy float", "bits list", "bool numpy", "spins double", "split")
HALF, NAN, MIXED = SPINS.float(), SPINS.float(), SPINS.clone()
HALF[0, 0], NAN[0, 0], MIXED[0, 0] = 0.5, torch.nan, 0
BAD = {
    "nan": (NAN, "finite"),
    "nan numpy": (NAN.numpy(), "finite"),
    "infinite": (NAN.nan_to_num(torch.inf), "finite"),
    "half": (HALF, "two levels"),
    "grey": ((BITS * 255).numpy(), "two levels"),
    "mixed": (MIXED, "holds −1, 0 and 1.*mask"),
    "unknown pixels": (corrupt(Split(SPINS, known=KNOWN)), "finite"),
    "words": (np.full((8, 9), "up"), "numbers or booleans"),
    "complex": (SPINS.to(torch.complex64), "numbers or booleans"),
}
MACHINES = {
    "rbm": rb.rbm(9, 5, biases=True, scale=0.4, seed=0, dtype=torch.float64),
    "rbm float32": rb.rbm(9, 5, 2, seed=0, scale=0.4),
    "dbm": rb.dbm(9, (4, 3), biases=True, scale=0.4, seed=0, dtype=torch.float64),
    "bm": rb.bm(9, 3, scale=0.3, seed=0, dtype=torch.float64),
    "bm, all visible": rb.bm(9, 0, 2, scale=0.3, seed=0, dtype=torch.float64),
}
RESTRICTED = ("rbm", "rbm float32")


def trained(machine, data):
    one = copy.deepcopy(machine)
    for _ in rb.train(
        one, data, rb.ContrastiveDivergence(1), rb.sgd(0.01), epochs=2, batch_size=3, seed=0
    ):
        pass
    return torch.cat([p.detach().flatten() for p in one.parameters()])


def biased(machine, data):
    one = copy.deepcopy(machine)
    one.start_biases(data)
    return one.biases.detach()


def masked(data):
    return Split(data, known=KNOWN)


# Door → function(machine, data) → numbers.
DOORS = {
    "free_energy": lambda m, x: m.free_energy(x),
    "log_prob_unnormalised": lambda m, x: m.log_prob_unnormalised(x, 0.7),
    "visible_spins": lambda m, x: m.visible_spins(x),
    "with_visible": lambda m, x: m.with_visible(x),
    "train": trained,
    "log_likelihood": lambda m, x: rb.log_likelihood(m, x, seed=0).lower,
    "metric log_likelihood": lambda m, x: mean_log_likelihood(m, x, stream(0)),
    "metric free_energy": lambda m, x: mean_free_energy(m, x, stream(0)),
    "reconstruct": lambda m, x: rb.reconstruct(m, masked(x), stream(0)),
    "hamming_distance": lambda m, x: rb.hamming_distance(m, masked(x), stream(0), tries=1),
    "method_accessibility": lambda m, x: rb.method_accessibility(
        m, x, stream(0), negative=rb.ContrastiveDivergence(1)
    ),
    "relaxation": lambda m, x: (
        rb.relaxation(m, x, stream(0), sweeps=(0, 2), chains=8).data.accuracy.value
    ),
    "from_arrays": lambda m, x: rb.from_arrays(x).train.spins,
}
NEEDS = {
    "hidden_mean": (RESTRICTED, lambda m, x: m.hidden_mean(x)),
    "complete": (RESTRICTED, lambda m, x: m.complete(x)),
    "given_visible": (RESTRICTED, lambda m, x: m.given_visible(x).spins),
    "hidden_samples": (RESTRICTED, lambda m, x: hidden_samples(m, x, stream(0))),
    "start_biases": (("rbm", "dbm"), biased),
    # Where all units are visible, a configuration is visible data.
    "energy": (("bm, all visible",), lambda m, x: m.energy(x)),
    "field": (("bm, all visible",), lambda m, x: m.field(x, 0)),
    "sweep": (("bm, all visible",), lambda m, x: rb.sweep(m, x, stream(0))),
    "descend": (("bm, all visible",), rb.descend),
}
CASES = [
    pytest.param(door, MACHINES[name], id=f"{key}-{name}")
    for key, (names, door) in {
        **{k: (tuple(MACHINES), d) for k, d in DOORS.items()},
        **NEEDS,
    }.items()
    for name in names
]


def copied(data):
    return copy.deepcopy(data.spins if isinstance(data, Split) else data)


def same(one, two):
    if isinstance(one, list):
        return one == two
    return np.array_equal(torch.as_tensor(one).float().numpy(), torch.as_tensor(two).float().numpy())


@pytest.mark.parametrize(("door", "machine"), CASES)
def test_every_form_of_the_same_data_gives_the_same_bits(door, machine):
    wanted = door(machine, SPINS)
    assert bool(torch.isfinite(wanted.double()).all())
    for name in FEW:
        before = copied(FORMS[name])
        found = door(machine, FORMS[name])
        assert torch.equal(found, wanted), name
        assert same(copied(FORMS[name]), before), f"{name} was changed"


@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_the_same_spins(name):
    data = FORMS[name]
    assert torch.equal(MACHINES["rbm"].visible_spins(data)[0], SPINS.double())
    assert torch.equal(MACHINES["bm, all visible"].configuration(data)[0], SPINS.double())
    assert torch.equal(rb.from_arrays(data).train.spins, rb.from_arrays(SPINS).train.spins)


@pytest.mark.parametrize(("door", "machine"), CASES)
@pytest.mark.parametrize("name", BAD)
def test_what_is_neither_is_refused(door, machine, name):
    data, words = BAD[name]
    with pytest.raises(rb.InputError, match=words):
        door(machine, data)


@pytest.mark.parametrize("judge", [adversarial_accuracy, moments])
def test_judges_of_samples_keep_the_rule(judge):
    def numbers(samples, data):
        found = judge(samples, data, stream(0))
        return found.truth.value if hasattr(found, "truth") else found[1].samples

    wanted = numbers(SPINS, SPINS)
    for name, data in FORMS.items():
        assert torch.equal(numbers(data, SPINS), wanted), name
        assert torch.equal(numbers(SPINS, data), wanted), name
    for data, words in BAD.values():
        with pytest.raises(rb.InputError, match=words):
            judge(data, SPINS, stream(0))


def test_constant_data_are_what_both_conventions_say_or_bits():
    machine = MACHINES["rbm"]
    ones = torch.ones(3, 9)
    assert torch.equal(machine.visible_spins(ones)[0], ones.double())
    assert torch.equal(machine.visible_spins(ones.bool())[0], ones.double())
    for zeros in (torch.zeros(3, 9), torch.zeros(3, 9).bool(), -ones):
        assert torch.equal(machine.visible_spins(zeros)[0], -ones.double())


@pytest.mark.parametrize("name", ["rbm", "dbm", "bm"])
def test_a_configuration_is_spins_and_zero_is_an_unknown_hidden_unit(name):
    machine = MACHINES[name]
    spins = machine.random(6, stream(0))
    bits = rb.to_bits(spins)
    doors = {
        "energy": machine.energy,
        "field": lambda x: machine.field(x, 0),
        "infer": machine.infer,
        "configuration": machine.configuration,
        "sweep": lambda x: rb.sweep(machine, x, stream(1)),
        "sweeps": lambda x: rb.sweeps(machine, x, stream(1), 2),
        "descend": lambda x: rb.descend(machine, x),
    }
    forms = (spins.float(), spins.to(torch.int8), spins.numpy(), spins.tolist(), bits.bool())
    for what, door in doors.items():
        wanted = door(spins)
        for data in forms:
            assert torch.equal(door(data), wanted), what
        for data in (bits, bits.float().numpy(), spins * torch.nan, spins * 0.5):
            with pytest.raises(rb.InputError, match="a configuration of all units is ±1"):
                door(data)
    unknown = machine.with_visible(SPINS)
    for what in ("sweep", "descend", "configuration", "field", "infer"):
        doors[what](unknown)
    with pytest.raises(rb.InputError, match="unknown"):
        machine.energy(unknown)


def test_means_have_a_name_of_their_own():
    """E and the fields are linear in every unit: at means they are the averages of independent units."""
    machine = MACHINES["bm"]
    means = torch.tensor([[0.5] + [0.0] * 11], dtype=torch.float64)
    both = torch.cat([means, means])
    both[0, 0], both[1, 0] = 1.0, -1.0
    energy = machine.energy(both, means=True)[0]
    wanted = 0.75 * energy[0] + 0.25 * energy[1]
    assert torch.allclose(machine.energy(means, means=True)[0, 0], wanted)
    with pytest.raises(rb.InputError, match="means=True"):
        machine.energy(means)


@pytest.mark.parametrize("positive", [rb.MeanField(3), rb.ClampedChains(2), rb.Enumerated(), None])
@pytest.mark.parametrize(
    "negative",
    [
        rb.ContrastiveDivergence(1),
        rb.Persistent(4),
        rb.PatternInduced(),
        rb.PatternInduced(1),
        rb.Tempered(2, 3),
        rb.Exact(),
    ],
    ids=lambda phase: type(phase).__name__,
)
def test_data_are_looked_at_once_at_the_door(negative, positive, monkeypatch):
    """An update makes no pass over the batch to check it, and asks a GPU nothing."""
    for make in (rb.rbm(9, 5, 2, seed=0), rb.dbm(9, (4, 3), 2, seed=0), rb.bm(9, 3, 2, seed=0)):
        machine = copy.deepcopy(make)
        with monkeypatch.context() as patch:
            updates = rb.train(
                machine,
                BITS,
                negative,
                rb.sgd(0.01),
                positive=positive,
                epochs=2,
                batch_size=4,
                every="update",
                seed=0,
            )
            patch.setattr("rapidbm.machines.machine.as_spins", refuse)
            patch.setattr(rb.Machine, "_known", refuse)
            for _ in range(3):  # after the last one the fit is looked at
                next(updates)


def refuse(*given, **named):
    raise AssertionError("checked again")


@pytest.mark.parametrize("value", [0.0, 0.5])
def test_overlaps_of_chains_are_of_spins(value):
    series = torch.ones(1, 4, 6, 5)
    series[0, 0, 0, 0] = value
    for door in (rb.freezing, rb.edwards_anderson):
        with pytest.raises(rb.InputError, match="±1"):
            door(series)
        with pytest.raises(rb.InputError, match="±1"):
            door(series > 0)
