"""``loaderviz doctor``: looks for the known pitfalls of data loading in one loader."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from loaderviz._doctor import doctor as examine
from loaderviz._doctor.findings import DoctorError
from loaderviz.cli.loader_target import (
    ScriptArgs,
    Target,
    import_loader,
    script_arguments,
)
from loaderviz.cli.shared_options import EXIT_FOUND, AsJson, print_json
from loaderviz.text import printable


def doctor(
    target: Target,
    args: ScriptArgs = None,
    run: Annotated[
        bool, typer.Option("--run/--look", help="Run some epochs of the loader, or only look.")
    ] = True,
    budget_s: Annotated[
        float, typer.Option("--budget", metavar="SECONDS", help="How long it may take.")
    ] = 30.0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Also try whether training resumes in mid-epoch.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Look for the known pitfalls of data loading in a loader.

    A script's own arguments come after two dashes: loaderviz doctor train.py:main -- --data DIR

    Exit code: 0 nothing but advice, 1 an error or a warning, 2 the loader could not be examined.
    """
    failure = None
    with script_arguments(target, args):
        loader = import_loader(target)
        try:
            diagnosis = examine(loader, run=run, budget_s=budget_s, resume=resume)
        except DoctorError as error:
            diagnosis, failure = error.partial, error
    if as_json:
        print_json({"verdict": diagnosis.verdict, **dataclasses.asdict(diagnosis)})
    elif failure is None:
        typer.echo(printable(diagnosis))
    if failure is not None:
        raise failure
    if any(finding.severity != "advice" for finding in diagnosis):
        raise typer.Exit(EXIT_FOUND)
