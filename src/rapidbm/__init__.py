"""Boltzmann machines without the spin glass: Regularized Axons and Pattern-InDuced correlations."""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.2.0"

# A name is imported when it is first used, so that `rapidbm --help` does not wait for torch. __init__.pyi
# says which module has it, to type checkers as well.
_STUB = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
_MODULE_OF = {
    alias.name: node.module or alias.name  # a module that is a public name itself
    for node in _STUB.body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}
__all__ = ["__version__", *_MODULE_OF]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        module = import_module(f".{_MODULE_OF[name]}", __name__)
        value = globals()[name] = module if _MODULE_OF[name] == name else getattr(module, name)
        return value
    raise AttributeError(f"module 'rapidbm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
