"""`python -m rapidbm.studio.work`: a worker. It loads what all of them need, says that it is ready, and
becomes what its first message says; when that comes to nothing, what the next one says."""

from __future__ import annotations

import os
import sys
import warnings

from .pipe import Closed, Pipe


def main() -> None:
    pipe = Pipe()
    warnings.simplefilter("ignore")  # what a person should know is told by events
    from . import desk, dreaming, looking, training

    roles = {
        "train": training.work,
        "dream": dreaming.work,
        "desk": desk.work,
        "look": looking.work,
    }
    pipe.tell({"event": "ready"})
    try:
        while True:
            first = pipe.wait()
            roles[first["do"]](pipe, first)
    except Closed:
        pass
    sys.stderr.flush()
    os._exit(0)  # a thread may still wait for the pipe, and there is nothing to clean up


if __name__ == "__main__":
    main()
