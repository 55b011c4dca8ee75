"""``compare``: two recordings side by side, as frozen numbers and in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from loaderviz._compare.changed_settings import changed_settings
from loaderviz._compare.measures import Measure, measures, ratio_interval
from loaderviz.errors import LoaderVizError
from loaderviz.text import change, duration, percent, printable, rate

if TYPE_CHECKING:
    from loaderviz.trace import Trace

SAME, BETTER, WORSE, TOO_SHORT = "within noise", "better", "worse", "too short to tell"
NEGLIGIBLE = ""
WAIT, STEP = "wait for a batch", "step"  # the measures of these names
CAUSE = "waiting: "  # begins the name of a measure that is a cause of waiting
MANY_TIMES = 10  # from there on percent is hard to read
LEAST = 0.01  # a smaller change counts as none, however certain; so does a cause of less time
CAVEAT = "Noise is that of the batches within a run. Repeat a run to see how much runs differ."
UNEXPLAINED = ", and no setting differs: unless the code does, it is chance or the machine"
MIN_VALUE = {"s": 20e-6, "share": 0.005, "1/s": 0.0}  # by unit: less in both is negligible


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What changed from recording A to recording B; ``print`` it.

    Attributes:
        verdict: the main result in one line.
        settings: those that differ, by name: a tuple of the values in A and in B.
        measures: a row for each: ``measure, unit, a, b, ratio`` (of B to A), ``low, high`` (its
            interval at 95 %, NaN where the recordings are too short), ``change`` (better, worse,
            within noise, too short to tell; empty where both values are negligible).

    The interval covers the noise from batch to batch within a run, and is wider where tasks waited
    for a CPU more in one run than in the other, as other processes make them. It does not cover
    what else differs from run to run, such as files that are in memory already: repeat a run to see
    that.
    """

    verdict: str
    settings: dict[str, tuple[Any, Any]]
    measures: pd.DataFrame

    def __str__(self) -> str:
        lines = [f"{self.verdict}."]
        if self.settings:
            lines += ["", "Settings that differ:"]
            lines += [f"  {name}: {a} → {b}" for name, (a, b) in self.settings.items()]
        width = max(len(row["measure"]) for row in self.rows()) + 2
        lines += ["", f"{'':{width}}{'A':>10}  {'B':>10}  B to A"]
        lines += [
            f"{row['measure']:{width}}{row['shown_a']:>10}  {row['shown_b']:>10}  {row['said']}"
            for row in self.rows()
        ]
        return printable("\n".join([*lines, "", CAVEAT]))

    __repr__ = __str__

    def rows(self) -> list[dict[str, Any]]:
        """The rows of ``measures``, with three texts each: ``shown_a``, ``shown_b``, and ``said``.

        These are the values in A and in B with their units, and the change with its interval.
        """
        rows: list[Any] = self.measures.to_dict("records")
        return [
            {
                **row,
                "shown_a": _value_words(row["a"], row["unit"]),
                "shown_b": _value_words(row["b"], row["unit"]),
                "said": _change_words(row),
            }
            for row in rows
        ]


def compare(a: Trace, b: Trace) -> Comparison:
    """What changed from recording ``a`` to recording ``b``, and is it more than noise?

    Raises:
        LoaderVizError: for a recording without an epoch in which two batches were delivered.
    """
    measures_a, measures_b = measures(a), measures(b)
    for name, measured in (("A", measures_a), ("B", measures_b)):
        if not len(measured[0].values):
            raise LoaderVizError(
                f"recording {name} has nothing to compare: it needs two batches of an epoch, "
                "delivered to the loop"
            )
    burst_batches = max(_burst_batches(a), _burst_batches(b))
    pairs = zip(measures_a, measures_b, strict=True)
    busier = _busier(a, b)
    least_s = LEAST * max(_batch_s(measures_a), _batch_s(measures_b))
    kept = [pair for pair in pairs if not _is_small_cause(*pair, least_s)]
    rows = [_row(*pair, burst_batches, busier) for pair in kept]
    settings = changed_settings(a, b)
    return Comparison(_verdict(rows, changed=bool(settings)), settings, pd.DataFrame(rows))


def _is_small_cause(a: Measure, b: Measure, least_s: float) -> bool:
    """Whether it is a cause that hardly anything was waited for in either run."""
    return a.name.startswith(CAUSE) and not max(a.value, b.value) >= least_s


def _batch_s(measured: list[Measure]) -> float:
    """Seconds of the loop for a batch: its wait and its step."""
    return sum(each.value for each in measured if each.name in (WAIT, STEP))


def _burst_batches(trace: Trace) -> int:
    """How many batches may come together: two of each worker of a rank."""
    batches = trace.batches
    return 2 * max(1, int(batches.groupby("rank")["worker"].nunique().max()))


