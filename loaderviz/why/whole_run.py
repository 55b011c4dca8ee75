"""What a recording that keeps its last seconds says of its whole run, by its windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from loaderviz.text import clock_time, count, percent
from loaderviz.trace.columns_of_rows import Table, where
from loaderviz.trace.described_loaders import loader_description, unseen
from loaderviz.trace.loaders_as_one import windows_as_one
from loaderviz.trace.windows import waited_share
from loaderviz.why.level_changes import levels
from loaderviz.why.phases import ALIKE

if TYPE_CHECKING:
    from loaderviz.trace.trace import Trace


FEWEST_WINDOWS: Final = 3  # so that one is neither the first nor the last


@dataclass(frozen=True)
class WholeRun:
    """The run of a trace that holds only its end in full.

    Attributes:
        seconds: from its beginning to its last window's end.
        wait_share: of the loops' time in their windows, of all loaders and ranks, 0 to 1; starts
            of workers are in it.
        kept_s: how many seconds the trace holds.
        epochs: of the loader that has most.
        promised_s: how long an epoch of the loader that most time goes to would take at the pace of
            its second window, the first without warm-up; None where no epoch is known to be whole,
            or there are fewer than three windows.
        took_s: what its whole epochs took, the shortest and the longest.
        incidents: a sentence each, without its full stop, the longest-lasting first.
    """

    seconds: float
    wait_share: float
    kept_s: float
    epochs: int
    promised_s: float | None
    took_s: tuple[float, float]
    incidents: tuple[str, ...]

    def __str__(self) -> str:
        told = f"In all of {clock_time(self.seconds)}, {count(self.epochs, 'epoch')}, the loop "
        told += f"waits {percent(self.wait_share)}; what is said above is of the loops in the last "
        told += clock_time(self.kept_s)
        if self.promised_s is not None:
            shortest, longest = map(clock_time, self.took_s)
            told += f". At its first pace an epoch would take {clock_time(self.promised_s)}; they "
            told += "took "
            told += shortest if shortest == longest else f"{shortest} to {longest}"
        return ". ".join([told, *self.incidents[:1]])


def whole_run(trace: Trace) -> WholeRun | None:
    """The whole run; None of a trace that holds all of it, or has no windows."""
    begins_s = trace.meta.get("begins_s") or 0.0
    is_told = trace.meta.get("windows") and begins_s and not unseen(trace)  # what the loop waits
    rows = windows_as_one(trace) if is_told else {}
    if not len(rows.get("rank", ())):
        return None
    seconds = float(rows["end_s"].max())
    promised_s, took_s = _epochs(trace, rows)
    return WholeRun(
        seconds=seconds,
        wait_share=waited_share(rows),
        kept_s=seconds - begins_s,
        epochs=int(rows["epoch"].max()) + 1,
        promised_s=promised_s,
        took_s=took_s,
        incidents=tuple(_incidents(trace, rows)),
    )


def _epochs(trace: Trace, rows: Table) -> tuple[float | None, tuple[float, float]]:
    """What an epoch was promised to take, and what the shortest and the longest took.

    Where nobody knows how long the loader is, the longest but the last epoch tells, as a loop may
    break off, and the last may go on.
    """
    taken_s = rows["startup_s"] + rows["wait_s"] + rows["step_s"]
    loaders = np.unique(rows["loader"]).tolist()
    main = max(loaders, key=lambda loader: taken_s[rows["loader"] == loader].sum())
    own = where({**rows, "taken_s": taken_s}, rows["loader"] == main)
    own = where(own, own["rank"] == own["rank"][0])
    n_batches = np.bincount(own["epoch"], own["batches"])
    length = loader_description(trace.meta, main).get("n_batches")
    whole = n_batches == (length or n_batches.max())
    if length is None:
        whole[-1] = False
    own = where(own, own["batches"] > 0)
    if not whole.any() or len(own["epoch"]) < FEWEST_WINDOWS:
        return None, (0.0, 0.0)
    took_s = np.bincount(own["epoch"], own["taken_s"], len(whole))[whole]
    each_s = float(own["wait_s"][1] + own["step_s"][1]) / float(own["batches"][1])
    return each_s * float(n_batches[whole][0]), (float(took_s.min()), float(took_s.max()))


def _incidents(trace: Trace, rows: Table) -> list[str]:
    table: list[Any] = trace.incidents.to_dict("records")
    end_s = float(rows["end_s"].max())
    told = []
    for row in table:
        ended = not np.isnan(row["end_s"])
        until_s = row["end_s"] if ended else end_s
        within = where(rows, (rows["start_s"] >= row["start_s"]) & (rows["start_s"] < until_s))
        until = f"to {clock_time(until_s)}" if ended else "on"
        text = f"From {clock_time(row['start_s'])} {until} it waits "
        text += f"{percent(waited_share(within))}: {row['text']}"
        if row["kind"] not in ("step", "reading"):
            text = f"At {clock_time(row['start_s'])}: {row['text']}"
        told.append((until_s - row["start_s"], f"{text} (incident {row['incident']})"))
    return [text for _, text in sorted(told, key=lambda each: -each[0])]


def after_warmup(rows: Table) -> Table:
    """The windows of one rank without those of its warm-up.

    That is the first, with the start of the workers, and all of a first level of the time for a
    batch that later ones are quicker than.
    """
    done = where(rows, rows["batches"] > 0)
    order = np.argsort(done["start_s"], kind="stable")
    done = where(done, order)
    each_s = (done["wait_s"] + done["step_s"]) / done["batches"]
    later = each_s[1:]
    begins = levels(later, ALIKE * float(np.median(later))) if len(later) else [0]
    first = 1
    if len(begins) > 1 and np.median(later[: begins[1]]) > np.median(later[begins[1] :]):
        first += begins[1]
    return where(done, slice(first, None))
