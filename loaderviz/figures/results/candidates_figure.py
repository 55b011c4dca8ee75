"""The figure of a recommendation: throughput by workers, as measured or between which bounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.loader_settings import PREFETCH_FACTOR
from loaderviz.text import count, percent, rate

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz._recommend import Recommendation

TITLE_PX, AXIS_PX, HEIGHT_PX = 92, 68, 410
LINE, BAND = style.READY_LINE, "rgba(58, 135, 194, 0.16)"
CHOSEN = style.GREEN
MEASURED_TITLE = "workers · the line: in order, prefetch_factor 2"
OTHERS = "<br>hollow points: other settings"
BOUNDS_TITLE = "workers · the band: bounds from a recording, not measured"
BEYOND_FILL = "rgba(125, 133, 144, 0.10)"
BESIDE_PX = 14  # of a mark's bar
LOW = 0.25  # of the height: a label does not fit between a lower mark and the axis
ROOM = 1.16  # the height of the axis, in heights of the highest point: labels need room


def draw(recommendation: Recommendation, theme: style.ThemeName) -> Figure:
    """Draw what was measured with two standard errors either way, or the bounds as a band.

    Raises:
        LoaderVizError: for an unknown theme.
    """
    table, colours = recommendation.candidates, style.theme(theme)
    layout = style.layout(
        colours,
        title=recommendation.verdict,
        numbers=recommendation.numbers,
        height=HEIGHT_PX,
        margins=(74, 84, TITLE_PX, AXIS_PX),
    )
    layout |= _axes(recommendation, colours)
    layout["annotations"] = _labels(recommendation)
    layout["shapes"] = _shade_beyond_cpus(recommendation) + _demand_line(recommendation)
    run = table[table["samples_per_s"].notna()]
    line = _default_rows(run)
    data = [
        _points("other settings", run.drop(line.index), style.QUIET, 6, "circle-open"),
        {**_points("measured", line, LINE, 7, "circle"), "mode": "lines+markers"},
        _points("now", run[run["present"]], LINE, 17, "circle-open"),
        _points("recommended", run[run["recommended"]], CHOSEN, 17, "circle"),
    ]
    if not recommendation.measured:
        data.insert(0, _band(table))
    return Figure(data=data, layout=layout)


def _default_rows(run: pd.DataFrame) -> pd.DataFrame:
    """A row for each number of workers: in order, with torch's default ``prefetch_factor``."""
    default_prefetch = run["prefetch_factor"].fillna(PREFETCH_FACTOR) == PREFETCH_FACTOR
    rows = run[default_prefetch & run["in_order"]]
    return rows.sort_values("num_workers").drop_duplicates("num_workers")


def _band(table: pd.DataFrame) -> dict[str, Any]:
    rows = table[table["high_per_s"].notna()].sort_values("num_workers")
    workers = rows["num_workers"].to_numpy()
    return {
        "type": "scatter",
        "name": "bounds",
        "x": np.concatenate([workers, workers[::-1]]),
        "y": np.concatenate([rows["high_per_s"], rows["low_per_s"].to_numpy()[::-1]]),
        "mode": "lines",
        "line": {"width": 0},
        "fill": "toself",
        "fillcolor": BAND,
        "hoverinfo": "skip",
    }


