"""Keys of several ranks and loaders, compared by the samples that they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderviz._audit.count_deliveries import (
    NOT_IN_TRACE,
    Expected,
    Tables,
)
from loaderviz._contents.deliveries import Delivered
from loaderviz.array_types import Ints
from loaderviz.text import count
from loaderviz.trace.described_loaders import are_alike, loader_description, recordings
from loaderviz.trace.underlying_keys import (
    KnownDatasets,
    Underlying,
    differing,
    key_of,
    underlying_of_ranks,
)

MOST_OTHERS = 64  # loaders that one is compared with
MOST_PADDING = 0.25  # of what came: where more came to several ranks, it was not dealt out
PADDED = (
    "Fewer came twice than there are ranks, as where a DistributedSampler pads: each rank gets as "
    "many samples, and a mean over all ranks counts those twice."
)
IN_ANOTHER = "are also in the Subset"
_OF_TORCH = ("Subset", "ConcatDataset")  # whose keys are positions


@dataclass(frozen=True)
class KeysOfRanks:
    """The samples behind the keys of ranks on which the same key is another sample.

    Attributes:
        expected: the samples that the ranks' Subsets have; those that came, where there is none.
        numbers: of the sample of each delivery.
        together: whether samples of two ranks were compared.
        remark: what was compared, in a sentence or two.
    """

    expected: Expected
    numbers: Ints
    together: bool
    remark: str


def keys_of_ranks(
    meta: Mapping[str, Any], loader: int, delivered: Delivered, keys: Any
) -> KeysOfRanks | None:
    """The samples behind these keys; None where each key is the same sample on every rank.

    Also where that is not known: see ``remark_on_ranks``.
    """
    ranks = np.unique(delivered.rank).tolist()
    of_ranks = underlying_of_ranks(meta, loader)
    underlying = [each for rank in ranks if (each := of_ranks.get(rank))]
    if len(ranks) < 2 or len(underlying) < len(ranks) or not isinstance(keys, np.ndarray):
        return None
    if keys.dtype != np.int64 or all(each == underlying[0] for each in underlying):
        return None
    known = KnownDatasets()
    numbers = np.zeros(len(keys), np.int64)
    for rank, each in zip(ranks, underlying, strict=True):
        at = known.samples_at(each, keys[delivered.rank == rank])
        if at is None:
            return None
        numbers[delivered.rank == rank] = at
    subsets = [known.samples(each) for each in underlying]
    if len(known.descriptions) == 1 and all(subset is None for subset in subsets):
        return None
    expected = _expected(numbers, subsets)
    datasets = [{known.number(dataset) for dataset in each["datasets"]} for each in underlying]
    together = sum(map(len, datasets)) > len(set[int]().union(*datasets))
    if together:
        remark = _on_subsets(underlying[0]["datasets"][0]["class"], subsets)
    else:
        by_rank = [set(keys[delivered.rank == rank].tolist()) for rank in ranks[:2]]
        remark = _on_unlike(ranks, underlying, len(by_rank[0] & by_rank[1]))
    return KeysOfRanks(expected, numbers, together, remark)


def _expected(numbers: Ints, subsets: list[Ints | None]) -> Expected:
    """Each sample as often as the Subset of one rank has it, so that only ranks can double it."""
    known = [subset for subset in subsets if subset is not None]
    if len(known) < len(subsets):
        known = [np.unique(numbers)]
    held = np.unique(np.concatenate(known))
    times = np.zeros(len(held), np.int64)
    for subset in known:
        times = np.maximum(times, np.bincount(np.searchsorted(held, subset), minlength=len(held)))
    held = held.repeat(times)
    keys: Any = key_of(held)
    if len(np.unique(held - keys)) > 1:  # of several datasets: the number tells more than the key
        keys = keys.astype(object)
    n_judged = len(held) if len(known) == len(subsets) else 0
    return Expected(held, keys, n_judged, NOT_IN_TRACE)


def _on_subsets(name: str, subsets: list[Ints | None]) -> str:
    first, *others = [set(subset.tolist()) for subset in subsets if subset is not None] or [set()]
    overlap = any(first & other and first != other for other in others)
    why = " A random_split needs the same seed on every rank." if overlap else ""
    return (
        f"The ranks have different Subsets of {name}, so keys are those of the {name}, and not "
        f"positions.{why}"
    )


def _on_unlike(ranks: list[int], underlying: list[Underlying], n_shared: int) -> str:
    one, other = (each["datasets"][0] for each in underlying[:2])
    names = differing(one, other)
    where = f" (in {', '.join(names[:3])})" if names else ""
    sentence = (
        f"Ranks {ranks[0]} and {ranks[1]} have datasets that differ{where}, so a key of one was "
        "not compared with the same key of the other."
    )
    if not n_shared:
        return sentence
    return (
        f"{sentence} Both asked for {count(n_shared, 'key')}: if these are the same samples, they "
        "came twice."
    )


def remark_on_ranks(
    meta: Mapping[str, Any], loader: int, delivered: Delivered, tables: Tables
) -> str:
    """A sentence on what equal keys of several ranks do not tell; empty where there is nothing."""
    name = loader_description(meta, loader).get("dataset")
    ranks = np.unique(delivered.rank).tolist()
    of_ranks = underlying_of_ranks(meta, loader)
    if len(ranks) > 1 and name in _OF_TORCH and not all(of_ranks.get(rank) for rank in ranks):
        return (
            f"Keys are positions of a {name}: whether they stand for the same samples on every "
            "rank is not known."
        )
    on_several = sum(len({*ranks}) > 1 for ranks in tables.duplicates["ranks"])
    if on_several > MOST_PADDING * len(delivered):
        return (
            "Keys were compared, and not what the samples hold: where the dataset itself reads "
            "other samples on each rank, none came to two."
        )
    most_in_epoch = int(tables.epochs["duplicates"].fillna(0).max())
    return PADDED if 0 < most_in_epoch < len(ranks) and on_several == len(tables.duplicates) else ""


def shared_with_other_loaders(
    meta: Mapping[str, Any], loader: int, delivered: Delivered, keys: Any
) -> tuple[str, ...]:
    """Sentences about samples that are also in the Subset of another loader of the recording."""
    known = KnownDatasets()
    came, own = _came(meta, loader, delivered, keys, known)
    sentences = []
    for other in _other_loaders(meta, loader) if came else ():
        shared = {}
        for rank, underlying in underlying_of_ranks(meta, other).items():
            held = _subset(underlying, known)
            if held and held not in own:
                shared[rank] = len(came & held)
        if not any(shared.values()):
            continue
        rank = max(shared, key=shared.__getitem__)
        where = f" on rank {rank}" if len(recordings(meta)) > 1 else ""
        sentences.append(
            f"{shared[rank]:,} of the samples that came {IN_ANOTHER} of loader {other}"
            f"{where}: where one of the two trains and the other validates, the score counts "
            "samples that were trained on."
        )
    return tuple(sentences)


def _came(
    meta: Mapping[str, Any], loader: int, delivered: Delivered, keys: Any, known: KnownDatasets
) -> tuple[set[int], list[set[int]]]:
    """The samples of Subsets that came; and those that each rank's Subset has."""
    came: set[int] = set()
    own: list[set[int]] = []
    if not isinstance(keys, np.ndarray) or keys.dtype != np.int64:
        return came, own
    for rank, underlying in underlying_of_ranks(meta, loader).items():
        held = _subset(underlying, known)
        at = known.samples_at(underlying, keys[delivered.rank == rank]) if underlying else None
        if held and at is not None:
            came.update(at.tolist())
            own.append(held)
    return came, own


def _subset(underlying: Underlying | None, known: KnownDatasets) -> set[int]:
    """The samples of a Subset; empty where it is none, or not known."""
    whole = known.samples(underlying) if underlying else None
    return set() if whole is None else set(whole.tolist())


def _other_loaders(meta: Mapping[str, Any], loader: int) -> list[int]:
    """Loaders that are not this one made anew."""
    numbers = range(len(meta.get("loaders") or ()))
    others = [each for each in numbers if each != loader and not are_alike(meta, each, loader)]
    return others[:MOST_OTHERS]
