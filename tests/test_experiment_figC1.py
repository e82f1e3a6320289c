"""The corrupted images are those that reconstruction starts from."""

import numpy as np
import torch

from rapidbm.data.bars import bars4
from rapidbm.runs.metrics import corrupt
from rapidbm_paper import parts
from rapidbm_paper.bars import corruption
from rapidbm_paper.lab import Lab
from rapidbm_paper.records import Record, plain


def images(tmp_path):
    bench = Lab("corruption.images", torch.device("cpu"), 0, tmp_path, lambda share: None)
    values = plain(parts("corruption")["corruption.images"].run(bench, corruption.Scale.at("tiny")))
    return Record(bench.name, "tiny", 0, {}, values)


def test_bars_as_reconstruction_takes_them(tmp_path):
    originals, corrupted = corruption.corrupted(images(tmp_path), "bars")
    split = bars4().test
    assert np.array_equal(originals, split.spins.numpy())
    assert np.array_equal(corrupted, corrupt(split).nan_to_num().numpy())
    assert (corrupted != 0).sum(1).tolist() == [4] * 4


def test_the_known_line_crosses_bars_and_stripes(tmp_path):
    originals, corrupted = corruption.corrupted(images(tmp_path), "bas")
    side = 12
    for original, given, bars in zip(originals, corrupted, (True, True, False, False), strict=True):
        image, left = original.reshape(side, side), given.reshape(side, side)
        line = left[0] if bars else left[:, 0]
        assert (line != 0).all()
        assert (given != 0).sum() == side
        # the line tells the whole image
        assert np.array_equal(image, np.tile(line, (side, 1)) if bars else np.tile(line, (side, 1)).T)


def test_the_figure_draws_unknown_pixels_as_unknown(tmp_path):
    record = images(tmp_path)
    fig = corruption.figC1.draw({"corruption.images": record})
    shown = [np.ma.filled(axes.images[0].get_array(), np.nan) for axes in fig.axes]
    levels = [set(np.unique(a[np.isfinite(a)])) for a in shown]
    assert levels == [{-1.0, 1.0}, {-1.0, 0.0, 1.0}] * 2
