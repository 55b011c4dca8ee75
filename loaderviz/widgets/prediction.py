"""Predicts by simulation what a run with given settings would do."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from torch.utils.data import DataLoader

from loaderviz.loaders.start_method import start_method
from loaderviz.simulator import Costs, simulate
from loaderviz.simulator.typical_costs import TYPICAL_HANDOVER, TYPICAL_SHARE_S, TYPICAL_START
from loaderviz.trace import Trace
from loaderviz.widgets.explorer_settings import ExplorerSettings, has_batch_size, samples_of
from loaderviz.working_dataset import sample_times

IN_LINE = 0.1  # of the time of workers: so much makes what is simulated of full CPUs matter
COLLATE_S_PER_BYTE = 4e-10  # to copy a sample into its batch, as measured in 2025


@dataclass(frozen=True)
class MeasuredLoader:
    """What a recording of the user's own loader has shown."""

    costs: Costs
    batch_size: int | None  # where torch does not form the batches; None: it can be chosen
    n_samples: int | None  # in the dataset; None if it does not say


def measured_loader(trace: Trace, user_loader: DataLoader[Any]) -> MeasuredLoader:
    """Fit a loader's costs to a recorded run of it, with whatever settings.

    Raises:
        LoaderVizError: if no batch was delivered in that run.
    """
    batch_sizes = trace.batches.loc[trace.batches["delivered_s"].notna(), "n_samples"]
    costs = Costs.from_trace(trace)
    batch_size = None if has_batch_size(user_loader) else max(1, int(batch_sizes.median()))
    return MeasuredLoader(costs, batch_size, samples_of(user_loader))


class StartCosts(NamedTuple):
    """Seconds to start one worker: in the main process, and then in the worker."""

    startup_s: float
    boot_s: float


def measured_start_costs(trace: Trace) -> StartCosts | None:
    """What it cost to start a worker in a recorded run; None if it had no workers."""
    if trace.workers["first_task_s"].isna().all():
        return None
    return StartCosts(*Costs.from_trace(trace).start_of(None))


def predict(
    settings: ExplorerSettings,
    measured: MeasuredLoader | None = None,
    start_costs: StartCosts | None = None,
) -> Trace:
    """Simulate a run with these settings.

    Args:
        settings: the position of the controls.
        measured: the user's own loader; None for the teaching dataset.
        start_costs: what it costs to start a worker of the teaching dataset, if that has been
            measured on this machine.

    Raises:
        LoaderVizError: for settings that cannot be simulated.
    """
    costs = measured.costs if measured else _teaching_costs(settings, start_costs)
    costs = replace(costs, step_s=settings.step_s, cores=settings.cores or costs.cores)
    batch_size = (measured and measured.batch_size) or settings.batch_size
    return simulate(
        costs,
        batch_size=batch_size,
        **settings.loader.options(),
        epochs=settings.epochs,
        **_dataset_options(settings, measured, batch_size),
    )


def cpus_are_full(predicted: Trace) -> bool:
    """Whether simulated workers stand in line for CPUs, which a model shares out evenly."""
    batches = predicted.batches
    making_s = (batches["ready_s"] - batches["started_s"]).sum()
    return bool(batches["queued_s"].sum() > IN_LINE * making_s)


def _dataset_options(
    settings: ExplorerSettings, measured: MeasuredLoader | None, batch_size: int
) -> dict[str, Any]:
    """What ``simulate`` takes for the dataset; a run of the user's own takes a few batches only."""
    n_samples, limit = settings.n_samples, {}
    n_workers = max(1, settings.loader.num_workers)
    if measured is not None:
        limit = {"n_batches": settings.n_batches}
        n_samples = (settings.n_batches + settings.loader.max_tasks) * batch_size
        if measured.n_samples is not None:
            n_samples = min(n_samples, measured.n_samples)
    if settings.kind == "map":
        return {"n_samples": n_samples, **limit}
    if settings.kind == "naive iterable":
        return {"kind": "iterable", "n_samples": n_samples, **limit}
    if measured is not None and measured.n_samples is None:
        n_samples = n_workers * math.ceil(n_samples / n_workers)
    shards = [len(range(worker, n_samples, n_workers)) for worker in range(n_workers)]
    return {"kind": "iterable", "shards": shards, **limit}


def _teaching_costs(settings: ExplorerSettings, start_costs: StartCosts | None) -> Costs:
    """What a ``WorkingDataset`` costs with these settings, and a loader of it on most machines."""
    startup_s, boot_s = start_costs or TYPICAL_START[start_method()]
    sample_s: Any = settings.sample_s
    typical: dict[str, Any] = {**TYPICAL_HANDOVER, "share_s": TYPICAL_SHARE_S}
    if settings.spread:
        sample_s = sample_times(settings.n_samples, settings.sample_s, settings.spread)
    return Costs(
        sample_s=sample_s,
        cpu_share=settings.cpu_share,
        collate_sample_s=settings.sample_bytes * COLLATE_S_PER_BYTE,
        sample_bytes=settings.sample_bytes,
        **typical,
        startup_s=startup_s,
        boot_s=boot_s,
    )
