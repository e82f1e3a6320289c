"""Folders and files from strangers, processes that meet: nothing is lost, mixed or followed."""

import contextlib
import importlib
import json
import os
import shutil
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import rapidbm as rb
from rapidbm import disk
from rapidbm.data import sources
from rapidbm.disk import locked, write_bytes
from rapidbm.errors import DataWarning, InputError, LossWarning
from rapidbm.machines.constructors import rbm
from rapidbm.machines.files import load_machine, load_tensors, save_machine
from rapidbm.runs.diagnosis import opened
from rapidbm.runs.evaluation import evaluation, likelihood_curve
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run
from rapidbm.runs.samples import reconstructions
from rapidbm.schema import (
    Anything,
    Flag,
    Maybe,
    Names,
    OneOf,
    Real,
    Several,
    Text,
    Whole,
    of_fields,
    of_hint,
)
from rapidbm.training import negative
from rapidbm.training.optimisers import adam, sgd
from rapidbm.training.train import train
from rapidbm_paper.reproduction import Reproduction

TINY = {"hidden": (6,), "patterns": 3, "epochs": 4, "replicas": 2, "device": "cpu"}
DOORS = {  # and how many damaged files each is entered with in a slow test; in a quick one a tenth
    **dict.fromkeys(("checkpoint", "run", "metrics", "record", "times"), 500),
    **dict.fromkeys(("npy", "npz", "csv", "mask", "rbms", "h5"), 500),
    "spins": 2000,
    **dict.fromkeys(("zarr", "zarr2"), 1000),
    **dict.fromkeys(("parquet", "lists"), 1000),
}


def made(folder, dataset="bars4", **chosen):
    run = Run.create(folder, Recipe.made(str(dataset), {**TINY, **chosen}))
    for _ in run.go():
        pass
    return run


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return made(tmp_path_factory.mktemp("finished") / "R").folder


@pytest.fixture
def run(finished, tmp_path):
    """A copy of a finished run."""
    return Run(shutil.copytree(finished, tmp_path / "R"))


# -- damaged files ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fuzz():
    sys.path.insert(0, str(Path(__file__).parents[1]))
    yield importlib.import_module("rapidbm_bench.fuzz")
    sys.path.pop(0)


@pytest.fixture(scope="module")
def doors(fuzz, tmp_path_factory):
    with fuzz.CHILDREN.standing_in():
        yield fuzz.doors(tmp_path_factory.mktemp("doors"))


