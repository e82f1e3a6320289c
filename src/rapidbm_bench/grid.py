"""Machines that differ in rate and weight decay, trained side by side, and how probable each makes its
training and validation data.

Every combination has `--seeds` replicas. The test part is looked at with `--test` alone: it is for
settings that were chosen.

    python -m benchmarks grid --data mnist-static --hidden 1000 --patterns 380 --rate 1e-3,2e-3 \\
        --decay 0.01,0.03 --updates 100000 --out grid.json
    python -m benchmarks grid --data digits --hidden 200 --patterns 0 --rate 1e-3 --seeds 5    # dense
"""

import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from rapidbm.likelihood.log_z import log_likelihood, log_z
from rapidbm.machines.files import save_machine
from rapidbm.progress import quiet
from rapidbm.runs.monitor import trial
from rapidbm.runs.recipe import Recipe

from .running import Row, option_parser, write

ROWS = 10_000  # of a part that are looked at, at most


def arguments(words: Sequence[str] = ()) -> Namespace:
    def numbers(text: str) -> list[float]:
        return [float(word) for word in text.split(",")]

    parser = option_parser(__name__, __doc__)
    parser.add_argument("--data", default="mnist-static", help="a name or a file")
    parser.add_argument("--valid", type=float, help="share to hold out, of data without such a part")
    parser.add_argument("--threshold", type=float, help="of mnist")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--hidden", type=int, default=1000)
    parser.add_argument("--patterns", type=int, default=380, help="0 for dense couplings")
    parser.add_argument("--rate", type=numbers, default=[1e-3], help="numbers, with commas between")
    parser.add_argument("--decay", type=numbers, default=[0.01], help="numbers, with commas between")
    parser.add_argument("--seeds", type=int, default=1, help="replicas of each combination")
    parser.add_argument("--updates", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--chains", type=int, default=1000)
    parser.add_argument("--sweeps", type=int, default=10)
    parser.add_argument("--fall", default="linear", choices=("linear", "cosine", "none"))
    parser.add_argument("--centred", action="store_true", help="centred gradients")
    parser.add_argument("--lifetime", type=int, help="of chains, which then start anew at random spins")
    parser.add_argument("--scouts", type=float, help="share of chains that start at the patterns")
    parser.add_argument("--average", type=int)
    parser.add_argument("--curve", action="store_true", help="look at the validation part on the way")
    parser.add_argument("--ais-chains", type=int, default=500)
    parser.add_argument("--temperatures", type=int, default=4000, help="at most, of each path")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--test", action="store_true", help="look at the test part too")
    parser.add_argument("--out", type=Path, help="a JSON file for all of it")
    parser.add_argument("--machines", type=Path, help="a file for the trained machines")
    return parser.parse_args(words)


def recipe_of(how: Namespace) -> tuple[Recipe, list[tuple[float, float]]]:
    """All combinations, `seeds` replicas of each."""
    each = [pair for pair in product(how.rate, how.decay) for _ in range(how.seeds)]
    chosen: dict[str, Any] = {
        "hidden": (how.hidden,),
        "patterns": how.patterns or None,
        "replicas": len(each),
        "rate": tuple(rate for rate, _ in each),
        "weight_decay": tuple(decay for _, decay in each),
        "particles": how.chains,
        "sweeps": how.sweeps,
        "batch_size": how.batch,
        "fall": how.fall,
        "centred": how.centred,
        "lifetime": how.lifetime,
        "scouts": how.scouts,
        "average": how.average,
        "seed": how.seed,
        "device": how.device,
        "valid": how.valid,
    }
    if how.threshold is not None:
        chosen["threshold"] = how.threshold
    return Recipe.made(how.data, chosen, "auto"), each


def measured(how: Namespace) -> list[Row]:
    """A row for each replica: log p of the parts, with the interval of log Z."""
    recipe, each = recipe_of(how)
    data = recipe.data()
    recipe = replace(recipe, epochs=max(1, round(how.updates * how.batch / len(data.train))), valid=None)
    began = time.perf_counter()
    found = trial(recipe, data, between=how.curve)
    seconds = time.perf_counter() - began
    machine = found.machine
    if how.machines is not None:
        save_machine(machine, how.machines)
    began = time.perf_counter()
    z = log_z(
        machine,
        method="ais",
        data=data.train.spins[:ROWS],
        chains=how.ais_chains,
        most=how.temperatures,
        seed=how.seed,
    )
    rows: list[Row] = [
        {
            "rate": rate,
            "decay": decay,
            "log_z": [float(x[i]) for x in (z.value, z.lower, z.upper)],
            "curve": {update: float(e.value[i]) for update, e in found.curve.items()},
            "diverged": i in found.diverged,
        }
        for i, (rate, decay) in enumerate(each)
    ]
    for part, split in data.parts.items():
        if part == "test" and not how.test:
            continue
        some = split.spins[:: -(-len(split) // ROWS)]
        p = log_likelihood(machine, some, normaliser=z)
        for i, row in enumerate(rows):
            row[part] = [float(x[i]) for x in (p.value, p.lower, p.upper)]
    looked = time.perf_counter() - began
    for row in rows:
        row |= {"updates": found.update, "seconds": found.seconds}
        row |= {"seconds_with_looks": seconds, "seconds_likelihood": looked}
    return rows


def run(words: Sequence[str] = ()) -> dict[str, dict[str, float]]:
    how = arguments(words)
    with quiet():
        rows = measured(how)
    kept = {name: x for name, x in vars(how).items() if name not in ("out", "machines")}
    write(how.out, {"settings": kept, "rows": rows})
    told: dict[str, dict[str, float]] = {}
    for number, row in enumerate(sorted(rows, key=lambda row: -row["valid"][0])):
        width = row["log_z"][2] - row["log_z"][1]
        looked = [part for part in ("train", "valid", "test") if part in row]
        name = f"{number + 1}: rate {row['rate']:g}, decay {row['decay']:g}"
        told[name] = {part: float(row[part][0]) for part in looked}
        told[name] |= {"interval": width, "updates": row["updates"]}
        told[name] |= {"seconds": row["seconds"], "with looks": row["seconds_with_looks"]}
    return told
