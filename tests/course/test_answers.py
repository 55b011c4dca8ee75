"""Exercises: answers that only look right, and what is said of them.

That the notebooks' own solutions pass is in ``test_exercises.py``.
"""

import itertools
import random
import re
from itertools import chain, cycle, islice

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from loaderviz import LoaderVizError, audit, shard
from loaderviz.course import (
    batches_by_length,
    duplicates,
    feeding_the_gpu,
    first_look,
    how_many_workers,
    lost_samples,
    many_ranks,
    map_and_iterable,
    mixing_a_stream,
    randomness,
    same_contents,
    stop_and_resume,
    streaming,
    which_line,
)
from loaderviz.course.datasets import BufferedStream, DoubledRows, Stream
from loaderviz.course.datasets.shuffling import shuffled

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


BELTS = [
    (
        belt(lambda dataset, samples: dataset.once),
        False,
        "first epoch delivers 11|second epoch delivers",
    ),
    (belt(its_own_iterator), False, "two loops at once"),
    (belt(lambda dataset, samples: iter(samples[1:])), False, "first epoch delivers 11 samples"),
    (belt(lambda dataset, samples: iter(set(samples))), False, "the samples in another order: [0,"),
    (belt(lambda dataset, samples: iter([1] * 12)), False, "delivers 12 samples instead of the"),
    (belt(lambda dataset, samples: cycle(samples)), False, "first epoch delivers 48 samples"),
    (belt(lambda dataset, samples: iter(())), False, "first epoch delivers nothing"),
    (belt(lambda dataset, samples: samples), False, "__iter__ returned list, not an iterator"),
    (belt(lambda dataset, samples: None), False, "__iter__ returned nothing. It has to yield"),
    (belt(lambda dataset, samples: dataset.sample), False, "has no attribute 'sample'"),
]

# Notebook 04

SHARED_OUT = [
    (lambda samples, worker, workers: samples, False, "num_workers=2: Every sample came twice"),
    (
        lambda samples, worker, workers: islice(samples, 16 // workers * worker, 16 // workers),
        False,
        "16 samples, num_workers=2: 8 of 16 samples never arrived",
    ),
    (
        lambda samples, worker, workers: [*samples][worker::workers],
        False,
        "of a stream without an end 10,000 samples have passed",
    ),
    (lambda samples, worker, workers: None, False, "`share` returned nothing"),
    (lambda samples, worker, workers: samples[worker::workers], False, "raised TypeError"),
    (
        lambda samples, worker, workers: samples if worker == 0 else (),
        False,
        "16 samples, num_workers=2: worker 0 yields 16 of them, an even share is 8",
    ),
    (
        lambda samples, worker, workers: (s for s in samples if int(s) % workers == worker),
        False,
        "raised ValueError: invalid literal",
    ),
    (
        lambda samples, worker, workers: (at for at, _ in enumerate(samples) if at % workers == 0),
        False,
        "worker 0 yields 0, no sample",
    ),
    (lambda samples, worker, workers: cycle(samples), False, "num_workers=1: 1 of 16 samples came"),
    (
        lambda samples, worker, workers: shard(samples),
        False,
        "came twice: each of 2 workers delivered all of them. `shard` asks the process",
    ),
]

# Notebook 17

SOLVED = {"A": "every worker reads the same half", "B": "nothing", "C": "drop_last"}
FAULTS = [
    (SOLVED, True, "All three"),
    (SOLVED | {"A": "nothing"}, False, "A: 'nothing' is not it. 12 of 24 samples came"),
    (SOLVED | {"B": "drop_last"}, False, "Every sample came exactly once"),
    (SOLVED | {"C": "nothing"}, False, "8 of 24 samples never arrived"),
    (dict.fromkeys("ABC", "?"), False, "A: '?' is none of 'nothing'"),
]

# Notebook 05

COUNTER = itertools.count()
SEEDS = [
    (lambda base, rank, worker, epoch: base + worker, False, "epoch 0 and for rank 0"),
    (lambda *place: sum(place), False, "The same seed 8"),
    (lambda base, rank, worker, epoch: worker + 100 * rank + 10_000 * epoch, False, "Another base"),
    (lambda *place: next(COUNTER), False, "cannot be repeated"),
    (lambda *place: hash(str(place)) % 2**64, False, "Python hashes text anew"),
    (lambda base, r, w, epoch: base * (1 + w + 16 * r + 128 * epoch), False, "With base 0"),
    (lambda *place: "seven", False, "seed(7, 0, 0, 0) returns 'seven': a seed is a whole"),
    (lambda *place: -1, False, "NumPy takes no seed below 0"),
]

# Notebook 06


def by_loops(paths, lines):
    while True:
        for path in paths:
            yield from lines(path)


def torn_late(sequences):
    """Whole at first, and backwards from the third sequence on."""
    return [*chain(*sequences[:2]), *reversed([*chain(*sequences[2:])])]


STREAMS = [
    (lambda paths, lines: chain(*map(lines, paths)), False, "3 files were|ends after 12 lines"),
    (lambda paths, lines: chain(*map(list, map(lines, paths))), False, "3 files were read"),
    (lambda paths, lines: cycle(chain.from_iterable(map(lines, paths))), False, "in memory"),
    (lambda paths, lines: chain.from_iterable(cycle(map(lines, paths))), False, "for ever"),
    (lambda paths, lines: by_loops(paths[::-1], lines), False, "should begin ['a0'"),
    (lambda paths, lines: None, False, "stream returned nothing"),
    (lambda paths, lines: 3, False, "your code raised TypeError"),
]

# Notebook 09


def floor(data, rank, ranks, worker, workers):
    each, place = len(data) // (ranks * workers), rank * workers + worker
    return data[place * each : (place + 1) * each]


def by_rank_first(data, rank, ranks, worker, workers):
    return data[rank * workers + worker :: ranks * workers]


SHARES = [
    (
        by_rank_first,
        False,
        "ranks=2, workers=4: every sample comes once, but rank 0 has 4",
    ),
    (lambda data, rank, ranks, worker, workers: data[rank::ranks], False, "came twice"),
    (
        lambda data, rank, ranks, worker, workers: data[rank::ranks] if worker == 0 else data[:0],
        False,
        "17 samples, ranks=2, workers=2: every sample comes once, but of the workers of rank 0",
    ),
    (floor, False, "17 samples, ranks=2, workers=2: 1 of 17 samples never arrived"),
    (lambda *place: [], False, "Nothing came"),
    (lambda *place: ["a"], False, "your code raised"),
]

# Notebook 11


def whole_order(n, seed, epoch, start):
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed + epoch)).tolist()


