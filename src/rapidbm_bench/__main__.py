"""Runs every benchmark and prints a table, or with --json one object per line.

python -m benchmarks              all that take no options
python -m benchmarks pid verdicts
python -m benchmarks guard --only replicas,help
python -m benchmarks annealer --seeds 8
python -m benchmarks ablations --data digits --out digits.json
python -m benchmarks coverage --cases 20 --families cold,holes
python -m benchmarks debd nltcs jester --budget 5m --seeds 5
python -m benchmarks estimator --seeds 5 --out estimator.json
python -m benchmarks features --machines trained.safetensors --out features.json
python -m benchmarks grid --data digits --hidden 200 --rate 1e-3,2e-3 --decay 0,0.1 --updates 5000
python -m benchmarks pack --machines grid.safetensors --grid grid.json --device "an H200" --out FILE
python -m benchmarks hard_tables --seeds 3
python -m benchmarks fuzz --count 2000 --doors npy,csv
python -m benchmarks precision --data digits --patterns 40 --out digits.json
python -m benchmarks studio --repeats 3 --out studio.json
python -m benchmarks ranks --out ranks.json
python -m benchmarks on_ray --trainings 20 --seconds 10
python -m benchmarks scaling --constants docs/performance/ranks.json --figures docs/images
python -m benchmarks signals --count 100
python -m benchmarks soak --kills 300
python -m benchmarks streaming --gb 20 --folder /tmp
python -m benchmarks watched --trainings 20 --visible 60,784
"""

import json
import sys
from collections.abc import Mapping

from rapidbm.errors import InputError

from . import (
    ablations,
    annealer,
    coverage,
    debd,
    estimator,
    features,
    fuzz,
    grid,
    guard,
    hard_tables,
    on_ray,
    pack,
    pid,
    precision,
    ranks,
    scaling,
    signals,
    soak,
    streaming,
    studio,
    thermodynamics,
    verdicts,
    watched,
)

BENCHMARKS = {
    "pid": pid.run,
    "coverage": coverage.run,
    "verdicts": verdicts.run,
    "thermodynamics": thermodynamics.run,
}
WITH_OPTIONS = {
    "ablations": ablations.run,
    "annealer": annealer.run,
    "coverage": coverage.run,
    "debd": debd.run,
    "estimator": estimator.run,
    "features": features.run,
    "fuzz": fuzz.run,
    "grid": grid.run,
    "guard": guard.run,
    "hard_tables": hard_tables.run,
    "pack": pack.run,
    "precision": precision.run,
    "studio": studio.run,
    "ranks": ranks.run,
    "on_ray": on_ray.run,
    "scaling": scaling.run,
    "signals": signals.run,
    "soak": soak.run,
    "streaming": streaming.run,
    "watched": watched.run,
}
KNOWN = {**BENCHMARKS, **WITH_OPTIONS}
TABLES = {"debd": debd.show}  # those that print a table of their own


def show(values: Mapping[str, object]) -> None:
    """Lines of numbers; of a mapping of mappings a table."""
    rows = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    for key, value in values.items():
        if key not in rows:
            print(f"  {key:<44} {value:.4g}", flush=True)
    for number, (key, row) in enumerate(rows.items()):
        if not number:
            print(f"  {'':<26}" + "".join(f"{name:>22}" for name in row))
        print(f"  {key:<26}" + "".join(f"{cell(value):>22}" for value in row.values()), flush=True)


def cell(value: object) -> str:
    """Four digits of a number, a dash for nothing, words as they are."""
    return "–" if value is None else value if isinstance(value, str) else f"{value:.4g}"


def main() -> None:
    words = sys.argv[1:]
    if "--help" in words and words[0] not in WITH_OPTIONS:
        print(__doc__.strip(), "", f"known are {', '.join(KNOWN)}", sep="\n")
        return
    as_json = "--json" in words
    words = [word for word in words if word != "--json"]
    options: list[str] = []
    if words and words[0] in WITH_OPTIONS:
        words, options = words[:1], words[1:]
    for name in words:
        if name not in KNOWN:
            print(f"unknown benchmark {name!r}: known are {', '.join(KNOWN)}", file=sys.stderr)
            sys.exit(2)
    for name in words or list(BENCHMARKS):
        try:
            result = WITH_OPTIONS[name](options) if name in WITH_OPTIONS else BENCHMARKS[name]()
        except InputError as error:
            print(error, file=sys.stderr)
            sys.exit(2)
        if as_json:
            print(json.dumps({"benchmark": name, **result}), flush=True)
        else:
            print(name)
            TABLES.get(name, show)(result)
        if (name == "guard" and guard.is_worse(result)) or (name == "debd" and result["failed"]):
            sys.exit(1)


if __name__ == "__main__":  # workers of `coverage` import this file
    main()
