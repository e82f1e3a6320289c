"""Graphs in which some layers are coupled to nothing: everything exact against brute force."""

import pytest
import torch

from rapidbm.errors import InputError
from rapidbm.ground.ground_state import ground_state
from rapidbm.ground.lower_bound import lower_bound
from rapidbm.likelihood.log_z import log_likelihood, log_z
from rapidbm.likelihood.moments import exact_moments
from rapidbm.machines.dense import Dense
from rapidbm.machines.ensembles import AllStates
from rapidbm.machines.layers import Layers
from rapidbm.machines.machine import Machine
from rapidbm.machines.patterns import Patterns
from rapidbm.random import stream
from rapidbm.sampling.gibbs import sweep
from rapidbm.testing import check_sampler, exact_distribution
from rapidbm.training.negative import Exact
from rapidbm.training.positive import positive_for
from rapidbm.training.train import log_likelihood_gradient

GRAPHS = {
    "a spare hidden layer": Layers((3, 2, 4), ((0, 1),)),
    "a spare layer between": Layers((3, 2, 3), ((0, 2),)),
    "an isolated visible layer": Layers((3, 2, 4), ((1, 2),)),
    "a visible layer alone with itself": Layers((4, 3), ((0, 0),)),
    "a hidden layer alone with itself": Layers((3, 4), ((1, 1),)),
    "two pairs": Layers((2, 3, 2, 2), ((0, 1), (2, 3))),
    "nothing": Layers((3, 2), ()),
}


def machine_of(layers, kind, biases, replicas=2):
    rng = stream(0, "machine")

    def normal(*shape):
        return torch.randn(replicas, *shape, generator=rng, dtype=torch.float64)

    if kind == "patterns":
        couplings = Patterns(layers, 0.8 * normal(2, layers.columns))
    else:
        sizes = layers.sizes
        couplings = Dense(layers, {(a, b): 0.6 * normal(sizes[a], sizes[b]) for a, b in layers.edges})
    return Machine(couplings, 0.4 * normal(layers.columns) if biases else None)


EVERY = [
    pytest.param(machine_of(layers, kind, biases), id=f"{name}-{kind}-{biases}")
    for name, layers in GRAPHS.items()
    for kind in ("dense", "patterns")
    for biases in (False, True)
    if layers.edges or kind == "patterns"
]


@pytest.mark.parametrize(
    "machine",
    EVERY,
)
def test_log_z_and_log_likelihood_are_those_of_brute_force(machine):
    for beta in (1.0, 0.6):
        everything, _ = exact_distribution(machine, beta)
        z = torch.logsumexp(-beta * machine.energy(everything).detach(), 1)
        assert torch.allclose(log_z(machine, method="exact", beta=beta).lower, z, atol=1e-12)
    rows = everything[:, : machine.visible].unique(dim=0)  # their probabilities sum to one
    each = [log_likelihood(machine, row[None], method="exact").lower for row in rows]
    assert torch.allclose(torch.stack(each).exp().sum(0), torch.ones(2).double(), atol=1e-12)


@pytest.mark.parametrize("machine", EVERY)
def test_moments_are_those_of_brute_force(machine):
    for beta in (1.0, 0.6):
        everything, p = exact_distribution(machine, beta)
        found = exact_moments(machine, beta=beta)
        assert torch.allclose(found.mean, p @ everything, atol=1e-12)
        pairs = torch.einsum("ex,xi,xj->eij", p, everything, everything)
        assert torch.allclose(found.pairs, pairs, atol=1e-12)


@pytest.mark.parametrize("machine", EVERY)
def test_the_likelihoods_gradient_is_that_of_brute_force(machine):
    data = torch.tensor([[1.0] * machine.visible, [-1.0] + [1.0] * (machine.visible - 1)])
    everything, _ = exact_distribution(machine)
    energy = machine.energy(everything)  # (e, x)
    z = torch.logsumexp(-energy, 1)
    same = [(everything[:, : machine.visible] == row).all(1) for row in data]
    rows = torch.stack([torch.logsumexp(-energy[:, x], 1) for x in same], 1)  # (e, c)
    value = (rows - z[:, None]).mean(1)
    wanted = [torch.zeros_like(p) for p in machine.parameters()]
    if value.requires_grad:  # without couplings and biases nothing depends on a parameter
        wanted = torch.autograd.grad(
            value.sum(), list(machine.parameters()), allow_unused=True, materialize_grads=True
        )
    rng = stream(0)
    batch = machine.visible_spins(data)
    positive = positive_for(machine).step(machine, batch, rng)
    negative, _ = Exact().step(machine, Exact().init(machine, rng), batch, rng)
    found = log_likelihood_gradient(machine, positive, negative)
    for (name, parameter), exact in zip(machine.named_parameters(), wanted, strict=True):
        assert found[name].shape == parameter.shape, name
        assert torch.allclose(found[name], exact, atol=1e-12), name


@pytest.mark.parametrize("machine", EVERY)
def test_ground_states_are_those_of_brute_force(machine):
    everything, _ = exact_distribution(machine)
    lowest = machine.energy(everything).detach().amin(1)
    methods = ["enumeration", "descent", "annealing", "auto"]
    methods += [] if machine.patterns is None else ["zonotope"]
    for method in methods:
        found = ground_state(machine, method=method, starts=40, sweeps=20, seed=0)
        assert torch.allclose(found.energy, lowest, atol=1e-12), method
    assert bool((lower_bound(machine).energy <= lowest).all())


@pytest.mark.parametrize("machine", EVERY)
def test_sweeps_keep_the_distribution(machine):
    check_sampler(sweep, machine, chains=10_000)


@pytest.mark.parametrize("machine", [m for m in EVERY if "spare" in m.id])
def test_hidden_means_and_free_energies_of_spare_layers(machine):
    row = torch.tensor([[1.0, -1.0, 1.0]], dtype=torch.float64)
    everything, p = exact_distribution(machine)
    here = (everything[:, :3] == row).all(1)
    given = p[:, here] / p[:, here].sum(1, keepdim=True)
    assert torch.allclose(machine.hidden_mean(row)[:, 0], given @ everything[here, 3:])
    total = torch.logsumexp(-machine.energy(everything)[:, here], 1)
    assert torch.allclose(-machine.free_energy(row)[:, 0], total)


def test_products_are_of_two_layers_alone():
    machine = machine_of(GRAPHS["a spare hidden layer"], "dense", True)
    with pytest.raises(InputError, match=r"two layers.*\(3, 2, 4\)"):
        AllStates(machine).products()


def test_dense_couplings_need_something_to_couple():
    with pytest.raises(InputError, match=r"at least one edge.*Patterns"):
        Dense(GRAPHS["nothing"], {})