def global_seed(n, seed, epoch, start):
    torch.manual_seed(seed + epoch)
    return torch.randperm(n).tolist()[start:]


def order_of(seed_of):
    """An order that is shuffled by another seed than that of seed and epoch together."""
    return lambda n, seed, epoch, start: whole_order(n, seed_of(seed, epoch), 0, start)[start:]


ORDERS = [
    (global_seed, False, "others draw from it"),
    (whole_order, False, "after 12 samples of epoch 1, it goes on with"),
    (lambda n, seed, epoch, start: torch.randperm(n).tolist()[start:], False, "it goes on with"),
    (lambda n, seed, epoch, start: [0] * n, False, "each of 32 samples once"),
    (order_of(lambda seed, epoch: epoch), False, "seeds 3 and 11 give epoch 0 the same order"),
    (order_of(lambda seed, epoch: seed * epoch), False, "seeds 3 and 11"),
    (
        lambda n, seed, epoch, start: [(at + seed + epoch) % n for at in range(n)][start:],
        False,
        "most samples still come behind their neighbours",
    ),
]

# Notebook 14


def in_order(shards, rng):
    return shuffled(chain.from_iterable(shards), 200, rng)


def mixed(shards, rng, size=200):
    return shuffled(chain.from_iterable(rng.sample(shards, len(shards))), size, rng)


MIXED = [
    (in_order, False, "6.3 classes in a batch, 9 needed"),
    (lambda shards, rng: chain(*rng.sample(shards, 100)), False, "4.2 classes"),
    (lambda shards, rng: mixed(shards, rng, 201), False, "201 samples were held at once"),
    (lambda shards, rng: mixed(shards, random.Random(0)), False, "the order is the same"),
    (lambda shards, rng: mixed(shards[1:], rng), False, "990 samples came, 990 different ones"),
    (lambda shards, rng: cycle(range(10)), False, "1,001 samples came, 10 different ones"),
]

# Notebook 15


def by_length(lengths, budget):
    made = [[]]
    for key in sorted(range(len(lengths)), key=lambda key: lengths[key]):
        if (len(made[-1]) + 1) * lengths[key] > budget:
            made.append([])
        made[-1].append(key)
    return made


