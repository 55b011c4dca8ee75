"""The keys of what was delivered, and the order in which they sort: that of the source."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from loaderviz._audit.count_deliveries import Delivered, Expected, IntArray, Tables

_NUMBER = re.compile(r"(\d+)")


def keys_of_deliveries(delivered: Delivered, expected: Expected, tables: Tables) -> Any:
    """What the sample of each delivery is known by; None where it is not among the expected ones.

    Samples that are known by integers have these as their numbers.
    """
    if expected.keys.dtype == np.int64:
        return delivered.number
    place = tables.deliveries["sample"].to_numpy()
    keys = np.full(len(place), None, object)
    keys[place >= 0] = expected.keys[place[place >= 0]]
    return keys


def places_by_key(keys: Any) -> IntArray | None:
    """For each key a number that sorts as it does; -1 for None. None where they do not sort.

    Integers are their own places. ``"shard-10"`` comes after ``"shard-9"``, and ``(2, 0)``, which
    may be shard and index, after ``(1, 99)``.
    """
    if keys.dtype != object:
        return np.asarray(keys, np.int64)
    import pandas as pd

    codes, known = pd.factorize(keys)  # None gets -1
    sortable = [_sortable(key) for key in known]
    if None in sortable or not sortable:
        return None
    rank = np.empty(len(known) + 1, np.int64)
    by_size: Any = sorted(range(len(known)), key=sortable.__getitem__)
    rank[by_size] = np.arange(len(known))
    rank[-1] = -1
    return rank[codes]


def shards_by_key(keys: Any) -> Any:
    """The first part of each key that is a tuple, as (shard, index); None where they are not."""
    if keys.dtype != object or not all(type(key) is tuple and len(key) > 1 for key in keys):
        return None
    return np.fromiter((key[0] for key in keys), object, len(keys))


def _sortable(key: Any) -> tuple[Any, ...] | None:
    """A tuple that can be compared with that of any other key; None for what does not sort."""
    if isinstance(key, int | float):
        return (0, key)
    if isinstance(key, bytes):
        key = key.decode("latin-1")
    if isinstance(key, str):
        parts = _NUMBER.split(key)  # text and number in turn
        return (1, *(int(part) if i % 2 else part for i, part in enumerate(parts)))
    if isinstance(key, tuple):
        inner = [_sortable(part) for part in key]
        return None if None in inner else (2, *inner)
    return None
