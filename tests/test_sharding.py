"""``shard`` and ``shard_init``: every sample once, for any number of workers and ranks."""

import itertools
import pickle
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, IterableDataset

from loaderviz import LoaderVizError, shard, shard_init, sharding
from streams import Items, Listed


@pytest.fixture
def place(monkeypatch):
    """Puts this process into a worker of a rank."""

    def put(worker=0, workers=1, rank=0, ranks=1, dataset=None):
        info = SimpleNamespace(id=worker, num_workers=workers, dataset=dataset)
        monkeypatch.setattr(sharding, "get_worker_info", lambda: info)
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(ranks))
        return info

    return put


def shares(items, workers, ranks, *, contiguous):
    """The share of each worker of each rank, of what ``items`` makes."""
    found = []
    for rank in range(ranks):
        for worker in range(workers):
            with pytest.MonkeyPatch.context() as patch:
                info = SimpleNamespace(id=worker, num_workers=workers)
                patch.setattr(sharding, "get_worker_info", lambda info=info: info)
                patch.setenv("RANK", str(rank))
                patch.setenv("WORLD_SIZE", str(ranks))
                found.append((rank, list(shard(items(), contiguous=contiguous))))
    return found


sizes = {"n": st.integers(0, 40), "workers": st.integers(1, 6), "ranks": st.integers(1, 4)}


@settings(max_examples=40)
@given(**sizes, contiguous=st.booleans())
def test_all_shares_together_are_the_whole_once(n, workers, ranks, contiguous):
    of_places = shares(lambda: range(n), workers, ranks, contiguous=contiguous)
    found = [share for _, share in of_places]
    assert sorted(itertools.chain(*found)) == list(range(n))
    assert max(map(len, found)) - min(map(len, found)) <= 1 + (ranks > 1)
    of_rank = [sum(len(share) for at, share in of_places if at == rank) for rank in range(ranks)]
    assert max(of_rank) - min(of_rank) <= 1
    if contiguous:
        assert list(itertools.chain(*found)) == list(range(n))
    else:
        assert shares(lambda: iter(range(n)), workers, ranks, contiguous=False) == of_places


@pytest.mark.parametrize("contiguous", [False, True])
@pytest.mark.parametrize(
    "items",
    [
        list("abcdefg"),
        tuple("abcdefg"),
        range(7),
        np.arange(14).reshape(7, 2),
        torch.arange(7),
        pd.DataFrame({"a": range(7)}, index=list("gfedcba")),
        pd.Series(range(7), index=[3] * 7),
    ],
    ids=lambda items: type(items).__name__,
)
def test_a_share_is_of_the_kind_that_was_cut(items, contiguous, place):
    place(worker=1, workers=3)
    share = shard(items, contiguous=contiguous)
    assert type(share) is type(items)
    assert len(share) == 2
    first = 3 if contiguous else 1
    expected = (items.iloc if hasattr(items, "iloc") else items)[first]
    found = (share.iloc if hasattr(share, "iloc") else share)[0]
    assert np.array_equal(found, expected)


def test_one_process_has_it_all():
    assert shard([1, 2, 3]) == [1, 2, 3]


@pytest.mark.parametrize(
    ("items", "why"),
    [
        ("data/train.txt", "put it in a list"),
        (b"abc", "put them in a list"),
        ({3, 1}, "sorted"),
        ({"a": 1}, "its keys"),
        (7, "cannot be iterated"),
        (torch.tensor(3), "cannot be iterated"),
        ((i for i in range(3)), "has no length"),
    ],
)
def test_what_cannot_be_cut_is_refused_by_name(items, why):
    with pytest.raises(LoaderVizError, match=why) as caught:
        shard(items, contiguous=True)
    assert type(items).__name__ in str(caught.value)


@pytest.mark.parametrize(
    ("given_", "why"),
    [
        ({"RANK": "1"}, "RANK and WORLD_SIZE"),
        ({"WORLD_SIZE": "2"}, "RANK and WORLD_SIZE"),
        ({"RANK": "a", "WORLD_SIZE": "2"}, "RANK and WORLD_SIZE"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK=2, WORLD_SIZE=2"),
    ],
)
def test_half_a_rank_or_one_beyond_the_last_is_refused(monkeypatch, given_, why):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given_.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(LoaderVizError, match=why):
        shard([1])


def test_the_process_group_comes_before_the_environment(place, tmp_path):
    place(rank=3, ranks=5)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1
    )
    try:
        assert sharding.ranks() == (0, 1)
    finally:
        torch.distributed.destroy_process_group()


# In real workers


def delivered(loader):
    return sorted(int(sample) for batch in loader for sample in batch)


@pytest.mark.parametrize("persistent", [False, True])
def test_every_epoch_has_every_sample_once(persistent):
    loader = DataLoader(
        Items(np.arange(11)),
        batch_size=3,
        num_workers=3,
        persistent_workers=persistent,
        worker_init_fn=shard_init("items", contiguous=True),
    )
    for _ in range(2):
        assert delivered(loader) == list(range(11))
    del loader


@settings(max_examples=30)
@given(times=st.integers(1, 4), workers=st.integers(1, 4), n=st.integers(0, 20))
def test_it_is_always_cut_from_the_untouched_original(times, workers, n):
    found = []
    for worker in range(workers):
        dataset = Items(list(range(n)))
        info = SimpleNamespace(id=worker, num_workers=workers, dataset=dataset)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sharding, "get_worker_info", lambda info=info: info)
            for _ in range(times):
                shard_init("items")(worker)
        found += dataset.items
    assert sorted(found) == list(range(n))


def test_what_the_dataset_sets_anew_is_cut_anew(place):
    dataset = Items([1, 2, 3, 4])
    place(worker=1, workers=2, dataset=dataset)
    shard_init("items")(1)
    dataset.items = [5, 6, 7, 8]
    shard_init("items")(1)
    assert dataset.items == [6, 8]


def test_pickled_it_keeps_the_rank_of_the_process_that_starts_the_workers(place):
    dataset = Items(list(range(4)))
    place(rank=1, ranks=2, dataset=dataset)
    sent = pickle.loads(pickle.dumps(shard_init("items")))
    place(rank=0, ranks=2, dataset=dataset)
    sent(0)
    assert dataset.items == [1, 3]


@pytest.mark.parametrize(
    ("dataset", "attribute", "why"),
    [
        (Items([1]), "paths", "no attribute 'paths'; it has items"),
        (Items(7), "items", "cannot be iterated"),
        (Items({1, 2}), "items", "sorted"),
        (Items("a text"), "items", "put it in a list"),
        (Items(iter([1])), "items", "make it a list"),
        (Listed([1], 1), "items", "map-style"),
    ],
)
def test_an_attribute_that_cannot_be_shared_is_refused_by_name(dataset, attribute, why, place):
    place(dataset=dataset)
    with pytest.raises(LoaderVizError, match=why):
        shard_init(attribute)(0)


def test_it_is_for_workers_only():
    with pytest.raises(LoaderVizError, match="pass it as worker_init_fn"):
        shard_init("items")(0)


@pytest.mark.parametrize("attribute", ["", "no name", 3, None])
def test_an_attribute_has_a_name(attribute):
    with pytest.raises(LoaderVizError, match="give the name"):
        shard_init(attribute)


def test_the_dataset_of_the_main_process_stays_whole():
    dataset: IterableDataset[int] = Items(list(range(5)))
    list(DataLoader(dataset, num_workers=2, worker_init_fn=shard_init("items")))
    assert dataset.items == list(range(5))
    assert vars(dataset).keys() == {"items"}