BATCHES = [
    (lambda lengths, budget: by_length(lengths, 10 * budget), False, "240 are allowed"),
    (lambda lengths, budget: by_length(lengths, budget // 3), False, "24 are allowed: fill them"),
    (lambda lengths, budget: [[key] for key in range(200)], False, "200 batches, 24 are allowed"),
    (lambda lengths, budget: by_length(lengths, budget)[1:], False, "Each of 200 has to come once"),
    (lambda lengths, budget: [*by_length(lengths, budget), []], False, "a batch is empty"),
    (
        lambda lengths, budget: [range(at, at + 4) for at in range(0, 200, 4)],
        False,
        "is padding, 10 % are allowed",
    ),
]

SLOTS = [
    (lambda all_of, n: [[*chain(*all_of)][slot::n] for slot in range(n)], False, "not go on"),
    (lambda all_of, n: [chain(*all_of) for _ in range(n)], False, "batches hold a sample twice"),
    (lambda all_of, n: [chain(*all_of), *[()] * (n - 1)], False, "2 slots: slot 1 gets nothing"),
    (lambda all_of, n: [chain(*all_of)], False, "2 slots got 1 streams"),
    (lambda all_of, n: [*all_of[: n - 1], torn_late(all_of[n - 1 :])], False, "slot 1 has"),
    (lambda all_of, n: [chain(*all_of[slot:-1:n]) for slot in range(n)], False, "comes 0 times"),
    (lambda all_of, n: [cycle(each) for each in all_of[:n]], False, "comes 7 times"),
]

# Notebooks 00, 07, 18 and 08

ENOUGH_WORKERS = [
    (3, False, "the model waits"),  # nearly keeps up
    (6, False, "fewer workers would do"),  # the model never waits, and yet
    ("three", False, "0 to 16"),
]

FEWEST = [
    (6, False, "Not yet"),  # rounded down
    (8, False, "fewer workers are as fast"),
    (-1, False, "0 to 16"),
]


def days(read):
    """A class whose samples ``read`` makes, of the whole table and of the number of the day."""
    table = which_line.hourly_table()

    class Days:
        numbers = torch.tensor(table.to_numpy())

        def __getitem__(self, day):
            return read(self.numbers, day)

    return Days


class Kept:
    """Each day is slow once, and an epoch reads it once."""

    def __init__(self):
        self.table, self.days = which_line.hourly_table(), {}

    def __getitem__(self, day):
        if day not in self.days:
            rows = [self.table.iloc[24 * day + i] for i in range(24)]
            self.days[day] = torch.tensor(np.array(rows))
        return self.days[day]


QUICKER = [
    (days(lambda numbers, day: numbers[24 * day : 24 * day + 24]), True, "times as quick"),
    (days(lambda numbers, day: numbers[:24]), False, "Day 1 is another one: give rows 24"),
    (days(lambda numbers, day: [][day]), False, "your code raised IndexError"),
    (days(lambda numbers, day: numbers[24 * day : 24 * day + 24].float()), False, "give float64"),
    (Kept, False, "at least 3 times as quick"),
]

FEEDING = [  # dearer or slower
    (("pinned, non_blocking", 3), False, "steps take 80 %"),
    (("copied ahead", 2), False, "steps take 73 %"),
    (("copied ahead", 4), False, "fewer workers would do"),
    (("by post", 3), False, "not one of 'pageable'"),
    (("pinned", 0), False, "1 to 8"),
]

ANSWERS = {
    map_and_iterable.every_epoch: BELTS,
    duplicates.once: SHARED_OUT,
    lost_samples.faults: FAULTS,
    randomness.apart: SEEDS,
    streaming.endless: STREAMS,
    streaming.dealt: SLOTS,
    many_ranks.share: SHARES,
    stop_and_resume.resumes: ORDERS,
    mixing_a_stream.mixed: MIXED,
    batches_by_length.batches: BATCHES,
    first_look.enough_workers: ENOUGH_WORKERS,
    how_many_workers.fewest: FEWEST,
    which_line.quicker: QUICKER,
    feeding_the_gpu.cheapest: FEEDING,
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
    found = check(*answer) if isinstance(answer, tuple) else check(answer)
    assert any(each in found.message for each in says.split("|")), found.message
    assert found.passed is passed


def test_loader_a_delivers_as_many_samples_as_there_are_and_yet_the_wrong_ones():
    found = audit(lost_samples.loader("A"))
    assert len(found.deliveries) == found.n_samples == 24
    assert found.exactly_once is False
    with pytest.raises(LoaderVizError, match="'D'"):
        lost_samples.loader("D")


def test_a_loader_announces_fewer_samples_than_come():
    line = lost_samples.announced(Stream(range(10)), batch_size=1, num_workers=2)
    assert line.endswith("len(loader) 10   batches 20   samples  20   torch warns")
    assert lost_samples.announced(Stream(range(10)), batch_size=4).endswith("10   no warning")


def test_a_picture_shows_the_answer():
    assert "came twice" in duplicates.once(lambda samples, *place: samples).figure.layout.title.text
    seeds = randomness.apart(lambda base, rank, worker, epoch: base + worker).figure
    assert "The first two workers" in seeds.layout.title.text
    assert "different sequences: 2" in seeds.layout.title.subtitle.text
    shares = many_ranks.share(floor).figure
    assert "rank 1 · worker 0" in shares.layout.yaxis.ticktext


def test_the_classes_in_a_batch_are_those_of_other_orders_too(monkeypatch):
    told = mixing_a_stream.classes_in_a_batch(1000, 100)
    assert mixing_a_stream.classes_in_a_batch(1000, 1) == 1  # nothing is shuffled
    monkeypatch.setattr(mixing_a_stream, "ORDERS", 200)
    assert f"{mixing_a_stream.classes_in_a_batch(1000, 100):.1f}" == f"{told:.1f}" == "4.3"


@pytest.mark.parametrize(("buffer_size", "tenths"), [(1, 1.0), (150, None), (2000, 9.9)])
def test_a_stream_of_the_reader_s_is_measured_by_the_tenths_of_its_source(buffer_size, tenths):
    stream = BufferedStream(range(0, 4000, 2), buffer_size)
    loader = DataLoader(stream, batch_size=50)
    figure = mixing_a_stream.tenths_in_a_batch(loader, key=int)
    off = 0.2  # 9.95 in the mean, of 40 batches
    if tenths is None:  # counted by hand, of another order: those of the source would be 5.8
        tenths, off = np.mean([len({*(batch // 400).tolist()}) for batch in loader]), 0.6
    title = figure.layout.title.text
    told = re.search(r"samples of ([\d.]+) of 10 tenths.* full shuffle 9\.9", title)
    assert float(told[1]) == pytest.approx(tenths, abs=off)
    source, came = (drawn.z[0] for drawn in figure.data)
    assert list(source) == sorted(came)


def test_an_epoch_of_two_processes_has_a_lane_for_each():
    figure = stop_and_resume.seen_by([[0, 1], [2, 3]], [[0, 1]], n_samples=6)
    (delivered,) = (drawn for drawn in figure.data if drawn.name == "delivered")
    assert [*delivered.y] == [0, 0, 0, 0, 1, 1]
    assert delivered.hovertext[4] == "sample 0<br>batch 2, after it"
    assert [*figure.layout.yaxis.ticktext] == ["before the stop", "after it"]
    title = figure.layout.title
    assert "2 of 6 samples came more than once; 2 of 6 samples never arrived" in title.text
    assert title.subtitle.text.startswith("in this epoch 2 batches before the stop, 1 after it")


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
    assert table["once"]["a second for loop"] == "no: used up"


class Twice(DoubledRows):
    def __init__(self):
        super().__init__()
        self.buffer = np.zeros(4, np.float32)

    def __getitem__(self, index):
        return self.give(index)

    def right(self, index):
        return 2 * self.rows[index]

    def in_place(self, index):
        return super().__getitem__(index)

    def in_one_buffer(self, index):
        return np.multiply(self.rows[index], 2, out=self.buffer)


@pytest.mark.parametrize(
    ("give", "said"),
    [
        (Twice.right, "Each sample is twice its row, in both epochs."),
        (Twice.in_place, "In epoch 1 the samples are not twice their rows."),
        (Twice.in_one_buffer, "In epoch 0 the samples are not twice their rows."),
    ],
)
def test_samples_are_whole_in_both_epochs(give, said):
    answer = same_contents.whole(type("Answer", (Twice,), {"give": give}))
    assert answer.passed is (give is Twice.right)
    assert said in str(answer)
