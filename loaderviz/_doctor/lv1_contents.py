"""LV116 to LV124, LV126: is each sample what the dataset holds for its key?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler, WeightedRandomSampler
from torch.utils.data.distributed import DistributedSampler

from loaderviz._contents.compared_contents import ComparedContents
from loaderviz._contents.contents_in_words import BUFFER, CHANGED, RANDOM, REPLACED
from loaderviz._contents.deliveries import lacking_rows
from loaderviz._contents.read_alone import N_CLOSER
from loaderviz._contents.read_stream import StreamRead, read_stream
from loaderviz._contents.repeated_tail import repeated_tail
from loaderviz._doctor.checks import CHECKS, Seen, check, look, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.findings import Undecided
from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.run_epochs import MOST_SAMPLES
from loaderviz.loaders.held_objects import Part, attributes, is_a
from loaderviz.text import count

OF_TORCH = (SequentialSampler, RandomSampler, WeightedRandomSampler, DistributedSampler)
# What code that draws an order has names for.
CHANCE = {"randperm", "permutation", "shuffle", "random", "Generator", "default_rng", "choice"}


def _compared(case: Case) -> ComparedContents | None:
    """What was compared; None for a stream. Raises Undecided."""
    if case.setup.iterable:
        return None
    case.epoch()
    compared = case.observed(ComparedContents)
    if compared is None and case.troubles:
        raise Undecided(f"the run ended early: {case.troubles[-1].text}")
    if compared is None:
        raise Undecided("contents are compared in a copy of this process, which it cannot have")
    if compared.reference.not_read:
        raise Undecided(f"contents were not compared: {compared.reference.not_read}")
    return compared


@look(StreamRead, anywhere=True)
def _read_stream(setup: Setup, until: float) -> StreamRead | None:
    """What one process reads of a stream, in half of the time that is left for looks."""
    now = time.monotonic()
    until = now + (until - now) / 2
    return read_stream(setup.dataset, MOST_SAMPLES, until) if setup.iterable else None


@check("LV116")
def _one_buffer(case: Case) -> Seen | None:
    fix = """
def __getitem__(self, index):  # or where __iter__ yields
    ...
    return self.buffer.clone()  # of an array .copy(); or make the buffer here, not in __init__
"""
    compared = _compared(case)
    if compared is None:
        return _one_buffer_of_a_stream(case, fix)
    if compared.of_state(BUFFER).empty:
        return None
    n, n_all = len(compared.of_state(BUFFER)), len(compared.table)
    return seen(
        f"{n} of {count(n_all, 'sample')} had been overwritten when their batch was collated",
        f"sample {compared.reference.reused[0]!r} changes when a later one is read",
        fix=fix,
    )


def _one_buffer_of_a_stream(case: Case, fix: str) -> Seen | None:
    batches = [note.digests for note in case.epoch().notes if len(note.digests) > 1]
    read = case.observed(StreamRead) if batches else None
    if read is None or read.overwritten is None:
        return None
    n = sum(each == digests[-1] for digests in batches for each in digests[:-1])
    held = f"{n} of {count(sum(map(len, batches)), 'sample')} held what the last of their batch did"
    return seen(
        f"sample {read.overwritten} of the stream changes when a later one is read, and a batch "
        "is collated when all of its samples were",
        *([held] if n else []),
        fix=fix,
    )


@check("LV117")
def _replaced_after_error(case: Case) -> Seen | None:
    compared = _compared(case)
    if compared is None:
        return _replaced_in_a_stream(case)
    swallowed, n_unknown = compared.reference.swallowed, 0
    keys = set(compared.of_state(REPLACED)["key"]) & set(swallowed)
    if not keys:
        n_unknown = len(set(compared.of_state(RANDOM)["key"]) & set(swallowed))
    if n_unknown:
        error = next(iter(swallowed.values()))
        raise Undecided(
            f"{error.line} meets {error.name} for {count(n_unknown, 'key')} and goes on, and each "
            "read differs: whether what comes is theirs cannot be told"
        )
    if not keys:
        return None
    key = min(keys, key=str)
    error = swallowed[key]
    filled = keys & compared.reference.filled
    what = "the same filler for each such key" if filled else "the sample of another key"
    return seen(
        f"{error.line}, for key {key!r}, meets {error.name}: {error.message}; what comes is {what}",
        f"{count(len(keys), 'key')} of {compared.table['key'].nunique()} are replaced so",
        fix="""
def __getitem__(self, index):
    return self.read(index)  # let it raise; or find such keys once, and leave them out:

