"""Workers that have the data in orders of their own: a key stands for another sample in each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from loaderviz._contents.read_alone import Reference

if TYPE_CHECKING:
    import pandas as pd

MOST_LIKELY = 1e-3  # of what came by chance, to be taken for something else


def in_two_workers(
    delivered: pd.DataFrame, read_alone: Callable[[list[Any], int], Reference]
) -> list[bool]:
    """Which samples another worker has given before in this epoch, under another key.

    All False unless the workers have the data in orders of their own: then none gives a sample
    twice itself. Where they draw the same random numbers, they give the same at the same place; and
    where two of these keys hold the same for one process, the data has rows twice, and random
    augmentation left some of them as they are.

    Args:
        delivered: a row for each sample: ``epoch, key, worker, number``, this the content's hash.
        read_alone: reads keys in so many processes.
    """
    place = delivered.groupby(["epoch", "worker"]).cumcount()
    known = delivered.assign(place=place).dropna(subset=["number"])
    again = known[known.duplicated(["epoch", "number"])]
    pairs = again.merge(known, on=["epoch", "number"], suffixes=("", "_before"))
    pairs = pairs[pairs["key"] != pairs["key_before"]]
    in_one = (pairs["worker"] == pairs["worker_before"]).any()
    shares = known["worker"].value_counts(normalize=True)
    by_chance = (1 - (shares**2).sum()) ** len(again)
    alike = (pairs["place"] == pairs["place_before"]).mean() > 1 / 2
    if pairs.empty or in_one or alike or by_chance > MOST_LIKELY:
        return [False] * len(delivered)
    keys = known.loc[known["number"].isin(again["number"]), "key"].drop_duplicates().tolist()
    held = [number for number in read_alone(keys, 1).numbers.values() if number]
    if len(held) < 2 or len({*held}) < len(held):
        return [False] * len(delivered)
    return delivered.index.isin(again.index).tolist()
