"""MNIST with its labels: error of p(y | v), and what the label costs the likelihood of the pixels.

Three restricted machines of the same settings: pixels alone; pixels and the label, with the
discriminative term; the same with the labels of one row in a hundred. log p is that of the pixels in all
three, the label summed over. Beside the last one stands logistic regression on the rows with a label, its
strength chosen by cross-validation among them.

    python -m benchmarks labels                                     2,000 rows, 64 units: under a minute
    python -m benchmarks labels --device cuda --rows 60000 --hidden 1000 --chains 1000 --sweeps 10 \\
        --batch 500 --seconds 40 --tested 10000 --annealed 500

With --seconds the number of epochs is planned for the slower of the first two, and all three take it.
Exit code 1: the error is above 3 %, the likelihood more than 2 nats lower, or there are not 20 % fewer
errors than logistic regression makes.
"""

from __future__ import annotations

import math
import time
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from rapidbm.accel.devices import device_named
from rapidbm.data.catalogue import load
from rapidbm.data.labelled import NO_LABEL, with_labels
from rapidbm.data.splits import Dataset, Split
from rapidbm.estimates import Estimate
from rapidbm.inference.labels import predict
from rapidbm.inference.rows import log_p
from rapidbm.likelihood.log_z import log_z
from rapidbm.machines.constructors import rbm
from rapidbm.machines.machine import Machine
from rapidbm.progress import quiet
from rapidbm.random import stream
from rapidbm.training.negative import Persistent
from rapidbm.training.optimisers import adam
from rapidbm.training.trainer import Trainer

from .running import Row, option_parser, tell

ERROR, NATS, FEWER = 0.03, 2.0, 0.2  # what is asked
MEASURED = 2000  # test rows whose log p is measured
STEP = 1000  # rows at once
STRENGTHS = tuple(10.0**k for k in range(-4, 3))  # of logistic regression, C


def arguments(words: Sequence[str]) -> Namespace:
    parser = option_parser(__name__, __doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rows", type=int, default=2000, help="training images, at most")
    parser.add_argument("--tested", type=int, default=1000, help="test images, at most")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--chains", type=int, default=100)
    parser.add_argument("--sweeps", type=int, default=2, help="of the chains per update")
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seconds", type=float, help="of a training, in place of --epochs")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--decay", type=float, default=3e-3, help="of weights")
    parser.add_argument("--strength", type=float, default=3.0, help="of the discriminative term")
    parser.add_argument("--share", type=float, default=0.01, help="of rows with a label, of the third")
    parser.add_argument("--few-strength", type=float, default=1.0, help="of the third machine")
    parser.add_argument("--annealed", type=int, default=100, help="chains of log Z from each base")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(list(words))


def run(words: Sequence[str] = (), data: Dataset | None = None) -> dict[str, Row]:
    chosen = arguments(words)
    with quiet():
        return measured(chosen, load("mnist") if data is None else data)


def measured(chosen: Namespace, data: Dataset) -> dict[str, Row]:
    train, test = some(data.train, chosen.rows), some(data.test, chosen.tested)
    data = Dataset(data.name, train, test, data.shape)
    labelled = with_labels(data)
    few = with_few_labels(data, chosen.share, chosen.seed)
    if chosen.seconds is not None:
        each = max(seconds_of_an_epoch(chosen, x) for x in (data, labelled))
        chosen.epochs = max(1, math.floor(chosen.seconds / each))
        tell(f"{each:.3g} s an epoch: {chosen.epochs} of them")
    rows: dict[str, Row] = {}
    plain = trained(chosen, data, 0.0)
    rows["pixels"] = with_log_p({"seconds": plain[1]}, plain[0], data, chosen)
    told = f"--strength {chosen.strength:g}"
    machine, seconds = trained(chosen, labelled, chosen.strength)
    tell(f"pixels and labels, {told}: {seconds:.0f} s")
    row = {"seconds": seconds, "error": error_of(machine, labelled), "asked": ERROR}
    rows["and labels"] = with_log_p(row, machine, labelled, chosen)
    lost = float(rows["pixels"]["log p"]) - float(rows["and labels"]["log p"])
    rows["and labels"] |= {"nats lost": lost, "nats asked": NATS}
    machine, seconds = trained(chosen, few, chosen.few_strength)
    row = {"seconds": seconds, "error": error_of(machine, few)}
    assert few.train.labels is not None
    known = torch.ne(few.train.labels, NO_LABEL)
    logistic = error_of_logistic(train.take(known.nonzero()[:, 0]), test)
    row |= {"asked": (1.0 - FEWER) * logistic}
    rows["few labels"] = with_log_p(row, machine, few, chosen)
    rows["logistic"] = {"error": logistic, "labels": int(known.sum())}
    return spread(rows)


def spread(rows: dict[str, Row]) -> dict[str, Row]:
    """With the same columns in every row."""
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    return {key: {name: row.get(name) for name in names} for key, row in rows.items()}


