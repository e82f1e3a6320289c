"""Patterns that are measured in the strengths of their layers."""

import pytest
import torch

import rapidbm as rb
from rapidbm.errors import InputError
from rapidbm.machines.files import load_machine, save_machine
from rapidbm.random import stream
from rapidbm.runs.recipe import Recipe
from rapidbm.training.projections import Clip, GibbsProjection, NoProjection, Sign
from rapidbm.training.trainer import Trainer

STRENGTHS = (1.0, 2.0, 0.25)
DATA = torch.where(torch.rand((12, 5), generator=stream(1)) < 0.5, 1, -1)


def made(**more):
    more = {"patterns": 3, "seed": 0, "replicas": 2, "dtype": torch.float64, **more}
    return rb.dbm(5, (4, 3), strengths=STRENGTHS, **more)


def measure():
    return torch.tensor([1.0] * 5 + [2.0] * 4 + [0.25] * 3, dtype=torch.float64)


def test_patterns_start_at_the_strengths_of_their_layers():
    assert torch.equal(made().patterns.detach().abs(), measure().expand(2, 3, 12))
    wide = made(scale=0.5, continuous=True).patterns.detach() / measure()
    assert 0.4 < float(wide.abs().max()) <= 0.5
    plain = rb.dbm(5, (4, 3), 3, seed=0, replicas=2, dtype=torch.float64)
    assert torch.equal(made().patterns, plain.patterns * measure())


@pytest.mark.parametrize(
    ("projection", "bound"),
    [(Sign(), 1.0), (Clip(0.5), 0.5), (Clip((0.3, 0.6)), None), (GibbsProjection(), 1.0)],
)
def test_projections_put_them_back_to_these(projection, bound):
    machine = made()
    machine.patterns.data.mul_(1.7).add_(0.01)
    projection.apply(machine, stream(0))
    sizes = (machine.patterns.detach() / measure()).abs()
    wanted = torch.tensor([0.3, 0.6]) if bound is None else torch.full((2,), bound)
    assert torch.allclose(sizes, wanted.double()[:, None, None].expand(2, 3, 12))


@pytest.mark.parametrize(
    "optimizer", [rb.sgd(0.1), rb.sgd(0.1, momentum=0.5), rb.adam(0.02, weight_decay=0.3)]
)
def test_a_training_is_one_of_what_they_measure(optimizer):
    """ξ = s η: the same steps by an optimiser that holds η and differentiates by it."""
    machine = made()
    how = {"epochs": 5, "batch_size": 4, "seed": 0, "positive": rb.MeanField(5)}
    trainer = Trainer(machine, DATA, rb.PatternInduced(), optimizer, **how)
    eta = {"couplings.patterns": torch.nn.Parameter(machine.patterns.detach() / measure())}
    other = optimizer.bind(eta, trainer.per_epoch)
    seen = []
    inner = trainer.stepper.updater.step

    def step(gradients, rates):
        seen.append((gradients["couplings.patterns"].clone(), rates))
        inner(gradients, rates)

    trainer.stepper.updater.step = step
    for _ in trainer.run("update"):
        gradient, rates = seen[-1]
        other.step({"couplings.patterns": gradient * measure()}, rates)
        assert torch.allclose(machine.patterns, eta["couplings.patterns"] * measure(), rtol=1e-12)
    assert len(seen) == 15


def test_strengths_of_one_change_nothing():
    ends = []
    for strengths in (None, (1.0, 1.0, 1.0)):
        machine = rb.dbm(5, (4, 3), 3, seed=0, strengths=strengths, dtype=torch.float64)
        how = {"epochs": 5, "batch_size": 4, "seed": 0, "projection": Sign()}
        for _ in rb.train(machine, DATA, rb.PatternInduced(1), rb.sgd(0.1), **how):
            pass
        ends.append(machine.patterns.detach())
    assert torch.equal(*ends)


