"""One update of persistent chains, beside what else trains restricted machines.

Dense couplings by every package that is installed; then Regularized Axons against plain loops of the same
sizes; then a hundred trainings of the paper's 4×4 bars against one, and the paper's machine for MNIST.
Rounds alternate in one process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch

from rapidbm.errors import pip_line

from ..clock import Action, Times, interleaved
from .jobs import PER_CALL, Size, bars, gibbs, images, ours, plain, rapid

REMEDY = pip_line("rbms")
OURS, PLAIN = "rapidbm", "plain torch"
GIBBS_SWEEPS = 10
Row = dict[str, Any]


@dataclass(frozen=True)
class Peer:
    """A package that trains restricted machines: its update, and how that differs from PCD."""

    package: str  # as it is imported
    method: str  # {sweeps} stands for their number
    build: Callable[[Size, int, torch.device, int], Action]
    sweeps: int | None = None  # where it can do no other number


def by_rbms(size: Size, sweeps: int, device: torch.device, seed: int) -> Action:
    from rbms.bernoulli_bernoulli.classes import BBRBM
    from rbms.training.pcd import fit_batch_pcd

    data, ones = images(size, device, seed), torch.ones(size.chains, device=device)
    machine = BBRBM(
        0.01 * torch.randn(size.visible, size.hidden, device=device),
        torch.zeros(size.visible, device=device),
        torch.zeros(size.hidden, device=device),
    )
    for parameter in machine.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer = torch.optim.SGD(machine.parameters(), 1e-2, maximize=True)
    chains = machine.init_chains(size.chains)

    @torch.no_grad()
    def update() -> None:
        nonlocal chains
        batch = (data[torch.randint(len(data), (size.chains,), device=device)], ones)
        optimizer.zero_grad(set_to_none=False)
        chains, _ = fit_batch_pcd(batch, chains, machine, sweeps, 1.0)
        optimizer.step()

    return update


def by_torchebm(size: Size, sweeps: int, device: torch.device, seed: int) -> Action:
    """It has no Gibbs sampler: steps of Langevin dynamics on the free energy, between the spins."""
    from torchebm.core import BaseModel
    from torchebm.losses import ContrastiveDivergence
    from torchebm.samplers import LangevinDynamics

    class FreeEnergy(BaseModel):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(0.01 * torch.randn(size.visible, size.hidden))
            self.a = torch.nn.Parameter(torch.zeros(size.visible))
            self.b = torch.nn.Parameter(torch.zeros(size.hidden))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return -(x @ self.a) - torch.nn.functional.softplus(x @ self.w + self.b).sum(-1)

    data, model = images(size, device, seed), FreeEnergy().to(device)
    loss = ContrastiveDivergence(
        model,
        LangevinDynamics(model, step_size=0.01, device=device),
        k_steps=sweeps,
        persistent=True,
        buffer_size=size.chains,
        init_steps=0,
        new_sample_ratio=0.0,
        device=device,
    )
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    def update() -> None:
        optimizer.zero_grad()
        loss(data[torch.randint(len(data), (size.chains,), device=device)])[0].backward()
        optimizer.step()

    return update


def by_learnergy(size: Size, sweeps: int, device: torch.device, seed: int) -> Action:
    """Chains start at the data in every update."""
    from learnergy.models.bernoulli import RBM
    from torch.utils.data import TensorDataset

    model = RBM(size.visible, size.hidden, sweeps, learning_rate=0.01, use_gpu=device.type == "cuda")
    data = TensorDataset(images(size, device, seed)[: size.chains], torch.zeros(size.chains))
    return lambda: model.fit(data, size.chains, 1)


def by_sklearn(size: Size, sweeps: int, device: torch.device, seed: int) -> Action:
    """On the CPU whatever the device."""
    from sklearn.neural_network import BernoulliRBM

    data = images(size, torch.device("cpu"), seed)[: size.chains].numpy()
    model = BernoulliRBM(size.hidden, learning_rate=0.01, batch_size=len(data), random_state=seed)
    return lambda: model.partial_fit(data)


def by_thrml(size: Size, sweeps: int, device: torch.device, seed: int) -> Action:
    """So many block Gibbs sweeps of dense couplings, on the device that JAX chooses."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # it would take most of a GPU
    import jax
    from thrml import Block, SamplingSchedule, SpinNode, sample_states
    from thrml.models import IsingEBM, IsingSamplingProgram, hinton_init

    visible, hidden = ([SpinNode() for _ in range(n)] for n in (size.visible, size.hidden))
    nodes, edges = visible + hidden, [(v, h) for v in visible for h in hidden]
    key = jax.random.key(seed)
    couplings = 0.01 * jax.random.normal(key, (len(edges),))
    zero, one = jax.numpy.zeros(len(nodes)), jax.numpy.array(1.0)
    model, blocks = IsingEBM(nodes, edges, zero, couplings, one), [Block(hidden), Block(visible)]
    program = IsingSamplingProgram(model, blocks, [])
    schedule = SamplingSchedule(n_warmup=sweeps, n_samples=1, steps_per_sample=1)  # observed once
    start = hinton_init(key, model, blocks, (size.chains,))

    def chain(key: Any, state: Any) -> Any:
        return sample_states(key, program, schedule, state, [], [Block(nodes)])

    chains, keys = jax.jit(jax.vmap(chain)), jax.random.split(key, size.chains)
    return lambda: jax.block_until_ready(chains(keys, start))


PEERS = {
    "rbms": Peer("rbms", "PCD-{sweeps}", by_rbms),
    "torchebm": Peer("torchebm", "PCD-{sweeps}, Langevin", by_torchebm),
    "learnergy": Peer("learnergy", "CD-{sweeps}", by_learnergy),
    "scikit-learn": Peer("sklearn", "PCD-{sweeps}, CPU", by_sklearn, sweeps=1),
}