@pytest.mark.parametrize("part", [10, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", DOORS)
def test_damaged_files_are_refused_or_read(fuzz, doors, name, part):
    assert set(doors) == set(DOORS)
    doors[name].enter()  # the honest file
    count = DOORS[name] // part
    found = fuzz.attack(name, doors[name], count, seed=3)
    assert not found.wrong
    assert found.loaded + found.refused == count
    assert found.refused > count / 2 or name == "times"  # what cannot be read of times is left out
    assert fuzz.CHILDREN.most < 1000  # MB


def test_the_attack_notices_a_reader_that_fails(fuzz, tmp_path):
    (tmp_path / "x").write_bytes(b"[1, 2]")
    door = fuzz.Door(
        tmp_path / "x",
        b"[1, 2]",
        lambda: json.loads((tmp_path / "x").read_bytes()),
        fuzz.json_damaged,
    )
    assert fuzz.attack("x", door, 50, seed=0).wrong


def test_one_flipped_bit_of_a_checkpoint_is_noticed(run):
    whole, before = bytearray(run.latest.read_bytes()), run.previous.read_bytes()
    start = 8 + int.from_bytes(whole[:8], "little")
    for where in (start, (start + len(whole)) // 2, len(whole) - 5):  # the last two are booleans
        flipped = whole.copy()
        flipped[where] ^= 4
        run.latest.write_bytes(flipped)
        with pytest.raises(InputError, match="checksum differs"):
            run.machine()
        with pytest.warns(LossWarning, match=r"before the latest, of update 8: .*checksum differs"):
            next(Run(run.folder).go(epochs=9))
        assert run.previous.read_bytes() == before  # it was not pushed out by the damaged one
        run.latest.write_bytes(flipped)
        run.previous.write_bytes(flipped)
        with pytest.raises(InputError, match=r"no state to go on from is left: .*checksum differs"):
            next(Run(run.folder).go(epochs=9))
        run.previous.write_bytes(before)


def test_checkpoints_without_a_checksum_are_read(run):
    tensors, header = load_tensors(run.latest)
    assert "sha256" not in header
    save_file(tensors, run.latest, metadata={"rapidbm": json.dumps(header)})
    assert run.machine().replicas == 2


def spoil(path, name, replica=0, value=torch.nan):
    tensors, header = load_tensors(path)
    tensors[name][replica, 0] = value
    save_file(tensors, path, metadata={"rapidbm": json.dumps(header)})


def test_machines_that_are_not_finite_are_refused_by_all(run, tmp_path):
    spoil(run.latest, "parameter/couplings.patterns", replica=1)
    path = tmp_path / "a.npy"
    for use in (
        run.machine,
        lambda: run.machine(replica=1),
        lambda: load_machine(run.latest),
        lambda: evaluation(run),
        lambda: opened(run, None, 1, "cpu"),
        lambda: reconstructions(run, "test", None, 2, 1, False, 1, None, 0, "cpu", path),
        lambda: next(Run(run.folder).go(epochs=9)),
    ):
        with pytest.raises(InputError, match="not finite"):
            use()
    assert run.machine(replica=0).replicas == 1  # the healthy one is still there
    spoil(run.checkpoints()[2], "parameter/couplings.patterns", value=1e30)
    with pytest.raises(InputError, match=r"not finite \(replica 0\)"):
        likelihood_curve(run)


def test_energies_that_overflow_are_not_finite():
    machine = rbm(4, 3, replicas=3, seed=0)
    assert machine.finite().all()
    machine.couplings.weights["0-1"].data[1] = 1e38
    machine.couplings.weights["0-1"].data[2, 0, 0] = torch.nan
    assert machine.finite().tolist() == [True, False, False]
    with_biases = rbm(4, 3, 2, biases=True, replicas=2, seed=0)
    assert with_biases.finite().all()
    with_biases.biases.data[0] = torch.tensor([3e38, -3e38] * 3 + [0.0])  # they add up to nothing
    assert with_biases.finite().tolist() == [False, True]
    patterns = rbm(4, 3, 2, replicas=2, seed=0)
    patterns.couplings.patterns.data[0] = 1e19  # finite, and its square is not
    assert patterns.finite().tolist() == [False, True]


def test_chains_that_do_not_fit(tmp_path):
    run = made(tmp_path / "R", negative="pcd", particles=5)
    tensors, header = load_tensors(run.latest)
    tensors["training/chains"] = torch.ones(2, 4, 3)
    save_file(tensors, run.latest, metadata={"rapidbm": json.dumps(header)})
    with pytest.raises(InputError, match=r"chains \(2, 4, 3\)"):
        evaluation(run, likelihood="none")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"training/update": torch.tensor(-3)}, "update -3"),
        ({"training/update": torch.tensor(10**9)}, "update 1000000000"),
        ({"training/seed": torch.tensor(-1)}, "seed is -1"),
        ({"training/rng": torch.full((5056,), 255, dtype=torch.uint8)}, "random numbers"),
        ({"training/rng": torch.zeros(7, dtype=torch.uint8)}, "training/rng"),
        ({"training/alive": torch.ones(2)}, "training/alive"),
    ],
    ids=str,
)
def test_states_that_no_training_left(run, change, words):
    tensors, header = load_tensors(run.latest)
    save_file({**tensors, **change}, run.latest, metadata={"rapidbm": json.dumps(header)})
    with pytest.raises(InputError, match=words):
        next(Run(run.folder).go(epochs=9))


@pytest.mark.parametrize("left", ["", None, 1])
def test_lost_evaluations_are_noticed_on_resume(run, left):
    path = run.folder / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    if left is None:
        path.unlink()
    else:
        path.write_text("".join(lines[: left or 0]))
    with pytest.warns(LossWarning, match=rf"lost {len(lines) - (left or 0)} or more"):
        for _ in Run(run.folder).go(epochs=5):
            pass
    assert json.loads((run.folder / "run.json").read_text())["evaluations_lost"]


