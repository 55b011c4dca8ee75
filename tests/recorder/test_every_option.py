"""Small loaders with the documented options of DataLoader: each two that go together meet in one.

Each is iterated twice without a recording and twice with one: whatever can be seen of it is equal,
object by object. The less usual loaders are in test_record_exactly.py.
"""

import functools
import itertools
import random
import traceback
import warnings
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
)

import loaderviz as lv

N = 7
Point = namedtuple("Point", "x y")


class Drawn(Dataset):
    """Samples that depend on the random state of their process."""

    def __len__(self):
        return N

    def __getitem__(self, i):
        return {"i": i, "drawn": torch.rand(2), "numpy": np.random.rand(), "plain": random.random()}


class AllAtOnce(Dataset):
    def __len__(self):
        return N

    def __getitems__(self, keys):
        return [Point(torch.tensor(i), str(i)) for i in keys]


class Fails(Dataset):
    def __len__(self):
        return N

    def __getitem__(self, i):
        if i == 4:
            raise KeyError(f"no sample {i}")
        return np.float32(i)


class Stream(IterableDataset):
    def __init__(self, length=None):
        self.length = length

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        yield from ((i, torch.randn(())) for i in range(first, N, step))


class WithLength(Stream):
    def __len__(self):
        return N - 2  # fewer than it yields: torch warns


DATASETS = {
    "tensors": lambda: TensorDataset(torch.arange(N), torch.ones(N, 2)),
    "drawn": Drawn,
    "all at once": AllAtOnce,
    "a list": lambda: [[i, float(i), f"{i}", None is None] for i in range(N)],
    "subset": lambda: Subset(Drawn(), [5, 1, 1, 3]),
    "concatenated": lambda: ConcatDataset(
        [TensorDataset(torch.zeros(3)), TensorDataset(torch.ones(4))]
    ),
    "stacked": lambda: StackDataset(a=Drawn(), b=TensorDataset(torch.arange(N))),
    "fails": Fails,
    "stream": Stream,
    "stream with a length": WithLength,
}


def listed(samples):
    return list(samples)


def seed_plainly(worker):
    random.seed(worker)
    np.random.seed(worker)


class EveryOther:
    def __iter__(self):
        return iter(range(0, N, 2))

    def __len__(self):
        return 4


BATCHES = {
    "one": {},
    "three": {"batch_size": 3},
    "three, drop last": {"batch_size": 3, "drop_last": True},
    "none": {"batch_size": None},
    "listed": {"batch_size": 4, "collate_fn": listed},
}
ORDERS = {
    "in order": lambda dataset: {},
    "shuffled": lambda dataset: {"shuffle": True},
    "with a generator": lambda dataset: {
        "shuffle": True,
        "generator": torch.Generator().manual_seed(3),
    },
    "own sampler": lambda dataset: {"sampler": EveryOther()},
    "subset sampler": lambda dataset: {"sampler": SubsetRandomSampler([0, 3, 2])},
    "weighted": lambda dataset: {"sampler": WeightedRandomSampler([0.1] * 4, 5)},
    "with replacement": lambda dataset: {
        "sampler": RandomSampler(dataset, replacement=True, num_samples=5)
    },
    "batch sampler": lambda dataset: {
        "batch_sampler": BatchSampler(SequentialSampler(dataset), 2, drop_last=True)
    },
}
WORKERS = {
    "none": {},
    "none, pinned": {"pin_memory": True},
    "two": {"num_workers": 2},
    "one, in any order": {  # of two, chance decides
        "num_workers": 1,
        "in_order": False,
        "prefetch_factor": 1,
        "timeout": 60,
    },
    "two, persistent": {
        "num_workers": 2,
        "persistent_workers": True,
        "pin_memory": True,
        "worker_init_fn": seed_plainly,
        "multiprocessing_context": "fork",
    },
}
TABLES = (DATASETS, BATCHES, ORDERS, WORKERS)


def refused(names: tuple[str, ...]) -> bool:
    """Whether torch takes these options together."""
    try:
        make(names)
    except ValueError:
        return True
    return False


@functools.cache
def cases() -> list[tuple[str, ...]]:
    """So many that each two options that go together meet in one."""
    every = [names for names in itertools.product(*TABLES) if not refused(names)]
    random.Random(1).shuffle(every)
    every.sort(key=lambda names: "num_workers" in WORKERS[names[-1]])  # their processes take long
    chosen, met = [], set()
    for least, names in itertools.product(range(6, 0, -1), every):
        new = {*itertools.combinations(enumerate(names), 2)} - met
        if len(new) >= least:
            chosen.append(names)
            met |= new
    return chosen


def make(names: tuple[str, ...]) -> DataLoader:
    dataset_name, batches, order, workers = names
    dataset = DATASETS[dataset_name]()
    return DataLoader(dataset, **BATCHES[batches], **ORDERS[order](dataset), **WORKERS[workers])


def plain(value: Any) -> Any:
    """A value as what can be compared by ``==``, with all types in it."""
    kind = type(value).__qualname__
    if isinstance(value, torch.Tensor):
        about = value.dtype, tuple(value.shape), value.is_shared(), value.stride()
        return kind, about, value.tolist()
    if isinstance(value, dict):
        return kind, {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return kind, [plain(each) for each in value]
    return kind, repr(value)


def epoch(loader: DataLoader) -> list[Any]:
    iterator = iter(loader)
    seen = [type(iterator).__qualname__, type(iterator).__module__]
    while True:
        try:
            seen.append(plain(next(iterator)))
        except StopIteration:
            return seen
        except Exception as error:
            traceback.clear_frames(error.__traceback__)  # which hold the workers, in a circle
            return [*seen, type(error), str(error)]


def all_that_shows(names: tuple[str, ...], recorded: bool) -> dict[str, Any]:
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        loader = make(names)
        if recorded:
            with lv.record(loader) as recording:
                epochs = [epoch(loader), epoch(loader)]
            assert recording.trace.meta["complete"], recording.trace.meta["problems"]
        else:
            epochs = [epoch(loader), epoch(loader)]
        try:
            length: Any = len(loader)
        except TypeError as error:
            length = str(error)
    return {
        "epochs": epochs,
        "length": length,
        "warnings": [(each.category, str(each.message), each.filename) for each in said],
        "attributes": sorted(vars(loader)),
        "torch": torch.get_rng_state().tolist(),
        "generator": loader.generator and loader.generator.get_state().tolist(),
        "random": random.getstate(),
        "numpy": np.random.get_state()[1].tolist(),
    }


@pytest.mark.parametrize("dataset", DATASETS)
def test_a_recorded_loader_is_equal_in_all_that_shows(dataset):
    own = [case for case in cases() if case[0] == dataset]
    assert len(own) >= len(BATCHES)
    for names in own:
        assert all_that_shows(names, recorded=True) == all_that_shows(names, recorded=False), names
