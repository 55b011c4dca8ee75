"""``simulate``: checks settings, and simulates them on given costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from multiprocessing import get_all_start_methods
from typing import Any

from loaderviz.argument_checks import true_or_false, whole_number
from loaderviz.errors import LoaderVizError
from loaderviz.loader_settings import LoaderSettings, refuse_without_workers
from loaderviz.simulator.costs import Costs
from loaderviz.simulator.epoch_plan import SimulatedSettings
from loaderviz.simulator.simulated_loader import run_loop
from loaderviz.simulator.simulated_trace import trace_of
from loaderviz.simulator.typical_costs import check_start_method
from loaderviz.trace import Trace
from loaderviz.trace.check_trace import MOST_SAMPLES


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
) -> Trace:
    """What a DataLoader with these settings would do: a ``Trace`` like a recorded one.

    >>> costs = Costs(sample_s=0.01, step_s=0.05)
    >>> simulate(costs, num_workers=2, batch_size=8, n_batches=9).summary()

    The model is torch's own control flow (torch/utils/data/dataloader.py,
    ``_MultiProcessingDataLoaderIter``): workers that are started one after another,
    ``prefetch_factor * num_workers`` tasks under way, a queue for each worker, round robin, and the
    reordering of what arrives. Which worker makes which batch, and in which order batches are
    delivered, is exactly what torch does wherever that does not depend on time. A naive
    iterable-style dataset is delivered ``num_workers`` times. All that compute share the CPUs
    evenly: how a scheduler does it, and what memory, caches or disks cost those who share them,
    only a run tells.

    Args:
        costs: what the work takes.
        num_workers: as in ``DataLoader``, like all arguments that have a name of its arguments.
        batch_size: samples a batch; None: one.
        n_batches: how many full batches the dataset holds. Together with ``n_samples`` or
            ``shards``: how many batches the loop takes from an epoch at most.
        n_samples: how many samples the dataset holds, where the last batch is not full.
        prefetch_factor: batches under way for each worker; None: 2, as torch has it.
        in_order: whether batches are delivered in the order of dispatch.
        pin_memory: whether batches are pinned.
        persistent_workers: whether workers live on from one epoch to the next.
        epochs: how often the loop goes through the loader.
        start_method: ``fork``, ``forkserver`` or ``spawn``; None: that of the costs.
        kind: ``map`` or ``iterable``, the style of the dataset.
        shards: how many samples each worker of an iterable-style dataset yields, one number for
            ``num_workers=0``. None: every worker yields all samples.
        drop_last: whether a last batch that is not full is left out; of each stream.

    Returns:
        A trace whose times are seconds from the start of the loop.

    Raises:
        LoaderVizError: for costs that are not ``Costs``, a number that is too small or not whole,
            settings that torch refuses (``prefetch_factor`` or ``persistent_workers`` without
            workers), or a dataset whose size is not given or given twice.
    """
    if not isinstance(costs, Costs):
        raise LoaderVizError(
            f"simulate() takes Costs, but got {type(costs).__name__} {costs!r:.60}. "
            "Give Costs(sample_s=0.01), or Costs.from_trace(trace)."
        )
    loader = LoaderSettings(num_workers, prefetch_factor, in_order, persistent_workers, pin_memory)
    if loader.num_workers:
        start_method = start_method or costs.start_method or get_all_start_methods()[0]
    else:
        refuse_without_workers("start_method", start_method)
    check_start_method(start_method)
    size = 1 if batch_size is None else whole_number("batch_size", batch_size, at_least=1)
    n_total, most_batches = _dataset_size(n_batches, n_samples, shards, size)
    streams = _streams_of(kind, shards, n_total, max(loader.num_workers, 1))
    settings = SimulatedSettings(
        loader,
        batch_size=size,
        n_samples=n_total,
        shards=streams,
        naive=shards is None,
        drop_last=true_or_false("drop_last", drop_last),
        start_method=start_method,
        most_batches=most_batches,
        epochs=whole_number("epochs", epochs, at_least=1),
    )
    n_simulated = settings.epochs * sum(streams or [n_total])
    if n_simulated > MOST_SAMPLES:
        raise LoaderVizError(
            f"{n_simulated:,} samples are too many to simulate: {MOST_SAMPLES:,} at most"
        )
    log, plans = run_loop(costs, settings)
    return trace_of(log, plans, settings, costs)


def _dataset_size(n_batches: Any, n_samples: Any, shards: Any, size: int) -> tuple[int, int | None]:
    """Samples of the dataset, and how many batches the loop takes at most."""
    if n_batches is not None:
        n_batches = whole_number("n_batches", n_batches, at_least=1)
    if n_samples is not None and shards is not None:
        raise LoaderVizError(
            f"n_samples={n_samples!r} and shards={shards!r} both say how much there is: give one"
        )
    if n_samples is not None:
        return whole_number("n_samples", n_samples, at_least=1), n_batches
    if shards is not None:
        return 0, n_batches
    if n_batches is None:
        raise LoaderVizError(
            "how much is there to load? Give n_batches, n_samples, or an iterable's shards"
        )
    return n_batches * size, None


def _streams_of(kind: Any, shards: Any, n_samples: int, n_streams: int) -> tuple[int, ...] | None:
    """Samples of each worker's stream; None for a map-style dataset."""
    if kind not in ("map", "iterable"):
        raise LoaderVizError(f"kind={kind!r}: a dataset is 'map' or 'iterable'")
    if kind == "map":
        if shards is not None:
            raise LoaderVizError(
                "shards are the streams of an iterable-style dataset: give kind='iterable' too"
            )
        return None
    return (n_samples,) * n_streams if shards is None else _shards(shards, n_streams)


def _shards(shards: Any, n_streams: int) -> tuple[int, ...]:
    if not isinstance(shards, Iterable) or isinstance(shards, str):
        raise LoaderVizError(f"shards={shards!r}: give the number of samples of each worker")
    sizes = tuple(whole_number(f"shards[{i}]", shard, at_least=0) for i, shard in enumerate(shards))
    if len(sizes) != n_streams:
        workers = "the main process, which loads," if n_streams == 1 else f"{n_streams} workers"
        raise LoaderVizError(f"{len(sizes)} shards for {workers}: give {n_streams}")
    return sizes
