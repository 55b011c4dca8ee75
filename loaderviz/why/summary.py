"""What limits a run, in numbers: pure arithmetic on the tables of a trace.

What the numbers mean is said by ``verdict.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz._upward import ask_above
from loaderviz.errors import LoaderVizError
from loaderviz.failed_part import Part, part
from loaderviz.text import printable
from loaderviz.trace.described_loaders import loader_description, unseen
from loaderviz.trace.loaders_as_one import as_one
from loaderviz.trace.steps import device_times
from loaderviz.why.attribution import Attribution, attribute
from loaderviz.why.loader_share import LoaderShare, loader_shares
from loaderviz.why.notes import notes_of, numbers_of
from loaderviz.why.pace import Pace, paces
from loaderviz.why.rank_summary import by_rank
from loaderviz.why.reading_time import Reading
from loaderviz.why.slowest_rank import Slowest, slowest
from loaderviz.why.unequal_epochs import Unequal, unequal
from loaderviz.why.verdict import verdict_of

if TYPE_CHECKING:
    import pandas as pd

    from loaderviz.trace.trace import Trace

CAUSES_COLUMNS = (
    *("loader", "cause", "seconds", "share", "saves_s", "evidence", "cure"),
    *("epoch_s", "epoch_saves_s"),
)


@dataclass(frozen=True)
class Summary:
    """The run of a trace in numbers. Times are seconds of the consumer; shares are 0 to 1.

    The consumer's time is ``startup_s + wait_s + step_s``; what it did between two epochs is not
    in it. Several ranks have a consumer each: batches, samples, workers and times are added up,
    so that a share is that of the time of all of them. Times and shares of the consumer are NaN
    where it was not seen to ask, as a thread of its own reads ahead: see ``waits_are_seen``.
    """

    n_batches: int  # delivered
    n_samples: int  # delivered
    n_workers: int  # of all loaders together; 0 where the main process loads
    epochs: int  # of the rank that has most
    startup_s: float  # starting workers, drawing keys for them in iter(), and ending them
    wait_s: float  # in next()
    first_wait_s: float  # the part of it that went into each epoch's first batch
    handover_s: float  # the part, first batches aside, that went into batches that lay ready
    step_s: float  # between delivery and the next request
    samples_per_s: float  # from each epoch's first batch to its last; of all ranks, side by side
    # The first batch whose making raised an exception; or, of several, the first without a next.
    failed_batch: int | None = None
    failed_rank: int | None = None  # and the rank that it is of
    failed_loader: int | None = None
    failed_shapes: str | None = None  # and which of its samples' shapes differ, if that is why
    passed: int = 0  # batches that failed so, and after which others came
    went_on: bool = False  # whether those are all that failed
    lost_batch: int | None = None  # the first one that the loop asked for and got an exception
    lost_rank: int | None = None
    lost_loader: int | None = None
    n_ranks: int = 1
    slowest: Slowest | None = None  # where ranks differ
    unequal: tuple[Unequal, ...] = ()  # epochs whose number of batches differs between ranks
    complete: bool = True  # every recording has ended
    unread: tuple[str, ...] = ()  # recordings of the run that are not in the trace, and why
    problems: tuple[str, ...] = ()  # what else the recordings lack, in their own words
    ending_s: float = 0.0  # the part of startup_s until workers had ended; 0 where they stay
    device_busy_s: float = 0.0  # with the steps after each epoch's first; 0 without a device
    device_idle_s: float = 0.0  # before them: what was queued was done
    loaders: tuple[LoaderShare, ...] = ()  # each by itself
    trace: Trace | None = field(default=None, repr=False, compare=False)  # for the causes
    # What failed and was left out, a sentence each without its full stop; it grows as parts that
    # are worked out when they are asked for, such as the causes, fail.
    failed_parts: list[str] = field(default_factory=list, compare=False)

    @property
    def elapsed_s(self) -> float:
        """All of the consumer's time."""
        return self.startup_s + self.wait_s + self.step_s

    @property
    def wait_share(self) -> float:
        """Of the consumer's time, the part that is not its own work but waiting and starting."""
        return 1 - self.step_s / self.elapsed_s if self.elapsed_s != 0 else 0.0

    @property
    def waits_are_seen(self) -> bool:
        """Whether the loop was seen to ask for its batches; else a thread of its own does."""
        return not math.isnan(self.wait_s)

    @property
    def later_wait_s(self) -> float:
        """The part of the waiting that went into batches after each epoch's first."""
        return self.wait_s - self.first_wait_s

    @property
    def later_wait_share(self) -> float:
        """Of the consumer's time past each epoch's first batch, the part that it waits."""
        return self.later_wait_s / ((self.later_wait_s + self.step_s) or 1.0)

    @property
    def device_idle_share(self) -> float:
        """Of the device's time, the part in which it had nothing to do; 0 without a device."""
        time_s = self.device_busy_s + self.device_idle_s
        return self.device_idle_s / time_s if time_s > 0 else 0.0

    @cached_property
    def causes(self) -> pd.DataFrame:
        """Where ``wait_s + startup_s`` went: one row for each loader and cause, by weight.

        Columns: ``loader``; ``cause``, of ``loaderviz.why.attribution.CAUSES``;
        ``seconds``, which add up to the waits; ``share``, of ``elapsed_s``, 0 to 1; ``saves_s``, by
        how many seconds the run would be shorter without the cause, NaN where nobody can tell;
        ``evidence`` and ``cure``, in words; ``epoch_s`` and ``epoch_saves_s``, the same of a whole
        epoch at the loader's pace, NaN where there is none. To know what a cut saves, the loop is
        replayed, batch by batch, with what each really took. The loader that is waited for longest
        comes first, and of its causes the one whose cut saves most of what it is waited for: in an
        epoch, where the pace is known. Of many loaders a few are examined.
        """
        import pandas as pd

        nothing = pd.DataFrame(columns=CAUSES_COLUMNS)
        if self.trace is None:
            raise LoaderVizError("this summary has no trace: take the causes of trace.summary()")
        return self._part("causes", lambda: ask_above("causes of a trace", self), nothing)

    def _part(self, name: str, work_out: Callable[[], Part], otherwise: Part) -> Part:
        return part(name, work_out, otherwise, self.failed_parts)

    @cached_property
    def paces(self) -> tuple[Pace, ...]:
        """The pace of each loader of each rank: see ``why/pace.py``."""
        trace = self.trace
        none: tuple[Pace, ...] = ()
        return none if trace is None else self._part("paces", lambda: paces(trace), none)

    def pace_of(self, loader: int) -> Pace | None:
        """The pace of a loader in the first rank that has it; None where there is none."""
        return next((pace for pace in self.paces if pace.loader == loader), None)

    def name_of(self, loader: int) -> str:
        """The name of a loader, by its number."""
        names = (share.name for share in self.loaders if share.loader == loader)
        return next(names, f"loader {loader}")

    @property
    def asked(self) -> list[LoaderShare]:
        """The loaders that the loop asks, and no thread that reads ahead."""
        return [share for share in self.loaders if not share.read_ahead]

    @property
    def main_pace(self) -> Pace | None:
        """The pace of the loader that is waited for longest; None of what was simulated.

        A simulation is told as it is: nobody goes on with it.
        """
        if self.trace is None or self.trace.meta.get("simulated") or not self.loaders:
            return None
        return self.pace_of(max(self.loaders, key=lambda share: share.waited_s).loader)

    @cached_property
    def seconds_by_cause(self) -> dict[str, float]:
        """What was waited for, of all loaders and ranks, without a look at what a cut saves."""
        if self.trace is None:
            return {}
        return self._part("seconds by cause", lambda: self.attribution[1].totals(), {})

    @cached_property
    def attribution(self) -> tuple[Reading, Attribution]:
        """How long reading took and why, and what each wait goes to; of a summary with a trace."""
        assert self.trace is not None
        reading = Reading.of(self.trace)
        return reading, attribute(self.trace, reading)

    @property
    def main_cause(self) -> str:
        """The first of the causes; empty where nothing was waited for.

        Of a simulated trace the one with the most seconds: what each saves takes replays, too long
        for a picture that follows a slider.
        """
        if self.trace is None:
            return ""
        if self.trace.meta.get("simulated"):
            seconds = self.seconds_by_cause
            return max(seconds, key=lambda cause: seconds[cause], default="")
        return str(self.causes["cause"].iloc[0]) if len(self.causes) else ""

    @property
    def main_loader(self) -> LoaderShare | None:
        """The loader that ``main_cause`` is about; None where nothing was waited for."""
        shares = {share.loader: share for share in self.loaders}
        if len(shares) == 1 or self.trace is None or not len(self.causes):
            return self.loaders[0] if len(shares) == 1 else None
        return shares.get(int(self.causes["loader"].iloc[0]))

    @property
    def verdict(self) -> str:
        """The main thing, in one line."""
        return self._part("the verdict", lambda: verdict_of(self), "No verdict could be worked out")

    @property
    def numbers(self) -> str:
        """The numbers that the verdict rests on, in one line."""
        return self._part("the numbers", lambda: numbers_of(self), "")

    @property
    def notes(self) -> list[str]:
        """What else a reader has to know, a sentence each."""
        no_notes: list[str] = []
        notes = self._part("notes", lambda: notes_of(self), no_notes)
        return [*notes, *(f"Incomplete: {each}." for each in dict.fromkeys(self.failed_parts))]

    def as_dict(self) -> dict[str, Any]:
        """The numbers by their names, without the trace and what is worked out from it."""
        numbers = asdict(replace(self, trace=None))
        del numbers["trace"]
        return numbers

    def __str__(self) -> str:
        verdict = self.verdict  # first, as it asks for the causes, and notes say what failed
        notes = [each for each in self.notes if each != f"{verdict}."]
        return printable("\n".join(filter(None, [verdict, self.numbers, *notes])))


