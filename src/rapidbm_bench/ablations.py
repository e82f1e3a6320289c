"""Where the nats are: one thing of a training is changed at a time, at equal cost, and judged by the
validation part.

The cost is counted in sweeps of a chain; the gradient of a configuration takes as many multiplications,

    cost = Σ_updates  chains · sweeps + chains in the gradient + images                     (1)

so that a variant whose updates cost r times those of the base makes 1/r as many, at √r times the rate.
Of the base, and where the rate is in question, several rates are tried and the best counts. Every variant
has `--seeds` replicas; log Z is annealed both ways from the data's marginals. Rows that `--out` holds
already are not made again, and the test part is looked at with `--test` alone.

    python -m benchmarks ablations --data digits --seeds 5 --out digits.json
    python -m benchmarks ablations --data mnist --kind patterns --variants "base;centred"
"""

import json
import math
import statistics
import time
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from rapidbm.data.splits import Dataset
from rapidbm.errors import InputError
from rapidbm.estimates import Bounds, Estimate
from rapidbm.likelihood.exact import can_be_exact
from rapidbm.likelihood.log_z import log_likelihood, log_z
from rapidbm.machines.machine import Machine
from rapidbm.progress import quiet
from rapidbm.random import stream
from rapidbm.runs.recipe import Recipe
from rapidbm.sampling import annealing
from rapidbm.sampling.bases import marginals
from rapidbm.sampling.gibbs import sweeps
from rapidbm.sampling.paths import Cooling
from rapidbm.training.trainer import Trainer

from .altered import Centred, Decaying, Noisy, Sided, covariance_metric, smooth_metric
from .running import Row, option_parser

ROWS, VALID = 10_000, 5000  # of mnist
SETTLE = 50  # sweeps between the two directions of annealing
EXACT = 2**16  # terms of a sum that cost less than annealing
BOTH = ("patterns", "dense")


@dataclass(frozen=True)
class Size:
    """The base of a data set."""

    hidden: int
    patterns: int
    updates: int
    decay: float
    rates: Mapping[str, float]


SIZES = {
    "digits": Size(100, 40, 2000, 0.1, {"patterns": 5e-3, "dense": 2e-3}),
    "mnist": Size(100, 50, 1500, 0.03, {"patterns": 5e-3, "dense": 2e-3}),
}


