"""The timeline: what the consumer and every worker did, batch by batch."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Drawing, Figure
from loaderviz.figures.style import AXIS_PX, TITLE_PX
from loaderviz.figures.timelines import (
    bands,
    boxes,
    consumer_marks,
    covers,
    packed_rows,
    phase_band,
    rank_rows,
    worker_marks,
)
from loaderviz.figures.timelines.lanes import Lanes
from loaderviz.text import MAIN_PROCESS
from loaderviz.trace import Trace
from loaderviz.trace.around_epochs import startups
from loaderviz.trace.columns_of_rows import Table, arrays, where
from loaderviz.trace.described_loaders import left_out
from loaderviz.trace.loaders_as_one import as_one
from loaderviz.trace.steps import step_ends
from loaderviz.why.summary import Summary

Label = Literal["batch", "key"]
MOST_SAMPLES = 3000  # more boxes make a page slow: past it each batch is one box
TIME = "seconds since the start"
MOST_LANES = 24  # of several ranks; past it each rank has one row
# Past it the page draws: bands when zoomed out, batches when zoomed in (as in waits_figure.js).
MOST_BATCHES = 1500
# Of a wait and a step. Boxes and gaps begin and end at whole pixels: with fewer than two for each,
# lanes look full that are not.
LEAST_CYCLE_PX = 4
READY_PX = 52


def timeline(
    trace: Trace,
    *,
    seconds: float | None = None,
    rank: int | None = None,
    label: Label = "batch",
    title: str | None = None,
    theme: style.ThemeName = "light",
) -> Figure:
    """Draw a trace: the consumer's lane on top, below it a lane for each worker.

    A batch has the same colour and number everywhere, from the worker that made it to the
    consumer's step. Each sample is a box; a grey box at the end of the batch is its collate step. A
    hatched box is the consumer waiting in ``next()``. Where nothing is drawn, a worker is idle. A
    cross is a sample whose reading raised an exception. Spans named with ``span`` lie under the
    consumer. A pin thread and a CUDA device have lanes of their own; in the gaps of its lane the
    device had nothing to do. The strip at the top shows how many batches are finished and not yet
    taken. Hovering a batch shows its path and times (ms); a click keeps them in view. A quiet
    band above the lanes names the phases of ``Trace.phases``, where there is more than a start and
    a pace.

    Past 48 batches what a lane works on has one colour, and batches are told apart once they are
    zoomed in on; the page does that by itself, live or saved. It shows samples where there is room.
    Past 1,500 batches the lanes show how busy each was, and named spans are left out.

    Several ranks are drawn below one another. If they have more than 24 lanes or 1,500 batches,
    there is one row for each rank, coloured by the share of time that it waits; ``rank`` then shows
    one of them in full.

    Args:
        trace: a recorded or simulated ``Trace``. Past 3,000 samples each batch is one box, and the
            figure says so.
        rank: the only rank to draw; None for all.
        seconds: the least time that the axis spans, from 0 on, so that two timelines can be
            compared; None for as much as the trace holds.
        label: what stands in the workers' boxes: each batch's number, or each sample's ``key``.
        title: what the picture is to show, in one line; None for the verdict on the run.
        theme: text and grid for a light or a dark page. In JupyterLab the page's theme decides.

    Returns:
        A plotly figure; its ``trace`` is the trace that it was drawn from, in which a loader that
        is made anew at one line of code is one loader.

    Raises:
        LoaderVizError: if ``trace`` is no trace or has no batch, if ``seconds`` is not above 0, and
            for a ``rank`` without a batch, an unknown label or an unknown theme.
    """
    _check(trace, seconds, rank, theme)
    if label not in get_args(Label):
        raise LoaderVizError(f"label={label!r} is not one of {', '.join(get_args(Label))}")
    trace = as_one(trace if rank is None else trace.of_ranks([rank]))
    figure = draw(trace, trace.summary(), seconds, theme, label)
    if title is not None:
        figure.layout.title.text = f"<b>{title}</b>"
    return figure


def draw(
    trace: Trace,
    summary: Summary,
    seconds: float | None = None,
    theme: style.ThemeName = "light",
    label: Label = "batch",
) -> Figure:
    """Draw a trace, as ``timeline`` does, where its summary is there already.

    Raises:
        LoaderVizError: if ``trace`` has no batch, and for an unknown theme.
    """
    _check_that_it_has_batches(trace)
    lanes = Lanes.from_trace(trace)
    if len(lanes.consumers) > 1 and (len(lanes) > MOST_LANES or len(trace.batches) > MOST_BATCHES):
        return _figure_of_ranks(trace, summary, seconds, theme)
    figure = drawn(trace, summary, seconds, theme, label).figure()
    figure.trace = trace
    return figure


def drawn(
    trace: Trace,
    summary: Summary,
    seconds: float | None = None,
    theme: style.ThemeName = "light",
    label: Label = "batch",
    *,
    with_phases: bool = True,
) -> Drawing:
    """What ``draw`` draws of one rank or a few.

    ``with_phases``: with the band of phases, where they are worth drawing.
    """
    _check_that_it_has_batches(trace)
    lanes = Lanes.from_trace(trace)
    batches = arrays(trace.batches)
    batches["row"] = np.arange(len(trace.batches), dtype=np.int32)
    time_range = _time_range(trace, seconds)
    large = len(trace.batches) > MOST_BATCHES or _are_too_narrow(batches, lanes, time_range)
    whole_batches = large or trace.n_sample_rows > MOST_SAMPLES
    table = packed_rows.pack(batches, lanes) if large else None
    marks = _marks(trace, batches, lanes, time_range, whole_batches=whole_batches, large=large)
    if label == "key" and not whole_batches:
        _label_by_key(marks, arrays(trace.samples))
    covered = covers.lie_on(marks)
    numbers = f"{_source(trace)} · {summary.numbers}"
    if large and table is None:
        numbers += " · bands only: too many batches for a page"
    elif large or covers.BATCHES in covered:
        numbers += " · zoom in for batches"
    elif whole_batches:
        numbers += " · samples are drawn merged into batches"
    elif covered:
        numbers += " · zoom in for samples"
    numbers += _left_out(trace)
    height, colours = _height(lanes), style.theme(theme)
    axes_of_lanes = _axes(lanes, batches, colours, height, time_range)
    phases = phase_band.worth_drawing(trace) if with_phases else None
    lane, thickness = 0.0, 0.0
    if phases is not None:
        inner_px = height - TITLE_PX - AXIS_PX
        lane, lane_px = axes.add_lane_above(axes_of_lanes, inner_px, phase_band.BAND_PX, "phases")
        height, thickness = height + phase_band.BAND_PX, phase_band.SEGMENT_PX / lane_px
    marks.append(phase_band.segments(phases, lane, thickness))
    # Without workers and with them the zero is in the same place, for the eye to compare.
    margins = (axes.labels_px([MAIN_PROCESS, *lanes.labels]), 22, TITLE_PX, AXIS_PX)
    layout = style.layout(
        colours, title=summary.verdict, numbers=numbers, height=height, margins=margins
    )
    layout |= axes_of_lanes
    if phases is not None:
        span_s = time_range[1] - time_range[0]
        layout["annotations"] = phase_band.names(phases, lane, span_s, colours)
    if len(lanes.consumers) > 1:
        layout["shapes"] = _lines_between_ranks(lanes, colours)
    page_data: dict[str, Any] = {"paths": [] if large else _paths(batches, lanes)}
    if table is not None:
        page_data = {"large": table}
    if covered:
        page_data["covers"] = covers.rules()
    layout["meta"] = {"loaderviz": {"lanes": lanes.labels, **page_data}}
    return Drawing(marks, layout)


def _figure_of_ranks(
    trace: Trace, summary: Summary, seconds: float | None, theme: style.ThemeName
) -> Figure:
    """One row for each rank."""
    numbers = f"{_source(trace)} · {summary.numbers} · timeline(trace, rank=...) shows one rank"
    colours = style.theme(theme)
    figure = rank_rows.draw(trace, summary.verdict, numbers, _time_range(trace, seconds), colours)
    figure.trace = trace
    return figure


def _lines_between_ranks(lanes: Lanes, theme: style.Theme) -> list[dict[str, Any]]:
    """A line above the consumer of each rank except the first."""
    line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y"}
    return [
        {**line, "y0": lane - 0.55, "y1": lane - 0.55, "line": {"width": 1, "color": theme.grid}}
        for lane in lanes.numbers[0][1:].tolist()
    ]


def _marks(
    trace: Trace,
    batches: Table,
    lanes: Lanes,
    time_range: list[float],
    *,
    whole_batches: bool,
    large: bool,
) -> list[dict[str, Any]]:
    """One plotly trace for each kind of mark; always the same kinds in the same order.

    ``whole_batches``: one box for all samples of a batch; ``large``: bands in place of boxes.
    """
    span_s = time_range[1] - time_range[0]
    as_boxes, as_bands = (where(batches, slice(0)), batches) if large else (batches, None)
    made = where(as_boxes, ~np.isnan(as_boxes["started_s"]))
    samples = arrays(_only_failed_ranks(trace).samples if whole_batches else trace.samples)
    names = boxes.batch_names(as_boxes, lanes.loaders)
    return [
        consumer_marks.start_up(trace, lanes),
        consumer_marks.waits(as_boxes, lanes, names, span_s),
        worker_marks.whole_batches(made, lanes, names)
        if whole_batches
        else worker_marks.samples(samples, as_boxes, lanes, names, span_s),
        covers.of_samples(as_boxes, samples, lanes, span_s, merged=whole_batches),
        worker_marks.collate(made, lanes, names, span_s),
        worker_marks.batch_numbers(made, lanes),
        consumer_marks.steps(as_boxes, lanes, names, span_s),
        consumer_marks.spans(arrays(trace.spans.iloc[:0] if large else trace.spans), lanes),
        worker_marks.failures(samples, batches, lanes),
        consumer_marks.pins(as_boxes, lanes, names, span_s),
        consumer_marks.device(as_boxes, lanes, names, span_s),
        covers.of_batches(as_boxes, lanes),
        *bands.band_marks(as_bands, lanes, time_range),
        consumer_marks.ready_strip(batches, lanes, bands.bin_edges(time_range) if large else None),
    ]


def _label_by_key(marks: list[dict[str, Any]], samples: Table) -> None:
    """Write each sample's key in its box, in place of the batch's number."""
    read = where(samples, ~np.isnan(samples["end_s"]))
    by_name = {mark["name"]: mark for mark in marks}
    by_name["number"]["text"] = boxes.text_array("" for _ in by_name["number"]["base"])
    keys = boxes.text_array(boxes.key_text(key) for key in read["key"])
    labels = boxes.number_labels(read["batch"], 12) | {"text": keys, "insidetextanchor": "middle"}
    by_name["sample"].update(labels)


def _only_failed_ranks(trace: Trace) -> Trace:
    """The ranks with a failed batch: where samples are not drawn, only theirs need to be read."""
    batches = trace.batches
    return trace.of_ranks(batches.loc[batches["state"] == "failed", "rank"].unique().tolist())


def _left_out(trace: Trace) -> str:
    """What the recorder left out, as an addition to the subtitle."""
    samples_left_out, batches_left_out = left_out(trace.meta)
    text = ""
    if samples_left_out:
        text += f" · beyond max_spans, {samples_left_out:,} samples and spans are left out"
    if batches_left_out:
        text += f" · the last of {batches_left_out + len(trace.batches):,} batches"
    return text


def _source(trace: Trace) -> str:
    """Where the figure's numbers come from, and what is missing in them."""
    if trace.meta.get("simulated"):
        return "simulated"
    batches = trace.batches
    unseen = int((batches["delivered_s"].notna() & batches["started_s"].isna()).sum())
    source = "measured" if trace.meta.get("complete", True) else "measured, incomplete"
    source = f"{source}, {unseen} batches not seen in their worker" if unseen else source
    clocks = rank_rows.clock_uncertainty(trace.meta)
    return f"{source} · {clocks}" if clocks else source


