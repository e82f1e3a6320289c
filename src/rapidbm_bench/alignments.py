"""A protein family beside adabmDCA: time to a Pearson coefficient, contacts, weights of sequences.

    python -m benchmarks alignments                        PF00014, for --limit seconds a side at most
    python -m benchmarks alignments --family F.fasta.gz    another one, with its F.distances.gz
    python -m benchmarks alignments --rate 0.05 --chains 1000    other settings of adabmDCA than its own

Both sides train a full Potts machine on all sequences by the same weights with one thread each, one after
the other, and stop when pair correlations of data and chains agree to the target, 0.95. Seconds are CPU
time of all that a side does until then, its looks at the correlations with it. Both machines are then
sampled anew from random sequences by the same code, `SWEEPS` sweeps of 10,000 chains, and compared with
the data again. A contact is a pair of sites at less than 8 Å with 4 sites between or more; the precision
is that of the first L pairs by score, L sites.

Exit code 0: weights agree to 1e-6, and the rest reaches what is asked; 1: it does not; 2: bad input.
"""

from __future__ import annotations

import gzip
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from rapidbm.data.alignments import Alignment, read_alignment
from rapidbm.data.digits import data_folder
from rapidbm.data.identity import sequence_weights
from rapidbm.errors import InputError, check_count, is_number
from rapidbm.exchange.adabm_files import load_adabm
from rapidbm.inference.couplings import effective_couplings
from rapidbm.machines.constructors import bm
from rapidbm.machines.machine import Machine
from rapidbm.machines.units.categorical import Categorical
from rapidbm.progress import quiet
from rapidbm.random import stream
from rapidbm.runs.correlations import PairCorrelations, looks_at_pairs, seen_by
from rapidbm.runs.presets import PRESETS
from rapidbm.runs.recipe import Recipe
from rapidbm.sampling.gibbs import run_sweeps
from rapidbm.training.trainer import Trainer

from .running import Row, option_parser, tell

TARGET, LIMIT = 0.95, 600.0  # Pearson; seconds of CPU time of a side
NEAR, CONTACT = 4, 8.0  # sites along the sequence; Å
CHAINS, SWEEPS = 10_000, 50  # of the samples that both machines are compared by
ASKED = {"weights": 1e-6, "weights are faster": 3.0, "precision": -0.01, "speed": 1.0}


def distances(path: Path) -> dict[tuple[int, int], float]:
    """Å between sites, from 0, of a file with lines `i j … distance`, sites from 1."""
    if not path.is_file():
        return {}
    with gzip.open(path, "rt") as lines:
        rows = [line.split() for line in lines if line.strip()]
    return {(int(float(row[0])) - 1, int(float(row[1])) - 1): float(row[-1]) for row in rows}


def precision(machine: Machine, apart: dict[tuple[int, int], float]) -> float:
    """The share of contacts among the first L pairs whose distance is known."""
    scores = effective_couplings(machine).contacts(without=0)[0].cpu()
    sites = len(scores)
    pairs = [(i, j) for i, j in apart if j - i > NEAR]
    first = sorted(pairs, key=lambda pair: -float(scores[pair]))[:sites]
    return float(np.mean([apart[pair] < CONTACT for pair in first])) if first else float("nan")


def agreement(machine: Machine, pairs: PairCorrelations) -> float:
    """Pearson's coefficient of the data with new samples of a machine."""
    rng = stream(1, "samples")
    chains = run_sweeps(machine, machine.random(CHAINS, rng), rng, SWEEPS)
    return float(pairs.with_chains(chains, rng, 1, machine)[0])


def ours(family: Alignment, weights: np.ndarray, target: float, limit: float) -> tuple[Machine, Row]:
    """Trained by the preset for sequences until the coefficient is reached, and how long it took."""
    made: dict[str, Any] = dict(PRESETS["sequences"])
    recipe = Recipe.made("family.fasta", made | {"until_correlation": target}, "sequences")
    began = time.process_time()
    codes = torch.from_numpy(family.codes.astype(np.int64))
    machine = bm(
        codes.shape[1], units=Categorical(len(family.alphabet)), biases=True, scale=recipe.scale, seed=0
    )
    rows, given = machine.layers.encode(codes), torch.from_numpy(weights)
    machine.start_biases(rows, weights=given)
    pairs = PairCorrelations(machine, rows, given)
    trainer = Trainer(
        machine,
        rows,
        recipe.negative_phase(),
        recipe.optimizer_choice(),
        epochs=recipe.epochs,
        batch_size=recipe.batch_size,
        seed=0,
        weights=given,
    )
    value = 0.0
    for progress in trainer.together(lambda p: looks_at_pairs(recipe, p)):
        if looks_at_pairs(recipe, progress):
            value = float(seen_by(pairs, progress)[0])
        if value >= target or time.process_time() - began > limit:
            break
    return machine, {"seconds": time.process_time() - began, "pearson": value, "updates": trainer.update}


