"""What only a recording of the reader's own run shows: workers that die, grow or lag behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from loaderviz._doctor.checks import OF_RECORDINGS, Seen, check, seen
from loaderviz._doctor.examination import Case, RecordedLoop
from loaderviz._doctor.findings import Undecided
from loaderviz.text import duration, percent, size, worker_name

if TYPE_CHECKING:
    import pandas as pd

MOST_NAMED = 3
LONG_KEY = 60  # characters of a key that are shown
LEAST_MEASURES = 20  # of a worker's memory, to say that it grows
GROWN_BYTES = 32 << 20  # in the second half
STEADY = 0.5  # of the growth in the first half: if the second grew less, the growth is ending
STOOD_S = 5.0  # the least that the loop waited in vain for a batch
STOOD_LONGER = 3.0  # times the longest that a batch took
LAGS = 1.5  # times as long for a batch as the other workers
LEAST_BATCHES = 10  # of a worker
WAIT_SHARE = 0.1  # of the time of the loop


def _recording(case: Case) -> RecordedLoop:
    assert case.recording is not None, "a check of recordings was given a loader"
    return case.recording


def _short_repr(key: Any) -> str:
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
def _dead_worker(case: Case) -> Seen | None:
    recording = _recording(case)
    workers = recording.trace.workers
    died = workers[workers["exit"].isin(("killed", "failed"))]
    if died.empty:
        return None
    lines = []
    for row in died.head(MOST_NAMED).to_dict("records"):
        how = "was killed" if row["exit"] == "killed" else "ended with an error"
        sample = f" while it read the sample {_short_repr(row['last_key'])}"
        memory = row["rss_peak_bytes"]
        lines.append(
            f"worker {row['worker']} (pid {row['pid']}) {how}"
            f"{sample if row['last_key'] is not None else ''}"
            f"{f', with {size(memory)} at its peak' if memory else ''}"
        )
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


@check(
    "LV507",
    "The loop got an exception in place of a batch",
    "error",
    notebook=2,
    into=OF_RECORDINGS,
)
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
    """The sample that this batch was at; empty where that is not known."""
    keys = _keys_under_way(recording.read_samples(), batch)
    return _short_repr(keys[0]) if keys else ""


@check(
    "LV509",
    "A batch was begun and never came",
    "error",
    notebook=2,
    threads="96629 165832 43502",
    into=OF_RECORDINGS,
)
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
    keys = _keys_under_way(recording.read_samples(), first)
    sample = f", at sample {_short_repr(keys[0])}" if len(keys) == 1 else ""
    key = _short_repr(keys[0]) if len(keys) == 1 else "..."
    return seen(
        f"{process} began batch {first['batch']} of epoch {first['epoch']}{sample}, and the loop "
        f"waited {duration(stood_s)} for it in vain",
        f"the longest that a batch took before is {duration(longest_s)}",
        fix=f"""
# While it hangs, in another shell:  loaderviz stuck DIR  (DIR: the path of the recording)
dataset[{key}]  # does this sample alone do it?
DataLoader(dataset, timeout=60)  # raises an error in place of waiting for ever
""",
    )


def _keys_under_way(samples: pd.DataFrame, batch: pd.Series[Any]) -> list[Any]:
    """The keys of a batch's samples that were begun and not read to their end."""
    for column in ("rank", "loader", "epoch", "batch", "worker"):
        samples = samples[samples[column] == batch[column]]
    return list(samples.loc[samples["end_s"].isna(), "key"])


@check(
    "LV404",
    "The memory of the workers keeps growing",
    "warning",
    notebook=7,
    threads="13246",
    into=OF_RECORDINGS,
)
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


@check(
    "LV307",
    "One worker is slower than the others, and the loop waits for it",
    "advice",
    notebook=3,
    threads="105203",
    into=OF_RECORDINGS,
)
def _lagging(case: Case) -> Seen | None:
    setup = case.setup
    if setup.num_workers < 2 or not setup.settings.get("in_order", True):
        return None
    batches = _made_batches(case)
    columns = ("worker", "requested_s", "started_s", "ready_s", "delivered_s")
    worker_of, requested, started, ready, delivered = (batches[c].to_numpy() for c in columns)
    made_s = {
        int(worker): (ready - started)[worker_of == worker] for worker in np.unique(worker_of)
    }
    if len(made_s) < 2 or min(map(len, made_s.values())) < LEAST_BATCHES:
        raise Undecided("too few batches of each worker")
    medians_s = {worker: float(np.nanmedian(times)) for worker, times in made_s.items()}
    slowest = max(medians_s, key=lambda worker: medians_s[worker])
    slowest_s = medians_s.pop(slowest)
    others_s = float(np.median(list(medians_s.values())))
    if not slowest_s >= LAGS * others_s:
        return None
    due = np.fmax(requested, started + others_s)
    late_s = float(np.nansum((delivered - due).clip(0)[worker_of == slowest]))
    span_s = float(np.nanmax(delivered) - np.nanmin(requested))
    if not late_s > WAIT_SHARE * span_s:
        return None
    return seen(
        f"worker {slowest} takes {duration(slowest_s)} for a batch (median), the others "
        f"{duration(others_s)}",
        f"the loop waits for its batches {percent(late_s / span_s)} of the time",
        fix="""
DataLoader(dataset, in_order=False)  # where the order of batches need not be reproduced
# and look at what only this worker uses: its shard, its disk, its CPU
""",
    )
