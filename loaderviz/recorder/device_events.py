"""When the device reached a point of its work, without waiting for it.

The loop only queues work for a GPU. An event that is queued in between gets its time from the
device itself when the device reaches it (torch.cuda.Event). That time is read once the event has
passed, at the next mark or at the end of the recording, so nothing is synchronised meanwhile.

Events are used again and never freed: a worker that is forked meanwhile has them too, and it would
be ended if it freed one (~CUDAEvent asks for its device, in ATen/cuda/CUDAEvent.h; CUDA then says
"initialization error", and C++ calls terminate).
"""

from __future__ import annotations

import ctypes
import threading
from collections import defaultdict, deque
from typing import Any, NamedTuple

import torch

from loaderviz.clocks.process_clock import now
from loaderviz.own_errors import own_errors

_events: list[Any] = []  # all that were ever made; the interpreter's end does not free them either
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_events))
_spare: defaultdict[int, list[Any]] = defaultdict(list)  # those of no use now, by device


class _Mark(NamedTuple):
    event: Any
    device: int
    queued_ns: int
    block: memoryview[int]
    word: int


class Device:
    """Marks in the device's current stream, resolved to times of ``process_clock``.

    Events tell the time between each other. The host tells the rest: an event cannot pass before
    it is queued, nor before it was seen not to have passed, nor after it has been seen to have. The
    first bound is exact whenever the device is idle, and the others keep the two clocks together
    while it never is.
    """

    @classmethod
    def find(cls) -> Device | None:
        """None where torch has no CUDA. A device is not looked for before the loop uses one.

        Looking for it would start the driver, and workers that are forked after that cannot use
        the device: with a recording they would fail, without it they would not
        (torch.cuda.is_available).
        """
        return cls() if torch.backends.cuda.is_built() else None

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[_Mark] = deque()
        self._waited_ns = 0  # when the oldest of them was seen not to have passed
        self._last_passed: tuple[_Mark, int] | None = None  # and its time, in ns

    def mark(self, block: memoryview[int], word: int) -> None:
        """Write the time at which the device gets here into this word of ``block``, once it has."""
        cuda = torch.cuda
        if not cuda.is_initialized() or cuda.is_current_stream_capturing():
            return
        stream = cuda.current_stream()
        with self._lock:
            event = _spare_event(stream)
            if not self._waiting and self._last_passed is None:
                event.record(stream)  # the first takes long where a profiler has just begun
            queued_ns = now()
            event.record(stream)
            self._waiting.append(_Mark(event, stream.device_index, queued_ns, block, word))
            while self._waiting and self._oldest_has_passed():
                self._settle_oldest()

    def finish(self) -> None:
        """Wait for the marks that have not passed yet: the loop is over."""
        with self._lock:
            while self._waiting:
                if not self._oldest_has_passed():
                    self._waiting[0].event.synchronize()
                self._settle_oldest()
            self._replace_last(None)

    def _oldest_has_passed(self) -> bool:
        asked_ns = now()
        if self._waiting[0].event.query():
            return True
        self._waited_ns = asked_ns
        return False

    def _settle_oldest(self) -> None:
        mark = self._waiting.popleft()
        passed_ns = max(mark.queued_ns, self._waited_ns)
        self._waited_ns = 0
        if self._last_passed is not None and self._last_passed[0].device == mark.device:
            last, last_ns = self._last_passed
            passed_ns = max(passed_ns, last_ns + round(last.event.elapsed_time(mark.event) * 1e6))
        passed_ns = min(passed_ns, now())
        mark.block[mark.word] = passed_ns
        self._replace_last((mark, passed_ns))

    def _replace_last(self, passed: tuple[_Mark, int] | None) -> None:
        if self._last_passed is not None:
            last = self._last_passed[0]
            _spare[last.device].append(last.event)
        self._last_passed = passed


def _spare_event(stream: Any) -> Any:
    """An event that can be queued at once. A new one is only made when it is queued first."""
    try:
        return _spare[stream.device_index].pop()
    except own_errors(IndexError):
        event = torch.cuda.Event(enable_timing=True)
        _events.append(event)
        event.record(stream)
        return event
