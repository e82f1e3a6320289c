"""Other ways to couplings from rows of spins without fields: no machine is sampled.

    pseudo-likelihood    least −Σ_i ⟨log σ(2 s_i f_i)⟩,        f_i = Σ_j J_ij s_j                 (1)
    screening (RISE)     least Σ_i log ⟨exp(−s_i f_i)⟩                                         (2)
    naive mean field     J = −(C⁻¹)_ij of the connected correlations C                        (3)

Each row i of J is a problem of its own in (1) and (2), J_ij and J_ji are averaged. Both have a Gaussian
prior of width 1, J²/2n, without which spins that are equal in all n rows have an infinite J. (1) is a
logistic regression of each unit on all others (Ravikumar, Wainwright and Lafferty 2010; of Potts units
a softmax, Ekeberg et al. 2013), (2) interaction screening in its logarithmic form (Vuffray, Misra,
Lokhov and Chertkov 2016; Lokhov et al. 2018), (3) is Kappen and Rodríguez 1998.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

STEPS = 200  # of L-BFGS
TOLERANCE = 1e-9


def pseudo_likelihood(rows: Tensor, q: int | None = None) -> Tensor:
    """J by eq. (1), (columns, columns); rows (n, columns) of ±1, or one-hot of `q` states."""
    x, shares = _different(rows)
    if q is not None:
        return _potts(x, shares, q, len(rows))
    return _minimised(x, len(rows), lambda f: (shares @ torch.nn.functional.softplus(-2 * x * f)).sum())


def screening(rows: Tensor) -> Tensor:
    """J by eq. (2)."""
    x, shares = _different(rows)
    logs = shares.log()[:, None]
    return _minimised(x, len(rows), lambda f: torch.logsumexp(logs - x * f, 0).sum())


def mean_field(rows: Tensor) -> Tensor:
    """J by eq. (3)."""
    x, shares = _different(rows)
    found: Tensor = torch.linalg.pinv((x.T * shares) @ x, hermitian=True)
    return found.neg().fill_diagonal_(0.0)


def _different(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The different rows in float64, and the share of each."""
    x, counts = torch.unique(rows.double(), dim=0, return_counts=True)
    return x, counts.double() / len(rows)


def _minimised(x: Tensor, rows: int, loss: Callable[[Tensor], Tensor]) -> Tensor:
    """J at the least loss of the fields (rows, n), made symmetric."""
    n = x.shape[1]
    own = torch.eye(n, dtype=torch.bool, device=x.device)
    free = torch.zeros((n, n), dtype=torch.float64, device=x.device)
    found = _descended(free, rows, lambda j: loss(x @ j.masked_fill(own, 0.0))).masked_fill(own, 0.0)
    return 0.5 * (found + found.T)


def _potts(x: Tensor, shares: Tensor, q: int, rows: int) -> Tensor:
    """J of eq. (1) for units of `q` states and their fields, in the zero-sum gauge."""
    n = x.shape[1] // q
    same = torch.kron(torch.eye(n, device=x.device), torch.ones((q, q), device=x.device)).bool()
    free = torch.zeros((n * q + 1, n * q), dtype=torch.float64, device=x.device)  # the last row: fields

    def loss(each: Tensor) -> Tensor:
        fields = x @ each[:-1].masked_fill(same, 0.0) + each[-1]
        logs = torch.log_softmax(fields.reshape(len(x), n, q), -1).flatten(1)
        return -(shares @ (logs * x)).sum()

    found = _descended(free, rows, loss)[:-1].masked_fill(same, 0.0)
    blocks = found.reshape(n, q, n, q)
    blocks = blocks - blocks.mean(1, keepdim=True)
    blocks = blocks - blocks.mean(3, keepdim=True)
    found = blocks.reshape(n * q, n * q)
    return 0.5 * (found + found.T)


def _descended(start: Tensor, rows: int, loss: Callable[[Tensor], Tensor]) -> Tensor:
    """Where L-BFGS ends; the loss is a mean over so many rows."""
    free = start.clone().requires_grad_(True)
    steps = torch.optim.LBFGS(
        [free],
        max_iter=STEPS,
        history_size=20,
        tolerance_grad=TOLERANCE,
        tolerance_change=TOLERANCE * TOLERANCE,
        line_search_fn="strong_wolfe",
    )

    def evaluated() -> float:
        steps.zero_grad()
        with torch.enable_grad():
            value = loss(free) + free.square().sum() / (2 * rows)
            value.backward()  # type: ignore[no-untyped-call]
        return value.item()

    steps.step(evaluated)  # type: ignore[no-untyped-call]
    return free.detach()
