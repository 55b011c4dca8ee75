"""What the main process sees of one iterator: batches dispatched, asked for, delivered, released.

A recorded iterator keeps its identity, its attributes and its ``isinstance`` answers. Only its
class becomes a subclass of the one it had, and the old one comes back when the recording ends.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from queue import Queue
from typing import Any

from torch.utils.data.dataloader import _DatasetKind

from loaderviz.clocks.process_clock import now
from loaderviz.recorder.batch_samples import n_samples_of_item
from loaderviz.recorder.iterator_log import IteratorLog
from loaderviz.recorder.traceback_filter import hide_recorder_frames, is_recorder_error

_LOGS = "_loaderviz_logs"
_DRAWN = "_loaderviz_drawn"  # from when to when the next index list was drawn, and its length


class _Recorded:
    """Mixed into the class of an iterator: the methods that torch's own code calls."""

    _auto_collation: bool
    _dataset_kind: int

    def _next_data(self) -> Any:
        logs: list[IteratorLog] = self.__dict__[_LOGS]
        requested_ns = now()
        try:
            for log in logs:
                log.note_requested(requested_ns)
        except Exception as error:
            _fail_all(logs, error)
        try:
            data = super()._next_data()  # type: ignore[misc]
        except BaseException as error:
            for log in logs:
                log.drop_held()
            hide_recorder_frames(error)
            raise
        delivered_ns = now()
        try:
            for log in logs:
                log.note_delivered(delivered_ns)
            if not self._auto_collation and self._dataset_kind == _DatasetKind.Iterable:
                n_samples = n_samples_of_item(data)
                for log in logs:
                    log.count_samples(n_samples - 1)  # one was counted when it was asked for
        except Exception as error:
            _fail_all(logs, error)
        return data

    def __del__(self) -> None:
        at_ns = now()
        logs = _logs(self)
        try:
            for log in logs:
                log.note_released(at_ns)
        except Exception as error:
            _fail_all(logs, error)
        inherited_del = getattr(super(), "__del__", None)
        if inherited_del is not None:
            inherited_del()


class _RecordedMulti(_Recorded):
    _send_idx: int
    _task_info: dict[Any, tuple[Any, ...]]

    def _next_index(self) -> Any:
        drawing_ns = now()
        index = super()._next_index()  # type: ignore[misc]
        n_samples = _n_samples(index) if self._auto_collation else 1
        self.__dict__[_DRAWN] = drawing_ns, now(), n_samples
        return index

    def _try_put_index(self) -> None:
        logs = _logs(self)
        task: Any = getattr(self, "_send_idx", None)
        super()._try_put_index()  # type: ignore[misc]
        try:
            if self._send_idx != task:  # else the sampler has no more, or all workers have ended
                worker = self._task_info[task][0]
                for log in logs:
                    log.note_dispatched(task, worker, *self.__dict__[_DRAWN])
        except Exception as error:
            _fail_all(logs, error)

    def _process_data(self, data: Any, worker: int, *args: Any) -> Any:
        logs = _logs(self)
        try:
            for log in logs:
                log.hold_oldest_of(worker)
        except Exception as error:
            _fail_all(logs, error)
        return super()._process_data(data, worker, *args)  # type: ignore[misc]

    def _reset(self, loader: Any, *args: Any, **kwargs: Any) -> None:
        logs = _logs(self)
        try:
            for log in logs:
                log.begin_round()
        except Exception as error:
            _fail_all(logs, error)
        super()._reset(loader, *args, **kwargs)  # type: ignore[misc]


def _n_samples(index: Any) -> int:
    """How many samples an index list asks for; 1 where it does not say."""
    try:
        return len(index)
    except Exception:
        return 1


def _fail_all(logs: list[IteratorLog], error: Exception) -> None:
    if not is_recorder_error(error):
        raise error
    for log in logs:
        log.fail(error)


def _logs(iterator: Any) -> list[IteratorLog]:
    logs: list[IteratorLog] = iterator.__dict__.get(_LOGS, [])
    return logs


@functools.cache
def _recorded_class(original: type) -> type:
    mixin = _RecordedMulti if hasattr(original, "_try_put_index") else _Recorded
    names = {"__module__": original.__module__, "__qualname__": original.__qualname__}
    return type(original.__name__, (mixin, original), names)


def watch(iterator: Any, log: IteratorLog) -> None:
    """From now on write this iterator's batches to ``log``."""
    logs = iterator.__dict__.setdefault(_LOGS, [])
    if not logs:
        original: Any = type(iterator)
        iterator.__class__ = _recorded_class(original)
    logs.append(log)


def unwatch(iterator: Any, log: IteratorLog) -> None:
    """Write no more to ``log``; the iterator is as it was once no recording watches it."""
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
    """Note each batch that comes out of the pin thread, where that is what fills ``queue``."""
    if type(queue) is Queue:
        for log in _logs(iterator):
            log.expect_pins()
        queue.put = _timed_put(queue.put, _logs(iterator))  # type: ignore[method-assign]


def _timed_put(put: Callable[..., None], logs: list[IteratorLog]) -> Callable[..., None]:
    """The ``put`` that the pin thread is to call (torch/utils/data/_utils/pin_memory.py)."""

    def timed_put(item: Any, *args: Any, **kwargs: Any) -> None:
        at_ns = now()
        try:
            for log in list(logs):
                log.note_pinned(item[0], at_ns)
        except Exception as error:
            _fail_all(logs, error)
        put(item, *args, **kwargs)

    return timed_put
