"""SIGTERM and SIGINT at random moments of commands: how they end, and what goes on from there.

    python -m benchmarks signals --count 100 --seed 1
    python -m benchmarks signals --count 20 --commands train,studio

Each command is once left alone: that is what it should come to, and how long it takes. Then it is started
again and again, in new folders, and gets a signal at a moment drawn from that time, a third of them a
second one soon after. A process that got a signal must end with 130 or 143, with 0 if it had done all
of its work, and say how to go on, without a traceback. Some are signalled again when they go on. In the
end each is finished, and has the bits of the command that was left alone. The columns:

    twice          of the signals, those that were followed by a second one
    130, 143, 0    exit codes; of ranks those of both
    early          ended by the signal itself, before the command's first line was run
    compared       commands that were finished, and held against the undisturbed one

`ranks` are two processes with a signal each; `torchrun` is the launcher, which passes a signal on and
answers 1 for itself, so that there only what goes on is looked at.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rapidbm.disk import is_locked
from rapidbm.interrupts import AGAIN

from . import soak
from .processes import free_port, spawned, waited
from .running import option_parser, tell

NUMBERS = (signal.SIGINT, signal.SIGTERM)
SOON = (0.0, 0.02, 0.3, 1.0)  # seconds until a second signal
PATIENCE = 300.0  # seconds after which a process counts as hung
GO_ON = "Go on with: rapidbm "
BAD = ("Traceback", "Exception ignored", "Fatal Python error")
TRAINING = f"{soak.COMMON} {soak.TRAININGS['pcd']} --preset small"
STUDY = """
dataset = "bars4"
measure = "hamming_test"
[fixed]
hidden = 6
epochs = 60
device = "cpu"
negative = "cd"
metric = ["hamming"]
[grid]
patterns = [2, "dense"]
"""
PLAYED = {"hidden": [30], "patterns": 4, "replicas": 2, "epochs": 40}


@dataclass(frozen=True)
class Command:
    name: str
    words: Callable[[Path], list[str]]  # that begin it in a folder, or go on
    differences: Callable[[Path, Path], list[str]]  # of two folders that are finished
    first: Callable[[Path], list[str]] | None = None  # the words that begin it, if they are others
    begun: str = ""  # a file: from then on it says how to go on
    ranks: int = 1
    launcher: bool = False


@dataclass
class Outcome:
    """What came of the signals to one command."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class Started:
    """The processes of a command; what they say is in files beside the folder."""

    def __init__(self, command: Command, out: Path, *, first: bool) -> None:
        self.command, self.out = command, out
        self.socket: Any = None
        words = (command.first or command.words if first else command.words)(out)
        line = [sys.executable, "-W", "ignore", "-m"]
        if command.launcher:
            line += ["torch.distributed.run", "--nproc-per-node", "2", "--master-port", free_port(), "-m"]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "RAPIDBM_PROGRESS": "off"}
        if command.ranks > 1:
            env |= {
                "WORLD_SIZE": str(command.ranks),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": free_port(),
            }
        self.processes = []
        for rank in range(command.ranks):
            with self._file(rank, "out").open("wb") as said, self._file(rank, "err").open("wb") as wrong:
                mine = {"RANK": str(rank), "LOCAL_RANK": str(rank)} if command.ranks > 1 else {}
                self.processes.append(
                    subprocess.Popen(
                        [*line, "rapidbm", *words], stdout=said, stderr=wrong, env=env | mine
                    )
                )

    def _file(self, rank: int, kind: str) -> Path:
        return self.out.with_name(f"{self.out.name}.{rank}.{kind}")

    def text(self, kind: str) -> str:
        files = (self._file(rank, kind) for rank in range(self.command.ranks))
        return "".join(path.read_text(errors="replace") for path in files)

    def codes(self, until: float) -> list[int] | None:
        """Their exit codes; None where one still runs at that time."""
        while time.monotonic() < until:
            if self.command.name == "studio":
                self._play()
            codes = [process.poll() for process in self.processes]
            if None not in codes:
                return [code for code in codes if code is not None]
            time.sleep(0.005)
        return None

    def send(self, number: int) -> None:
        for process in self.processes:
            process.send_signal(number)

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def _play(self) -> None:
        """A page of the studio, which begins a training as soon as it is served."""
        if self.socket is not None or "token=" not in (said := self.text("out")) or said[-1] != "\n":
            return
        from websockets.sync.client import connect

        address, _, token = json.loads(said.splitlines()[0])["address"].partition("/?token=")
        with suppress(OSError, TimeoutError, EOFError):  # it ends just now
            self.socket = connect(
                address.replace("http", "ws") + "/socket",
                additional_headers={"Authorization": f"Bearer {token}"},
                origin=address,
                max_size=None,
            )
            asked = {"id": 1, "ask": "train", "dataset": "bars4", "name": "played", "chosen": PLAYED}
            self.socket.send(json.dumps(asked))


