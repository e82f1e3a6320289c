"""Readers of C libraries that stay from file to file, for one takes a fifth of a second to start.

They are the program that is always run, `rapidbm.data.reading.child`, under its limits; `standing_in`
lets the library talk to them. One that a file ends is started anew.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rapidbm.data import sources as plain_sources
from rapidbm.data.reading import child as program
from rapidbm.data.reading.parent import QUIET, Child

from .processes import megabytes

sources: Any = plain_sources  # whose reader is replaced
GONE = "it made its reader end"
LOOP = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("child", sys.argv[1])
child = importlib.util.module_from_spec(spec)
sys.modules["child"] = child
spec.loader.exec_module(child)
module = child.reader(sys.argv[2])
child.limit(int(sys.argv[3]))
lines = iter(sys.stdin.buffer.readline, b"")
for line in lines:
    path, *names = line.decode().rstrip("\\n").split("\\t")
    child.main(module, path, names, lines, sys.stdout.buffer)
"""


class Children:
    """One for each kind of file."""

    def __init__(self) -> None:
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.started = 0
        self.most = 0.0  # MB that one took

    @contextmanager
    def standing_in(self) -> Iterator[None]:
        """In this block the library's files are read by these; they end with it."""
        plain, sources.reading_child = sources.reading_child, self.reading
        try:
            yield
        finally:
            sources.reading_child = plain
            self.end()

    def process(self, reader: str) -> subprocess.Popen[bytes]:
        old = self.processes.get(reader)
        if old is None or old.poll() is not None:
            self.processes[reader] = subprocess.Popen(
                [sys.executable, "-P", "-c", LOOP, program.__file__, reader, str(2**26)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **QUIET},
            )
            self.started += 1
        return self.processes[reader]

    @contextmanager
    def reading(self, kind: str, path: Path, names: Sequence[str], library: str) -> Iterator[Child]:
        """What stands in for `reading_child`."""
        process = self.process(kind)
        assert process.stdin is not None
        try:
            process.stdin.write("\t".join([str(path), *names]).encode() + b"\n")
            process.stdin.flush()
            child = Child(process, GONE)
        except OSError as error:
            raise ValueError(GONE) from error
        except ValueError as error:
            if GONE in str(error):
                self.end(kind)
            raise
        try:
            yield child
        except BaseException as error:
            if GONE in str(error):  # or in the middle of an array
                self.end(kind)
            raise
        finally:
            with suppress(OSError, ValueError):  # it may be gone
                process.stdin.write(b"\n")
                process.stdin.flush()

    def seconds(self) -> float:
        """Of work, of all that are there."""
        spent = 0.0
        for process in self.processes.values():
            with suppress(OSError):
                fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
                spent += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return spent

    def end(self, *kinds: str) -> None:
        """Sends some home, or all."""
        for kind in kinds or tuple(self.processes):
            process = self.processes.pop(kind)
            self.most = max(self.most, megabytes(process.pid, "VmHWM") or 0.0)
            process.kill()
            process.communicate()
