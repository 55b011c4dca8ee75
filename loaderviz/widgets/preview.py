"""What a simulation says of one position of the sliders, before the real loader has run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import multiprocessing
from torch.utils.data import DataLoader, IterableDataset

from loaderviz.errors import LoaderVizError
from loaderviz.simulator import Costs, simulate
from loaderviz.simulator.costs import TYPICAL_START
from loaderviz.trace import Trace
from loaderviz.widgets.settings import Settings


def predict(
    settings: Settings, own: DataLoader[Any] | None = None, measured: Trace | None = None
) -> Trace | None:
    """The trace of a simulated run; None where nothing is known that it could start from.

    The teaching dataset's costs are the sliders' own. Those of the reader's loader are taken from
    ``measured``, a run of it with any settings; how an iterable-style dataset divides itself among
    other workers, no run tells.
    """
    if own is None:
        costs = _of_the_teaching_dataset(settings)
    elif measured is None or isinstance(own.dataset, IterableDataset):
        return None
    else:
        try:
            costs = replace(Costs.from_trace(measured), step_s=settings.step_s)
        except LoaderVizError:  # cancelled before a batch was delivered, say
            return None
    return simulate(
        costs,
        num_workers=settings.num_workers,
        batch_size=settings.batch_size,
        n_batches=settings.n_batches,
        prefetch_factor=settings.prefetch_factor if settings.num_workers else None,
        in_order=True if own is None else own.in_order,
    )


def _of_the_teaching_dataset(settings: Settings) -> Costs:
    method = multiprocessing.get_start_method(allow_none=True)
    method = method or multiprocessing.get_all_start_methods()[0]
    startup_s, boot_s = TYPICAL_START[method]
    return Costs(
        sample_s=settings.sample_s, step_s=settings.step_s, startup_s=startup_s, boot_s=boot_s
    )
