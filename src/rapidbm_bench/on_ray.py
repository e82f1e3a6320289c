"""What Ray costs: 20 trainings of 10 s each, one core each, against the time that they take themselves.

Every training has a budget, so that it takes its seconds of wall time beside whatever else runs. With T_i
what each of n took by its own clock, on c cores,

    overhead = wall / (Σ T_i / c) − 1                                                     (1)

which counts the start of Ray and of its workers, what Tune does between trainings, and the end.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from .running import option_parser


def run(words: Sequence[str] = ()) -> dict[str, float]:
    parser = option_parser(__name__, __doc__)
    parser.add_argument("--trainings", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    given = parser.parse_args(words)
    import rapidbm as rb

    study = rb.Study(
        "digits",
        grid={"rate": [1e-3 * 1.1**i for i in range(given.trainings)]},
        fixed={"hidden": 200, "budget": f"{given.seconds}s", "metric": ["hamming"], "evaluate_at": "end"}
        | {"checkpoints": "end", "device": "cpu"},
        seeds=1,
        together=1,
        measure="hamming_test",
        ray={"at_once": given.cores},
    )
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        rb.Sweep(study, Path(folder) / "sweep").go_on_ray()
        wall = time.monotonic() - began
        told = [json.loads(path.read_text()) for path in Path(folder).glob("sweep/batches/*/run.json")]
    spent = sum(info["wall"] for info in told)
    return {
        "trainings": len(told),
        "seconds of each": spent / len(told),
        "wall, s": wall,
        "overhead": wall / (spent / given.cores) - 1.0,
    }
