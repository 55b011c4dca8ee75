"""What the first epoch delivered, against what each key holds when it is read alone."""

from __future__ import annotations

from pathlib import Path

from loaderviz._contents.compared_contents import (
    Collated,
    ComparedContents,
    compare_contents,
)
from loaderviz._contents.pristine_copy import PristineCopy
from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.run_epochs import Epoch
from loaderviz.trace import load


def compare_first_epoch(
    setup: Setup, pristine: PristineCopy, epoch: Epoch, recording: Path, budget_s: float
) -> ComparedContents:
    """Compare the samples of this epoch, whose notes say what each held when it was collated.

    A later epoch may rightly hold others, where the dataset knows the number of its epoch.

    Args:
        setup: of a loader whose dataset is map-style.
        pristine: a copy of this process from before the epoch.
        epoch: the first.
        recording: the folder in which it was recorded.
        budget_s: seconds to read keys for.
    """
    trace = load(recording)
    batches = trace.batches[trace.batches["delivered_s"].notna() & (trace.batches["epoch"] == 0)]
    numbers = batches.sort_values("delivered_s")["batch"].tolist()
    collated = {
        (0, number): Collated([*note.digests], None, note.n_rows)
        for number, note in zip(numbers, epoch.notes, strict=False)
    }
    delivered = trace.samples.merge(batches[["epoch", "batch"]], on=["epoch", "batch"])
    delivered = delivered[["epoch", "key", "worker", "batch", "position"]]
    settings = setup.settings
    return compare_contents(
        delivered,
        collated,
        pristine,
        budget_s,
        max(1, setup.num_workers),
        collate_fn=settings["collate_fn"],
        worker_init_fn=settings["worker_init_fn"],
    )
