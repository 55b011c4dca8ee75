"""Processes that never wait for a CPU: when a batch arrives is known when it is dispatched."""

from __future__ import annotations

import heapq

from loaderviz.simulator.epoch_plan import Plan
from loaderviz.simulator.event_log import Log


class FreeCores:
    """Workers, their queues, the result queue and the pin thread, in the main process's time.

    Each worker goes through its own queue in order: a task starts once it was sent and the one
    before it is done. Batches for the main process are kept by their time of arrival. All times
    are in seconds.
    """

    def __init__(self, log: Log, n_workers: int, *, pins: bool, latency_s: float) -> None:
        self.now = 0.0
        self._log = log
        self._pins = pins
        self._latency_s = latency_s
        self._free = [0.0] * n_workers  # when each worker has done all its tasks
        self._last_arrival = [0.0] * n_workers
        self._pin_free = 0.0
        self._arrivals: list[tuple[float, int]] = []

    def load(self, plan: Plan) -> None:
        """Take the fetches of the next epoch."""
        self._plan = plan
        self._read_s = (plan.fetch_wait_s + plan.fetch_cpu_s).tolist()

    def spend(self, cpu_s: float, wait_s: float = 0.0) -> None:
        """The main process computes, then waits."""
        self.now += cpu_s + wait_s

    def boot(self, worker: int, cpu_s: float) -> None:
        """A worker starts; it can take a task after ``cpu_s`` of computing."""
        self._free[worker] = self.now + cpu_s

    def send(self, worker: int, row: int, fetch: int) -> None:
        """Put a task into a worker's queue."""
        log, free = self._log, self._free[worker]
        start = free if free > self.now else self.now
        collate = start + self._read_s[fetch]
        ready = collate + self._plan.collate_s[fetch]
        self._free[worker] = ready + self._plan.send_s
        log.started[row], log.collate[row], log.ready[row] = start, collate, ready
        arrival = ready + self._plan.transport_s[fetch]
        if arrival < self._last_arrival[worker]:  # none overtakes another of the same worker
            arrival = self._last_arrival[worker]
        self._last_arrival[worker] = arrival
        heapq.heappush(self._arrivals, (arrival, row))

    def receive(self) -> int:
        """Wait for the batch that arrives next, whichever it is, and return its row."""
        log, plan = self._log, self._plan
        arrival, row = heapq.heappop(self._arrivals)
        fetch = log.fetch[row]
        begin = max(arrival, self._pin_free if self._pins else self.now)
        end = begin + plan.take_s[fetch]
        if plan.take_gil_s:  # as long as the worker goes on reading
            end += min(plan.take_gil_s, max(0.0, self._free[log.worker[row]] - begin))
        if self._pins:
            end += plan.pin_s[fetch]
            self._pin_free = log.pinned[row] = end
        self.now = end if end > self.now else self.now
        return row

    def fetch_here(self, row: int, fetch: int) -> None:
        """The main process loads."""
        log = self._log
        log.started[row] = self.now
        self.now += self._read_s[fetch]
        log.collate[row] = self.now
        self.now += self._plan.collate_s[fetch]
        log.ready[row] = self.now

    def resume(self) -> None:
        """Wait until all workers are done, and throw away the batches on their way."""
        all_done = max(max(free, self.now) for free in self._free) + self._latency_s
        self._arrivals.clear()
        self.now = max(all_done, self.now)

    def halt(self) -> None:
        """Workers finish the task under way, and leave the tasks that wait in their queues."""
        log, all_done = self._log, self.now
        for row in range(log.first_of_epoch[-1], len(log.task)):
            if log.started[row] > self.now:
                log.started[row] = log.collate[row] = log.ready[row] = float("nan")
            elif log.ready[row] > all_done:
                all_done = log.ready[row]
        self._arrivals.clear()
        self.now = all_done
