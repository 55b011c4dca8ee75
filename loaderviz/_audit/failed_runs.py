"""What went wrong in a loader that was run: errors that name the sample and the way out."""

from __future__ import annotations

from typing import Any

from torch.utils.data import DataLoader

from loaderviz._audit.run_copy import CopyRun
from loaderviz._audit.watching_copy import is_iterable
from loaderviz.errors import LoaderVizError


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
        raise LoaderVizError(
            f"reading sample {unread_keys[0]} raised {type(error).__name__}, though the "
            f"dataset says that it holds {n:,} samples: let its __len__ return how many there are, "
            "or let it read that sample"
        ) from error
