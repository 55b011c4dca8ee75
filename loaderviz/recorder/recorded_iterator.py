"""What the main process sees of one iterator: batches dispatched, asked for, delivered, released.

A recorded iterator keeps its object, its attributes and its ``isinstance`` answers; only its class
becomes a subclass of the one it had, and gets back the old one when the recording ends.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from queue import Queue
from typing import Any

from loaderviz.clocks.process_clock import now
from loaderviz.recorder.iterator_log import IteratorLog
from loaderviz.recorder.traceback_filter import is_ours, unseen

_LOGS = "_loaderviz_logs"
_DRAWN = "_loaderviz_drawn"  # when the index list of the next task was drawn, and of how many


class _Recorded:
    """Mixed into the class of an iterator; the methods that torch's own code calls."""

    def _next_data(self) -> Any:
        logs: list[IteratorLog] = self.__dict__[_LOGS]
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
