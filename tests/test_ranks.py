"""Several processes: two ranks train as one with two shards does, and one that is lost loses nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed import TCPStore

import rapidbm as rb
import two_ranks
from forked import LONG, Forked
from rapidbm.__main__ import main as command
from rapidbm.accel.ranks import Ranks, current_ranks, in_ranks, launched
from rapidbm.cli.main import main
from rapidbm.machines.files import load_tensors
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run
from rapidbm.training.trainer import Trainer

HERE = Path(__file__).parent
WORLD = 2


def ranks(call, folder: Path, store: TCPStore, attempt: int = 0, restarts: int = 0) -> list[Forked]:
    """Two processes that call a function of their rank, as torchrun starts them: it keeps the store where
    they meet, so that no port is free at one moment and taken at the next."""
    there = {"WORLD_SIZE": str(WORLD), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    there |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": str(attempt)}
    there |= {"TORCHELASTIC_MAX_RESTARTS": str(restarts)}
    return [
        Forked(
            partial(call, rank),
            folder,
            f"{attempt}.{rank}",
            {**there, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(WORLD)
    ]


@pytest.fixture
def store():
    return TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


def torchrun(words: list[str], restarts: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(WORLD)]
    return subprocess.run(
        [sys.executable, *launcher, "--max-restarts", str(restarts), *words],
        env={**os.environ, "OMP_NUM_THREADS": "1", **env},
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """What two ranks found, and what one process does."""
    folder = tmp_path_factory.mktemp("together")
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    two = ranks(lambda rank: two_ranks.main("two.safetensors"), folder, store)
    assert [rank.wait() for rank in two] == [0, 0], [rank.errors for rank in two]
    two_ranks.main(str(folder / "one.safetensors"))
    return load_file(folder / "two.safetensors"), load_file(folder / "one.safetensors")


def same_parameters(two, one, name: str, updates: int) -> None:
    """Two terms add to the same in either order, so that the bits are the same; of three shards the ranks
    add two first, and the last digits differ."""
    two, one = ({k: v for k, v in x.items() if k.startswith(f"{name}/")} for x in (two, one))
    assert two.keys() == one.keys()
    assert int(two[f"{name}/training/update"]) == updates
    tolerance = 1e-10 if name == "three shards" else 0.0
    for key, value in two.items():
        assert torch.allclose(value.double(), one[key].double(), rtol=0, atol=tolerance), key


@pytest.mark.parametrize("name", two_ranks.trainings())
def test_two_ranks_train_to_the_parameters_of_one_process(both, name):
    two, one = both
    same_parameters(two, one, name, two_ranks.UPDATES)
    start = two_ranks.training(two_ranks.trainings()[name])
    for key, parameter in start.machine.named_parameters():
        assert not torch.allclose(two[f"{name}/parameter/{key}"], parameter.data, atol=1e-4), key
    assert int(one[f"sent/{name}"]) == 0


@pytest.mark.slow
def test_ranks_of_torchrun_after_100_updates(tmp_path):
    """Bar: 10⁻¹⁰ in float64."""
    done = torchrun([str(HERE / "two_ranks.py"), str(tmp_path / "two.safetensors"), "100"])
    assert done.returncode == 0, done.stderr
    two_ranks.main(str(tmp_path / "one.safetensors"), 100)
    two, one = (load_file(tmp_path / f"{count}.safetensors") for count in ("two", "one"))
    for name in two_ranks.trainings():
        same_parameters(two, one, name, 100)


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
    e, v, h, k = two_ranks.REPLICAS, two_ranks.V, two_ranks.H, two_ranks.K
    settings, updates = two_ranks.trainings()[name], two_ranks.UPDATES
    rows = [
        min(two_ranks.BATCH, 50 - start) for _ in range(34) for start in range(0, 50, two_ranks.BATCH)
    ]
    rows, units = rows[:updates], v + h
    if settings.get("shard_by") != "units":  # the gradient, and where it is centred means of hidden units
        couplings = v * h if settings["patterns"] is None else k * units
        return updates * e * (couplings + units + (h if settings.get("centred") else 0))
    sweeps, chains = settings["sweeps"], {"pcd": two_ranks.CHAINS, "pid": k}.get(settings["negative"])
    total = sum(3 * b + (2 * sweeps + 3) * (chains or b) for b in rows) * e * k
    projected = {"sign": updates // 3, "gibbs": updates}.get(settings.get("projection", ""), 0)
    if settings.get("projection") == "gibbs":
        total += 2 * projected * e * k * k
    return total + 2 * e * (updates + projected)  # sizes of patterns and biases, which must stay finite


@pytest.mark.parametrize(
    "name", [n for n in two_ranks.trainings() if n.split(",")[0] in two_ranks.NEGATIVE]
)
def test_the_traffic_is_what_the_formulas_say(both, name):
    assert int(both[0][f"sent/{name}"]) == 8 * numbers_summed(name)


def test_replicas_send_nothing(both):
    assert int(both[0]["sent/replicas"]) == 0


# -- faults -------------------------------------------------------------------------------------------

SETTINGS = {"hidden": (20,), "patterns": 4, "negative": "pcd", "particles": 10, "epochs": 3}
SETTINGS |= {"metrics": ("hamming",), "evaluate": "end", "device": "cpu"}
WORDS = ["train", "digits", "--preset", "small", "--hidden", "20", "--patterns", "4", "--negative", "pcd"]
WORDS += ["--particles", "10", "--epochs", "3", "--device", "cpu", "--metric", "hamming"]
WORDS += ["--evaluate-at", "end", "--out", "run"]
UPDATES, MOMENT = 3 * 15, 37


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
    assert header["update"] == UPDATES
    assert {k: v.tolist() for k, v in found.items()} == {k: v.tolist() for k, v in undisturbed.items()}


def trains(rank: int, number: signal.Signals | None = None, who: int = 0, words=WORDS) -> None:
    """The command; before its update MOMENT one rank gets a signal."""
    if number is not None and rank == who:
        step = Trainer.step

        def signalled(trainer: Trainer, count: int = 1) -> None:
            if trainer.update <= MOMENT < trainer.update + count:
                os.kill(os.getpid(), number)
            step(trainer, count)

        Trainer.step = signalled
    sys.argv = ["rapidbm", *words]
    main()


@pytest.mark.parametrize("lost", range(WORLD))
def test_a_rank_that_is_lost_ends_the_other_and_a_restart_loses_nothing(
    tmp_path, undisturbed, store, lost
):
    """The ranks that are started again go on from what was saved, and end at the same bits."""
    first = ranks(partial(trains, number=signal.SIGKILL, who=lost), tmp_path, store, restarts=1)
    codes = [rank.wait() for rank in first]
    assert codes[lost] == -signal.SIGKILL
    assert codes[1 - lost] == 3, first[1 - lost].errors
    errors = first[1 - lost].errors
    assert errors.count("another rank was lost") == 1, errors
    assert "all of them are started again" in errors
    saved = load_tensors(tmp_path / "run" / "checkpoints" / "latest.safetensors")[1]["update"]
    assert 0 < saved <= MOMENT
    kept = (tmp_path / "run" / "checkpoints" / "update-00000016.safetensors").stat()
    again = ranks(trains, tmp_path, store, attempt=1, restarts=1)
    assert [rank.wait() for rank in again] == [0, 0], [rank.errors for rank in again]
    assert (tmp_path / "run" / "checkpoints" / "update-00000016.safetensors").stat() == kept
    assert "finished" in again[0].said
    assert again[1].said == ""
    same_end(tmp_path / "run", undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("lost", range(WORLD))
def test_torchrun_starts_a_lost_rank_again(tmp_path, undisturbed, lost):
    code = (
        "import os, signal, test_ranks; rank = int(os.environ['RANK']); "
        "again = os.environ['TORCHELASTIC_RESTART_COUNT'] != '0'; "
        f"test_ranks.trains(rank, None if again else signal.SIGKILL, {lost}, "
        f"[*test_ranks.WORDS[:-1], {str(tmp_path / 'run')!r}])"
    )
    (tmp_path / "rank.py").write_text(code)
    done = torchrun([str(tmp_path / "rank.py")], restarts=2, PYTHONPATH=os.pathsep.join(sys.path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("3 epochs") == 2, done.stdout  # begun, and gone on with
    assert "finished" in done.stdout
    same_end(tmp_path / "run", undisturbed)


def test_an_interrupted_run_is_saved_and_gone_on_with_by_one_process(tmp_path, undisturbed, store):
    """Ctrl-C to the first rank ends both, with the code of a lone process."""
    both = ranks(partial(trains, number=signal.SIGINT), tmp_path, store)
    assert [rank.wait() for rank in both] == [130, 130], [rank.errors for rank in both]
    assert "everything is saved" in both[0].said
    assert both[1].said == ""
    for _ in Run(tmp_path / "run").go():
        pass
    same_end(tmp_path / "run", undisturbed)


def stopped(rank: int, times: int) -> None:
    """The command as a process has it; every rank gets so many signals before its update MOMENT."""
    step = Trainer.step

    def signalled(trainer: Trainer, count: int = 1) -> None:
        if trainer.update <= MOMENT < trainer.update + count:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGTERM)
        step(trainer, count)

    Trainer.step = signalled
    sys.argv = ["rapidbm", *WORDS]
    command()


@pytest.mark.parametrize("times", [1, 2])
def test_a_signal_to_all_ranks_ends_them_with_its_code(tmp_path, undisturbed, store, times):
    """As torchrun sends it. A second one ends each at once."""
    both = ranks(partial(stopped, times=times), tmp_path, store)
    assert [rank.wait() for rank in both] == [143, 143], [rank.errors for rank in both]
    words = both[0].said if times == 1 else both[0].errors
    assert "Go on with: rapidbm train --resume --out run" in words
    assert both[1].said == ""
    assert not any("Traceback" in rank.errors for rank in both)
    for _ in Run(tmp_path / "run").go():
        pass
    same_end(tmp_path / "run", undisturbed)


def test_without_restarts_a_lost_rank_leaves_a_run_to_go_on_with(tmp_path, store):
    both = ranks(partial(trains, number=signal.SIGKILL, who=1), tmp_path, store)
    assert [rank.wait() for rank in both] == [3, -signal.SIGKILL]
    assert both[0].errors.count("another rank was lost") == 1, both[0].errors
    assert "--resume" in both[0].errors
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "interrupted"


def test_bad_input_comes_out_once(tmp_path, store):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "file").touch()  # which the first rank alone finds
    both = ranks(trains, tmp_path, store)
    assert [rank.wait() for rank in both] == [2, 2]
    errors = "".join(rank.errors for rank in both)
    assert "exists and is not empty" in errors
    assert errors.count("error:") == 1


def test_a_process_without_a_launcher_is_alone(monkeypatch):
    assert not launched()
    with in_ranks() as ranks:
        assert ranks is current_ranks()
        assert type(ranks) is Ranks
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "1")
    assert not launched()  # the only one of its world
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert launched()
