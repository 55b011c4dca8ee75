"""Which process computes on which CPU, and which stand in line for one, as Linux decides it.

Each CPU has a queue of its own. A process that is woken goes to the CPU that it had before, or to
an idle one. The busier all CPUs are together, the fewer are looked at for that, and none where they
are busy for more than 60 % (of 2 CPUs) to 85 % (of many) of the time: kernel/sched/fair.c,
``select_idle_sibling``, ``update_idle_cpu_scan``. So a CPU may idle while processes stand in line
at another. It takes one of them at a tick, but none that has just run, unless ticks have found no
other (``can_migrate_task``). When it becomes idle it seldom does: since Linux 7.0 (and 6.18.5,
6.12.65) it looks for one the less often, the less came of that (``sched_balance_newidle``,
``NI_RANDOM``). Queues of busy CPUs are evened out now and then (``sched_balance_domains``).

A process that is woken on a busy CPU gets that at once where nobody stands in line. Otherwise it
gets it about as often as not, or at the next tick. The one that it displaces goes on after it, the
others take turns at ticks. How often is from traces of the scheduler (benchmarks/RESULTS.md).
"""

from __future__ import annotations

import math
from collections import deque
from heapq import heappop, heappush

TICK_S = 4e-3  # 250 ticks a second
HOT_S = 5e-4  # a process that ran so lately is not moved (sysctl_sched_migration_cost),
MOST_FAILURES = 1  # unless so many ticks have found no other (cache_nice_tries)
BALANCE_S = 0.032  # between looks at how long the queues are (balance_interval, busy_factor)
PULLS = 0.2  # of the times that a CPU becomes idle it takes a process from another's queue
AT_ONCE = 0.6  # of the wake-ups where others stand in line: it gets the CPU before them
UNSCANNED = 1.37  # times the load squared: the part of the CPUs where none looks for an idle one
GOLDEN = (math.sqrt(5) - 1) / 2  # its multiples lie evenly between whole numbers
HALF_LIFE_S = 0.032  # of the load, which is a mean over the past (PELT)


