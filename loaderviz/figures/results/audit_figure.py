"""The audit figure: samples x workers, so that overlap and holes are seen at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.figures.results.delivery_strip import (
    BELOW,
    HOLE,
    LEAST,
    LEAST_WIDTH,
    Columns,
    most,
    strip,
)
from loaderviz.figures.timelines import boxes
from loaderviz.text import count, worker_name

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz._audit import Audit

STRIP_PX, AXIS_PX, TITLE_PX = 76, 62, 86
LANE_PX = {2: 52, 4: 44, 8: 32}
SAMPLES = "samples, in the order in which one process reads them"


def draw(audit: Audit, epoch: int, theme: style.ThemeName) -> Figure:
    """A lane for each worker, and below them how often each sample came in this epoch.

    Raises:
        LoaderVizError: for an unknown theme, and where it is not known which samples came.
    """
    came = audit.deliveries[audit.deliveries["epoch"] == epoch]
    came = came[came["sample"] >= 0]
    missing = audit.missing[audit.missing["epoch"] == epoch]
    ends = [(audit.n_samples or 1) - 1, *came["sample"].nlargest(1), *missing["sample"].nlargest(1)]
    if came.empty and missing.empty:
        raise LoaderVizError("there is nothing to draw: it is not known which samples came")
    columns = Columns.of(int(max(ends)) + 1)
    lanes = Lanes.of(audit.per_worker[audit.per_worker["epoch"] == epoch])
    height = TITLE_PX + STRIP_PX + AXIS_PX + len(lanes.labels) * lanes.px
    numbers = audit.numbers
    if len(audit.epochs) > 1:
        numbers += f" · this is epoch {epoch}"
    if columns.size > 1:
        numbers += f" · a column is {columns.size:,} samples, as tall as the share that came"
    look = style.theme(theme)
    right_px = 22 + 8 * max(len(f"{n:,}") for n in lanes.totals)
    layout = style.layout(
        look,
        title=title(audit, epoch),
        numbers=numbers,
        height=height,
        margins=(axes.labels_px(lanes.labels), right_px, TITLE_PX, AXIS_PX),
        lanes=lanes.labels,
    )
    layout |= _axes(columns, lanes, look, came, height)
    cells = _cells if columns.size == 1 else _shares
    data = [
        _holes(columns, lanes, missing),
        *cells(columns, lanes, came),
        *strip(columns, came, missing),
    ]
    return Figure.unchecked(data, layout)


def title(audit: Audit, epoch: int) -> str:
    """The verdict; where it is about one epoch and another one is drawn, what is wrong in that."""
    wrong = audit.epochs.set_index("epoch")[["missing", "duplicates", "extra"]]
    if not audit.verdict.startswith("In epoch ") or epoch == (wrong > 0).any(axis=1).idxmax():
        return audit.verdict
    kinds = "never arrived", "came more than once", "came from outside the dataset"
    said = [
        f"{count(n, 'sample')} {kind}" for n, kind in zip(wrong.loc[epoch], kinds, strict=True) if n
    ]
    return f"Epoch {epoch}: " + ("; ".join(said) or "nothing wrong was found")


class Lanes(NamedTuple):
    """Which lane each worker is drawn in, from top to bottom."""

    places: dict[tuple[int, int], int]  # of rank and worker
    labels: list[str]
    totals: list[int]  # samples

    @classmethod
    def of(cls, per_worker: pd.DataFrame) -> Lanes:
        """From an audit's table; rank by rank."""
        rows = per_worker.sort_values(["rank", "worker"])
        several = rows["rank"].nunique() > 1
        who = [(int(rank), int(worker)) for rank, worker in rows[["rank", "worker"]].to_numpy()]
        labels = [
            (f"rank {rank} · " if several else "") + worker_name(worker) for rank, worker in who
        ]
        totals = [int(n) for n in rows["samples"]]
        if not who:
            return cls({}, ["nothing came"], [0])
        return cls({each: i for i, each in enumerate(who)}, labels, totals)

    @property
    def px(self) -> int:
        return next((px for most, px in LANE_PX.items() if len(self.labels) <= most), 24)

    def of_rows(self, came: pd.DataFrame) -> Any:
        who = zip(came["rank"], came["worker"], strict=True)
        return np.array([self.places[int(rank), int(worker)] for rank, worker in who], np.int64)


