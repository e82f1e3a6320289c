"""Does a dimod sampler train the 4×4 bars as persistent chains do? And at a temperature nobody told?

    python -m benchmarks annealer --seeds 8

One dense machine, 16×24 with biases, a replica for each seed; Adam, one update per epoch of all ten bars.
The Hamming distance is that of reconstruction, on average over 20 draws; log-likelihoods are exact.
"""

import time
import warnings
from collections.abc import Sequence
from typing import Any

import torch

import rapidbm as rb

from .running import option_parser, tell

EPOCHS, DRAWS = 400, 20
COLD = {"beta_range": (0.0, 2.5)}  # an annealer whose temperature is not the machine's
PHASES: dict[str, rb.NegativePhase] = {
    "pcd-50": rb.Persistent(100, 50),  # as many samples and sweeps as the annealer
    "pcd-10": rb.Persistent(100, 10),
    "sa": rb.Annealer("sa", 100, 50),
    "sa, not corrected": rb.Annealer("sa", 100, 50, corrected=False),
    "sa to β = 2.5": rb.Annealer("sa", 100, 50, parameters=COLD),
    "sa to β = 2.5, not corrected": rb.Annealer("sa", 100, 50, corrected=False, parameters=COLD),
}


def trained(negative: rb.NegativePhase, seeds: int) -> dict[str, float]:
    data = rb.load("bars4")
    machine = rb.rbm(16, 24, replicas=seeds, biases=True, seed=0)
    began = time.perf_counter()
    for progress in rb.train(
        machine, data.train, negative, rb.adam(0.005, fall="linear"), epochs=EPOCHS, batch_size=10, seed=0
    ):
        trainer: Any = progress.trainer
    seconds = time.perf_counter() - began
    row: dict[str, float] = {}
    for name, split in (("train", data.train), ("test", data.test)):
        draws = [rb.hamming_distance(machine, split, rb.stream(i, "draw")) for i in range(DRAWS)]
        row |= named(f"HD {name}", torch.stack(draws).mean(0))
    row |= named("log-likelihood", rb.log_likelihood(machine, data.train, method="exact").value)
    beta = torch.full((seeds,), torch.nan)
    if isinstance(negative, rb.Annealer) and negative.corrected:
        beta = negative.temperature(trainer.chains).value
    return {**row, **named("β", beta), "seconds": seconds}


def named(name: str, each: torch.Tensor) -> dict[str, float]:
    """The mean over seeds and its standard error."""
    return {name: float(each.mean()), f"± {name}": float(each.std() / len(each) ** 0.5)}


def run(words: Sequence[str] = ()) -> dict[str, dict[str, float]]:
    parser = option_parser(__name__, __doc__)
    parser.add_argument("--seeds", type=int, default=8)
    seeds = parser.parse_args(words).seeds
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rb.FitWarning)
        found = {}
        for name, negative in PHASES.items():
            found[name] = trained(negative, seeds)
            tell(name, found[name])
        return found
