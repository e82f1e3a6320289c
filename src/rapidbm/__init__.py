"""Boltzmann machines without the spin glass: Regularized Axons and Pattern-InDuced correlations."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .checkpoint import load_machine as load_machine
    from .checkpoint import save_machine as save_machine
    from .couplings import Couplings as Couplings
    from .couplings import Dense as Dense
    from .couplings import Patterns as Patterns
    from .data import load as load
    from .errors import InputError as InputError
    from .errors import LoadWarning as LoadWarning
    from .files import from_arrays as from_arrays
    from .gibbs import sweep as sweep
    from .gibbs import sweeps as sweeps
    from .ground import GroundState as GroundState
    from .ground import ground_state as ground_state
    from .layers import Layers as Layers
    from .likelihood import Bounds as Bounds
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
    from .negative import ContrastiveDivergence as ContrastiveDivergence
    from .negative import Exact as Exact
    from .negative import NegativePhase as NegativePhase
    from .negative import PatternInduced as PatternInduced
    from .negative import Persistent as Persistent
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
    from .recipe import Recipe as Recipe
    from .runs import Run as Run
    from .spins import WeightedSpins as WeightedSpins
    from .spins import to_bits as to_bits
    from .spins import to_spins as to_spins
    from .splits import Dataset as Dataset
    from .splits import Split as Split
    from .training import Progress as Progress
    from .training import log_likelihood_gradient as log_likelihood_gradient
    from .training import train as train

# A name is imported when it is first used, so that `rapidbm --help` does not wait for torch.
_HOME = {
    "checkpoint": ("load_machine", "save_machine"),
    "couplings": ("Couplings", "Dense", "Patterns"),
    "data": ("load",),
    "errors": ("InputError", "LoadWarning"),
    "files": ("from_arrays",),
    "gibbs": ("sweep", "sweeps"),
    "ground": ("GroundState", "ground_state"),
    "layers": ("Layers",),
    "likelihood": ("Bounds", "log_likelihood", "log_z"),
    "machine": ("Machine", "bm", "dbm", "rbm", "stack"),
    "metrics": ("gibbs_accessibility", "hamming_distance", "method_accessibility", "reconstruct"),
    "negative": (
        "ContrastiveDivergence",
        "Exact",
        "NegativePhase",
        "PatternInduced",
        "Persistent",
    ),
    "optim": ("Schedule", "TorchOptimizer", "adam", "sgd"),
    "positive": ("ClampedChains", "ConditionalMean", "Enumerated", "MeanField", "PositivePhase"),
    "projection": ("Clip", "GibbsProjection", "NoProjection", "Projection", "Sign"),
    "recipe": ("Recipe",),
    "runs": ("Run",),
    "spins": ("WeightedSpins", "to_bits", "to_spins"),
    "splits": ("Dataset", "Split"),
    "training": ("Progress", "log_likelihood_gradient", "train"),
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
