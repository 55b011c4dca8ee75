"""Samples in memory that are read one by one, so that the calls take the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from loaderviz.trace.described_loaders import loader_description

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace

IN_MEMORY_S: Final = 20e-6  # of a sample, at most: to open and read a file takes longer (measured)
FEWEST_SAMPLES: Final = 16  # of a batch: fewer calls are not what takes the time
LEAST_S: Final = 1e-4  # of a batch, to be worth a change: as LV314 has it


def one_by_one_s(trace: Trace, loader: int) -> float | None:
    """How long a sample of this loader usually takes; None where they do not come from memory.

    Nor where nobody knows whether torch reads them one by one and collates them itself, or where
    that takes too little to matter.
    """
    if loader_description(trace.meta, loader).get("one_by_one") is not True:
        return None
    batches = trace.batches[trace.batches["loader"] == loader]
    n_samples = batches["n_samples"].median()
    read_s = (batches["collate_s"] - batches["started_s"]) / batches["n_samples"].clip(lower=1)
    made_s = (batches["ready_s"] - batches["started_s"]).median()
    item_s = float(read_s.median())
    from_memory = n_samples >= FEWEST_SAMPLES and item_s <= IN_MEMORY_S and made_s >= LEAST_S
    return item_s if from_memory else None
