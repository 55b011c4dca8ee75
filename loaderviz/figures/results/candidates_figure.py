"""The figure of a recommendation: throughput by workers, the chosen setting, the CPUs' end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.loader_settings import PREFETCH_FACTOR
from loaderviz.text import change, count, percent, rate

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz._recommend import Recommendation

TITLE_PX, AXIS_PX, HEIGHT_PX = 92, 58, 400
LINE, BAND = style.READY_LINE, "rgba(58, 135, 194, 0.16)"
CHOSEN, MEASURED = style.colour(2), style.colour(1)
WORKERS = (
    "workers · the line: in order, prefetch_factor 2 · hollow points: another order or "
    "prefetch_factor"
)
BEYOND = "rgba(125, 133, 144, 0.10)"
LONG = 4  # letters, from where on a label needs room
LOW = 0.25  # of the height: no room for a label between the mark and the axis
ROOM = 1.16  # above the highest point, for the labels


def draw(found: Recommendation, theme: style.ThemeName) -> Figure:
    """A line of what is predicted in order with torch's own prefetch, and points for all else.

    Raises:
        LoaderVizError: for an unknown theme.
    """
    table, colours = found.candidates, style.theme(theme)
    plain = _plain(table)
    layout = style.layout(
        colours,
        title=found.verdict,
        numbers=found.numbers,
        height=HEIGHT_PX,
        margins=(74, 84, TITLE_PX, AXIS_PX),
    )
    layout |= _axes(found, colours)
    layout["annotations"] = _labels(found, plain)
    layout["shapes"] = _allowance(found)
    at = {
        "other settings": (table.drop(plain.index), style.QUIET, 6, "circle-open"),
        "does not fit": (table[~table["fits"]], style.FAILED, 11, "x-thin-open"),
        "now": (table[table["present"]], LINE, 17, "circle-open"),
        "recommended": (table[table["recommended"]], CHOSEN, 17, "circle"),
        "measured": (table[table["measured_per_s"].notna()], MEASURED, 12, "diamond"),
    }
    others, *marks = (_points(name, *given) for name, given in at.items())
    line = {**_points("predicted", plain, LINE, 7, "circle"), "mode": "lines+markers"}
    data = [_band(plain), others, line, *marks]
    return Figure(data=data, layout=layout)


def _plain(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each number of workers: in order, with torch's own prefetch."""
    chosen = table[table["recommended"]].iloc[0]
    persists = bool(chosen["persistent_workers"])
    usual = table["prefetch_factor"].fillna(PREFETCH_FACTOR) == PREFETCH_FACTOR
    lasting = (table["persistent_workers"] == persists) | (table["num_workers"] == 0)
    rows = table[usual & lasting & table["in_order"]]
    return rows.sort_values("num_workers").drop_duplicates("num_workers")


def _band(plain: pd.DataFrame) -> dict[str, Any]:
    workers = plain["num_workers"].to_numpy()
    return {
        "type": "scatter",
        "name": "as uncertain as that is",
        "x": np.concatenate([workers, workers[::-1]]),
        "y": np.concatenate([plain["high_per_s"], plain["low_per_s"].to_numpy()[::-1]]),
        "mode": "lines",
        "line": {"width": 0},
        "fill": "toself",
        "fillcolor": BAND,
        "hoverinfo": "skip",
    }