# -- replicas that diverge ----------------------------------------------------------------------------


OPTIMISERS = {
    "sgd": sgd,
    "momentum": lambda rate: sgd(rate, momentum=0.9),
    "adam": adam,
    "weight decay": lambda rate: sgd(rate, momentum=0.99, weight_decay=0.1),
    "little momentum": lambda rate: sgd(rate, momentum=0.5),
}
PHASES = [
    negative.Tempered(8, 4),
    negative.Persistent(8),
    negative.ContrastiveDivergence(),
    negative.Exact(),
]
DIVERGING = [(PHASES[2], name) for name in OPTIMISERS]  # all of them with CD, all phases with one
DIVERGING += [(phase, "momentum") for phase in PHASES if phase is not PHASES[2]]


@pytest.mark.parametrize("patterns", [3, None])
@pytest.mark.parametrize(
    ("phase", "name"), DIVERGING, ids=[f"{type(phase).__name__}, {name}" for phase, name in DIVERGING]
)
def test_a_diverging_replica_stops_nobody(phase, name, patterns):
    """And freezes finite, whatever the optimiser; the others are as if it had not been there."""
    data = rb.load("bars4").train
    healthy = []
    for wild in (1e6, 0.03):
        machine = rbm(16, 6, patterns, replicas=3, seed=1)
        rates = OPTIMISERS[name]((0.02, wild, 0.05))
        for last in train(machine, data, phase, rates, epochs=8, batch_size=3, seed=1):
            pass
        assert machine.finite().all()
        healthy.append([p.data[[0, 2]].clone() for p in machine.parameters()])
        if wild == 1e6 and patterns and name in ("momentum", "weight decay"):
            assert last.diverged == (1,)  # with momentum they are sure to run away
    for a, b in zip(*healthy, strict=True):
        assert torch.equal(a, b)


def test_a_diverged_replica_with_momentum_stays_as_it_was():
    machine = rbm(16, 6, 3, replicas=2, seed=0)
    data = rb.load("bars4").train
    seen = []
    steps = train(
        machine,
        data,
        negative.PatternInduced(),
        sgd((0.01, 1e6), momentum=0.9),
        epochs=30,
        batch_size=3,
        every="update",
        seed=0,
    )
    for step in steps:
        seen.append((step.diverged, machine.patterns.detach()[1].clone()))
    frozen = [i for i, (diverged, _) in enumerate(seen) if diverged]
    assert frozen
    first = frozen[0]
    assert torch.equal(seen[first][1], seen[first - 1][1])
    assert torch.equal(seen[-1][1], seen[first - 1][1])
    assert machine.finite().all()


# -- processes that meet ------------------------------------------------------------------------------


