"""Makes the file of a pretrained machine: a replica of what `grid` has trained and measured, rounded to
half precision, with some of its images and its card.

    python -m benchmarks pack --machines grid.safetensors --grid grid.json --replica 0 \\
        --device "an H200" --out src/rapidbm/runs/pretrained/mnist.safetensors
    python docs/pretrained.py    # then the page says the same

`grid.json` and `grid.safetensors` are what `grid --test --out … --machines …` wrote. What rounding does
to log p of the test images is measured: with Δ(v) the change of log Σ_h exp(−E(v, h)), exactly summed,

    ⟨Δ⟩_p  ≤  log Z' − log Z  ≤  ⟨Δ⟩_p'                                                  (1)

for the machine p before and p' after rounding (Gibbs and Bogoliubov), both averages over Gibbs chains
that start from training images. So log p of the test images moves by ⟨Δ⟩_test less (1).
"""

import json
import math
from argparse import Namespace
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from rapidbm.data.splits import Dataset
from rapidbm.machines.files import load_machine
from rapidbm.machines.machine import Machine
from rapidbm.random import stream
from rapidbm.runs.pretrained.packed import Card, pack
from rapidbm.sampling.gibbs import sweeps

from .grid import recipe_of
from .running import option_parser

MOST = 0.05  # nats that rounding may move log p by
PARTS = ("train", "valid", "test")


def arguments(words: Sequence[str] = ()) -> Namespace:
    parser = option_parser(__name__, __doc__)
    parser.add_argument("--machines", type=Path, required=True, help="what grid --machines wrote")
    parser.add_argument("--grid", type=Path, required=True, help="what grid --out wrote")
    parser.add_argument("--replica", type=int, default=0)
    parser.add_argument("--device", required=True, help="what it was trained on, in words")
    parser.add_argument("--chains", type=int, default=1000)
    parser.add_argument("--sweeps", type=int, default=100)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args(words)


def rounded(machine: Machine) -> Machine:
    """The machine as it is after half precision."""
    machine = deepcopy(machine)
    for parameter in machine.parameters():
        parameter.data = parameter.data.half().to(parameter.dtype)
    return machine


@torch.no_grad()
def moved(machine: Machine, data: Dataset, chains: int, count: int) -> tuple[float, float]:
    """The interval in which rounding moves the mean log p of the test images, by eq. (1)."""
    before, after = machine.double(), rounded(machine).double()

    def change(spins: torch.Tensor) -> torch.Tensor:
        return (after.log_prob_unnormalised(spins) - before.log_prob_unnormalised(spins))[0]

    ends = []
    for one in (before, after):
        start = one.with_visible(data.train.spins[:chains])
        drawn = sweeps(one, start, stream(0, "pack"), count)[0, :, : one.visible]
        found = change(drawn)
        ends.append((float(found.mean()), float(found.std()) / math.sqrt(len(found))))
    test = float(change(data.test.spins).mean())
    (low, low_error), (high, high_error) = ends
    return test - (high + 2 * high_error), test - (low - 2 * low_error)


def command(settings: dict[str, Any]) -> str:
    """The command of a grid, from what it kept."""
    words = []
    for name, value in settings.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, list):
            value = ",".join(f"{x:g}" for x in value)
        if value is True:
            words.append(flag)
        elif value is not None and value is not False and (name, value) != ("device", "auto"):
            words.append(f"{flag} {value}")
    return f"python -m benchmarks grid {' '.join(words)}"


def run(words: Sequence[str] = ()) -> dict[str, float]:
    how = arguments(words)
    kept = json.loads(how.grid.read_text())
    row, settings = kept["rows"][how.replica], kept["settings"]
    recipe, each = recipe_of(Namespace(**settings))
    rate, decay = each[how.replica]
    data = recipe.data()
    epochs = max(1, round(settings["updates"] * settings["batch"] / len(data.train)))
    recipe = replace(recipe, replicas=1, rate=(rate,), weight_decay=(decay,), epochs=epochs, valid=None)
    machine = load_machine(how.machines, replica=how.replica)
    biases = "" if machine.biases is None else ", with biases"
    k = None if machine.patterns is None else machine.patterns.shape[1]
    low, high = moved(deepcopy(machine), data, how.chains, how.sweeps)
    card = Card(
        data=settings["data"],
        shape=data.shape,
        machine=f"{machine.layers.describe()}, {'dense' if k is None else f'K={k}'}{biases}",
        parameters=sum(p.numel() for p in machine.parameters()),
        recipe=recipe.as_dict(),
        command=command(settings),
        replica=f"{how.replica} of 0 to {len(each) - 1}, which were trained side by side",
        updates=row["updates"],
        seconds=row["seconds"],
        device=how.device,
        log_p={part: tuple(row[part]) for part in PARTS if part in row},
        log_z=tuple(row["log_z"]),
        rounding=(low, high),
    )
    if max(-low, high) >= MOST:
        raise SystemExit(f"half precision moves log p by {low:.4f} to {high:.4f} nats, {MOST} at most")
    pack(how.out, machine, data, card)
    return {"moved, from": low, "moved, to": high, "bytes": how.out.stat().st_size}
