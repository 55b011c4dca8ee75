"""``loaderviz export``: writes a trace for other programs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from loaderviz.cli.shared_options import TracePath
from loaderviz.errors import LoaderVizError
from loaderviz.export import export_csv, stacks_file
from loaderviz.text import printable
from loaderviz.trace import load


class _Format(StrEnum):
    perfetto = "perfetto"
    csv = "csv"
    speedscope = "speedscope"
    collapsed = "collapsed"


_STACKS = {
    _Format.speedscope: ("speedscope.json", stacks_file.write_speedscope),
    _Format.collapsed: ("collapsed.txt", stacks_file.write_collapsed),
}


def export(
    trace_path: TracePath,
    to: Annotated[_Format, typer.Option(help="What to write.", show_default=False)],
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
    """Write a trace for Perfetto and chrome://tracing, or as CSV tables.

    Of a recording with lines of code, --to speedscope and --to collapsed write
    the stacks in which samples were read, for speedscope.app and flame graphs.
    """
    trace = load(trace_path)
    base = trace_path.resolve()
    if trace_path.is_file():
        base = base.with_suffix("")
    if profile is not None and to is not _Format.perfetto:
        raise LoaderVizError(f"--with needs --to perfetto: {to} has no room for a profile")
    if to is _Format.csv:
        paths = export_csv.write(trace, out or base.with_name(f"{base.name}-csv"))
    elif to in _STACKS:
        suffix, write = _STACKS[to]
        paths = [out or base.with_name(f"{base.name}.{suffix}")]
        write(trace, paths[0])
    else:
        paths = [out or base.with_name(f"{base.name}.json.gz")]
        trace.to_perfetto(paths[0], profile=profile)
    for path in paths:
        typer.echo(printable(path))