def test_of_two_that_create_one_folder_one_wins(tmp_path):
    recipes = [Recipe.made("bars4", {**TINY, "seed": seed}) for seed in (1, 2)]
    for attempt in range(20):
        folder, start, won, refused = tmp_path / str(attempt), threading.Barrier(2), [], []

        def create(recipe, folder=folder, start=start, won=won, refused=refused):
            start.wait()
            try:
                won.append(Run.create(folder, recipe).recipe.seed)
            except InputError as error:
                refused.append(str(error))

        threads = [threading.Thread(target=create, args=(recipe,)) for recipe in recipes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == len(refused) == 1, refused
        assert "not empty" in refused[0] or "another process" in refused[0]
        assert Run(folder).recipe.seed == won[0]


def test_a_slow_one_does_not_overwrite_a_quick_one(tmp_path, monkeypatch):
    """The folder was free when the slow one looked."""
    quick = Recipe.made("bars4", {**TINY, "seed": 1, "epochs": 1})
    build = Recipe.trainer

    def slowly(recipe, *rest):
        if recipe.seed == 2 and not (tmp_path / "R").exists():
            for _ in Run.create(tmp_path / "R", quick).go():
                pass
        return build(recipe, *rest)

    monkeypatch.setattr(Recipe, "trainer", slowly)
    with pytest.raises(InputError, match="not empty"):
        Run.create(tmp_path / "R", Recipe.made("bars4", {**TINY, "seed": 2}))
    assert Run(tmp_path / "R").recipe.seed == 1
    assert Run(tmp_path / "R").status == "finished"


def test_runs_that_name_themselves_never_collide(tmp_path):
    recipe = Recipe.made("bars4", TINY)
    names = [Run.create(tmp_path / "r" / "x", recipe, renamed=True).folder.name for _ in range(3)]
    assert names == ["x", "x-2", "x-3"]


def test_a_run_that_was_opened_before_another_changed_it(run):
    early = Run(run.folder)
    for _ in run.go(epochs=6):
        pass
    for _ in early.go():
        pass
    again = Run(run.folder)
    assert again.recipe.epochs == 6
    assert again.info["prolonged"]
    assert again.info["update"] == again.info["updates"] == 24


def test_of_two_that_open_one_reproduction_one_wins(tmp_path, monkeypatch):
    from rapidbm_paper import reproduction

    make = reproduction.make_folder

    def slowly(folder):
        monkeypatch.setattr(reproduction, "make_folder", make)
        Reproduction.open(folder, "tiny", 1)
        make(folder)

    monkeypatch.setattr(reproduction, "make_folder", slowly)
    with pytest.raises(InputError, match="not empty"):
        Reproduction.open(tmp_path / "R", "tiny", 2)
    assert Reproduction(tmp_path / "R").seed == 1


# -- folders from strangers ---------------------------------------------------------------------------


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize(
    "name",
    [
        "run.json",
        "metrics.jsonl",
        "checkpoints",
        "checkpoints/latest.safetensors",
        "checkpoints/update-00000002.safetensors",
        ".lock",
        "figures",
    ],
)
def test_links_out_of_a_run_folder_are_not_followed(run, tmp_path, name):
    outside = tmp_path / "outside"
    place = run.folder / name
    target = outside / place.name
    outside.mkdir()
    if place.exists():
        shutil.move(place, target)
    elif name == "figures":
        target.mkdir()
    else:
        target.write_text("mine")
    place.symlink_to(target)
    before = contents(outside)

    def use(part, update):
        found = Run(run.folder)
        if part == "go":
            for _ in found.go(epochs=5):
                pass
        elif part == "machine":
            found.machine(update)
        elif part == "metrics":
            found.metrics()
        else:
            found.figures.mkdir(exist_ok=True)
            write_bytes(found.figures / "a.png", b"x")

    touched = {
        "run.json": "go",
        "metrics.jsonl": "metrics",
        "figures": "figures",
        ".lock": "go",
    }.get(name, "machine")
    with pytest.raises(InputError, match=r"leads out of|cannot be opened"):
        use(touched, 2 if "update" in name else None)
    for part in ("go", "machine", "metrics", "figures"):
        with contextlib.suppress(InputError):
            use(part, None)
    assert contents(outside) == before


def test_links_within_the_folder_serve(run):
    latest = run.latest
    latest.rename(latest.with_name("other"))
    latest.symlink_to("other")
    assert run.machine().replicas == 2


@pytest.mark.parametrize("name", ["reproduction.json", "times.json", "records", "figures", ".lock"])
def test_links_out_of_a_reproduction_are_not_followed(tmp_path, name):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "fig1.png").write_text("secret")
    (outside / "fig1.txt").write_text("secret")
    spent = dict.fromkeys(("device", "python", "torch", "numpy", "rapidbm"), "secret")
    (outside / "times.json").write_text(json.dumps({"x": {"seconds": 1, **spent}}))
    Reproduction.open(tmp_path / "R", "tiny", 0)
    place = tmp_path / "R" / name
    place.unlink(missing_ok=True)
    if name == "reproduction.json":
        shutil.copy(outside / "times.json", outside / name)
    place.symlink_to(outside / name if name.endswith("json") else outside)
    before = contents(outside)
    if name in ("reproduction.json", "figures"):
        with pytest.raises(InputError, match="leads out of"):
            Reproduction(tmp_path / "R").draw(["fig1"])
    else:
        found = Reproduction(tmp_path / "R")
        found.draw(["fig1"])
        found.judge()
        assert "secret" not in found.report().read_text()
    if name == ".lock":
        with pytest.raises(InputError, match="cannot be opened"), locked(tmp_path / "R", "working"):
            pass
    assert contents(outside) == before


