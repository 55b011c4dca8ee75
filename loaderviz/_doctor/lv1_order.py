"""LV108, LV114: the order of samples: by epoch and rank, and how well a stream mixes classes."""

from __future__ import annotations

from types import FunctionType, NoneType
from typing import Any

import numpy as np
from torch.utils.data.distributed import DistributedSampler

from loaderviz._doctor.checks import Seen, check, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.findings import Undecided
from loaderviz._doctor.run_epochs import Epoch
from loaderviz.loaders.held_objects import Part, attributes, is_a, walk
from loaderviz.text import count


@check("LV108")
def _distributed_sampler(case: Case) -> Seen | None:
    part = case.setup.sampler
    if not is_a(part.value, DistributedSampler):
        return None
    sampler = attributes(part.value)
    if not sampler["shuffle"]:
        return _padded(case, part.path)
    if sampler["epoch"] != 0:
        return None
    n_same = _n_in_same_order(case)
    if not n_same:
        return None
    if case.setup.set_epoch_is_called:
        raise Undecided(
            f"{part.path}.epoch is 0, but the code that called the doctor calls set_epoch"
        )
    return seen(
        f"two epochs in a row deliver the same {n_same} samples in the same order",
        f"{part.path} is a DistributedSampler with shuffle=True and epoch=0, and the code that "
        "called the doctor does not call set_epoch",
        fix=f"""
for epoch in range(n_epochs):
    loader.{part.path}.set_epoch(epoch)
    for batch in loader: ...
""",
    )


def _n_in_same_order(case: Case) -> int:
    """How many samples two epochs deliver in the same order; 0 where the order differs."""
    n_samples = min(case.epoch(0).n_samples, case.epoch(1).n_samples)
    if n_samples < 2:
        raise Undecided("too little was delivered to compare the order of two epochs")
    first, second = (case.keys_of_epoch(number)[:n_samples] for number in (0, 1))
    return n_samples if first == second else 0


def _padded(case: Case, path: str) -> Seen | None:
    sampler = attributes(case.setup.sampler.value)
    case.epoch()
    length = case.lengths.dataset
    if length is None:
        raise Undecided("the length of the dataset is not known")
    extra = sampler["total_size"] - length
    if extra <= 0:
        return None
    return seen(
        f"{count(extra, 'sample')} of padding: {path} hands out {sampler['total_size']} to "
        f"{sampler['num_replicas']} ranks, and the dataset has {length}: some count more than once",
        fix=f"""
# In evaluation, give each rank its own part, without padding:
indices = range(rank, {length}, {sampler["num_replicas"]})
DataLoader(torch.utils.data.Subset(dataset, indices), shuffle=False)
""",
    )


LEAST_WINDOW = 16  # samples: in smaller batches, workers that take turns would look mixed
LEAST_WINDOWS = 8
REPEATS = 8  # of each value, on average: else it is no class, but a number of the sample
MIXED = 0.5  # of the values that a shuffle would bring into a batch: fewer are few
SEED = 0

SHUFFLE = """
# A shuffle buffer that holds samples of many classes, in each worker:
dataset = dataset.shuffle(buffer_size=...)  # several times the samples of a class or a shard
# or shuffle the samples once, before they are written into shards
# How well is it mixed then?
print(loaderviz.audit(loader, key=lambda sample: sample{path}).mixing())
"""


@check("LV114")
def _hardly_mixed(case: Case) -> Seen | None:
    if not case.setup.iterable:
        return None
    epoch = case.epoch()
    sizes = [len(row) for note in epoch.notes for row in list(note.labels.values())[:1]]
    window = max(int(np.median(sizes)) if sizes else 0, LEAST_WINDOW)
    clumped = {}
    paths = dict.fromkeys(path for note in epoch.notes for path in note.labels)
    for path in paths:
        came, expected = _values_in_a_window(np.array(_labels(epoch, path)), window)
        if came - 1 < MIXED * (expected - 1):
            clumped[path] = came, expected
    if not clumped:
        constant = [path for path in paths if len(set(_labels(epoch, path))) == 1]
        if constant and not epoch.complete and _is_shuffled(case, constant[0]):
            raise Undecided(
                f"sample{constant[0]} is the same in all that was seen of the stream, and there is "
                "more of it"
            )
        return None
    path = min(clumped, key=lambda path: clumped[path][0] / clumped[path][1])
    if not _is_shuffled(case, path):
        raise Undecided(
            f"equal values of sample{path} come in clumps, and nothing shuffles them: whether "
            "that is intended, as in evaluation, is not known"
        )
    came, expected = clumped[path]
    n_samples = len(_labels(epoch, path))
    return seen(
        f"{window} samples that follow one another have {came:.1f} different values of "
        f"sample{path} on average; after a uniform shuffle of these {n_samples:,} samples "
        f"they would have {expected:.1f}",
        fix=SHUFFLE.format(path=path),
    )


def _labels(epoch: Epoch, path: str) -> list[int]:
    return [label for note in epoch.notes for label in note.labels.get(path, ())]


def _values_in_a_window(values: Any, window: int) -> tuple[float, float]:
    """How many different values a window has on average: as they came, and after a shuffle.

    (1, 1) where the values are no classes, or too few to tell.
    """
    n_values = len(np.unique(values))
    if len(values) < max(LEAST_WINDOWS * window, REPEATS * n_values) or n_values < 2:
        return 1.0, 1.0
    shuffled = np.random.default_rng(SEED).permutation(values)
    came, expected = (_mean_distinct(order, window) for order in (values, shuffled))
    return came, expected


def _mean_distinct(values: Any, window: int) -> float:
    n_windows = len(values) // window
    rows = np.sort(values[: n_windows * window].reshape(n_windows, window), axis=1)
    return float(1 + (np.diff(rows, axis=1) > 0).sum(axis=1).mean())


def _is_shuffled(case: Case, path: str) -> bool:
    """Whether two epochs have different orders, or the dataset holds what is named so."""
    orders = [_labels(epoch, path) for epoch in case.epochs]
    n = min(map(len, orders))
    if len(orders) > 1 and orders[0][:n] != orders[1][:n]:
        return True
    return any(_says_shuffle(part) for part in walk("dataset", case.setup.dataset))


def _says_shuffle(part: Part) -> bool:
    """Whether an attribute is named so and is not off, or a class or function is."""
    if is_a(part.value, bool, int, NoneType) and not part.value:
        return False
    function = part.value.__name__ if is_a(part.value, FunctionType) else ""
    attribute = part.path.rpartition(".")[2]
    return "shuffl" in f"{attribute} {type(part.value).__name__} {function}".lower()
