"""``%load_ext loaderviz``: ``%%loaderviz`` for a cell, ``%loaderviz_doctor`` for a loader."""

from __future__ import annotations

import ast
from contextlib import ExitStack
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.display import display

from loaderviz._doctor import doctor
from loaderviz.errors import LoaderVizError
from loaderviz.recorder import Recording

NOTHING = "loaderviz: no DataLoader was iterated in this cell, so there is nothing to show."


@magics_class
class LoaderMagics(Magics):
    """The two commands, for IPython to register."""

    @cell_magic
    def loaderviz(self, line: str, cell: str) -> None:
        """Record every DataLoader that the cell iterates; show its timeline and causes.

        ``%%loaderviz NAME`` also keeps the trace under that name.
        """
        name = line.strip()
        if name and not name.isidentifier():
            raise UsageError(f"%%loaderviz {name}: give a name for the trace, or nothing")
        shell: Any = self.shell
        code = shell.transform_cell(cell)
        file = shell.compile.cache(code)  # so that a traceback shows its lines
        tree = shell.transform_ast(shell.compile.ast_parse(code, file))
        with ExitStack() as until_shown:
            try:
                recording = until_shown.enter_context(Recording([], every_loader=True))
            except LoaderVizError as error:
                raise UsageError(str(error)) from None
            try:
                _run(shell, tree, file)
            finally:
                until_shown.close()
                _show(shell, recording, name)

    @line_magic
    def loaderviz_doctor(self, line: str) -> Any:
        """``%loaderviz_doctor LOADER`` looks for the known pitfalls in a loader."""
        if not line.strip():
            raise UsageError("%loaderviz_doctor LOADER: give a DataLoader, or what makes one")
        shell: Any = self.shell
        loader = shell.ev(line)
        try:
            return doctor(loader)
        except LoaderVizError as error:
            raise UsageError(str(error)) from None


def _run(shell: Any, tree: ast.Module, file: str) -> None:
    """Run a cell among the user's names, and show the value of its last expression."""
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(shell.compile(tree, file, "exec"), shell.user_ns)
        return
    before = ast.Module(tree.body[:-1], tree.type_ignores)
    exec(shell.compile(before, file, "exec"), shell.user_ns)
    value = eval(shell.compile(ast.Expression(last.value), file, "eval"), shell.user_ns)
    shell.displayhook(value)


def _show(shell: Any, recording: Recording, name: str) -> None:
    """Show the trace, and keep it under its name if it has one."""
    try:
        trace = recording.trace
    except LoaderVizError as error:  # not in place of what the cell raised
        print(f"loaderviz: {error}")
        return
    if name:
        shell.user_ns[name] = trace
    if trace.batches.empty:
        print(NOTHING)
    else:
        display(trace)
