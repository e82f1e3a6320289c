"""Restricted, deep and full machines of about as many parameters, trained alike on static MNIST.

Persistent chains that start anew now and then, centred gradients, mean field or clamped chains for hidden
units that are coupled to each other. Of such a machine

    log p(v) ≥ B(v) − log Z,        B the variational bound at the means of mean field          (1)

over all test images. What B lacks, the gap, is annealed with the images held, on some of them, evenly
spaced (`likelihood/hidden_sums.py`), so that log p has an interval, with all errors in it. Samples are
drawn from random starts, and each is of the class of the nearest training image of MNIST; τ is that of
`mixing`; some trainings are watched as in `glass`. There chains are looked at over some hundred sweeps,
not much longer than τ is here; so at the end of trainings they are looked at over `WINDOWS` of sweeps as
well: what slow chains keep apart falls with the window, what a glass keeps apart stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from rapidbm.accel.devices import by_device
from rapidbm.data.catalogue import load
from rapidbm.data.splits import Dataset
from rapidbm.glass.overlaps import freezing
from rapidbm.glass.verdict import BROKEN
from rapidbm.likelihood.log_z import log_bound, log_likelihood, log_z
from rapidbm.machines.machine import Machine
from rapidbm.pictures import PENS, label, panels
from rapidbm.runs.recipe import Recipe
from rapidbm.sampling.gibbs import sweeps

from ..claims import Finding, Number, all_of, any_of, claim
from ..drawing import Figure, item, points, tiles
from ..lab import Lab, Part, Rows, Settings, by_scale, shortened
from ..records import Record, Records, Values, pack
from .glass import courses, watching
from .mixing import forgetting
from .shapes import Sizes, first_layer, settings_of

NAMES = {
    "rbm": "restricted, RA",
    "dbm": "deep, RA",
    "bm": "full, RA",
    "dbm-clamped": "deep, RA, clamped chains",
    "bm-clamped": "full, RA, clamped chains",
    "rbm-most": "restricted, RA, the deep one's first layer",
    "dense-rbm": "restricted, dense",
    "dense-dbm": "deep, dense",
    "bm-visible": "full, RA, no hidden units",
    "dbm3": "three hidden layers, RA",
    "dbm-even": "deep, RA, layers of one size",
    "dbm-layerwise": "deep, RA, from a restricted one",
    "dense-dbm3": "three hidden layers, dense",
}
WATCHED = ("rbm", "dbm", "bm", "dense-rbm", "dense-dbm")  # a dense full one is swept unit by unit
WINDOWS = (200, 1000, 3000)  # sweeps before chains are recorded, and as many that are
WINDOWED = ("rbm", "dbm", "bm", "dbm-clamped", "bm-clamped", "dense-rbm")
SHOWN = dict.fromkeys((*WATCHED, *WINDOWED))
LOOK = {name: (NAMES[name], pen) for name, pen in zip(SHOWN, PENS, strict=False)}
RECORDED, APART = 200, 32  # states of a window, chains
CLASSES, MOST = 10, 0.25  # of samples: classes that there are, and the share of the largest, at most
GOOD = 95.0  # nats: the negative log-likelihood of a full machine
NARROW = 1.0  # nats: an interval


@dataclass(frozen=True, kw_only=True)
class Scale(Settings):
    dataset: str = by_scale(tiny="digits", quick="mnist-static", paper="mnist-static")
    train: int | None = by_scale(tiny=300, quick=5000, paper=None)  # images; None takes all
    test: int | None = by_scale(tiny=50, quick=1000, paper=None)
    hidden: int = by_scale(tiny=10, quick=200, paper=1000)  # units in all
    full_hidden: int = by_scale(tiny=5, quick=50, paper=200)  # of full machines
    patterns: int = by_scale(tiny=2, quick=60, paper=222)
    updates: int = by_scale(tiny=12, quick=2000, paper=60_000)
    full_updates: int = by_scale(tiny=12, quick=1500, paper=20_000)  # of full machines
    batch_size: int = by_scale(tiny=50, quick=100, paper=500)
    particles: int = by_scale(tiny=20, quick=100, paper=1000)
    sweeps: int = by_scale(tiny=1, quick=1, paper=10)
    lifetime: int = by_scale(tiny=10, quick=500, paper=1000)
    rate: float = by_scale(tiny=3e-3, quick=3e-3, paper=1e-3)
    dense_rate: float = by_scale(tiny=3e-3, quick=1e-3, paper=4e-4)
    decay: float = 0.003
    chains: int = by_scale(tiny=20, quick=100, paper=1000)  # of annealing
    temperatures: int = by_scale(tiny=300, quick=2000, paper=10_000)  # at most
    samples: int = by_scale(tiny=20, quick=200, paper=1000)
    sample_sweeps: int = by_scale(tiny=20, quick=500, paper=2000)
    looks: tuple[int, ...] = by_scale(tiny=(1,), quick=(1, 5, 20), paper=(1, 4, 16, 64, 200))
    look_chains: int = by_scale(tiny=4, quick=16, paper=64)
    look_sweeps: int = by_scale(tiny=4, quick=50, paper=200)
    look_starts: int = by_scale(tiny=5, quick=30, paper=100)
    settle: int = by_scale(tiny=5, quick=100, paper=300)  # sweeps before τ is measured
    record: int = by_scale(tiny=8, quick=200, paper=1000)  # sweeps


def _recipe(lab: Lab, scale: Scale, data: Dataset, name: str) -> Recipe:
    sizes = scale.hidden, scale.full_hidden, scale.patterns, scale.rate, scale.dense_rate
    updates = scale.full_updates if name.startswith("bm") else scale.updates
    updates //= 2 if name == "dbm-layerwise" else 1  # of each of the two
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
        precision=by_device(lab.device, None, "bf16"),  # as trainings on a GPU have it
        **settings_of(name, Sizes(data.visible, *sizes)),
    )


def _trained(lab: Lab, scale: Scale, name: str) -> Values:
    data = shortened(load(scale.dataset), scale.train, scale.test)
    recipe, start, rest = _recipe(lab, scale, data, name), None, lab.within(0.0, 0.7)
    if name == "dbm-layerwise":
        start, rest = first_layer(lab.within(0.0, 0.3), recipe, data), lab.within(0.3, 0.7)
    looks = {"chains": scale.look_chains, "sweeps": scale.look_sweeps, "starts": scale.look_starts}
    seen = watching(**looks) if name in WATCHED else {}
    found, run = rest.train(
        recipe, seen, data=data, at=lambda epoch: bool(seen) and epoch in scale.looks, start=start
    )
    machine = lab.machine(run)
    lab.keep(machine)
    found |= {
        "parameters": sum(p.numel() for p in machine.parameters()),
        "updates": run.info["update"],
        "seconds": run.info["seconds"],
    }
    found |= _judged(lab, scale, machine, data)
    lab.tell(0.9)
    times = {"chains": scale.look_chains, "settle": scale.settle, "record": scale.record}
    found["time"] = forgetting(machine.float(), data, lab.rng("mixing"), **times)
    return found | _samples(lab, scale, machine)


@torch.no_grad()
def _judged(lab: Lab, scale: Scale, machine: Machine, data: Dataset) -> Values:
    """log p of test images and eq. (1) of training and of test images, each with its interval."""
    images = data.train.spins[:10_000]
    z = log_z(machine, seed=lab.seed, data=images, chains=scale.chains, most=scale.temperatures)
    lab.tell(0.8)
    p = log_likelihood(machine, data.test.spins, normaliser=z, seed=lab.seed)
    found: Values = {"log_z": _ends(z), "test": _ends(p), "effort": p.effort}
    found |= {f"bound_{part}": _ends(log_bound(machine, x, z)) for part, x in _parts(data, images)}
    if p.gap is not None:
        found["gap"] = p.gap
    return found


def _parts(data: Dataset, images: torch.Tensor) -> tuple[tuple[str, torch.Tensor], ...]:
    return (("train", images), ("test", data.test.spins))


def _ends(bounds: Any) -> list[Any]:
    return [bounds.value, bounds.lower, bounds.upper]


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


@torch.no_grad()
def _windows(lab: Lab, scale: Scale) -> Values:
    """Order parameters over each window of the machines at the end of their training."""
    rows = Rows()
    windows = [max(1, x * scale.look_sweeps // WINDOWS[0]) for x in WINDOWS]
    for i, name in enumerate(WINDOWED):
        machine, rng = lab.kept(f"deep-mnist.{name}").float(), lab.rng(name)
        for window in windows:
            lab.tell((i + window / sum(windows)) / len(WINDOWED))
            spins = sweeps(machine, machine.random(APART, rng), rng, window)
            series = []
            for _ in range(min(window, RECORDED)):
                spins = sweeps(machine, spins, rng, max(1, window // RECORDED), means=True)
                series.append(spins)
            order = freezing(torch.stack(series, 2))  # (e, c, t, n)
            seen = {"frozen": order.within.value, "apart": order.gap.value, "error": order.gap.error}
            rows.add({"machine": name, "window": window, **seen})
    return rows


PARTS = {
    **{name: Part(_trained, (name,)) for name in NAMES},
    "windows": Part(_windows, (), tuple(f"deep-mnist.{name}" for name in WINDOWED)),
}


def _nll(record: Record, key: str = "test") -> tuple[float, float, float]:
    """Value and ends of the interval, in nats per image, the optimistic end first."""
    value, low, high = (-float(x[0]) for x in record[key])
    return value, high, low


def _summary(records: Records) -> str:
    rows = []
    for name, words in NAMES.items():
        record = records.get(f"deep-mnist.{name}")
        if record is None:
            continue
        value, low, high = _nll(record)
        gap = ""
        if "gap" in record.values:
            bound = _nll(record, "bound_test")[0]
            gap = f", bound {bound:.2f}, gap {float(record['gap'][0]):.2f}"
        rows.append(
            f"{words} ({record['parameters']:,} parameters, {record['updates']:,} updates, "
            f"{record['seconds']:.0f} s): {value:.2f} [{low:.2f}, {high:.2f}]{gap}, "
            f"τ {record['time'][0]:.0f} sweeps"
        )
    return (
        "Samples from random starts of machines of about as many parameters, trained alike. Negative "
        "log-likelihood of the test images, in nats, with its interval, and of machines with coupled "
        f"hidden units the variational bound and its gap: {'; '.join(rows)}."
    )


@item("Deep and full machines on MNIST", ("deep-mnist",), _summary)
def deep_mnist(records: Records) -> Figure:
    seen = {n: r for n in NAMES if (r := records.get(f"deep-mnist.{n}")) is not None}
    fig, axes = panels(2, -(-len(seen) // 2), height=0.8)
    for place, (name, record) in zip(axes, seen.items(), strict=False):
        title = f"{NAMES[name]}: {_nll(record)[0]:.1f} nats"
        tiles(place, record["pictures"][:40], record["shape"], 20, title)
    for place in axes[len(seen) :]:
        place.set_axis_off()
    return fig


@item(
    "Glassiness along the training, MNIST",
    (*(f"deep-mnist.{name}" for name in WATCHED), "deep-mnist.windows"),
)
def deep_watched(records: Records) -> Figure:
    """The measures of glassiness of trainings on MNIST, one instance each. From chains that start at
    random: (a) how much they remember of themselves, (b) how much more than of each other; (c) the chance
    that two descents meet; (d) energy per unit above, or below, that of chains that start at images.
    Dotted: beyond these lines a machine that is frozen, apart and has many minima counts as a spin
    glass. (e) At the end, (b) over longer windows of sweeps: what slow chains keep apart falls."""
    looks = {name: look for name, look in LOOK.items() if name in WATCHED}
    fig, (window, rest) = courses(records, "deep-mnist", looks, rows=3)
    label(window, "window, sweeps", "q_EA − overlap of chains", "(e)", xscale="log")
    if (record := records.get("deep-mnist.windows")) is not None:
        for name in WINDOWED:
            numbers, (words, pen) = _apart(record, name), LOOK[name]
            points(window, list(numbers), list(numbers.values()), pen, words)
            window.set_xticks(list(numbers), [f"{x:,}" for x in numbers], minor=False)
        window.minorticks_off()
    window.axhline(BROKEN, color="0.5", ls=":", lw=0.9)
    handles, labels = window.get_legend_handles_labels()
    rest.legend(handles, labels, loc="center left")
    rest.set_axis_off()
    return fig


def _apart(record: Record, name: str) -> dict[int, Number]:
    """How far chains are apart over each window; the error is known."""
    rows = zip(record["machine"], record["window"], record["apart"], record["error"], strict=True)
    return {window: Number(x[0], error[0]) for who, window, x, error in rows if who == name}


@claim(
    ("deep-mnist.rbm", "deep-mnist.dbm"),
    (
        *(f"deep-mnist.dbm{how}" for how in ("3", "-clamped", "-even", "-layerwise")),
        *(f"deep-ghosts.{birth}" for birth in ("patterns", "random")),
    ),
    full=True,
)
def deep_likelihood(records: Records) -> Finding:
    """Sec. VI: RAPID should “bring the long-sought-after efficient algorithms for training deep
    Boltzmann machines”.
    Read as: The pessimistic end of the negative log-likelihood of a deep machine with Regularized
    Axons, the best of those tried, against that of a restricted one with as many parameters, the best of
    all seeds.
    Rule: Not above it, exactly: ends of intervals have their errors in them."""
    known = {n: r for n in NAMES if (r := records.get(f"deep-mnist.{n}")) is not None}
    ends = {n: _nll(r)[2] for n, r in known.items()}
    seeds = [-float(x) for n, r in records.items() if n.startswith("deep-ghosts.") for x in r["test"][1]]
    flat = min(ends.pop("rbm"), *seeds)
    best = min(ends, key=lambda n: ends[n])
    told = ", ".join(f"{NAMES[n]} {x:.2f}" for n, x in ends.items())
    return Finding(
        ends[best] <= flat,
        f"pessimistic ends: restricted, best of {1 + len(seeds)} seeds {flat:.2f}; {told}",
        "One seed of each deep machine.",
    )


@claim(("deep-mnist.bm",), ("deep-mnist.bm-clamped",), full=True)
def deep_full(records: Records) -> Finding:
    """Sec. VI: The same is hoped of fully connected machines.
    Read as: Test likelihood of a full machine with hidden units, and classes of its samples from random
    starts, by the nearest training image.
    Rule: At most {GOOD} nats, exactly, at the pessimistic end of an interval at most {NARROW} wide;
    {CLASSES} classes, none above {MOST} of the samples; of one of the trainings."""
    answers, told = [], []
    for name in ("bm", "bm-clamped"):
        if (record := records.get(f"deep-mnist.{name}")) is None:
            continue
        value, low, high = _nll(record)
        each = record.array("classes")
        some = bool((each > 0).all()), bool(each.max() <= MOST)
        answers.append(all_of(high <= GOOD, high - low <= NARROW, *some))
        shares = f"shares of classes {each.min():.3f} to {each.max():.3f}"
        told.append(f"{NAMES[name]}: {value:.2f} [{low:.2f}, {high:.2f}], {shares}")
    return Finding(any_of(*answers), "; ".join(told))


@claim(("deep-mnist.windows",), full=True)
def deep_watched_control(records: Records) -> Finding:
    """Sec. VI: Machines with Regularized Axons stay out of the spin glass that others are in.
    Read as: How far chains from random starts stay apart over the longest window of sweeps, at the end of
    trainings on MNIST, with Regularized Axons and with dense couplings; one instance each.
    Rule: More than {BROKEN} with dense couplings and less than that with Regularized Axons, by 2 σ."""
    record = records["deep-mnist.windows"]
    last = {name: list(_apart(record, name).values())[-1] for name in WINDOWED}
    dense = [x.above(BROKEN) for name, x in last.items() if name.startswith("dense")]
    patterned = [x.below(BROKEN) for name, x in last.items() if not name.startswith("dense")]
    told = ", ".join(f"{NAMES[name]} {x}" for name, x in last.items())
    return Finding(all_of(*dense, *patterned), f"over {max(record['window']):,} sweeps: {told}")
