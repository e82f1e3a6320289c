"""Commands of rapidbm as processes, and the memory that a process takes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import warnings
from pathlib import Path

from rapidbm.__main__ import main as command


def megabytes(process: int | str, field: str) -> float | None:
    """A field of `/proc/PROCESS/status`, such as VmHWM or RssAnon, in MB; None where there is none."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:")), None)


def forked(words: tuple[str, ...]) -> int:
    """The process of a command, forked from this one: without the time that a start takes."""
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # no thread is needed there
        child = os.fork()
    if child:
        return child
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)  # whatever this process has done to them
        null = os.open(os.devnull, os.O_RDWR)
        for handle in (0, 1, 2):
            os.dup2(null, handle)
        sys.argv = ["rapidbm", *words]
        warnings.simplefilter("ignore")
        command()
    except SystemExit as left:
        os._exit(left.code if isinstance(left.code, int) else 1)
    except BaseException:
        os._exit(99)
    os._exit(0)


def spawned(words: tuple[str, ...], **environment: str) -> int:
    """The process of a command, started anew."""
    null, env = subprocess.DEVNULL, {**os.environ, **environment}
    line = [sys.executable, "-W", "ignore", "-m", "rapidbm", *words]
    return subprocess.Popen(line, stdout=null, stderr=null, env=env).pid


def waited(process: int, until: float | None) -> tuple[int | None, float]:
    """The exit code of a process, None if it still runs at that time; and the most MB that it took."""
    most = 0.0
    while until is None or time.monotonic() < until:
        most = max(most, megabytes(process, "VmHWM") or 0.0)
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), most
        time.sleep(0.002)
    return None, most


def private(process: int) -> tuple[int, list[float]]:
    """The exit code of a process, and the MB that it had for itself (RssAnon) while it ran."""
    seen = []
    while (ended := os.waitpid(process, os.WNOHANG)) == (0, 0):
        if (now := megabytes(process, "RssAnon")) is not None:
            seen.append(now)
        time.sleep(0.02)
    return os.waitstatus_to_exitcode(ended[1]), seen


def free_port() -> str:
    """A port of this computer that nothing listens on."""
    with socket.socket() as here:
        here.bind(("127.0.0.1", 0))
        return str(here.getsockname()[1])
