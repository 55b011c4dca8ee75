"""LV1xx: is every sample delivered exactly once? Mostly for iterable-style datasets."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations

from loaderviz._contents.read_stream import StreamRead
from loaderviz._doctor.checks import CHECKS, Seen, check, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.findings import Undecided
from loaderviz.loaders.held_objects import attributes

LENGTH = """
def __len__(self):
    return ...  # as many as __iter__ yields in one process; or no __len__ where nobody knows
"""
SHARD = """
import loaderviz

class Shared(IterableDataset):
    def __init__(self, dataset):
        self.dataset = dataset  # yours, unchanged

    def __iter__(self):
        yield from loaderviz.shard(iter(self.dataset))  # this worker's share, over all ranks

loader = DataLoader(Shared(dataset), ...)  # in place of DataLoader(dataset, ...)
# Faster: put shard(...) into your own __iter__, around the files or keys that it goes through.
"""
BY_BATCH = """
# Share out whole batches, so that only one worker has a partial one:
for batch, start in enumerate(range(0, len(data), {size})):
    if batch % info.num_workers == info.id:
        yield from data[start : start + {size}]
"""
SAME_DATA = 0.5  # of the samples: ranks that have more in common read the same data
WHOLE = 0.9  # of the stream, or of another worker's samples: a worker that has more repeats it


def _is_stream_of_workers(case: Case) -> bool:
    return case.setup.iterable and case.setup.num_workers > 0


def _counts_of_complete_epoch(case: Case) -> DeliveryCounts:
    case.complete_epoch()
    return count_deliveries(case)


def _samples_by_worker(case: Case) -> dict[int, int]:
    """How many samples each worker delivered in the first epoch."""
    counts = dict.fromkeys(range(case.setup.num_workers), 0)
    by_worker = case.epoch().notes_by_worker().items()
    return counts | {worker: sum(note.n_samples for note in notes) for worker, notes in by_worker}


@check("LV101")
def _repeated_stream(case: Case) -> Seen | None:
    if not case.setup.iterable:
        return None
    repeated_on_ranks = _same_on_every_rank(case)
    if repeated_on_ranks is not None or case.setup.num_workers < 2:
        return repeated_on_ranks
    if _read_alone(case).has_more:
        return _same_beginnings(case)
    counts = count_deliveries(case)
    if not counts.n_repeats or not _is_whole_stream_repeated(case):
        return None
    return seen(
        f"{case.epoch().n_samples} samples were delivered, but one process reads only "
        f"{counts.n_alone}",
        f"{counts.n_repeats} deliveries are repeats",
        f"samples delivered by each worker: {_samples_by_worker(case)}",
        fix=SHARD,
    )


def _read_alone(case: Case) -> StreamRead:
    """What one process reads of the stream; raises Undecided."""
    case.epoch()
    read = case.observed(StreamRead)
    if read is None:
        raise Undecided("the stream was not read by itself")
    return read


def _is_whole_stream_repeated(case: Case) -> bool:
    """Whether two workers have delivered all of the stream, or the same as far as they came."""
    streams = [set(digests) for digests in _digests_by_worker(case)]
    if case.epoch().complete:
        n_alone = len({*_read_alone(case).numbers})
        return sum(len(each) >= WHOLE * n_alone for each in streams) > 1
    return any(
        len(one & other) >= WHOLE * min(len(one), len(other))
        for one, other in combinations(streams, 2)
    )


def _digests_by_worker(case: Case) -> list[list[int | None]]:
    """What each worker delivered in the first epoch, as digests in their order."""
    by_worker = case.epoch().notes_by_worker().values()
    return [[digest for note in notes for digest in note.digests] for notes in by_worker]


def _same_beginnings(case: Case) -> Seen | None:
    """In a stream that is too long to be counted: do two workers begin with the same samples?"""
    streams = _digests_by_worker(case)
    first, *others = streams
    for other in others:
        n = min(len(first), len(other))
        if n >= 2 and None not in first and len(set(first[:n])) > n / 2 and first[:n] == other[:n]:
            return seen(
                f"two workers deliver the same first {n} samples, in the same order",
                "the stream is longer than what was run, so its repeats were not counted",
                fix=SHARD,
            )
    if len(streams) < 2 or any(None in digests for digests in streams):
        raise Undecided("too little of the stream was seen to compare its workers")
    return None


def _same_on_every_rank(case: Case) -> Seen | None:
    messages = case.rank_messages() if case.ran else None
    if messages is None:
        return None
    first, *others = (set(message.get("digests", ())) for message in messages)
    for rank, other in enumerate(others, 1):
        fewest = min(len(first), len(other))
        if fewest > 1 and len(first & other) > SAME_DATA * fewest:
            return seen(
                f"ranks 0 and {rank} have {len(first & other)} of {fewest} samples in common",
                fix=SHARD,
            )
    return None


@check("LV102")
def _silent_length(case: Case) -> Seen | None:
    if not case.setup.iterable or not hasattr(type(case.setup.dataset), "__len__"):
        return None
    epoch = case.epoch()
    length = case.lengths.dataset
    if length is None:
        raise Undecided("the dataset has a __len__, but its length is not known")
    n_batches = len(epoch.notes)
    if epoch.n_samples <= length or n_batches > length:
        return None
    evidence = [
        f"{epoch.n_samples} samples were delivered, but len(dataset) is {length}",
        f"torch does not warn, because it compares the {n_batches} batches with that length "
        "(torch/utils/data/dataloader.py, _BaseDataLoaderIter.__next__)",
    ]
    fix = SHARD
    with suppress(Undecided):
        alone = len(_read_alone(case).numbers)  # or more, where that was cut short
        if alone > length:
            evidence.insert(1, f"one process reads {alone} by itself: the length is wrong")
            fix = LENGTH
    return seen(*evidence, fix=fix)


@check("LV103")
def _lost_remainder(case: Case) -> Seen | None:
    if not _is_stream_of_workers(case) or case.setup.settings["drop_last"]:
        return None
    counts = _counts_of_complete_epoch(case)
    workers = case.setup.num_workers
    if counts.n_repeats or not 0 < counts.n_lost < workers:
        return None
    return seen(
        f"{counts.n_lost} of {counts.n_alone} samples never arrive, fewer than there are workers",
        f"samples delivered by each of {workers} workers: {_samples_by_worker(case)}",
        fix="""
