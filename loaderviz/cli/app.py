"""``main``: the program of all commands, and how it exits."""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module
from typing import NoReturn

import typer
from rich.text import Text

from loaderviz.cli.shared_options import terminal
from loaderviz.errors import LoaderVizError, error_text, line_of_user, traceback_of_user
from loaderviz.text import printable

EXIT_BAD_INPUT = 2  # as of the shell's own tools, and of typer for a wrong option

# Each is a function in the module of its own name.
COMMANDS = (
    "notebooks",
    "run",
    "summary",
    "lines",
    "report",
    "audit",
    "doctor",
    "explain",
    "recommend",
    "compare",
    "check",
    "export",
    "top",
    "stuck",
)
# What follows the name of a script belongs to the script, options too.
SCRIPT_CONTEXT = {"allow_interspersed_args": False}


def _build_app() -> typer.Typer:
    app = typer.Typer(
        name="loaderviz",
        callback=_describe_program,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        epilog="Exit code: 0 all is well · 1 something was found · 2 bad input · "
        "3 a part of the answer could not be worked out. "
        "Each command has a --help of its own.",
    )
    for name in _commands_to_load():
        command = getattr(import_module(f"loaderviz.cli.{name}"), name)
        app.command(context_settings=SCRIPT_CONTEXT if name == "run" else None)(command)
    return app


def _commands_to_load() -> tuple[str, ...]:
    """The command that is called, else all: some import torch, which takes seconds."""
    called = tuple(sys.argv[1:2])
    return called if called and called[0] in COMMANDS else COMMANDS


def _describe_program() -> None:
    """See what the PyTorch DataLoaders of a training run do."""


def main() -> None:
    """Run the command that ``sys.argv`` names, and exit with its code."""
    try:
        _build_app()()
    except LoaderVizError as error:
        _exit_with(error)
    except BrokenPipeError:  # `| head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            _exit_with(error)
        if not line_of_user(error):
            raise
        terminal(stderr=True).print(Text(printable(f"loaderviz: {error_text(error)}\n")))
        sys.stderr.write(traceback_of_user(error))
        raise SystemExit(EXIT_BAD_INPUT) from None


def _exit_with(error: Exception) -> NoReturn:
    terminal(stderr=True).print(Text(printable(f"loaderviz: {error}")))
    raise SystemExit(EXIT_BAD_INPUT) from None