good = [index for index in range(len(dataset)) if is_readable(index)]
DataLoader(torch.utils.data.Subset(dataset, good), ...)
""",
    )


def _replaced_in_a_stream(case: Case) -> Seen | None:
    case.epoch()
    read = case.observed(StreamRead)
    if read is None or read.replaced is None:
        return None
    error = read.replaced
    return seen(
        f"{error.line} meets {error.name}: {error.message}; what comes is {read.by_what}",
        fix="""
def __iter__(self):
    for item in self.items:
        yield self.read(item)  # let it raise; or leave such items out, and say how many
""",
    )


@check("LV118")
def _left_out(case: Case) -> Seen | None:
    compared = _compared(case)
    if compared is None:
        epoch = case.epoch()
        n_left_out, n = lacking_rows(note.held for note in epoch.notes)[0], epoch.n_samples
    else:
        n_left_out, n = compared.n_left_out, len(compared.table)
    if not n_left_out:
        return None
    instead = "or more: their batches have fewer rows"
    if compared is not None and compared.collate_trial.fills_gaps:
        instead = "which are None, and puts others in their place"
    return seen(
        f"collate_fn={_name_of_collate(case)} leaves out {n_left_out} of "
        f"{count(n, 'sample')}, {instead}",
        fix="""
good = [index for index in range(len(dataset)) if dataset[index] is not None]  # once
DataLoader(torch.utils.data.Subset(dataset, good), ...)  # and collate_fn leaves out none
"""
        if compared is not None
        else """
def __iter__(self):
    yield from (sample for sample in self.read() if sample is not None)  # and say how many
""",
    )


def _name_of_collate(case: Case) -> str:
    collate_fn = case.setup.settings["collate_fn"]
    return str(getattr(collate_fn, "__qualname__", type(collate_fn).__name__))


@check("LV119")
def _reading_changes(case: Case) -> Seen | None:
    compared = _compared(case)
    if compared is not None and not compared.reference.n_reread:
        raise Undecided("there was no time to read keys again")
    if compared is None or not compared.reference.reads_change:
        return None
    keys = compared.reference.reads_change
    return seen(
        f"key {keys[0]!r} holds something else once keys were read, under the same random numbers",
        f"{count(len(keys), 'key does', 'keys do')}, of {N_CLOSER} or fewer that were tried; two "
        "fresh copies of the dataset agree",
        fix="""
def __getitem__(self, index):  # what it gives depends on index alone: mind caches and cursors
    sample = self.data[index].clone()  # of an array .copy(), of a list or dict copy.deepcopy()
    ...  # and then change it in place
""",
    )


@check("LV120")
def _other_data_in_workers(case: Case) -> Seen | None:
    compared = _compared(case)
    if compared is None or not case.setup.num_workers or compared.reference.reads_change:
        return None
    wrong = compared.of_state(REPLACED, CHANGED)
    wrong = wrong[~wrong["key"].isin(list(compared.reference.swallowed))]
    key, worker = wrong[["key", "worker"]].values.tolist()[0] if len(wrong) else (None, None)
    shared_handle = CHECKS["LV503"].judge(case)
    if wrong.empty or (shared_handle is not None and shared_handle.state == "found"):
        return None
    worker_init_fn = case.setup.settings["worker_init_fn"]
    name = getattr(worker_init_fn, "__qualname__", "")
    return seen(
        f"{len(wrong)} of {count(len(compared.table), 'sample')} hold something else than the "
        f"dataset does here, such as key {key!r} in worker {worker}",
        *([f"worker_init_fn={name} runs in each worker, on its own copy"] if name else []),
        fix="""
def worker_init_fn(worker_id):
    ...  # leave the data of get_worker_info().dataset as it is, or change it alike in each worker

# and where data is opened in the worker: one order for all, such as ORDER BY id or sorted(files)
""",
    )


@check("LV121")
def _same_order_by_chance(case: Case) -> Seen | None:
    sampler, batches = case.setup.sampler, case.setup.settings["batch_sampler"]
    if not is_a(batches, BatchSampler, type(None)):
        sampler = Part("batch_sampler", batches)
    own = not case.setup.iterable and not is_a(sampler.value, *OF_TORCH)
    if not own or not CHANCE & set(names_used_by(sampler.value)):
        return None
    if hasattr(sampler.value, "set_epoch"):
        if case.setup.set_epoch_is_called:
            return None
        raise Undecided(
            f"{sampler.path} has a set_epoch, which is not called here: its order may depend on it"
        )
    first, second = (case.keys_of_epoch(number) for number in (0, 1))
    n = min(len(first), len(second))
    if n < 8 or first[:n] != second[:n] or first[:n] == sorted(first[:n], key=str):
        return None
    return seen(
        f"two epochs in a row ask for the same {n} keys in the same order, which is not sorted",
        f"{sampler.path} is a {type(sampler.value).__name__}, and its code draws an order",
        fix="""