@dataclass(frozen=True)
class Variant:
    """What differs from the base: settings of the recipe, or a trainer and what it is told."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    rates: tuple[float, ...] = (1.0,)  # times the usual
    kind: type[Trainer] = Trainer
    told: Mapping[str, Any] = field(default_factory=dict)
    scale: float = 1.0  # of the start, times the usual
    average: float | None = None  # of the updates
    betas: tuple[float, float] | None = None
    of: tuple[str, ...] = BOTH


BARE = {"weight_decay": (0.0,)}
VARIANTS = {
    "base": Variant(rates=(0.5, 1.0, 2.0)),
    # lag of the chains
    "sweeps 3": Variant({"sweeps": 3}),
    "sweeps 10": Variant({"sweeps": 10}),
    "chains 300": Variant({"particles": 300}),
    "chains 1000": Variant({"particles": 1000}),
    "tempering, 4 × 50": Variant({"negative": "pt", "particles": 50, "rungs": 4}),
    "cd 1": Variant({"negative": "cd", "particles": None}),
    # noise
    "no fall": Variant({"fall": "none"}, (0.5, 1.0)),
    "cosine": Variant({"fall": "cosine"}),
    "average": Variant(average=0.1),
    "no fall, average": Variant({"fall": "none"}, (0.5, 1.0), average=0.1),
    "batch 300": Variant({"batch_size": 300}),
    "batch 1000": Variant({"batch_size": 1000}),
    # conditioning
    "centred": Variant(kind=Centred, rates=(0.5, 1.0, 2.0)),
    "hidden patterns × 1/3": Variant(kind=Sided, told={"faster": 1 / 3}, of=("patterns",)),
    "hidden patterns × 3": Variant(kind=Sided, told={"faster": 3.0}, of=("patterns",)),
    "betas 0.9, 0.99": Variant(betas=(0.9, 0.99)),
    "start × 1/3": Variant(scale=1 / 3),
    "start × 3": Variant(scale=3.0),
    # regularisation
    "decay 0": Variant(BARE),
    "decay 0.03": Variant({"weight_decay": (0.03,)}),
    "decay 0.1": Variant({"weight_decay": (0.1,)}),
    "decay 0.3": Variant({"weight_decay": (0.3,)}),
    "decay of J 0.1": Variant(BARE, kind=Decaying, told={"decay": 0.1}, of=("patterns",)),
    "decay of J 0.5": Variant(BARE, kind=Decaying, told={"decay": 0.5}, of=("patterns",)),
    "covariance 0.03": Variant(BARE, kind=Decaying, told={"metric": "covariance", "decay": 0.03}),
    "covariance 0.1": Variant(BARE, kind=Decaying, told={"metric": "covariance", "decay": 0.1}),
    "covariance 0.3": Variant(BARE, kind=Decaying, told={"metric": "covariance", "decay": 0.3}),
    "smooth 0.1": Variant(BARE, kind=Decaying, told={"metric": "smooth", "decay": 0.1}),
    "smooth 0.3": Variant(BARE, kind=Decaying, told={"metric": "smooth", "decay": 0.3}),
    "noise 0.01": Variant(kind=Noisy, told={"flips": 0.01}),
    # beside what won
    "centred, decay 0": Variant(BARE, (2.0,), Centred),
    "centred, decay 0.3": Variant({"weight_decay": (0.3,)}, (2.0,), Centred),
    "centred, sweeps 3": Variant({"sweeps": 3}, (2.0,), Centred),
    "centred, cd 1": Variant({"negative": "cd", "particles": None}, (2.0,), Centred),
}


def arguments(words: Sequence[str] = ()) -> Namespace:
    parser = option_parser(__name__, __doc__)
    parser.add_argument("--data", default="digits", choices=tuple(SIZES))
    parser.add_argument("--kind", default="both", choices=("both", *BOTH))
    parser.add_argument("--seeds", type=int, default=5, help="replicas of each variant")
    parser.add_argument("--hidden", type=int)
    parser.add_argument("--patterns", type=int)
    parser.add_argument("--updates", type=int, help="of the base")
    parser.add_argument("--rate", type=float, help="of the base")
    parser.add_argument("--decay", type=float, help="of the base")
    parser.add_argument("--variants", default="all", help="names, with semicolons between; or all")
    parser.add_argument("--valid", type=float, default=0.2, help="share to hold out, of digits")
    parser.add_argument("--ais-chains", type=int, default=200)
    parser.add_argument("--temperatures", type=int, default=1000, help="at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--test", action="store_true", help="look at the test part too")
    parser.add_argument("--out", type=Path, help="a JSON file for all of it")
    how = parser.parse_args(words)
    size = SIZES[how.data]
    for name in ("hidden", "patterns", "updates", "decay"):
        if getattr(how, name) is None:
            setattr(how, name, getattr(size, name))
    how.rates = dict(size.rates) if how.rate is None else dict.fromkeys(BOTH, how.rate)
    return how


def chosen(how: Namespace) -> list[tuple[str, str]]:
    """Kind and variant of every row."""
    names = list(VARIANTS) if how.variants == "all" else how.variants.split(";")
    for name in names:
        if name not in VARIANTS:
            raise InputError(f"there is no variant {name!r}; known are {'; '.join(VARIANTS)}")
    kinds = BOTH if how.kind == "both" else (how.kind,)
    return [(kind, name) for kind in kinds for name in names if kind in VARIANTS[name].of]


def data_of(how: Namespace) -> Dataset:
    """Digits with a held-out share, or a part of MNIST's training images."""
    data = Recipe.made(how.data, {"valid": how.valid if how.data == "digits" else None}).data()
    if how.data != "mnist":
        return data
    order = torch.randperm(len(data.train), generator=stream(0, "ablations"))
    rows, held = order[:ROWS], order[ROWS : ROWS + VALID]
    return replace(data, train=data.train.take(rows), valid=data.train.take(held))


def recipe_of(how: Namespace, kind: str, variant: Variant) -> Recipe:
    """`seeds` replicas of each rate."""
    rates = tuple(how.rates[kind] * factor for factor in variant.rates for _ in range(how.seeds))
    settings: dict[str, Any] = {
        "hidden": (how.hidden,),
        "patterns": how.patterns if kind == "patterns" else None,
        "replicas": len(rates),
        "rate": rates if len(variant.rates) > 1 else rates[:1],
        "weight_decay": (how.decay,),
        "scale": variant.scale * (0.1 if kind == "patterns" else 0.01),
        "particles": 100,
        "sweeps": 1,
        "batch_size": 100,
        "fall": "linear",
        "seed": how.seed,
        "device": "cpu",
    }
    return Recipe.made(how.data, {**settings, **variant.settings}, "auto")