def test_what_is_written_takes_the_place_of_a_link(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "a").symlink_to(tmp_path / "mine")
    write_bytes(tmp_path / "a", b"new")
    assert (tmp_path / "mine").read_text() == "mine"
    assert not (tmp_path / "a").is_symlink()
    assert (tmp_path / "a").read_bytes() == b"new"
    assert not list(tmp_path.glob(".*"))
    plain = tmp_path / "plain"
    plain.touch()
    assert (tmp_path / "a").stat().st_mode == plain.stat().st_mode


def test_a_file_is_on_the_disk_before_it_takes_the_place_of_the_old_one(tmp_path, monkeypatch):
    steps, replace = [], os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: steps.append(os.fstat(handle).st_size))
    monkeypatch.setattr(os, "replace", lambda *paths: (steps.append("replaced"), replace(*paths)))
    disk.write_json(tmp_path / "file.json", {"name": "ξ"})
    assert steps == [19, "replaced"]
    assert (tmp_path / "file.json").read_text() == '{\n  "name": "ξ"\n}\n'  # for people's eyes too


def test_a_temporary_file_that_is_there_already_is_not_used(tmp_path, monkeypatch):
    names = iter(["taken", "free"])
    monkeypatch.setattr("rapidbm.disk.token_hex", lambda count: next(names))
    (tmp_path / "mine").write_text("mine")
    (tmp_path / ".a.taken.part").symlink_to(tmp_path / "mine")
    with pytest.raises(FileExistsError):
        write_bytes(tmp_path / "a", b"new")
    assert (tmp_path / "mine").read_text() == "mine"
    write_bytes(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"


def test_data_outside_a_foreign_run_are_read_only_when_named(tmp_path, monkeypatch):
    bits = np.random.default_rng(0).random((20, 16)) < 0.5
    np.save(tmp_path / "x.npy", bits)
    run = made(tmp_path / "R", tmp_path / "x.npy", epochs=1)
    assert len(run.data().train) == 16  # the user has trained on it
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another user"))
    foreign = Run(tmp_path / "R")
    for use in (foreign.data, lambda: evaluation(foreign), lambda: next(foreign.go(epochs=2))):
        with pytest.raises(InputError, match=r"x\.npy, which lies outside.*--data"):
            use()
    np.save(tmp_path / "other.npy", ~bits)
    with pytest.raises(InputError, match="checksum differs"):
        Run(tmp_path / "R", tmp_path / "other.npy").data()
    assert len(Run(tmp_path / "R", tmp_path / "x.npy").data().train) == 16
    assert len(foreign.data().train) == 16  # it was named
    (tmp_path / "x.npy").rename(tmp_path / "moved.npy")
    monkeypatch.undo()
    with pytest.raises(InputError, match=r"x\.npy, which is not there.*--data"):
        run.data()
    named = Run(tmp_path / "R", tmp_path / "moved.npy")
    assert len(named.data().train) == 16
    bars = made(tmp_path / "B", epochs=1)
    with pytest.raises(InputError, match="no file"):
        Run(bars.folder, tmp_path / "moved.npy").data()


def test_data_within_a_foreign_run_are_its_own(tmp_path, monkeypatch):
    run = made(tmp_path / "R", epochs=1)
    bits = np.random.default_rng(0).random((20, 16)) < 0.5
    np.save(run.folder / "x.npy", bits)
    recipe = Recipe.made(str(run.folder / "x.npy"), TINY)
    other = Run.create(tmp_path / "S", recipe)
    info = json.loads((other.folder / "run.json").read_text())
    (run.folder / "run.json").write_text(json.dumps(info))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another user"))
    assert len(Run(run.folder).data().train) == 16
    (run.folder / "x.npy").rename(tmp_path / "x.npy")
    (run.folder / "x.npy").symlink_to(tmp_path / "x.npy")
    with pytest.raises(InputError, match="outside"):
        Run(run.folder).data()


# -- files of data ------------------------------------------------------------------------------------


def test_hdf5_reads_no_other_file(tmp_path):
    import h5py

    bits = np.random.default_rng(0).random((20, 16)) < 0.5
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["samples"] = bits
    bits.tofile(tmp_path / "raw")
    with h5py.File(tmp_path / "link.h5", "w") as file:
        file["samples"] = h5py.ExternalLink("other.h5", "samples")
    with h5py.File(tmp_path / "soft.h5", "w") as file:
        file["samples"] = h5py.SoftLink("/nowhere")
    with h5py.File(tmp_path / "raw.h5", "w") as file:
        where = [(str(tmp_path / "raw"), 0, h5py.h5f.UNLIMITED)]
        file.create_dataset("samples", (20, 16), "bool", external=where)
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        layout = h5py.VirtualLayout((20, 16), "bool")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "samples", (20, 16))
        file.create_virtual_dataset("samples", layout)
    with h5py.File(tmp_path / "empty.h5", "w") as file:
        file.create_dataset("samples", (10**6, 10**6), "int8", chunks=(10, 10))
    assert len(rb.load(str(tmp_path / "other.h5")).train) == 16
    for name, words in {
        "link": "is a link",
        "soft": "is a link",
        "raw": "other files",
        "virtual": "other files",
        "empty": "more than there is room|not in the file",
    }.items():
        with pytest.raises(InputError, match=words):
            rb.load(str(tmp_path / f"{name}.h5"))


