"""How well a linear probe reads labels off the conditional means of hidden units.

    x_α(v) = ⟨h_α⟩ given v = tanh(β field_α(v)),        β = 1 for trained machines                (1)

Every replica is a seed and is probed alone; beside them pixels (±1) and random machines, of the same
shape and dense. These controls are strong ones: biases put the mean field on every hidden unit to 0, and
β is the one, of those that give fields of the sizes `SIZES`, whose probe does best on validation images
(chosen with the first seed).

The last `--valid` training images choose the probe's strength λ, the others fit it.

    python -m benchmarks features --machines one.safetensors two.safetensors --out features.json
    python -m benchmarks features --machines dense.safetensors --threshold 0.5 --no-controls
"""

import math
import statistics
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from rapidbm.accel.devices import device_named
from rapidbm.data.catalogue import load
from rapidbm.data.splits import Split
from rapidbm.errors import InputError
from rapidbm.machines.constructors import rbm
from rapidbm.machines.files import load_machine
from rapidbm.machines.machine import Machine
from rapidbm.progress import quiet
from rapidbm_paper.linear_probe import fit_probe

from .running import Row, option_parser, write

SIZES = (0.5, 1.0, 2.0, 4.0)  # root mean squares of β field
STRENGTHS = (0.01, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5)
CHOOSING = 10_000  # images that fit the probes which choose β
STEP = 2000  # images at once
Shape = tuple[int, int, int | None]  # visible and hidden units, patterns
Features = Callable[[Tensor], Tensor]  # (images, v) -> (images, features)


def arguments(words: Sequence[str] = ()) -> Namespace:
    parser = option_parser(__name__, __doc__)
    parser.add_argument("--data", default="mnist", help="a name, or a file with labels")
    parser.add_argument("--threshold", type=float, help="of mnist (0.3) and digits (0.5)")
    parser.add_argument("--machines", type=Path, nargs="*", default=[], help="files of trained machines")
    parser.add_argument("--valid", type=int, default=10_000, help="last training images, to choose by")
    parser.add_argument("--rows", type=int, help="training images before those, at most")
    parser.add_argument("--replicas", type=int, help="of each machine, at most")
    parser.add_argument("--no-controls", action="store_true", help="machines alone")
    parser.add_argument("--iterations", type=int, default=30, help="of L-BFGS, for each strength")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seed", type=int, default=0, help="of the random machines")
    parser.add_argument("--out", type=Path, help="a JSON file for all of it")
    chosen = parser.parse_args(words)
    if len({path.stem for path in chosen.machines}) < len(chosen.machines):
        parser.error("rows are named after files: give --machines files of different names")
    return chosen


def splits(how: Namespace) -> dict[str, Split]:
    """Images that fit, those that choose, and the test images, all with labels."""
    data = load(how.data, **({} if how.threshold is None else {"threshold": how.threshold}))
    if data.train.labels is None or data.test.labels is None:
        raise InputError(
            f"a probe needs labels and {how.data} has none; take mnist, or a file with labels"
        )
    rest = len(data.train) - how.valid
    if not 0 < rest < len(data.train):
        raise InputError(f"--valid is from 1 to {len(data.train) - 1} of {how.data}, not {how.valid}")
    rows = rest if how.rows is None else min(rest, how.rows)
    return {
        "train": data.train.take(slice(0, rows)),
        "valid": data.train.take(slice(rest, None)),
        "test": data.test,
    }


@torch.no_grad()
def means(machine: Machine, images: Tensor, beta: float = 1.0) -> Tensor:
    """Eq. (1) of a machine of one replica, (images, h)."""
    return torch.cat([machine.hidden_mean(some, beta)[0] for some in torch.split(images, STEP)])


def probed(features: Features, parts: dict[str, Split], how: Namespace) -> Row:
    """The probe's accuracy on each part, and the strength that was chosen."""
    began = time.perf_counter()
    device = device_named(how.device)
    x = {part: features(split.spins).to(device) for part, split in parts.items()}
    y = {part: _labels(split).to(device) for part, split in parts.items()}
    found = fit_probe(
        x["train"],
        y["train"],
        (x["valid"], y["valid"]),
        strengths=STRENGTHS,
        iterations=how.iterations,
    )
    return {
        **{part: found.accuracy(x[part], y[part]) for part in parts},
        "strength": found.strength,
        "seconds": time.perf_counter() - began,
    }


