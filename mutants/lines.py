"""Which lines of the package each test executes, and how long it takes: a plugin of pytest.

`-p mutants.lines`, with the package's folder in MUTANTS_SOURCE and a folder to write to in MUTANTS_LINES:
a line of JSON per test, in a file per process. A test is stopped after MUTANTS_SECONDS: mutants rarely
need the slow ones, and all of them together would take longer than the mutants. Seconds are those of the
processor, so that other work on the machine chooses no other tests.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import sys
import time
from collections.abc import Generator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

SOURCE, FOLDER, SECONDS = "MUTANTS_SOURCE", "MUTANTS_LINES", "MUTANTS_SECONDS"


class Tracer:
    """Lines of the files below `source`; all other frames are left alone."""

    def __init__(self, source: Path) -> None:
        self.source = f"{source}{os.sep}"
        self.files: dict[str, set[int]] = {}
        self.deadline = math.inf
        self._open: dict[CodeType, tuple[set[int], set[int]] | None] = {}
        self._classes: dict[type, tuple[str, int]] = {}

    def start(self) -> None:
        self.files = {}
        self._open = {}
        sys.settrace(self._call)

    def stop(self) -> dict[str, list[int]]:
        sys.settrace(None)
        for code, lines in self._open.items():
            if lines is not None:
                name = code.co_filename[len(self.source) :]
                self.files.setdefault(name, set()).update(lines[0])
        return {name: sorted(lines) for name, lines in self.files.items()}

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if code not in self._open:
            ours = code.co_filename.startswith(self.source)
            every = {line for _, _, line in code.co_lines() if line}
            self._open[code] = (set(), every) if ours else None
            if code.co_filename == "<string>" and code.co_name == "__init__":
                self._made(type(frame.f_locals.get("self")))
        lines = self._open[code]
        if lines is None:
            return None
        if time.process_time() > self.deadline:
            pytest.skip("slow")
        seen, every = lines
        if len(seen) == len(every):  # nothing new to see: the rest of this test runs at full speed
            return None

        def line(frame: FrameType, event: str, arg: Any) -> Any:
            seen.add(frame.f_lineno)
            if time.process_time() > self.deadline:
                pytest.skip("slow")
            return line

        return line(frame, event, arg)

    def _made(self, kind: type) -> None:
        """Notes the first line of a dataclass and of its bases: who makes one meets their defaults, which
        stand in no line that runs."""
        for one in kind.__mro__:
            if one not in self._classes:
                try:
                    place = inspect.getsourcefile(one) or "", inspect.getsourcelines(one)[1]
                except (OSError, TypeError):
                    place = "", 0
                self._classes[one] = place
            file, line = self._classes[one]
            if file.startswith(self.source):
                self.files.setdefault(file[len(self.source) :], set()).add(line)


class Record:
    def __init__(self, tracer: Tracer, file: Path, seconds: float) -> None:
        self.tracer, self.file, self.seconds = tracer, file, seconds

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, bool, bool]:
        began = time.process_time()
        self.tracer.start()
        try:
            return (yield)
        finally:
            lines = self.tracer.stop()
            row = {"test": item.nodeid, "seconds": time.process_time() - began, "lines": lines}
            with self.file.open("a") as out:
                out.write(json.dumps(row) + "\n")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        # Not while fixtures are set up, which other tests share.
        self.tracer.deadline = time.process_time() + self.seconds
        try:
            yield
        finally:
            self.tracer.deadline = math.inf


def pytest_configure(config: pytest.Config) -> None:
    source, folder = os.environ.get(SOURCE), os.environ.get(FOLDER)
    if source and folder:
        seconds = float(os.environ.get(SECONDS, "inf"))
        file = Path(folder) / f"{os.getpid()}.jsonl"
        config.pluginmanager.register(Record(Tracer(Path(source)), file, seconds))
