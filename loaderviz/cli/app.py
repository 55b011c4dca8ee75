"""All commands in one program, and how it ends."""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module
from typing import NoReturn

import typer
from rich.text import Text

from loaderviz.cli.shared_options import printable, terminal
from loaderviz.errors import LoaderVizError

BAD_INPUT = 2  # as the shell's own tools, and typer for a wrong option

# Each is the function of this name in the module of this name.
COMMANDS = ("run", "summary", "report", "doctor", "recommend", "compare", "check", "export", "top")
# What follows the name of a script is the script's, options too.
OF_A_SCRIPT = {"allow_interspersed_args": False}


def _app() -> typer.Typer:
    app = typer.Typer(
        name="loaderviz",
        callback=_about,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        epilog="Exit code: 0 all is well · 1 something was found · 2 bad input. "
        "Each command has a --help of its own.",
    )
    for name in _asked_for():
        command = getattr(import_module(f"loaderviz.cli.{name}"), name)
        app.command(context_settings=OF_A_SCRIPT if name == "run" else None)(command)
    return app


def _asked_for() -> tuple[str, ...]:
    """The one command that is called, if it is one: others may need torch, which takes seconds."""
    called = tuple(sys.argv[1:2])
    return called if called and called[0] in COMMANDS else COMMANDS


def _about() -> None:
    """See what the PyTorch DataLoaders of a training run do."""


def main() -> None:
    """Run the command that ``sys.argv`` names, and exit with its code."""
    try:
        _app()()
    except LoaderVizError as error:
        _say(error)
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _say(error)


def _say(error: Exception) -> NoReturn:
    terminal(stderr=True).print(Text(printable(f"loaderviz: {error}")))
    raise SystemExit(BAD_INPUT) from None
