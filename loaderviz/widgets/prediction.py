"""What a simulation says of one position of the controls, before the real loader has run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from torch.utils.data import DataLoader

from loaderviz.datasets.working import sample_times
from loaderviz.loaders.start_method import start_method
from loaderviz.simulator import Costs, simulate
from loaderviz.simulator.typical_costs import TYPICAL_HANDOVER, TYPICAL_SHARE_S, TYPICAL_START
from loaderviz.trace import Trace
from loaderviz.widgets.explorer_settings import ExplorerSettings, has_batch_size

COLLATE_S_PER_BYTE = 4e-10  # to copy a sample into its batch, on a machine of 2025


@dataclass(frozen=True)
class Known:
    """What a recording of the reader's own loader has shown."""

    costs: Costs
    batch_size: int | None  # where torch does not cut the batches, so that it cannot be chosen
    n_samples: int | None  # of the dataset; None where it does not say


def known_of(trace: Trace, own: DataLoader[Any]) -> Known:
    """Fitted to a run with any settings.

    Raises:
        LoaderVizError: for a run that was over before a batch was delivered.
    """
    n = trace.batches.loc[trace.batches["delivered_s"].notna(), "n_samples"]
    try:
        n_samples = len(own.dataset)  # type: ignore[arg-type]
    except Exception:  # of the reader's own code: a stream's length may be anything
        n_samples = None
    costs = Costs.from_trace(trace)
    return Known(costs, None if has_batch_size(own) else max(1, int(n.median())), n_samples)


class Start(NamedTuple):
    """Seconds to start one worker: in the main process, and then in the worker."""

    startup_s: float
    boot_s: float


def start_of(trace: Trace) -> Start | None:
    """What it took in a recording; None where that had no workers."""
    if trace.workers["first_task_s"].isna().all():
        return None
    return Start(*Costs.from_trace(trace).start_of(None))


def predict(
    settings: ExplorerSettings, known: Known | None = None, start: Start | None = None
) -> Trace:
    """The trace of a simulated run: of the teaching dataset, or of the loader that is known.

    ``start``: of the teaching dataset's workers, where it has been measured on this machine.
    """
    costs = known.costs if known else teaching_costs(settings, start)
    costs = replace(costs, step_s=settings.step_s, cores=settings.cores or costs.cores)
    batch_size = (known and known.batch_size) or settings.batch_size
    return simulate(
        costs,
        batch_size=batch_size,
        **settings.loader.options(),
        epochs=settings.epochs,
        **_dataset(settings, known, batch_size),
    )


def _dataset(settings: ExplorerSettings, known: Known | None, batch_size: int) -> dict[str, Any]:
    """What there is to load. Of the reader's own dataset a run takes some batches only."""
    n, most, workers = settings.n_samples, {}, max(1, settings.loader.num_workers)
    if known is not None:
        most = {"n_batches": settings.n_batches}
        n = (settings.n_batches + settings.loader.max_tasks) * batch_size
        n = n if known.n_samples is None else min(n, known.n_samples)
    if settings.kind == "map":
        return {"n_samples": n, **most}
    if settings.kind == "naive iterable":
        return {"kind": "iterable", "n_samples": n, **most}
    if known is not None and known.n_samples is None:
        n = workers * math.ceil(n / workers)
    shares = [len(range(worker, n, workers)) for worker in range(workers)]
    return {"kind": "iterable", "shards": shares, **most}


def teaching_costs(settings: ExplorerSettings, start: Start | None = None) -> Costs:
    """What a ``WorkingDataset`` costs with these settings, and a loader of it on most machines."""
    startup_s, boot_s = start or TYPICAL_START[start_method()]
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
