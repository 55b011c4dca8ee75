"""Processes that share the CPUs: every one that computes gets an equal part of them.

A fluid model. While n processes compute on c CPUs, each advances at ``min(1, c / n)``; those that
wait take no part. One clock counts the work that each process that computes has got, so that a
change in their number moves no event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush

from loaderviz.simulator.epoch_plan import Plan, phases
from loaderviz.simulator.event_log import Log
from loaderviz.simulator.wakeup_latency import Lateness

MAIN, PIN = -1, -2  # in place of a worker


class SharedCores:
    """What ``FreeCores`` is, event by event.

    Workers are numbered from 0, the batches that are on their way, by their rows, from
    ``n_workers``.
    """

    def __init__(
        self,
        log: Log,
        n_workers: int,
        *,
        pins: bool,
        latency_s: float,
        cores: float,
        slice_s: float = 0.0,
        switching: float = 0.0,
        random: Callable[[], float] | None = None,
    ) -> None:
        self.now = 0.0
        self._log = log
        self._n = n_workers
        self._pins = pins
        self._latency_s = latency_s
        self._cores = cores
        self._taking_turns = cores * (1 - switching)
        self._slice_s = slice_s
        self._random = random  # 0 to 1
        self._work = 0.0  # that each process that computes has got so far
        self._n_events = 0  # breaks ties: first come, first served
        self._computing: list[tuple[float, int, int]] = []  # until which work, which process
        self._waiting: list[tuple[float, int, int]] = []  # until when, which process
        self._queues: list[deque[tuple[int, int]]] = [deque() for _ in range(n_workers)]
        self._doing = [-1] * n_workers  # the row of the task
        self._place = [0] * n_workers  # in its phases, and their end
        self._end = [0] * n_workers
        self._busy = [False] * n_workers
        self._last_arrival = [0.0] * n_workers
        self._n_on_way = 0
        self._to_pin: deque[int] = deque()
        self._arrived: deque[int] = deque()
        self._main_busy = False

    def load(self, plan: Plan) -> None:
        self._plan = plan
        self._seconds, self._starts = phases(plan)
        self._lateness = Lateness.of(plan, self._slice_s)

    def spend(self, cpu_s: float, wait_s: float = 0.0) -> None:
        if cpu_s > 0:
            self._compute(MAIN, cpu_s)
            self._run_main()
        if wait_s > 0:
            self._wait(MAIN, wait_s)
            self._run_main()
            self._come_back()

    def _run_main(self) -> None:
        self._main_busy = True
        while self._main_busy:
            self._step()

    def _come_back(self) -> None:
        """The main process is woken."""
        n = len(self._computing)
        if n < self._cores or not n:
            return
        late_s = self._lateness.in_turns_s if n > self._cores else self._lateness.alone_s
        if self._random is not None:
            late_s *= 2 * self._random()
        if late_s > 0:
            self._wait(MAIN, late_s)
            self._run_main()

    def boot(self, worker: int, cpu_s: float) -> None:
        self._doing[worker] = -1
        self._busy[worker] = cpu_s > 0
        if cpu_s > 0:
            self._place[worker] = self._end[worker] = 0
            self._compute(worker, cpu_s)

    def send(self, worker: int, row: int, fetch: int) -> None:
        self._queues[worker].append((row, fetch))
        if not self._busy[worker]:
            self._next_task(worker)

    def receive(self) -> int:
        if not self._arrived:
            while not self._arrived:
                self._step()
            self._come_back()
        row = self._arrived.popleft()
        if not self._pins:
            for _ in range(2):  # the worker, asked for the file of the memory, and the main process
                self._come_back()
            self.spend(self._plan.take_s[self._log.fetch[row]])
        return row

    def fetch_here(self, row: int, fetch: int) -> None:
        """Nothing else computes: this takes what it takes."""
        log, plan = self._log, self._plan
        log.started[row] = self.now
        slow = 1 / min(1.0, self._cores)
        self.now += float(plan.fetch_wait_s[fetch] + plan.fetch_cpu_s[fetch] * slow)
        log.collate[row] = self.now
        self.now += plan.collate_s[fetch] * slow
        log.ready[row] = self.now

    def resume(self) -> None:
        while any(self._busy):
            self._step()
        self.spend(0.0, self._latency_s)
        while self._n_on_way or self._to_pin:
            self._step()
        self._arrived.clear()

    def halt(self) -> None:
        for queue in self._queues:
            queue.clear()
        while any(self._busy) or self._n_on_way or self._to_pin:
            self._step()
        self._arrived.clear()

    def _compute(self, who: int, seconds: float) -> None:
        self._n_events += 1
        heappush(self._computing, (self._work + seconds, self._n_events, who))

    def _wait(self, who: int, seconds: float) -> None:
        self._n_events += 1
        heappush(self._waiting, (self.now + seconds, self._n_events, who))

    def _step(self) -> None:
        """On to the next event, and what follows from it."""
        computing, waiting = self._computing, self._waiting
        if computing:
            n = len(computing)
            slow = n / self._taking_turns if n > self._cores else 1.0
            at = self.now + (computing[0][0] - self._work) * slow
            if waiting and waiting[0][0] < at:
                at, _, who = heappop(waiting)
                self._work += (at - self.now) / slow
            else:
                self._work, _, who = heappop(computing)
        else:
            at, _, who = heappop(waiting)
        if at > self.now:
            self.now = at
        if 0 <= who < self._n:
            self._next_phase(who)
        elif who == MAIN:
            self._main_busy = False
        elif who == PIN:
            self._pinned()
        else:
            self._arrive(who - self._n)

    def _next_task(self, worker: int) -> None:
        if not self._queues[worker]:
            self._busy[worker] = False
            return
        row, fetch = self._queues[worker].popleft()
        self._busy[worker] = True
        self._doing[worker] = row
        self._place[worker], self._end[worker] = self._starts[fetch], self._starts[fetch + 1]
        self._log.started[row] = self.now
        self._next_phase(worker)

    def _next_phase(self, worker: int) -> None:
        place, end = self._place[worker], self._end[worker]
        row = self._doing[worker]
        while place < end:
            if place == end - 4:
                self._log.collate[row] = self.now
            elif place == end - 2:
                self._log.ready[row] = self.now
                self._send_on(worker, row)
            seconds = self._seconds[place]
            place += 1
            if seconds > 0:
                self._place[worker] = place
                self._n_events += 1
                if place % 2 == 0:
                    heappush(self._computing, (self._work + seconds, self._n_events, worker))
                else:
                    heappush(self._waiting, (self.now + seconds, self._n_events, worker))
                return
        self._doing[worker] = -1
        self._next_task(worker)

    def _send_on(self, worker: int, row: int) -> None:
        """The batch is on its way for a while; none overtakes another of the same worker."""
        at = self.now + self._plan.transport_s[self._log.fetch[row]]
        at = self._last_arrival[worker] = max(at, self._last_arrival[worker])
        self._n_on_way += 1
        self._n_events += 1
        heappush(self._waiting, (at, self._n_events, self._n + row))

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
        self._compute(PIN, self._plan.take_s[fetch] + self._plan.pin_s[fetch])

    def _pinned(self) -> None:
        row = self._to_pin.popleft()
        self._log.pinned[row] = self.now
        self._arrived.append(row)
        if self._to_pin:
            self._pin_next()
