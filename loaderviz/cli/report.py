"""``loaderviz report``: one page about a recorded run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loaderviz.cli.shared_options import AsJson, TracePath, print_json, printable
from loaderviz.trace import load


def report(
    trace: TracePath,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page to write.")] = Path(
        "report.html"
    ),
    as_json: AsJson = False,
) -> None:
    """Write one HTML page that says what limits a recorded run, and what to do.

    The page holds all that it needs and asks no network for anything. With --json the same is
    printed as data, and no page is written.
    """
    from loaderviz.report import content_of, write  # plotly, only where a page is wanted

    found = load(trace)
    if as_json:
        print_json(content_of(found).data())
        return
    said = write(found, out)
    typer.echo(printable(said.summary.verdict))
    typer.echo(str(out))
