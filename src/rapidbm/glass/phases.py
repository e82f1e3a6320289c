"""Where a machine stands: its load and temperature, beside the phases of random pattern machines.

K random ±1 patterns between two layers, a bidirectional associative memory (Kosko 1988), with ratio
r = √(H/V), load α = K/√(VH) and temperature T = 1/β:

    H = −(1/√(VH)) Σ_k (ξ_v^k·v)(ξ_h^k·h)                                                 (1)

Each pattern that is not retrieved contributes det(1 − β² Q P)^(−1/2), with Q and P the replica overlaps
of the layers. Replica symmetry, Q = (1−q) + q and P = (1−p) + p, leaves the retrieval
overlaps m, n of one pattern, the susceptibilities C = β(1−q), C' = β(1−p), and D = 1 − C C':

    R  = α r β² (p + C'² q) / D²,        R' = (α/r) β² (q + C² p) / D²                     (2)
    m = ∫Dz tanh(β r n + √R z),          n = ∫Dz tanh(β m/r + √R' z)                       (3)
    q = ∫Dz tanh²(β r n + √R z),         p = ∫Dz tanh²(β m/r + √R' z)                      (4)
    −βf = −β m n + (1/r) [L − R(1−q)/2] + r [L' − R'(1−p)/2]
          − (α/2) [log D − β (C p + C' q)/D],        L = ∫Dz log 2cosh(…),                 (5)

f in units of √(VH). A full machine is the Hopfield model (Amit, Gutfreund & Sompolinsky 1985), α = K/N:

    R = α β² q/D²,   D = 1 − C,   −βf = −β m²/2 + L − R(1−q)/2 − (α/2) [log D − β q/D]     (6)

Three temperatures follow. Overlaps q, p appear continuously (the glass line) at

    α² (1+x) x²/(1−x)³ + α (r + 1/r) x²/(1−x)² = 1,  x = β²;     Hopfield: T = 1 + √α     (7)

m > 0 solves (3) up to a spinodal, the retrieval line, and has the lowest f up to the stable line. See
Kurchan, Peliti & Saber 1994 and Barra, Catania, Decelle & Seoane, arXiv:2211.09694.

All of this holds for independent ±1 patterns, no biases, N → ∞ and replica symmetry. Trained patterns are
correlated and small machines have no sharp lines, so the place of a machine is a guide, not a verdict.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ..arrays import as_tensor
from ..display import Displayable
from ..errors import InputError, check_beta, check_choice, is_number
from ..ground.lower_bound import whole_matrix
from ..machines.couplings import Couplings
from ..machines.layers import Layers
from ..machines.machine import Machine
from ..machines.units.spin import SPIN
from ..progress import report_progress, watch, watched

BIDIRECTIONAL, HOPFIELD = "bidirectional associative memory", "Hopfield"
COLD = 1e-3  # stands for T = 0: the capacities change by less than 10⁻³ below it


@dataclass(frozen=True, repr=False)
class PhasePoint(Displayable):
    """Load and temperature of each replica, and the phase of a random machine that has the same."""

    load: Tensor  # (e,)
    temperature: Tensor  # (e,)
    patterns: Tensor  # (e,) K, or what acts as such in dense couplings
    theory: str
    aspect: float  # H/V

    @cached_property
    def phase(self) -> tuple[str, ...]:
        """Of each replica: paramagnet; retrieval; retrieval, metastable; spin glass."""
        return phases_at(self.load, self.temperature, self.theory, self.aspect)


@dataclass(frozen=True, repr=False)
class Boundaries(Displayable):
    """Temperatures of the three lines against load; NaN where there is no such line."""

    theory: str
    aspect: float  # H/V
    load: Tensor  # (x,)
    glass: Tensor  # (x,) paramagnet above
    retrieval: Tensor  # (x,) below, patterns are minima of the free energy
    stable: Tensor  # (x,) below, they are its lowest minima


# -- where a machine is -------------------------------------------------------------------------------


@torch.no_grad()
def phase_point(machine: Machine, beta: float = 1.0) -> PhasePoint:
    """Load and temperature of a machine, and the phase of a random machine that has the same.

    Only the couplings count, not the biases. −E = (1/√K) Σ_k m_v^k m_h^k is eq. (1) of
    `rapidbm.glass.phases` at T = √K / (β J √(VH)), with J the root mean square coupling; in a full
    machine T = √K / (β J N). A deep machine is judged by its visible and first hidden layer.

    Dense couplings count as the K independent patterns that would have their participation ratio P of
    squared singular values: 1/K = 1/P − 1/V − 1/H, in full machines 1/P − 2/N.

    Parameters
    ----------
    machine : Machine
        A machine of spins.
    beta : float, default 1.0
        Inverse temperature.

    Returns
    -------
    PhasePoint
        `load`, `temperature` and `patterns` (K), each (e,), and `phase`, a word per replica.

    Examples
    --------
    >>> rb.phase_point(rb.rbm(100, 100, patterns=2, seed=0)).phase
    ('retrieval',)
    """
    check_beta(beta)
    machine.layers.check_spins("a place among the phases")
    a, b, theory = _compared(machine.layers)
    aspect = 1.0 if a == b else b / a
    square, count = (x.cpu() for x in _strength(machine.couplings, theory))
    root = math.sqrt(a * b)
    temperature = (count / square).sqrt() / (beta * root) if beta else torch.full_like(square, torch.inf)
    load = count / root
    return PhasePoint(load, temperature, count, theory, aspect)


def _compared(layers: Layers) -> tuple[int, int, str]:
    """The sizes that make the load, and the theory."""
    if layers.full:
        return layers.columns, layers.columns, HOPFIELD
    if (0, 1) not in layers.edges:
        raise InputError(
            "a place among the phases needs full connectivity or couplings between the visible and "
            f"the first hidden layer; this machine has edges {layers.edges}"
        )
    return layers.sizes[0], layers.sizes[1], BIDIRECTIONAL


def _strength(couplings: Couplings, theory: str) -> tuple[Tensor, Tensor]:
    """Mean square coupling and number of patterns, (e,) each, in float64."""
    layers = couplings.layers
    full = theory == HOPFIELD
    a, b = (layers.columns, layers.columns) if full else layers.sizes[:2]
    pairs = a * (a - 1) if full else a * b
    patterned = couplings.patterned
    if patterned is not None:
        xi = patterned.patterns.double()
        first, second = (
            (xi, xi) if full else (patterned.of_layer(0).double(), patterned.of_layer(1).double())
        )
        # ‖ξ_vᵀ ξ_h‖² = Σ_kl G_kl G'_kl with the Gram matrices of the layers: V×H is never built.
        total = ((first @ first.mT) * (second @ second.mT)).sum((1, 2))
        if full:  # without the diagonal
            total = total - xi.square().sum(1).square().sum(1)
        k = xi.shape[1]
        return total / (k * pairs), torch.full_like(total, k)
    matrix = whole_matrix(couplings) if full else couplings.matrix(0, 1).double()
    gram = matrix @ matrix.mT if a <= b else matrix.mT @ matrix
    total = gram.diagonal(dim1=-2, dim2=-1).sum(-1)
    rest = gram.square().sum((1, 2)) / total.square() - (1 / a + 1 / b)
    return total / pairs, 1.0 / rest.clamp(min=2 / pairs if full else 1 / pairs)


# -- the lines ----------------------------------------------------------------------------------------


@watched("phase boundaries", remedy="take fewer loads")
def boundaries(
    theory: str = BIDIRECTIONAL,
    aspect: float = 1.0,
    load: Tensor | None = None,
    *,
    limit: float | None = None,
) -> Boundaries:
    """The phase boundaries of random pattern machines: temperatures of three lines by load.

    Parameters
    ----------
    theory : str, default "bidirectional associative memory"
        Or "Hopfield", for a full machine.
    aspect : float, default 1.0
        H/V, the ratio of the layers' sizes.
    load : Tensor of shape (x,), optional
        Loads K/√(VH), positive; by default from 0.001 to 3.
    limit : float, optional
        Seconds after which `TimeLimit` is raised.

    Returns
    -------
    Boundaries
        `glass`, `retrieval` and `stable`, each (x,): temperatures; NaN where a line does not exist.

    Raises
    ------
    InputError
        If the theory is unknown or a load is not positive.
    """
    check_theory(theory, aspect)
    if load is None:  # with more of them where the retrieval line comes down to T = 0
        even = torch.logspace(-3, math.log10(3.0), 40, dtype=torch.float64)
        edge = capacity(theory, aspect) * torch.tensor([0.85, 0.9, 0.94, 0.97, 0.985, 0.995])
        load = torch.cat([even, edge.double()]).sort().values
    load = as_tensor(load, what="the load").double().cpu()
    if load.dim() != 1 or not bool((torch.isfinite(load) & (load > 0)).all()):
        raise InputError(f"the load must be a list of positive numbers, not {load.tolist()}")
    retrieval = _spinodal(theory, aspect, load)
    there = ~retrieval.isnan()
    stable = torch.full_like(load, torch.nan)
    stable[there] = _stable(theory, aspect, load[there], retrieval[there])
    return Boundaries(theory, aspect, load, glass_line(theory, aspect, load), retrieval, stable)


@torch.no_grad()
def phases_at(
    load: Tensor, temperature: Tensor, theory: str = BIDIRECTIONAL, aspect: float = 1.0
) -> tuple[str, ...]:
    """The name of the phase at each load and temperature (x,)."""
    check_theory(theory, aspect)
    hot = temperature >= glass_line(theory, aspect, load)
    model = _Model(theory, aspect, load.double())
    kept, lowest = model.compare(temperature.double().clamp(COLD, 2.0), 1000)
    phases = []
    for i, t in enumerate(temperature.tolist()):
        if math.isnan(t):
            phases.append("undefined")
        elif hot[i]:
            phases.append("paramagnet")
        elif kept[i]:
            phases.append("retrieval" if lowest[i] else "retrieval, metastable")
        else:
            phases.append("spin glass")
    return tuple(phases)


def capacity(theory: str = BIDIRECTIONAL, aspect: float = 1.0, temperature: float = COLD) -> float:
    """The largest load at which patterns are minima of the free energy; T = 0 unless it is given."""
    check_theory(theory, aspect)
    low, high = 0.0, 1.0
    for _ in range(3):  # a grid of 40 within the last: all its points at once
        grid = torch.linspace(low, high, 41, dtype=torch.float64)[1:]
        kept = overlaps(grid, temperature, theory, aspect)[0] > LOST
        best = int(kept.cumprod(0).sum())
        step = (high - low) / 40
        low, high = low + best * step, low + min(best + 1, 40) * step
    return (low + high) / 2


def overlaps(
    load: Tensor, temperature: float, theory: str = BIDIRECTIONAL, aspect: float = 1.0
) -> Tensor:
    """m and n of (3), (2, x), or m alone, (1, x); 0 where there is no retrieval."""
    check_theory(theory, aspect)
    model = _Model(theory, aspect, load.double())
    return model.retrieval(torch.full_like(model.load, temperature), *model.start(), 2000)[0]


def check_theory(theory: str, aspect: float) -> None:
    check_choice("theory", theory, (BIDIRECTIONAL, HOPFIELD))
    if not (is_number(aspect) and aspect > 0):
        raise InputError(f"the aspect H/V must be positive and finite, not {aspect!r}; give H/V")


LOST = 0.05  # an overlap below it is none; at a spinodal it is several times larger

# tanh x = Σ_u w_u sign(x − u) with w ∝ sech² u. So the Gaussian averages are sums of error functions,
# smooth at every temperature: nothing has to resolve the step that tanh becomes when T → 0.
_U = torch.arange(-36, 37, dtype=torch.float64) * 0.2
_W = torch.cosh(_U).pow(-2) / torch.cosh(_U).pow(-2).sum()
# Noise near the spacing of u is averaged by Gauss and Hermite's rule instead.
_NARROW = 0.25
_Z, _G = (torch.from_numpy(x) for x in np.polynomial.hermite_e.hermegauss(16))
_G = _G / _G.sum()


@dataclass(frozen=True)
class _Model:
    """Eqs. (2)–(6) at many loads; l layers, one of them for Hopfield."""

    theory: str
    aspect: float
    load: Tensor  # (x,)

    def start(self) -> tuple[Tensor, Tensor]:
        """m = 1 and C = 0, (l, x)."""
        ones = torch.ones((1 if self.theory == HOPFIELD else 2, len(self.load)), dtype=torch.float64)
        return ones, torch.zeros_like(ones)

    @property
    def ratio(self) -> Tensor:
        r = math.sqrt(self.aspect)
        return torch.tensor([[r], [1 / r]], dtype=torch.float64)

    def stiffness(self, c: Tensor) -> Tensor:
        """D, (x,)."""
        return 1.0 - c.prod(0)  # of one layer or of both

    def signal(self, beta: Tensor, m: Tensor) -> Tensor:
        return beta * m if self.theory == HOPFIELD else beta * self.ratio * m.flip(0)

    def noise(self, beta: Tensor, c: Tensor, stiffness: Tensor) -> Tensor:
        """√R of each layer, (l, x)."""
        q = (1.0 - c / beta).clamp(min=0.0)  # rounding may leave it below zero
        square = self.load * (beta / stiffness) ** 2
        if self.theory == HOPFIELD:
            return (square * q).sqrt()
        return (square * self.ratio * (q.flip(0) + c.flip(0).square() * q)).sqrt()  # (2)

    def retrieval(self, temperature: Tensor, m: Tensor, c: Tensor, passes: int) -> tuple[Tensor, Tensor]:
        """Iterates (3) and (4) from a state with larger overlaps."""
        beta = 1.0 / temperature
        for step in range(passes):
            report_progress()
            before = m
            # Below D = 10⁻³ retrieval is lost already; the cut keeps the noise finite on the way out.
            noise = self.noise(beta, c, self.stiffness(c).clamp(min=1e-3))
            m, slope = _averages(self.signal(beta, m), noise)
            c = beta * slope
            if step % 20 == 19 and bool(((m - before).abs() < 1e-10).all()):
                break
        return m, c

    def spin_glass(self, temperature: Tensor) -> Tensor:
        """C of the solution with m = 0, (l, x).

        Iteration swings about it; but at a given D the noise follows, and 1 − C C' falls as D grows.
        """
        beta = 1.0 / temperature
        c = self.start()[1]
        none = torch.zeros_like(c)
        low, high = torch.full_like(self.load, 1e-4), torch.ones_like(self.load)
        for _ in range(20):
            middle = (low * high).sqrt()
            trial = c  # of a smaller D, so with more noise: from less the overlaps would fall to zero
            for _ in range(20):
                trial = beta * _averages(none, self.noise(beta, trial, middle))[1]
            more = self.stiffness(trial) > middle
            low, high = torch.where(more, middle, low), torch.where(more, high, middle)
            c = torch.where(more, trial, c)
        return c

    def potential(self, temperature: Tensor, m: Tensor, c: Tensor) -> Tensor:
        """−βf of (5) or (6), (x,)."""
        beta = 1.0 / temperature
        q = 1.0 - c / beta
        stiffness = self.stiffness(c).clamp(min=1e-9)
        noise = self.noise(beta, c, stiffness)
        free = _log_2cosh(self.signal(beta, m), noise) - noise.square() * (1.0 - q) / 2
        if self.theory == HOPFIELD:
            pair, mixed = m[0].square() / 2, q[0]
        else:
            free, pair, mixed = free / self.ratio, m.prod(0), (c * q.flip(0)).sum(0)
        glassy = stiffness.log() - beta * mixed / stiffness
        return free.sum(0) - beta * pair - self.load * glassy / 2

    def compare(self, temperature: Tensor, passes: int) -> tuple[Tensor, Tensor]:
        """Whether retrieval is a minimum of f, and whether it is lower than the spin glass, (x,)."""
        m, c = self.retrieval(temperature, *self.start(), passes)
        retrieved = self.potential(temperature, m, c)
        glass = self.potential(temperature, torch.zeros_like(m), self.spin_glass(temperature))
        kept = m[0] > LOST
        return kept, kept & (retrieved > glass)


def _averages(signal: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """∫Dz tanh and ∫Dz (1 − tanh²) of signal + noise·z."""
    _, step, density = _wide(signal, noise)
    mean, slope = step @ _W, (density @ _W) / noise.clamp(min=_NARROW)
    narrow = noise < _NARROW
    if bool(narrow.any()):
        spin = SPIN.mean(signal[narrow][:, None] + noise[narrow][:, None] * _Z)
        mean[narrow], slope[narrow] = spin @ _G, (1.0 - spin.square()) @ _G
    return mean, slope


def _log_2cosh(signal: Tensor, noise: Tensor) -> Tensor:
    """∫Dz log 2cosh(signal + noise·z)."""
    y, step, density = _wide(signal, noise)
    wide = ((y * step + density) @ _W) * noise.clamp(min=_NARROW)
    narrow = SPIN.log_sum(signal[..., None] + noise[..., None] * _Z) @ _G
    return torch.where(noise < _NARROW, narrow, wide)


def _wide(signal: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """y = (signal − u)/noise, ∫Dz sign(y + z) and its slope, (l, x, u)."""
    y = (signal[..., None] - _U) / noise.clamp(min=_NARROW)[..., None]
    density = math.sqrt(2 / math.pi) * torch.exp(-0.5 * y.square())
    return y, torch.erf(y * math.sqrt(0.5)), density


def glass_line(theory: str, aspect: float, load: Tensor) -> Tensor:
    """T of (7): above it there is only the paramagnet."""
    if theory == HOPFIELD:
        return 1.0 + load.sqrt()
    both = math.sqrt(aspect) + 1 / math.sqrt(aspect)
    low, high = torch.zeros_like(load), torch.ones_like(load)
    for _ in range(60):
        x = (low + high) / 2
        cold = (load * x / (1 - x)) ** 2 * (1 + x) / (1 - x) + both * load * (x / (1 - x)) ** 2 > 1
        low, high = torch.where(cold, low, x), torch.where(cold, x, high)
    return torch.where(load.isnan(), load, ((low + high) / 2).rsqrt())


def _spinodal(theory: str, aspect: float, load: Tensor) -> Tensor:
    model = _Model(theory, aspect, load)
    low, high = torch.full_like(load, COLD), torch.ones_like(load)
    m, c = model.retrieval(low, *model.start(), 1000)
    there = m[0] > LOST
    with watch("retrieval", 13) as tick:
        for _ in range(13):
            middle = (low + high) / 2
            # A solution at a lower temperature has larger overlaps: a safe start for a higher one.
            m_new, c_new = model.retrieval(middle, m, c, 300)
            kept = m_new[0] > LOST
            low, high = torch.where(kept, middle, low), torch.where(kept, high, middle)
            m, c = torch.where(kept, m_new, m), torch.where(kept, c_new, c)
            tick()
    return torch.where(there, low, torch.nan)


def _stable(theory: str, aspect: float, load: Tensor, retrieval: Tensor) -> Tensor:
    model = _Model(theory, aspect, load)
    low, high = torch.full_like(load, 10 * COLD), retrieval.clone()
    there = model.compare(low, 100)[1]
    with watch("stable retrieval", 11) as tick:
        for _ in range(11):
            middle = (low + high) / 2
            kept = model.compare(middle, 100)[1]
            low, high = torch.where(kept, middle, low), torch.where(kept, high, middle)
            tick()
    return torch.where(there, low, torch.nan)
