"""Runs benchmarks by name and prints their numbers.

    python -m benchmarks                       those that take a few minutes and need no choice
    python -m benchmarks pid verdicts          some of these
    python -m benchmarks guard --only help     one with its options
    python -m benchmarks guard --help          what it measures, its options, examples

With --json each result is one line of JSON. `python -m rapidbm_bench` is the same outside of a checkout.
"""

import json
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from rapidbm.errors import InputError

from .running import Row

BENCHMARKS = {  # the modules of this folder, and what each measures, in a line
    "pid": "a PID update through overlaps beside one through a rebuilt W",
    "coverage": "how often 95 % intervals hold the exact value",
    "verdicts": "whether `diagnose` is right about machines whose phase is known",
    "thermodynamics": "how often values by tempering lie within 1.96 errors of the exact ones",
    "ablations": "one thing of a training changed at a time, at equal cost",
    "alignments": "a protein family beside adabmDCA: time, contacts, weights of sequences",
    "annealer": "trainings by dimod samplers beside persistent chains",
    "debd": "the leaderboard: log p of the density-estimation tables, method beside method",
    "estimator": "RapidRBM beside scikit-learn's BernoulliRBM",
    "features": "how well hidden units serve a classifier",
    "fuzz": "damaged and hostile files against every reader",
    "grid": "rates and weight decays, trained side by side",
    "guard": "is anything slower than it was?",
    "hard_tables": "tables that a machine is easily lost on",
    "impute": "gaps of tables filled, beside IterativeImputer and miceforest",
    "labels": "MNIST with its labels: errors, and likelihood beside the machine without them",
    "networks": "log p of machines trained on tables of Bayesian networks, beside the networks' own",
    "on_ray": "what Ray costs a sweep",
    "pack": "makes the file of a pretrained machine",
    "potts": "an update of a Potts machine beside one of rbms",
    "precision": "likelihoods of trainings in each precision",
    "ranks": "two processes beside one, and what sums over processes cost",
    "scaling": "an update on up to 1,024 processes, simulated",
    "signals": "SIGINT and SIGTERM at random moments of commands",
    "soak": "trainings that are killed again and again",
    "streaming": "training from a large file",
    "studio": "waiting times of the page, and what watching costs",
    "synthetic": "classifiers trained on sampled rows of adult, beside those of arfpy",
    "watched": "watched likelihoods beside exact ones",
}
USUAL = ("pid", "coverage", "verdicts", "thermodynamics")  # where none is named


def show(values: Mapping[str, Any]) -> None:
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
    """Runs what the command line names; exit code 1 for a result that failed, 2 for bad input."""
    words = [word for word in sys.argv[1:] if word != "--json"]
    if words[:1] in (["--help"], ["-h"]):
        told = (f"    {name:<16}{line}" for name, line in BENCHMARKS.items())
        print((__doc__ or "").strip(), "", *told, sep="\n")
        return
    names, options = words[:1], words[1:]
    if {*words} <= {*USUAL}:
        names, options = words or [*USUAL], []
    for name in names:
        if name not in BENCHMARKS:
            print(f"unknown benchmark {name!r}: known are {', '.join(BENCHMARKS)}", file=sys.stderr)
            sys.exit(2)
    for name in names:
        benchmark: Any = import_module(f".{name}", __package__)
        try:
            result: Row = benchmark.run(options)
        except InputError as error:
            print(error, file=sys.stderr)
            sys.exit(2)
        if "--json" in sys.argv:
            print(json.dumps({"benchmark": name, **result}), flush=True)
        else:
            print(name)
            getattr(benchmark, "show", show)(result)
        if hasattr(benchmark, "failed") and benchmark.failed(result):
            sys.exit(1)


if __name__ == "__main__":  # workers of `coverage` import this file
    main()
