"""Where a sample's time goes: the stacks in which samples were read, and the ten longest lines."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

from loaderviz.errors import LoaderVizError
from loaderviz.figures import axes, style
from loaderviz.figures.display import Figure
from loaderviz.figures.style import AXIS_PX, TITLE_PX
from loaderviz.text import count, duration, percent
from loaderviz.trace import Trace
from loaderviz.trace.lines_of_code import PHASES, Frame, Looked, looked, own_frames, rows_of
from loaderviz.trace.loaders_as_one import as_one

ROW_PX, LINE_PX, GAP_PX, RIGHT_PX, KEY_PX = 26, 26, 58, 22, 22
MOST_ROWS: Final = 12  # of the picture: what is called further in is not drawn
MOST_LINES: Final = 10
LEAST: Final = 0.01  # of the reading: less is not drawn
LONG: Final = 0.5  # of the longest bar: what a line says has more room in its bar than after it
CHARACTERS: Final = 72  # that fit into the widest box on a page of 800 px
MOST_NAME: Final = 34  # characters of a line's name at the axis


@dataclass
class Box:
    """A part of the reading: a frame, or several of one package, called from the box above it."""

    name: str
    about: str = ""
    seconds: float = 0.0
    waited_s: float = 0.0
    inner: dict[str, Box] = field(default_factory=dict)

    def add(self, row: Looked, names: list[tuple[str, str]]) -> None:
        """Add what was seen of a stack, to this box and to those inside that have these names."""
        self.seconds += row.seconds
        self.waited_s += row.waited_s
        if names:
            (name, about), *further = names
            self.inner.setdefault(name, Box(name, about)).add(row, further)


def lines(trace: Trace, *, theme: style.ThemeName = "light") -> Figure:
    """Draw which lines of code took the time in which samples were read, and what called them.

    On top is all that was looked at; below each box lie the lines that it called, as wide as the
    time that they took: your own each, those of a package in one. The bar at the foot of a box is
    as long as what the loop waited for it. Under them are the longest lines, ten at most, with what
    was on a CPU and what was not. What is below 1 % is not drawn; hover for what is cut off.

    Args:
        trace: a recorded ``Trace``, with lines.
        theme: text and grid for a light or a dark page. In JupyterLab the page's theme decides.

    Raises:
        LoaderVizError: if ``trace`` is no trace, for one without lines of code, and for an unknown
            theme.
    """
    axes.check_given("lines", trace)
    trace = as_one(trace)
    colours, rows = style.theme(theme), trace.lines()
    seen = looked(trace)
    rows = rows[rows["looks"] > 0].head(MOST_LINES)
    if rows.empty:
        raise LoaderVizError("no look found a line of code: record more batches")
    rows = rows[rows["share"] >= min(LEAST, rows["share"].max())]
    root = Box("reading")
    for row in seen:
        root.add(row, [(PHASES[row.phase], ""), *_names(row.stack)])
    boxes = [*_laid_out(root, 0.0, 0, LEAST * root.seconds)]
    depth = 1 + max(row for _, _, row in boxes)
    names = [_name(row) for row in rows.to_dict("records")]
    top_px, lines_px = ROW_PX * depth, LINE_PX * len(rows)
    inner_px = top_px + GAP_PX + lines_px
    layout = style.layout(
        colours,
        title=_title(rows_of(seen)[0]),
        numbers=f"measured · {duration(root.seconds)} of reading in {_looks(seen)}",
        height=TITLE_PX + KEY_PX + inner_px + AXIS_PX,
        margins=(axes.labels_px(names), RIGHT_PX, TITLE_PX + KEY_PX, AXIS_PX),
    )
    layout |= {
        "xaxis": axes.axis(colours, anchor="y", showticklabels=False, showgrid=False,
                           range=[0, root.seconds]),
        "yaxis": axes.lane_axis(colours, [""] * depth, domain=[1 - top_px / inner_px, 1]),
        "xaxis2": axes.axis(colours, "seconds of reading, of all workers", anchor="y2",
                            range=[0, 1.02 * float(rows["seconds"].max())], nticks=8),
        "yaxis2": axes.lane_axis(colours, names, domain=[0, lines_px / inner_px], anchor="x2"),
        "annotations": [
            *(axes.in_margin(key, 0, x=0, y=y, yref="paper", yanchor="bottom", yshift=4,
                             align="left")
              for key, y in ((_STACKS_KEY, 1), (_LINES_KEY, lines_px / inner_px))),
            *_beside(rows),
        ],
    }  # fmt: skip
    parts = [_stacks(boxes, root.seconds), *_bars(rows), _inside(rows), _waited(boxes)]
    return Figure.unchecked(parts, layout)


def _key(title: str, **marks: str) -> str:
    """A line of a legend: a title, and a square of each colour with what it stands for."""
    squares = (f"<span style='color: {colour}'>■</span> {what}" for what, colour in marks.items())
    return "  ".join([f"{title}:", *squares])


_STACKS_KEY: Final = _key(
    "What called what",
    **{"time of reading": style.SKY, "the part that the loop waited for": style.WAIT},
)
_LINES_KEY: Final = _key(
    "The longest lines", **{"on a CPU": style.BLUE, "not on a CPU": style.QUIET}
)


def _looks(seen: list[Looked]) -> str:
    return count(sum(row.looks for row in seen), "look")


def _title(row: dict[str, Any]) -> str:
    where = html.escape(f"{row['file']}:{row['line']}")
    return f"{percent(row['share'])} of the reading goes to {where}"


def _name(row: dict[Any, Any]) -> str:
    name = f"{row['file']}:{row['line']}"
    return html.escape(name if len(name) <= MOST_NAME else f"…{name[1 - MOST_NAME :]}")


def _names(stack: tuple[Frame, ...]) -> Iterator[tuple[str, str]]:
    """Of each box of a stack its name, and what is known of it; packages have one for all calls."""
    own = own_frames(stack)
    shown = stack[stack.index(own[0]) :] if own else ()
    for owner, group in groupby(shown, lambda frame: frame.owner):
        frames = [*group]
        if not owner:
            for frame in frames:
                name = f"{frame.function.rpartition('.')[2]}:{frame.line}"
                yield f"{name}  {frame.source}", f"{frame.file}:{frame.line} {frame.function}"
        else:
            last = frames[-1]
            about = f"{count(len(frames), 'frame')} of {owner}, the last {last.file}:{last.line}"
            yield owner, about


def _laid_out(box: Box, at_s: float, row: int, least_s: float) -> Iterator[tuple[Box, float, int]]:
    """Each box that is drawn, with where it begins and in which row."""
    yield box, at_s, row
    if row + 1 < MOST_ROWS:
        for inner in sorted(box.inner.values(), key=lambda each: -each.seconds):
            if inner.seconds >= least_s:
                yield from _laid_out(inner, at_s, row + 1, least_s)
            at_s += inner.seconds


_TEXT_INSIDE: Final = {
    "textposition": "inside",
    "insidetextanchor": "start",
    "constraintext": "none",
    "textangle": 0,
}


def _stacks(boxes: list[tuple[Box, float, int]], whole_s: float) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "base": [at_s for _, at_s, _ in boxes],
        "x": [box.seconds for box, _, _ in boxes],
        "y": [row for _, _, row in boxes],
        "width": 0.94,
        "marker": {"color": style.SKY, "line": {"width": 1, "color": style.EDGE}},
        **_TEXT_INSIDE,
        "text": [_fitting(box.name, box.seconds / whole_s) for box, _, _ in boxes],
        "insidetextfont": {"color": "#1b1f24", "size": 12},
        "hovertext": [_hover(box, whole_s) for box, _, _ in boxes],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _fitting(text: str, part: float) -> str:
    """As much of a text as that part of the width holds; nothing where its first word does not."""
    most = int(CHARACTERS * part)
    if len(text) > most:
        text = f"{text[: most - 1].rstrip()}…" if len(text.split(" ")[0]) < most else ""
    return html.escape(text)


def _hover(box: Box, whole_s: float) -> str:
    about = f"<br>{html.escape(box.about)}" if box.about else ""
    waited = percent(box.waited_s / (box.seconds or 1.0))
    share = percent(box.seconds / (whole_s or 1.0))
    numbers = f"{duration(box.seconds)}, {share} of the reading; the loop waited for {waited} of it"
    return f"<b>{html.escape(box.name)}</b>{about}<br>{numbers}"


def _waited(boxes: list[tuple[Box, float, int]]) -> dict[str, Any]:
    """At the foot of each box, what of it the loop waited for."""
    return {
        "type": "bar",
        "orientation": "h",
        "base": [at_s for _, at_s, _ in boxes],
        "x": [min(box.waited_s, box.seconds) for box, _, _ in boxes],
        "y": [row + 0.38 for _, _, row in boxes],
        "width": 0.18,
        "marker": {"color": style.WAIT, "line": {"width": 0}},
        "hoverinfo": "skip",
    }


def _inside(rows: Any) -> dict[str, Any]:
    """What the lines say whose bars are long, in these."""
    parts = (rows["seconds"] / rows["seconds"].max()).tolist()
    return {
        "type": "bar",
        "orientation": "h",
        "xaxis": "x2",
        "yaxis": "y2",
        "x": rows["seconds"].to_numpy(),
        "y": list(range(len(rows))),
        "width": 0.7,
        "marker": {"color": "rgba(0, 0, 0, 0)", "line": {"width": 0}},
        "text": [
            _fitting(source, part) if part > LONG else ""
            for source, part in zip(rows["source"], parts, strict=True)
        ],
        **_TEXT_INSIDE,
        "insidetextfont": {"color": "white", "size": 12},
        "hoverinfo": "skip",
    }


def _beside(rows: Any) -> Iterator[dict[str, Any]]:
    """What the other lines say, after their bars."""
    whole_s = float(rows["seconds"].max())
    for i, (source, seconds) in enumerate(zip(rows["source"], rows["seconds"], strict=True)):
        if seconds <= LONG * whole_s:
            text = _fitting(source, 1 - seconds / whole_s)
            yield {
                "text": text, "showarrow": False, "font": {"size": 12},
                "x": seconds, "xref": "x2", "xanchor": "left", "y": i, "yref": "y2",
            }  # fmt: skip


def _bars(rows: Any) -> Iterator[dict[str, Any]]:
    """The ten longest lines: a bar for their CPU time, and after it one for their waiting."""
    cpu_s = rows["cpu_s"].to_numpy()
    waits_s = rows["seconds"].to_numpy() - cpu_s
    sources = [html.escape(source) for source in rows["source"]]
    for base, seconds, colour, what in (
        (0 * cpu_s, cpu_s, style.BLUE, "on a CPU"),
        (cpu_s, waits_s, style.QUIET, "not on a CPU"),
    ):
        yield {
            "type": "bar",
            "orientation": "h",
            "xaxis": "x2",
            "yaxis": "y2",
            "base": base,
            "x": seconds,
            "y": list(range(len(rows))),
            "width": 0.7,
            "marker": {"color": colour, "line": {"width": 0}},
            "hovertext": [
                f"<b>{source}</b><br>{duration(each)} {what}"
                for source, each in zip(sources, seconds, strict=True)
            ],
            "hovertemplate": "%{hovertext}<extra></extra>",
        }