def test_what_nobody_asks_for_is_not_unpacked(tmp_path):
    import zipfile

    bits = np.random.default_rng(0).random((20, 16)) < 0.5
    np.savez(tmp_path / "x.npz", samples=bits)
    with zipfile.ZipFile(tmp_path / "x.npz", "a") as file:
        file.writestr("junk.npy", b"no array at all")
    with pytest.warns(DataWarning, match="'junk'"):
        assert len(rb.load(str(tmp_path / "x.npz")).train) == 16


def test_what_is_unpacked_has_room(tmp_path, monkeypatch):
    np.savez(tmp_path / "x.npz", samples=np.eye(20, 16) > 0)
    monkeypatch.setattr(sources, "room", lambda: 128 + 320)  # a header and the bits
    assert len(rb.load(str(tmp_path / "x.npz")).train) == 16
    monkeypatch.setattr(sources, "room", lambda: 128 + 319)
    with pytest.raises(InputError, match="more than half of this machine's memory"):
        rb.load(str(tmp_path / "x.npz"))
    monkeypatch.undo()
    sources.check_unpacked("x", 1100 * 3 + 1024, 3)
    with pytest.raises(ValueError, match="not in the file"):
        sources.check_unpacked("x", 1100 * 3 + 1025, 3)


def test_claims_beyond_the_file(tmp_path):
    """Sizes are held against the file before memory is taken."""
    import zipfile

    header = b"{'descr': '|i1', 'fortran_order': False, 'shape': (%d, 1000), }"
    for rows, name in ((10**9, "a.npy"), (2**62, "b.npy")):
        text = (header % rows).ljust(117) + b"\n"
        (tmp_path / name).write_bytes(b"\x93NUMPY\x01\x00" + bytes([len(text), 0]) + text + b"123")
        with pytest.raises(InputError, match="cannot be read as a NumPy file"):
            rb.load(str(tmp_path / name))
    with zipfile.ZipFile(tmp_path / "c.npz", "w") as file:
        file.writestr("samples.npy", (tmp_path / "a.npy").read_bytes())
    with pytest.raises(InputError, match="cannot be read as a NumPy file"):
        rb.load(str(tmp_path / "c.npz"))


def test_saving_into_a_missing_folder(tmp_path):
    with pytest.raises(InputError, match="no folder"):
        save_machine(rbm(4, 3, seed=0), tmp_path / "none" / "m.safetensors")


# -- shapes -------------------------------------------------------------------------------------------

