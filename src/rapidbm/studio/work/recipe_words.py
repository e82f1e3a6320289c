"""The choices of a page as a command and as a program that train the same.

What a preset fills in, and was not chosen, is left to the preset.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import fields
from pathlib import Path
from typing import Any

from ...registry import options_of
from ...runs.recipe import Recipe
from .recipes import INSTEAD

FLAGS = {option.name: option for option in options_of(Recipe).values()}


def _choices(recipe: Recipe, chosen: Collection[str]) -> dict[str, Any]:
    """The fields that were chosen, in the recipe's order, and those that dense couplings bring along."""
    dense = set(INSTEAD) if recipe.patterns is None and "patterns" in chosen else set()
    names = [f.name for f in fields(Recipe) if f.name in chosen or f.name in dense]
    return {name: getattr(recipe, name) for name in names}


def command_of(recipe: Recipe, preset: str, chosen: Collection[str], folder: Path) -> str:
    """`rapidbm train …`, in the studio's folder."""
    words = ["rapidbm", "train", _data(recipe, folder), "--preset", preset]
    for name, value in _choices(recipe, set(chosen)).items():
        words += _option(name, value)
    return shlex.join(words)


def _option(name: str, value: Any) -> list[str]:
    if name == "patterns" and value is None:
        return ["--dense"]
    if value is None:
        return []
    option = FLAGS.get(name)
    flag = option.dashed if option else f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        off = option.setting.off if option else ""
        return [flag if value else f"--{off}" if off else flag.replace("--", "--no-", 1)]
    values = value if isinstance(value, tuple) else (value,)
    return [word for one in values for word in (flag, f"{one}")]


def python_of(recipe: Recipe, preset: str, chosen: Collection[str], folder: Path) -> str:
    """A program that makes the same run."""
    values = {k: v for k, v in _choices(recipe, set(chosen)).items() if v is not None or k == "patterns"}
    inner = "".join(f"    {name!r}: {value!r},\n" for name, value in values.items())
    made = f"recipe = rb.Recipe.made({_data(recipe, folder)!r}, {{\n{inner}}}, {preset!r})\n"
    run = f"run = rb.Run.create({'runs/mine'!r}, recipe, {preset!r})\n"
    more = ""
    if preset == "auto":
        more = "from rapidbm.runs.auto_settings import find_settings\n\n"
        made += f"found = find_settings(recipe, {sorted(values)!r}, tell=print)\n"
        run = "run = rb.Run.create('runs/mine', found.recipe, 'auto', start=found.start)\n"
    return f"import rapidbm as rb\n{more}{made}{run}for step in run.go():\n    pass\n"


def _data(recipe: Recipe, folder: Path) -> str:
    """Data by name, or a file as it is seen from the studio's folder."""
    path = Path(recipe.dataset)
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else recipe.dataset
