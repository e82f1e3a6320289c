"""Run folders: what is written, and that a cut anywhere changes no bit."""

import fcntl
import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from rapidbm.disk import locked
from rapidbm.errors import InputError, LossWarning
from rapidbm.machines import files
from rapidbm.machines.constructors import bm, dbm, rbm
from rapidbm.machines.files import load_machine, load_tensors, save_machine
from rapidbm.random import stream
from rapidbm.runs.folder import as_list, exact_list
from rapidbm.runs.metrics import METRICS, Metric, hamming_distance
from rapidbm.runs.presets import OF_TASKS, PRESETS, preset_for
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run
from rapidbm.runs.timing import due, on_log_grid, spacing_of
from rapidbm.training.optimisers import TorchOptimizer, adam, sgd
from rapidbm.training.positive import ClampedChains, MeanField
from rapidbm.training.projections import Sign
from rapidbm_paper.bars.standard import dense_settings

TINY = {"hidden": (20,), "patterns": 3, "epochs": 12, "replicas": 2, "device": "cpu"}
PCD = {
    **TINY,
    "negative": "pcd",
    "particles": 9,
    "optimizer": "adam",
    "rate": (0.01,),
    "average": 5,
    "biases": True,
    "projection": "clip",
}


@pytest.fixture(autouse=True)
def few_tries(monkeypatch):
    """The 100 tries of a look took nine tenths of these tests, which are about what becomes of it."""
    monkeypatch.setitem(METRICS.own, "hamming", Metric(partial(hamming_distance, tries=3)))


def go(folder, stop=lambda: False, **chosen):
    run = Run.create(folder, Recipe.made("bars4", {**TINY, **chosen}))
    for _ in run.go(stop):
        pass
    return run


def same_tensors(a, b):
    one, two = load_tensors(a)[0], load_tensors(b)[0]
    assert set(one) == set(two)
    for name, value in one.items():
        assert torch.equal(value, two[name]), name


def test_what_a_run_folder_holds(tmp_path):
    run = go(tmp_path / "R", projection="clip")
    info = json.loads((tmp_path / "R" / "run.json").read_text())
    assert (info["status"], info["update"], info["updates"]) == ("finished", 48, 48)
    assert info["recipe"]["dataset"] == "bars4"
    assert set(info["versions"]) == {"python", "torch", "numpy"}
    assert info["device"] == "cpu"
    lines = [json.loads(line) for line in (tmp_path / "R" / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12]
    for line in lines:
        assert set(line) == {"epoch", "update", "seconds", "hamming_train", "hamming_test"}
        assert len(line["hamming_test"]) == 2
        assert line["update"] == 4 * line["epoch"]
    assert list(run.checkpoints()) == [0, 1, 2, 4, 8, 16, 32, 48]
    assert torch.equal(run.machine().patterns, run.machine(48).patterns)
    assert not torch.equal(run.machine(0).patterns, run.machine(48).patterns)
    assert torch.equal(run.machine(8, replica=1).patterns, run.machine(8).patterns[1:])
    assert not list((tmp_path / "R").rglob("*.part*"))


@pytest.mark.parametrize("chosen", [TINY, PCD], ids=["pid", "pcd"])
@pytest.mark.parametrize("cut", [0, 1, 7, 30])
def test_an_interrupted_run_goes_on_to_the_same_bits(tmp_path, chosen, cut):
    whole = go(tmp_path / "whole", **chosen)
    count = iter(range(1000))
    part = go(tmp_path / "part", stop=lambda: next(count) == cut, **chosen)
    assert part.status == "interrupted"
    resumed = Run(tmp_path / "part")
    for _ in resumed.go():
        pass
    assert resumed.status == "finished"
    same_tensors(whole.latest, resumed.latest)
    for update, path in whole.checkpoints().items():
        same_tensors(path, resumed.checkpoints()[update])
    drop = [{k: v for k, v in r.items() if k != "seconds"} for r in whole.metrics()]
    assert drop == [{k: v for k, v in r.items() if k != "seconds"} for r in resumed.metrics()]


@pytest.mark.parametrize("chosen", [TINY, PCD], ids=["plain", "averaged"])
def test_a_record_is_what_the_checkpoint_gives(tmp_path, chosen):
    run = go(tmp_path / "R", **chosen)
    data, record = run.data(), run.metrics()[-1]
    rng = stream(run.recipe.seed, "evaluate", record["update"])
    for part, split in (("train", data.train), ("test", data.test)):
        wanted = METRICS["hamming"](run.machine(), split, rng)
        assert record[f"hamming_{part}"] == pytest.approx(wanted.tolist(), rel=1e-6)


def test_the_state_is_saved_every_so_often(tmp_path, monkeypatch):
    monkeypatch.setattr("rapidbm.runs.run.SAVE_SECONDS", 0.0)
    run = Run.create(tmp_path / "R", Recipe.made("bars4", {**TINY, "checkpoints": "end"}))
    for step in run.go():
        if step.update > 3:
            assert load_tensors(run.latest)[1]["update"] == step.update - 1
        if step.update == 6:
            break


def test_seconds_add_up_over_resumes(tmp_path):
    count = iter(range(1000))
    part = go(tmp_path / "R", stop=lambda: next(count) == 30)
    before = part.info["seconds"]
    for _ in Run(tmp_path / "R").go():
        pass
    times = [r["seconds"] for r in part.metrics()]
    assert times == sorted(times)
    assert times[-1] > before > 0


def test_biases_start_at_the_marginals_of_the_data(tmp_path):
    import numpy as np

    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((200, 16)) < 0.8)
    chosen = {**TINY, "biases": True, "epochs": 1, "projection": "none"}
    run = Run.create(tmp_path / "R", Recipe.made(str(tmp_path / "x.npy"), chosen))
    next(run.go())
    start = run.machine().biases.detach()
    mean = run.data().train.spins.double().sum(0) / (160 + 2)
    assert torch.allclose(torch.tanh(start[:, :16].double()), mean.expand(2, 16), atol=1e-6)


