"""The floor plan: a contract of imports over all rooms, one door to the accelerators, and no room that
hides what others take from it (docs/architecture.md)."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

import rapidbm

PACKAGE = Path(rapidbm.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
ROOMS = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))
ACCELERATED = re.compile(r"cuda|triton|bf16|bfloat16|tf32|float16|device\.type", re.IGNORECASE)


def test_the_contract_of_imports_names_every_room():
    project = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text())
    linter = project["tool"]["importlinter"]
    (layers,) = [c["layers"] for c in linter["contracts"] if c["type"] == "layers"]
    assert not linter.get("exclude_type_checking_imports", False)
    named = {name.strip() for level in layers for name in level.split(":")}
    assert {room.name for room in ROOMS} <= named


@pytest.mark.parametrize("room", ["machines", "sampling", "training"])
def test_only_accel_names_an_accelerator(room):
    for path in sorted((PACKAGE / room).rglob("*.py")):
        found = ACCELERATED.search(path.read_text())
        assert found is None, f"{path.relative_to(PACKAGE)} names {found and found[0]}"


@cache
def taken() -> dict[str, set[str]]:
    """room: what modules outside of it import from it."""
    names: dict[str, set[str]] = {room.name: set() for room in ROOMS}
    for path in MODULES:
        here = path.relative_to(PACKAGE).parts[:-1]
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or not node.level or not here:
                continue
            base = here[: len(here) - (node.level - 1)]
            target = [*base, *(node.module or "").split(".")]
            target = [part for part in target if part]
            if target and target[0] in names and target[0] != here[0]:
                names[target[0]] |= {alias.name for alias in node.names}
    return names


@pytest.mark.parametrize("room", [room.name for room in ROOMS])
def test_a_room_names_what_others_take_from_it(room):
    said = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text())) or ""
    words = set(re.findall(r"\w+", said))
    assert taken()[room] <= words, sorted(taken()[room] - words)