def theirs(
    path: Path, weights: np.ndarray, target: float, limit: float, settings: dict[str, Any], folder: Path
) -> tuple[Machine, Row]:
    """The same by adabmDCA."""
    from adabmDCA.api.exceptions import OperationCancelledError
    from adabmDCA.api.training import train_model

    seen: list[Any] = []
    began = time.process_time()
    with suppress(OperationCancelledError):
        train_model(
            path,
            weights_path=weights,
            target_pearson=target,
            output_dir=folder,
            checkpoint_interval=10,
            device="cpu",
            progress=seen.append,
            is_cancelled=lambda: time.process_time() - began > limit,
            **settings,
        )
    spent = time.process_time() - began
    value = float(seen[-1].metrics.get("Pearson", float("nan"))) if seen else float("nan")
    row = {"seconds": spent, "pearson": value, "updates": len(seen)}
    return load_adabm(next(folder.glob("*params.dat")), "protein"), row


def of_weights(family: Alignment) -> tuple[np.ndarray, Row]:
    """Weights at 80 % identity by both, the largest difference, and how many times as fast ours are."""
    from adabmDCA.fasta import compute_weights

    sequence_weights(family.codes[:100])
    began = time.process_time()
    mine = sequence_weights(family.codes)
    middle = time.process_time()
    their = compute_weights(family.codes.astype(np.int64), 0.8).numpy()
    spent = middle - began, time.process_time() - middle
    row = {"seconds": spent[0], "seconds of adabmDCA": spent[1], "times as fast": spent[1] / spent[0]}
    return mine, row | {
        "largest difference": float(np.abs(mine - their).max()),
        "M_eff": float(mine.sum()),
    }


def run(words: Sequence[str] = ()) -> dict[str, Row]:
    parser = option_parser(__name__, __doc__)
    parser.add_argument("--family", type=Path)
    parser.add_argument("--target", type=float, default=TARGET)
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of CPU time of a side")
    parser.add_argument("--rate", type=float, help="of adabmDCA")
    parser.add_argument("--chains", type=int, help="of adabmDCA")
    parser.add_argument("--sweeps", type=int, help="of adabmDCA")
    parser.add_argument("--sampler", choices=("metropolis", "gibbs"), help="of adabmDCA")
    chosen = parser.parse_args(words)
    if not (is_number(chosen.target) and 0 < chosen.target < 1 and chosen.limit > 0):
        raise InputError("--target is between 0 and 1, and --limit seconds above 0")
    for name in ("chains", "sweeps"):
        if getattr(chosen, name) is not None:
            check_count(f"the number of {name}", getattr(chosen, name))
    folder = data_folder()
    path = chosen.family or Path(folder or ".") / "families" / "PF00014.fasta.gz"
    if not path.is_file():
        raise InputError(f"there is no family {path}; give one by --family")
    if find_spec("adabmDCA") is None:
        raise InputError("this is a comparison with adabmDCA, which is missing; pip install adabmDCA")
    named = {"learning_rate": chosen.rate, "n_chains": chosen.chains, "n_sweeps": chosen.sweeps}
    settings = {k: v for k, v in (named | {"sampler": chosen.sampler}).items() if v is not None}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1), quiet(), tempfile.TemporaryDirectory() as place:
            return _compared(path, chosen.target, chosen.limit, settings, Path(place))
    finally:
        torch.set_num_threads(threads)


def _compared(
    path: Path, target: float, limit: float, settings: dict[str, Any], folder: Path
) -> dict[str, Row]:
    family = read_alignment(path)
    weights, found = of_weights(family)
    tell(f"weights: {found['times as fast']:.1f} times as fast")
    plain = folder / "family.fasta"
    plain.write_text("".join(f">{i}\n{text}\n" for i, text in enumerate(family.text())), encoding="ascii")
    apart = distances(path.with_name(path.name.split(".")[0] + ".distances.gz"))
    rows: dict[str, Row] = {}
    machines: dict[str, Machine] = {}
    machines["rapidbm"], rows["rapidbm"] = ours(family, weights, target, limit)
    tell(f"rapidbm: {rows['rapidbm']}")
    machines["adabmDCA"], rows["adabmDCA"] = theirs(
        plain, weights, target, limit, settings, folder / "theirs"
    )
    tell(f"adabmDCA: {rows['adabmDCA']}")
    columns = machines["rapidbm"].layers.encode(torch.from_numpy(family.codes.astype(np.int64)))
    pairs = PairCorrelations(machines["rapidbm"], columns, torch.from_numpy(weights))
    for name, machine in machines.items():
        still = machine.requires_grad_(False)
        rows[name] |= {"of new samples": agreement(still, pairs), "precision": precision(still, apart)}
    return {**rows, "weights": found}


def failed(rows: dict[str, Row]) -> bool:
    mine, other, weights = rows["rapidbm"], rows["adabmDCA"], rows["weights"]
    return not (
        weights["largest difference"] <= ASKED["weights"]
        and weights["times as fast"] >= ASKED["weights are faster"]
        and mine["seconds"] * ASKED["speed"] <= other["seconds"]
        and mine["pearson"] >= min(TARGET, other["pearson"])
        and not mine["precision"] - other["precision"] < ASKED["precision"]
    )


def show(rows: dict[str, Row]) -> None:
    """A line for each number."""
    for name, row in rows.items():
        print(f"  {name}")
        for key, value in row.items():
            print(f"    {key:<24} {value:.6g}", flush=True)