def _check(trace: Any, seconds: float | None, rank: int | None, theme: str) -> None:
    axes.check_given("timeline", trace, seconds)
    _check_that_it_has_batches(trace)
    if rank is not None and rank not in set(trace.batches["rank"]):
        ranks = trace.batches["rank"].unique()
        raise LoaderVizError(
            f"rank={rank!r} has no batch in this trace; it holds {len(ranks):,} ranks, "
            f"{ranks.min()} to {ranks.max()}"
        )


def _check_that_it_has_batches(trace: Trace) -> None:
    if trace.batches.empty:
        raise LoaderVizError(
            "this trace holds no batch: the loader was not iterated inside the block, "
            "or its dataset is empty"
        )


def _height(lanes: Lanes) -> int:
    n_lanes = len(lanes) - 1
    strip_px = READY_PX if lanes.has_workers else 0
    return round(TITLE_PX + strip_px + 50 + n_lanes * lanes.lane_px + AXIS_PX)


def _time_range(trace: Trace, seconds: float | None) -> list[float]:
    """Both ends of the time axis, in seconds, with a little room on both sides."""
    batches, workers = trace.batches, trace.workers
    begins = [batches["dispatched_s"], batches["requested_s"], workers["started_s"]]
    in_iter_s = np.array([start for _, _, start, _ in startups(trace)])
    ends = ["dispatched_s", "ready_s", "delivered_s", "released_s", "device_end_s"]
    every = [in_iter_s, *(times.to_numpy() for times in begins)]
    started_s = float(min(np.fmin.reduce(times, initial=np.inf) for times in every))
    if seconds is not None:
        started_s = min(started_s, 0.0)
    times = [*(batches[column].to_numpy() for column in ends), workers["gone_s"].to_numpy()]
    ended_s = float(max(np.fmax.reduce(each, initial=-np.inf) for each in times))
    span_s = max(ended_s - started_s, seconds or 1e-6)
    return [started_s - 0.012 * span_s, started_s + 1.012 * span_s]


