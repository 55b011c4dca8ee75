"""Renders the content of a report as one HTML page, with its figures and tables.

All text goes through a template that escapes it, and all data through ``_json_for_script``. The
page's Content-Security-Policy lets only its own two scripts run, by their hashes, and forbids it to
fetch anything.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from loaderviz import web
from loaderviz._doctor import need_the_loader
from loaderviz._explain import explanation_html
from loaderviz.errors import LoaderVizError
from loaderviz.figures.display import CONFIG, Figure, figure_script
from loaderviz.figures.results import causes_figure
from loaderviz.figures.results.lines_figure import lines
from loaderviz.figures.results.memory_figure import memory
from loaderviz.figures.results.run_figure import FLAGS_PX, run
from loaderviz.figures.results.starts_figure import KEY_PX, starts
from loaderviz.figures.results.waits_figure import waits
from loaderviz.figures.timelines import timeline
from loaderviz.report.report_content import MOST_SHAPES, Content, key_text
from loaderviz.text import count, duration, percent, rate, size
from loaderviz.trace.loaders_as_one import as_one
from loaderviz.trace.loading import load
from loaderviz.why.causes.cause_texts import first_causes, saves_text
from loaderviz.why.causes.costly_lines import saves_words

PARTS: Final = (
    *("waits", "workers", "ranks", "loaders", "findings", "prediction", "audits"),
    *("loader_names", "causes", "lines", "shapes", "about", "actions"),
)
TOP_PX: Final = 14  # margin above a figure, whose title is the page's own heading
LABELS_PX: Final = 34  # the same above a figure that has labels there
MOST_ROWS: Final = 64  # of a table
MOST_DRAWN: Final = 200_000  # samples in an audit's figure
MOST_INCIDENTS_DRAWN: Final = 10  # with a timeline
BEFORE_S, AFTER_S = 5.0, 10.0  # of the beginning of an incident, that its timeline shows at first
N_ACTIONS: Final = 3  # shown at the top
MOST_LOADERS: Final = 8  # in a table, and of those that are audited: the others are folded


@dataclass(frozen=True)
class PageFigure:
    """A figure as the page draws it: its title and numbers are text beside it, not in it.

    ``plotly`` is what ``Plotly.newPlot`` takes: ``data``, ``layout`` and ``config``.
    """

    name: str
    title: str
    numbers: str
    height_px: int
    plotly: dict[str, Any]


def page_of(content: Content) -> str:
    """The whole page of a report, as HTML; figures that cannot be drawn are left out."""
    for name in PARTS:
        getattr(content, name)  # worked out now, so that any place of the page can say if it failed
    figures = {figure.name: figure for figure in _figures(content)}
    scripts = [web.plotly_script(), f"{figure_script()}\n{web.script('report_page')}"]
    first = first_causes(content.causes)
    page: str = _template().render(
        content=content,
        trace=content.trace,
        figures=figures,
        parts=_parts_of_time(content),
        n_actions=N_ACTIONS,
        first_causes=first,
        other_causes=[row for row in content.causes if row not in first],
        audits=sorted(content.audits, key=lambda audit: not audit.is_wrong),
        most_loaders=MOST_LOADERS,
        most_about=len(content.about) - max(0, len(content.loaders) - MOST_LOADERS),
        most_rows=MOST_ROWS,
        most_shapes=MOST_SHAPES,
        candidates=_shown_candidates(content),
        need_the_loader=need_the_loader(),
        explained=lambda code: Markup(explanation_html(code)),
        policy=_policy(scripts),
        style=Markup(web.style("report_page")),
        scripts=[Markup(script) for script in scripts],
        data=_json_for_script({name: figure.plotly for name, figure in figures.items()}),
    )
    return page


def _figures(content: Content) -> Iterator[PageFigure]:
    trace, summary = content.trace, content.summary
    makers: list[tuple[str, Callable[[], Any], int]] = [
        ("timeline", lambda: timeline.draw(trace, summary), TOP_PX),
        ("causes", lambda: causes_figure.draw(trace, summary), LABELS_PX),
        ("waits", lambda: waits(trace), TOP_PX),
        ("memory", lambda: memory(trace), TOP_PX),
    ]
    if trace.meta.get("windows") and (trace.meta.get("begins_s") or content.incidents):
        makers.append(("run", lambda: run(trace), TOP_PX + FLAGS_PX))
    for row in [row for row in content.incidents if row["path"]][:MOST_INCIDENTS_DRAWN]:
        makers.append((row["name"], functools.partial(_incident_timeline, row), TOP_PX))
    if any(row["cause"] in ("start", "restart") for row in content.costly_causes):
        makers.append(("starts", lambda: starts(trace), KEY_PX))
    if content.lines:
        makers.append(("lines", lambda: lines(trace), TOP_PX))
    recommendation = content.prediction.recommendation
    if recommendation is not None:
        makers.append(("candidates", recommendation.figure, LABELS_PX))
    for loader_audit in content.audits:
        if loader_audit.mixing is not None:
            makers.append((f"mixing-{loader_audit.loader}", loader_audit.mixing.figure, TOP_PX))
        audit = loader_audit.audit
        if audit is None or audit.exactly_once is not False:
            continue
        if len(audit.deliveries) <= MOST_DRAWN:
            makers.append((f"audit-{loader_audit.loader}", audit.figure, TOP_PX))
    for name, make_figure, top_px in makers:
        work_out = functools.partial(_page_figure, name, make_figure, top_px, summary.numbers)
        figure = content.part(f"figure of {name}", work_out, None)
        if figure is not None:
            yield figure


def _incident_timeline(row: dict[str, Any]) -> Figure:
    """What an incident saved, from shortly before it began."""
    trace = as_one(load(row["path"]))
    begun_s = row["start_s"] - (trace.meta.get("begins_s") or 0.0)
    figure = timeline.draw(trace, trace.summary())
    first_s, last_s = figure.layout.xaxis.range
    shown = max(begun_s - BEFORE_S, first_s), min(begun_s + AFTER_S, last_s)
    figure.layout.xaxis.range = shown if shown[0] < shown[1] else (first_s, last_s)
    return figure


def _page_figure(
    name: str, make_figure: Callable[[], Any], top_px: int, shown_numbers: str
) -> PageFigure | None:
    """The figure without its title; numbers that the page already shows are not repeated.

    None where there is nothing to draw: the text beside it says so.
    """
    try:
        figure = make_figure()
    except LoaderVizError:
        return None
    plotly = json.loads(figure.to_json())
    layout = plotly["layout"]
    title = layout.pop("title")
    layout["height"] -= layout["margin"]["t"] - top_px
    layout["margin"]["t"] = top_px
    title_text = str(title["text"]).replace("<b>", "").replace("</b>", "")
    shown = shown_numbers.split(" · ")
    numbers = str(title["subtitle"]["text"]).split(" · ")
    new_numbers = " · ".join(number for number in numbers if number not in shown)
    content = {"data": plotly["data"], "layout": layout, "config": CONFIG}
    return PageFigure(name, title_text, new_numbers, layout["height"], content)


def _parts_of_time(content: Content) -> list[dict[str, Any]]:
    """What the consumer spent its time on, in seconds and as shares of the whole."""
    summary = content.summary
    later_s = summary.wait_s - summary.first_wait_s
    parts = [
        ("step", "in steps", summary.step_s),
        ("wait", "waiting for batches", later_s),
        ("first", "waiting for first batches of epochs", summary.first_wait_s),
        ("start", "starting and ending workers", summary.startup_s),
    ]
    total_s = summary.elapsed_s or 1.0
    return [
        {"kind": kind, "name": name, "seconds": seconds, "share": seconds / total_s}
        for kind, name, seconds in parts
        if seconds > 0
    ]


def _shown_candidates(content: Content) -> list[dict[str, Any]]:
    """The bounds by number of workers."""
    recommendation = content.prediction.recommendation
    if recommendation is None:
        return []
    shown = recommendation.candidates.sort_values("num_workers")
    rows = shown.astype(object).where(shown.notna(), None).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]


def _json_for_script(value: Any) -> Markup:
    """JSON for a script element, which no text in it can close (WHATWG HTML, 4.12.1.3)."""
    text = json.dumps(value)  # in ASCII, so without Unicode's line separators
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _policy(scripts: list[str]) -> str:
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'"
    )


@functools.cache
def _template() -> Any:
    """The page's template, with filters that write numbers and keys as text."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "duration": duration,
        "percent": percent,
        "size": size,
        "rate": rate,
        "key": key_text,
        "saves": saves_text,
        "half_saves": saves_words,
    }
    template = files("loaderviz.report").joinpath("report_page.html").read_text("utf-8")
    environment.globals["count"] = count
    return environment.from_string(template)
