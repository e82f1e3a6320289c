import pytest
import torch

from rapidbm.errors import InputError
from rapidbm.machines.constructors import bm, dbm, rbm
from rapidbm.random import stream
from rapidbm.sampling.gibbs import resample
from rapidbm.training.projections import PROJECTIONS, Clip, GibbsProjection, NoProjection, Sign


def machine(**options):
    made = rbm(4, 3, 2, replicas=2, seed=0, **options)
    made.couplings.patterns.data.copy_(2.0 * torch.randn(2, 2, 7, generator=stream(1)))
    return made


def test_sign_and_clip_and_none():
    for projection, wanted in (
        (Sign(), lambda x: torch.where(x >= 0, 1.0, -1.0)),
        (Clip(0.7), lambda x: x.clamp(-0.7, 0.7)),
        (NoProjection(), lambda x: x),
    ):
        made = machine()
        before = made.patterns.detach().clone()
        projection.apply(made, stream(0))
        assert torch.equal(made.patterns, wanted(before))


@pytest.mark.parametrize("make", [rbm, dbm, bm])
def test_gibbs_makes_spins_of_every_graph(make):
    made = make(4, (3, 2) if make is dbm else 3, 2, seed=0)
    made.couplings.patterns.data.mul_(0.3)
    GibbsProjection(2).apply(made, stream(0))
    assert bool((made.patterns.abs() == 1).all())


def test_gibbs_draws_the_visible_part_from_the_hidden_part_first():
    """Eq. (3): ξ_v given the old ξ_h, then ξ_h given the new ξ_v, with the couplings of before."""
    made = machine()
    xi, J = made.patterns.detach().clone(), made.couplings.matrix(0, 1).detach()
    count = 4000
    up = torch.zeros(2, 2, 7)
    for i in range(count):
        made.couplings.patterns.data.copy_(xi)
        GibbsProjection().apply(made, stream(i))
        up += made.patterns.detach() > 0
    wanted = torch.sigmoid(2 * torch.einsum("evh,ekh->ekv", J, xi[..., 4:]))
    assert float((up[..., :4] / count - wanted).abs().max()) < 4 * 0.5 / count**0.5


def test_gibbs_draws_the_hidden_part_from_the_new_visible_part():
    made = machine()
    xi, J = made.patterns.detach().clone(), made.couplings.matrix(0, 1).detach()
    count, total, wanted = 4000, torch.zeros(2, 2, 3), torch.zeros(2, 2, 3)
    for i in range(count):
        made.couplings.patterns.data.copy_(xi)
        GibbsProjection().apply(made, stream(i))
        new = made.patterns.detach()
        total += new[..., 4:] > 0
        wanted += torch.sigmoid(2 * torch.einsum("evh,ekv->ekh", J, new[..., :4]))
    assert float((total - wanted).abs().max()) / count < 4 * 0.5 / count**0.5


def test_gibbs_sweeps_more_than_once():
    once, twice = machine(), machine()
    xi = once.patterns.detach().clone()
    rng = stream(7)
    GibbsProjection(2).apply(twice, stream(7))
    spins = xi.clone()
    for _ in range(2):
        for layer in (0, 1):
            where = once.layers.slices[layer]
            spins[..., where] = resample(once, spins, layer, rng)  # couplings of before
    assert torch.equal(twice.patterns, spins)


def test_moments():
    assert Sign().every == NoProjection().every == "epoch"
    assert Clip() == Clip(1.0, "update")
    assert GibbsProjection() == GibbsProjection(1, "update")
    assert set(PROJECTIONS) == {"sign", "clip", "gibbs", "none"}


@pytest.mark.parametrize("projection", [Sign(), Clip(), GibbsProjection()])
def test_dense_couplings_have_nothing_to_project(projection):
    with pytest.raises(InputError, match="dense; use 'none'"):
        projection.apply(rbm(4, 3, seed=0), stream(0))
    with pytest.raises(InputError, match="dense; use 'none'"):  # before a training begins
        projection.check(rbm(4, 3, seed=0))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Clip(0.0), "x > 0, not x = 0"),
        (lambda: Sign("batch"), "known are epoch, update"),
        (lambda: Clip(every="batch"), "known are epoch, update"),
        (lambda: GibbsProjection(every="batch"), "known are epoch, update"),
        (lambda: GibbsProjection(0), "at least 1"),
    ],
)
def test_bad_projections(make, words):
    with pytest.raises(InputError, match=words):
        make()
