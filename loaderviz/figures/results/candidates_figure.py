"""The figure of a recommendation: throughput by workers, the chosen setting, the limit of CPUs."""

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

TITLE_PX, AXIS_PX, HEIGHT_PX = 92, 68, 410
LINE, BAND = style.READY_LINE, "rgba(58, 135, 194, 0.16)"
CHOSEN, MEASURED = style.GREEN, style.PLUM
WORKERS_TITLE = "workers · the line: in order, prefetch_factor 2<br>hollow points: other settings"
BEYOND_FILL = "rgba(125, 133, 144, 0.10)"
NARROW_PX, LETTER_PX = 230, 7  # the width of the plot at least; of a label's letter
LOW = 0.25  # of the height: a label does not fit between a lower mark and the axis
ROOM = 1.16  # the height of the axis, in heights of the highest point: labels need room


def draw(recommendation: Recommendation, theme: style.ThemeName) -> Figure:
    """Draw predictions in order with torch's default prefetch as a line, all others as points.

    Raises:
        LoaderVizError: for an unknown theme.
    """
    table, colours = recommendation.candidates, style.theme(theme)
    defaults = _default_rows(table)
    layout = style.layout(
        colours,
        title=recommendation.verdict,
        numbers=recommendation.numbers,
        height=HEIGHT_PX,
        margins=(74, 84, TITLE_PX, AXIS_PX),
    )
    layout |= _axes(recommendation, colours)
    layout["annotations"] = _labels(recommendation, defaults)
    layout["shapes"] = _shade_beyond_cpus(recommendation)
    point_styles = {
        "other settings": (table.drop(defaults.index), style.QUIET, 6, "circle-open"),
        "does not fit": (table[~table["fits"]], style.FAILED, 11, "x-thin-open"),
        "now": (table[table["present"]], LINE, 17, "circle-open"),
        "recommended": (table[table["recommended"]], CHOSEN, 17, "circle"),
        "measured": (table[table["measured_per_s"].notna()], MEASURED, 12, "diamond"),
    }
    others, *marks = (_points(name, *arguments) for name, arguments in point_styles.items())
    line = {**_points("predicted", defaults, LINE, 7, "circle"), "mode": "lines+markers"}
    data = [_band(defaults), others, line, *marks]
    return Figure(data=data, layout=layout)


def _default_rows(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each number of workers: in order, with torch's default ``prefetch_factor``.

    ``persistent_workers`` is as in the recommended setting.
    """
    chosen = table[table["recommended"]].iloc[0]
    default_prefetch = table["prefetch_factor"].fillna(PREFETCH_FACTOR) == PREFETCH_FACTOR
    as_chosen = table["persistent_workers"] == bool(chosen["persistent_workers"])
    rows = table[default_prefetch & (as_chosen | (table["num_workers"] == 0)) & table["in_order"]]
    return rows.sort_values("num_workers").drop_duplicates("num_workers")


def _band(defaults: pd.DataFrame) -> dict[str, Any]:
    workers = defaults["num_workers"].to_numpy()
    return {
        "type": "scatter",
        "name": "range of the prediction",
        "x": np.concatenate([workers, workers[::-1]]),
        "y": np.concatenate([defaults["high_per_s"], defaults["low_per_s"].to_numpy()[::-1]]),
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
        "hovertext": [_hover_text(row) for row in rows.to_dict("records")],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _hover_text(row: Any) -> str:
    """The hover text of a candidate."""
    n = row["num_workers"]
    lines = [f"<b>{count(n, 'worker')}</b>"]
    if n:
        order = "" if row["in_order"] else ", out of order"
        persistent = ", persistent" if row["persistent_workers"] else ""
        lines.append(f"prefetch_factor {row['prefetch_factor']}{order}{persistent}")
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


def _labels(recommendation: Recommendation, defaults: pd.DataFrame) -> list[dict[str, Any]]:
    """Labels beside the marks, and the unit of the y axis."""
    table = recommendation.candidates
    chosen = table[table["recommended"]].iloc[0]
    now = table[table["present"]]
    same = len(now) and now.index[0] == chosen.name
    text = "recommended, as it is now" if same else "recommended"

    def label(row: Any, column: str, text: str, down_px: int) -> dict[str, Any]:
        return _label(row, column, text, down_px, _axis_end(recommendation))

    last = {**label(defaults.iloc[-1], "samples_per_s", "predicted", 0), "showarrow": False}
    labels = [
        label(chosen, "samples_per_s", text, -28),
        {**last, "xanchor": "left", "xshift": 12, "font": {"color": LINE}},
        {
            "text": "samples/s",
            "x": 0, "xref": "paper", "xanchor": "left", "xshift": -60,
            "y": 1, "yref": "paper", "yanchor": "bottom", "yshift": 4,
            "showarrow": False,
            "font": {"size": 12},
        },
    ]  # fmt: skip
    if len(now) and not same:
        low = now.iloc[0]["samples_per_s"] < LOW * table["samples_per_s"].max()
        labels.append(label(now.iloc[0], "samples_per_s", "now", -32 if low else 32))
    measured = table[table["measured_per_s"].notna()].sort_values("measured_per_s")
    if len(measured):
        # Preferably not the present setting, which has the label "now".
        others = measured[~measured["present"]] if (~measured["present"]).any() else measured
        least = others.sort_values("measured_per_s").iloc[0]
        labels.append(label(least, "measured_per_s", "measured", 32))
    return labels


def _label(row: Any, column: str, text: str, down_px: int, axis_end: float) -> dict[str, Any]:
    """A label ``down_px`` below a mark: to its right where half of it would not fit on its left."""
    at_edge = row["num_workers"] / axis_end * NARROW_PX < len(text) * LETTER_PX / 2
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


def _shade_beyond_cpus(recommendation: Recommendation) -> list[dict[str, Any]]:
    """A shaded area where there are more workers than CPUs."""
    cpus, axis_end = recommendation.cpu_allowance, _axis_end(recommendation)
    if cpus >= axis_end:
        return []
    return [
        {
            "type": "rect",
            "x0": cpus, "x1": axis_end, "y0": 0, "y1": 1, "yref": "paper",
            "line": {"width": 0},
            "fillcolor": BEYOND_FILL,
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


def _axis_end(recommendation: Recommendation) -> float:
    """Where the axis of workers ends."""
    return 1.02 * float(recommendation.candidates["num_workers"].max()) + 0.1


def _axes(recommendation: Recommendation, theme: style.Theme) -> dict[str, Any]:
    table = recommendation.candidates
    most = int(table["num_workers"].max())
    top = float(np.nanmax(table[["samples_per_s", "measured_per_s"]].to_numpy()))
    x_range = [-0.03 * most - 0.1, _axis_end(recommendation)]
    return {
        "xaxis": axes.axis(
            theme, WORKERS_TITLE, range=x_range, tick0=0, dtick=max(1, most // 8), showgrid=False
        ),
        "yaxis": axes.axis_from_zero(theme, ROOM * top, tickformat="~s" if top >= 10_000 else ","),
    }
