"""Trainings that go back to where their likelihood was best."""

import dataclasses
import math

import pytest
import torch

import rapidbm as rb
from rapidbm.cli.main import main
from rapidbm.runs import run as running
from rapidbm.runs.guard import MOST, SLOWER, Guard
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run

SETTINGS = {
    "hidden": (12,),
    "patterns": None,
    "negative": "pcd",
    "particles": 20,
    "biases": True,
    "optimizer": "adam",
    "batch_size": 10,
    "evaluate": "epoch",
    "metrics": ("log_likelihood",),
    "device": "cpu",
    "seed": 1,
}


def record(*looks):
    """A line of metrics of replicas with these values and errors."""
    values, errors = zip(*looks, strict=True)
    return {"log_likelihood_train": list(values), "log_likelihood_error_train": list(errors)}


def judged(*lines):
    guard = Guard("log_likelihood")
    return [guard.judge(record(*line)) for line in lines]


def test_a_replica_is_lost_where_it_falls_by_more_than_errors_and_a_margin():
    first, best = [(-200.0, 0.1)], [(-100.0, 0.1)]
    margin = 0.05 * 100  # of what was gained
    least = -100 - 0.2 - margin - 0.2
    assert judged(first, best, [(least + 0.01, 0.1)])[2] == ([], [])
    assert judged(first, best, [(least - 0.01, 0.1)])[2] == ([], [0])
    assert judged(first, best, [(least - 10, 6.0)])[2] == ([], [])  # it may be as good
    assert judged(first, [(-100.0, 50.0)], [(-103.0, 0.1)])[2] == ([0], [])  # known better


def test_a_look_that_could_not_tell_moves_nothing():
    looks = judged([(-9.0, 0.1)], [(None, None)], [(None, 0.1)], [(-10.0, 0.1)])
    assert looks == [([0], []), ([], []), ([], []), ([], [0])]
    assert Guard("log_likelihood").judge({"hamming_train": [0.1]}) == ([], [])


def test_replicas_are_judged_one_by_one():
    looks = judged([(-9.0, 0.0), (-9.0, 0.0)], [(-8.0, 0.0), (-12.0, 0.0)])
    assert looks == [([0, 1], []), ([0], [1])]


def trained(folder, monkeypatch, rate=0.01, epochs=12, stop=None, fall=(), **more):
    """A training whose looks at these updates show a likelihood 50 nats lower."""
    look = running.LikelihoodMonitor.look

    def seen(self, progress, machine, data, **how):
        values = look(self, progress, machine, data, **how)
        for update, replica in fall:
            if progress.update == update and values:
                values["log_likelihood_train"][replica] -= 50.0
        return values

    monkeypatch.setattr(running.LikelihoodMonitor, "look", seen)
    recipe = Recipe.made("bars4", {**SETTINGS, "rate": (rate,), "epochs": epochs, **more}, "small")
    run = Run.create(folder, recipe) if stop is None or not folder.exists() else Run(folder)
    steps = []
    for step in run.go():
        steps.append(step)
        if stop is not None and step.update >= stop:
            break
    return run, steps


def parameters(run):
    return {name: p.data.clone() for name, p in run.machine().named_parameters()}


def test_a_training_goes_back_at_half_the_rate_and_says_so(tmp_path, monkeypatch):
    run, steps = trained(tmp_path / "run", monkeypatch, fall=[(6, 0)])
    told = [step.back for step in steps if step.back]
    assert len(told) == 1
    assert "after update 6: the likelihood fell; went back to where it was best" in told[0]
    assert run.info["went_back"] == [{"update": 6, "replicas": [0]}]
    rates = [step.progress.trainer.rates(8)[0] for step in (steps[0], steps[-1])]
    assert rates[0] == rates[1]  # one trainer, asked at the end
    assert steps[-1].progress.trainer.damping == (SLOWER,)
    assert run.info["status"] == "finished"


