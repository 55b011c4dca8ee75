"""The explorer's timelines: a time axis that stays while controls move, a pinned run as a ghost.

Times on the axis count from where a run's loop begins, so that predicted, measured and pinned runs
share their zero.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from loaderviz.figures import axes, style
from loaderviz.figures.display import Drawing
from loaderviz.figures.timelines import boxes, timeline
from loaderviz.text import percent
from loaderviz.trace import Trace
from loaderviz.trace.columns_of_rows import arrays
from loaderviz.trace.steps import step_ends
from loaderviz.why.summary import Summary
from loaderviz.why.verdict import TOO_SHORT

ROOM = 1.12  # the longest run leaves this much for its duration, written beside it
SHORTEST = 0.3  # of the axis: below that the axis shrinks
SPANS = (1, 1.5, 2, 3, 4, 5, 7.5, 10)  # times a power of ten
GHOST_LANE, GHOST_TOP = -0.95, -1.35  # above the consumer's, which is 0
GHOST = "rgba(125, 133, 144, 0.55)"
TIME = "seconds since the loop began"


def steady_span(span_s: float, longest_s: float) -> float:
    """How many seconds the axis spans: as before, unless a run does not fit or is far shorter.

    Args:
        span_s: as before; 0 for the first picture.
        longest_s: the longest run that has to fit, in seconds.
    """
    needed_s = max(ROOM * longest_s, 1e-6)
    if SHORTEST * span_s <= needed_s <= span_s:
        return span_s
    power: float = 10.0 ** math.floor(math.log10(needed_s))
    return next(span * power for span in SPANS if span * power >= needed_s * (1 - 1e-9))


def picture(trace: Trace, summary: Summary, span_s: float, pinned: Trace | None = None) -> Drawing:
    """The timeline of a run on an axis of ``span_s`` seconds, with how long it took written beside.

    ``pinned``: the run whose steps are drawn in grey above the consumer, as if both had begun at
    the same moment.
    """
    marks, layout = timeline.drawn(trace, summary, span_s, with_phases=False)
    if summary.verdict.startswith(TOO_SHORT):  # of a training; it is compared with runs as short
        waits = percent(summary.wait_share)
        layout["title"]["text"] = f"<b>The model waits {waits} of this run, a short one</b>"
    begin_s = begin_of(trace)
    ticks = axes.round_ticks(span_s)
    layout["xaxis"] |= {
        "range": [begin_s - 0.012 * span_s, begin_s + 1.012 * span_s],
        "tickmode": "array",
        "tickvals": (begin_s + ticks).tolist(),
        "ticktext": [f"{tick:g}" for tick in ticks],
    }
    layout["xaxis"]["title"]["text"] = TIME
    margin = layout["margin"]
    margin["l"] = max(margin["l"], axes.labels_px(["main process"]))  # zero stays in place
    layout["annotations"] = [_duration(begin_s, duration_of(trace), lane=0)]
    if pinned is not None:
        marks.insert(0, _ghost(pinned, begin_s))  # behind the others
        inner_px = layout["height"] - margin["t"] - margin["b"]
        more_px = axes.lane_px(layout, inner_px) * (layout["yaxis"]["range"][1] - GHOST_TOP)
        axes.add_lane_above(layout, inner_px, round(more_px), "pinned", at=GHOST_LANE)
        layout["height"] += round(more_px)
        layout["annotations"].append(_duration(begin_s, duration_of(pinned), lane=GHOST_LANE))
    return Drawing(marks, layout)


def begin_of(trace: Trace) -> float:
    """When the loop of a run began, in seconds of the trace."""
    workers = ("asked_s", "started_s")  # when the first was asked for is not always known
    return -_latest(trace, "dispatched_s", "requested_s", of_workers=workers, sign=-1)


def end_of(trace: Trace) -> float:
    """When the last of a run was over, in seconds of the trace, batches made in vain included."""
    return _latest(trace, "ready_s", "delivered_s", "released_s", of_workers=("gone_s",))


def duration_of(trace: Trace) -> float:
    """Seconds until the last step of a run was over and its workers gone, as its summary counts."""
    end_s = _latest(trace, "delivered_s", "released_s", of_workers=("gone_s",))
    return (end_of(trace) if math.isnan(end_s) else end_s) - begin_of(trace)


def _latest(trace: Trace, *of_batches: str, of_workers: tuple[str, ...], sign: int = 1) -> float:
    """The largest of these columns, or of their negatives; NaN where there is none."""
    columns = [trace.batches[name].to_numpy() for name in of_batches]
    columns += [trace.workers[name].to_numpy() for name in of_workers]
    values = sign * np.concatenate(columns)
    return float(np.fmax.reduce(values, initial=np.nan))


def _ghost(pinned: Trace, begin_s: float) -> dict[str, Any]:
    """The steps of the pinned run; what lies between them is waiting."""
    batches = arrays(pinned.batches[pinned.batches["delivered_s"].notna()])
    moved_s = begin_s - begin_of(pinned)
    start, end = batches["delivered_s"] + moved_s, step_ends(batches) + moved_s
    lane = np.full(len(start), GHOST_LANE)
    return boxes.bars("pinned", start, end, lane, thickness=0.45, fill=GHOST, edge_px=0)


def _duration(begin_s: float, run_s: float, lane: float) -> dict[str, Any]:
    return {
        "x": begin_s + run_s,
        "y": lane,
        "text": f"<b>{run_s:.3g} s</b>",  # all in one unit, to compare
        "showarrow": False,
        "xanchor": "left",
        "xshift": 4,
        "font": {"size": 13, "color": style.theme("light").muted},
    }
