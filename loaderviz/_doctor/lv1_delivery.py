"""LV1xx: is every sample delivered, and once? For iterable-style datasets in the main."""

from __future__ import annotations

from loaderviz._doctor.checks import Seen, check, seen
from loaderviz._doctor.delivery_counts import Tally, tally
from loaderviz._doctor.examination import Case
from loaderviz._doctor.examination_runs import Epoch
from loaderviz._doctor.findings import Undecided
from loaderviz.loaders.held_objects import attributes

SHARD = """
import loaderviz

class MyStream(IterableDataset):
    def __iter__(self):
        yield from loaderviz.shard(self.everything())  # this worker's share, over all ranks
"""
MOST = 0.5  # of the samples: ranks with more in common read the same


def _stream(case: Case) -> bool:
    return case.setup.iterable and case.setup.num_workers > 0


def _whole_tally(case: Case) -> Tally:
    case.whole()
    return tally(case)


def _of_workers(case: Case) -> dict[int, int]:
    """How many samples each worker delivered in the first epoch."""
    counts = dict.fromkeys(range(case.setup.num_workers), 0)
    for note in case.epoch().notes:
        counts[note.worker] += note.n_samples
    return counts


@check(
    "LV101",
    "Every worker delivers the whole stream",
    "error",
    notebook=4,
    threads="30599 huggingface/datasets#3423",
)
def repeated_stream(case: Case) -> Seen | None:
    if not case.setup.iterable:
        return None
    across = _same_on_every_rank(case)
    if across is not None or case.setup.num_workers < 2:
        return across
    if not case.alone().complete:
        return _same_beginnings(case)
    counts = tally(case)
    if not counts.twice:
        return None
    return seen(
        f"{counts.n_delivered} samples were delivered, and one process reads {counts.n_alone}",
        f"{counts.twice} deliveries are repeats",
        f"samples of each worker: {_of_workers(case)}",
        fix=SHARD,
    )


def _same_beginnings(case: Case) -> Seen | None:
    """Of a stream that is too long to be counted: do workers begin with the same samples?"""
    streams: dict[int, list[int | None]] = {}
    for note in case.epoch().notes:
        streams.setdefault(note.worker, []).extend(note.digests)
    first, *others = streams.values()
    for other in others:
        n = min(len(first), len(other))
        if n >= 2 and None not in first and len(set(first[:n])) > n / 2 and first[:n] == other[:n]:
            return seen(
                f"the first {n} samples of two workers are the same, one by one",
                "the stream is longer than what was run",
                fix=SHARD,
            )
    if len(streams) < 2 or any(None in each for each in streams.values()):
        raise Undecided("too little of the stream was seen to compare its workers")
    return None


def _same_on_every_rank(case: Case) -> Seen | None:
    told = case.told() if case.ran else None
    if told is None:
        return None
    sets = [set(each.get("digests", ())) for each in told]
    first, *others = sets
    for rank, other in enumerate(others, 1):
        least = min(len(first), len(other))
        if least > 1 and len(first & other) > MOST * least:
            return seen(
                f"ranks 0 and {rank} have {len(first & other)} of {least} samples in common",
                fix=SHARD,
            )
    return None


@check(
    "LV102",
    "More samples than len() says, and torch does not warn",
    "warning",
    notebook=4,
    threads="40344",
)
def silent_length(case: Case) -> Seen | None:
    if not case.setup.iterable or not hasattr(type(case.setup.dataset), "__len__"):
        return None
    epoch = case.epoch()
    length = case.facts.get("len(dataset)")
    if length is None:
        raise Undecided("the dataset has a __len__ and does not tell")
    n_batches = len(epoch.notes)
    if epoch.n_samples <= length or n_batches > length:
        return None
    return seen(
        f"{epoch.n_samples} samples were delivered, and len(dataset) is {length}",
        f"torch compares the {n_batches} batches with it, so that its warning stays away "
        "(torch/utils/data/dataloader.py, _BaseDataLoaderIter.__next__)",
        fix=SHARD,
    )


