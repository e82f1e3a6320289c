"""Boltzmann machines without the spin glass: Regularized Axons and Pattern-InDuced correlations."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .bridging import log_z_along as log_z_along
    from .checkpoint import load_machine as load_machine
    from .checkpoint import save_machine as save_machine
    from .convergence import Mixing as Mixing
    from .convergence import mixing as mixing
    from .couplings import Couplings as Couplings
    from .couplings import Dense as Dense
    from .couplings import Patterns as Patterns
    from .cuts import growth as growth
    from .data import load as load
    from .descent import descend as descend
    from .diagnosis import Diagnosis as Diagnosis
    from .diagnosis import diagnose as diagnose
    from .diagram import boundaries as boundaries
    from .diagram import standing as standing
    from .errors import DataWarning as DataWarning
    from .errors import FitWarning as FitWarning
    from .errors import InputError as InputError
    from .errors import LoadWarning as LoadWarning
    from .errors import TimeLimit as TimeLimit
    from .estimates import Bounds as Bounds
    from .estimates import Estimate as Estimate
    from .files import from_arrays as from_arrays
    from .gibbs import sweep as sweep
    from .gibbs import sweeps as sweeps
    from .glass import edwards_anderson as edwards_anderson
    from .glass import freezing as freezing
    from .glass import overlap_distribution as overlap_distribution
    from .glass import overlaps as overlaps
    from .glass import ultrametricity as ultrametricity
    from .ground import GroundState as GroundState
    from .ground import ground_state as ground_state
    from .landscape import minima as minima
    from .layers import Layers as Layers
    from .likelihood import log_likelihood as log_likelihood
    from .likelihood import log_z as log_z
    from .machine import Machine as Machine
    from .machine import bm as bm
    from .machine import dbm as dbm
    from .machine import rbm as rbm
    from .machine import stack as stack
    from .metrics import gibbs_accessibility as gibbs_accessibility
    from .metrics import hamming_distance as hamming_distance
    from .metrics import method_accessibility as method_accessibility
    from .metrics import reconstruct as reconstruct
    from .moments import Moments as Moments
    from .moments import exact_moments as exact_moments
    from .negative import ContrastiveDivergence as ContrastiveDivergence
    from .negative import Exact as Exact
    from .negative import NegativePhase as NegativePhase
    from .negative import PatternInduced as PatternInduced
    from .negative import Persistent as Persistent
    from .negative import Tempered as Tempered
    from .optim import Schedule as Schedule
    from .optim import TorchOptimizer as TorchOptimizer
    from .optim import adam as adam
    from .optim import sgd as sgd
    from .positive import ClampedChains as ClampedChains
    from .positive import ConditionalMean as ConditionalMean
    from .positive import Enumerated as Enumerated
    from .positive import MeanField as MeanField
    from .positive import PositivePhase as PositivePhase
    from .projection import Clip as Clip
    from .projection import GibbsProjection as GibbsProjection
    from .projection import NoProjection as NoProjection
    from .projection import Projection as Projection
    from .projection import Sign as Sign
    from .quality import adversarial_accuracy as adversarial_accuracy
    from .quality import relaxation as relaxation
    from .recipe import Recipe as Recipe
    from .runs import Run as Run
    from .samplers import Annealing as Annealing
    from .samplers import Gibbs as Gibbs
    from .samplers import ParallelTempering as ParallelTempering
    from .samplers import Sampler as Sampler
    from .samplers import TrajectoryTempering as TrajectoryTempering
    from .samplers import record as record
    from .samplers import sample as sample
    from .spectra import pattern_overlaps as pattern_overlaps
    from .spectra import spectrum as spectrum
    from .spins import WeightedSpins as WeightedSpins
    from .spins import to_bits as to_bits
    from .spins import to_spins as to_spins
    from .splits import Dataset as Dataset
    from .splits import Split as Split
    from .training import Progress as Progress
    from .training import log_likelihood_gradient as log_likelihood_gradient
    from .training import train as train
    from .verdict import glassiness as glassiness

# A name is imported when it is first used, so that `rapidbm --help` does not wait for torch.
_HOME = {
    "bridging": ("log_z_along",),
    "checkpoint": ("load_machine", "save_machine"),
    "convergence": ("Mixing", "mixing"),
    "couplings": ("Couplings", "Dense", "Patterns"),
    "data": ("load",),
    "cuts": ("growth",),
    "descent": ("descend",),
    "diagnosis": ("Diagnosis", "diagnose"),
    "diagram": ("boundaries", "standing"),
    "errors": ("DataWarning", "FitWarning", "InputError", "LoadWarning", "TimeLimit"),
    "estimates": ("Bounds", "Estimate"),
    "files": ("from_arrays",),
    "gibbs": ("sweep", "sweeps"),
    "glass": ("edwards_anderson", "freezing", "overlap_distribution", "overlaps", "ultrametricity"),
    "ground": ("GroundState", "ground_state"),
    "landscape": ("minima",),
    "layers": ("Layers",),
    "likelihood": ("log_likelihood", "log_z"),
    "machine": ("Machine", "bm", "dbm", "rbm", "stack"),
    "metrics": ("gibbs_accessibility", "hamming_distance", "method_accessibility", "reconstruct"),
    "moments": ("Moments", "exact_moments"),
    "negative": (
        "ContrastiveDivergence",
        "Exact",
        "NegativePhase",
        "PatternInduced",
        "Persistent",
        "Tempered",
    ),
    "optim": ("Schedule", "TorchOptimizer", "adam", "sgd"),
    "positive": ("ClampedChains", "ConditionalMean", "Enumerated", "MeanField", "PositivePhase"),
    "projection": ("Clip", "GibbsProjection", "NoProjection", "Projection", "Sign"),
    "quality": ("adversarial_accuracy", "relaxation"),
    "recipe": ("Recipe",),
    "runs": ("Run",),
    "samplers": (
        "Annealing",
        "Gibbs",
        "ParallelTempering",
        "Sampler",
        "TrajectoryTempering",
        "record",
        "sample",
    ),
    "spectra": ("pattern_overlaps", "spectrum"),
    "spins": ("WeightedSpins", "to_bits", "to_spins"),
    "splits": ("Dataset", "Split"),
    "training": ("Progress", "log_likelihood_gradient", "train"),
    "verdict": ("glassiness",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
__all__ = ["__version__", *_MODULE_OF]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        value = getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'rapidbm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