def _are_too_narrow(batches: Table, lanes: Lanes, time_range: list[float]) -> bool:
    """Whether batches are so many and narrow that boxes would not show where a lane is idle."""
    taken = where(batches, ~np.isnan(batches["delivered_s"]))
    if len(taken["row"]) <= covers.MOST_TOLD_APART * max(len(lanes.consumers), 1):
        return False
    cycles_s = step_ends(taken) - taken["requested_s"]
    least_s = LEAST_CYCLE_PX / covers.AXIS_PX * (time_range[1] - time_range[0])
    return float(np.nanmedian(cycles_s)) < least_s


def _axes(
    lanes: Lanes, batches: Table, theme: style.Theme, height: int, time_range: list[float]
) -> dict[str, Any]:
    inner_px = height - TITLE_PX - AXIS_PX
    lanes_top = 1 - (READY_PX if lanes.has_workers else 1) / inner_px
    most_ready = max(2, int(consumer_marks.ready_counts(batches)[1].max(initial=0)))
    return {
        "uniformtext": {"minsize": 9, "mode": "hide"},
        "xaxis": axes.axis(theme, TIME, range=time_range, anchor="y", nticks=10),
        "yaxis": axes.lane_axis(
            theme, lanes.labels, range=[len(lanes) - 0.45, -0.62],
            domain=[0, lanes_top - (0.02 if lanes.has_workers else 0)],
        ),
        "yaxis2": axes.axis(
            theme, "ready", 4, domain=[lanes_top, 1], range=[0, most_ready * 1.08], nticks=3,
            tickfont={"size": 11}, fixedrange=True, visible=lanes.has_workers,
        ),
    }  # fmt: skip


def _paths(batches: Table, lanes: Lanes) -> list[list[list[float]]]:
    """For each batch the [seconds, lane] of its stations: dispatched, made, pinned, delivered."""
    consumer, worker = lanes.consumer_lanes(batches), lanes.worker_lanes(batches)
    lanes_of_times = {
        "dispatched_s": consumer,
        "started_s": worker,
        "ready_s": worker,
        "pinned_s": lanes.pin_lanes(batches),
        "delivered_s": consumer,
    }
    columns = [column for column in lanes_of_times if not np.isnan(batches[column]).all()]
    times = np.stack([batches[column] for column in columns], axis=1)
    stations = np.stack([lanes_of_times[column] for column in columns], axis=1)
    paths: list[list[list[float]]] = np.stack([times.round(6), stations], axis=2).tolist()
    for row in np.flatnonzero(np.isnan(times).any(axis=1)):
        paths[row] = [[time, lane] for time, lane in paths[row] if not np.isnan(time)]
    return paths
