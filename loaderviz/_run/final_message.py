"""What ``loaderviz run`` adds to what the script says: on stderr, one line when it has ended."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from loaderviz._run.script_environment import Settings
from loaderviz.text import count

if TYPE_CHECKING:
    from loaderviz.recorder import Recording

_n_batches: int | None = None  # of this process; None where it has recorded none


def count_batches(recording: Recording) -> None:
    """Remember how many batches this process has recorded."""
    global _n_batches
    with suppress(Exception):  # it has said itself why there is no trace
        _n_batches = len(recording.trace.batches)


def say(text: str) -> None:
    """A line on stderr, where that is open."""
    with suppress(Exception):
        sys.stderr.write(f"loaderviz: {text}\n")
        sys.stderr.flush()


def tell() -> None:
    """Say what was recorded, and how to go on."""
    if os.environ.get("RANK", "0") == "0":  # of several commands that share a run, one tells
        with suppress(Exception):  # such as a folder that is gone
            say(_words(Path(Settings.of_run().folder)))
    remember_interrupt()


def remember_interrupt() -> None:
    """Call after work at exit, so that a script which Ctrl-C ended still ends by that signal.

    CPython remembers an interrupt that nobody caught until it runs source text again, as making a
    dataclass does (Python/pythonrun.c, ``run_eval_code_obj``). So it is told again, in such text.
    """
    if getattr(sys, "last_type", None) is KeyboardInterrupt:
        with suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")


def _words(folder: Path) -> str:
    """What was recorded into the folder, and how to see more."""
    recordings = {each.stem for each in folder.glob("rank-*")}
    if not recordings:
        return f"no DataLoader was recorded in {folder}"
    what = count(len(recordings), "process", "processes")
    if len(recordings) == 1 and _n_batches is not None:
        what = count(_n_batches, "batch", "batches")
    return f"recorded {what}; to see more: loaderviz summary {shlex.quote(str(folder))}"
