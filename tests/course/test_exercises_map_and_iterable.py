"""Notebook 01: its exercises unsolved, solved and nearly solved; what can be asked of a dataset."""

import itertools

import pytest
from torch.utils.data import Dataset, IterableDataset, Sampler

from loaderviz.course.datasets import EndlessLog, SleepingDataset, SleepingStream
from loaderviz.course.map_and_iterable import every_epoch, take_turns
from loaderviz.course.try_out import try_out


class Belt(IterableDataset):
    def __init__(self, samples):
        self.samples = samples

    def __iter__(self):
        return iter(self.samples)


class UsedUp(Belt):
    def __init__(self, samples):
        self.samples = iter(samples)


class OneIterator(Belt):
    """Right for one loop after the other: it begins anew, but is its own iterator."""

    def __iter__(self):
        self.running = iter(self.samples)
        return self

    def __next__(self):
        return next(self.running)


class SkipsTheFirst(Belt):
    def __iter__(self):
        return itertools.islice(self.samples, 1, None)


class Endless(Belt):
    def __iter__(self):
        return itertools.cycle(self.samples)


class Empty(Belt):
    def __iter__(self):
        return iter(())


class ReturnsTheList(Belt):
    def __iter__(self):
        return self.samples


class ReturnsNothing(Belt):
    def __iter__(self):
        iter(self.samples)


class Misspelt(Belt):
    def __iter__(self):
        return iter(self.sample)


@pytest.mark.parametrize(
    ("dataset", "says"),
    [
        (ReturnsTheList, "__iter__ returned range, not an iterator"),
        (ReturnsNothing, "__iter__ returned nothing. It has to yield"),
        (Misspelt, "AttributeError: 'Misspelt' object has no attribute 'sample'"),
        (Misspelt, "return iter(self.sample)"),
    ],
)
def test_a_readers_error_is_explained_and_not_raised(dataset, says):
    check = every_epoch(dataset)
    assert not check.passed
    assert says in check.message


@pytest.mark.parametrize(
    ("dataset", "passed", "says"),
    [
        (UsedUp, False, "epoch 2 delivers nothing"),
        (Belt, True, "Every epoch"),
        (OneIterator, False, "two loops at once"),
        (SkipsTheFirst, False, "epoch 1 delivers 11 samples"),
        (Endless, False, "epoch 1 delivers 48 samples"),
        (Empty, False, "epoch 1 delivers nothing"),
    ],
)
def test_every_epoch(dataset, passed, says):
    check = every_epoch(dataset)
    assert check.passed is passed
    assert says in check.message
    assert check.figure is not None


def sampler(keys):
    class Keys(Sampler):
        def __init__(self, first, second):
            self.first, self.second = len(first), len(second)

        def __iter__(self):
            return keys(self.first, self.second)

    return Keys


def one_after_the_other(n, m):
    yield from range(n + m)


def turns(n, m):
    for place in range(max(n, m)):
        if place < n:
            yield place
        if place < m:
            yield n + place


def zipped(n, m):
    for pair in zip(range(n), range(n, n + m), strict=False):
        yield from pair


def without_offset(n, m):
    for place in range(m):
        yield from (place % n, place)


def second_first(n, m):
    for place in range(m):
        yield n + place
        if place < n:
            yield place


@pytest.mark.parametrize(
    ("keys", "passed", "says"),
    [
        (one_after_the_other, False, "not in turns: [0, 1, 2"),
        (turns, True, "each exactly once"),
        (zipped, False, "4 of 16 samples never arrived"),  # the tail of the longer one
        (without_offset, False, "came more than once"),
        (second_first, False, "not in turns"),
        (lambda n, m: itertools.cycle(range(n + m)), False, "does not end"),
        (lambda n, m: iter(()), False, "no sample"),
        (lambda n, m: iter(range(1, n + m + 1)), False, "no key 16"),
        (lambda n, m: None, False, "__iter__ returned nothing"),
        (lambda n, m: iter(()) / 2, False, "your code raised TypeError"),
        (lambda n, m: iter([("a", 0)]), False, "no key ('a', 0)"),
    ],
)
def test_take_turns(keys, passed, says):
    check = take_turns(sampler(keys))
    assert check.passed is passed
    assert says in check.message


def test_what_can_be_asked_of_a_dataset_is_found_out_by_asking():
    class NoEnd(Dataset):
        def __getitem__(self, index):
            return index

    table = try_out(
        shelf=SleepingDataset(8, 0),
        stream=SleepingStream(8, 0),
        log=EndlessLog(),
        plain=[3, 1, 4],
        once=iter([3, 1, 4]),
        no_end=NoEnd(),
    )
    assert list(table.index) == [
        "len(dataset)",
        "dataset[2]",
        "a for ends",
        "a second for",
        "shuffle=True",
        "sampler=[2, 0]",
        "dataset + dataset",
    ]
    yes = "the same"
    assert list(table["shelf"]) == ["8", "yes", "after 8", yes, "yes", "yes", "ConcatDataset"]
    no = ["no: TypeError", "no: NotImplementedError"]
    raises = ["no: ValueError", "no: ValueError"]
    assert list(table["stream"])[2:] == ["after 8", yes, *raises, "ChainDataset"]
    assert table["stream"].iloc[0] in no
    assert list(table["log"])[2:] == ["no end", yes, *raises, "ChainDataset"]
    assert list(table["plain"]) == ["3", "yes", "after 3", yes, "yes", "yes", "list"]
    assert table["once"]["a second for"] == "no: used up"
    assert table["no_end"]["a for ends"] == "no end"
