"""A running recording, as ``dataloader_hooks.py`` sees it: what it watches, and what it writes."""

from __future__ import annotations

import functools
import itertools
import threading
import warnings
import weakref
from typing import Any

from torch.utils.data import DataLoader

from loaderviz.clocks.process_clock import now
from loaderviz.loaders.describe_loader import describe, describe_foreign
from loaderviz.record_layout import Span, Tag, pack_text
from loaderviz.recorder import class_hooks, dataloader_hooks, foreign_hooks
from loaderviz.recorder.device_events import Device
from loaderviz.recorder.foreign_log import ForeignLog
from loaderviz.recorder.iterator_log import IteratorLog
from loaderviz.recorder.line_log import LineLog
from loaderviz.recorder.loader_numbers import LoaderNumbers
from loaderviz.recorder.recorded_iterator import unwatch, watch
from loaderviz.recorder.recording_files import RecordingFiles, RecordPlace
from loaderviz.recorder.timed_fetch import FetchTimer, ProcessMemory
from loaderviz.recorder.user_frames import source_line
from loaderviz.recorder.worker_process import WorkerHook, worker_file

_TORCH_ITER = DataLoader.__iter__


class Watcher:
    """Watches loaders, or with ``every_loader`` all that are iterated, until ``stop``."""

    def __init__(
        self,
        files: RecordingFiles,
        loaders: list[DataLoader[Any]],
        foreign: list[Any],
        *,
        every_loader: bool,
        tell_of_early_workers: bool,
        loop_thread: int,
        lines: bool = False,
    ) -> None:
        self.files = files
        self.forgotten = False  # in a forked process: the files are the parent's
        self._loaders = LoaderNumbers(loaders)
        self._lineless = set(range(len(loaders))) if len(loaders) > 1 else set[int]()
        self._every_loader = every_loader
        self._tell_of_early_workers = tell_of_early_workers
        self._wants_lines = lines
        self._lines: LineLog | None = None  # of this process
        self._loop_thread = loop_thread  # another one that asks a DataLoader reads ahead
        self._classes = {type(loader) for loader in loaders}
        self._foreign = LoaderNumbers(foreign)  # loaders that are none of torch's
        self._foreign_classes = {type(loader) for loader in foreign}
        self._foreign_classes |= {cls for cls in self._classes if cls.__iter__ is not _TORCH_ITER}
        if every_loader:
            self._classes |= dataloader_hooks.every_class()
            self._foreign_classes |= dataloader_hooks.every_class("__iter__") - {DataLoader}
        self._foreign_logs: dict[int, ForeignLog] = {}  # the last one, by number in _foreign
        self._earlier_foreign_logs: list[ForeignLog] = []  # of iterators that went on beside it
        self._hand_over: dict[int | None, Any] = {}  # by number in _foreign: see _loop_side_of
        self.inside = threading.local()
        self._device = Device.find()
        self._iterator_numbers = itertools.count()
        self._watched: list[tuple[weakref.ref[Any], IteratorLog]] = []
        self._timers: list[FetchTimer] = []
        self._memory = ProcessMemory()
        self._processes: list[tuple[int, int, Any]] = []

    def start(self) -> None:
        """Watch from now on, also the persistent workers that run already."""
        if self._wants_lines:
            self._lines = self.files.log_lines()
        hooks = dataloader_hooks.hooks_of(self._classes)
        class_hooks.attach(self, {**hooks, **foreign_hooks.hooks_of(self._foreign_classes)})
        for loader in self._loaders.living():
            self._adopt_running(loader)

    def add_class(self, cls: type) -> None:
        """Watch the loaders of a further class, which was made after the start."""
        foreign = {cls} if "__iter__" in vars(cls) else set[type]()
        hooks = dataloader_hooks.hooks_of({cls})
        class_hooks.attach(self, {**hooks, **foreign_hooks.hooks_of(foreign)})

    def stop(self, at_ns: int) -> None:
        """Let go of everything, and write what is known at the end.

        Where an exception from outside has interrupted it, calling it again does the rest; where
        one came after it, as when a worker dies at last, that one's end is written.
        """
        with self.files.lock:
            class_hooks.detach(self)
            guarded = functools.partial(class_hooks.call_guarded, self)
            for reference, log in self._watched:
                guarded(_release_and_unwatch, reference, log, at_ns)
            for timer in self._timers:
                guarded(timer.detach)
            for foreign_log in (*self._earlier_foreign_logs, *self._foreign_logs.values()):
                guarded(foreign_log.leave)
            if self._lines is not None:
                guarded(self._lines.stop)
            guarded(self._finish_device)
            guarded(self._note_exits)
            guarded(self.files.finish, at_ns)
        self._timers.clear()
        self._watched.clear()
        self._foreign_logs.clear()
        self._earlier_foreign_logs.clear()

    def _finish_device(self) -> None:
        if self._device is not None:
            self._device.finish()

    def _note_exits(self) -> None:
        """Write down how workers ended, and let go of those that have: each holds open files."""
        for each in list(self._processes):
            number, worker, process = each
            if process.exitcode is not None:
                self.files.write(Tag.EXIT, number, worker, process.exitcode)
                self._processes.remove(each)
                self.files.archive_worker(
                    worker_file(self.files.folder, number, worker, process.pid)
                )

    # What dataloader_hooks.py and foreign_hooks.py ask and tell; times are in ns.

    def wants(self, loader: DataLoader[Any]) -> bool:
        """Whether the loader is one to record, and the recording still runs."""
        if self.files.is_stopped():
            return False
        return self._every_loader or self._loaders.number_of(loader) is not None

    def iterator_begun(self, loader: DataLoader[Any], iterator: Any) -> IteratorLog | None:
        """Watch an iterator that is being built; None where the recording has ended."""
        with self.files.lock:
            if self.files.is_stopped():
                return None
            paid_bytes = self.files.pay_for_workers(loader.num_workers)
            log = self._watch(loader, iterator)
            log.being_built = True
            log.paid_bytes = paid_bytes
            return log

    def make_worker_hook(self, log: IteratorLog, user_init: Any) -> WorkerHook:
        """The ``worker_init_fn`` of the iterator's workers, which also calls the user's."""
        files = self.files
        return WorkerHook(
            user_init,
            files.folder,
            log.number,
            log.paid_bytes,
            answers=files.workers_answer(),
            lines=self._wants_lines,
        )

    def fetcher_made(self, log: IteratorLog, iterator: Any, fetcher: Any) -> None:
        """Time the fetches of an iterator that loads in this process."""
        files = self.files
        with files.lock:
            spool = None if files.is_stopped() else files.borrow_spool(log.number)
            if spool is None:
                return
            timer = FetchTimer(
                fetcher, spool, log.number, 0, files.control, self._memory, log, lines=self._lines
            )
            self._timers.append(timer)

    def iterator_built(self, log: IteratorLog, iterator: Any) -> None:
        """Write down the workers of an iterator that is complete."""
        log.being_built = False
        with self.files.lock:
            if not self.files.is_stopped():  # else it ended meanwhile, in another thread
                self._note_workers(log, iterator)
                log.begin_first_round()

    def foreign_begun(self, loader: Any, at_ns: int) -> ForeignLog | None:
        """Where to log an iterator that is not of torch's kind; None for nowhere."""
        if self.files.is_stopped() or self.inside.__dict__.get("taking"):
            return None
        number = self._foreign.number_of(loader)
        if number is None:
            if not issubclass(type(loader), DataLoader) or not self.wants(loader):
                return None
            number = self._foreign.add(loader)
        before = self._foreign_logs.get(number)
        if before is not None:
            self._earlier_foreign_logs.append(before)
            if hasattr(type(loader), "__next__"):
                before.leave()
        self._leave_ended()
        muted = before is not None and before.muted
        log = ForeignLog(self, weakref.ref(loader), at_ns, muted=muted)
        self._foreign_logs[number] = log
        return log

    def _leave_ended(self) -> None:
        """Be done with the iterators that are gone, and have others after them."""
        logs, self._earlier_foreign_logs = self._earlier_foreign_logs, []
        for log in logs:
            if log.has_ended():
                log.leave()
            else:
                self._earlier_foreign_logs.append(log)

    def foreign_log(self, loader: Any) -> ForeignLog | None:
        """Where the iteration of a loader that is its own iterator is logged; None for nowhere."""
        number = self._foreign.number_of(loader)
        if number is None:
            return None
        return self._foreign_logs.get(number) or self.foreign_begun(loader, now())

    def begin_foreign_epoch(self, loader: Any) -> IteratorLog:
        """Begin to log an epoch of a loader that is none of torch's, of which no worker is seen."""
        asked = self._loop_side_of(loader)
        loader_number = self._number_of(asked, describe_foreign(loader))
        epochs = self._loaders.epochs_of(asked)
        log = IteratorLog(
            self.files,
            functools.partial(next, epochs),
            next(self._iterator_numbers),
            loader_number,
            self._device,
            self._loop_thread if issubclass(type(loader), DataLoader) else None,
        )
        self.files.write(Tag.ITERATOR, log.number, loader_number, now(), True)
        log.begin_first_round()
        return log

    def _loop_side_of(self, loader: Any) -> Any:
        """What the loop asks, to be numbered: the loader itself.

        For a DataLoader whose own thread asks torch's iterator, something in its place: its number
        is that of what is made.
        """
        number = self._loaders.number_of(loader)
        if any(log.loader == number and log.is_read_ahead for _, log in self._watched):
            return self._hand_over.setdefault(self._foreign.number_of(loader), _HandOver())
        return loader

    def torch_was_asked(self, since_ns: int, *, or_begun: bool) -> bool:
        """Whether this thread has asked a DataLoader since then; ``or_begun``: or is about to."""
        thread = threading.get_ident()
        return any(
            log.was_asked_by(thread, since_ns) or (or_begun and log.waits_for(thread, since_ns))
            for _, log in self._watched
        )

    def note_who_hands_over(self, iterator: int, since_ns: int) -> None:
        """The loop asks this foreign iterator: it hands over what threads have read since then."""
        for _, log in self._watched:
            if log.is_read_ahead and log.was_begun_since(since_ns):
                log.note_who_hands_over(iterator)

    def begin_span(self, name: str, at_ns: int) -> RecordPlace | None:
        """Write down a span of the user's; returns where, None where it is left out."""
        place = self.files.write_span(at_ns, 0, 0, 0, *pack_text(name))
        self._mark_device(place, Span.DEVICE_START)
        return place

    def end_span(self, begun_span: RecordPlace | None, at_ns: int) -> None:
        """Write down the end of a span, given where it was written."""
        if begun_span is not None:
            block, start = begun_span
            block[start + Span.END] = at_ns
            self._mark_device(begun_span, Span.DEVICE_END)

    def _mark_device(self, place: RecordPlace | None, word: int) -> None:
        if place is not None and self._device is not None:
            self._device.mark(place[0], place[1] + word)

    def fail(self, error: Exception) -> None:
        """End the recording, because the recorder failed."""
        self.files.fail(error)

    def forget(self) -> None:
        """Write nothing more: in a forked process the recording is the parent's."""
        self.forgotten = True
        for _, log in self._watched:
            log.forget()
        for timer in self._timers:
            timer.forget()
        self.files.forget()

    def _watch(
        self, loader: DataLoader[Any], iterator: Any, *, adopted: bool = False
    ) -> IteratorLog:
        self.let_go()
        loader_number = self._number_of(loader)
        if loader_number in self._lineless and not adopted:
            self._lineless.remove(loader_number)
            self.files.add_to_loader(loader_number, iterated_at=source_line())
        log = IteratorLog(
            self.files,
            functools.partial(next, self._loaders.epochs_of(loader)),
            next(self._iterator_numbers),
            loader_number,
            self._device,
            self._loop_thread,
        )
        log.lines = self._lines
        self.files.write(Tag.ITERATOR, log.number, loader_number, now(), adopted)
        watch(iterator, log)
        self._watched.append((weakref.ref(iterator, log.note_end), log))
        return log

    def let_go(self) -> None:
        """Be done with the iterators that are gone."""
        with self.files.lock:
            watched, timers = self._watched, self._timers
            self._watched = [each for each in watched if each[0]() is not None]
            self._timers = [timer for timer in timers if not timer.fetcher_is_gone()]
            for reference, log in watched:
                if reference() is None:
                    log.note_gone()
            for timer in timers:
                if timer.fetcher_is_gone():
                    self.files.return_spool(timer.spool)

    def _note_workers(self, log: IteratorLog, iterator: Any) -> None:
        workers = iterator._workers if iterator._num_workers else ()
        if workers:  # starting them has polled all others too (multiprocessing/process.py)
            self._note_exits()
        for worker, process in enumerate(workers):
            if self.files.write(Tag.WORKER, log.number, worker, process.pid) is not None:
                self._processes.append((log.number, worker, process))

    def _adopt_running(self, loader: DataLoader[Any]) -> None:
        """Watch workers that were started before the recording and stay, from outside only.

        torchdata's StatefulDataLoader holds each iterator until the next, and begins with the one
        that it has made to answer ``state_dict()``.
        """
        iterator: Any = loader._iterator
        stays = loader.persistent_workers or getattr(loader, "_initial_iter_for_state_dict", False)
        if iterator is None or loader.num_workers == 0 or not stays:
            return
        if self._tell_of_early_workers:
            why = " (persistent_workers=True)" if loader.persistent_workers else ""
            warnings.warn(
                f"the workers of this DataLoader{why} were started before the recording: their "
                "samples are not seen. Begin the recording before the first epoch.",
                stacklevel=4,
            )
        log = self._watch(loader, iterator, adopted=True)
        self._note_workers(log, iterator)
        log.adopt_tasks(
            [
                (task, info[0])
                for task, info in iterator._task_info.items()
                if len(info) == 2 or iterator._workers_status[info[0]]  # else its stream has ended
            ]
        )

    def _number_of(self, loader: Any, description: dict[str, Any] | None = None) -> int:
        number = self._loaders.number_of(loader)
        if number is None:
            description = description or describe(loader)
            self.files.add_loader({**description, "iterated_at": source_line()})
            number = self._loaders.add(loader)
        return number


class _HandOver:
    """Stands for what a DataLoader with a thread of its own hands to the loop."""


def _release_and_unwatch(reference: weakref.ref[Any], log: IteratorLog, at_ns: int) -> None:
    iterator = reference()
    if iterator is None:
        log.note_gone()
    else:
        try:
            log.note_released(at_ns)
        finally:
            unwatch(iterator, log)
