"""Two ranks of one thread each beside one process of two, and what it costs to sum over ranks.

The processes wait for their turn: a round has each of them make the same updates, and the fastest of some
rounds counts. `--out FILE` keeps what was measured, for `python -m benchmarks scaling`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .running import option_parser, write

Result = dict[str, Any]
ROUNDS = 30
SECONDS = 0.2  # of a round, about: short ones find a moment when nothing else runs
SUMS = tuple(10**i for i in range(1, 8))  # numbers that are summed
MOVED = 10**7  # parameters that a step of Adam moves
MACHINES = ((784, 3000, 190), (10_000, 5_000, 100))  # V, H, K: gradients of ξ and of J
LARGE = {"hidden": (3000,), "batch_size": 1000, "particles": 1000, "sweeps": 1, "metrics": ()}
CASES: dict[str, Result] = {
    "pcd, K=200": {**LARGE, "negative": "pcd", "patterns": 200},
    "pcd, dense": {**LARGE, "negative": "pcd", "patterns": None, "hidden": (1000,)},
    "cd, K=200": {**LARGE, "negative": "cd", "patterns": 200, "particles": None},
    "pid, K=200": {**LARGE, "negative": "pid", "patterns": 200, "particles": None, "sweeps": 0},
    "pcd, K=200, units": {**LARGE, "negative": "pcd", "patterns": 200, "shard_by": "units"},
}


class Team:
    """Processes that do what they are asked, together; they sleep in between."""

    def __init__(self, world: int, threads: int) -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        there = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        there |= {"OMP_NUM_THREADS": str(threads), "GOMP_SPINCOUNT": "20000", "RAPIDBM_PROGRESS": "off"}
        self.ranks = [
            subprocess.Popen(
                [sys.executable, "-m", "rapidbm_bench.ranks"],
                env={**os.environ, **there, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(world)
        ]

    def ask(self, **words: Any) -> Result:
        """What the first one answers."""
        first = self.ranks[0]
        assert first.stdin is not None
        assert first.stdout is not None
        first.stdin.write(json.dumps(words) + "\n")
        first.stdin.flush()
        answer = first.stdout.readline()
        if not answer:
            raise RuntimeError(f"a process ended: {[rank.poll() for rank in self.ranks]}")
        found: Result = json.loads(answer)
        return found

    def close(self) -> None:
        for rank in self.ranks:
            rank.kill()
            rank.wait()


@contextmanager
def teams(*shapes: tuple[int, int]) -> Iterator[list[Team]]:
    made = [Team(*shape) for shape in shapes]
    try:
        yield made
    finally:
        for team in made:
            team.close()


def run(words: Sequence[str] = ()) -> Result:
    parser = option_parser(__name__, __doc__)
    parser.add_argument("--cases", default="all", help=f"{'; '.join(CASES)}, or sums alone")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(words)
    chosen = list(CASES) if given.cases == "all" else [name for name in CASES if name in given.cases]
    found: Result = {}
    began = time.monotonic()
    with teams((2, 1)) as (both,):
        both.ask(do="sum", numbers=1)
        start = time.monotonic() - began
    with teams((2, 1), (1, 2), (1, 1)) as (two, threads, one):
        for name in chosen:
            found[name] = compared(two, threads, one, CASES[name], given.rounds)
        sums = {n: two.ask(do="sum", numbers=n)["seconds"] for n in SUMS}
        moved = one.ask(do="move", numbers=MOVED)["seconds"]
        spread = one.ask(do="spread", case={**CASES["pcd, K=200"], "shards": 1})["spread"]
        for v, h, k in MACHINES:
            shared, dense = (two.ask(do="sum", numbers=n)["seconds"] for n in (k * (v + h), v * h))
            found[f"{v}×{h}, K={k}"] = {
                "sum of K(V+H), ms": 1e3 * shared,
                "sum of VH, ms": 1e3 * dense,
                "times shorter": dense / shared,
                "numbers": v * h / (k * (v + h)),
            }
    found["sums over loopback"] = {f"10^{len(str(n)) - 1}, ms": 1e3 * t for n, t in sums.items()}
    if given.out is not None:
        told: Result = {"cases": found, "sums": sums, "processor": _processor()}
        told |= {"moved a second": MOVED / moved, "spread": spread, "start": start}
        write(given.out, told)
    return found


def _processor() -> str:
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    return next((x.partition(": ")[2] for x in lines if x.startswith("model name")), "unknown")


def compared(two: Team, threads: Team, one: Team, case: Mapping[str, Any], rounds: int) -> Result:
    """Seconds of an update, the least of some rounds that alternate."""
    every = (two, threads, one)
    first = [team.ask(do="begin", case={**case, "shards": 2}) for team in every]
    updates = max(1, int(SECONDS / max(x["seconds"] for x in first)))
    times: list[list[float]] = [[] for _ in every]
    for _ in range(rounds):
        for team, mine in zip(every, times, strict=True):
            mine.append(team.ask(do="updates", count=updates)["seconds"])
    ranks, both, alone = map(min, times)
    return {
        "2 ranks, ms": 1e3 * ranks,
        "2 threads, ms": 1e3 * both,
        "ranks over threads": both / ranks,
        "1 thread, ms": 1e3 * alone,
        "MB summed": two.ask(do="sent")["bytes"] / 1e6,
    }


# -- in each process ----------------------------------------------------------------------------------


def work() -> None:
    import torch

    from rapidbm.accel.ranks import Ranks, in_ranks
    from rapidbm.data.splits import Dataset, Split
    from rapidbm.random import stream
    from rapidbm.runs.recipe import Recipe
    from rapidbm.training.optimisers import adam

    trainer: Any = None

    def done(ranks: Ranks, words: Result) -> Result:
        nonlocal trainer
        if words["do"] == "begin":
            rows = torch.randint(2, (8000, 784), generator=stream(0), dtype=torch.int8).mul_(2).sub_(1)
            data = Dataset("rows", Split(rows), Split(rows[:10]), (28, 28))
            case = {k: tuple(v) if isinstance(v, list) else v for k, v in words["case"].items()}
            case = {k: v for k, v in case.items() if v is not None or k == "patterns"}
            chosen = {"epochs": 10**6, "device": "cpu", "optimizer": "adam", "rate": (1e-4,), **case}
            if ranks.world == 1 and "shard_by" not in chosen:
                chosen["shards"] = 1  # as a process alone would train
            recipe = Recipe.made("digits", {"projection": "none", "biases": False, **chosen}, "small")
            trainer = recipe.trainer(data, torch.device("cpu"), ranks)
            trainer.step()
            words = {"do": "updates", "count": 2}
        if words["do"] == "spread":
            done(ranks, {"do": "begin", "case": words["case"]})
            single = []
            for _ in range(40):
                began = time.process_time()  # of this process, whatever else runs
                trainer.step()
                single.append(time.process_time() - began)
            return {"spread": float(torch.tensor(single).log().std())}
        if words["do"] == "move":
            values = {"x": torch.nn.Parameter(torch.zeros((1, words["numbers"])))}
            updater, gradient = adam(1e-3).bind(values), {"x": torch.ones((1, words["numbers"]))}
            times = []
            for _ in range(10):
                began = time.perf_counter()
                updater.step(gradient, (1e-3,))
                times.append(time.perf_counter() - began)
            return {"seconds": min(times)}
        if words["do"] == "updates":
            ranks.sent.clear()
            ranks.all_true(True)
            began = time.perf_counter()
            for _ in range(words["count"]):
                trainer.step()
            ranks.all_true(True)
            return {"seconds": (time.perf_counter() - began) / words["count"], "count": words["count"]}
        if words["do"] == "sent":
            ranks.sent.clear()
            trainer.step()
            return {"bytes": ranks.sent["sum"]}
        numbers = torch.ones(words["numbers"])
        times = []
        for _ in range(30):
            ranks.all_true(True)
            began = time.perf_counter()
            ranks.add(numbers)
            times.append(time.perf_counter() - began)
        return {"seconds": min(times)}

    with in_ranks() as ranks:
        while True:
            words: Result = ranks.broadcast(lambda: json.loads(sys.stdin.readline() or "{}"))
            if not words:
                return
            answer = done(ranks, words)
            if ranks.first:
                print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    work()