def test_a_file_keeps_them_and_a_training_goes_on_to_the_same_bits(tmp_path):
    how = {"epochs": 6, "batch_size": 4, "projection": Sign()}
    ends = []
    for cut in (None, 7):
        trainer = Trainer(made(), DATA, rb.PatternInduced(1), rb.adam(0.05), seed=0, **how)
        for progress in trainer.run("update"):
            if progress.update == cut:
                save_machine(trainer.machine, tmp_path / "m.safetensors")
                again = load_machine(tmp_path / "m.safetensors")
                assert again.couplings.strengths == STRENGTHS
                state = trainer.state()
                trainer = Trainer(again, DATA, rb.PatternInduced(1), rb.adam(0.05), seed=0, **how)
                trainer.load(state)
                break
        for _ in trainer.run("update"):
            pass
        ends.append(trainer.machine.patterns.detach())
    assert torch.equal(*ends)


def test_clipped_training_stays_within_them():
    machine = made()
    how = {"epochs": 5, "batch_size": 4, "seed": 0, "projection": Clip(0.9)}
    for _ in rb.train(machine, DATA, rb.PatternInduced(), rb.sgd(1.0), **how):
        pass
    assert float((machine.patterns.detach().abs() / measure()).max()) <= 0.9 + 1e-12


def test_what_is_no_strength():
    with pytest.raises(InputError, match=r"one for each of the layers \(5, 4, 3\), not \(1.0, 2.0\)"):
        rb.dbm(5, (4, 3), 3, strengths=(1.0, 2.0))
    with pytest.raises(InputError, match="positive numbers"):
        rb.rbm(5, 4, 3, strengths=(1.0, 0.0))
    with pytest.raises(InputError, match="strengths are those of patterns"):
        rb.rbm(5, 4, strengths=(1.0, 1.0))
    with pytest.raises(InputError, match="strengths are those of patterns; give --patterns K"):
        Recipe("digits", strengths=(1.0, 1.0))


def test_a_recipe_has_them():
    recipe = Recipe.made("bars4", {"model": "dbm", "hidden": (9, 9), "strengths": (1.0, 1.0, 0.2)})
    machine = recipe.machine(recipe.data(), torch.device("cpu"))
    assert machine.couplings.strengths == (1.0, 1.0, 0.2)
    assert Recipe.from_dict(recipe.as_dict()) == recipe
    assert recipe.projection_choice() != NoProjection()


# -- a weak start of deeper layers ----------------------------------------------------------------


def test_deeper_layers_start_weaker():
    plain, weak = (rb.dbm(5, (4, 3, 2), 3, seed=0, deep_start=x) for x in (1.0, 0.1))
    ratio = (weak.patterns / plain.patterns).detach()
    assert torch.allclose(ratio, torch.tensor([1.0] * 9 + [0.1] * 5).expand(1, 3, 14))
    plain, weak = (rb.dbm(5, (4, 3, 2), seed=0, deep_start=x) for x in (1.0, 0.1))
    for edge, share in {"0-1": 1.0, "1-2": 0.1, "2-3": 0.1}.items():
        assert torch.allclose(weak.couplings.weights[edge], share * plain.couplings.weights[edge])
    both = made(deep_start=0.5).patterns.detach()
    assert torch.allclose(both.abs()[..., 9:], torch.tensor(0.125, dtype=torch.float64))


def test_a_weak_start_is_one_of_deeper_layers():
    for share in (0, -1.0, 1.5, "x", float("nan")):
        with pytest.raises(InputError, match="above 0 and up to 1"):
            rb.dbm(5, (4, 3), 3, deep_start=share)
    with pytest.raises(InputError, match="has none; leave deep_start"):
        rb.dbm(5, (4,), 3, deep_start=0.1)
    for chosen in ({"model": "rbm"}, {"model": "bm"}, {"model": "dbm", "hidden": (5,)}):
        with pytest.raises(InputError, match="has none; leave deep_start"):
            Recipe.made("digits", {**chosen, "deep_start": 0.1}, "small")
    recipe = Recipe.made("digits", {"model": "dbm", "hidden": (5, 4), "deep_start": 0.1}, "small")
    xi = recipe.machine(recipe.data(), torch.device("cpu")).patterns.detach().abs()
    assert torch.allclose(xi[..., -4:], 0.1 * xi[..., :1])
