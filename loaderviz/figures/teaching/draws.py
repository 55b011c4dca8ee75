"""The figure of random numbers: a lane for each process and epoch, a colour for each sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.figures.timelines import boxes
from loaderviz.text import worker_name

if TYPE_CHECKING:
    import pandas as pd

LANES = ("rank", "epoch", "worker")
TITLE_PX, AXIS_PX, LANE_PX = 86, 56, 40
DRAWN = "numbers, in the order in which they were drawn"


def draws(table: pd.DataFrame, *, theme: style.ThemeName = "light") -> Figure:
    """Draw who drew which numbers: lanes with the same numbers have the same colour.

    Args:
        table: a row for each number, in the order in which they were drawn: ``number``, and one or
            more of ``rank``, ``epoch`` and ``worker``.
        theme: text and grid for a ``light`` or a ``dark`` page.

    Raises:
        LoaderVizError: for an unknown theme, and a table without these columns or without a row.
    """
    by = [name for name in LANES if name in table]
    if "number" not in table or not by or table.empty:
        raise LoaderVizError(
            f"a table of {len(table)} rows with the columns {', '.join(map(str, table))}: give "
            f"rows with number and one or more of {', '.join(LANES)}"
        )
    lanes = table.groupby(by)["number"].agg(tuple).reset_index()
    lanes["sequence"] = lanes["number"].factorize()[0]
    by = [name for name in by if lanes[name].nunique() > 1] or by
    labels = [
        " · ".join(_place(name, row[name]) for name in by) for row in lanes.to_dict("records")
    ]
    height = TITLE_PX + AXIS_PX + len(labels) * LANE_PX
    look = style.theme(theme)
    layout = style.layout(
        look,
        title=verdict(lanes, by),
        numbers=f"{len(table):,} numbers · {len(labels)} lanes · one colour is one sequence of "
        f"numbers: {lanes['sequence'].nunique()} of them",
        height=height,
        margins=(axes.labels_px(labels), 22, TITLE_PX, AXIS_PX),
        lanes=labels,
    )
    longest = int(lanes["number"].str.len().max())
    still = {"showgrid": False, "fixedrange": True}
    layout |= {
        "uniformtext": {"minsize": 9, "mode": "hide"},
        "xaxis": axes.axis(look, DRAWN, range=[0, longest], tickvals=[], **still),
        "yaxis": axes.lane_axis(look, labels),
    }
    return Figure.unchecked([_boxes(lanes, labels)], layout)


def verdict(lanes: pd.DataFrame, by: list[str]) -> str:
    """Over what the sequences repeat; ``lanes`` has a row for each, numbered by ``sequence``."""
    if len(lanes) == 1:
        return "One lane only: there is nothing to compare with"
    names = [name for name in ("worker", "epoch", "rank") if name in by]
    if lanes["sequence"].is_unique:
        return f"Other numbers in every {' and every '.join(names)}"
    same = [name for name in names if _repeats_over(name, lanes, by)]
    if same:
        return f"The same numbers in every {' and every '.join(same)}"
    again = int(lanes["sequence"].duplicated().sum())
    return f"{again} of {len(lanes)} lanes repeat the numbers of another"


def _repeats_over(name: str, lanes: pd.DataFrame, by: list[str]) -> bool:
    others = [each for each in by if each != name]
    if not others:
        return lanes["sequence"].nunique() == 1
    return bool((lanes.groupby(others)["sequence"].nunique() == 1).all())


def _place(name: str, number: int) -> str:
    """What to call one worker, epoch or rank."""
    return worker_name(number) if name == "worker" else f"{name} {number}"


def _boxes(lanes: pd.DataFrame, labels: list[str]) -> dict[str, Any]:
    rows = [
        (lane, turn, int(sequence), number)
        for lane, (numbers, sequence) in enumerate(
            zip(lanes["number"], lanes["sequence"], strict=True)
        )
        for turn, number in enumerate(numbers)
    ]
    lane, turn, sequence = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    return boxes.bars(
        "draw",
        turn,
        turn + 1,
        lane,
        thickness=0.72,
        fill=style.batch_codes(sequence, turn),
        batch=sequence,
        hover=[f"{labels[lane]}<br>number {turn}: {number}" for lane, turn, _, number in rows],
        text=boxes.text_array(str(number) for *_, number in rows),
        textposition="inside",
        textangle=0,
        insidetextanchor="middle",
        insidetextfont={"size": 13, "color": [style.text_on(each) for each in sequence.tolist()]},
    )
