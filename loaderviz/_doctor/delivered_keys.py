"""The keys that batches were made from, read from a recording."""

from __future__ import annotations

from typing import Any

from loaderviz.trace import Trace


def keys_of_last_batches(trace: Trace, n: int) -> list[tuple[Any, ...]]:
    """The keys of the last ``n`` batches that the last epoch delivered, in order of delivery.

    Empty ones where they are not known of each batch, and of a stream.
    """
    unknown: list[tuple[Any, ...]] = [()] * n
    if not n or not trace.meta["loaders"] or trace.meta["loaders"][-1]["kind"] != "map":
        return unknown
    epoch = trace.batches["epoch"].max()
    batches = trace.batches[trace.batches["epoch"] == epoch].dropna(subset="delivered_s")
    numbers = batches.sort_values("delivered_s")["batch"].tolist()[-n:]
    samples = trace.samples[trace.samples["epoch"] == epoch].sort_values(["batch", "position"])
    by_batch = {number: tuple(group["key"]) for number, group in samples.groupby("batch")}
    keys = [by_batch.get(number, ()) for number in numbers]
    return keys if len(keys) == n and all(keys) else unknown
