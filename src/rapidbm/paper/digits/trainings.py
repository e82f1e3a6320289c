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
from typing import Any

import torch
from torch import Tensor

from ...data.splits import Dataset
from ...errors import InputError
from ...glass.neighbours import adversarial_accuracy
from ...likelihood.annealed import annealed
from ...machines.couplings import Patterns
from ...machines.machine import Machine
from ...machines.spins import sign
from ...runs.metrics import mean_free_energy
from ...sampling import annealing
from ...sampling.bases import path_to
from ...sampling.gibbs import sweeps
from ...sampling.quench import descend
from ...training.trainer import Progress
from ..courses import Look, course, recipe_for, shortened
from ..drawing import pack
from ..study import Bench, Part, Values

PIXELS = {"mnist": 784, "digits": 64}
VARIANTS = {
    "rapid": "RAPID",
    "more": "RAPID, more patterns",
    "one": "one Gibbs sweep",
    "pure": "pure PID",
    "true-mean": "RAPID, true batch mean",
}


@dataclass(frozen=True)
class Config:
    dataset: str
    train: int | None  # images; None takes all
    test: int | None
    instances: int
    variants: int  # instances of the other trainings
    hidden: int
    patterns: int
    more_patterns: int
    sweeps: int
    batch_size: int
    epochs: int
    looks: int  # evaluations of the likelihood on the way
    variant_looks: int
    chains: int  # of annealing
    steps: int  # temperatures on the way
    final_steps: int  # at most so many at the end
    samples: int
    sample_sweeps: int


SCALES = {
    "tiny": Config("digits", 570, 100, 2, 1, 60, 8, 12, 2, 80, 4, 3, 2, 20, 20, 100, 50, 20),
    "quick": Config(
        "mnist", 3750, 1000, 3, 3, 500, 60, 90, 10, 500, 80, 8, 4, 50, 200, 2000, 200, 200
    ),
    "paper": Config(
        "mnist", None, None, 25, 5, 3000, 190, 290, 10, 8000, 500, 16, 8, 250, 1000, 10_000, 1000, 1000
    ),
}  # fmt: skip


def data_of(config: Config) -> Dataset:
    """The first images to train on, and those that follow them to test."""
    from ...data.catalogue import load

    options = {"split": "paper"} if config.dataset == "mnist" else {}
    return shortened(load(config.dataset, **options), config.train, config.test)


# -- likelihood ---------------------------------------------------------------------------------------


def log_z_below(machine: Machine, data: Tensor, config: Config, rng: torch.Generator) -> Tensor:
    """log Z of every replica by annealing forward, (e,)."""
    path = path_to(machine, data)
    # Cold machines at the start of training need many temperatures for little: a coarse pilot
    # finds where they matter, and its step is wide enough to end.
    betas, _ = annealing.pilot(path, rng, chains=min(50, config.chains), step=10.0)
    logs, _ = annealing.forward(path, annealing.resized(betas, config.steps), config.chains, rng)
    return annealing.LogMean.of(logs).value


def _nll(config: Config) -> tuple[Look, Look]:
    """Looks at eq. (1) of training and test set, which share one log Z."""
    latest: dict[int, Tensor] = {}

    def look(part: str) -> Look:
        def see(progress: Progress, data: Dataset, rng: torch.Generator) -> Tensor:
            split = getattr(data, part).take(slice(0, 10_000))
            if progress.update not in latest:
                latest.clear()
                latest[progress.update] = log_z_below(
                    progress.machine, data.train.spins, config, rng
                )
            return latest[progress.update] + mean_free_energy(progress.machine, split, rng)

        return see

    return look("train"), look("test")


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


def _train(bench: Bench, config: Config, name: str) -> Values:
    chosen: dict[str, Any] = {
        "hidden": (config.hidden,),
        "patterns": config.more_patterns if name == "more" else config.patterns,
        "sweeps": {"one": 1, "pure": 0}.get(name, config.sweeps),
        "replicas": config.instances if name == "rapid" else config.variants,
        "batch_size": config.batch_size,
        "epochs": config.epochs,
        "batch_mean": "true" if name == "true-mean" else "nominal",
    }
    recipe = recipe_for(bench, config.dataset, "paper-mnist", **chosen)
    train, test = _nll(config)
    data = data_of(config)
    looks: dict[str, Look] = {"nll_train": train, "nll_test": test}
    at = spaced(config.epochs, config.variant_looks)
    if name == "rapid":
        at = with_zoom(config.epochs, config.looks)
    found, trainer = course(bench, recipe, looks, data=data, at=at, span=(0.0, 0.8))
    machine = trainer.machine.requires_grad_(False)
    bench.keep(machine)
    if name in ("rapid", "more"):  # the others are so far off that a bound does
        found |= _final(bench, config, machine, data)
    return found


def _final(bench: Bench, config: Config, machine: Machine, data: Dataset) -> Values:
    """Both bounds and the interval at the end; nothing for a machine too cold to be annealed."""
    try:
        final = annealed(
            machine,
            bench.seed,
            data=data.train.spins,
            chains=config.chains,
            most=config.final_steps,
        )
    except InputError:
        return {}
    z = final.bounds
    found: Values = {"temperatures": final.steps}
    rng = bench.rng("free energy")
    for part in ("train", "test"):
        free = mean_free_energy(machine, getattr(data, part), rng)
        found[f"final_{part}"] = [free + z.forward, free + z.back]
        found[f"final_{part}_interval"] = [free + z.interval[0], free + z.interval[1]]
    return found


