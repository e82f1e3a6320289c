"""Tables drawn from Bayesian networks, whose log p is known: how far trained machines are from it.

    python -m benchmarks networks                                  every network that is at hand
    python -m benchmarks networks asia survey --budget 1m --missing 0

Networks are files NAME.bif or NAME.bif.gz of `$RAPIDBM_DATA/networks` (bnlearn's repository). From each
--rows rows are drawn, and from a share --missing of their cells the words are removed at random; `rapidbm
train FILE --budget B` and nothing else trains on them. On 10,000 new rows the gap

    ⟨log p(x) − log p_trained(x)⟩ / H,     H = −⟨log p(x)⟩                                       (1)

is the mean of log p of the network less that of the machine, as a share of the network's entropy; `±` is
its standard error and that of log Z together. Rows with a word that training has not seen are left out.

Every measurement is a file in the folder --out, and what is there is not measured again.
"""

from __future__ import annotations

import shutil
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet

import rapidbm as rb
from rapidbm.arrays import Array
from rapidbm.data.digits import data_folder
from rapidbm.disk import make_folder, read_json, write_json
from rapidbm.errors import InputError, check_count, lookup
from rapidbm.progress import quiet
from rapidbm.runs.run import Run
from rapidbm.runs.timing import seconds_of
from rapidbm.schema import Anything

from .bif import Network, read
from .debd_methods import command
from .running import Row, option_parser, tell

TEST = 10_000  # rows
AT_ONCE = 2000  # rows


def arguments(words: Sequence[str] = ()) -> Namespace:
    parser = option_parser(__name__, __doc__)
    parser.add_argument("names", nargs="*", metavar="NETWORKS", help="such as asia")
    parser.add_argument("--rows", type=int, default=50_000, help="to train and choose by")
    parser.add_argument("--missing", default="0,0.2", help="shares of the cells, with commas")
    parser.add_argument("--budget", default="2m", help="of each training, such as 90s, 2m or 1h")
    parser.add_argument("--options", default="", help="more options of `rapidbm train`, in one word")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, default=Path("runs/networks"), help="folder of what was measured"
    )
    return parser.parse_args(words)


def at_hand() -> dict[str, Path]:
    """Files of networks by their names."""
    folder = data_folder()
    paths = sorted(Path(folder, "networks").glob("*.bif*")) if folder else []
    if not paths:
        raise InputError(
            "networks are read from $RAPIDBM_DATA/networks, and no .bif file is there; download some "
            "from bnlearn's repository and set RAPIDBM_DATA"
        )
    return {path.name.partition(".")[0]: path for path in paths}


def run(words: Sequence[str] = ()) -> dict[str, Row]:
    given = arguments(words)
    known = at_hand()
    for name in given.names:
        lookup("network", name, known)
    check_count("the number of --rows", given.rows, least=100)
    seconds = seconds_of(given.budget)
    try:
        missing = [float(part) for part in given.missing.split(",")]
    except ValueError:
        missing = [-1.0]
    if not all(0 <= share < 1 for share in missing):
        raise InputError(
            f"--missing takes shares from 0 to below 1, such as 0,0.2, not {given.missing!r}"
        )
    make_folder(given.out)
    return {
        f"{name}, {share:.0%} missing": measured(given, name, read(known[name]), share, seconds)
        for name in given.names or known
        for share in missing
    }


def measured(given: Namespace, name: str, network: Network, share: float, seconds: float) -> Row:
    """One training and its gap, which is kept in a file."""
    more = given.options.replace(" ", "").replace("--", ".")
    stem = f"{name}.{given.rows}.{share:g}.{seconds:g}s.{given.seed}{more}"
    path = given.out / f"{stem}.json"
    if path.is_file():
        row: Row = read_json(path, Anything(), "a measurement", "remove it, and it is measured again")
        return row
    rng = np.random.default_rng(given.seed)
    codes = network.draw(given.rows, rng)
    removed: Array = np.asarray(rng.random(codes.shape) < share)
    test = network.draw(TEST, rng)
    file, folder = given.out / f"{stem}.parquet", given.out / stem
    pyarrow.parquet.write_table(as_table(network, codes, removed), file)
    shutil.rmtree(folder, ignore_errors=True)
    began = time.perf_counter()
    words = ["train", str(file), "--budget", f"{seconds:g}s", "--seed", str(given.seed)]
    words += ["--out", str(folder), *given.options.split()]
    if command(words, given.out / f"{stem}.log") is None:
        raise InputError(f"the training on {name} failed; see {given.out / stem}.log")
    clock = time.perf_counter() - began
    known = np.ones(TEST, bool)
    for i in range(codes.shape[1]):
        known &= np.isin(test[:, i], codes[~removed[:, i], i])
    row = {**gap(Run(folder), network, test[known]), "seconds": clock}
    write_json(path, row)
    tell(stem, *(f"{key} {value:.4g}" for key, value in row.items()))
    return row


def as_table(network: Network, codes: Array, removed: Array | None = None) -> pyarrow.Table:
    """Codes as a table of words, empty where they are removed."""
    words = network.words(codes)
    return pyarrow.table(
        {
            name: pyarrow.array(cells, pyarrow.string(), mask=None if removed is None else removed[:, i])
            for i, (name, cells) in enumerate(words.items())
        }
    )


def gap(run: Run, network: Network, test: Array) -> Row:
    """Eq. (1) in percent, and what it is made of, in nats."""
    machine = run.machine().requires_grad_(False)
    assert run.schema is not None
    values, _ = run.schema.encode(as_table(network, test))
    with quiet():
        z = rb.log_z(machine, seed=0)
        parts = [
            rb.log_p(machine, values[i : i + AT_ONCE], normaliser=z, seed=0).value[0].numpy()
            for i in range(0, len(values), AT_ONCE)
        ]
    truth = network.log_p(test)
    lost = truth - np.concatenate(parts)
    half = float(z.upper[0] - z.lower[0]) / 2
    error = float(np.hypot(lost.std() / len(lost) ** 0.5, half / 1.96))
    entropy = -float(truth.mean())
    return {
        "gap %": 100 * float(lost.mean()) / entropy,
        "±": 100 * error / entropy,
        "entropy": entropy,
        "log p": float(-entropy - lost.mean()),
        "hidden": float(sum(machine.layers.counts[len(machine.layers.visible) :])),
    }
