"""``record``: one recording, from the start of its block to the trace."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from torch.utils.data import DataLoader

from loaderviz import machine
from loaderviz.clocks import process_clock
from loaderviz.clocks.machine_offsets import NOT_MEASURED, Alignment, align
from loaderviz.clocks.process_clock import now
from loaderviz.errors import LoaderVizError
from loaderviz.loaders.describe_loader import behind, describe
from loaderviz.recorder import dataloader_hooks, recording_folders, recording_size_limit
from loaderviz.recorder.iterator_watcher import Watcher
from loaderviz.recorder.recording_files import Files
from loaderviz.trace import Trace, read_folder

MAX_SPANS = 10_000_000


def record(
    loader: Iterable[Any],
    *more: Iterable[Any],
    path: str | Path | None = None,
    label: str | None = None,
    max_spans: int = MAX_SPANS,
    max_bytes: int | None = None,
) -> Recording:
    """Record what a ``DataLoader`` does while a block of code iterates it.

    >>> with record(loader) as rec:
    ...     for batch in loader:
    ...         train_step(batch)
    >>> rec.trace.batches

    Inside the block the loader is the same object and yields the same batches, in any training
    code. Several loaders go into one recording, each under its own number.

    Args:
        loader: the ``torch.utils.data.DataLoader`` to record, map-style or iterable-style. Or an
            object that iterates DataLoaders of its own inside, as a loader of several streams does:
            then every DataLoader that is iterated in the block is recorded.
        more: further loaders, such as one for validation.
        path: a folder to keep the recording in; ``loaderviz.load`` opens it, also while it is
            written and after a crash. Without one it lives in the trace alone. The ranks of a
            distributed run give the same folder: each keeps its own recording in it.
        label: a name for the recording, shown where several are compared.
        max_spans: how many samples and named spans are written down at most. Past it batches are
            recorded as before, and ``trace.meta["left_out"]`` counts what is not.
        max_bytes: how many bytes the files may take that this process and its workers write
            meanwhile; 1 MiB or more, None for no limit. Samples and spans are written to half of
            them, batches to all; ``trace.meta`` counts what is not, in ``left_out`` and
            ``left_out_batches``. The one file that a rank leaves is smaller; while it is made, both
            are there.

    Raises:
        LoaderVizError: for what is no ``DataLoader`` and can use none, a ``path`` that is none or
            holds something already, a negative ``max_spans``, too small a ``max_bytes``, or a
            release of torch whose private parts have moved. Nothing was changed then.
    """
    found = [behind(given) for given in (loader, *more)]
    loaders = [each for each in found if each is not None]
    every = len(loaders) < len(found)
    of_run = path is not None and machine.world_size() > 1
    return Recording(
        loaders,
        every=every,
        path=path,
        of_run=of_run,
        label=label,
        max_spans=max_spans,
        max_bytes=max_bytes,
    )


class Recording:
    """A recording: ``trace`` once its block has ended, ``snapshot()`` while it runs."""

    def __init__(
        self,
        loaders: Iterable[DataLoader[Any]],
        *,
        every: bool = False,
        path: str | Path | None = None,
        of_run: bool = False,  # path is the folder that all processes of a run share
        again: bool = False,  # ... and a rank may have several, as after a restart
        label: str | None = None,
        max_spans: int = MAX_SPANS,
        max_bytes: int | None = None,
    ) -> None:
        dataloader_hooks.check_torch()
        if not isinstance(max_spans, int) or max_spans < 0:
            raise LoaderVizError(f"max_spans={max_spans!r}: give 0 or more")
        recording_size_limit.check(max_bytes)
        self._loaders = list({id(loader): loader for loader in loaders}.values())
        self._every = every
        try:
            self._path = None if path is None else Path(path)
        except TypeError as error:
            raise LoaderVizError(f"path={path!r}: give the path of a folder") from error
        self._of_run = of_run
        self._again = again
        self._label = label
        self._max_spans, self._max_bytes = max_spans, max_bytes
        self._folder: Path | None = None
        self._watcher: Watcher | None = None  # while the block runs
        self._alignment: Alignment | None = None
        self._lost = ""  # why there is no trace; not the error, whose frames hold the user's loop
        self._trace: Trace | None = None

    @property
    def trace(self) -> Trace:
        """What was recorded.

        Raises:
            LoaderVizError: while the block still runs (``snapshot()`` shows what there is so far),
                and where the recording's files have been lost.
        """
        if self._lost:
            raise LoaderVizError(f"there is no trace: {self._lost}")
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
        return "<Recording: lost>" if self._lost else "<Recording: not begun>"

    def snapshot(self) -> Trace:
        """What has been recorded so far, as a trace of its own."""
        if self._trace is not None:
            return self._trace
        if self._folder is None:
            raise LoaderVizError("nothing is recorded yet: enter the `with record(...)` block")
        return read_folder(self._folder)

    def add_class(self, cls: type) -> None:
        """Record the iterators of a class of loaders that is made while every one is recorded."""
        if self._watcher is not None:
            self._watcher.add_class(cls)

    def __enter__(self) -> Self:
        if self._folder is not None:
            raise LoaderVizError("a recording runs once; call record(loader) again for another")
        if self._of_run and self._path is not None:
            self._folder = recording_folders.make_in_run(
                self._path, machine.rank(), again=self._again
            )
        else:
            self._folder = recording_folders.make(self._path)
        try:
            about = self._describe()
            self._watcher = Watcher(Files(self._folder, about), self._loaders, every=self._every)
            self._watcher.start()
            if "clock" in about:
                self._alignment = align(self._folder.parent, about, self._watcher.files.note)
        except BaseException as error:
            if self._watcher is not None:
                self._watcher.stop(now())
            recording_folders.remove(self._folder)
            if isinstance(error, OSError):
                raise LoaderVizError(f"cannot record into {self._folder}: {error}") from error
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        watcher, folder, alignment = self._watcher, self._folder, self._alignment
        assert watcher is not None
        assert folder is not None
        self._watcher = self._alignment = None
        try:
            watcher.stop(now())
        finally:
            if alignment is not None and not watcher.forgotten:
                alignment.stop()
        if watcher.forgotten:
            return
        try:
            self._trace = read_folder(folder)
            for problem in self._trace.meta["problems"]:
                watcher.files.tell(problem)
            if self._of_run:
                self._seal(folder, watcher)
        except Exception as lost:  # never in place of what the user's block raised
            self._lost = str(lost) or type(lost).__name__
            watcher.files.tell(lost)
        except BaseException:  # a second Ctrl-C: while the trace is made, or its file
            if self._trace is None:
                self._lost = "it was interrupted while it was made"
                if self._path is not None:
                    self._lost += f"; loaderviz.load({str(folder)!r}) makes it"
            raise
        finally:
            if self._path is None:
                recording_folders.remove(folder)

    def _seal(self, folder: Path, watcher: Watcher) -> None:
        """One file in place of the folder; where it cannot be written, the folder stays."""
        try:
            self.trace.save(recording_folders.sealed(folder))
        except LoaderVizError as error:
            watcher.files.tell(error)
        else:
            recording_folders.remove(folder)

    def _describe(self) -> dict[str, Any]:
        return {
            "label": self._label,
            "max_spans": self._max_spans,
            "max_bytes": self._max_bytes,
            "rank": machine.rank(),
            "pid": os.getpid(),
            "started": process_clock.pair(),
            "loaders": [describe(loader) for loader in self._loaders],
            **machine.facts(),
            **(NOT_MEASURED if self._of_run and machine.spans_machines() else {}),
        }