class RunQueues:
    """CPUs, and the processes that compute on them; all times are in seconds.

    Processes are numbers. One whose computing has ended keeps its CPU until ``let_go``, to compute
    again at the same moment.
    """

    def __init__(
        self,
        cores: float,
        *,
        tick_s: float = TICK_S,
        phase: float = 0.0,
    ) -> None:
        self.now = 0.0
        n = self._n_cpus = math.ceil(cores)
        self._full_rate = cores / n  # of each CPU while all compute
        self._tick_s = tick_s
        self._phase = self._dice = phase
        self._work = 0.0  # that a CPU which never idled has done so far
        self._load, self._load_at_s = 0.0, 0.0
        self._n_busy = self._n_queued = 0
        self._running: list[int | None] = [None] * n  # the process of each CPU
        self._begun = [0.0] * n  # the work so far when it last began to compute
        self._turn = [0] * n  # which of a CPU's ends in ``_ends`` is the valid one
        self._queues: list[deque[int]] = [deque() for _ in range(n)]
        self._n_woken = [0] * n  # that stand at the beginning of each queue
        self._ticks = [False] * n  # whether its next tick is awaited
        self._balanced_s = [0.0] * n  # when it last looked for CPUs with shorter queues
        self._failures = [0] * n  # ticks that moved no process to an idle CPU
        self.done: int | None = None  # the process whose computing has just ended
        self._home: dict[int, int] = {}  # the CPU that a process had last
        self._left: dict[int, float] = {}  # what a process still has to compute
        self._ran_s: dict[int, float] = {}  # when a process last stopped
        self._ends: list[tuple[float, int, int, int]] = []  # work so far, tie, CPU, turn
        self._next_ticks: list[tuple[float, int, int]] = []  # time, tie, CPU
        self._n_events = 0  # breaks ties: first come, first served

    @property
    def n_runnable(self) -> int:
        """Processes that compute or stand in line."""
        return self._n_busy + self._n_queued

    def compute(self, process: int, seconds: float, *, new: bool = False) -> None:
        """A process computes: it goes on with its CPU, or is woken or ``new`` and needs one."""
        self._left[process] = seconds
        if process == self.done:
            self.done = None
            self._begin(self._home[process])
            return
        if new or process not in self._home:
            self._home[process] = self._least_busy()
        cpu = self._home[process]
        if self._running[cpu] is None:
            self._give(cpu, process)
        elif (idle := self._idle_cpu(cpu)) is not None:
            self._give(idle, process)
        elif self._running[cpu] == self.done or (self._queues[cpu] and not self._happens(AT_ONCE)):
            self._line_up(cpu, process)
        else:
            self._stop(cpu, is_next=True)
            self._give(cpu, process)

    def let_go(self) -> None:
        """The process whose computing ended last leaves its CPU, unless it computes again."""
        process, self.done = self.done, None
        if process is None:
            return
        cpu = self._home[process]
        self._note_load()
        self._running[cpu] = None
        self._n_busy -= 1
        self._ran_s[process] = self.now
        if self._queues[cpu]:
            self._give(cpu, self._next_in_line(cpu))
        elif self._n_queued and self._happens(PULLS):
            longest = max(range(self._n_cpus), key=lambda other: len(self._queues[other]))
            self._pull_to(cpu, longest)

    def next_s(self) -> float:
        """When the next event comes; infinite where there is none."""
        ends = self._ends
        while ends and self._turn[ends[0][2]] != ends[0][3]:
            heappop(ends)
        end_s = math.inf
        if ends:
            left = ends[0][0] - self._work
            if left > 0:
                end_s = self.now + (left if self._n_busy < self._n_cpus else left / self._full_rate)
            else:
                end_s = self.now
        ticks = self._next_ticks
        return ticks[0][0] if ticks and ticks[0][0] < end_s else end_s

    def go_to(self, at_s: float) -> None:
        """Let time go on to a moment at or before the next event."""
        if at_s > self.now:
            rate = 1.0 if self._n_busy < self._n_cpus else self._full_rate
            self._work += (at_s - self.now) * rate
            self.now = at_s

    def go_on(self, at_s: float) -> int | None:
        """Do the next event, which is at ``at_s``; returns the process whose computing it ends."""
        if self._next_ticks and self._next_ticks[0][0] <= at_s:
            self.go_to(at_s)
            self._tick(heappop(self._next_ticks)[2])
            return None
        work, _, cpu, _ = heappop(self._ends)
        self.now = at_s
        if work > self._work:
            self._work = work
        self._turn[cpu] += 1
        process = self._running[cpu]
        assert process is not None
        self._left[process] = 0.0
        self.done = process
        return process

    def _least_busy(self) -> int:
        return min(range(self._n_cpus), key=self._n_runnable_of)

    def _n_runnable_of(self, cpu: int) -> int:
        return (self._running[cpu] is not None) + len(self._queues[cpu])

    def _begin(self, cpu: int) -> None:
        """The CPU's process computes what it has left."""
        process = self._running[cpu]
        assert process is not None
        self._n_events += 1
        self._turn[cpu] += 1
        self._begun[cpu] = self._work
        end = self._work + self._left[process]
        heappush(self._ends, (end, self._n_events, cpu, self._turn[cpu]))

    def _give(self, cpu: int, process: int) -> None:
        if self._running[cpu] is None:
            self._note_load()
            self._n_busy += 1
        self._running[cpu] = process
        self._home[process] = cpu
        self._begin(cpu)
        if self._queues[cpu] and not self._ticks[cpu]:
            self._await_tick(cpu)

    def _happens(self, chance: float) -> bool:
        self._dice = (self._dice + GOLDEN) % 1
        return self._dice < chance

    def _stop(self, cpu: int, *, is_next: bool = False) -> None:
        """The CPU's process stands in line again, as the next but for those woken, or the last."""
        process = self._running[cpu]
        assert process is not None
        left = self._left[process] - (self._work - self._begun[cpu])
        self._left[process] = left if left > 0 else 0.0
        self._ran_s[process] = self.now
        queue = self._queues[cpu]
        queue.insert(self._n_woken[cpu] if is_next else len(queue), process)
        self._n_queued += 1

    def _line_up(self, cpu: int, process: int, *, is_woken: bool = True) -> None:
        queue = self._queues[cpu]
        queue.insert(self._n_woken[cpu] if is_woken else len(queue), process)
        self._n_woken[cpu] += is_woken
        self._n_queued += 1
        if not self._ticks[cpu]:
            self._await_tick(cpu)

    def _next_in_line(self, cpu: int, place: int = 0) -> int:
        queue = self._queues[cpu]
        process = queue[place]
        del queue[place]
        self._n_woken[cpu] -= place < self._n_woken[cpu]
        self._n_queued -= 1
        return process

    def _await_tick(self, cpu: int, *, ticking: bool = False) -> None:
        self._ticks[cpu] = True
        self._n_events += 1
        self._phase = (self._phase + GOLDEN) % 1
        in_s = self._tick_s * (1.0 if ticking else 1 - self._phase)
        heappush(self._next_ticks, (self.now + in_s, self._n_events, cpu))

    def _tick(self, cpu: int) -> None:
        self._ticks[cpu] = False
        if not self._queues[cpu]:
            return
        self._await_tick(cpu, ticking=True)
        self._stop(cpu)
        self._running[cpu] = self._next_in_line(cpu)
        self._begin(cpu)
        if self._n_busy < self._n_cpus:
            force = self._failures[cpu] > MOST_FAILURES
            moved = self._pull_to(self._running.index(None), cpu, force=force)
            self._failures[cpu] = 0 if moved else self._failures[cpu] + 1
            return
        self._failures[cpu] = 0
        if self.now >= self._balanced_s[cpu] + BALANCE_S:
            self._balanced_s[cpu] = self.now
            least = self._least_busy()
            if self._n_runnable_of(cpu) - self._n_runnable_of(least) > 1:
                self._pull_to(least, cpu)

    def _pull_to(self, to: int, cpu: int, *, force: bool = False) -> bool:
        """A CPU takes a process that stands in line at another; whether there was one."""
        for place, process in enumerate(self._queues[cpu]):
            if force or self.now - self._ran_s.get(process, -math.inf) >= HOT_S:
                self._next_in_line(cpu, place)
                if self._running[to] is None:
                    self._give(to, process)
                else:
                    self._home[process] = to
                    self._line_up(to, process, is_woken=False)
                return True
        return False

    def _idle_cpu(self, cpu: int) -> int | None:
        """An idle CPU for a process whose own is busy; None if none is found."""
        if self._n_busy == self._n_cpus:
            return None
        self._note_load()
        n = int(self._n_cpus * (1 - UNSCANNED * self._load**2) + 1e-9)
        for other in range(cpu + 1, cpu + 1 + min(n, self._n_cpus - 1)):
            if self._running[other % self._n_cpus] is None:
                return other % self._n_cpus
        return None

    def _note_load(self) -> None:
        if self.now > self._load_at_s:
            kept = math.exp2((self._load_at_s - self.now) / HALF_LIFE_S)
            self._load = self._load * kept + (1 - kept) * self._n_busy / self._n_cpus
            self._load_at_s = self.now
