"""When the device got to a point of its work, without waiting for it.

The loop only queues work for a GPU. An event that is queued in between is given its time by the
device itself when it gets there (torch.cuda.Event); its time is asked for once it has passed, at
the next mark or at the end of the recording, so that nothing is synchronised meanwhile.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, NamedTuple

import torch

from loaderviz.clocks.process_clock import now


class _Mark(NamedTuple):
    event: Any
    queued: int
    block: memoryview[int]
    at: int


class Device:
    """Marks in the device's current stream, resolved to times of ``process_clock``.

    Events tell the time between each other. The host tells the rest: an event cannot pass before
    it is queued, nor after it has been seen to have passed. The first bound is exact whenever the
    device has nothing to do, so that the two clocks never drift apart.
    """

    @classmethod
    def find(cls) -> Device | None:
        """None where torch has no CUDA. A device is not looked for before the loop uses one.

        To look would be to start the driver, and workers forked after that cannot use the device:
        with a recording they would fail, without it they would not (torch.cuda.is_available).
        """
        return cls() if torch.backends.cuda.is_built() else None

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[_Mark] = deque()
        self._last: tuple[Any, int] | None = None

    def mark(self, block: memoryview[int], at: int) -> None:
        """Once the device gets here, its time goes into this word."""
        cuda = torch.cuda
        if not cuda.is_initialized() or cuda.is_current_stream_capturing():
            return
        event = cuda.Event(enable_timing=True)
        with self._lock:
            queued = now()
            event.record()
            self._waiting.append(_Mark(event, queued, block, at))
            while self._waiting and self._waiting[0].event.query():
                self._settle()

    def finish(self) -> None:
        """Wait for what is still under way: the loop is over."""
        with self._lock:
            while self._waiting:
                self._waiting[0].event.synchronize()
                self._settle()

    def _settle(self) -> None:
        mark = self._waiting.popleft()
        time = mark.queued
        if self._last is not None and self._last[0].device == mark.event.device:
            event, last = self._last
            time = max(time, last + round(event.elapsed_time(mark.event) * 1e6))
        time = min(time, now())
        mark.block[mark.at] = time
        self._last = mark.event, time
