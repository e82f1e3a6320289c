"""The command's pictures as functions: a matplotlib `Figure` each, beside which no other figure changes.

    rb.plot.images(rb.sample(machine, 64, seed=0)[0, :, :64]).savefig("samples.png")

Where a function takes `axes`, it draws into those and answers with their figure. Of several replicas one
is shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from . import pictures
from .arrays import as_tensor
from .errors import InputError
from .glass import pictures as panels
from .glass.growth import Growth
from .glass.minima import Minima
from .glass.neighbours import nearest as nearest_images
from .glass.overlaps import OverlapDistribution, Ultrametricity, energies_per_unit, overlap_distribution
from .glass.phases import Boundaries, boundaries, phase_point
from .glass.relaxation import Relaxation
from .glass.sample_moments import moments as sample_moments
from .glass.sample_moments import projections as sample_projections
from .glass.spectra import Spectrum
from .glass.spectra import spectrum as spectrum_of
from .likelihood.thermodynamics import Thermodynamics
from .machines.machine import Machine
from .machines.spins import as_spins
from .random import rng_from
from .runs.evaluation import curve_figure
from .runs.run import Run

if TYPE_CHECKING:
    import torch
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "curves", "energies", "growth", "images", "likelihood", "minima", "moments", "nearest", "overlaps",
    "patterns", "phases", "projections", "relaxation", "spectrum", "thermodynamics", "triples",
]  # fmt: skip
SIZE = (4.8, 3.6)  # inches of a panel


def _panel(draw: Callable[[Axes], object], axes: Axes | None) -> Figure:
    """A figure of one panel, or the one that the axes are in."""
    if axes is None:
        axes = pictures.figure(*SIZE).subplots()
    draw(axes)
    return axes.get_figure(root=True)  # type: ignore[return-value]


def images(
    rows: Any,
    shape: tuple[int, int] | None = None,
    *,
    columns: int | None = None,
    names: Sequence[str] = (),
    title: str = "",
) -> Figure:
    """Rows as a mosaic of images, +1 dark and −1 light; rows of a table as a table.

    Parameters
    ----------
    rows : array of shape (samples, v)
        Spins ±1, {0, 1} or booleans.
    shape : tuple of int, optional
        (rows, columns) of an image; by default a square if v is a square number, else a table.
    columns : int, optional
        Images per row of the mosaic.
    names : sequence of str, default ()
        Names of the columns of a table.
    title : str, default ""
        Title of the figure.

    Returns
    -------
    matplotlib.figure.Figure
        The mosaic.

    Raises
    ------
    InputError
        If the rows are not two-dimensional, or `shape` does not fit them.

    Examples
    --------
    >>> figure = rb.plot.images(rb.load("bars4").train.spins)
    """
    spins = as_spins(rows, what="images").cpu()
    if spins.dim() != 2:
        raise InputError(f"images are (samples, pixels), not {tuple(spins.shape)}; take one replica")
    return pictures.image_figure(
        spins, _shape(spins.shape[1], shape, names), columns=columns, names=names, title=title
    )


def patterns(
    machine: Machine, shape: tuple[int, int] | None = None, *, replica: int = 0, title: str = ""
) -> Figure:
    """The visible part of the patterns as images.

    Parameters
    ----------
    machine : Machine
        A machine with patterns.
    shape : tuple of int, optional
        (rows, columns) of an image; by default a square if v is a square number.
    replica : int, default 0
        Which replica to show.
    title : str, default ""
        Title of the figure.

    Returns
    -------
    matplotlib.figure.Figure
        The mosaic.

    Raises
    ------
    InputError
        If the couplings are dense.

    Examples
    --------
    >>> figure = rb.plot.patterns(rb.rbm(16, 8, patterns=4, seed=0))
    """
    if machine.patterns is None:
        raise InputError("these couplings are dense, there are no patterns to show")
    seen = machine.replica(replica).patterns
    assert seen is not None
    seen = seen.detach()[0, :, : machine.visible]
    return pictures.image_figure(seen, _shape(machine.visible, shape, ()), title=title)


def _shape(pixels: int, shape: tuple[int, int] | None, names: Sequence[str]) -> tuple[int, int]:
    if shape is None:
        side = math.isqrt(pixels)
        return (side, side) if side * side == pixels and not names else (1, pixels)
    if math.prod(shape) != pixels:
        raise InputError(f"images of {pixels} pixels have no shape {tuple(shape)}; give another one")
    return shape[0], shape[1]


def curves(run: Run | Sequence[Mapping[str, Any]], title: str = "") -> Figure:
    """All metrics of a run against epochs.

    Parameters
    ----------
    run : Run or sequence of mapping
        A run, or its records, `run.metrics()`.
    title : str, default ""
        Title of the figure.

    Returns
    -------
    matplotlib.figure.Figure
        A panel per metric.

    Raises
    ------
    InputError
        If there are no evaluations yet.
    """
    records = run.metrics() if isinstance(run, Run) else run
    if not records:
        raise InputError("curves go through evaluations, and there are none yet; train first")
    return pictures.curve_figure(records, title)


def likelihood(records: list[dict[str, Any]], title: str = "") -> Figure:
    """The log-likelihood along a training, with its intervals.

    Parameters
    ----------
    records : list of dict
        From `rapidbm.runs.evaluation.likelihood_curve`, or the output of
        `rapidbm evaluate RUN --curve --json`.
    title : str, default ""
        Title of the figure.

    Returns
    -------
    matplotlib.figure.Figure
        One panel.
    """
    return curve_figure(records, title)


def thermodynamics(found: Thermodynamics, *, replica: int = 0, title: str = "") -> Figure:
    """Energy, heat capacity, entropy and susceptibility per unit against β.

    Parameters
    ----------
    found : Thermodynamics
        Result of `rapidbm.thermodynamics`.
    replica : int, default 0
        Which replica to show.
    title : str, default ""
        Title of the figure.

    Returns
    -------
    matplotlib.figure.Figure
        Four panels.

    Examples
    --------
    >>> found = rb.thermodynamics(rb.rbm(6, 4, seed=0))
    >>> figure = rb.plot.thermodynamics(found)
    """
    return found.figure(replica, title)


# -- the landscape ------------------------------------------------------------------------------------


def overlaps(found: Any, *, replica: int = 0, axes: Axes | None = None) -> Figure:
    """P(q), the distribution of overlaps.

    Parameters
    ----------
    found : OverlapDistribution or Tensor of shape (e, c, n)
        Result of `rapidbm.overlap_distribution`, or independent chains.
    replica : int, default 0
        Which replica to show.
    axes : matplotlib.axes.Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        One panel.
    """
    q = found if isinstance(found, OverlapDistribution) else overlap_distribution(found)
    return _panel(lambda a: panels.show_overlaps(a, q, replica), axes)


def triples(found: Ultrametricity, *, replica: int = 0, axes: Axes | None = None) -> Figure:
    """The share of triples of chains below each K, with that of shuffled spins.

    Parameters
    ----------
    found : Ultrametricity
        Result of `rapidbm.ultrametricity`.
    replica : int, default 0
        Which replica to show.
    axes : matplotlib.axes.Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        One panel.
    """
    return _panel(lambda a: panels.show_triples(a, found, replica), axes)


def energies(
    machine: Machine, spins: Any, minima: Minima, *, replica: int = 0, axes: Axes | None = None
) -> Figure:
    """Histograms of the energy per unit, of samples and of minima.

    Parameters
    ----------
    machine : Machine
        The machine.
    spins : Tensor of shape (e, c, n)
        Samples.
    minima : Minima
        Result of `rapidbm.minima`.
    replica : int, default 0
        Which replica to show.
    axes : matplotlib.axes.Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        One panel.
    """
    warm = energies_per_unit(machine, as_tensor(spins, what="samples"))
    return _panel(lambda a: panels.show_energies(a, warm, minima, replica), axes)


def minima(found: Minima, *, replica: int = 0, axes: Axes | None = None) -> Figure:
    """The number of distinct minima against the number of starts.

    Parameters
    ----------
    found : Minima
        Result of `rapidbm.minima`.
    replica : int, default 0
        Which replica to show.
    axes : matplotlib.axes.Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        One panel.

    Examples
    --------
    >>> figure = rb.plot.minima(rb.minima(rb.rbm(12, 12, patterns=1, seed=0), 20, seed=0))
    """
    return _panel(lambda a: panels.show_rarefaction(a, found, replica), axes)


def growth(found: Growth, *, replica: int = 0, axes: Axes | None = None) -> Figure:
    """The number of minima against the number of units.

    Parameters
    ----------
    found : Growth
        Result of `rapidbm.growth`.
    replica : int, default 0
        Which replica to show.
    axes : matplotlib.axes.Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        One panel.
    """
    return _panel(lambda a: panels.show_growth(a, found, replica), axes)


def spectrum(found: Spectrum | Machine, *, replica: int = 0, axes: Axes | None = None) -> Figure:
    """Singular values or eigenvalues of the couplings, with the edge of random ones.

    Parameters
    ----------
    found : Spectrum or Machine
        Result of `rapidbm.spectrum`, or a machine.
    replica : int, default 0
        Which replica to show.
    axes : matplotlib.axes.Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        One panel.

    Examples
    --------
    >>> figure = rb.plot.spectrum(rb.rbm(20, 10, patterns=2, seed=0))
    """
    values = spectrum_of(found) if isinstance(found, Machine) else found
    return _panel(lambda a: panels.show_spectrum(a, values, replica), axes)


def phases(
    machines: Machine | Sequence[Machine],
    *,
    replica: int = 0,
    names: Sequence[str] = (),
    title: str = "",
    axes: Axes | None = None,
) -> Figure:
    """Machines in the phase diagram of load and temperature.

    Parameters
    ----------
    machines : Machine or sequence of Machine
        One machine, or several joined by a line, such as a run's checkpoints.
    replica : int, default 0
        Which replica to show.
    names : sequence of str, default ()
        Names of several machines; they are then points of their own.
    title : str, default ""
        Title of the figure.
    axes : matplotlib.axes.Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        One panel.

    Raises
    ------
    InputError
        If there are no machines, or another number of names.
    """
    several = [machines] if isinstance(machines, Machine) else list(machines)
    if not several:
        raise InputError("phases shows one machine or more, got none")
    if names and len(names) != len(several):
        raise InputError(f"{len(several)} machines have as many names, not {len(names)}")
    places = [phase_point(machine) for machine in several]
    last = places[-1]
    lines = _lines(last.theory, last.aspect)
    path = [(float(x.load[replica]), float(x.temperature[replica])) for x in places]
    return _panel(lambda a: panels.show_phases(a, lines, path, names=names, title=title), axes)


@lru_cache(8)
def _lines(theory: str, aspect: float) -> Boundaries:
    return boundaries(theory, aspect)


# -- samples --------------------------------------------------------------------------------------------


def moments(
    samples: Any,
    data: Any,
    *,
    order: int = 2,
    replica: int = 0,
    seed: int | None = None,
    rng: torch.Generator | None = None,
    axes: Axes | None = None,
) -> Figure:
    """Moments of samples against those of data.

    Parameters
    ----------
    samples : Tensor of shape (e, c, v)
        Visible spins of samples.
    data : array of shape (samples, v)
        Data.
    order : int, default 2
        1 for means, 2 for covariances, 3 for third central moments.
    replica : int, default 0
        Which replica to show.
    seed : int, optional
        Seed of the draws.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    axes : matplotlib.axes.Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        One panel.

    Raises
    ------
    InputError
        If the order is another one.
    """
    if order not in panels.MOMENTS:
        raise InputError(f"moments are of order 1, 2 or 3, not {order!r}")
    found = sample_moments(samples, data, rng_from(seed, rng, "moments"))[order - 1]
    return _panel(lambda a: panels.show_moments(a, found, replica), axes)


def projections(
    samples: Any,
    data: Any,
    *,
    replica: int = 0,
    seed: int | None = None,
    rng: torch.Generator | None = None,
    axes: Axes | None = None,
) -> Figure:
    """Samples and data along the first two principal components of the data.

    Parameters
    ----------
    samples : Tensor of shape (e, c, v)
        Visible spins of samples.
    data : array of shape (samples, v)
        Data.
    replica : int, default 0
        Which replica to show.
    seed : int, optional
        Seed of the draws.
    rng : torch.Generator, optional
        Source of random numbers, in place of `seed`.
    axes : matplotlib.axes.Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        One panel.
    """
    found = sample_projections(samples, data, rng_from(seed, rng, "projections"), components=2)
    return _panel(lambda a: panels.show_projections(a, found, replica), axes)


def nearest(samples: Any, train: Any, test: Any, *, replica: int = 0, axes: Axes | None = None) -> Figure:
    """Distances of samples and of test rows to the nearest training row.

    Parameters
    ----------
    samples : Tensor of shape (e, c, v)
        Visible spins of samples.
    train : array of shape (samples, v)
        Training data.
    test : array of shape (samples, v)
        Test data.
    replica : int, default 0
        Which replica to show.
    axes : matplotlib.axes.Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        One panel.
    """
    found = nearest_images(samples, train, test)
    return _panel(lambda a: panels.show_nearest(a, found, replica), axes)


def relaxation(
    found: Relaxation, *, statistic: str = "accuracy", replica: int = 0, axes: Axes | None = None
) -> Figure:
    """Quality of samples against sweeps, from random spins and from data.

    Parameters
    ----------
    found : Relaxation
        Result of `rapidbm.relaxation`.
    statistic : {"accuracy", "second"}, default "accuracy"
        Adversarial accuracy, or root mean square error of second moments.
    replica : int, default 0
        Which replica to show.
    axes : matplotlib.axes.Axes, optional
        Where to draw; by default in a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        One panel.

    Raises
    ------
    InputError
        If the statistic is another one.
    """
    if statistic not in panels.STATISTICS:
        raise InputError(f"relaxation shows {' or '.join(panels.STATISTICS)}, not {statistic!r}")
    chosen: Any = statistic
    return _panel(lambda a: panels.show_relaxation(a, found, replica, chosen), axes)
