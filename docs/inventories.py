"""Writes an inventory for each project of ``known_names.txt``, in the format that Sphinx reads.

Four lines of text, then an object a line, compressed
(https://sphobjinv.readthedocs.io/en/stable/syntax.html).
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import NamedTuple

NAMES = Path(__file__).with_name("known_names.txt")
SITES = {
    "pandas": "https://pandas.pydata.org/docs/",
    "plotly": "https://plotly.com/python-api-reference/",
    "python": "https://docs.python.org/3/",
    "torch": "https://docs.pytorch.org/docs/stable/",
}


class Known(NamedTuple):
    """A name of another project, and where its documentation has it."""

    project: str
    role: str
    name: str
    page: str


def known_names() -> list[Known]:
    lines = NAMES.read_text("utf-8").splitlines()
    return [Known(*line.split()) for line in lines if line and not line.startswith("#")]


def write_inventories(into: Path) -> dict[str, tuple[str, str]]:
    """Write them, and return what ``intersphinx_mapping`` is."""
    into.mkdir(parents=True, exist_ok=True)
    mapping = {}
    for project, site in SITES.items():
        rows = [
            f"{known.name} py:{known.role} 1 {known.page} -\n"
            for known in known_names()
            if known.project == project
        ]
        head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n"
        head += "# The remainder of this file is compressed using zlib.\n"
        path = into / f"{project}.inv"
        path.write_bytes(head.encode() + zlib.compress("".join(rows).encode()))
        mapping[project] = (site, str(path))
    return mapping
