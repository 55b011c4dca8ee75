"""The quiet band above the lanes: which phases the loader that the loop uses most goes through."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz.figures import style
from loaderviz.figures.timelines import boxes
from loaderviz.figures.timelines.covers import AXIS_PX
from loaderviz.text import count, duration
from loaderviz.why import phases

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace import Trace

BAND_PX: Final = 22  # what the band takes of the figure's height
SEGMENT_PX: Final = 15  # its height: room for one line of text
TEXT_PX: Final = 11
CHARACTER_PX: Final = 6  # the mean width of a character of that size
# Of a loader's time: where phases other than the pace take less, the whole run is as good as at
# pace, and nothing is drawn (pyperf takes what is 10 % apart for alike).
WORTH_DRAWING: Final = phases.ALIKE
# Neutral, since colours belong to batches; the pace is the lightest, as there is nothing to see.
FILLS: Final = {
    phases.START: "rgba(125, 133, 144, 0.16)",
    phases.RESTART: "rgba(125, 133, 144, 0.16)",
    phases.WARM_UP: "rgba(125, 133, 144, 0.26)",
    phases.EARLIER: "rgba(125, 133, 144, 0.16)",
    phases.PACE: "rgba(125, 133, 144, 0.07)",
    phases.PAUSE: "rgba(125, 133, 144, 0.38)",
    phases.UNSTEADY: "rgba(125, 133, 144, 0.16)",
    phases.END: "rgba(125, 133, 144, 0.16)",
}
_EXPECTED: Final = (phases.START, phases.RESTART, phases.PACE, phases.END)  # in any run


def worth_drawing(trace: Trace) -> pd.DataFrame | None:
    """The phases to draw; None where all is start and pace, or too short to tell them apart.

    Of one rank, and of the loader whose phases take the most time. Not of a simulation, which has a
    start and a pace by its nature.
    """
    batches = trace.batches
    if trace.meta.get("simulated") or len(batches) < phases.FEWEST or batches["rank"].nunique() > 1:
        return None
    table = trace.phases()
    if table.empty:
        return None
    most = table.groupby("loader")["seconds"].sum().idxmax()
    table = table[table["loader"] == most].reset_index(drop=True)
    if (batches["loader"] == most).sum() < phases.FEWEST:
        return None
    unlike_s = table.loc[~table["phase"].isin(_EXPECTED), "seconds"].sum()
    return table if unlike_s > WORTH_DRAWING * table["seconds"].sum() else None


def segments(table: pd.DataFrame | None, lane: float, thickness: float) -> dict[str, Any]:
    """The plotly trace of the band; empty for None.

    Args:
        table: as ``worth_drawing`` returns it.
        lane: where the band lies on the axis of the lanes.
        thickness: its height there; 1 is the distance between two lanes.
    """
    columns = ("phase", "epoch", "from_batch", "to_batch", "from_s", "to_s", "seconds")
    rows = {name: [] if table is None else table[name].tolist() for name in columns}
    hover = [
        f"<b>{html.escape(phase)}</b> of epoch {epoch}: {duration(seconds)}<br>"
        + (f"batch {first}" if first == last else f"batches {first} to {last}")
        + ("" if first == last else f": {count(last - first + 1, 'batch', 'batches')}")
        for phase, epoch, first, last, _, _, seconds in zip(*rows.values(), strict=True)
    ]
    mark = boxes.bars(
        "phase", rows["from_s"], rows["to_s"], np.full(len(hover), float(lane)),
        thickness=thickness, fill=style.TRANSPARENT, edge_px=0, hover=hover,
    )  # fmt: skip
    mark["marker"]["color"] = [FILLS[phase] for phase in rows["phase"]]
    return mark


def names(
    table: pd.DataFrame | None, lane: float, axis_span_s: float, theme: style.Theme
) -> list[dict[str, Any]]:
    """The names of those segments that have room for them, as annotations of the layout.

    Not in the bars themselves: plotly writes the texts of all bars in one size, the smallest.
    """
    if table is None:
        return []
    px_per_s = AXIS_PX / axis_span_s
    return [
        {
            "text": phase, "x": start_s + seconds / 2, "y": lane, "xref": "x", "yref": "y",
            "showarrow": False, "font": {"size": TEXT_PX, "color": theme.muted},
        }
        for phase, start_s, seconds in zip(
            *(table[name].tolist() for name in ("phase", "from_s", "seconds")), strict=True
        )
        if seconds * px_per_s > len(phase) * CHARACTER_PX + TEXT_PX
    ]  # fmt: skip
