"""The command, as a person types it."""

import importlib
import inspect
import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import threading
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import fields
from functools import partial

import numpy as np
import pytest
import torch

from rapidbm import pictures
from rapidbm.cli.main import COMMANDS, HOMES, main
from rapidbm.cli.terminal.console import spread
from rapidbm.data.catalogue import load
from rapidbm.errors import InputError
from rapidbm.glass.minima import minima
from rapidbm.glass.neighbours import nearest
from rapidbm.glass.overlaps import freezing, overlap_distribution, ultrametricity
from rapidbm.glass.spectra import spectrum
from rapidbm.ground.ground_state import ground_state
from rapidbm.machines.constructors import rbm
from rapidbm.machines.files import load_tensors, save_machine
from rapidbm.random import stream
from rapidbm.registry import options_of
from rapidbm.runs import diagnosis, evaluation
from rapidbm.runs.diagnosis import diagnose, opened
from rapidbm.runs.metrics import METRICS, Metric, hamming_distance
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run
from rapidbm.runs.samples import sampler_named, samples
from rapidbm.sampling.convergence import mixing
from rapidbm.sampling.samplers import Gibbs, ParallelTempering, record, sample

SMALL = ["--hidden", "30", "--patterns", "4", "--epochs", "3", "--device", "cpu"]


SAVE = pictures.save


def command(*words, out=None, err=None, columns=100):
    """The command in this process: exit code, standard output, standard error. A look is of three tries,
    not of 100, which would take most of the time."""
    out, err = out or io.StringIO(), err or io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["rapidbm", *map(str, words)])
        patch.setenv("COLUMNS", str(columns))
        patch.setitem(METRICS.own, "hamming", Metric(partial(hamming_distance, tries=3)))
        code = 0
        try:
            main()
        except SystemExit as left:
            code = left.code or 0
    return code, *(x.getvalue() if isinstance(x, io.StringIO) else None for x in (out, err))


