"""What one recording writes of one iteration of a loader that is none of torch's.

Its work is not seen, only what the loop waits for and what it gets. A loader that takes its batches
from a DataLoader in the loop's thread is not written down at all: that one is, with its workers.
Where another thread takes them, both are: here the loop waits, and there they are made.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from loaderviz.clocks.process_clock import now
from loaderviz.record_layout import KeyKind, State, Tag, Task
from loaderviz.recorder.batch_samples import n_samples_of
from loaderviz.recorder.class_hooks import call_guarded
from loaderviz.recorder.iterator_log import IteratorLog

if TYPE_CHECKING:
    from loaderviz.recorder.iterator_watcher import Watcher


class ForeignLog:
    """Times each ``next`` of one iteration, from when its iterator is being made."""

    def __init__(
        self, recorder: Watcher, loader: Callable[[], Any], begun_ns: int, *, muted: bool
    ) -> None:
        self.muted = muted  # it takes its batches from a DataLoader
        self._recorder = recorder
        self._loader = loader  # a weak reference
        self._begun_ns = begun_ns
        self._log: IteratorLog | None = None  # from the first batch of an epoch to its end
        self._ended_ns: list[int] = []  # when the iterator went

    def note_made(self) -> None:
        """The iterator has been made."""
        # Who asks an iterator of torch's that was begun meanwhile shows with the first batch.
        call_guarded(self._recorder, self._mute_if_torch_was_asked, self._begun_ns, False)

    def take(self, take: Callable[[], Any]) -> Any:
        """What ``take`` returns or raises: the next batch."""
        inside = self._recorder.inside.__dict__
        if self.muted or inside.get("taking") or self._recorder.files.is_stopped():
            return take()
        requested_ns = now()
        if self._log is not None:
            call_guarded(self._recorder, self._release, requested_ns)
        inside["taking"] = True
        try:
            batch = take()
        except BaseException as error:
            call_guarded(self._recorder, self._note_error, requested_ns, error)
            raise
        finally:
            inside["taking"] = False
        call_guarded(self._recorder, self._note_batch, requested_ns, now(), batch)
        return batch

    def watch_end_of(self, iterator: Any) -> None:
        """Note when it goes, without a line of Python: see ``IteratorLog.note_end``."""
        note_end: Any = functools.partial(next, map(self._ended_ns.append, iter(now, None)))
        self._iterator = weakref.ref(iterator, note_end)

    def has_ended(self) -> bool:
        """Whether the iterator is gone, or has been left."""
        return bool(self._ended_ns)

    def leave(self) -> None:
        """Write down that the loop is done with the iterator, and with the batch that it has."""
        if not self._ended_ns:
            self._ended_ns.append(now())
        if self._log is not None and not self._recorder.files.is_stopped():
            call_guarded(self._recorder, self._release, self._ended_ns[0])

    def _note_batch(self, requested_ns: int, delivered_ns: int, batch: Any) -> None:
        log = self._begin_batch(requested_ns)
        if log is not None:
            log.note_delivered(delivered_ns)
            self._write_outcome(log, State.DONE, batch)

    def _note_error(self, requested_ns: int, error: BaseException) -> None:
        if isinstance(error, StopIteration):
            self._log = None
        elif isinstance(error, Exception):  # and not Ctrl-C
            log = self._begin_batch(requested_ns)
            if log is not None:
                log.drop_held()
                self._write_outcome(log, State.RAISED)

    def _begin_batch(self, requested_ns: int) -> IteratorLog | None:
        """Write down that a batch was asked for; None where it is not to be written down."""
        self._mute_if_torch_was_asked(requested_ns, True)
        files = self._recorder.files
        with files.lock:
            if self.muted or files.is_stopped():
                return None
            if self._log is None:
                self._log = self._recorder.begin_foreign_epoch(self._loader())
            log: IteratorLog = self._log
            log.note_requested(requested_ns)
            self._recorder.note_who_hands_over(log.number, self._begun_ns)
            return log if log.begin_here(0, 0) is not None else None

    def _write_outcome(self, log: IteratorLog, state: int, batch: Any = ()) -> None:
        """Write how it ended, as a fetch of which only that is known."""
        files = self._recorder.files
        with files.lock:
            spool = None if files.is_stopped() else files.foreign_spool(log.number)
            if spool is not None:
                _, number, text = spool.measure(batch) if state == State.DONE else (0, 0, "")
                head = [0] * (Task.STAMPS + 1)
                head[Task.ITERATOR], head[Task.ROUND] = log.number, 0
                head[Task.STATE], head[Task.N_SAMPLES] = state, n_samples_of(batch) or 0
                head[Task.KEY_KIND], head[Task.SHAPES] = KeyKind.LEFT_OUT, number
                spool.write(Tag.TASK, *head[2:])
                if text:
                    spool.write_text(number, text)

    def _release(self, at_ns: int) -> None:
        if self._log is not None:
            self._log.note_released(at_ns)

    def _mute_if_torch_was_asked(self, since_ns: int, or_begun: bool) -> None:
        if self._recorder.torch_was_asked(since_ns, or_begun=or_begun):
            self.muted = True