def test_leaving_the_loop_saves(tmp_path):
    run = Run.create(tmp_path / "R", Recipe.made("bars4", TINY))
    for step in run.go():
        if step.update == 5:
            break
    again = Run(tmp_path / "R")
    assert (again.status, again.info["update"]) == ("interrupted", 5)
    assert next(iter(again.go())).update == 6


@pytest.mark.parametrize(
    ("error", "status"), [(RuntimeError, "failed"), (KeyboardInterrupt, "interrupted")]
)
def test_what_ended_a_training_is_in_its_status(tmp_path, monkeypatch, error, status):
    run = Run.create(tmp_path / "R", Recipe.made("bars4", TINY))

    def fail(*given):
        raise error

    steps = run.go()
    while next(steps).update < 3:
        pass
    monkeypatch.setattr(run, "_evaluate", fail)  # update 4 ends an epoch, which is looked at
    with pytest.raises(error):
        next(steps)
    again = Run(tmp_path / "R")
    assert (again.status, again.info["update"]) == (status, 4)


def test_a_finished_run_tells_what_is_proven_of_its_fit(tmp_path):
    run = go(tmp_path / "R", epochs=1)
    fit = Run(run.folder).info["fit"]
    assert len(fit["log_likelihood_at_most"]) == 2
    assert fit["independent_columns"] == pytest.approx(-16 * math.log(2), abs=0.3)


def test_epochs_that_are_looked_at():
    looked_at = [epoch for epoch in range(1, 1100) if on_log_grid(epoch)]
    assert looked_at[:21] == [*range(1, 11), 15, 20, 25, 30, 35, 40, 45, 50, 60, 70, 80]
    assert looked_at[21:34] == [90, 100, 150, 200, 250, 300, 350, 400, 450, 500, 600, 700, 800]
    assert looked_at[34:] == [900, 1000]


