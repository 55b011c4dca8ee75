"""The log of a simulation while it runs, and the ``Trace`` that it becomes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from loaderviz.array_types import Ints
from loaderviz.simulator.epoch_plan import Plan, SimulatedSettings
from loaderviz.trace import Trace

if TYPE_CHECKING:
    from loaderviz.simulator.costs import Costs

NEVER = math.nan
DISCARDED = -1  # in place of a fetch, for a task that came after its worker's stream had ended


class WorkerLife(NamedTuple):
    """When one worker process started, began its first task, and ended, in seconds."""

    worker: int
    started: float
    first_task: float  # NaN where it was given none
    ended: float
    dismissed: float  # NaN where it stays for the next epoch


@dataclass(slots=True, eq=False)
class Task:
    """What happens to one task: times in seconds, NaN until they come."""

    epoch: int
    task: int  # its number in the epoch
    worker: int  # -1: the main process
    fetch: int  # in the plan of its epoch
    dispatched: float
    started: float = NEVER
    collate: float = NEVER
    ready: float = NEVER
    pinned: float = NEVER
    requested: float = NEVER
    delivered: float = NEVER
    released: float = NEVER


@dataclass
class Log:
    """What was simulated so far: tasks in the order of dispatch, and the lives of workers."""

    tasks: list[Task] = field(default_factory=list)
    workers: list[WorkerLife] = field(default_factory=list)


def trace_of(log: Log, plans: list[Plan], settings: SimulatedSettings, costs: Costs) -> Trace:
    """What was simulated, as a ``Trace`` whose times are seconds from the start of the loop.

    Its tasks are those that a recording would show: not those that a stream's end left without
    data.
    """
    shown = _Shown.of(log, plans, settings)
    return Trace.from_columns(
        batches=_batches(shown, costs, settings),
        samples=_samples(shown),
        workers=_workers(log, settings.start_method),
        meta={
            "simulated": True,
            "label": None,
            "rank": 0,
            "loaders": [_describe(settings)],
            "cpu_allowance": costs.cores,
            "complete": True,
            "problems": [],
            "left_out": 0,
            "left_out_batches": 0,
        },
    )


class _Shown(NamedTuple):
    """The tasks to show: arrays of one value a task. Fetches of all epochs follow one another."""

    plans: list[Plan]
    columns: dict[str, Any]  # of the tasks
    place: Ints  # of its fetch, among those of all epochs
    n: Ints  # samples; 0 where it was not begun
    whole: Any  # whether it became a batch

    @classmethod
    def of(cls, log: Log, plans: list[Plan], settings: SimulatedSettings) -> _Shown:
        every = {
            each.name: np.array([getattr(task, each.name) for task in log.tasks], each.type)
            for each in fields(Task)
        }
        fetch, done = every["fetch"], ~np.isnan(every["started"])
        n_of_fetch = np.concatenate([np.asarray(plan.n, np.int64) for plan in plans])
        place = fetch + np.cumsum([0, *(len(plan.n) for plan in plans)])[every["epoch"]]
        empty = (n_of_fetch[np.where(fetch < 0, 0, place)] == 0) & done
        rows = np.flatnonzero((fetch != DISCARDED) & ~empty)
        place, done = place[rows], done[rows]
        n = np.where(done, n_of_fetch[place], 0)
        whole = done.copy()
        if settings.shards is not None and settings.drop_last:
            whole &= n == settings.batch_size
        return cls(plans, {name: each[rows] for name, each in every.items()}, place, n, whole)

    def of_plans(self, name: str) -> Any:
        """That column of all plans, one after another."""
        return np.concatenate([np.asarray(getattr(plan, name)) for plan in self.plans])


def _batches(shown: _Shown, costs: Costs, settings: SimulatedSettings) -> dict[str, Any]:
    at, whole = shown.columns, shown.whole
    done = ~np.isnan(at["started"])
    late = np.isnan(at["delivered"])
    reading_cpu_s, collate_s = shown.of_plans("fetch_cpu_s"), shown.of_plans("collate_s")
    cpu_s = (reading_cpu_s + collate_s)[shown.place]
    helpers_s = (reading_cpu_s * (costs.threads - 1))[shown.place]
    alone_s = cpu_s + shown.of_plans("fetch_wait_s")[shown.place]
    ready_s = np.where(whole, at["ready"], np.nan)
    drawing_s = costs.sampler_s * settings.batch_size + costs.first_key_s * (at["task"] == 0)
    state = np.select([~late, whole, done], ["delivered", "ready", "started"], "dispatched").astype(
        object
    )
    return {
        "epoch": at["epoch"],
        "batch": at["task"],
        "worker": at["worker"],
        "n_samples": shown.n,
        "drawing_s": at["dispatched"] - np.where(drawing_s > 0, drawing_s, np.nan),
        "dispatched_s": at["dispatched"],
        "started_s": at["started"],
        "collate_s": np.where(whole, at["collate"], np.nan),
        "ready_s": ready_s,
        "pinned_s": at["pinned"],
        "requested_s": at["requested"],
        "delivered_s": at["delivered"],
        "released_s": at["released"],
        "cpu_s": np.where(done, cpu_s, np.nan),
        "process_cpu_s": np.where(done, cpu_s + helpers_s, np.nan),
        "queued_s": np.maximum(ready_s - at["started"] - alone_s, 0.0),
        "n_bytes": np.where(whole, np.rint(shown.n * costs.sample_bytes), np.nan),
        "state": state,
    }


def _samples(shown: _Shown) -> dict[str, Any]:
    """Each sample takes its part of the time in which its batch was read."""
    n = shown.n
    row = np.repeat(np.arange(len(n)), n)
    position = np.arange(len(row)) - np.repeat(np.cumsum(n) - n, n)
    before = np.cumsum([0, *(len(plan.key) for plan in shown.plans)])
    firsts = [plan.first + n_before for plan, n_before in zip(shown.plans, before, strict=False)]
    begins = np.concatenate(firsts)[shown.place]
    at = begins[row] + position
    until = np.append(0.0, np.cumsum(shown.of_plans("wait_s") + shown.of_plans("cpu_s")))
    read_s = until[begins + n] - until[begins]
    started, collate = shown.columns["started"], shown.columns["collate"]
    span_s = np.nan_to_num(collate - started)
    stretch = np.divide(span_s, read_s, out=np.zeros_like(read_s), where=read_s > 0)
    end = started[row] + (until[at + 1] - until[begins[row]]) * stretch[row]
    end = np.minimum(end, collate[row])
    start = np.where(position == 0, started[row], np.append(0.0, end[:-1]) if len(end) else end)
    return {
        "epoch": shown.columns["epoch"][row],
        "batch": shown.columns["task"][row],
        "worker": shown.columns["worker"][row],
        "position": position,
        "key": shown.of_plans("key")[at],
        "start_s": start,
        "end_s": end,
    }


def _workers(log: Log, start_method: str | None) -> dict[str, Any]:
    last_ended = {life.dismissed: life.ended for life in log.workers}  # of those ended together
    return {
        "worker": [life.worker for life in log.workers],
        "start_method": start_method,
        "started_s": [life.started for life in log.workers],
        "first_task_s": [life.first_task for life in log.workers],
        "ended_s": [life.ended for life in log.workers],
        "dismissed_s": [life.dismissed for life in log.workers],
        "gone_s": [
            NEVER if math.isnan(life.dismissed) else last_ended[life.dismissed]
            for life in log.workers
        ],
        "exit": "done",
    }


def _describe(settings: SimulatedSettings) -> dict[str, Any]:
    """The loader, as the recorder describes one."""
    return {
        "class": "DataLoader",
        "dataset": "simulated",
        "kind": "map" if settings.shards is None else "iterable",
        "batch_size": settings.batch_size,
        **settings.loader.options(),
        "pinned": settings.loader.pin_memory,
        "drop_last": settings.drop_last,
        "start_method": settings.start_method,
    }
