"""``record``: one recording, from the start of its block to the trace."""

from __future__ import annotations

import functools
import itertools
import warnings
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from torch.utils.data import DataLoader

from loaderviz import clock, machine
from loaderviz.clock import now
from loaderviz.errors import LoaderVizError
from loaderviz.recorder import attach, folders
from loaderviz.recorder.device import Device
from loaderviz.recorder.fetch import FetchTimer
from loaderviz.recorder.files import Files, Place
from loaderviz.recorder.iterators import IteratorLog, unwatch, watch
from loaderviz.recorder.loaders import behind, describe
from loaderviz.recorder.worker import WorkerHook
from loaderviz.records import Span, Tag, pack_text
from loaderviz.trace import Trace, read_folder

MAX_SPANS = 10_000_000


def record(
    loader: Iterable[Any],
    *more: Iterable[Any],
    path: str | Path | None = None,
    label: str | None = None,
    max_spans: int = MAX_SPANS,
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
            written and after a crash. Without one it lives in the trace alone.
        label: a name for the recording, shown where several are compared.
        max_spans: how many samples and named spans are written down at most. Past it batches are
            recorded as before, and ``trace.meta["left_out"]`` counts what is not.

    Raises:
        LoaderVizError: for what is no ``DataLoader`` and can use none, a ``path`` that is none or
            holds something already, a negative ``max_spans``, or a release of torch whose private
            parts have moved. Nothing was changed then.
    """
    found = [behind(given) for given in (loader, *more)]
    loaders = [each for each in found if each is not None]
    every = len(loaders) < len(found)
    return Recording(loaders, every=every, path=path, label=label, max_spans=max_spans)


class Recording:
    """A recording: ``trace`` once its block has ended, ``snapshot()`` while it runs."""

    def __init__(
        self,
        loaders: Iterable[DataLoader[Any]],
        *,
        every: bool = False,
        path: str | Path | None = None,
        label: str | None = None,
        max_spans: int = MAX_SPANS,
    ) -> None:
        attach.check_torch()
        if not isinstance(max_spans, int) or max_spans < 0:
            raise LoaderVizError(f"max_spans={max_spans!r}: give 0 or more")
        self._loaders = list({id(loader): loader for loader in loaders}.values())
        self._every = every
        self._classes = {type(loader) for loader in self._loaders} | (
            {DataLoader} if every else set()
        )
        try:
            self._path = None if path is None else Path(path)
        except TypeError as error:
            raise LoaderVizError(f"path={path!r}: give the path of a folder") from error
        self._label = label
        self._max_spans = max_spans
        self._device = Device.find()
        self._folder: Path | None = None
        self._files: Files | None = None  # while the block runs
        self._forgotten = False
        self._lost = ""  # why there is no trace; not the error, whose frames hold the user's loop
        self._trace: Trace | None = None
        self._iterator_numbers = itertools.count()
        self._epochs: defaultdict[int, itertools.count[int]] = defaultdict(itertools.count)
        self._watched: list[tuple[weakref.ref[Any], IteratorLog]] = []
        self._timers: list[FetchTimer] = []
        self._processes: list[tuple[int, int, Any]] = []

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
        return "<Recording: running>" if self._files is not None else "<Recording: not begun>"

    def snapshot(self) -> Trace:
        """What has been recorded so far, as a trace of its own."""
        if self._trace is not None:
            return self._trace
        if self._folder is None:
            raise LoaderVizError("nothing is recorded yet: enter the `with record(...)` block")
        return read_folder(self._folder)

    def __enter__(self) -> Self:
        if self._folder is not None:
            raise LoaderVizError("a recording runs once; call record(loader) again for another")
        self._folder = folders.make(self._path)
        try:
            self._files = Files(self._folder, self._describe())
            attach.attach(self, self._classes)
            for loader in self._loaders:
                self._adopt_running(self._files, loader)
        except BaseException as error:
            self._stop(now())
            folders.remove(self._folder)
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
        files, folder = self._files, self._folder
        assert files is not None
        assert folder is not None
        self._stop(now())
        if self._forgotten:  # the files are another process's
            return
        try:
            self._trace = read_folder(folder)
            for problem in self._trace.meta["problems"]:
                files.tell(problem)
        except Exception as lost:  # never in place of what the user's block raised
            self._lost = str(lost) or type(lost).__name__
            files.tell(lost)
        finally:
            if self._path is None:
                folders.remove(folder)

    def _describe(self) -> dict[str, Any]:
        return {
            "label": self._label,
            "max_spans": self._max_spans,
            "rank": machine.rank(),
            "started": clock.pair(),
            "loaders": [describe(loader) for loader in self._loaders],
            **machine.facts(),
        }

    def _stop(self, at: int) -> None:
        """Let go of everything, and write what is known at the end."""
        files, self._files = self._files, None
        with ExitStack() as steps:  # each is taken, the last one first, whatever becomes of others
            if files is not None:
                steps.enter_context(files.lock)
                acts: list[Callable[[], None]] = [
                    functools.partial(files.finish, at),
                    functools.partial(self._note_exits, files),
                    self._note_device_times,
                    *(timer.detach for timer in self._timers),
                    *(functools.partial(_let_go, *each, at) for each in self._watched),
                ]
                for act in acts:
                    steps.callback(_guarded, files, act)
            steps.callback(attach.detach, self, self._classes)
        # Whoever keeps the trace need not keep the loaders and their workers alive.
        for kept in (self._loaders, self._timers, self._watched, self._processes):
            kept.clear()

    def _note_device_times(self) -> None:
        if self._device is not None:
            self._device.finish()

    def _note_exits(self, files: Files) -> None:
        """Write down how workers ended, and keep no more of them: each holds open files."""
        running = []
        for number, worker, process in self._processes:
            code = process.exitcode
            if code is None:
                running.append((number, worker, process))
            else:
                files.write(Tag.EXIT, number, worker, code)
        self._processes = running

    # What attach.py asks and tells (attach.Observer).

    def wants(self, loader: DataLoader[Any]) -> bool:
        if self._files is None or self._files.stopped():
            return False
        return self._every or any(loader is own for own in self._loaders)

    def iterator_begun(self, loader: DataLoader[Any], iterator: Any) -> IteratorLog | None:
        files = self._files
        if files is None:
            return None
        with files.lock:
            if files.stopped():
                return None
            log = self._watch(files, loader, iterator)
            log.in_hands_of_torch = True
            return log

    def worker_hook(self, log: IteratorLog, user_init: Any) -> WorkerHook:
        assert self._folder is not None
        return WorkerHook(user_init, self._folder, log.number)

    def fetcher_made(self, log: IteratorLog, iterator: Any, fetcher: Any) -> None:
        """Time the fetches of an iterator that loads in this process."""
        files = self._files
        if files is None:
            return
        with files.lock:
            spool = None if files.stopped() else files.borrow(log.number)
            if spool is None:
                return
            weakref.finalize(fetcher, files.give_back, spool).atexit = False
            timer = FetchTimer(fetcher, spool, log.number, 0, files.control, log.begin_here)
            self._timers.append(timer)

    def iterator_built(self, log: IteratorLog, iterator: Any) -> None:
        log.in_hands_of_torch = False
        files = self._files
        if files is None:
            return
        with files.lock:
            if not files.stopped():  # else it ended while this iterator was built, in a thread
                self._note_workers(files, log, iterator)
                log.begin_first_round()

    def begin_span(self, name: str, at: int) -> Place | None:
        if self._files is None:
            return None
        place = self._files.write_span(at, 0, 0, 0, *pack_text(name))
        self._mark(place, Span.DEVICE_START)
        return place

    def end_span(self, begun: Place | None, at: int) -> None:
        if begun is not None and self._files is not None:
            block, start = begun
            block[start + Span.END] = at
            self._mark(begun, Span.DEVICE_END)

    def _mark(self, place: Place | None, word: int) -> None:
        if place is not None and self._device is not None:
            try:
                self._device.mark(place[0], place[1] + word)
            except Exception as error:
                self.fail(error)

    def fail(self, error: Exception) -> None:
        if self._files is not None:
            self._files.fail(error)

    def forget(self) -> None:
        self._forgotten = True
        for _, log in self._watched:
            log.forget()
        for timer in self._timers:
            timer.forget()
        if self._files is not None:
            self._files.forget()

    def _watch(
        self, files: Files, loader: DataLoader[Any], iterator: Any, *, adopted: bool = False
    ) -> IteratorLog:
        self._watched = [each for each in self._watched if each[0]() is not None]
        self._timers = [each for each in self._timers if not each.is_over()]
        which = self._number_of(files, loader)
        log = IteratorLog(
            files,
            lambda: next(self._epochs[which]),
            next(self._iterator_numbers),
            self._device,
        )
        files.write(Tag.ITERATOR, log.number, which, now(), adopted)
        watch(iterator, log)
        self._watched.append((weakref.ref(iterator), log))
        return log

    def _note_workers(self, files: Files, log: IteratorLog, iterator: Any) -> None:
        workers = iterator._workers if iterator._num_workers else ()
        if workers:  # starting them has looked at all others too (multiprocessing/process.py)
            self._note_exits(files)
        for worker, process in enumerate(workers):
            files.write(Tag.WORKER, log.number, worker, process.pid)
            self._processes.append((log.number, worker, process))

    def _adopt_running(self, files: Files, loader: DataLoader[Any]) -> None:
        """Persistent workers that were started before the recording: seen from outside only."""
        iterator: Any = loader._iterator
        if iterator is None or loader.num_workers == 0:
            return
        warnings.warn(
            "the workers of this DataLoader (persistent_workers=True) were started before the "
            "recording: their samples are not seen. Begin the recording before the first epoch.",
            stacklevel=3,
        )
        log = self._watch(files, loader, iterator, adopted=True)
        self._note_workers(files, log, iterator)
        log.adopt(
            [
                (task, info[0])
                for task, info in iterator._task_info.items()
                if len(info) == 2 or iterator._workers_status[info[0]]  # else its stream has ended
            ]
        )

    def _number_of(self, files: Files, loader: DataLoader[Any]) -> int:
        for number, own in enumerate(self._loaders):
            if own is loader:
                return number
        self._loaders.append(loader)
        files.add_loader(describe(loader))
        return len(self._loaders) - 1


def _let_go(reference: weakref.ref[Any], log: IteratorLog, at: int) -> None:
    iterator = reference()
    if iterator is not None:
        try:
            log.release(at)
        finally:
            unwatch(iterator, log)


def _guarded(files: Files, act: Callable[[], None]) -> None:
    try:
        act()
    except Exception as error:
        files.fail(error)
