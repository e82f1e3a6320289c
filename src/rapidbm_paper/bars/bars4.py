"""The trainings on 4×4 bars behind figs. 2, 3 and 4: RAPID beside CD-10, PCD-10 and exact gradients.

The standard machines take Adam, and there are two of it (`optimisers`, eq. 2): the released program's,
whose clock ticks with the epochs, and the usual one, by updates. The paper's claims are judged with the
first, which learns more slowly and is followed for longer, by fewer instances; the second stands beside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rapidbm.glass.spectra import spectrum
from rapidbm.pictures import PENS, panels
from rapidbm.runs.timing import on_log_grid
from rapidbm.training.optimisers import CLOCKS

from ..drawing import Figure, curves, epochs_axis, legend_below
from ..lab import Lab, Settings, by_scale, each
from ..observables import accessibilities, distances, likelihoods
from ..records import Record, Records, Values
from .standard import dense_settings

METHODS = {"cd": "CD-10", "pcd": "PCD-10", "exact": "exact gradient"}
# part of a method: released and usual Adam
RELEASED, USUAL = ({method: f"{method}-{clock}" for method in METHODS} for clock in CLOCKS[::-1])
NAMES = {
    "rapid": "RAPID",
    **{RELEASED[method]: words for method, words in METHODS.items()},
    **{USUAL[method]: f"{words}, usual Adam" for method, words in METHODS.items()},
}
LOOK = dict(zip(NAMES, PENS, strict=False))
PAPERS = tuple(f"bars.{part}" for part in ("rapid", *RELEASED.values()))  # the paper's trainings
ADAMS = "CD, PCD and exact gradients take Adam as released unless it says usual."  # of a caption
BESIDE = tuple(f"bars.{part}" for part in USUAL.values())


@dataclass(frozen=True, kw_only=True)
class Scale(Settings):
    instances: int = by_scale(tiny=2, quick=6, paper=100)
    hidden: int = by_scale(tiny=40, quick=1000, paper=1000)
    patterns: int = 8
    epochs: int = by_scale(tiny=2, quick=100, paper=300)  # at which the paper's figures end
    particles: int = by_scale(tiny=20, quick=100, paper=2048)
    exact_instances: int = by_scale(tiny=1, quick=2, paper=100)  # enumeration takes longest
    exact_epochs: int = by_scale(tiny=2, quick=60, paper=300)
    # with the released program's Adam
    longer_instances: int = by_scale(tiny=2, quick=3, paper=25)
    longer_exact_instances: int = by_scale(tiny=1, quick=1, paper=10)
    longer_epochs: int = by_scale(tiny=3, quick=100, paper=1200)


def _train(lab: Lab, scale: Scale, name: str) -> Values:
    method, _, clock = name.partition("-")
    chosen: dict[str, Any] = {"hidden": (scale.hidden,)}
    if clock == "epoch":
        few = scale.longer_exact_instances if method == "exact" else scale.longer_instances
        chosen |= {"replicas": few, "epochs": scale.longer_epochs}
    elif method == "exact":
        chosen |= {"replicas": scale.exact_instances, "epochs": scale.exact_epochs}
    else:
        chosen |= {"replicas": scale.instances, "epochs": scale.epochs}
    if method == "rapid":
        chosen["patterns"] = scale.patterns
    if method == "pcd":
        chosen["particles"] = scale.particles
    recipe = lab.recipe("bars4", dense_settings(method, clock) if clock else "paper-bars", **chosen)
    data = recipe.data()
    # The machine where the paper stops is a checkpoint of the run.
    stop = min(scale.epochs, recipe.epochs) * -(-len(data.train) // recipe.batch_size)
    recipe = replace(recipe, checkpoints=str(stop))
    # The exact gradient averages over no configurations of its own.
    seen = {**distances(), **accessibilities(method=method != "exact")}
    if clock == "epoch":
        seen |= likelihoods("train")

    def at(epoch: int) -> bool:
        return on_log_grid(epoch) or (clock == "epoch" and epoch % 50 == 0)

    found, run = lab.train(recipe, seen, at=at)
    end = lab.machine(run, stop)
    found["singular"] = spectrum(end).values
    found["start_singular"] = spectrum(lab.machine(run, 0)).values
    lab.keep(end)
    return found


PARTS = each(_train, NAMES)


def paper_end(record: Record) -> int:
    """The row of a course at which the paper stops; the released Adam's goes on."""
    epochs = record["epochs"]
    last = min(record.settings.get("epochs", epochs[-1]), epochs[-1])
    return max(row for row, epoch in enumerate(epochs) if epoch <= last)


def figure(records: Records, key: str, what: str, top: float | None = None) -> Figure:
    """A value against the epochs, one curve for each training."""
    fig, (axes,) = panels(height=2.9)
    curves(axes, records, "bars", NAMES, LOOK, key)
    epochs_axis(axes, what, ylim=(0, top))
    legend_below(fig, axes, 2)
    return fig


def standard(records: Records) -> list[tuple[str, str, Record]]:
    """Part, words and record of the standard machines: those of the released Adam, and those of the
    usual one that are there."""
    names = (*RELEASED.values(), *USUAL.values())
    return [(n, NAMES[n], records[f"bars.{n}"]) for n in names if f"bars.{n}" in records]
