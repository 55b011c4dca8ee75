"""The start of workers, taken apart: a row for each, a box for each part of its start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.figures.style import AXIS_PX
from loaderviz.text import count, duration, size, worker_name
from loaderviz.trace import Trace
from loaderviz.why.worker_starts import (
    OWN_PARTS,
    began_s,
    one_after_another,
    started_together,
    took_s,
)

if TYPE_CHECKING:
    import pandas as pd

TITLE_PX, KEY_PX, ROW_PX, RIGHT_PX = 78, 34, 34, 22
LEFT_PX = 14  # of the title, and of what the colours mean
BAR = 0.7  # of a row
MOST_ROWS = 16
DARK, LIGHT = "#1b1f24", "#ffffff"
LEAST_BYTES = 1 << 16  # fewer are not told to the byte

LEAST_DRAWN: Final = 1e-3  # of the axis: about a pixel

# Column: its name in a box, what it is, fill, colour of text.
PARTS: Final = {
    "pickle_s": ("pickle", "the main process pickles what it sends", style.AMBER, DARK),
    "boot_s": ("boot", "the process starts and imports", style.QUIET, DARK),
    "unpickle_s": ("unpickle", "it unpickles what it was sent", style.PINK, DARK),
    "init_s": ("init", "worker_init_fn", style.GREEN, LIGHT),
    "first_read_s": ("read", "it reads its first sample", style.BLUE, LIGHT),
}
LONGEST: Final = {
    "what they are sent takes longest": ["pickle_s", "unpickle_s"],
    "booting takes longest": ["boot_s"],
    "worker_init_fn takes longest": ["init_s"],
}


def starts(
    trace: Trace, *, seconds: float | None = None, theme: style.ThemeName = "light"
) -> Figure:
    """Draw how workers started: a row for each, with the parts of its start one after another.

    A row begins while the main process pickles for that worker, which it does for one after
    another; then come the worker's own boot, its unpickling, ``worker_init_fn`` and the read
    of its first sample. Where nothing is drawn, it waits for its first task. Forked workers are
    sent nothing. Of several starts, as of epochs without ``persistent_workers``, the longest is
    drawn; of more than 16 workers the first.

    Args:
        trace: a recorded ``Trace``.
        seconds: the least time that the axis spans, so that two figures can be compared; None: that
            of this start.
        theme: text and grid for a light or a dark page. In JupyterLab the page's theme decides.

    Raises:
        LoaderVizError: if ``trace`` is no trace, if it does not tell how workers started, if
            ``seconds`` is not above 0, and for an unknown theme.
    """
    axes.check_given("starts", trace, seconds)
    colours = style.theme(theme)
    workers = _longest_start(trace)
    shown = workers.iloc[:MOST_ROWS]
    labels = [worker_name(worker) for worker in shown["worker"]]
    layout = style.layout(
        colours,
        title=_title(workers),
        numbers=_numbers(workers, len(shown)),
        height=TITLE_PX + KEY_PX + ROW_PX * len(shown) + AXIS_PX,
        margins=(axes.labels_px(labels), RIGHT_PX, TITLE_PX + KEY_PX, AXIS_PX),
    )
    known = [part for part in PARTS if shown[part].notna().any()]
    zero_s = float(began_s(workers).min())
    last_s = max((_begins(part, shown) - zero_s + shown[part]).max() for part in known)
    parts = [part for part in known if shown[part].max() >= LEAST_DRAWN * last_s]
    marks = [_mark(part, shown, zero_s) for part in parts]
    time_range = [0, 1.02 * max(last_s, seconds or 1e-6)]
    layout |= {
        "xaxis": axes.axis(
            colours, "seconds since the first was begun", range=time_range, nticks=10
        ),
        "yaxis": axes.lane_axis(colours, labels),
        "uniformtext": {"minsize": 11, "mode": "hide"},
        "annotations": [_key(parts, left_px=axes.labels_px(labels) - LEFT_PX)],
    }
    return Figure.unchecked(marks, layout)


def _longest_start(trace: Trace) -> pd.DataFrame:
    """Those that were started together and took longest, by number."""
    groups = list(started_together(trace.workers))
    if not groups:
        raise LoaderVizError(
            "this trace does not tell how workers started: record a loader with num_workers=1 "
            "or more"
        )
    return max(groups, key=took_s)


def _title(workers: pd.DataFrame) -> str:
    why = max(LONGEST, key=lambda text: workers[LONGEST[text]].sum().sum())
    how = ", one after another" if one_after_another(workers) else ""
    return f"{count(len(workers), 'worker')} took {duration(took_s(workers))} to start{how}: {why}"


def _numbers(workers: pd.DataFrame, n_shown: int) -> str:
    numbers = f"measured · {workers['start_method'].iloc[0]}"
    sent_bytes = workers["pickle_bytes"].median()
    if sent_bytes >= LEAST_BYTES:
        numbers += f" · {size(sent_bytes)} sent to each"
        numbers += f" · pickled in {duration(workers['pickle_s'].sum())} in all"
        numbers += f", unpickled in {duration(workers['unpickle_s'].median())} (median)"
    if n_shown < len(workers):
        numbers += f" · {len(workers) - n_shown:,} more not shown"
    return numbers


def _begins(part: str, workers: pd.DataFrame) -> pd.Series[float]:
    """When it began, for each worker, in seconds of the trace."""
    if part == "first_read_s":
        return workers["first_task_s"]
    if part == "pickle_s":
        return began_s(workers)
    before = OWN_PARTS[: OWN_PARTS.index(part)]
    return workers["started_s"] + workers[before].fillna(0).sum(axis=1)


def _mark(part: str, workers: pd.DataFrame, zero_s: float) -> dict[str, Any]:
    """The boxes of one part: a plotly trace."""
    name, explained, fill, ink = PARTS[part]
    took_s = workers[part]
    return {
        "type": "bar",
        "name": name,
        "orientation": "h",
        "base": _begins(part, workers) - zero_s,
        "x": took_s,
        "y": list(range(len(took_s))),
        "width": BAR,
        "marker": {"color": fill, "line": {"width": 0}},
        "text": [name] * len(took_s),
        "textposition": "inside",
        "insidetextanchor": "middle",
        "constraintext": "inside",
        "textangle": 0,
        "insidetextfont": {"color": ink, "size": 12},
        "hovertext": [f"<b>{explained}</b><br>{duration(seconds)}" for seconds in took_s],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _key(parts: list[str], left_px: int) -> dict[str, Any]:
    """What the colours mean, above the rows: narrow boxes have no room for their names."""
    names = {part: PARTS[part][0] for part in parts}
    if "pickle_s" in names:
        names["pickle_s"] += " (by the main process)"
    texts = [
        f"<span style='color: {PARTS[part][2]}'>■</span> {name}" for part, name in names.items()
    ]
    return axes.in_margin(
        "  ".join(texts), -left_px, x=0, y=1, yref="paper", yanchor="bottom", yshift=4,
        align="left", font={"size": 12},
    )  # fmt: skip
