"""The figure of an audit: samples x workers, so that overlap and holes are seen at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from loaderviz._audit.count_deliveries import lanes_of
from loaderviz._contents.contents_in_words import WRONG
from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.figures.results.delivery_strip import (
    HOLE,
    LEAST_HEIGHT,
    LEAST_WIDTH,
    NEVER,
    ROOM_BELOW,
    Columns,
    strip,
    strip_top,
)
from loaderviz.figures.timelines import boxes
from loaderviz.text import count, worker_name

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz._audit import Audit

STRIP_PX, AXIS_PX, TITLE_PX = 76, 52, 74
LANE_PX = {2: 44, 4: 40, 8: 32}  # the height of a lane, for at most as many lanes
LEAST_LANE_PX = 24
SAMPLES = "samples, by their place in the dataset"
NUMBER_PX = 12  # the size of the type


def draw(audit: Audit, epoch: int, theme: style.ThemeName, numbers_of: str = "batch") -> Figure:
    """Draw one epoch: a lane for each worker, below them how often each sample was delivered.

    ``numbers_of``: what the number in a box is, ``batch`` or ``sample``.

    Raises:
        LoaderVizError: for an unknown theme, other numbers, or if it is not known which samples
            were delivered.
    """
    if numbers_of not in ("batch", "sample"):
        raise LoaderVizError(f"numbers={numbers_of!r} is not one of batch, sample")
    deliveries = audit.deliveries[audit.deliveries["epoch"] == epoch]
    deliveries = deliveries[deliveries["sample"] >= 0]
    missing = audit.missing[audit.missing["epoch"] == epoch]
    last_samples = [
        (audit.n_samples or 1) - 1,
        *deliveries["sample"].nlargest(1),
        *missing["sample"].nlargest(1),
    ]
    if deliveries.empty and missing.empty:
        raise LoaderVizError("there is nothing to draw: it is not known which samples came")
    columns = Columns.for_samples(int(max(last_samples)) + 1)
    lanes = _Lanes.from_tables(audit.per_worker[audit.per_worker["epoch"] == epoch], deliveries)
    height = TITLE_PX + STRIP_PX + AXIS_PX + len(lanes.labels) * lanes.px
    title, not_compared, why = _title(audit, epoch).partition("; contents were not compared")
    numbers = audit.numbers
    if not_compared:  # which is too long for a title
        numbers += f" · contents not compared{why}"
    if len(audit.epochs) > 1:
        numbers += f" · this is epoch {epoch}"
    if columns.size > 1:
        numbers += f" · a column is {columns.size:,} samples, as tall as the share that came"
    wrong = _wrong_contents(audit, deliveries.assign(lane=lanes.of_deliveries))
    if len(wrong):
        numbers += " · ×: not what the dataset holds"
    colours = style.theme(theme)
    right_px = 22 + 8 * max(3, *(len(f"{n:,}") for n in lanes.totals))  # alike for most
    layout = style.layout(
        colours,
        title=title,
        numbers=numbers,
        height=height,
        margins=(axes.labels_px(lanes.labels), right_px, TITLE_PX, AXIS_PX),
        lanes=lanes.labels,
    )
    layout |= _axes(columns, lanes, colours, deliveries, height)
    if columns.size == 1:
        marks = _sample_boxes(columns, lanes, deliveries, numbers_of)
    else:
        marks = _share_boxes(columns, lanes, deliveries)
    data = [
        _holes(columns, lanes, missing),
        *marks,
        *_crosses(wrong, columns),
        *strip(columns, deliveries, missing),
    ]
    return Figure.unchecked(data, layout)


def _title(audit: Audit, epoch: int) -> str:
    """The verdict or, if that is about another epoch than this one, what is wrong in this one."""
    wrong = audit.epochs.set_index("epoch")[["missing", "duplicates", "extra"]]
    if not audit.verdict.startswith("In epoch ") or epoch == (wrong > 0).any(axis=1).idxmax():
        return audit.verdict
    faults = "never arrived", "came more than once", "came from outside the dataset"
    sentences = [
        f"{count(n, 'sample')} {fault}"
        for n, fault in zip(wrong.loc[epoch], faults, strict=True)
        if n
    ]
    return f"Epoch {epoch}: " + ("; ".join(sentences) or "nothing wrong was found")


class _Lanes(NamedTuple):
    """The lanes of the workers, from top to bottom, rank by rank."""

    labels: list[str]
    totals: list[int]  # samples that each worker delivered
    of_deliveries: Any  # the lane (int64) of each delivery

    @classmethod
    def from_tables(cls, per_worker: pd.DataFrame, deliveries: pd.DataFrame) -> _Lanes:
        """From an audit's ``per_worker`` and ``deliveries``, of one epoch."""
        rows = per_worker.sort_values(["rank", "worker"])
        ranks, workers, lane = lanes_of(rows, deliveries)
        of_rank = "rank {} · " if len(set(ranks)) > 1 else ""
        labels = [
            of_rank.format(rank) + worker_name(worker)
            for rank, worker in zip(ranks, workers, strict=True)
        ]
        totals = [int(n) for n in rows["samples"]]
        return cls(labels or ["nothing came"], totals or [0], lane[len(rows) :])

    @property
    def px(self) -> int:
        """The height of a lane in pixels."""
        n = len(self.labels)
        return next((px for most, px in LANE_PX.items() if n <= most), LEAST_LANE_PX)


