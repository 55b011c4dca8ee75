"""What only a recording of the reader's own run shows: workers that die, grow or lag behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz._doctor.checks import OF_RECORDINGS, Seen, check, seen
from loaderviz._doctor.examination import Case, RecordedLoop
from loaderviz._doctor.findings import Undecided
from loaderviz.text import duration, percent, size, worker_name
from loaderviz.why.unlike_workers import FEWEST_BATCHES, slow_worker
from loaderviz.why.verdict import KEEPS_WAITING

if TYPE_CHECKING:
    import pandas as pd

MOST_NAMED = 3
LONG_KEY = 60  # characters of a key that are shown
LEAST_MEASURES = 20  # of a worker's memory, to say that it grows
GROWN_BYTES = 32 << 20  # in the second half
STEADY = 0.5  # of the growth in the first half: if the second grew less, the growth is ending
STOOD_S = 5.0  # the least that the loop waited in vain for a batch
STOOD_LONGER = 3.0  # times the longest that a batch took


def _recording(case: Case) -> RecordedLoop:
    assert case.recording is not None, "a check of recordings was given a loader"
    return case.recording


def _short_repr(key: Any) -> str:
    text = repr(key)
    return text if len(text) <= LONG_KEY else text[: LONG_KEY - 3] + "..."


@check("LV506", into=OF_RECORDINGS)
def _dead_worker(case: Case) -> Seen | None:
    recording = _recording(case)
    workers = recording.trace.workers
    died = workers[workers["exit"].isin(("killed", "failed"))]
    if died.empty:
        return None
    lines = []
    for row in died.head(MOST_NAMED).to_dict("records"):
        how = "was killed" if row["exit"] == "killed" else "ended with an error"
        key, memory = row["last_key"], row["rss_peak_bytes"]
        sample = "" if key is None else f" while it read the sample {_short_repr(key)}"
        peak = f", with {size(memory)} at its peak" if memory else ""
        lines.append(f"worker {row['worker']} (pid {row['pid']}) {how}{sample}{peak}")
    if len(died) > MOST_NAMED:
        lines.append(f"and {len(died) - MOST_NAMED} more of {len(workers)} workers")
    if not recording.complete and len(died) == len(workers):
        lines.append("the recording has no end either: the whole run may have been killed")
    keys = [key for key in died["last_key"] if key is not None][:1]
    return seen(
        *lines,
        fix=f"""
# In the shell: did the kernel kill it for lack of memory?  dmesg | grep -i "killed process"
dataset[{_short_repr(keys[0]) if keys else "..."}]  # does this sample alone do it?
DataLoader(dataset, num_workers=0)  # shows the error itself; you can use a debugger
""",
    )


@check("LV507", into=OF_RECORDINGS)
def _raised(case: Case) -> Seen | None:
    recording = _recording(case)
    batches = recording.trace.batches
    failed = batches[(batches["state"] == "failed") & batches["shapes"].isna()]  # else: LV602
    if failed.empty:
        return _lost(recording)
    first = failed.iloc[0]
    key = _key_under_way(recording, first)
    more = f"; {len(failed) - 1} more failed" if len(failed) > 1 else ""
    return seen(
        f"{_batch_name(first)} failed in {_maker(first)}{_at(key)}{more}",
        fix=f"dataset[{key or '...'}]  # should raise the same error",
    )


def _lost(recording: RecordedLoop) -> Seen | None:
    """A batch that never came, though making it did not raise; of dead workers LV506 tells."""
    batches, workers = recording.trace.batches, recording.trace.workers
    lost = batches[batches["state"] == "lost"]
    if lost.empty or workers["exit"].isin(("killed", "failed")).any():
        return None
    first = lost.iloc[0]
    key = _key_under_way(recording, first)
    return seen(
        f"{_batch_name(first)} never came from {_maker(first)}{_at(key)}",
        "no sample raised the exception: its message says what did, such as a worker_init_fn, or "
        "a timeout that ran out",
        fix="DataLoader(dataset, num_workers=0)  # is the error in the workers alone?",
    )


def _at(key: str) -> str:
    return f", at sample {key}" if key else ""


def _batch_name(batch: Any) -> str:
    return f"batch {batch['batch']} of epoch {batch['epoch']}"


def _maker(batch: Any) -> str:
    """The process that was to make this batch."""
    return ("the " if batch["worker"] < 0 else "") + worker_name(batch["worker"])


def _key_under_way(recording: RecordedLoop, batch: Any) -> str:
    """The sample that this batch was at: begun, and not read to its end. Empty if not known."""
    samples = recording.read_samples()
    for column in ("rank", "loader", "epoch", "batch", "worker"):
        samples = samples[samples[column] == batch[column]]
    keys = list(samples.loc[samples["end_s"].isna(), "key"])
    return _short_repr(keys[0]) if keys else ""


@check("LV509", into=OF_RECORDINGS)
def _never_came(case: Case) -> Seen | None:
    recording = _recording(case)
    trace = recording.trace
    batches = trace.batches.sort_values(["epoch", "batch"])
    lost = batches[(batches["state"] == "started") & batches["delivered_s"].isna()]
    if lost.empty:
        return None
    first = lost.iloc[0]
    process = _maker(first)
    asked_s = float(np.nanmax([first["started_s"], batches["released_s"].max()]))
    seen_until_s = [trace.meta.get("ended_s"), trace.workers["ended_s"].max()]
    stood_s = float(np.nanmax(np.array(seen_until_s, float), initial=asked_s)) - asked_s
    longest_s = float((batches["ready_s"] - batches["started_s"]).max())
    if not stood_s > max(STOOD_S, STOOD_LONGER * np.nan_to_num(longest_s)):
        if not recording.complete:
            raise Undecided(
                f"it breaks off while {process} made batch {first['batch']}; nothing says for how "
                "long"
            )
        return None
    key = _key_under_way(recording, first)
    return seen(
        f"{process} began batch {first['batch']} of epoch {first['epoch']}{_at(key)}, and the loop "
        f"waited {duration(stood_s)} for it in vain",
        f"the longest that a batch took before is {duration(longest_s)}",
        fix=f"""
