"""The processes of a loader in time: workers, the main process, the pin thread, event by event."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from loaderviz.simulator.epoch_plan import Plan, phases
from loaderviz.simulator.shared_cpus import SharedCpus
from loaderviz.simulator.simulated_settings import SimulatedSettings
from loaderviz.simulator.simulated_trace import Log

if TYPE_CHECKING:
    from loaderviz.simulator.costs import Costs

MAIN, PIN = -1, -2  # numbers of processes that are no workers


class Processes:
    """Workers, their queues, the result queue and the pin thread, in the main process's time.

    Each worker goes through its own queue in order. All times are in seconds. A process is a
    number: a worker its own, from 0; the main process and the pin thread ``MAIN`` and ``PIN``.
    Among those that wait, a batch on its way is ``n_workers`` and its row.
    """

    def __init__(self, log: Log, costs: Costs, settings: SimulatedSettings) -> None:
        self._log = log
        self._n_workers = n_workers = settings.loader.num_workers
        self._pins = settings.loader.pin_memory
        self._latency_s = float(np.mean(costs.transport_s))
        self._drawing_s = costs.sampler_s * settings.batch_size
        self._first_key_s = costs.first_key_s
        assert costs.cores is not None
        self._cores = costs.cores
        self._cpus = SharedCpus(costs.cores)
        self._n_events = 0  # breaks ties: first come, first served
        self._waiting: list[tuple[float, int, int]] = []  # ends at this time, tie, process
        self._queues: list[deque[tuple[int, int]]] = [deque() for _ in range(n_workers)]
        self._row_of = [-1] * n_workers  # each worker's task in the log; -1: none
        self._phase = [0] * n_workers  # each worker's next phase, and where its fetch's phases end
        self._phases_end = [0] * n_workers
        self._busy = [False] * n_workers
        self._last_arrival = [0.0] * n_workers
        self._n_on_way = 0
        self._to_pin: deque[int] = deque()
        self._arrived: deque[int] = deque()
        self._main_busy = False

    @property
    def now(self) -> float:
        """The time."""
        return self._cpus.now

    def load(self, plan: Plan) -> None:
        """Take the fetches of the next epoch."""
        self._plan = plan
        self._seconds, self._first_phase = phases(plan)

    def spend(self, cpu_s: float, wait_s: float = 0.0) -> None:
        """The main process computes, then waits."""
        if cpu_s > 0:
            self._cpus.compute(MAIN, cpu_s)
            self._run_main()
        if wait_s > 0:
            self._wait(MAIN, wait_s)
            self._run_main()

    def draw_keys(self, *, first: bool) -> None:
        """The main process draws the keys of a batch; of an epoch's first, that may take longer."""
        self.spend(self._drawing_s + (self._first_key_s if first else 0.0))

    def _run_main(self) -> None:
        self._main_busy = True
        while self._main_busy:
            self._step()

    def boot(self, worker: int, cpu_s: float) -> None:
        """A worker starts; it can take a task after ``cpu_s`` of computing."""
        self._row_of[worker] = -1
        self._busy[worker] = cpu_s > 0
        if cpu_s > 0:
            self._phase[worker] = self._phases_end[worker] = 0
            self._cpus.compute(worker, cpu_s)

    def send(self, worker: int, row: int, fetch: int) -> None:
        """Put a task into a worker's queue."""
        self._queues[worker].append((row, fetch))
        if not self._busy[worker]:
            self._next_task(worker)

    def receive(self) -> int:
        """Wait for the batch that arrives next, whichever it is, and return its row."""
        while not self._arrived:
            self._step()
        row = self._arrived.popleft()
        if not self._pins:
            self.spend(self._plan.take_s[self._log.fetch[row]])
        return row

    def fetch_here(self, row: int, fetch: int) -> None:
        """The main process loads; nothing else computes."""
        log, plan = self._log, self._plan
        log.started[row] = self.now
        reading = max(1.0, plan.threads / self._cores)
        read_s = float(plan.fetch_wait_s[fetch] + plan.fetch_cpu_s[fetch] * reading)
        self._cpus.go_to(self.now + read_s)
        log.collate[row] = self.now
        self._cpus.go_to(self.now + plan.collate_s[fetch] / min(1.0, self._cores))
        log.ready[row] = self.now

    def resume(self) -> None:
        """Wait until all workers are done, and throw away the batches on their way."""
        while any(self._busy):
            self._step()
        self.spend(0.0, self._latency_s)
        self._let_all_arrive()

    def halt(self) -> None:
        """Workers finish the task under way, and leave the tasks that wait in their queues."""
        for queue in self._queues:
            queue.clear()
        self._let_all_arrive()

    def _let_all_arrive(self) -> None:
        while any(self._busy) or self._n_on_way or self._to_pin:
            self._step()
        self._arrived.clear()

    def _wait(self, process: int, seconds: float) -> None:
        self._n_events += 1
        heappush(self._waiting, (self.now + seconds, self._n_events, process))

    def _step(self) -> None:
        """Go on to the next event, and do what follows from it."""
        if self._waiting and self._waiting[0][0] <= self._cpus.next_s():
            at_s, _, process = heappop(self._waiting)
            self._cpus.go_to(at_s)
            if process >= self._n_workers:
                self._arrive(process - self._n_workers)
                return
        else:
            process = self._cpus.finish()
        if process >= 0:
            self._next_phase(process)
        elif process == MAIN:
            self._main_busy = False
        else:
            self._finish_pinning()

    def _next_task(self, worker: int) -> None:
        if not self._queues[worker]:
            self._busy[worker] = False
            return
        row, fetch = self._queues[worker].popleft()
        self._busy[worker] = True
        self._row_of[worker] = row
        self._phase[worker] = self._first_phase[fetch]
        self._phases_end[worker] = self._first_phase[fetch + 1]
        self._log.started[row] = self.now
        self._next_phase(worker)

    def _next_phase(self, worker: int) -> None:
        """Wait at even places, compute at odd ones; the last are: wait, collate, wait, send on."""
        phase, phases_end = self._phase[worker], self._phases_end[worker]
        row = self._row_of[worker]
        while phase < phases_end:
            if phase == phases_end - 4:
                self._log.collate[row] = self.now
            elif phase == phases_end - 2:
                self._log.ready[row] = self.now
                self._send_on(worker, row)
            seconds = self._seconds[phase]
            phase += 1
            if seconds > 0:
                self._phase[worker] = phase
                if phase % 2:
                    self._wait(worker, seconds)
                else:
                    reads = phase <= phases_end - 4
                    self._cpus.compute(worker, seconds, self._plan.threads if reads else 1.0)
                return
        self._row_of[worker] = -1
        self._next_task(worker)

    def _send_on(self, worker: int, row: int) -> None:
        """A batch sets out for the main process; none overtakes another of the same worker."""
        at_s = self.now + self._plan.transport_s[self._log.fetch[row]]
        at_s = self._last_arrival[worker] = max(at_s, self._last_arrival[worker])
        self._n_on_way += 1
        self._n_events += 1
        heappush(self._waiting, (at_s, self._n_events, self._n_workers + row))

    def _arrive(self, row: int) -> None:
        self._n_on_way -= 1
        if not self._pins:
            self._arrived.append(row)
            return
        self._to_pin.append(row)
        if len(self._to_pin) == 1:
            self._pin_next()

    def _pin_next(self) -> None:
        fetch = self._log.fetch[self._to_pin[0]]
        self._cpus.compute(PIN, self._plan.take_s[fetch] + self._plan.pin_s[fetch])

    def _finish_pinning(self) -> None:
        row = self._to_pin.popleft()
        self._log.pinned[row] = self.now
        self._arrived.append(row)
        if self._to_pin:
            self._pin_next()
