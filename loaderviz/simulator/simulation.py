"""One simulation: a loop over simulated epochs, on simulated CPUs."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import numpy as np

from loaderviz.simulator.cores_shared import SharedCores
from loaderviz.simulator.cores_uncontended import FreeCores
from loaderviz.simulator.epoch_plan import Plan, plan_epoch
from loaderviz.simulator.event_log import Log
from loaderviz.simulator.run_queues import TICK_S
from loaderviz.simulator.simulated_loader import Cores, Loop
from loaderviz.simulator.simulated_settings import SimulatedSettings
from loaderviz.simulator.simulated_trace import SimulatedRun

if TYPE_CHECKING:
    from loaderviz.simulator.costs import Costs

MOST_TURNS = 400  # at the CPUs while each worker computes a batch: longer ones take longer turns
NEGLIGIBLE = 0.02  # of the CPUs: workers that compute less than this hardly ever meet on one


def run_simulation(costs: Costs, settings: SimulatedSettings) -> SimulatedRun:
    """Simulate a loader and its loop; a ``Trace`` of it takes as long again."""
    log, plans = Log(), []

    def plan_of(epoch: int) -> Plan:
        random = np.random.default_rng((settings.seed, epoch)) if settings.seed else None
        plans.append(plan_epoch(costs, settings, epoch, random))
        return plans[-1]

    Loop(costs, settings, _cores(costs, settings, log), log).run(plan_of)
    return SimulatedRun(log, plans, settings, costs)


def _cores(costs: Costs, settings: SimulatedSettings, log: Log) -> Cores:
    n = settings.loader.num_workers
    latency_s = float(np.mean(costs.transport_s))
    computing_s, total_s = _worker_seconds(costs, settings.batch_size)
    assert costs.cores is not None
    # All that may compute at once: the workers, the main process and the pin thread.
    n_threads = n * costs.threads + 1 + settings.loader.pin_memory
    busy = max(n, 1) * costs.threads * computing_s / total_s if total_s > 0 else 0.0
    seldom = busy < NEGLIGIBLE * costs.cores
    if (max(n_threads, costs.threads) <= costs.cores or seldom) and costs.cores >= 1:
        return FreeCores(log, n, pins=settings.loader.pin_memory, latency_s=latency_s)
    return SharedCores(
        log,
        n,
        pins=settings.loader.pin_memory,
        latency_s=latency_s,
        cores=costs.cores,
        threads=costs.threads,
        tick_s=max(TICK_S, n_threads * computing_s / costs.cores / MOST_TURNS),
        random=Random(settings.seed).random if settings.seed else None,
    )


def _worker_seconds(costs: Costs, batch_size: int) -> tuple[float, float]:
    """Mean seconds that a worker computes for one batch, and that it takes for it in all."""
    read_s = batch_size * float(np.mean(costs.sample_s))
    sample_cpu_s = float(np.mean(costs.sample_s * costs.cpu_share))
    collate_s = float(np.mean(costs.collate_s)) + costs.share_s + costs.send_s
    collate_s += batch_size * costs.collate_sample_s
    collate_s += batch_size * costs.sample_bytes / costs.bytes_per_s
    return batch_size * sample_cpu_s + collate_s, read_s + collate_s
