"""What several commands ask for, and how they print."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

WIDE = 120  # columns of a file or a pipe: no number of a table is cut
FOUND = 1  # exit code: the command did its work, and what it looked for is there

TracePath = Annotated[
    Path,
    typer.Argument(
        metavar="TRACE",
        help="A saved trace, the folder of a recording, or that of a run of many ranks.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def printable(text: object) -> str:
    """What is shown of a text: names come from the recorded program, and command no terminal."""
    shown = str(text).encode("utf-8", "backslashreplace").decode()
    return "".join(
        each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in shown
    )


def print_json(value: Any, indent: int | None = 2) -> None:
    """One JSON document to stdout, in one line without ``indent``; no finite number is null."""
    typer.echo(json.dumps(_plain(value), indent=indent, allow_nan=False))


class _Terminal(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would exit with 1, which says that something was found


def terminal(*, stderr: bool = False) -> Console:
    """For tables; text on it is to go through ``printable``."""
    console = _Terminal(stderr=stderr, soft_wrap=stderr)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDE
    return console


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "item"):  # numpy's
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
