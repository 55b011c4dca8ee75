"""The phases of each loader's epochs: start, warm-up, pace, pauses; or that there is no pace.

The rule is that of Barrett et al., *Virtual machine warmup blows hot and cold* (OOPSLA 2017; their
tool is softdevteam/warmup_stats), for as few values as a recording has: set outliers aside, find
the change points, and compare segments from the end backwards. What is not the last level is
*warm-up* where it was slower and *earlier* where it was faster (their "slowdown"). Outliers are
hyperfine's, since the window of 200 that Barrett et al. look for them in is longer than most
recordings. ``level_changes.py`` has both.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz.text import duration
from loaderviz.why.level_changes import levels, stands_out
from loaderviz.why.loop_series import LoopSeries, loop_series

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace.trace import Trace

START, RESTART, WARM_UP, EARLIER = "start", "restart", "warm-up", "earlier"
PACE, PAUSE, UNSTEADY, END = "pace", "pause", "no steady state", "end"

FEWEST: Final = 8  # batches that show a pace: two halves (pyperf) of two quartiles each
# A level that lasts for less of the run is no steady state: 500 of 2,000 (Barrett et al., 4.3).
STEADY_PART: Final = 0.25
# Of either: levels, and supply and demand, that are known to be as near are alike
# (pyperf/_worker.py, calibrate_warmups).
ALIKE: Final = 0.1
# Of the batches: more that stand out are no outliers (Barrett et al. measure from the 90 % on).
RARE: Final = 0.1
# Times as many steps after a long one as up to it, none of them long: it does not come again.
ONCE: Final = 3

COLUMNS = {
    "rank": "int64",
    "loader": "int64",
    "epoch": "int64",
    "phase": "object",
    "from_batch": "int64",
    "to_batch": "int64",
    "from_s": "float64",
    "to_s": "float64",
    "seconds": "float64",
}


@dataclass(frozen=True)
class Change:
    """A level that did not last: how long reading a batch, or a step, took before and after.

    Attributes:
        of: "reading" or "step".
        kind: "shift"; or "drift", which goes on from level to level in one direction.
        rank, loader, epoch, batch: the first batch of the new level, or where the drift begins.
        before_s, after_s: the medians, in seconds; of a drift those of its two ends.
    """

    of: str
    kind: str
    rank: int
    loader: int
    epoch: int
    batch: int
    before_s: float
    after_s: float

    def __str__(self) -> str:
        what = "reading a batch" if self.of == "reading" else "a step"
        goes = "goes on from" if self.kind == "drift" else "went from"
        before, after = duration(self.before_s), duration(self.after_s)
        of = f" of epoch {self.epoch}" if self.epoch else ""
        return f"{what} {goes} {before} to {after} at batch {self.batch}{of}"


@dataclass(frozen=True, eq=False)
class PhaseOfBatches:
    """The phase that each batch of a series is in, and what changed on the way.

    A batch belongs to a phase from its delivery to the next one: with the step on it, and the wait
    after it. ``phase`` is an array of names, of shape (n,).
    """

    phase: Any
    changes: tuple[Change, ...]


def phases_of(trace: Trace) -> pd.DataFrame:
    """The table of ``Trace.phases``."""
    import pandas as pd

    rows: list[tuple[Any, ...]] = []
    for series in loop_series(trace):
        rows += _rows(series, phase_of_batches(series).phase, _ended(trace, series))
    table = pd.DataFrame(rows, columns=[*COLUMNS]).astype(COLUMNS)
    return table


def phase_of_batches(series: LoopSeries) -> PhaseOfBatches:
    """The phase of each batch of a loader."""
    n = len(series)
    phase = np.full(n, PACE, object)
    period_s = series.usual_period_s
    if n < FEWEST or not period_s > 0:
        phase[:] = UNSTEADY
        return PhaseOfBatches(phase, ())
    long = _long_steps(series, period_s)
    warm = _end_of_warm_up(long)
    changes: list[Change] = []
    last = warm
    slower = np.arange(n) < warm  # than it is in the end
    for of, values, kept, matters in (
        ("step", series.step_s, ~long & ~slower, ALIKE * period_s),
        ("reading", series.read_s, np.ones(n, bool), ALIKE * period_s * max(1, series.workers)),
    ):
        at = np.flatnonzero(kept & ~np.isnan(values))
        begins = levels(values[at], matters)
        if len(begins) == 1:
            continue
        medians = [float(np.median(part)) for part in np.split(values[at], begins[1:])]
        cut = int(at[begins[-1]])
        bounds = [0 if of == "reading" else warm, *at[begins[1:]].tolist(), n]
        for (start, end), median in zip(pairwise(bounds), medians, strict=True):
            slower[start:end] |= median > medians[-1]
        last = max(last, cut)
        found = _changes(series, of, at, begins, medians)
        changes += found
        if found[-1].kind == "drift" and len(at) - begins[-1] < len(at) / 2:
            last = n  # it had not ended
    # Slow from the beginning on is warm-up; slow after it was fast is not.
    warm = max(warm, min(last, int(np.argmin(np.append(slower, False)))))
    if n - last < max(FEWEST, STEADY_PART * (n - warm)):
        phase[warm:] = UNSTEADY
    else:
        phase[warm:last] = EARLIER
    phase[:warm] = WARM_UP
    phase[long & (phase == PACE)] = PAUSE
    return PhaseOfBatches(phase, tuple(changes))


def _long_steps(series: LoopSeries, period_s: float) -> Any:
    """Steps that stand out from those of the later half, and hold up the loop for a batch more.

    None where many do, as where each fourth step is the optimizer's: then they are the pace.
    """
    step_s = series.step_s
    later = step_s[len(series) // 2 :]
    usual_s = np.nanmedian(later) if (~np.isnan(later)).any() else np.nan
    long = stands_out(step_s, later) & (step_s - usual_s > period_s)
    return long & (long[len(long) // 2 :].mean() <= RARE)


def _end_of_warm_up(long: Any) -> int:
    """How many steps there are up to the last one that is long because the run is young.

    Such as several in a row, or one that a new shape compiles for. A pause comes again: after as
    many steps as it took to come.
    """
    at = np.flatnonzero(long[: len(long) // 2 + 1])
    if not len(at):
        return 0
    next_long = np.append(np.flatnonzero(long), len(long))
    following = next_long[np.searchsorted(next_long, at, side="right")]
    up_to = at + 1
    mostly_long = 2 * np.arange(1, len(at) + 1) >= up_to
    once = following - up_to >= ONCE * up_to
    young = np.flatnonzero(mostly_long | once)
    return int(up_to[young[-1]]) if len(young) else 0


def _changes(
    series: LoopSeries, of: str, at: Any, begins: list[int], medians: list[float]
) -> list[Change]:
    rises = np.sign(np.diff(medians))
    drifts = len(begins) > 2 and bool((rises == rises[0]).all())
    which = [1] if drifts else range(1, len(begins))
    changes = []
    for i in which:
        row = int(at[begins[i]])
        changes.append(
            Change(
                of=of,
                kind="drift" if drifts else "shift",
                rank=series.rank,
                loader=series.loader,
                epoch=int(series.rows["epoch"][row]),
                batch=int(series.rows["batch"][row]),
                before_s=medians[i - 1],
                after_s=medians[-1] if drifts else medians[i],
            )
        )
    return changes


def _ended(trace: Trace, series: LoopSeries) -> list[tuple[float, float]]:
    """When the loop left epochs, and had seen their workers end."""
    workers = trace.workers
    own = (workers["rank"] == series.rank) & (workers["loader"] == series.loader)
    both = workers.loc[own, ["dismissed_s", "gone_s"]].dropna().to_numpy()
    return [(float(start), float(end)) for start, end in np.unique(both, axis=0)]


def _rows(
    series: LoopSeries, phase: Any, ended: list[tuple[float, float]]
) -> list[tuple[Any, ...]]:
    """The rows of one loader: runs of batches of one epoch and one phase."""
    rows: list[tuple[Any, ...]] = []
    epoch, batch = series.rows["epoch"], series.rows["batch"]
    delivered = series.rows["delivered_s"]
    begins = np.flatnonzero(series.first | np.append(True, phase[1:] != phase[:-1])).tolist()
    started = False
    for start, end in pairwise([*begins, len(series)]):
        from_s, last_of_epoch = float(delivered[start]), end == len(series) or series.first[end]

        def add(name: str, first: int, last: int, since_s: float, until_s: float) -> None:
            place = series.rank, series.loader, int(epoch[first])
            rows.append((
                *place, name, int(batch[first]), int(batch[last]),
                since_s, until_s, until_s - since_s,
            ))  # fmt: skip

        if series.first[start]:
            begun_s = float(series.begun_s[start])
            if not started or series.anew[start]:
                add(RESTART if started else START, start, start, begun_s, from_s)
                started = True
            else:
                from_s = begun_s
        until_s = max(float(series.until_s[end - 1]), from_s)
        add(str(phase[start]), start, end - 1, from_s, until_s)
        if last_of_epoch:
            gone = [pair for pair in ended if pair[0] >= until_s and pair[1] > pair[0]]
            follows = float(series.begun_s[end]) if end < len(series) else np.inf
            if gone and gone[0][0] < follows:
                # Until the next epoch begins: with a new iterator the old one's workers end later.
                add(END, end - 1, end - 1, until_s, min(gone[0][1], follows))
    return rows
