"""``loaderviz recommend``: the settings that a loader should have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from loaderviz._recommend import Recommendation
from loaderviz._recommend import recommend as advise
from loaderviz.cli.loader_target import chatter_to_stderr, loader_of
from loaderviz.cli.shared_options import AsJson, print_json, printable, terminal
from loaderviz.text import percent, rate
from loaderviz.trace import load


def recommend(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:NAME|TRACE",
            help="A loader, as pkg.module:make_loader or train.py:make_loader, which is then run "
            "for a few seconds; or a recording, from which all is predicted.",
            show_default=False,
        ),
    ],
    step_s: Annotated[
        float | None,
        typer.Option("--step", metavar="SECONDS", help="What the model takes for a batch."),
    ] = None,
    epochs: Annotated[int, typer.Option(help="How often the loop goes through the loader.")] = 1,
    max_workers: Annotated[
        int | None, typer.Option(help="The most workers to try; without it, twice the CPUs.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Run the best settings for real. Needs a loader.")
    ] = False,
    loader: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER", help="Of a recording of several loaders, which one: 0 is the first."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Name the DataLoader settings to use, with what each would bring."""
    options: dict[str, Any] = {
        "step_s": step_s,
        "epochs": epochs,
        "max_workers": max_workers,
        "loader": loader,
    }
    with chatter_to_stderr():
        if Path(target).exists():
            found = advise(load(target), verify=verify, **options)
        else:
            found = advise(loader_of(target), verify=verify, **options)
    if as_json:
        print_json(_as_data(found))
    else:
        typer.echo(printable(found))
        terminal().print(_table(found))


def _as_data(found: Recommendation) -> dict[str, Any]:
    names = ("verdict", "settings", "code", "limits", "notes", "memory_bytes", "shm_bytes")
    return {
        **{name: getattr(found, name) for name in names},
        "uncertainty": found.uncertainty,
        "candidates": found.candidates.to_dict("records"),
    }


def _table(found: Recommendation) -> Table:
    """The best of each number of workers, the recommended and the present setting."""
    tried = found.candidates
    marked = tried["recommended"] | tried["present"]
    best = tried[marked | ~tried["num_workers"].isin(tried["num_workers"][marked])]
    best = best[best["recommended"] | best["present"] | ~best["num_workers"].duplicated()]
    table = Table("", "workers", "prefetch", "in order", "samples/s", "waits", title="Predicted")
    for row in best.sort_values("num_workers", kind="stable").to_dict("records"):
        prefetch = row["prefetch_factor"]
        table.add_row(
            "→ use" if row["recommended"] else "is now" if row["present"] else "",
            f"{row['num_workers']}",
            f"{prefetch:g}" if row["num_workers"] else "",
            "yes" if row["in_order"] else "no",
            rate(row["samples_per_s"]),
            percent(row["wait_share"]),
        )
    return table
