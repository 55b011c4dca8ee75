"""A report: one page that says what limits a recorded run, and what to do.

``content_of(trace)`` gathers what there is to say, as data; ``write(trace, path)`` makes the page,
which needs no network and no kernel. Names and texts that come from the trace are only ever text,
never markup.
"""

from __future__ import annotations

import os

from loaderviz.report.render_page import page_of
from loaderviz.report.report_content import Content, content_of
from loaderviz.trace import Trace
from loaderviz.trace.atomic_file import replacing

__all__ = ["Content", "content_of", "write"]


def write(trace: Trace, path: str | os.PathLike[str]) -> Content:
    """Write the report of a trace to one HTML file, and return what it says.

    A file that is already there is replaced in one step, after the whole report has been written.

    Raises:
        LoaderVizError: if the file cannot be written.
    """
    content = content_of(trace)
    page = page_of(content).encode("utf-8", "replace")  # a name may not be valid Unicode
    with replacing(path, "loaderviz report", "write the report") as file:
        file.write(page)
    return content
