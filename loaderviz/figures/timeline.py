"""The timeline: what the consumer and every worker did, batch by batch."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.figures import style
from loaderviz.figures.display import Figure
from loaderviz.figures.lanes import Lanes

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace import Trace

MOST_SAMPLES = 3000  # more boxes than this make a page slow; batches are drawn whole then
CONSUMER = 0.0
READY_PX, AXIS_PX, TITLE_PX = 52, 58, 82


def timeline(
    trace: Trace, *, seconds: float | None = None, theme: style.ThemeName = "light"
) -> Figure:
    """Draw a trace: the consumer's lane on top, below it a lane for each worker.

    One batch has one colour and one number, from the worker that made it to the consumer's step.
    Each sample is a box, with the collate step as a grey cap at the end of the batch; a hatched
    box is the consumer waiting in ``next()``; nothing is drawn where a worker is idle. Above, how
    many batches are finished and not yet taken. Hovering a batch shows its way and times (ms);
    a click keeps it in view.

    Args:
        trace: a recorded or simulated ``Trace``. Past 3,000 samples batches are drawn whole, and
            the figure says so.
        seconds: how much time the axis spans, so that two timelines can be compared; None for all
            that the trace holds.
        theme: text and grid for a light or a dark page. In JupyterLab the page's theme decides.

    Raises:
        LoaderVizError: for what is no trace, a trace without any batch, ``seconds`` that are not
            above 0, or an unknown theme.
    """
    _check(trace, seconds, theme)
    lanes = Lanes.of(trace)
    batches = trace.batches.reset_index(drop=True)
    whole = len(trace.samples) > MOST_SAMPLES
    summary = trace.summary()
    source = "simulated" if trace.meta.get("simulated") else "measured"
    numbers = f"{source} · {summary.numbers}"
    if whole:
        numbers += " · samples are drawn merged into batches"
    height = _height(lanes)
    layout = style.layout(
        style.THEMES[theme], title=summary.verdict, numbers=numbers, height=height
    )
    layout.update(_axes(lanes, trace, style.THEMES[theme], height, seconds))
    layout["meta"] = {"loaderviz": {"paths": _paths(batches, lanes), "lanes": lanes.labels}}
    made = batches[batches["started_s"].notna()]
    data = [
        _startup(trace.workers, lanes),
        _waits(batches),
        _whole_batches(made, lanes) if whole else _samples(trace.samples, batches, lanes),
        _collate(made, lanes),
        _numbers(made, lanes),
        _steps(batches),
        _ready(batches, lanes),
    ]
    return Figure(data=data, layout=layout)


def _check(trace: Any, seconds: float | None, theme: str) -> None:
    from loaderviz.trace import Trace

    if not isinstance(trace, Trace):
        raise LoaderVizError(
            f"timeline() draws a Trace, but got {type(trace).__name__}. "
            "Take it from a recording: `with record(loader) as rec: ...`, then timeline(rec.trace)."
        )
    if theme not in style.THEMES:
        raise LoaderVizError(f"theme={theme!r} is not one of {', '.join(style.THEMES)}")
    if seconds is not None and not seconds > 0:
        raise LoaderVizError(f"seconds={seconds!r}: give a time span above 0, or None for all")
    if trace.batches.empty:
        raise LoaderVizError(
            "this trace holds no batch: the loader was not iterated inside the block, "
            "or its dataset is empty"
        )


def _height(lanes: Lanes) -> int:
    n_lanes = len(lanes) - 1
    ready = READY_PX if lanes.has_workers else 0
    return round(TITLE_PX + ready + 60 + n_lanes * lanes.lane_px + AXIS_PX)


def _time_range(trace: Trace, seconds: float | None) -> list[float]:
    """The span of the time axis, with a little room on both sides."""
    batches = trace.batches
    begun = [*batches[["dispatched_s", "requested_s"]].min(), trace.workers["started_s"].min()]
    started = float(np.nanmin(begun))
    ended = float(batches[["dispatched_s", "ready_s", "delivered_s", "released_s"]].max().max())
    span = max(ended - started, 1e-6) if seconds is None else seconds
    return [started - 0.012 * span, started + 1.012 * span]


def _axes(
    lanes: Lanes, trace: Trace, theme: style.Theme, height: int, seconds: float | None
) -> dict[str, Any]:
    inner = height - TITLE_PX - AXIS_PX
    top = 1 - (READY_PX if lanes.has_workers else 1) / inner
    grid = {"gridcolor": theme.grid, "zeroline": False, "showline": False}
    axes: dict[str, Any] = {
        "margin": {"l": 110 if max(map(len, lanes.labels)) <= 14 else 170, "r": 22, "t": TITLE_PX,
                   "b": AXIS_PX},
        "uniformtext": {"minsize": 9, "mode": "hide"},
        "xaxis": {
            **grid,
            "title": {"text": "seconds since the recording began", "standoff": 10, "font": {"size": 12}},
            "range": _time_range(trace, seconds),
            "anchor": "y",
            "nticks": 10,
        },
        "yaxis": {
            **grid,
            "showgrid": False,
            "tickmode": "array",
            "tickvals": list(range(len(lanes))),
            "ticktext": lanes.labels,
            "tickfont": {"color": theme.text},
            "ticks": "",
            "ticklabelstandoff": 8,
            "range": [len(lanes) - 0.45, -0.62],
            "domain": [0, top - (0.02 if lanes.has_workers else 0)],
            "fixedrange": True,
        },
    }
    most = max(2, int(_ready_steps(trace.batches)[1].max()))
    axes["yaxis2"] = {
        **grid,
        "title": {"text": "ready", "standoff": 4, "font": {"size": 12}},
        "domain": [top, 1],
        "range": [0, most * 1.08],
        "nticks": 3,
        "tickfont": {"size": 11},
        "fixedrange": True,
        "visible": lanes.has_workers,
    }
    return axes


def _paths(batches: pd.DataFrame, lanes: Lanes) -> list[list[list[float]]]:
    """For each batch the stops of its life, [seconds, lane]: dispatched, made, delivered."""
    stops = zip(
        *(batches[c] for c in ("dispatched_s", "started_s", "ready_s", "delivered_s")),
        lanes.positions_of(batches),
        strict=True,
    )
    return [
        [
            [float(at), y]
            for at, y in ((sent, CONSUMER), (start, lane), (ready, lane), (taken, CONSUMER))
            if not np.isnan(at)
        ]
        for sent, start, ready, taken, lane in stops
    ]


def _bars(
    kind: str,
    start: Any,
    end: Any,
    lane: Any,
    *,
    thickness: float,
    fill: Any,
    batch: Any = None,
    hover: list[str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    start, end = np.asarray(start, float), np.asarray(end, float)
    marker = {"color": fill, "line": {"width": 1, "color": style.EDGE}, **more.pop("marker", {})}
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


def _startup(workers: pd.DataFrame, lanes: Lanes) -> dict[str, Any]:
    begun = workers[workers["started_s"].notna() & workers["first_task_s"].notna()]
    hover = [
        f"worker {worker} starts up: {_ms(first - start)}<br>pid {pid}, {html.escape(str(method))}"
        for worker, pid, method, start, first in zip(
            *(begun[c] for c in ("worker", "pid", "start_method", "started_s", "first_task_s")),
            strict=True,
        )
    ]
    lane = lanes.positions_of(begun)
    return _bars(
        "start-up", begun["started_s"], begun["first_task_s"], lane,
        thickness=0.1, fill=style.QUIET, hover=hover, marker={"line": {"width": 0}},
    )  # fmt: skip


def _waits(batches: pd.DataFrame) -> dict[str, Any]:
    waited = batches[batches["delivered_s"].notna()]
    hover = [
        f"waits {_ms(wait)} for batch {batch}"
        for batch, wait in zip(
            waited["batch"], waited["delivered_s"] - waited["requested_s"], strict=True
        )
    ]
    hatch = {"shape": "/", "fgcolor": style.WAIT_HATCH, "size": 7, "solidity": 0.22}
    return _bars(
        "wait", waited["requested_s"], waited["delivered_s"], np.zeros(len(waited)),
        thickness=0.5, fill=style.WAIT_FILL, batch=waited.index, hover=hover,
        marker={"pattern": {**hatch, "fillmode": "overlay"},
                "line": {"width": 1, "color": style.WAIT_LINE}},
    )  # fmt: skip


def _steps(batches: pd.DataFrame) -> dict[str, Any]:
    taken = batches[batches["delivered_s"].notna()]
    ends = taken["released_s"].fillna(taken["delivered_s"])
    rows = zip(
        *(taken[c] for c in ("batch", "worker", "n_samples", "delivered_s", "requested_s")),
        ends,
        taken["ready_s"],
        strict=True,
    )
    hover = [
        f"<b>batch {batch}</b>, {_made_by(worker)}<br>{n} samples<br>step {_ms(end - delivered)}"
        f"<br>waited for {_ms(delivered - requested)}"
        + (f"<br>lay ready {_ms(requested - ready)}" if requested > ready else "")
        for batch, worker, n, delivered, requested, end, ready in rows
    ]
    numbers = [int(batch) for batch in taken["batch"]]
    return _bars(
        "step", taken["delivered_s"], ends, np.zeros(len(taken)), thickness=0.8,
        fill=[style.colour(batch) for batch in numbers], batch=taken.index, hover=hover,
        text=[str(batch) for batch in numbers], textposition="inside", textangle=0,
        insidetextanchor="middle",
        insidetextfont={"size": 13, "color": [style.text_on(batch) for batch in numbers]},
    )  # fmt: skip


def _samples(samples: pd.DataFrame, batches: pd.DataFrame, lanes: Lanes) -> dict[str, Any]:
    columns = ["rank", "loader", "epoch", "batch", "worker"]
    rows_of = {
        tuple(map(int, row)): i for i, row in enumerate(batches[columns].itertuples(index=False))
    }
    read = samples[samples["end_s"].notna()]
    own = [rows_of[tuple(map(int, row))] for row in read[columns].itertuples(index=False)]
    rows = zip(
        *(read[c] for c in ("batch", "worker", "position", "key", "start_s", "end_s")),
        strict=True,
    )
    hover = [
        f"<b>batch {batch}</b>, {_made_by(worker)}<br>sample {position}, "
        f"key {_key(key)}<br>{_ms(end - start)}"
        for batch, worker, position, key, start, end in rows
    ]
    fills = [style.shade(b, p) for b, p in zip(read["batch"], read["position"], strict=True)]
    return _bars(
        "sample", read["start_s"], read["end_s"], lanes.positions_of(read),
        thickness=0.66, fill=fills, batch=own, hover=hover,
    )  # fmt: skip


def _whole_batches(made: pd.DataFrame, lanes: Lanes) -> dict[str, Any]:
    hover = [
        f"<b>batch {batch}</b>, {_made_by(worker)}<br>{n} samples<br>{_ms(end - start)}"
        for batch, worker, n, start, end in zip(
            *(made[c] for c in ("batch", "worker", "n_samples", "started_s", "collate_s")),
            strict=True,
        )
    ]
    return _bars(
        "sample", made["started_s"], made["collate_s"], lanes.positions_of(made),
        thickness=0.66, fill=[style.colour(int(b)) for b in made["batch"]], batch=made.index,
        hover=hover, marker={"line": {"width": 0}},
    )  # fmt: skip


def _collate(made: pd.DataFrame, lanes: Lanes) -> dict[str, Any]:
    done = made[made["ready_s"].notna()]
    hover = [
        f"<b>batch {batch}</b>, {_made_by(worker)}<br>collate {_ms(ready - start)}"
        for batch, worker, start, ready in zip(
            *(done[c] for c in ("batch", "worker", "collate_s", "ready_s")), strict=True
        )
    ]
    return _bars(
        "collate", done["collate_s"], done["ready_s"], lanes.positions_of(done),
        thickness=0.66, fill=style.QUIET, batch=done.index, hover=hover,
        marker={"line": {"width": 1.5, "color": style.QUIET}},  # a hair's width is still seen
    )  # fmt: skip


def _numbers(made: pd.DataFrame, lanes: Lanes) -> dict[str, Any]:
    """The batch's number, over its boxes; hidden where the batch is narrower than the number."""
    done = made[made["ready_s"].notna()]
    numbers = [int(batch) for batch in done["batch"]]
    return _bars(
        "number", done["started_s"], done["ready_s"], lanes.positions_of(done), thickness=0.66,
        fill="rgba(0,0,0,0)", batch=done.index, marker={"line": {"width": 0}},
        text=[str(batch) for batch in numbers], textposition="inside", textangle=0,
        insidetextanchor="start",
        insidetextfont={"size": 12, "color": [style.text_on(batch) for batch in numbers]},
    )  # fmt: skip