def _samples(bench: Bench, config: Config, names: tuple[str, ...]) -> Values:
    """Samples from random starts, and how well they pass for test images."""
    data = data_of(config)
    found: Values = {"shape": list(data.shape)}
    test = data.test.spins.to(bench.device).float()
    for i, name in enumerate(names):
        machine, rng = bench.kept(f"mnist.{name}"), bench.rng(name)
        count = min(config.samples, len(test))
        accuracy, nearest = [], []
        for e in range(machine.replicas):
            one = machine.replica(e)
            spins = sweeps(one, one.random(count, rng), rng, config.sample_sweeps)
            drawn = upright(spins[..., : machine.visible], data.train.spins)
            judged = adversarial_accuracy(drawn, test[:count], rng)
            accuracy.append([float(judged.truth.value[0]), float(judged.synthetic.value[0])])
            nearest.append(float(nearest_distance(drawn[0], data.train.spins).mean()))
            if e == 0:
                found[f"{name}_pictures"] = pack(drawn[0, :100])
            bench.tell((i + e / machine.replicas) / len(names))
        found[f"{name}_adversarial"] = accuracy  # (e, 2): of the data, of the samples; 0.5 is best
        found[f"{name}_nearest"] = nearest  # share of pixels off the nearest training image
    found["test_nearest"] = nearest_distance(test[: config.samples], data.train.spins).mean()
    return found


def upright(images: Tensor, training: Tensor) -> Tensor:
    """Images (…, v) turned to the side of the data: without biases v and −v are equally likely."""
    mean = training.float().mean(0).to(images)
    return images * sign((images * mean).sum(-1, keepdim=True))


def nearest_distance(images: Tensor, training: Tensor) -> Tensor:
    """The share of pixels by which each image (c, v) differs from its nearest training image."""
    return nearest_images(images, training)[0]


def nearest_images(images: Tensor, training: Tensor) -> tuple[Tensor, Tensor]:
    """Distance to the nearest training image, (c,), and which one it is."""
    overlap = images.float() @ training.to(images.device, torch.float32).mT  # (c, s)
    best, which = overlap.max(1)
    return 0.5 - 0.5 * best / images.shape[1], which


def _patterns(bench: Bench, config: Config) -> Values:
    """Where chains that start from a pattern end: how many classes, by the nearest training image."""
    data = data_of(config)
    machine, rng = bench.kept("mnist.rapid").replica(0), bench.rng("chains")
    assert machine.patterns is not None
    assert data.train.labels is not None
    visible = machine.patterns[0, :, : machine.visible]  # (k, v)
    starts = sign(visible)[:64]
    chains = 32
    spins = machine.with_visible(starts.repeat_interleave(chains, 0))
    ends = sweeps(machine, spins, rng, config.sample_sweeps)[0, :, : machine.visible]
    ends = upright(ends, data.train.spins)
    far, which = nearest_images(ends, data.train.spins)
    labels = data.train.labels.to(which.device)[which].reshape(len(starts), chains)
    # A sample counts as a digit when it is as near to a training image as test images are.
    test = nearest_distance(
        data.test.spins[:1000].to(bench.device).float(), data.train.spins
    ).quantile(0.95)
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


def _binarized(bench: Bench, config: Config) -> Values:
    """Energies of binarized patterns, of random states and of samples, over the lowest one found."""
    machine, rng = bench.kept("mnist.rapid"), bench.rng("energies")
    couplings = machine.couplings
    assert isinstance(couplings, Patterns)
    patterns = sign(couplings.patterns)
    inferred = machine.with_visible(patterns[..., : machine.visible])
    for layer, where in enumerate(machine.layers.slices):
        if layer:
            inferred[..., where] = sign(machine.field(inferred, layer))
    swept = sweeps(machine, inferred, rng, 10)
    lowest = torch.full((machine.replicas,), torch.inf, device=machine.device)
    found: Values = {}
    states = {
        "pattern": patterns,
        "pattern_visible": inferred,
        "pattern_swept": swept,
        "sample": sweeps(machine, machine.random(100, rng), rng, config.sample_sweeps),
        "random": machine.random(100, rng),
    }
    energies = {name: machine.energy(spins) for name, spins in states.items()}
    for name in ("pattern_swept", "sample"):
        low = machine.energy(descend(machine, states[name]))
        lowest = torch.minimum(lowest, low.amin(1))
        bench.tell(0.5)
    for name, energy in energies.items():
        found[name] = (energy / lowest[:, None]).mean(1)  # (e,)
        found[f"{name}_best"] = (energy / lowest[:, None]).amax(1)
    return found


def parts(config: Config) -> dict[str, Part]:
    def one(name: str) -> Part:
        return Part(lambda bench: _train(bench, config, name))

    both = ("rapid", "more")
    return {
        **{name: one(name) for name in VARIANTS},
        "samples": Part(
            lambda bench: _samples(bench, config, both), tuple(f"mnist.{n}" for n in both)
        ),
        "patterns": Part(lambda bench: _patterns(bench, config), ("mnist.rapid",)),
        "binarized": Part(lambda bench: _binarized(bench, config), ("mnist.rapid",)),
    }
