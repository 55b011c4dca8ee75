"""The small changes that `mutants.py` makes: one operator, constant, branch or statement.

`mutations(file)` reads a file's syntax tree and gives each change as text, so that the rest of the
file stays as it is. Not touched: texts, annotations, what is raised, what only type checkers see.
Imports nothing of loaderviz.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "loaderviz"
MODULES = "(modules)"  # stands for the files beside the rooms

_COMPARED = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
_COMPUTED = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "/"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}
_TEXTS = (ast.JoinedStr, ast.Import, ast.ImportFrom)
_LOGS = {"warn", "debug", "info", "warning", "error", "exception", "print"}
_Change = tuple[int, int, str]  # from where to where in the text, and what is there instead
_Function = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, order=True)
class Name:
    """What a mutant is called by, in this version of the code and a later one."""

    file: str
    where: str  # the qualified name of the function or class; "" is the module
    before: str  # the lines that change, without their indentation
    after: str
    occurrence: int  # of such lines in there


@dataclass(frozen=True)
class Mutation:
    """A change of a file, and where in it."""

    name: Name
    line: int
    last_line: int
    statement_line: int  # where the statement begins that holds it
    at_import: bool  # it runs when the module is imported, and not in a function
    names: frozenset[str]  # what the statement defines, for those that run at import
    body: tuple[int, int]  # the lines of the function, for what its `def` evaluates
    text: str  # the whole file, changed

    @property
    def room(self) -> str:
        return room_of(self.name.file)


def room_of(file: str) -> str:
    """The room of a file of the package."""
    parts = Path(file).relative_to("loaderviz").parts
    return parts[0] if len(parts) > 1 else MODULES


def folder_of_tests(room: str) -> str:
    """Two rooms are tested through those that use them."""
    through = {"_contents": "audit", "export": "trace"}.get(room, room.lstrip("_"))
    return "tests" if room == MODULES else f"tests/{through}"


def files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def mutations(file: Path) -> list[Mutation]:
    """All changes that can be made to a file."""
    source = file.read_text()
    tree = ast.parse(source)
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def place(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    made, seen = [], Counter[tuple[str, str, str]]()
    for place_in_code, start, end, new in _changes(tree, source, place):
        first = source.count("\n", 0, start) + 1
        last = source.count("\n", 0, end) + 1
        old = "".join(lines[first - 1 : last])
        changed = source[starts[first - 1] : start] + new + source[end : starts[last]]
        where = ".".join(place_in_code.path)
        before, after = _dedented(old), _dedented(changed)
        occurrence = seen[where, before, after]
        seen[where, before, after] += 1
        made.append(
            Mutation(
                name=Name(str(file.relative_to(ROOT)), where, before, after, occurrence),
                line=first,
                last_line=last,
                statement_line=place_in_code.statement.lineno,
                at_import=place_in_code.at_import,
                names=frozenset(_defined(place_in_code.statement)),
                body=place_in_code.body,
                text=source[:start] + new + source[end:],
            )
        )
    return made


def _dedented(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines())


@dataclass(frozen=True)
class _Place:
    path: tuple[str, ...]
    statement: ast.stmt
    at_import: bool
    body: tuple[int, int]


def _defined(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id


def _changes(tree, source, place) -> Iterator[tuple[_Place, int, int, str]]:
    for inside, node in _nodes(tree, _Place((), tree.body[0], True, (0, 0)) if tree.body else None):
        span = place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset)
        for start, end, new in _changes_of(node, source, place, *span):
            yield inside, start, end, new


def _nodes(node: ast.AST, inside: _Place | None) -> Iterator[tuple[_Place, ast.AST]]:
    """The nodes that may change, each with where it is."""
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or name in ("annotation", "returns", "format_spec"):
                continue
            here = inside
            if isinstance(child, ast.stmt):
                here = _Place(inside.path, child, inside.at_import, inside.body)
            if _is_left_alone(child, here):
                continue
            if isinstance(node, (*_Function, ast.Lambda)) and name == "body":
                here = _Place(here.path, here.statement, False, here.body)
            if hasattr(child, "lineno"):
                yield here, child
            if isinstance(child, (*_Function, ast.ClassDef)):
                body = here.body
                if isinstance(child, _Function):
                    body = (child.body[0].lineno, child.end_lineno)
                here = _Place((*here.path, child.name), child, here.at_import, body)
            yield from _nodes(child, here)


def _is_left_alone(node: ast.AST, inside: _Place) -> bool:
    if isinstance(node, _TEXTS):
        return True
    if isinstance(inside.statement, ast.Raise) and node is not inside.statement:
        return True
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return True
    if isinstance(node, ast.Assign):
        if "__all__" in _defined(node):
            return True
        if inside.at_import and isinstance(node.value, ast.BinOp):
            return isinstance(node.value.op, ast.BitOr)  # a type
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Name) and node.value.id in ("Literal", "Callable")
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).rpartition(".")[2] in {"cast", "TypeVar", *_LOGS}
    return False


def _changes_of(node, source, place, start, end) -> Iterator[_Change]:
    def span(of: ast.AST) -> tuple[int, int]:
        return place(of.lineno, of.col_offset), place(of.end_lineno, of.end_col_offset)

    def between(left: ast.AST, right: ast.AST, old: str, new: str) -> Iterator[_Change]:
        begin, stop = span(left)[1], span(right)[0]
        text = _no_comments(source[begin:stop])
        if found := re.search(rf"(?<![\w<>=*/]){old}(?![\w<>=*/])", text):
            yield begin + found.start(), begin + found.end(), new

    match node:
        case ast.Compare():
            sides = [node.left, *node.comparators]
            for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
                yield from between(left, right, *_COMPARED[type(op)])
        case ast.BinOp() if type(node.op) in _COMPUTED and not _is_text(node):
            old, new = _COMPUTED[type(node.op)]
            yield from between(node.left, node.right, re.escape(old), new)
        case ast.BoolOp():
            old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield from between(left, right, old, new)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield start, start + len(re.match(r"-|not\s*", source[start:])[0]), ""
        case ast.Constant(value=bool()):
            yield start, end, str(not node.value)
        case ast.Constant(value=int()):
            yield start, end, str(node.value + 1)
            if node.value > 1:
                yield start, end, str(node.value - 1)
        case ast.Constant(value=float()):
            yield start, end, repr(node.value * 2 if node.value else 1.0)
            if node.value:
                yield start, end, repr(node.value / 2)
        case ast.Name(id=("min" | "max" | "any" | "all") as name, ctx=ast.Load()):
            yield start, end, _CALLED[name]
        case ast.Break():
            yield start, end, "continue"
        case ast.Continue():
            yield start, end, "break"
        case ast.Return(value=ast.expr() as value):
            if not isinstance(value, ast.Constant | ast.JoinedStr):
                yield (*span(value), "None")
        case ast.Raise() | ast.Expr(value=ast.Call()):
            yield start, end, "pass"
        case ast.AugAssign():
            yield start, end, "pass"
            if type(node.op) in _COMPUTED and not _is_text(node):
                old, new = _COMPUTED[type(node.op)]
                begin, stop = span(node.target)[1], span(node.value)[0]
                at = source.index(old + "=", begin, stop)
                yield at, at + len(old), new
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield start, end, "pass"
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        yield from _negated(node.test, source, *span(node.test))
    if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        for generator in node.generators:
            for test in generator.ifs:
                yield from _negated(test, source, *span(test))


def _negated(test: ast.expr, source: str, start: int, end: int) -> Iterator[_Change]:
    # `not a`, `a == b` and a constant have a change of their own, which is the same.
    equal = ast.Eq | ast.NotEq | ast.Is | ast.IsNot | ast.In | ast.NotIn
    is_negated = isinstance(test, ast.Compare) and isinstance(test.ops[0], equal)
    if not is_negated and not isinstance(test, ast.UnaryOp | ast.Constant):
        yield start, end, f"(not ({source[start:end]}))"


def _is_text(node: ast.BinOp | ast.AugAssign) -> bool:
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.value,)
    return any(
        isinstance(part, ast.JoinedStr)
        or (isinstance(part, ast.Constant) and isinstance(part.value, str))
        for part in sides
    )


def _no_comments(text: str) -> str:
    """With blanks in their place."""
    return re.sub(r"#[^\n]*", lambda found: " " * len(found[0]), text)
