"""The main process of a DataLoader, as torch has it: who gets which task, and what comes next.

Line by line after ``_MultiProcessingDataLoaderIter`` and ``_SingleProcessDataLoaderIter`` of
torch/utils/data/dataloader.py (2.13), with their names. Time passes in ``Processes`` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loaderviz.simulator.epoch_plan import Plan, SimulatedSettings, plan_epoch
from loaderviz.simulator.processes import Processes
from loaderviz.simulator.simulated_trace import DISCARDED, NEVER, Log, Task, WorkerLife

if TYPE_CHECKING:
    from loaderviz.simulator.costs import Costs


def run_loop(costs: Costs, settings: SimulatedSettings) -> tuple[Log, list[Plan]]:
    """Simulate the consumer's loop over all epochs: what happened, and the plan of each epoch."""
    log, plans = Log(), []
    processes = Processes(costs, settings)
    iterator: InMainProcess | Workers | None = None
    for epoch in range(settings.epochs):
        plan = plan_epoch(costs, settings, epoch)
        plans.append(plan)
        if isinstance(iterator, Workers) and settings.loader.persistent_workers:
            iterator.reset(plan)
        else:
            processes.load(plan)
            kind = Workers if settings.loader.num_workers else InMainProcess
            iterator = kind(costs, settings, processes, log, plan)
        _iterate(iterator, plan, processes, costs.step_cpu_share, settings.most_batches)
        if not settings.loader.persistent_workers or epoch == settings.epochs - 1:
            iterator.shutdown()
    return log, plans


def _iterate(
    iterator: InMainProcess | Workers,
    plan: Plan,
    processes: Processes,
    cpu_share: float,
    most_batches: int | None,
) -> None:
    """One epoch of the loop; ``most_batches``: that it takes, None: until the end."""
    for nth in range(len(plan.n) if most_batches is None else most_batches):
        requested = processes.now
        task = iterator.next_data()
        if task is None:
            return
        task.requested, task.delivered = requested, processes.now
        step_s, release_s = plan.step_s[nth], plan.release_s[task.fetch]
        processes.spend(step_s * cpu_share + release_s, step_s * (1 - cpu_share))
        task.released = processes.now
    if most_batches is None:
        iterator.next_data()


class InMainProcess:
    """``num_workers=0``: batches are loaded and pinned between the steps; nothing overlaps."""

    def __init__(
        self, costs: Costs, settings: SimulatedSettings, processes: Processes, log: Log, plan: Plan
    ) -> None:
        self._processes, self._log, self._plan = processes, log, plan
        self._pins = settings.loader.pin_memory
        self._end = len(plan.n) if settings.shards is None else len(plan.n) - 1
        self._next = 0

    def next_data(self) -> Task | None:
        """The batch to deliver; None at the end of the epoch."""
        fetch, self._next = self._next, self._next + 1
        if fetch >= len(self._plan.n):
            return None
        self._processes.draw_keys(first=fetch == 0)
        task = Task(self._plan.epoch, fetch, -1, fetch, self._processes.now)
        self._log.tasks.append(task)
        self._processes.fetch_here(task)
        if fetch >= self._end:
            return None
        if self._pins:
            self._processes.spend(self._plan.pin_s[fetch])
        return task

    def shutdown(self) -> None:
        """There is no worker to end."""


