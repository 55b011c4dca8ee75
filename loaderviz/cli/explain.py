"""``loaderviz explain``: what a code of the doctor, or of a costly line, means: a page each."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markdown import Markdown

from loaderviz._explain import codes, explanation, title_of
from loaderviz.cli.shared_options import terminal


def explain(
    code: Annotated[
        str | None, typer.Argument(metavar="CODE", help="Such as LV101; all if left out.")
    ] = None,
) -> None:
    """Explain a code of the doctor, or of a line of code that is known to cost much.

    How it is found, what it costs, and what cures it. Without a code, it lists
    all of them.
    """
    if code is None:
        for each in codes():
            typer.echo(f"{each}  {title_of(each)}")
        return
    page = explanation(code)
    console = terminal()
    if console.is_terminal:
        console.print(Markdown(page))
    else:
        typer.echo(page, nl=False)
