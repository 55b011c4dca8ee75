"""The real runs that a user asks for: one at a time, followed batch by batch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch.utils.data import DataLoader

from loaderviz.trace import Trace
from loaderviz.widgets.explorer_settings import ExplorerSettings
from loaderviz.widgets.run_process import Failure, LoaderRun

FOLLOW_S = 0.2  # between two looks at a running recording

_latest: RealRuns | None = None  # whose run goes on, if any does


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    Attributes:
        settings: those of the run.
        state: whether it goes on, and how it ended otherwise.
        delivered: how many batches have been delivered.
        trace: what has been recorded so far; None before the first batch is delivered.
        failure: what went wrong, if anything did.
        n_repeated: samples that came more than once in an epoch; None where nobody counted.
    """

    settings: ExplorerSettings
    state: Literal["running", "done", "cancelled", "failed"]
    delivered: int = 0
    trace: Trace | None = None
    failure: Failure | None = None
    n_repeated: int | None = None


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
            text = f"{type(error).__name__}: {error}"
            self._on_progress(Progress(settings, "failed", failure=Failure(text, text)))
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
        run = self._run
        if run is None:
            return False
        over = not run.running  # asked first: what is recorded after that is complete
        progress = _progress_of(run, over)
        if over:
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


def _progress_of(run: LoaderRun, over: bool) -> Progress:
    trace = run.snapshot()
    delivered = 0 if trace is None else int(trace.batches["delivered_s"].notna().sum())
    trace = trace if delivered else None
    if not over:
        return Progress(run.settings, "running", delivered, trace)
    outcome = run.outcome()
    if outcome.failure is not None:
        return Progress(run.settings, "failed", delivered, trace, outcome.failure)
    if run.cancelled:
        return Progress(run.settings, "cancelled", delivered, trace)
    if not delivered:
        text = "the loader delivered no batch: its dataset is empty"
        return Progress(run.settings, "failed", failure=Failure(text, text))
    return Progress(run.settings, "done", delivered, trace, n_repeated=outcome.n_repeated)
