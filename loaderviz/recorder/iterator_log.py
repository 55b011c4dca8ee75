"""What one recording writes of one iterator: the life of each of its batches."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable

from loaderviz.clocks.process_clock import now
from loaderviz.record_layout import MAIN_PROCESS, Batch, Tag
from loaderviz.recorder.device_events import Device
from loaderviz.recorder.recording_files import Files, Place

LATER = (0,) * (Batch.N_WORDS - Batch.PINNED)


class IteratorLog:
    """Writes down the life of one iterator's batches, for one recording.

    What is delivered ``in_hands_of_torch`` does not reach the loop: a StatefulDataLoader takes
    batches itself to get to where it was (torchdata/stateful_dataloader).

    No worker takes another's task and each works through its queue in order (torch/utils/data/
    dataloader.py, ``_try_put_index``), so what a worker delivers next is always the oldest of its
    tasks: tasks need no mark of their own on the way.
    """

    def __init__(
        self,
        files: Files,
        next_epoch: Callable[[], int],
        number: int,
        device: Device | None = None,
    ) -> None:
        self.number = number  # of the iterator
        self.in_hands_of_torch = False
        self.paid_bytes = 0  # for each of its workers' files
        self._files = files
        self._next_epoch = next_epoch
        self._device = device
        self._round = -1
        self._n_here = 0
        self._held: Place | None = None
        self._requested = 0
        self._pending: defaultdict[int, deque[Place | None]] = defaultdict(deque)
        self._unpinned: dict[int, Place] | None = None  # by task, where a thread pins
        self._under_way: list[tuple[int, int]] = []

    def adopt(self, tasks: list[tuple[int, int]]) -> None:
        """Tasks, with their workers, of an epoch that was under way when the recording began.

        It counts as an epoch once the loop asks for more of it.
        """
        self._under_way = tasks

    def begin_round(self) -> None:
        self.release(now())
        self._pending.clear()
        if self._unpinned is not None:
            self._unpinned.clear()
        self._round += 1
        self._files.write(Tag.EPOCH, self.number, self._round, self._next_epoch(), now())

    def begin_first_round(self) -> None:
        """Where building the iterator has not begun one, as it does where it starts workers."""
        if self._round < 0:
            self.begin_round()

    def dispatch(self, task: int, worker: int, at: int, n_samples: int) -> None:
        place = self._files.write_batch(
            n_samples, self.number, self._round, task, worker, at, *LATER
        )
        self._pending[worker].append(place)
        if place is not None and self._unpinned is not None:
            self._unpinned[task] = place

    def begin_here(self, at: int, n_samples: int) -> Place | None:
        """num_workers=0: a task is dispatched, fetched and delivered in one call.

        Returns where it is written down, None where it is not.
        """
        task, self._n_here = self._n_here, self._n_here + 1
        self._held = place = self._files.write_batch(
            n_samples, self.number, self._round, task, MAIN_PROCESS, at, *LATER
        )
        return place

    def request(self, at: int) -> None:
        if self._held is not None:
            self.release(at)
        if self._round < 0:
            self.begin_round()
            for task, worker in self._under_way:
                self.dispatch(task, worker, 0, 0)  # when, nobody has seen
        self._requested = at

    def expect_pins(self) -> None:
        self._unpinned = {}

    def pin(self, task: int, at: int) -> None:
        """The batch has come out of the pin thread, which calls this."""
        place = self._unpinned.pop(task, None) if self._unpinned is not None else None
        if place is not None:
            block, start = place
            block[start + Batch.PINNED] = at

    def take_from(self, worker: int) -> None:
        """The batch now being handed over, or its exception, is this worker's."""
        pending = self._pending[worker]
        self._held = pending.popleft() if pending else None

    def deliver(self, at: int) -> None:
        if self.in_hands_of_torch:
            self._held = None
        elif self._held is not None:
            block, start = self._held
            block[start + Batch.REQUESTED] = self._requested
            block[start + Batch.DELIVERED] = at
            if self._device is not None:
                self._device.mark(block, start + Batch.DEVICE_START)

    def lose(self) -> None:
        """What was handed over was an exception: the batch is not delivered."""
        self._held = None

    def release(self, at: int) -> None:
        if self._held is not None:
            block, start = self._held
            self._held = None
            block[start + Batch.RELEASED] = at
            if self._device is not None:
                self._device.mark(block, start + Batch.DEVICE_END)

    def fail(self, error: Exception) -> None:
        self._held = None
        self._files.fail(error)

    def forget(self) -> None:
        """In a forked process: the records are another's."""
        self._held = self._device = self._unpinned = None
        self._pending.clear()
