"""Which of a drawn sample of mutations does the test suite not notice?

python -m mutants                                60 mutations of the core, drawn with seed 0
python -m mutants --seed 7 --count 20 --modules ground,likelihood
python -m mutants --list                         only what would be tried
python -m mutants --only ground:206:23:arithmetic --tests tests/test_ground.py
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from .operators import Mutation, mutations, sound
from .running import NotGreen, Test, Tree, Verdict, judge, read, trees, warm_up

ROOT = Path(__file__).parents[1]
PACKAGE = "rapidbm"
GROUPS = {
    "machines": ("arrays", "machines/units/unit", "machines/units/spin",
                 "machines/units/categorical", "machines/units/gaussian", "machines/gauge",
                 "machines/spins", "machines/layers", "machines/couplings",
                 "machines/dense", "machines/patterns", "machines/machine", "machines/constructors",
                 "machines/enumeration", "machines/ensembles"),
    "sampling": ("random", "sampling/gibbs", "sampling/tempering", "sampling/paths",
                 "sampling/bases", "sampling/annealing", "sampling/samplers", "sampling/mean_field"),
    "likelihood": ("likelihood/log_z", "likelihood/exact", "likelihood/annealed",
                   "likelihood/counting", "likelihood/quadrature", "likelihood/bridging",
                   "likelihood/following", "likelihood/hidden_sums", "likelihood/moments", "estimates"),
    "ground": ("ground/ground_state", "ground/zonotope", "ground/lower_bound", "sampling/quench"),
    "training": ("training/trainer", "training/stepper", "training/replicas", "training/batches",
                 "training/train", "training/load", "training/positive", "training/negative",
                 "training/optimisers", "training/projections", "runs/metrics", "likelihood/independent"),
    "runs": ("runs/run", "runs/monitor", "runs/folder", "runs/timing", "runs/recipe", "registry",
             "machines/files", "disk", "schema", "data/files", "data/splits", "data/catalogue"),
    "exchange": ("machines/weights", "exchange/rbms_files", "exchange/sklearn_models",
                 "exchange/dimod_samplers", "sampling/temperature", "training/annealer"),
}  # fmt: skip
# Tests of other modules, of a GPU, of speed or of texts, and slow ones.
OTHER_TESTS = re.compile(
    "experiment|reproduction|gpu|bench|docs|imports|coverage|mutants|cli|diagram|quality|minima|glass"
    "|progress|limits|fast"
)


def sources(root: Path, package: str, modules: Iterable[str]) -> dict[str, str]:
    return {name: (root / "src" / package / f"{name}.py").read_text() for name in modules}


def draw(texts: Mapping[str, str], count: int, seed: int) -> list[Mutation]:
    """`count` lines drawn from all that can be mutated, and one sound mutation of each."""
    places: dict[tuple[str, int], list[Mutation]] = {}
    for module in sorted(texts):
        for mutation in mutations(module, texts[module]):
            places.setdefault((module, mutation.line), []).append(mutation)
    rng = random.Random(seed)
    sample: list[Mutation] = []
    for place in rng.sample(list(places), len(places)):
        able = places[place]
        for mutation in rng.sample(able, len(able)):
            if len(sample) < count and sound(mutation, texts[mutation.module]):
                sample.append(mutation)
                break
    return sorted(sample, key=lambda m: (list(texts).index(m.module), m.start))


def named(texts: Mapping[str, str], names: Iterable[str]) -> list[Mutation]:
    known = {m.name: m for module in texts for m in mutations(module, texts[module])}
    if wrong := [name for name in names if name not in known]:
        sys.exit(f"unknown mutation {wrong[0]!r}: --list names those of a seed")
    return [known[name] for name in names]


def show(mutation: Mutation, texts: Mapping[str, str], end: str = "") -> None:
    old, new = mutation.difference(texts[mutation.module])
    print(f"{mutation.name}  {end}\n  - {old}\n  + {new}", flush=True)


def summary(verdicts: Iterable[Verdict], groups: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Killed of tried, for each group and for all."""
    rows = {}
    verdicts = list(verdicts)
    for name, modules in (*groups.items(), ("all", [v.mutation.module for v in verdicts])):
        of = [v for v in verdicts if v.mutation.module in modules]
        if of:
            dead = sum(v.killed for v in of)
            rows[name] = f"{dead} of {len(of)} killed ({dead / len(of):.0%})"
    return rows


def lines(tree: Tree, files: list[str], workers: int, kept: Path | None) -> list[Test]:
    """The tests with their lines: by a warm-up, or from the file of an earlier one."""
    if kept is not None and kept.exists():
        return read(json.loads(kept.read_text()))
    found = warm_up(tree, files, workers)
    if kept is not None:
        rows = [
            {
                "test": t.name,
                "seconds": t.seconds,
                "lines": {k: sorted(v) for k, v in t.lines.items()},
            }
            for t in found
        ]
        kept.write_text(json.dumps(rows))
    return found


def main(
    words: list[str] | None = None,
    root: Path = ROOT,
    package: str = PACKAGE,
    groups: Mapping[str, tuple[str, ...]] = GROUPS,
) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other mutations")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--modules", default=",".join(groups), help="groups or modules, with commas")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this mutation")
    parser.add_argument("--tests", nargs="+", default=[], help="only the tests of these files")
    parser.add_argument("--budget", type=float, default=120.0, help="seconds of tests per mutation")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="draw, and run nothing")
    parser.add_argument("--lines", type=Path, help="keep the warm-up's lines here, or read them")
    parser.add_argument("--out", type=Path, help="write the verdicts there, as JSON")
    chosen = parser.parse_args(words)

    modules = [m for name in chosen.modules.split(",") for m in groups.get(name, (name,))]
    known = [m for group in groups.values() for m in group]
    if wrong := [name for name in modules if name not in known]:
        parser.error(f"unknown module {wrong[0]!r}: known are {', '.join((*groups, *known))}")
    texts = sources(root, package, modules)
    sample = named(texts, chosen.only) if chosen.only else draw(texts, chosen.count, chosen.seed)
    if chosen.list:
        for mutation in sample:
            show(mutation, texts)
        return

    files = chosen.tests or [
        f"tests/{file.name}"
        for file in sorted((root / "tests").glob("test_*.py"))
        if not OTHER_TESTS.search(file.name)
    ]
    began = time.monotonic()
    with trees(root, package, chosen.workers) as copies:
        try:
            tests = lines(copies[0], files, chosen.workers, chosen.lines)
        except NotGreen as error:
            sys.exit(str(error))
        print(f"{len(tests)} tests pass without a mutation, {time.monotonic() - began:.0f} s\n")

        def tell(verdict: Verdict) -> None:
            end = f"killed by {verdict.by}" if verdict.killed else "SURVIVED"
            tried = f"{verdict.tests} of the {verdict.of} tests that execute it"
            show(verdict.mutation, texts, end if verdict.killed else f"{end} {tried}")

        verdicts = judge(copies, sample, tests, chosen.budget, tell)
    rows = summary(verdicts, groups)
    print(f"\nseed {chosen.seed}, {time.monotonic() - began:.0f} s")
    for name, text in rows.items():
        print(f"  {name:<12} {text}")
    if chosen.out is not None:
        values = [
            asdict(v)
            | {"name": v.mutation.name, "lines": v.mutation.difference(texts[v.mutation.module])}
            for v in verdicts
        ]
        chosen.out.write_text(json.dumps({"summary": rows, "mutants": values}, indent=1))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("stopped; the copies are gone")
