"""What depth, couplings within layers, the positive phase and centring are worth, on small images.

Machines of about as many parameters are trained alike by persistent chains, and one thing at a time is
another: how deep, how connected, how units are shared out between layers, where the second one starts,
what infers the hidden units, whether gradients are centred, whether a first layer is trained before the
rest. Of test images

    log p(v) = log Σ_h exp(−E(v, h)) − log Z,    gap: by how much mean field's bound lies below   (1)

the sum over hidden units annealed with the image held, with an interval; and τ of `mixing`. Digits have
all of it. On bars, and on bars and stripes, machines of one, two and three hidden layers are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rapidbm.data.catalogue import load
from rapidbm.data.splits import Dataset
from rapidbm.likelihood.log_z import log_bound, log_likelihood, log_z
from rapidbm.pictures import PENS, label, panels
from rapidbm.runs.recipe import Recipe

from ..claims import Finding, Number, claim
from ..drawing import Axes, Figure, item
from ..lab import Lab, Settings, by_scale, each, shortened
from ..records import Records, Values
from .mixing import forgetting
from .shapes import Sizes, first_layer, settings_of

NAMES = {
    "rbm": "restricted",
    "rbm-most": "restricted, 4/5 of the hidden units",
    "rbm-half": "restricted, half of them",
    "dbm": "deep, 4/5 and 1/5",
    "dbm-strong": "the same, layers of one strength at the start",
    "dbm-even": "deep, half and half",
    "dbm-clamped": "deep, hidden units by clamped chains",
    "dbm-plain": "deep, gradients not centred",
    "dbm-layerwise": "deep, from a restricted one",
    "dbm3": "three hidden layers",
    "bm": "full",
    "bm-clamped": "full, hidden units by clamped chains",
    "bm-visible": "full, no hidden units",
    "dense-rbm": "restricted, dense",
    "dense-dbm": "deep, dense",
    "dense-dbm3": "three hidden layers, dense",
    "dense-bm": "full, dense",
}
TASKS = {"bars": "4×4 bars", "bas": "12×12 bars and stripes"}
KINDS = ("rbm", "dbm", "dbm3", "dense-rbm", "dense-dbm", "dense-dbm3")  # of these tasks


@dataclass(frozen=True, kw_only=True)
class Scale(Settings):
    train: int | None = by_scale(tiny=100, quick=None, paper=None)  # images; None takes all
    test: int | None = by_scale(tiny=20, quick=None, paper=None)
    instances: int = by_scale(tiny=2, quick=2, paper=5)
    hidden: int = by_scale(tiny=10, quick=100, paper=100)  # units in all, of full machines half
    patterns: int = by_scale(tiny=3, quick=40, paper=40)
    epochs: int = by_scale(tiny=2, quick=200, paper=200)
    batch_size: int = by_scale(tiny=50, quick=100, paper=100)
    particles: int = by_scale(tiny=10, quick=200, paper=200)
    sweeps: int = by_scale(tiny=1, quick=2, paper=2)
    lifetime: int = by_scale(tiny=10, quick=500, paper=500)
    rate: float = 3e-3
    dense_rate: float = 1e-3
    decay: float = 0.05
    bars_hidden: int = by_scale(tiny=10, quick=30, paper=30)
    bars_patterns: int = by_scale(tiny=3, quick=10, paper=10)
    bars_epochs: int = by_scale(tiny=2, quick=2000, paper=4000)  # an update each
    bas_size: int = by_scale(tiny=4, quick=12, paper=12)
    bas_hidden: int = by_scale(tiny=10, quick=200, paper=200)
    bas_patterns: int = by_scale(tiny=3, quick=60, paper=60)
    bas_epochs: int = by_scale(tiny=1, quick=20, paper=150)
    bas_sweeps: int = by_scale(tiny=1, quick=5, paper=10)
    bas_rate: float = 1e-3
    bas_dense_rate: float = 5e-4
    bas_decay: float = 0.003
    temperatures: int = by_scale(tiny=40, quick=10_000, paper=10_000)  # of annealing, at most
    chains: int = by_scale(tiny=4, quick=100, paper=100)  # of which τ is measured
    settle: int = by_scale(tiny=5, quick=300, paper=300)
    record: int = by_scale(tiny=8, quick=1000, paper=1000)  # sweeps


@dataclass(frozen=True)
class Task:
    """Images, and the machines and trainings that suit them."""

    dataset: str
    hidden: int
    patterns: int
    epochs: int
    sweeps: int
    rate: float
    dense_rate: float
    decay: float


def _task(scale: Scale, name: str) -> tuple[Task, str]:
    """What a part is about, and its machine's name."""
    words, _, rest = name.partition("-")
    if words == "bars":
        sizes = scale.bars_hidden, scale.bars_patterns, scale.bars_epochs
        return Task("bars4", *sizes, scale.sweeps, scale.rate, scale.dense_rate, 0.0), rest
    if words == "bas":
        sizes = scale.bas_hidden, scale.bas_patterns, scale.bas_epochs
        rates = scale.bas_rate, scale.bas_dense_rate, scale.bas_decay
        return Task(f"bas{scale.bas_size}", *sizes, scale.bas_sweeps, *rates), rest
    sizes = scale.hidden, scale.patterns, scale.epochs
    return Task("digits", *sizes, scale.sweeps, scale.rate, scale.dense_rate, scale.decay), name


