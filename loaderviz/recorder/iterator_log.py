"""What one recording writes of one iterator: the life of each of its batches."""

from __future__ import annotations

import functools
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

from loaderviz.clocks.process_clock import now
from loaderviz.record_layout import (
    MAIN_PROCESS,
    NOBODY,
    Batch,
    KeyKind,
    Tag,
    Task,
    batch_and_task_layout,
)
from loaderviz.recorder.batch_samples import n_samples_of_item
from loaderviz.recorder.control_page import ASKED
from loaderviz.recorder.device_events import Device
from loaderviz.recorder.line_log import LineLog
from loaderviz.recorder.recording_files import RecordingFiles, RecordPlace
from loaderviz.recorder.user_frames import is_cycled
from loaderviz.spool import NoIntegersError, NoRoomError, Spool


class IteratorLog:
    """Writes down the life of one iterator's batches, for one recording; times are in ns.

    No worker takes another's task and each works through its queue in order (torch/utils/data/
    dataloader.py, ``_try_put_index``), so what a worker delivers next is always the oldest of its
    tasks: tasks need no mark of their own on the way.

    A batch that is delivered while the iterator is ``being_built`` does not reach the loop: a
    StatefulDataLoader then takes batches itself, to get to where it was
    (torchdata/stateful_dataloader).
    """

    def __init__(
        self,
        files: RecordingFiles,
        next_epoch: Callable[[], int],
        number: int,
        loader: int,
        device: Device | None = None,
        loop_thread: int | None = None,
    ) -> None:
        self.number, self.loader = number, loader  # of the iterator, and of its loader
        self.is_read_ahead = False  # by another thread than ``loop_thread``, where that is given
        self.handed_over_by = NOBODY  # the iterator that the loop has its batches from instead
        self.lines: LineLog | None = None  # of this process
        self._loop_thread = loop_thread
        self.being_built = False
        self.paid_bytes = 0  # taken from the budget for each of its workers' files
        self._files = files
        self._next_epoch = next_epoch
        self._device = device
        self._round = -1
        self._round_begun_ns = self._round_begun_by = 0  # when, and by which thread
        self._epoch = -1  # of its loader
        self._n_tasks_here = 0  # num_workers=0
        self._in_one_step = True  # so far: see begin_with_fetch
        self._held: RecordPlace | None = None  # the batch being handed over, or that the loop has
        self._requested_ns = self._requested_by = 0  # when, and by which thread
        self._pending: defaultdict[int, deque[RecordPlace | None]] = defaultdict(deque)
        self._unpinned: dict[int, RecordPlace] | None = None  # by task, where a thread pins
        self._adopted_tasks: list[tuple[int, int]] = []
        self._is_lost = False
        self._left_ns = (0, 0)  # when the loop left the iterator, and when its workers had ended
        self._ended_ns: list[int] = []
        # To be called when the iterator goes. Without a line of Python: what a signal handler
        # raises in a finalizer gets nowhere (docs.python.org, ``object.__del__``).
        self.note_end = functools.partial(next, map(self._ended_ns.append, iter(now, None)))

    def adopt_tasks(self, tasks: list[tuple[int, int]]) -> None:
        """Know the tasks, each with its worker, of an epoch that was running at the start.

        It counts as an epoch once the loop asks for more of it.
        """
        self._adopted_tasks = tasks

    def begin_round(self) -> None:
        """The iterator begins an epoch: the first, or with persistent workers a further one."""
        self.note_released(now())
        if self._is_lost:
            return
        self._pending.clear()
        if self._unpinned is not None:
            self._unpinned.clear()
        self._round += 1
        self._round_begun_ns, self._round_begun_by = now(), get_ident()
        self._epoch = self._next_epoch()
        self._files.write(Tag.EPOCH, self.number, self._round, self._epoch, self._round_begun_ns)

    def begin_first_round(self) -> None:
        """Begin the first epoch, unless starting the iterator's workers has begun it."""
        if self._round < 0:
            self.begin_round()

    def note_dispatched(
        self, task: int, worker: int, drawing_ns: int, at_ns: int, n_samples: int
    ) -> None:
        """A task has been given to a worker, whose keys the sampler was asked for before that."""
        if self._is_lost:
            self._tell_of_loss()
            return
        record = Batch.N_WORDS, Tag.BATCH, self.number, self._round, task, worker, at_ns, drawing_ns
        place = self._files.write_batch(n_samples, record)
        self._pending[worker].append(place)
        if place is not None and self._unpinned is not None:
            self._unpinned[task] = place

    def begin_here(self, at_ns: int, n_samples: int) -> RecordPlace | None:
        """With num_workers=0 a task is dispatched, fetched and delivered in one call: it begins.

        Returns the place of its record, None where it is not written down.
        """
        if self._is_lost:
            self._tell_of_loss()
            return None
        task, self._n_tasks_here = self._n_tasks_here, self._n_tasks_here + 1
        record = Batch.N_WORDS, Tag.BATCH, self.number, self._round, task, MAIN_PROCESS, at_ns, 0
        self._held = place = self._files.write_batch(n_samples, record)
        return place

    def begin_with_fetch(self, spool: Spool, at_ns: int, keys: Sequence[Any]) -> RecordPlace | None:
        """Do the same, and reserve the record of the fetch of ``keys`` after it, both in ``spool``.

        Returns the place of the fetch's record; None where two steps are needed, as ``begin_here``
        has to tell of a limit or a loss, or ``keys`` are no integers.
        """
        n, files = len(keys), self._files
        if not self._in_one_step or self._is_lost or files.n_spans + n > files.max_spans:
            return None
        if at_ns >= files.next_window_ns or files.control.page[ASKED]:
            files.close_windows(at_ns)
        number, round_, task = self.number, self._round, self._n_tasks_here
        words = (
            Batch.N_WORDS, Tag.BATCH, number, round_, task, MAIN_PROCESS, at_ns, 0,
            Task.STAMPS + n + 1 + n, Tag.TASK, number, round_, at_ns, n, KeyKind.INTEGERS, *keys,
        )  # fmt: skip
        try:
            block, start = spool.pack(batch_and_task_layout(n), words)
        except NoRoomError:
            return None
        except NoIntegersError:
            self._in_one_step = False
            return None
        self._held = block, start
        self._n_tasks_here = task + 1
        files.n_spans += n  # without their lock: no other thread can come in between
        return block, start + Batch.N_WORDS

    def note_requested(self, at_ns: int) -> None:
        """The loop asks for the next batch, and so is done with the one before."""
        if self._held is not None:
            self.note_released(at_ns)
        if self._round < 0:
            self.begin_round()
            for task, worker in self._adopted_tasks:
                self.note_dispatched(task, worker, 0, 0, 0)  # when, and how many samples: unknown
        thread = get_ident()
        if thread != self._requested_by:
            self._note_who_asks(thread)
        self._requested_ns, self._requested_by = at_ns, thread

    def _note_who_asks(self, thread: int) -> None:
        """A thread asks that did not ask for the batch before."""
        if not self.is_read_ahead and thread != (self._loop_thread or thread):
            self.is_read_ahead = True
            self._files.write(Tag.READ_AHEAD, self.number, NOBODY)

    def note_who_hands_over(self, iterator: int) -> None:
        """The loop has these batches, which another thread reads ahead, from that iterator."""
        if self.handed_over_by != iterator:
            self.handed_over_by = iterator
            self._files.write(Tag.READ_AHEAD, self.number, iterator)

    def was_begun_since(self, since_ns: int) -> bool:
        """Whether the last epoch has begun since then."""
        return self._round_begun_ns >= since_ns

    def was_asked_by(self, thread: int, since_ns: int) -> bool:
        """Whether this thread was the last to ask for a batch, and has done so since then."""
        return self._requested_by == thread and self._requested_ns >= since_ns

    def waits_for(self, thread: int, since_ns: int) -> bool:
        """Whether this thread has begun an epoch since then, and nobody has asked for a batch."""
        begun = self._round_begun_by == thread and self._round_begun_ns >= since_ns
        return begun and self._requested_ns < self._round_begun_ns

    def expect_pins(self) -> None:
        """From now on a thread pins the batches: ``note_pinned`` will be called for each."""
        self._unpinned = {}

    def note_pinned(self, task: int, at_ns: int) -> None:
        """The batch has been pinned; the pin thread calls this."""
        place = self._unpinned.pop(task, None) if self._unpinned is not None else None
        if place is not None:
            block, start = place
            block[start + Batch.PINNED] = at_ns

    def hold_oldest_of(self, worker: int) -> None:
        """What is being handed over, a batch or an exception, is this worker's oldest task."""
        pending = self._pending[worker]
        self._held = pending.popleft() if pending else None

    def note_delivered(self, at_ns: int) -> None:
        """The loop gets the batch that was handed over."""
        if self.being_built:
            self._held = None
        elif self._held is not None:
            block, start = self._held
            block[start + Batch.REQUESTED] = self._requested_ns
            block[start + Batch.DELIVERED] = at_ns
            if self._device is not None:
                self._device.mark(block, start + Batch.DEVICE_START)

    def count_samples(self, batch: Any) -> None:
        """A stream has delivered an item, which may be a ready-made batch."""
        more = n_samples_of_item(batch) - 1  # one was counted when it was asked for
        self._files.count_samples(more)

    def note_raised(self, at_ns: int, awaited_worker: int | None) -> None:
        """The loop gets an exception in place of the batch that was handed over, or awaited.

        Its record has the moment in RELEASED, and none in DELIVERED.
        """
        pending = self._pending.get(awaited_worker) if awaited_worker is not None else None
        place = self._held or (pending[0] if pending else None)
        if place is not None and not self.being_built:
            block, start = place
            block[start + Batch.RELEASED] = at_ns

    def drop_held(self) -> None:
        """What was handed over was an exception: the batch is not delivered."""
        self._held = None

    def note_still_waiting(self, at_ns: int) -> None:
        """The loop has asked for a batch a while ago, and goes on waiting for it."""
        if not self.is_read_ahead:
            self._files.note_still_waiting(self.loader, self._requested_ns, at_ns)

    def note_released(self, at_ns: int) -> None:
        """The loop is done with the batch that it has, if any."""
        if self._held is not None:
            block, start = self._held
            self._held = None
            block[start + Batch.RELEASED] = at_ns
            if self._device is not None:
                self._device.mark(block, start + Batch.DEVICE_END)

    def note_exhausted(self, iterator: Any) -> None:
        """An epoch has come to its end: after the first, look whether the loop replays it."""
        if self._epoch == 0 and not self._is_lost and is_cycled(iterator):
            self._files.write(Tag.CYCLED, self.number)

    def note_workers_gone(self, at_ns: int) -> None:
        """The loop has asked for a batch after the last, and torch has ended the workers first."""
        self._files.write(Tag.WORKERS_GONE, self.number, self._requested_ns, at_ns)

    def note_left(self, since_ns: int, at_ns: int) -> None:
        """The loop has let go of the iterator before its end, and torch has ended the workers.

        A finalizer may come amid anything, so that it is written later.
        """
        self._left_ns = since_ns, at_ns

    def note_gone(self) -> None:
        """The iterator is gone, and with it the loop that had its last batch."""
        if any(self._left_ns):
            left_ns, self._left_ns = self._left_ns, (0, 0)
            self._files.write(Tag.WORKERS_GONE, self.number, *left_ns)
        if self._held is not None and self._ended_ns:
            block, start = self._held
            block[start + Batch.RELEASED] = self._ended_ns[0]
        self._held = None

    def lose_track(self) -> None:
        """Write nothing more of this iterator: a task may have been sent and not noted."""
        self._is_lost = True
        self._held = None
        self._pending.clear()

    def _tell_of_loss(self) -> None:
        self._files.note_problem("an exception, as of a signal handler, interrupted the recording")

    def fail(self, error: Exception) -> None:
        """End the recording, because the recorder failed."""
        self._held = None
        self._files.fail(error)

    def forget(self) -> None:
        """Let go of the records: in a forked process they are the parent's."""
        self._held = self._device = self._unpinned = None
        self._pending.clear()