def commands(folder: Path) -> dict[str, Command]:
    rows = soak.data_in(folder)["memory"]
    study, trained = folder / "study.toml", folder / "evaluated"
    study.write_text(STUDY)

    def train(out: Path) -> list[str]:
        return ["train", *rows, *TRAINING.split(), "--out", str(out)]

    def resume(out: Path) -> list[str]:
        return [*train(out), "--resume"]

    def split(out: Path) -> list[str]:
        return [*resume(out), "--shards", "2"]

    def sweep(out: Path) -> list[str]:
        return ["sweep", str(study), "--out", str(out)]

    def evaluate(out: Path) -> list[str]:
        return ["evaluate", str(trained), "--json"]

    def reproduce(out: Path) -> list[str]:
        return ["reproduce", "fig3a", "--scale", "tiny", "--device", "cpu", "--out", str(out)]

    def studio(out: Path) -> list[str]:
        return ["studio", str(out), "--no-browser", "--json", "--port", "0"]

    same = soak.differences
    found = [
        Command("train", resume, same, train, "run.json"),
        Command("sweep", sweep, swept, begun="plan.json"),
        Command("ray", lambda out: [*sweep(out), "--on", "ray"], swept, begun="plan.json"),
        Command("evaluate", evaluate, said),
        Command("reproduce", reproduce, reproduced),
        Command("studio", studio, played),
        Command("ranks", split, same, ranks=2),
        Command("torchrun", split, same, launcher=True),
    ]
    return {command.name: command for command in found}


def swept(ours: Path, theirs: Path) -> list[str]:
    tables = []
    for folder in (ours, theirs):
        rows = [line.split(",") for line in (folder / "table.csv").read_text().splitlines()]
        timed = rows[0].index("seconds")
        tables.append([row[:timed] + row[timed + 1 :] for row in rows])
    found = [] if tables[0] == tables[1] else ["table.csv"]
    for batch in sorted(path.name for path in (theirs / "batches").iterdir()):
        found += soak.differences(ours / "batches" / batch, theirs / "batches" / batch)
    return found


def said(ours: Path, theirs: Path) -> list[str]:
    texts = [path.with_name(f"{path.name}.0.out").read_text() for path in (ours, theirs)]
    return [] if texts[0] == texts[1] else ["evaluation"]


def reproduced(ours: Path, theirs: Path) -> list[str]:
    names = sorted(path.name for path in (theirs / "records").iterdir())
    folders = (ours, theirs)
    read = [[(folder / "records" / name).read_bytes() for folder in folders] for name in names]
    return [name for name, (a, b) in zip(names, read, strict=True) if a != b]


def played(ours: Path, theirs: Path) -> list[str]:
    return soak.differences(ours / "played", theirs / "played")


# -- signals ------------------------------------------------------------------------------------------


def finish(command: Command, out: Path, *, first: bool = False) -> str:
    """Lets a command come to its end; why it did not, or ""."""
    released(out)
    if command.name == "studio" and not first:
        run = out / "played"
        if not (run / "run.json").is_file():
            return ""
        code, _ = waited(spawned(("train", "--resume", "--out", str(run)), OMP_NUM_THREADS="1"), None)
        return f"going on ends with {code}" if code else ""
    started = Started(command, out, first=first)
    if command.name == "studio":
        finished = '"status": "finished"'
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            started.codes(time.monotonic() + 0.05)
            with suppress(OSError):
                if finished in (out / "played" / "run.json").read_text():
                    break
        started.send(signal.SIGTERM)
    codes = started.codes(time.monotonic() + PATIENCE)
    if codes is None:
        started.kill()
        return "going on does not end"
    well = command.name == "studio" or set(codes) == {0}
    return "" if well else f"going on ends with {codes}: {started.text('err')[-500:]}"