@pytest.fixture
def rapidbm(monkeypatch, tmp_path):
    """The command in an empty folder. Its pictures are empty files: to draw them takes longer than most
    of what they show; `drawn` has them drawn."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pictures, "save", empty)
    return command


def empty(figure, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


@pytest.fixture
def drawn(rapidbm, monkeypatch):
    monkeypatch.setattr(pictures, "save", SAVE)


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """Trains as told, each line once: the folder to copy, and what the command said."""
    folder, known = tmp_path_factory.mktemp("trained"), {}

    def train(*words):
        if words not in known:
            out = folder / str(len(known)) / "R"
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(pictures, "save", empty)
                known[words] = out, *command("train", *words, "--out", out)
            assert known[words][1] == 0, known[words][3]
        return known[words]

    return train


@pytest.fixture
def trained(rapidbm, once):
    shutil.copytree(once("bars4", *SMALL, "--replicas", 2)[0], "R")
    return "R"


@pytest.fixture
def alone(rapidbm, once):
    """The same of one replica."""
    shutil.copytree(once("bars4", *SMALL)[0], "B")
    return "B"


@pytest.fixture
def few_looks(monkeypatch):
    """A diagnosis of ten recorded times a chain, drawn among the lines of one diagram: those of another
    shape of machine take seconds each."""
    lines = diagnosis.boundaries  # kept by conftest
    monkeypatch.setattr(diagnosis, "SERIES", 10)
    monkeypatch.setattr(diagnosis, "boundaries", lambda theory, aspect: lines(theory, 30 / 16))


def objects(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    "command",
    ["train", "demo", "evaluate", "sample", "reconstruct", "datasets", "runs", "sweep"],
)
def test_help(rapidbm, command):
    code, out, _ = rapidbm(command, "--help")
    assert code == 0
    assert "Usage: rapidbm" in out
    assert "--json" in out


def test_help_lists_every_command_and_version(rapidbm):
    _, out, _ = rapidbm("--help")
    assert all(word in out for word in ("train", "demo", "evaluate", "sample", "reconstruct", "datasets"))
    assert rapidbm("--version")[1].startswith("rapidbm 0.")


def test_paragraphs_of_help_fill_the_lines(rapidbm):
    _, out, _ = rapidbm("sweep", "--help")
    assert " Killed at any moment, the same command goes on where it was; " in out
    assert "\n rapidbm sweep study.toml --dry-run" in out


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_itself(name):
    command = getattr(importlib.import_module(HOMES.get(name, f".{name}"), "rapidbm.cli"), name)
    assert inspect.getdoc(command).partition("\n")[0] == COMMANDS[name]


def test_help_shows_the_options_that_people_use(rapidbm):
    _, out, _ = rapidbm("train", "--help", columns=80)
    shown = set(re.findall(r"^│ --([a-z-]+)", out, re.MULTILINE))
    assert {"preset", "model", "patterns", "epochs", "out", "set", "help-all"} < shown
    assert len(shown) <= 20
    assert "lifetime" not in out
    assert len(out.splitlines()) <= 100


def test_settings_are_given_by_name(rapidbm, tmp_path):
    options = "--biases --centred --strength 1 --strength 0.5 --rate-floor 1e-4 --metric log_likelihood"
    names = "biases=true centred=True strengths=1,0.5 rate-floor=1e-4 metrics=log_likelihood"
    by_names = [word for name in names.split() for word in ("--set", name)]
    found = []
    for folder, words in (("a", options.split()), ("b", by_names)):
        assert rapidbm("train", "bars4", *SMALL, *words, "--out", folder)[0] == 0
        found.append(json.loads((tmp_path / folder / "run.json").read_text())["recipe"])
    assert found[0] == found[1]
    assert (found[0]["biases"], found[0]["strengths"], found[0]["rate_floor"]) == (True, [1.0, 0.5], 1e-4)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("epoch=3", "there is no setting 'epoch'; the nearest are epochs"),
        ("wings=3", "there is no setting 'wings'; .*--help-all lists all"),
        ("epochs", "--set takes name=value"),
        ("rate=fast", "Invalid value for '--rate': "),
        ("data_seed=-1", "Invalid value for '--data-seed': "),
        ("fall=up", "'up'"),
        ("decay_after=3 --set decay=1", "the rate does not decay"),
        ("particles=5", "has no option --particles"),
        ("biases=5", "the setting biases is true or false, not '5'"),
        ("seed=1 --set seed=2", "the setting seed is given twice"),
    ],
)
def test_settings_by_name_are_checked_as_options_are(rapidbm, tmp_path, words, told):
    code, _, err = rapidbm("train", "bars4", "--set", *words.split(), "--out", "R")
    assert code == 2
    assert re.search(told, " ".join(err.replace("│", " ").split())), err
    assert not (tmp_path / "R").exists()


def test_every_field_of_a_recipe_is_an_option(rapidbm):
    _, out, _ = rapidbm("train", "--help-all")
    flags = {option.name: flag for flag, option in options_of(Recipe).items()}
    names = {flags.get(field.name, field.name) for field in fields(Recipe)}
    for name in names - {"dataset", "falls", "rate_changes", "options"}:
        assert re.search(rf"--{name.replace('_', '-')}\b", out), name


def test_train_tells_what_it_does(rapidbm, drawn, tmp_path):
    code, out, err = rapidbm("train", "bars4", *SMALL, "--replicas", 3, "--out", "R", "--seed", 1)
    assert code == 0
    assert err.startswith("warning: 3 of 3 replicas end below independent columns")
    assert err.count("warning") == 1
    assert "preset paper-bars" in out
    assert "rbm 16×30, K=4 patterns, pid, 3 replicas" in out
    assert "epoch    3  hamming train 0." in out
    assert (tmp_path / "R/figures/curves.png").stat().st_size > 1000
    run = Run("R")
    assert (run.recipe.seed, run.recipe.batch_mean, run.info["preset"]) == (
        1,
        "nominal",
        "paper-bars",
    )


def test_train_for_machines(once):
    folder, _, out, _ = once("bars4", *SMALL, "--json")
    lines = objects(out)
    assert [line["event"] for line in lines] == ["evaluation"] * 4 + ["finished"]
    assert lines[-1]["out"] == str(folder)
    assert lines[-2]["hamming_test"] == Run(folder).metrics()[-1]["hamming_test"]


@pytest.mark.parametrize(
    "words",
    [
        ["--dense", "--negative", "cd", "--sweeps", "2"],
        ["--patterns", "3", "--negative", "pt", "--particles", "7", "--rungs", "4", "--biases"],
        [
            "--dense",
            "--negative",
            "pcd",
            "--particles",
            "20",
            "--biases",
            "--optimizer",
            "rmsprop",
            "--rate",
            "1e-3",
        ],
        [
            "--dense",
            "--negative",
            "exact",
            "--hidden",
            "4",
            "--optimizer",
            "adam",
            "--fall",
            "cosine",
        ],
        [
            "--patterns",
            "3",
            "--negative",
            "pid",
            "--sweeps",
            "1",
            "--projection",
            "clip",
            "--bound",
            "0.9",
        ],
        [
            "--patterns",
            "3",
            "--projection",
            "gibbs",
            "--project-every",
            "epoch",
        ],
        [
            "--model",
            "dbm",
            "--hidden",
            "12",
            "--hidden",
            "8",
            "--patterns",
            "2",
            "--positive",
            "clamped",
        ],
        ["--model", "dbm", "--hidden", "12", "--hidden", "8", "--dense", "--negative", "pcd"],
        [
            "--model",
            "bm",
            "--hidden",
            "0",
            "--patterns",
            "2",
            "--negative",
            "pcd",
            "--particles",
            "9",
        ],
        [
            "--model",
            "bm",
            "--hidden",
            "5",
            "--dense",
            "--negative",
            "cd",
            "--positive",
            "meanfield",
        ],
        [
            "--patterns",
            "3",
            "--continuous",
            "--scale",
            "0.3",
            "--average",
            "4",
            "--dtype",
            "float64",
        ],
        ["--patterns", "3", "--metric", "hamming", "--metric", "log_likelihood", "--hidden", "5"],
        [
            "--patterns",
            "3",
            "--replicas",
            "2",
            "--rate",
            "0.01",
            "--rate",
            "0.02",
            "--momentum",
            "0.5",
        ],
    ],
    ids=" ".join,
)
def test_every_kind_of_machine_trains_and_is_evaluated(rapidbm, words):
    words = words if "--hidden" in words else ["--hidden", "10", *words]
    code, _, err = rapidbm("train", "bars4", "--epochs", 2, "--out", "R", *words)
    assert code == 0, err
    run = Run("R")
    assert all(np.isfinite(run.metrics()[-1]["hamming_test"]))
    code, out, err = rapidbm("evaluate", "R", "--json")
    assert code == 0, err
    found = objects(out)[0]
    assert np.isfinite(found["hamming_train"]).all()
    if "log_likelihood_test" in found:
        assert max(found["log_likelihood_test"]) < 0
    for command in (["sample", "R", "--sweeps", "3"], ["reconstruct", "R"]):
        code, _, err = rapidbm(*command)
        assert code == 0, err


def test_evaluate_gives_the_exact_likelihood(rapidbm, trained):
    from rapidbm.ground.ground_state import ground_state
    from rapidbm.likelihood.log_z import log_likelihood, log_z

    code, out, _ = rapidbm("evaluate", trained, "--json")
    found = objects(out)[0]
    machine, data = Run(trained).machine(), load("bars4")
    assert code == 0
    assert found["log_z"] == pytest.approx(log_z(machine).lower.tolist())
    for part, split in (("train", data.train), ("test", data.test)):
        exact = log_likelihood(machine, split.spins).lower
        assert found[f"log_likelihood_{part}"] == pytest.approx(exact.tolist())
        # −log Σ_h exp(−E) is what the likelihood lacks of log Z.
        free = -(exact + log_z(machine).lower)
        assert found[f"free_energy_{part}"] == pytest.approx(free.tolist(), abs=1e-3)
    assert found["ground_state_energy"] == pytest.approx(ground_state(machine).energy.tolist())
    _, out, _ = rapidbm("evaluate", trained)
    assert "log_likelihood_test" in out
    assert "exact" in out


@pytest.fixture(scope="module")
def hot_run(tmp_path_factory):
    """A run whose machine is hot: whatever is drawn differs, and annealing takes no time."""
    folder = tmp_path_factory.mktemp("hot") / "H"
    return run_of(folder, patterns=None, hidden=(4,), negative="cd", rate=(1e-3,), epochs=1)


@pytest.fixture
def hot(rapidbm, hot_run):
    shutil.copytree(hot_run, "H")
    return "H"


def run_of(folder, **chosen):
    run = Run.create(folder, Recipe.made("bars4", {**chosen, "device": "cpu", "evaluate": "end"}))
    assert list(run.go())
    return folder


def test_every_draw_of_evaluate_follows_its_seed(rapidbm, hot, monkeypatch):
    asked = []
    for name in ("log_z", "log_likelihood", "log_z_along"):
        plain = getattr(evaluation, name)

        def noted(*args, plain=plain, name=name, **options):
            asked.append((name, options["seed"]))
            return plain(*args, **options)

        monkeypatch.setattr(evaluation, name, noted)
    monkeypatch.setattr(evaluation, "CHAINS", 20)
    words = ["evaluate", hot, "--likelihood", "ais", "--json", "--seed"]
    one, again, other = (objects(rapidbm(*words, seed)[1])[0] for seed in (3, 3, 4))
    assert one == again
    for name in ("hamming_train", "hamming_test", "log_z", "energy_random"):
        assert one[name] != other[name], name
    assert one["free_energy_test"] == other["free_energy_test"]
    assert set(asked) == {(name, seed) for name in ("log_z", "log_likelihood") for seed in (3, 4)}
    asked.clear()
    assert rapidbm("evaluate", hot, "--curve", "--seed", 5)[0] == 0
    assert set(asked) == {("log_z_along", 5), ("log_likelihood", 5)}


def test_evaluate_takes_the_chains_of_its_own_update(rapidbm, monkeypatch):
    """PCD keeps the newest chains alone: an older machine begins its own."""
    chosen = {"hidden": (10,), "negative": "pcd", "particles": 6, "rate": (0.05,), "epochs": 2}
    run, seen = Run(run_of("R", patterns=None, **chosen)), []
    plain = evaluation.method_accessibility

    def noted(machine, data, rng, *, chains, **options):
        seen.append(chains)
        return plain(machine, data, rng, chains=chains, **options)

    monkeypatch.setattr(evaluation, "method_accessibility", noted)
    saved = load_tensors(run.latest)[0]["training/chains"]
    newest = objects(rapidbm("evaluate", "R", "--json")[1])[0]
    lowest = run.machine().energy(saved).detach().amin(1) / torch.tensor(newest["ground_state_energy"])
    assert newest["method_accessibility"] == pytest.approx(lowest.tolist(), rel=1e-5)
    assert rapidbm("evaluate", "R", "--update", 1)[0] == 0
    assert torch.equal(seen[0], saved)
    assert seen[1] is None


def test_what_is_drawn_from_a_run_follows_the_seed(rapidbm, hot):
    for command, *more in (
        ["sample", "--sweeps", 1],
        ["sample", "--start", "data", "--sweeps", 0],
        ["reconstruct"],
    ):
        found = []
        for i, seed in enumerate((3, 3, 4)):
            file = f"{command}-{len(more)}-{i}.npy"
            assert rapidbm(command, hot, *more, "--seed", seed, "--out", file)[0] == 0
            found.append(np.load(file))
        assert np.array_equal(found[0], found[1])
        assert not np.array_equal(found[0], found[2])


def test_options_of_commands_arrive(rapidbm, hot, monkeypatch):
    asked = []

    def refuse(*words, **options):
        asked.append((words, options))
        raise InputError("no more than this was wanted")

    for name in ("runs.diagnosis.diagnose", "cli.demo.demonstrate"):
        monkeypatch.setattr(f"rapidbm.{name}", refuse)
    monkeypatch.setattr("rapidbm_bench.speed.run.measured", refuse)
    words = ["--chains", 5, "--sweeps", 6, "--starts", 7, "--seed", 8, "--update", 1]
    for line in (["diagnose", hot, *words], ["demo", "--seed", 9], ["bench", "--seed", 10]):
        assert rapidbm(*line)[0] == 2
    (looked_at, how), (demo, _), (bench, _) = asked
    assert {k: how[k] for k in ("chains", "sweeps", "starts", "seed")} == {
        "chains": 5,
        "sweeps": 6,
        "starts": 7,
        "seed": 8,
    }
    wanted = Run(hot).machine(1).couplings.matrix(0, 1)
    assert torch.equal(looked_at[0].couplings.matrix(0, 1), wanted)
    assert len(how["past"]) == 2
    assert demo[1] == 9
    assert bench[3] == 10


def test_evaluate_says_how_it_knows(rapidbm, monkeypatch):
    rapidbm("train", "bas6", "--hidden", 40, "--patterns", 3, "--epochs", 1, "--out", "R")
    _, out, _ = rapidbm("evaluate", "R")
    assert "ground state: exact, 8 signs of 4 kinds of units" in out
    assert "log Z is exact, over" in out  # K = 3: counted by the kinds of units
    words = ["--hidden", 40, "--patterns", 9, "--scale", 0.1, "--rate", 1e-4, "--epochs", 1]
    rapidbm("train", "bas6", *words, "--projection", "none", "--out", "S")
    _, out, _ = rapidbm("evaluate", "S", "--json")
    found = json.loads(out)
    low, value, high = (found[f"log_likelihood_test{end}"][0] for end in ("_from", "", "_to"))
    assert low < value < high
    assert not any(key.endswith(("_lower", "_upper")) for key in found)
    assert found["ground_state_bound"][0] <= found["ground_state_energy"][0] < 0
    assert 0 < found["ground_state_found"][0] <= 1
    assert any("annealed there and back, 500 chains from each of" in n for n in found["notes"])
    assert "log_z" not in rapidbm("evaluate", "S", "--likelihood", "none")[1]
    monkeypatch.setattr("rapidbm.runs.evaluation.WAIT", 1e-3)
    assert "--likelihood ais takes its time" in rapidbm("evaluate", "S")[1]
    code, _, err = rapidbm("evaluate", "S", "--likelihood", "exact")
    assert code == 2
    assert "2^36" in err
    assert rapidbm("evaluate", "S", "--likelihood", "guess")[0] == 2


def test_the_curve_of_likelihoods(rapidbm, trained, drawn):
    from rapidbm.likelihood.log_z import log_likelihood

    code, out, _ = rapidbm("evaluate", trained, "--curve", "--json")
    assert code == 0
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["update"] for line in lines] == sorted(Run(trained).checkpoints())
    data = load("bars4")
    for line in lines:
        machine = Run(trained).machine(line["update"])
        for part, split in (("train", data.train), ("test", data.test)):
            exact = log_likelihood(machine, split.spins).lower.tolist()
            assert line[f"log_likelihood_{part}_from"] == pytest.approx(exact)
            assert line[f"log_likelihood_{part}_to"] == pytest.approx(exact)
    last = json.loads(rapidbm("evaluate", trained, "--json")[1])
    ends = [lines[-1][f"log_likelihood_test_{end}"] for end in ("from", "to")]
    for value, low, high in zip(last["log_likelihood_test"], *ends, strict=True):
        assert low - 1e-6 <= value <= high + 1e-6
    assert (Run(trained).figures / "likelihood.png").stat().st_size > 5000
    assert "update" in rapidbm("evaluate", trained, "--curve")[1]
    assert rapidbm("evaluate", trained, "--curve", "--update", 0)[0] == 2


@pytest.mark.parametrize("sampler", ["gibbs", "pt", "trajectory", "annealing"])
def test_every_sampler(rapidbm, trained, sampler):
    words = ["--sampler", sampler, "--count", 5, "--out", f"{sampler}.npy"]
    if sampler in ("pt", "trajectory"):
        words += ["--sweeps", 10]
    code, out, _ = rapidbm("sample", trained, *words)
    assert code == 0
    assert np.load(f"{sampler}.npy").shape == (5, 16)
    assert ("round trips" in out) == (sampler in ("pt", "trajectory"))
    if sampler != "gibbs":
        code, _, err = rapidbm("sample", trained, "--sampler", sampler, "--start", "data")
        assert code == 2
        assert "leave --start out" in err


def test_trajectories_are_not_heated(rapidbm, trained):
    code, _, err = rapidbm("sample", trained, "--sampler", "trajectory", "--beta", 0.5)
    assert code == 2
    assert "leave --beta out" in err


def test_diagnose(rapidbm, trained, drawn, few_looks, tmp_path, monkeypatch):
    words = ["--chains", 4, "--sweeps", 10, "--starts", 10]
    code, out, _ = rapidbm("diagnose", trained, *words)
    assert code == 0
    for text in ("verdict", "q_EA", "load", "Chao 1", "adversarial accuracy", "R-hat of energy"):
        assert text in out
    for name in ("phases", "landscape", "quality"):
        assert (Run(trained).figures / f"{name}.png").stat().st_size > 10_000
    monkeypatch.setattr(pictures, "save", empty)
    code, out, _ = rapidbm("diagnose", trained, *words, "--update", 0, "--json")
    found = json.loads(out)
    assert found["minima"]["two descents meet (Y)"]["error"] >= 0
    assert found["figures"]["phases"].endswith("phases-0.png")
    machine = Run(trained).machine().replica(0)
    save_machine(machine, tmp_path / "m.safetensors")
    code, out, _ = rapidbm("diagnose", tmp_path / "m.safetensors", *words)
    assert code == 0
    assert "adversarial" not in out  # there are no data
    assert (tmp_path / "m-landscape.png").is_file()
    assert rapidbm("diagnose", tmp_path / "m.safetensors", "--update", 3)[0] == 2
    assert rapidbm("diagnose", trained, "--replica", 99)[0] == 2
    assert rapidbm("diagnose", tmp_path / "nowhere")[0] == 2


def test_rows_of_a_diagnosis_are_what_they_say(few_looks):
    """The numbers of the modules, drawn from the same streams."""
    data = load("bas6")
    machine = rbm(36, 30, scale=0.25, seed=0).requires_grad_(False)
    found = diagnose(machine, data, chains=8, sweeps=20, starts=30, seed=3).as_dict()

    def rng(name):
        return stream(3, "diagnose", name)

    def check(section, name, value, error=None):
        assert found[section][name]["value"] == pytest.approx(float(value)), name
        if error is not None:
            assert found[section][name]["error"] == pytest.approx(float(error)), name

    gibbs, pt = "chains at β = 1 (Gibbs)", "walkers (parallel tempering)"
    series, _ = record(machine, 8, 10, sampler=Gibbs(sweeps=2), skip=10, rng=rng("gibbs"))
    walkers, state = record(machine, 8, 10, sampler=ParallelTempering(), skip=20, rng=rng("pt"))
    frozen = freezing(series, fold=True)
    check(gibbs, "q_EA", frozen.within.value, frozen.within.error)
    check(gibbs, "overlap of different chains", frozen.between.value, frozen.between.error)
    check(gibbs, "difference", frozen.gap.value, frozen.gap.error)
    for section, recorded in ((gibbs, series), (pt, walkers)):
        mixed = mixing(machine, recorded)
        told = f"{float(mixed.rhat[0, 0]):.3f}; ESS {float(mixed.ess[0, 0]):.0f} of 80"
        assert found[section]["R-hat of energy"].startswith(told)
    check(pt, "lowest swap rate", state.rates.min())
    check(pt, "highest swap rate", state.rates.max())
    pairs = overlap_distribution(walkers[:, :, -1])
    for name, estimate in (
        ("⟨|q|⟩", pairs.size),
        ("⟨q²⟩", pairs.square),
        ("variance of q", pairs.variance),
        ("Binder ratio", pairs.binder),
        ("P(|q| < 0.2)", pairs.near_zero),
    ):
        check("overlaps of walkers", name, estimate.value, estimate.error)
    triples = ultrametricity(walkers[:, :, -1], rng("triples"), fold=True)
    check("triples of walkers", "⟨K⟩, 0 if ultrametric", triples.found.k.value)
    check("triples of walkers", "⟨K⟩ of shuffled spins", triples.null.k.value)
    valleys = minima(machine, 30, rng("minima"))
    check("minima", "distinct, of 30 descents", valleys.distinct)
    check("minima", "in all, at least (Chao 1)", valleys.total.value, valleys.total.error)
    check("minima", "share of the most frequent", valleys.top.value, valleys.top.error)
    ground = ground_state(machine, rng=rng("ground"))
    check("ground state", "energy", ground.energy)
    check("ground state", "no state is below", ground.bound)
    assert bool(ground.bound < ground.energy)
    values = spectrum(machine)
    check("couplings (singular values)", "largest", values.values.max())
    check("couplings (singular values)", "edge of random ones", values.edge)
    section, train = "samples (20 Gibbs sweeps from random starts)", data.train.spins
    drawn = sample(machine, len(train), steps=20, rng=rng("samples"))[..., :36]
    near = nearest(drawn, train, data.test.spins)
    check(section, "distance to the nearest training image", near.mean.value, near.mean.error)
    check(section, "the same of test images", near.test_mean.value, near.test_mean.error)


def test_a_diagnosis_begins_with_the_past(trained, few_looks):
    from rapidbm.glass.phases import phase_point

    run = Run(trained)
    machine, _, past = opened(run, 4, 1, "cpu")
    assert [u for u in run.checkpoints() if u <= 4] == [0, 1, 2, 4]
    for u, one in zip((0, 1, 2, 4), past, strict=True):
        assert torch.equal(one.patterns, run.machine(u).replica(1).patterns)
    assert torch.equal(machine.patterns, past[-1].patterns)
    options = {"chains": 4, "sweeps": 2, "starts": 4}
    place = diagnose(machine, past=past, **options).as_dict()
    (place,) = (rows for name, rows in place.items() if name.startswith("place"))
    for name, one in (("temperature at the start", past[0]), ("temperature", machine)):
        assert place[name]["value"] == pytest.approx(float(phase_point(one).temperature))


def test_samplers_of_a_run(rapidbm, trained):
    run = Run(trained)
    machine = run.machine(8).replica(1)
    found = sampler_named("trajectory", run, machine, "random", 8, 1, 0).machines
    assert found[-1] is machine
    for u, one in zip((0, 1, 2, 4), found[:-1], strict=True):
        assert torch.equal(one.patterns, run.machine(u).replica(1).patterns)
    start = sampler_named("gibbs", run, machine, "random", 8, 1, 0)
    one, two, again = (samples(machine, start, 9, 3, 1.0, seed)[0] for seed in (0, 1, 0))
    assert torch.equal(one, again)
    assert not torch.equal(one, two)
    _, steps, _ = samples(machine, start, 2, 0, 1.0, 0)
    assert steps == 0


def test_samples(rapidbm, trained, drawn, tmp_path):
    code, out, _ = rapidbm("sample", trained, "--count", 7, "--sweeps", 5, "--out", "s.npy")
    samples = np.load("s.npy")
    assert (code, samples.shape, samples.dtype) == (0, (7, 16), np.int8)
    assert set(np.unique(samples)) <= {-1, 1}
    assert "7 samples of the last machine, update 12, 5 sweeps from random spins" in out
    for start in ("random", "data", "patterns"):
        rapidbm(
            "sample",
            trained,
            "--start",
            start,
            "--sweeps",
            0,
            "--out",
            f"{start}.npy",
            "--count",
            4,
        )
    rows = {tuple(row) for row in load("bars4").train.spins.tolist()}
    assert {tuple(row) for row in np.load("data.npy").tolist()} <= rows
    xi = Run(trained).machine().patterns[0, :, :16].detach().numpy()
    assert np.array_equal(np.load("patterns.npy"), np.where(xi >= 0, 1, -1))
    rapidbm("sample", trained, "--sweeps", 2)
    assert (tmp_path / "R/figures/samples.png").stat().st_size > 1000


def test_temperature_replica_and_update_count(rapidbm):
    from rapidbm.likelihood.log_z import log_z

    trained = "R"
    rapidbm("train", "bars4", *SMALL, "--projection", "clip", "--replicas", 2, "--out", trained)
    for name, words in {
        "hot": ["--beta", 0],
        "cold": ["--beta", 5],
        "other": ["--beta", 5, "--replica", 1],
        "start": ["--beta", 5, "--update", 0],
    }.items():
        rapidbm("sample", trained, "--count", 300, "--sweeps", 5, "--out", f"{name}.npy", *words)
    arrays = {name: np.load(f"{name}.npy") for name in ("hot", "cold", "other", "start")}
    assert len(np.unique(arrays["hot"], axis=0)) > 290  # fair coins
    assert len(np.unique(arrays["cold"], axis=0)) < 100
    assert not np.array_equal(arrays["cold"], arrays["other"])
    assert not np.array_equal(arrays["cold"], arrays["start"])
    found = objects(rapidbm("evaluate", trained, "--update", 0, "--json")[1])[0]
    assert found["update"] == 0
    assert found["log_z"] == pytest.approx(log_z(Run(trained).machine(0)).lower.tolist())


def test_reconstructions(rapidbm, trained, drawn, tmp_path):
    np.save("mask.npy", np.arange(16) < 12)
    code, out, _ = rapidbm(
        "reconstruct", trained, "--mask", "mask.npy", "--clamp", "--json", "--out", "r.npy"
    )
    found = objects(out)[0]
    filled, truth = np.load("r.npy"), load("bars4").test.spins.numpy()
    assert code == 0
    assert np.array_equal(filled[:, :12], truth[:, :12])
    # What was held cannot be wrong: only the unknown pixels count.
    assert found["wrong_unknown"] == pytest.approx((filled != truth)[:, 12:].mean())
    assert "hamming" not in found
    assert (
        "of the unknown pixels are wrong, the known ones were held"
        in rapidbm("reconstruct", trained, "--mask", "mask.npy", "--clamp")[1]
    )
    free = ("reconstruct", trained, "--mask", "mask.npy", "--free")
    found = objects(rapidbm(*free, "--json", "--out", "f.npy")[1])[0]
    wrong = np.load("f.npy") != truth
    assert found["wrong_unknown"] == pytest.approx(wrong[:, 12:].mean())
    assert found["hamming"] == pytest.approx(wrong.mean())
    assert "Hamming distance over all pixels" in rapidbm(*free)[1]
    np.save("all.npy", np.ones(16, bool))
    code, _, err = rapidbm("reconstruct", trained, "--mask", "all.npy")
    assert (code, "every pixel is known" in err) == (2, True)
    rapidbm("reconstruct", trained, "--of", "train", "--count", 3)
    assert (tmp_path / "R/figures/reconstructions.png").stat().st_size > 1000


def test_datasets(rapidbm):
    code, out, _ = rapidbm("datasets", "--json")
    assert code == 0
    assert {line["name"] for line in objects(out)} >= {
        "bars4",
        "basN",
        "digits",
        "mnist",
        "mnist-static",
    }
    assert "RAPIDBM_DATA" in rapidbm("datasets")[1]


def test_files_train(rapidbm):
    rng = np.random.default_rng(0)
    np.savez("mine.npz", samples=rng.random((30, 3, 4)) < 0.5, labels=np.arange(30))
    code, out, err = rapidbm(
        "train", "mine.npz", "--epochs", 2, "--hidden", 20, "--patterns", 2, "--out", "R"
    )
    assert code == 0, err
    assert "24 images to train, 6 to test" in out
    assert rapidbm("sample", "R", "--sweeps", 2)[0] == 0


def test_a_validation_part_is_measured_and_never_trained_on(rapidbm, alone):
    rng = np.random.default_rng(0)
    bits = rng.random((40, 9)) < 0.5
    parts = {"train": bits[:20], "test": bits[20:30], "valid": bits[30:]}
    np.savez("three.npz", **parts)
    words = ["--epochs", 1, "--hidden", 20, "--patterns", 2]
    _, out, err = rapidbm("train", "three.npz", *words, "--out", "R")
    assert "20 images to train, 10 to test, 10 to validate (measured, not trained on)" in out
    assert "log p train -" in out
    assert ", valid -" in out
    assert "warning" not in err
    assert (Run("R").figures / "curves.png").is_file()
    assert len(Run("R").data().valid) == 10
    assert len(Run("R").metrics()[-1]["log_likelihood_valid"]) == 1
    assert "the best machine by validation, update " in out
    assert rapidbm("reconstruct", "R", "--of", "valid")[0] == 0
    assert rapidbm("reconstruct", alone, "--of", "valid")[0] == 2
    np.savez("two.npz", train=parts["train"], test=parts["test"])
    rapidbm("train", "two.npz", *words, "--out", "S")
    assert torch.equal(Run("R").machine("last").patterns, Run("S").machine().patterns)
    np.savez("three.npz", **{**parts, "valid": ~bits[30:]})
    assert "checksum" in rapidbm("evaluate", "R")[2]
    np.savez("more.npz", **parts, val=bits)
    _, _, err = rapidbm("train", "more.npz", *words, "--out", "T")
    assert err.count("also holds 'val', which nobody reads") == 1
    assert "val" not in rapidbm("evaluate", "T")[2]


def test_a_standard_deviation_needs_several_replicas(rapidbm, trained, alone, once):
    for more in ((), ("--curve",)):
        several = rapidbm("evaluate", trained, *more)[1]
        assert "mean ± standard deviation over 2 replicas" in several
        assert " ± " in several.splitlines()[1]
        single = rapidbm("evaluate", alone, *more)[1]
        assert "one replica" in single
        assert "±" not in single
    assert "standard deviation over 2" in once("bars4", *SMALL, "--replicas", 2)[2]
    assert "±" not in once("bars4", *SMALL)[2]


def test_values_that_are_missing_are_counted():
    assert spread([1.0, 3.0]) == "2 ± 1.4"
    assert spread([1.0, None, 3.0]) == "2 ± 1.4 (finite: 2 of 3)"
    assert spread([1.0]) == "1"
    assert spread([None]) == "not finite"


def test_resume_takes_only_the_folder(rapidbm, alone):
    code, out, _ = rapidbm("train", "--resume", "--out", alone)
    assert (code, "finished" in out) == (0, True)
    assert rapidbm("train", "--resume", "--out", alone, "--epochs", 5)[0] == 0
    assert Run(alone).metrics()[-1]["epoch"] == 5
    code, _, err = rapidbm("train", "bars4", "--resume", "--out", alone, "--hidden", 31)
    assert code == 2
    assert "hidden is (30,) there, (31,) here" in err
    code, _, err = rapidbm("train", "bas4", "--resume", "--out", alone)
    assert (code, "dataset is 'bars4' there" in err) == (2, True)


def test_a_run_whose_rate_falls_is_prolonged(rapidbm):
    words = ["train", "bars4", *SMALL, "--preset", "small", "--out", "R"]
    assert rapidbm(*words)[0] == 0
    more = ["train", "--resume", "--out", "R", "--epochs"]
    code, out, _ = rapidbm(*more, 5)
    assert code == 0
    assert "prolonged from 3 to 5 epochs; the rate falls to zero again" in out
    assert Run("R").metrics()[-1]["epoch"] == 5
    assert rapidbm(*more, 5)[0] == 0  # a queue's line may come twice
    code, out, _ = rapidbm(*words[:-2], "--out", "R", "--resume", "--epochs", 6)
    assert (code, Run("R").recipe.falls) == (0, (3, 5))
    assert "fall over all 7" in rapidbm(*more, 7, "--prolong", "stretch")[1]
    for line in ([*more, 7, "--prolong", "again"], [*more[:-1], "--prolong", "again"], [*more, 6]):
        assert rapidbm(*line)[0] == 2
    code, _, err = rapidbm("train", "bars4", "--prolong", "again", "--out", "S")
    assert (code, "goes with --resume" in err) == (2, True)


def test_resuming_what_never_began_begins(rapidbm):
    assert rapidbm("train", "bars4", *SMALL, "--resume", "--out", "R")[0] == 0
    assert Run("R").status == "finished"


BAD = {
    "train": "needs a data set",
    "train bars5": "did you mean 'bars4'",
    "train nothing.npy": "there is no file",
    "train bars4 --preset paper-bar": "did you mean 'paper-bars'",
    "train bars4 --patterns 0": "at least 1, not 0",
    "train bars4 --patterns -3": "not -3",
    "train bars4 --patterns 3 --dense": "give --dense or --patterns",
    "train bars4 --dense": "patterns=K",
    "train bars4 --dense --negative exact --model bm --hidden 40": "2^56",
    "train bas12 --negative exact": "2^144 ≈ 10^43",
    "train bars4 --negative pdi": "did you mean 'pid'",
    "train bars4 --particles 4": "has no option --particles",
    "train bars4 --rate 0": "positive",
    "train bars4 --rate nan": "positive",
    "train bars4 --epochs -1": "at least 0",
    "train bars4 --batch-size 0": "at least 1",
    "train bars4 --replicas 0": "at least 1",
    "train bars4 --model dmb": "did you mean 'dbm'",
    "train bars4 --device gpu": "cannot be used",
    "train bars4 --device meta": "cannot be used",
    "train bars4 --optimizer adagrad --momentum 0.5": "refuses its options",
    "train bars4 --metric log_likelihood --model dbm --hidden 30 --hidden 30": "2^",
    "train bars4 --threshold 0.2": "not 'threshold'",
    "train bars4 --positive mean --model dbm --hidden 3 --hidden 2": "use 'meanfield'",
    "train --resume": "give --out",
    "train --resume --out nowhere": "no run folder",
    "evaluate nowhere": "no run folder",
    "sample nowhere": "no run folder",
    "reconstruct nowhere": "no run folder",
}


@pytest.mark.parametrize("line", BAD)
def test_bad_input(rapidbm, tmp_path, line):
    code, out, err = rapidbm(*line.split(), *(["--out", "R"] if line.startswith("train ba") else []))
    assert code == 2, out
    assert BAD[line] in err.replace("\n", " ")
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


BAD_LATER = {
    "sample R --replica 9": "no replica 9",
    "sample R --update 3": "no checkpoint of update 3; it has 0, 1, 2, 4, 8, 12",
    "sample R --start here": "known are data, patterns, random",
    "sample R --beta -1": "at least 0",
    "sample R --beta nan": "at least 0",
    "sample R --out s.txt": ".png, .pdf, .npy or .csv",
    "sample R --out mask.npy": "exists",
    "sample R --count 0": "count",
    "reconstruct R --mask wrong.npy": "16 booleans",
    "reconstruct R --mask missing.npy": "no mask",
    "reconstruct R --of all": "known are test, train",
    "reconstruct R --out mask.npy": "exists",
    "train bars4 --out R": "exists and is not empty",
}


@pytest.mark.parametrize("line", BAD_LATER)
def test_bad_input_about_a_run(rapidbm, trained, tmp_path, line):
    np.save("wrong.npy", np.ones(7, dtype=bool))
    np.save("mask.npy", np.ones(16, dtype=bool))
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    code, out, err = rapidbm(*line.split())
    assert code == 2, out
    assert BAD_LATER[line] in err.replace("\n", " ")
    assert before == {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}


def test_what_the_system_refuses_is_said_in_a_line(rapidbm, trained, tmp_path):
    for line in (f"sample {trained} --out /proc/x.npy", f"train bars4 --out {'x' * 300}"):
        code, _, err = rapidbm(*line.split())
        assert code == 2
        assert err.startswith("error: ")
        assert "Traceback" not in err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "demo.png").write_text("mine")
    code, _, err = rapidbm("demo", "--out", "full")
    assert (code, "exists and is not empty" in err) == (2, True)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("CUDA out of memory. Tried …")])
def test_too_little_memory_is_said_in_a_line(rapidbm, monkeypatch, tmp_path, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("rapidbm.runs.recipe.Recipe.machine", fail)
    code, _, err = rapidbm("train", "bars4", "--out", "R")
    assert (code, "out of memory" in err, "smaller machine" in err) == (2, True, True)
    assert not list(tmp_path.iterdir())


def test_evaluate_leaves_out_replicas_that_diverged(rapidbm):
    words = [
        "--replicas",
        2,
        "--rate",
        "1e6",
        "--rate",
        "0.02",
        "--projection",
        "none",
        "--epochs",
        30,
    ]
    code, _, err = rapidbm("train", "bars4", "--hidden", 20, "--patterns", 3, *words, "--out", "R")
    assert (code, "replica 0 diverged in update" in err) == (0, True)
    code, out, _ = rapidbm("evaluate", "R")
    assert (code, "replica 0 diverged" in out) == (0, True)
    line = next(line for line in out.splitlines() if "log_z" in line)
    assert float(line.split()[1]) < 1e4


def test_a_reader_that_leaves_early(tmp_path):
    command = f"{sys.executable} -m rapidbm train bars4 --epochs 2000 --hidden 20 --out R | head -1"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert "standard output was closed" in done.stderr


def test_resume_notices_another_preset(rapidbm, trained):
    code, _, err = rapidbm("train", "--resume", "--out", trained, "--preset", "mnist")
    assert (code, "a resumed run keeps its settings" in err) == (2, True)
    assert rapidbm("train", "--resume", "--out", trained, "--preset", "foo")[0] == 2


def test_a_load_too_high_is_a_warning(rapidbm):
    code, _, err = rapidbm("train", "bars4", *SMALL, "--patterns", 14, "--out", "R")
    assert code == 0
    assert "warning: K = 14 random patterns are too many" in err
    assert err.count("warning: K") == 1


def test_a_fit_worse_than_independent_columns_is_a_warning(rapidbm, once):
    folder, _, _, err = once("bars4", *SMALL)  # pure PID
    assert "warning: this training ends below independent columns" in " ".join(err.split())
    told = Run(folder).info["fit"]
    assert told["log_likelihood_at_most"][0] < told["independent_columns"]
    exact = ["--negative", "exact", "--dense", "--hidden", "6", "--epochs", "5", "--rate", "0.01"]
    code, _, err = rapidbm("train", "bars4", *exact, "--optimizer", "adam", "--out", "S")
    assert code == 0
    assert not err
    assert "fit" in Run("S").info


@pytest.mark.parametrize("command", ["evaluate", "diagnose", "sample", "reconstruct"])
def test_a_limit_stops_a_command(rapidbm, trained, command):
    code, out, err = rapidbm(command, trained, "--limit", 1e-9)
    assert (code, out) == (2, "")
    assert "stopped at its limit of 1e-09 s" in " ".join(err.split())
    code, _, err = rapidbm(command, trained, "--limit", -3)
    assert code == 2
    assert "positive number of seconds" in " ".join(err.split())


def test_a_terminal_gets_a_bar(rapidbm, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    parent, child = pty.openpty()
    shown = []

    def read():
        with suppress(OSError):  # as the system says that the other end is closed
            while part := os.read(parent, 65536):
                shown.append(part)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        with os.fdopen(child, "w") as screen:
            code, *_ = rapidbm("train", "bars4", *SMALL, "--out", "R", out=screen, err=screen)
    finally:
        reader.join()
        os.close(parent)
    assert code == 0
    assert "━" in b"".join(shown).decode(errors="replace")
    assert b"update" in b"".join(shown)


def test_demo(rapidbm, once, tmp_path, monkeypatch):
    """The demo in miniature; `make demo` is the same with its own sizes."""
    from rapidbm.cli import demo

    tiny = {"hidden": (30,), "patterns": 4, "epochs": 2, "replicas": 2}
    monkeypatch.setattr(demo, "PARTS", {"bas4": tiny, "bars4": tiny})
    shutil.copytree(once("bas4", *SMALL, "--epochs", 2)[0], "runs/demo-0/bas4")
    assert rapidbm("demo", "--out", "runs/demo-0")[0] == 0  # an unfinished one is completed
    assert (tmp_path / "runs/demo-0/demo.png").exists()
    assert rapidbm("demo", "--out", "runs/demo-0")[0] == 2  # a finished one is left alone
    assert rapidbm("demo")[0] == 0
    monkeypatch.setattr(pictures, "save", SAVE)
    code, out, err = rapidbm("demo")
    assert (code, err) == (0, "")
    assert "hamming train" in out
    assert (tmp_path / "runs/demo-2/demo.png").stat().st_size > 10_000
    for folder in ("demo-1/bas4", "demo-1/bars4", "demo-2/bas4", "demo-2/bars4"):
        names = {p.name for p in (tmp_path / "runs" / folder / "figures").iterdir()}
        assert names == {"curves.png", "samples.png", "patterns.png"}


def test_diagnose_of_tiny_and_odd_data(rapidbm, few_looks, tmp_path):
    words = ["--hidden", 1, "--dense", "--negative", "pcd", "--epochs", 2]
    np.save(tmp_path / "two.npy", np.array([[0, 1], [1, 1]] * 5))
    np.save(tmp_path / "alike.npy", np.ones((10, 6)))
    for name in ("two", "alike"):
        assert rapidbm("train", f"{name}.npy", *words, "--out", name)[0] == 0
    limits = ("--chains", 4, "--sweeps", 5, "--starts", 9, "--json")
    code, out, err = rapidbm("diagnose", "two", *limits)
    assert code == 0, err
    json.loads(out, parse_constant=pytest.fail)
    code, _, err = rapidbm("diagnose", "alike", *limits)  # columns that are constant are not coupled
    assert (code, "a machine to diagnose has couplings" in err) == (2, True)
    (tmp_path / "file").touch()
    assert rapidbm("diagnose", "two", "--out", "file")[0] == 2
