"""From a trace to the samples that were delivered, in the order of delivery."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from torch.utils.data import DataLoader

from loaderviz._audit.count_deliveries import NOT_IN_TRACE, Delivered, Expected, IntArray
from loaderviz._contents.read_stream import StreamWatch
from loaderviz.errors import LoaderVizError
from loaderviz.loaders.content_hash import SampleIdentifier
from loaderviz.sample_keys import to_json
from loaderviz.status_line import Progress
from loaderviz.trace.columns_of_rows import arrays, batch_rows

if TYPE_CHECKING:
    from loaderviz.trace import Trace

_EMPTY = np.zeros(0, np.int64)


def delivered_by_key(trace: Trace) -> tuple[Delivered, Any]:
    """Samples as the trace lists them, and their keys: what a map-style dataset was asked for.

    A key that is a list stands for as many samples: with ``batch_size=None`` a sampler may ask for
    a whole batch at once. ``Delivered.number`` stays None, because which numbers the keys get
    depends on what is expected. The keys are an array or a list, one for each sample.
    """
    batches = trace.batches[trace.batches["delivered_s"].notna()].sort_values("delivered_s")
    samples = arrays(trace.samples)
    batch_of_sample = batch_rows(samples, arrays(batches))
    order = np.lexsort((samples["position"], batch_of_sample))
    order = order[batch_of_sample[order] >= 0]
    keys: Any = samples["key"][order]
    columns = {
        name: np.asarray(batches[name], np.int64)[batch_of_sample[order]]
        for name in ("epoch", "rank", "worker", "batch")
    }
    position = samples["position"][order]
    if keys.dtype == object and any(isinstance(key, list) for key in keys):
        sizes = np.array([len(key) if isinstance(key, list) else 1 for key in keys], np.int64)
        columns = {name: np.repeat(values, sizes) for name, values in columns.items()}
        position = _positions(sizes)
        keys = [part for key in keys for part in (key if isinstance(key, list) else [key])]
    return Delivered(**columns, position=np.asarray(position, np.int64), number=None), keys


def delivered_by_number(
    trace: Trace, notes: list[dict[int, list[IntArray]]], full_size: int | None
) -> tuple[Delivered, dict[int, IntArray]]:
    """Samples as their workers noted them; and the numbers that ``drop_last`` took, by epoch.

    ``notes`` holds for each epoch and worker the sample numbers of each batch. A worker's k-th note
    belongs to the k-th batch that it collated. A batch that was never delivered and has fewer
    samples than ``full_size`` was dropped; None: ``drop_last`` is not set.
    """
    batches = trace.batches[trace.batches["collate_s"].notna()]
    batch_epoch, batch_worker = (
        np.asarray(batches[name], np.int64) for name in ("epoch", "worker")
    )
    delivered_s = np.asarray(batches["delivered_s"])
    numbers: list[IntArray] = []
    row_parts: list[IntArray] = []
    dropped: dict[int, IntArray] = {}
    for epoch, notes_of_epoch in enumerate(notes):
        for worker, notes_of_worker in notes_of_epoch.items():
            collated = np.flatnonzero((batch_epoch == epoch) & (batch_worker == worker))
            collated = collated[: len(notes_of_worker)]
            numbers += notes_of_worker[: len(collated)]
            row_parts.append(collated)
            undelivered = np.flatnonzero(np.isnan(delivered_s[collated]))
            partial = [
                notes_of_worker[k]
                for k in undelivered
                if len(notes_of_worker[k]) < (full_size or 0)
            ]
            dropped[epoch] = np.concatenate([dropped.get(epoch, _EMPTY), *partial])
    rows = np.concatenate([_EMPTY, *row_parts])
    order = np.argsort(delivered_s[rows], kind="stable")
    order = order[~np.isnan(delivered_s[rows[order]])]
    sizes = np.array([len(numbers[k]) for k in order], np.int64)
    columns = {
        name: np.repeat(np.asarray(batches[name], np.int64)[rows[order]], sizes)
        for name in ("epoch", "rank", "worker", "batch")
    }
    number = np.concatenate([_EMPTY, *(numbers[k] for k in order)])
    return Delivered(**columns, position=_positions(sizes), number=number), dropped


def _positions(sizes: IntArray) -> IntArray:
    """0 to size - 1 for each size, one after another."""
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)


SPARSE = 100  # keys that use less than 1 in so many integers do not count from 0
_PRINTABLE = (int, float, str, bytes, tuple)


def read_dataset(
    dataset: Iterable[Any], identifier: SampleIdentifier, n: int | None = None
) -> Expected:
    """Iterate the dataset in this process, to its end or to its first ``n`` samples.

    Raises:
        LoaderVizError: for a sample that cannot be told from others.
        Exception: whatever the dataset raises, unchanged.
    """
    numbers = array("q")
    keys: list[Any] = []
    watch = StreamWatch(dataset)
    with Progress("reading the dataset in one process", "samples", n) as progress:
        for item in watch.items():
            for key, number in identifier.keys_and_numbers(item):
                numbers.append(number)
                keys.append(key if isinstance(key, _PRINTABLE) else None)
            progress.advance()
            if n is not None and len(keys) >= n:
                break
    has_more = n is not None and len(keys) >= n
    n_judged = 0 if has_more else len(keys)
    return Expected(
        np.array(numbers, np.int64),
        _as_column(keys),
        n_judged,
        has_more=has_more,
        stream=watch.read(),
    )


def expected_by_key(
    loader: DataLoader[Any], keys: Any, leftover: list[list[Any]]
) -> tuple[Expected, IntArray, list[IntArray]]:
    """What a map-style dataset holds; the numbers of ``keys``; and those of each ``leftover`` list.

    The dataset holds 0 to ``len(dataset) - 1`` where integers are asked for, or what its ``keys()``
    lists. Otherwise only the keys that came are known; they are all if they are as many as
    ``len(dataset)``, and else none can be called missing.

    Raises:
        LoaderVizError: for a dataset that does not say how many samples it holds.
    """
    n = dataset_length(loader)
    keys = _as_column(list(keys)) if isinstance(keys, list) else keys
    if keys.dtype == np.int64:
        samples = np.arange(n)
        return Expected(samples, samples, n), keys, [np.array(part, np.int64) for part in leftover]
    dataset: Any = loader.dataset
    listed = list(dataset.keys()) if callable(getattr(dataset, "keys", None)) else None
    key_lists = [keys if listed is None else listed, keys, *leftover]
    numbers, known_keys = _number_keys([key for part in key_lists for key in part])
    ends = np.cumsum([len(part) for part in key_lists])
    held_numbers, key_numbers, *leftover_numbers = np.split(numbers, ends[:-1])
    held_numbers = np.unique(held_numbers)  # in the order in which they are listed
    n_judged = n if listed is not None or len(held_numbers) == n else 0
    return Expected(held_numbers, known_keys[held_numbers], n_judged), key_numbers, leftover_numbers


def expected_by_trace(keys: Any) -> tuple[Expected, IntArray]:
    """What a trace alone lets expect: the keys that came, and the integers below them.

    And the number of each key. Keys that do not count from 0 let nothing be called missing.
    """
    keys = _as_column(list(keys)) if isinstance(keys, list) else keys
    if keys.dtype == np.int64 and (
        not len(keys) or (keys.min() >= 0 and keys.max() < SPARSE * len(keys))
    ):
        samples = np.arange(int(keys.max(initial=-1)) + 1)
        return Expected(samples, samples, len(samples), NOT_IN_TRACE), keys
    numbers, known_keys = _number_keys(list(keys))
    return Expected(np.arange(len(known_keys)), known_keys, 0), numbers


def dropped_by_trace(
    delivered: Delivered, expected: Expected, n_epochs: int, batch_size: int
) -> dict[int, IntArray]:
    """For each epoch the numbers of the samples that ``drop_last`` took, as far as a trace shows.

    It takes less than a batch from each rank, and leaves no batch that is not full. Where more is
    missing, or a batch is smaller, something else is at work: then none is said to be dropped.
    """
    assert delivered.number is not None
    dropped = {}
    for epoch in range(n_epochs):
        of_epoch = delivered.epoch == epoch
        never = np.setdiff1d(expected.numbers, delivered.number[of_epoch])
        batches = np.stack([delivered.rank[of_epoch], delivered.batch[of_epoch]])
        _, sizes = np.unique(batches, axis=1, return_counts=True)
        n_ranks = len(np.unique(batches[0]))
        if 0 < len(never) < batch_size * n_ranks and (sizes == batch_size).all():
            dropped[epoch] = never
    return dropped


def dataset_length(loader: DataLoader[Any]) -> int:
    """How many samples a map-style dataset holds.

    Raises:
        LoaderVizError: where it does not say.
    """
    dataset: Any = loader.dataset
    try:
        return len(dataset)
    except Exception as error:
        raise LoaderVizError(
            "the dataset does not say how many samples it holds: len() of the "
            f"{type(dataset).__name__} raised {type(error).__name__}: {error}. "
            "Give it a __len__ that returns their number."
        ) from error


def _as_column(values: list[Any]) -> Any:
    """An array of int64 where all values are integers that fit; otherwise of objects."""
    if set(map(type, values)) <= {int}:
        try:
            return np.array(values, np.int64)
        except OverflowError:
            pass
    return np.fromiter(values, object, len(values))  # np.array would unpack tuples


def _number_keys(keys: list[Any]) -> tuple[IntArray, Any]:
    """A number for each key, equal ones alike and counted as they come; and the keys, by number."""
    import pandas as pd

    numbers, known_keys = pd.factorize(np.fromiter(map(_as_in_trace, keys), object, len(keys)))
    return np.asarray(numbers, np.int64), np.asarray(known_keys)


def _as_in_trace(key: Any) -> Any:
    """The key as a trace holds it.

    That is its ``repr`` where JSON cannot hold it (``record_layout.encode_keys``).
    """
    try:
        to_json(key)
        hash(key)
    except TypeError:
        return repr(key)
    return key
