"""The marks of a timeline, one plotly trace a kind; always the same kinds in the same order.

``customdata`` is the row of the batch that a mark belongs to: ``look.js`` lights it up by that.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.figures import ready, style
from loaderviz.trace.summary import startup_spans

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.figures.lanes import Lanes
    from loaderviz.trace import Trace

CONSUMER = 0.0  # its lane
SPANS = 0.48  # just below the consumer's steps
NARROW = 0.004  # of the axis: an edge in another colour would hide all of such a box


def marks(
    trace: Trace, batches: pd.DataFrame, lanes: Lanes, span_s: float, *, whole: bool
) -> list[dict[str, Any]]:
    """All of them. ``whole``: batches in place of their samples; ``span_s``: of the time axis."""
    made = batches[batches["started_s"].notna()]
    named = _names(batches)
    return [
        _startup(trace, lanes),
        _waits(batches, named, span_s),
        _whole_batches(made, lanes, named)
        if whole
        else _samples(trace.samples, batches, lanes, named, span_s),
        _collate(made, lanes, named, span_s),
        _numbers(made, lanes),
        _steps(batches, named, span_s),
        _spans(trace.spans),
        _failures(trace.samples, batches, lanes, named),
        ready.strip(batches, lanes),
    ]


def _bars(
    kind: str,
    start: Any,
    end: Any,
    lane: Any,
    *,
    thickness: float,
    fill: Any,
    edge: Any = style.EDGE,
    edge_px: Any = 1,
    batch: Any = None,
    hover: list[str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    start, end = np.asarray(start, float), np.asarray(end, float)
    # A colour for each bar, also where all are the same: one for all is lost on the way to a
    # FigureWidget's first picture (plotly 7.1).
    fill = [fill] * len(start) if isinstance(fill, str) else fill
    edge = [edge] * len(start) if isinstance(edge, str) else edge
    marker = {
        "color": fill,
        "line": {"width": edge_px, "color": edge},
        **more.pop("marker", {}),
    }
    return {
        "type": "bar",
        "name": kind,
        "orientation": "h",
        "base": start,
        "x": end - start,
        "y": np.asarray(lane, float),
        "width": thickness,
        "marker": marker,
        "customdata": None if batch is None else [int(each) for each in batch],
        "hovertext": hover,
        "hovertemplate": "%{hovertext}<extra></extra>" if hover is not None else None,
        "hoverinfo": "skip" if hover is None else None,
        "textposition": "none",
        **more,
    }


def _names(batches: pd.DataFrame) -> list[str]:
    """What to call each batch: with its epoch and its loader where there are several."""
    several = {what: batches[what].nunique() > 1 for what in ("epoch", "loader")}
    return [
        f"<b>batch {batch}</b>"
        + (f" of epoch {epoch}" if several["epoch"] else "")
        + (f", loader {loader}" if several["loader"] else "")
        + (", main process" if worker < 0 else f", worker {worker}")
        for batch, epoch, loader, worker in zip(
            *(batches[c] for c in ("batch", "epoch", "loader", "worker")), strict=True
        )
    ]


def _edges(fills: list[str], start: Any, end: Any, span_s: float) -> list[str]:
    """Light edges; a box too narrow for one keeps its own colour to the rim."""
    wide = np.asarray(end, float) - np.asarray(start, float) > NARROW * span_s
    return [style.EDGE if is_wide else fill for fill, is_wide in zip(fills, wide, strict=True)]


def _startup(trace: Trace, lanes: Lanes) -> dict[str, Any]:
    """Thin lines: a worker until its first task, and the consumer until it can ask for a batch."""
    workers = trace.workers
    begun = workers[workers["started_s"].notna() & workers["first_task_s"].notna()]
    spans = startup_spans(trace)
    starts = [*begun["started_s"], *(start for start, _ in spans)]
    ends = [*begun["first_task_s"], *(end for _, end in spans)]
    hover = [
        f"worker {worker} starts up: {_ms(end - start)}<br>pid {pid}, {html.escape(str(method))}"
        for worker, pid, method, start, end in zip(
            *(begun[c] for c in ("worker", "pid", "start_method", "started_s", "first_task_s")),
            strict=True,
        )
    ]
    hover += [f"starts the workers: {_ms(end - start)}" for start, end in spans]
    lane = [*lanes.positions_of(begun), *([CONSUMER] * len(spans))]
    return _bars(
        "start-up", starts, ends, lane,
        thickness=0.1, fill=style.QUIET, edge_px=0, hover=hover,
    )  # fmt: skip


def _waits(batches: pd.DataFrame, named: list[str], span_s: float) -> dict[str, Any]:
    waited = batches[batches["delivered_s"].notna()]
    lengths = waited["delivered_s"] - waited["requested_s"]
    hover = [
        f"waits {_ms(wait)} for<br>{named[row]}"
        for row, wait in zip(waited.index, lengths, strict=True)
    ]
    # An opaque fill: plotly.js draws the lines in it, and would thin all by its alpha.
    colours = {"fgcolor": style.WAIT, "bgcolor": style.WAIT_FILL, "fillmode": "replace"}
    return _bars(
        "wait", waited["requested_s"], waited["delivered_s"], np.zeros(len(waited)),
        thickness=0.5, fill=style.WAIT, edge=style.WAIT_LINE,
        edge_px=np.where(lengths > NARROW * span_s, 1, 0), batch=waited.index, hover=hover,
        marker={"pattern": {"shape": "/", "size": 7, "solidity": 0.22, **colours}},
    )  # fmt: skip


def _steps(batches: pd.DataFrame, named: list[str], span_s: float) -> dict[str, Any]:
    taken = batches[batches["delivered_s"].notna()]
    ends = taken["released_s"].fillna(taken["delivered_s"])
    rows = zip(
        taken.index,
        *(taken[c] for c in ("n_samples", "delivered_s", "requested_s", "ready_s")),
        ends,
        strict=True,
    )
    hover = [
        f"{named[row]}<br>{n} samples<br>step {_ms(end - delivered)}"
        f"<br>waited for {_ms(delivered - requested)}"
        + (f"<br>lay ready {_ms(requested - ready)}" if requested > ready else "")
        for row, n, delivered, requested, ready, end in rows
    ]
    numbers = [int(batch) for batch in taken["batch"]]
    fills = [style.colour(batch) for batch in numbers]
    return _bars(
        "step", taken["delivered_s"], ends, np.zeros(len(taken)), thickness=0.8,
        fill=fills, edge=_edges(fills, taken["delivered_s"], ends, span_s),
        batch=taken.index, hover=hover,
        text=[str(batch) for batch in numbers], textposition="inside", textangle=0,
        insidetextanchor="middle",
        insidetextfont={"size": 13, "color": [style.text_on(batch) for batch in numbers]},
    )  # fmt: skip


def _rows_of(samples: pd.DataFrame, batches: pd.DataFrame) -> list[int]:
    """For each sample the row of its batch."""
    columns = ["rank", "loader", "epoch", "batch", "worker"]
    rows = {tuple(row): i for i, row in enumerate(batches[columns].to_numpy().tolist())}
    return [rows[tuple(row)] for row in samples[columns].to_numpy().tolist()]


def _samples(
    samples: pd.DataFrame, batches: pd.DataFrame, lanes: Lanes, named: list[str], span_s: float
) -> dict[str, Any]:
    read = samples[samples["end_s"].notna()]
    own = _rows_of(read, batches)
    hover = [
        f"{named[row]}<br>sample {position}, key {_key(key)}<br>{_ms(end - start)}"
        for row, position, key, start, end in zip(
            own, *(read[c] for c in ("position", "key", "start_s", "end_s")), strict=True
        )
    ]
    fills = [style.shade(b, p) for b, p in zip(read["batch"], read["position"], strict=True)]
    return _bars(
        "sample", read["start_s"], read["end_s"], lanes.positions_of(read), thickness=0.66,
        fill=fills, edge=_edges(fills, read["start_s"], read["end_s"], span_s),
        batch=own, hover=hover,
    )  # fmt: skip


def _whole_batches(made: pd.DataFrame, lanes: Lanes, named: list[str]) -> dict[str, Any]:
    hover = [
        f"{named[row]}<br>{n} samples<br>{_ms(end - start)}"
        for row, n, start, end in zip(
            made.index, *(made[c] for c in ("n_samples", "started_s", "collate_s")), strict=True
        )
    ]
    fills = [style.colour(int(b)) for b in made["batch"]]
    return _bars(
        "sample", made["started_s"], made["collate_s"], lanes.positions_of(made),
        thickness=0.66, fill=fills, edge=fills, batch=made.index, hover=hover,
    )  # fmt: skip


def _collate(made: pd.DataFrame, lanes: Lanes, named: list[str], span_s: float) -> dict[str, Any]:
    done = made[made["ready_s"].notna()]
    hover = [
        f"{named[row]}<br>collate {_ms(ready - start)}"
        for row, start, ready in zip(done.index, done["collate_s"], done["ready_s"], strict=True)
    ]
    # A collate step of a hair's width is still seen, unless its batch is that narrow too.
    wide = done["ready_s"] - done["started_s"] > 3 * NARROW * span_s
    return _bars(
        "collate", done["collate_s"], done["ready_s"], lanes.positions_of(done), thickness=0.66,
        fill=style.QUIET, edge=style.QUIET, edge_px=np.where(wide, 1.5, 0),
        batch=done.index, hover=hover,
    )  # fmt: skip


def _spans(spans: pd.DataFrame) -> dict[str, Any]:
    """The consumer's named spans, below its lane; each name has one colour."""
    names = list(dict.fromkeys(spans["name"]))
    fills = [style.colour(names.index(name) + 1) for name in spans["name"]]
    hover = [
        f"{_key(name)}: {_ms(end - start)}"
        for name, start, end in zip(*(spans[c] for c in ("name", "start_s", "end_s")), strict=True)
    ]
    return _bars(
        "span", spans["start_s"], spans["end_s"], np.full(len(spans), SPANS),
        thickness=0.1, fill=fills, edge_px=0, hover=hover,
    )  # fmt: skip


