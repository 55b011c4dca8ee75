"""The figure of random numbers: a lane for each process and epoch, a colour for each sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.course.figures.lane_figure import lane_figure
from loaderviz.errors import LoaderVizError
from loaderviz.figures import style
from loaderviz.figures.display import Figure
from loaderviz.figures.timelines import boxes
from loaderviz.text import worker_name

if TYPE_CHECKING:
    import pandas as pd

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
    longest = int(lanes["number"].str.len().max())
    return lane_figure(
        [_boxes(lanes, labels)],
        labels,
        title=verdict,
        numbers=f"{len(table):,} numbers · {len(labels)} lanes · one colour is one sequence · "
        f"different sequences: {lanes['sequence'].nunique()}",
        x_title="numbers, in the order in which they were drawn",
        x={"range": [0, longest], "tickvals": [], "showgrid": False, "fixedrange": True},
        uniformtext={"minsize": 9, "mode": "hide"},
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


def _boxes(lanes: pd.DataFrame, labels: list[str]) -> dict[str, Any]:
    rows = [
        (lane, place, sequence, number)
        for lane, (numbers, sequence) in enumerate(
            zip(lanes["number"], lanes["sequence"], strict=True)
        )
        for place, number in enumerate(numbers)
    ]
    lane, place, sequence = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    drawn = [str(number) for *_, number in rows]
    return boxes.bars(
        "draw", place, place + 1, lane, thickness=0.72, fill=style.batch_codes(sequence),
        batch=sequence, hover=[f"{labels[i]}<br>number {at}: {each}" for i, at, _, each in rows],
        insidetextanchor="middle",
        **{**boxes.number_labels(sequence, 13), "text": boxes.text_array(drawn)},
    )  # fmt: skip