def some(split: Split, count: int) -> Split:
    """The first rows, at most so many."""
    return split.take(slice(0, min(count, len(split))))


def with_few_labels(data: Dataset, share: float, seed: int) -> Dataset:
    """The data with the labels of a share of the training rows, as many of each class as can be."""
    labels = data.train.labels
    assert labels is not None
    order = torch.randperm(len(labels), generator=stream(seed, "few labels"))
    classes = torch.unique(labels)
    each = max(1, round(share * len(labels) / len(classes)))
    kept = torch.cat([order[labels[order] == x][:each] for x in classes])
    few = torch.full_like(labels, NO_LABEL)
    few[kept] = labels[kept]
    train = Split.owning(data.train.spins, few, None)
    return with_labels(Dataset(data.name, train, data.test, data.shape))


def trainer_of(chosen: Namespace, data: Dataset, strength: float, epochs: int) -> Trainer:
    counts, kinds = data.visible_units
    device = device_named(chosen.device)
    machine = rbm(counts, chosen.hidden, units=kinds, biases=True, seed=chosen.seed, device=device)
    machine.start_biases(data.train)
    how: Any = {"label": data.label, "discriminative": strength} if strength else {"label": data.label}
    return Trainer(
        machine,
        data.train.rows,
        Persistent(chosen.chains, chosen.sweeps),
        adam(chosen.rate, weight_decay=chosen.decay, fall="linear"),
        epochs=epochs,
        batch_size=chosen.batch,
        seed=chosen.seed,
        centred=True,
        **how,
    )


def seconds_of_an_epoch(chosen: Namespace, data: Dataset) -> float:
    """After one that makes graphs and the like."""
    trainer = trainer_of(chosen, data, chosen.strength if data.classes else 0.0, 1000)
    trainer.finish_epoch()
    trainer.wait()
    began = time.monotonic()
    trainer.finish_epoch()
    trainer.wait()
    return time.monotonic() - began


def trained(chosen: Namespace, data: Dataset, strength: float) -> tuple[Machine, float]:
    trainer = trainer_of(chosen, data, strength, chosen.epochs)
    began = time.monotonic()
    for _ in range(chosen.epochs):
        trainer.finish_epoch()
    trainer.wait()
    return trainer.machine.requires_grad_(False), time.monotonic() - began


def error_of(machine: Machine, data: Dataset) -> float:
    """Share of test rows whose most probable label is another one."""
    labels, label = data.test.labels, data.label
    assert labels is not None
    assert label is not None
    wrong = 0
    for rows, truth in zip(data.test.spins.split(STEP), labels.split(STEP), strict=True):  # type: ignore[no-untyped-call]
        p = predict(machine, rows, label, seed=0).probabilities
        assert p is not None
        wrong += int((torch.tensor(data.classes)[p[0].argmax(1).cpu()] != truth).sum())
    return wrong / len(labels)


def with_log_p(row: Row, machine: Machine, data: Dataset, chosen: Namespace) -> Row:
    """Mean log p of the pixels of test rows, with the ends of its 95 % interval."""
    test = some(data.test, MEASURED)
    normaliser = log_z(machine, seed=chosen.seed, data=data.train.spins, chains=chosen.annealed)
    observed = torch.ones(len(test), sum(data.visible_units[0]), dtype=torch.bool)
    if data.label is not None:
        observed[:, data.label] = False
    mean = _mean_log_p(machine, test.spins, observed, normaliser)
    low, high = (mean - float(x[0] - normaliser.value[0]) for x in (normaliser.upper, normaliser.lower))
    tell(f"log p of the pixels {mean:.2f} [{low:.2f}, {high:.2f}]")
    return {**row, "log p": mean, "low": low, "high": high}


def _mean_log_p(machine: Machine, rows: Tensor, observed: Tensor, normaliser: Estimate) -> float:
    how: Any = {"normaliser": normaliser, "seed": 0}
    parts = [
        log_p(machine, rows[i : i + STEP], observed[i : i + STEP], **how).value[0]
        for i in range(0, len(rows), STEP)
    ]
    return float(torch.cat(parts).mean())


def error_of_logistic(train: Split, test: Split) -> float:
    """Of logistic regression on pixels, its strength by cross-validation."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    x, y = train.spins.numpy(), train.labels.numpy()  # type: ignore[union-attr]
    folds = max(2, min(5, int(torch.bincount(train.labels).min())))  # type: ignore[arg-type]
    search = GridSearchCV(LogisticRegression(max_iter=2000), {"C": STRENGTHS}, cv=folds)
    search.fit(x, y)
    return float((search.predict(test.spins.numpy()) != test.labels.numpy()).mean())  # type: ignore[union-attr]


def failed(rows: dict[str, Row]) -> bool:
    both, few = rows["and labels"], rows["few labels"]
    return bool(
        both["error"] > both["asked"]
        or both["nats lost"] > both["nats asked"]
        or few["error"] > few["asked"]
    )
