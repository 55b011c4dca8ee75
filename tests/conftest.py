"""Holds for every test: the leak guard, the plugin that tests it, a terminal, and no deadlines."""

import gc
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

from loaderviz.failed_part import RAISE

pytest_plugins = ["pytester", "leak_guard", "command_line", "own_process"]
pytest.register_assert_rewrite("trace_laws")  # a failed assert there shows its values, too

# jsonschema, which nbformat loads, does without it where it is missing. It checks web addresses,
# which notebooks have none of, and compiles its grammars for 2.5 s in each test process.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

# Its workers begin with torch loaded, which takes a second; what a bare process needs, spawn tests.
multiprocessing.set_forkserver_preload(["torch.utils.data"])

# A part of an answer that fails is told to readers; here it fails the test, in processes too.
os.environ[RAISE] = "1"

# The same examples each time, so that a change fails for what it changes; others are tried with
# --hypothesis-profile=default. An example may take long on a busy machine.
settings.register_profile("the same each time", derandomize=True, deadline=None)
settings.load_profile("the same each time")


def pytest_configure() -> None:
    """Ctrl+C interrupts, also where a shell runs the tests in the background and has it ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is imported now stays: to look for what may go takes seconds, now and ever after."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