class Guarded:
    """An action that does nothing more once it has failed, and remembers why."""

    def __init__(self, build: Callable[[], Action]) -> None:
        self.error = ""
        self.action: Action = lambda: None
        self._try(lambda: setattr(self, "action", build()))

    def __call__(self) -> None:
        if not self.error:
            self._try(self.action)

    def _try(self, action: Action) -> None:
        try:
            action()
        except Exception as error:  # whatever another package raises
            first = (str(error).splitlines() or [""])[0]
            self.error = f"{type(error).__name__}: {first}"


def peers(
    size: Size,
    sweeps: int,
    rounds: int,
    device: torch.device,
    seed: int,
    known: Mapping[str, Peer] = PEERS,
) -> list[Row]:
    """A row per package: its time and how many times rapidbm's of as many sweeps, or why it has none."""
    rows: list[Row] = []
    actions: dict[str, Action] = {}
    for name, build in ((OURS, ours), (PLAIN, plain)):
        actions[name] = build(size, sweeps, device, seed)
        rows.append({"name": name, "method": f"PCD-{sweeps}", "over": OURS})
    for name, peer in known.items():
        count = peer.sweeps or sweeps
        reference = OURS if count == sweeps else f"{OURS}, PCD-{count}"
        row = {"name": name, "method": peer.method.format(sweeps=count), "over": reference}
        rows.append(row)
        if guarded(row, peer.package, partial(peer.build, size, count, device, seed), actions):
            if reference not in actions:
                actions[reference] = ours(size, count, device, seed)
                rows.insert(-1, {"name": reference, "method": f"PCD-{count}", "over": reference})
    return timed(rows, actions, rounds, device)


def guarded(
    row: Row,
    package: str,
    build: Callable[[], Action],
    actions: dict[str, Action],
    remedy: str = REMEDY,
) -> bool:
    """Adds the action of another package's row, or says there that it is not installed."""
    if find_spec(package) is None:
        row["missing"] = f"not installed ({remedy})"
        return False
    actions[row["name"]] = Guarded(build)
    return True


def axons(
    sizes: tuple[Size, ...], sweeps: int, rounds: int, device: torch.device, seed: int
) -> list[Row]:
    """Regularized Axons, each beside the plain dense loop of its size."""
    rows: list[Row] = []
    actions: dict[str, Action] = {}
    for size in sizes:
        mine, theirs = f"{OURS}, {size}", f"{PLAIN}, {replace(size, patterns=None)}"
        actions[mine] = ours(size, sweeps, device, seed)
        actions[theirs] = plain(size, sweeps, device, seed)
        rows += [{"name": n, "method": f"PCD-{sweeps}", "over": mine} for n in (mine, theirs)]
    return timed(rows, actions, rounds, device)


def many(counts: tuple[int, ...], rounds: int, device: torch.device) -> list[Row]:
    """The paper's 4×4 bars with so many replicas, each against the first."""
    actions = {f"4×4 bars, {n} replica{'s' if n > 1 else ''}": bars(n, device) for n in counts}
    first = next(iter(actions))
    rows: list[Row] = [{"name": name, "method": "PID", "over": first} for name in actions]
    return timed(rows, actions, rounds, device, parts=PER_CALL)


def paper(
    size: Size, images: int, counts: tuple[int, ...], chains: int, rounds: int, device: torch.device,
    seed: int,
) -> list[Row]:  # fmt: skip
    """PID as on MNIST in the paper: its update with 10 sweeps and with none, per replica, and many chains
    of the machine."""
    rows: list[Row] = []
    machine = {"machine": str(size)}
    for replicas in counts:
        for sweeps in (10, 0):
            made = replace(size, replicas=replicas)
            words = f"update, batch {images:,}, {replicas} replica{'s' if replicas > 1 else ''}"
            row = {"name": words, "method": f"PID-{sweeps}", "per": "update and replica", **machine}
            action = rapid(made, sweeps, images, device, seed)
            times = interleaved({words: action}, rounds, least=0.02, device=device)[words]
            rows.append(row | times.per(replicas).as_dict())
    many = replace(size, chains=chains)
    action = gibbs(many, GIBBS_SWEEPS, device, seed, biases=False)
    times = interleaved({"": action}, rounds, least=0.02, device=device)[""].per(GIBBS_SWEEPS)
    spins = chains * (size.visible + size.hidden) / times.median / 1e9
    couplings = chains * 2 * size.visible * size.hidden / times.median / 1e9
    last: Row = {
        "name": f"Gibbs sampling, {chains:,} chains",
        "method": "",
        "per": "sweep",
    } | machine
    last |= {"spin_updates_per_ns": spins, "couplings_per_ns": couplings}
    return [*rows, last | times.as_dict()]


def timed(
    rows: list[Row],
    actions: dict[str, Action],
    rounds: int,
    device: torch.device,
    *,
    parts: int = 1,
) -> list[Row]:
    """The rows with their times; `ratio` is the time over that of the row named in `over`."""
    times = {
        name: found.per(parts) for name, found in interleaved(actions, rounds, device=device).items()
    }
    for row in rows:
        action = actions.get(row["name"])
        if isinstance(action, Guarded) and action.error:
            row["missing"] = f"failed: {action.error}"
        elif action is not None:
            row |= times[row["name"]].as_dict()
            row["ratio"] = _ratio(times, row)
    return rows


def _ratio(times: dict[str, Times], row: Row) -> float:
    return times[row["name"]].median / times[row["over"]].median
