"""``loaderviz audit``: does every sample come once, and is it what the dataset holds?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loaderviz._audit import audit as audit_loader
from loaderviz._audit.audit_result import Audit
from loaderviz.cli.loader_target import (
    ScriptArgs,
    import_loader,
    script_arguments,
)
from loaderviz.cli.shared_options import EXIT_FOUND, AsJson, print_json
from loaderviz.text import printable
from loaderviz.trace import Trace, load
from loaderviz.trace.described_loaders import hands_over
from loaderviz.trace.loaders_as_one import as_one
from loaderviz.why.loader_share import short_names


def audit(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:NAME|TRACE",
            help="A loader, as pkg.module:make_loader or train.py:make_loader, which is then run; "
            "or a recording of one, which has keys and no contents.",
            show_default=False,
        ),
    ],
    args: ScriptArgs = None,
    epochs: Annotated[int, typer.Option(help="How many epochs of a loader to run.")] = 1,
    n_samples: Annotated[
        int | None,
        typer.Option(
            "--samples", metavar="N", help="Stop after so many: for a stream that never ends."
        ),
    ] = None,
    budget_s: Annotated[
        float,
        typer.Option(
            "--budget", metavar="SECONDS", help="How long to read the dataset to compare contents."
        ),
    ] = 10.0,
    as_json: AsJson = False,
) -> None:
    """Say whether every sample comes exactly once, and is what the dataset holds.

    A script's own arguments come after two dashes: loaderviz audit train.py:main -- --data DIR

    Exit code: 0 nothing is wrong as far as was compared, 1 samples are lost, doubled or changed, 2
    the loader could not be audited.
    """
    if Path(target).exists():
        audits = _audits_of_recording(load(target))
    else:
        with script_arguments(target, args):
            found = audit_loader(
                import_loader(target), epochs, n_samples=n_samples, budget_s=budget_s
            )
        audits = {target: found}
    if as_json:
        print_json([_as_data(name, found) for name, found in audits.items()])
    else:
        heads = [f"{name}: " if len(audits) > 1 else "" for name in audits]
        texts = [f"{head}{found}" for head, found in zip(heads, audits.values(), strict=True)]
        typer.echo(printable("\n\n".join(texts)))
    if any(map(_is_wrong, audits.values())):
        raise typer.Exit(EXIT_FOUND)


def _audits_of_recording(trace: Trace) -> dict[str, Audit]:
    """The audit of each loader in a recording, by its name."""
    trace = as_one(trace)
    numbers = [int(number) for number in trace.batches["loader"].unique()]
    numbers = [number for number in numbers if not hands_over(trace.meta, number)] or numbers
    if not numbers:
        return {"": audit_loader(trace)}
    names = short_names(trace)
    return {names[number]: audit_loader(trace.of_loader(number)) for number in numbers}


def _as_data(name: str, found: Audit) -> dict[str, object]:
    states = {} if found.contents is None else found.contents["state"].value_counts().to_dict()
    return {
        "loader": name,
        "verdict": found.verdict,
        "exactly_once": found.exactly_once,
        "n_samples": found.n_samples,
        "contents": states,
        "epochs": found.epochs.astype(object).where(found.epochs.notna(), None).to_dict("records"),
        "notes": list(found.notes),
    }


def _is_wrong(found: Audit) -> bool:
    """Whether samples are lost, doubled or changed; what ``drop_last`` takes is not in a trace."""
    epochs = found.epochs
    counts = epochs[["duplicates", "extra"]].fillna(0).to_numpy().sum()
    return found.exactly_once is False or bool(counts) or found.is_changed