def test_what_it_goes_back_to_is_the_state_of_the_best_look(tmp_path, monkeypatch):
    seen = {}

    def spying(self, trainer, step, seconds, guarded=Run._guarded):
        before = trainer.machine.biases.detach().clone()
        after = guarded(self, trainer, step, seconds)
        seen[step.update] = before, trainer.machine.biases.detach().clone()
        return after

    monkeypatch.setattr(Run, "_guarded", spying)
    run, _ = trained(tmp_path / "run", monkeypatch, fall=[(6, 0)])
    lines = {x["update"]: x for x in run.metrics()}
    ends = {
        u: x["log_likelihood_train"][0] - 2 * x["log_likelihood_error_train"][0]
        for u, x in lines.items()
        if u < 6
    }
    best = max(ends, key=ends.get)
    assert torch.equal(seen[6][1], seen[best][0])
    assert not torch.equal(seen[6][1], seen[6][0])


def test_one_replica_goes_back_and_the_others_go_on(tmp_path, monkeypatch):
    plain, _ = trained(tmp_path / "plain", monkeypatch, replicas=2)
    run, steps = trained(tmp_path / "run", monkeypatch, replicas=2, fall=[(6, 1)])
    assert "of replica 1 fell" in "".join(step.back for step in steps)
    assert steps[-1].progress.trainer.damping == (1.0, SLOWER)
    for name, value in parameters(plain).items():
        # Adam with a rate for each replica rounds otherwise than with one for all.
        assert torch.allclose(value[0], parameters(run)[name][0], atol=1e-5)
        assert not torch.allclose(value[1], parameters(run)[name][1], atol=1e-5)


@pytest.mark.parametrize("stop", [3, 6, 8])
def test_resumed_it_comes_to_the_same_bits(tmp_path, monkeypatch, stop):
    whole, _ = trained(tmp_path / "whole", monkeypatch, fall=[(6, 0)])
    trained(tmp_path / "cut", monkeypatch, fall=[(6, 0)], stop=stop)
    cut, _ = trained(tmp_path / "cut", monkeypatch, fall=[(6, 0)], stop=math.inf)
    assert cut.info["went_back"] == whole.info["went_back"]
    for name, value in parameters(whole).items():
        assert torch.equal(value, parameters(cut)[name])


def test_it_goes_back_a_few_times_at_most(tmp_path, monkeypatch):
    every = [(u, 0) for u in range(2, 2 + 2 * (MOST + 2))]
    run, steps = trained(tmp_path / "run", monkeypatch, fall=every, epochs=2 * (MOST + 2) + 2)
    assert len(run.info["went_back"]) == MOST
    assert steps[-1].progress.trainer.damping == (SLOWER**MOST,)


def test_a_rate_that_loses_a_machine_is_lowered(tmp_path, monkeypatch):
    """Adam at a rate at which the chains do not follow; without the guard it ends far below."""
    run, _ = trained(tmp_path / "run", monkeypatch, rate=1.0, epochs=60)
    guarded = float(rb.log_likelihood(run.machine(), run.own_data().train).value)
    monkeypatch.setattr(Run, "_guarded", lambda self, trainer, step, seconds: step)
    run, _ = trained(tmp_path / "lost", monkeypatch, rate=1.0, epochs=60)
    lost = float(rb.log_likelihood(run.machine(), run.own_data().train).value)
    assert guarded > lost + 5.0


def test_the_command_says_where_it_went_back(tmp_path, monkeypatch, capsys):
    guarded = Run._guarded

    def told(self, trainer, step, seconds):
        step = guarded(self, trainer, step, seconds)
        return dataclasses.replace(step, back="after update 4: went back") if step.update == 4 else step

    monkeypatch.setattr(Run, "_guarded", told)
    monkeypatch.chdir(tmp_path)
    words = "train bars4 --preset small --hidden 5 --dense --epochs 4 --batch-size 5 --out R"
    monkeypatch.setattr("sys.argv", ["rapidbm", *words.split(), "--metric", "log_likelihood"])
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    assert "after update 4: went back" in capsys.readouterr().err
