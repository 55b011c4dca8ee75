"""From the log of a simulation to the columns of a ``Trace``, as a recording has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.array_types import Floats, Ints
from loaderviz.simulator.epoch_plan import Plan
from loaderviz.simulator.event_log import DISCARDED, NEVER, Log, WorkerLife
from loaderviz.simulator.simulated_settings import SimulatedSettings
from loaderviz.trace import Trace

if TYPE_CHECKING:
    from loaderviz.simulator.costs import Costs


class SimulatedRun:
    """What was simulated, as columns of a recording or as a ``Trace``.

    Its tasks are those that a recording would show: not those that a stream's end left without
    data. Times are seconds from the start of the loop.
    """

    def __init__(
        self, log: Log, plans: list[Plan], settings: SimulatedSettings, costs: Costs
    ) -> None:
        self._log, self._plans, self._settings, self._cores = log, plans, settings, costs.cores
        self._sample_bytes = costs.sample_bytes
        self._drawing_s = costs.sampler_s * settings.batch_size
        self._first_key_s = costs.first_key_s
        fetch = np.array(log.fetch, np.int64)
        epoch = _epochs(log)
        # The fetches of all epochs, one after another.
        shifts = np.cumsum([0, *(len(plan.n) for plan in plans)])
        self._n = np.concatenate([np.asarray(plan.n, np.int64) for plan in plans])
        sample_shifts = np.cumsum([0, *(len(plan.key) for plan in plans)])
        self._first = np.concatenate(
            [plan.first + shift for plan, shift in zip(plans, sample_shifts, strict=False)]
        )
        started = np.array(log.started, np.float64)
        place = fetch + shifts[epoch]
        empty = (self._n[np.where(fetch < 0, 0, place)] == 0) & ~np.isnan(started)
        self._shown = np.flatnonzero((fetch != DISCARDED) & ~empty)
        self._epoch, self._place = epoch[self._shown], place[self._shown]
        self._task = self._column(log.task, np.int64)
        self._worker = self._column(log.worker, np.int64)
        self._started = started[self._shown]
        self._collate = self._column(log.collate)
        self._done = ~np.isnan(self._started)
        self._size = np.where(self._done, self._n[self._place], 0)
        self._whole = self._done.copy()
        if settings.shards is not None and settings.drop_last:
            self._whole &= self._size == settings.batch_size

    @property
    def elapsed_s(self) -> float:
        """Seconds until the loop has released its last batch and its workers have ended."""
        ends = [self._column(self._log.released), [life.ended for life in self._log.workers]]
        return float(np.nanmax(np.concatenate(ends)))

    def trace(self) -> Trace:
        """The same with tables, checked."""
        return Trace.from_columns(
            batches=self.batches(),
            samples=self.samples(),
            workers=self.workers(),
            meta={
                "simulated": True,
                "label": None,
                "rank": 0,
                "loaders": [_describe(self._settings)],
                "cpu_allowance": self._cores,
                "complete": True,
                "problems": [],
                "left_out": 0,
                "left_out_batches": 0,
                "seed": self._settings.seed,
            },
        )

    def batches(self) -> dict[str, Any]:
        """Its columns of ``Trace.batches``."""
        log, plans = self._log, self._plans
        delivered = self._column(log.delivered)
        cpu_s = np.concatenate([plan.fetch_cpu_s + plan.collate_s for plan in plans])
        helpers_s = np.concatenate([plan.fetch_cpu_s * (plan.threads - 1) for plan in plans])
        alone_s = np.concatenate(
            [plan.fetch_wait_s + plan.fetch_cpu_s + plan.collate_s for plan in plans]
        )[self._place]
        ready = np.where(self._whole, self._column(log.ready), np.nan)
        state = np.full(len(self._shown), "delivered", object)
        drawing_s = self._drawing_s + self._first_key_s * (self._task == 0)
        late = np.isnan(delivered)
        state[late & self._whole] = "ready"
        state[late & self._done & ~self._whole] = "started"
        state[late & ~self._done] = "dispatched"
        return {
            "epoch": self._epoch,
            "batch": self._task,
            "worker": self._worker,
            "n_samples": self._size,
            "drawing_s": self._column(log.dispatched) - np.where(drawing_s > 0, drawing_s, np.nan),
            "dispatched_s": self._column(log.dispatched),
            "started_s": self._started,
            "collate_s": np.where(self._whole, self._collate, np.nan),
            "ready_s": ready,
            "pinned_s": self._column(log.pinned),
            "requested_s": self._column(log.requested),
            "delivered_s": delivered,
            "released_s": self._column(log.released),
            "cpu_s": np.where(self._done, cpu_s[self._place], np.nan),
            "process_cpu_s": np.where(self._done, (cpu_s + helpers_s)[self._place], np.nan),
            "queued_s": np.maximum(ready - self._started - alone_s, 0.0),
            "n_bytes": np.where(self._whole, np.rint(self._size * self._sample_bytes), np.nan),
            "state": state,
        }

    def samples(self) -> dict[str, Any]:
        """Each sample takes its part of the time in which its batch was read."""
        row = np.repeat(np.arange(len(self._size)), self._size)
        position = np.arange(len(row)) - np.repeat(np.cumsum(self._size) - self._size, self._size)
        at = self._first[self._place[row]] + position
        plans = self._plans
        read_s = np.concatenate([plan.wait_s + plan.cpu_s for plan in plans])
        until = np.append(0.0, np.cumsum(read_s))
        begins = self._first[self._place]
        read = until[begins + self._size] - until[begins]
        span = np.nan_to_num(self._collate - self._started)
        stretch = np.divide(span, read, out=np.zeros_like(read), where=read > 0)
        begun = self._started[row]
        end = begun + (until[at + 1] - until[begins[row]]) * stretch[row]
        end = np.minimum(end, self._collate[row])
        start = np.where(position == 0, begun, np.append(0.0, end[:-1]) if len(end) else end)
        return {
            "epoch": self._epoch[row],
            "batch": self._task[row],
            "worker": self._worker[row],
            "position": position,
            "key": np.concatenate([plan.key for plan in plans])[at],
            "start_s": start,
            "end_s": end,
        }

    def workers(self) -> dict[str, Any]:
        """Its columns of ``Trace.workers``."""
        log = self._log
        workers, starts = np.array(log.worker, np.int64), np.array(log.started, np.float64)
        return {
            "worker": [life.worker for life in log.workers],
            "start_method": self._settings.start_method,
            "started_s": [life.started for life in log.workers],
            "first_task_s": [
                _first_start(
                    starts[life.first_row : life.end_row],
                    workers[life.first_row : life.end_row],
                    life.worker,
                )
                for life in log.workers
            ],
            "ended_s": [life.ended for life in log.workers],
            "dismissed_s": [life.dismissed for life in log.workers],
            "gone_s": _gone(log.workers),
            "exit": "done",
        }

    def _column(self, values: list[Any], kind: Any = np.float64) -> Any:
        return np.array(values, kind)[self._shown]


def _epochs(log: Log) -> Ints:
    sizes = np.diff([*log.first_of_epoch, len(log.task)])
    return np.repeat(np.arange(len(sizes)), sizes)


def _gone(lives: list[WorkerLife]) -> list[float]:
    """Of each worker that the loop waited for to end, when it and those beside it had."""
    until: dict[float, float] = {}
    for life in lives:
        until[life.dismissed] = life.ended
    return [until[life.dismissed] if life.dismissed == life.dismissed else NEVER for life in lives]


def _first_start(starts: Floats, workers: Ints, worker: int) -> float:
    of_worker = starts[workers == worker][:1]
    return float(of_worker[0]) if len(of_worker) else float("nan")


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
