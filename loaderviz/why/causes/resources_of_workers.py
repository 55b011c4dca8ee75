"""What workers read and compute with, as evidence, and what to do about it: a sentence each.

``doctor`` tries these out; here they are read from what a recording has of its workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from loaderviz.text import count, duration, percent, size
from loaderviz.trace.described_loaders import loader_description
from loaderviz.why.worker_cpus import helping_threads, shared_cpus

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from loaderviz.trace import Trace

# Causes that may be behind what workers read and compute with, or the other way round.
READ_WITH: Final = (
    *("workers", "main_process", "cpu", "collate"),
    *("handover", "unknown", "slow_samples"),
)
MUCH_BYTES: Final = 1 << 20  # a batch: to copy so many from the page cache takes some 0.1 ms
MANY_TIMES: Final = 10.0  # as many bytes as are sent: texts and compressed images take fewer
FROM_DISK_BYTES: Final = 1 << 24  # in all: from a disk of 200 MB/s in 80 ms
IN_MEMORY_S: Final = 20e-6  # of a sample, at most: to open and read a file takes longer (measured)
FEWEST_SAMPLES: Final = 16  # of a batch: fewer calls are not what takes the time
LEAST_S: Final = 1e-4  # of a batch, to be worth a change: as LV314 has it

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
    "Ask for slices: DataLoader(dataset, sampler=loader.batch_sampler, batch_size=None), of the "
    "loader as it is, takes dataset[[...]] as a batch, where the dataset takes lists; it needs no "
    "workers then."
)


def resources_of_workers(cause: str, trace: Trace, loader: int) -> tuple[list[str], str]:
    """Evidence of what workers read and compute with, and the cure of the first that is wrong.

    The cure is empty where that is not what is behind the cause.
    """
    if cause not in READ_WITH:
        return [], ""
    found = [*_found(cause, trace, loader)]
    cures = [cure for _, cure in found if cure]
    return [evidence for evidence, _ in found], cures[0] if cures else ""


def one_by_one_s(trace: Trace, loader: int) -> float | None:
    """How long a sample of this loader usually takes; None where they do not come from memory.

    Nor where nobody knows whether torch reads them one by one and collates them itself, or where
    that takes too little to matter.
    """
    if loader_description(trace.meta, loader).get("one_by_one") is not True:
        return None
    batches = trace.batches[trace.batches["loader"] == loader]
    n_samples = batches["n_samples"].median()
    read_s = (batches["collate_s"] - batches["started_s"]) / batches["n_samples"].clip(lower=1)
    made_s = (batches["ready_s"] - batches["started_s"]).median()
    item_s = float(read_s.median())
    from_memory = n_samples >= FEWEST_SAMPLES and item_s <= IN_MEMORY_S and made_s >= LEAST_S
    return item_s if from_memory else None


def _found(cause: str, trace: Trace, loader: int) -> Iterator[tuple[str, str]]:
    """Evidence, and its cure: the gravest first."""
    batches = trace.batches[trace.batches["loader"] == loader]
    workers = trace.workers[trace.workers["loader"] == loader]
    if (item_s := one_by_one_s(trace, loader)) is not None:
        evidence = f"samples are in memory, and read one by one in {duration(item_s)} each"
        yield evidence, TAKE_SLICES
    allowed = trace.meta.get("cpu_allowance")
    shared = shared_cpus(trace, loader, int(workers["rank"].min())) if len(workers) else None
    if shared is not None:
        n_workers, cpus = workers["worker"].nunique(), count(len(shared), "CPU")
        yield f"all {n_workers} workers may use {cpus} of {allowed:g}", FREE_CPUS
    if cause == "cpu" and allowed:
        yield from _threads(batches, float(workers["threads"].max()), allowed)
    known = batches[batches[["read_bytes", "n_bytes"]].notna().all(axis=1)]
    read, sent = known["read_bytes"].mean(), known["n_bytes"].mean()
    if read > MUCH_BYTES and read > MANY_TIMES * sent:
        evidence = f"a worker reads {size(read)} for a batch of {size(sent)}"
        yield evidence, "" if cause == "handover" else READ_LESS
    by_epoch = batches.groupby("epoch")["disk_bytes"].sum().to_numpy()
    if by_epoch.sum() >= FROM_DISK_BYTES:
        evidence = f"{size(by_epoch[0])} came from the disk in the first epoch"
        later = f", {size(by_epoch[1:].mean())} in a later one" if len(by_epoch) > 1 else ""
        yield evidence + later, ""


def _threads(
    batches: pd.DataFrame, torch_threads: float, allowed: float
) -> Iterator[tuple[str, str]]:
    """Where threads help that are more than CPUs: at least one that reads, and one that helps.

    ``torch_threads``: in which torch computes one operation in a worker; NaN: unknown.
    """
    n_workers = batches["worker"].nunique() * max(1, batches["rank"].nunique())
    if 2 * n_workers <= allowed:
        return
    helped = helping_threads(batches, allowed, known=torch_threads > 1)
    if helped is not None:
        thread_s, process_s = helped
        evidence = f"only {percent(thread_s / process_s)} of that in the thread that reads samples"
        if torch_threads > 1:
            evidence += f"; torch computes in {torch_threads:.0f} threads of each worker"
        yield evidence, ONE_THREAD
