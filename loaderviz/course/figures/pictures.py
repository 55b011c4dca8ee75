"""Two figures of pictures: those of each batch, and those that each worker cut."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.course.figures.lane_figures import compare_lanes, lane_figure
from loaderviz.errors import LoaderVizError
from loaderviz.figures import style
from loaderviz.figures.display import Figure

if TYPE_CHECKING:
    import pandas as pd

SHOWN_PX = 84  # the side of a picture, which the page holds twice as large, for sharp screens
QUALITY = 85  # of its JPEG, in percent
LANE_PX, BOTTOM_PX = 92, 10
HALF, FRAME = 0.42, 0.03  # half a crop's side, and its frame's width, in lanes


@dataclass(frozen=True, repr=False)
class ContactSheet:
    """Rows of pictures, shown as HTML.

    Attributes:
        rows: the pictures of each batch, uint8 arrays of shape (height, width, 3).
    """

    rows: list[list[Any]]

    def __repr__(self) -> str:
        sizes = ", ".join(str(len(row)) for row in self.rows)
        return f"pictures of batches 0 to {len(self.rows) - 1}: {sizes}"

    def _repr_html_(self) -> str:
        rows = "".join(_row(number, pictures) for number, pictures in enumerate(self.rows))
        return f"<div class='loaderviz-sheet'>{rows}</div>"


def contact_sheet(batches: Iterable[Any]) -> ContactSheet:
    """Show the pictures of a few batches: a row for each, in its colour on a timeline.

    Args:
        batches: tensors or arrays of shape (pictures, 3, height, width), RGB in [0, 1].

    Raises:
        LoaderVizError: for no batch, or one of another shape.
    """
    rows = []
    for batch in batches:
        array = np.asarray(batch)
        if array.ndim != 4 or array.shape[1] != 3:
            raise LoaderVizError(
                f"a batch of shape {array.shape}: give (pictures, 3, height, width)"
            )
        rows.append(list((array.transpose(0, 2, 3, 1).clip(0, 1) * 255).round().astype(np.uint8)))
    if not rows:
        raise LoaderVizError("there is no batch to show: give a list of batches")
    return ContactSheet(rows)


def crops(table: pd.DataFrame) -> Figure:
    """Draw the pictures that each worker made; lanes with the same pictures share a colour.

    Args:
        table: a row for each picture, in the order in which they were made, with the columns
            ``crop`` (a uint8 tensor of shape (3, height, width)) and one or more of ``rank``,
            ``epoch`` and ``worker``. Each combination of these has a lane.

    Raises:
        LoaderVizError: for a table without these columns or without a row.
    """
    if "crop" in table:
        links = [_link(crop.permute(1, 2, 0).numpy()) for crop in table["crop"]]
        table = table.assign(crop=links)
    lanes, labels, verdict = compare_lanes(table, "crop")
    places = [
        (place, lane, link, style.colour(sequence))
        for lane, (row, sequence) in enumerate(zip(lanes["crop"], lanes["sequence"], strict=True))
        for place, link in enumerate(row)
    ]
    longest = max(int(lanes["crop"].str.len().max()), 6)
    nothing = {"type": "scatter", "x": [0], "y": [0], "mode": "markers", "hoverinfo": "skip"}
    return lane_figure(
        [{**nothing, "marker": {"opacity": 0}}],
        labels,
        title=verdict,
        numbers=f"{len(table)} crops, in the order in which they were made · the same frame "
        f"colour: the same sequence · different sequences: {lanes['sequence'].nunique()}",
        lane_px=LANE_PX,
        axis_px=BOTTOM_PX,
        x={
            "tickvals": [], "showgrid": False, "range": [-0.55, longest - 0.45],
            "fixedrange": True, "scaleanchor": "y", "constrain": "domain",
            "constraintoward": "left",
        },
        y={"constrain": "domain"},
        images=[_image(link, place, lane) for place, lane, link, _ in places],
        shapes=[_frame(place, lane, colour) for place, lane, _, colour in places],
    )  # fmt: skip


def _row(number: int, pictures: list[Any]) -> str:
    """A batch of the contact sheet, as HTML."""
    fill, ink = style.colour(number), style.text_on(number)
    images = "".join(
        f"<img src='{_link(picture)}' width='{SHOWN_PX}' height='{SHOWN_PX}' "
        f"alt='picture {position} of batch {number}' style='display: block'>"
        for position, picture in enumerate(pictures)
    )
    return (
        "<div style='display: flex; align-items: stretch; gap: 3px; margin: 0 0 6px'>"
        f"<b style='flex: 0 0 64px; display: grid; place-items: center; background: {fill}; "
        f"color: {ink}; font-family: {style.FONT.replace(chr(39), '')}'>batch {number}</b>"
        f"<div style='display: flex; flex-wrap: wrap; gap: 3px'>{images}</div></div>"
    )


def _link(picture: Any) -> str:
    """A uint8 array of shape (height, width, 3) as a link that holds the picture, a JPEG."""
    from PIL import Image  # which the datasets of pictures need, and nothing else

    file = io.BytesIO()
    resized = Image.fromarray(picture).resize((2 * SHOWN_PX, 2 * SHOWN_PX))
    resized.save(file, "JPEG", quality=QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"


def _image(link: str, place: int, lane: int) -> dict[str, Any]:
    return {
        "source": link, "xref": "x", "yref": "y", "x": place - HALF, "y": lane - HALF,
        "sizex": 2 * HALF, "sizey": 2 * HALF, "sizing": "stretch", "layer": "above",
    }  # fmt: skip


def _frame(place: int, lane: int, colour: str) -> dict[str, Any]:
    """A frame around a picture: below it, so that its inner part is covered."""
    half = HALF + FRAME
    return {
        "type": "rect", "x0": place - half, "x1": place + half, "y0": lane - half,
        "y1": lane + half, "fillcolor": colour, "line": {"width": 0}, "layer": "below",
    }  # fmt: skip