def _ready_steps(batches: pd.DataFrame) -> tuple[Any, Any]:
    """When the number of finished batches not yet taken changes, and what it is from then on."""
    arrive = batches["ready_s"].dropna().to_numpy()
    leave = batches.loc[batches["ready_s"].notna(), "delivered_s"].dropna().to_numpy()
    times = np.concatenate([arrive, leave])
    changes = np.concatenate([np.ones(len(arrive)), -np.ones(len(leave))])
    order = np.argsort(times, kind="stable")
    counts = np.cumsum(changes[order])
    return times[order], counts if len(counts) else np.zeros(1)


def _ready(batches: pd.DataFrame, lanes: Lanes) -> dict[str, Any]:
    times, counts = _ready_steps(batches)
    if not lanes.has_workers:
        times, counts = times[:0], counts[:0]
    return {
        "type": "scatter",
        "name": "ready",
        "x": times,
        "y": counts[: len(times)],
        "yaxis": "y2",
        "mode": "lines",
        "line": {"shape": "hv", "width": 1.4, "color": style.READY_LINE},
        "fill": "tozeroy",
        "fillcolor": style.READY_FILL,
        "hovertemplate": "%{y} batches ready<extra></extra>",
    }


def _made_by(worker: int) -> str:
    return "main process" if worker < 0 else f"worker {worker}"


def _key(key: object) -> str:
    text = str(key)
    return html.escape(text if len(text) <= 60 else text[:57] + "...")


def _ms(seconds: float) -> str:
    ms = 1000 * seconds
    return f"{ms:,.0f} ms" if ms >= 100 else f"{ms:.3g} ms"
