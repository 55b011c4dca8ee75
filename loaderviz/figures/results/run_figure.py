"""A whole training: how much of each minute the loop waited, what it needed and what it got."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.figures.style import AXIS_PX
from loaderviz.text import clock_time, count, duration, percent, rate
from loaderviz.trace import Trace
from loaderviz.trace.columns_of_rows import Table, where
from loaderviz.trace.loaders_as_one import windows_as_one
from loaderviz.trace.windows import waited_share

SHARE_PX, PACE_PX, GAP_PX, RANK_PX, NAME_PX = 120, 150, 34, 22, 16
FLAGS_PX: Final = 24  # of incidents, above the plot
LEFT_PX, RIGHT_PX, TOP_PX = 74, 90, style.TITLE_PX + FLAGS_PX
MOST_RANKS: Final = 64
LEAST_PART: Final = 0.01  # of a window, that is drawn apart
MOST_EPOCHS: Final = 40  # that are marked
MOST_POINTS: Final = 2_000  # of a line: of more, neighbours become one
HOURS_FROM_S: Final = 7200.0
_SUMS: Final = ("batches", "samples", "startup_s", "others_s", "wait_s", "step_s")


def run(trace: Trace, *, theme: style.ThemeName = "light") -> Figure:
    """Draw a whole run minute by minute, from ``trace.windows``.

    Above, the share of each minute that the loop waited, one on the other: in grey for workers to
    start, in plum for evaluations and other loaders, then for the loader that most time goes to.
    Below, of that one, the samples that its workers make when none stands idle (supply)
    and those that the loop takes when it never waits (demand). Dotted lines are epochs, flags are
    incidents: hover tells them, and ``trace.incidents`` opens them. Of several ranks a row for
    each, the one that waits most first, and below its supply and demand.

    Args:
        trace: a recorded ``Trace``, of a recording with ``last_s`` or not.
        theme: text and grid for a light or a dark page. In JupyterLab the page's theme decides.

    Raises:
        LoaderVizError: if ``trace`` is no trace or no batch was delivered in it, and for an unknown
            theme.
    """
    axes.check_given("run", trace)
    colours = style.theme(theme)
    rows = windows_as_one(trace)
    if not rows["batches"].sum():
        raise LoaderVizError("no batch was delivered in this trace: there is no run to draw")
    by_rank = {int(rank): where(rows, rows["rank"] == rank) for rank in np.unique(rows["rank"])}
    ranks = sorted(by_rank, key=lambda rank: -waited_share(by_rank[rank]))[:MOST_RANKS]
    end_s = float(rows["end_s"].max())
    unit_s, unit = (3600.0, "hours") if end_s >= HOURS_FROM_S else (60.0, "minutes")
    top_px = SHARE_PX if len(ranks) == 1 else RANK_PX * len(ranks)
    plot_px = top_px + GAP_PX + PACE_PX
    worst = by_rank[ranks[0]]
    main = _main_loader(worst)
    lines, highest = _pace(where(worst, worst["loader"] == main), unit_s)
    shares = _share(_by_window(worst), unit_s) if len(ranks) == 1 else _heat(by_rank, ranks, unit_s)
    layout = style.layout(
        colours,
        title=_title(trace, rows),
        numbers=_numbers(rows, len(by_rank), end_s),
        height=TOP_PX + plot_px + AXIS_PX,
        margins=(LEFT_PX, RIGHT_PX, TOP_PX, AXIS_PX),
    )
    share_from = 1 - top_px / plot_px
    layout |= {
        "xaxis": axes.axis(
            colours, f"{unit} since the recording began", range=[0, end_s / unit_s], nticks=12,
            anchor="y",
        ),
        "yaxis": axes.axis_from_zero(
            colours, 1.08 * highest, "samples/s", domain=[0, PACE_PX / plot_px]
        ),
        "yaxis2": (
            axes.axis_from_zero(
                colours, 1, "waits", domain=[share_from, 1], tickformat=".0%", tickvals=[0, 0.5, 1]
            )
            if len(ranks) == 1
            else axes.lane_axis(
                colours, [f"rank {rank}" for rank in ranks], domain=[share_from, 1]
            )
        ),
        "shapes": _epochs(where(worst, worst["loader"] == main), unit_s),
        "hovermode": "closest",
    }  # fmt: skip
    flags = _flags(trace, unit_s, len(ranks))
    layout["annotations"] = [*_line_names(lines, highest), *flags]
    return Figure.unchecked([*shares, *lines], layout)


def _main_loader(rows: Table) -> int:
    """The loader that most time goes to."""
    loaders = np.unique(rows["loader"])
    taken_s = rows["wait_s"] + rows["step_s"]
    return int(max(loaders, key=lambda loader: taken_s[rows["loader"] == loader].sum()))


def _by_window(rows: Table) -> Table:
    """Sums of all loaders and epochs, a row for each window; of very many, neighbours as one.

    ``others_s`` is what is waited for others than the main loader, as of evaluations.
    """
    is_main = rows["loader"] == _main_loader(rows)
    rows = {**rows, "others_s": np.where(is_main, 0.0, rows["wait_s"])}
    starts = np.unique(rows["start_s"])
    together = -(-len(starts) // MOST_POINTS)
    starts = starts[::together]
    window = np.searchsorted(starts, rows["start_s"], side="right") - 1
    sums = {name: np.bincount(window, rows[name], len(starts)) for name in _SUMS}
    end_s = np.zeros(len(starts))
    np.maximum.at(end_s, window, rows["end_s"])
    weights = rows["batches"] * ~np.isnan(rows["supply_per_s"])
    supply = np.bincount(window, weights * np.nan_to_num(rows["supply_per_s"]), len(starts))
    n = np.bincount(window, weights, len(starts))
    total_s = sums["startup_s"] + sums["wait_s"] + sums["step_s"]
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            **sums,
            "start_s": starts,
            "end_s": end_s,
            "supply_per_s": supply / n,
            "demand_per_s": np.where(n > 0, sums["samples"] / sums["step_s"], np.nan),
            "share": (sums["startup_s"] + sums["wait_s"]) / total_s,
            "share_of_starts": sums["startup_s"] / total_s,
            "share_of_others": (sums["startup_s"] + sums["others_s"]) / total_s,
        }


def _share(windows: Table, unit_s: float) -> list[dict[str, Any]]:
    """The waited share as areas, a step for each window: one on the other, up to that of all."""
    share, starts, others = (
        np.nan_to_num(windows[name]) for name in ("share", "share_of_starts", "share_of_others")
    )
    texts = [
        f"<b>{clock_time(start)}: waits {percent(each)}</b><br>{count(n, 'batch', 'batches')}, "
        f"{duration(wait)} waited"
        + f", {duration(other)} of it for evaluations and other loaders" * bool(other)
        + f"<br>{duration(startup)} to start workers" * bool(startup)
        for start, each, n, wait, other, startup in zip(
            windows["start_s"],
            share,
            *(windows[name] for name in ("batches", "wait_s", "others_s", "startup_s")),
            strict=True,
        )
    ]
    parts = []
    if starts.max() > LEAST_PART:
        parts.append((style.QUIET, style.QUIET, starts))
    if (others - starts).max() > LEAST_PART:
        parts.append((style.PLUM, style.PLUM_FILL, others))
    parts.append((style.WAIT, style.WAIT_FILL, share))
    areas = [{
        "type": "scatter", "mode": "lines", "yaxis": "y2",
        "x": np.append(windows["start_s"], windows["end_s"][-1:]) / unit_s,
        "y": np.append(values, values[-1:]).round(4),
        "line": {"shape": "hv", "color": line, "width": 1},
        "fill": "tonexty" if i else "tozeroy", "fillcolor": colour,
        "hovertext": [*texts, *texts[-1:]], "hovertemplate": "%{hovertext}<extra></extra>",
    } for i, (line, colour, values) in enumerate(parts)]  # fmt: skip
    # A window may be narrower than a pixel: the last line drawn would have the whole peak.
    outlines = [{**area, "fill": "none", "hoverinfo": "skip"} for area in areas[-2:-1]]
    for outline in outlines:
        del outline["hovertext"], outline["hovertemplate"]
    return areas + outlines


def _heat(by_rank: dict[int, Table], ranks: Sequence[int], unit_s: float) -> list[dict[str, Any]]:
    """A row for each rank, the darker the more of a window it waits."""
    every = [_by_window(by_rank[rank]) for rank in ranks]
    starts = np.unique(np.concatenate([windows["start_s"] for windows in every]))
    shares = np.full((len(ranks), len(starts)), np.nan)
    for row, windows in zip(shares, every, strict=True):
        row[np.searchsorted(starts, windows["start_s"])] = windows["share"]
    ends = max(float(windows["end_s"].max()) for windows in every)
    return [{
        "type": "heatmap", "yaxis": "y2", "zmin": 0, "zmax": 1, "showscale": False,
        "x": np.append(starts, ends) / unit_s, "y": list(range(len(ranks))),
        "z": shares.round(3),
        "colorscale": [[0, style.TRANSPARENT], [1, style.WAIT]], "ygap": 2,
        "hovertemplate": "waits %{z:.0%}<extra></extra>",
    }]  # fmt: skip


def _pace(rows: Table, unit_s: float) -> tuple[list[dict[str, Any]], float]:
    """Supply and demand as lines, and where their axis ends."""
    windows = _by_window(rows)
    middle = (windows["start_s"] + windows["end_s"]) / 2 / unit_s
    lines: list[dict[str, Any]] = []
    highest = 0.0
    for name, colour in (("supply", style.BLUE), ("demand", style.QUIET)):
        values = windows[f"{name}_per_s"]
        known = values[np.isfinite(values)]
        if not len(known):
            continue
        # A window of one step can have any demand: the axis is for the others.
        highest = max(highest, min(float(known.max()), 3 * float(np.median(known))))
        lines.append({
            "type": "scatter", "mode": "lines", "name": name, "x": middle, "y": values,
            "line": {"color": colour, "width": 2, "dash": "dot" if name == "demand" else "solid"},
            "hovertext": [f"<b>{name}</b>: {rate(each)} samples/s" for each in values],
            "hovertemplate": "%{hovertext}<extra></extra>",
        })  # fmt: skip
    return lines, highest or 1.0


def _line_names(lines: Sequence[dict[str, Any]], highest: float) -> list[dict[str, Any]]:
    """The lines' names at their ends, one above the other where they are near."""
    ends = [float(line["y"][np.isfinite(line["y"])][-1]) for line in lines]
    values = np.minimum(ends, highest)
    ends_px = PACE_PX * values / (1.08 * highest)
    names_px = axes.moved_apart(ends_px.tolist(), NAME_PX)
    return [
        axes.in_margin(
            line["name"], 8, y=value, yref="y", yanchor="middle", yshift=shift_px,
            font={"size": 12, "color": line["line"]["color"]},
        )
        for line, value, shift_px in zip(
            lines, values.tolist(), (names_px - ends_px).tolist(), strict=True
        )
    ]  # fmt: skip


