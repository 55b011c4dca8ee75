"""`source`: the code of the package's classes, to be read in a notebook."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from dataclasses import dataclass
from typing import Any

from loaderviz.errors import LoaderVizError

_NOQA = re.compile(r"\s*# noqa.*")


@dataclass(frozen=True, repr=False)
class Source:
    """Python code, shown in the colours of the page; plain where a front end knows no Markdown."""

    code: str

    def __repr__(self) -> str:
        return self.code

    def _repr_markdown_(self) -> str:
        return f"```python\n{self.code}\n```"


def source(thing: Any, *methods: str) -> Source:
    """The code of a class or function as it runs, without docstrings.

    Args:
        thing: a class or a function.
        methods: of the class, the methods to show; none for all of it.

    Raises:
        LoaderVizError: for a method that the class does not define.
    """
    lines = textwrap.dedent(inspect.getsource(thing)).splitlines()
    (node,) = ast.parse("\n".join(lines)).body
    hidden = {line for each in ast.walk(node) for line in _docstring_lines(each)}
    hidden |= {line + 1 for line in hidden if not "".join(lines[line : line + 1]).strip()}

    def text(part: range) -> str:
        return "\n".join(_NOQA.sub("", lines[i - 1]) for i in part if i not in hidden)

    if not methods:
        return Source(text(range(1, len(lines) + 1)))
    body = node.body if isinstance(node, ast.ClassDef) else []
    known = {each.name: each for each in body if isinstance(each, ast.FunctionDef)}
    if unknown := [name for name in methods if name not in known]:
        has = ", ".join(known) or "no method"
        raise LoaderVizError(f"{thing.__name__} does not define {unknown[0]}: it has {has}")
    parts = [range(known[name].lineno, (known[name].end_lineno or 0) + 1) for name in methods]
    return Source(text(range(1, body[0].lineno)) + "\n" + "\n\n".join(map(text, parts)))


def _docstring_lines(node: ast.AST) -> range:
    """The lines of a class's or function's docstring."""
    if not isinstance(node, ast.ClassDef | ast.FunctionDef) or ast.get_docstring(node) is None:
        return range(0)
    docstring = node.body[0]
    return range(docstring.lineno, (docstring.end_lineno or 0) + 1)
