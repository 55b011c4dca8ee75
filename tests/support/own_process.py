"""Tests that run in a process of their own: what they do to theirs, others must not see.

Once CUDA is in use, copies of a process cannot use it, and the process has more threads; so tests
that use a GPU are marked ``own_process``.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HERE = "LOADERVIZ_OWN_PROCESS"


def in_own_process() -> bool:
    return HERE in os.environ


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if in_own_process() or pyfuncitem.get_closest_marker("own_process") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        options = ["-q", "-p", "no:nbval", "--basetemp", folder]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, pyfuncitem.nodeid],
            env={**os.environ, HERE: "1"},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        pytest.fail(done.stdout + done.stderr, pytrace=False)
    return True
