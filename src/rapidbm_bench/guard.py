"""Is anything slower than it was? Ratios of CPU times, compared with the committed ones in guard.json.

    python -m benchmarks guard                         all ratios, about two minutes
    python -m benchmarks guard --only replicas,help
    python -m benchmarks guard --update                measures all three times and writes guard.json

A ratio is the CPU time of rapidbm over that of something else in the same run, so smaller is better. Both
sides have one thread, and waiting for a busy processor does not count. Caches that others use still do: a
busy machine is mentioned. Rounds alternate; the ratio is the median over the rounds, its spread the
quartiles. A ratio is worse if it is more than 15 % above the committed one and the two spreads do not
overlap. What looks worse is measured three more times, with everything built anew, and judged by all
rounds together.

Exit code 0: nothing is worse; 1: something is; 2: bad input.
"""

import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from rapidbm.disk import read_json, write_json
from rapidbm.errors import InputError, unknown
from rapidbm.progress import quiet
from rapidbm.schema import Maybe, Names, Real, Text, Whole

from . import pid
from .clock import CPU, Action, interleaved
from .running import Row, option_parser, tell
from .speed.groups import SMALL, often, sklearn_fit
from .speed.jobs import PER_CALL, Size, bars, epoch, look, ours, plain
from .speed.peers import REMEDY as INSTALL
from .speed.peers import Guarded, by_rbms, by_sklearn
from .speed.run import busy

FILE = Path(__file__).with_name("guard.json")
LIMIT = 0.15  # a ratio may be so much above the committed one
ROUNDS, STARTS = 11, 5  # in a measurement; of processes
LEAST = 0.05  # seconds of a side in a round
REPEATS = 3  # more measurements of what looks worse
UPDATES = 3  # measurements behind a committed ratio
SAME, BETTER, WORSE, UNSURE = "as committed", "better", "worse", "within its spread"
REMEDY = "`python -m benchmarks guard --update` measures all ratios and writes it anew"
SEED = 0
LARGE = Size(784, 500)
LOOKED_AT = 20  # replicas
CALLED = {"torch": "a plain loop in torch", "rbms": "rbms", "sklearn": "scikit-learn"}


@dataclass(frozen=True)
class Ratio:
    """CPU time of one action over that of another."""

    means: str  # what is divided by what
    one: Callable[[], Action]
    other: Callable[[], Action]
    package: str = ""  # that the other side needs
    starts: bool = False  # each call starts a process


def process(*words: str) -> Callable[[], Action]:
    """Builds the start of a Python process, until it ends."""
    command = [sys.executable, *words]
    return lambda: lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def beside(size: Size) -> Iterator[tuple[str, Ratio]]:
    """A small dense machine beside others: PCD-1 by SGD, `PER_CALL` updates as `train` makes them."""
    mine = partial(epoch, size, 1, CPU, SEED)
    for name, package, build in (
        ("torch", "", partial(often, plain, size, CPU, SEED)),
        ("rbms", "rbms", partial(often, by_rbms, size, CPU, SEED)),
        ("sklearn", "sklearn", partial(sklearn_fit, size, SEED)),
    ):
        means = f"{PER_CALL} updates of rapidbm over those of {CALLED[name]}, {size}, PCD-1"
        yield f"{name}-{size.visible}x{size.hidden}", Ratio(means, mine, build, package)


def beside_large(size: Size) -> Iterator[tuple[str, Ratio]]:
    """A larger one, update by update with Adam, and with ten sweeps where the other side can do them."""
    for name, package, build, sweeps in (
        ("torch", "", plain, 10),
        ("rbms", "rbms", by_rbms, 10),
        ("sklearn", "sklearn", by_sklearn, 1),
    ):
        mine, theirs = (partial(made, size, sweeps, CPU, SEED) for made in (ours, build))
        means = f"an update of rapidbm over one of {CALLED[name]}, {size}, PCD-{sweeps}"
        yield f"{name}-{size.visible}x{size.hidden}", Ratio(means, mine, theirs, package)


def through_w() -> Action:
    made = pid.trainer()
    return lambda: pid.through_w(made)


