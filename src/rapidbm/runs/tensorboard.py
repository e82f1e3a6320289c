"""What TensorBoard shows of a run: scalars, histograms and pictures, under `tensorboard/` in its folder.

    log_likelihood/test               each metric of each evaluation, mean over replicas
    log_likelihood/test/replica-3     and one by one, where there are several
    rate, norm/…                      of the update before, and √Σθ² of each parameter
    couplings.patterns, biases        histograms over all replicas
    samples, patterns, reconstructions    of replica 0; up is dark, 0 (unknown) is in between

Points stand at the updates after which the run looked. What is drawn for pictures has a stream of its
own, so that watching changes no bit of the training. However large the machine, a look writes at most
about a megabyte: `VALUES` of a parameter, `PIXELS` of a picture, `REPLICAS` one by one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..data.splits import Split
from ..disk import inside, make_folder
from ..errors import require
from ..machines.machine import Machine
from ..pictures import mosaic
from ..random import stream
from ..sampling.gibbs import run_sweeps
from ..training.loop import Progress
from ..training.negative import Persistent, Tempered
from .folder import ASIDE, Record
from .metrics import corrupt, reconstruct

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from .run import Run, Step

PLACE = "tensorboard"
VALUES = 2**16  # of a parameter, evenly spaced, in a histogram
BINS = 64
PIXELS = 2**19  # of a picture
IMAGES, FILLED = 64, 12
REPLICAS = 100
SWEEPS = 100  # from random spins, where no chains are kept
FEW_SWEEPS = 10  # of them, where a sweep goes unit by unit
PAPER, LIGHT, DARK = (255, 255, 255), (211, 221, 229), (29, 43, 54)
Pixels = np.ndarray[Any, np.dtype[np.uint8]]


def check_installed() -> None:
    require("tensorboard", "watching by TensorBoard")


class TensorBoard(AbstractContextManager["TensorBoard"]):
    """Writes the evaluations of a run for TensorBoard; a resumed run continues without duplicate points.

    Parameters
    ----------
    run : Run
        The run that is watched; files go to its folder `tensorboard/`. Needs `rapidbm[tensorboard]`.

    Raises
    ------
    InputError
        If TensorBoard is not installed.

    Notes
    -----
    Use it as a context manager and call it with every step:

        with rb.TensorBoard(run) as board:
            for step in run.go():
                board(step)
    """

    def __init__(self, run: Run) -> None:
        check_installed()
        self.run = run
        self.folder = inside(run.folder, PLACE)
        self._writer: SummaryWriter | None = None

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the files; the context manager does it at its end."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def __call__(self, step: Step) -> None:
        """Writes down an evaluation, if there was one."""
        if self._writer is None:
            self._writer = self._opened(step.update)
        if step.record is None:
            return
        progress = step.progress
        machine = progress.trainer.current()
        _scalars(self._writer, step.record)
        _course(self._writer, progress, machine)
        _histograms(self._writer, progress.update, machine)
        shape = step.data.shape
        for name, images in _pictures(progress, machine, step.data.test, shape).items():
            self._writer.add_image(name, images, progress.update, dataformats="HWC")
        self._writer.flush()  # a kill loses nothing that was told

    def _opened(self, update: int) -> SummaryWriter:
        """What an earlier process wrote from this update on is made anew, and not shown twice; of a run
        that was not watched so far the evaluations are told."""
        from torch.utils.tensorboard import SummaryWriter

        make_folder(self.folder)
        fresh = not any(self.folder.glob("*tfevents*"))
        writer = SummaryWriter(str(self.folder), purge_step=None if fresh else update)
        if fresh:
            recipe = json.dumps(self.run.recipe.as_dict(), indent=2, ensure_ascii=False)
            writer.add_text("recipe", "\n".join(f"    {line}" for line in recipe.splitlines()), 0)
            for record in self.run.metrics():
                if record["update"] < update:
                    _scalars(writer, record)
        return writer


def _scalars(writer: SummaryWriter, record: Record) -> None:
    for key, values in record.items():
        if key in ASIDE:
            continue
        name, _, part = key.rpartition("_")
        tag = f"{name}/{part}" if name and part in ("train", "test", "valid") else key
        _each(writer, tag, values, record["update"])


def _course(writer: SummaryWriter, progress: Progress, machine: Machine) -> None:
    rates = progress.trainer.rates(max(0, progress.update - 1))
    _each(writer, "rate", rates, progress.update)
    for name, parameter in machine.named_parameters():
        norms = parameter.detach().flatten(1).double().norm(dim=1)
        _each(writer, f"norm/{name}", norms.tolist(), progress.update)


def _each(writer: SummaryWriter, tag: str, values: Sequence[float | None], update: int) -> None:
    """The mean of what is finite, and the values one by one where there are several."""
    known = {i: x for i, x in enumerate(values) if x is not None and math.isfinite(x)}
    if known:
        writer.add_scalar(tag, sum(known.values()) / len(known), update)
    if len(values) > 1:
        for i, value in known.items():
            if i < REPLICAS:
                writer.add_scalar(f"{tag}/replica-{i}", value, update)


def _histograms(writer: SummaryWriter, update: int, machine: Machine) -> None:
    for name, parameter in machine.named_parameters():
        flat = parameter.detach().flatten()
        values = flat[:: math.ceil(len(flat) / VALUES)].cpu()
        if bool(values.isfinite().all()):
            writer.add_histogram(name, values, update, bins=BINS)


@torch.no_grad()
def _pictures(
    progress: Progress, machine: Machine, test: Split, shape: tuple[int, int]
) -> Mapping[str, Pixels]:
    trainer, v = progress.trainer, machine.visible
    rng = stream(trainer.seed, PLACE, progress.update, device=machine.device)
    one = machine.replica(0)
    stay = isinstance(trainer.negative, Persistent | Tempered)
    chains = trainer.configurations(rng) if stay else None
    if chains is None:
        count = FEW_SWEEPS if machine.layers.self_coupled(0) else SWEEPS
        chains = run_sweeps(one, one.random(IMAGES, rng), rng, count)
    found = {"samples": _picture(chains[0, :IMAGES, :v], shape)}
    if one.patterns is not None:
        xi = one.patterns[0, :IMAGES, :v]
        found["patterns"] = _picture(xi / xi.abs().max().clamp(min=1e-30), shape)
    if test.known is not None and shape[0] > 1:
        some = test.take(slice(0, FILLED))
        rows = (some.spins, corrupt(some).nan_to_num(), reconstruct(one, some, rng)[0].cpu())
        found["reconstructions"] = _picture(torch.cat([row.float() for row in rows]), shape, len(some))
    return found


def _picture(images: Tensor, shape: tuple[int, int], columns: int | None = None) -> Pixels:
    """Images (c, v) in [−1, 1] side by side, or the rows of a table, as (height, width, 3)."""
    images = images.float().cpu()
    if shape[0] == 1:
        most = max(1, PIXELS // max(1, shape[1]))
        grey = images[:most].numpy().repeat(4, 0).repeat(4 if shape[1] < 256 else 1, 1)
    else:
        if columns is None:
            images = images[: max(1, PIXELS // (shape[0] * shape[1]))]
        grey = mosaic(images, shape, columns)
    step = math.ceil(math.sqrt(grey.size / (4 * PIXELS)))  # a few images may be large ones
    grey = grey[::step, ::step]
    share = (np.nan_to_num(grey)[..., None] + 1.0) / 2.0
    mixed = np.array(LIGHT) * (1.0 - share) + np.array(DARK) * share
    return np.where(np.isnan(grey)[..., None], np.array(PAPER), mixed).round().astype(np.uint8)
