"""What padding costs: how much is sent, and how much in batches of similar lengths.

A recording knows the shapes of batches, not the lengths of the samples in them. What it says of
padding is predicted, under the assumption that it names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.trace.described_loaders import loader_description

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace

LEAST_BATCHES = 32  # to predict from their lengths


def sent_if_sorted(lengths: Sequence[float], size: int) -> float:
    """How much would be sent of samples of these lengths, sorted, in batches of so many."""
    ordered = sorted(lengths)
    parts = [ordered[i : i + size] for i in range(0, len(ordered), size)]
    return sum(part[-1] * len(part) for part in parts)


@dataclass(frozen=True)
class PredictedPadding:
    """What is padding, at least, if samples come in random order, padded to a batch's longest.

    Attributes:
        loader: the one that this is about.
        share: of what is sent, the part that is padding.
        saved: of what is sent, the part that such batches would not send.
    """

    loader: int
    share: float
    saved: float


def predict_padding(trace: Trace, loader: int) -> PredictedPadding | None:
    """Predict from the padded lengths of full batches; None where the assumption may not hold.

    Of n samples in random order, all are at most as long as x in F(x)**n of the batches, where F is
    the share of samples that are. So the lengths of the batches tell that of the samples but for
    those below the shortest batch, which count as that long: less is padding than there is.
    """
    if loader_description(trace.meta, loader).get("shuffled") is not True:
        return None
    size, padded = _padded_lengths(trace, loader)
    if size < 2 or len(padded) < LEAST_BATCHES or padded[0] == padded[-1]:
        return None
    n = size * len(padded)
    row = np.ceil(((np.arange(n) + 0.5) / n) ** size * len(padded)).astype(int) - 1
    lengths = padded[np.maximum(row, 0)]
    sent, data = float(padded.sum()) * size, float(lengths.sum())
    sorted_sent = sent_if_sorted(lengths.tolist(), size)
    return PredictedPadding(loader, 1 - data / sent, max(1 - sorted_sent / sent, 0.0))


def _padded_lengths(trace: Trace, loader: int) -> tuple[int, Any]:
    """Of the full batches, how many samples each has, and their lengths, sorted.

    No lengths where batches do not differ in one length alone.
    """
    batches = trace.batches
    batches = batches[(batches["loader"] == loader) & batches["delivered_s"].notna()]
    batches = batches[batches["shapes"].notna()]
    size = int(batches["n_samples"].max()) if len(batches) else 0
    full = batches.loc[batches["n_samples"] == size, "shapes"]
    nothing = np.zeros(0, np.int64)
    counts = full.value_counts()
    numbers = [re.findall(r"\d+", text) for text in counts.index]
    if not numbers or len({re.sub(r"\d+", "", text) for text in counts.index}) > 1:
        return size, nothing
    table = np.array(numbers, dtype=object)
    varying = [column for column in table.T if len(set(column)) > 1]
    if not varying or any((column != varying[0]).any() for column in varying):
        return size, nothing
    lengths = np.array([int(text[:12]) for text in varying[0]])
    return size, np.sort(np.repeat(lengths, counts.to_numpy()))