def _cells(columns: Columns, lanes: Lanes, came: pd.DataFrame) -> list[dict[str, Any]]:
    """A box for each sample, in the colour of its batch; and the batch's number over its boxes."""
    lane = lanes.of_rows(came)
    sample = came["sample"].to_numpy()
    fills = style.batch_codes(came["batch"], came["position"])
    hover = [
        f"sample {each:,}<br>batch {batch}, {lanes.labels[at]}"
        for each, batch, at in zip(sample, came["batch"], lane, strict=True)
    ]
    ends = sample + 1
    marks = boxes.bars(
        "delivered", sample - 0.5, ends - 0.5, lane, thickness=0.7, fill=fills,
        edge=boxes.edge_codes(fills, sample, ends, columns.n), batch=sample, hover=hover,
    )  # fmt: skip
    return [marks, _numbers(sample, lane, came["batch"].to_numpy())]


def _numbers(sample: Any, lane: Any, batch: Any) -> dict[str, Any]:
    """One for each run of neighbours of the same batch; hidden where it is too narrow."""
    order = np.lexsort((sample, lane))
    sample, lane, batch = sample[order], lane[order], batch[order]
    # What comes twice to one lane is drawn one over the other: only the last is seen.
    seen = np.append((np.diff(lane) != 0) | (np.diff(sample) != 0), len(sample) > 0)[: len(sample)]
    sample, lane, batch = sample[seen], lane[seen], batch[seen]
    breaks = (np.diff(lane) != 0) | (np.diff(batch) != 0) | (np.diff(sample) > 1)
    first = np.flatnonzero(np.append(True, breaks)) if len(sample) else np.zeros(0, np.int64)
    last = np.append(first[1:], len(sample))[: len(first)] - 1
    return boxes.bars(
        "number", sample[first] - 0.5, sample[last] + 0.5, lane[first], thickness=0.7,
        fill=style.TRANSPARENT, edge_px=0, batch=sample[first],
        insidetextanchor="start",  # not on the edge between two boxes
        **boxes.number_labels(batch[first], 12),
    )  # fmt: skip


def _shares(columns: Columns, lanes: Lanes, came: pd.DataFrame) -> list[dict[str, Any]]:
    """A box for each worker and column, as tall as the share of the samples that it delivered."""
    lane = lanes.of_rows(came)
    which, times = np.unique(
        lane * len(columns) + came["sample"].to_numpy() // columns.size, return_counts=True
    )
    at, column = np.divmod(which, len(columns))
    width = columns.width[column]
    start = columns.start[column]
    hover = [
        f"{columns.name(each)}<br>{lanes.labels[place]}: {n:,} of {all_:,}"
        for each, place, n, all_ in zip(column, at, times, width, strict=True)
    ]
    tall = 0.8 * np.clip(times / width, LEAST, 1)
    fill = style.colour(0)
    marks = boxes.bars(
        "delivered", start - 0.5, start + width - 0.5, at, thickness=0.8, fill=fill,
        edge=fill, edge_px=0.6, batch=column, hover=hover,
    )  # fmt: skip
    return [{**marks, "width": tall}]


def _holes(columns: Columns, lanes: Lanes, missing: pd.DataFrame) -> dict[str, Any]:
    """A pale band through all lanes where samples are missing."""
    column = np.flatnonzero(columns.counts(missing["sample"]))
    middle, n = columns.middle[column], len(lanes.labels)
    half = np.maximum(columns.width[column], LEAST_WIDTH * columns.n) / 2
    return boxes.bars(
        "hole", middle - half, middle + half, np.full(len(column), (n - 1) / 2),
        thickness=n, fill=HOLE, edge=HOLE, edge_px=0,
    )  # fmt: skip


def _axes(
    columns: Columns, lanes: Lanes, theme: style.Theme, came: pd.DataFrame, height: int
) -> dict[str, Any]:
    inner = height - TITLE_PX - AXIS_PX
    share = STRIP_PX / inner
    top = most(columns, came)
    notes = [
        {
            "x": 1, "xref": "paper", "xanchor": "left", "xshift": 8, "y": place, "yref": "y",
            "text": f"{n:,}", "showarrow": False, "font": {"size": 12, "color": theme.muted},
        }
        for place, n in enumerate(lanes.totals)
    ]  # fmt: skip
    each_one = {"dtick": 1} if columns.n <= 10 else {}
    room = 0.5 + 0.006 * columns.n
    return {
        "uniformtext": {"minsize": 9, "mode": "hide"},
        "annotations": notes,
        "xaxis": axes.axis(
            theme, SAMPLES, range=[-room, columns.n - 1 + room], anchor="y2", tickformat=",d",
            nticks=11, **each_one,
        ),
        "yaxis": axes.lane_axis(theme, lanes.labels, domain=[share, 1]),
        "yaxis2": axes.axis(
            theme, "times", 4, zeroline=True, zerolinecolor=theme.grid,
            domain=[0, share - 10 / inner], range=[-BELOW * top, 1.04 * top], tickmode="array",
            tickvals=list(range(top + 1)) if top <= 4 else [0, top], tickfont={"size": 11},
            fixedrange=True,
        ),
    }  # fmt: skip
