"""``loaderviz report``: writes one page about a recorded run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loaderviz.cli.shared_options import AsJson, TracePath, exit_in_part, print_json
from loaderviz.text import printable
from loaderviz.trace import load


def report(
    trace_path: TracePath,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page to write.")] = Path(
        "report.html"
    ),
    as_json: AsJson = False,
) -> None:
    """Write one HTML page that says what limits a recorded run, and what to do.

    The page holds all that it needs and uses no network. With --json the same is printed as
    data, and no page is written.
    """
    from loaderviz.report import content_of, write  # plotly, only where a page is wanted

    trace = load(trace_path)
    if as_json:
        content = content_of(trace)
        print_json(content.data())
    else:
        content = write(trace, out)
        typer.echo(printable(content.summary.verdict))
        typer.echo(printable(out))
    for failure in content.failed_parts:
        typer.echo(printable(f"{failure}."), err=True)
    exit_in_part(content.failed_parts)