def _points(name: str, rows: pd.DataFrame, colour: str, size: int, symbol: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "name": name,
        "x": rows["num_workers"].to_numpy(),
        "y": rows["measured_per_s" if name == "measured" else "samples_per_s"].to_numpy(),
        "mode": "markers",
        "line": {"width": 2, "color": colour},
        "marker": {
            "color": colour,
            "size": size,
            "symbol": symbol,
            "line": {"width": 2 if "open" in symbol else 0, "color": colour},
        },
        "hovertext": [_told(row) for row in rows.to_dict("records")],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _told(row: Any) -> str:
    """What the mark of a candidate says when it is pointed at."""
    n = row["num_workers"]
    lines = [f"<b>{count(n, 'worker')}</b>"]
    if n:
        order = "" if row["in_order"] else ", out of order"
        lives = ", persistent" if row["persistent_workers"] else ""
        lines.append(f"prefetch_factor {row['prefetch_factor']}{order}{lives}")
    lines.append(
        f"predicted {rate(row['samples_per_s'])} samples/s "
        f"({rate(row['low_per_s'])} to {rate(row['high_per_s'])})"
    )
    if row["measured_per_s"] == row["measured_per_s"]:
        lines.append(f"measured {rate(row['measured_per_s'])} ({change(row['error'])} predicted)")
    lines.append(f"the model waits {percent(row['wait_share'])} of the time")
    if not row["fits"]:
        lines.append("takes more memory than is free")
    return "<br>".join(lines)


def _labels(found: Recommendation, plain: pd.DataFrame) -> list[dict[str, Any]]:
    """What the marks are, beside them."""
    table = found.candidates
    chosen = table[table["recommended"]].iloc[0]
    now = table[table["present"]]
    same = len(now) and now.index[0] == chosen.name
    text = "recommended, as it is now" if same else "recommended"
    last = {**_label(plain.iloc[-1], "samples_per_s", "predicted", 0), "showarrow": False}
    labels = [
        _label(chosen, "samples_per_s", text, -28),
        {**last, "xanchor": "left", "xshift": 12, "font": {"color": LINE}},
        {
            "text": "samples/s",
            "x": 0, "xref": "paper", "xanchor": "right", "xshift": -8,
            "y": 1, "yref": "paper", "yanchor": "bottom", "yshift": 4,
            "showarrow": False,
            "font": {"size": 12},
        },
    ]  # fmt: skip
    if len(now) and not same:
        low = now.iloc[0]["samples_per_s"] < LOW * table["samples_per_s"].max()
        labels.append(_label(now.iloc[0], "samples_per_s", "now", -32 if low else 32))
    measured = table[table["measured_per_s"].notna()].sort_values("measured_per_s")
    if len(measured):
        free = measured[~measured["present"]] if (~measured["present"]).any() else measured
        least = free.sort_values("measured_per_s").iloc[0]  # "now" has a label of its own
        labels.append(_label(least, "measured_per_s", "measured", 32))
    return labels


def _label(row: Any, column: str, text: str, down_px: int) -> dict[str, Any]:
    """``down_px``: from the mark; at the left edge the text goes to the right."""
    at_edge = row["num_workers"] <= 1 and len(text) > LONG
    return {
        "text": text,
        "x": float(row["num_workers"]),
        "y": float(row[column]),
        "xanchor": "left" if at_edge else "center",
        "ax": 0,
        "ay": down_px,
        "arrowhead": 0,
        "arrowwidth": 1,
        "arrowcolor": style.QUIET,
        "standoff": 9,
        "font": {"size": 13},
    }


def _allowance(found: Recommendation) -> list[dict[str, Any]]:
    """A shade over more workers than CPUs."""
    cpus, most = found.cpu_allowance, _right(found)
    if cpus >= most:
        return []
    return [
        {
            "type": "rect",
            "x0": cpus, "x1": most, "y0": 0, "y1": 1, "yref": "paper",
            "line": {"width": 0},
            "fillcolor": BEYOND,
            "layer": "below",
            "label": {
                "text": f"more than the {count(cpus, 'CPU')} allowed",
                "textposition": "top right",
                "textangle": 0,
                "yanchor": "bottom",
                "font": {"size": 12, "color": style.QUIET},
            },
        }
    ]  # fmt: skip


def _right(found: Recommendation) -> float:
    """Where the axis ends."""
    return 1.02 * float(found.candidates["num_workers"].max()) + 0.1


def _axes(found: Recommendation, theme: style.Theme) -> dict[str, Any]:
    table = found.candidates
    most = int(table["num_workers"].max())
    top = float(np.nanmax(table[["samples_per_s", "measured_per_s"]].to_numpy()))
    shown = [-0.03 * most - 0.1, _right(found)]
    return {
        "xaxis": axes.axis(
            theme, WORKERS, range=shown, tick0=0, dtick=max(1, most // 8), showgrid=False
        ),
        "yaxis": axes.axis_from_zero(theme, ROOM * top, tickformat="~s" if top >= 10_000 else ","),
    }
