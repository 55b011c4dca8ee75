"""Small loaders with the documented options of DataLoader: each two that go together meet in one.

The less usual loaders are in test_record_exactly.py, which says what of them has to be equal.
"""

import functools
import itertools
import random

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    SequentialSampler,
    StackDataset,
    TensorDataset,
    WeightedRandomSampler,
)

from probes import Bulk, Keys, Refusing, Stream, as_it_is, seed_alike
from test_record_exactly import run, seeded

N = 7


class WithLength(Stream):
    def __len__(self):
        return N - 2  # fewer than it yields: torch warns


# Of subsets and concatenated datasets are those of test_record_exactly.py.
DATASETS = {
    "drawn": lambda: Keys(N),
    "all at once": lambda: Bulk(N),
    "stacked": lambda: StackDataset(a=Keys(N), b=TensorDataset(torch.arange(N))),
    "fails": lambda: Refusing(N, 4, KeyError("no sample 4")),
    "stream": lambda: Stream(4, 3),
    "stream with a length": lambda: WithLength(4, 3),
}
BATCHES = {
    "one": {},
    "three": {"batch_size": 3},
    "three, drop last": {"batch_size": 3, "drop_last": True},
    "none": {"batch_size": None},
    "as it is": {"batch_size": 4, "collate_fn": as_it_is},
}
ORDERS = {
    "in order": lambda dataset: {},
    "shuffled": lambda dataset: {"shuffle": True},
    "with a generator": lambda dataset: {"shuffle": True, "generator": seeded()},
    "weighted": lambda dataset: {"sampler": WeightedRandomSampler([0.1] * 4, 5)},
    "batch sampler": lambda dataset: {
        "batch_sampler": BatchSampler(SequentialSampler(dataset), 2, drop_last=True)
    },
}
WORKERS = {
    "none": {},
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
        "worker_init_fn": seed_alike,
        "multiprocessing_context": "fork",
    },
}


def make(names: tuple[str, ...]) -> DataLoader:
    dataset_name, batches, order, workers = names
    dataset = DATASETS[dataset_name]()
    return DataLoader(dataset, **BATCHES[batches], **ORDERS[order](dataset), **WORKERS[workers])


def refused(names: tuple[str, ...]) -> bool:
    """Whether torch does not take these options together."""
    try:
        make(names)
    except ValueError:
        return True
    return False


@functools.cache
def cases() -> list[tuple[str, ...]]:
    """So many that each two options that go together meet in one."""
    every = itertools.product(DATASETS, BATCHES, ORDERS, WORKERS)
    accepted = [names for names in every if not refused(names)]
    random.Random(1).shuffle(accepted)
    accepted.sort(key=lambda names: "num_workers" in WORKERS[names[-1]])  # these take long
    chosen, met = [], set()
    for least, names in itertools.product(range(6, 0, -1), accepted):
        new = {*itertools.combinations(enumerate(names), 2)} - met
        if len(new) >= least:
            chosen.append(names)
            met |= new
    return chosen


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.slow
def test_a_recorded_loader_is_equal_in_all_that_shows(dataset):
    own = [case for case in cases() if case[0] == dataset]
    assert len(own) >= len(BATCHES)
    for names in own:
        made = functools.partial(make, names)
        epochs = 1 if names[-1] == "one, in any order" else 2  # others start none again
        without, _, _ = run(made, recorded=False, epochs=epochs)
        with_, trace, _ = run(made, recorded=True, epochs=epochs)
        with_.same(without)
        assert trace.meta["complete"], names