# While it hangs, in another shell:  loaderviz stuck DIR  (DIR: the path of the recording)
dataset[{key or "..."}]  # does this sample alone do it?
DataLoader(dataset, timeout=60)  # raises an error in place of waiting for ever
""",
    )


@check("LV404", into=OF_RECORDINGS)
def _growing(case: Case) -> Seen | None:
    if not case.setup.num_workers:
        return None
    batches = _made_batches(case)
    worker_of, rss = batches["worker"].to_numpy(), batches["rss_bytes"].to_numpy().astype(float)
    measures = {
        int(worker): rss[(worker_of == worker) & (rss > 0)] for worker in np.unique(worker_of)
    }
    growth = {
        worker: _growth(values)
        for worker, values in measures.items()
        if len(values) >= LEAST_MEASURES
    }
    if not growth:
        raise Undecided("the workers' memory was measured too seldom")
    lasting = {
        worker: (first, middle, last)
        for worker, (first, middle, last) in growth.items()
        if last - middle >= GROWN_BYTES and last - middle >= STEADY * (middle - first)
    }
    if 2 * len(lasting) <= len(growth):
        return None
    worker, (first, middle, last) = max(lasting.items(), key=lambda item: item[1][2] - item[1][0])
    return seen(
        f"worker {worker} grew from {size(first)} to {size(last)}, by {size(last - middle)} in the "
        "second half of the recording (resident memory)",
        f"{len(lasting)} of {len(growth)} workers grow like this; the recording does not say "
        "whether they keep something, or copy pages of Python objects as they read them (LV401)",
        fix="""
self.items = np.array(items)  # one block instead of a list of Python objects
# and keep nothing in __getitem__: no cache, no list that grows
# loaderviz.doctor(loader) looks at the dataset itself
""",
    )


def _growth(rss: Any) -> tuple[float, float, float]:
    """Bytes early, in the middle and at the end; the first tenth is left out: it fills caches."""
    n = len(rss)
    tenth = max(n // 10, 1)
    parts = (rss[tenth : 2 * tenth], rss[n // 2 : n // 2 + tenth], rss[-tenth:])
    first, middle, last = (float(np.median(part)) for part in parts)
    return first, middle, last


def _made_batches(case: Case) -> pd.DataFrame:
    batches = _recording(case).trace.batches
    return batches[batches["ready_s"].notna()].sort_values("ready_s")


@check("LV307", into=OF_RECORDINGS)
def _lagging(case: Case) -> Seen | None:
    setup = case.setup
    if setup.num_workers < 2 or not setup.settings.get("in_order", True):
        return None
    batches = _made_batches(case)
    if batches.groupby("worker").size().min() < FEWEST_BATCHES or batches.empty:
        raise Undecided("too few batches of each worker")
    slow = slow_worker(batches)
    if slow is None:
        return None
    worker, factor = slow
    waits_s = batches["delivered_s"] - batches["requested_s"]
    own = batches["worker"] == worker
    late_s = float((waits_s[own] - waits_s[~own].median()).clip(lower=0).sum())
    share = late_s / float(batches["delivered_s"].max() - batches["requested_s"].min())
    if not share > KEEPS_WAITING:
        return None
    return seen(
        f"a sample takes worker {worker} {factor:.1f} times as long as the others (medians)",
        f"the loop waits for its batches {percent(share)} of the time",
        fix="""
DataLoader(dataset, in_order=False)  # where the order of batches need not be reproduced
# and look at what only this worker uses: its shard, its disk, its CPU
""",
    )