def _epochs(rows: Table, unit_s: float) -> list[dict[str, Any]]:
    """A dotted line where each epoch begins; none where there are very many."""
    epochs, first = np.unique(rows["epoch"], return_index=True)
    if not 1 < len(epochs) <= MOST_EPOCHS:
        return []
    return [
        {
            "type": "line", "xref": "x", "yref": "paper", "y0": 0, "y1": 1, "layer": "below",
            "x0": x, "x1": x, "line": {"color": style.QUIET, "width": 1, "dash": "dot"},
        }
        for x in (rows["start_s"][first[1:]] / unit_s).tolist()
    ]  # fmt: skip


def _flags(trace: Trace, unit_s: float, n_ranks: int) -> list[dict[str, Any]]:
    """A flag above the plot for each incident."""
    flags = []
    for row in trace.incidents.to_dict("records"):
        who = f"rank {row['rank']}, " if n_ranks > 1 else ""
        flags.append({
            "name": incident_name(row["rank"], row["incident"]),
            "x": row["start_s"] / unit_s, "y": 1, "xref": "x", "yref": "paper", "yanchor": "bottom",
            "text": f"⚑ {row['incident']}", "showarrow": False, "xanchor": "left",
            "font": {"size": 13, "color": style.FAILED},
            "hovertext": f"{who}incident {row['incident']}, {clock_time(row['start_s'])}: "
            f"{row['text']}",
        })  # fmt: skip
    return flags


def incident_name(rank: int, incident: int) -> str:
    """The name of an incident's flag among the picture's annotations."""
    return f"incident-{rank}-{incident}"


def _title(trace: Trace, rows: Table) -> str:
    share = percent(waited_share(rows))
    incidents: list[Any] = trace.incidents.to_dict("records")
    if not incidents:
        return f"The training waits {share} of the time"

    def times_as_long(row: dict[str, Any]) -> float:
        times = row["after_s"] / row["before_s"]
        return 0.0 if np.isnan(times) else times

    worst = max(incidents, key=times_as_long)
    text = worst["text"].split(":")[0]
    return f"The training waits {share}; at {clock_time(worst['start_s'])} {text}"


def _numbers(rows: Table, n_ranks: int, end_s: float) -> str:
    parts = [f"measured over {clock_time(end_s)}"]
    parts += [f"{n_ranks:,} ranks"] if n_ranks > 1 else []
    n_batches = int(rows["batches"].sum())
    parts += [count(int(rows["epoch"].max()) + 1, "epoch"), count(n_batches, "batch", "batches")]
    return " · ".join(parts)
