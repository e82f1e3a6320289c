"""Processes that are forks of this one: everything is imported, and a command starts in milliseconds."""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib.backends.backend_agg  # here, so that no fork has to import it again
import matplotlib.figure  # noqa: F401
import torch

import rapidbm.cli.train  # noqa: F401

LONG = 300  # seconds after which a process counts as hung and is ended


class Forked:
    """A process that calls a function: what it says, and the code that it ends with.

    It starts with the signal handlers of a new process, and ends with what `sys.exit` was given, 0 after
    a return and 99 after an error, which it prints.
    """

    def __init__(
        self,
        call: Callable[[], Any],
        folder: Path,
        name: str = "child",
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.paths = {handle: folder / f"{name}.{handle}" for handle in (1, 2)}
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # other threads are not needed there
            self.pid = os.fork()
        if not self.pid:
            code = 99
            try:
                code = self._work(call, folder, env or {})
            finally:
                os._exit(code)  # neither pytest's handlers nor ours: they belong to the parent

    def _work(self, call: Callable[[], Any], folder: Path, env: Mapping[str, str]) -> int:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.alarm(LONG)
        os.chdir(folder)
        os.environ.update(env)
        for handle, path in self.paths.items():
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), handle)
        sys.stdin = open(os.devnull)  # noqa: SIM115
        sys.stdout, sys.stderr = (open(handle, "w", closefd=False) for handle in (1, 2))  # noqa: SIM115
        torch.set_num_threads(1)  # other threads do not survive a fork
        try:
            call()
            code = 0
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else int(left.code is not None)
        except BaseException:
            traceback.print_exc()
            code = 99
        sys.stdout.flush()
        sys.stderr.flush()
        return code

    def wait(self) -> int:
        """Its exit code, or minus the signal that ended it."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    @property
    def said(self) -> str:
        return self.paths[1].read_text()

    @property
    def errors(self) -> str:
        return self.paths[2].read_text()
