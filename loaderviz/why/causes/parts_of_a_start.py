"""What starting a worker takes, part by part, and what to do about the part that takes longest."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from loaderviz.text import count, duration, size
from loaderviz.why.worker_starts import one_after_another, started_together

if TYPE_CHECKING:
    import pandas as pd

LEAST_SHARE = 0.05  # of a start: a part that takes less is not named
UNLIKE = 2.0  # times the shortest start: then not each takes as long as the median
LEAST_BYTES = 1 << 20  # fewer say nothing about a start

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
READ_LESS: Final = (
    "Do less for a worker's first sample: import, open and load no more than samples need, and "
    "keep it: with persistent_workers=True that is done once, not in each epoch."
)


def parts_of_a_start(workers: pd.DataFrame) -> dict[str, float]:
    """Seconds of each part of a usual start, the longest first; empty where they are not known."""
    medians = {part: float(workers[part].median()) for part in PARTS}
    known = {part: seconds for part, seconds in medians.items() if seconds > 0}
    return dict(sorted(known.items(), key=lambda item: -item[1]))


def describe_starts(workers: pd.DataFrame, set_up_s: float) -> str:
    """How many starts there were and what each took, such as "2 starts of 1.7 s each: ...".

    ``set_up_s``: how long a worker's first sample takes, NaN where that is as long as others take.
    """
    text = _describe_parts(workers)
    if not math.isnan(set_up_s):
        text += f"; then a worker's first sample takes {duration(set_up_s)}"
    ending_s = _ending_s(workers)
    if ending_s >= LEAST_SHARE * _usual_start_s(workers):
        n = len(workers.drop_duplicates("dismissed_s"))
        text += f"; ending them takes {duration(ending_s)}{' each time' if n > 1 else ''}"
    return text


def _ending_s(workers: pd.DataFrame) -> float:
    """How long the loop usually waited for them to end; NaN where that is not known."""
    return float((workers["gone_s"] - workers["dismissed_s"]).median())


def _usual_start_s(workers: pd.DataFrame) -> float:
    return float((workers["first_task_s"] - workers["started_s"]).median())


def _describe_parts(workers: pd.DataFrame) -> str:
    parts = parts_of_a_start(_telling(workers))
    if not parts:
        up_s = float((workers["first_task_s"] - workers["started_s"]).median())
        text = count(len(workers), "start")
        return f"{text}; a worker's first task comes after {duration(up_s)}" if up_s > 0 else text
    total_s = sum(parts.values())
    names = {**PARTS, "boot_s": "until it is up"} if _forked(workers) else PARTS
    named = [
        f"{duration(seconds)} {names[part]}"
        for part, seconds in parts.items()
        if seconds >= LEAST_SHARE * total_s
    ]
    if len(_telling(workers)) < len(workers):
        took_s = _took_s(workers)
        took = f"{duration(took_s.min())} to {duration(total_s)}"
        if len(workers) > 2:
            took += f", usually {duration(took_s.median())}"
        took += f"; the longest, of worker {workers['worker'].iloc[took_s.argmax()]}"
    else:
        took = f"{duration(total_s)} each" if len(workers) > 1 else duration(total_s)
    if any(map(one_after_another, started_together(workers))):
        took += ", one after another"
    text = f"{count(len(workers), 'start')} of {took}: {', '.join(named)}"
    n_bytes = workers["pickle_bytes"].median()
    return f"{text} ({size(n_bytes)} sent)" if n_bytes >= LEAST_BYTES else text


def _telling(workers: pd.DataFrame) -> pd.DataFrame:
    """Those whose parts tell what starts cost: the longest one alone, where they are unlike."""
    took_s = _took_s(workers)
    if took_s.max() > UNLIKE * took_s.min():
        return workers.iloc[[int(took_s.argmax())]]
    return workers


def _took_s(workers: pd.DataFrame) -> pd.Series[float]:
    return workers[list(PARTS)].clip(lower=0.0).sum(axis=1, min_count=1)


def cure_of_starts(workers: pd.DataFrame, set_up_s: float, otherwise: str) -> str:
    """What shortens the part that takes longest; ``otherwise`` where that is not known.

    ``set_up_s``: as for ``describe_starts``.
    """
    parts = parts_of_a_start(_telling(workers))
    if _ending_s(workers) > sum(parts.values()):
        return END_LESS
    if set_up_s >= sum(parts.values()):
        return READ_LESS
    if not parts:
        return otherwise
    # Forked workers have neither a new interpreter nor imports to wait for.
    boot_cure = otherwise if _forked(workers) else FORK
    cures = {
        SEND_LESS: parts.get("pickle_s", 0.0) + parts.get("unpickle_s", 0.0),
        boot_cure: parts.get("boot_s", 0.0),
        INIT_LESS: parts.get("init_s", 0.0),
    }
    return max(cures, key=cures.__getitem__)


def _forked(workers: pd.DataFrame) -> bool:
    return bool((workers["start_method"] == "fork").any())
