"""``simulate``: settings are checked, a loop runs over simulated epochs, a ``Trace`` comes out."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.simulator.cores_shared import SharedCores
from loaderviz.simulator.cores_uncontended import FreeCores
from loaderviz.simulator.costs import Costs
from loaderviz.simulator.epoch_plan import Plan, plan
from loaderviz.simulator.event_log import Log
from loaderviz.simulator.simulated_loader import Cores, Loop
from loaderviz.simulator.simulated_settings import Setup, checked
from loaderviz.simulator.simulated_trace import trace_of
from loaderviz.trace import Trace

NEGLIGIBLE = 0.02  # of the cores: what workers compute that hardly ever meet on a CPU


def simulate(
    costs: Costs,
    *,
    num_workers: int,
    batch_size: int | None,
    n_batches: int | None = None,
    n_samples: int | None = None,
    prefetch_factor: int | None = None,
    in_order: bool = True,
    pin_memory: bool = False,
    persistent_workers: bool = False,
    epochs: int = 1,
    start_method: str | None = None,
    kind: str = "map",
    shards: Sequence[int] | None = None,
    drop_last: bool = False,
    seed: int = 0,
) -> Trace:
    """What a DataLoader with these settings would do, as a ``Trace`` like a recorded one.

    >>> costs = Costs(sample_s=0.01, step_s=0.05)
    >>> simulate(costs, num_workers=2, batch_size=8, n_batches=9).summary()

    The model is torch's own control flow (torch/utils/data/dataloader.py,
    ``_MultiProcessingDataLoaderIter``): workers that are started one after another,
    ``prefetch_factor * num_workers`` tasks under way, a queue for each worker, round robin, and the
    reordering of what arrives. Which worker makes which batch, and in which order batches are
    delivered, is exactly what torch does wherever that does not depend on time. A naive
    iterable-style dataset is delivered ``num_workers`` times.

    Args:
        costs: what the work takes.
        num_workers: as in ``DataLoader``, as are all that are named alike.
        batch_size: None is one sample a batch.
        n_batches: how many full batches the dataset holds. Beside ``n_samples`` or ``shards``,
            which say so too: how many batches the loop takes from an epoch at most.
        n_samples: how many samples the dataset holds, where the last batch is not full.
        prefetch_factor: batches under way for each worker; None: 2, as torch has it.
        in_order: whether batches are delivered in the order of dispatch.
        pin_memory: whether batches are pinned.
        persistent_workers: whether workers live on from one epoch to the next.
        epochs: how often the loop goes through the loader.
        start_method: ``fork``, ``forkserver`` or ``spawn``; None: that of the costs.
        kind: ``map`` or ``iterable``, the style of the dataset.
        shards: of an iterable-style dataset, how many samples each worker yields; without it every
            worker yields all samples. With ``num_workers=0`` there is one.
        drop_last: whether a batch that is not full is left out, of each stream.
        seed: 0 goes through the costs from their beginning. Any other number begins somewhere in
            them, and lets tasks be late at random by ``costs.jitter_s``: where ties decide, as with
            ``in_order=False``, several seeds show how far runs differ. ``band`` does that.

    Returns:
        Times are in seconds from the start of the loop.

    Raises:
        LoaderVizError: for costs that are none, a number below what it may be or that is no whole
            one, settings that torch refuses (``prefetch_factor`` or ``persistent_workers`` without
            workers), or a dataset that is not told of or told of twice.
    """
    given = locals().copy()
    del given["costs"]
    if not isinstance(costs, Costs):
        raise LoaderVizError(
            f"simulate() takes Costs, but got {type(costs).__name__} {costs!r:.60}. "
            "Give Costs(sample_s=0.01), or Costs.from_trace(trace)."
        )
    if start_method is None and num_workers:
        given["start_method"] = costs.start_method
    return run(costs, checked(**given))


def run(costs: Costs, setup: Setup) -> Trace:
    random = np.random.default_rng(setup.seed) if setup.seed else None
    log, plans = Log(), []

    def plan_of(epoch: int) -> Plan:
        plans.append(plan(costs, setup, epoch, random))
        return plans[-1]

    Loop(costs, setup, _cores(costs, setup, log, random), log).run(plan_of)
    return trace_of(log, plans, costs, setup)


def _cores(costs: Costs, setup: Setup, log: Log, random: np.random.Generator | None) -> Cores:
    n = setup.num_workers
    latency_s = float(np.mean(costs.transport_s))
    computing, in_all = _load(costs, setup.batch_size)
    assert costs.cores is not None
    most = (
        n + 1 + setup.pin_memory
    )  # compute at once: all workers, the main process, the pin thread
    seldom = in_all <= 0 or n * computing / in_all < NEGLIGIBLE * costs.cores
    if (most <= costs.cores or seldom) and costs.cores >= 1:
        return FreeCores(log, n, pins=setup.pin_memory, latency_s=latency_s)
    return SharedCores(
        log,
        n,
        pins=setup.pin_memory,
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
