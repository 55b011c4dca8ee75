"""The contents of what a copy of a loader delivered: gathered from its run, and compared."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch.utils.data import DataLoader

from loaderviz._audit.count_deliveries import Delivered
from loaderviz._audit.run_copy import CopyRun
from loaderviz._audit.watching_copy import NO_CONTENT
from loaderviz._contents.compared_contents import (
    Collated,
    ComparedContents,
    compare_contents,
)
from loaderviz._contents.pristine_copy import PristineCopy


def contents_of(
    loader: DataLoader[Any],
    pristine: PristineCopy,
    run: CopyRun,
    delivered: Delivered,
    keys: Any,
    budget_s: float,
) -> ComparedContents:
    """Compare what a map-style loader delivered with its dataset, read alone.

    Args:
        loader: the reader's own.
        pristine: a copy of this process from before the run.
        run: what a copy of it did.
        delivered: a row for each sample.
        keys: what each row was asked for by, an array or a list.
        budget_s: seconds for the reading.
    """
    import pandas as pd

    keys = keys if isinstance(keys, list) else keys.tolist()
    table = pd.DataFrame(
        {
            "epoch": delivered.epoch,
            "key": np.fromiter(keys, object, len(keys)),
            "worker": delivered.worker,
            "batch": delivered.batch,
            "position": delivered.position,
        }
    )
    return compare_contents(
        table,
        _collated(run),
        pristine,
        budget_s,
        max(1, loader.num_workers),
        collate_fn=loader.collate_fn,
        worker_init_fn=loader.worker_init_fn,
    )


def _collated(run: CopyRun) -> dict[tuple[int, int], Collated]:
    """What each batch that arrived held where it was collated, by epoch and batch.

    A worker's k-th note is of the k-th batch that it collated.
    """
    columns = ["epoch", "worker", "batch", "collate_s", "delivered_s"]
    batches = run.trace.batches[columns]
    found = {}
    for epoch, notes in enumerate(run.notes):
        of_epoch = batches[batches["epoch"] == epoch]
        arrived = of_epoch[of_epoch["delivered_s"].notna()].sort_values("delivered_s")
        places = {batch: place for place, batch in enumerate(arrived["batch"].tolist())}
        made = of_epoch[of_epoch["collate_s"].notna()]
        for worker, of_worker in notes.items():
            numbers = made.loc[made["worker"] == worker, "batch"].tolist()
            for batch, note in zip(numbers, of_worker, strict=False):
                if batch in places:
                    found[epoch, batch] = _one(run, epoch, places[batch], note.tolist())
    return found


def _one(run: CopyRun, epoch: int, place: int, note: list[int]) -> Collated:
    *numbers, batch = (None if number == NO_CONTENT else number for number in note)
    received = run.received[epoch]
    got = received[place] if place < len(received) else None
    arrived = None if got is None or batch is None else got == batch
    return Collated(numbers, arrived, run.max_rows[epoch][place])
