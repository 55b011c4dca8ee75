"""What workers read and compute with, as evidence, and what to do about it: a sentence each.

``doctor`` tries these out; here they are read from what a recording has of its workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from loaderviz.text import count, duration, percent, size
from loaderviz.why.small_batches import one_by_one_s
from loaderviz.why.worker_cpus import helping_threads, shared_cpus

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from loaderviz.trace import Trace

READING: Final = (
    "workers",
    "main_process",
    "cpu",
    "collate",
    "handover",
    "unknown",
    "slow_samples",
)
MUCH_BYTES: Final = 1 << 20  # a batch: to copy so many from the page cache takes some 0.1 ms
MANY_TIMES: Final = 10.0  # as many bytes as are sent: texts and compressed images take fewer
FROM_DISK_BYTES: Final = 1 << 24  # in all: from a disk of 200 MB/s in 80 ms
COLD: Final = 0.1  # of the first epoch's bytes, at most, come from the disk in each later one

READ_LESS: Final = (
    "Read less for each sample: seek to its row, in a file that stays open (np.load(path, "
    'mmap_mode="r") does), or store each sample on its own.'
)
FREE_CPUS: Final = (
    "Something that workers import or run has set their affinity: give all CPUs back after it, as "
    "in worker_init_fn: os.sched_setaffinity(0, range(os.cpu_count()))."
)
ONE_THREAD: Final = (
    "One thread in each worker, in worker_init_fn: torch.set_num_threads(1), and "
    "cv2.setNumThreads(0) where samples use OpenCV; or OMP_NUM_THREADS=1 in the shell."
)
TAKE_SLICES: Final = (
    "Ask for slices: DataLoader(dataset, sampler=BatchSampler({sampler}(dataset), {size}, "
    "drop_last={drop_last}), batch_size=None) takes dataset[[...]] as a batch, where the dataset "
    "takes lists; it needs no workers then."
)


def evidence_of_resources(cause: str, trace: Trace, loader: int) -> Iterator[str]:
    """What the workers of a loader read and compute with, where that may be behind a cause."""
    if cause not in READING:
        return
    batches = trace.batches[trace.batches["loader"] == loader]
    item_s = one_by_one_s(trace, loader)
    if item_s is not None:
        yield f"samples are in memory, and read one by one in {duration(item_s)} each"
    shared = _shared(trace, loader)
    if shared is not None:
        n_workers = trace.workers[trace.workers["loader"] == loader]["worker"].nunique()
        allowed = float(trace.meta["cpu_allowance"])
        yield f"all {n_workers} workers may use {count(len(shared), 'CPU')} of {allowed:g}"
    if cause == "cpu" and (helped := _helped(trace, loader)) is not None:
        thread_s, process_s = helped
        yield f"only {percent(thread_s / process_s)} of that in the thread that reads samples"
        if (threads := _torch_threads(trace, loader)) > 1:
            yield f"torch computes in {threads:.0f} threads of each worker"
    if _reads_much(batches):
        known = _known(batches)
        read, sent = known["read_bytes"].mean(), known["n_bytes"].mean()
        yield f"a worker reads {size(read)} for a batch of {size(sent)}"
    yield from _from_disk(batches)


def cure_of_resources(cause: str, trace: Trace, loader: int) -> str:
    """What to do about what workers read and compute with; empty where that is not behind it."""
    if cause not in READING:
        return ""
    batches = trace.batches[trace.batches["loader"] == loader]
    if one_by_one_s(trace, loader) is not None:
        about = trace.meta["loaders"][loader]
        sampler = "RandomSampler" if about.get("shuffled") else "SequentialSampler"
        n, drops = about.get("batch_size"), about.get("drop_last")
        return TAKE_SLICES.format(sampler=sampler, size=n or "batch_size", drop_last=bool(drops))
    if _shared(trace, loader) is not None:
        return FREE_CPUS
    if cause == "cpu" and _helped(trace, loader) is not None:
        return ONE_THREAD
    return READ_LESS if cause != "handover" and _reads_much(batches) else ""


def _shared(trace: Trace, loader: int) -> set[int] | None:
    ranks = trace.workers[trace.workers["loader"] == loader]["rank"]
    return shared_cpus(trace, loader, int(ranks.min())) if len(ranks) else None


def _torch_threads(trace: Trace, loader: int) -> float:
    """The most in which torch computes one operation in a worker; NaN: unknown."""
    return float(trace.workers[trace.workers["loader"] == loader]["threads"].max())


def _helped(trace: Trace, loader: int) -> tuple[float, float] | None:
    """Where threads help that are more than CPUs: at least one that reads, and one that helps."""
    batches = trace.batches[trace.batches["loader"] == loader]
    allowed = trace.meta.get("cpu_allowance")
    n_workers = batches["worker"].nunique() * max(1, batches["rank"].nunique())
    if not allowed or 2 * n_workers <= allowed:
        return None
    return helping_threads(batches, allowed, known=_torch_threads(trace, loader) > 1)


def _known(batches: pd.DataFrame) -> pd.DataFrame:
    return batches[batches[["read_bytes", "n_bytes"]].notna().all(axis=1)]


def _reads_much(batches: pd.DataFrame) -> bool:
    """Whether workers read far more than they send."""
    known = _known(batches)
    read, sent = known["read_bytes"].sum(), known["n_bytes"].sum()
    return bool(read > MUCH_BYTES * max(1, len(known)) and read > MANY_TIMES * sent)


def _from_disk(batches: pd.DataFrame) -> Iterator[str]:
    """What came from the disk in the first epoch, and later."""
    by_epoch = batches.groupby("epoch")["disk_bytes"].sum().to_numpy()
    if not len(by_epoch) or by_epoch.sum() < FROM_DISK_BYTES:
        return
    first, later = by_epoch[0], by_epoch[1:]
    if not len(later):
        yield f"{size(first)} came from the disk"
    elif later.mean() <= COLD * first:
        yield f"{size(first)} came from the disk in the first epoch, and hardly any later"
    else:
        yield f"{size(by_epoch.mean())} came from the disk in each epoch"
