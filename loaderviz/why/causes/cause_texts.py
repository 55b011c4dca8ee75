"""Causes in words: their names, what they mean and what cutting them saves."""

from __future__ import annotations

import math
from typing import Any

from loaderviz.text import duration
from loaderviz.why.attribution import PHRASES
from loaderviz.why.summary import Summary

LEAST_S = 1e-6  # less is a rounding error of times
FIRST_CAUSES = 3  # that are told of before the others
LEAST_SHARE = 0.01  # of an epoch, or of the run: less is not one of them


def cause_name(cause: str) -> str:
    """The cause as a text: ``slow_samples`` is "slow samples"."""
    return cause.replace("_", " ")


def cause_phrase(cause: str) -> str:
    """What happens while the loop waits, as a sentence without its full stop."""
    phrase = PHRASES[cause]
    return phrase[0].upper() + phrase[1:]


def cause_rows(summary: Summary) -> list[dict[str, Any]]:
    """The rows of ``summary.causes``, in their order, without rounding errors.

    ``name`` is that of the cause, ``loader_name`` empty where there is one loader alone;
    ``seconds`` are a rank's mean; ``epoch_share`` is that of a whole epoch at pace, 0 to 1, NaN
    where that is not known.
    """
    several = len(summary.loaders) > 1
    loader_names = {share.loader: share.name for share in summary.loaders if several}
    epochs_s = {
        pace.loader: pace.epoch.seconds
        for pace in reversed(summary.paces)
        if pace.epoch is not None and pace.epoch.seconds > 0
    }
    return [
        {
            **{str(column): value for column, value in row.items()},
            "name": cause_name(row["cause"]),
            "loader_name": loader_names.get(row["loader"], ""),
            "seconds": row["seconds"] / summary.n_ranks,
            "epoch_share": row["epoch_s"] / epochs_s.get(row["loader"], math.nan),
        }
        for row in summary.causes.to_dict("records")
        if row["seconds"] >= LEAST_S
    ]


def first_causes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of the rows of ``cause_rows``, in order, those to tell of first: see ``FIRST_CAUSES``."""

    def share(row: dict[str, Any]) -> float:
        return float(row["share"] if math.isnan(row["epoch_share"]) else row["epoch_share"])

    return [row for row in rows if share(row) >= LEAST_SHARE][:FIRST_CAUSES]


def saves_text(saves_s: float) -> str:
    """What cutting a cause saves, as a duration; NaN is unknown."""
    return "unknown" if math.isnan(saves_s) else duration(saves_s)
