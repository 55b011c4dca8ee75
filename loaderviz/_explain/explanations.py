"""The pages, one Markdown file for each code. Their form is a contract, which a test holds.

A code is one of the doctor's, as LV101, or of a line of code that is known to cost much, as
line-iloc. A page has its code and title, then severity and notebook, then a text; under ``##``
follow how the pitfall is found, what it costs, code that has it and code that has not, and the
threads of people who met it. Below a heading is one paragraph, one block of Python, or one list of
links.
"""

from __future__ import annotations

import difflib
import html
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, cast

from loaderviz.errors import LoaderVizError

PAGES = Path(__file__).parent / "pages"
_CODE = re.compile(r"```python\n(.*?)\n```", re.DOTALL)

Severity = Literal["error", "warning", "advice"]


@dataclass(frozen=True)
class About:
    """What the head and the foot of a page say of its pitfall.

    Attributes:
        title: the pitfall in one line.
        severity: see ``loaderviz._doctor.Finding``.
        notebook: number and name of the notebook that shows it.
        links: the threads where people met it.
    """

    title: str
    severity: Severity
    notebook: str
    links: tuple[str, ...]


@cache
def codes() -> tuple[str, ...]:
    """All codes that have a page, sorted."""
    return tuple(sorted(path.stem for path in PAGES.glob("*.md")))


def explanation(code: str) -> str:
    """The page of this code, as Markdown; raises LoaderVizError if there is none."""
    by_name = {each.lower(): each for each in codes()}
    name = by_name.get(code.lower())
    if name is None:
        near = [by_name[each] for each in difflib.get_close_matches(code.lower(), by_name, n=3)]
        like = f" Did you mean {', '.join(near)}?" if near else ""
        raise LoaderVizError(f"There is no code {code}.{like} `loaderviz explain` lists them all.")
    return (PAGES / f"{name}.md").read_text("utf-8")


def title_of(code: str) -> str:
    """The pitfall in one line, as in the doctor's finding."""
    return about(code).title


@cache
def about(code: str) -> About:
    """What the page of this code says of it; raises LoaderVizError if there is no page."""
    title, _, head, *others = explanation(code).splitlines()
    severity, _, notebook = head.removeprefix("Severity: ").removesuffix(".").partition(". ")
    return About(
        title.partition(": ")[2],
        cast("Severity", severity),
        notebook.removeprefix("Notebook: "),
        tuple(re.findall(r"^- <(.*)>$", "\n".join(others), re.MULTILINE)),
    )


def explanation_html(code: str) -> str:
    """The page of this code as HTML, closed: one ``<details>``, to be folded under its finding.

    The finding has the title, the notebook and the threads itself.
    """
    text, *sections = explanation(code).split("\n## ")
    parts = [_paragraph(text.split("\n\n", 2)[2])]
    for section in sections:
        heading, _, body = section.partition("\n")
        block = _CODE.search(body)
        if block is not None:
            shown = f"<pre><code>{html.escape(block[1])}</code></pre>"
        elif body.lstrip().startswith("- "):
            continue  # the threads
        else:
            shown = _paragraph(body)
        parts.append(f"<p><b>{html.escape(heading)}</b></p>{shown}")
    return (
        f'<details class="explained"><summary>What {code} means</summary>{"".join(parts)}</details>'
    )


def _paragraph(text: str) -> str:
    return "<p>" + re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text.strip())) + "</p>"
