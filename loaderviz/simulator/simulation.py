"""A loop runs over simulated epochs on the cores that there are, and a ``Trace`` comes out."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import numpy as np

from loaderviz.simulator.cores_shared import SharedCores
from loaderviz.simulator.cores_uncontended import FreeCores
from loaderviz.simulator.epoch_plan import Plan, plan
from loaderviz.simulator.event_log import Log
from loaderviz.simulator.simulated_loader import Cores, Loop
from loaderviz.simulator.simulated_settings import SimulatedSettings
from loaderviz.simulator.simulated_trace import trace_of
from loaderviz.trace import Trace

if TYPE_CHECKING:
    from loaderviz.simulator.costs import Costs

NEGLIGIBLE = 0.02  # of the cores: what workers compute that hardly ever meet on a CPU


def run(costs: Costs, settings: SimulatedSettings) -> Trace:
    random = np.random.default_rng(settings.seed) if settings.seed else None
    log, plans = Log(), []

    def plan_of(epoch: int) -> Plan:
        plans.append(plan(costs, settings, epoch, random))
        return plans[-1]

    Loop(costs, settings, _cores(costs, settings, log, random), log).run(plan_of)
    return trace_of(log, plans, costs, settings)


def _cores(
    costs: Costs, settings: SimulatedSettings, log: Log, random: np.random.Generator | None
) -> Cores:
    n = settings.loader.num_workers
    latency_s = float(np.mean(costs.transport_s))
    computing, in_all = _load(costs, settings.batch_size)
    assert costs.cores is not None
    most = (
        n + 1 + settings.loader.pin_memory
    )  # compute at once: all workers, the main process, the pin thread
    seldom = in_all <= 0 or n * computing / in_all < NEGLIGIBLE * costs.cores
    if (most <= costs.cores or seldom) and costs.cores >= 1:
        return FreeCores(log, n, pins=settings.loader.pin_memory, latency_s=latency_s)
    return SharedCores(
        log,
        n,
        pins=settings.loader.pin_memory,
        latency_s=latency_s,
        cores=costs.cores,
        slice_s=costs.slice_s,
        switching=costs.switching,
        random=Random(int(random.integers(2**32))).random if random is not None else None,
    )


def _load(costs: Costs, batch_size: int) -> tuple[float, float]:
    """What a worker computes of one batch, and all that it does, in seconds, on average."""
    read_s = batch_size * float(np.mean(costs.sample_s))
    share = float(np.mean(costs.sample_s * costs.cpu_share))
    collate_s = float(np.mean(costs.collate_s)) + costs.share_s + costs.send_s
    collate_s += batch_size * costs.collate_sample_s
    collate_s += batch_size * costs.sample_bytes / costs.bytes_per_s
    return batch_size * share + collate_s, read_s + collate_s