RIGHT_AND_WRONG = {
    "whole": (Whole(1, 9), [1, 9], [0, 10, 1.0, True, "1", None]),
    "a count": (Whole(), [0, 2**63 - 1], [-1, 2**63]),
    "real": (Real(0), [0, 0.5, 3, 9.9e299], [-1, 1e300, 1e301, 10**400, True, "1", None, [1]]),
    "text": (Text(3), ["", "abc", "\ud7ff\ue000"], ["abcd", "\0", "\ud800", "\udfff", 1, None]),
    "flag": (Flag(), [True, False], [0, 1, None, "true"]),
    "one of": (OneOf(("a", "b")), ["a"], ["c", None, ["a"]]),
    "maybe": (Maybe(Whole()), [None, 3], ["x", -1]),
    "several": (Several(Whole(), count=2), [[1, 2]], [[1], [1, 2, 3], [1, "x"], 1, {}]),
    "at most": (Several(Whole(), most=1), [[], [1]], [[1, 2]]),
    "names": (
        Names({"a": Whole()}, {"b": Text()}),
        [{"a": 1}, {"a": 1, "b": ""}],
        [{}, {"b": ""}, {"a": 1, "c": 1}, {"a": "x"}, [], {"a": 1, "b": 2}],
    ),
    "others": (
        Names({}, others=Whole()),
        [{}, {"x": 1}, {"x" * 200: 1}],
        [{"x": "y"}, {"\ud800": 1}, {"x" * 201: 1}],
    ),
    "anything": (
        Anything(),
        [None, True, 1, 0.5, "x", [], {}, [1, 2.0], [[1], {"a": [None, "x"]}]],
        [
            1e301,
            [1.0, 1e301],
            [-1e301, 0.0],
            ["\ud800"],
            {"\0": 1},
            {"a": [[10**400]]},
        ],
    ),
    "anything long": (Anything(), ["x" * 2**20], ["x" * (2**20 + 1), {"x" * (2**20 + 1): 1}]),
    "a recipe": (
        of_fields(Recipe),
        [{"dataset": "x"}, {"dataset": "x", "hidden": [3], "rate": [0.1], "precision": None}],
        [{}, {"dataset": 3}, {"dataset": "x", "hidden": 3}, {"dataset": "x", "precision": "odd"}],
    ),
}


@pytest.mark.parametrize("kind", RIGHT_AND_WRONG)
def test_shapes(kind):
    shape, right, wrong = RIGHT_AND_WRONG[kind]
    for value in right:
        assert shape.checked(value, "it:", "mend it") is value
        assert shape.fits(value)
    for value in wrong:
        assert not shape.fits(value), value
        with pytest.raises(InputError, match=r"^it: .* must be .*, not .*; mend it$"):
            shape.checked(value, "it:", "mend it")


@dataclass
class Choices:
    name: str
    rate: float
    count: int = 3
    flag: bool = False
    word: Literal["a", "b"] = "a"
    sizes: tuple[int, ...] = field(default_factory=tuple)
    limit: float | None = None


def test_the_shape_of_a_dataclass_is_that_of_its_fields():
    shape, least = of_fields(Choices), {"name": "x", "rate": 0.5}
    assert set(shape.must) == set(least)
    for more in (
        {},
        {"count": -(2**63)},
        {"flag": True},
        {"word": "b"},
        {"sizes": [1, 2]},
        {"limit": None},
        {"limit": 2},
    ):
        assert shape.fits(least | more), more
    for wrong in (
        {"name": 1},
        {"rate": None},
        {"count": 2.0},
        {"count": -(2**63) - 1},
        {"flag": 1},
        {"word": "c"},
        {"sizes": 1},
        {"sizes": [0.5]},
        {"limit": "x"},
        {"other": 1},
    ):
        assert not shape.fits(least | wrong), wrong
    assert not shape.fits({"name": "x"})
    table = of_hint(Mapping[str, float])
    assert table.fits({"a": 1.5, "b": 2})
    assert not table.fits({"a": "x"})
    with pytest.raises(TypeError, match="no shape for"):
        of_fields(make_dataclass("Odd", [("pair", dict[str, int])]))


def test_a_file_of_json_may_be_as_long_as_it_may_be(tmp_path, monkeypatch):
    path = tmp_path / "file.json"
    path.write_text('{"update": 3}')
    shape, words = Names({"update": Whole(0)}), ("a number", "write it again")
    monkeypatch.setattr(disk, "JSON_BYTES", path.stat().st_size)
    assert disk.read_json(path, shape, *words) == {"update": 3}
    monkeypatch.setattr(disk, "JSON_BYTES", path.stat().st_size - 1)
    with pytest.raises(InputError, match="13 bytes, more than 12"):
        disk.read_json(path, shape, *words)
