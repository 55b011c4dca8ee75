"""``shell``: the command line from a notebook's cell, with what it prints and how it ends."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from loaderviz.errors import LoaderVizError

TIMEOUT_S = 120.0


def shell(command: str, folder: str | Path = ".", *, timeout_s: float = TIMEOUT_S) -> int:
    """Run ``loaderviz ...`` or ``python ...``, print what it says, return its exit code.

    It is run with this process's Python, not by a shell, so that it is the same on every system.

    Raises:
        LoaderVizError: for another program, and where it takes longer than ``timeout_s`` seconds.
    """
    program, *arguments = shlex.split(command)
    start = {"loaderviz": ["-m", "loaderviz"], "python": []}.get(program)
    if start is None:
        raise LoaderVizError(f"{command!r}: give a command that begins with loaderviz or python")
    home = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")]))
    print(f"$ {command}", flush=True)
    quiet = {"PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}  # torchrun warns without it
    try:
        done = subprocess.run(
            [sys.executable, *start, *arguments],
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
    print(done.stdout.rstrip())
    return done.returncode
