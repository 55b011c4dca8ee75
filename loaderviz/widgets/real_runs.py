"""The real runs that a reader asks for: one at a time, followed batch by batch."""

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

FOLLOW_S = 0.2  # how often a running recording is looked at

_measuring: Measuring | None = None  # the one whose run goes on


@dataclass(frozen=True)
class Progress:
    """Where a run stands. ``trace`` is what it has recorded, once a batch was delivered."""

    settings: ExplorerSettings
    state: Literal["running", "done", "cancelled", "failed"]
    delivered: int = 0
    trace: Trace | None = None
    failure: Failure | None = None
    repeated: int | None = None  # samples that came more than once, where that was counted


class Measuring:
    """Runs a loader with the settings that are asked for; a new request ends the run before it.

    ``show`` is called with the run's progress, from the event loop's thread.
    """

    def __init__(self, own: DataLoader[Any] | None, show: Callable[[Progress], None]) -> None:
        self._own = own
        self._show = show
        self._run: LoaderRun | None = None
        self._following: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self._run is not None

    def start(self, settings: ExplorerSettings, *, wait_s: float = 0.0) -> None:
        """Begin a run, and come back after ``wait_s`` seconds, or before if it is over.

        In a notebook it is followed in the background then. Where no event loop runs, it is waited
        for to its end.
        """
        global _measuring
        if _measuring is not None and _measuring is not self:
            _measuring.cancel()  # runs beside each other would measure each other
        _measuring = self
        self._stop()
        try:
            self._run = LoaderRun(settings, self._own)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            self._show(Progress(settings, "failed", failure=Failure(text, text)))
            return
        self._show(Progress(settings, "running"))
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        until = time.monotonic() + (wait_s if loop else float("inf"))
        while (more := self.step()) and time.monotonic() < until:
            time.sleep(FOLLOW_S)
        if more and loop and (self._following is None or self._following.done()):
            self._following = loop.create_task(self._follow())

    def cancel(self) -> None:
        """End the run that goes on; what it recorded until then is shown."""
        if self._run is not None:
            self._run.cancel()
            self.step()

    def step(self) -> bool:
        """Look at the run once; says whether to come again."""
        run = self._run
        if run is None:
            return False
        over = not run.running  # before the look: what is seen then is all there is
        progress = _look(run, over)
        if over:
            self._stop()
        self._show(progress)
        return self.running

    async def _follow(self) -> None:
        while self.step():
            await asyncio.sleep(FOLLOW_S)

    def _stop(self) -> None:
        if self._run is not None:
            self._run.close()
            self._run = None


def _look(run: LoaderRun, over: bool) -> Progress:
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
    return Progress(run.settings, "done", delivered, trace, repeated=outcome.repeated)