def cost_of(recipe: Recipe, rows: int) -> int:
    """Eq. (1) for an epoch of so many images."""
    updates = math.ceil(rows / recipe.batch_size)
    if recipe.negative == "cd":
        return rows * (1 + (recipe.sweeps or 1)) + rows
    drawn = (recipe.particles or 0) * (recipe.rungs or 1) * (recipe.sweeps or 1)
    return updates * (drawn + (recipe.particles or 0)) + rows


def trainer_of(how: Namespace, kind: str, variant: Variant, data: Dataset) -> Trainer:
    rows = len(data.train)
    base, recipe = recipe_of(how, kind, Variant()), recipe_of(how, kind, variant)
    usual, cost = (cost_of(r, rows) / math.ceil(rows / r.batch_size) for r in (base, recipe))
    per_epoch = math.ceil(rows / recipe.batch_size)
    epochs = max(1, round(how.updates * usual / (cost * per_epoch)))
    updates = epochs * per_epoch
    recipe = replace(recipe, rate=tuple(rate * math.sqrt(cost / usual) for rate in recipe.rate))
    optimizer: Any = recipe.optimizer_choice()
    if variant.betas is not None:
        optimizer = replace(optimizer, betas=variant.betas)
    trainer = variant.kind(
        recipe.machine(data, torch.device("cpu")),
        data.train.spins,
        recipe.negative_phase(),
        optimizer,
        epochs=epochs,
        batch_size=recipe.batch_size,
        average=None if variant.average is None else max(1, round(variant.average * updates)),
        seed=recipe.seed,
    )
    for name, value in variant.told.items():
        if name == "metric":
            made = {"covariance": lambda: covariance_metric(data.train.spins)}
            made["smooth"] = lambda: smooth_metric(data.shape)
            value = made[value]()
        setattr(trainer, name, value)
    return trainer


@torch.no_grad()
def normaliser(machine: Machine, spins: torch.Tensor, how: Namespace) -> Bounds:
    """log Z, exact or by annealing both ways from the marginals of these data, with ± 2 errors."""
    if can_be_exact(machine, EXACT):
        return log_z(machine, method="exact")
    path = Cooling(machine, marginals(machine, spins)[:1], exact=False)

    def rng(name: str) -> torch.Generator:
        return stream(how.seed, "ablations", name)

    betas = annealing.schedule(path, rng("schedule"), most=how.temperatures)
    there, ends = annealing.forward(path, betas, how.ais_chains, rng("forward"))
    drawn, apart = annealing.resample(ends, there, rng("draw"))
    settled = sweeps(machine, drawn, rng("settle"), SETTLE)
    back = annealing.backward(path, betas, settled, rng("back"))
    best = annealing.bennett(there, back, apart)
    one, two = annealing.LogMean.of(there), annealing.LogMean.of(back)
    low, high = best.value - 2 * best.error, best.value + 2 * best.error
    low, high = torch.minimum(low, one.value), torch.maximum(high, -two.value)
    effort = f"{len(betas)} temperatures"
    return Bounds(best.value, low, high, one.value, -two.value, best.ess, best.largest, "ais", effort)


def measured(how: Namespace, kind: str, name: str, data: Dataset) -> list[Row]:
    """A row for each rate of a variant: log p of the parts by seed."""
    variant = VARIANTS[name]
    trainer = trainer_of(how, kind, variant, data)
    began = time.perf_counter()
    for _ in trainer.together():
        pass
    seconds = time.perf_counter() - began
    machine = trainer.current()
    began = time.perf_counter()
    z = normaliser(machine, data.train.spins, how)
    looked = {part: s for part, s in data.parts.items() if part != "test" or how.test}
    p = {part: log_likelihood(machine, s.spins[:5000], normaliser=z).value for part, s in looked.items()}
    rest = {
        "kind": kind,
        "variant": name,
        "updates": trainer.update,
        "seconds": round(seconds, 2),
        "seconds_likelihood": round(time.perf_counter() - began, 2),
        "effort": z.effort,
    }
    rows = []
    for i, rate in enumerate(trainer.rates(0)[:: how.seeds]):
        mine = slice(i * how.seeds, (i + 1) * how.seeds)
        of = {part: [round(x, 3) for x in value[mine].tolist()] for part, value in p.items()}
        width = [round(x, 3) for x in (z.upper - z.lower)[mine].tolist()]
        lost = [j - mine.start for j in trainer.diverged() if j in range(*mine.indices(len(z.value)))]
        rows.append(rest | {"rate": rate, **of, "width": width, "diverged": lost})
    return rows


