"""A report: one page that says what limits a recorded run, and what to do.

``content_of(trace)`` works out what there is to say, as data; ``write(trace, path)`` makes the
page, which needs no network and no kernel. What the trace holds of the user's is only ever text.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from loaderviz.errors import LoaderVizError
from loaderviz.report.content import Content, content_of
from loaderviz.report.page import page_of
from loaderviz.trace import Trace

__all__ = ["Content", "content_of", "write"]


def write(trace: Trace, path: str | os.PathLike[str]) -> Content:
    """Write the report of a trace to one HTML file; returns what it says.

    A file that is there already is replaced, at once and only when all is written.

    Raises:
        LoaderVizError: where the file cannot be written.
    """
    content = content_of(trace)
    place = Path(path)
    part = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
    try:
        part.write_bytes(page_of(content).encode("utf-8", "replace"))  # a name may be no Unicode
        part.replace(place)
    except OSError as error:
        raise LoaderVizError(f"cannot write the report to {str(place)!r}: {error}") from error
    finally:
        part.unlink(missing_ok=True)
    return content
