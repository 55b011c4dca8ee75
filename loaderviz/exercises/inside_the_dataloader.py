"""Exercises of notebook 02: a reorder buffer, and a function that reaches spawned workers."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, permutations
from typing import Any

from torch.utils.data import DataLoader

from loaderviz.datasets import SleepingDataset
from loaderviz.exercises.hints import Check, Hints
from loaderviz.exercises.sending import stderr_of_workers
from loaderviz.figures import timeline
from loaderviz.recorder import record
from loaderviz.trace import Trace

BATCH_SIZE, N_BATCHES, SLOW_BATCH = 4, 12, 8
SAMPLE_S, SLOW_S = 0.005, 0.4

buffer_hint = Hints(
    "keep the batches that are early in a dict, from number to batch.",
    "count which number is next, from 0. After each arrival: is that one in the dict?",
    "one arrival can set several free: use while, not if.",
)
spawn_hint = Hints(
    "the worker gets the function's name and the name of its module, and imports that module.",
    "your notebook is the module __main__, and the worker has another __main__.",
    "%%writefile doubling.py at the top of a cell writes the cell to a file.",
)


def slow_dataset() -> SleepingDataset:
    """One sample of batch 8 is slow, so that the batch is overtaken by its followers.

    Batch 8 goes out when batch 4 is delivered, so that both workers have started by then.
    """
    slow = SLOW_BATCH * BATCH_SIZE
    n = N_BATCHES * BATCH_SIZE
    return SleepingDataset(n, [SLOW_S if key == slow else SAMPLE_S for key in range(n)])


def reorder_buffer(reorder: Callable[[Iterator[tuple[int, Any]]], Iterable[Any]]) -> Check:
    """Give it batches as they came from two real workers, and in every order of five."""
    trace = _recorded()
    figure = timeline(trace)
    arrived = [int(number) for number in trace.batches.sort_values("ready_s")["batch"]]
    for order in [arrived, *permutations(range(5))]:
        wrong = _wrong(reorder, list(order))
        if wrong:
            came = ", ".join(map(str, order))
            return Check(False, f"Not yet: the batches arrive as {came}, and {wrong}.", figure)
    return Check(True, "Every batch in order, and none is held back without need.", figure)


def _recorded() -> Trace:
    loader = DataLoader(slow_dataset(), batch_size=BATCH_SIZE, num_workers=2)
    with record(loader) as rec:
        for _ in loader:
            pass
    return rec.trace


def _wrong(reorder: Callable[..., Iterable[Any]], order: list[int]) -> str:
    """What is wrong with what comes out when the batches go in in this order; "" if nothing."""
    taken = 0

    def arrivals() -> Iterator[tuple[int, str]]:
        nonlocal taken
        for number in order:
            taken += 1
            yield number, f"batch {number}"

    handed_over = reorder(arrivals())
    if handed_over is None:
        return "it returned None: hand the batches over with yield"
    n = 0
    for batch in islice(handed_over, len(order) + 1):
        if n == len(order):
            return "more than arrived is handed over"
        if batch != f"batch {n}":
            return f"{batch!r} is handed over in place of 'batch {n}'"
        free_after = max(order.index(number) for number in range(n + 1)) + 1
        if taken > free_after:
            return f"{batch!r} waits for arrival {taken}, though it was free after {free_after}"
        n += 1
    return "" if n == len(order) else "not all of them are handed over"


def works_when_spawned(collate_fn: Callable[[list[int]], Any]) -> Check:
    """Run a real loader whose one worker is started by spawn, and must double every sample."""
    loader = DataLoader(
        SleepingDataset(2 * BATCH_SIZE, 0),
        batch_size=BATCH_SIZE,
        collate_fn=collate_fn,
        num_workers=1,
        multiprocessing_context="spawn",
    )
    said = error = ""
    batches: list[Any] = []
    with stderr_of_workers() as written, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what cannot be pickled torch also warns
        try:
            batches = [_listed(batch) for batch in loader]
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}".splitlines()[0]
            traceback.clear_frames(raised.__traceback__)
        lines = written.read_text(errors="replace").splitlines()
        said = next((line for line in reversed(lines) if "Error" in line), "")
    if error:
        worker = f" The worker said: {said}" if said and said not in error else ""
        return Check(False, f"Not yet. {error.rstrip('.')}.{worker}")
    if batches != [[0, 2, 4, 6], [8, 10, 12, 14]]:
        return Check(False, f"It arrived, but the batches are {batches}, not twice each sample.")
    return Check(True, "It arrived in a spawned worker, and every sample is doubled.")


def _listed(batch: Any) -> Any:
    return batch.tolist() if hasattr(batch, "tolist") else batch
