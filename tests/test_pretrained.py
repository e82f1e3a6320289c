"""The machine that comes with the package: its file, its card, and the commands that take it."""

import functools
import importlib.util
import json
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import rapidbm as rb
from rapidbm.cli.main import main
from rapidbm.data import digits
from rapidbm.errors import InputError
from rapidbm.machines.files import load_machine, load_tensors, save_machine
from rapidbm.runs.pretrained import packed
from rapidbm.runs.pretrained.packed import IMAGES, Card, Pretrained, known, open_trained, pack
from rapidbm_bench.grid import arguments, recipe_of
from rapidbm_bench.pack import command, moved, rounded

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """Neither a folder of data nor a network."""

    def refused(*words):
        raise AssertionError(f"{words[0]} was asked for")

    monkeypatch.delenv("RAPIDBM_DATA", raising=False)
    monkeypatch.setattr(digits, "_fetch", refused)


@pytest.fixture
def rapidbm(capfd, monkeypatch, tmp_path):
    """Runs the command in an empty folder: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["rapidbm", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as left:
            code = left.code or 0
        return code, *capfd.readouterr()

    return run


@pytest.fixture(scope="module")
def mnist():
    return open_trained("pretrained:mnist")


def test_a_machine_of_float32_whose_values_half_precision_holds():
    machine = rb.pretrained("mnist")
    assert machine.layers.sizes == (784, 1000)
    assert machine.patterns.shape == (1, 222, 1784)
    assert machine.biases.shape == (1, 1784)
    for value in machine.parameters():
        assert value.dtype == torch.float32
        assert torch.equal(value, value.half().float())


def test_machine_images_and_card_belong_together(mnist):
    log_z = mnist.card.log_z[0]
    for part, split in mnist.data().parts.items():
        assert len(split) == IMAGES
        log_p = mnist.machine().log_prob_unnormalised(split.spins)[0].detach().double() - log_z
        error = float(log_p.std()) / IMAGES**0.5
        assert abs(float(log_p.mean()) - mnist.card.log_p[part][0]) < 3 * error < 5
    assert mnist.data().test.known.reshape(28, 28)[:14].all()
    assert not mnist.data().test.known.reshape(28, 28)[14:].any()


def test_the_package_stays_small():
    files = [path for path in known()["mnist"].parent.iterdir() if path.suffix != ".py"]
    assert sum(path.stat().st_size for path in files if path.is_file()) <= 1_000_000


def test_the_wheel_takes_all_of_the_package():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert build["targets"]["wheel"].keys() == {"packages"}
    assert "src/rapidbm" in build["targets"]["wheel"]["packages"]
    assert build.keys() == {"targets"}  # nothing is excluded
    ignored = (ROOT / ".gitignore").read_text().split()  # which the builder leaves out
    assert not [line for line in ignored if Path("pretrained/mnist.safetensors").match(line)]


def test_the_page_tells_the_card(mnist):
    spec = importlib.util.spec_from_file_location("pretrained_page", ROOT / "docs/pretrained.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = module.PAGE.read_text(encoding="utf-8")
    assert module.page(text) == text, "run python docs/pretrained.py"
    assert "{:.2f} nats ({:.2f} to {:.2f})".format(*mnist.card.log_p["test"]) in text


def test_the_cards_command_is_that_of_its_recipe(mnist):
    how = arguments(mnist.card.command.split()[4:])
    recipe, each = recipe_of(how)
    whole = replace(mnist.recipe, epochs=recipe.epochs, replicas=len(each))
    rates, decays = zip(*each, strict=True)
    assert replace(whole, rate=rates, weight_decay=decays) == recipe
    assert max(map(abs, mnist.card.rounding)) < 0.05


def test_sample(rapidbm, mnist):
    code, out, _ = rapidbm("sample", "pretrained:mnist", "--count", 4, "--sweeps", 5, "--out", "x.png")
    assert code == 0
    assert Path("x.png").read_bytes().startswith(b"\x89PNG")
    assert mnist.card.line() in out
    code, out, _ = rapidbm("sample", "pretrained:mnist", "--count", 2, "--json")
    assert code == 0
    assert json.loads(out)["sweeps"] == mnist.sampling_defaults.sweeps == 500
    assert Path("pretrained-mnist/samples.png").is_file()  # not in the package


@pytest.mark.parametrize("start", ["data", "patterns"])
def test_sample_starts(rapidbm, mnist, start):
    words = ("--start", start, "--sweeps", 0, "--count", 3, "--out", "x.npy")
    assert rapidbm("sample", "pretrained:mnist", *words)[0] == 0
    spins = torch.from_numpy(np.load("x.npy"))
    rows = mnist.data().train.spins if start == "data" else mnist.machine().patterns[0, :, :784].sign()
    assert all((rows == row).all(1).any() for row in spins)


def test_reconstruct_holds_the_upper_halves_and_fills_in_the_lower(rapidbm, mnist):
    code, out, _ = rapidbm("reconstruct", "pretrained:mnist", "--count", 20, "--out", "x.npy", "--json")
    assert code == 0
    split = mnist.data().test.take(slice(0, 20))
    filled = torch.from_numpy(np.load("x.npy"))
    assert torch.equal(filled[:, split.known], split.spins[:, split.known])
    told = json.loads(out)
    assert told["wrong_unknown"] < 0.15  # with all of them down
    machine = mnist.machine().requires_grad_(False)
    log_p = [float(machine.log_prob_unnormalised(x).mean()) for x in (split.spins, filled)]
    assert log_p[1] > log_p[0] - 20  # after one pass it is 90 below
    assert "hamming" not in told
    code, out, _ = rapidbm("reconstruct", "pretrained:mnist", "--count", 3, "--free", "--passes", 1)
    assert code == 0
    assert "nothing was held" in out
    assert Path("pretrained-mnist/reconstructions.png").is_file()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["sample", "pretrained:foo"], "unknown pretrained machine 'foo': known are mnist"),
        (["diagnose", "pretrained:mnits"], "did you mean 'mnist'?"),
        (["sample", "pretrained:mnist", "--update", "3"], "no update 3; leave --update out"),
        (["reconstruct", "pretrained:mnist", "--replica", "1"], "there is no replica 1"),
        (["sample", "pretrained:mnist", "--sampler", "trajectory"], "has none; take --sampler pt"),
        (["evaluate", "pretrained:mnist", "--curve"], "has none; leave --curve out"),
        (["reconstruct", "pretrained:mnist", "--data", "x.npy"], "there is no file x.npy"),
        (
            ["evaluate", "pretrained:mnist", "--data", "digits"],
            "digits has 64 columns, but pre",
        ),
        (["train", "--resume", "--out", "pretrained:mnist"], "without the run that trained it"),
    ],
)
def test_what_it_has_not(rapidbm, words, told):
    code, _, err = rapidbm(*words)
    assert code == 2
    assert told in err


def test_an_unknown_name_in_python():
    with pytest.raises(InputError, match="known are mnist"):
        rb.pretrained("fashion")


def test_changed_bits_are_noticed(tmp_path):
    path = tmp_path / "mnist.safetensors"
    bits = bytearray(known()["mnist"].read_bytes())
    bits[-1] ^= 1
    path.write_bytes(bits)
    with pytest.raises(InputError, match="checksum differs"):
        Pretrained(path)


def test_a_file_without_a_card_is_none_of_the_packages(tmp_path):
    save_machine(rb.rbm(4, 3, seed=0), tmp_path / "m.safetensors", half=True)
    with pytest.raises(InputError, match="no sound card"):
        Pretrained(tmp_path / "m.safetensors")


def small_card(**more):
    recipe = rb.Recipe("digits", hidden=(5,), negative="pcd").as_dict()
    words = {"data": "digits", "shape": (8, 8), "machine": "64×5", "parameters": 389, "recipe": recipe}
    words |= {
        "command": "",
        "replica": "",
        "updates": 1,
        "seconds": 1.0,
        "device": "",
        "log_z": (0.0,) * 3,
    }
    return Card(**words, log_p={"test": (0.0,) * 3}, rounding=(0.0, 0.0), **more)


def test_packed_and_read_again(tmp_path):
    path, data = tmp_path / "small.safetensors", rb.load("digits")
    machine = rb.rbm(64, 5, biases=True, seed=0)
    pack(path, machine, data, small_card())
    found = Pretrained(path)
    for name, value in rounded(machine).named_parameters():
        assert torch.equal(dict(found.machine().named_parameters())[name], value)
    assert (len(found.data().train), len(found.data().test)) == (500, len(data.test))
    for part, split in found.data().parts.items():
        rows = {tuple(row) for row in data.parts[part].spins.tolist()}
        assert all(tuple(row) in rows for row in split.spins.tolist())
    assert str(found) == "pretrained:small"
    with pytest.raises(InputError, match="one machine is packed, not 2"):
        pack(path, rb.rbm(64, 5, replicas=2, seed=0), data, small_card())


def test_evaluate_and_diagnose(rapidbm, monkeypatch, tmp_path):
    coarse = functools.partial(rb.boundaries, load=torch.tensor([0.05, 0.5]))  # few points on the lines
    monkeypatch.setattr("rapidbm.runs.diagnosis.boundaries", coarse)
    (tmp_path / "package").mkdir()
    monkeypatch.setattr(packed, "HERE", tmp_path / "package")
    machine = rb.rbm(64, 5, biases=True, seed=0)
    pack(tmp_path / "package/small.safetensors", machine, rb.load("digits"), small_card())
    code, out, _ = rapidbm("evaluate", "pretrained:small", "--json")
    assert code == 0
    told, data = json.loads(out), open_trained("pretrained:small").data()
    log_p = rb.log_likelihood(rounded(machine), data.test.spins).value
    assert told["log_likelihood_test"] == pytest.approx(log_p.tolist(), rel=1e-5)
    assert told["notes"][0] == "measured on the 500 train and 359 test images in the package"
    words = ("--chains", 4, "--sweeps", 2, "--starts", 2)
    code, out, _ = rapidbm("diagnose", "pretrained:small", *words)
    assert code == 0
    assert "the pretrained machine (64×5" in out
    assert {path.parent for path in tmp_path.rglob("*.png")} == {tmp_path / "pretrained-small"}


def test_half_precision_only_where_the_header_says_so(tmp_path):
    machine, path = rb.rbm(30, 20, biases=True, replicas=2, seed=0), tmp_path / "m.safetensors"
    save_machine(machine, path)
    whole = path.stat().st_size
    save_machine(machine, path, half=True)
    assert path.stat().st_size < 0.7 * whole
    assert load_machine(path, replica=1).biases.dtype == torch.float32
    tensors, header = load_file(path), load_tensors(path)[1]
    assert header.pop("precision") == "half"
    save_file(tensors, path, metadata={"rapidbm": json.dumps(header)})
    with pytest.raises(InputError, match=r"float16 of .* no parameter"):
        load_machine(path)
    tensors = {name: value.float() for name, value in tensors.items()}
    save_file(tensors, path, metadata={"rapidbm": json.dumps({**header, "precision": "half"})})
    with pytest.raises(InputError, match=r"float32 of .* no parameter"):
        load_machine(path)
    machine.biases.data[0, 0] = 1e5
    with pytest.raises(InputError, match="up to 65504, the largest here is 100000"):
        save_machine(machine, path, half=True)


def test_what_rounding_does_is_between_its_bounds():
    data = rb.load("bars4")
    machine = rb.rbm(16, 6, biases=True, seed=0).double()
    for value in machine.parameters():
        value.data = torch.randn(value.shape, generator=rb.stream(0, "large"), dtype=torch.float64) / 2
    low, high = moved(machine, data, 400, 20)
    before, after = (rb.log_likelihood(m, data.test.spins) for m in (machine, rounded(machine)))
    change = float(after.value - before.value)
    assert low <= change <= high
    assert high - low < 20 * abs(change) < 0.01


def test_a_grids_command():
    settings = {"data": "digits", "device": "auto", "rate": [0.001, 0.1], "average": None, "test": True}
    assert command(settings) == "python -m benchmarks grid --data digits --rate 0.001,0.1 --test"