def _points(name: str, rows: pd.DataFrame, colour: str, size: int, symbol: str) -> dict[str, Any]:
    per_s = rows["samples_per_s"].to_numpy()
    points = {
        "type": "scatter",
        "name": name,
        "x": rows["num_workers"].to_numpy(),
        "y": per_s,
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
    if name in ("measured", "other settings"):
        points["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": np.nan_to_num(rows["high_per_s"].to_numpy() - per_s),
            "arrayminus": np.nan_to_num(per_s - rows["low_per_s"].to_numpy()),
            "color": colour,
            "thickness": 1,
        }
    return points


def _hover_text(row: Any) -> str:
    """The hover text of a candidate."""
    n = row["num_workers"]
    lines = [f"<b>{count(n, 'worker')}</b>"]
    if n:
        order = "" if row["in_order"] else ", out of order"
        persistent = ", persistent" if row["persistent_workers"] else ""
        lines.append(f"prefetch_factor {row['prefetch_factor']}{order}{persistent}")
    lines.append(
        f"{rate(row['samples_per_s'])} samples/s "
        f"({rate(row['low_per_s'])} to {rate(row['high_per_s'])}), "
        f"{count(row['runs'], 'run')} of {count(row['batches'], 'batch', 'batches')} in all"
    )
    lines.append(f"the loop waits {percent(row['wait_share'])} of the time")
    return "<br>".join(lines)


def _labels(recommendation: Recommendation) -> list[dict[str, Any]]:
    """Labels beside the marks, and the unit of the y axis."""
    table = recommendation.candidates
    run = table[table["samples_per_s"].notna()]
    chosen, now = run[run["recommended"]], run[run["present"]]
    same = len(chosen) and len(now) and now.index[0] == chosen.index[0]
    end = _axis_end(recommendation)
    labels: list[dict[str, Any]] = [
        axes.in_margin(
            "samples/s", -60, x=0, y=1, yref="paper", yanchor="bottom", yshift=4, font={"size": 12}
        )
    ]
    for row in chosen.to_dict("records"):
        text = "recommended, as it is now" if same else "recommended"
        if recommendation.measured and math.isnan(row["high_per_s"]):
            text += "<br>run once: it may be far off"
        more = run[run["num_workers"] > row["num_workers"]]["samples_per_s"]
        rises = bool((more > row["samples_per_s"]).any())  # the line would cross a label above
        below = rises and row["samples_per_s"] >= LOW * _top(recommendation)
        labels.append(_label(row, text, 32 if below else -28, end))
    if not same:
        for row in now.to_dict("records"):
            low = row["samples_per_s"] < LOW * _top(recommendation)
            labels.append(_label(row, "now", -32 if low else 32, end))
    return labels


def _label(row: Any, text: str, down_px: int, axis_end: float) -> dict[str, Any]:
    """A label ``down_px`` below a mark and beside its bar, on the side that has more room."""
    right = row["num_workers"] < axis_end / 2
    return {
        "text": text,
        "x": float(row["num_workers"]),
        "y": float(row["samples_per_s"]),
        "xanchor": "left" if right else "right",
        "ax": BESIDE_PX if right else -BESIDE_PX,
        "ay": down_px,
        "arrowhead": 0,
        "arrowwidth": 1,
        "arrowcolor": style.QUIET,
        "standoff": 9,
        "font": {"size": 13},
    }


def _demand_line(recommendation: Recommendation) -> list[dict[str, Any]]:
    """What the loop takes where it never waits; nothing without a step."""
    per_s = recommendation.demand_per_s
    if not math.isfinite(per_s) or per_s > ROOM * _top(recommendation):
        return []
    return [
        {
            "type": "line",
            "x0": 0, "x1": 1, "xref": "paper", "y0": per_s, "y1": per_s,
            "line": {"width": 1, "dash": "dot", "color": style.QUIET},
            "label": {
                "text": f"the loop could take {rate(per_s)}",
                "textposition": "start",
                "yanchor": "bottom",
                "font": {"size": 12, "color": style.QUIET},
            },
        }
    ]  # fmt: skip


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
                "textposition": "bottom right",
                "textangle": 0,
                "yanchor": "bottom",
                "font": {"size": 12, "color": style.QUIET},
            },
        }
    ]  # fmt: skip


def _axis_end(recommendation: Recommendation) -> float:
    """Where the axis of workers ends."""
    return 1.02 * float(recommendation.candidates["num_workers"].max()) + 0.1


def _top(recommendation: Recommendation) -> float:
    """The highest rate that is drawn; 1 where there is none."""
    columns = ["samples_per_s", "high_per_s"]
    rates = recommendation.candidates[columns].to_numpy(dtype=float)
    return float(np.max(rates[np.isfinite(rates)], initial=0.0)) or 1.0


def _axes(recommendation: Recommendation, theme: style.Theme) -> dict[str, Any]:
    most = int(recommendation.candidates["num_workers"].max())
    top = _top(recommendation)
    run = recommendation.candidates.dropna(subset="samples_per_s")
    others = OTHERS if len(_default_rows(run)) < len(run) else ""
    title = f"{MEASURED_TITLE}{others}" if recommendation.measured else BOUNDS_TITLE
    x_range = [-0.03 * most - 0.1, _axis_end(recommendation)]
    return {
        "xaxis": axes.axis(
            theme, title, range=x_range, tick0=0, dtick=max(1, most // 8), showgrid=False
        ),
        "yaxis": axes.axis_from_zero(theme, ROOM * top, tickformat="~s" if top >= 10_000 else ","),
    }
