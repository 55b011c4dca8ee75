"""Processes of Python that notebooks start: a command as in a shell, ranks, a run that hangs."""

from __future__ import annotations

import io
import os
import runpy
import shlex
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, Final
from unittest import mock

import psutil

from loaderviz.errors import LoaderVizError

TIMEOUT_S = 120.0
# Commands that only read need no Python of their own, whose start takes seconds.
READING: Final = ("check", "compare", "lines", "stuck", "summary")
AS_TEXT: Final = {"COLUMNS": "100", "FORCE_COLOR": ""}  # a kernel sets it, and text is shown


def shell(command: str, folder: str | Path = ".") -> int:
    """Run ``loaderviz ...`` or ``python ...`` in ``folder``; print its output, return its code.

    It runs with this process's Python and without a shell, so that it works alike on every system.

    Raises:
        LoaderVizError: if the command begins with another program, or takes longer than two
            minutes.
    """
    program, *arguments = shlex.split(command)
    options = {"loaderviz": ["-m", "loaderviz"], "python": []}.get(program)
    if options is None:
        raise LoaderVizError(f"{command!r}: give a command that begins with loaderviz or python")
    print(f"$ {command}", flush=True)
    code, output = run_python([*options, *arguments], folder)
    print(output.rstrip())
    return code


def run_python(
    arguments: Sequence[str], folder: str | Path = ".", *, timeout_s: float = TIMEOUT_S
) -> tuple[int, str]:
    """Run this process's Python with these arguments; returns its exit code and its output.

    Where that is a command of loaderviz that only reads, it runs in this process.

    Raises:
        LoaderVizError: if it takes longer than ``timeout_s`` seconds. No process is left then.
    """
    if [*arguments[:2]] == ["-m", "loaderviz"] and {*arguments[2:3]} & {*READING}:
        return _run_here(arguments[1:], folder)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = start_python(arguments, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            ran = " ".join(arguments)
            raise LoaderVizError(f"`python {ran}` was ended after {timeout_s:g} s") from None
        finally:
            kill_with_all_below(process)
        output.seek(0)
        return code, output.read()


def _run_here(arguments: Sequence[str], folder: str | Path) -> tuple[int, str]:
    """The same as ``python -m`` with these arguments, in this process."""
    output = io.StringIO()
    with _as_in_a_shell(arguments), chdir(folder), redirect_stdout(output), redirect_stderr(output):
        try:
            runpy.run_module(arguments[0], run_name="__main__")
        except SystemExit as end:
            return int(end.code or 0), output.getvalue()
    return 0, output.getvalue()


@contextmanager
def _as_in_a_shell(arguments: Sequence[str]) -> Iterator[None]:
    """Until the block ends, with these arguments, a terminal of text, and no warnings."""
    argv, before = sys.argv, {name: os.environ.get(name) for name in AS_TEXT}
    sys.argv = [*arguments]
    os.environ.update(AS_TEXT)
    try:
        # Else rich, which prints a command's errors, shows them below the cell (rich/console.py).
        with warnings.catch_warnings(), mock.patch("rich.console._is_jupyter", return_value=False):
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.argv = argv
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def start_python(arguments: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start this process's Python, in which loaderviz can be imported; ``options`` are Popen's."""
    package_root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [package_root, os.environ.get("PYTHONPATH")]))
    quiet = {"PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}  # torchrun warns if it is not set
    return subprocess.Popen(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path, **AS_TEXT, **quiet},
        stdin=subprocess.DEVNULL,
        **options,
    )


def kill_with_all_below(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and those that it has started, if it still runs."""
    if process.poll() is None:
        below = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        for each in below:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait()
        psutil.wait_procs(below, timeout=10)
