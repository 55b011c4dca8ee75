"""What the callbacks of trainers share: a recording of some steps, its files and its metrics.

A hook of a callback runs in the middle of a training. Each is ``guarded``: what fails in it by
itself ends the recording with a warning, and never the training.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import math
import sys
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

from loaderviz import machine
from loaderviz.argument_checks import checked_last_s, whole_number
from loaderviz.errors import LoaderVizError
from loaderviz.loaders.describe_loader import dataloader_behind
from loaderviz.own_errors import own_errors, own_errors_suppressed, warn_or_print
from loaderviz.recorder import Recording
from loaderviz.report import write
from loaderviz.why.summary import Summary

Hook = TypeVar("Hook", bound=Callable[..., None])


class RecordedSteps:
    """Records the first ``n_steps`` steps of the epochs that are due, one stage at a time.

    Every DataLoader that is iterated meanwhile is recorded: a trainer may make its own out of the
    one that it was given.
    """

    def __init__(
        self, n_steps: int, every_n_epochs: int | None, last_s: float | None = None
    ) -> None:
        self.n_steps = whole_number("n_steps", n_steps, at_least=1)
        self.every_n_epochs = every_n_epochs
        if every_n_epochs is not None:
            self.every_n_epochs = whole_number("every_n_epochs", every_n_epochs, at_least=1)
        self.last_s = None if last_s is None else checked_last_s(last_s)
        self._left_on: Recording | None = None  # of the whole training, in place of some steps
        self._run = Path()  # its folder
        self._windows: list[dict[str, Any]] = []  # that were not logged yet
        self._n_incidents = 0
        self.stage = ""  # what is being recorded, such as "train"; empty: nothing
        self._finished: set[str] = set()  # the stages of which there is a recording with a batch
        self._failed = False
        self._recording: Recording | None = None
        self._n_done = 0

    def prepare(self) -> None:
        """A training starts; what an earlier one has left behind goes."""
        self.drop()
        self._finished.clear()
        self._failed = False

    def is_due(self, epoch: int) -> bool:
        """Whether to record this epoch, counted from 0 at the start of the training."""
        if self.last_s is not None:
            return False
        if self.every_n_epochs is None:
            return "train" not in self._finished
        return epoch % self.every_n_epochs == 0

    def begin(self, stage: str, loaders: Iterable[Any] = ()) -> None:
        """Begin a recording, of these loaders too where they are none of torch's."""
        self.drop()
        if self._failed or self.last_s is not None:
            return
        own: list[Any] = []
        foreign: list[Any] = []
        for loader in loaders:
            with own_errors_suppressed(LoaderVizError):  # a list, say, which cannot be watched
                dataloader = dataloader_behind(loader)
                if dataloader is None:
                    foreign.append(loader)
                else:
                    own.append(dataloader)
        recording = Recording(own, foreign=foreign, every_loader=True, tell_of_early_workers=False)
        recording.__enter__()
        self._recording, self._n_done, self.stage = recording, 0, stage
        atexit.register(self.drop)  # a trainer may not say that an exception has ended it

    def leave_on(self, folder: Path) -> None:
        """Record the whole training that begins, where ``last_s`` says so."""
        self.end_run()
        if self.last_s is None:
            return
        self._run, self._n_incidents = folder / "run", 0
        self._windows.clear()
        recording = Recording(
            [],
            every_loader=True,
            path=self._run,
            path_is_shared=True,
            allow_restart=True,
            last_s=self.last_s,
            on_window=self._windows.append,
            on_incident=self._count_incident,
        )
        recording.__enter__()
        self._left_on = recording
        atexit.register(self.end_run)

    def _count_incident(self, row: dict[str, Any]) -> None:
        self._n_incidents += 1

    def metrics_of_run(self) -> dict[str, float]:
        """What the windows say that are over since the last call, by name; none where none is."""
        rows = self._windows[:]
        self._windows.clear()
        if not rows or machine.rank() != 0:
            return {}
        sums = {name: sum(row[name] for row in rows) for name in ("startup_s", "wait_s", "step_s")}
        waited_s = sums["startup_s"] + sums["wait_s"]
        longest = max(rows, key=lambda row: row["wait_s"] + row["step_s"])
        names = ("supply_per_s", "demand_per_s", "ready_p95_s")
        return {
            "wait_share": waited_s / ((waited_s + sums["step_s"]) or 1.0),
            **{name: longest[name] for name in names if math.isfinite(longest[name])},
            "incidents": float(self._n_incidents),
        }

    def end_run(self, error: BaseException | None = None) -> None:
        """End the recording of a whole training, which ``error`` has ended; write its report."""
        recording, self._left_on = self._left_on, None
        if recording is None:
            return
        atexit.unregister(self.end_run)
        recording.__exit__(None if error is None else type(error), error, None)
        if recording.trace.windows["batches"].sum():
            self._finished.add("train")
            if machine.rank() == 0:
                write(recording.trace, self._run.parent / "run.html")

    def count(self, stage: str) -> bool:
        """A step of this stage is done; returns whether it was the last one to record."""
        if self.stage != stage:
            return False
        self._n_done += 1
        return self._n_done >= self.n_steps

    def finish(self, folder: Path, step: int) -> dict[str, float]:
        """End the recording and write its files, ``step`` being the trainer's step by now.

        Returns the metrics by name; none on other ranks than the first, and where no batch was
        recorded.
        """
        recording, stage = self._recording, self.stage
        if recording is None:
            return {}
        self.drop()
        trace = recording.trace
        if trace.summary().n_batches == 0:
            return {}
        self._finished.add(stage)
        place = folder / f"{stage}-step-{step}"
        place.mkdir(parents=True, exist_ok=True)
        trace.save(place / f"rank-{machine.rank():05d}.parquet")
        if machine.rank() != 0:
            return {}
        content = write(trace, place / "report.html")
        return _metrics_of(content.summary, len(content.findings.findings))

    def drop(self) -> None:
        """End the recording, if one runs, and write nothing."""
        recording, self._recording = self._recording, None
        self.stage = ""
        atexit.unregister(self.drop)
        if recording is not None:
            recording.__exit__(None, None, None)

    def warn_if_nothing_was_recorded(self) -> None:
        """At the end of a training that had no step to show."""
        if not self._finished and not self._failed:
            warn_or_print(
                "loaderviz recorded no batch of this training: it takes batches from no DataLoader "
                "that could be seen. Record it from outside: with loaderviz.watch(loader) as "
                "batches, and give batches to the trainer.",
                stacklevel=3,
            )

    def give_up(self, error: Exception) -> None:
        """Record no more of this training, because of an error of ours."""
        self._failed = True
        with own_errors_suppressed(Exception):
            self.drop()
            self.end_run()
        what = str(error) if isinstance(error, LoaderVizError) else repr(error)
        warn_or_print(f"loaderviz could not record the training: {what}", stacklevel=3)


