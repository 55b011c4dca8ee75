"""What a simulation writes down while it runs: one entry a task, in the order of dispatch."""

from __future__ import annotations

import math
from typing import NamedTuple

NEVER = math.nan
DISCARDED = -1  # in place of a fetch: its worker's stream had ended already


class Life(NamedTuple):
    """Of one worker process: its times, and where the tasks lie that were sent to it or others."""

    worker: int
    started: float
    ended: float
    first_row: int
    end_row: int


class Log:
    """Lists side by side, appended at dispatch; times in seconds, NaN until they come."""

    def __init__(self) -> None:
        self.task: list[int] = []
        self.worker: list[int] = []
        self.fetch: list[int] = []  # in the plan of its epoch
        self.dispatched: list[float] = []
        self.started: list[float] = []
        self.collate: list[float] = []
        self.ready: list[float] = []
        self.pinned: list[float] = []
        self.requested: list[float] = []
        self.delivered: list[float] = []
        self.released: list[float] = []
        self.first_of_epoch: list[int] = []
        self.workers: list[Life] = []

    def add(self, task: int, worker: int, fetch: int, at: float) -> int:
        """The row of the new entry."""
        self.task.append(task)
        self.worker.append(worker)
        self.fetch.append(fetch)
        self.dispatched.append(at)
        self.started.append(NEVER)
        self.collate.append(NEVER)
        self.ready.append(NEVER)
        self.pinned.append(NEVER)
        self.requested.append(NEVER)
        self.delivered.append(NEVER)
        self.released.append(NEVER)
        return len(self.task) - 1