def _failed(batches: pd.DataFrame, meta: Mapping[str, Any]) -> tuple[Any, Any]:
    """The rows of batches that failed, and which were followed by others; where order is kept."""
    rows = np.flatnonzero(batches["state"].to_numpy() == "failed")
    if not len(rows):
        return rows, np.zeros(0, dtype=bool)
    failed = batches.iloc[rows]
    of_one = ["rank", "loader", "epoch"]
    delivered = batches[
        (batches["state"] == "delivered") & batches["loader"].isin(failed["loader"])
    ]
    last = delivered.groupby(of_one)["batch"].max().rename("last")
    followed = failed[of_one].join(last, on=of_one)["last"] > failed["batch"]
    orders = [loader_description(meta, each).get("in_order", True) for each in failed["loader"]]
    return rows, followed.to_numpy() & np.array(orders, dtype=bool)


def summarize(trace: Trace) -> Summary:
    """The run of a trace in numbers, all ranks and loaders together.

    A loader that is made anew at one line of code is one: the summary's ``trace`` has one number
    for all its lives (``loaders_as_one.py``).
    """
    trace = as_one(trace)
    ranks = by_rank(trace)
    failed_rows, passed = _failed(trace.batches, trace.meta)
    first_rows = {
        "failed": failed_rows[~passed] if not passed.all() else failed_rows,
        "lost": np.flatnonzero(trace.batches["state"].to_numpy() == "lost"),
    }

    def first(state: str, column: str) -> Any:
        rows = first_rows[state]
        return trace.batches[column].iloc[rows[:1]].tolist()[0] if len(rows) else None

    def total(column: str) -> float:
        return float(ranks[column].sum())

    seen = not unseen(trace)

    def of_loop(column: str) -> float:
        return total(column) if seen else math.nan

    unread = tuple(trace.meta.get("unread") or ())
    columns = ("rank", "epoch", "device_start_s", "device_end_s")
    device_columns = {each: trace.batches[each].to_numpy() for each in columns}
    failed: list[str] = []
    busy_s, idle_s = part(
        "times of the device", lambda: device_times(device_columns), (0.0, 0.0), failed
    )
    return Summary(
        n_batches=int(ranks["n_batches"].sum()),
        n_samples=int(ranks["n_samples"].sum()),
        n_workers=int(ranks["n_workers"].sum()),
        epochs=int(ranks["epochs"].max()) if len(ranks) else 0,
        startup_s=of_loop("startup_s"),
        ending_s=of_loop("ending_s"),
        wait_s=of_loop("wait_s"),
        first_wait_s=of_loop("first_wait_s"),
        handover_s=of_loop("handover_s"),
        step_s=of_loop("step_s"),
        samples_per_s=total("samples_per_s"),
        failed_batch=first("failed", "batch"),
        failed_rank=first("failed", "rank"),
        failed_loader=first("failed", "loader"),
        failed_shapes=first("failed", "shapes"),
        passed=int(passed.sum()),
        went_on=bool(len(passed) and passed.all()),
        lost_batch=first("lost", "batch"),
        lost_rank=first("lost", "rank"),
        lost_loader=first("lost", "loader"),
        n_ranks=max(1, len(ranks)),
        slowest=part("the slowest rank", lambda: slowest(ranks) if seen else None, None, failed),
        unequal=part("unequal epochs", lambda: tuple(unequal(trace)), (), failed),
        complete=bool(trace.meta.get("complete", True)),
        unread=unread,
        problems=tuple(each for each in trace.meta.get("problems") or () if each not in unread),
        device_busy_s=busy_s,
        device_idle_s=idle_s,
        loaders=part("shares of the loaders", lambda: loader_shares(trace), (), failed),
        trace=trace,
        failed_parts=failed,
    )