def _recipe(lab: Lab, scale: Scale, data: Dataset, task: Task, name: str) -> Recipe:
    shared = task.hidden, task.hidden // 2, task.patterns, task.rate, task.dense_rate
    sizes = Sizes(data.visible, *shared)
    return lab.recipe(
        task.dataset,
        "auto",
        particles=scale.particles,
        sweeps=task.sweeps,
        lifetime=scale.lifetime,
        batch_size=scale.batch_size,
        weight_decay=(task.decay,),
        replicas=scale.instances,
        epochs=max(1, task.epochs // (2 if name == "dbm-layerwise" else 1)),
        metrics=("hamming",),  # not asked for: the end is judged here
        **settings_of(name, sizes),
    )


def _trained(lab: Lab, scale: Scale, part: str) -> Values:
    task, name = _task(scale, part)
    data = shortened(load(task.dataset), scale.train, scale.test)
    recipe, start, rest = _recipe(lab, scale, data, task, name), None, lab.within(0.0, 0.5)
    if name == "dbm-layerwise":
        start, rest = first_layer(lab.within(0.0, 0.25), recipe, data), lab.within(0.25, 0.5)
    _, run = rest.train(recipe, {}, data=data, at=lambda epoch: False, start=start)
    machine = lab.machine(run)
    found: Values = {
        "parameters": sum(p.numel() for p in machine.parameters()) // machine.replicas,
        "updates": run.info["update"],
        "seconds": run.info["seconds"],
    }
    z = log_z(machine, seed=lab.seed, data=data.train, most=scale.temperatures)
    p = log_likelihood(machine, data.test, normaliser=z, seed=lab.seed)
    found |= {"test": p.value, "width": p.upper - p.lower}
    found |= {"train": log_bound(machine, data.train, z).value}
    if p.gap is not None:
        found["gap"] = p.gap
    lab.tell(0.8)
    sizes = {"chains": scale.chains, "settle": scale.settle, "record": scale.record}
    return found | {"time": forgetting(machine, data, lab.rng("mixing"), **sizes)}


OTHERS = {f"{task}-{kind}": f"{TASKS[task]}: {NAMES[kind]}" for task in TASKS for kind in KINDS}
PARTS = each(_trained, (*NAMES, *OTHERS))


def _of(records: Records, name: str, key: str) -> Number | None:
    record = records.get(f"deep-digits.{name}")
    return None if record is None or key not in record.values else Number.of(record.array(key))


def _listed(records: Records, names: Mapping[str, str], key: str) -> str:
    """In words, log p of training or of test images."""
    rows = []
    for name, words in names.items():
        if (value := _of(records, name, key)) is None:
            continue
        gap, record = _of(records, name, "gap"), records[f"deep-digits.{name}"]
        more = "" if gap is None else f", gap {gap}"
        width = float(record.array("width").max())
        numbers = f"{words} ({record['parameters']:,} parameters): {value}{more}"
        rows.append(f"{numbers}, intervals up to {width:.2f} wide")
    return f"Means and standard errors over instances: {'; '.join(rows)}."


def _rows(axes: Axes, records: Records, names: Mapping[str, str], key: str, *, named: bool) -> None:
    """A row for each machine."""
    for i, name in enumerate(names):
        number = _of(records, name, key)
        if number is not None:
            error = number.error if number.count > 1 else 0.0
            pen = PENS[1 if "dense" in name else 0]
            axes.errorbar([number.value], [-i], xerr=[error], color=pen.colour, marker=pen.marker)
    axes.set_ylim(-len(names) + 0.5, 0.5)
    axes.set_yticks([-i for i in range(len(names))], names.values() if named else [""] * len(names))


def _summary(records: Records) -> str:
    return (
        "Machines of about as many parameters, but for the two that say otherwise, trained alike on "
        "digits. (a) log p of test images in nats; (b) by how much the bound of mean field lies below "
        "it; (c) sweeps after which chains have forgotten where they were. "
        f"{_listed(records, NAMES, 'test')}"
    )


@item(
    "What depth and couplings within layers add", tuple(f"deep-digits.{name}" for name in NAMES), _summary
)
def deep_digits(records: Records) -> Figure:
    seen = {n: words for n, words in NAMES.items() if f"deep-digits.{n}" in records}
    fig, axes = panels(3, height=1.0 + 0.18 * len(seen))
    keys = {"test": "log p", "gap": "variational gap", "time": "τ, sweeps"}
    for place, letter, (key, words) in zip(axes, "abc", keys.items(), strict=True):
        _rows(place, records, seen, key, named=letter == "a")
        label(place, words, "", f"({letter})")
    for place in axes[1:]:
        place.set_xlim(left=0)
    return fig


def _told_of_bars(records: Records) -> str:
    return (
        "One, two and three hidden layers of about as many parameters, trained alike. log p of training "
        "images in nats, of deep machines its lower bound: (a) 10 bars, −2.30 at best; (b) bars and "
        f"stripes, of which there are 8,188, −9.01. {_listed(records, OTHERS, 'train')}"
    )


@item("Depth on bars and stripes", tuple(f"deep-digits.{name}" for name in OTHERS), _told_of_bars)
def deep_bars(records: Records) -> Figure:
    fig, axes = panels(2, height=2.0)
    for place, letter, (task, words) in zip(axes, "ab", TASKS.items(), strict=True):
        names = {f"{task}-{kind}": NAMES[kind] for kind in KINDS}
        _rows(place, records, names, "train", named=letter == "a")
        label(place, "log p", "", f"({letter}) {words}")
    return fig


@claim(
    ("deep-digits.rbm", "deep-digits.dbm", "deep-digits.dbm-layerwise", "deep-digits.dbm3"),
    ("deep-digits.rbm-most",),
)
def deep_adds(records: Records) -> Finding:
    """Sec. VI: RAPID, or variations of it, should bring efficient training to deep machines.
    Read as: Test log p of a deep machine with Regularized Axons, the best of two and three hidden layers,
    from scratch and from a restricted one, less that of a restricted machine of as many parameters.
    Rule: Above 0 by 2 σ."""
    flat = records["deep-digits.rbm"].array("test")
    deep = {n: records[f"deep-digits.{n}"].array("test") for n in ("dbm", "dbm-layerwise", "dbm3")}
    less = {name: Number.of(rows) - Number.of(flat) for name, rows in deep.items()}
    best = max(less, key=lambda name: less[name].value)
    told = ", ".join(f"{NAMES[name]} {number}" for name, number in less.items())
    note, first = "", records.get("deep-digits.rbm-most")
    if first is not None:
        added = Number.of(records["deep-digits.dbm"].array("test")) - Number.of(first.array("test"))
        note = f"Over its first layer alone the deep one has {added}."
    return Finding(less[best].above(0.0), f"less the restricted one's {Number.of(flat)}: {told}", note)
