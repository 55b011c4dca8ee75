"""What went wrong in a loader that was run: errors that name the sample and the way out."""

from __future__ import annotations

from typing import Any

from torch.utils.data import DataLoader

from loaderviz._audit.run_copy import Run
from loaderviz._audit.watching_copy import is_iterable
from loaderviz.errors import LoaderVizError


def check(loader: DataLoader[Any], run: Run) -> None:
    """Raises LoaderVizError for a failure of the audit's, and any other error as it is."""
    error = run.error
    if error is None:
        _check_that_it_runs_again(run)
        return
    if isinstance(error, LoaderVizError):
        # Torch puts a worker's traceback before the message (torch/_utils.py, ExceptionWrapper).
        message = str(error).rpartition("LoaderVizError: ")[2].strip()
        raise LoaderVizError(message) from error
    died = run.trace.workers[run.trace.workers["exit"].isin(["killed", "failed"])]
    if isinstance(error, RuntimeError) and "DataLoader worker" in str(error) and len(died):
        raise LoaderVizError(_death(loader, run, died)) from error
    if isinstance(error, IndexError | KeyError) and not is_iterable(loader):
        _check_length(loader, run, error)
    raise error


def _check_that_it_runs_again(run: Run) -> None:
    empty = [epoch for epoch, rows in enumerate(run.rows) if not rows]
    if empty and empty[0] > 0:
        raise LoaderVizError(
            f"the loader delivered {len(run.rows[0]):,} batches in epoch 0 and none in epoch "
            f"{empty[0]}: it cannot be iterated twice, because its dataset or its sampler holds an "
            "iterator that is used up. Make the iterator anew in each __iter__."
        )


def _death(loader: DataLoader[Any], run: Run, died: Any) -> str:
    told = died[died["last_key"].notna()]
    row = (told if len(told) else died).iloc[0]
    worker = int(row["worker"])
    how = "was killed" if row["exit"] == "killed" else "ended by itself"
    if is_iterable(loader):
        made = run.blocks[-1].get(worker, []) if run.blocks else []
        n = sum(map(len, made))
        what = f"after {n:,} samples of its stream, while it made the batch that follows"
        way_out = "Iterate the dataset by itself up to there"
    else:
        key = row["last_key"]
        what = "between two samples" if key is None else f"while it read sample {key!r}"
        way_out = "Read that sample by itself" + ("" if key is None else f", dataset[{key!r}]")
    return (
        f"worker {worker} {how} {what}. {way_out}, without workers, to see why; "
        "where memory runs out, the system kills."
    )


def _check_length(loader: DataLoader[Any], run: Run, error: Exception) -> None:
    """Whether the dataset has fewer samples than it says: then the sampler asks for too many."""
    try:
        n = len(loader.dataset)  # type: ignore[arg-type]
    except Exception:
        return
    samples = run.trace.samples
    keys = samples.loc[samples["end_s"].isna(), "key"].tolist()
    if keys and isinstance(keys[0], int) and 0 <= keys[0] < n:
        raise LoaderVizError(
            f"reading sample {keys[0]} raised {type(error).__name__}, though the "
            f"dataset says that it holds {n:,} samples: let its __len__ return how many there are, "
            "or let it read that sample"
        ) from error