class Workers:
    """Workers are started one after another, then sent as many tasks as may be under way."""

    def __init__(
        self, costs: Costs, settings: SimulatedSettings, processes: Processes, log: Log, plan: Plan
    ) -> None:
        self._processes, self._log = processes, log
        self._num_workers = settings.loader.num_workers
        self._in_order = settings.loader.in_order
        self._iterable = settings.shards is not None
        self._max_tasks = settings.loader.max_tasks
        self._dispatch_s = costs.dispatch_s
        self._shutdown_s = costs.shutdown_s
        self._persistent = settings.loader.persistent_workers
        startup_s, boot_s = costs.start_of(settings.start_method)
        self._started = []
        for worker in range(self._num_workers):
            self._started.append(processes.now)
            processes.boot(worker, boot_s)
            processes.spend(startup_s)
        self._reset(plan)

    def reset(self, plan: Plan) -> None:
        """Persistent workers get a message each, and no task until all have answered."""
        self._processes.spend(self._dispatch_s * self._num_workers)
        self._processes.resume()  # what is left of the epoch before
        self._processes.load(plan)
        self._reset(plan)

    def _reset(self, plan: Plan) -> None:
        self._epoch = plan.epoch
        self._n_tasks = -1 if self._iterable else len(plan.n)  # of an iterable: without end
        self._base = plan.base
        self._next_fetch = list(plan.base)
        self._n_drawn = 0
        self._send_idx = 0
        self._rcvd_idx = 0
        self._task_info: dict[int, Task] = {}  # those not yet delivered
        self._arrived: set[int] = set()
        self._workers_status = [True] * self._num_workers
        self._n_active = self._num_workers
        self._workers_num_tasks = [0] * self._num_workers
        self._cycle = 0
        for _ in range(self._max_tasks):
            self._try_put_index()

    def next_data(self) -> Task | None:
        """The batch to deliver; None at the end of the epoch."""
        info, status, arrived = self._task_info, self._workers_status, self._arrived
        while True:
            while self._rcvd_idx < self._send_idx:
                task = info.get(self._rcvd_idx)
                if task is not None:
                    if self._rcvd_idx in arrived or status[task.worker]:
                        break
                    del info[self._rcvd_idx]
                self._rcvd_idx += 1
            else:
                return None
            head = self._rcvd_idx
            if head in arrived:
                arrived.discard(head)
                self._rcvd_idx += 1
                return self._process_data(head)
            task = self._processes.receive()
            idx = task.task
            if self._iterable and task.fetch == self._base[task.worker + 1] - 1:
                status[task.worker] = False  # it has found the end
                self._n_active -= 1
                self._try_put_index()
                continue
            if idx == head:
                self._rcvd_idx += 1
                return self._process_data(idx)
            if not self._in_order:
                return self._process_data(idx)
            arrived.add(idx)

    def _process_data(self, idx: int) -> Task:
        task = self._task_info.pop(idx)
        self._workers_num_tasks[task.worker] -= 1
        self._try_put_index()
        return task

    def _try_put_index(self) -> None:
        if self._n_drawn == self._n_tasks:
            return
        fetch, self._n_drawn = self._n_drawn, self._n_drawn + 1
        self._processes.draw_keys(first=fetch == 0)
        worker = self._next_worker()
        if worker < 0:
            return
        if self._iterable:
            fetch = self._next_fetch[worker]
            self._next_fetch[worker] = fetch + 1
            if fetch >= self._base[worker + 1]:
                fetch = DISCARDED
        task = Task(self._epoch, self._send_idx, worker, fetch, self._processes.now)
        self._log.tasks.append(task)
        self._processes.spend(self._dispatch_s)
        if fetch != DISCARDED:
            self._processes.send(task)
        self._task_info[self._send_idx] = task
        self._workers_num_tasks[worker] += 1
        self._send_idx += 1

    def _next_worker(self) -> int:
        """The next in turn that is active and, out of order, has room; -1 where there is none."""
        n, status = self._num_workers, self._workers_status
        for _ in range(n):
            worker = self._cycle
            self._cycle = worker + 1 if worker + 1 < n else 0
            if status[worker] and (
                self._in_order
                or self._workers_num_tasks[worker] < self._max_tasks // self._n_active
            ):
                return worker
        return -1

    def shutdown(self) -> None:
        """End the workers one after another, once each has finished its task."""
        processes = self._processes
        dismissed = NEVER if self._persistent else processes.now
        processes.halt()
        for worker in range(self._num_workers):
            processes.spend(self._shutdown_s)
            times = self._started[worker], processes.first_task[worker], processes.now, dismissed
            self._log.workers.append(WorkerLife(worker, *times))
