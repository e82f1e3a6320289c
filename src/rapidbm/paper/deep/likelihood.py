"""Restricted, deep and full machines of about as many parameters, trained alike on static MNIST.

Persistent chains that start anew now and then, centred gradients, mean field for hidden units that are
coupled to each other. Of such a machine

    log p(v) ≥ B(v) − log Z,        B the variational bound at the means of mean field          (1)

over all test images, with the interval of log Z; what (1) lacks, the gap, is annealed with the images
held, on the first `gap_images` of them. Samples are drawn from random starts, and each is of the class of
the nearest training image of MNIST.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from ...data.catalogue import load
from ...data.splits import Dataset
from ...likelihood.log_z import log_bound, log_likelihood, log_z
from ...machines.machine import Machine
from ...runs.recipe import Recipe
from ...sampling.gibbs import sweeps
from ...training.trainer import Trainer
from ..claims import Finding, all_of, claim
from ..drawing import Figure, item, panels, tiles
from ..lab import Lab, Part, Settings, by_scale, shortened
from ..records import Records, Values, pack

NAMES = {
    "rbm": "restricted, RA",
    "dbm": "deep, RA",
    "dbm3": "three hidden layers, RA",
    "dbm-layerwise": "deep, RA, from a restricted one",
    "bm": "full, RA",
    "dense-rbm": "restricted, dense",
    "dense-dbm": "deep, dense",
}
CLASSES, MOST = 10, 0.25  # of samples: classes that there are, and the share of the largest, at most
GOOD = 95.0  # nats: the negative log-likelihood of a full machine
NARROW = 1.0  # nats: an interval


@dataclass(frozen=True, kw_only=True)
class Scale(Settings):
    dataset: str = by_scale(tiny="digits", quick="mnist-static", paper="mnist-static")
    train: int | None = by_scale(tiny=300, quick=5000, paper=None)  # images; None takes all
    test: int | None = by_scale(tiny=50, quick=1000, paper=None)
    hidden: int = by_scale(tiny=10, quick=200, paper=1000)  # units in all, of full machines half
    patterns: int = by_scale(tiny=2, quick=60, paper=222)
    dense_hidden: int = by_scale(tiny=6, quick=110, paper=500)
    updates: int = by_scale(tiny=12, quick=2000, paper=60_000)
    full_updates: int = by_scale(tiny=20, quick=1500, paper=40_000)  # of full machines
    batch_size: int = by_scale(tiny=50, quick=100, paper=500)
    particles: int = by_scale(tiny=20, quick=100, paper=1000)
    sweeps: int = by_scale(tiny=1, quick=1, paper=10)
    lifetime: int = by_scale(tiny=10, quick=500, paper=1000)
    rate: float = by_scale(tiny=3e-3, quick=3e-3, paper=1e-3)
    full_rate: float = by_scale(tiny=3e-3, quick=2e-3, paper=5e-4)
    dense_rate: float = by_scale(tiny=3e-3, quick=1e-3, paper=4e-4)
    decay: float = 0.003
    iterations: int = 10  # of mean field, in training
    chains: int = by_scale(tiny=20, quick=100, paper=500)  # of annealing
    temperatures: int = by_scale(tiny=300, quick=2000, paper=6000)  # at most
    gap_images: int = by_scale(tiny=5, quick=50, paper=500)
    samples: int = by_scale(tiny=20, quick=200, paper=1000)
    sample_sweeps: int = by_scale(tiny=20, quick=500, paper=2000)


def _shape(scale: Scale, name: str) -> dict[str, Any]:
    """The machine, of about K (V + H) parameters whatever it is."""
    h, k, flat = scale.hidden, scale.patterns, scale.dense_hidden
    half, third = h // 2, h * 3 // 10
    shapes: dict[str, dict[str, Any]] = {
        "rbm": {"model": "rbm", "hidden": (h,), "patterns": k},
        "dbm": {"model": "dbm", "hidden": (half, half), "patterns": k},
        "dbm3": {"model": "dbm", "hidden": (h - 2 * third, third, third), "patterns": k},
        "dbm-layerwise": {"model": "dbm", "hidden": (half, half), "patterns": k},
        "bm": {"model": "bm", "hidden": (half,), "patterns": k * 4 // 3, "rate": (scale.full_rate,)},
        "dense-rbm": {"model": "rbm", "hidden": (flat,), "patterns": None},
        "dense-dbm": {"model": "dbm", "hidden": (flat * 5 // 6, flat // 3), "patterns": None},
    }
    found = shapes[name]
    found.setdefault("rate", (scale.dense_rate if found["patterns"] is None else scale.rate,))
    return found


def _recipe(lab: Lab, scale: Scale, data: Dataset, name: str, updates: int) -> Recipe:
    chosen = _shape(scale, name)
    if chosen["model"] != "rbm":
        chosen |= {"positive": "meanfield", "positive_steps": scale.iterations}
    return lab.recipe(
        scale.dataset,
        "auto",
        particles=scale.particles,
        sweeps=scale.sweeps,
        lifetime=scale.lifetime,
        batch_size=scale.batch_size,
        weight_decay=(scale.decay,),
        metrics=("hamming",),  # not asked for: the end is judged here
        epochs=max(1, round(updates * scale.batch_size / len(data.train))),
        **chosen,
    )


def _trained(lab: Lab, scale: Scale, name: str) -> Values:
    data = shortened(load(scale.dataset), scale.train, scale.test)
    updates = scale.full_updates if name == "bm" else scale.updates
    start, rest = None, lab.within(0.0, 0.6)
    if name == "dbm-layerwise":
        updates //= 2  # of each of the two
        half = _recipe(lab, scale, data, name, updates)
        start, rest = first_layer(lab.within(0.0, 0.3), half, data), lab.within(0.3, 0.6)
    recipe = _recipe(lab, scale, data, name, updates)
    _, run = rest.train(recipe, {}, data=data, at=lambda epoch: False, start=start)
    machine = lab.machine(run)
    lab.keep(machine)
    found: Values = {
        "parameters": sum(p.numel() for p in machine.parameters()) // machine.replicas,
        "updates": run.info["update"],
        "seconds": run.info["seconds"],
    }
    found |= _judged(lab, scale, machine, data)
    lab.tell(0.8)
    return found | _samples(lab, scale, machine)


def first_layer(lab: Lab, recipe: Recipe, data: Dataset) -> Any:
    """Trains a restricted machine of the first two layers, from which the deep one of that recipe then
    starts, its other hidden layers hardly coupled."""
    whole: dict[str, Any] = {"model": "rbm", "hidden": recipe.hidden[:1], "positive": "auto"}
    _, run = lab.train(
        replace(recipe, **whole, positive_steps=None), {}, data=data, at=lambda epoch: False, name="first"
    )
    first = lab.machine(run)

    def start(trainer: Trainer) -> None:
        machine, n = trainer.machine, first.layers.units
        assert machine.patterns is not None
        assert machine.biases is not None
        assert first.patterns is not None
        assert first.biases is not None
        machine.patterns.data[..., :n] = first.patterns
        machine.patterns.data[..., n:] *= 0.1
        machine.biases.data[..., :n] = first.biases

    return start


@torch.no_grad()
def _judged(lab: Lab, scale: Scale, machine: Machine, data: Dataset) -> Values:
    """Eq. (1) of training and test images, exact but for log Z of a restricted machine, and the gap."""
    images = data.train.spins[:10_000]
    z = log_z(machine, seed=lab.seed, data=images, chains=scale.chains, most=scale.temperatures)
    found: Values = {"log_z": [z.value, z.lower, z.upper]}
    for part, split in (("train", images), ("test", data.test.spins)):
        if machine.layers.restricted:
            p = log_likelihood(machine, split, normaliser=z)
        else:
            p = log_bound(machine, split, z)
        found[f"bound_{part}"] = [p.value, p.lower, p.upper]
    if not machine.layers.restricted:
        images = data.test.spins[: scale.gap_images]
        some = log_likelihood(machine, images, normaliser=z, seed=lab.seed)
        found["gap"] = some.value - log_bound(machine, images, z).value
    return found


@torch.no_grad()
def _samples(lab: Lab, scale: Scale, machine: Machine) -> Values:
    """Samples from random starts, the shares of their classes, and how far they are from the images."""
    rng = lab.rng("samples")
    machine = machine.float()
    drawn = sweeps(machine, machine.random(scale.samples, rng), rng, scale.sample_sweeps)
    spins = drawn[0, :, : machine.visible]
    named = load("digits" if scale.dataset == "digits" else "mnist")
    known = named.train.take(slice(0, 20_000))
    assert known.labels is not None
    overlap = spins.float() @ known.spins.to(spins.device, torch.float32).mT
    label = known.labels.to(spins.device)[overlap.argmax(1)]
    shares = label.bincount(minlength=CLASSES).double() / len(label)
    return {
        "classes": shares,
        "pictures": pack(spins[:60]),
        "shape": list(named.shape),
        "energy_samples": machine.energy(drawn).mean(1),
    }


PARTS = {name: Part(_trained, (name,)) for name in NAMES}


def _nll(record: Any, part: str = "test") -> tuple[float, float, float]:
    """Value and ends of the interval, in nats per image, the optimistic end first."""
    value, low, high = (-float(x[0]) for x in record[f"bound_{part}"])
    return value, high, low


def _told(records: Records) -> str:
    rows = []
    for name, words in NAMES.items():
        record = records.get(f"deep-mnist.{name}")
        if record is None:
            continue
        value, low, high = _nll(record)
        gap = f", gap {float(record['gap'][0]):.2f}" if "gap" in record.values else ""
        rows.append(
            f"{words} ({record['parameters']:,} parameters, {record['updates']:,} updates, "
            f"{record['seconds']:.0f} s): {value:.2f} [{low:.2f}, {high:.2f}]{gap}"
        )
    return (
        "Samples from random starts of machines of about as many parameters, trained alike. Negative "
        "log-likelihood of the test images, in nats, with the interval of log Z, of machines with "
        f"coupled hidden units the variational bound: {'; '.join(rows)}."
    )


@item("Deep and full machines on MNIST", ("deep-mnist",), _told)
def deep_mnist(records: Records) -> Figure:
    seen = {n: r for n in NAMES if (r := records.get(f"deep-mnist.{n}")) is not None}
    fig, axes = panels(2, -(-len(seen) // 2), height=1.25)
    for place, (name, record) in zip(axes, seen.items(), strict=False):
        title = f"{NAMES[name]}: {_nll(record)[0]:.1f} nats"
        tiles(place, record["pictures"][:40], record["shape"], 20, title)
    for place in axes[len(seen) :]:
        place.set_axis_off()
    return fig


@claim(("deep-mnist.rbm", "deep-mnist.dbm"), ("deep-mnist.dbm3", "deep-mnist.dbm-layerwise"), full=True)
def deep_likelihood(records: Records) -> Finding:
    """Sec. VI: RAPID should “bring the long-sought-after efficient algorithms for training deep
    Boltzmann machines”.
    Read as: The pessimistic end of the negative log-likelihood of a deep machine with Regularized
    Axons, against that of a restricted one with as many parameters.
    Rule: Not above it, exactly: ends of intervals have their errors in them."""
    ends = {n: _nll(r)[2] for n in NAMES if (r := records.get(f"deep-mnist.{n}")) is not None}
    deep = {n: x for n, x in ends.items() if n != "rbm"}
    best = min(deep, key=lambda n: deep[n])
    told = ", ".join(f"{NAMES[n]} {x:.2f}" for n, x in ends.items())
    return Finding(deep[best] <= ends["rbm"], f"pessimistic ends: {told}")


@claim(("deep-mnist.bm",), full=True)
def deep_full(records: Records) -> Finding:
    """Sec. VI: The same is hoped of fully connected machines.
    Read as: Test likelihood of a full machine with hidden units, and classes of its samples from random
    starts, by the nearest training image.
    Rule: At most {GOOD} nats, exactly, at the pessimistic end of an interval at most {NARROW} wide;
    {CLASSES} classes, none above {MOST} of the samples."""
    record = records["deep-mnist.bm"]
    value, low, high = _nll(record)
    each = record.array("classes")
    return Finding(
        all_of(high <= GOOD, high - low <= NARROW, bool((each > 0).all()), bool(each.max() <= MOST)),
        f"{value:.2f} [{low:.2f}, {high:.2f}]; shares of classes {each.min():.3f} to {each.max():.3f}",
    )
