"""The figure of sequences one below another, such as a batch and what it should have been."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from loaderviz.course.figures.lane_figure import lane_figure
from loaderviz.errors import LoaderVizError
from loaderviz.figures import style
from loaderviz.figures.display import Figure
from loaderviz.figures.timelines import boxes
from loaderviz.text import count


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
    lane, place = (np.array([row[i] for row in rows], np.int64) for i in (0, 1))
    texts = [text for *_, text in rows]
    known = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    code = np.array([known[text] for text in texts], np.int64)
    names = [*lanes]
    marks = boxes.bars(
        "value", place, place + 1, lane, thickness=0.72, batch=code,
        fill=style.batch_codes(code, code // len(style.PALETTE)),
        hover=[f"{names[i]}<br>position {at}: {text}" for i, at, text in rows],
        insidetextanchor="middle",
        **{**boxes.number_labels(code, 13), "text": boxes.text_array(texts)},
    )  # fmt: skip
    return lane_figure(
        [marks],
        names,
        title=title or " · ".join(f"{name}: {_different(each)}" for name, each in lanes.items()),
        numbers="equal values share a colour",
        x_title=x,
        x={"range": [0, int(place.max()) + 1], "tickvals": [], "showgrid": False,
           "fixedrange": True},
        uniformtext={"minsize": 9, "mode": "hide"},
    )  # fmt: skip


def _different(values: Sequence[Any]) -> str:
    return count(len(set(map(str, values))), "value")
