"""What cells show that is no figure: the package's code, and answers to be guessed first."""

from __future__ import annotations

import ast
import contextlib
import html
import inspect
import io
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, repr=False)
class FoldedText:
    """Text behind a line to click on; plain where a front end shows no HTML."""

    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return (
            '<details class="loaderviz-guess"><summary>Guess first, then open</summary>'
            f"<pre>{html.escape(self.text)}</pre></details>"
        )


@contextlib.contextmanager
def guess_first() -> Iterator[None]:
    """Fold what is printed in the ``with`` block: one click shows it, with a kernel or without.

    For the cell that answers a *Predict*. What was printed before an error is shown, too; the
    error itself is never folded.
    """
    from IPython.display import display

    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            yield
    finally:
        if printed.getvalue():
            display(FoldedText(printed.getvalue().rstrip("\n")))


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
        AttributeError: for a method that the class does not have.
    """
    code = _without_docstrings(thing)
    if methods:
        parts = [_without_docstrings(getattr(thing, name)) for name in methods]
        class_line = code.partition("\n")[0]
        code = "\n".join([class_line, textwrap.indent("\n\n".join(parts), "    ")])
    return Source(code)


def _without_docstrings(thing: Any) -> str:
    lines = textwrap.dedent(inspect.getsource(thing)).splitlines()
    hidden: set[int] = set()  # line numbers, from 1
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            docstring = node.body[0]
            end = docstring.end_lineno or docstring.lineno
            is_blank_below = not "".join(lines[end : end + 1]).strip()
            hidden |= set(range(docstring.lineno, end + 1 + is_blank_below))
    return "\n".join(line for number, line in enumerate(lines, 1) if number not in hidden)
