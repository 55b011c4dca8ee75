"""What the main process sees of one iterator: batches dispatched, asked for, delivered, released.

A recorded iterator keeps its object, its attributes and its ``isinstance`` answers; only its class
becomes a subclass of the one it had, and gets back the old one when the recording ends.
"""

from __future__ import annotations

import functools
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any

from loaderviz.clock import now
from loaderviz.recorder.files import MAIN_PROCESS
from loaderviz.records import Batch, Tag

_LOGS = "_loaderviz_logs"
LATER = (0, 0, 0)  # requested, delivered, released

Place = tuple["memoryview[int]", int]  # of a record: its block, and where in it it begins
Write = Callable[..., Place | None]


class IteratorLog:
    """Writes down the life of one iterator's batches, for one recording.

    No worker takes another's task and each works through its queue in order (torch/utils/data/
    dataloader.py, ``_try_put_index``), so what a worker delivers next is always the oldest of its
    tasks: tasks need no mark of their own on the way.
    """

    def __init__(self, write: Write, next_epoch: Callable[[], int], iterator: int) -> None:
        self._write = write
        self._next_epoch = next_epoch
        self._iterator = iterator
        self._round = -1
        self._held: Place | None = None
        self._requested = 0
        self._pending: defaultdict[int, deque[Place | None]] = defaultdict(deque)
        self._under_way: list[tuple[int, int]] = []

    def adopt(self, tasks: list[tuple[int, int]]) -> None:
        """Tasks, with their workers, of an epoch that was under way when the recording began.

        It counts as an epoch once the loop asks for more of it.
        """
        self._under_way = tasks

    def begin_round(self) -> None:
        self.release(now())
        self._round += 1
        self._pending.clear()
        self._write(Tag.EPOCH, self._iterator, self._round, self._next_epoch(), now())

    def dispatch(self, task: int, worker: int, at: int) -> None:
        place = self._write(Tag.BATCH, self._iterator, self._round, task, worker, at, *LATER)
        self._pending[worker].append(place)

    def request(self, at: int) -> None:
        self.release(at)
        if self._round < 0:
            self.begin_round()
            for task, worker in self._under_way:
                self.dispatch(task, worker, 0)  # when, nobody has seen
        self._requested = at

    def take_from(self, worker: int) -> None:
        """The batch now being handed over, or its exception, is this worker's."""
        self._held = self._pending[worker].popleft() if self._pending[worker] else None

    def deliver(self, at: int) -> None:
        if self._held is not None:
            block, start = self._held
            block[start + Batch.REQUESTED] = self._requested
            block[start + Batch.DELIVERED] = at

    def lose(self) -> None:
        """What was handed over was an exception: the batch is not delivered."""
        self._held = None

    def release(self, at: int) -> None:
        if self._held is not None:
            block, start = self._held
            block[start + Batch.RELEASED] = at
            self._held = None

    def forget(self) -> None:
        """In a forked process: the records are another's."""
        self._held = None
        self._pending.clear()


class _Recorded:
    """Mixed into the class of an iterator; the methods that torch's own code calls."""

    def _next_data(self) -> Any:
        logs = _logs(self)
        requested = now()
        for log in logs:
            log.request(requested)
        try:
            data = super()._next_data()  # type: ignore[misc]
        except BaseException:
            for log in logs:
                log.lose()
            raise
        delivered = now()
        for log in logs:
            log.deliver(delivered)
        return data

    def _next_index(self) -> Any:
        index = super()._next_index()  # type: ignore[misc]
        self.__dict__["_loaderviz_drawn"] = now()
        return index

    def __del__(self) -> None:
        at = now()
        for log in _logs(self):
            log.release(at)
        end = getattr(super(), "__del__", None)
        if end is not None:
            end()


class _RecordedSingle(_Recorded):
    """num_workers=0: a task is dispatched, fetched and delivered in one call."""

    def _next_index(self) -> Any:
        index = super()._next_index()
        task = self.__dict__["_loaderviz_tasks"] = self.__dict__.get("_loaderviz_tasks", -1) + 1
        for log in _logs(self):
            log.dispatch(task, MAIN_PROCESS, self.__dict__["_loaderviz_drawn"])
            log.take_from(MAIN_PROCESS)
        return index


class _RecordedMulti(_Recorded):
    _send_idx: int
    _task_info: dict[int, tuple[Any, ...]]

    def _try_put_index(self) -> None:
        task = self._send_idx
        super()._try_put_index()  # type: ignore[misc]
        if self._send_idx > task:
            worker = self._task_info[task][0]
            for log in _logs(self):
                log.dispatch(task, worker, self.__dict__["_loaderviz_drawn"])

    def _process_data(self, data: Any, worker: int, *rest: Any) -> Any:
        for log in _logs(self):
            log.take_from(worker)
        return super()._process_data(data, worker, *rest)  # type: ignore[misc]

    def _reset(self, loader: Any, *args: Any, **kwargs: Any) -> None:
        for log in _logs(self):
            log.begin_round()
        super()._reset(loader, *args, **kwargs)  # type: ignore[misc]


def _logs(iterator: Any) -> list[IteratorLog]:
    logs: list[IteratorLog] = iterator.__dict__.get(_LOGS, [])
    return logs


@functools.cache
def _recorded_class(plain: type) -> type:
    mixin = _RecordedMulti if hasattr(plain, "_try_put_index") else _RecordedSingle
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
    if not logs and isinstance(iterator, _Recorded):
        iterator.__class__ = type(iterator).__bases__[1]  # see _recorded_class
        for name in (_LOGS, "_loaderviz_drawn", "_loaderviz_tasks"):
            iterator.__dict__.pop(name, None)


class StampedSampler:
    """Stands in for the index sampler while an iterator is built and dispatches its first tasks."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler
        self.drawn: list[int] = []
        self.plain: Iterator[Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        self.plain = iter(self.sampler)
        return self

    def __next__(self) -> Any:
        assert self.plain is not None
        index = next(self.plain)
        self.drawn.append(now())
        return index

    def __len__(self) -> int:
        return len(self.sampler)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sampler, name)
