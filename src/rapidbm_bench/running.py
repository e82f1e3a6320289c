"""What every benchmark needs: its options, lines on standard error, a file of results."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path
from typing import Any

from rapidbm.disk import write_bytes

Row = dict[str, Any]


def option_parser(module: str, description: str | None) -> ArgumentParser:
    """The parser of a benchmark's options.

    Parameters
    ----------
    module
        `__name__` of the benchmark's module.
    description
        Its `__doc__`, which `--help` shows.
    """
    name = module.rpartition(".")[2]
    return ArgumentParser(
        prog=f"python -m benchmarks {name}",
        description=description,
        formatter_class=RawDescriptionHelpFormatter,
    )


def tell(*words: object) -> None:
    """A line on standard error, at once."""
    print(*words, file=sys.stderr, flush=True)


def write(path: Path | None, found: Any) -> None:
    """Writes a result as a file of JSON; nothing without a path."""
    if path is not None:
        write_bytes(path, (json.dumps(found, indent=1, ensure_ascii=False) + "\n").encode())
