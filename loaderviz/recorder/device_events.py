"""When the device reached a point of its work, without waiting for it.

The loop only queues work for a GPU. An event that is queued in between gets its time from the
device itself when the device reaches it (torch.cuda.Event). That time is read once the event has
passed, at the next mark or at the end of the recording, so nothing is synchronised meanwhile.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, NamedTuple

import torch

from loaderviz.clocks.process_clock import now


class _Mark(NamedTuple):
    event: Any
    queued_ns: int
    block: memoryview[int]
    word: int


class Device:
    """Marks in the device's current stream, resolved to times of ``process_clock``.

    Events tell the time between each other. The host tells the rest: an event cannot pass before
    it is queued, nor after it has been seen to have passed. The first bound is exact whenever the
    device is idle, so the two clocks never drift apart.
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
        self._last_passed: tuple[Any, int] | None = None  # the event and its time, in ns

    def mark(self, block: memoryview[int], word: int) -> None:
        """Write the time at which the device gets here into this word of ``block``, once it has."""
        cuda = torch.cuda
        if not cuda.is_initialized() or cuda.is_current_stream_capturing():
            return
        event = cuda.Event(enable_timing=True)
        with self._lock:
            queued_ns = now()
            event.record()
            self._waiting.append(_Mark(event, queued_ns, block, word))
            while self._waiting and self._waiting[0].event.query():
                self._settle_oldest()

    def finish(self) -> None:
        """Wait for the marks that have not passed yet: the loop is over."""
        with self._lock:
            while self._waiting:
                self._waiting[0].event.synchronize()
                self._settle_oldest()

    def _settle_oldest(self) -> None:
        mark = self._waiting.popleft()
        passed_ns = mark.queued_ns
        if self._last_passed is not None and self._last_passed[0].device == mark.event.device:
            event, event_ns = self._last_passed
            passed_ns = max(passed_ns, event_ns + round(event.elapsed_time(mark.event) * 1e6))
        passed_ns = min(passed_ns, now())
        mark.block[mark.word] = passed_ns
        self._last_passed = mark.event, passed_ns
