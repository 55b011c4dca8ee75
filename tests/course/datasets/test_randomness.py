"""What notebook 05 throws and shuffles."""

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from loaderviz import audit
from loaderviz.course.datasets import (
    BufferedStream,
    CopiedCrops,
    CopiedDice,
    Dice,
    DiceStream,
    EpochDice,
    LazyCrops,
    SeedTeller,
    ShuffledShards,
    dice,
)
from loaderviz.course.datasets.shuffling import shuffled


def throws(dataset, *, workers=2, **options):
    """Two throws of each worker in turn."""
    loader = DataLoader(dataset, batch_size=2, num_workers=workers, **options)
    return lambda: [batch.tolist() for batch in loader]


@pytest.mark.parametrize("source", ["torch", "numpy", "random"])
def test_global_generators_differ_by_worker_and_epoch_and_repeat_with_the_seed(source):
    torch.manual_seed(0)
    epoch = throws(Dice(4, source))
    first, second = epoch(), epoch()
    assert first[0] != first[1]
    assert first != second
    torch.manual_seed(0)
    assert throws(Dice(4, source))() == first


def test_a_generator_of_the_dataset_is_copied():
    copied = throws(CopiedDice(8))
    first, second = copied(), copied()
    assert first[0::2] == first[1::2]
    assert first == second


@pytest.mark.parametrize(("dataset", "same"), [(CopiedCrops, True), (LazyCrops, False)])
def test_copies_of_a_generator_cut_the_same_crops(dataset, same):
    torch.manual_seed(0)
    first, second = DataLoader(dataset(2, side=64), num_workers=2)
    assert first.shape == (1, 3, 64, 64)
    assert torch.equal(first, second) is same


@pytest.mark.parametrize(
    ("seed", "persistent", "sequences"),
    [
        (dice.number_of_worker, False, 2),
        (dice.seed_of_torch, False, 4),
        (dice.seed_of_torch, True, 2),  # a worker that stays keeps its seed
        (dice.drawn_with_torch, True, 4),
    ],
)
def test_a_generator_made_in_each_iteration_throws_by_its_seed(seed, persistent, sequences):
    torch.manual_seed(0)
    throw = throws(DiceStream(8, seed), persistent_workers=persistent)
    epochs = [throw() for _ in range(2)]
    assert len({str(epoch[worker::2]) for epoch in epochs for worker in range(2)}) == sequences


def test_a_constant_seed_differs_by_worker_and_repeats_each_epoch():
    constant = throws(Dice(8, "numpy"), worker_init_fn=dice.seed_by_number)
    first, second = constant(), constant()
    assert first[0] != first[1]
    assert first == second
    torch.manual_seed(0)
    by_torch = throws(Dice(8, "numpy"), worker_init_fn=dice.seed_by_torch)
    assert by_torch() != by_torch()


@pytest.mark.parametrize("workers", [0, 2])
def test_throws_that_follow_from_epoch_and_index_do_not_depend_on_workers(workers):
    dataset = EpochDice(6)
    dataset.epoch.fill_(3)
    expected = [int(np.random.default_rng((7, 3, i)).integers(100)) for i in range(6)]
    got = [number for batch in throws(dataset, workers=workers)() for number in batch]
    assert got == expected


def test_the_epoch_reaches_persistent_workers_through_shared_memory_only():
    shared, plain = EpochDice(4), EpochDice(4)
    plain.epoch = 0
    seen = []
    for dataset in (shared, plain):
        epochs = throws(dataset, persistent_workers=True)
        for epoch in range(3):
            dataset.epoch = dataset.epoch.fill_(epoch) if dataset is shared else epoch
            seen.append(str(epochs()))
    assert [len(set(seen[:3])), len(set(seen[3:]))] == [3, 1]


def test_seeds_count_up_from_the_base_seed():
    first, second = throws(SeedTeller(4))()
    assert second[0] - first[0] == 1
    assert first[0] == first[1]


@settings(max_examples=40)
@given(n=st.integers(0, 80), size=st.integers(1, 100), seed=st.integers(0, 9))
def test_a_buffer_lets_out_each_once_and_none_too_early(n, size, seed):
    order = list(shuffled(range(n), size, random.Random(seed)))
    assert sorted(order) == list(range(n))
    assert all(came - place < size for place, came in enumerate(order))
    if size == 1:
        assert order == list(range(n))


def test_shuffled_streams_deliver_each_sample_once_if_the_workers_agree():
    assert audit(DataLoader(BufferedStream(range(40), 8), 4, num_workers=2)).exactly_once
    shards = [range(at, at + 4) for at in range(0, 40, 4)]
    torch.manual_seed(0)
    apart = audit(DataLoader(ShuffledShards(shards, agreed=False), 4, num_workers=2))
    assert len(apart.duplicates) == len(apart.missing) > 0
    dataset = ShuffledShards(shards, agreed=True)
    loader = DataLoader(dataset, 4, num_workers=2, persistent_workers=True)
    orders = []
    for epoch in range(3):
        dataset.set_epoch(epoch)
        orders.append([number for batch in loader for number in batch.tolist()])
        assert sorted(orders[-1]) == list(range(40))
    assert len({str(order) for order in orders}) == 3
