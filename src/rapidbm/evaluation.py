"""All that can be said about a trained run: likelihoods, reconstruction errors, energies."""

from __future__ import annotations

import torch
from torch import Tensor

from .checkpoint import device_named, load_tensors
from .enumeration import states_of
from .ground import ground_state
from .likelihood import can_be_exact, log_likelihood, log_z
from .machine import Machine
from .metrics import (
    gibbs_accessibility,
    hamming_distance,
    mean_free_energy,
    method_accessibility,
)
from .runs import Run, as_list
from .spins import sign
from .streams import generator

WORTH = 2**22  # states worth waiting for
HIDDEN = 2**16  # hidden states per image


def evaluation(
    run: Run, update: int | None = None, seed: int = 0, device: str = "cpu"
) -> tuple[dict[str, list[float | None]], list[str]]:
    """Named values per replica, and notes on what could not be had."""
    data, machine = run.data(), run.machine(update).to(device_named(device))
    splits = {"train": data.train, "test": data.test}
    rng = generator(seed, "evaluate", device=machine.device)
    rows: dict[str, Tensor] = {}
    notes = []
    for part, split in splits.items():
        rows[f"hamming_{part}"] = hamming_distance(machine, split, rng)
    summable = states_of(machine.layers, (0,)) <= HIDDEN
    if summable:
        for part, split in splits.items():
            rows[f"free_energy_{part}"] = mean_free_energy(machine, split, rng)
    if can_be_exact(machine, WORTH):
        z = log_z(machine, method="exact")
        rows["log_z"] = z.lower
        notes.append(f"log Z is exact, over {z.effort}")
        if summable:
            for part, split in splits.items():
                found = log_likelihood(machine, split.spins, normaliser=z)
                rows[f"log_likelihood_{part}"] = found.lower
    states = states_of(machine.layers)
    if states <= WORTH:
        ground = ground_state(machine).energy
        rows["ground_state_energy"] = ground
        rows["gibbs_accessibility"] = gibbs_accessibility(machine, data.train, rng, ground=ground)
        if run.recipe.negative != "exact":
            rows["method_accessibility"] = method_accessibility(
                machine,
                data.train,
                rng,
                negative=run.recipe.negative_phase(),
                chains=_chains(run, machine) if update is None else None,
                ground=ground,
            )
    else:
        lost = (
            "the ground state" if "log_z" in rows else "log Z, the likelihood and the ground state"
        )
        notes.append(f"{lost} would take 2^{states.bit_length() - 1} states, more than {WORTH:,}")
    if not summable:
        bits = states_of(machine.layers, (0,)).bit_length() - 1
        notes.append(f"the free energy would take 2^{bits} hidden states per image: left out")
    with torch.no_grad():
        spins = machine.random(100, rng)
        rows["energy_random"] = machine.energy(spins).mean(1)
        if machine.patterns is not None:
            rows["energy_patterns"] = machine.energy(sign(machine.patterns)).mean(1)
    return {name: as_list(value) for name, value in rows.items()}, notes


def _chains(run: Run, machine: Machine) -> Tensor | None:
    chains = load_tensors(run.latest)[0].get("training/chains")
    return chains.to(machine.device) if chains is not None and chains.shape[1] else None
