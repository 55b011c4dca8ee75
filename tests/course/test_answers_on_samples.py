"""Exercises on which samples come and in which order: answers that are right or only look so."""

import itertools
import random
from itertools import chain, cycle

import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, Sampler

from loaderviz import LoaderVizError, audit
from loaderviz.course import (
    duplicates,
    inside_the_dataloader,
    many_ranks,
    map_and_iterable,
    randomness,
    stop_and_resume,
    streaming,
)
from loaderviz.course.datasets import splits

# Notebook 01


def belt(iterate):
    """A class whose ``__iter__`` returns what ``iterate`` does of the dataset and its samples."""

    class Belt(IterableDataset):
        def __init__(self, samples):
            self.samples, self.once = samples, iter(samples)

        def __iter__(self):
            return iterate(self, self.samples)

        def __next__(self):
            return next(self.running)

    return Belt


def its_own_iterator(dataset, samples):
    """Right for one loop after the other: it begins anew, but is its own iterator."""
    dataset.running = iter(samples)
    return dataset


def turns(keys):
    class Keys(Sampler):
        def __init__(self, first, second):
            self.n, self.m = len(first), len(second)

        def __iter__(self):
            return keys(self.n, self.m)

    return Keys


def in_turns(n, m):
    for place in range(max(n, m)):
        yield from ([place] if place < n else []) + [n + place]


BELTS = [
    (belt(lambda dataset, samples: iter(samples)), True, "Every epoch"),
    (belt(lambda dataset, samples: dataset.once), False, "epoch 1 delivers 11|epoch 2 delivers"),
    (belt(its_own_iterator), False, "two loops at once"),
    (belt(lambda dataset, samples: iter(samples[1:])), False, "epoch 1 delivers 11 samples"),
    (belt(lambda dataset, samples: cycle(samples)), False, "epoch 1 delivers 48 samples"),
    (belt(lambda dataset, samples: iter(())), False, "epoch 1 delivers nothing"),
    (belt(lambda dataset, samples: samples), False, "__iter__ returned range, not an iterator"),
    (belt(lambda dataset, samples: None), False, "__iter__ returned nothing. It has to yield"),
    (belt(lambda dataset, samples: dataset.sample), False, "has no attribute 'sample'"),
]
TURNS = [
    (turns(in_turns), True, "each exactly once"),
    (turns(lambda n, m: iter(range(n + m))), False, "not in turns: [0, 1, 2"),
    (turns(lambda n, m: chain(*zip(range(n), range(n, n + m)))), False, "4 of 16 samples never"),  # noqa: B905
    (turns(lambda n, m: (place % n for place in range(n + m))), False, "came more than once"),
    (turns(lambda n, m: cycle(range(n + m))), False, "does not end"),
    (turns(lambda n, m: iter(())), False, "no sample"),
    (turns(lambda n, m: iter(range(1, n + m + 1))), False, "no key 16"),
    (turns(lambda n, m: iter([("a", 0)])), False, "no key ('a', 0)"),
    (turns(lambda n, m: None), False, "__iter__ returned nothing"),
]

# Notebook 02


def with_a_buffer(results):
    early, expected = {}, 0
    for number, batch in results:
        early[number] = batch
        while expected in early:
            yield early.pop(expected)
            expected += 1


def one_for_one(results):
    """Frees at most one batch for each arrival, so that the last ones stay."""
    early, expected = {}, 0
    for number, batch in results:
        early[number] = batch
        if expected in early:
            yield early.pop(expected)
            expected += 1


def sorted_at_the_end(results):
    for _, batch in sorted(results):
        yield batch


BUFFERS = [
    (sorted_at_the_end, False, "though it was free after"),
    (one_for_one, False, "free after"),
    (lambda results: chain(with_a_buffer(results), ["batch 12"]), False, "more is handed over"),
    (lambda results: [], False, "not all of them"),
    (lambda results: None, False, "it returned None"),
    (lambda results: [[]], False, "[] is handed over in place of 'batch 0'"),
    (lambda results: [next(results)[2]], False, "your code raised IndexError"),
]

