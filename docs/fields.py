"""For the reference: fields of a class whose docstring has no table get one from their help texts and
comments, and numbers of equations move close to them."""

import ast
import re
from typing import Any

import griffe

SECTIONS = re.compile(r"^(Parameters|Attributes)\n-{3,}$", re.MULTILINE)


class Fields(griffe.Extension):
    def on_class_members(self, *, node: Any, cls: griffe.Class, **more: Any) -> None:
        if not isinstance(node, ast.ClassDef) or cls.docstring is None:
            return
        fields = [x for x in node.body if isinstance(x, ast.AnnAssign) and isinstance(x.target, ast.Name)]
        lines = cls.lines_collection[cls.filepath]
        told = [(x.target.id, _help(x.value) or _comment(lines[x.end_lineno - 1])) for x in fields]
        for field in fields:  # a default is what it is, not the call that says so
            if _help(field.value):
                cls.members[field.target.id].value = ast.unparse(field.value.args[0])
        rows = [f"{name}\n    {text}" for name, text in told if text and not name.startswith("_")]
        if rows and not SECTIONS.search(cls.docstring.value):
            cls.docstring.value += "\n\nAttributes\n----------\n" + "\n".join(rows)

    def on_module_instance(self, *, node: Any, mod: griffe.Module, **more: Any) -> None:
        if mod.docstring is not None:
            mod.docstring.value = re.sub(
                r" {4,}(\(\d+\))$", r"   \1", mod.docstring.value, flags=re.MULTILINE
            )


def _help(value: ast.expr | None) -> str:
    """The second argument of `setting(default, help)`."""
    if not isinstance(value, ast.Call) or getattr(value.func, "id", "") != "setting":
        return ""
    words = value.args[1:2]
    return words[0].value if words and isinstance(words[0], ast.Constant) else ""


def _comment(line: str) -> str:
    return line.partition("  # ")[2]
