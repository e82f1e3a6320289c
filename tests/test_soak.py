"""Kills at random moments: every training goes on, and ends where an undisturbed one does."""

import importlib
import random
import sys
from pathlib import Path

import pytest
import torch


@pytest.fixture(scope="module")
def soak():
    sys.path.insert(0, str(Path(__file__).parents[1]))
    yield importlib.import_module("rapidbm_bench.soak")
    sys.path.pop(0)


@pytest.mark.parametrize("kills", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_kills(soak, kills, tmp_path):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # others would not survive a fork
    try:
        known = list(soak.trainings(tmp_path, ["pid", "pcd"], ["memory", "spins"]))
        over = lambda soaked: soaked.hits >= kills  # noqa: E731
        found = soak.soak(known, tmp_path, random.Random(7), over)
    finally:
        torch.set_num_threads(threads)
    assert not found.wrong
    assert found.hits >= kills
    assert sum(found.finished.values()) >= 1


def test_what_differs_is_told(soak, tmp_path):
    (one,) = soak.trainings(tmp_path, ["pid"], ["memory"])
    assert not soak.differences(one.whole, one.whole)
    other = tmp_path / "other"
    words = [*one.words]
    words[words.index("--seed") + 1] = "4"
    assert soak.waited(soak.forked((*words, "--out", str(other))), None)[0] == 0
    found = soak.differences(other, one.whole)
    assert "latest.safetensors: parameter/couplings.patterns" in found
    assert "evaluations" in found
