"""Exercise of notebook 19: be woken once, and only when the training has become slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from loaderviz.course.exercises import Check, Hints, explains_errors
from loaderviz.text import clock_time

if TYPE_CHECKING:
    from loaderviz import Trace

WITHIN_S: Final = 300.0  # of the beginning of the incident

alarm_hint = Hints(
    "row is a row of run.windows, as a dict: row['wait_s'] and row['step_s'] are its seconds.",
    "the share that the loop waits is wait_s / (wait_s + step_s). What is it usually?",
    "an evaluation waits more than a training: row['loader'] is 0 for the training.",
)


@explains_errors
def woken(alarm: Callable[[Any], object], run: Trace) -> Check:
    """Whether ``alarm`` is first true of a window soon after the first incident of ``run`` begins.

    It is given each window as a dict, once that is over, and has five minutes.
    """
    begins_s = float(run.incidents["start_s"].iloc[0])
    rang_s = (row["end_s"] for row in run.windows.to_dict("records") if alarm(row))
    first_s = next(rang_s, None)
    if first_s is None:
        return Check(False, "Nobody was woken in all of the run.")
    if first_s <= begins_s:
        return Check(False, f"Woken for nothing at {clock_time(first_s)}.")
    if first_s > begins_s + WITHIN_S:
        return Check(False, f"Woken at {clock_time(first_s)}: too late.")
    return Check(True, f"Woken at {clock_time(first_s)}, and not once before.")