# Notebook 04

SOLVED = {"A": "the same to every worker", "B": "nothing", "C": "drop_last"}
FAULTS = [
    (SOLVED, True, "All three"),
    (SOLVED | {"A": "nothing"}, False, "A: 'nothing' is not it. 12 of 24 samples came"),
    (SOLVED | {"B": "drop_last"}, False, "Every sample came exactly once"),
    (SOLVED | {"C": "nothing"}, False, "8 of 24 samples never arrived"),
    (dict.fromkeys("ABC", "?"), False, "A: '?' is none of 'nothing'"),
]
MOST_WORKERS = [
    (12, False, "more workers can do it"),  # one for each full batch
    (13, True, "as with one"),
    (14, False, "Too much is lost"),
    (17, False, "1 to 16"),
]


def overlapping(data, worker, workers):
    each = len(data) // workers
    return data[worker * each : (worker + 1) * each + 1]


def stretches(data, worker, workers):
    each, rest = divmod(len(data), workers)
    begin = worker * each + min(worker, rest)
    return data[begin : begin + each + (worker < rest)]


SPLITS = [
    (splits.by_floor, False, "17 samples, num_workers=2: 1 of 17 samples never arrived"),
    (splits.by_stride, True, "Every sample came exactly once"),
    (stretches, True, "the shares are even"),
    (splits.by_ceil, False, "nothing is lost, but the shares are 5, 5, 5, 2"),
    (overlapping, False, "1 of 17 samples came more than once"),
    (lambda data, worker, workers: data[worker::2], False, "num_workers=1: 8 of 17 samples never"),
    (lambda data, worker, workers: 17 * [worker], False, "17 samples, num_workers=2"),
    (lambda data, worker, workers: None, False, "your code raised TypeError"),
]

# Notebook 05

COUNTER = itertools.count()
SEEDS = [
    (lambda base, *place: hash((base, *place)) % 2**64, True, "1,280 different seeds"),
    (lambda base, rank, worker, epoch: base + worker, False, "epoch 0 and for rank 0"),
    (lambda *place: sum(place), False, "The same seed 8"),
    (lambda base, rank, worker, epoch: worker + 100 * rank + 10_000 * epoch, False, "Another base"),
    (lambda *place: next(COUNTER), False, "cannot be repeated"),
    (lambda *place: "seven", False, "seed(7, 0, 0, 0) returns 'seven': a seed is a whole"),
    (lambda *place: -1, False, "NumPy takes no seed below 0"),
]
BUFFER_SIZES = [
    (500, False, "Not yet: a batch has samples of 8.9"),
    (600, True, "600: a batch has samples of 9.3 of 10"),
    (1000, False, "a smaller one would do"),
    (550, False, "give 100, 200"),
    ("600", False, "give 100, 200"),
]


def with_seed(seed):
    """Shuffle all shards with the seed that ``seed(epoch, worker)`` gives, then share them out."""

    def order(n_shards, epoch, worker, workers):
        shards = list(range(n_shards))
        random.Random(seed(epoch, worker)).shuffle(shards)
        return shards[worker::workers]

    return order


ORDERS_OF_SHARDS = [
    (with_seed(lambda epoch, worker: epoch), True, "Every shard once"),
    (with_seed(lambda epoch, worker: epoch + worker), False, "never arrived"),
    (with_seed(lambda epoch, worker: 0), False, "the same order in every epoch"),
]

# Notebook 06


def by_loops(paths, lines):
    while True:
        for path in paths:
            yield from lines(path)