def _sample_boxes(
    columns: Columns, lanes: _Lanes, deliveries: pd.DataFrame, numbers_of: str
) -> list[dict[str, Any]]:
    """A box for each sample, in the colour of its batch; and the numbers over the boxes."""
    lane = lanes.of_deliveries
    sample = deliveries["sample"].to_numpy()
    fills = style.batch_codes(deliveries["batch"], deliveries["position"])
    hover = [
        f"sample {number:,}<br>batch {batch}, {lanes.labels[i]}"
        for number, batch, i in zip(sample, deliveries["batch"], lane, strict=True)
    ]
    ends = sample + 1
    lane, height = _side_by_side(lane, sample)
    marks = boxes.bars(
        "delivered", sample - 0.5, ends - 0.5, lane, thickness=0.7, fill=fills,
        edge=boxes.edge_codes(fills, sample, ends, columns.n, boxes.NUMBER_WIDTH), batch=sample,
        hover=hover,
    )  # fmt: skip
    tall = height * lanes.px > NUMBER_PX  # boxes that have room for a number
    sample, lane, batch = sample[tall], lane[tall], deliveries["batch"].to_numpy()[tall]
    if numbers_of == "sample":
        return [marks | {"width": height}, _sample_numbers(sample, lane, batch)]
    return [marks | {"width": height}, _batch_numbers(sample, lane, batch, columns.n)]


def _side_by_side(lane: Any, sample: Any) -> tuple[Any, Any]:
    """The place and the height of each box: those that one worker delivered again share its lane.

    The first is on top.
    """
    place, height = lane.astype(float), np.full(len(lane), 0.7)
    _, cell, times = np.unique([lane, sample], axis=1, return_inverse=True, return_counts=True)
    cell = cell.ravel()
    for repeated in np.flatnonzero(times > 1):
        rows, n = np.flatnonzero(cell == repeated), times[repeated]
        height[rows] = 0.7 / n
        place[rows] += 0.7 * ((np.arange(n) + 0.5) / n - 0.5)
    return place, height


def _sample_numbers(sample: Any, lane: Any, batch: Any) -> dict[str, Any]:
    """A number for each box; hidden where the box is too narrow."""
    return boxes.bars(
        "number", sample - 0.5, sample + 0.5, lane, thickness=0.7, fill=style.TRANSPARENT,
        edge_px=0, batch=sample, insidetextanchor="middle",
        **boxes.number_labels(sample, NUMBER_PX, on=batch),
    )  # fmt: skip


def _batch_numbers(sample: Any, lane: Any, batch: Any, n_columns: int) -> dict[str, Any]:
    """A number for each run of neighbours of one batch that is wide enough for it."""
    order = np.lexsort((sample, lane))
    sample, lane, batch = sample[order], lane[order], batch[order]
    breaks = (np.diff(lane) != 0) | (np.diff(batch) != 0) | (np.diff(sample) > 1)
    first = np.flatnonzero(np.append(True, breaks)) if len(sample) else np.zeros(0, np.int64)
    last = np.append(first[1:], len(sample))[: len(first)] - 1
    wide = sample[last] + 1 - sample[first] >= boxes.NUMBER_WIDTH * n_columns
    first, last = first[wide], last[wide]
    return boxes.bars(
        "number", sample[first] - 0.5, sample[last] + 0.5, lane[first], thickness=0.7,
        fill=style.TRANSPARENT, edge_px=0, batch=sample[first],
        insidetextanchor="start",  # not on the edge between two boxes
        **boxes.number_labels(batch[first], NUMBER_PX),
    )  # fmt: skip


