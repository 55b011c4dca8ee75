"""One real run of a loader, in a process of its own: it can be followed and ended at any moment.

The kernel stays responsive, because it only reads the files that the run records. The doctor's runs
use ``run_forked`` instead, which waits until all is sent or the time is up.
"""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader

from loaderviz.errors import LoaderVizError
from loaderviz.loaders.forked_run import ChildProcess, fork_loses_cuda
from loaderviz.recorder import Recording
from loaderviz.trace import Trace, read_folder
from loaderviz.widgets.explorer_settings import ExplorerSettings


@dataclass(frozen=True)
class Failure:
    """An exception in a run: its last line, and the whole traceback."""

    last_line: str
    traceback: str


@dataclass(frozen=True)
class Outcome:
    """What the process of a run sends at its end."""

    failure: Failure | None = None
    n_repeated: int | None = None  # samples of the teaching dataset that came again in an epoch


class LoaderRun:
    """One run, which starts at once; ``close()`` it when it is over.

    Raises:
        Exception: what keeps the process from starting, for example a dataset that cannot be
            pickled.
    """

    def __init__(
        self, settings: ExplorerSettings, user_loader: DataLoader[Any] | None = None
    ) -> None:
        self.settings = settings
        self._folder = Path(tempfile.mkdtemp(prefix="loaderviz-run-"))
        self._recording = self._folder / "recording"
        self._cancelled = False
        try:
            # A fork that cannot use CUDA could not pin.
            method = "spawn" if settings.loader.pin_memory and fork_loses_cuda() else None
            args = (settings, user_loader, self._recording)
            self._process = ChildProcess(_run_in_child, *args, method=method)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        atexit.register(self.close)

    @property
    def running(self) -> bool:
        """Whether the process of the run is still alive."""
        self._process.receive()  # or a long traceback fills the pipe, and the run never ends
        return self._process.running

    @property
    def cancelled(self) -> bool:
        """Whether ``cancel()`` ended the run."""
        return self._cancelled

    def snapshot(self) -> Trace | None:
        """What has been recorded so far; None before there is anything to read."""
        try:
            return read_folder(self._recording)
        except LoaderVizError:
            return None

    def outcome(self) -> Outcome:
        """How the run went, once it is over."""
        self._process.receive()
        outcome: Outcome = self._process.sent[-1] if self._process.sent else Outcome()
        code = self._process.exit_code
        if outcome.failure is None and code and not self._cancelled:
            ending = f"signal {-code}" if code < 0 else f"exit code {code}"
            line = f"the process of the run ended with {ending}"
            return Outcome(Failure(line, line))
        return outcome

    def cancel(self) -> None:
        """End the run now, whatever it is doing, and wait until none of its processes is left."""
        if self.running:
            self._cancelled = True
        self._process.end()

    def close(self) -> None:
        """Delete the recording and free all else; a run that still goes on is ended."""
        atexit.unregister(self.close)
        self._process.end()
        shutil.rmtree(self._folder, ignore_errors=True)


def _run_in_child(
    settings: ExplorerSettings,
    user_loader: DataLoader[Any] | None,
    folder: Path,
    send: Callable[[Outcome], None],
) -> None:
    """Run the loader and record it into ``folder``, in the process of the run."""
    # Nobody would see torch's warning of too many workers here; the slider marks the CPUs instead.
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    if settings.cores is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: settings.cores])
    try:
        loader = settings.make_loader(user_loader)
        teaching = user_loader is None
        n_repeated = 0
        with Recording((loader,), path=folder):
            for _ in range(settings.epochs):
                n_repeated += _run_epoch(loader, settings, teaching)
        send(Outcome(n_repeated=n_repeated if teaching else None))
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        last_line = next(line for line in reversed(text.splitlines()) if line.strip())
        send(Outcome(Failure(last_line, text)))
        sys.exit(1)


def _run_epoch(loader: DataLoader[Any], settings: ExplorerSettings, teaching: bool) -> int:
    """Take every batch of the teaching dataset, or ``settings.n_batches`` of the user's own.

    Returns:
        How many samples of the teaching dataset came more than once; 0 for the user's own.
    """
    seen: set[int] = set()
    parent, n_repeated = os.getppid(), 0
    batches = iter(loader)
    for batch in batches if teaching else itertools.islice(batches, settings.n_batches):
        time.sleep(settings.step_s)
        if teaching:
            indices = batch[:, 0].tolist()
            n_repeated += len(indices) - len(set(indices) - seen)
            seen.update(indices)
        if os.getppid() != parent:
            break  # the process that asked for the run has ended
    return n_repeated
