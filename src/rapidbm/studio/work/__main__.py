"""`python -m rapidbm.studio.work SOCKET`: the fork server.

It loads what all workers need, once. Whenever the server sends two descriptors, a socket and a file for
the worker's output, it forks; the first message on the socket says what the worker does. The fork server
itself computes nothing: a fork of a process in which torch has started threads can hang. It tells the
server which workers have started and exited.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import warnings
from contextlib import suppress

from .pipe import Pipe, PipeClosed


def main() -> None:
    server = socket.socket(fileno=int(sys.argv[1]))
    warnings.simplefilter("ignore")  # what a person should know is told by events
    from . import analyses, dreaming, queries, tables, training  # noqa: F401

    gc.collect()
    gc.freeze()  # what is shared with the workers stays shared
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([server.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            report_exits(server)
        if server.fileno() in ready:
            told, handles, _, _ = socket.recv_fds(server, 64, 2)
            if not told:
                return
            pid = os.fork()
            if not pid:
                server.close()
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                run_worker(*handles)
            for handle in handles:
                os.close(handle)
            with suppress(OSError):  # the server has ended meanwhile; the next message is its end
                server.send(json.dumps({"started": pid}).encode())


def report_exits(server: socket.socket) -> None:
    with suppress(ChildProcessError, ConnectionError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = found
            told = {"exited": pid, "status": os.waitstatus_to_exitcode(status)}
            server.send(json.dumps(told).encode())


def run_worker(link: int, output: int) -> None:
    """The life of a worker."""
    from . import analyses, dreaming, queries, tables, training

    roles = {
        "train": training.work,
        "dream": dreaming.work,
        "queries": queries.work,
        "read": queries.read,
        "analyses": analyses.work,
        "tables": tables.work,
    }
    code = 1
    try:
        os.dup2(output, 2)
        os.dup2(output, 1)
        sys.stdout = sys.stderr = open(2, "w", closefd=False, buffering=1)  # noqa: SIM115
        pipe = Pipe(socket.socket(fileno=link))
        first = pipe.receive()
        roles[first["do"]](pipe, first)
        code = 0
    except PipeClosed:
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)  # a thread may still wait for the socket, and there is nothing to clean up


if __name__ == "__main__":
    main()
