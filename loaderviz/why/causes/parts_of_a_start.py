"""What starting a worker takes, part by part, and what to do about the part that takes longest."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from loaderviz.text import count, duration, size

if TYPE_CHECKING:
    import pandas as pd

PARTS: Final = {  # columns of ``Trace.workers``
    "pickle_s": "to pickle what is sent",
    "boot_s": "for the process and its imports",
    "unpickle_s": "to unpickle what was sent",
    "init_s": "in worker_init_fn",
}
SEND_LESS: Final = (
    "Send workers less: let the dataset open files and load arrays in the worker, on first use. "
    "Forked workers are sent nothing."
)
FORK: Final = (
    "Fork: multiprocessing_context='fork', or 'forkserver' after "
    "multiprocessing.set_forkserver_preload(['torch', ...]) of what workers import."
)
INIT_LESS: Final = (
    "Do less in worker_init_fn: what only some samples need can wait for the first of them."
)
END_LESS: Final = (
    "Do less when a worker's process exits: finalizers, atexit, a library that closes what samples "
    "do not need. persistent_workers=True ends workers once, not in each epoch."
)
SET_UP_LESS: Final = (
    "Do less for a worker's first sample: import, open and load no more than samples need, and "
    "keep it: with persistent_workers=True that is done once, not in each epoch."
)
START_LESS: Final = (
    "Do less at start-up: open files and load arrays in the worker, on first use; "
    "persistent_workers=True keeps workers for later epochs."
)


def describe_starts(workers: pd.DataFrame, set_up_s: float) -> str:
    """How many starts there were, what the longest took and most of what, and what followed it.

    ``set_up_s``: how long a worker's first sample takes, NaN where that is as long as others take.
    """
    text = count(len(workers), "start")
    took_s = workers[list(PARTS)].clip(lower=0.0).sum(axis=1, min_count=1)
    if took_s.notna().any():
        longest = workers.iloc[int(took_s.argmax())]
        which = ", the longest" * (len(workers) > 1)
        text += f"{which} of {duration(float(took_s.max()))}{_two_parts(longest)}"
    elif (up_s := float((workers["first_task_s"] - workers["started_s"]).median())) > 0:
        text += f"; a worker's first task comes after {duration(up_s)}"
    if not math.isnan(set_up_s):
        text += f"; then a worker's first sample takes {duration(set_up_s)}"
    if (ending_s := _ending_s(workers)) > 0:
        text += f"; ending them takes {duration(ending_s)}"
    return text


def _two_parts(start: pd.Series[Any]) -> str:
    """The two parts that took one start the longest, and what was sent; "" where it has one."""
    parts = start[list(PARTS)].dropna().sort_values(ascending=False)
    names = {**PARTS, "boot_s": "until it is up"} if start["start_method"] == "fork" else PARTS
    if len(parts) == 1:
        return ""
    two = [f"{duration(part_s)} {names[str(name)]}" for name, part_s in parts[:2].items()]
    text = f": {', '.join(two)}"
    return f"{text} ({size(start['pickle_bytes'])} sent)" if start["pickle_bytes"] > 0 else text


def _ending_s(workers: pd.DataFrame) -> float:
    """How long the loop usually waited for them to end; NaN where that is not known."""
    return float((workers["gone_s"] - workers["dismissed_s"]).median())


def cure_of_starts(workers: pd.DataFrame, set_up_s: float, *, is_stream: bool) -> str | None:
    """What shortens the part of the longest start that takes longest.

    None where that is the first sample of a stream, which each epoch makes anew.

    ``set_up_s``: as for ``describe_starts``.
    """
    took_s = workers[list(PARTS)].clip(lower=0.0).sum(axis=1)
    longest = workers[took_s == took_s.max()][:1]
    parts = longest[list(PARTS)].clip(lower=0.0).sum()
    # Forked workers have neither a new interpreter nor imports to wait for.
    forked = bool((workers["start_method"] == "fork").any())
    if set_up_s >= parts.sum():
        return None if is_stream else SET_UP_LESS
    if _ending_s(workers) > parts.sum():
        return END_LESS
    cures = {
        START_LESS if forked else FORK: parts["boot_s"],
        SEND_LESS: parts["pickle_s"] + parts["unpickle_s"],
        INIT_LESS: parts["init_s"],
    }
    return max(cures, key=cures.__getitem__) if parts.sum() > 0 else START_LESS