def _share_boxes(columns: Columns, lanes: _Lanes, deliveries: pd.DataFrame) -> list[dict[str, Any]]:
    """A box for each worker and column, as tall as the share of the samples that it delivered."""
    cell, n_delivered = np.unique(
        lanes.of_deliveries * len(columns) + deliveries["sample"].to_numpy() // columns.size,
        return_counts=True,
    )
    lane, column = np.divmod(cell, len(columns))
    width = columns.width[column]
    start = columns.start[column]
    hover = [
        f"{columns.name(number)}<br>{lanes.labels[i]}: {n:,} of {n_samples:,}"
        for number, i, n, n_samples in zip(column, lane, n_delivered, width, strict=True)
    ]
    heights = 0.8 * np.clip(n_delivered / width, LEAST_HEIGHT, 1)
    fill = style.colour(0)
    marks = boxes.bars(
        "delivered", start - 0.5, start + width - 0.5, lane, thickness=0.8, fill=fill,
        edge=fill, edge_px=0.6, batch=column, hover=hover,
    )  # fmt: skip
    return [{**marks, "width": heights}]


def _wrong_contents(audit: Audit, deliveries: pd.DataFrame) -> pd.DataFrame:
    """Those of the deliveries that do not hold what the dataset does, with their state."""
    if audit.contents is None:
        return deliveries.iloc[:0].assign(state="")
    at = ["epoch", "batch", "position"]
    found = deliveries.merge(audit.contents[[*at, "state"]], on=at)
    return found[found["state"].isin(WRONG)]


def _crosses(wrong: pd.DataFrame, columns: Columns) -> list[dict[str, Any]]:
    """A red cross for each of these samples, or for each column and worker that has such."""
    if wrong.empty:
        return []
    cells = wrong.assign(column=wrong["sample"] // columns.size)
    cells = cells.drop_duplicates(["lane", "column"])
    down = 0.2 if columns.size == 1 else 0  # below the numbers of batches
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "not what the dataset holds",
            "x": columns.middle[cells["column"].to_numpy()],
            "y": cells["lane"].to_numpy() + down,
            "marker": {"symbol": "x-thin", "size": 9, "line": {"color": NEVER, "width": 2}},
            "hovertext": [
                f"{columns.name(column)}<br>{state}"
                for column, state in zip(cells["column"], cells["state"], strict=True)
            ],
            "hoverinfo": "text",
        }
    ]


def _holes(columns: Columns, lanes: _Lanes, missing: pd.DataFrame) -> dict[str, Any]:
    """A pale band through all lanes where samples are missing."""
    column = np.flatnonzero(columns.counts(missing["sample"]))
    middle, n = columns.middle[column], len(lanes.labels)
    half = np.maximum(columns.width[column], LEAST_WIDTH * columns.n) / 2
    return boxes.bars(
        "hole", middle - half, middle + half, np.full(len(column), (n - 1) / 2),
        thickness=n, fill=HOLE, edge=HOLE, edge_px=0,
    )  # fmt: skip


def _axes(
    columns: Columns, lanes: _Lanes, theme: style.Theme, deliveries: pd.DataFrame, height: int
) -> dict[str, Any]:
    inner_px = height - TITLE_PX - AXIS_PX
    strip_share = STRIP_PX / inner_px
    top = strip_top(columns, deliveries)
    totals = [
        axes.in_margin(f"{n:,}", 8, y=lane, yref="y", font={"size": 12, "color": theme.muted})
        for lane, n in enumerate(lanes.totals)
    ]
    tick_each = {"dtick": 1} if columns.n <= 10 else {}
    room = 0.5 + 0.006 * columns.n
    return {
        "uniformtext": {"minsize": 9, "mode": "hide"},
        "annotations": totals,
        "xaxis": axes.axis(
            theme, SAMPLES, range=[-room, columns.n - 1 + room], anchor="y2", tickformat=",d",
            nticks=11, **tick_each,
        ),
        "yaxis": axes.lane_axis(theme, lanes.labels, domain=[strip_share, 1]),
        "yaxis2": axes.axis(
            theme, "times", 4, zeroline=True, zerolinecolor=theme.grid,
            domain=[0, strip_share - 10 / inner_px], range=[-ROOM_BELOW * top, 1.04 * top],
            tickmode="array", tickvals=list(range(top + 1)) if top <= 4 else [0, top],
            tickfont={"size": 11}, fixedrange=True,
        ),
    }  # fmt: skip
