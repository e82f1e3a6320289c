"""Runs every benchmark and prints a table, or with --json one object per line.

python -m benchmarks              all
python -m benchmarks replicas pid
"""

import json
import sys

from . import coverage, peers, pid, replicas, verdicts

BENCHMARKS = {
    "replicas": replicas.run,
    "pid": pid.run,
    "peers": peers.run,
    "coverage": coverage.run,
    "verdicts": verdicts.run,
}


def main() -> None:
    words = sys.argv[1:]
    names = [word for word in words if word != "--json"] or list(BENCHMARKS)
    if "--help" in words:
        print(__doc__.strip(), "", f"known are {', '.join(BENCHMARKS)}", sep="\n")
        return
    for name in names:
        if name not in BENCHMARKS:
            print(f"unknown benchmark {name!r}: known are {', '.join(BENCHMARKS)}", file=sys.stderr)
            sys.exit(2)
    for name in names:
        result = BENCHMARKS[name]()
        if "--json" in words:
            print(json.dumps({"benchmark": name, **result}), flush=True)
            continue
        print(name)
        for key, value in result.items():
            print(f"  {key:<44} {value:.4g}", flush=True)


main()
