"""HDF5 files of the package `rbms`: a model, or the trajectory of its training.

    model_type                     "BBRBM": Bernoulli visible and hidden units, {0, 1}
    update_N/params/weight_matrix  W (v, h); vbias and hbias beside; earlier versions have no params/
    update_N/time                  seconds of training
    parallel_chains                visible units of the chains, (c, v)
    hyperparameters/…              of the training

Files are read as data are, outside of this process (`data.reading`).
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..arrays import Array
from ..data.sources import hdf5_arrays
from ..disk import write_bytes
from ..errors import InputError, check_count, printable, require
from ..machines.machine import Machine
from ..machines.spins import to_bits

MODEL = "BBRBM"
PARTS = ("weight_matrix", "vbias", "hbias")
NUMBER = re.compile(r"update_(\d{1,15})/")


def rbms_updates(path: str | Path) -> list[int]:
    """The updates whose parameters a file of `rbms` holds.

    Parameters
    ----------
    path : str or Path
        HDF5 file that `rbms` wrote; needs `rapidbm[hdf5]`.

    Returns
    -------
    list of int
        Updates, rising.

    Raises
    ------
    InputError
        If there is no such file, or it holds no model with binary units.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file {path}; check the path")
    found = hdf5_arrays(path, ["/", "text:model_type"])
    updates = sorted(int(match[1]) for name in found if (match := NUMBER.fullmatch(name)))
    if not updates:
        raise InputError(f"{path} is no model of rbms: it has no group update_N; check the path")
    kind = MODEL
    if "text:model_type" in found:
        kind = printable(found["text:model_type"]().tobytes().decode(errors="replace"))
    if kind != MODEL:
        raise InputError(
            f"{path} holds a model of type {kind!r}; of rbms' models those with binary units, {MODEL!r}, "
            "are read, not Ising, Potts or Gaussian ones"
        )
    return updates


def load_rbms(path: str | Path, update: int | None = None) -> Machine:
    """The machine of a file of `rbms`.

    Energies differ by a constant: free energies of `rbms` are the machine's plus
    `machine.to_weights().constant`.

    Parameters
    ----------
    path : str or Path
        HDF5 file that `rbms` wrote; needs `rapidbm[hdf5]`.
    update : int, optional
        Which update to take; by default the last.

    Returns
    -------
    Machine
        A restricted machine with dense couplings and biases, one replica.

    Raises
    ------
    InputError
        If the file is not such a file, or has no such update.
    """
    known = rbms_updates(path)
    chosen = known[-1] if update is None else update
    if chosen not in known:
        raise InputError(f"{path} holds the updates {_listed(known)}, not {update!r}; take one of them")
    return _machines(Path(path), [chosen])[chosen]


def rbms_trajectory(path: str | Path) -> dict[int, Machine]:
    """All machines of a file of `rbms`, by update.

    Parameters
    ----------
    path : str or Path
        HDF5 file that `rbms` wrote; needs `rapidbm[hdf5]`.

    Returns
    -------
    dict of int to Machine
        The machines in the order of their updates.

    Raises
    ------
    InputError
        If the file is not such a file.
    """
    return _machines(Path(path), rbms_updates(path))


def _listed(known: Sequence[int]) -> str:
    return ", ".join(map(str, known if len(known) <= 10 else [*known[:5], "…", *known[-4:]]))


def _machines(path: Path, updates: Sequence[int]) -> dict[int, Machine]:
    names = [f"update_{u}/{where}{part}" for u in updates for where in ("params/", "") for part in PARTS]
    arrays = hdf5_arrays(path, names)

    def parameter(update: int, part: str) -> Array:
        for where in ("params/", ""):
            if (name := f"update_{update}/{where}{part}") in arrays:
                return arrays[name]()
        raise InputError(f"{path} has no {part} of update {update}; take another update")

    found = {}
    for update in updates:
        w, b, c = (parameter(update, part) for part in PARTS)
        if w.ndim != 2:
            raise InputError(
                f"{path} must hold weights (visible, hidden), not {w.shape}; is it a Potts model?"
            )
        try:
            found[update] = Machine.from_weights(w, b, c)
        except InputError as error:
            raise InputError(f"{path}, update {update}: {error}") from error
    return found


def save_rbms(machines: Machine | Mapping[int, Machine], path: str | Path, *, chains: Any = None) -> None:
    """Writes restricted machines as a file that `rbms` loads; an existing file is replaced.

    Hyperparameters, which `rbms` expects in the file, are placeholders.

    Parameters
    ----------
    machines : Machine or mapping of int to Machine
        One machine, written as update 1, or several of one shape by their updates.
    path : str or Path
        HDF5 file to write; needs `rapidbm[hdf5]`.
    chains : array of shape (c, v), optional
        Visible units from which `rbms` continues; by default one row of zeros.

    Raises
    ------
    InputError
        If the machines are not restricted or differ in shape, or if the folder does not exist.
    """
    require("h5py", f"writing {path}")
    import h5py

    several = {1: machines} if isinstance(machines, Machine) else machines
    if not isinstance(several, Mapping) or not several:
        kind = type(machines).__name__ if several else "none"
        raise InputError(f"give a machine, or at least one by its update, {{1: machine}}, not {kind}")
    visible = next(iter(several.values())).visible
    if len(shapes := sorted({machine.layers.sizes for machine in several.values()})) > 1:
        raise InputError(f"the machines of a training have one shape, not {shapes}; save them apart")
    bits = np.zeros((1, visible)) if chains is None else to_bits(chains).cpu().numpy()
    if bits.ndim != 2 or bits.shape[1] != visible:
        raise InputError(f"chains are visible units, (c, {visible}), not {tuple(bits.shape)}")
    path, buffer = Path(path), io.BytesIO()
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent} to save {path.name} in; make it first")
    with h5py.File(buffer, "w") as file:
        file["model_type"] = MODEL
        file["parallel_chains"] = bits.astype(np.float32)
        settings = {
            "batch_size": len(bits),
            "gibbs_steps": 1,
            "learning_rate": 0.01,
            "L1": 0.0,
            "L2": 0.0,
        }
        for name, value in settings.items():
            file[f"hyperparameters/{name}"] = value
        for update, machine in several.items():
            check_count("an update", update, least=0)
            _write(file.create_group(f"update_{update}"), machine)
    write_bytes(path, buffer.getvalue())


def _write(group: Any, machine: Machine) -> None:
    if machine.replicas != 1:
        raise InputError(
            f"rbms keeps one machine, and here are {machine.replicas} replicas; save machine.replica(0)"
        )
    weights = machine.to_weights()
    kind = np.float64 if machine.dtype == torch.float64 else np.float32
    for name, value in zip(PARTS, (weights.W, weights.b, weights.c), strict=True):
        group[f"params/{name}"] = value[0].cpu().numpy().astype(kind)
        group[name] = group[f"params/{name}"]  # a second link: earlier versions look for it here
    group["time"] = 0.0
    group.create_group("flags")
