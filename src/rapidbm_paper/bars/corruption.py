"""Fig. C.1: the images that reconstruction starts from. All but the first line is unknown, 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from rapidbm.data.catalogue import load
from rapidbm.pictures import PAGE, panels, show_images
from rapidbm.runs.metrics import corrupt

from ..drawing import Figure, item
from ..lab import Lab, Part, Settings
from ..records import Array, Record, Records, Values, pack, unpack


@dataclass(frozen=True, kw_only=True)
class Scale(Settings):
    images: int = 4  # of the larger set; of 4×4 bars all four
    size: int = 12


def _images(lab: Lab, scale: Scale) -> Values:
    found: Values = {}
    for name, dataset in (("bars", "bars4"), ("bas", f"bas{scale.size}")):
        data = load(dataset)
        split = data.test
        if name == "bas":  # as many bars as stripes
            assert split.labels is not None
            half = scale.images // 2
            rows = [torch.nonzero(split.labels == which).flatten()[:half] for which in (0, 1)]
            split = split.take(torch.cat(rows))
        known = corrupt(split).isfinite()
        found |= {
            f"{name}_shape": list(data.shape),
            f"{name}_images": pack(split.spins),
            f"{name}_known": pack(known.to(torch.int8) * 2 - 1),
        }
        lab.tell(0.5 if name == "bars" else 1.0)
    return found


PARTS = {"images": Part(_images)}


def corrupted(record: Record, name: str) -> tuple[Array, Array]:
    """Originals and corrupted images, (samples, v)."""
    visible = int(np.prod(record[f"{name}_shape"]))
    images = unpack(record[f"{name}_images"], visible)
    known = unpack(record[f"{name}_known"], visible) > 0
    return images, np.where(known, images, 0.0)


@item("Corrupted images", ("corruption",))
def figC1(records: Records) -> Figure:
    """Test images and what reconstruction is given of them: the first line of pixels across the bars or
    stripes; blue pixels are unknown, 0."""
    fig, axes = panels(2, 2, width=PAGE * 0.75, height=0.95)
    record = records.get("corruption.images")
    for here in axes:
        here.set_axis_off()
    if record is None:
        return fig
    for row, name in enumerate(("bars", "bas")):
        shape = record[f"{name}_shape"]
        title = "4×4 bars" if name == "bars" else f"{shape[0]}×{shape[1]} bars and stripes"
        pair = corrupted(record, name)
        for column, (images, what) in enumerate(zip(pair, ("original", "corrupted"), strict=True)):
            here = axes[2 * row + column]
            show_images(here, torch.from_numpy(images), (shape[0], shape[1]), len(images))
            here.set_title(f"({'abcd'[2 * row + column]}) {title}, {what}", loc="left")
    return fig
