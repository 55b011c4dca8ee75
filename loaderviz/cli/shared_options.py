"""The arguments and options that several commands share, and how commands print."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

PIPE_COLUMNS = 120  # for a file or a pipe: wide enough to cut no number of a table
MOST_SHOWN = 12  # rows of one kind, and calls of a stack: more do not fit on a screen
EXIT_FOUND = 1  # the command did its work, and what it looks for is there
EXIT_IN_PART = 3  # a part of the answer could not be worked out: the rest was

TracePath = Annotated[
    Path,
    typer.Argument(
        metavar="TRACE",
        help="A saved trace, the folder of a recording, or that of a run of many ranks.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def print_json(value: Any, indent: int | None = 2) -> None:
    """Print one JSON document, on one line where ``indent`` is None; NaN and infinity are null."""
    typer.echo(json.dumps(_json_value(value), indent=indent, allow_nan=False))


def exit_in_part(failed_parts: Collection[str]) -> None:
    """Exit with EXIT_IN_PART where something failed, after the rest has been printed."""
    if failed_parts:
        raise typer.Exit(EXIT_IN_PART)


class _Terminal(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would exit with 1, which means that something was found


def terminal(*, stderr: bool = False) -> Console:
    """A console to print tables on; texts in them must go through ``printable`` first."""
    console = _Terminal(stderr=stderr, soft_wrap=stderr, force_jupyter=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPE_COLUMNS
    return console


def _json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    if hasattr(value, "item"):  # numpy's
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
