"""LV125: ranks that read the same samples, and ranks that only seem to.

One process plays both: each in its turn is examined, and then they are told of one another.
"""

import json
from dataclasses import replace

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    RandomSampler,
    Subset,
    WeightedRandomSampler,
    random_split,
)

import loaderviz as lv
from loaderviz._doctor.checks import CHECKS
from loaderviz._doctor.examination import examine
from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.rank_messages import RankMessages, _message
from pitfalls import undecided

N = 64
playing = 0  # the rank whose turn it is


class Rows(Dataset):
    def __init__(self, n=N, first=0, order=None):
        self.rows = torch.arange(first, first + n, dtype=torch.float32)
        if order is not None:
            self.rows = self.rows[torch.randperm(n, generator=order)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


class Noisy(Rows):
    def __getitem__(self, index):
        return self.rows[index] + torch.rand(())


class Twins(Rows):
    def __getitem__(self, index):
        return self.rows[index // 8]


class NoisyByRank(Rows):
    def __getitem__(self, index):
        return self.rows[2 * index + get_rank()] + torch.rand(())

    def __len__(self):
        return len(self.rows) // 2


class ByRank(NoisyByRank):
    def __getitem__(self, index):
        return self.rows[2 * index + get_rank()]


class TurnsByBatch:
    """Every second batch of a batch sampler, filled up from its beginning: as accelerate does."""

    def __init__(self, batches, rank):
        self.batches, self.rank = batches, rank

    def __iter__(self):
        batches = list(self.batches)
        first = batches[0]
        batches[-1] = (batches[-1] + first)[: len(first)]
        batches += batches[: len(batches) % 2]
        yield from batches[self.rank :: 2]

    def __len__(self):
        return (len(self.batches) + 1) // 2


def get_rank():
    return playing


def shuffled(dataset, seed=0):
    return DataLoader(dataset, 8, shuffle=True, generator=torch.Generator().manual_seed(seed))


def dealt(dataset, **options):
    options = {"num_replicas": 2, "rank": playing, **options}
    return DataLoader(dataset, 8, sampler=DistributedSampler(dataset, **options))


def at_epoch(epoch, loader):
    loader.sampler.set_epoch(epoch)
    return loader


def split(seed, dataset=None):
    generator = torch.Generator().manual_seed(seed)
    return random_split(dataset or Rows(), [0.75, 0.25], generator)[0]


def weighted():
    return DataLoader(Rows(), 8, sampler=WeightedRandomSampler(torch.ones(N), N))


def taking_turns(n):
    data = Rows(n)
    order = RandomSampler(data, generator=torch.Generator().manual_seed(0))
    return DataLoader(data, batch_sampler=TurnsByBatch(BatchSampler(order, 8, False), playing))


def judged(make):
    """What the check says on rank 0; ``make`` makes a rank's loader."""
    global playing
    cases = []
    for rank in (0, 1):
        playing = rank
        cases.append(examine(Setup(make()), run=True, budget_s=60))
    messages = tuple(json.loads(json.dumps(_message(case))) for case in cases)
    playing = 0
    return CHECKS["LV125"].judge(replace(cases[0], ranks=RankMessages(messages)))


SICK = {
    "each shuffles all": (lambda: shuffled(Rows(), playing), "64 of 64 samples in common"),
    "all in one order": (lambda: shuffled(Rows()), "a RandomSampler, which knows of no rank"),
    "random augmentation": (lambda: shuffled(Noisy(), playing), "64 of 64 samples in common"),
    "seed is the rank": (lambda: dealt(Rows(), seed=playing), "seed, by rank, is [0, 1]"),
    "epoch of one rank": (lambda: at_epoch(playing, dealt(Rows())), "epoch, by rank, is [0, 1]"),
    "split by each": (lambda: shuffled(split(playing)), "each has another Subset of Rows"),
    "a list that each has shuffled": (
        lambda: dealt(Rows(order=torch.Generator().manual_seed(playing))),
        "under other keys: each has the data in another order",
    ),
    "split within": (
        lambda: dealt(Subset(ConcatDataset([split(playing), Rows(8, 99)]), range(48))),
        "each has another Subset of Rows",
    ),
}
HEALTHY = {
    "dealt out": lambda: dealt(Rows()),
    "padded": lambda: dealt(Rows(N + 1), shuffle=False),
    "a part for each": lambda: shuffled(Rows(N // 2, N // 2 * playing)),
    "a noisy part for each": lambda: shuffled(Noisy(N // 2, N // 2 * playing)),
    "read by rank": lambda: shuffled(ByRank()),
    "batches in turns, filled up": lambda: taking_turns(N + 3),
    "one model on two ranks": lambda: dealt(Rows(), num_replicas=1, rank=0),
    "rows that are there twice": lambda: shuffled(Subset(Twins(), range(playing, N, 2))),
}
OPEN = {
    "in order": (lambda: DataLoader(Rows(), 8), "right where each rank evaluates for itself"),
    "drawn with replacement": (weighted, "each draws some more than once"),
    "read by rank, noisy": (lambda: shuffled(NoisyByRank()), "the dataset's code knows of ranks"),
}


QUICK = {"each shuffles all", "dealt out"}  # the other lists have none that is quick


def swept(names):
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", swept(SICK))
def test_ranks_that_read_the_same_are_found(name):
    make, said = SICK[name]
    finding = judged(make)
    assert finding is not None
    assert finding.state == "found", finding
    assert said in " ".join(finding.evidence)


@pytest.mark.parametrize("name", swept(HEALTHY))
def test_ranks_that_share_the_work_are_let_be(name):
    assert judged(HEALTHY[name]) is None


@pytest.mark.parametrize("name", swept(OPEN))
def test_what_may_be_meant_is_left_open(name):
    make, said = OPEN[name]
    finding = judged(make)
    assert finding is not None
    assert finding.state == "undecided", finding
    assert said in finding.evidence[0]


def test_a_rank_that_cannot_ask_the_others_says_what_it_suspects(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    diagnosis = lv.doctor(shuffled(Rows()), run=False)
    assert diagnosis.codes == ()
    assert "a RandomSampler, which knows of none" in undecided(diagnosis)["LV125"]


@pytest.mark.parametrize("world_size", ["1", None])
def test_a_single_rank_has_nothing_to_share(monkeypatch, world_size):
    if world_size:
        monkeypatch.setenv("WORLD_SIZE", world_size)
        monkeypatch.setenv("RANK", "0")
    assert "LV125" in lv.doctor(shuffled(Rows()), run=False).clear
