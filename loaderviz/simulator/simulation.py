"""One simulation: a loop over simulated epochs, on simulated CPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loaderviz.simulator.epoch_plan import Plan, plan_epoch
from loaderviz.simulator.event_log import Log
from loaderviz.simulator.processes import Processes
from loaderviz.simulator.simulated_loader import Loop
from loaderviz.simulator.simulated_settings import SimulatedSettings
from loaderviz.simulator.simulated_trace import SimulatedRun

if TYPE_CHECKING:
    from loaderviz.simulator.costs import Costs


def run_simulation(costs: Costs, settings: SimulatedSettings) -> SimulatedRun:
    """Simulate a loader and its loop; a ``Trace`` of it takes as long again."""
    log, plans = Log(), []

    def plan_of(epoch: int) -> Plan:
        random = np.random.default_rng((settings.seed, epoch)) if settings.seed else None
        plans.append(plan_epoch(costs, settings, epoch, random))
        return plans[-1]

    assert costs.cores is not None
    processes = Processes(
        log,
        settings.loader.num_workers,
        pins=settings.loader.pin_memory,
        latency_s=float(np.mean(costs.transport_s)),
        cores=costs.cores,
    )
    Loop(costs, settings, processes, log).run(plan_of)
    return SimulatedRun(log, plans, settings, costs)
