"""The processes of a loader in time: workers, the main process, the pin thread, event by event."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from loaderviz.simulator.epoch_plan import Plan
from loaderviz.simulator.shared_cpus import SharedCpus
from loaderviz.simulator.simulated_settings import SimulatedSettings
from loaderviz.simulator.simulated_trace import NEVER, Log

if TYPE_CHECKING:
    from loaderviz.simulator.costs import Costs


class Doing(NamedTuple):
    """What a process does next, in seconds: it waits, or it computes in so many threads."""

    wait_s: float = 0.0
    cpu_s: float = 0.0
    threads: float = 1.0


class Processes:
    """Workers, their queues, the result queue and the pin thread, in the main process's time.

    Each process is a generator of what it does, one thing after another; what it notes between two
    of them takes no time. Workers go through their own queues in order. Times are in seconds.
    """

    def __init__(self, log: Log, costs: Costs, settings: SimulatedSettings) -> None:
        self._log = log
        n_workers = settings.loader.num_workers
        self._pins = settings.loader.pin_memory
        self._latency_s = float(np.mean(costs.transport_s))
        self._drawing_s = costs.sampler_s * settings.batch_size
        self._first_key_s = costs.first_key_s
        assert costs.cores is not None
        self._cpus = SharedCpus(costs.cores)
        self._n_events = 0  # breaks ties: first come, first served
        self._waiting: list[tuple[float, int, Callable[[], None]]] = []  # until when, tie, and then
        self._queues: list[deque[tuple[int, int]]] = [deque() for _ in range(n_workers)]
        self._busy = [False] * n_workers
        self.first_task = [NEVER] * n_workers  # when each began it
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

    def spend(self, cpu_s: float, wait_s: float = 0.0, threads: float = 1.0) -> None:
        """The main process computes, then waits."""
        self._main_busy = True
        self._go_on(self._main(cpu_s, wait_s, threads))
        while self._main_busy:
            self._step()

    def _main(self, cpu_s: float, wait_s: float, threads: float) -> Iterator[Doing]:
        yield Doing(cpu_s=cpu_s, threads=threads)
        yield Doing(wait_s=wait_s)
        self._main_busy = False

    def draw_keys(self, *, first: bool) -> None:
        """The main process draws the keys of a batch; of an epoch's first, that may take longer."""
        self.spend(self._drawing_s + (self._first_key_s if first else 0.0))

    def boot(self, worker: int, cpu_s: float) -> None:
        """A worker starts; it can take a task after ``cpu_s`` of computing."""
        self._busy[worker] = True
        self.first_task[worker] = NEVER
        self._go_on(self._work(worker, cpu_s))

    def send(self, worker: int, row: int, fetch: int) -> None:
        """Put a task into a worker's queue."""
        self._queues[worker].append((row, fetch))
        if not self._busy[worker]:
            self._busy[worker] = True
            self._go_on(self._work(worker))

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
        self.spend(float(plan.fetch_cpu_s[fetch]), float(plan.fetch_wait_s[fetch]), plan.threads)
        log.collate[row] = self.now
        self.spend(plan.collate_s[fetch])
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

    def _step(self) -> None:
        """Go on to the next event, and do what follows from it."""
        if self._waiting and self._waiting[0][0] <= self._cpus.next_s():
            at_s, _, then = heappop(self._waiting)
            self._cpus.go_to(at_s)
        else:
            then = self._cpus.finish()
        then()

    def _at(self, at_s: float, then: Callable[[], None]) -> None:
        self._n_events += 1
        heappush(self._waiting, (at_s, self._n_events, then))

    def _go_on(self, process: Iterator[Doing]) -> None:
        """A process goes on to the next thing that takes time."""
        for doing in process:
            if doing.wait_s > 0:
                self._at(self.now + doing.wait_s, partial(self._go_on, process))
                return
            if doing.cpu_s > 0:
                self._cpus.compute(partial(self._go_on, process), doing.cpu_s, doing.threads)
                return

    def _work(self, worker: int, boot_s: float = 0.0) -> Iterator[Doing]:
        """What a worker does until its queue is empty."""
        yield Doing(cpu_s=boot_s)
        log, plan, queue = self._log, self._plan, self._queues[worker]
        while queue:
            row, fetch = queue.popleft()
            log.started[row] = self.now
            if math.isnan(self.first_task[worker]):
                self.first_task[worker] = self.now
            for wait_s, cpu_s in plan.parts(fetch):
                yield Doing(wait_s=wait_s)
                yield Doing(cpu_s=cpu_s, threads=plan.threads)
            log.collate[row] = self.now
            yield Doing(cpu_s=plan.collate_s[fetch])
            log.ready[row] = self.now
            self._send_on(worker, row)
            yield Doing(cpu_s=plan.send_s)
        self._busy[worker] = False

    def _send_on(self, worker: int, row: int) -> None:
        """A batch sets out for the main process; none overtakes another of the same worker."""
        at_s = self.now + self._plan.transport_s[self._log.fetch[row]]
        at_s = self._last_arrival[worker] = max(at_s, self._last_arrival[worker])
        self._n_on_way += 1
        self._at(at_s, partial(self._arrive, row))

    def _arrive(self, row: int) -> None:
        self._n_on_way -= 1
        if not self._pins:
            self._arrived.append(row)
            return
        self._to_pin.append(row)
        if len(self._to_pin) == 1:
            self._go_on(self._pin())

    def _pin(self) -> Iterator[Doing]:
        """What the pin thread does until nothing is left to pin."""
        while self._to_pin:
            row = self._to_pin[0]
            fetch = self._log.fetch[row]
            yield Doing(cpu_s=self._plan.take_s[fetch] + self._plan.pin_s[fetch])
            self._log.pinned[row] = self.now
            self._arrived.append(row)
            self._to_pin.popleft()
