"""What the paper compares RAPID with: dense machines trained by exact gradients, CD-10 and PCD-10.

They take Adam, whose correction for its start the paper's program counts by epochs (`optimisers`, eq. 2).
"""

from __future__ import annotations

from typing import Any

DENSE: dict[str, Any] = {
    "hidden": (1000,),
    "patterns": None,
    "optimizer": "adam",
    "rate": (1e-3,),
    "batch_size": 1,
    "epochs": 300,
}
METHODS: dict[str, dict[str, Any]] = {
    "exact": {"negative": "exact"},
    "cd": {"negative": "cd", "sweeps": 10},
    "pcd": {"negative": "pcd", "sweeps": 10, "particles": 2048},
}


def dense_settings(method: str, clock: str) -> dict[str, Any]:
    """The settings of a method, with Adam's clock by `epoch`, as released, or by `update`, as usual."""
    return {**DENSE, **METHODS[method], "adam_clock": clock}