def _labels(split: Split) -> Tensor:
    assert split.labels is not None
    return split.labels


@torch.no_grad()
def control(shape: Shape, seed: int, images: Tensor, device: torch.device) -> tuple[Machine, float]:
    """A random machine whose hidden fields have mean 0 over these images; and their root mean square."""
    machine = rbm(*shape, biases=True, seed=seed, device=device).requires_grad_(False)
    given = [machine.with_visible(some) for some in torch.split(images, STEP)]
    field = torch.cat([machine.field(some, 1)[0] for some in given])
    assert machine.biases is not None
    machine.biases[0, shape[0] :] = -field.mean(0)
    return machine, float(field.std(0, correction=0).square().mean().sqrt())


def controls(shape: Shape, count: int, parts: dict[str, Split], how: Namespace) -> list[Row]:
    """What `probed` finds of random machines; the first chooses the size of the fields."""
    some = {**parts, "train": parts["train"].take(slice(0, CHOOSING))}

    def features(seed: int, size: float) -> Features:
        machine, now = control(shape, seed, some["train"].spins, device_named(how.device))
        return lambda images: means(machine, images, size / now)

    size = max(SIZES, key=lambda size: probed(features(how.seed, size), some, how)["valid"])
    return [{**probed(features(how.seed + i, size), parts, how), "size": size} for i in range(count)]


def measured(how: Namespace) -> Iterator[Row]:
    """Rows with the accuracies of every seed."""
    parts = splits(how)
    if not how.no_controls:
        yield {"name": "pixels", "seeds": [probed(lambda images: images.float(), parts, how)]}
    done = set()
    for path in how.machines:
        whole = load_machine(path).to(device_named(how.device)).requires_grad_(False)
        count = min(whole.replicas, how.replicas or whole.replicas)
        shape = _shape(path, whole, parts["train"])
        for kind in () if how.no_controls else (shape[2], None):
            if (wanted := (*shape[:2], kind)) in done:
                continue
            done.add(wanted)
            seeds = controls(wanted, count, parts, how)
            yield {"name": f"random {_shape_words(wanted)}", "seeds": seeds}
        one = [whole.replica(i) for i in range(count)]
        seeds = [probed(partial(means, m), parts, how) for m in one]
        yield {"name": f"{path.stem} {_shape_words(shape)}", "seeds": seeds}


def _shape(path: Path, machine: Machine, data: Split) -> Shape:
    sizes = machine.layers.sizes
    if not machine.layers.hidden_independent or len(sizes) != 2 or sizes[0] != data.visible:
        raise InputError(
            f"{path} has layers {sizes}; features are those of a restricted machine with one hidden "
            f"layer and {data.visible} visible units, as many as the data have: take another file"
        )
    return sizes[0], sizes[1], None if machine.patterns is None else machine.patterns.shape[1]


def _shape_words(shape: Shape) -> str:
    visible, hidden, patterns = shape
    return f"{visible}×{hidden} " + ("dense" if patterns is None else f"K={patterns}")


def summary(row: Row) -> dict[str, float]:
    """Percentages, their standard deviation over seeds, and what was chosen for the first."""
    test = [100 * seed["test"] for seed in row["seeds"]]
    told = {"test %": statistics.mean(test)}
    told["deviation"] = statistics.stdev(test) if len(test) > 1 else math.nan
    for part in ("valid", "train"):
        told[f"{part} %"] = statistics.mean(100 * seed[part] for seed in row["seeds"])
    told["seeds"] = len(test)
    told["strength"] = row["seeds"][0]["strength"]
    told["seconds"] = sum(seed["seconds"] for seed in row["seeds"])
    return told


def run(words: Sequence[str] = ()) -> dict[str, dict[str, float]]:
    how = arguments(words)
    kept = {name: x for name, x in vars(how).items() if name not in ("out", "machines")}
    kept["machines"] = [path.name for path in how.machines]
    rows: list[Row] = []
    with quiet():
        for row in measured(how):
            rows.append(row)
            write(how.out, {"settings": kept, "rows": rows})  # as far as it has come
    return {row["name"]: summary(row) for row in rows}
