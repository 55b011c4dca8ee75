"""Pictures as a loader delivers them: a row for each batch, in the colour it has on a timeline."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.figures import style

PICTURE_PX = 96
QUALITY = 85  # of the JPEG in the page


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
        return f"<div class='loaderviz-sheet'>{''.join(map(_row, count(), self.rows))}</div>"


def contact_sheet(batches: Iterable[Any]) -> ContactSheet:
    """Show the pictures of a few batches, a row for each.

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


def _row(number: int, pictures: list[Any]) -> str:
    fill, ink = style.colour(number), style.text_on(number)
    images = "".join(
        f"<img src='{_source(picture)}' width='{PICTURE_PX}' height='{PICTURE_PX}' "
        f"alt='picture {position} of batch {number}' style='display: block'>"
        for position, picture in enumerate(pictures)
    )
    return (
        "<div style='display: flex; align-items: stretch; gap: 3px; margin: 0 0 6px'>"
        f"<b style='flex: 0 0 64px; display: grid; place-items: center; background: {fill}; "
        f"color: {ink}; font-family: {style.FONT.replace(chr(39), '')}'>batch {number}</b>"
        f"<div style='display: flex; flex-wrap: wrap; gap: 3px'>{images}</div></div>"
    )


def _source(picture: Any) -> str:
    from PIL import Image  # which the datasets of pictures need, and nothing else

    small = Image.fromarray(picture).resize((2 * PICTURE_PX, 2 * PICTURE_PX))
    file = io.BytesIO()
    small.save(file, "JPEG", quality=QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"