RATIOS = {
    "replicas": Ratio(
        "an update of 100 replicas of the paper's 4×4 bars over one of 1 replica",
        partial(bars, 100, CPU),
        partial(bars, 1, CPU),
    ),
    "look": Ratio(
        f"a look at {LOOKED_AT} replicas of the 4×4 bars (all metrics) over {PER_CALL} updates of them",
        partial(look, LOOKED_AT, CPU),
        partial(bars, LOOKED_AT, CPU),
    ),
    **{name: ratio for size in SMALL for name, ratio in beside(size)},
    **dict(beside_large(LARGE)),
    "overlaps": Ratio(
        f"a PID update through {pid.PATTERNS} overlaps over one through a built W, "
        f"{pid.VISIBLE}×{pid.HIDDEN}",
        lambda: pid.trainer().step,
        through_w,
    ),
    "import": Ratio(
        "`import rapidbm` over `import torch`, each in a new process",
        process("-c", "import rapidbm"),
        process("-c", "import torch"),
        starts=True,
    ),
    "first-use": Ratio(
        "`from rapidbm import rbm, train` over `import torch`, each in a new process",
        process("-c", "from rapidbm import rbm, train"),
        process("-c", "import torch"),
        starts=True,
    ),
    "help": Ratio(
        "`rapidbm --help` over `import typer`, each in a new process",
        process("-m", "rapidbm", "--help"),
        process("-c", "import typer"),
        starts=True,
    ),
}


# -- measuring -------------------------------------------------------------------------------------------


def cpu_seconds() -> float:
    """CPU time of this process and of those that it waited for."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for torch, for BLAS and for the processes that are started."""
    name, threads = "OMP_NUM_THREADS", torch.get_num_threads()
    before = os.environ.get(name)
    os.environ[name] = "1"
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(threads)
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def missing(ratio: Ratio) -> str:
    """Why it cannot be measured here, if so."""
    if ratio.package and find_spec(ratio.package) is None:
        return f"{ratio.package} is not installed ({INSTALL})"
    return ""


def measured(ratio: Ratio) -> list[float]:
    """The ratio in each round; RuntimeError if the other package fails."""
    other = Guarded(ratio.other) if ratio.package else ratio.other()
    times = interleaved(
        {"one": ratio.one(), "other": other},
        STARTS if ratio.starts else ROUNDS,
        pause=0,
        least=0 if ratio.starts else LEAST,
        timer=cpu_seconds,
        warm=not ratio.starts,
    )
    if isinstance(other, Guarded) and other.error:
        raise RuntimeError(other.error)
    pairs = zip(times["one"].seconds, times["other"].seconds, strict=True)
    return [one / other for one, other in pairs]


# -- judging ---------------------------------------------------------------------------------------------


def summary(found: list[float]) -> Row:
    """Median and quartiles."""
    low, middle, high = (float(f"{x:.4g}") for x in np.quantile(found, (0.25, 0.5, 0.75)))
    return {"ratio": middle, "low": low, "high": high}


def verdict(found: Row, committed: Row) -> str:
    """Beyond 15 % and beyond the spreads, in either direction."""
    if found["ratio"] > (1 + LIMIT) * committed["ratio"]:
        return WORSE if found["low"] > committed["high"] else UNSURE
    if (1 + LIMIT) * found["ratio"] < committed["ratio"] and found["high"] < committed["low"]:
        return BETTER
    return SAME


def compared(ratio: Ratio, committed: Row) -> Row:
    """The ratio beside the committed one; what looks worse is measured again."""
    row: Row = {"ratio": None, "low": None, "high": None, "committed": committed["ratio"]}
    if reason := missing(ratio):
        return {**row, "change": None, "verdict": f"skipped: {reason}"}
    found: list[float] = []
    for _ in range(1 + REPEATS):
        try:
            found += measured(ratio)
        except RuntimeError as error:
            return {**row, "change": None, "verdict": f"skipped: {ratio.package} failed: {error}"}
        row |= summary(found)
        row["change"] = row["ratio"] / row["committed"] - 1
        row["verdict"] = verdict(row, committed)
        if row["verdict"] not in (WORSE, UNSURE):
            break
    return row


