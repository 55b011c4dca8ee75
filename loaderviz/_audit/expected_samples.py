"""All that a dataset holds: read once by one process, or told by its keys."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

from loaderviz._audit.count_deliveries import NOT_IN_TRACE, Expected, Words
from loaderviz._audit.progress_bar import Progress
from loaderviz.errors import LoaderVizError
from loaderviz.loaders.content_hash import Identify
from loaderviz.sample_keys import to_json

SPARSE = 100  # integers as far apart as this do not count anything
_SHOWN = (int, float, str, bytes, tuple)


def read(dataset: Iterable[Any], identify: Identify, n: int | None = None) -> Expected:
    """Iterate the dataset in this process, to its end or to its first ``n`` samples.

    Raises:
        LoaderVizError: for a sample that cannot be told from others.
        Exception: whatever the dataset raises, unchanged.
    """
    numbers, keys = array("q"), []
    with Progress("reading the dataset in one process", "samples", n) as progress:
        for sample in itertools.islice(dataset, n):
            known_by, number = identify.both(sample)
            numbers.append(number)
            keys.append(known_by if isinstance(known_by, _SHOWN) else None)
            progress.advance()
    goes_on = len(keys) == n
    return Expected(
        np.array(numbers, np.int64), as_column(keys), 0 if goes_on else len(keys), goes_on=goes_on
    )


def by_key(
    loader: DataLoader[Any], keys: Any, left: list[list[Any]]
) -> tuple[Expected, Words, list[Words]]:
    """What a map-style dataset holds; with the numbers of ``keys`` and of each list in ``left``.

    That is 0 to ``len(dataset) - 1`` where integers are asked for, or what its ``keys()`` lists;
    else no more is known than the keys that came, and that they are all if they are as many.

    Raises:
        LoaderVizError: for a dataset that does not say how many samples it holds.
    """
    n = length_of(loader)
    keys = as_column(list(keys)) if isinstance(keys, list) else keys
    if keys.dtype == np.int64:
        held = np.arange(n)
        return Expected(held, held, n), keys, [np.array(each, np.int64) for each in left]
    dataset: Any = loader.dataset
    listed = list(dataset.keys()) if callable(getattr(dataset, "keys", None)) else None
    parts = [keys if listed is None else listed, keys, *left]
    numbers, known = _numbered([key for part in parts for key in part])
    held, asked, *taken = np.split(numbers, np.cumsum([len(part) for part in parts])[:-1])
    held = np.unique(held)  # in the order in which they are listed
    judged = n if listed is not None or len(held) == n else 0
    return Expected(held, known[held], judged), asked, taken


def by_itself(keys: Any) -> tuple[Expected, Words]:
    """Where there are only the keys that came: they, and the integers between them."""
    keys = as_column(list(keys)) if isinstance(keys, list) else keys
    if keys.dtype == np.int64 and (
        not len(keys) or (keys.min() >= 0 and keys.max() < SPARSE * len(keys))
    ):
        held = np.arange(int(keys.max(initial=-1)) + 1)
        return Expected(held, held, len(held), NOT_IN_TRACE), keys
    numbers, known = _numbered(list(keys))
    return Expected(np.arange(len(known)), known, 0), numbers


def length_of(loader: DataLoader[Any]) -> int:
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


def as_column(values: list[Any]) -> Any:
    """An array of any objects, tuples among them; of int64 where all are integers."""
    if set(map(type, values)) <= {int}:
        try:
            return np.array(values, np.int64)
        except OverflowError:
            pass
    return np.fromiter(values, object, len(values))


def _numbered(keys: list[Any]) -> tuple[Words, Any]:
    """A number for each different key, counted as they come; and the keys, by number."""
    import pandas as pd

    numbers, known = pd.factorize(np.fromiter(map(_plain, keys), object, len(keys)))
    return np.asarray(numbers, np.int64), np.asarray(known)


def _plain(key: Any) -> Any:
    """As a trace has it: what JSON cannot hold is its ``repr`` there (``records.encode_keys``)."""
    try:
        to_json(key)
        hash(key)
    except TypeError:
        return repr(key)
    return key