def released(out: Path) -> None:
    """Waits until no process works in the folder: workers save, and end when they see that their server,
    or Ray, is gone."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if not any(is_locked(path.parent) for path in out.rglob(".lock")):
            return
        time.sleep(0.05)


def signalled(command: Command, out: Path, seconds: float, rng: random.Random, outcome: Outcome) -> bool:
    """Signals a command, and does so again when it goes on; whether it is to be compared."""
    first = True
    while True:
        started = Started(command, out, first=first)
        codes = started.codes(time.monotonic() + rng.uniform(0.0, 1.05) * seconds)
        sent: list[int] = []
        if codes is None:
            sent.append(rng.choice(NUMBERS))
            started.send(sent[0])
            outcome.counts["signals"] += 1
            if rng.random() < 1 / 3:
                codes = started.codes(time.monotonic() + rng.choice(SOON))
                if codes is None:
                    sent.append(rng.choice(NUMBERS))
                    outcome.counts["twice"] += 1
                    started.send(sent[1])
        codes = started.codes(time.monotonic() + PATIENCE) if codes is None else codes
        if codes is None:
            outcome.wrong.append(f"does not end on {sent}")
            started.kill()
            return False
        if sent:
            for complaint in judged(command, started, codes, sent, outcome.counts, first=first):
                outcome.wrong.append(
                    f"{complaint}; {sent} after {seconds:.1f} s at most: {started.text('err')[-800:]}"
                )
        released(out)
        first = first and not (out / command.begun).is_file() if command.begun else first
        if set(codes) == {0} or command.name == "studio" or rng.random() < 0.5:
            break
    why = "" if set(codes) == {0} else finish(command, out, first=first and command.name != "studio")
    if why:
        outcome.wrong.append(why)
    return not why


def judged(
    command: Command,
    started: Started,
    codes: list[int],
    sent: list[int],
    counts: Counter[str],
    *,
    first: bool,
) -> list[str]:
    """What is wrong with the end of a command that got these signals."""
    if command.launcher:
        counts[f"code {codes[0]}"] += 1
        return []
    out, err = started.text("out"), started.text("err")
    early = [code for code in codes if -code in sent]
    counts["early"] += len(early)
    for code in codes:
        if code not in early:
            counts[str(code)] += 1
    found = [f"exit code {code}" for code in codes if code not in (0, *early, *(128 + n for n in sent))]
    if early:
        return found + (["said something before the end"] if out else [])
    found += [f"{word!r} on standard error" for word in BAD if word in err]
    if codes[0] > 128:
        again = GO_ON in out + err
        if not again and (
            AGAIN not in err or (command.first and first and (started.out / command.begun).is_file())
        ):
            found.append("no word on how to go on")
    return found


def run(words: Sequence[str] = ()) -> dict[str, object]:
    parser = option_parser(__name__, __doc__)
    parser.add_argument(
        "--count", type=int, default=100, help="signals, a second one soon after not counted"
    )
    parser.add_argument("--commands", default="", help="some of them, with commas (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(words)
    rng = random.Random(options.seed)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # not ignored, as of a job in the background
    outcomes: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        known = commands(folder)
        chosen = options.commands.split(",") if options.commands else list(known)
        seconds: dict[str, float] = {}
        if "evaluate" in chosen:
            waited(spawned(tuple(known["train"].words(folder / "evaluated")), OMP_NUM_THREADS="1"), None)
        for each in chosen:
            began = time.monotonic()
            if why := finish(known[each], folder / f"{each}-whole", first=True):
                raise RuntimeError(f"{each}, which was left alone: {why}")
            seconds[each] = time.monotonic() - began
            outcomes[each] = Outcome()
        number = 0
        while sum(outcome.counts["signals"] for outcome in outcomes.values()) < options.count:
            each, number = chosen[number % len(chosen)], number + 1
            command, outcome, out = known[each], outcomes[each], folder / f"{each}-{number}"
            if signalled(command, out, seconds[each], rng, outcome):
                if command.name != "studio" or (out / "played" / "run.json").is_file():
                    outcome.wrong += command.differences(out, folder / f"{each}-whole")
                    outcome.counts["compared"] += 1
            tell(each, dict(outcome.counts), *outcome.wrong)
            shutil.rmtree(out, ignore_errors=True)
    columns = ("signals", "twice", "130", "143", "0", "early", "compared")
    return {
        name: {**{column: outcome.counts[column] for column in columns}, "wrong": len(outcome.wrong)}
        for name, outcome in outcomes.items()
    }
