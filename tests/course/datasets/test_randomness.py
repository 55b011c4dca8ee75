"""What notebook 05 throws and shuffles, and the figures of it."""

import inspect
import pickle
import random

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from loaderviz import LoaderVizError, audit
from loaderviz.course.datasets import (
    BufferedStream,
    CopiedCrops,
    CopiedDice,
    Dice,
    DiceStream,
    EpochDice,
    LazyCrops,
    LazyDice,
    SeedTeller,
    ShuffledShards,
    dice,
)
from loaderviz.course.datasets.shuffling import shuffled
from loaderviz.course.figures.draws import draws
from loaderviz.course.figures.shuffle import full_move, mean_move, shuffle
from loaderviz.figures import style


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


def test_a_generator_of_the_dataset_is_copied_and_one_that_is_made_late_is_not():
    copied = throws(CopiedDice(8))
    first, second = copied(), copied()
    assert first[0::2] == first[1::2]
    assert first == second
    torch.manual_seed(0)
    late = throws(LazyDice(8))
    first, second = late(), late()
    assert first[0::2] != first[1::2]
    assert first != second


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
        (dice.drawn_with_torch, False, 4),
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


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_throws_that_follow_from_epoch_and_index_do_not_depend_on_workers(workers):
    dataset = EpochDice(6)
    dataset.set_epoch(3)
    expected = [int(np.random.default_rng((3, i)).integers(100)) for i in range(6)]
    got = [number for batch in throws(dataset, workers=workers)() for number in batch]
    assert got == expected


@pytest.mark.parametrize("shared", [False, True])
def test_the_epoch_reaches_persistent_workers_through_shared_memory_only(shared):
    dataset = EpochDice(4, shared=shared)
    epochs = throws(dataset, persistent_workers=True)
    seen = []
    for epoch in range(3):
        dataset.set_epoch(epoch)
        seen.append(str(epochs()))
    assert len(set(seen)) == (3 if shared else 1)


def test_seeds_count_up_from_the_base_seed():
    first, second = throws(SeedTeller(4))()
    assert second[0] - first[0] == 1
    assert first[0] == first[1]


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


@pytest.mark.parametrize(
    "dataset",
    [Dice(2), CopiedDice(2), LazyDice(2), EpochDice(2), SeedTeller(2), BufferedStream([1], 1)],
    ids=lambda dataset: type(dataset).__name__,
)
def test_every_dataset_can_be_sent_to_spawned_workers(dataset):
    assert len(pickle.loads(pickle.dumps(dataset))) == len(dataset)
    assert inspect.getdoc(type(dataset))


# The figure of draws


def table(*sequences, by=("epoch", "worker")):
    """Four lanes: two epochs of two workers, or as ``by`` says."""
    places = [(first, second) for first in range(2) for second in range(2)]
    rows = [
        dict(zip(by, place, strict=True)) | {"number": number}
        for place, numbers in zip(places, sequences, strict=False)
        for number in numbers
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("sequences", "by", "verdict"),
    [
        (
            ["ab", "cd", "ef", "gh"],
            ("epoch", "worker"),
            "Different numbers in every worker and every",
        ),
        (["ab"] * 4, ("epoch", "worker"), "The same numbers in every worker and every epoch"),
        (["ab", "ab", "cd", "cd"], ("epoch", "worker"), "The same numbers in every worker"),
        (["ab", "cd", "ab", "cd"], ("epoch", "worker"), "The same numbers in every epoch"),
        (["ab", "cd", "ab", "cd"], ("rank", "worker"), "The same numbers in every rank"),
        (["ab", "cd", "ef", "ab"], ("epoch", "worker"), "1 of 4 lanes repeat"),
        (["ab"], ("epoch", "worker"), "One lane only"),
    ],
)
def test_the_verdict_tells_over_what_numbers_repeat(sequences, by, verdict):
    figure = draws(table(*sequences, by=by))
    assert figure.layout.title.text.startswith(f"<b>{verdict}")


def test_one_colour_is_one_sequence():
    figure = draws(table([1, 2], [1, 2], [3, 4], [1, 2]))
    (boxes,) = figure.data
    assert list(boxes.y) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert list(boxes.text) == ["1", "2", "1", "2", "3", "4", "1", "2"]
    first, again, other, last = (boxes.marker.color[2 * lane] for lane in range(4))
    assert first == again == last == style.colour(0)
    assert other == style.colour(1)
    assert list(figure.layout.yaxis.ticktext)[1] == "epoch 0 · worker 1"


def test_what_is_the_same_in_all_lanes_is_not_in_their_names():
    rows = table([1], [2]).assign(rank=0, epoch=0)
    assert list(draws(rows).layout.yaxis.ticktext) == ["worker 0", "worker 1"]
    alone = table([1]).assign(worker=-1)
    assert "main process" in draws(alone).layout.yaxis.ticktext[0]


@pytest.mark.parametrize(
    "wrong", [pd.DataFrame(), pd.DataFrame({"number": [1]}), table([1]).drop(columns="number")]
)
def test_a_table_without_numbers_or_lanes_is_refused(wrong):
    with pytest.raises(LoaderVizError, match="rank, epoch, worker"):
        draws(wrong)
    with pytest.raises(LoaderVizError, match="theme='blue'"):
        draws(table([1]), theme="blue")


# The figure of a shuffle


@given(st.permutations(range(30)))
def test_each_sample_is_a_dot_where_it_went_in_and_came_out(order):
    dots = next(each for each in shuffle(order).data if each.name == "sample")
    assert list(dots.x) == list(range(30))
    assert list(dots.y) == list(order)


def test_the_title_says_how_far_samples_move():
    assert "Nothing is shuffled" in shuffle(range(5)).layout.title.text
    figure = shuffle([1, 0, 2, 3])
    assert "0.5 places on average: 40 % of a full shuffle" in figure.layout.title.text
    assert "1 places earlier and 1 later" in figure.layout.title.subtitle.text


def test_a_full_shuffle_moves_as_far_as_is_expected():
    rng = np.random.default_rng(0)
    moved = np.mean([mean_move(rng.permutation(200)) for _ in range(100)])
    assert abs(moved / full_move(200) - 1) < 0.03


@pytest.mark.parametrize("order", [[], [0, 0], [1, 2], [[0, 1]], ["a"]])
def test_an_order_that_is_no_permutation_is_refused(order):
    with pytest.raises(LoaderVizError, match="once"):
        shuffle(order)
