"""A report: one page that says what limits a recorded run, and what to do.

``content_of(trace)`` works out what there is to say, as data; ``write(trace, path)`` makes the
page, which needs no network and no kernel. What the trace holds of the user's is only ever text.
"""

from __future__ import annotations

import os

from loaderviz.report.render_page import page_of
from loaderviz.report.report_content import Content, content_of
from loaderviz.trace import Trace
from loaderviz.trace.atomic_file import replacing

__all__ = ["Content", "content_of", "write"]


def write(trace: Trace, path: str | os.PathLike[str]) -> Content:
    """Write the report of a trace to one HTML file; returns what it says.

    A file that is there already is replaced, at once and only when all is written.

    Raises:
        LoaderVizError: where the file cannot be written.
    """
    content = content_of(trace)
    page = page_of(content).encode("utf-8", "replace")  # a name may be no Unicode
    with replacing(path, "loaderviz report", "write the report") as file:
        file.write(page)
    return content