class MySampler(Sampler):
    def __iter__(self):
        self.epoch += 1  # 0 in __init__: another order each time, and the same in each run
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        yield from torch.randperm(len(self.data), generator=generator).tolist()
""",
    )


def names_used_by(value: Any) -> Iterator[str]:
    """The names that the methods of its class use, as far as these are written in Python."""
    for cls in type(value).__mro__:
        for function in vars(cls).values():
            yield from getattr(getattr(function, "__code__", None), "co_names", ())


@check("LV122")
def _evaluation_drops(case: Case) -> Seen | None:
    settings = case.setup.settings
    if type(settings["batch_sampler"]) is BatchSampler:
        settings = attributes(settings["batch_sampler"])  # which forms the batches
    in_order = is_a(case.setup.sampler.value, SequentialSampler)
    if case.setup.iterable or not settings["drop_last"] or not in_order:
        return None
    case.epoch()
    length, size = case.lengths.dataset, settings["batch_size"]
    if not length or not size or not length % size:
        return None
    return seen(
        f"the last {count(length % size, 'sample')} of {length} never come, in no epoch: the order "
        f"is always the same, and drop_last=True takes what does not fill a batch of {size}",
        fix="""
DataLoader(dataset, drop_last=False, ...)  # to evaluate; to train, shuffle=True
""",
    )


@check("LV123")
def _longer_than_its_data(case: Case) -> Seen | None:
    compared = _compared(case)
    tail = None if compared is None else repeated_tail(compared.reference)
    length = case.lengths.dataset
    if tail is None or length is None:
        return None
    n_more = length % tail.first
    often = f"{count(n_more, 'sample comes', 'samples come')} once more often than the others"
    if tail.is_one:
        often = f"it comes {length - tail.first + 1} times, and each of the others once"
    elif not n_more:
        return None  # each comes as often as the others: on purpose, as far as can be told
    return seen(
        f"len(dataset) is {length}, and from key {tail.first} on the keys hold {tail.held}",
        often,
        fix=f"""
def __len__(self):
    return {tail.first}  # as many as there are
""",
    )


def _own_sampler(parts: dict[str, Any]) -> Any:
    """Whatever draws the keys."""
    drawing = parts["sampler"] if parts["batch_sampler"] is None else parts["batch_sampler"]
    while type(drawing) is BatchSampler:
        drawing = drawing.sampler
    return drawing


def _second_epoch_is_empty(case: Case, sampler: Any) -> bool:
    """Not of what torch or Python has: that can be gone through again."""
    if type(sampler).__module__.partition(".")[0] in ("torch", "builtins", "numpy"):
        return False
    if not case.ran:
        raise Undecided(case.why_not_run)
    epochs = {epoch.number: epoch for epoch in case.epochs}
    if 1 not in epochs or not (epochs[1].notes or epochs[1].complete):
        raise Undecided("no second epoch was seen to its end")
    return bool(epochs[0].notes) and not epochs[1].notes


@check("LV124")
def _sampler_used_up(case: Case) -> Seen | None:
    if case.setup.iterable:
        return None
    parts = {"sampler": case.setup.sampler.value}
    parts["batch_sampler"] = case.setup.settings["batch_sampler"]
    used_up = [name for name, value in parts.items() if hasattr(type(value), "__next__")]
    if used_up:
        kind = type(parts[used_up[0]]).__name__
        text = f"{used_up[0]} is a {kind}, which can be gone through once: the next epoch is empty"
    elif _second_epoch_is_empty(case, own := _own_sampler(parts)):
        text = f"{type(own).__name__} gives keys in the first epoch, and none in the second"
    else:
        return None
    return seen(
        text,
        fix="""
class MySampler(torch.utils.data.Sampler):
    def __init__(self, keys):
        self.keys = list(keys)

    def __iter__(self):  # a new iterator for each epoch
        return iter(self.keys)

    def __len__(self):
        return len(self.keys)
""",
    )


@check("LV126")
def _collate_mixes(case: Case) -> Seen | None:
    compared = _compared(case)
    trial = None if compared is None else compared.collate_trial
    if trial is not None and trial.not_tried:
        raise Undecided(f"collate_fn={_name_of_collate(case)}: {trial.not_tried}")
    if trial is None or not trial.faults:
        return None
    return seen(
        f"collate_fn={_name_of_collate(case)}, called on batches of a few samples in a copy of "
        "this process",
        *trial.faults,
        fix="""
def collate(samples):
    batch = torch.zeros(len(samples), longest)  # a new one for each batch, and cleared
    order = sorted(range(len(samples)), key=...)  # one order, of all parts:
    xs, ys = zip(*(samples[i] for i in order))
    ...  # and of a sample that is changed in place: a copy
""",
    )
