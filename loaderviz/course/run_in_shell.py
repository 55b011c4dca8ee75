"""Processes of Python that notebooks start: a command as in a shell, ranks, a run that hangs."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from loaderviz.errors import LoaderVizError

TIMEOUT_S = 120.0


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

    Raises:
        LoaderVizError: if it takes longer than ``timeout_s`` seconds. No process is left then.
    """
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


def start_python(arguments: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start this process's Python, in which loaderviz can be imported; ``options`` are Popen's."""
    package_root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [package_root, os.environ.get("PYTHONPATH")]))
    quiet = {"PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}  # torchrun warns if it is not set
    quiet["FORCE_COLOR"] = ""  # a kernel sets it, and what is printed is shown as text, too
    return subprocess.Popen(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "100", **quiet},
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
