"""The one line that ``loaderviz run`` adds to what the script says, when it has ended."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from loaderviz.running.settings import Settings

if TYPE_CHECKING:
    from loaderviz.recorder import Recording

_n_batches: int | None = None  # of this process; None where it has recorded none


def count(recording: Recording) -> None:
    global _n_batches
    with suppress(Exception):  # it has said itself why there is no trace
        _n_batches = len(recording.trace.batches)


def tell() -> None:
    """Print to stderr what was recorded, and how to go on."""
    with suppress(Exception):  # stderr may be closed
        settings = Settings.of_run()
        if os.environ.get("RANK", "0") == "0":  # of several commands that share a run, one tells
            print(f"loaderviz: {_words(Path(settings.folder))}", file=sys.stderr, flush=True)
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
    recordings = {each.stem for each in folder.glob("rank-*")}
    if not recordings:
        return f"no DataLoader was iterated, so {folder} is empty"
    what = f"{len(recordings)} processes"
    if len(recordings) == 1:
        what = "1 process" if _n_batches is None else f"{_n_batches:,} batches"
    return f"recorded {what}; to see more: loaderviz summary {shlex.quote(str(folder))}"
