"""Runs a copy of a loader for an audit: what it delivered, and what went wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch.utils.data import DataLoader

from loaderviz._audit.watching_copy import is_iterable, note_leftover, note_samples
from loaderviz._contents.deliveries import NO_LIMIT, Collated, most_rows
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
    noted: list[list[Collated]] = field(default_factory=list)  # by batch, as they came
    leftover: list[list[Any]] = field(default_factory=list)  # keys that drop_last took
    error: Exception | None = None  # what ended the run early


def run_copy(
    loader: DataLoader[Any], epochs: int, identifier: SampleIdentifier | None, n_samples: int | None
) -> CopyRun:
    """Iterate a copy of the loader and return what it did; an error of its own is kept, not raised.

    Args:
        loader: the user's own, which stays as it is.
        epochs: how many times to iterate the copy.
        identifier: numbers each sample before it is collated. None: samples are known by the keys
            that the sampler asks for, and what they hold is noted.
        n_samples: stop each epoch after the batch that completes this many samples; None: never.
    """
    copied = copy_loader(loader)
    note_samples(copied, identifier)
    leftover_sampler = None if is_iterable(loader) else note_leftover(copied)
    recording = record(copied, max_spans=NO_LIMIT if identifier is None else 0)
    run = CopyRun(Trace.from_columns())
    try:
        with recording:
            for epoch in range(epochs):
                run.noted.append([])
                description = f"epoch {epoch} of {epochs}" if epochs > 1 else "running the loader"
                try:
                    _iterate(copied, description, n_samples, run.noted[-1])
                finally:
                    leftover = [] if leftover_sampler is None else leftover_sampler.leftover
                    run.leftover.append(leftover)
    except Exception as error:
        run.error = error
    run.trace = recording.trace
    return run


def _iterate(
    loader: DataLoader[Any], description: str, n_samples: int | None, noted: list[Collated]
) -> None:
    """Run one epoch, and append to ``noted`` what each batch holds, and whether it came as made.

    Pinning may make another kind of container of a batch, so its hash says nothing, then.
    """
    n_batches = None if is_iterable(loader) or n_samples else _length(loader)
    n_taken = 0
    with Progress(description, "batches", n_batches) as progress:
        for batch, note in loader:
            numbers, made = note
            got = None if made is None or loader.pin_memory else content_number(batch)
            noted.append(Collated(numbers, None if got is None else got == made, most_rows(batch)))
            progress.advance()
            n_taken += loader.batch_size or 1
            if n_samples is not None and n_taken >= n_samples:
                break


def _length(loader: DataLoader[Any]) -> int | None:
    try:
        return len(loader)
    except Exception:  # the sampler's own __len__ may raise anything
        return None


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
    empty = [epoch for epoch, batches in enumerate(run.noted) if not batches]
    if empty and empty[0] > 0:
        raise LoaderVizError(
            f"the loader delivered {len(run.noted[0]):,} batches in epoch 0 and none in epoch "
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
        batches = run.trace.batches[run.trace.batches["ready_s"].notna()]
        is_own = (batches["worker"] == worker) & (batches["epoch"] == len(run.noted) - 1)
        n_samples = int(batches.loc[is_own, "n_samples"].sum())
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
