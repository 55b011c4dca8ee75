"""``loaderviz run``: runs a script as it is, and records every DataLoader."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from loaderviz._run.start_script import start
from loaderviz.argument_checks import LEAST_LAST_S, seconds_of
from loaderviz.errors import LoaderVizError


def run(
    target: Annotated[
        str,
        typer.Argument(
            metavar="SCRIPT", help="The script, or with -m the module.", show_default=False
        ),
    ],
    args: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGS", help="The script's arguments.", show_default=False),
    ] = None,
    module: Annotated[
        bool, typer.Option("-m", "--module", help="SCRIPT is a module, as for python -m.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where to record: a new or empty folder. By default loaderviz-run-DATE-TIME.",
            show_default=False,
        ),
    ] = None,
    join: Annotated[
        bool,
        typer.Option(
            "--join", help="DIR holds recordings of this same run, say from other machines."
        ),
    ] = False,
    lines: Annotated[
        bool,
        typer.Option("--lines", help="Also look which lines of code read the samples (Linux)."),
    ] = False,
    last: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Leave it on: keep the last TIME in full, such as 10min or 90s, and of the whole "
            "run a row a minute.",
            show_default=False,
        ),
    ] = None,
    max_spans: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Write down at most N samples a process, and all batches. By default 10 million.",
            show_default=False,
        ),
    ] = None,
    max_bytes: Annotated[
        int | None,
        typer.Option(
            min=1 << 20,  # as in record(), which would have to import torch
            metavar="N",
            help="Bytes that the files of each process and its workers may take, 1 MiB or more: "
            "past them the latest is kept. By default there is no limit.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run a script unchanged and record every DataLoader that it iterates.

    This records the script's own process and each Python process it starts
    that iterates a DataLoader: ranks of torchrun and mp.spawn, subprocesses.
    A loader of another kind is recorded where the script says so, with
    loaderviz.record(loader).
    Options of this command come before SCRIPT, the script's after it:

      loaderviz run train.py --epochs 3
      loaderviz run -m torch.distributed.run --nproc-per-node 4 train.py
      torchrun --nproc-per-node 4 -m loaderviz run --out DIR train.py

    Output, signals and exit code are the script's own; at its end one line on
    stderr says what was recorded. Ctrl-C or a kill does not lose it.

    Exit code: the script's; 2 for bad input, before the script has started.
    """
    last_s = None if last is None else seconds_of("--last", last)
    if last_s is not None and last_s < LEAST_LAST_S:
        raise LoaderVizError(f"--last {last}: give {LEAST_LAST_S} seconds or more")
    limits: dict[str, Any] = {"max_spans": max_spans, "max_bytes": max_bytes, "last_s": last_s}
    limits["lines"] = lines or None
    start(
        target,
        args or [],
        module=module,
        folder=out,
        join=join,
        limits={name: limit for name, limit in limits.items() if limit is not None},
    )
