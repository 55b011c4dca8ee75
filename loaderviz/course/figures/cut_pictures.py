"""The figure of random crops: what each worker cut, with one colour of frame for each sequence."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any

from loaderviz.course.figures.draws import compare_lanes
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure

if TYPE_CHECKING:
    import pandas as pd

TITLE_PX, BOTTOM_PX, LANE_PX = 86, 16, 118
PICTURE_PX = 100
FRAME = 0.06  # of a picture's side


def crops(table: pd.DataFrame, *, theme: style.ThemeName = "light") -> Figure:
    """Draw the pictures that each worker made; lanes with the same pictures share a colour.

    Args:
        table: a row for each picture, in the order in which they were made, with the columns
            ``crop`` (a uint8 tensor of shape (3, height, width)) and one or more of ``rank``,
            ``epoch`` and ``worker``. Each combination of these has a lane.
        theme: text and grid for a ``light`` or a ``dark`` page.

    Raises:
        LoaderVizError: for an unknown theme, and a table without these columns or without a row.
    """
    if "crop" in table:
        table = table.assign(crop=[_data_link(crop) for crop in table["crop"]])
    lanes, labels, verdict = compare_lanes(table, "crop")
    longest = int(lanes["crop"].str.len().max())
    colours = style.theme(theme)
    layout = style.layout(
        colours,
        title=verdict,
        numbers=f"{len(table)} crops, in the order in which they were made · one colour of frame "
        f"is one sequence of crops: {lanes['sequence'].nunique()} of them",
        height=TITLE_PX + BOTTOM_PX + len(labels) * LANE_PX,
        margins=(axes.labels_px(labels), 22, TITLE_PX, BOTTOM_PX),
        lanes=labels,
    )
    layout |= {
        "images": [
            _image(link, place, lane)
            for lane, row in enumerate(lanes["crop"])
            for place, link in enumerate(row)
        ],
        "shapes": [
            _frame(place, lane, style.colour(int(sequence)))
            for lane, (row, sequence) in enumerate(
                zip(lanes["crop"], lanes["sequence"], strict=True)
            )
            for place in range(len(row))
        ],
        "xaxis": axes.axis(
            colours, tickvals=[], showgrid=False,
            range=[-0.55, max(longest, 6) - 0.45], fixedrange=True, scaleanchor="y",
            constrain="domain", constraintoward="left",
        ),
        "yaxis": axes.lane_axis(colours, labels, constrain="domain"),
    }  # fmt: skip
    points = {"type": "scatter", "x": [0], "y": [0], "mode": "markers", "hoverinfo": "skip"}
    return Figure(data=[{**points, "marker": {"opacity": 0}}], layout=layout)


def _data_link(crop: Any) -> str:
    """The picture as a link that holds it: a JPEG of ``PICTURE_PX`` times two."""
    from PIL import Image

    file = io.BytesIO()
    picture = Image.fromarray(crop.permute(1, 2, 0).numpy())
    picture.resize((2 * PICTURE_PX, 2 * PICTURE_PX)).save(file, "JPEG", quality=85)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"


def _image(link: str, place: int, lane: int) -> dict[str, Any]:
    return {
        "source": link, "xref": "x", "yref": "y", "x": place - 0.42, "y": lane - 0.42,
        "sizex": 0.84, "sizey": 0.84, "sizing": "stretch", "layer": "above",
    }  # fmt: skip


def _frame(place: int, lane: int, colour: str) -> dict[str, Any]:
    """A frame around a picture: below it, so that its inner part is covered."""
    half = 0.42 + FRAME / 2
    return {
        "type": "rect", "x0": place - half, "x1": place + half, "y0": lane - half,
        "y1": lane + half, "fillcolor": colour, "line": {"width": 0}, "layer": "below",
    }  # fmt: skip