def summary(rows: list[Row], part: str = "valid") -> dict[tuple[str, str], Row]:
    """The best rate of every variant by its validation part, and how far it is from the base, each with
    the standard error over seeds. A variant at the usual rate alone is compared with the base at that."""
    tried: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        tried.setdefault((row["kind"], row["variant"]), []).append(row)
    told = {}
    for (kind, name), mine in tried.items():
        row, bases = best_of(mine), tried.get((kind, "base"), [])
        found = mean_of(row[part])
        told[kind, name] = {part: found, "gap": float(mean_of(row["train"]).value - found.value)}
        told[kind, name] |= {"rate": row["rate"], "updates": row["updates"], "width": max(row["width"])}
        if bases:
            usual = VARIANTS[name].rates == (1.0,) and len(bases) == len(VARIANTS["base"].rates)
            base = bases[VARIANTS["base"].rates.index(1.0)] if usual else best_of(bases)
            theirs = mean_of(base[part])
            error = math.hypot(float(found.error), float(theirs.error))
            told[kind, name]["less base"] = Estimate(found.value - theirs.value, torch.tensor(error))
    return told


def best_of(rows: list[Row]) -> Row:
    return max(rows, key=lambda row: statistics.mean(row["valid"]))


def mean_of(values: list[float]) -> Estimate:
    x = torch.tensor(values, dtype=torch.float64)
    return Estimate(x.mean(), x.std() / math.sqrt(len(x)) if len(x) > 1 else torch.tensor(math.nan))


WORSE, SAME, BETTER = "worse", "no difference", "better"


def verdict(each: Iterable[Estimate]) -> str:
    """By differences to bases, of several data: three standard errors count, and all have to agree."""
    told = set()
    for less in each:
        clear = abs(float(less.value)) > 3 * float(less.error)
        told.add((BETTER if less.value > 0 else WORSE) if clear else SAME)
    return told.pop() if len(told) == 1 else "mixed"


def table(records: Mapping[str, list[Row]]) -> list[str]:
    """Lines of Markdown: log p of the validation part of the bases, and what the variants add to it."""
    found = {name: summary(rows) for name, rows in records.items()}
    columns = [(name, kind) for name in found for kind in BOTH]
    lines = ["| variant | " + " | ".join(f"{name}, {kind}" for name, kind in columns) + " | verdict |"]
    lines.append("| --- |" + " --- |" * (len(columns) + 1))
    for variant in VARIANTS:
        rows = [found[name].get((kind, variant)) for name, kind in columns]
        if variant == "base":
            cells = ["" if r is None else f"{shown(r['valid'])} (gap {r['gap']:.2f})" for r in rows]
            lines.append(f"| base | {' | '.join(cells)} | |".replace("-", "−"))
        elif any(rows):
            cells = ["" if r is None else shown(r["less base"], "+") for r in rows]
            word = verdict(r["less base"] for r in rows if r is not None)
            lines.append(f"| {variant} | {' | '.join(cells)} | {word} |")
    return lines


def shown(x: Estimate, sign: str = "") -> str:
    return f"{float(x.value):{sign}.2f} ± {float(x.error):.2f}".replace("-", "−")


def run(words: Sequence[str] = ()) -> dict[str, dict[str, float]]:
    how = arguments(words)
    names, data = chosen(how), data_of(how)
    kept = {
        key: value for key, value in vars(how).items() if key not in ("out", "variants", "kind", "rate")
    }
    rows: list[Row] = []
    if how.out is not None and how.out.exists():
        found = json.loads(how.out.read_text())
        if found["settings"] != kept:
            raise InputError(f"{how.out} has other settings, {found['settings']}; give another file")
        rows = found["rows"]
    for kind, name in names:
        if any((row["kind"], row["variant"]) == (kind, name) for row in rows):
            continue
        with quiet():
            rows += measured(how, kind, name, data)
        if how.out is not None:
            lines = ",\n".join(json.dumps(row) for row in rows)
            how.out.write_text(f'{{"settings": {json.dumps(kept)},\n"rows": [\n{lines}\n]}}\n')
    told = {}
    for (kind, name), row in summary(rows).items():
        mine, less = row["valid"], row.get("less base")
        numbers = {"valid": float(mine.value), "error": float(mine.error)}
        if less is not None:
            numbers |= {"less base": float(less.value), "its error": float(less.error)}
        told[f"{kind}: {name}"] = numbers | {k: row[k] for k in ("gap", "rate", "updates", "width")}
    return told
