"""All commands in one program, and how it ends."""

from __future__ import annotations

import os
import sys

import typer
from rich.console import Console
from rich.text import Text

from loaderviz.cli.check import check
from loaderviz.cli.compare import compare
from loaderviz.cli.doctor import doctor
from loaderviz.cli.recommend import recommend
from loaderviz.cli.summary import summary
from loaderviz.cli.top import top
from loaderviz.errors import LoaderVizError

BAD_INPUT = 2  # as the shell's own tools, and typer for a wrong option

app = typer.Typer(
    name="loaderviz",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog="Exit code: 0 all is well · 1 something was found · 2 bad input. "
    "Each command has a --help of its own.",
)
for command in (summary, doctor, recommend, compare, check, top):
    app.command()(command)


@app.callback()
def _about() -> None:
    """See what the PyTorch DataLoaders of a training run do."""


def main() -> None:
    """Run the command that ``sys.argv`` names, and exit with its code."""
    try:
        app()
    except LoaderVizError as error:
        Console(stderr=True, soft_wrap=True).print(Text(f"loaderviz: {error}"))
        raise SystemExit(BAD_INPUT) from None
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
