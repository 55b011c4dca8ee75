"""What only a recording of the reader's own run shows: workers that die, that swell, that lag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz._doctor.checks import OF_RECORDINGS, Seen, check, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.findings import Undecided
from loaderviz.text import duration, percent, size, worker_name

if TYPE_CHECKING:
    import pandas as pd

MOST_NAMED = 3
LONG_KEY = 60  # characters of a key that are shown
LOOKS = 20  # at a worker's memory, to say that it grows
GROWN = 32 << 20  # bytes, in the second half
STEADY = 0.5  # of what the first half grew by: less, and the growth comes to an end
LAGS = 1.5  # times as long for a batch as the other workers
FEW = 10  # batches of a worker
HURTS = 0.1  # of the time of the loop


def _recording(case: Case) -> Any:
    return case.traces["recorded"]


def _key(key: Any) -> str:
    text = repr(key)
    return text if len(text) <= LONG_KEY else text[: LONG_KEY - 3] + "..."


@check(
    "LV506",
    "A worker died while the loop ran",
    "error",
    notebook=2,
    threads="8976",
    into=OF_RECORDINGS,
)
def dead_worker(case: Case) -> Seen | None:
    workers = _recording(case).workers
    died = workers[workers["exit"].isin(("killed", "failed"))]
    if died.empty:
        return None
    lines = []
    for row in died.head(MOST_NAMED).to_dict("records"):
        how = "was killed" if row["exit"] == "killed" else "ended with an error"
        what = f" while it read the sample {_key(row['last_key'])}"
        memory = row["rss_peak_bytes"]
        lines.append(
            f"worker {row['worker']} (pid {row['pid']}) {how}"
            f"{what if row['last_key'] is not None else ''}"
            f"{f', with {size(memory)} at its peak' if memory else ''}"
        )
    if len(died) > MOST_NAMED:
        lines.append(f"and {len(died) - MOST_NAMED} more of {len(workers)} workers")
    if not case.facts["complete"] and len(died) == len(workers):
        lines.append("the recording did not end either: the whole run may have been killed")
    keys = [key for key in died["last_key"] if key is not None][:1]
    return seen(
        *lines,
        fix=f"""
# In the shell: was it the kernel, for want of memory?  dmesg | grep -i "killed process"
dataset[{_key(keys[0]) if keys else "..."}]  # does this sample alone do it?
DataLoader(dataset, num_workers=0)  # shows the error itself, or a debugger
""",
    )


@check(
    "LV507",
    "Making a batch raised an exception",
    "error",
    notebook=2,
    into=OF_RECORDINGS,
)
def raised(case: Case) -> Seen | None:
    trace = _recording(case)
    failed = trace.batches[trace.batches["state"] == "failed"]
    if failed.empty:
        return None
    first = failed.iloc[0]
    own = case.facts["samples of"]()
    for column in ("rank", "loader", "epoch", "batch", "worker"):
        own = own[own[column] == first[column]]
    keys = own.loc[own["end_s"].isna(), "key"].tolist()
    who = ("the " if first["worker"] < 0 else "") + worker_name(first["worker"])
    what = f", at the sample {_key(keys[0])}" if keys else ""
    more = f"; {len(failed) - 1} more failed" if len(failed) > 1 else ""
    return seen(
        f"batch {first['batch']} of epoch {first['epoch']} failed in {who}{what}{more}",
        fix=f"dataset[{_key(keys[0]) if keys else '...'}]  # raises the same, in this process",
    )


@check(
    "LV404",
    "The memory of the workers grows and goes on growing",
    "warning",
    notebook=7,
    threads="13246",
    into=OF_RECORDINGS,
)
def growing(case: Case) -> Seen | None:
    if not case.setup.num_workers:
        return None
    table = _made(case)
    worker_of, rss = table["worker"].to_numpy(), table["rss_bytes"].to_numpy().astype(float)
    looks = {
        int(each): rss[(worker_of == each) & (rss > 0)] for each in np.unique(worker_of[rss > 0])
    }
    grown = {each: _growth(own) for each, own in looks.items() if len(own) >= LOOKS}
    if not grown:
        raise Undecided("too few looks at the workers' memory")
    lasting = {
        worker: (first, middle, last)
        for worker, (first, middle, last) in grown.items()
        if last - middle >= GROWN and last - middle >= STEADY * (middle - first)
    }
    if 2 * len(lasting) <= len(grown):
        return None
    worker, (first, middle, last) = max(lasting.items(), key=lambda each: each[1][2] - each[1][0])
    return seen(
        f"worker {worker} grew from {size(first)} to {size(last)}, by {size(last - middle)} in the "
        "second half of the recording (resident memory)",
        f"so do {len(lasting)} of {len(grown)} workers: what they keep, or pages of Python objects "
        "that are copied as they are read (LV401), a recording does not tell",
        fix="""
self.items = np.array(items)  # one block instead of a list of Python objects
# and in __getitem__ keep nothing: no cache, no list that grows.
# loaderviz.doctor(loader) looks at the dataset itself
""",
    )


def _growth(rss: Any) -> tuple[float, float, float]:
    """At the start, in the middle and at the end; the first tenth is the filling of caches."""
    n = len(rss)
    tenth = max(n // 10, 1)
    cuts = (rss[tenth : 2 * tenth], rss[n // 2 : n // 2 + tenth], rss[-tenth:])
    first, middle, last = (float(np.median(each)) for each in cuts)
    return first, middle, last


def _made(case: Case) -> pd.DataFrame:
    batches: pd.DataFrame = _recording(case).batches
    return batches[batches["ready_s"].notna()].sort_values("ready_s")


@check(
    "LV307",
    "One worker is slower than the others, and all wait for it",
    "advice",
    notebook=3,
    threads="105203",
    into=OF_RECORDINGS,
)
def lagging(case: Case) -> Seen | None:
    setup = case.setup
    if setup.num_workers < 2 or not setup.own.get("in_order", True):
        return None
    table = _made(case)
    made = {column: table[column].to_numpy() for column in table.columns if column[-2:] == "_s"}
    worker, made_s = table["worker"].to_numpy(), made["ready_s"] - made["started_s"]
    seen_at = {int(each): made_s[worker == each] for each in np.unique(worker)}
    if len(seen_at) < 2 or min(map(len, seen_at.values())) < FEW:
        raise Undecided("too few batches of each worker")
    took = {each: float(np.nanmedian(times)) for each, times in seen_at.items()}
    slowest = max(took, key=lambda each: took[each])
    others = float(np.median([each for who, each in took.items() if who != slowest]))
    if not took[slowest] >= LAGS * others:
        return None
    due = np.fmax(made["requested_s"], made["started_s"] + others)
    late_s = float(np.nansum((made["delivered_s"] - due).clip(0)[worker == slowest]))
    span_s = float(np.nanmax(made["delivered_s"]) - np.nanmin(made["requested_s"]))
    if not late_s > HURTS * span_s:
        return None
    return seen(
        f"worker {slowest} takes {duration(took[slowest])} for a batch (median), the others "
        f"{duration(others)}",
        f"the loop waits {percent(late_s / span_s)} of the time for its batches",
        fix="""
DataLoader(dataset, in_order=False)  # where the order of batches need not be reproduced
# and look at what is its own: its shard, its disk, the CPU that it runs on
""",
    )
