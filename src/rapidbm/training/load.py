"""The load: how many patterns a machine can have and still hold each of them as a low-energy state.

    K_c = 0.138 N                                    full connectivity, the Hopfield value    (1)
    K_c = min(0.2 √(n_a n_b), 0.7 min(n_a, n_b))     the visible layer and one coupled to it  (2)

(2) is measured (`docs/decisions/load.md`): beyond it a quench from random ±1 patterns ends elsewhere.
"""

from __future__ import annotations

import math
import warnings

from ..errors import LoadWarning
from ..machines.layers import Layers


def critical_patterns(layers: Layers) -> float:
    """K_c of random ±1 patterns."""
    sizes = layers.sizes
    if layers.full:
        return 0.138 * layers.columns
    near = {i for layer in layers.visible for i in layers.neighbours(layer)}
    pairs = [(layers.visible_columns, sizes[i]) for i in near]
    limits = [min(0.2 * math.sqrt(a * b), 0.7 * min(a, b)) for a, b in pairs]
    return max(limits, default=0.138 * layers.visible_columns)


def warn_of_load(layers: Layers, patterns: int) -> None:
    """For a training that takes its patterns as low-energy states."""
    limit = max(critical_patterns(layers), 1)
    if patterns > limit:
        warnings.warn(
            f"K = {patterns} random patterns are too many for layers of {layers.describe()} units: "
            f"beyond about {limit:.0f} they are no longer low-energy states, and descent from "
            "them ends elsewhere, so that PID averages over the wrong states; for PID take fewer "
            "patterns or larger layers; a negative phase that samples (pcd) does not rely on them",
            LoadWarning,
            stacklevel=4,
        )