info = torch.utils.data.get_worker_info()
mine = itertools.islice(samples, info.id, None, info.num_workers)  # a stride loses nothing
# or: loaderviz.shard(samples) in __iter__; loaderviz.shard_init("data") as worker_init_fn
""",
    )


@check("LV104")
def _dropped_by_each(case: Case) -> Seen | None:
    setup = case.setup
    if not _is_stream_of_workers(case) or not setup.settings["drop_last"] or setup.num_workers < 2:
        return None
    size = setup.settings["batch_size"]
    if not case.ran:
        raise Undecided(
            f"up to {setup.num_workers} x {size - 1} samples may be dropped; {case.why_not_run}"
        )
    counts = _counts_of_complete_epoch(case)
    dropped_by_one = counts.n_alone % size
    if counts.n_lost <= dropped_by_one or counts.n_repeats:
        return None
    return seen(
        f"{counts.n_lost} of {counts.n_alone} samples are dropped; one process would drop "
        f"{dropped_by_one}",
        f"samples delivered by each worker, in batches of {size}: {_samples_by_worker(case)}",
        fix=BY_BATCH.format(size=size) + "# or fewer workers, or drop_last=False",
    )


@check("LV105")
def _partial_batches(case: Case) -> Seen | None:
    setup = case.setup
    if not _is_stream_of_workers(case) or setup.num_workers < 2 or setup.settings["drop_last"]:
        return None
    if not setup.settings["batch_size"] or not hasattr(type(setup.dataset), "__len__"):
        return None  # nothing says how many batches there are
    epoch = case.complete_epoch()
    length = case.lengths.loader
    if length is None:
        raise Undecided("len(loader) is not known")
    partial = [note for note in epoch.notes if note.n_samples < setup.settings["batch_size"]]
    if len(epoch.notes) <= length or len(partial) < 2 or _counts_of_complete_epoch(case).n_repeats:
        return None
    return seen(
        f"{len(epoch.notes)} batches were delivered, but len(loader) is {length}",
        f"{len(partial)} of them are partial, with {[note.n_samples for note in partial]} samples",
        fix=BY_BATCH.format(size=setup.settings["batch_size"]),
    )


@check("LV106", recorded=True)
def _idle_workers(case: Case) -> Seen | None:
    if not _is_stream_of_workers(case) or case.setup.num_workers < 2:
        return None
    if case.recording is None:
        case.complete_epoch()
    elif len(case.epoch().notes) < 2 * case.setup.num_workers:
        raise Undecided("the loop may have ended before every worker had its turn")
    counts = _samples_by_worker(case)
    idle = [worker for worker, n in counts.items() if not n]
    if not idle:
        return None
    held = attributes(case.setup.dataset)
    shards = [
        f"dataset.{name} has {len(held[name])} entries"
        for name in held
        if "shard" in name and type(held[name]) in (list, tuple)
    ]
    busy = len(counts) - len(idle)
    return seen(
        f"workers {idle} delivered nothing in an epoch of {sum(counts.values())} samples",
        *shards,
        fix=f"""
