"""``loaderviz check``: fails where a recorded run breaks a limit, for the CI of training code."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer

from loaderviz.cli.shared_options import EXIT_FOUND, AsJson, TracePath, print_json
from loaderviz.errors import LoaderVizError
from loaderviz.text import percent, printable
from loaderviz.trace import Trace, load
from loaderviz.trace.columns_of_rows import arrays, where
from loaderviz.trace.described_loaders import hands_over, left_out, unseen
from loaderviz.trace.loaders_as_one import as_one
from loaderviz.trace.unread_samples import require_memory
from loaderviz.trace.windows import waited_share
from loaderviz.why.notes import READ_AHEAD
from loaderviz.why.rank_summary import by_rank
from loaderviz.why.whole_run import after_warmup as without_warmup


def check(
    trace_path: TracePath,
    max_wait: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="The largest share of its time, 0 to 1, that the loop may wait for batches and "
            "for workers to start.",
        ),
    ] = None,
    after_warmup: Annotated[
        bool,
        typer.Option(
            "--after-warmup",
            help="Leave out of --max-wait the first minute, and later ones in which a batch still "
            "took longer.",
        ),
    ] = False,
    exactly_once: Annotated[
        bool,
        typer.Option(
            "--exactly-once",
            help="In each epoch no sample may come twice and, as far as the recording tells, "
            "none may be lost but the last, partial batch that drop_last leaves out, and what the "
            "loop left.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Fail where a recorded run waits too long, or delivers samples twice.

    Exit code: 0 every limit is kept, 1 one is broken, 2 the recording cannot tell.
    """
    if max_wait is None and not exactly_once:
        raise LoaderVizError("nothing to check: give --max-wait 0.05, --exactly-once or both")
    if max_wait is not None and not 0 <= max_wait <= 1:
        raise LoaderVizError(f"--max-wait {max_wait}: give a share of the time, 0 to 1")
    trace = load(trace_path)
    results = []
    if max_wait is not None:
        results.append(("max-wait", *_check_max_wait(trace, max_wait, after_warmup)))
    if exactly_once:
        results.append(("exactly-once", *_check_exactly_once(trace)))
    if as_json:
        print_json([{"check": name, "kept": passed, "why": why} for name, passed, why in results])
    else:
        for name, passed, why in results:
            typer.echo(printable(f"{'ok    ' if passed else 'failed'} {name}: {why}"))
    if not all(passed for _, passed, _ in results):
        raise typer.Exit(EXIT_FOUND)
    unread = trace.meta.get("unread") or ()
    if unread and not trace.meta.get("complete", True):  # ranks that load nothing have no recording
        raise LoaderVizError(f"what is not in this recording was not checked: {'; '.join(unread)}")


def _check_max_wait(trace: Trace, max_share: float, after_warmup: bool) -> tuple[bool, str]:
    """Whether it passes, and why; of several ranks the one that waits the most decides.

    That rank may hold up all others. Of a recording with ``last_s``, and after warm-up, by windows.
    """
    if unseen(as_one(trace)):
        raise LoaderVizError(f"--max-wait: {READ_AHEAD}")
    if after_warmup or trace.meta.get("begins_s"):
        shares = _shares_of_windows(trace, after_warmup)
    else:
        shares = _shares_of_batches(as_one(trace))
    worst = max(shares, key=shares.__getitem__)
    who = f"rank {worst}" if len(shares) > 1 else "the loop"
    after = " after warm-up" * after_warmup
    waited = percent(shares[worst], decimals=1)
    why = f"{who} waits {waited} of the time{after}; at most {100 * max_share:g} % is allowed"
    return shares[worst] <= max_share, why


def _shares_of_batches(trace: Trace) -> dict[int, float]:
    """The part of its time that each rank waits, by all that it was delivered."""
    ranks = by_rank(trace)
    ranks = ranks[ranks["n_batches"] > 0]
    if ranks.empty:
        raise LoaderVizError("no batch was delivered in this recording: there is no wait to check")
    waits = ranks["startup_s"] + ranks["wait_s"]
    shares = waits / (waits + ranks["step_s"])
    return dict(zip(ranks["rank"].tolist(), shares.tolist(), strict=True))


def _shares_of_windows(trace: Trace, after_warmup: bool) -> dict[int, float]:
    """The same, by its windows."""
    rows = arrays(trace.windows)
    of_ranks = {int(rank): where(rows, rows["rank"] == rank) for rank in np.unique(rows["rank"])}
    if after_warmup:
        of_ranks = {rank: without_warmup(own) for rank, own in of_ranks.items()}
    shares = {rank: waited_share(own) for rank, own in of_ranks.items() if own["batches"].sum()}
    if not shares:
        raise LoaderVizError("--max-wait: no minute of this recording is left to check")
    return shares


def _check_exactly_once(trace: Trace) -> tuple[bool, str]:
    """Whether it passes, and why."""
    from loaderviz._audit import audit  # imports torch
    from loaderviz._audit.keys_of_ranks import IN_ANOTHER

    require_memory(trace, "an audit")
    numbers = [int(number) for number in trace.batches["loader"].unique()]
    audits = [audit(trace.of_loader(n)) for n in numbers if not hands_over(trace.meta, n)]
    if not audits:
        raise LoaderVizError("no batch is in this recording: there is nothing to audit")
    samples_left_out, batches_left_out = left_out(trace.meta)
    for result in audits:
        repeats = bool((result.epochs["duplicates"] > 0).any())
        if repeats or (result.loses and not samples_left_out):
            return False, ". ".join(filter(None, [result.verdict, result.as_told.rstrip(".")]))
    undecided = [result for result in audits if result.epochs["duplicates"].isna().any()]
    if undecided:
        raise LoaderVizError(
            f"--exactly-once: {undecided[0].verdict}. A recording knows the samples of map-style "
            "datasets, by their keys; loaderviz.audit(loader) knows those of streams too."
        )
    if samples_left_out:
        raise LoaderVizError(
            f"--exactly-once: {samples_left_out:,} samples are not in this recording; "
            "record with a larger max_spans"
        )
    if batches_left_out:
        raise LoaderVizError(
            f"--exactly-once: {batches_left_out:,} batches are not in this recording; record "
            "without last_s and max_bytes"
        )
    verdicts = "; ".join(dict.fromkeys(result.verdict for result in audits))
    shared = [note for result in audits for note in result.notes if IN_ANOTHER in note][:1]
    keys_alone = "Keys were compared: a recording has no contents"
    return True, ". ".join([verdicts, *(note.rstrip(".") for note in shared), keys_alone])
