"""A CUDA device that is a clock: work takes the time it says, one after another, as in a stream."""

import gc
import os
import time
from collections import defaultdict
from typing import Any

import pytest
import torch

from loaderviz.clocks.process_clock import now
from loaderviz.recorder import device_events
from own_code import in_module


class FakeCuda:
    """Queues work and events; events that have passed know when, the host waits for nothing.

    It is its own and only stream.
    """

    device_index = 0

    def __init__(self) -> None:
        self.free_at = 0  # when all that is queued will be done, in ns
        self.looked_at = 0  # when the recorder last looked at the clock
        self.marks: list[int] = []  # when the device gets to each event that is queued, in ns
        self.synchronized = 0
        self.broken = False
        self.clock_rate = 1.0  # of the device's own clock, which times events

    def stand_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From now on it is the device that the recorder finds, whichever torch has been built."""
        monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
        for name, replacement in {
            "is_available": lambda: True,
            "is_initialized": lambda: True,
            "is_current_stream_capturing": lambda: False,
            "Event": self.event,
            "current_stream": lambda: self,
        }.items():
            monkeypatch.setattr(torch.cuda, name, replacement)
        gc.collect()  # events of another one are in no use now
        monkeypatch.setattr(device_events, "now", self.now)
        monkeypatch.setattr(device_events, "_events", [])
        monkeypatch.setattr(device_events, "_spare", defaultdict(list))

    def now(self) -> int:
        """The recorder's clock: what it queues right after a look at it is queued at that time."""
        self.looked_at = now()
        return self.looked_at

    def run(self, seconds: float) -> None:
        """Queue work, as a kernel launch does."""
        self.free_at = max(self.free_at, now()) + round(seconds * 1e9)

    def event(self, enable_timing: bool) -> "FakeEvent":
        assert enable_timing
        return FakeEvent(self)


class FakeEvent:
    """Queued again before anybody has asked for it, it is no mark where it was.

    As a real one, it ends a forked process that frees it.
    """

    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda = cuda
        self.process = os.getpid()
        self.at = 0
        self.is_unasked = False

    def __del__(self) -> None:
        if os.getpid() != self.process:
            os.abort()

    @in_module("torch.cuda.streams")
    def record(self, stream: Any) -> None:
        assert stream.device_index == FakeCuda.device_index
        if self.cuda.broken:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        if self.is_unasked:
            assert self.cuda.marks.pop() == self.at
        self.at = max(self.cuda.free_at, self.cuda.looked_at)
        self.cuda.marks.append(self.at)
        self.is_unasked = True

    def query(self) -> bool:
        self.is_unasked = False
        return now() >= self.at

    def elapsed_time(self, later: "FakeEvent") -> float:
        assert self.query()
        assert later.query()
        return self.cuda.clock_rate * (later.at - self.at) / 1e6

    def synchronize(self) -> None:
        self.cuda.synchronized += 1
        time.sleep(max(self.at - now(), 0) / 1e9)
        while not self.query():
            pass
