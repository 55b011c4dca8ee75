"""Runs a copy of a loader for an audit: what it delivered, and what went wrong."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import DataLoader, default_collate, default_convert

from loaderviz._audit.count_deliveries import Delivered, IntArray
from loaderviz._audit.watching_copy import (
    NO_CONTENT,
    NoteReader,
    is_iterable,
    note_leftover,
    note_samples,
)
from loaderviz._contents.compared_contents import (
    NO_LIMIT,
    Collated,
    ComparedContents,
    compare_contents,
    most_rows,
)
from loaderviz._contents.pristine_copy import PristineCopy
from loaderviz.errors import LoaderVizError, line_of_user
from loaderviz.loaders.content_hash import SampleIdentifier, content_number
from loaderviz.loaders.copy_loader import copy_loader
from loaderviz.recorder import record
from loaderviz.status_line import Progress
from loaderviz.trace import Trace


@dataclass
class CopyRun:
    """What a copy of a loader did; each list has an entry for every epoch that was begun."""

    trace: Trace
    notes: list[dict[int, list[IntArray]]] = field(default_factory=list)  # by worker, by batch
    leftover: list[list[Any]] = field(default_factory=list)  # keys that drop_last took
    max_rows: list[list[int]] = field(default_factory=list)  # by batch: the samples it may hold
    received: list[list[int | None]] = field(default_factory=list)  # by batch: its hash
    error: Exception | None = None  # what ended the run early


def run_copy(
    loader: DataLoader[Any],
    epochs: int,
    identifier: SampleIdentifier | None,
    n_samples: int | None,
    folder: Path,
) -> CopyRun:
    """Iterate a copy of the loader and return what it did; an error of its own is kept, not raised.

    Args:
        loader: the user's own, which stays as it is.
        epochs: how many times to iterate the copy.
        identifier: numbers each sample before it is collated. None: samples are known by the keys
            that the sampler asks for, and what they hold is noted.
        n_samples: stop each epoch after the batch that completes this many samples; None: never.
        folder: an empty one, for what the workers note.
    """
    copied = copy_loader(loader)
    noting = note_samples(copied, identifier, folder)
    leftover_sampler = None if is_iterable(loader) else note_leftover(copied)
    recording = record(copied, max_spans=NO_LIMIT if identifier is None else 0)
    run = CopyRun(Trace.from_columns())
    reader = NoteReader(folder)
    with closing(noting):
        try:
            with recording:
                for epoch in range(epochs):
                    run.max_rows.append([])
                    run.received.append([])
                    hashed = None if identifier or loader.pin_memory else run.received[-1]
                    try:
                        _iterate(copied, epoch, epochs, n_samples, run.max_rows[-1], hashed)
                    finally:
                        run.notes.append(reader.read_new())
                        leftover = [] if leftover_sampler is None else leftover_sampler.leftover
                        run.leftover.append(leftover)
        except Exception as error:
            run.error = error
    run.trace = recording.trace
    return run


def _iterate(
    loader: DataLoader[Any],
    epoch: int,
    epochs: int,
    n_samples: int | None,
    max_rows: list[int],
    hashed: list[int | None] | None,
) -> None:
    """Run one epoch, and append to ``max_rows`` how many samples each batch may hold.

    And to ``hashed`` what it held when it arrived. Pinning may make another kind of container of
    it, so its hash says nothing, then.
    """
    n_batches = None if is_iterable(loader) or n_samples else _length(loader)
    description = f"epoch {epoch} of {epochs}" if epochs > 1 else "running the loader"
    n_taken = 0
    with Progress(description, "batches", n_batches) as progress:
        for batch in loader:
            max_rows.append(most_rows(batch))
            if hashed is not None:
                hashed.append(content_number(batch))
            progress.advance()
            n_taken += loader.batch_size or 1
            if n_samples is not None and n_taken >= n_samples:
                break


def _length(loader: DataLoader[Any]) -> int | None:
    try:
        return len(loader)
    except Exception:  # the sampler's own __len__ may raise anything
        return None


def describe_lacking_rows(run: CopyRun, loader: DataLoader[Any]) -> str:
    """A sentence about samples that ``collate_fn`` left out of batches; empty if none is seen."""
    if loader.collate_fn in (default_collate, default_convert) or loader.batch_sampler is None:
        return ""
    name = getattr(loader.collate_fn, "__name__", type(loader.collate_fn).__name__)
    lacking = []
    delivered = run.trace.batches[run.trace.batches["delivered_s"].notna()]
    delivered = delivered.sort_values("delivered_s")
    for epoch, max_rows in enumerate(run.max_rows):
        sizes = delivered.loc[delivered["epoch"] == epoch, "n_samples"]
        for n_rows, n_samples in zip(max_rows, sizes, strict=False):
            if n_rows < n_samples:
                lacking.append((n_rows, int(n_samples)))
    if not lacking:
        return ""
    n_rows, n_samples = lacking[0]
    return (
        f"collate_fn={name} returned fewer rows than samples in {len(lacking):,} "
        f"batches ({n_rows} for {n_samples}, say). Samples that it leaves out count as delivered "
        "here."
    )


def raise_failure(loader: DataLoader[Any], run: CopyRun) -> None:
    """Raise what went wrong in the run; return where nothing did.

    Raises:
        LoaderVizError: where the cause is known: a sample that cannot be told from others, a worker
            that died, a dataset with a wrong length, a loader that cannot be iterated twice.
        Exception: any other error that ended the run, unchanged.
    """
    error = run.error
    if error is None:
        _check_that_it_runs_again(run)
        return
    if isinstance(error, LoaderVizError):
        # Torch puts a worker's traceback before the message (torch/_utils.py, ExceptionWrapper).
        message = str(error).rpartition("LoaderVizError: ")[2].strip()
        raise LoaderVizError(message) from error
    dead_workers = run.trace.workers[run.trace.workers["exit"].isin(["killed", "failed"])]
    if isinstance(error, RuntimeError) and "DataLoader worker" in str(error) and len(dead_workers):
        raise LoaderVizError(_describe_death(loader, run, dead_workers)) from error
    if isinstance(error, IndexError | KeyError) and not is_iterable(loader):
        _check_length(loader, run, error)
    raise error


def _check_that_it_runs_again(run: CopyRun) -> None:
    """Raise LoaderVizError where a later epoch has delivered nothing."""
    empty = [epoch for epoch, batches in enumerate(run.max_rows) if not batches]
    if empty and empty[0] > 0:
        raise LoaderVizError(
            f"the loader delivered {len(run.max_rows[0]):,} batches in epoch 0 and none in epoch "
            f"{empty[0]}: it cannot be iterated twice, because its dataset or its sampler holds an "
            "iterator that is used up. Make the iterator anew in each __iter__."
        )


def _describe_death(loader: DataLoader[Any], run: CopyRun, dead_workers: Any) -> str:
    """Which worker died, at which sample, and the way out."""
    with_key = dead_workers[dead_workers["last_key"].notna()]
    row = (with_key if len(with_key) else dead_workers).iloc[0]
    worker = int(row["worker"])
    how = "was killed" if row["exit"] == "killed" else "ended by itself"
    if is_iterable(loader):
        notes = run.notes[-1].get(worker, []) if run.notes else []
        n_samples = sum(map(len, notes))
        when = f"after {n_samples:,} samples of its stream, while it made the batch that follows"
        way_out = "Iterate the dataset by itself up to there"
    else:
        key = row["last_key"]
        when = "between two samples" if key is None else f"while it read sample {key!r}"
        way_out = "Read that sample by itself" + ("" if key is None else f", dataset[{key!r}]")
    return (
        f"worker {worker} {how} {when}. {way_out}, without workers, to see why; "
        "a kill may mean that memory ran out."
    )


def _check_length(loader: DataLoader[Any], run: CopyRun, error: Exception) -> None:
    """Raise LoaderVizError where the dataset cannot read a sample that its length promises."""
    try:
        n = len(loader.dataset)  # type: ignore[arg-type]
    except Exception:
        return
    samples = run.trace.samples
    unread_keys = samples.loc[samples["end_s"].isna(), "key"].tolist()
    if unread_keys and isinstance(unread_keys[0], int) and 0 <= unread_keys[0] < n:
        where = line_of_user(error)
        raise LoaderVizError(
            f"{where}: "
            * bool(where)
            + f"reading sample {unread_keys[0]} raised {type(error).__name__}, though the "
            f"dataset says that it holds {n:,} samples: let its __len__ return how many there are, "
            "or let it read that sample"
        ) from error


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
