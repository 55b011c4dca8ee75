"""A page as HTML, to be folded under a finding, which has the title, notebook and links itself."""

from __future__ import annotations

import html
import re

from loaderviz._explain.explanations import explanation

_CODE = re.compile(r"```python\n(.*?)\n```", re.DOTALL)


def explanation_html(code: str) -> str:
    """The page of this code, closed: one ``<details>``."""
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
