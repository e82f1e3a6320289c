"""The trainings on MNIST behind figs. 6 and 7 and the probe.

RAPID with Gibbs sweeps from the patterns, K=190 and K=290, beside pure PID, a single sweep, and the
true mean of the smaller last batch (`docs/training.md`). The likelihood along the way is annealed
forward only, from the data's marginals,

    NLL = log Z − ⟨log Σ_h exp(−E(v, h))⟩,        log Z from below                        (1)

so, as in the paper, it is optimistic; the end is annealed both ways, with an interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rapidbm.data.catalogue import load
from rapidbm.data.splits import Dataset
from rapidbm.errors import InputError
from rapidbm.glass.neighbours import adversarial_accuracy
from rapidbm.likelihood.annealed import annealed
from rapidbm.machines.machine import Machine
from rapidbm.machines.units.spin import SPIN
from rapidbm.runs.metrics import mean_free_energy
from rapidbm.sampling import annealing
from rapidbm.sampling.bases import path_to
from rapidbm.sampling.gibbs import sweeps
from rapidbm.sampling.quench import descend
from rapidbm.training.loop import Progress

from ..lab import Lab, Part, Settings, by_scale, each, shortened
from ..observables import SPLITS, Observable, once
from ..records import Values, pack

PIXELS = {"mnist": 784, "digits": 64}
VARIANTS = {
    "rapid": "RAPID",
    "more": "RAPID, more patterns",
    "one": "one Gibbs sweep",
    "pure": "pure PID",
    "true-mean": "RAPID, true batch mean",
}


@dataclass(frozen=True, kw_only=True)
class Scale(Settings):
    dataset: str = by_scale(tiny="digits", quick="mnist", paper="mnist")
    train: int | None = by_scale(tiny=250, quick=3750, paper=None)  # images; None takes all
    test: int | None = by_scale(tiny=100, quick=1000, paper=None)
    instances: int = by_scale(tiny=2, quick=3, paper=25)
    variants: int = by_scale(tiny=1, quick=3, paper=5)  # instances of the other trainings
    hidden: int = by_scale(tiny=30, quick=500, paper=3000)
    patterns: int = by_scale(tiny=8, quick=60, paper=190)
    more_patterns: int = by_scale(tiny=12, quick=90, paper=290)
    sweeps: int = by_scale(tiny=2, quick=10, paper=10)
    batch_size: int = by_scale(tiny=80, quick=500, paper=8000)
    epochs: int = by_scale(tiny=4, quick=80, paper=500)
    looks: int = by_scale(tiny=3, quick=8, paper=16)  # evaluations of the likelihood on the way
    variant_looks: int = by_scale(tiny=2, quick=4, paper=8)
    chains: int = by_scale(tiny=20, quick=50, paper=250)  # of annealing
    steps: int = by_scale(tiny=20, quick=200, paper=1000)  # temperatures on the way
    final_steps: int = by_scale(tiny=100, quick=2000, paper=10_000)  # at most so many at the end
    samples: int = by_scale(tiny=50, quick=200, paper=1000)
    sample_sweeps: int = by_scale(tiny=20, quick=200, paper=1000)


def data_of(scale: Scale) -> Dataset:
    """The first images to train on, and those that follow them to test."""
    options = {"split": "paper"} if scale.dataset == "mnist" else {}
    return shortened(load(scale.dataset, **options), scale.train, scale.test)


# -- likelihood ---------------------------------------------------------------------------------------


def log_z_below(machine: Machine, data: Tensor, scale: Scale, rng: torch.Generator) -> Tensor:
    """log Z of every replica by annealing forward, (e,)."""
    path = path_to(machine, data)
    # Cold machines at the start of training need many temperatures for little: a coarse pilot
    # finds where they matter, and its step is wide enough to end.
    betas, _ = annealing.pilot(path, rng, chains=min(50, scale.chains), step=10.0)
    logs, _ = annealing.forward(path, annealing.resized(betas, scale.steps), scale.chains, rng)
    return annealing.LogMean.of(logs).value


def _nll(scale: Scale) -> dict[str, Observable]:
    """Eq. (1) of training and test set, which share one log Z."""
    normaliser = once(
        lambda progress, data, rng: log_z_below(progress.machine, data.train.spins, scale, rng)
    )

    def of(part: str) -> Observable:
        def see(progress: Progress, data: Dataset, rng: torch.Generator) -> Tensor:
            z = normaliser(progress, data, rng)
            split = getattr(data, part).take(slice(0, 10_000))
            return z + mean_free_energy(progress.machine, split, rng)

        return see

    return {f"nll_{part}": of(part) for part in SPLITS}


def spaced(epochs: int, count: int) -> Callable[[int], bool]:
    """About `count` epochs, evenly spaced in the logarithm."""
    chosen = {round(epochs ** (i / (count - 1))) for i in range(count)}
    return lambda epoch: epoch in chosen


def with_zoom(epochs: int, count: int) -> Callable[[int], bool]:
    """The same up to a fifth of the training with half of them, and the other half evenly after it,
    where the likelihood falls and fig. 6b zooms in."""
    early, late = count // 2, count - count // 2
    turn = max(2, epochs // 5)
    first = spaced(turn, max(2, early))
    rest = {round(turn + (epochs - turn) * (i + 1) / late) for i in range(late)}
    return lambda epoch: epoch in rest or (epoch <= turn and first(epoch))


# -- parts --------------------------------------------------------------------------------------------


def _train(lab: Lab, scale: Scale, name: str) -> Values:
    recipe = lab.recipe(
        scale.dataset,
        "paper-mnist",
        hidden=(scale.hidden,),
        patterns=scale.more_patterns if name == "more" else scale.patterns,
        sweeps={"one": 1, "pure": 0}.get(name, scale.sweeps),
        replicas=scale.instances if name == "rapid" else scale.variants,
        batch_size=scale.batch_size,
        epochs=scale.epochs,
        batch_mean="true" if name == "true-mean" else "nominal",
    )
    data = data_of(scale)
    at = spaced(scale.epochs, scale.variant_looks)
    if name == "rapid":
        at = with_zoom(scale.epochs, scale.looks)
    found, run = lab.within(0.0, 0.8).train(recipe, _nll(scale), data=data, at=at)
    machine = lab.machine(run)
    lab.keep(machine)
    if name in ("rapid", "more"):  # the others are so far off that a bound does
        found |= _final(lab, scale, machine, data)
    return found


def _final(lab: Lab, scale: Scale, machine: Machine, data: Dataset) -> Values:
    """Both bounds and the interval at the end; nothing for a machine too cold to be annealed."""
    try:
        final = annealed(
            machine, lab.seed, data=data.train.spins, chains=scale.chains, most=scale.final_steps
        )
    except InputError:
        return {}
    z = final.bounds
    found: Values = {"temperatures": final.steps}
    rng = lab.rng("free energy")
    for part in SPLITS:
        free = mean_free_energy(machine, getattr(data, part), rng)
        found[f"final_{part}"] = [free + z.forward, free + z.back]
        found[f"final_{part}_interval"] = [free + z.interval[0], free + z.interval[1]]
    return found


def _samples(lab: Lab, scale: Scale, names: tuple[str, ...]) -> Values:
    """Samples from random starts, and how well they pass for test images."""
    data = data_of(scale)
    found: Values = {"shape": list(data.shape)}
    test = data.test.spins.to(lab.device).float()
    for i, name in enumerate(names):
        machine, rng = lab.kept(f"mnist.{name}"), lab.rng(name)
        count = min(scale.samples, len(test))
        accuracy, nearest = [], []
        for e in range(machine.replicas):
            one = machine.replica(e)
            spins = sweeps(one, one.random(count, rng), rng, scale.sample_sweeps)
            drawn = upright(spins[..., : machine.visible], data.train.spins)
            judged = adversarial_accuracy(drawn, test[:count], rng)
            accuracy.append([float(judged.truth.value[0]), float(judged.synthetic.value[0])])
            nearest.append(float(nearest_distance(drawn[0], data.train.spins).mean()))
            if e == 0:
                found[f"{name}_pictures"] = pack(drawn[0, :100])
            lab.tell((i + e / machine.replicas) / len(names))
        found[f"{name}_adversarial"] = accuracy  # (e, 2): of the data, of the samples; 0.5 is best
        found[f"{name}_nearest"] = nearest  # share of pixels off the nearest training image
    found["test_nearest"] = nearest_distance(test[: scale.samples], data.train.spins).mean()
    return found


def upright(images: Tensor, training: Tensor) -> Tensor:
    """Images (…, v) turned to the side of the data: without biases v and −v are equally likely."""
    mean = training.float().mean(0).to(images)
    return images * SPIN.nearest((images * mean).sum(-1, keepdim=True))


def nearest_distance(images: Tensor, training: Tensor) -> Tensor:
    """The share of pixels by which each image (c, v) differs from its nearest training image."""
    return nearest_images(images, training)[0]


def nearest_images(images: Tensor, training: Tensor) -> tuple[Tensor, Tensor]:
    """Distance to the nearest training image, (c,), and which one it is."""
    overlap = images.float() @ training.to(images.device, torch.float32).mT  # (c, s)
    best, which = overlap.max(1)
    return 0.5 - 0.5 * best / images.shape[1], which


def _patterns(lab: Lab, scale: Scale) -> Values:
    """Where chains that start from a pattern end: how many classes, by the nearest training image."""
    data = data_of(scale)
    machine, rng = lab.kept("mnist.rapid").replica(0), lab.rng("chains")
    assert machine.patterns is not None
    assert data.train.labels is not None
    visible = machine.patterns[0, :, : machine.visible]  # (k, v)
    starts = SPIN.nearest(visible)[:64]
    chains = 32
    spins = machine.with_visible(starts.repeat_interleave(chains, 0))
    ends = sweeps(machine, spins, rng, scale.sample_sweeps)[0, :, : machine.visible]
    ends = upright(ends, data.train.spins)
    far, which = nearest_images(ends, data.train.spins)
    labels = data.train.labels.to(which.device)[which].reshape(len(starts), chains)
    # A sample counts as a digit when it is as near to a training image as test images are.
    test = nearest_distance(data.test.spins[:1000].to(lab.device).float(), data.train.spins).quantile(
        0.95
    )
    digit = (far <= test).reshape(len(starts), chains)
    classes = [len(torch.unique(row[keep])) for row, keep in zip(labels, digit, strict=True)]
    chosen = int(torch.tensor(classes).argmax())
    order = torch.argsort(labels[chosen])
    mine = ends.reshape(len(starts), chains, -1)[chosen]
    return {
        "shape": list(data.shape),
        "patterns": (visible[:16].clamp(-1, 1) * 100).round() / 100,
        "pattern_size": visible.abs().mean(),
        "saturated": (visible.abs() > 0.99).double().mean(),
        "classes": classes,  # (starts,) among the ends that count as digits
        "classes_of_all": [len(torch.unique(row)) for row in labels],
        "digits": digit.double().mean(),
        "chains": chains,
        "chosen": (visible[chosen].clamp(-1, 1) * 100).round() / 100,
        "chosen_samples": pack(mine[order]),
        "chosen_labels": labels[chosen][order].tolist(),
        "chosen_digits": digit[chosen][order].tolist(),  # which of them count as digits
    }


def _binarized(lab: Lab, scale: Scale) -> Values:
    """Energies of binarized patterns, of random states and of samples, over the lowest one found."""
    machine, rng = lab.kept("mnist.rapid"), lab.rng("energies")
    assert machine.patterns is not None
    patterns = SPIN.nearest(machine.patterns)
    inferred = machine.with_visible(patterns[..., : machine.visible])
    for layer, where in list(enumerate(machine.layers.slices))[1:]:
        inferred[..., where] = SPIN.nearest(machine.field(inferred, layer))
    swept = sweeps(machine, inferred, rng, 10)
    lowest = torch.full((machine.replicas,), torch.inf, device=machine.device)
    found: Values = {}
    states = {
        "pattern": patterns,
        "pattern_visible": inferred,
        "pattern_swept": swept,
        "sample": sweeps(machine, machine.random(100, rng), rng, scale.sample_sweeps),
        "random": machine.random(100, rng),
    }
    energies = {name: machine.energy(spins) for name, spins in states.items()}
    for name in ("pattern_swept", "sample"):
        low = machine.energy(descend(machine, states[name]))
        lowest = torch.minimum(lowest, low.amin(1))
        lab.tell(0.5)
    for name, energy in energies.items():
        found[name] = (energy / lowest[:, None]).mean(1)  # (e,)
        found[f"{name}_best"] = (energy / lowest[:, None]).amax(1)
    return found


_BOTH = ("rapid", "more")
PARTS = {
    **each(_train, VARIANTS),
    "samples": Part(_samples, (_BOTH,), tuple(f"mnist.{name}" for name in _BOTH)),
    "patterns": Part(_patterns, needs=("mnist.rapid",)),
    "binarized": Part(_binarized, needs=("mnist.rapid",)),
}
