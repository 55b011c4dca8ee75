"""Samples by number: those that were delivered, and those that a dataset holds."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from torch.utils.data import DataLoader

from loaderviz._audit.count_deliveries import NOT_IN_TRACE, Expected
from loaderviz._contents.deliveries import Collated, Delivered, positions
from loaderviz._contents.read_stream import StreamWatch
from loaderviz.array_types import Ints
from loaderviz.errors import LoaderVizError
from loaderviz.loaders.content_hash import SampleIdentifier
from loaderviz.sample_keys import to_json
from loaderviz.status_line import Progress

if TYPE_CHECKING:
    from loaderviz.trace import Trace

_EMPTY = np.zeros(0, np.int64)


def delivered_by_number(
    trace: Trace, noted: list[list[Collated]], full_size: int | None
) -> tuple[Delivered, dict[int, Ints]]:
    """Samples by the numbers that were noted; and those that ``drop_last`` takes, by epoch.

    ``noted`` holds the batches of each epoch in the order of delivery. One of fewer samples than
    ``full_size`` is not delivered but dropped; None: ``drop_last`` is not set.
    """
    batches = trace.batches[trace.batches["delivered_s"].notna()].sort_values("delivered_s")
    rows: list[Ints] = []
    numbers: list[Ints] = []
    dropped = dict.fromkeys(range(len(noted)), _EMPTY)
    for epoch, of_epoch in enumerate(noted):
        places = np.flatnonzero(batches["epoch"] == epoch)
        for row, batch in zip(places, of_epoch, strict=False):
            number = np.asarray(batch.numbers, np.int64)
            if len(number) < (full_size or 0):
                dropped[epoch] = np.concatenate([dropped[epoch], number])
            else:
                numbers.append(number)
                rows.append(np.full(len(number), row))
    of_batch = np.concatenate([_EMPTY, *rows])
    columns = {
        name: batches[name].to_numpy(np.int64)[of_batch]
        for name in ("epoch", "rank", "worker", "batch")
    }
    position = positions(np.array([*map(len, numbers)], np.int64))
    number = np.concatenate([_EMPTY, *numbers])
    return Delivered(**columns, position=position, number=number), dropped


SEEDED = ("RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler")  # by torch's generator
OF_TORCH = (*SEEDED, "DistributedSampler")  # that know how many keys they have
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
) -> tuple[Expected, Ints, list[Ints]]:
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


def expected_by_trace(keys: Any) -> tuple[Expected, Ints]:
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
) -> dict[int, Ints]:
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


def epochs_in_part(trace: Trace, about: Mapping[str, Any]) -> set[int]:
    """The epochs of which a part of the batches never came, and none failed or was lost.

    As where a loop breaks off: then workers had been sent for more, or a sampler of torch's, which
    loses none, has more. ``about`` describes the loader.
    """
    n_batches = about.get("n_batches") if about.get("sampler") in OF_TORCH else None
    broken = trace.batches["state"].isin(("failed", "lost"))
    in_part: set[int] = set()
    for _, batches in trace.batches.groupby(["rank", "epoch"]):
        came = batches["state"] == "delivered"
        n_untaken = int((~came).sum())
        last_untaken = n_untaken > 0 and batches.loc[~came, "batch"].min() >= came.sum()
        if last_untaken or (n_batches is not None and came.sum() < n_batches):
            in_part.add(int(batches["epoch"].iloc[0]))
    return in_part - {*trace.batches.loc[broken, "epoch"]}  # where one rank fails, all others leave


def rounds(delivered: Delivered, n_batches: int | None) -> Ints | None:
    """How often each rank had gone through all its samples before each delivery.

    None where a rank does not begin anew after all of them, twice at least, or does so elsewhere
    than after the loader's ``n_batches``; None: it has no length.
    """
    assert delivered.number is not None
    found = np.zeros(len(delivered), np.int64)
    for rank in np.unique(delivered.rank):
        own = delivered.rank == rank
        numbers = delivered.number[own]
        held = np.unique(numbers)
        found[own] = np.arange(len(numbers)) // len(held)
        n_whole = len(numbers) // len(held)
        if n_batches is not None and (delivered.batch[own] < n_batches).sum() != len(held):
            return None
        whole, rest = np.split(numbers, [n_whole * len(held)])
        each_once = (np.sort(whole.reshape(n_whole, -1)) == held).all()
        if n_whole < 2 or not each_once or len(np.unique(rest)) < len(rest):
            return None
    return found if len(found) else None


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


def _number_keys(keys: list[Any]) -> tuple[Ints, Any]:
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
