"""What the main process sees of one iterator: batches dispatched, asked for, delivered, released.

A recorded iterator keeps its object, its attributes and its ``isinstance`` answers; only its class
becomes a subclass of the one it had, and gets back the old one when the recording ends.
"""

from __future__ import annotations

import functools
from collections import defaultdict, deque
from collections.abc import Callable
from queue import Queue
from typing import Any

from loaderviz.clock import now
from loaderviz.recorder.device import Device
from loaderviz.recorder.files import Files, Place
from loaderviz.recorder.unseen import is_ours, unseen
from loaderviz.records import MAIN_PROCESS, Batch, Tag

_LOGS = "_loaderviz_logs"
_DRAWN = "_loaderviz_drawn"  # when the index list of the next task was drawn, and of how many
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

    def begin_here(self, at: int, n_samples: int) -> None:
        """num_workers=0: a task is dispatched, fetched and delivered in one call."""
        task, self._n_here = self._n_here, self._n_here + 1
        self._held = self._files.write_batch(
            n_samples, self.number, self._round, task, MAIN_PROCESS, at, *LATER
        )

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


class _Recorded:
    """Mixed into the class of an iterator; the methods that torch's own code calls."""

    def _next_data(self) -> Any:
        logs = _logs(self)
        requested = now()
        try:
            for log in logs:
                log.request(requested)
        except Exception as error:
            _fail(logs, error)
        try:
            data = super()._next_data()  # type: ignore[misc]
        except BaseException as error:
            for log in logs:
                log.lose()
            unseen(error)
            raise
        delivered = now()
        try:
            for log in logs:
                log.deliver(delivered)
        except Exception as error:
            _fail(logs, error)
        return data

    def __del__(self) -> None:
        at = now()
        logs = _logs(self)
        try:
            for log in logs:
                log.release(at)
        except Exception as error:
            _fail(logs, error)
        end = getattr(super(), "__del__", None)
        if end is not None:
            end()


class _RecordedMulti(_Recorded):
    _auto_collation: bool
    _send_idx: int
    _task_info: dict[Any, tuple[Any, ...]]

    def _next_index(self) -> Any:
        index = super()._next_index()  # type: ignore[misc]
        self.__dict__[_DRAWN] = now(), _count(index) if self._auto_collation else 1
        return index

    def _try_put_index(self) -> None:
        logs = _logs(self)
        task: Any = getattr(self, "_send_idx", None)
        super()._try_put_index()  # type: ignore[misc]
        try:
            if self._send_idx != task:  # else the sampler has no more, or all workers have ended
                worker = self._task_info[task][0]
                for log in logs:
                    log.dispatch(task, worker, *self.__dict__[_DRAWN])
        except Exception as error:
            _fail(logs, error)

    def _process_data(self, data: Any, worker: int, *rest: Any) -> Any:
        logs = _logs(self)
        try:
            for log in logs:
                log.take_from(worker)
        except Exception as error:
            _fail(logs, error)
        return super()._process_data(data, worker, *rest)  # type: ignore[misc]

    def _reset(self, loader: Any, *args: Any, **kwargs: Any) -> None:
        logs = _logs(self)
        try:
            for log in logs:
                log.begin_round()
        except Exception as error:
            _fail(logs, error)
        super()._reset(loader, *args, **kwargs)  # type: ignore[misc]


def _count(index: Any) -> int:
    """How many samples an index list asks for; 1 where it does not say."""
    try:
        return len(index)
    except Exception:
        return 1


def _fail(logs: list[IteratorLog], error: Exception) -> None:
    if not is_ours(error):
        raise error
    for log in logs:
        log.fail(error)


def _logs(iterator: Any) -> list[IteratorLog]:
    logs: list[IteratorLog] = iterator.__dict__.get(_LOGS, [])
    return logs


@functools.cache
def _recorded_class(plain: type) -> type:
    mixin = _RecordedMulti if hasattr(plain, "_try_put_index") else _Recorded
    names = {"__module__": plain.__module__, "__qualname__": plain.__qualname__}
    return type(plain.__name__, (mixin, plain), names)


def watch(iterator: Any, log: IteratorLog) -> None:
    """From now on this iterator's batches are written to ``log``."""
    logs = iterator.__dict__.setdefault(_LOGS, [])
    if not logs:
        plain: Any = type(iterator)
        iterator.__class__ = _recorded_class(plain)
    logs.append(log)


def unwatch(iterator: Any, log: IteratorLog) -> None:
    """The iterator as it was, once no recording watches it."""
    logs = _logs(iterator)
    if log in logs:
        logs.remove(log)
    if not logs and issubclass(type(iterator), _Recorded):
        iterator.__class__ = type(iterator).__bases__[1]  # see _recorded_class
        for name in (_LOGS, _DRAWN):
            iterator.__dict__.pop(name, None)
        queue = iterator.__dict__.get("_data_queue")
        if type(queue) is Queue:
            queue.__dict__.pop("put", None)


def time_pins(iterator: Any, queue: Any) -> None:
    """Note each batch that comes out of the pin thread, where the queue is one that it fills."""
    if type(queue) is Queue:
        for log in _logs(iterator):
            log.expect_pins()
        queue.put = _timed_put(queue.put, _logs(iterator))  # type: ignore[method-assign]


def _timed_put(put: Callable[..., None], logs: list[IteratorLog]) -> Callable[..., None]:
    """Into the queue that the pin thread fills (torch/utils/data/_utils/pin_memory.py)."""

    def timed_put(item: Any, *args: Any, **kwargs: Any) -> None:
        at = now()
        try:
            for log in list(logs):
                log.pin(item[0], at)
        except Exception as error:
            _fail(logs, error)
        put(item, *args, **kwargs)

    return timed_put
