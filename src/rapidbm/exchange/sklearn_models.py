"""scikit-learn's `BernoulliRBM`, a restricted machine of units {0, 1}: components_ is Wᵀ, (h, v)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InputError
from ..machines.machine import Machine

PARTS = ("components_", "intercept_visible_", "intercept_hidden_")


def from_sklearn(rbm: Any) -> Machine:
    """The machine of a fitted `sklearn.neural_network.BernoulliRBM`.

    Free energies of scikit-learn are the machine's plus `machine.to_weights().constant`. A pickle is
    never opened here, since it can run any program: load it yourself if you know who wrote it.

    Parameters
    ----------
    rbm : BernoulliRBM
        A fitted estimator.

    Returns
    -------
    Machine
        A restricted machine with dense couplings and biases, one replica.

    Raises
    ------
    InputError
        If the estimator is not fitted.
    """
    if lost := [name for name in PARTS if not hasattr(rbm, name)]:
        raise InputError(
            f"a fitted BernoulliRBM is needed, and this {type(rbm).__name__} has no {lost[0]}; fit it "
            "first. A pickled file is never read: load it yourself, if you know who wrote it"
        )
    w, b, c = (getattr(rbm, name) for name in PARTS)
    return Machine.from_weights(np.asarray(w).T, b, c)


def to_sklearn(machine: Machine) -> Any:
    """A fitted `sklearn.neural_network.BernoulliRBM` with the weights of a machine.

    Parameters
    ----------
    machine : Machine
        A restricted machine of spins with one replica.

    Returns
    -------
    BernoulliRBM
        With the machine's weights; other settings are scikit-learn's defaults.

    Raises
    ------
    InputError
        If the machine has several replicas or is not restricted.

    Examples
    --------
    >>> model = rb.to_sklearn(rb.rbm(6, 4, biases=True, seed=0))
    >>> model.components_.shape
    (4, 6)
    """
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
