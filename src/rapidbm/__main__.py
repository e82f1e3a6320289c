"""`python -m rapidbm`, and the command `rapidbm`: it is ready for signals before it imports more."""

from __future__ import annotations

import time

from . import interrupts


def main() -> None:
    interrupts.began = time.monotonic()
    interrupts.install()
    from .cli.main import main as command

    try:
        command()
    except SystemExit as left:
        interrupts.finish(left.code if isinstance(left.code, int) else bool(left.code))
        raise


if __name__ == "__main__":
    main()
