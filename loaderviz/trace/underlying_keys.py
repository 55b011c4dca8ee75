"""Which samples the keys of a trace stand for on each rank: those behind a Subset's positions.

``loaders/underlying_samples.py`` describes it. In ``meta`` the descriptions are under names that
are hashes of them; a loader has such a name, and so has a recording for a loader whose keys stand
for others there.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from functools import lru_cache
from typing import Any, Final

import numpy as np

from loaderviz.array_types import Ints
from loaderviz.sample_keys import BITS_OF_KEY, unpack
from loaderviz.trace.described_loaders import UNDERLYING, loader_description, recordings

Underlying = Mapping[str, Any]
MOST_UNDERLYING: Final = 64  # that a trace describes


def is_underlying(value: Any) -> bool:
    """Whether a description of what keys stand for is one."""
    if not isinstance(value, Mapping) or not isinstance(value.get("datasets"), list):
        return False
    for dataset in value["datasets"]:
        if not isinstance(dataset, Mapping) or not isinstance(dataset.get("class"), str):
            return False
        hold = dataset.get("hold")
        if not isinstance(hold, Mapping) or not all(isinstance(h, str) for h in hold.values()):
            return False
    keys = value.get("keys")
    if keys is None:
        return len(value["datasets"]) == 1
    return isinstance(keys, str) and _datasets_in(keys) <= {*range(len(value["datasets"]))}


@lru_cache(maxsize=16)  # a recording looks each time when it writes down more
def _datasets_in(keys: str) -> Set[int]:
    """The numbers of datasets in packed keys; -1 where they are none."""
    try:
        return frozenset(np.unique(unpack(keys) >> BITS_OF_KEY).tolist())
    except ValueError:
        return frozenset([-1])


def underlying_of_ranks(meta: Mapping[str, Any], loader: int) -> dict[int, Underlying | None]:
    """By rank, what the keys of the loader of this number stand for; None where it is not known."""
    described = meta.get(UNDERLYING) or {}
    names = names_by_rank(meta, loader)
    return {rank: described.get(name) for rank, name in names.items()}


def names_by_rank(meta: Mapping[str, Any], loader: int) -> dict[int, str | None]:
    """By rank, the name of that; None of all where it is not known of the first."""
    shared = loader_description(meta, loader).get(UNDERLYING)
    names: dict[int, str | None] = {}
    for recording in recordings(meta) or [{"rank": meta.get("rank") or 0}]:
        unlike = recording.get(UNDERLYING) or {}
        rank = recording["rank"]
        names[rank] = unlike.get(str(loader), names.get(rank, shared)) if shared else None
    return names


class KnownDatasets:
    """Numbers datasets, and with them their samples; the same dataset has one number everywhere.

    Two are the same if they have one class and no attribute that both have differs.
    """

    def __init__(self) -> None:
        self.descriptions: list[Mapping[str, Any]] = []

    def number(self, dataset: Mapping[str, Any]) -> int:
        """The dataset's number; a new one has the next."""
        for number, known in enumerate(self.descriptions):
            if known["class"] == dataset["class"] and not differing(known, dataset):
                return number
        self.descriptions.append(dataset)
        return len(self.descriptions) - 1

    def samples(self, underlying: Underlying) -> Ints | None:
        """The number of the sample at each position; None where positions are the keys."""
        if underlying.get("keys") is None:
            return None
        packed = unpack(underlying["keys"])
        numbers = np.array([*map(self.number, underlying["datasets"])], np.int64)
        samples: Ints = (numbers[packed >> BITS_OF_KEY] << BITS_OF_KEY) + key_of(packed)
        return samples

    def samples_at(self, underlying: Underlying, keys: Ints) -> Ints | None:
        """The number of the sample that each of these keys stands for; None where one has none."""
        samples = self.samples(underlying)
        least, most = (0, 1 << BITS_OF_KEY) if samples is None else (-len(samples), len(samples))
        if ((keys < least) | (keys >= most)).any():
            return None
        if samples is None:
            return keys + (self.number(underlying["datasets"][0]) << BITS_OF_KEY)
        at: Ints = samples[keys]
        return at


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The attributes in which two datasets differ."""
    return [name for name, held in one["hold"].items() if other["hold"].get(name, held) != held]


def key_of(samples: Any) -> Any:
    """The key of each of these samples in its dataset."""
    return samples & ((1 << BITS_OF_KEY) - 1)
