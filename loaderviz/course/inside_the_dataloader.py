"""Exercises of notebook 02: a buffer, and a function that spawned workers can load."""

from __future__ import annotations

import html
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, permutations
from typing import Any

from torch.utils.data import DataLoader

from loaderviz.course.datasets import SleepingDataset
from loaderviz.course.exercises import Check, Hints, explains_errors
from loaderviz.course.figures.handover import handover
from loaderviz.course.in_a_worker import stderr_of_workers
from loaderviz.recorder import record

BATCH_SIZE, N_BATCHES, SLOW_BATCH = 4, 12, 8
SAMPLE_S, SLOW_S = 0.005, 0.4

buffer_hint = Hints(
    "keep the batches that come early in a dict, from number to batch.",
    "count which number is next, from 0. After each arrival, is that batch in the dict?",
    "one arrival can free several batches: use while, not if.",
)
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


@explains_errors
def reorder_buffer(reorder: Callable[[Iterator[tuple[int, Any]]], Iterable[Any]]) -> Check:
    """Whether ``reorder(results)`` yields batches in order, and each as soon as it can.

    ``results`` yields pairs of number and batch: in the order in which two real workers finished
    them, and then in every order of five batches.
    """
    finished = _order_of_real_workers()
    for order in [finished, *map(list, permutations(range(5)))]:
        handed, fault = _hand_over(reorder, order)
        if fault:
            numbers = ", ".join(map(str, order))
            message = f"Not yet: the batches arrive as {numbers}, and {fault}."
            title = html.escape(f"Not yet: {fault}"[:90])
            return Check(False, message, handover(order, handed, title))
    handed, _ = _hand_over(reorder, finished)
    figure = handover(finished, handed, "Your buffer hands over each batch in its turn, at once")
    return Check(True, "Every batch in order, and none is held back needlessly.", figure)


def _order_of_real_workers() -> list[int]:
    """The numbers of the batches, as two workers finish them."""
    loader = DataLoader(slow_dataset(), batch_size=BATCH_SIZE, num_workers=2)
    with record(loader) as rec:
        list(loader)
    return [int(number) for number in rec.trace.batches.sort_values("ready_s")["batch"]]


def _hand_over(
    reorder: Callable[..., Iterable[Any]], order: list[int]
) -> tuple[list[tuple[int, int]], str]:
    """What ``reorder`` hands over of batches that arrive in this order, and what is wrong with it.

    The first is a pair for each batch: after how many arrivals, and which. "" if nothing is wrong.
    """
    n_arrived = 0
    handed: list[tuple[int, int]] = []
    known = {f"batch {number}": number for number in order}

    def arrivals() -> Iterator[tuple[int, str]]:
        nonlocal n_arrived
        for number in order:
            n_arrived += 1
            yield number, f"batch {number}"

    batches = reorder(arrivals())
    if batches is None:
        return handed, "it returned None: hand the batches over with yield"
    fault = ""
    for batch in islice(batches, len(order) + 1):
        fault = fault or _fault(order, len(handed), batch, n_arrived)
        if not isinstance(batch, str) or batch not in known:
            return handed, fault
        handed.append((n_arrived, known[batch]))
    if not fault and len(handed) < len(order):
        fault = "not all of them are handed over"
    return handed, fault


def _fault(order: list[int], n: int, batch: Any, n_arrived: int) -> str:
    """What is wrong with handing over this batch after n others; "" if nothing."""
    if n == len(order):
        return "more is handed over than arrived"
    if batch != f"batch {n}":
        return f"{batch!r} is handed over in place of 'batch {n}'"
    free_after = max(order.index(number) for number in range(n + 1)) + 1
    if n_arrived > free_after:
        return f"{batch!r} waits for arrival {n_arrived}, though it was free after {free_after}"
    return ""


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
            error = f"{type(raised).__name__}: {raised}".splitlines()[0]
            traceback.clear_frames(raised.__traceback__)
        lines = stderr.read_text(errors="replace").splitlines()
        worker_error = next((line for line in reversed(lines) if "Error" in line), "")
    if error:
        is_new = worker_error and worker_error not in error
        addition = f" The worker said: {worker_error}" if is_new else ""
        return Check(False, f"Not yet. {error.rstrip('.')}.{addition}")
    if batches != [[0, 2, 4, 6], [8, 10, 12, 14]]:
        return Check(False, f"It arrived, but the batches are {batches}, not twice each sample.")
    return Check(True, "It arrived in a spawned worker, and every sample is doubled.")


def _as_list(batch: Any) -> Any:
    return batch.tolist() if hasattr(batch, "tolist") else batch