STREAMS = [
    (by_loops, True, "30 lines without end"),
    (lambda paths, lines: chain(*map(lines, paths)), False, "3 files were|ends after 12 lines"),
    (lambda paths, lines: chain(*map(list, map(lines, paths))), False, "3 files were read"),
    (lambda paths, lines: cycle(chain.from_iterable(map(lines, paths))), False, "in memory"),
    (lambda paths, lines: chain.from_iterable(cycle(map(lines, paths))), False, "for ever"),
    (lambda paths, lines: by_loops(paths[::-1], lines), False, "should begin ['a0'"),
    (lambda paths, lines: None, False, "stream returned nothing"),
    (lambda paths, lines: 3, False, "your code raised TypeError"),
]
WORKERS_FOR = [
    (lambda slots, most: 1, False, "That works, but 3 would, too"),
    (lambda slots, most: 3, False, "8 slots and room for 4 workers: workers_for gives 3"),
    (lambda slots, most: slots, False, "workers_for gives 6. Give a whole number, 1 to 4"),
    (lambda slots, most: None, False, "workers_for gives None. Give a whole number, 1 to 4"),
]

# Notebook 09


def floor(data, rank, ranks, worker, workers):
    each, place = len(data) // (ranks * workers), rank * workers + worker
    return data[place * each : (place + 1) * each]


def by_rank_first(data, rank, ranks, worker, workers):
    return data[rank * workers + worker :: ranks * workers]


def in_turn(parts):
    return [result for turn in zip(*parts, strict=True) for result in turn]


SHARES = [
    (
        by_rank_first,
        False,
        "ranks=2, workers=4: every sample comes once, but rank 0 has 4",
    ),
    (lambda data, rank, ranks, worker, workers: data[rank::ranks], False, "came twice"),
    (floor, False, "17 samples, ranks=2, workers=2: 1 of 17 samples never arrived"),
    (lambda *place: [], False, "Nothing came"),
    (lambda *place: ["a"], False, "your code raised"),
]
UNPADDED = [
    (lambda parts, n: list(chain(*parts))[:n], False, "sample 1 has the result 1"),
    (lambda parts, n: in_turn(parts), False, "18 results"),
    (lambda parts, n: in_turn(parts)[:-1], False, "16 samples, ranks=2: 15 results"),
]

# Notebook 11


def whole_order(n, seed, epoch, start):
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed + epoch)).tolist()


def global_seed(n, seed, epoch, start):
    torch.manual_seed(seed + epoch)
    return torch.randperm(n).tolist()[start:]


class Counting:
    """Right, but reads again what it skips."""

    n = skip = 0

    def __init__(self, shards):
        self.shards = shards

    def __iter__(self):
        for number, sample in enumerate(chain.from_iterable(self.shards)):
            if number >= self.skip:
                self.n = number + 1
                yield sample

    def state_dict(self):
        return {"n": self.n}

    def load_state_dict(self, state):
        self.n = self.skip = state["n"]


ORDERS = [
    (global_seed, False, "others draw from it"),
    (whole_order, False, "after 12 samples of epoch 1, it goes on with"),
    (lambda n, seed, epoch, start: torch.randperm(n).tolist()[start:], False, "it goes on with"),
    (lambda n, seed, epoch, start: [0] * n, False, "each of 32 samples once"),
]
PLACES = [
    (Counting, False, "read 16 samples for 15"),
    (lambda shards: None, False, "your code raised TypeError"),
]

ANSWERS = {
    map_and_iterable.every_epoch: BELTS,
    map_and_iterable.take_turns: TURNS,
    inside_the_dataloader.reorder_buffer: BUFFERS,
    duplicates.faults: FAULTS,
    duplicates.most_workers: MOST_WORKERS,
    duplicates.fair: SPLITS,
    randomness.apart: SEEDS,
    randomness.enough: BUFFER_SIZES,
    randomness.agreed: ORDERS_OF_SHARDS,
    streaming.endless: STREAMS,
    streaming.share_slots: WORKERS_FOR,
    many_ranks.share: SHARES,
    many_ranks.unpadded: UNPADDED,
    stop_and_resume.resumes: ORDERS,
    stop_and_resume.goes_on: PLACES,
}


