"""The processes of a loader in time: workers, the main process, the pin thread, event by event."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from loaderviz.simulator.epoch_plan import Plan, SimulatedSettings
from loaderviz.simulator.simulated_trace import NEVER, Task

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

    def __init__(self, costs: Costs, settings: SimulatedSettings) -> None:
        n_workers = settings.loader.num_workers
        self._pins = settings.loader.pin_memory
        self._latency_s = float(np.mean(costs.transport_s))
        self._drawing_s = costs.sampler_s * settings.batch_size
        self._first_key_s = costs.first_key_s
        assert costs.cores is not None
        self._cpus = SharedCpus(costs.cores)
        self._n_events = 0  # breaks ties: first come, first served
        self._waiting: list[tuple[float, int, Callable[[], None]]] = []  # until when, tie, and then
        self._queues: list[deque[Task]] = [deque() for _ in range(n_workers)]
        self._busy = [False] * n_workers
        self.first_task = [NEVER] * n_workers  # when each began it
        self._last_arrival = [0.0] * n_workers
        self._n_on_way = 0
        self._to_pin: deque[Task] = deque()
        self._arrived: deque[Task] = deque()
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
        if cpu_s <= 0 and wait_s <= 0:
            return
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

    def send(self, task: Task) -> None:
        """Put a task into its worker's queue."""
        self._queues[task.worker].append(task)
        if not self._busy[task.worker]:
            self._busy[task.worker] = True
            self._go_on(self._work(task.worker))

    def receive(self) -> Task:
        """Wait for the batch that arrives next, whichever it is."""
        while not self._arrived:
            self._step()
        task = self._arrived.popleft()
        if not self._pins:
            self.spend(self._plan.take_s[task.fetch])
        return task

    def fetch_here(self, task: Task) -> None:
        """The main process loads; nothing else computes."""
        plan, fetch = self._plan, task.fetch
        task.started = self.now
        self.spend(float(plan.fetch_cpu_s[fetch]), float(plan.fetch_wait_s[fetch]), plan.threads)
        task.collate = self.now
        self.spend(plan.collate_s[fetch])
        task.ready = self.now

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
        plan, queue = self._plan, self._queues[worker]
        while queue:
            task = queue.popleft()
            task.started = self.now
            if math.isnan(self.first_task[worker]):
                self.first_task[worker] = self.now
            for wait_s, cpu_s in plan.parts(task.fetch):
                yield Doing(wait_s)
                yield Doing(0.0, cpu_s, plan.threads)
            task.collate = self.now
            yield Doing(cpu_s=plan.collate_s[task.fetch])
            task.ready = self.now
            self._send_on(task)
            yield Doing(cpu_s=plan.send_s)
        self._busy[worker] = False

    def _send_on(self, task: Task) -> None:
        """A batch sets out for the main process; none overtakes another of the same worker."""
        at_s = self.now + self._plan.transport_s[task.fetch]
        at_s = self._last_arrival[task.worker] = max(at_s, self._last_arrival[task.worker])
        self._n_on_way += 1
        self._at(at_s, partial(self._arrive, task))

    def _arrive(self, task: Task) -> None:
        self._n_on_way -= 1
        if not self._pins:
            self._arrived.append(task)
            return
        self._to_pin.append(task)
        if len(self._to_pin) == 1:
            self._go_on(self._pin())

    def _pin(self) -> Iterator[Doing]:
        """What the pin thread does until nothing is left to pin."""
        while self._to_pin:
            task = self._to_pin[0]
            yield Doing(cpu_s=self._plan.take_s[task.fetch] + self._plan.pin_s[task.fetch])
            task.pinned = self.now
            self._arrived.append(self._to_pin.popleft())


Then = Callable[[], None]


class SharedCpus:
    """The time, and the processes that compute; all times are in seconds.

    Each computes one thing at a time, and says what follows. While more threads compute than there
    are CPUs, each gets the same part of them (L. Kleinrock, Time-shared systems, J. ACM 14, 1967).
    Who runs where, and for how long in turn, is not modelled.
    """

    def __init__(self, cores: float) -> None:
        self.now = 0.0
        self._cores = cores
        self._work = 0.0  # that one who computed all the time has done
        self._threads = 0.0  # that compute
        self._ends: list[tuple[float, int, Then, float]] = []  # work, tie, and then; threads
        self._n = 0  # breaks ties: first come, first served

    @property
    def rate(self) -> float:
        """Seconds of work that each thread gets done in a second."""
        return 1.0 if self._threads <= self._cores else self._cores / self._threads

    def compute(self, then: Then, seconds: float, threads: float = 1.0) -> None:
        """Somebody begins to compute in so many threads at once, for ``seconds`` if alone."""
        self._n += 1
        self._threads += threads
        heappush(self._ends, (self._work + seconds, self._n, then, threads))

    def next_s(self) -> float:
        """When the next one is done; infinite where none computes."""
        if not self._ends:
            return math.inf
        return self.now + max(self._ends[0][0] - self._work, 0.0) / self.rate

    def go_to(self, at_s: float) -> None:
        """Let time go on to a moment at which none is done yet."""
        self._work += (at_s - self.now) * self.rate
        self.now = at_s

    def finish(self) -> Then:
        """Let time go on until the next one is done, and return what it does then."""
        self.now = self.next_s()
        self._work, _, then, threads = heappop(self._ends)
        self._threads = self._threads - threads if self._ends else 0.0  # no rounding piles up
        return then
