"""What the rounding of products costs a training: the same trainings in float32, tf32 and bf16.

Restricted machines with K patterns, replicas side by side, PCD and Adam whose rate falls to zero, equal
updates. The test NLL of every replica is annealed in float32 whatever it was trained in, so that nothing
but the training differs. Beside it: log Z of one machine by each precision, and χ² of sampled states of
small machines against enumeration. On a CPU there is float32 alone.

    python -m benchmarks precision --data digits --patterns 40,190 --out digits.json
    python -m benchmarks precision --data digits --patterns 384 --earlier digits.json --out all.json
"""

import json
import math
import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from rapidbm.accel.devices import device_named
from rapidbm.accel.rounding import PRECISIONS, Precision, precision
from rapidbm.data.catalogue import load
from rapidbm.data.splits import Dataset
from rapidbm.likelihood.log_z import log_likelihood, log_z
from rapidbm.machines.constructors import rbm
from rapidbm.machines.machine import Machine
from rapidbm.progress import quiet
from rapidbm.sampling.gibbs import sweep
from rapidbm.testing import sampler_p_values
from rapidbm.training.negative import Persistent
from rapidbm.training.optimisers import adam
from rapidbm.training.trainer import Trainer

from .running import Row, option_parser, tell, write

HIDDEN = {"digits": 200}
USUAL_HIDDEN = 500
SMALL = (6, 4)  # units of the machines that are enumerated
SURE = 2.1  # standard errors: Student's t for two times ten replicas, 95 %
LEAST_P = 1e-3
EQUAL = ("replicas", "updates", "batch", "chains", "sweeps", "rate", "ais_chains", "temperatures", "seed")


def arguments(words: Sequence[str] = ()) -> Namespace:
    parser = option_parser(__name__, __doc__)
    parser.add_argument("--data", default="mnist-static,digits", help="names, with commas between")
    parser.add_argument("--patterns", default="40,190,384", help="numbers K, with commas between")
    parser.add_argument("--precision", help=f"of {','.join(PRECISIONS)} (default: all of the device)")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--hidden", type=int, help="default: 200 for digits, else 500")
    parser.add_argument("--replicas", type=int, default=10)
    parser.add_argument("--updates", type=int, default=5000)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--chains", type=int, default=500, help="of PCD, for each replica")
    parser.add_argument("--sweeps", type=int, default=3)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--ais-chains", type=int, default=500)
    parser.add_argument("--temperatures", type=int, default=2000, help="at most, of each path")
    parser.add_argument("--test-images", type=int, help="default: all")
    parser.add_argument("--samples", type=int, default=200_000, help="of each χ² test")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--earlier", type=Path, nargs="*", default=[], help="results to put beside these")
    parser.add_argument("--out", type=Path, help="a JSON file for all of it")
    chosen = parser.parse_args(words)
    chosen.device = device_named(chosen.device)
    usual = PRECISIONS if chosen.device.type == "cuda" else ("float32",)
    chosen.precision = chosen.precision.split(",") if chosen.precision else list(usual)
    if wrong := [name for name in chosen.precision if name not in usual]:
        parser.error(f"{chosen.device.type} has the precision {', '.join(usual)}, not {wrong[0]!r}")
    if chosen.replicas < 2:
        parser.error(f"a standard error takes two replicas or more, not {chosen.replicas}")
    chosen.patterns = [int(number) for number in chosen.patterns.split(",")]
    chosen.data = chosen.data.split(",")
    return chosen


def trained(data: Dataset, hidden: int, patterns: int, rounding: Precision, how: Namespace) -> Machine:
    """Replicas after the updates, or as many as whole epochs make."""
    machine = rbm(
        data.train.spins.shape[1],
        hidden,
        patterns,
        replicas=how.replicas,
        biases=True,
        scale=0.1,
        seed=how.seed,
        device=how.device,
    )
    epochs = max(1, round(how.updates / math.ceil(len(data.train) / how.batch)))
    trainer = Trainer(
        machine,
        data.train,
        Persistent(how.chains, how.sweeps),
        adam(how.rate, fall="linear"),
        epochs=epochs,
        batch_size=how.batch,
        seed=how.seed,
        precision=rounding,
    )
    for _ in range(epochs):
        trainer.finish_epoch()
    trainer.wait()
    if trainer.diverged():
        tell(f"replicas {trainer.diverged()} diverged")
    return machine.requires_grad_(False)


def measured(data: Dataset, name: str, patterns: int, rounding: Precision, how: Namespace) -> Row:
    """A row: the NLL of every replica, with its interval."""
    hidden = how.hidden or HIDDEN.get(name, USUAL_HIDDEN)
    began = time.perf_counter()
    machine = trained(data, hidden, patterns, rounding, how)
    middle = time.perf_counter()
    images = data.test.spins[: how.test_images]
    annealing = {"seed": how.seed, "chains": how.ais_chains, "most": how.temperatures, "data": images}
    with precision("float32"):
        z = log_z(machine, method="ais", **annealing)
        found = log_likelihood(machine, images, normaliser=z)
    row: Row = {
        "data": name,
        "patterns": patterns,
        "hidden": hidden,
        "precision": rounding,
        "nll": (-found.value).tolist(),
        "lower": (-found.upper).tolist(),
        "upper": (-found.lower).tolist(),
        "note": found.note,
        "seconds": middle - began,
        "seconds_likelihood": time.perf_counter() - middle,
    }
    if rounding == "float32" and len(how.precision) > 1:
        row["log_z"] = {}
        for other in how.precision:
            with precision(other):
                one = log_z(machine.replica(0), method="ais", **annealing)
            row["log_z"][other] = [float(x) for x in (one.value, one.lower, one.upper)]
    return row


