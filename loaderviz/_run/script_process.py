"""What a process of a recorded script is told at its beginning, and says at its end on stderr.

Nothing here imports torch before the script does.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loaderviz.own_errors import own_errors_suppressed
from loaderviz.text import count

if TYPE_CHECKING:
    from loaderviz.recorder import Recording

SETTINGS_VARIABLE = "LOADERVIZ_RUN"  # the settings, as JSON, in the environment of all processes
FIRST_PROCESS_VARIABLE = "LOADERVIZ_RUN_FIRST"  # set for the script's own process alone

_n_batches: int | None = None  # that this process got; None where it has recorded nothing


def run_settings() -> tuple[Path, dict[str, Any]]:
    """The folder of the run, and the arguments of ``record`` that limit it, by name.

    KeyError where this process is a part of no run.
    """
    settings = json.loads(os.environ[SETTINGS_VARIABLE])
    return Path(settings["folder"]), settings["limits"]


def remember_batches(recording: Recording) -> None:
    """Remember how many batches this process has got, as its summary counts them."""
    global _n_batches
    with own_errors_suppressed(Exception):  # the recording has said why there is no trace
        from loaderviz.trace.described_loaders import delivered_once  # pandas is imported by now

        _n_batches = int(delivered_once(recording.trace).sum())


def write_line(text: str) -> None:
    """Write a line to stderr, where it is open."""
    with own_errors_suppressed(Exception):
        sys.stderr.write(f"loaderviz: {text}\n")
        sys.stderr.flush()


def write_message() -> None:
    """Write what was recorded, and how to see more of it."""
    if os.environ.get("RANK", "0") == "0":  # of several commands that share a run, one writes
        with own_errors_suppressed(Exception):  # such as a folder that is gone
            write_line(_message(run_settings()[0]))
    remember_interrupt()


def remember_interrupt() -> None:
    """Call after work at exit, so that a script which Ctrl-C ended still ends by that signal.

    CPython remembers an interrupt that nobody caught, and forgets it when it runs source text
    again, as making a dataclass does (Python/pythonrun.c, ``run_eval_code_obj``). Raising it once
    more in such text makes CPython remember it.
    """
    if getattr(sys, "last_type", None) is KeyboardInterrupt:
        with suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")


def _message(folder: Path) -> str:
    """What was recorded into the folder, and how to see more."""
    recordings = {path.stem for path in folder.glob("rank-*")}
    if not recordings:
        return (
            f"no DataLoader was recorded in {folder}; another loader is recorded by "
            "`with loaderviz.record(loader):` around its loop"
        )
    amount = count(len(recordings), "process", "processes")
    if len(recordings) == 1 and _n_batches is not None:
        amount = count(_n_batches, "batch", "batches")
    return f"recorded {amount}; to see more: loaderviz summary {shlex.quote(str(folder))}"
