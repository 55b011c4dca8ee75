"""From the content of a report to its page: figures, words and tables in one HTML text.

All text goes through a template that escapes it, all data through ``_in_script``; and the page's
own policy (Content-Security-Policy) lets no script run but the two that are its own, by their hash,
and nothing be fetched.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from loaderviz import web
from loaderviz._doctor import need_the_loader
from loaderviz.errors import LoaderVizError
from loaderviz.figures.display import CONFIG, figure_script
from loaderviz.figures.results.memory_figure import memory
from loaderviz.figures.results.waits_figure import waits
from loaderviz.figures.timelines.timeline import timeline
from loaderviz.report.report_content import Content, key_text
from loaderviz.text import count, duration, percent, rate, size

TOP_PX = 14  # above a figure whose title is the page's own heading
LABELS_PX = 34  # ... and that has labels there
MOST_ROWS = 64  # of a table
MOST_DRAWN = 200_000  # samples of an audit's figure
SHOWN_ACTIONS = 3


@dataclass(frozen=True)
class Drawn:
    """A figure as the page draws it, without its title."""

    name: str
    title: str
    numbers: str
    height: int
    content: dict[str, Any]


def page_of(content: Content) -> str:
    """The whole page."""
    figures = {each.name: each for each in _figures(content)}
    scripts = [get_plotlyjs(), f"{figure_script()}\n{web.script('report_page')}"]
    drawn = {name: each.content for name, each in figures.items()}
    page: str = _template().render(
        content=content,
        trace=content.trace,
        figures=figures,
        parts=_time_of(content),
        shown_actions=SHOWN_ACTIONS,
        most_rows=MOST_ROWS,
        candidates=_candidates(content),
        need_the_loader=need_the_loader(),
        policy=_policy(scripts),
        style=Markup(web.style("report_page")),
        scripts=[Markup(each) for each in scripts],
        data=_in_script(drawn),
    )
    return page


def _figures(content: Content) -> Iterator[Drawn]:
    trace = content.trace
    makers: list[tuple[str, Callable[[], Any], int]] = [
        ("timeline", lambda: timeline(trace), TOP_PX),
        ("waits", lambda: waits(trace), TOP_PX),
        ("memory", lambda: memory(trace), TOP_PX),
    ]
    found = content.prediction.found
    if found is not None:
        makers.append(("candidates", found.figure, LABELS_PX))
    for each in content.audits:
        audit = each.found
        if audit is None or audit.exactly_once is not False:
            continue
        if len(audit.deliveries) <= MOST_DRAWN:
            makers.append((f"audit-{each.loader}", audit.figure, TOP_PX))
    for name, make, top_px in makers:
        try:
            figure = make()
        except LoaderVizError:  # nothing to draw: the words beside it say so
            continue
        yield _bare(name, figure, top_px, content.summary.numbers)


def _bare(name: str, figure: Any, top_px: int, said: str) -> Drawn:
    """``said``: numbers that the page has told before."""
    made = json.loads(figure.to_json())
    layout = made["layout"]
    title = layout.pop("title")
    layout["height"] -= layout["margin"]["t"] - top_px
    layout["margin"]["t"] = top_px
    plain = str(title["text"]).replace("<b>", "").replace("</b>", "")
    numbers = str(title["subtitle"]["text"]).split(" · ")
    new = " · ".join(each for each in numbers if each not in said.split(" · "))
    content = {"data": made["data"], "layout": layout, "config": CONFIG}
    return Drawn(name, plain, new, layout["height"], content)


def _time_of(content: Content) -> list[dict[str, Any]]:
    """The consumer's time, part by part."""
    summary = content.summary
    later_s = summary.wait_s - summary.first_wait_s
    parts = [
        ("step", "in steps", summary.step_s),
        ("wait", "waiting for batches", later_s),
        ("first", "waiting for first batches of epochs", summary.first_wait_s),
        ("start", "starting workers", summary.startup_s),
    ]
    whole = summary.elapsed_s or 1.0
    return [
        {"kind": kind, "name": name, "seconds": seconds, "share": seconds / whole}
        for kind, name, seconds in parts
        if seconds > 0
    ]


def _candidates(content: Content) -> list[dict[str, Any]]:
    """A few of the settings that were tried: the best for each number of workers, and what is."""
    found = content.prediction.found
    if found is None:
        return []
    table = found.candidates
    best = table.drop_duplicates("num_workers").index
    marked = table.index[table["present"] | table["recommended"]]
    rows = table.loc[sorted({*best, *marked})].sort_values(["num_workers", "samples_per_s"])
    shown = rows.astype(object).where(rows.notna(), None).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in shown]


def _in_script(value: Any) -> Markup:
    """JSON that no text in it can end, wherever it comes from (WHATWG HTML, 4.12.1.3)."""
    text = json.dumps(value)  # in ASCII: no line separator of Unicode either
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return Markup(text)


def _policy(scripts: list[str]) -> str:
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()}'"
        for each in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'"
    )


@functools.cache
def _template() -> Any:
    """The page's template, with the filters that write numbers."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "duration": duration,
        "percent": percent,
        "size": size,
        "rate": rate,
        "key": key_text,
    }
    template = files("loaderviz.report").joinpath("report_page.html").read_text("utf-8")
    environment.globals["count"] = count
    return environment.from_string(template)