@pytest.mark.parametrize(
    ("check", "answer", "passed", "says"),
    [
        pytest.param(check, *row, id=f"{check.__name__}: {row[2]}")
        for check, rows in ANSWERS.items()
        for row in rows
    ],
)
def test_an_answer_is_judged_and_told_why(check, answer, passed, says):
    found = check(answer)
    assert any(each in found.message for each in says.split("|")), found.message
    assert found.passed is passed


def test_loader_a_delivers_as_many_samples_as_there_are_and_yet_the_wrong_ones():
    found = audit(duplicates.loader("A"))
    assert len(found.deliveries) == found.n_samples == 24
    assert found.exactly_once is False
    with pytest.raises(LoaderVizError, match="'D'"):
        duplicates.loader("D")


def test_a_picture_shows_the_answer():
    figure = inside_the_dataloader.reorder_buffer(sorted_at_the_end).figure
    assert "free after" in figure.layout.title.text
    seeds = randomness.apart(lambda base, rank, worker, epoch: base + worker).figure
    assert "The same numbers in every epoch and every rank" in seeds.layout.title.text
    shares = many_ranks.share(floor).figure
    assert "rank 1 · worker 0" in shares.layout.yaxis.ticktext


def test_the_classes_in_a_batch_are_those_of_other_orders_too(monkeypatch):
    told = randomness.classes_in_a_batch(1000, 100)
    assert randomness.classes_in_a_batch(1000, 1) == 1  # nothing is shuffled
    monkeypatch.setattr(randomness, "ORDERS", 400)
    assert f"{randomness.classes_in_a_batch(1000, 100):.1f}" == f"{told:.1f}" == "4.3"


def test_what_two_processes_were_given_is_one_epoch():
    found = stop_and_resume.seen_by([[0, 1], [2, 3]], [[0, 1]], n_samples=6)
    assert found.missing["sample"].tolist() == [4, 5]
    assert found.duplicates["sample"].tolist() == [0, 1]


def test_what_can_be_asked_of_a_dataset_is_found_out_by_asking():
    table = map_and_iterable.try_out(
        shelf=map_and_iterable.SleepingDataset(8, 0),
        plain=[3, 1, 4],
        stream=belt(lambda dataset, samples: iter(samples))(range(8)),
        log=belt(lambda dataset, samples: itertools.count())([]),
        once=iter([3, 1, 4]),
    )
    whole = ["8", "yes", "after 8", "the same", "yes", "yes", "ConcatDataset"]
    assert list(table["shelf"]) == whole
    assert list(table["plain"]) == ["3", "yes", "after 3", "the same", "yes", "yes", "list"]
    refused = ["no: ValueError", "no: ValueError", "ChainDataset"]
    assert list(table["stream"])[2:] == ["after 8", "the same", *refused]
    assert table["stream"]["len(dataset)"].startswith("no: ")
    assert list(table["log"])[2:] == ["no end", "the same", *refused]
    assert table["once"]["a second for"] == "no: used up"


class Twice(Dataset):
    """Row k is 4 * k, 4 * k + 1 and so on; a sample is twice that."""

    def __init__(self):
        self.rows = torch.arange(64.0).reshape(16, 4)
        self.buffer = torch.zeros(4)

    def __len__(self):
        return 16

    def __getitem__(self, index):
        return self.give(index)

    def right(self, index):
        return 2 * self.rows[index]

    def in_place(self, index):
        return self.rows[index].mul_(2)

    def in_one_buffer(self, index):
        return torch.mul(self.rows[index], 2, out=self.buffer)


@pytest.mark.parametrize(
    ("give", "said"),
    [
        (Twice.right, "Each sample is twice its row, in both epochs."),
        (Twice.in_place, "In epoch 1 the samples are not twice their rows."),
        (Twice.in_one_buffer, "In epoch 0 the samples are not twice their rows."),
    ],
)
def test_samples_are_whole_in_both_epochs(give, said):
    answer = duplicates.whole(type("Answer", (Twice,), {"give": give}))
    assert answer.passed is (give is Twice.right)
    assert said in str(answer)
