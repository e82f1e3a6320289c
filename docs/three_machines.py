"""The three machines of docs/glass.md: writes files for `rapidbm diagnose`, and draws them together.

python docs/three_machines.py FOLDER
"""

import sys
import warnings
from pathlib import Path

import rapidbm as rb
from rapidbm.glass import pictures as draw
from rapidbm.glass.overlaps import energies_per_unit
from rapidbm.pictures import INK, figure, save


def machines() -> dict[str, rb.Machine]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rb.LoadWarning)  # one of them is meant to be overloaded
        return {
            "gaussian": rb.rbm(100, 100, scale=1.0, seed=0),
            "ra-2": rb.rbm(100, 100, 2, seed=0),
            "ra-60": rb.rbm(100, 100, 60, seed=0),
        }


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    fig = figure(13.0, 8.4)
    panels = fig.subplots(3, 4)
    places = []
    for row, (name, machine) in zip(panels, machines().items(), strict=True):
        rb.save_machine(machine, folder / f"{name}.safetensors")
        machine.requires_grad_(False)
        spins = rb.sample(machine, 64, sampler=rb.ParallelTempering(), seed=0)
        found = rb.minima(machine, 400, rb.stream(0, "minima"))
        draw.show_overlaps(row[0], rb.overlap_distribution(spins))
        draw.show_energies(row[1], energies_per_unit(machine, spins), found)
        draw.show_rarefaction(row[2], found)
        draw.show_growth(row[3], rb.growth(machine, 400, rb.stream(0, "growth")))
        row[0].set_title(name, fontsize=11, color=INK, loc="left")
        here = rb.phase_point(machine)
        places.append((name, (float(here.load[0]), float(here.temperature[0]))))
    save(fig, folder / "three-machines.png")
    fig = figure(6.2, 4.4)
    names, points = zip(*places, strict=True)
    draw.show_phases(fig.subplots(), rb.boundaries(), points, names=names)
    save(fig, folder / "three-places.png")


main(Path(sys.argv[1]))
