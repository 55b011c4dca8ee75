"""A running recording, as ``dataloader_hooks.py`` knows it: whom it watches, and what it writes."""

from __future__ import annotations

import functools
import itertools
import warnings
import weakref
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from torch.utils.data import DataLoader

from loaderviz.clocks.process_clock import now
from loaderviz.loaders.describe_loader import describe
from loaderviz.record_layout import Span, Tag, pack_text
from loaderviz.recorder import dataloader_hooks
from loaderviz.recorder.device_events import Device
from loaderviz.recorder.iterator_log import IteratorLog
from loaderviz.recorder.recorded_iterator import unwatch, watch
from loaderviz.recorder.recording_files import Files, Place
from loaderviz.recorder.timed_fetch import FetchTimer
from loaderviz.recorder.worker_process import WorkerHook


class Watcher:
    """Watches loaders, or ``every`` one that is iterated, until it is stopped."""

    def __init__(self, files: Files, loaders: list[DataLoader[Any]], *, every: bool) -> None:
        self.files = files
        self.forgotten = False  # in a forked process: the files are another's
        self._loaders = loaders
        self._every = every
        self._classes = {type(loader) for loader in loaders}
        if every:
            self._classes |= dataloader_hooks.every_class()
        self._device = Device.find()
        self._iterator_numbers = itertools.count()
        self._epochs: defaultdict[int, itertools.count[int]] = defaultdict(itertools.count)
        self._watched: list[tuple[weakref.ref[Any], IteratorLog]] = []
        self._timers: list[FetchTimer] = []
        self._processes: list[tuple[int, int, Any]] = []

    def start(self) -> None:
        dataloader_hooks.attach(self, self._classes)
        for loader in list(self._loaders):
            self._adopt_running(loader)

    def add_class(self, cls: type) -> None:
        self._classes.add(cls)
        dataloader_hooks.attach(self, {cls})

    def stop(self, at: int) -> None:
        """Let go of everything, and write what is known at the end."""
        with ExitStack() as steps:  # each is taken, the last one first, whatever becomes of others
            steps.enter_context(self.files.lock)
            acts: list[Callable[[], None]] = [
                functools.partial(self.files.finish, at),
                self._note_exits,
                self._note_device_times,
                *(timer.detach for timer in self._timers),
                *(functools.partial(_let_go, *each, at) for each in self._watched),
            ]
            for act in acts:
                steps.callback(dataloader_hooks.guarded, self, act)
            steps.callback(dataloader_hooks.detach, self, self._classes)
        # Whoever keeps the trace need not keep the loaders and their workers alive.
        for kept in (self._loaders, self._timers, self._watched, self._processes):
            kept.clear()

    def _note_device_times(self) -> None:
        if self._device is not None:
            self._device.finish()

    def _note_exits(self) -> None:
        """Write down how workers ended, and keep no more of them: each holds open files."""
        running = []
        for number, worker, process in self._processes:
            code = process.exitcode
            if code is None:
                running.append((number, worker, process))
            else:
                self.files.write(Tag.EXIT, number, worker, code)
        self._processes = running

    # What dataloader_hooks.py asks and tells (its Observer).

    def wants(self, loader: DataLoader[Any]) -> bool:
        if self.files.stopped():
            return False
        return self._every or any(loader is own for own in self._loaders)

    def iterator_begun(self, loader: DataLoader[Any], iterator: Any) -> IteratorLog | None:
        with self.files.lock:
            if self.files.stopped():
                return None
            paid_bytes = self.files.pay_for_workers(loader.num_workers)
            log = self._watch(loader, iterator)
            log.in_hands_of_torch = True
            log.paid_bytes = paid_bytes
            return log

    def worker_hook(self, log: IteratorLog, user_init: Any) -> WorkerHook:
        return WorkerHook(user_init, self.files.folder, log.number, log.paid_bytes)

    def fetcher_made(self, log: IteratorLog, iterator: Any, fetcher: Any) -> None:
        """Time the fetches of an iterator that loads in this process."""
        files = self.files
        with files.lock:
            spool = None if files.stopped() else files.borrow(log.number)
            if spool is None:
                return
            weakref.finalize(fetcher, files.give_back, spool).atexit = False
            timer = FetchTimer(fetcher, spool, log.number, 0, files.control, log.begin_here)
            self._timers.append(timer)

    def iterator_built(self, log: IteratorLog, iterator: Any) -> None:
        log.in_hands_of_torch = False
        with self.files.lock:
            if not self.files.stopped():  # else it ended meanwhile, in another thread
                self._note_workers(log, iterator)
                log.begin_first_round()

    def begin_span(self, name: str, at: int) -> Place | None:
        place = self.files.write_span(at, 0, 0, 0, *pack_text(name))
        self._mark(place, Span.DEVICE_START)
        return place

    def end_span(self, begun: Place | None, at: int) -> None:
        if begun is not None:
            block, start = begun
            block[start + Span.END] = at
            self._mark(begun, Span.DEVICE_END)

    def _mark(self, place: Place | None, word: int) -> None:
        if place is not None and self._device is not None:
            self._device.mark(place[0], place[1] + word)

    def fail(self, error: Exception) -> None:
        self.files.fail(error)

    def forget(self) -> None:
        self.forgotten = True
        for _, log in self._watched:
            log.forget()
        for timer in self._timers:
            timer.forget()
        self.files.forget()

    def _watch(
        self, loader: DataLoader[Any], iterator: Any, *, adopted: bool = False
    ) -> IteratorLog:
        self._watched = [each for each in self._watched if each[0]() is not None]
        self._timers = [each for each in self._timers if not each.is_over()]
        which = self._number_of(loader)
        log = IteratorLog(
            self.files,
            lambda: next(self._epochs[which]),
            next(self._iterator_numbers),
            self._device,
        )
        self.files.write(Tag.ITERATOR, log.number, which, now(), adopted)
        watch(iterator, log)
        self._watched.append((weakref.ref(iterator), log))
        return log

    def _note_workers(self, log: IteratorLog, iterator: Any) -> None:
        workers = iterator._workers if iterator._num_workers else ()
        if workers:  # starting them has looked at all others too (multiprocessing/process.py)
            self._note_exits()
        for worker, process in enumerate(workers):
            if self.files.write(Tag.WORKER, log.number, worker, process.pid) is not None:
                self._processes.append((log.number, worker, process))

    def _adopt_running(self, loader: DataLoader[Any]) -> None:
        """Persistent workers that were started before the recording: seen from outside only."""
        iterator: Any = loader._iterator
        if iterator is None or loader.num_workers == 0:
            return
        warnings.warn(
            "the workers of this DataLoader (persistent_workers=True) were started before the "
            "recording: their samples are not seen. Begin the recording before the first epoch.",
            stacklevel=4,
        )
        log = self._watch(loader, iterator, adopted=True)
        self._note_workers(log, iterator)
        log.adopt(
            [
                (task, info[0])
                for task, info in iterator._task_info.items()
                if len(info) == 2 or iterator._workers_status[info[0]]  # else its stream has ended
            ]
        )

    def _number_of(self, loader: DataLoader[Any]) -> int:
        for number, own in enumerate(self._loaders):
            if own is loader:
                return number
        self._loaders.append(loader)
        self.files.add_loader(describe(loader))
        return len(self._loaders) - 1


def _let_go(reference: weakref.ref[Any], log: IteratorLog, at: int) -> None:
    iterator = reference()
    if iterator is not None:
        try:
            log.release(at)
        finally:
            unwatch(iterator, log)
