"""The log of a simulation while it runs: one entry a task, in the order of dispatch."""

from __future__ import annotations

import math
from typing import NamedTuple

NEVER = math.nan
DISCARDED = -1  # in place of a fetch, for a task that came after its worker's stream had ended


class WorkerLife(NamedTuple):
    """When one worker process started and ended, in seconds, and the rows of tasks meanwhile.

    The rows hold the tasks of the other workers, too.
    """

    worker: int
    started: float
    ended: float
    dismissed: float  # NaN where it stays for the next epoch
    first_row: int
    end_row: int


class Log:
    """Lists with one entry a task, added at dispatch; times in seconds, NaN until they come."""

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
        self.workers: list[WorkerLife] = []

    def add(self, task: int, worker: int, fetch: int, at: float) -> int:
        """Add a task that is dispatched ``at`` a time, in seconds; returns its row."""
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
