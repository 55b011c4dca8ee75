"""Which samples the keys of a dataset stand for: positions looked through, nothing of it run."""

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset

from loaderviz.loaders.describe_loader import describe
from loaderviz.loaders.underlying_samples import underlying_samples
from loaderviz.sample_keys import BITS_OF_KEY, MOST_PACKED, pack, unpack
from loaderviz.trace.check_trace import InvalidTraceError, check_meta
from loaderviz.trace.underlying_keys import KnownDatasets


class Held(Dataset):
    """A dataset with these attributes, whose samples nobody may read."""

    def __init__(self, **held):
        vars(self).update(held)

    def __len__(self):
        return 10

    def __getitem__(self, index):
        raise AssertionError("it was read")


class Doubled(Subset):
    """Which sample a position stands for, only its code knows."""

    def __getitem__(self, index):
        return self.dataset[2 * self.indices[index]]

    __getitems__ = None


def looked_through(dataset):
    """For each position the number of the innermost dataset, and the key there."""
    packed = unpack(underlying_samples(dataset)["keys"]).tolist()
    return [(key >> BITS_OF_KEY, key % (1 << BITS_OF_KEY)) for key in packed]


FIRST, SECOND = Held(name="first"), Held(name="second")


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor])
def test_positions_of_a_subset_are_keys_of_its_dataset(kind):
    assert looked_through(Subset(FIRST, kind([7, 2, 2]))) == [(0, 7), (0, 2), (0, 2)]


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (Subset(FIRST, range(3, 9, 4)), [(0, 3), (0, 7)]),
        (Subset(Subset(FIRST, [5, 6, 7]), [2, -3]), [(0, 7), (0, 5)]),
        (Subset(ConcatDataset([FIRST, SECOND]), [9, 10, -1]), [(0, 9), (1, 0), (1, 9)]),
        (ConcatDataset([Subset(SECOND, [1]), Subset(FIRST, [2])]), [(0, 1), (1, 2)]),
        (ConcatDataset([Subset(FIRST, [1]), Subset(FIRST, [2])]), [(0, 1), (0, 2)]),
    ],
)
def test_nested_ones_are_looked_through_to_the_innermost(dataset, expected):
    assert looked_through(dataset) == expected


@pytest.mark.parametrize(
    "dataset",
    [
        FIRST,
        Subset(FIRST, ["a", "b"]),
        Subset(FIRST, [-1]),
        Subset(FIRST, []),
        Subset(FIRST, [2**40]),
        Doubled(FIRST, [1, 2]),
        Subset(FIRST, range(MOST_PACKED + 1)),
    ],
)
def test_what_only_code_could_tell_is_left_as_it_is(dataset):
    found = underlying_samples(dataset)
    assert "keys" not in found
    assert [each["class"] for each in found["datasets"]] == [type(dataset).__name__]


def same(one, other):
    known = KnownDatasets()
    numbers = [
        known.number(each) for d in (one, other) for each in underlying_samples(d)["datasets"]
    ]
    return numbers == [0, 0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"files": ["a", "b"]}, {"files": ["a", "c"]}),
        ({"files": ["a", "b"]}, {"files": ["a", "b", "b"]}),
        ({"rows": torch.zeros(4, 2)}, {"rows": torch.ones(4, 2)}),
        ({"rows": np.zeros(4)}, {"rows": np.zeros(4, np.float32)}),
        ({"part": 0}, {"part": 1}),
        ({"inner": Held(root="a")}, {"inner": Held(root="b")}),
        ({"inner": Subset(FIRST, [1, 2])}, {"inner": Subset(FIRST, [1, 3])}),
    ],
)
def test_datasets_with_other_data_are_told_apart(one, other):
    assert same(Held(**one), Held(**one))
    assert not same(Held(**one), Held(**other))


def test_what_is_no_data_does_not_tell_datasets_apart():
    opened = {"cache": {1: 2}, "epoch": 3, "transform": abs, "handle": object(), "seen": []}
    assert same(Held(root="a"), Held(root="a", **opened))
    assert not same(Held(root="a"), TensorDataset(torch.ones(2)))


def test_a_mode_of_the_users_sees_nothing():
    seen = []

    class Functions(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(function)
            return function(*args, **(kwargs or {}))

    class Operations(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(function)
            return function(*args, **(kwargs or {}))

    dataset = Subset(TensorDataset(torch.ones(9, 2)), torch.tensor([1, 2]))
    with Functions(), Operations():
        underlying_samples(dataset)
    assert seen == []


def test_a_description_is_one_that_a_trace_may_have():
    described = describe(DataLoader(Subset(FIRST, [3, 1])))
    check_meta({"underlying": {"a name": described["underlying"]}})


@pytest.mark.parametrize(
    "change",
    [
        {"datasets": []},
        {"datasets": [{"class": "Held"}]},
        {"keys": "nonsense"},
        {"keys": pack(np.array([1 << BITS_OF_KEY]))},
        {"keys": pack(np.zeros(MOST_PACKED + 1, np.int64))},
        {"keys": None, "datasets": [{"class": "a", "hold": {}}] * 2},
    ],
)
def test_another_is_refused_and_named(change):
    described = {**underlying_samples(Subset(FIRST, [3, 1])), **change}
    with pytest.raises(InvalidTraceError, match="underlying"):
        check_meta({"underlying": {"a name": described}})


@pytest.mark.parametrize("numbers", [[], [0], [5, 1, 5], [*range(MOST_PACKED)]])
def test_packed_numbers_come_back(numbers):
    assert unpack(pack(np.array(numbers, np.int64))).tolist() == numbers
