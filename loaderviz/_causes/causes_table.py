"""``trace.summary().causes``: one row for each cause of waiting, the one to cut first on top."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from loaderviz._causes.counterfactual import savings
from loaderviz._causes.evidence_and_cures import cure_of, evidence_of
from loaderviz._causes.other_loaders import OtherLoaders
from loaderviz.errors import LoaderVizError
from loaderviz.trace.analysis.attribution import attribute
from loaderviz.trace.analysis.reading_time import Reading

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace.analysis.summary import Summary

PREFETCH_HIDES = 10  # times the seconds of its own, at most: those of other causes


def causes_of(summary: Summary) -> pd.DataFrame:
    """What ``Summary.causes`` says it is."""
    import pandas as pd

    trace, elapsed_s = summary.trace, summary.elapsed_s
    waited_s = summary.wait_s + summary.startup_s
    if trace is None:
        raise LoaderVizError("this summary has no trace: take the causes of trace.summary()")
    reading = Reading.of(trace)
    attribution = attribute(trace, reading)
    others = OtherLoaders(trace, attribution, reading)
    rows = []
    for loader in sorted(set(attribution.loader.tolist())):
        own = attribution.of_loader(loader)
        seconds = own.totals()
        saves = savings(trace, loader, seconds, reading, others)
        for cause, spent_s in seconds.items():
            rows.append(
                {
                    "loader": loader,
                    "cause": cause,
                    "seconds": spent_s,
                    "share": spent_s / elapsed_s if elapsed_s > 0 else 0.0,
                    "saves_s": min(saves.get(cause, math.nan), waited_s),
                    "evidence": evidence_of(cause, trace, loader, own, reading),
                    "cure": cure_of(cause, trace, loader, own, reading),
                }
            )
    columns = ["loader", "cause", "seconds", "share", "saves_s", "evidence", "cure"]
    table = pd.DataFrame(rows, columns=columns)
    order = np.lexsort([-table["seconds"].astype(float), -_weights(table)])
    return table.iloc[order].reset_index(drop=True)


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
