"""``trace.summary().causes``: one row for each cause of waiting, the one to cut first on top."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.failed_part import part
from loaderviz.why.causes.costly_lines import name_lines
from loaderviz.why.causes.evidence_and_cures import CaseOfACause, evidence_and_cure
from loaderviz.why.causes.savings import Replays, epoch_seconds
from loaderviz.why.notes import slowed_down
from loaderviz.why.summary import CAUSES_COLUMNS

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.why.attribution import Attribution
    from loaderviz.why.summary import Summary

MOST_LOADERS = 5  # that are examined, which takes time: those that are waited for longest
NOT_EXAMINED = "not examined, as {} other loaders are waited for longer"
ASK_FOR_IT = "trace.of_loader({}).summary() examines it."
NO_TEXT = "could not be worked out"
# Times its own seconds, at most, that asking further ahead counts for: it hides other causes, too.
PREFETCH_HIDES = 10


def causes_of(summary: Summary) -> pd.DataFrame:
    """What ``Summary.causes`` says it is."""
    import pandas as pd

    trace, failed = summary.trace, summary.failed_parts
    assert trace is not None
    reading, attribution = summary.attribution
    by_loader = {
        loader: attribution.of_loader(loader) for loader in np.unique(attribution.loader).tolist()
    }
    replays = part("replays", lambda: Replays.of(trace, attribution, reading), None, failed)
    waited = sorted(by_loader, key=lambda each: -by_loader[each].seconds.sum())
    rows = []
    for nth, loader in enumerate(waited):
        examine = _examined if nth < MOST_LOADERS else _not_examined
        found = examine(summary, loader, by_loader[loader], replays)
        # In the order of what counts; of causes that count alike, by their seconds.
        found.sort(key=lambda each: (-each[1], -each[0]["seconds"]))
        rows += [row for row, _ in found]
    part("lines of causes", lambda: name_lines(summary, rows), None, failed)
    return pd.DataFrame(rows, columns=CAUSES_COLUMNS)


def _examined(
    summary: Summary, loader: int, own: Attribution, replays: Replays | None
) -> list[tuple[dict[str, Any], float]]:
    """Of each cause of a loader its row, and the seconds that count."""
    trace, failed, seconds = summary.trace, summary.failed_parts, own.totals()
    assert trace is not None
    work_out = partial(_saved, summary, replays, own, loader, seconds)
    unknown: dict[str, Saved] = {}
    saved = part(f"savings of loader {loader}", work_out, unknown, failed)
    pace, reading = summary.pace_of(loader), summary.attribution[0]
    slowed = pace is not None and slowed_down(pace) is not None
    rows = []
    for cause, spent_s in seconds.items():
        of_cause = saved.get(cause, Saved())
        case = CaseOfACause(cause, trace, loader, own, reading, of_cause.advised, slowed)
        tell = partial(evidence_and_cure, case)
        texts = part(f"evidence and cure of {cause}", tell, (NO_TEXT, NO_TEXT), failed)
        row = _row(summary, loader, cause, spent_s, of_cause, *texts)
        rows.append((row, _weight(cause, of_cause, spent_s)))
    return rows


def _not_examined(
    summary: Summary, loader: int, own: Attribution, _: Replays | None
) -> list[tuple[dict[str, Any], float]]:
    texts = NOT_EXAMINED.format(MOST_LOADERS), ASK_FOR_IT.format(loader)
    return [
        (_row(summary, loader, cause, spent_s, Saved(), *texts), spent_s)
        for cause, spent_s in own.totals().items()
    ]


@dataclass(frozen=True)
class Saved:
    """What one cause costs, and what a cut saves: of the recording, and of an epoch at pace."""

    saves_s: float = math.nan
    epoch_s: float = math.nan
    epoch_saves_s: float = math.nan
    advised: int | None = None  # workers
    by_epoch: bool = False  # whether that is known, and decides


def _saved(
    summary: Summary,
    replays: Replays | None,
    own: Attribution,
    loader: int,
    seconds: dict[str, float],
) -> dict[str, Saved]:
    trace = summary.trace
    assert trace is not None
    if replays is None:
        return {}
    pace = summary.pace_of(loader)
    advised = replays.advised_workers(loader, pace)
    of_epoch: dict[str, float] = {}
    if pace is not None:
        of_rank = own.of_rank(pace.rank)
        of_epoch = epoch_seconds(pace, of_rank, summary.attribution[0], trace)
    epoch = replays.epoch(pace) if pace is not None else None
    waited_s = summary.wait_s + summary.startup_s
    saved = {}
    for cause, spent_s in seconds.items():
        scale = replays.scale(own, cause)
        saves_s = min(replays.saves(loader, cause, advised, scale), waited_s)
        epoch_s = of_epoch.get(cause, 0.0) if of_epoch else math.nan
        if cause == "uneven":  # shares of a stream are not dealt out at random
            epoch_saves_s = saves_s * epoch_s / spent_s if spent_s > 0 else math.nan
        else:
            epoch_saves_s = replays.epoch_saves(epoch, pace, cause, advised)
        known = pace is not None and pace.is_enough and bool(of_epoch)
        pays = cause != "main_process" or not math.isnan(epoch_saves_s if known else saves_s)
        workers = advised if pays else None
        saved[cause] = Saved(saves_s, epoch_s, epoch_saves_s, workers, known)
    return saved


def _weight(cause: str, saved: Saved, spent_s: float) -> float:
    """Seconds that count: what a cut saves, as far as that is the cause's own.

    Of a whole epoch where the pace is known, else of the recording. One worker more also hides what
    slow samples or a costly ``collate_fn`` cost: only those seconds count for it that nothing else
    explains. Asking further ahead may save more than it is blamed for, but a wait that is hardly
    seen is not the first to name. Where nobody can tell what a cut saves, all seconds count; so
    they do where CPUs are full: with as many workers as CPUs more CPUs gain nothing by themselves,
    yet they are what is lacking.
    """
    saves_s = saved.epoch_saves_s if saved.by_epoch else saved.saves_s
    own_s = saved.epoch_s if saved.by_epoch else spent_s
    if cause == "cpu" or math.isnan(saves_s):
        return own_s
    return min(saves_s, PREFETCH_HIDES * own_s if cause == "prefetch" else own_s)


def _row(
    summary: Summary, loader: int, cause: str, spent_s: float, saved: Saved, *texts: str
) -> dict[str, Any]:
    evidence, cure = texts
    return {
        "loader": loader,
        "cause": cause,
        "seconds": spent_s,
        "share": spent_s / summary.elapsed_s if summary.elapsed_s != 0 else 0.0,
        "saves_s": saved.saves_s,
        "evidence": evidence,
        "cure": cure,
        "epoch_s": saved.epoch_s,
        "epoch_saves_s": saved.epoch_saves_s,
    }
