"""``loaderviz export``: a trace for other programs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from loaderviz.cli.shared_options import TracePath
from loaderviz.errors import LoaderVizError
from loaderviz.trace import export_csv, load


class Format(StrEnum):
    perfetto = "perfetto"
    csv = "csv"


def export(
    trace: TracePath,
    to: Annotated[Format, typer.Option(help="What to write.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Where to: a file ending in .json or .json.gz, or a folder for CSV. By default "
            "beside the trace, under its name.",
            show_default=False,
        ),
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(
            "--with",
            metavar="PROFILE",
            help="A trace of torch.profiler of the same run: both in one file, on one time axis.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write a trace for Perfetto and chrome://tracing, or as CSV tables."""
    found = load(trace)
    name = trace.resolve().with_suffix("") if trace.is_file() else trace.resolve()
    if to is Format.csv:
        if profile is not None:
            raise LoaderVizError("--with goes with --to perfetto: a profile is no table")
        paths = export_csv.write(found, out or name.with_name(f"{name.name}-csv"))
    else:
        paths = [out or name.with_name(f"{name.name}.json.gz")]
        found.to_perfetto(paths[0], profile=profile)
    for path in paths:
        typer.echo(str(path))