def _metrics_of(summary: Summary, n_findings: int) -> dict[str, float]:
    metrics = {"findings": float(n_findings)}
    if summary.waits_are_seen:  # else a thread of its own reads ahead
        metrics["wait_share"] = summary.wait_share
        metrics["later_wait_share"] = summary.later_wait_share
    if summary.main_cause:
        metrics[f"first_cause/{summary.main_cause}"] = float(summary.causes["share"].iloc[0])
    return metrics


def guarded(hook: Hook) -> Hook:
    """Decorates a hook of a callback: where it fails by itself, what is ``recorded`` ends."""

    @functools.wraps(hook)
    def call(callback: Any, *args: Any, **kwargs: Any) -> None:
        try:
            hook(callback, *args, **kwargs)
        except own_errors(Exception) as error:
            callback.recorded.give_up(error)

    return cast(Hook, call)


def trainers_library(*names: str, install: str) -> ModuleType:
    """The library whose trainer is used: of several, the one that the program has imported.

    Raises:
        LoaderVizError: where none of them is installed.
    """
    for name in sorted(names, key=lambda name: name not in sys.modules):
        if name in sys.modules or find_spec(name.partition(".")[0]) is not None:
            return importlib.import_module(name)
    raise LoaderVizError(f"this callback needs {names[0]}, which is not installed: {install}")
