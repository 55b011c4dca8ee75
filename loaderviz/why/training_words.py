"""A training's pace in words: a whole epoch, what comes on top of it, and what changed.

``verdict.py`` has the main thing, which is not said again here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from loaderviz.text import count, duration, percent

if TYPE_CHECKING:
    from loaderviz.why.pace import Pace
    from loaderviz.why.phases import Change
    from loaderviz.why.summary import Summary

NAMED: Final = 0.05  # of an epoch: less is not told


def training_of(summary: Summary) -> list[str]:
    """What a whole epoch of the loader that is waited for longest takes, a sentence each.

    Empty where the pace is not known. Ranges are 95 % intervals of a block bootstrap.
    """
    pace = summary.main_pace
    if pace is None or not pace.is_enough or pace.epoch is None:
        return []
    told = [_rates(pace), _epoch(summary, pace), *_on_top(pace)]
    slowed = slowed_down(pace)
    told += [f"{_sentence(change)}." for change in pace.changes[-1:] if change is not slowed]
    return [each for each in told if each]


def slowed_down(pace: Pace) -> Change | None:
    """What made reading slower than it was, on the way to the pace; None where nothing did."""
    last = pace.changes[-1] if pace.changes else None
    if last is not None and last.of == "reading" and last.after_s > last.before_s:
        return last
    return None


def _rates(pace: Pace) -> str:
    step = f"a step takes {duration(pace.step_s)}"
    if math.isnan(pace.read_s):
        return f"At pace {step}: AU {percent(pace.accelerator_utilisation)}."
    gains = ""
    if pace.waited_share > NAMED and math.isfinite(pace.ceiling):
        gains = f"; the best loader would make it {pace.ceiling:.2g} times as fast"
    return (
        f"At pace {step}, to make a batch {duration(pace.read_s)}: "
        f"AU {percent(pace.accelerator_utilisation)}{gains}."
    )


def _epoch(summary: Summary, pace: Pace) -> str:
    epoch = pace.epoch
    if epoch is None or (pace.whole_epoch and not epoch.length_is_known):
        return ""
    low, high = epoch.range_s
    span = "" if math.isnan(low) else f" ({duration(low)} to {duration(high)})"
    n = count(epoch.n_batches, "batch", "batches")
    waits, recorded = percent(pace.epoch_waited_share), percent(summary.wait_share)
    return (
        f"A whole epoch, {n}, takes {duration(epoch.seconds)}{span} and waits {waits} of it; "
        f"recorded: {recorded}."
    )


def _on_top(pace: Pace) -> list[str]:
    epoch = pace.epoch
    told = []
    if epoch is not None and epoch.start_s > NAMED * epoch.seconds:
        told.append(f"Each epoch begins with {duration(epoch.start_s)} of waiting.")
    if epoch is not None and epoch.end_s > NAMED * epoch.seconds:
        told.append(f"Each ends with {duration(epoch.end_s)} until its workers have ended.")
    if math.isfinite(pace.batches_per_pause):
        each = count(round(pace.batches_per_pause), "batch", "batches")
        told.append(f"Once in {each} a step takes {duration(pace.pause_s)} longer.")
    return told


def _sentence(change: Change) -> str:
    text = str(change)
    return text[0].upper() + text[1:]
