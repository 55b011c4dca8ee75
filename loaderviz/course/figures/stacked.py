"""Timelines to be compared: one below another, with one time axis and one zero."""

from __future__ import annotations

from collections.abc import Mapping

from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes
from loaderviz.figures.display import Figure
from loaderviz.figures.timelines.timeline import timeline
from loaderviz.trace import Trace

ROOM = 0.012  # of the axis, on both sides


def stacked(traces: Mapping[str, Trace]) -> list[Figure]:
    """A timeline of each trace, all from their own first event on and over equally many seconds.

    Args:
        traces: by title: what each picture shows, in one line. It takes the verdict's place.

    Returns:
        The figures, to be shown one below another.

    Raises:
        LoaderVizError: for no trace, and one without a batch.
    """
    if not traces:
        raise LoaderVizError("there is nothing to compare: give at least one trace")
    figures = [timeline(trace) for trace in traces.values()]
    ends = [figure.layout.xaxis.range for figure in figures]
    # timeline() leaves room on both sides of what it shows.
    span_s = max(right - left for left, right in ends) / (1 + 2 * ROOM)
    ticks = axes.round_ticks(span_s)
    left_px = max(figure.layout.margin.l for figure in figures)
    for title, figure, (left, right) in zip(traces, figures, ends, strict=True):
        zero_s = left + ROOM * (right - left) / (1 + 2 * ROOM)
        figure.update_layout(
            title_text=f"<b>{title}</b>",
            xaxis={
                "range": [zero_s - ROOM * span_s, zero_s + (1 + ROOM) * span_s],
                "tickvals": (zero_s + ticks).tolist(),
                "ticktext": [f"{tick:.6g}" for tick in ticks],
                "title_text": "seconds",
            },
            margin_l=left_px,
        )
    return figures
