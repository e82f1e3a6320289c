"""The probe reaches the optimum that scikit-learn's logistic regression reaches."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import rapidbm as rb
from rapidbm.random import stream
from rapidbm_paper.linear_probe import fit_probe, hidden_samples


def problem(samples=300, features=12, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.choice([-1, 1], (samples, features)).astype(np.int8)
    scores = x @ rng.normal(size=(features, classes)) + rng.gumbel(size=(samples, classes))
    return torch.from_numpy(x), torch.from_numpy(scores.argmax(1))


@pytest.mark.parametrize("strength", [1.0, 0.03, 1e-3])
def test_it_finds_the_optimum_of_the_convex_problem(strength):
    x, y = problem()
    found = fit_probe(x, y, (x, y), strengths=[strength], iterations=500)
    peer = LogisticRegression(C=1 / (strength * len(x)), tol=1e-8, max_iter=5000).fit(x, y)
    ours = torch.softmax(x.float() @ found.weights + found.offsets, 1).numpy()
    assert np.abs(ours - peer.predict_proba(x.numpy())).max() < 2e-3
    assert found.accuracy(x, y) == pytest.approx(peer.score(x, y), abs=0.01)


def test_the_strength_is_chosen_on_the_validation_data():
    x, y = problem(samples=40, features=30)
    other = problem(samples=2000, features=30)
    strengths = [1.0, 0.1, 0.01, 1e-3]
    scores = {s: fit_probe(x, y, other, strengths=[s]).validation for s in strengths}
    best = fit_probe(x, y, other, strengths=strengths)
    assert best.strength == max(strengths, key=lambda s: (round(scores[s], 3), s))
    assert best.accuracy(*other) == best.validation


def test_features_and_labels_must_agree():
    x, y = problem()
    with pytest.raises(rb.InputError, match="as many labels"):
        fit_probe(x, y[:-1], (x, y))


def test_hidden_samples_have_the_conditional_means():
    machine = rb.rbm(6, 5, patterns=2, scale=0.7, seed=1)
    visible = torch.tensor([[1, -1, 1, 1, -1, -1]], dtype=torch.int8)
    drawn = hidden_samples(machine, visible.expand(20_000, -1), stream(0, "probe")).double()
    exact = machine.hidden_mean(visible)[0, 0].detach().double()
    error = ((1 - exact**2) / len(drawn)).sqrt()
    assert ((drawn.mean(0) - exact).abs() < 6 * error + 1e-9).all()  # 2 of 10⁹ are farther off
    assert set(drawn.unique().tolist()) <= {-1.0, 1.0}
    with pytest.raises(rb.InputError, match="one replica"):
        hidden_samples(rb.rbm(6, 5, replicas=2), visible, stream(0))


def test_features_far_from_zero_take_no_more_steps():
    x, y = problem()
    near, far = (
        fit_probe(z, y, (z, y), strengths=[0.03], iterations=15) for z in (x.float(), x.float() + 50)
    )
    assert torch.allclose(near.weights, far.weights, atol=1e-3)
    assert near.accuracy(x, y) == pytest.approx(far.accuracy(x.float() + 50, y), abs=0.01)
