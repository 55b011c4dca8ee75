"""``compare``: two recordings side by side, as frozen numbers and in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from loaderviz._compare.bootstrap_noise import ratio
from loaderviz._compare.changed_settings import differences
from loaderviz._compare.measures import Measure, measures
from loaderviz.errors import LoaderVizError
from loaderviz.text import change, duration, percent, rate

if TYPE_CHECKING:
    from loaderviz.trace import Trace

SAME, BETTER, WORSE, SHORT, NONE = "within noise", "better", "worse", "too short to tell", ""
WORTH_A_WORD = 0.01  # a smaller change is not worth one, however sure it is
CAVEAT = "Noise is that of the batches within a run. Repeat a run to see how much runs differ."
LEAST = {"s": 20e-6, "share": 0.005, "1/s": 0.0}  # of both: less is nothing


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What changed from recording A to recording B; ``print`` it.

    Attributes:
        verdict: the main thing in one line.
        settings: what was set otherwise, by name: in A and in B.
        measures: a row for each: ``measure, unit, a, b, ratio`` (of B to A), ``low, high`` (its
            interval at 95 %, NaN where the recordings are too short), ``change`` (better, worse,
            within noise, too short to tell; empty where there is next to nothing of it).

    The interval tells how much of a change the differences from batch to batch explain. What
    differs from run to run, such as other work on the machine or files that are in memory already,
    it cannot know: repeat a run to see that.
    """

    verdict: str
    settings: dict[str, tuple[Any, Any]]
    measures: pd.DataFrame

    def __str__(self) -> str:
        lines = [f"{self.verdict}."]
        if self.settings:
            lines += ["", "Set otherwise:"]
            lines += [f"  {name}: {a} → {b}" for name, (a, b) in self.settings.items()]
        width = max(len(row["measure"]) for row in self.rows()) + 2
        lines += ["", f"{'':{width}}{'A':>10}  {'B':>10}  B to A"]
        lines += [
            f"{row['measure']:{width}}{row['shown_a']:>10}  {row['shown_b']:>10}  {row['said']}"
            for row in self.rows()
        ]
        return "\n".join([*lines, "", CAVEAT])

    __repr__ = __str__

    def rows(self) -> list[dict[str, Any]]:
        """The measures with their numbers in words: ``shown_a``, ``shown_b`` and ``said``."""
        rows: list[Any] = self.measures.to_dict("records")
        return [
            {
                **row,
                "shown_a": _shown(row["a"], row["unit"]),
                "shown_b": _shown(row["b"], row["unit"]),
                "said": _said(row),
            }
            for row in rows
        ]


def compare(a: Trace, b: Trace) -> Comparison:
    """What changed from recording ``a`` to recording ``b``, and is it more than noise?

    Raises:
        LoaderVizError: where one of them has fewer than two batches that were delivered.
    """
    both = measures(a), measures(b)
    for name, found in zip("AB", both, strict=True):
        if not len(found[0].values):
            raise LoaderVizError(
                f"recording {name} has nothing to compare: it needs two batches of an epoch, "
                "delivered to the loop"
            )
    burst = max(_burst(a), _burst(b))
    rows = [_row(*pair, burst) for pair in zip(*both, strict=True)]
    table = pd.DataFrame(rows)
    return Comparison(_verdict(rows), differences(a, b), table)


def _burst(trace: Trace) -> int:
    """How many batches come together: one of each worker of a rank."""
    batches = trace.batches
    return 2 * max(1, int(batches.groupby("rank")["worker"].nunique().max()))


def _row(a: Measure, b: Measure, burst: int) -> dict[str, Any]:
    low, high = ratio(a, b, burst)
    found = b.value / a.value if a.value else math.nan
    return {
        "measure": a.name,
        "unit": a.unit,
        "a": a.value,
        "b": b.value,
        "ratio": found,
        "low": low,
        "high": high,
        "change": _change(a, b, found, low, high),
    }


def _change(a: Measure, b: Measure, found: float, low: float, high: float) -> str:
    if math.isnan(a.value) or math.isnan(b.value) or max(a.value, b.value) < LEAST[a.unit]:
        return NONE
    if math.isnan(low):
        return SHORT
    if low <= 1 <= high or abs(found - 1) < WORTH_A_WORD:
        return SAME
    return BETTER if (found > 1) == a.more_is_better else WORSE


def _verdict(rows: list[dict[str, Any]]) -> str:
    """The main thing, without its full stop: the pace, then the waiting."""
    pace, waiting = rows[0], rows[1]
    was, is_now = percent(waiting["a"]), percent(waiting["b"])
    waits = f"the loop waits {is_now} of the time instead of {was}"
    if pace["change"] == SHORT:
        return f"Too few batches to tell B from A: {_said(pace)}"
    if pace["change"] in (BETTER, WORSE):
        by = percent(abs(pace["ratio"] - 1))
        return f"B is {by} {'faster' if pace['ratio'] > 1 else 'slower'}: {waits}"
    if waiting["change"] in (BETTER, WORSE):
        return f"B is as fast as A within noise, and {waits}"
    return "B is as fast as A within noise"


def _said(row: dict[str, Any]) -> str:
    """A measure's change in words, with its interval where there is one."""
    if math.isnan(row["ratio"]):
        return row["change"] or "–"
    said = change(row["ratio"] - 1)
    if not math.isnan(row["low"]):
        said += f" ({change(row['low'] - 1)} to {change(row['high'] - 1)})"
    return f"{said} {row['change']}".rstrip()


def _shown(value: float, unit: str) -> str:
    """A measure's value, by its unit: a share, a rate or seconds."""
    if unit == "share":
        return percent(value, decimals=1)
    if unit == "1/s":
        return rate(value) if math.isnan(value) else f"{rate(value)}/s"
    return duration(value)
