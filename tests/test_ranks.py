"""Several processes: two ranks train as one with two shards does, and one that is lost loses nothing."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import rapidbm as rb
import together
from rapidbm.accel.ranks import Ranks, here, in_ranks, launched
from rapidbm.machines.files import load_tensors
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run

HERE = Path(__file__).parent
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
FEW = 60.0  # seconds that anything here may take before it counts as hung


def free_port() -> int:
    with socket.socket() as here:
        here.bind(("127.0.0.1", 0))
        return here.getsockname()[1]


def ranks_by_hand(words: list[str], folder: Path, world: int = 2) -> list[subprocess.Popen]:
    """Processes without a launcher that could start them again."""
    there = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    return [
        subprocess.Popen(
            [sys.executable, "-m", "rapidbm", *words],
            env={**ENV, **there, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]


def appears(path: Path) -> None:
    deadline = time.monotonic() + FEW
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.01)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """What two ranks found, and what one process does."""
    folder = tmp_path_factory.mktemp("together")
    path = folder / "two.safetensors"
    port = ["--master-port", str(free_port())]
    command = [*TORCHRUN, *port, str(HERE / "together.py"), str(path)]
    done = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=5 * FEW, check=False)
    assert done.returncode == 0, done.stderr
    together.main(str(folder / "one.safetensors"))
    return load_file(path), load_file(folder / "one.safetensors")


@pytest.mark.parametrize("name", together.trainings())
def test_two_ranks_train_to_the_parameters_of_one_process(both, name):
    """Bar: 10⁻¹⁰ in float64 after 100 updates. Two terms add to the same in either order, so it is 0; of
    three shards the ranks add two first, and the last digits differ."""
    two, one = ({k: v for k, v in x.items() if k.startswith(f"{name}/")} for x in both)
    assert two.keys() == one.keys()
    assert int(two[f"{name}/training/update"]) == together.UPDATES
    tolerance = 1e-10 if name == "three shards" else 0.0
    for key, value in two.items():
        assert torch.allclose(value.double(), one[key].double(), rtol=0, atol=tolerance), key
    start = together.training(together.trainings()[name])
    for key, parameter in start.machine.named_parameters():
        assert not torch.allclose(two[f"{name}/parameter/{key}"], parameter.data, atol=1e-4), key
    assert int(both[1][f"sent/{name}"]) == 0


def test_an_annealed_likelihood_is_that_of_one_process(both):
    two, one = (x["log_z"] for x in both)
    assert torch.equal(two, one)
    value, lower, upper = two
    exact = rb.log_z(
        rb.rbm(12, 9, 3, scale=0.4, biases=True, seed=2, replicas=2, dtype=torch.float64), method="exact"
    ).value
    assert bool(((lower <= exact) & (exact <= upper)).all())
    assert bool(((value - exact).abs() < 0.5).all())


def numbers_summed(name: str) -> int:
    """What the page about scaling derives: numbers that each rank gives into sums, in all updates."""
    e, v, h, k = together.REPLICAS, together.V, together.H, together.K
    settings, updates = together.trainings()[name], together.UPDATES
    rows = [min(together.BATCH, 50 - start) for _ in range(34) for start in range(0, 50, together.BATCH)]
    rows, units = rows[:updates], v + h
    if settings.get("shard_by") != "units":  # the gradient, and where it is centred means of hidden units
        couplings = v * h if settings["patterns"] is None else k * units
        return updates * e * (couplings + units + (h if settings.get("centred") else 0))
    sweeps, chains = settings["sweeps"], {"pcd": together.CHAINS, "pid": k}.get(settings["negative"])
    total = sum(3 * b + (2 * sweeps + 3) * (chains or b) for b in rows) * e * k
    projected = {"sign": updates // 3, "gibbs": updates}.get(settings.get("projection", ""), 0)
    if settings.get("projection") == "gibbs":
        total += 2 * projected * e * k * k
    return total + 2 * e * (updates + projected)  # sizes of patterns and biases, which must stay finite


@pytest.mark.parametrize(
    "name", [n for n in together.trainings() if n.split(",")[0] in together.NEGATIVE]
)
def test_the_traffic_is_what_the_formulas_say(both, name):
    assert int(both[0][f"sent/{name}"]) == 8 * numbers_summed(name)


def test_replicas_send_nothing(both):
    assert int(both[0]["sent/replicas"]) == 0


# -- faults -------------------------------------------------------------------------------------------

SETTINGS = {"hidden": (200,), "patterns": 24, "negative": "pcd", "particles": 50, "epochs": 60}
SETTINGS |= {"metrics": (), "device": "cpu"}
WORDS = [
    "train",
    "digits",
    "--preset",
    "small",
    "--hidden",
    "200",
    "--patterns",
    "24",
    "--negative",
    "pcd",
]
WORDS += ["--particles", "50", "--epochs", "60", "--device", "cpu", "--metric", "hamming"]
WORDS += ["--evaluate-at", "end"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The run of one process in two shards."""
    recipe = Recipe.made("digits", {**SETTINGS, "shards": 2}, "small")
    run = Run.create(tmp_path_factory.mktemp("undisturbed") / "run", recipe, "small")
    for _ in run.go():
        pass
    return load_tensors(run.latest)[0]


