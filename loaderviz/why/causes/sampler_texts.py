"""What shows that the sampler holds the loop up, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz.text import count, duration

if TYPE_CHECKING:
    import pandas as pd

ALL_AT_ONCE: Final = "Draw all keys at once (torch.randperm) instead of one by one."
FEWER_KEYS: Final = (
    "Draw fewer keys: let one stand for a block of samples; or shuffle as you go, within a buffer, "
    "in place of all keys before the first batch."
)
STALLS: Final = (
    "Find what the sampler stops for now and then, such as a block that it reads or shuffles, and "
    "do that in a thread ahead of time, or for fewer keys at once."
)
FAR = 10.0  # times the usual


def evidence_of_sampler(batches: pd.DataFrame) -> str:
    """How long drawing the keys of a loader's batches took."""
    drawing_s = _drawing_s(batches)
    if _draws_at_first(batches):
        first = (batches["batch"] == 0).to_numpy()
        return (
            f"drawing keys takes {usual(drawing_s[first])} before the first batch of an epoch, "
            f"{usual(drawing_s[~first])} for each after it"
        )
    text = f"drawing the keys of a batch takes {usual(drawing_s)}"
    stalls_s = _stalls(drawing_s)
    if len(stalls_s):
        n = count(int((~np.isnan(drawing_s)).sum()), "batch", "batches")
        text += f", but {usual(stalls_s)} before {len(stalls_s)} of {n}"
    return text


def cure_of_sampler(batches: pd.DataFrame) -> str:
    """What shortens it, by when it takes its time."""
    if _draws_at_first(batches):
        return FEWER_KEYS
    return STALLS if len(_stalls(_drawing_s(batches))) else ALL_AT_ONCE


def _drawing_s(batches: pd.DataFrame) -> Any:
    return (batches["dispatched_s"] - batches["drawing_s"]).to_numpy()


def _draws_at_first(batches: pd.DataFrame) -> bool:
    """Whether the sampler takes most of its time before the first batch of an epoch.

    As RandomSampler and WeightedRandomSampler do, which draw all keys then (torch/utils/data/
    sampler.py).
    """
    drawing_s = batches["dispatched_s"] - batches["drawing_s"]
    return bool(2 * drawing_s[batches["batch"] == 0].sum() > drawing_s.sum())


def _stalls(drawing_s: Any) -> Any:
    """The times far beyond the usual, where they are most of what drawing keys takes in all."""
    known_s = drawing_s[~np.isnan(drawing_s)]
    if not len(known_s):
        return known_s
    far_s = known_s[known_s > max(FAR * np.median(known_s), known_s.max() / FAR)]
    return far_s if 2 * far_s.sum() > known_s.sum() else far_s[:0]


def usual(seconds: Any) -> str:
    """The median, NaN left out."""
    values = np.asarray(seconds, np.float64)
    values = values[~np.isnan(values)]
    return duration(float(np.median(values))) if len(values) else "an unknown time"
