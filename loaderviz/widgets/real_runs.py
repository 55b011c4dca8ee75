"""The real runs that a user asks for: one at a time, each in a process of its own.

The kernel stays responsive, because it only reads the files that the run records; and a run can be
ended at any moment. The doctor's runs use ``run_forked`` instead, which waits until all is sent.
"""

from __future__ import annotations

import asyncio
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
from typing import Any, Literal, NamedTuple

from torch.utils.data import DataLoader

from loaderviz.errors import LoaderVizError
from loaderviz.loaders.forked_run import ChildProcess, fork_loses_cuda
from loaderviz.recorder import Recording
from loaderviz.trace import Trace, read_folder
from loaderviz.widgets.explorer_settings import ExplorerSettings

FOLLOW_S = 0.2  # between two looks at a running recording

_latest: RealRuns | None = None  # whose run goes on, if any does


class Failure(NamedTuple):
    """An exception in a run: its last line, and the whole traceback."""

    last_line: str
    traceback: str


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    Attributes:
        settings: those of the run.
        state: whether it goes on, and how it ended otherwise.
        delivered: how many batches have been delivered.
        trace: what has been recorded so far; None before the first batch is delivered.
        failure: what went wrong; None unless ``state`` is ``failed``.
    """

    settings: ExplorerSettings
    state: Literal["running", "done", "cancelled", "failed"]
    delivered: int = 0
    trace: Trace | None = None
    failure: Failure | None = None


class RealRuns:
    """Runs a loader with the settings that are asked for; a new request ends the run before it.

    ``on_progress`` is called with the run's progress, from the event loop's thread.
    """

    def __init__(
        self, user_loader: DataLoader[Any] | None, on_progress: Callable[[Progress], None]
    ) -> None:
        self._user_loader = user_loader
        self._on_progress = on_progress
        self._run: LoaderRun | None = None
        self._follow_task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        """Whether a run goes on."""
        return self._run is not None

    def start(self, settings: ExplorerSettings, *, wait_s: float = 0.0) -> None:
        """Begin a run, and return when it is over, or after ``wait_s`` seconds.

        In a notebook, a run that is not over by then is followed in the background. Where no event
        loop runs, it is waited for to its end. Nothing is raised: a run that cannot begin is shown
        as failed.
        """
        global _latest
        if _latest is not None and _latest is not self:
            _latest.cancel()  # two runs at once would slow each other down
        _latest = self
        self._stop()
        try:
            self._run = LoaderRun(settings, self._user_loader)
        except Exception as error:
            self._on_progress(Progress(settings, "failed", failure=_failure(error)))
            return
        self._on_progress(Progress(settings, "running"))
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        deadline = time.monotonic() + (wait_s if loop else float("inf"))
        while (goes_on := self.step()) and time.monotonic() < deadline:
            time.sleep(FOLLOW_S)
        if goes_on and loop and (self._follow_task is None or self._follow_task.done()):
            self._follow_task = loop.create_task(self._follow())

    def cancel(self) -> None:
        """End the run that goes on, if one does; what it recorded until then is shown."""
        if self._run is not None:
            self._run.cancel()
            self.step()

    def step(self) -> bool:
        """Look at the run once, show its progress, and return whether it goes on."""
        if self._run is None:
            return False
        progress = self._run.progress()
        if progress.state != "running":
            self._stop()
        self._on_progress(progress)
        return self.running

    async def _follow(self) -> None:
        while self.step():
            await asyncio.sleep(FOLLOW_S)

    def _stop(self) -> None:
        if self._run is not None:
            self._run.close()
            self._run = None


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

    def progress(self) -> Progress:
        """How far it has come, or how it went once it is over."""
        self._process.receive()  # or a long traceback fills the pipe, and the run never ends
        over = not self._process.running  # asked first: what is recorded after that is complete
        self._process.receive()
        trace, delivered = self._recorded()
        if not over:
            return Progress(self.settings, "running", delivered, trace)
        sent = self._process.sent
        failure = sent[-1] if sent else self._unexpected_end(delivered)
        if failure is not None:
            return Progress(self.settings, "failed", delivered, trace, failure)
        if self._cancelled:
            return Progress(self.settings, "cancelled", delivered, trace)
        return Progress(self.settings, "done", delivered, trace)

    def _recorded(self) -> tuple[Trace | None, int]:
        """What has been recorded, and how many batches are delivered; None before the first is."""
        try:
            trace = read_folder(self._recording)
        except LoaderVizError:  # there is nothing to read yet
            return None, 0
        delivered = int(trace.batches["delivered_s"].notna().sum())
        return (trace if delivered else None), delivered

    def _unexpected_end(self, delivered: int) -> Failure | None:
        """Why a run that said nothing of a failure has none the less failed; None if it has not."""
        if self._cancelled:
            return None
        line = "" if delivered else "the loader delivered no batch: its dataset is empty"
        if code := self._process.exit_code:
            ending = f"signal {-code}" if code < 0 else f"exit code {code}"
            line = f"the process of the run ended with {ending}"
        return Failure(line, line) if line else None

    def cancel(self) -> None:
        """End the run now, whatever it is doing, and wait until none of its processes is left."""
        self._process.receive()
        self._cancelled = self._cancelled or self._process.running
        self._process.end()

    def close(self) -> None:
        """Delete the recording and free all else; a run that still goes on is ended."""
        atexit.unregister(self.close)
        self._process.end()
        shutil.rmtree(self._folder, ignore_errors=True)


def _failure(error: Exception) -> Failure:
    text = "".join(traceback.format_exception(error))
    last_line = next(line for line in reversed(text.splitlines()) if line.strip())
    return Failure(last_line, text)


def _run_in_child(
    settings: ExplorerSettings,
    user_loader: DataLoader[Any] | None,
    folder: Path,
    send: Callable[[Failure], None],
) -> None:
    """Run the loader and record it into ``folder``, in the process of the run; send what failed."""
    # Nobody would see torch's warning of too many workers here; the slider marks the CPUs instead.
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    if settings.cores is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: settings.cores])
    try:
        loader = settings.make_loader(user_loader)
        n_batches = None if user_loader is None else settings.n_batches
        with Recording((loader,), path=folder):
            for _ in range(settings.epochs):
                _run_epoch(loader, settings.step_s, n_batches)
    except Exception as error:
        send(_failure(error))
        sys.exit(1)


def _run_epoch(loader: DataLoader[Any], step_s: float, n_batches: int | None) -> None:
    """Take so many batches, None: all; until the process that asked for the run has ended."""
    parent = os.getppid()
    for _ in itertools.islice(loader, n_batches):
        time.sleep(step_s)
        if os.getppid() != parent:
            break
