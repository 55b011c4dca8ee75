"""What an audit would find of a stream that is split in a given way: worked out, no loader runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from loaderviz._audit.audit_result import Audit
from loaderviz._audit.conclude_audit import conclude
from loaderviz._audit.count_deliveries import Delivered, Expected, compare
from loaderviz._audit.verdict_text import Setting
from loaderviz.argument_checks import whole_number
from loaderviz.trace import Trace

Split = Callable[[range, int, int], Iterable[int]]


def simulate_audit(
    split: Split | None,
    n_samples: int,
    *,
    num_workers: int,
    batch_size: int,
    drop_last: bool = False,
) -> Audit:
    """The audit of an iterable-style dataset of samples 0 to ``n_samples - 1``, at once.

    Each worker cuts its own stream into batches, and the loop gets one from each in turn, as long
    as it has any (torch/utils/data/dataloader.py, ``_try_put_index``; _utils/fetch.py,
    ``_IterableDatasetFetcher.fetch``).

    Args:
        split: from ``range(n_samples)``, a worker's number and how many there are, to the samples
            that it yields, in order; None: every worker yields all of them.
        n_samples: how many the dataset holds, 0 or more.
        num_workers: 1 or more.
        batch_size: 1 or more.
        drop_last: whether each worker drops its last batch where that is not full.

    Raises:
        LoaderVizError: for a number below that.
        Exception: whatever ``split`` raises, unchanged.
    """
    whole_number("n_samples", n_samples, at_least=0)
    whole_number("num_workers", num_workers, at_least=1)
    whole_number("batch_size", batch_size, at_least=1)
    batches: list[list[list[int]]] = []
    dropped: list[int] = []
    for worker in range(num_workers):
        data = range(n_samples)
        own = list(data if split is None else split(data, worker, num_workers))
        full = len(own) - len(own) % batch_size if drop_last else len(own)
        batches.append([own[at : at + batch_size] for at in range(0, full, batch_size)])
        dropped += own[full:]
    held = np.arange(n_samples)
    found = compare(
        _delivered(batches), Expected(held, held, n_samples), 1, {0: np.array(dropped, np.int64)}
    )
    setting = Setting("iterable", n_samples, proves_missing=True, n_workers=num_workers)
    lanes = Trace.from_columns(workers={"worker": range(num_workers)})
    return replace(conclude(found, setting, lanes), simulated=True)


def _delivered(batches: list[list[list[int]]]) -> Delivered:
    """From the batches of each worker."""
    rows = [
        (worker, batch, position, sample)
        for batch, (worker, samples) in enumerate(_in_turn(batches))
        for position, sample in enumerate(samples)
    ]
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    one_epoch_of_one_rank = np.zeros((2, len(rows)), np.int64)
    return Delivered(*one_epoch_of_one_rank, *columns)


def _in_turn(workers: list[list[Any]]) -> Iterator[tuple[int, Any]]:
    for turn in itertools.zip_longest(*workers):
        yield from ((worker, each) for worker, each in enumerate(turn) if each is not None)
