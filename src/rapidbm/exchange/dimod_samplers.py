"""Spins of a machine from whatever samples as dimod's samplers do, `sample(bqm, **parameters)`.

It gets the machine as a binary quadratic model of spins, one replica after another. What it takes of
`num_reads` and `seed` its own `parameters` say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError, lookup, require
from ..machines.machine import Machine

# Of dwave-samplers, by a word that fits a command line and a file.
NAMED = {
    "sa": "SimulatedAnnealingSampler",
    "tree": "TreeDecompositionSampler",
    "tabu": "TabuSampler",
}


def check_sampler(sampler: Any) -> None:
    """Refuses what is neither a name nor a sampler."""
    if isinstance(sampler, str):
        lookup("sampler", sampler, NAMED)
    elif not callable(getattr(sampler, "sample", None)):
        raise InputError(
            f"a sampler of dimod has sample(bqm), and {sampler!r} has not; give one, or a name of "
            f"{', '.join(NAMED)}"
        )


def sampler_of(sampler: Any) -> Any:
    """A sampler by its name, or the one that is given."""
    check_sampler(sampler)
    if not isinstance(sampler, str):
        return sampler
    require("dwave.samplers", f"the sampler {sampler!r}")
    from dwave import samplers

    return getattr(samplers, NAMED[sampler])()


def takes(sampler: Any, name: str) -> bool:
    """Whether a sampler says that it has this parameter."""
    return name in (getattr(sampler, "parameters", None) or ())


def read_spins(
    sampler: Any,
    machine: Machine,
    reads: int,
    rng: torch.Generator,
    *,
    parameters: Mapping[str, Any] | None = None,
    scale: Tensor | None = None,
) -> Tensor:
    """So many configurations (e, c, n), of the energy times `scale` (e,); each replica has a seed of its
    own, where the sampler takes one."""
    given = dict(parameters or {})
    known = getattr(sampler, "parameters", None)
    if known is not None and (extra := [name for name in given if name not in known]):
        raise InputError(
            f"{type(sampler).__name__} has no parameter {extra[0]!r}; it takes {', '.join(known)}"
        )
    if known is None or "num_reads" in known:
        given.setdefault("num_reads", reads)
    seeds = torch.randint(2**31 - 1, (machine.replicas,), generator=rng, device=rng.device).tolist()
    found = []
    for replica, seed in enumerate(seeds):
        bqm = machine.replica(replica).to_bqm()
        if scale is not None:
            bqm.scale(float(scale[replica]))
        own = {"seed": seed} if takes(sampler, "seed") else {}
        try:
            answer = sampler.sample(bqm, **{**own, **given})
        except ValueError as error:  # so they say that a model or a parameter does not fit
            why = next(iter(str(error).splitlines()), "it does not say why")
            raise InputError(
                f"{type(sampler).__name__} refuses this machine of {machine.layers.columns} units: "
                f"{why[:200].rstrip(' .:')}; take another sampler, other parameters or a smaller machine"
            ) from error
        found.append(_spins(sampler, answer, reads, machine))
    return torch.stack(found).to(machine.device, machine.dtype)


def _spins(sampler: Any, answer: Any, reads: int, machine: Machine) -> Tensor:
    """The samples of one replica, (c, n), units in the order of the machine."""
    units = machine.layers.columns
    if answer.vartype.name != "SPIN":
        answer = answer.change_vartype("SPIN", inplace=False)
    order = [answer.variables.index(unit) for unit in range(units) if unit in answer.variables]
    rows = np.repeat(answer.record.sample, answer.record.num_occurrences, axis=0)
    if (len(rows), len(order)) != (reads, units):
        raise InputError(
            f"{type(sampler).__name__} was asked for {reads} samples of {units} units, and answered with "
            f"{len(rows)} of {len(order)}; give reads={len(rows)}, or another sampler"
        )
    return torch.from_numpy(np.ascontiguousarray(rows[:, order]))
