"""Runs every benchmark and prints a table, or with --json one object per line.

python -m benchmarks              all
python -m benchmarks replicas pid
python -m benchmarks coverage --cases 20 --families cold,holes
"""

import json
import sys
from collections.abc import Mapping

from . import coverage, peers, pid, replicas, verdicts

BENCHMARKS = {
    "replicas": replicas.run,
    "pid": pid.run,
    "peers": peers.run,
    "coverage": coverage.run,
    "verdicts": verdicts.run,
}


def show(values: Mapping[str, object]) -> None:
    """Lines of numbers; of a mapping of mappings a table."""
    rows = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    for key, value in values.items():
        if key not in rows:
            print(f"  {key:<44} {value:.4g}", flush=True)
    for number, (key, row) in enumerate(rows.items()):
        if not number:
            print(f"  {'':<26}" + "".join(f"{name:>22}" for name in row))
        print(f"  {key:<26}" + "".join(f"{value:>22.4g}" for value in row.values()), flush=True)


def main() -> None:
    words = sys.argv[1:]
    if "--help" in words and "coverage" not in words:
        print(__doc__.strip(), "", f"known are {', '.join(BENCHMARKS)}", sep="\n")
        return
    as_json = "--json" in words
    words = [word for word in words if word != "--json"]
    options: list[str] = []
    if words[:1] == ["coverage"]:  # the only one with options of its own
        words, options = words[:1], words[1:]
    for name in words:
        if name not in BENCHMARKS:
            print(f"unknown benchmark {name!r}: known are {', '.join(BENCHMARKS)}", file=sys.stderr)
            sys.exit(2)
    for name in words or list(BENCHMARKS):
        result = coverage.run(options) if name == "coverage" else BENCHMARKS[name]()
        if as_json:
            print(json.dumps({"benchmark": name, **result}), flush=True)
            continue
        print(name)
        show(result)


if __name__ == "__main__":  # workers of `coverage` import this file
    main()
