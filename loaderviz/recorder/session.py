"""``record`` and ``Recording``: one recording, from the start of its block to its trace."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from torch.utils.data import DataLoader

from loaderviz import machine
from loaderviz.argument_checks import checked_last_s, whole_number
from loaderviz.clocks import process_clock
from loaderviz.clocks.machine_offsets import NOT_MEASURED, Alignment, start_alignment
from loaderviz.clocks.process_clock import now
from loaderviz.errors import LoaderVizError
from loaderviz.loaders.describe_loader import dataloader_behind, describe
from loaderviz.own_errors import own_errors, own_errors_suppressed
from loaderviz.plain_value import as_text
from loaderviz.recorder import dataloader_hooks, recording_folders, recording_size_limit
from loaderviz.recorder.flight_log import FlightOptions
from loaderviz.recorder.iterator_watcher import Watcher
from loaderviz.recorder.kernel_books import MachineAccounts
from loaderviz.recorder.recording_files import RecordingFiles
from loaderviz.trace import INCIDENTS_NAME, Trace, read_folder
from loaderviz.trace.check_trace import LEFT_OUT

MAX_SPANS = 10_000_000
LINES_VARIABLE = "LOADERVIZ_LINES"


def record(
    loader: Iterable[Any],
    *more: Iterable[Any],
    path: str | Path | None = None,
    label: str | None = None,
    max_spans: int = MAX_SPANS,
    max_bytes: int | None = None,
    lines: bool | None = None,
    last_s: float | None = None,
    on_window: Callable[[dict[str, Any]], object] | None = None,
    on_incident: Callable[[dict[str, Any]], object] | None = None,
) -> Recording:
    """Record what a ``DataLoader`` does while a block of code iterates it.

    >>> with record(loader) as rec:
    ...     for batch in loader:
    ...         train_step(batch)
    >>> rec.trace.batches

    Inside the block the loader is the same object and yields the same batches, in any training
    code. Several loaders go into one recording, each under its own number.

    Args:
        loader: the ``torch.utils.data.DataLoader`` to record, map-style or iterable-style. Or
            another object that a loop takes its batches from. Where it iterates DataLoaders inside,
            as a loader of several streams does, these are recorded, as is every other one that is
            iterated in the block. Else what the loop waits for and does is, and not how the
            batches are made; samples are counted where the form of a batch tells. Where a thread of
            its own iterates them ahead of the loop, all of that is recorded. The loop is what runs
            in the thread that enters the block; another one that asks a DataLoader reads ahead.
        more: further loaders, such as one for validation.
        path: a folder to keep the recording in; ``loaderviz.load`` opens it, also while it is
            written and after a crash. Without one the recording is kept in the trace alone. The
            ranks of a distributed run give the same folder: each keeps its own recording in it.
            Another process that is given the same folder meanwhile keeps its recording beside it,
            in ``path-1``, and warns.
        label: a name for the recording, shown where several are compared.
        max_spans: the most samples and named spans to write down. Past it batches are recorded as
            before, and ``trace.meta["left_out"]`` counts the rest.
        max_bytes: the most bytes that the files of this process and its workers may take: 1 MiB or
            more, None for no limit. Where they are used, the latest is kept: ``trace.windows``
            tells of the rest, and ``trace.meta["left_out_batches"]`` counts it. The windows are not
            in that, nor the one file that a rank leaves in the end, which is smaller.
        lines: also look, some hundred times a second, which line of code reads the samples, in
            each process that does: see ``Trace.lines``. None: where LOADERVIZ_LINES is set to 1. On
            Linux, in main threads; where the program handles SIGWINCH it is left out, with a word.
        last_s: leave the recording on: keep the last ``last_s`` seconds in full, 10 or more, and of
            the whole run ``trace.windows``, a row a minute. Where a pace changes for two windows,
            a wait is three times as long as any before, or an exception ends the block, what is
            kept then is saved in ``path``, and ``trace.incidents`` names it. With ``max_bytes``
            fewer seconds are kept where they would take more. None: keep everything, or what fits
            ``max_bytes``.
        on_window: with ``last_s``, called with each row of ``trace.windows`` as a dict, once its
            minute is over. An error of it is warned of once; the loop goes on.
        on_incident: the same with each row of ``trace.incidents``, once it is saved.

    Raises:
        LoaderVizError: for an object that no loop takes batches from, or whose class is not
            written in Python, such as a generator (``watch`` takes it); a ``path`` that
            is no path, a negative ``max_spans``, too small a ``max_bytes``, or a release of torch
            that lacks a private part we need. On entering the block: for a folder that holds
            something already. Nothing was changed then.
    """
    dataloaders = [dataloader_behind(given) for given in (loader, *more)]
    given = (loader, *more)
    foreign = [each for each, own in zip(given, dataloaders, strict=True) if own is None]
    return Recording(
        [dataloader for dataloader in dataloaders if dataloader is not None],
        foreign=foreign,
        every_loader=bool(foreign),
        path=path,
        path_is_shared=path is not None and machine.world_size() > 1,
        label=label,
        max_spans=max_spans,
        max_bytes=max_bytes,
        lines=lines,
        last_s=last_s,
        on_window=on_window,
        on_incident=on_incident,
    )


class Recording:
    """A recording: ``trace`` once its block has ended, ``snapshot()`` while it runs."""

    def __init__(
        self,
        loaders: Iterable[DataLoader[Any]],
        *,
        foreign: Iterable[Any] = (),  # loaders that are none of torch's
        every_loader: bool = False,  # record all that are iterated, not ``loaders`` alone
        tell_of_early_workers: bool = True,  # warn of those that were started before
        path: str | Path | None = None,
        path_is_shared: bool = False,  # the folder of a run, which all its ranks share
        allow_restart: bool = False,  # a rank of the run may have several recordings
        loop_thread: int | None = None,  # that the loop runs in; None: that enters the block
        label: str | None = None,
        max_spans: int = MAX_SPANS,
        max_bytes: int | None = None,
        lines: bool | None = None,
        last_s: float | None = None,
        on_window: Callable[[dict[str, Any]], object] | None = None,
        on_incident: Callable[[dict[str, Any]], object] | None = None,
    ) -> None:
        dataloader_hooks.check_torch()
        max_spans = whole_number("max_spans", max_spans, at_least=0)
        max_bytes = recording_size_limit.checked_max_bytes(max_bytes)
        self._loaders = list({id(loader): loader for loader in loaders}.values())  # until it begins
        self._foreign = list({id(loader): loader for loader in foreign}.values())
        self._every_loader = every_loader
        self._tell_of_early_workers = tell_of_early_workers
        try:
            self._path = None if path is None else Path(path)
            if "\0" in str(self._path):
                raise TypeError
        except own_errors(TypeError) as error:
            raise LoaderVizError(f"path={path!r}: give the path of a folder") from error
        self._path_is_shared = path_is_shared
        self._allow_restart = allow_restart
        self._loop_thread = loop_thread
        self._label = None if label is None else as_text(label)
        self._max_spans, self._max_bytes = max_spans, max_bytes
        self._lines = os.environ.get(LINES_VARIABLE) == "1" if lines is None else bool(lines)
        self._last_s = None if last_s is None else checked_last_s(last_s)
        if self._last_s is None and (on_window or on_incident):
            raise LoaderVizError("on_window= and on_incident= need last_s=, such as last_s=600")
        self._flight = FlightOptions(on_window, on_incident)
        self._folder: Path | None = None
        self._watcher: Watcher | None = None  # while the block runs
        self._alignment: Alignment | None = None
        self._accounts: MachineAccounts | None = None
        self._why_lost = ""  # not the error itself, whose frames keep the user's loop alive
        self._trace: Trace | None = None

    @property
    def trace(self) -> Trace:
        """What was recorded.

        Raises:
            LoaderVizError: while the block still runs (``snapshot()`` shows what there is so far),
                and where the recording's files have been lost.
        """
        if self._why_lost:
            raise LoaderVizError(f"there is no trace: {self._why_lost}")
        if self._trace is None:
            raise LoaderVizError(
                "the trace is complete when the `with record(...)` block has ended; "
                "inside the block, snapshot() returns what was recorded so far"
            )
        return self._trace

    def __repr__(self) -> str:
        if self._trace is not None:
            return repr(self._trace)
        if self._watcher is not None:
            return "<Recording: running>"
        return "<Recording: lost>" if self._why_lost else "<Recording: not begun>"

    def snapshot(self) -> Trace:
        """What has been recorded so far, as a trace of its own.

        Raises:
            LoaderVizError: before the block has begun, and where the recording's files are lost.
        """
        if self._trace is not None:
            return self._trace
        if self._folder is None:
            raise LoaderVizError("nothing is recorded yet: enter the `with record(...)` block")
        if self._watcher is not None:
            self._watcher.let_go()
        return read_folder(self._folder)

    def save_incident(self, why: str) -> None:
        """Save what is kept of a recording with ``last_s``, as an incident with this text.

        Raises:
            LoaderVizError: outside the block, and without ``last_s``.
        """
        if self._watcher is None or self._last_s is None:
            raise LoaderVizError("save_incident() is for the block of record(loader, last_s=...)")
        self._watcher.files.save_incident(as_text(why), "asked", now())

    def add_class(self, cls: type) -> None:
        """Record the loaders of a class that was made after the start, where all are recorded."""
        if self._watcher is not None:
            self._watcher.add_class(cls)

    def __enter__(self) -> Self:
        if self._folder is not None:
            raise LoaderVizError("a recording runs once; call record(loader) again for another")
        if self._path_is_shared and self._path is not None:
            self._folder = recording_folders.make_in_run(
                self._path, machine.rank(), allow_restart=self._allow_restart
            )
        else:
            self._folder = recording_folders.make(self._path)
        try:
            meta = self._describe()
            saved_in = self._folder / INCIDENTS_NAME
            if self._path_is_shared:  # one file will be in place of the folder
                saved_in = self._folder.parent / INCIDENTS_NAME / self._folder.name
            flight = replace(self._flight, saved_in=None if self._path is None else saved_in)
            self._watcher = Watcher(
                RecordingFiles(self._folder, meta, flight),
                self._loaders,
                self._foreign,
                every_loader=self._every_loader,
                tell_of_early_workers=self._tell_of_early_workers,
                loop_thread=self._loop_thread or threading.get_ident(),
                lines=self._lines,
            )
            if self._path is not None:
                self._watcher.files.answer_with_stack()
            self._watcher.start()
            self._loaders.clear()  # a loader may end before the recording does
            self._foreign.clear()
            self._accounts = MachineAccounts()
            if "clock" in meta:
                self._alignment = start_alignment(
                    self._folder.parent, meta, self._watcher.files.note
                )
        except BaseException as error:
            if self._watcher is not None:
                self._watcher.stop(now())
                self._watcher = None
            recording_folders.remove(self._folder)
            if isinstance(error, own_errors(OSError)):
                raise LoaderVizError(f"cannot record into {self._folder}: {error}") from error
            raise
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._watcher is not None and isinstance(error, Exception):
                said = str(error).strip().splitlines() or [""]  # of a worker's, a traceback too
                what = " ".join([f"{type(error).__name__}: {said[0]}", *said[1:][-1:]])
                self._watcher.files.save_incident(what, "exception", now())
            self._finish()
        except BaseException:  # from outside: torch's own handler says so that a worker died
            try:
                self._finish()
            finally:
                if self._watcher is not None:
                    self._give_up()
            raise

    def _finish(self) -> None:
        """Stop, and make the trace; after an interruption, go on where that was."""
        watcher = self._watcher
        if watcher is None:
            return
        try:
            facts = self._accounts.since_then() if self._accounts is not None else {}
            watcher.stop(now())
            if self._alignment is not None and not watcher.forgotten:
                self._alignment.stop()
            if not watcher.forgotten:
                self._make_trace(watcher, facts)
        except own_errors(Exception) as failure:  # never in place of what the user's block raised
            self._why_lost = str(failure) or type(failure).__name__
            watcher.files.warn_once(failure)
        self._let_go(watcher)

    def _make_trace(self, watcher: Watcher, facts: dict[str, Any]) -> None:
        assert self._folder is not None
        if self._trace is None:
            with own_errors_suppressed(OSError):  # the trace can do without
                watcher.files.note(**facts)
            self._trace = read_folder(self._folder)
        for problem in self._trace.meta["problems"]:
            if not problem.startswith(LEFT_OUT):  # a value of a description, which nobody misses
                watcher.files.warn_once(problem)
        if self._path_is_shared:
            self._replace_folder(self._folder, watcher)

    def _give_up(self) -> None:
        """Leave the trace unmade where that was interrupted twice, as by Ctrl-C."""
        watcher = self._watcher
        assert watcher is not None
        if self._trace is None and not watcher.forgotten:
            self._why_lost = "it was interrupted while it was made"
            if self._path is not None:
                self._why_lost += f"; loaderviz.load({str(self._folder)!r}) makes it"
        self._let_go(watcher)

    def _let_go(self, watcher: Watcher) -> None:
        assert self._folder is not None
        if not watcher.forgotten:
            if self._path is None:
                recording_folders.remove(self._folder)
            else:
                recording_folders.keep(self._folder)
        self._watcher = self._alignment = None

    def _replace_folder(self, folder: Path, watcher: Watcher) -> None:
        """Put one file in place of the folder; where it cannot be written, the folder stays."""
        try:
            self.trace.save(recording_folders.finished_file(folder))
        except own_errors(LoaderVizError) as error:
            watcher.files.warn_once(error)
        else:
            recording_folders.remove(folder)

    def _describe(self) -> dict[str, Any]:
        return {
            "label": self._label,
            "max_spans": self._max_spans,
            "max_bytes": self._max_bytes,
            **({"lines_asked": True} if self._lines else {}),
            **({"last_s": self._last_s} if self._last_s else {}),
            **({"keeps_latest": True} if self._last_s or self._max_bytes else {}),
            "rank": machine.rank(),
            "pid": os.getpid(),
            "started": process_clock.read_with_wall_clock(),
            "loaders": [describe(loader) for loader in self._loaders],
            **machine.describe_machine(),
            **(NOT_MEASURED if self._path_is_shared and machine.spans_machines() else {}),
        }
