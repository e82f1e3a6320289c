"""`python -m rapidbm.studio.work SOCKET`: the nursery. It loads what all workers need, once; whenever the
server sends two descriptors, a socket and a file for what is said on standard error, it forks.

The fork becomes what its first message says. The nursery itself computes nothing, so that no thread of
torch's is there to be lost in a fork, and tells the server who was born and who died.
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

from .pipe import Closed, Pipe


def main() -> None:
    server = socket.socket(fileno=int(sys.argv[1]))
    warnings.simplefilter("ignore")  # what a person should know is told by events
    from . import desk, dreaming, looking, training  # noqa: F401

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
            tell_dead(server)
        if server.fileno() in ready:
            told, handles, _, _ = socket.recv_fds(server, 64, 2)
            if not told:
                return
            pid = os.fork()
            if not pid:
                server.close()
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                work(*handles)
            for handle in handles:
                os.close(handle)
            server.send(json.dumps({"born": pid}).encode())


def tell_dead(server: socket.socket) -> None:
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = found
            told = {"died": pid, "status": os.waitstatus_to_exitcode(status)}
            server.send(json.dumps(told).encode())


def work(link: int, said: int) -> None:
    """The life of a worker."""
    from . import desk, dreaming, looking, training

    roles = {
        "train": training.work,
        "dream": dreaming.work,
        "desk": desk.work,
        "read": desk.read,
        "look": looking.work,
    }
    code = 1
    try:
        os.dup2(said, 2)
        os.dup2(said, 1)
        sys.stdout = sys.stderr = open(2, "w", closefd=False, buffering=1)  # noqa: SIM115
        pipe = Pipe(socket.socket(fileno=link))
        first = pipe.wait()
        roles[first["do"]](pipe, first)
        code = 0
    except Closed:
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)  # a thread may still wait for the socket, and there is nothing to clean up


if __name__ == "__main__":
    main()