def test_when_something_is_due():
    def updates(spacing, **more):
        return [
            u
            for u in range(21)
            if due(
                spacing, SimpleNamespace(update=u, updates=20, epoch=u // 4, epoch_end=u % 4 == 0), **more
            )
        ]

    assert updates("end") == [0, 20]
    assert updates("epoch") == updates("log", by_epoch=True) == [0, 4, 8, 12, 16, 20]
    assert updates("log") == [0, 1, 2, 4, 8, 16, 20]
    assert updates("7") == [0, 7, 14, 20]
    assert spacing_of("evaluation", "1") == 1


def test_checkpoints_that_are_not_there(tmp_path):
    run = Run.create(tmp_path / "run", Recipe.made("bars4", TINY))
    with pytest.raises(InputError, match="has no checkpoint yet"):
        run.machine()
    run.checkpoint(3).parent.mkdir()
    with pytest.raises(InputError, match="has no checkpoint of update 3; it has none"):
        run.machine(3)
    for update in (4, 8):
        run.checkpoint(update).touch()
    with pytest.raises(InputError, match="of update 3; it has 4, 8"):
        run.machine(3)


def test_values_that_are_not_finite_are_none():
    values = torch.tensor([1 / 3, math.inf, math.nan], dtype=torch.float64)
    assert exact_list(values) == [1 / 3, None, None]
    assert as_list(values) == [0.333333333, None, None]


def test_a_number_spaces_evaluations_and_checkpoints_in_updates(tmp_path):
    run = go(tmp_path / "R", epochs=3, evaluate="5", checkpoints="epoch")  # of 4 updates each
    assert [line["update"] for line in run.metrics()] == [0, 5, 10, 12]
    assert list(run.checkpoints()) == [0, 4, 8, 12]


def test_a_metric_of_the_machine_alone_is_recorded_beside_those_of_the_splits(tmp_path):
    metrics = ("gibbs_accessibility", "hamming")
    run = go(tmp_path / "R", epochs=1, metrics=metrics, evaluate="end")
    last = run.metrics()[-1]
    assert set(last) == {"epoch", "update", "seconds", "hamming_train", "hamming_test", metrics[0]}
    assert len(last["gibbs_accessibility"]) == 2
    assert all(0 < share <= 1 for share in last["gibbs_accessibility"])


def test_what_a_killed_process_left_half_written_is_removed(tmp_path):
    left = tmp_path / "below" / ".run.json.1234.part"
    left.parent.mkdir()
    for path in (left, tmp_path / "kept.part", tmp_path / ".kept"):
        path.write_text("x")
    with locked(tmp_path, "training"):
        assert not left.exists()
    assert {path.name for path in tmp_path.iterdir()} == {"below", "kept.part", ".kept", ".lock"}


COMMAND = [sys.executable, "-m", "rapidbm", "train", "bars4", "--device", "cpu"]
KILLED = {"hidden": (40,), "patterns": 4, "epochs": 100, "seed": 3, "metrics": ("free_energy",)}
KILLED |= {"evaluate": "epoch", "negative": "pcd", "particles": 50, "optimizer": "adam"}


@pytest.fixture(scope="module")
def uncut(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uncut") / "R"
    for _ in Run.create(folder, Recipe.made("bars4", {**KILLED, "device": "cpu"})).go():
        pass
    return Run(folder)


@pytest.mark.parametrize(
    "looks", [pytest.param(1, marks=pytest.mark.slow), 30, pytest.param(60, marks=pytest.mark.slow)]
)
def test_killing_changes_no_byte(tmp_path, uncut, looks):
    """SIGKILL after so many looks of 101, then resumed: the same final checkpoint. A page of memory holds
    the lines of some 30 looks, so that the process waits for us before its last one."""
    words = [f"--{name}={value}" for name, value in KILLED.items() if isinstance(value, int)]
    words += ["--hidden=40", "--metric=free_energy", "--evaluate-at=epoch", "--negative=pcd"]
    process = subprocess.Popen(
        [*COMMAND, *words, "--optimizer=adam", "--json", "--out", tmp_path / "R"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
    with process:
        for _ in range(looks):
            assert b"evaluation" in process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    run = Run(tmp_path / "R")
    assert run.recipe == uncut.recipe
    assert run.status == "running"
    for _ in run.go():
        pass
    same_tensors(uncut.latest, run.latest)
    assert run.status == "finished"
    values = [[r["free_energy_test"] for r in one.metrics()] for one in (uncut, run)]
    assert values[0] == values[1]
    assert len(values[0]) == 101


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_says_how_to_go_on(tmp_path, number):
    process = subprocess.Popen(
        [*COMMAND, "--epochs", "1000000", "--out", "R"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    line = process.stdout.readline()
    while "epoch    1" not in line:
        line = process.stdout.readline()
        assert line, process.stderr.read()
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "Go on with: rapidbm train --resume --out R" in out
    run = Run(tmp_path / "R")
    assert run.status == "interrupted"
    assert load_tensors(run.latest)[1]["update"] == run.info["update"] > 0


def test_a_kill_before_the_first_update_repeats_no_evaluation(tmp_path):
    run = Run.create(tmp_path / "R", Recipe.made("bars4", TINY))
    assert next(run.go()).update == 0  # leaving the loop saves; a kill would leave the same
    assert [r["update"] for r in run.metrics()] == [0]
    for _ in Run(tmp_path / "R").go():
        pass
    updates = [r["update"] for r in run.metrics()]
    assert updates == sorted(set(updates))


def test_a_file_of_data_is_found_from_anywhere(tmp_path, monkeypatch):
    import numpy as np

    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.random.default_rng(0).random((20, 16)) < 0.5)
    Run.create(tmp_path / "R", Recipe.made("x.npy", {**TINY, "epochs": 2}))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert len(Run(tmp_path / "R").data().train) == 16


def test_a_torn_line_of_metrics_is_passed_over_and_mended(tmp_path):
    count = iter(range(1000))
    run = go(tmp_path / "R", stop=lambda: next(count) == 20)
    with (tmp_path / "R" / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 5, "upd')
    assert [r["epoch"] for r in run.metrics()][-1] == 5
    for _ in Run(tmp_path / "R").go():
        pass
    assert [r["epoch"] for r in run.metrics()] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12]


def test_a_run_that_was_told_to_stop_says_so(tmp_path):
    written = Run(go(tmp_path / "run", stop=lambda: True).folder)
    assert (written.status, written.info["update"]) == ("interrupted", 1)
    assert load_tensors(written.latest)[1]["update"] == 1


def test_what_a_caller_looks_at_takes_the_place_of_the_metrics(tmp_path):
    run = Run.create(tmp_path / "run", Recipe.made("bars4", {**TINY, "epochs": 2}))
    third = torch.tensor([1.0, 2.0], dtype=torch.float64) / 3
    seen = [0, 2]

    def look(progress, data):
        return {"third": third} if progress.epoch in seen else None

    steps = list(run.go(look=look))
    assert [(r["epoch"], r["third"]) for r in run.metrics()] == [(e, third.tolist()) for e in seen]
    assert [step.epoch for step in steps if step.record is not None] == seen
    assert all("hamming_train" not in r for r in run.metrics())
    assert "fit" not in run.info


def test_only_a_last_line_without_an_end_may_be_torn(tmp_path):
    run = Run.create(tmp_path / "run", Recipe.made("bars4", {**TINY, "replicas": 1}))
    assert run.metrics() == []
    line, path = '{"epoch": 0, "update": 0, "hamming": [0.5]}\n', run.folder / "metrics.jsonl"
    path.write_text(line + line[:9])
    assert run.metrics() == [json.loads(line)]
    for torn, number in ((line + line[:9] + "\n", 2), (line[:9] + "\n" + line, 1)):
        path.write_text(torn)
        with pytest.raises(InputError, match=f"line {number} of .* is no evaluation"):
            run.metrics()
    path.write_text(line.replace("0.5", '"x"'))
    with pytest.raises(InputError, match=r"line 1 of .* is no evaluation"):
        run.metrics()


def test_checkpoints_are_files_named_by_an_update(tmp_path):
    run = Run.create(tmp_path / "run", Recipe.made("bars4", TINY))
    folder = run.folder / "checkpoints"
    folder.mkdir()
    for name in ("0" * 8, "0" * 7 + "12", "1" * 18, "1" * 19, "0" * 7, "00000003x", "0000000²"):
        (folder / f"update-{name}.safetensors").touch()
    assert sorted(run.checkpoints()) == [0, 12, int("1" * 18)]
    assert run.checkpoint(12).name == "update-00000012.safetensors"


@pytest.mark.parametrize("spare", [0, -1])
def test_evaluations_may_take_so_many_bytes(tmp_path, spare, monkeypatch):
    run = Run.create(tmp_path / "run", Recipe.made("bars4", {**TINY, "replicas": 1}))
    line = '{"epoch": 0, "update": 0, "hamming": [0.5]}\n'
    (run.folder / "metrics.jsonl").write_text(line)
    monkeypatch.setattr("rapidbm.runs.folder.METRICS_BYTES", len(line) + spare)
    if not spare:
        assert len(run.metrics()) == 1
    else:
        with pytest.raises(InputError, match="it has more than"):
            run.metrics()


def test_a_checkpoint_that_counts_no_evaluations_expects_the_first(tmp_path, monkeypatch):
    """Those of earlier versions did not."""
    run = go(tmp_path / "R", epochs=1, evaluate="end")

    def uncounted(path):
        tensors, header = load_tensors(path)
        return tensors, {name: value for name, value in header.items() if name != "evaluations"}

    monkeypatch.setattr("rapidbm.runs.folder.load_tensors", uncounted)
    path = run.folder / "metrics.jsonl"
    path.write_text(path.read_text().splitlines(keepends=True)[0])
    for _ in Run(run.folder).go(epochs=2):
        pass
    path.write_text("")
    with pytest.warns(LossWarning, match="lost 1 or more"):
        for _ in Run(run.folder).go(epochs=3):
            pass


def test_longer_than_planned(tmp_path):
    short = go(tmp_path / "short", epochs=4)
    for _ in Run(tmp_path / "short").go(epochs=12):
        pass
    same_tensors(go(tmp_path / "long").latest, short.latest)
    with pytest.raises(InputError, match="only be made longer, not 2"):
        next(iter(Run(tmp_path / "short").go(epochs=2)))
    with pytest.raises(InputError, match="--prolong again has no effect"):
        Run(tmp_path / "short").prolong(20, "again")


@pytest.mark.parametrize("opened", ["the same", "another"])
def test_a_new_run_that_was_prolonged_before_it_went(tmp_path, opened):
    run = Run.create(tmp_path / "run", Recipe.made("bars4", {**TINY, "epochs": 1, "metrics": ()}))
    (run if opened == "the same" else Run(run.folder)).prolong(2)
    written = Run(run.folder)
    assert written.status == "interrupted"
    assert written.info["prolonged"] == [{"update": 0, "rate": None, "epochs": 2}]
    assert [step.epoch for step in run.go()][-1] == 2
    assert 0 < run.info["seconds"] < 60  # not the clock's own
    assert set(run.info["fit"]) == {"log_likelihood_at_most", "independent_columns"}


def test_ways_to_prolong_that_do_not_serve_change_nothing(tmp_path):
    flat, falling = (
        Run.create(tmp_path / fall, Recipe.made("bars4", {**TINY, "epochs": 1, "fall": fall}))
        for fall in ("none", "linear")
    )
    with pytest.raises(InputError, match="--prolong stretch has no effect"):
        flat.prolong(3, "stretch")
    with pytest.raises(InputError, match="way to prolong a rate"):
        falling.prolong(3, "anew")
    for epochs in (0, 1):
        with pytest.raises(InputError, match=f"only be made longer, not {epochs}"):
            falling.prolong(epochs)
    assert all(Run(run.folder).recipe.epochs == 1 for run in (flat, falling))


def test_how_a_falling_rate_was_prolonged_is_written_down(tmp_path):
    run = Run.create(tmp_path / "run", Recipe.made("bars4", {**TINY, "epochs": 1, "fall": "linear"}))
    assert run._special is None  # a plain recipe is read from the file
    run.prolong(3)
    run.prolong(4, "stretch")
    assert [(p["rate"], p["epochs"], p.get("falls")) for p in Run(run.folder).info["prolonged"]] == [
        ("again", 3, [1]),
        ("stretch", 4, None),
    ]


def rates_of(run):
    """The rate at the first update of every epoch, without its decay."""
    trainer = run.recipe.trainer(run.data(), torch.device("cpu"))
    decayed = [0.02 * 0.96**e for e in range(trainer.epochs)]
    return [trainer.rates(e * trainer.per_epoch)[0] / rate for e, rate in enumerate(decayed)]


@pytest.mark.parametrize("cut", [None, 7])
def test_a_rate_that_fell_to_zero_falls_again_in_added_epochs(tmp_path, cut):
    planned = go(tmp_path / "planned", epochs=4, fall="linear")
    assert rates_of(planned) == pytest.approx([1, 0.75, 0.5, 0.25])
    run = Run(go(tmp_path / "run", epochs=4, fall="linear").folder)
    same_tensors(planned.latest, run.latest)
    told = run.prolong(6)
    assert "from 4 to 6 epochs" in told
    assert "falls to zero again, from the full one, over epochs 4 to 6" in told
    for _ in run.go():
        pass
    assert rates_of(run) == pytest.approx([1, 0.75, 0.5, 0.25, 1, 0.5])
    # Prolonged before its end, and interrupted after it: the same bits.
    other = Run.create(tmp_path / "other", planned.recipe)
    steps = other.go()
    for step in steps:
        if step.update == (cut or step.updates):
            break
    steps.close()
    other = Run(other.folder)
    other.prolong(6, "again")
    for step in other.go():
        if step.epoch == 5:
            break
    for _ in Run(other.folder).go():  # without --epochs
        pass
    same_tensors(run.latest, other.latest)
    assert Run(run.folder).info["prolonged"][0]["epochs"] == 6
    Run(run.folder).prolong(8)
    assert rates_of(Run(run.folder))[4:] == pytest.approx([1, 0.5, 1, 0.5])


def test_a_falling_rate_is_stretched_by_choice(tmp_path):
    run = go(tmp_path / "run", epochs=4, fall="linear")
    told = run.prolong(8, "stretch")
    assert "that of a fall over all 8 epochs" in told
    assert rates_of(run) == pytest.approx([1 - e / 8 for e in range(8)])
    with pytest.raises(InputError, match="did you mean 'stretch'"):
        run.prolong(9, "strech")
    with pytest.raises(InputError, match="only be made longer, not 8"):
        run.prolong(8)


def test_every_checkpoint_has_the_average_up_to_it(tmp_path):
    run = go(tmp_path / "R", **PCD, metrics=())
    trainer = run.recipe.trainer(run.data(), torch.device("cpu"))
    for update, path in run.checkpoints().items():
        while trainer.update < update:
            trainer.step()
        for averaged, wanted in ((True, trainer.averaged()), (False, trainer.machine)):
            found = dict(load_machine(path, averaged=averaged).named_parameters())
            for name, value in wanted.named_parameters():
                assert torch.equal(found[name], value), (update, name)
        for name, value in run.machine(update).named_parameters():
            assert torch.equal(value, trainer.average.means[name]), (update, name)
    assert torch.equal(run.machine().patterns, run.machine(trainer.update).patterns)
    assert not torch.equal(run.machine().patterns, load_machine(run.latest).patterns)
    assert not torch.equal(run.machine(1).patterns, run.machine(2).patterns)


def test_a_diverged_replica_is_in_the_record(tmp_path):
    run = Run.create(
        tmp_path / "R",
        Recipe.made(
            "bars4", {**TINY, "rate": (0.02, 1e6), "projection": "none", "decay": 1.0, "epochs": 30}
        ),
    )
    for step in run.go():
        pass
    assert step.diverged == (1,)
    assert run.info["diverged"] == [1]
    assert run.metrics()[-1]["diverged"] == [False, True]
    json.loads(
        (tmp_path / "R" / "metrics.jsonl").read_text().splitlines()[-1], parse_constant=pytest.fail
    )


def test_nothing_is_overwritten(tmp_path):
    go(tmp_path / "R")
    before = {p: p.read_bytes() for p in (tmp_path / "R").rglob("*") if p.is_file()}
    with pytest.raises(InputError, match="exists and is not empty"):
        go(tmp_path / "R")
    assert before == {p: p.read_bytes() for p in (tmp_path / "R").rglob("*") if p.is_file()}
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="exists"):
        go(tmp_path / "file")
    with pytest.raises(InputError, match="cannot be made"):
        go(tmp_path / "file" / "below")
    (tmp_path / "empty").mkdir()
    go(tmp_path / "empty", epochs=1)


def test_what_does_not_fit_is_refused_before_anything_is_written(tmp_path):
    for chosen in (
        {"patterns": None},
        {"negative": "exact", "hidden": (21,), "model": "bm"},
        {"model": "dbm", "hidden": (20, 20), "positive": "mean"},
        {"model": "dbm", "hidden": (30, 30), "positive": "enumerated"},
        {"model": "dbm", "hidden": (30, 30), "metrics": ("log_likelihood",)},
    ):
        with pytest.raises(InputError):
            go(tmp_path / "R", **chosen)
        assert not (tmp_path / "R").exists()


def test_two_processes_do_not_train_into_one_folder(tmp_path):
    run = Run.create(tmp_path / "R", Recipe.made("bars4", TINY))
    steps = run.go()
    next(steps)
    with pytest.raises(InputError, match="another process is training"):
        next(Run(tmp_path / "R").go())
    steps.close()
    next(Run(tmp_path / "R").go())


def edit(path, **changes):
    info = json.loads(path.read_text())
    path.write_text(json.dumps(info | changes))


def test_broken_run_folders(tmp_path):
    with pytest.raises(InputError, match="no run folder"):
        Run(tmp_path)
    run = go(tmp_path / "R", epochs=1)
    kept = (tmp_path / "R" / "run.json").read_text()
    edit(tmp_path / "R" / "run.json", format=7)
    with pytest.raises(InputError, match="format 7"):
        Run(tmp_path / "R")
    (tmp_path / "R" / "run.json").write_text(kept[:100])
    with pytest.raises(InputError, match="cannot be read"):
        Run(tmp_path / "R")
    (tmp_path / "R" / "run.json").write_text(kept)
    with pytest.raises(InputError, match="no checkpoint of update 3; it has 0, 1, 2, 4"):
        run.machine(3)
    whole = run.latest.read_bytes()
    run.latest.write_bytes(whole[:-10])
    with pytest.raises(InputError, match="truncated"):
        run.machine()
    other = go(tmp_path / "other", hidden=(21,))
    run.latest.write_bytes(other.latest.read_bytes())
    with pytest.raises(InputError, match=r"layers \(16, 21\).* \(16, 20\)"):
        next(Run(tmp_path / "R").go(epochs=9))
    with pytest.raises(InputError, match=r"layers \(16, 21\)"):
        run.machine()
    run.latest.unlink()
    with pytest.raises(InputError, match="no checkpoint yet"):
        run.machine()
    with pytest.warns(LossWarning, match=r"state before the latest, of update 2: there is no checkpoint"):
        next(Run(tmp_path / "R").go())
    run.previous.unlink()
    run.latest.unlink()
    with pytest.raises(InputError, match=r"no state to go on from is left: .* of updates 1, 2, 4 "):
        next(Run(tmp_path / "R").go())
    (tmp_path / "R" / "checkpoints" / "update-old.safetensors").write_bytes(b"")
    assert list(run.checkpoints()) == [0, 1, 2, 4]


@pytest.mark.parametrize(
    "changes",
    [
        {"recipe": None},
        {"recipe": [1]},
        {"recipe": {"dataset": "bars4", "rate": "x"}},
        {"recipe": {"dataset": "bars4", "hidden": 20}},
        {"recipe": {"dataset": "bars4", "metrics": None}},
        {"recipe": {}},
        {"data": None},
    ],
    ids=str,
)
def test_damaged_descriptions(tmp_path, changes):
    go(tmp_path / "R", epochs=1)
    edit(tmp_path / "R" / "run.json", **changes)
    with pytest.raises(InputError):
        Run(tmp_path / "R")


@pytest.mark.parametrize("lost", ["training/rng", "training/alive", "parameter/couplings.patterns"])
def test_a_state_with_a_tensor_missing(tmp_path, lost):
    run = go(tmp_path / "R", epochs=1)
    tensors, header = load_tensors(run.latest)
    del tensors[lost]
    save_file(tensors, run.latest, metadata={"rapidbm": json.dumps(header)})
    with pytest.raises(InputError, match=f"{lost.split('/')[1]}|parameter"):
        next(Run(tmp_path / "R").go(epochs=3))


def test_a_damaged_line_of_metrics_loses_nothing(tmp_path):
    count = iter(range(1000))
    run = go(tmp_path / "R", stop=lambda: next(count) == 20)
    path = tmp_path / "R" / "metrics.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], lines[2][:20], *lines[3:]]) + "\n")
    before = path.read_bytes()
    with pytest.raises(InputError, match="line 3 of"):
        next(Run(tmp_path / "R").go())
    assert path.read_bytes() == before
    assert run.latest.is_file()


def test_changed_data_are_noticed(tmp_path):
    import numpy as np

    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((20, 16)) < 0.5)
    run = Run.create(tmp_path / "R", Recipe.made(str(tmp_path / "x.npy"), {**TINY, "epochs": 2}))
    np.save(tmp_path / "x.npy", np.random.default_rng(1).random((20, 16)) < 0.5)
    with pytest.raises(InputError, match="checksum differs"):
        run.data()
    bits = np.random.default_rng(0).random((20, 16)) < 0.5
    np.savez(tmp_path / "y.npz", train=bits, test=bits[:5])
    run = Run.create(tmp_path / "S", Recipe.made(str(tmp_path / "y.npz"), {**TINY, "epochs": 2}))
    np.savez(tmp_path / "y.npz", train=bits, test=bits[5:10])
    with pytest.raises(InputError, match="checksum differs"):
        run.data()


@pytest.mark.parametrize(
    "machine",
    [rbm(4, 3, 2, biases=True, replicas=2, seed=0), dbm(4, (3, 2), seed=0), bm(4, 2, 2, seed=0)],
    ids=["rbm", "dbm", "bm"],
)
def test_machines_in_files(machine, tmp_path):
    save_machine(machine, tmp_path / "m.safetensors")
    again = load_machine(tmp_path / "m.safetensors")
    assert again.layers == machine.layers
    for (name, a), (_, b) in zip(machine.named_parameters(), again.named_parameters(), strict=True):
        assert torch.equal(a, b), name
    last = machine.replicas - 1
    for i in range(machine.replicas):
        one, alone = load_machine(tmp_path / "m.safetensors", replica=i), machine.replica(i)
        assert all(map(torch.equal, one.parameters(), alone.parameters()))
    for i in (-1, last + 1):
        with pytest.raises(InputError, match=f"has replicas 0 to {last}, there is no replica {i}"):
            load_machine(tmp_path / "m.safetensors", replica=i)
    with pytest.raises(InputError, match="holds no average"):
        load_machine(tmp_path / "m.safetensors", averaged=True)
    with pytest.raises(InputError, match="no checkpoint"):
        load_machine(tmp_path / "other.safetensors")


def test_a_checksum_is_of_all_that_a_file_says_in_any_order():
    tensors, header = {"a": torch.ones(2, 3), "b": torch.zeros(3)}, {"format": 1, "update": 2}
    plain = files._checksum(tensors, header)
    back = (dict(reversed(some.items())) for some in (tensors, header))
    assert files._checksum(*back) == plain
    assert files._checksum(tensors, header | {"sha256": "x"}) == plain
    for other in (
        {"b": torch.ones(3)},
        {"a": torch.ones(3, 2)},
        {"b": torch.zeros(3, dtype=torch.int32)},
        {"c": torch.zeros(3)},
    ):
        assert files._checksum(tensors | other, header) != plain
    assert files._checksum(tensors, header | {"update": 3}) != plain


@pytest.mark.parametrize("kind", ["patterns", "dense"])
def test_parameters_of_one_machine_have_one_type_and_as_many_replicas(tmp_path, kind):
    layers = rbm(3, 2).layers
    name, shape = {
        "patterns": ("couplings.patterns", (2, 4, 5)),
        "dense": ("couplings.weights.0-1", (2, 3, 2)),
    }[kind]
    right = {name: torch.zeros(shape), "biases": torch.zeros(2, 5)}
    files._check_parameters(tmp_path, right, layers, kind)
    files._check_parameters(tmp_path, {name: right[name]}, layers, kind)
    for wrong in (
        {"biases": torch.zeros(2, 5).double()},
        {"biases": torch.zeros(3, 5)},
        {"biases": torch.zeros(2, 4)},
        {"biases": torch.zeros(2, 5, 1)},
        {"biases": torch.zeros(2, 5).half(), name: torch.zeros(shape).half()},
        {name: torch.zeros((0, *shape[1:])), "biases": torch.zeros(0, 5)},
        {"more": torch.zeros(2, 5)},
    ):
        with pytest.raises(InputError, match="which is no parameter of a machine of layers"):
            files._check_parameters(tmp_path, right | wrong, layers, kind)
    with pytest.raises(InputError, match=f"lacks the tensor {name}"):
        files._check_parameters(tmp_path, {"biases": right["biases"]}, layers, kind)


def test_files_of_another_format_are_refused(tmp_path):
    save_file({"x": torch.ones(1)}, tmp_path / "a.safetensors")
    with pytest.raises(InputError, match="format None"):
        load_machine(tmp_path / "a.safetensors")
    save_file({"x": torch.ones(1)}, tmp_path / "b.safetensors", metadata={"rapidbm": '{"format": 99}'})
    with pytest.raises(InputError, match="format 99"):
        load_machine(tmp_path / "b.safetensors")


# -- recipes ------------------------------------------------------------------------------------------


def test_presets_are_recipes():
    assert len(PRESETS) == 10
    for name in (*PRESETS, *OF_TASKS):
        recipe = Recipe.made("bars4", {}, name)
        assert Recipe.from_dict(json.loads(json.dumps(recipe.as_dict()))) == recipe
    assert {preset_for(d, {}) for d in ("bars4", "bas7", "mnist", "digits", "x.npy")} <= set(PRESETS)


@pytest.mark.parametrize(("preset", "hidden"), [("dbm-mnist", (6, 5)), ("bm-mnist", (6,))])
def test_presets_of_deep_and_full_machines_train(tmp_path, preset, hidden):
    """As for MNIST, on fewer pixels by a smaller machine."""
    whole = Recipe.made("mnist-static", {}, preset)
    assert (whole.positive, whole.lifetime, whole.centred) == ("clamped", 1000, True)
    assert whole.patterns * (784 + sum(whole.hidden)) == pytest.approx(396_000, rel=0.01)
    fewer = {"hidden": hidden, "patterns": 3, "particles": 20, "sweeps": 2, "batch_size": 400}
    fewer["rate"] = (0.02,)  # of forty updates
    recipe = Recipe.made("digits", {**fewer, "epochs": 10, "evaluate": "20", "valid": 0.1}, preset)
    assert recipe.deep_start == (0.1 if preset == "dbm-mnist" else 1.0)
    assert (recipe.model, recipe.positive_steps) == (preset.split("-")[0], 10)
    run = Run.create(tmp_path / "R", recipe, preset)
    for _ in run.go():
        pass
    lines = run.metrics()
    assert [line["update"] for line in lines] == [0, 1, 2, 4, 8, 16, 20, 32, 40]  # saved ones too
    first, last = (line["log_bound_valid"][0] for line in (lines[0], lines[-1]))
    assert -64.0 < first < last < 0.0


def test_a_dbm_has_two_layers_where_nobody_says():
    assert Recipe.made("digits", {"model": "dbm"}, "small").hidden == (400, 100)
    assert Recipe.made("digits", {"model": "dbm", "hidden": (7,)}, "small").hidden == (7,)
    assert Recipe.made("digits", {"model": "bm"}, "small").hidden == (500,)
    assert Recipe.made("digits", {"model": "dbm"}, "auto").metrics == ("log_bound",)
    for other in ({"hidden": (9,)}, {"model": "rbm", "hidden": (9,), "positive": "auto"}):
        assert Recipe.made("mnist-static", other, "dbm-mnist").deep_start == 1.0


@pytest.mark.parametrize("method", ["cd", "pcd", "exact"])
def test_the_released_adam_and_the_usual_one(method):
    presets = dense_settings(method, "epoch"), dense_settings(method, "update")
    released, usual = (Recipe.made("bars4", {}, preset) for preset in presets)
    assert released.optimizer_choice() == adam(1e-3, clock="epoch")
    assert usual.optimizer_choice() == adam(1e-3)
    assert replace(released, adam_clock="update") == usual
    assert Recipe.made("bars4", {"optimizer": "sgd"}, presets[0]).adam_clock is None
    assert Recipe.from_dict({"dataset": "bars4", "optimizer": "adam"}).optimizer_choice() == adam()
    for chosen, words in (
        ({"adam_clock": "day"}, "clock"),
        ({"optimizer": "sgd", "adam_clock": "epoch"}, "no clock"),
    ):
        with pytest.raises(InputError, match=words):
            Recipe.made("bars4", chosen, presets[0])


def test_the_papers_settings():
    bars, bas, mnist = (Recipe.made("bars4", {}, f"paper-{n}") for n in ("bars", "bas12", "mnist"))
    assert (bars.hidden, bars.patterns, bars.rate, bars.decay) == ((1000,), 8, (0.02,), 0.96)
    assert (bars.batch_size, bars.epochs, bars.batch_mean) == (3, 300, "nominal")
    assert (bas.hidden, bas.patterns, bas.batch_size) == ((1000,), 40, 120)
    assert (mnist.hidden, mnist.patterns, mnist.sweeps) == ((3000,), 190, 10)
    assert (mnist.batch_size, mnist.epochs, mnist.projection) == (8000, 500, "clip")
    assert (mnist.rate, mnist.decay, mnist.decay_after, mnist.rate_floor) == (
        (0.015,),
        0.99,
        100,
        1e-3,
    )
    for recipe, projection in ((bars, "sign"), (bas, "sign"), (mnist, "clip")):
        assert (recipe.negative, recipe.projection, recipe.biases) == ("pid", projection, False)
    assert (bars.sweeps, bars.rate_floor, mnist.bound) == (None, 1e-5, 1.0)


def test_the_papers_split_is_mnists_alone():
    assert Recipe.made("mnist", {}, "paper-mnist").split == "paper"
    assert Recipe.made("mnist-static", {}, "paper-mnist").split is None
    assert Recipe.made("digits", {}, "paper-mnist").split is None


def test_the_better_recipe():
    recipe = Recipe.made("mnist", {})
    assert (recipe.scale, recipe.biases, recipe.negative, recipe.particles) == (
        0.1,
        True,
        "pcd",
        1000,
    )
    assert (recipe.sweeps, recipe.optimizer, recipe.rate, recipe.fall) == (
        10,
        "adam",
        (1e-3,),
        "linear",
    )
    assert (recipe.hidden, recipe.patterns, recipe.batch_size) == ((3000,), 190, 500)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "rmsprop"])
def test_the_schedule_of_a_recipe_is_that_of_its_training(optimizer):
    chosen = {"decay": 0.5, "decay_after": 2, "rate_floor": 0.02, "rate": (0.1,), "epochs": 7}
    recipe = Recipe.made("bars4", {**TINY, **chosen, "optimizer": optimizer})
    trainer = recipe.trainer(recipe.data(), torch.device("cpu"))
    rates = [trainer.rates(e * trainer.per_epoch) for e in range(7)]
    assert rates == [(r,) for r in (0.1, 0.1, 0.1, 0.05, 0.025, 0.02, 0.02)]
    with pytest.raises(InputError, match="--decay-after"):
        replace(recipe, decay=1.0)


def test_what_a_recipe_leaves_open():
    plain = Recipe("bars4")
    assert (plain.continuous, plain.biases, plain.replicas, plain.seed) == (False, False, 1, 0)
    assert (plain.decay, plain.decay_after, plain.rate_floor) == (1.0, 0, 0.0)
    assert plain.optimizer_choice() == sgd(0.02)
    assert Recipe("bars4", optimizer="adam").optimizer_choice() == adam(1e-3)
    assert Recipe("bars4", optimizer="adamw").optimizer_choice() == TorchOptimizer("AdamW", 1e-3)


@pytest.mark.parametrize(
    ("chosen", "sizes"),
    [
        ({"model": "rbm", "hidden": (5,)}, (16, 5)),
        ({"model": "dbm", "hidden": (5, 4)}, (16, 5, 4)),
        ({"model": "bm", "hidden": (5,)}, (16, 5)),
        ({"model": "bm", "hidden": ()}, (16,)),
    ],
)
def test_a_recipe_builds_its_machine(chosen, sizes):
    drawn = {"replicas": 2, "biases": True, "scale": 0.5, "continuous": True, "seed": 7}
    recipe = Recipe("bars4", **chosen, **drawn, patterns=2)
    made = recipe.machine(recipe.data(), torch.device("cpu"))
    plain = {"rbm": rbm, "dbm": dbm, "bm": bm}[recipe.model]
    hidden = recipe.hidden if recipe.model == "dbm" else (*recipe.hidden, 0)[0]
    wanted = plain(16, hidden, 2, **drawn)
    assert made.layers == wanted.layers
    assert made.layers.sizes == sizes
    assert torch.equal(made.patterns, wanted.patterns)


def test_steps_of_a_positive_phase():
    assert Recipe("bars4", positive="meanfield", positive_steps=7).positive_phase() == MeanField(7)
    assert Recipe("bars4", positive="clamped", positive_steps=7).positive_phase() == ClampedChains(7)
    assert Recipe("bars4").positive_phase() is None


def test_choices_reach_the_training():
    chosen = {"batch_mean": "true", "average": 7, "seed": 5, "batch_size": 6, "epochs": 9}
    recipe = Recipe.made("bars4", {**TINY, **chosen})
    for mean in ("true", "nominal"):
        trainer = replace(recipe, batch_mean=mean).trainer(recipe.data(), torch.device("cpu"))
        assert trainer.batch_mean == mean
    assert (trainer.average.updates, trainer.seed) == (7, 5)
    assert (trainer.batch_size, trainer.epochs) == (6, 9)
    assert trainer.stepper.projection == recipe.projection_choice() == Sign()
    held = replace(recipe, positive="clamped").trainer(recipe.data(), torch.device("cpu"))
    assert held.positive == ClampedChains()


def test_the_precision_of_a_recipe_reaches_its_training():
    recipe = Recipe.made("bars4", {**TINY, "precision": "tf32"})
    with pytest.raises(InputError, match="tf32"):
        recipe.trainer(recipe.data(), torch.device("cpu"))


def test_an_option_that_no_chosen_part_has_is_refused():
    with pytest.raises(
        InputError, match="a recipe has no 'nothing', and no part of it has such an option"
    ):
        Recipe("bars4", options={"nothing": 3})
    with pytest.raises(InputError, match="'exact' has no option --sweeps; it takes none"):
        Recipe("bars4", negative="exact", options={"sweeps": 3})
    assert Recipe("bars4", negative="cd", options={"sweeps": 3}).negative_phase().sweeps == 3
    with pytest.raises(InputError, match="the option --sweeps of cd: it must be a whole number"):
        Recipe("bars4", negative="cd", options={"sweeps": "x"})


def test_options_reach_the_optimiser():
    recipe = Recipe.made("bars4", {"momentum": 0.7, "weight_decay": 0.1, "decay": 0.9})
    choice = recipe.optimizer_choice()
    assert (choice.momentum, choice.weight_decay, choice.schedule.decay) == (0.7, 0.1, 0.9)
    assert Recipe.from_dict({**recipe.as_dict(), "weight_decay": 0.1}) == recipe  # an older file
    two = replace(recipe, replicas=2, weight_decay=(0.1, 0.2))
    assert two.optimizer_choice().weight_decay == (0.1, 0.2)
    with pytest.raises(InputError, match="one weight decay, or one for each of the 3 replicas, not 2"):
        replace(two, replicas=3)
    with pytest.raises(InputError, match="rmsprop takes one weight decay for all replicas"):
        replace(two, optimizer="rmsprop")


def test_a_changed_choice_drops_what_belonged_to_the_old_one():
    recipe = Recipe.made("mnist", {"negative": "cd"}, "mnist")
    assert (recipe.sweeps, recipe.particles) == (None, None)
    recipe = Recipe.made("mnist", {"patterns": None, "negative": "cd"}, "paper-mnist")
    assert (recipe.projection, recipe.bound) == ("none", None)
    recipe = Recipe.made("bars4", {"optimizer": "adam"}, "paper-bars")
    assert (recipe.optimizer_choice().rate, recipe.decay) == (1e-3, 1.0)
    assert Recipe.made("bars4", {"decay": 1.0}, "paper-bars").rate_floor == 0


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"model": "rmb"}, "did you mean 'rbm'"),
        ({"negative": "pdi"}, "did you mean 'pid'"),
        ({"negative": "cd", "particles": 5}, "'cd' has no option --particles; it takes --sweeps"),
        ({"projection": "sgn"}, "did you mean 'sign'"),
        ({"projection": "sign", "bound": 2.0}, "no option --bound"),
        ({"optimizer": "adamm"}, "did you mean 'adam'"),
        ({"optimizer": "adam", "momentum": 0.5}, "no momentum"),
        ({"positive": "mean-field"}, "did you mean 'meanfield'"),
        ({"positive_steps": 3}, "--positive"),
        ({"metrics": ("haming",)}, "did you mean 'hamming'"),
        ({"evaluate": "²"}, "a number of updates"),
        ({"bias_start": "zero"}, "needs biases"),
        ({"decay": 1.0, "rate_floor": 0.1}, "no effect"),
        ({"seed": 2**63}, "below 2"),
        ({"evaluate": "often"}, "log, epoch, end or a number"),
        ({"checkpoints": "0"}, "checkpoint spacing"),
        ({"hidden": (3, 4)}, "one hidden layer"),
        ({"model": "bm", "hidden": (3, 4)}, "at most one group"),
        ({"rate": (0.1, 0.2, 0.3)}, "each of the 1 replicas"),
        ({"rate": (0.1, 0.2), "replicas": 2, "optimizer": "rmsprop"}, "one rate for all"),
        ({"dtype": "float16"}, "known are float32, float64"),
        ({"batch_mean": "nominl"}, "did you mean 'nominal'"),
        ({"fall": "lin"}, "fall of the rate"),
        ({"patterns": None, "continuous": True}, "continuous patterns need patterns"),
        ({"precision": "int8"}, "unknown precision 'int8'"),
        ({"bias_start": "one", "biases": True}, "known are marginals, zero"),
        ({"replicas": 0}, "number of replicas"),
        ({"adam_clock": "epoch"}, "sgd has no clock"),
        ({"optimizer": "adam", "adam_clock": "week"}, "known are epoch, update"),
        ({"decay": 1.0, "decay_after": 3}, "no effect"),
        ({"optimizer": "rmsprop", "projection": "none", "sweeps": -1}, "at least 0"),
    ],
)
def test_bad_recipes(chosen, words):
    with pytest.raises(InputError, match=words):
        Recipe.made("bars4", chosen)


def test_unknown_fields_and_presets():
    with pytest.raises(InputError, match="did you mean 'paper-bars'"):
        Recipe.made("bars4", {}, "paper-bar")
    with pytest.raises(InputError, match="no 'colour'"):
        Recipe.from_dict({"dataset": "bars4", "colour": 1})


@pytest.mark.filterwarnings("ignore::rapidbm.FitWarning")
def test_between_looks_nobody_asks_which_replicas_have_diverged(tmp_path):
    chosen = {"hidden": (4,), "patterns": None, "negative": "cd", "optimizer": "sgd", "rate": (1e6,)}
    chosen |= {"weight_decay": 1e34, "decay": 1.0, "batch_size": 3, "epochs": 1}
    chosen |= {"evaluate": "end", "metrics": ()}
    run = Run.create(tmp_path / "run", Recipe.made("bars4", chosen))
    steps = list(run.go())
    assert [step.update for step in steps] == [0, 1, 2, 3, 4]
    assert [step.diverged for step in steps] == [(), (), (), (), (0,)]