def _failures(
    samples: pd.DataFrame, batches: pd.DataFrame, lanes: Lanes, named: list[str]
) -> dict[str, Any]:
    """A cross where reading a sample raised an exception."""
    begun = samples[samples["end_s"].isna()]
    own = _rows_of(begun, batches)
    failed = [batches["state"].iloc[row] == "failed" for row in own]
    raised = begun[np.asarray(failed, dtype=bool)]
    own = [row for row, is_failed in zip(own, failed, strict=True) if is_failed]
    hover = [
        f"{named[row]}<br>reading key {_key(key)} raised an exception"
        for row, key in zip(own, raised["key"], strict=True)
    ]
    return {
        "type": "scatter",
        "name": "failed",
        "x": raised["start_s"].to_numpy(),
        "y": lanes.positions_of(raised),
        "mode": "markers",
        "marker": {"symbol": "x", "size": 12, "color": style.FAILED},
        "customdata": own,
        "hovertext": hover,
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _numbers(made: pd.DataFrame, lanes: Lanes) -> dict[str, Any]:
    """The batch's number, over its boxes; hidden where the batch is narrower than the number."""
    done = made[made["ready_s"].notna()]
    numbers = [int(batch) for batch in done["batch"]]
    return _bars(
        "number", done["started_s"], done["ready_s"], lanes.positions_of(done), thickness=0.66,
        fill="rgba(0,0,0,0)", edge_px=0, batch=done.index,
        text=[str(batch) for batch in numbers], textposition="inside", textangle=0,
        insidetextanchor="start",
        insidetextfont={"size": 12, "color": [style.text_on(batch) for batch in numbers]},
    )  # fmt: skip


def _key(key: object) -> str:
    text = str(key)
    return html.escape(text if len(text) <= 60 else text[:57] + "...")


def _ms(seconds: float) -> str:
    ms = 1000 * seconds
    return f"{ms:,.0f} ms" if ms >= 100 else f"{ms:.3g} ms"
