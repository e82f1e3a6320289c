"""Mutants against the tests, in copies of the source tree; the tree itself is never written to.

A warm-up runs the tests once as they are and notes which lines each of them executes (`lines.py`). A
mutant then meets the tests that execute its line, its module's own and the quick ones first, as many as
fit into `budget` seconds, until one fails. A mutant that hangs is killed too.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from .lines import FOLDER, SECONDS, SOURCE
from .operators import Mutation

LEFT_OUT = (".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info")
RESULTS = {"runs", "demo"}  # folders at the root that commands write
OWN = 0.25  # the seconds of a module's own tests count this much when tests are put into order
SLOW = 4.0  # seconds after which the warm-up stops a test
STOPPED = 20.0  # what is counted for such a test, so that it comes last
HANG = 120.0  # seconds of the slowest test of a mutant
START, SLACK = 60.0, 3.0  # and of all its tests: so many, and so many times their own
HANGS = ["-o", f"faulthandler_timeout={HANG}", "-o", "faulthandler_exit_on_timeout=true"]


class NotGreen(Exception):
    """The tests fail without any mutation."""


@dataclass(frozen=True)
class Test:
    """A test, its seconds, and the lines that it executes of each file below the package."""

    name: str
    seconds: float
    lines: dict[str, frozenset[int]]

    __test__ = False  # not one of pytest's

    def meets(self, mutation: Mutation) -> bool:
        first, last = mutation.reach
        lines = self.lines.get(f"{mutation.module}.py", frozenset())
        return any(first <= line <= last for line in lines)


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: `by` is the test that failed, "" if none did."""

    mutation: Mutation
    by: str
    tests: int  # that it met, of all that execute its line
    of: int

    @property
    def killed(self) -> bool:
        return bool(self.by)


def chosen(mutation: Mutation, tests: Iterable[Test], budget: float) -> tuple[list[Test], int]:
    """The tests that a mutant meets, the first to kill it first, and how many execute its line."""
    own = f"test_{Path(mutation.module).name}.py::"

    def cost(test: Test) -> float:
        return test.seconds * (OWN if own in test.name else 1.0)

    meeting = sorted((test for test in tests if test.meets(mutation)), key=cost)
    taken: list[Test] = []
    spent = 0.0
    for test in meeting:
        if not taken or spent + test.seconds <= budget:
            taken.append(test)
            spent += test.seconds
    return taken, len(meeting)


class Tree:
    """A copy of a source tree: `src/<package>`, `tests` and what lies beside them."""

    def __init__(self, folder: Path, package: str) -> None:
        self.folder, self.package = folder, package
        self.process: subprocess.Popen[str] | None = None
        self.closed = False

    @property
    def source(self) -> Path:
        return self.folder / "src" / self.package

    def pytest(
        self, words: list[str], limit: float | None = None, more: Mapping[str, str] | None = None
    ) -> tuple[int, str]:
        """The status and the output; status −1 if it did not end within `limit` seconds."""
        paths = os.pathsep.join(map(str, (self.folder / "src", self.folder)))
        tools = Path(__file__).parents[1]
        environment = {
            **os.environ,
            "PYTHONPATH": f"{paths}{os.pathsep}{tools}",
            "OMP_NUM_THREADS": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # hypothesis' own takes longer than most tests
            **(more or {}),
        }
        if self.closed:
            return -1, ""
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
        self.process = process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            text, _ = process.communicate(timeout=limit)
            return process.returncode, text
        except subprocess.TimeoutExpired:
            return -1, ""
        finally:
            self.end()

    def end(self) -> None:
        """Ends what runs here, with all that it started."""
        process, self.process = self.process, None
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    @contextmanager
    def mutated(self, mutation: Mutation) -> Iterator[None]:
        file = self.source / f"{mutation.module}.py"
        source = file.read_text()
        # A compiled file is told apart by seconds and size, which a mutant may share.
        Path(cache_from_source(str(file))).unlink(missing_ok=True)
        file.write_text(mutation.apply(source))
        try:
            yield
        finally:
            file.write_text(source)

    def verdict(self, mutation: Mutation, tests: Iterable[Test], budget: float) -> Verdict:
        taken, of = chosen(mutation, tests, budget)
        if not taken:
            return Verdict(mutation, "", 0, 0)
        limit = START + SLACK * sum(test.seconds for test in taken)
        with self.mutated(mutation):
            names = [test.name for test in taken]
            status, text = self.pytest(
                ["-x", "--tb=no", *HANGS, *names], limit, {"PYTHONDONTWRITEBYTECODE": "1"}
            )
        return Verdict(mutation, _killer(status, text, limit), len(taken), of)


