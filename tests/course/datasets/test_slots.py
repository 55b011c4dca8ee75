"""Batches along sequences: what each slot holds, alone and split among workers."""

import pickle
from itertools import chain, islice

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from loaderviz import LoaderVizError, plot_timings
from loaderviz.course.datasets import MultiStreamDataLoader, SlotStreams
from loaderviz.course.figures.slots import Slots

SEQUENCES = [range(10, 16), range(20, 23), range(30, 37), range(40, 44), range(50, 55)]


def take(batches, n):
    return [batch.tolist() for batch in islice(batches, n)]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("same", [[10, 10], [11, 11], [12, 12]]),
        ("dealt", [[10, 20], [11, 21], [12, 22], [13, 40], [14, 41]]),
    ],
)
def test_each_slot_goes_along_its_sequences(order, expected):
    assert take(SlotStreams(SEQUENCES, 2, order=order), len(expected)) == expected


@settings(max_examples=30)
@given(
    order=st.sampled_from(["same", "shuffled", "dealt"]),
    slots=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_no_slot_ever_breaks_a_sequence_and_each_round_has_all(order, slots, seed):
    dataset = SlotStreams(SEQUENCES, slots, order=order, seed=seed)
    batches = take(dataset, 50)
    assert Slots.of(batches, SEQUENCES).breaks == 0
    assert take(dataset, 50) == batches  # the same again
    if order == "shuffled":
        for stream in zip(*batches, strict=True):
            assert (
                sorted(stream[:25]) == sorted(stream[25:]) == sorted(chain.from_iterable(SEQUENCES))
            )


def test_shuffled_rounds_and_slots_differ_and_dealt_slots_share_nothing():
    shuffled = take(SlotStreams(SEQUENCES, 2), 50)
    first, second = zip(*shuffled, strict=True)
    assert len({first[:25], first[25:], second[:25], second[25:]}) > 1
    assert Slots.of(take(SlotStreams(SEQUENCES, 5, order="dealt"), 60), SEQUENCES).repeats == 0


def test_without_a_seed_of_its_own_the_order_is_torchs():
    dataset = SlotStreams(SEQUENCES, 4, seed=None)
    with torch.random.fork_rng(devices=[]):
        orders = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            orders.append(take(dataset, 20))
    assert orders[0] == orders[1] != orders[2]


@settings(max_examples=30)
@given(slots=st.integers(1, 5), workers=st.integers(1, 6))
def test_the_parts_of_a_split_are_the_whole(slots, workers):
    whole = SlotStreams(SEQUENCES, slots)
    if slots % workers:
        with pytest.raises(LoaderVizError, match=f"{slots} slots cannot be shared .* {workers}"):
            whole.split(workers)
        return
    parts = [take(part, 20) for part in whole.split(workers)]
    assert [list(chain.from_iterable(row)) for row in zip(*parts, strict=True)] == take(whole, 20)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"sequences": []}, "at least one sequence"),
        ({"sequences": [[1], []]}, "none that is empty"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"order": "random"}, "order='random'"),
        ({"batch_size": 6, "order": "dealt"}, "5 sequences cannot be dealt to 6 slots"),
        ({"sample_s": -1}, "sample_s=-1"),
    ],
)
def test_what_cannot_be_is_named(arguments, complaint):
    with pytest.raises(LoaderVizError, match=complaint):
        SlotStreams(**{"sequences": SEQUENCES, "batch_size": 4, **arguments})


def test_a_pickled_part_is_the_same_part():
    part = SlotStreams(SEQUENCES, 4).split(2)[1]
    assert take(pickle.loads(pickle.dumps(part)), 9) == take(part, 9)
    assert repr(part) == "SlotStreams(5 sequences, slots 2 to 3 of 4, order='shuffled')"


# Through loaders


def test_several_workers_make_the_batches_of_one_process():
    dataset = SlotStreams(SEQUENCES, 4)
    one_process = take(DataLoader(dataset, batch_size=None), 12)
    together = take(MultiStreamDataLoader(dataset.split(2)), 12)
    assert together == one_process == take(dataset, 12)


def test_workers_of_a_plain_loader_break_the_sequences():
    loader = DataLoader(SlotStreams(SEQUENCES, 4), batch_size=None, num_workers=2)
    slots = Slots.of(islice(loader, 12), SEQUENCES)
    assert slots.breaks > 20  # each batch comes twice: no slot goes on but after it
    assert slots.verdict == f"{slots.breaks} of 44 times a slot does not go on where it was"


def test_each_dataset_has_one_worker_on_the_timeline():
    figure = plot_timings(MultiStreamDataLoader(SlotStreams(SEQUENCES, 4).split(2)), n_batches=3)
    assert list(figure.layout.yaxis.ticktext) == [
        "consumer",
        "loader 0 · worker 0",
        "loader 1 · worker 0",
    ]


def test_without_a_dataset_there_is_no_loader():
    with pytest.raises(LoaderVizError, match="at least one dataset"):
        MultiStreamDataLoader([])
