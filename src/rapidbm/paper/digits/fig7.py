"""Fig. 7: visible parts of trained patterns; samples that start from one pattern."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from ...pictures import show_images
from ..drawing import panels, sizes_of, tiles
from ..study import Claim, Finding, Item, Number, Records

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LEAST = 0.05  # of the ends of chains must be digits, for their classes to mean something


def _draw(records: Records) -> Figure:
    record = records["mnist.patterns"]
    fig, (left, middle, right) = panels(3, height=2.5)
    shape = record["shape"]
    patterns = torch.from_numpy(record.array("patterns"))
    patterns = patterns / patterns.abs().quantile(0.995)  # contrast
    show_images(left, patterns, (shape[0], shape[1]), 4)
    left.set_title("(a) patterns", loc="left")
    chosen = torch.from_numpy(record.array("chosen"))[None]
    chosen = chosen / chosen.abs().quantile(0.995)
    show_images(middle, chosen, (shape[0], shape[1]), 1)
    middle.set_title("(b) one of them …", loc="left")
    tiles(right, record["chosen_samples"][:30], shape, 6, "… and where chains from it end")
    return fig


def _caption(records: Records) -> str:
    record = records["mnist.patterns"]
    ends = zip(record["chosen_labels"], record["chosen_digits"], strict=True)
    labels = sorted({label for label, digit in ends if digit})
    return (
        "(a) Visible part of sixteen patterns of a trained machine, their contrast enhanced (mean size "
        f"of a component: {record['pattern_size']:.2g}; {record['saturated']:.0%} lie at the bound). (b) "
        "A pattern, the one whose chains end in most classes, and samples that start from it, ordered by "
        "the class of the nearest training image; those as near to one as test images are have the "
        f"classes {', '.join(map(str, labels)) or 'none'}. {sizes_of(records)}"
    )


ITEMS = {
    "fig7": Item(
        "Patterns after training on MNIST", ("mnist.patterns", "mnist.binarized"), _draw, _caption
    )
}


def _several(records: Records) -> Finding:
    record = records["mnist.patterns"]
    classes, every = record.array("classes"), record.array("classes_of_all")
    return Finding(
        Number.of(classes).above(1.0) if record["digits"] >= LEAST else None,
        f"classes reached from one pattern by {record['chains']} chains: mean {Number.of(classes)} over "
        f"{len(classes)} patterns, at most {classes.max():.0f}; {np.mean(classes > 1):.0%} of the "
        f"patterns lead to more than one; {record['digits']:.0%} of the ends are as near to a training "
        "image as 95 % of the test images are, and only these count; counting all of them: mean "
        f"{Number.of(every)}",
        "Images are turned to the side of the data.",
    )


CLAIMS = (
    Claim(
        "one-pattern-several-classes",
        "Sec. V.C, Fig. 7b",
        "Starting from one pattern Gibbs sampling gives different images “belonging to different "
        "classes of digits”.",
        "Classes among the ends of 32 chains from a pattern, by the nearest training image, of ends "
        "that are as near to one as test images are.",
        f"More than one on average over 64 patterns, by 2 σ; judged when {LEAST:.0%} of the ends or "
        "more count.",
        ("mnist.patterns",),
        _several,
        full=True,
    ),
)
