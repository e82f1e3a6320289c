"""Boltzmann machines without the spin glass: Regularized Axons and Pattern-InDuced correlations."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .accel.rounding import precision as precision
    from .data.catalogue import load as load
    from .data.files import from_arrays as from_arrays
    from .data.splits import Dataset as Dataset
    from .data.splits import Split as Split
    from .errors import DataWarning as DataWarning
    from .errors import FitWarning as FitWarning
    from .errors import InputError as InputError
    from .errors import LoadWarning as LoadWarning
    from .errors import PluginWarning as PluginWarning
    from .errors import TimeLimit as TimeLimit
    from .estimates import Bounds as Bounds
    from .estimates import Estimate as Estimate
    from .glass.accessibility import gibbs_accessibility as gibbs_accessibility
    from .glass.accessibility import method_accessibility as method_accessibility
    from .glass.growth import growth as growth
    from .glass.minima import minima as minima
    from .glass.neighbours import adversarial_accuracy as adversarial_accuracy
    from .glass.overlaps import edwards_anderson as edwards_anderson
    from .glass.overlaps import freezing as freezing
    from .glass.overlaps import overlap_distribution as overlap_distribution
    from .glass.overlaps import overlaps as overlaps
    from .glass.overlaps import ultrametricity as ultrametricity
    from .glass.phases import boundaries as boundaries
    from .glass.phases import standing as standing
    from .glass.relaxation import relaxation as relaxation
    from .glass.spectra import pattern_overlaps as pattern_overlaps
    from .glass.spectra import spectrum as spectrum
    from .glass.verdict import glassiness as glassiness
    from .ground.ground_state import GroundState as GroundState
    from .ground.ground_state import ground_state as ground_state
    from .likelihood.bridging import log_z_along as log_z_along
    from .likelihood.log_z import log_likelihood as log_likelihood
    from .likelihood.log_z import log_z as log_z
    from .likelihood.moments import Moments as Moments
    from .likelihood.moments import exact_moments as exact_moments
    from .machines.constructors import bm as bm
    from .machines.constructors import dbm as dbm
    from .machines.constructors import rbm as rbm
    from .machines.couplings import Couplings as Couplings
    from .machines.dense import Dense as Dense
    from .machines.ensembles import WeightedSpins as WeightedSpins
    from .machines.files import load_machine as load_machine
    from .machines.files import save_machine as save_machine
    from .machines.layers import Layers as Layers
    from .machines.machine import Machine as Machine
    from .machines.machine import stack as stack
    from .machines.patterns import Patterns as Patterns
    from .machines.spins import to_bits as to_bits
    from .machines.spins import to_spins as to_spins
    from .random import stream as stream
    from .registry import Setting as Setting
    from .registry import setting as setting
    from .runs.diagnosis import Diagnosis as Diagnosis
    from .runs.diagnosis import diagnose as diagnose
    from .runs.metrics import Metric as Metric
    from .runs.metrics import hamming_distance as hamming_distance
    from .runs.metrics import reconstruct as reconstruct
    from .runs.recipe import Recipe as Recipe
    from .runs.run import Run as Run
    from .sampling.convergence import Mixing as Mixing
    from .sampling.convergence import mixing as mixing
    from .sampling.gibbs import sweep as sweep
    from .sampling.gibbs import sweeps as sweeps
    from .sampling.quench import descend as descend
    from .sampling.samplers import Annealing as Annealing
    from .sampling.samplers import Gibbs as Gibbs
    from .sampling.samplers import ParallelTempering as ParallelTempering
    from .sampling.samplers import Sampler as Sampler
    from .sampling.samplers import TrajectoryTempering as TrajectoryTempering
    from .sampling.samplers import record as record
    from .sampling.samplers import sample as sample
    from .training.negative import ContrastiveDivergence as ContrastiveDivergence
    from .training.negative import Exact as Exact
    from .training.negative import NegativePhase as NegativePhase
    from .training.negative import PatternInduced as PatternInduced
    from .training.negative import Persistent as Persistent
    from .training.negative import Tempered as Tempered
    from .training.optimisers import Schedule as Schedule
    from .training.optimisers import TorchOptimizer as TorchOptimizer
    from .training.optimisers import adam as adam
    from .training.optimisers import sgd as sgd
    from .training.positive import ClampedChains as ClampedChains
    from .training.positive import ConditionalMean as ConditionalMean
    from .training.positive import Enumerated as Enumerated
    from .training.positive import MeanField as MeanField
    from .training.positive import PositivePhase as PositivePhase
    from .training.projections import Clip as Clip
    from .training.projections import GibbsProjection as GibbsProjection
    from .training.projections import NoProjection as NoProjection
    from .training.projections import Projection as Projection
    from .training.projections import Sign as Sign
    from .training.train import log_likelihood_gradient as log_likelihood_gradient
    from .training.train import train as train
    from .training.trainer import Progress as Progress

# A name is imported when it is first used, so that `rapidbm --help` does not wait for torch.
_HOME = {
    "likelihood.bridging": ("log_z_along",),
    "machines.files": ("load_machine", "save_machine"),
    "sampling.convergence": ("Mixing", "mixing"),
    "machines.couplings": ("Couplings",),
    "machines.dense": ("Dense",),
    "machines.patterns": ("Patterns",),
    "data.catalogue": ("load",),
    "glass.growth": ("growth",),
    "sampling.quench": ("descend",),
    "runs.diagnosis": ("Diagnosis", "diagnose"),
    "glass.phases": ("boundaries", "standing"),
    "random": ("stream",),
    "registry": ("Setting", "setting"),
    "errors": (
        "DataWarning",
        "FitWarning",
        "InputError",
        "LoadWarning",
        "PluginWarning",
        "TimeLimit",
    ),
    "estimates": ("Bounds", "Estimate"),
    "data.files": ("from_arrays",),
    "sampling.gibbs": ("sweep", "sweeps"),
    "glass.overlaps": (
        "edwards_anderson",
        "freezing",
        "overlap_distribution",
        "overlaps",
        "ultrametricity",
    ),
    "ground.ground_state": ("GroundState", "ground_state"),
    "glass.minima": ("minima",),
    "machines.layers": ("Layers",),
    "likelihood.log_z": ("log_likelihood", "log_z"),
    "machines.constructors": ("bm", "dbm", "rbm"),
    "machines.machine": ("Machine", "stack"),
    "runs.metrics": ("Metric", "hamming_distance", "reconstruct"),
    "glass.accessibility": ("gibbs_accessibility", "method_accessibility"),
    "likelihood.moments": ("Moments", "exact_moments"),
    "training.negative": (
        "ContrastiveDivergence",
        "Exact",
        "NegativePhase",
        "PatternInduced",
        "Persistent",
        "Tempered",
    ),
    "training.optimisers": ("Schedule", "TorchOptimizer", "adam", "sgd"),
    "training.positive": (
        "ClampedChains",
        "ConditionalMean",
        "Enumerated",
        "MeanField",
        "PositivePhase",
    ),
    "training.projections": ("Clip", "GibbsProjection", "NoProjection", "Projection", "Sign"),
    "glass.neighbours": ("adversarial_accuracy",),
    "glass.relaxation": ("relaxation",),
    "runs.recipe": ("Recipe",),
    "runs.run": ("Run",),
    "sampling.samplers": (
        "Annealing",
        "Gibbs",
        "ParallelTempering",
        "Sampler",
        "TrajectoryTempering",
        "record",
        "sample",
    ),
    "glass.spectra": ("pattern_overlaps", "spectrum"),
    "machines.ensembles": ("WeightedSpins",),
    "machines.spins": ("to_bits", "to_spins"),
    "accel.rounding": ("precision",),
    "data.splits": ("Dataset", "Split"),
    "training.train": ("log_likelihood_gradient", "train"),
    "training.trainer": ("Progress",),
    "glass.verdict": ("glassiness",),
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
