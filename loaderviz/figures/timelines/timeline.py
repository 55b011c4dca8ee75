"""The timeline: what the consumer and every worker did, batch by batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.figures.timelines import (
    bands,
    boxes,
    consumer_marks,
    packed_rows,
    rank_rows,
    ready_strip,
    worker_marks,
)
from loaderviz.figures.timelines.lanes import Lanes
from loaderviz.trace import Trace
from loaderviz.trace.columns_of_rows import Table, arrays, where
from loaderviz.trace.merge.run_meta import left_out

MOST_SAMPLES = 3000  # more boxes than this make a page slow; batches are drawn whole then
TIME = "seconds since the recording began"
MOST_LANES = 24  # of several ranks; past it a row for each rank
MOST_BATCHES = 1500  # past it the page draws: bands from afar, batches when near
READY_PX, AXIS_PX, TITLE_PX = 52, 58, 82


def timeline(
    trace: Trace,
    *,
    seconds: float | None = None,
    rank: int | None = None,
    theme: style.ThemeName = "light",
) -> Figure:
    """Draw a trace: the consumer's lane on top, below it a lane for each worker.

    Several ranks lie one below the other. Where they have more than 24 lanes or 1,500 batches,
    there is one row for each rank, coloured by how much of the time it waits; ``rank`` draws one of
    them as if it were alone.

    Past 1,500 batches the lanes show how busy each was, and batches once they are zoomed in on; the
    page does that by itself, live or saved. Named spans are left out then.

    One batch has one colour and one number, from the worker that made it to the consumer's step.
    Each sample is a box, with the collate step as a grey cap at the end of the batch; a hatched
    box is the consumer waiting in ``next()``; nothing is drawn where a worker is idle. Above, how
    many batches are finished and not yet taken. Spans that were named with ``span`` lie under the
    consumer; a cross is a sample whose reading raised an exception. Where batches are pinned by a
    thread, and where steps run on a CUDA device, each has a lane of its own: in the gaps of the
    device's it had nothing to do. Hovering a batch shows its way and times (ms); a click keeps it
    in view. The figure's ``trace`` is what it was drawn from.

    Args:
        trace: a recorded or simulated ``Trace``. Past 3,000 samples batches are drawn whole, and
            the figure says so.
        rank: of a trace of several, which one; None for all.
        seconds: how much time the axis spans at least, so that two timelines can be compared; None
            for as much as the trace holds.
        theme: text and grid for a light or a dark page. In JupyterLab the page's theme decides.

    Raises:
        LoaderVizError: for what is no trace, a trace without any batch, ``seconds`` that are not
            above 0, a ``rank`` that is not there, or an unknown theme.
    """
    _check(trace, seconds, rank, theme)
    if rank is not None:
        trace = trace.of_ranks([rank])
    lanes = Lanes.of(trace)
    if len(lanes.consumers) > 1 and (len(lanes) > MOST_LANES or len(trace.batches) > MOST_BATCHES):
        return _of_ranks(trace, seconds, theme)
    batches = arrays(trace.batches)
    batches["row"] = np.arange(len(trace.batches), dtype=np.int32)
    large = len(trace.batches) > MOST_BATCHES
    whole = large or trace.n_sample_rows > MOST_SAMPLES
    summary = trace.summary()
    numbers = f"{_source(trace)} · {summary.numbers}"
    shown = _time_range(trace, seconds)
    table, each = packed_rows.pack(batches, lanes, shown) if large else (None, True)
    if not each:
        numbers += " · bands only: too many batches for a page"
    elif large:
        numbers += " · zoom in for batches"
    elif whole:
        numbers += " · samples are drawn merged into batches"
    samples_left_out, batches_left_out = left_out(trace.meta)
    if samples_left_out:
        numbers += f" · past the limit, {samples_left_out:,} samples and spans are left out"
    if batches_left_out:
        numbers += f", and {batches_left_out:,} batches"
    height, look = _height(lanes), style.theme(theme)
    margins = (axes.names_px(lanes.labels), 22, TITLE_PX, AXIS_PX)
    layout = style.layout(
        look, title=summary.verdict, numbers=numbers, height=height, margins=margins
    )
    layout |= _axes(lanes, batches, look, height, shown)
    if len(lanes.consumers) > 1:
        layout["shapes"] = _between_ranks(lanes, look)
    page = {"large": table} if large else {"paths": _paths(batches, lanes)}
    layout["meta"] = {"loaderviz": {"lanes": lanes.labels, **page}}
    figure = Figure.of(_marks(trace, batches, lanes, shown, whole=whole, large=large), layout)
    figure.trace = trace
    return figure


def _of_ranks(trace: Trace, seconds: float | None, theme: style.ThemeName) -> Figure:
    summary = trace.summary()
    numbers = f"{_source(trace)} · {summary.numbers} · timeline(trace, rank=...) shows one rank"
    colours = style.theme(theme)
    figure = rank_rows.draw(trace, summary.verdict, numbers, _time_range(trace, seconds), colours)
    figure.trace = trace
    return figure


def _between_ranks(lanes: Lanes, theme: style.Theme) -> list[dict[str, Any]]:
    """A line above each rank's consumer but the first."""
    line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y"}
    return [
        {**line, "y0": at - 0.55, "y1": at - 0.55, "line": {"width": 1, "color": theme.grid}}
        for at in lanes.numbers[0][1:].tolist()
    ]