def p_value(patterns: int, rounding: Precision, how: Namespace) -> float:
    """χ² of sampled states of a small machine, by as many patterns, against enumeration."""
    machine = rbm(*SMALL, patterns, biases=True, scale=0.7, seed=how.seed, device=how.device)
    machine.requires_grad_(False)

    def rounded(machine: Machine, spins: Tensor, rng: torch.Generator) -> Tensor:
        with precision(rounding):  # around the sweep alone: what it is compared with is not rounded
            return sweep(machine, spins, rng)

    return sampler_p_values(rounded, machine, sweeps=5, chains=how.samples, seed=how.seed)[0]


# -- what it comes to ------------------------------------------------------------------------------------


def mean_of(values: list[float]) -> tuple[float, float]:
    """Mean and standard error."""
    x = torch.tensor(values, dtype=torch.float64)
    return float(x.mean()), float(x.std() / len(x) ** 0.5)


def table(rows: list[Row]) -> dict[str, dict[str, float]]:
    """Means, their errors, and how far they lie from float32's; replicas are not paired."""
    exact = {(r["data"], r["patterns"]): mean_of(r["nll"]) for r in rows if r["precision"] == "float32"}
    told = {}
    for row in rows:
        mean, error = mean_of(row["nll"])
        best = exact.get((row["data"], row["patterns"]), (math.nan, math.nan))
        other = 0.0 if row["precision"] == "float32" else math.hypot(error, best[1])
        told[f"{row['data']}, K={row['patterns']}, {row['precision']}"] = {
            "test NLL": mean,
            "standard error": error,
            "above float32": mean - best[0],
            "error of that": other,
            "widest interval": max(b - a for a, b in zip(row["lower"], row["upper"], strict=True)),
            "seconds to train": row["seconds"],
        }
    return told


def verdict(told: dict[str, dict[str, float]], name: str, p_values: dict[str, float]) -> str:
    """In a line, of one precision against float32: all data and K together, then each that is worse."""
    mine = {key: row for key, row in told.items() if key.endswith(f", {name}")}
    known = {k: r for k, r in mine.items() if not math.isnan(r["above float32"])}
    wrong = [key for key, p in p_values.items() if key.endswith(f", {name}") and p < LEAST_P]
    sampled = f"; sampled states are wrong: {', '.join(wrong)}" if wrong else ""
    if not known:
        return f"{name}: nothing to compare with{sampled}"
    mean = sum(r["above float32"] for r in known.values()) / len(known)
    error = math.sqrt(sum(r["error of that"] ** 2 for r in known.values())) / len(known)
    said = "worse" if mean > SURE * error else "better" if mean < -SURE * error else "no different"
    words = f"{name}: {said}, {mean:+.3f} ± {error:.3f} nats over {len(known)} settings"
    worse = [k for k, r in known.items() if r["above float32"] > SURE * r["error of that"]]
    return words + (f"; worse alone: {', '.join(worse)}" if worse else "") + sampled


def settings(how: Namespace) -> Row:
    return {name: getattr(how, name) for name in EQUAL}


def joined(how: Namespace) -> tuple[list[Row], dict[str, float]]:
    """Rows and p-values of earlier files, which must have the same settings."""
    rows: list[Row] = []
    p_values: dict[str, float] = {}
    for path in how.earlier:
        found = json.loads(path.read_text())
        apart = [k for k, v in settings(how).items() if found["settings"][k] != v]
        if apart:
            sys.exit(f"{path} was measured with another {', '.join(apart)}; leave it out")
        rows += found["rows"]
        p_values |= found["p_values"]
    return rows, p_values


def run(words: Sequence[str] = ()) -> dict[str, dict[str, float]]:
    how = arguments(words)
    rows, p_values = joined(how)
    with quiet():
        for rounding in how.precision:
            for patterns in how.patterns:
                p_values[f"K={patterns}, {rounding}"] = p_value(patterns, rounding, how)
        for name in how.data:
            data = load(name)
            for patterns in how.patterns:
                for rounding in how.precision:
                    row = measured(data, name, patterns, rounding, how)
                    same = ("data", "patterns", "precision")
                    rows = [r for r in rows if any(r[k] != row[k] for k in same)] + [row]
                    told = f"{name}, K={patterns}, {rounding}: {mean_of(row['nll'])[0]:.3f}"
                    tell(told, row["note"])
                    if how.out is not None:
                        keep(how, rows, p_values)
    whole = table(rows)
    for line in lines(whole, rows, p_values):
        tell(line)
    return whole


def lines(
    told: dict[str, dict[str, float]], rows: list[Row], p_values: dict[str, float]
) -> Iterable[str]:
    """log Z side by side, χ², verdicts."""
    for row in rows:
        for name, (value, low, high) in row.get("log_z", {}).items():
            yield (
                f"log Z of one machine of {row['data']}, K={row['patterns']}, by {name}: "
                f"{value:.3f} [{low:.3f}, {high:.3f}]"
            )
    yield from (f"χ² against enumeration, {key}: p = {p:.3g}" for key, p in p_values.items())
    for name in PRECISIONS:
        if name != "float32" and any(row["precision"] == name for row in rows):
            yield verdict(told, name, p_values)


def keep(how: Namespace, rows: list[Row], p_values: dict[str, float]) -> None:
    told = table(rows)
    verdicts = [x for x in lines(told, rows, p_values) if x.split(":")[0] in PRECISIONS]
    device = torch.cuda.get_device_name(how.device) if how.device.type == "cuda" else "cpu"
    found = {
        "device": device,
        "torch": torch.__version__,
        "settings": settings(how),
        "rows": rows,
        "p_values": p_values,
        "table": {
            k: {n: None if math.isnan(x) else x for n, x in row.items()} for k, row in told.items()
        },
        "verdicts": verdicts,
    }
    write(how.out, found)
