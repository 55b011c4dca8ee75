"""The ideal loader: the same batches for as long as the loader is, and nothing left behind."""

import multiprocessing

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import loaderviz
from loaderviz import LoaderVizError, ideal
from streams import Items


def loader(n=10, **options):
    return DataLoader(TensorDataset(torch.arange(n)), batch_size=2, **options)


def keys(batches):
    return [batch[0].tolist() for batch in batches]


def test_it_hands_out_the_first_batches_again_for_as_long_as_the_loader_is():
    fast = ideal(loader(10), batches=2)
    assert len(fast) == 5
    for _ in range(2):
        assert keys(fast) == [[0, 1], [2, 3], [0, 1], [2, 3], [0, 1]]
    assert keys(ideal(loader(10), batches=99)) == keys(loader(10))
    assert len(list(ideal(loader(10), length=7))) == 7
    assert len(fast.dataset) == 10


def test_a_loader_without_a_length_gives_as_many_as_were_read():
    fast = ideal((loader := DataLoader(Items(range(12)), batch_size=2)), batches=3)
    assert len(list(fast)) == len(list(fast)) == 3
    with pytest.raises(TypeError, match="length"):
        len(fast)
    assert len(list(ideal(loader, 3, length=8))) == 8


@pytest.mark.parametrize("persistent", [False, True])
def test_the_loader_stays_as_it_was(persistent):
    own = loader(shuffle=True, num_workers=2, persistent_workers=persistent)
    before = torch.get_rng_state()
    ideal(own, batches=2)
    assert multiprocessing.active_children() == []
    assert torch.equal(torch.get_rng_state(), before)
    assert own._iterator is None


def test_recorded_it_says_so_and_is_not_waited_for():
    fast = ideal(loader(200), batches=3)
    with loaderviz.record(fast) as rec:
        for _ in range(2):
            assert sum(1 for _ in fast) == 100
    assert rec.trace.meta["loaders"][0]["dataset"] == "Ideal"
    assert rec.trace.batches["epoch"].value_counts().to_dict() == {0: 100, 1: 100}


def test_a_loader_of_another_kind_is_iterated_as_it_is():
    closed = []

    class Foreign:
        def __iter__(self):
            try:
                yield from range(100)
            finally:
                closed.append(True)

        def __len__(self):
            return 5

    assert list(ideal(Foreign(), batches=2)) == [0, 1, 0, 1, 0]
    assert closed


@pytest.mark.parametrize(
    ("given", "options", "says"),
    [
        (3, {}, "int 3"),
        (iter([1]), {}, "list_iterator"),
        (TensorDataset(torch.arange(3)), {}, "TensorDataset"),
        ([1, 2], {}, "list"),
        (DataLoader([]), {}, "empty"),
        (DataLoader([1]), {"batches": 0}, "batches=0"),
        (DataLoader([1]), {"length": 0}, "length=0"),
    ],
)
def test_what_it_cannot_hand_out_is_refused(given, options, says):
    with pytest.raises(LoaderVizError, match=says):
        ideal(given, **options)