def _busier(a: Trace, b: Trace) -> float:
    """How much more of the time, 0 to 1, tasks waited for a CPU in one run than in the other.

    0 where that is not known, and where the runs have other numbers of workers, which would explain
    it.
    """
    shares = []
    for trace in (a, b):
        waited_s = (trace.meta.get("pressure_s") or {}).get("cpu")
        recorded_s = trace.meta.get("recorded_s")
        if waited_s is None or not recorded_s:
            return 0.0
        shares.append(min(waited_s / recorded_s, 1.0))
    workers_a, workers_b = (
        [loader.get("num_workers") for loader in trace.meta.get("loaders") or ()]
        for trace in (a, b)
    )
    return abs(shares[0] - shares[1]) if workers_a == workers_b else 0.0


def _row(a: Measure, b: Measure, burst_batches: int, busier: float) -> dict[str, Any]:
    """The row of ``Comparison.measures`` for one measure of both runs."""
    low, high = ratio_interval(a, b, burst_batches)
    low, high = low / (1 + busier), high * (1 + busier)
    ratio = b.value / a.value if a.value else math.inf if b.value else math.nan
    return {
        "measure": a.name,
        "unit": a.unit,
        "a": a.value,
        "b": b.value,
        "ratio": ratio,
        "low": low,
        "high": high,
        "change": _change(a, b, ratio, low, high),
    }


def _change(a: Measure, b: Measure, ratio: float, low: float, high: float) -> str:
    """Better, worse, or why it is neither."""
    if math.isnan(a.value) or math.isnan(b.value) or max(a.value, b.value) < MIN_VALUE[a.unit]:
        return NEGLIGIBLE
    if math.isnan(low):
        return TOO_SHORT
    if low <= 1 <= high or abs(ratio - 1) < LEAST:
        return SAME
    return BETTER if (ratio > 1) == a.more_is_better else WORSE


def _verdict(rows: list[dict[str, Any]], *, changed: bool) -> str:
    """The main result, without its full stop: the pace, then the waiting, then its cause.

    ``changed``: whether any setting differs.
    """
    pace, waiting = rows[0], rows[1]
    step = next(row for row in rows if row["measure"] == STEP)
    share_a, share_b = percent(waiting["a"]), percent(waiting["b"])
    waits = f"the loop waits {share_b} of the time instead of {share_a}{_cause_words(rows)}"
    if pace["change"] == TOO_SHORT:
        return f"Too few batches to tell B from A: {_change_words(pace)}"
    if pace["change"] in (BETTER, WORSE):
        difference = percent(abs(pace["ratio"] - 1))
        faster = f"B is {difference} {'faster' if pace['ratio'] > 1 else 'slower'}"
        why = waits
        if (waiting["b"] > waiting["a"]) == (pace["ratio"] > 1):  # that is not what made it so
            why = f"its steps take {duration(step['b'])} instead of {duration(step['a'])}"
        return f"{faster}: {why}{'' if changed else UNEXPLAINED}"
    if waiting["change"] in (BETTER, WORSE):
        return f"B is as fast as A within noise, and {waits}"
    return "B is as fast as A within noise"


def _cause_words(rows: list[dict[str, Any]]) -> str:
    """The cause that changed most, if that is most of what the wait for a batch changed by."""
    (wait,) = [row for row in rows if row["measure"] == WAIT]
    more = wait["b"] - wait["a"]
    if more * (rows[1]["b"] - rows[1]["a"]) <= 0:  # a smaller share of longer batches, or so
        return ""
    causes = [row for row in rows if row["measure"].startswith(CAUSE)]
    most = max(causes, key=lambda row: (row["b"] - row["a"]) * more, default=None)
    if most is None or (most["b"] - most["a"]) * more < more**2 / 2:
        return ""
    a_batch = f"{duration(most['a'])} → {duration(most['b'])} a batch"
    return f" (most of it {most['measure'].removeprefix(CAUSE)}: {a_batch})"


def _change_words(row: dict[str, Any]) -> str:
    """A measure's change in words, with its interval where there is one."""
    if math.isnan(row["ratio"]):
        return row["change"] or "–"
    words = _times(row["ratio"])
    if not math.isnan(row["low"]):
        words += f" ({_times(row['low'])} to {_times(row['high'])})"
    return f"{words} {row['change']}".rstrip()


def _times(ratio: float) -> str:
    """A change in percent; where it is large, how many times as much."""
    if ratio < MANY_TIMES:
        return change(ratio - 1)
    return f"{ratio:.0f} times" if ratio < MANY_TIMES**2 else f"over {MANY_TIMES**2} times"


def _value_words(value: float, unit: str) -> str:
    """A measure's value with its unit: a share, a rate or seconds."""
    if unit == "share":
        return percent(value, decimals=1)
    if unit == "1/s":
        return rate(value) if math.isnan(value) else f"{rate(value)}/s"
    return duration(value)