def same_end(folder: Path, undisturbed: dict[str, torch.Tensor]) -> None:
    found, header = load_tensors(folder / "checkpoints" / "latest.safetensors")
    assert header["update"] == 60 * 15
    assert {k: v.tolist() for k, v in found.items()} == {k: v.tolist() for k, v in undisturbed.items()}


def children(process: int) -> list[int]:
    found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(word) for word in found if b"rapidbm" in Path(f"/proc/{word}/cmdline").read_bytes()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to find the ranks")
def test_a_rank_that_is_killed_is_started_again_and_nothing_is_lost(tmp_path, undisturbed):
    """At a random moment, a random rank; the end is that of a run that nobody disturbed, to the bit."""
    out = tmp_path / "run"
    launcher = [*TORCHRUN, "--max-restarts", "2", "--master-port", str(free_port()), "-m", "rapidbm"]
    process = subprocess.Popen(
        [*launcher, *WORDS, "--out", str(out)],
        env=ENV,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        appears(out / "checkpoints" / "update-00000032.safetensors")
        moment, rank = random.random(), random.randrange(2)
        time.sleep(moment)
        os.kill(children(process.pid)[rank], signal.SIGKILL)
        said, errors = process.communicate(timeout=2 * FEW)
    finally:
        process.kill()
    assert process.returncode == 0, (moment, rank, said, errors)
    assert said.count("60 epochs") == 2, (moment, rank, said)  # begun, and gone on with
    assert "finished" in said
    same_end(out, undisturbed)


def test_an_interrupted_run_is_saved_and_gone_on_with_by_one_process(tmp_path, undisturbed):
    """Ctrl-C to the first rank ends both, with the code of a lone process."""
    out = tmp_path / "run"
    ranks = ranks_by_hand([*WORDS, "--out", str(out)], tmp_path)
    appears(out / "checkpoints" / "update-00000032.safetensors")
    ranks[0].send_signal(signal.SIGINT)
    (said, _), (other, errors) = (rank.communicate(timeout=FEW) for rank in ranks)
    assert [rank.returncode for rank in ranks] == [130, 130], (said, errors)
    assert "everything is saved" in said
    assert other == ""
    for _ in Run(out).go():
        pass
    same_end(out, undisturbed)


def test_a_rank_that_is_lost_ends_the_others_with_a_message(tmp_path):
    ranks = ranks_by_hand([*WORDS, "--out", "run"], tmp_path)
    appears(tmp_path / "run" / "checkpoints" / "update-00000016.safetensors")
    ranks[1].kill()
    _, errors = ranks[0].communicate(timeout=FEW)
    ranks[1].communicate()
    assert ranks[0].returncode == 3
    assert errors.count("another rank was lost") == 1, errors
    assert "--resume" in errors
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "interrupted"


def test_bad_input_comes_out_once(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()  # which the first rank alone finds
    ranks = ranks_by_hand([*WORDS, "--out", "full"], tmp_path)
    (_, first), (_, second) = (rank.communicate(timeout=FEW) for rank in ranks)
    assert "exists and is not empty" in first + second
    assert (first + second).count("error:") == 1
    assert [rank.returncode for rank in ranks] == [2, 2]


def test_a_process_without_a_launcher_is_alone(monkeypatch):
    assert not launched()
    with in_ranks() as ranks:
        assert ranks is here()
        assert type(ranks) is Ranks
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "1")
    assert not launched()  # the only one of its world
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert launched()
