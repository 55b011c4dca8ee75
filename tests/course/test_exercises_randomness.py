"""The exercises of notebook 05: unsolved, solved, and with answers that only look right."""

import itertools
import math
import random

import numpy as np
import pytest

from loaderviz.course import randomness

COUNTER = itertools.count()


@pytest.mark.parametrize(
    ("seed", "passed", "says"),
    [
        (lambda base, rank, worker, epoch: base + worker, False, "epoch 0 and for rank 0"),
        (
            lambda base, rank, worker, epoch: base + worker + 100 * rank + 10_000 * epoch,
            True,
            "1,2",
        ),
        (
            lambda *place: int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0]),
            True,
            "1,280 different seeds",
        ),
        (lambda base, rank, worker, epoch: base + rank + worker + epoch, False, "The same seed 8"),
        (lambda base, rank, worker, epoch: base + worker + 10 * rank + 100 * epoch, False, "17"),
        (lambda base, rank, worker, epoch: worker + 100 * rank + 10_000 * epoch, False, "base"),
        (lambda *place: next(COUNTER), False, "cannot be repeated"),
        (lambda *place: 1 // 0, False, "seed raised ZeroDivisionError"),
        (lambda *place: "seven", False, "seed(7, 0, 0, 0) returns 'seven': a seed is a whole"),
        (lambda *place: None, False, "returns None: a seed is a whole number"),
        (lambda *place: hash(place), False, "NumPy takes no seed below 0"),
        (lambda *place: hash(place) % 2**64, True, "1,280 different seeds"),
    ],
)
def test_apart(seed, passed, says):
    check = randomness.apart(seed)
    assert says in check.message
    assert check.passed is passed


def test_the_picture_of_seeds_that_repeat_says_so():
    figure = randomness.apart(lambda base, rank, worker, epoch: base + worker).figure
    assert "The same numbers in every epoch and every rank" in figure.layout.title.text


@pytest.mark.parametrize(
    ("answer", "passed", "says"),
    [
        (100, False, "Not yet: a batch has samples of 4.3 of 10"),  # unsolved
        (500, False, "Not yet: a batch has samples of 8.9"),  # nearly
        (600, True, "600: a batch has samples of 9.3 of 10"),
        (1000, False, "a smaller one would do"),
        (0, False, "give 100, 200"),
        (550, False, "give 100, 200"),
        ("600", False, "give 100, 200"),
    ],
)
def test_enough(answer, passed, says):
    check = randomness.enough(answer)
    assert says in check.message
    assert check.passed is passed


@pytest.mark.parametrize("n", [1000, 400])
def test_a_buffer_of_all_samples_mixes_classes_as_drawing_a_batch_at_random_does(n):
    absent = math.comb(n - n // 10, 50) / math.comb(n, 50)  # a class, from a batch of 50
    assert randomness.classes_in_a_batch(n, n) == pytest.approx(10 * (1 - absent), abs=0.02)
    assert randomness.classes_in_a_batch(n, 1) == {1000: 1, 400: 2}[n]  # nothing is shuffled


def test_the_average_that_is_told_would_be_told_of_other_orders_too(monkeypatch):
    told = randomness.classes_in_a_batch(1000, 100)
    monkeypatch.setattr(randomness, "ORDERS", 400)
    assert f"{randomness.classes_in_a_batch(1000, 100):.1f}" == f"{told:.1f}" == "4.3"


def with_seed(seed):
    """Shuffle all shards with the seed that ``seed(epoch, worker)`` gives, then share them out."""

    def order(n_shards, epoch, worker, workers):
        shards = list(range(n_shards))
        random.Random(seed(epoch, worker)).shuffle(shards)
        return shards[worker::workers]

    return order


def own_share(n_shards, epoch, worker, workers):
    shards = list(range(n_shards))[worker::workers]
    random.Random(epoch).shuffle(shards)
    return shards


@pytest.mark.parametrize(
    ("order", "passed", "says"),
    [
        (with_seed(lambda epoch, worker: worker), False, "came more than once"),  # unsolved
        (with_seed(lambda epoch, worker: epoch), True, "Every shard once"),
        (with_seed(lambda epoch, worker: epoch + worker), False, "never arrived"),
        (with_seed(lambda epoch, worker: 0), False, "the same order in every epoch"),
        (own_share, True, "Every shard once"),
        (lambda *place: None, False, "order raised TypeError"),
    ],
)
def test_agreed(order, passed, says):
    check = randomness.agreed(order)
    assert says in check.message
    assert check.passed is passed
