"""``trace.summary().causes``: one row for each cause of waiting, the one to cut first on top."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz.failed_part import part
from loaderviz.why.causes.evidence_and_cures import cure_of, evidence_of
from loaderviz.why.causes.savings import Replays, epoch_seconds
from loaderviz.why.notes import slowed_down
from loaderviz.why.summary import CAUSES_COLUMNS

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.why.attribution import Attribution
    from loaderviz.why.summary import Summary

MOST_LOADERS = 5  # that are examined: those that are waited for longest
NOT_EXAMINED = "not examined, as {} other loaders are waited for longer"
ASK_FOR_IT = "trace.of_loader({}).summary() examines it."
NO_TEXT = "could not be worked out"
PREFETCH_HIDES = 10  # times the seconds of its own, at most: those of other causes


def causes_of(summary: Summary) -> pd.DataFrame:
    """What ``Summary.causes`` says it is."""
    import pandas as pd

    trace, failed = summary.trace, summary.failed_parts
    assert trace is not None
    reading, attribution = summary.attribution
    by_loader = {
        loader: attribution.of_loader(loader) for loader in np.unique(attribution.loader).tolist()
    }
    waited = sorted(by_loader, key=lambda each: -by_loader[each].seconds.sum())
    examined = waited[:MOST_LOADERS]
    replays = part("replays", lambda: Replays.of(trace, attribution, reading), None, failed)
    rows = []
    for loader in waited:
        own = by_loader[loader]
        seconds = own.totals()
        if loader not in examined:
            told = NOT_EXAMINED.format(len(examined)), ASK_FOR_IT.format(loader)
            rows += [
                _row(summary, loader, cause, seconds[cause], math.nan, math.nan, math.nan, *told)
                for cause in sorted(seconds, key=lambda each: -seconds[each])
            ]
            continue
        work_out = partial(_saved, summary, replays, own, loader, seconds)
        unknown: dict[str, Saved] = {}
        saved = part(f"savings of loader {loader}", work_out, unknown, failed)
        pace = summary.pace_of(loader)
        slowed = pace is not None and slowed_down(pace) is not None
        own_rows = []
        for cause, spent_s in seconds.items():
            of_cause = saved.get(cause, Saved())
            about = cause, trace, loader, own, reading
            evidence = _text("evidence", evidence_of, about, failed)
            cure = _text("a cure", cure_of, (*about, of_cause.advised, slowed), failed)
            row = _row(summary, loader, cause, spent_s, *of_cause.columns, evidence, cure)
            own_rows.append((_weight(cause, of_cause, spent_s), spent_s, row))
        own_rows.sort(key=lambda each: (-each[0], -each[1]))
        rows += [row for _, _, row in own_rows]
    return pd.DataFrame(rows, columns=CAUSES_COLUMNS)


@dataclass(frozen=True)
class Saved:
    """What one cause costs, and what a cut saves: of the recording, and of an epoch at pace."""

    saves_s: float = math.nan
    epoch_s: float = math.nan
    epoch_saves_s: float = math.nan
    advised: int | None = None  # workers
    by_epoch: bool = False  # whether that is known, and decides

    @property
    def columns(self) -> tuple[float, float, float]:
        """Seconds: saved of the recording, of the whole epoch, saved of that."""
        return self.saves_s, self.epoch_s, self.epoch_saves_s


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
        epoch_saves_s = replays.epoch_saves(epoch, pace, cause, advised)
        if cause == "uneven" and spent_s > 0:  # shares of a stream are not dealt out at random
            epoch_saves_s = saves_s * epoch_s / spent_s
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


def _row(summary: Summary, loader: int, cause: str, spent_s: float, *told: Any) -> dict[str, Any]:
    share = spent_s / summary.elapsed_s if summary.elapsed_s != 0 else 0.0
    saves_s, epoch_s, epoch_saves_s, evidence, cure = told
    values = loader, cause, spent_s, share, saves_s, evidence, cure, epoch_s, epoch_saves_s
    return dict(zip(CAUSES_COLUMNS, values, strict=True))


def _text(name: str, write: Callable[..., str], about: tuple[Any, ...], failed: list[str]) -> str:
    return part(f"{name} of {about[0]}", partial(write, *about), NO_TEXT, failed)
