"""An exercise of notebook 02: a function that spawned workers can load."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader

from loaderviz.course.datasets import SleepingDataset
from loaderviz.course.exercises import Check, Hints
from loaderviz.course.in_a_worker import stderr_of_workers

BATCH_SIZE, N_BATCHES, SLOW_BATCH = 4, 12, 8
SAMPLE_S, SLOW_S = 0.005, 0.4


spawn_hint = Hints(
    "the worker gets the function's name and the name of its module, and imports that module.",
    "your notebook is the module __main__, and the worker has another __main__.",
    "%%writefile doubling.py at the top of a cell writes the cell to a file.",
)


def slow_dataset() -> SleepingDataset:
    """Twelve batches of 4; one sample of batch 8 is slow, so that later batches overtake it.

    Batch 8 is sent to its worker when batch 4 is delivered: by then both workers have started.
    """
    slow_sample = SLOW_BATCH * BATCH_SIZE
    n = N_BATCHES * BATCH_SIZE
    return SleepingDataset(n, [SLOW_S if key == slow_sample else SAMPLE_S for key in range(n)])


def works_when_spawned(collate_fn: Callable[[list[int]], Any]) -> Check:
    """Whether ``collate_fn`` reaches a worker that is started by spawn and doubles every sample."""
    loader = DataLoader(
        SleepingDataset(2 * BATCH_SIZE, 0),
        batch_size=BATCH_SIZE,
        collate_fn=collate_fn,
        num_workers=1,
        multiprocessing_context="spawn",
    )
    error = worker_error = ""
    batches: list[Any] = []
    with stderr_of_workers() as stderr, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns, too, of what cannot be pickled
        try:
            batches = [_as_list(batch) for batch in loader]
        except Exception as raised:
            error, *more = f"{type(raised).__name__}: {raised}".splitlines()
            if more and "in DataLoader worker process" in error:  # torch quotes its traceback
                worker_error = more[-1].strip()
            traceback.clear_frames(raised.__traceback__)
        lines = stderr.read_text(errors="replace").splitlines()
        on_stderr = (line for line in reversed(lines) if "Error" in line)
        worker_error = worker_error or next(on_stderr, "")
    if error:
        is_new = worker_error and worker_error not in error
        addition = f" The worker said: {worker_error}" if is_new else ""
        return Check(False, f"Not yet. {error.rstrip('.')}.{addition}")
    if batches != [[0, 2, 4, 6], [8, 10, 12, 14]]:
        return Check(False, f"It arrived, but the batches are {batches}, not twice each sample.")
    return Check(True, "It arrived in a spawned worker, and every sample is doubled.")


def _as_list(batch: Any) -> Any:
    return batch.tolist() if hasattr(batch, "tolist") else batch
