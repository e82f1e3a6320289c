"""What a class's fields say of themselves, by help texts and comments, is a table in the reference, and
numbers of equations stand near them."""

import ast
import re
from textwrap import indent
from typing import Any

import griffe

UNDERLINED = re.compile(r"^(\w+)\n-{3,}\n((?:.+\n?)+)", re.MULTILINE)  # as scikit-learn has its sections


class Fields(griffe.Extension):
    def on_class_members(self, *, node: Any, cls: griffe.Class, **more: Any) -> None:
        if not isinstance(node, ast.ClassDef) or cls.docstring is None:
            return
        cls.docstring.value = UNDERLINED.sub(_section, cls.docstring.value)
        fields = [x for x in node.body if isinstance(x, ast.AnnAssign) and isinstance(x.target, ast.Name)]
        lines = cls.lines_collection[cls.filepath]
        told = [(x.target.id, _help(x.value) or _comment(lines[x.end_lineno - 1])) for x in fields]
        for field in fields:  # a default is what it is, not the call that says so
            if _help(field.value):
                cls.members[field.target.id].value = ast.unparse(field.value.args[0])
        rows = [f"    {name}: {text}" for name, text in told if text and not name.startswith("_")]
        if rows:
            cls.docstring.value += "\n\nAttributes:\n" + "\n".join(rows)

    def on_module_instance(self, *, node: Any, mod: griffe.Module, **more: Any) -> None:
        if mod.docstring is not None:
            mod.docstring.value = re.sub(
                r" {4,}(\(\d+\))$", r"   \1", mod.docstring.value, flags=re.MULTILINE
            )


def _section(found: re.Match[str]) -> str:
    """A section by indentation, as the other docstrings have theirs; attributes, of which some share a
    line, as a list."""
    name, body = found.groups()
    if name == "Attributes":
        return "**Attributes:**\n\n" + re.sub(r"^(\w.*?) : ", r"- `\1`: ", body, flags=re.MULTILINE)
    body = re.sub(r"^(\w+) : ", r"\1: ", body, flags=re.MULTILINE)
    return name.replace("Parameters", "Args") + ":\n" + indent(body, "    ")


def _help(value: ast.expr | None) -> str:
    """The second argument of `setting(default, help)`."""
    if not isinstance(value, ast.Call) or getattr(value.func, "id", "") != "setting":
        return ""
    words = value.args[1:2]
    return words[0].value if words and isinstance(words[0], ast.Constant) else ""


def _comment(line: str) -> str:
    return line.partition("  # ")[2]
