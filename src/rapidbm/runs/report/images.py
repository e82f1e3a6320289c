"""Images of spins and of couplings as small PNGs, one pixel to a unit, which a browser enlarges."""

from __future__ import annotations

import io
import math

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...pictures import BLUE, DOWN, INK, ORANGE, UNKNOWN
from .html import PNG, embedded

Colours = NDArray[np.float64]
ZOOM = 240  # pixels of a PNG's shorter side, at least: what a browser without `pixelated` would blur


def spin_image(images: Tensor, shape: tuple[int, int], columns: int) -> str:
    """±1 (samples, v) side by side: up is dark, down is light, 0 (unknown) is blue."""
    values = images.float().cpu().numpy()
    colours = _between(values, (DOWN, UNKNOWN, INK))
    return _tiles(colours, shape, columns)


def field_image(fields: Tensor, shape: tuple[int, int], columns: int) -> str:
    """Real numbers (rows, v) side by side, blue below and orange above 0, on one scale that one in a
    hundred of them leaves."""
    values = fields.detach().float().cpu().numpy()
    most = float(np.quantile(np.abs(values), 0.99)) or 1.0
    colours = _between(np.clip(values / most, -1, 1), (BLUE, "#ffffff", ORANGE))
    return _tiles(colours, shape, columns)


def _rgb(colour: str) -> Colours:
    return np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])


def _between(values: NDArray[np.float32], colours: tuple[str, str, str]) -> Colours:
    """Colours for numbers from −1 to 1, (…, 3)."""
    low, middle, high = map(_rgb, colours)
    share = np.abs(values)[..., None]
    return np.where(values[..., None] < 0, share * low, share * high) + (1 - share) * middle


def _tiles(colours: Colours, shape: tuple[int, int], columns: int) -> str:
    """Images (count, v, 3) in rows of so many, with a gap that shows what is behind them."""
    from matplotlib.image import imsave

    rows, width = shape
    count = len(colours)
    columns = min(columns, count)
    lines, gap = math.ceil(count / columns), max(1, max(shape) // 10)
    whole = np.zeros((lines * (rows + gap) - gap, columns * (width + gap) - gap, 4))
    for i, image in enumerate(colours.reshape(count, rows, width, 3)):
        y, x = (i // columns) * (rows + gap), (i % columns) * (width + gap)
        whole[y : y + rows, x : x + width, :3] = image
        whole[y : y + rows, x : x + width, 3] = 1.0
    zoom = max(1, math.ceil(ZOOM / min(whole.shape[:2])))
    buffer = io.BytesIO()
    imsave(buffer, whole.repeat(zoom, 0).repeat(zoom, 1), format="png")
    return embedded(buffer.getvalue(), PNG)
