"""The streams that notebooks 04 and 17 share out among workers, and the ways to split them."""

import itertools
import pickle
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from loaderviz import LoaderVizError, audit, shard_init
from loaderviz._audit import simulate_audit
from loaderviz.course.datasets import (
    CuttingStream,
    EndlessStream,
    SavedStream,
    ShardedStream,
    SplitStream,
    Stream,
    splits,
)

WHOLE = [splits.by_ceil, splits.by_stride, partial(splits.by_batch, batch_size=4)]
NAMES = ["by_ceil", "by_stride", "by_batch"]
SIZES = {"n": st.integers(0, 60), "workers": st.integers(1, 9)}


def shares(split, data, workers):
    return [list(split(data, worker, workers)) for worker in range(workers)]


def batches(dataset, *, workers=2, batch_size=4, **options):
    loader = DataLoader(dataset, batch_size=batch_size, num_workers=workers, **options)
    return [batch.tolist() for batch in loader]


@pytest.mark.parametrize("split", WHOLE, ids=NAMES)
@settings(max_examples=40)
@given(**SIZES)
def test_each_sample_is_in_one_share(split, n, workers):
    assert sorted(itertools.chain(*shares(split, range(n), workers))) == list(range(n))


@settings(max_examples=40)
@given(**SIZES)
def test_floor_division_leaves_out_the_remainder_and_nothing_else(n, workers):
    got = list(itertools.chain(*shares(splits.by_floor, range(n), workers)))
    assert got == list(range(n - n % workers))


@settings(max_examples=40)
@given(**SIZES, batch_size=st.integers(1, 9))
def test_by_batch_leaves_one_partial_batch_at_most(n, workers, batch_size):
    parts = shares(partial(splits.by_batch, batch_size=batch_size), range(n), workers)
    assert sum(len(part) % batch_size for part in parts) == n % batch_size


def test_shards_stay_whole():
    parts = shares(splits.by_shard, [range(0, 3), range(3, 5), range(5, 9)], 2)
    assert parts == [[0, 1, 2, 5, 6, 7, 8], [3, 4]]


def test_a_stream_is_whole_in_every_worker_and_split_where_it_says_so():
    assert batches(Stream(range(8))) == 2 * [[0, 1, 2, 3]] + 2 * [[4, 5, 6, 7]]
    assert batches(SplitStream(range(8), splits.by_ceil)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert batches(ShardedStream(range(8))) == [[0, 2, 4, 6], [1, 3, 5, 7]]


@pytest.mark.parametrize(
    "dataset",
    [
        Stream(range(8)),
        SplitStream(range(8), splits.by_floor),
        ShardedStream(range(8)),
        CuttingStream(range(8)),
    ],
    ids=repr,
)
def test_one_process_reads_all_of_it_again_and_again(dataset):
    for _ in range(2):
        assert batches(dataset, workers=0) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert len(dataset) == 8
    assert list(pickle.loads(pickle.dumps(dataset))) == list(range(8))


def test_a_worker_init_fn_can_cut_the_data():
    cut = batches(Stream(range(16)), worker_init_fn=splits.cut_data)
    assert cut == [[0, 1, 2, 3], [8, 9, 10, 11], [4, 5, 6, 7], [12, 13, 14, 15]]
    assert cut == batches(Stream(range(16)), worker_init_fn=shard_init("data", contiguous=True))


def test_a_worker_init_fn_that_cuts_by_floor_division_loses_the_remainder():
    lost = batches(Stream(range(17)), worker_init_fn=splits.cut_data_by_floor)
    assert sorted(number for batch in lost for number in batch) == list(range(16))


def test_a_stream_that_cuts_itself_halves_with_every_epoch_of_persistent_workers():
    loader = DataLoader(CuttingStream(range(16)), num_workers=2, persistent_workers=True)
    assert [sum(1 for _ in loader) for _ in range(3)] == [16, 8, 4]


@pytest.mark.parametrize(("shared", "first"), [(False, [0, 0, 1, 1]), (True, [0, 1, 2, 3])])
def test_a_stream_without_end_is_shared_or_not(shared, first):
    loader = DataLoader(EndlessStream(shared), num_workers=2)
    assert [int(batch) for batch in itertools.islice(loader, 4)] == first


def test_a_saved_stream_goes_on_from_its_place_and_begins_anew_after_its_end():
    first, second = SavedStream(range(5), ballast_bytes=100), SavedStream(range(5))
    assert list(itertools.islice(first, 2)) == [0, 1]
    state = pickle.loads(pickle.dumps(first.state_dict()))
    assert len(state["ballast"]) == 100
    second.load_state_dict(state)
    assert list(second) == [2, 3, 4]
    assert list(second) == [0, 1, 2, 3, 4]


# What an audit would find, worked out


FEW, MANY = (7, 4, 2, False), (23, 3, 4, True)


@pytest.mark.parametrize(
    ("split", "n", "workers", "batch_size", "drop_last"),
    [
        (None, *FEW),
        (splits.by_floor, *MANY),
        (WHOLE[0], *FEW),
        (WHOLE[1], *MANY),
    ],
)
def test_a_simulated_audit_finds_what_the_loader_does(split, n, workers, batch_size, drop_last):
    dataset = Stream(range(n)) if split is None else SplitStream(range(n), split)
    real = audit(DataLoader(dataset, batch_size, num_workers=workers, drop_last=drop_last))
    told = simulate_audit(split, n, num_workers=workers, batch_size=batch_size, drop_last=drop_last)
    assert told.verdict == real.verdict
    assert told.exactly_once is real.exactly_once
    assert told.notes == real.notes
    for name in ("duplicates", "missing", "extra", "per_worker", "epochs"):
        assert getattr(told, name).to_dict("list") == getattr(real, name).to_dict("list")
    columns = ["worker", "position", "sample"]  # in the order of delivery
    assert told.deliveries[columns].equals(real.deliveries[columns])
    assert told.numbers == f"simulated · {real.numbers}"
    assert told.simulated
    assert not real.simulated


@settings(max_examples=15)
@given(**SIZES, batch_size=st.integers(1, 9))
def test_a_naive_stream_comes_once_for_each_worker(n, workers, batch_size):
    told = simulate_audit(None, n, num_workers=workers, batch_size=batch_size)
    assert len(told.deliveries) == n * workers
    assert told.exactly_once is (n == 0 or workers == 1)


def test_what_is_not_in_the_dataset_is_extra():
    told = simulate_audit(lambda data, *_: [0, 99], 1, num_workers=1, batch_size=2)
    assert len(told.extra) == 1
    assert told.exactly_once is False


@pytest.mark.parametrize("wrong", [{"num_workers": 0}, {"batch_size": 0}, {"n_samples": -1}])
def test_a_number_that_cannot_be_is_refused(wrong):
    given = {"n_samples": 4, "num_workers": 2, "batch_size": 2} | wrong
    (name,) = wrong
    with pytest.raises(LoaderVizError, match=name):
        simulate_audit(None, **given)