def _marks(
    trace: Trace, batches: Table, lanes: Lanes, shown: list[float], *, whole: bool, large: bool
) -> list[dict[str, Any]]:
    """One plotly trace a kind; always the same kinds in the same order.

    ``whole``: batches in place of their samples; ``large``: bands in place of batches.
    """
    span_s = shown[1] - shown[0]
    drawn, far = (where(batches, slice(0)), batches) if large else (batches, None)
    made = where(drawn, ~np.isnan(drawn["started_s"]))
    samples = arrays(_failed_ranks(trace).samples if whole else trace.samples)
    named = boxes.names_of(drawn)
    return [
        consumer_marks.start_up(trace, lanes),
        consumer_marks.waits(drawn, lanes, named, span_s),
        worker_marks.whole_batches(made, lanes, named)
        if whole
        else worker_marks.samples(samples, drawn, lanes, named, span_s),
        worker_marks.collate(made, lanes, named, span_s),
        worker_marks.numbers(made, lanes),
        consumer_marks.steps(drawn, lanes, named, span_s),
        consumer_marks.spans(arrays(trace.spans.iloc[:0] if large else trace.spans), lanes),
        worker_marks.failures(samples, batches, lanes),
        consumer_marks.pins(drawn, lanes, named, span_s),
        consumer_marks.device(drawn, lanes, named, span_s),
        *bands.areas(far, lanes, shown),
        ready_strip.strip(batches, lanes, bands.edges(shown) if large else None),
    ]


def _failed_ranks(trace: Trace) -> Trace:
    """Those with a batch that failed: where samples are not drawn, only theirs are looked at."""
    batches = trace.batches
    return trace.of_ranks(batches.loc[batches["state"] == "failed", "rank"].unique().tolist())


def _source(trace: Trace) -> str:
    """Where the figure's numbers come from, and what they lack."""
    if trace.meta.get("simulated"):
        return "simulated"
    batches = trace.batches
    unseen = int((batches["delivered_s"].notna() & batches["started_s"].isna()).sum())
    source = "measured" if trace.meta.get("complete", True) else "measured, incomplete"
    source = f"{source}, {unseen} batches not seen in their worker" if unseen else source
    aligned = rank_rows.clocks(trace.meta)
    return f"{source} · {aligned}" if aligned else source


def _check(trace: Any, seconds: float | None, rank: int | None, theme: str) -> None:
    if not isinstance(trace, Trace):
        raise LoaderVizError(
            f"timeline() draws a Trace, but got {type(trace).__name__}. "
            "Take it from a recording: `with record(loader) as rec: ...`, then timeline(rec.trace)."
        )
    if seconds is not None and not seconds > 0:
        raise LoaderVizError(f"seconds={seconds!r}: give a time span above 0, or None for all")
    if trace.batches.empty:
        raise LoaderVizError(
            "this trace holds no batch: the loader was not iterated inside the block, "
            "or its dataset is empty"
        )
    if rank is not None and rank not in set(trace.batches["rank"]):
        there = trace.batches["rank"].unique()
        raise LoaderVizError(
            f"rank={rank!r} has no batch in this trace; it holds {len(there):,} ranks, "
            f"{there.min()} to {there.max()}"
        )


def _height(lanes: Lanes) -> int:
    n_lanes = len(lanes) - 1
    strip_px = READY_PX if lanes.has_workers else 0
    return round(TITLE_PX + strip_px + 60 + n_lanes * lanes.lane_px + AXIS_PX)


def _time_range(trace: Trace, seconds: float | None) -> list[float]:
    """The span of the time axis, with a little room on both sides."""
    batches, workers = trace.batches, trace.workers
    begins = [batches["dispatched_s"], batches["requested_s"], workers["started_s"]]
    ends = ["dispatched_s", "ready_s", "delivered_s", "released_s", "device_end_s"]
    started = float(min(np.fmin.reduce(each.to_numpy(), initial=np.inf) for each in begins))
    ended = float(max(np.fmax.reduce(batches[each].to_numpy()) for each in ends))
    span = max(ended - started, seconds or 1e-6)
    return [started - 0.012 * span, started + 1.012 * span]


def _axes(
    lanes: Lanes, batches: Table, theme: style.Theme, height: int, shown: list[float]
) -> dict[str, Any]:
    inner = height - TITLE_PX - AXIS_PX
    top = 1 - (READY_PX if lanes.has_workers else 1) / inner
    most = max(2, int(ready_strip.steps(batches)[1].max(initial=0)))
    return {
        "uniformtext": {"minsize": 9, "mode": "hide"},
        "xaxis": axes.axis(theme, TIME, range=shown, anchor="y", nticks=10),
        "yaxis": axes.lanes(
            theme, lanes.labels, range=[len(lanes) - 0.45, -0.62],
            domain=[0, top - (0.02 if lanes.has_workers else 0)],
        ),
        "yaxis2": axes.axis(
            theme, "ready", 4, domain=[top, 1], range=[0, most * 1.08], nticks=3,
            tickfont={"size": 11}, fixedrange=True, visible=lanes.has_workers,
        ),
    }  # fmt: skip


def _paths(batches: Table, lanes: Lanes) -> list[list[list[float]]]:
    """For each batch the stops of its life, [seconds, lane]: dispatched, made, delivered."""
    main = lanes.consumers_of(batches)
    made, pinned = lanes.positions_of(batches), lanes.pins_of(batches)
    stops = {
        "dispatched_s": main,
        "started_s": made,
        "ready_s": made,
        "pinned_s": pinned,
        "delivered_s": main,
    }
    stops = {c: lane for c, lane in stops.items() if not np.isnan(batches[c]).all()}
    times = np.stack([batches[column] for column in stops], axis=1)
    paths: list[list[list[float]]]
    paths = np.stack([times.round(6), np.stack(list(stops.values()), axis=1)], axis=2).tolist()
    for row in np.flatnonzero(np.isnan(times).any(axis=1)):
        paths[row] = [[at, lane] for at, lane in paths[row] if at == at]
    return paths
