"""Small mistakes, one at a time: what may be changed in a source text, and the text after the change.

A `Mutation` replaces the bytes of one node of the syntax tree, so that every other line stays as it is.
What no test of a value could notice is left out by construction: texts and what only builds them
(errors, warnings, notes, `__repr__`), annotations and decorators, progress, what only runs on a GPU,
sizes of chunks, the settings at the head of a module and in defaults (0 and 1 apart), numbers below 10⁻⁴,
division by a sign instead of times it (`SIGNS`) and a few keywords (`QUIET`). docs/decisions/mutants.md
gives the reasons.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

TINY = 1e-4  # a number below it is a tolerance, or keeps a division from 0/0
SILENT = re.compile(  # statements and conditions with one of these words change no number
    r"\b(tick|report_progress|watch|watched|warnings|quiet|note|remedy|cuda|is_cuda|capturable|cast|TypeVar"
    r"|TYPE_CHECKING|by_device|prepare|wait|fused|looks|(LARGE_)?CHUNK(_BYTES)?|ROOM)\b"
)
# The same numbers without them: where a tensor lies, in which type it is summed, what may be written
# over or left unmade, what is told; the checks of our own mistakes; how often an iteration is made is a
# setting.
QUIET = {
    "device",
    "dtype",
    "means",
    "stderr",
    "out",
    "overwrite",
    "full_matrices",
    "strict",
    "stacklevel",
    "iterations",
    "remedy",
    "limit",
    "encoding",
    "what",
}

EDGES = {ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">")}
OPPOSITES = {
    ast.Lt: ("<", ">="),
    ast.LtE: ("<=", ">"),
    ast.Gt: (">", "<="),
    ast.GtE: (">=", "<"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
ARITHMETIC = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
SWAPPED = {"sum": "mean", "mean": "sum"} | {
    here: there
    for one, two in (
        ("min", "max"),
        ("amin", "amax"),
        ("argmin", "argmax"),
        ("minimum", "maximum"),
        ("any", "all"),
        ("floor", "ceil"),
        ("zeros", "ones"),
        ("zeros_like", "ones_like"),
        ("sin", "cos"),
    )
    for here, there in ((one, two), (two, one))
}
# f(x) and x.f() become x.
DROPPED = {
    "abs",
    "exp",
    "log",
    "log1p",
    "sqrt",
    "square",
    "tanh",
    "sign",
    "clone",
    "flip",
    "cumsum",
}
ALONG = {"sum", "mean", "amin", "amax", "argmin", "argmax", "logsumexp", "softmax", "cumsum", "cat"}
TEXTS = {"__repr__", "__str__", "describe"}
GRAPHS = {"replayed"}  # only a GPU's updates are graphs
SIGNS = {"flip", "turned"}  # tensors of ±1, and 1/s = s


@dataclass(frozen=True)
class Mutation:
    """One change of one module; `reach` are the lines of which one runs when the change is met."""

    module: str
    line: int
    column: int
    kind: str
    start: int  # bytes of the source that are replaced
    stop: int
    new: str
    reach: tuple[int, int]

    @property
    def name(self) -> str:
        """What `--only` takes."""
        return f"{self.module}:{self.line}:{self.column}:{self.kind}"

    def apply(self, source: str) -> str:
        data = source.encode()
        return (data[: self.start] + self.new.encode() + data[self.stop :]).decode()

    def difference(self, source: str) -> tuple[str, str]:
        """The changed lines before and after, each as one line."""
        lines = slice(self.line - 1, self.line + source.encode()[self.start : self.stop].count(b"\n"))
        before, after = source.splitlines()[lines], self.apply(source).splitlines()[lines]
        return " ".join(map(str.strip, before)), " ".join(map(str.strip, after)).strip()


def mutations(module: str, source: str) -> list[Mutation]:
    """All mutations of a module, in the order of the text; a few of them may not be `sound`."""
    walk = _Walk(module, source)
    walk.visit(ast.parse(source))
    made = {mutation.name: mutation for mutation in walk.made}
    return sorted(made.values(), key=lambda m: (m.start, m.kind))


def sound(mutation: Mutation, source: str) -> bool:
    """Whether it compiles, and to another program."""
    changed = mutation.apply(source)
    try:
        compile(changed, mutation.module, "exec")
    except SyntaxError:
        return False
    return ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))


def _says(statement: ast.stmt) -> bool:
    """A docstring, or the dots of a method that others fill in."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _plain(node: ast.expr) -> bool:
    """A word, which may be a choice."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _text(node: ast.expr) -> bool:
    """Words, or a part of them."""
    if isinstance(node, ast.Subscript):
        return _text(node.value)
    return isinstance(node, ast.JoinedStr) or _plain(node)


def _sign(node: ast.expr) -> bool:
    """A tensor of ±1, or a part of it."""
    if isinstance(node, ast.Subscript):
        return _sign(node.value)
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name in SIGNS


def _chunk(call: ast.Call) -> bool:
    """max(1, room // size): how many go at a time."""
    if len(call.args) != 2:
        return False
    first, second = call.args
    one = isinstance(first, ast.Constant) and first.value == 1
    return one and isinstance(second, ast.BinOp) and isinstance(second.op, ast.FloorDiv)


def _times(loop: ast.For) -> bool:
    """for _ in range(50): how often an iteration is made."""
    call = loop.iter
    return (
        isinstance(loop.target, ast.Name)
        and loop.target.id == "_"
        and isinstance(call, ast.Call)
        and all(isinstance(part, ast.Constant) for part in call.args)
    )


class _Walk(ast.NodeVisitor):
    def __init__(self, module: str, source: str) -> None:
        self.module, self.data = module, source.encode()
        self.lines = [0]  # where each line starts, in bytes
        for line in source.encode().splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.made: list[Mutation] = []
        self.reach = (1, len(self.lines))

    # -- places and texts --------------------------------------------------------------------------

    def start(self, node: ast.AST) -> int:
        return self.lines[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined, no-any-return]

    def stop(self, node: ast.AST) -> int:
        return self.lines[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined, no-any-return]

    def text(self, node: ast.AST) -> str:
        return self.data[self.start(node) : self.stop(node)].decode()

    def silent(self, node: ast.AST) -> bool:
        return bool(SILENT.search(self.text(node)))

    def add(self, kind: str, start: int, stop: int, new: str) -> None:
        line = max(i for i, at in enumerate(self.lines, 1) if at <= start)
        at = start - self.lines[line - 1]
        found = Mutation(self.module, line, at, kind, start, stop, new, self.reach)
        self.made.append(found)

    def replace(self, kind: str, node: ast.AST, new: str) -> None:
        self.add(kind, self.start(node), self.stop(node), new)

    def between(self, kind: str, left: ast.AST, right: ast.AST, old: str, new: str) -> None:
        """Replaces the operator that stands between two nodes."""
        gap = self.data[self.stop(left) : self.start(right)]
        where = re.search(re.escape(old.encode()).replace(rb"\ ", rb"\s+"), gap)
        if where is not None:
            begin = self.stop(left)
            self.add(kind, begin + where.start(), begin + where.end(), new)

    # -- statements --------------------------------------------------------------------------------

    def block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if not _says(statement):
                self.visit(statement)

    def head(self, node: ast.stmt, *parts: ast.AST) -> None:
        """The head of a block; silent ones are passed over."""
        self.reach = (node.lineno, max([node.lineno, *(part.end_lineno for part in parts)]))  # type: ignore[attr-defined]
        for part in parts:
            if not self.silent(part):
                self.visit(part)

    def visit_Module(self, node: ast.Module) -> None:
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef | ast.ClassDef):
                self.visit(statement)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        first = min([node.lineno, *(part.lineno for part in node.decorator_list)])
        whole = self.reach = (first, node.end_lineno or node.lineno)
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and statement.value is not None:
                if not self.silent(statement):
                    self.default(statement.value)
            if isinstance(statement, ast.FunctionDef | ast.ClassDef):
                self.visit(statement)
                self.reach = whole

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in TEXTS | GRAPHS or all(map(_says, node.body)):
            return
        outer = self.reach
        self.reach = (node.body[0].lineno, node.end_lineno or node.lineno)
        for value in (*node.args.defaults, *node.args.kw_defaults):
            if value is not None:
                self.default(value)
        self.block(node.body)
        self.reach = outer

    def default(self, value: ast.expr) -> None:
        """True, False, 0 and 1; every other number is a setting."""
        if isinstance(value, ast.Constant) and value.value in (0, 1):
            self.visit(value)

    def visit_If(self, node: ast.If) -> None:
        if "replay is None" in self.text(node.test):  # the rest belongs to a graph, which is a GPU's
            self.block(node.body)
            return
        if not node.orelse and all(map(self.silent, node.body)):
            return  # whether something silent is done
        if not self.silent(node.test):
            self.head(node, node.test)
            self.condition(node.test)
            self.block(node.body)
        self.block(node.orelse)

    def visit_While(self, node: ast.While) -> None:
        self.head(node, node.test)
        self.block(node.body)

    def visit_For(self, node: ast.For) -> None:
        if not _times(node):
            self.head(node, node.iter)
        self.block(node.body)
        self.block(node.orelse)

    def visit_With(self, node: ast.With) -> None:
        self.head(node, *(item.context_expr for item in node.items))
        self.block(node.body)

    def visit_Try(self, node: ast.Try) -> None:
        for body in (node.body, *(h.body for h in node.handlers), node.orelse, node.finalbody):
            self.block(body)

    def visit_Raise(self, node: ast.Raise) -> None: ...
    def visit_Assert(self, node: ast.Assert) -> None: ...
    def visit_Import(self, node: ast.Import) -> None: ...
    def visit_ImportFrom(self, node: ast.ImportFrom) -> None: ...

    def simple(self, node: ast.stmt, *, deleted: bool = False) -> None:
        if self.silent(node):
            return
        self.reach = (node.lineno, node.end_lineno or node.lineno)
        if deleted:
            self.replace("deleted", node, "pass" + "\n" * (self.reach[1] - self.reach[0]))
        for part in ast.iter_child_nodes(node):
            if not (isinstance(node, ast.AnnAssign) and part is node.annotation):
                self.visit(part)

    def visit_Expr(self, node: ast.Expr) -> None:
        self.simple(node, deleted=isinstance(node.value, ast.Call))

    def visit_Assign(self, node: ast.Assign) -> None:
        moved = all(isinstance(t, ast.Attribute | ast.Subscript) for t in node.targets)
        self.simple(node, deleted=moved)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.simple(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if _text(node.value):
            return
        self.simple(node, deleted=True)
        old, new = ARITHMETIC.get(type(node.op), ("", ""))
        if new and not self.silent(node):
            self.between("arithmetic", node.target, node.value, f"{old}=", f"{new}=")

    def visit_Return(self, node: ast.Return) -> None:
        self.simple(node)

    def visit_Break(self, node: ast.Break) -> None:
        self.reach = (node.lineno, node.lineno)
        self.replace("loop", node, "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self.reach = (node.lineno, node.lineno)
        self.replace("loop", node, "break")

    # -- expressions -------------------------------------------------------------------------------

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None: ...

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not _text(node):
            self.generic_visit(node)

    def condition(self, test: ast.expr) -> None:
        """Turns a condition that is neither a comparison nor made of others."""
        if isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
            self.replace("turned", test, f"(not {self.text(test)})")

    def visit_IfExp(self, node: ast.IfExp) -> None:
        if all(map(_text, (node.body, node.orelse))) and not all(map(_plain, (node.body, node.orelse))):
            return  # one text or another
        if not self.silent(node.test):
            self.condition(node.test)
            self.visit(node.test)
            self.visit(node.body)
        self.visit(node.orelse)

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            for kind, table in (("edge", EDGES), ("turned", OPPOSITES)):
                if type(op) in table:
                    self.between(kind, left, right, *table[type(op)])
            left = right
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        turned = isinstance(node.op, ast.Mult) and _sign(node.right)
        if type(node.op) in ARITHMETIC and not turned and not any(map(_text, (node.left, node.right))):
            self.between("arithmetic", node.left, node.right, *ARITHMETIC[type(node.op)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between("logic", left, right, old, new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        kinds = {ast.USub: "sign", ast.Not: "not", ast.Invert: "not"}
        if type(node.op) in kinds:
            self.add(kinds[type(node.op)], self.start(node), self.start(node.operand), "")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self.replace("truth", node, str(not value))
        elif isinstance(value, int):
            self.replace("number", node, str(value + 1))
        elif isinstance(value, float) and (value == 0.0 or TINY <= value < float("inf")):
            self.replace("number", node, str(2.0 * value or 1.0))

    def visit_Slice(self, node: ast.Slice) -> None:
        for end in (node.lower, node.upper):
            if end is not None and not isinstance(end, ast.Constant):
                self.replace("slice", end, f"({self.text(end)}) + 1")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else self.text(function)
        if self.silent(function) or name == "isinstance" or _chunk(node):
            return
        if name in SWAPPED and (isinstance(function, ast.Attribute) or name != "sum"):
            stop = self.stop(function)
            self.add("function", stop - len(name), stop, SWAPPED[name])
        if name in DROPPED:
            self.dropped(node, name)
        for keyword in self.keywords(node):
            self.keyword(node, keyword)
        along = [k.value for k in node.keywords if k.arg in ("dim", "axis")]
        if name in ALONG and node.args:
            along.append(node.args[-1])
        for axis in along:
            if isinstance(axis, ast.Constant) and type(axis.value) is int:
                self.replace("axis", axis, str(axis.value - 1 if axis.value else 1))
        if isinstance(function, ast.Attribute):
            self.visit(function.value)
        seed = node.args[:1] if name == "stream" else []  # another one gives other numbers, as good
        for part in (*node.args, *(k.value for k in self.keywords(node))):
            if part not in (*along, *seed) or not isinstance(part, ast.Constant):
                self.visit(part)

    def keywords(self, node: ast.Call) -> list[ast.keyword]:
        return [k for k in node.keywords if k.arg is not None and k.arg not in QUIET]

    def keyword(self, call: ast.Call, keyword: ast.keyword) -> None:
        """Drops a keyword and one of the commas beside it."""
        start, stop = self.start(keyword), self.stop(keyword)
        parts = [*call.args, *call.keywords]
        if len(parts) > 1:
            parts.sort(key=self.start)
            at = parts.index(keyword)
            if at:
                start = self.stop(parts[at - 1])
            else:
                stop = self.start(parts[1])
        lines = self.data[start:stop].count(b"\n")
        self.add("keyword", start, stop, "\n" * lines)

    def dropped(self, node: ast.Call, name: str) -> None:
        function = node.func
        method = isinstance(function, ast.Attribute) and not (
            isinstance(function.value, ast.Name) and function.value.id in ("torch", "math", "np")
        )
        if method and isinstance(function, ast.Attribute):
            self.add("function", self.stop(function.value), self.stop(node), "")
        elif len(node.args) == 1 and not node.keywords:
            self.replace("function", node, f"({self.text(node.args[0])})")
