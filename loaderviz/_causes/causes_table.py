"""``trace.summary().causes``: one row for each cause of waiting, the one to cut first on top."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz._causes.counterfactual import savings
from loaderviz._causes.evidence_and_cures import cure_of, evidence_of
from loaderviz._causes.other_loaders import OtherLoaders
from loaderviz.failed_part import part
from loaderviz.trace.analysis.summary import CAUSES_COLUMNS

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace.analysis.summary import Summary

MOST_LOADERS = 5  # that are examined: those that are waited for longest
NOT_EXAMINED = "not examined, as {} other loaders are waited for longer"
ASK_FOR_IT = "trace.of_loader({}).summary() examines it."
NO_TEXT = "could not be worked out"
PREFETCH_HIDES = 10  # times the seconds of its own, at most: those of other causes


def causes_of(summary: Summary) -> pd.DataFrame:
    """What ``Summary.causes`` says it is."""
    import pandas as pd

    trace, elapsed_s = summary.trace, summary.elapsed_s
    waited_s = summary.wait_s + summary.startup_s
    assert trace is not None
    failed = summary.failed_parts
    reading, attribution = summary.attribution
    by_loader = {
        loader: attribution.of_loader(loader) for loader in np.unique(attribution.loader).tolist()
    }
    waited = sorted(by_loader, key=lambda each: -by_loader[each].seconds.sum())
    examined = waited[:MOST_LOADERS]
    others = OtherLoaders(trace, attribution, reading, examined)
    rows = []
    for loader, own in by_loader.items():
        seconds = own.totals()
        if loader not in examined:
            told = NOT_EXAMINED.format(len(examined)), ASK_FOR_IT.format(loader)
            rows += [_row(loader, *each, elapsed_s, math.nan, *told) for each in seconds.items()]
            continue
        work_out = partial(savings, trace, loader, seconds, reading, others)
        unknown: dict[str, float] = {}
        saves = part(f"savings of loader {loader}", work_out, unknown, failed)
        for cause, spent_s in seconds.items():
            about = cause, trace, loader, own, reading
            evidence = _text("evidence", evidence_of, about, failed)
            cure = _text("a cure", cure_of, about, failed)
            saved_s = min(saves.get(cause, math.nan), waited_s)
            rows.append(_row(loader, cause, spent_s, elapsed_s, saved_s, evidence, cure))
    table = pd.DataFrame(rows, columns=CAUSES_COLUMNS)
    later = ~table["loader"].isin(examined)
    order = np.lexsort([-table["seconds"].astype(float), -_weights(table), later])
    return table.iloc[order].reset_index(drop=True)


def _row(
    loader: int,
    cause: str,
    spent_s: float,
    elapsed_s: float,
    saves_s: float,
    evidence: str,
    cure: str,
) -> dict[str, Any]:
    share = spent_s / elapsed_s if elapsed_s > 0 else 0.0
    values = loader, cause, spent_s, share, saves_s, evidence, cure
    return dict(zip(CAUSES_COLUMNS, values, strict=True))


def _text(name: str, write: Callable[..., str], about: tuple[Any, ...], failed: list[str]) -> str:
    return part(f"{name} of {about[0]}", partial(write, *about), NO_TEXT, failed)


def _weights(table: pd.DataFrame) -> pd.Series:
    """Seconds that count: what a cut saves, as far as that is the cause's own.

    One worker more also hides what slow samples or a costly ``collate_fn`` cost: only those seconds
    count for it that nothing else explains. Asking further ahead may save more than it is blamed
    for, but a wait that is hardly seen is not the first to name. Where nobody can tell what a cut
    saves, all seconds count; so they do where CPUs are full: with as many workers as CPUs more CPUs
    gain nothing by themselves, yet they are what is lacking.
    """
    seconds, saves_s = table["seconds"].astype(float), table["saves_s"].astype(float)
    most_s = seconds.where(table["cause"] != "prefetch", PREFETCH_HIDES * seconds)
    own = saves_s.clip(upper=most_s)
    return own.where(table["cause"] != "cpu").fillna(seconds)