def failed(rows: dict[str, Row]) -> bool:
    """Whether a ratio is worse than the committed one."""
    return any(row["verdict"] == WORSE for row in rows.values())


# -- the committed ratios --------------------------------------------------------------------------------


def machine() -> Row:
    """What ratios depend on besides our code."""
    packages = ("torch", "numpy", "scikit-learn", "rbms")
    versions = {name: version(name) for name in packages if find_spec(name.replace("scikit-", "sk"))}
    return {"python": platform.python_version(), **versions, "cores": os.cpu_count(), "cpu": cpu()}


def cpu() -> str:
    """The kind of processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {torch.backends.cpu.get_cpu_capability()}"


def shape(names: Iterable[str]) -> Names:
    number = Real(1e-9)
    ratio = Names({"means": Text(), "ratio": number, "low": number, "high": number})
    versions = {name: Text() for name in ("python", "torch", "numpy", "scikit-learn", "rbms", "cpu")}
    return Names(
        {
            "measured_with": Names({**versions, "cores": Whole(1), "busy": Maybe(Real(0))}),
            "ratios": Names(dict.fromkeys(names, ratio)),
        }
    )


def update(load: float | None) -> dict[str, Row]:
    """Measures all ratios and writes the file, with the load of a machine that was busy before."""
    for name, ratio in RATIOS.items():
        if reason := missing(ratio):
            raise InputError(f"--update writes every ratio, and {name} cannot be measured: {reason}")
    found: dict[str, list[float]] = {name: [] for name in RATIOS}
    for number in range(UPDATES):
        for name, ratio in RATIOS.items():
            tell(f"{number + 1} of {UPDATES}, {name}: {ratio.means}")
            found[name] += measured(ratio)
    rows = {name: summary(values) for name, values in found.items()}
    told = {name: {"means": RATIOS[name].means, **row} for name, row in rows.items()}
    write_json(FILE, {"measured_with": {**machine(), "busy": load}, "ratios": told})
    return {name: {**row, "verdict": "written"} for name, row in rows.items()}


def compare(names: list[str]) -> dict[str, Row]:
    """A row for each of the names, beside what the file says."""
    file = read_json(FILE, shape(RATIOS), "committed ratios", REMEDY)
    before = file["measured_with"]
    for what, now in machine().items():
        if before[what] != now:
            tell(f"{what}: {now} here, {before[what]} when the committed ratios were measured")
    rows = {}
    for name in names:
        tell(f"{name}: {RATIOS[name].means}")
        rows[name] = compared(RATIOS[name], file["ratios"][name])
    for name, row in rows.items():
        if row["verdict"] != SAME:
            tell(sentence(name, row))
    return rows


def sentence(name: str, row: Row) -> str:
    """The verdict on a ratio in words."""
    if row["ratio"] is None:
        return f"{name} {row['verdict']}"
    numbers = (
        f"{row['ratio']:.4g} [{row['low']:.4g}, {row['high']:.4g}], committed {row['committed']:.4g}"
    )
    return f"{name} is {row['verdict']}, {row['change']:+.0%}: {RATIOS[name].means}: {numbers}"


def run(words: Sequence[str] = ()) -> dict[str, Row]:
    parser = option_parser(__name__, __doc__)
    parser.add_argument("--only", help=f"some of {', '.join(RATIOS)}, with commas")
    parser.add_argument("--update", action="store_true", help="write the ratios to guard.json")
    given = parser.parse_args(words)
    names = given.only.split(",") if given.only is not None else list(RATIOS)
    for name in names:
        if name not in RATIOS:
            raise unknown("ratio", name, RATIOS)
    if given.update and given.only is not None:
        raise InputError("--update writes all ratios, of one machine; leave out --only")
    with one_thread(), quiet():
        load = busy()
        if load is not None:
            tell(
                f"the machine is busy (load {load:.1f}): ratios may be off by 15 % and more; run it alone"
            )
        return update(load) if given.update else compare(names)
