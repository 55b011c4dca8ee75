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
from loaderviz.own_errors import own_errors
from loaderviz.record_layout import Phase
from loaderviz.recorder.iterator_log import IteratorLog
from loaderviz.recorder.user_frames import hide_recorder_frames

_LOGS = "_loaderviz_logs"
_DRAWN = "_loaderviz_drawn"  # from when to when the next index list was drawn, and its length


class _Recorded:
    """Mixed into the class of an iterator: the methods that torch's own code calls."""

    _auto_collation: bool
    _dataset_kind: int
    _loaderviz_original: Any  # the class that the iterator had

    def _next_data(self) -> Any:
        logs: list[IteratorLog] = self.__dict__[_LOGS]
        try:
            # Not by ``_note``, for the sake of small batches.
            requested_ns = now()
            try:
                for log in logs:
                    log.note_requested(requested_ns)
            except BaseException as error:
                if not _end(logs, error):
                    raise
            data = self._loaderviz_original._next_data(self)  # takes less time than super()
            delivered_ns = now()
            try:
                for log in logs:
                    log.note_delivered(delivered_ns)
            except BaseException as error:
                if not _end(logs, error):
                    raise
        except BaseException as error:
            if isinstance(error, Exception) and not isinstance(error, StopIteration):
                _note(logs, IteratorLog.note_raised, now(), _awaited_worker(self))
            elif isinstance(error, StopIteration):
                if _has_no_workers_left(self):
                    _note(logs, IteratorLog.note_workers_gone, now())
                _note(logs, IteratorLog.note_exhausted, self)
            for log in logs:
                log.drop_held()
            hide_recorder_frames(error)
            raise
        if not self._auto_collation and self._dataset_kind == _DatasetKind.Iterable:
            _note(logs, IteratorLog.count_samples, data)
        return data

    def _next_index(self) -> Any:
        draw = self._loaderviz_original._next_index
        for log in self.__dict__[_LOGS]:
            if log.lines is not None:
                return log.lines.look_at(draw, self, iterator=log.number, phase=Phase.SAMPLER)
        return draw(self)


class _RecordedMulti(_Recorded):
    _send_idx: int
    _task_info: dict[Any, tuple[Any, ...]]

    def _next_index(self) -> Any:
        drawing_ns = now()
        index = super()._next_index()
        n_samples = _n_samples(index) if self._auto_collation else 1
        self.__dict__[_DRAWN] = drawing_ns, now(), n_samples
        return index

    def _try_put_index(self) -> None:
        task: Any = getattr(self, "_send_idx", None)
        super()._try_put_index()  # type: ignore[misc]
        _note(_logs(self), _note_dispatched, self, task)

    def _try_get_data(self, *args: Any, **kwargs: Any) -> Any:
        got = super()._try_get_data(*args, **kwargs)  # type: ignore[misc]
        if not got[0]:  # nothing for MP_STATUS_CHECK_INTERVAL: torch looks whether all workers live
            _note(_logs(self), IteratorLog.note_still_waiting, now())
        return got

    def _process_data(self, data: Any, worker: int, *args: Any) -> Any:
        _note(_logs(self), IteratorLog.hold_oldest_of, worker)
        return super()._process_data(data, worker, *args)  # type: ignore[misc]

    def _reset(self, loader: Any, *args: Any, **kwargs: Any) -> None:
        _note(_logs(self), IteratorLog.begin_round)
        super()._reset(loader, *args, **kwargs)  # type: ignore[misc]

    def __del__(self) -> None:
        had_ended, since_ns = True, 0
        try:
            had_ended, since_ns = _has_no_workers_left(self), now()
            _note(_logs(self), IteratorLog.note_released, since_ns)
        finally:
            super().__del__()  # type: ignore[misc]
        if not had_ended:
            _note(_logs(self), IteratorLog.note_left, since_ns, now())


def _n_samples(index: Any) -> int:
    """How many samples an index list asks for; 1 where it does not say."""
    try:
        return len(index)
    except own_errors(Exception, method="__len__", of=(index,)):
        return 1


def _has_no_workers_left(iterator: Any) -> bool:
    """Whether torch has ended its workers, as it does before it says that the epoch is over.

    Not where they stay for the next one (torch/utils/data/dataloader.py, ``_next_data``).
    """
    return bool(iterator.__dict__.get("_shutdown", False))


def _awaited_worker(iterator: Any) -> int | None:
    """The worker whose oldest task the loop waits for, or one of them; None where for none."""
    task = iterator.__dict__.get("_task_info", {}).get(iterator.__dict__.get("_rcvd_idx"))
    return task[0] if task else None


def _note_dispatched(log: IteratorLog, iterator: Any, task: int) -> None:
    if iterator._send_idx != task:  # else the sampler has no more, or all workers have ended
        log.note_dispatched(task, iterator._task_info[task][0], *iterator.__dict__[_DRAWN])


def _note(logs: list[IteratorLog], note: Callable[..., None], *args: Any) -> None:
    """Call ``note`` with each log and ``args``; a failure of ours ends these recordings."""
    try:
        for log in logs:
            note(log, *args)
    except BaseException as error:
        if not _end(logs, error):
            raise


def _end(logs: list[IteratorLog], error: BaseException) -> bool:
    """After an ``error`` in noting something: end these recordings; whether it was ours alone."""
    if isinstance(error, own_errors(Exception)):
        for log in logs:
            log.fail(error)
        return True
    for log in logs:  # from outside: what was noted of the epoch may lack a task
        log.lose_track()
    return False


def _logs(iterator: Any) -> list[IteratorLog]:
    logs: list[IteratorLog] = iterator.__dict__.get(_LOGS, [])
    return logs


@functools.cache
def _recorded_class(original: type) -> type:
    mixin = _RecordedMulti if hasattr(original, "_try_put_index") else _Recorded
    names = {
        "__module__": original.__module__,
        "__qualname__": original.__qualname__,
        "_loaderviz_original": original,
    }
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
        iterator.__class__ = iterator._loaderviz_original
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


def _note_pinned(log: IteratorLog, item: Any, at_ns: int) -> None:
    log.note_pinned(item[0], at_ns)


def _timed_put(put: Callable[..., None], logs: list[IteratorLog]) -> Callable[..., None]:
    """The ``put`` that the pin thread is to call (torch/utils/data/_utils/pin_memory.py)."""

    def timed_put(item: Any, *args: Any, **kwargs: Any) -> None:
        _note(list(logs), _note_pinned, item, now())
        put(item, *args, **kwargs)

    return timed_put
