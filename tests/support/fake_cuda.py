"""A CUDA device that is a clock: work takes the time it says, one after another, as in a stream."""

import time

import pytest
import torch

from loaderviz.clocks.process_clock import now
from loaderviz.recorder import device_events
from own_code import in_module


class FakeCuda:
    """Queues work and events; events that have passed know when, the host waits for nothing."""

    def __init__(self) -> None:
        self.free_at = 0  # when all that is queued will be done, in ns
        self.looked_at = 0  # when the recorder last looked at the clock
        self.events: list[FakeEvent] = []
        self.synchronized = 0
        self.broken = False

    def stand_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From now on it is the device that the recorder finds, whichever torch has been built."""
        monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
        for name, replacement in {
            "is_available": lambda: True,
            "is_initialized": lambda: True,
            "is_current_stream_capturing": lambda: False,
            "Event": self.event,
        }.items():
            monkeypatch.setattr(torch.cuda, name, replacement)
        monkeypatch.setattr(device_events, "now", self.now)

    def now(self) -> int:
        """The recorder's clock: what it queues right after a look at it is queued at that time."""
        self.looked_at = now()
        return self.looked_at

    def run(self, seconds: float) -> None:
        """Queue work, as a kernel launch does."""
        self.free_at = max(self.free_at, now()) + round(seconds * 1e9)

    def event(self, enable_timing: bool) -> "FakeEvent":
        assert enable_timing
        self.events.append(FakeEvent(self))
        return self.events[-1]


class FakeEvent:
    device = torch.device("cuda", 0)

    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda = cuda
        self.at = 0

    @in_module("torch.cuda.streams")
    def record(self) -> None:
        if self.cuda.broken:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        self.at = max(self.cuda.free_at, self.cuda.looked_at)

    def query(self) -> bool:
        return now() >= self.at

    def elapsed_time(self, later: "FakeEvent") -> float:
        assert self.query()
        assert later.query()
        return (later.at - self.at) / 1e6

    def synchronize(self) -> None:
        self.cuda.synchronized += 1
        time.sleep(max(self.at - now(), 0) / 1e9)
        while not self.query():
            pass
