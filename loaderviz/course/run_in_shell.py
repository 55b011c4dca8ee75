"""``shell``: run a command from a notebook's cell, see its output and get its exit code."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from loaderviz.errors import LoaderVizError

TIMEOUT_S = 120.0


def shell(command: str, folder: str | Path = ".", *, timeout_s: float = TIMEOUT_S) -> int:
    """Run ``loaderviz ...`` or ``python ...`` in ``folder``; print its output, return its code.

    It runs with this process's Python and without a shell, so that it works alike on every system.

    Raises:
        LoaderVizError: if the command begins with another program, or takes longer than
            ``timeout_s`` seconds.
    """
    program, *arguments = shlex.split(command)
    options = {"loaderviz": ["-m", "loaderviz"], "python": []}.get(program)
    if options is None:
        raise LoaderVizError(f"{command!r}: give a command that begins with loaderviz or python")
    package_root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [package_root, os.environ.get("PYTHONPATH")]))
    print(f"$ {command}", flush=True)
    quiet = {"PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}  # torchrun warns if it is not set
    try:
        completed = subprocess.run(
            [sys.executable, *options, *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path, "COLUMNS": "100", **quiet},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LoaderVizError(f"{command!r} was ended after {timeout_s:g} s") from None
    print(completed.stdout.rstrip())
    return completed.returncode
