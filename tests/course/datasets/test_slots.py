"""Batches along sequences: what each slot holds, alone, split among workers, and drawn."""

import pickle
from itertools import chain, islice

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, IterableDataset

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
    assert slots.verdict == f"{slots.breaks} of 44 times a slot jumps instead of going on"


def test_each_dataset_has_one_worker_on_the_timeline():
    figure = plot_timings(MultiStreamDataLoader(SlotStreams(SEQUENCES, 4).split(2)), n_batches=3)
    assert list(figure.layout.yaxis.ticktext) == [
        "consumer",
        "loader 0 · worker 0",
        "loader 1 · worker 0",
    ]


class Parts(IterableDataset):
    def __init__(self, *parts):
        self.parts = parts

    def __iter__(self):
        return iter(self.parts)


def joined(*datasets):
    (batch,) = MultiStreamDataLoader(datasets)
    return batch


def test_tuples_and_dicts_of_parts_are_joined_and_the_first_end_ends_all():
    one, two = torch.tensor([1]), torch.tensor([2, 3])
    x, y = joined(Parts((one, two)), Parts((two, one), (one, one)))
    assert (x.tolist(), y.tolist()) == ([1, 2, 3], [2, 3, 1])
    assert joined(Parts({"x": one}), Parts({"x": two}))["x"].tolist() == [1, 2, 3]


def test_what_cannot_be_joined_is_named():
    with pytest.raises(LoaderVizError, match="str 'a'"):
        joined(Parts("a"))


@pytest.mark.parametrize(
    ("datasets", "options", "complaint"),
    [
        ([], {}, "at least one dataset"),
        ([Parts(1)], {"num_workers": 4}, "num_workers=4"),
        ([Parts(1)], {"batch_size": 4}, "batch_size=4"),
    ],
)
def test_a_loader_that_cannot_be_is_refused(datasets, options, complaint):
    with pytest.raises(LoaderVizError, match=complaint):
        MultiStreamDataLoader(datasets, **options)


# Drawn


def test_the_figure_has_a_box_for_each_sample_and_a_mark_for_each_break():
    slots = Slots.of([[10, 20], [11, 40], [12, 41], [12, 12]], SEQUENCES)
    assert (slots.breaks, slots.repeats) == (4 - 1, 1)
    figure = slots.figure()
    boxes, frames, breaks = figure.data
    assert list(boxes.text) == ["10", "20", "11", "40", "12", "41", "12", "12"]
    assert len(set(boxes.marker.color)) == 3
    assert len(breaks.y) == slots.breaks
    assert list(frames.y) == [0, 1]  # the last batch, both its slots
    assert slots.verdict in figure.layout.title.text
    assert list(figure.layout.yaxis.ticktext) == ["slot 0", "slot 1"]


def test_fourteen_sequences_have_colours_of_their_own_whatever_their_numbers():
    sequences = [range(10 * k, 10 * k + 5) for k in range(40)]
    for first in (0, 20):
        batches = [[10 * k] for k in range(first, first + 14)]
        assert len(set(Slots.of(batches, sequences).figure().data[0].marker.color)) == 14


def test_a_sequence_may_follow_another_only_from_its_end_to_a_start():
    assert Slots.of([[22], [40]], SEQUENCES).breaks == 0
    assert Slots.of([[21], [40]], SEQUENCES).breaks == 1
    assert Slots.of([[22], [41]], SEQUENCES).breaks == 1


@pytest.mark.parametrize(("batches", "complaint"), [([], "no batch"), ([[10], [99]], "sample 99")])
def test_batches_that_cannot_be_drawn_are_named(batches, complaint):
    with pytest.raises(LoaderVizError, match=complaint):
        Slots.of(batches, SEQUENCES)


def test_an_unknown_theme_is_refused():
    with pytest.raises(LoaderVizError, match="theme='blue' is not one of light, dark"):
        Slots.of([[22], [40]], SEQUENCES).figure(theme="blue")
