"""Causes in words: their names, what they mean and what cutting them saves."""

from __future__ import annotations

import math
from typing import Any

from loaderviz.text import duration
from loaderviz.trace.analysis.summary import Summary
from loaderviz.trace.analysis.verdict import PHRASES

LEAST_S = 1e-6  # less is a rounding error of times


def cause_name(cause: str) -> str:
    """The cause as a text: ``slow_samples`` is "slow samples"."""
    return cause.replace("_", " ")


def cause_phrase(cause: str) -> str:
    """What happens while the loop waits, as a sentence without its full stop."""
    phrase = PHRASES.get(cause, "samples are being read: more workers would overlap")
    return phrase[0].upper() + phrase[1:]


def cause_rows(summary: Summary) -> list[dict[str, Any]]:
    """The rows of ``summary.causes``, in their order, without rounding errors.

    ``name`` is that of the cause, ``loader_name`` empty where there is one loader alone;
    ``seconds`` are a rank's mean.
    """
    several = len(summary.loaders) > 1
    loader_names = {share.loader: share.name for share in summary.loaders if several}
    return [
        {
            **{str(column): value for column, value in row.items()},
            "name": cause_name(row["cause"]),
            "loader_name": loader_names.get(row["loader"], ""),
            "seconds": row["seconds"] / summary.n_ranks,
        }
        for row in summary.causes.to_dict("records")
        if row["seconds"] >= LEAST_S
    ]


def saves_text(saves_s: float) -> str:
    """What cutting a cause saves, as a duration; NaN is unknown."""
    return "unknown" if math.isnan(saves_s) else duration(saves_s)
