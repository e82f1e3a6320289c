"""Fig. 7: visible parts of trained patterns; samples that start from one pattern."""

from __future__ import annotations

import numpy as np
import torch

from rapidbm.pictures import panels, show_images

from ..claims import Finding, Number, claim
from ..drawing import Figure, item, tiles
from ..records import Records

LEAST = 0.05  # of the ends of chains must be digits, for their classes to mean something


def _summary(records: Records) -> str:
    record = records["mnist.patterns"]
    ends = zip(record["chosen_labels"], record["chosen_digits"], strict=True)
    labels = sorted({label for label, digit in ends if digit})
    return (
        "(a) Visible part of sixteen patterns of a trained machine, their contrast enhanced (mean size "
        f"of a component: {record['pattern_size']:.2g}; {record['saturated']:.0%} lie at the bound). (b) "
        "A pattern, the one whose chains end in most classes, and samples that start from it, ordered by "
        "the class of the nearest training image; those as near to one as test images are have the "
        f"classes {', '.join(map(str, labels)) or 'none'}."
    )


@item("Patterns after training on MNIST", ("mnist.patterns", "mnist.binarized"), _summary)
def fig7(records: Records) -> Figure:
    record = records["mnist.patterns"]
    fig, (left, middle, right) = panels(3, height=2.5)
    shape = record["shape"]
    rows = ((left, record.array("patterns"), 4, "(a) patterns"),
            (middle, record.array("chosen")[None], 1, "(b) one of them …"))  # fmt: skip
    for axes, images, columns, title in rows:
        shown = torch.from_numpy(images)
        shown = shown / shown.abs().quantile(0.995)  # contrast
        show_images(axes, shown, (shape[0], shape[1]), columns)
        axes.set_title(title, loc="left")
    tiles(right, record["chosen_samples"][:30], shape, 6, "… and where chains from it end")
    return fig


@claim(("mnist.patterns",), full=True)
def one_pattern_several_classes(records: Records) -> Finding:
    """Sec. V.C, Fig. 7b: Starting from one pattern Gibbs sampling gives different images “belonging to
    different classes of digits”.
    Read as: Classes among the ends of 32 chains from a pattern, by the nearest training image, of ends
    that are as near to one as test images are.
    Rule: More than one on average over 64 patterns, by 2 σ; judged when {LEAST:.0%} of the ends or more
    count."""
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