def _killer(status: int, text: str, limit: float) -> str:
    if not status:
        return ""
    if status < 0 or "Timeout (" in text:
        return f"hangs: more than {HANG:.0f} s, or {limit:.0f} s of all tests"
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", text, re.MULTILINE)
    lines = [line for line in text.splitlines() if line.strip()] or [f"status {status}"]
    return failed[1] if failed else lines[-1]


def warm_up(tree: Tree, files: Iterable[str], workers: int) -> list[Test]:
    """The tests of these files and the lines that each executes; all that are not slow must pass."""
    with tempfile.TemporaryDirectory() as folder:
        spread = ["-p", "xdist", "-n", str(workers)] if workers > 1 else []
        status, text = tree.pytest(
            ["-p", "mutants.lines", "--tb=short", *spread, *files],
            more={SOURCE: str(tree.source), FOLDER: folder, SECONDS: str(SLOW)},
        )
        if status:
            raise NotGreen(f"the tests do not pass without any mutation:\n{text[-3000:]}")
        rows = [
            json.loads(row)
            for file in sorted(Path(folder).iterdir())
            for row in file.read_text().splitlines()
        ]
    return read(rows)


def read(rows: Iterable[dict[str, Any]]) -> list[Test]:
    """Tests from the rows that `lines.py` writes."""
    return [
        Test(
            row["test"],
            row["seconds"] if row["seconds"] < SLOW else STOPPED,
            {name: frozenset(lines) for name, lines in row["lines"].items()},
        )
        for row in rows
    ]


@contextmanager
def trees(root: Path, package: str, count: int) -> Iterator[list[Tree]]:
    """Copies of a source tree, which are gone afterwards, whatever happens."""
    before = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        made = [Tree(Path(folder) / str(i), package) for i in range(count)]
        try:
            for tree in made:
                shutil.copytree(root, tree.folder, ignore=_left_out(root))
            yield made
        finally:
            for tree in made:
                tree.end()
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, before)


def _left_out(root: Path) -> Callable[[str, list[str]], set[str]]:
    anywhere = shutil.ignore_patterns(*LEFT_OUT)

    def ignored(folder: str, names: list[str]) -> set[str]:
        at_root = RESULTS if Path(folder) == root else set()
        return {*anywhere(folder, names), *(at_root & {*names})}

    return ignored


def judge(
    copies: list[Tree],
    sample: list[Mutation],
    tests: list[Test],
    budget: float,
    tell: Callable[[Verdict], None] = lambda verdict: None,
) -> list[Verdict]:
    """The verdict on each mutation of a sample, one copy of the tree per worker."""
    free: SimpleQueue[Tree] = SimpleQueue()
    for tree in copies:
        free.put(tree)

    def work(mutation: Mutation) -> Verdict:
        tree = free.get()
        try:
            return tree.verdict(mutation, tests, budget)
        finally:
            free.put(tree)

    pool = ThreadPoolExecutor(len(copies))
    try:
        found = []
        for verdict in pool.map(work, sample):
            tell(verdict)
            found.append(verdict)
        return found
    except BaseException:
        for tree in copies:
            tree.closed = True
            tree.end()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
