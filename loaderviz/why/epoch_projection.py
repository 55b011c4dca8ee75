"""A whole epoch of a training, from the pace of the part that was recorded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from loaderviz.why.loop_series import LoopSeries
from loaderviz.why.phases import PACE, PAUSE
from loaderviz.why.resampled_ratio import Range, ratio, ratio_range

AGAIN: Final = 2  # times that a pause has to be seen before it is known to come again


@dataclass(frozen=True)
class ProjectedEpoch:
    """One epoch at pace, with its start and with pauses at their rate; in seconds.

    Attributes:
        n_batches: of the epoch.
        length_is_known: whether that is the loader's length; otherwise it is the most that an
            epoch of the recording delivered.
        is_left: whether the loop leaves each epoch before that length, after the most of these.
        seconds: of it all, from the start to the end of its workers. A warm-up, which a training
            has once, is not in it.
        range_s: its 95 % interval, NaN where too little was recorded; where a pause was seen once,
            up to what it would be if that came again.
        waited_s: the part of it that the loop waits, its start and its end included.
        start_s: the part until the first batch is there, where the epoch's workers are new.
        end_s: the part until its workers have ended, where they do.
    """

    n_batches: int
    length_is_known: bool
    is_left: bool
    seconds: float
    range_s: Range
    waited_s: float
    start_s: float
    end_s: float


def project(
    series: LoopSeries, phase: Any, settled: Any | None, step_s: float, waited_share: float
) -> ProjectedEpoch | None:
    """The epoch that goes on as these batches do.

    Args:
        series: the loader's batches.
        phase: of each.
        settled: which of them tell what the loop waits; None where none does.
        step_s: what the loop takes for a batch at pace.
        waited_share: of the time at pace.

    Returns:
        None without a pace.
    """
    if not (phase == PACE).any() or math.isnan(step_s):
        return None
    starts = np.flatnonzero(series.first)
    delivered = np.diff(np.append(starts, len(series)))
    known = series.about.get("n_batches")
    is_left = known is not None and _leaves(series, starts, delivered, known)
    n = int(known if known and not is_left else delivered.max())
    start_s = (series.rows["delivered_s"] - series.begun_s)[starts]
    own = series.anew[starts] if series.anew[starts].sum() > 1 or len(starts) == 1 else None
    if own is None:  # workers are kept: the first start is none of the others'
        typical_start_s = float(np.median(start_s[1:]))
    else:
        typical_start_s = float(np.median(start_s[own] if own.any() else start_s))
    if bool(series.about.get("persistent_workers")) and len(starts) == 1:
        typical_start_s = float(series.wait_s[0])
    pauses = np.flatnonzero(phase == PAUSE)
    again = len(pauses) >= AGAIN
    pause_s = series.step_s[pauses] - step_s
    if settled is None:
        wait_s = step_s * waited_share / (1 - waited_share) if waited_share < 1 else math.nan
        each_s = step_s + wait_s + (float(pause_s.mean()) / apart(pauses) if again else 0.0)
        range_s: Range = (math.nan, math.nan)
    else:
        recurring, burst = settled, max(1, series.workers)
        if again:
            # From pause to pause, with what was made ahead in them: that comes again as well.
            recurring = np.zeros(len(phase), bool)
            recurring[pauses[0] + 1 : pauses[-1] + 1] = True
            recurring &= np.isin(phase, (PACE, PAUSE)) & ~series.first & ~np.isnan(series.step_s)
        took_s = (series.wait_s + series.step_s)[recurring]
        one = np.ones(len(took_s))
        each_s = ratio(took_s, one)
        plain = (phase == PACE)[recurring]
        range_s = ratio_range(took_s[plain], one[plain], burst)
        if again and not plain.all():
            lasts_s, gaps = float(took_s[~plain].mean()), np.diff(pauses)
            low, high = (end * (1 - 1 / apart(pauses)) for end in range_s)
            range_s = low + lasts_s / int(gaps.max()), high + lasts_s / int(gaps.min())
        wait_s = ratio(series.wait_s[recurring], one)
    end_s = 0.0
    if series.endings_s and not series.about.get("persistent_workers"):
        end_s = float(np.median(series.endings_s))
    # One that was seen once may come again, as soon as it came.
    once_s = float(pause_s[0]) / (pauses[0] + 1) if len(pauses) == 1 else 0.0
    around_s = typical_start_s + step_s + end_s
    low, high = (around_s + (n - 1) * end for end in range_s)
    return ProjectedEpoch(
        n_batches=n,
        length_is_known=known is not None,
        is_left=is_left,
        seconds=around_s + (n - 1) * each_s,
        range_s=(low, high + (n - 1) * once_s),
        waited_s=typical_start_s + (n - 1) * wait_s + end_s,
        start_s=typical_start_s,
        end_s=end_s,
    )


def _leaves(series: LoopSeries, starts: Any, delivered: Any, n_batches: int) -> bool:
    """Whether the loop leaves each epoch before its end; the last may be recorded in part."""
    whole = (series.rows["batch"][starts] == 0)[:-1]
    return bool(whole.sum() >= AGAIN and (delivered[:-1][whole] < n_batches).all())


def apart(pauses: Any) -> float:
    """How many batches pauses come in, from the positions of two or more."""
    return float(pauses[-1] - pauses[0]) / (len(pauses) - 1)