DataLoader(dataset, num_workers={busy})  # as many as have work; or cut more, smaller shards
""",
    )


@check("LV115")
def _unequal_cuts(case: Case) -> Seen | None:
    if not _is_stream_of_workers(case) or case.setup.num_workers < 2:
        return None
    counts = _counts_of_complete_epoch(case)
    replaced = CHECKS["LV117"].judge(case)
    if replaced is not None and replaced.state == "found":
        raise Undecided("what replaces samples after an error (LV117) comes again: cure that first")
    settings, workers = case.setup.settings, case.setup.num_workers
    explained = workers * (settings["batch_size"] - 1) if settings["drop_last"] else workers - 1
    if counts.n_repeats:
        if _is_whole_stream_repeated(case):
            return None
    elif counts.n_lost <= explained:
        return None
    return seen(
        f"{counts.n_repeats} deliveries are repeats, "
        f"and {counts.n_lost} of {counts.n_alone} samples never arrive",
        f"samples delivered by each of {workers} workers: {_samples_by_worker(case)}",
        fix="""
# All workers must cut the same list; an order by chance needs a seed that they share:
order = torch.randperm(n, generator=torch.Generator().manual_seed(seed)).tolist()
mine = order[info.id :: info.num_workers]  # a stride: no overlap, no gap
# or: loaderviz.shard(...) in __iter__, around what is the same in every worker
""",
    )


@check("LV107")
def _cut_again(case: Case) -> Seen | None:
    if not case.setup.num_workers:
        return None
    first, second = case.complete_epoch(0), case.complete_epoch(1)
    shrunk: dict[str, list[int]] = {}
    of_worker = second.notes_by_worker().get(first.notes[0].worker, [])
    for name, size in first.notes[0].values.items():
        later_size = of_worker[0].values.get(name) if of_worker else None  # None: has not changed
        if name.startswith("len(") and later_size is not None and later_size < size:
            shrunk[name] = [size, later_size]
    if second.n_samples >= first.n_samples or not shrunk:
        return None
    return seen(
        f"the first epoch delivers {first.n_samples} samples, the second {second.n_samples}",
        *(f"{name} in a worker, epoch by epoch: {sizes}" for name, sizes in shrunk.items()),
        fix="""
class MyStream(IterableDataset):
    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        yield from self.data[info.id :: info.num_workers]  # leave self.data as it is
# or worker_init_fn=loaderviz.shard_init("data"), which cuts from an untouched original
""",
    )


@dataclass(frozen=True)
class DeliveryCounts:
    """Samples that the workers delivered in one epoch, compared with what one process reads."""

    n_alone: int  # read by one process
    n_repeats: int  # deliveries beyond the first
    n_lost: int  # never delivered


def count_deliveries(case: Case) -> DeliveryCounts:
    """Count the first epoch of an iterable-style loader with workers.

    Samples are told apart by their contents. Where these differ from one reading to the next, as
    with augmentation, only two results are certain: as many samples came as there are, or each
    worker delivered its fair share, rounded down.

    Raises:
        Undecided: if neither is the case, or if the epoch was not read to its end.
    """
    alone, delivered = _read_alone(case), case.epoch(0)
    if alone.has_more:
        raise Undecided(f"one process has read {len(alone.numbers)} samples, and there are more")
    if alone.overwritten is not None:
        raise Undecided("samples are overwritten before they are collated (LV116): cure that first")
    expected = Counter(alone.numbers)
    received = Counter(digest for note in delivered.notes for digest in note.digests)
    n_alone, n_delivered = len(alone.numbers), delivered.n_samples
    if None in expected or received.keys() - expected.keys():
        case.complete_epoch(0)
        n_workers = case.setup.num_workers
        floors = dict.fromkeys(range(n_workers), n_alone // n_workers)
        if n_delivered != n_alone and _samples_by_worker(case) != floors:
            raise Undecided(
                f"{n_delivered} samples came and one process reads {n_alone}, and others: what a "
                "worker yields is by chance, or depends on its share, as where samples are packed"
            )
        return DeliveryCounts(n_alone, 0, n_alone - n_delivered)
    n_repeats, n_lost = (received - expected).total(), (expected - received).total()
    if not delivered.complete and not n_repeats:
        raise Undecided(f"only {n_delivered} of {n_alone} samples were delivered in the time given")
    return DeliveryCounts(n_alone, n_repeats, n_lost if delivered.complete else 0)