@check("LV103", "A split by floor division drops the remainder", "error", notebook=4)
def lost_remainder(case: Case) -> Seen | None:
    if not _stream(case) or case.setup.own["drop_last"]:
        return None
    counts = _whole_tally(case)
    if not counts.lost:
        return None
    workers = case.setup.num_workers
    shares = _of_workers(case)
    remainder = "fewer than there are workers" if counts.lost < workers else "more than a remainder"
    return seen(
        f"{counts.lost} of {counts.n_alone} samples never arrive: {remainder}",
        f"samples of each of {workers} workers: {shares}",
        fix="""
info = torch.utils.data.get_worker_info()
mine = itertools.islice(everything, info.id, None, info.num_workers)  # a stride loses nothing
# or: loaderviz.shard(everything) in __iter__; loaderviz.shard_init("data") as worker_init_fn
""",
    )


@check(
    "LV104",
    "drop_last drops a partial batch in every worker",
    "warning",
    notebook=4,
    threads="33413",
)
def dropped_by_each(case: Case) -> Seen | None:
    setup = case.setup
    if not _stream(case) or not setup.own["drop_last"] or setup.num_workers < 2:
        return None
    size = setup.own["batch_size"]
    if not case.ran:
        raise Undecided(f"up to {setup.num_workers} x {size - 1} samples; {case.why_not}")
    counts = _whole_tally(case)
    due = counts.n_alone % size
    if counts.lost <= due:
        return None
    return seen(
        f"{counts.lost} of {counts.n_alone} samples are dropped; one process would drop {due}",
        f"samples delivered by each worker, in batches of {size}: {_of_workers(case)}",
        fix=f"""
# Share out whole batches, so that one worker alone has a partial one:
for batch, start in enumerate(range(0, len(data), {size})):
    if batch % info.num_workers == info.id:
        yield from data[start : start + {size}]
# or fewer workers, or drop_last=False
""",
    )


@check(
    "LV105",
    "Workers end with partial batches, and len(loader) is wrong",
    "advice",
    notebook=4,
    threads="44108",
)
def partial_batches(case: Case) -> Seen | None:
    setup = case.setup
    if not _stream(case) or setup.num_workers < 2 or setup.own["drop_last"]:
        return None
    if not setup.own["batch_size"] or not hasattr(type(setup.dataset), "__len__"):
        return None  # nothing says how many batches there are
    epoch = case.whole()
    told = case.facts.get("len(loader)")
    if told is None:
        raise Undecided("len(loader) is not known")
    partial = [note for note in epoch.notes if note.n_samples < setup.own["batch_size"]]
    if len(epoch.notes) <= told or len(partial) < 2 or _whole_tally(case).twice:
        return None
    return seen(
        f"len(loader) is {told}, and {len(epoch.notes)} batches were delivered",
        f"{len(partial)} of them are partial: {[note.n_samples for note in partial]} samples",
        fix=f"""
# Share out by batch, not by sample:
for batch, start in enumerate(range(0, len(data), {setup.own["batch_size"]})):
    if batch % info.num_workers == info.id:
        yield from data[start : start + {setup.own["batch_size"]}]
""",
    )


@check(
    "LV106",
    "Workers are idle: there are fewer shards than workers",
    "warning",
    notebook=4,
    threads="huggingface/datasets#5984 huggingface/datasets#7999",
    recorded=True,
)
def idle_workers(case: Case) -> Seen | None:
    if not _stream(case) or case.setup.num_workers < 2:
        return None
    if not case.recorded:
        case.whole()
    elif len(case.epoch().notes) < 2 * case.setup.num_workers:
        raise Undecided("the loop may have been left before every worker had its turn")
    counts = _of_workers(case)
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
DataLoader(dataset, num_workers={busy})  # as many as have work; or more, smaller shards
""",
    )


def _sizes_at_the_start(name: str, epoch: Epoch, worker: int) -> list[int]:
    """What the worker's first note says of it; nothing where it has not changed."""
    notes = [note for note in epoch.notes if note.worker == worker][:1]
    return [note.values[name] for note in notes if name in note.values]


@check("LV107", "The data is cut again each time it is iterated", "error", notebook=4)
def cut_again(case: Case) -> Seen | None:
    if not case.setup.num_workers:
        return None
    first, second = case.whole(0), case.whole(1)
    shrunk: dict[str, list[int]] = {}
    for name, size in first.notes[0].values.items():
        sizes = [size, *_sizes_at_the_start(name, second, first.notes[0].worker)]
        if name.startswith("len(") and sizes[-1] < size:
            shrunk[name] = sizes
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
