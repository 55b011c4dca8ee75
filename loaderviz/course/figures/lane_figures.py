"""Figures of lanes: rows below one another, each with its name on the left.

``lane_figure`` is what they share, those of other files as well. ``beside`` draws sequences such as
a batch and what it should have been, ``draws`` random numbers by process and epoch, ``epochs`` the
samples that came in each epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.figures.results.delivery_strip import NEVER
from loaderviz.figures.timelines import boxes
from loaderviz.text import count, worker_name

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz._audit import Audit

TITLE_PX, AXIS_PX, RIGHT_PX = 74, 50, 22  # above, below and beside the lanes
LANE_PX = 36


def lane_figure(
    marks: list[dict[str, Any]],
    lanes: Sequence[str],
    *,
    title: str,
    numbers: str,
    lane_px: int = LANE_PX,
    x: dict[str, Any],
    x_title: str | None = None,
    y: dict[str, Any] | None = None,
    rows: int | None = None,
    axis_px: int = AXIS_PX,
    **layout: Any,
) -> Figure:
    """A figure with a title, its subtitle, and a lane for each name.

    Args:
        marks: what is drawn, as plotly describes it; lane i is at y = i.
        lanes: their names, from top to bottom.
        title: what the figure shows, in one line.
        numbers: the subtitle: what the title rests on.
        lane_px: the height of a lane, in pixels.
        x: options of the axis, as plotly names them.
        x_title: the axis's title.
        y: options of the lanes' axis.
        rows: how many lanes there is room for; None: one for each name.
        axis_px: the height of what is below the lanes.
        layout: more of the layout, as plotly names it.
    """
    colours = style.theme("light")
    height = TITLE_PX + axis_px + (rows or len(lanes)) * lane_px
    margins = (axes.labels_px(lanes), RIGHT_PX, TITLE_PX, axis_px)
    base = style.layout(
        colours, title=title, numbers=numbers, height=height, margins=margins, lanes=lanes
    )
    both = {
        "xaxis": axes.axis(colours, x_title, **x),
        "yaxis": axes.lane_axis(colours, lanes, **(y or {})),
    }
    return Figure.unchecked(marks, {**base, **both, **layout})


def beside(
    lanes: Mapping[str, Sequence[Any]], *, title: str = "", x: str = "position in the batch"
) -> Figure:
    """Draw each sequence as a lane of boxes; equal values share a colour.

    Args:
        lanes: by name, from top to bottom, the values at positions 0, 1, 2 and so on.
        title: what the figure shows, in one line; without it, how many values each lane has.
        x: the title of the x axis.

    Raises:
        LoaderVizError: for no lane, or a lane without a value.
    """
    if not lanes or not all(len(values) for values in lanes.values()):
        raise LoaderVizError(f"lanes={lanes!r}: give one or more, each with a value or more")
    rows = [
        (lane, place, str(value))
        for lane, values in enumerate(lanes.values())
        for place, value in enumerate(values)
    ]
    known = {text: number for number, text in enumerate(dict.fromkeys(row[2] for row in rows))}
    return _value_lanes(
        [(lane, place, known[text], text) for lane, place, text in rows],
        [*lanes],
        "position",
        other_shades=True,
        title=title or " · ".join(f"{name}: {_different(each)}" for name, each in lanes.items()),
        numbers="equal values share a colour",
        x_title=x,
    )


def _different(values: Sequence[Any]) -> str:
    return count(len(set(map(str, values))), "value")


def _value_lanes(
    rows: list[tuple[int, int, int, str]],
    names: list[str],
    what: str,
    *,
    other_shades: bool = False,
    **texts: Any,
) -> Figure:
    """A box for each value, from its lane, place, number of its colour, and text.

    ``what`` is in the hover: what is counted from left to right. ``other_shades``: once all colours
    are used, they come again in another shade.
    """
    lane, place, code = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    marks = boxes.bars(
        "value", place, place + 1, lane, thickness=0.72, batch=code,
        fill=style.batch_codes(code, code // len(style.PALETTE) * other_shades),
        hover=[f"{names[i]}<br>{what} {at}: {text}" for i, at, _, text in rows],
        insidetextanchor="middle",
        **{**boxes.number_labels(code, 13), "text": boxes.text_array([row[3] for row in rows])},
    )  # fmt: skip
    x = {"range": [0, int(place.max()) + 1], "tickvals": [], "showgrid": False, "fixedrange": True}
    uniform = {"minsize": 9, "mode": "hide"}
    return lane_figure([marks], names, x=x, uniformtext=uniform, **texts)


LANES = ("rank", "epoch", "worker")


def draws(table: pd.DataFrame) -> Figure:
    """Draw which worker drew which random numbers; lanes with the same numbers share a colour.

    Args:
        table: a row for each number, in the order in which they were drawn, with the columns
            ``number`` and one or more of ``rank``, ``epoch`` and ``worker``. Each combination of
            these has a lane.

    Raises:
        LoaderVizError: for a table without these columns or without a row.
    """
    lanes, labels, verdict = compare_lanes(table, "number")
    drawn = zip(lanes["number"], lanes["sequence"], strict=True)
    return _value_lanes(
        [
            (lane, place, sequence, str(number))
            for lane, (numbers, sequence) in enumerate(drawn)
            for place, number in enumerate(numbers)
        ],
        labels,
        "number",
        title=verdict,
        numbers=f"{len(table):,} numbers · {len(labels)} lanes · the same colour: the same "
        f"sequence · different sequences: {lanes['sequence'].nunique()}",
        x_title="numbers, in the order in which they were drawn",
    )


def compare_lanes(table: pd.DataFrame, what: str) -> tuple[pd.DataFrame, list[str], str]:
    """The lanes of a table of numbers or of pictures, their names, and which lanes are the same.

    The first has a row for each lane, with all that was drawn there in the column ``what``, a
    tuple; lanes with the same have the same ``sequence``.

    Raises:
        LoaderVizError: for a table without the columns, or without a row.
    """
    by = [name for name in LANES if name in table]
    if what not in table or not by or table.empty:
        raise LoaderVizError(
            f"a table of {len(table)} rows with the columns {', '.join(map(str, table))}: give "
            f"rows with {what} and one or more of {', '.join(LANES)}"
        )
    lanes = table.groupby(by)[what].agg(tuple).reset_index()
    lanes["sequence"] = lanes[what].factorize()[0]
    by = [name for name in by if lanes[name].nunique() > 1] or by
    labels = [
        " · ".join(_lane_name(name, row[name]) for name in by) for row in lanes.to_dict("records")
    ]
    return lanes, labels, _verdict(lanes, by, f"{what}s")


def _verdict(lanes: pd.DataFrame, by: list[str], what: str) -> str:
    """Over which of ``by`` (rank, epoch, worker) the sequences of numbers repeat.

    ``lanes`` has a row for each lane; lanes with the same numbers have the same ``sequence``.
    """
    if len(lanes) == 1:
        return "One lane only: there is nothing to compare with"
    names = [name for name in ("worker", "epoch", "rank") if name in by]
    if lanes["sequence"].is_unique:
        return f"Different {what} in every {' and every '.join(names)}"
    same = [name for name in names if _repeats_over(name, lanes, by)]
    if same:
        return f"The same {what} in every {' and every '.join(same)}"
    n_repeats = int(lanes["sequence"].duplicated().sum())
    return f"{n_repeats} of {len(lanes)} lanes repeat the {what} of another"


def _repeats_over(name: str, lanes: pd.DataFrame, by: list[str]) -> bool:
    """Whether the numbers are the same for each value of ``name``, all else being equal."""
    others = [other for other in by if other != name]
    if not others:
        return lanes["sequence"].nunique() == 1
    return bool((lanes.groupby(others)["sequence"].nunique() == 1).all())


def _lane_name(name: str, number: int) -> str:
    """The name of one worker, epoch or rank."""
    return worker_name(number) if name == "worker" else f"{name} {number}"


def epochs(audit: Audit, *, title: str) -> Figure:
    """Draw a lane for each epoch of an audit, a box for each sample, coloured by its worker.

    A hollow red box is a sample that never came in that epoch.

    Args:
        audit: of one rank.
        title: what the figure shows, in one line.

    Raises:
        LoaderVizError: for an audit in which no sample came.
    """
    came, missing = audit.deliveries.query("sample >= 0"), audit.missing
    if came.empty:
        raise LoaderVizError("there is nothing to draw: no sample came")
    last = int(max(came["sample"].max(), *missing["sample"].nlargest(1), 0))
    totals = ", then ".join(map(str, audit.epochs["delivered"]))
    worker, sample = came["worker"].to_numpy(), came["sample"].to_numpy()
    hover = [
        f"sample {number:,}: {worker_name(each)}, epoch {epoch}"
        for number, each, epoch in zip(sample, worker, came["epoch"], strict=True)
    ]
    delivered = boxes.bars(
        "delivered", sample - 0.5, sample + 0.5, came["epoch"].to_numpy(np.int64),
        thickness=0.72, fill=style.batch_codes(np.maximum(worker, 0)), hover=hover,
        insidetextanchor="middle", **boxes.number_labels(worker, 12),
    )  # fmt: skip
    never = boxes.bars(
        "never", missing["sample"] - 0.42, missing["sample"] + 0.42,
        missing["epoch"].to_numpy(np.int64), thickness=0.62, fill=style.TRANSPARENT,
        edge=NEVER, edge_px=2, hover=[f"sample {n:,} never came" for n in missing["sample"]],
    )  # fmt: skip
    return lane_figure(
        [delivered, never],
        [f"epoch {epoch}" for epoch in audit.epochs["epoch"]],
        title=title,
        numbers=f"{totals} of {last + 1} samples · the number and colour of a box is the worker "
        "that delivered it",
        x_title="samples, by their place in the dataset",
        x={"range": [-0.6, last + 0.6], "showgrid": False, "nticks": 17},
        uniformtext={"minsize": 9, "mode": "hide"},
    )
