"""scikit-learn's `BernoulliRBM`, a restricted machine of units {0, 1}: components_ is Wᵀ, (h, v)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InputError
from ..machines.machine import Machine

PARTS = ("components_", "intercept_visible_", "intercept_hidden_")


def from_sklearn(rbm: Any) -> Machine:
    """The machine of a fitted `BernoulliRBM`; free energies are the machine's plus
    `machine.to_weights().constant`.

    A file of one is a pickle, which can run any program, and is never read here: load it yourself, if you
    know who wrote it.
    """
    if lost := [name for name in PARTS if not hasattr(rbm, name)]:
        raise InputError(
            f"a fitted BernoulliRBM is needed, and this {type(rbm).__name__} has no {lost[0]}; fit it "
            "first. A pickled file is never read: load it yourself, if you know who wrote it"
        )
    w, b, c = (getattr(rbm, name) for name in PARTS)
    return Machine.from_weights(np.asarray(w).T, b, c)


def to_sklearn(machine: Machine) -> Any:
    """A fitted `BernoulliRBM` with the weights of a restricted machine; its other settings are
    scikit-learn's defaults."""
    from sklearn.neural_network import BernoulliRBM

    if machine.replicas != 1:
        raise InputError(
            f"a BernoulliRBM is one machine, and here are {machine.replicas} replicas; take one of them, "
            "machine.replica(0)"
        )
    weights = machine.to_weights()
    rbm = BernoulliRBM(n_components=weights.W.shape[2])
    values = (weights.W[0].T, weights.b[0], weights.c[0])
    for name, value in zip(PARTS, values, strict=True):
        setattr(rbm, name, np.ascontiguousarray(value.cpu().numpy()))
    rbm.n_features_in_ = machine.visible
    rbm._n_features_out = rbm.n_components
    rbm.h_samples_ = np.zeros((rbm.batch_size, rbm.n_components))  # where partial_fit goes on
    return rbm
