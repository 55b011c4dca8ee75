"""``Audit.mixing``: known shuffles get their score, and what is not known is said."""

import random

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Sampler

from loaderviz import LoaderVizError, audit, record
from loaderviz._audit import mixing, simulate_audit
from loaderviz.course.datasets import BufferedStream
from loaderviz.course.datasets.shuffling import shuffled
from streams import Items, Shared

N = 20_000


def score(order, batch_size=32):
    return mixing.nearness(np.asarray(order), batch_size).score


def by_buffer(size, n=N):
    return list(shuffled(range(n), size, random.Random(0)))


def in_turn(n_streams, batch_size, n=N):
    """Each of the streams reads a stretch, and a batch comes from each in turn."""
    return np.arange(n).reshape(n_streams, -1, batch_size).transpose(1, 0, 2).ravel()


def keyed(keys, **options):
    return audit(DataLoader(Items(keys), **{"batch_size": 8, **options}), key=lambda key: key)


class InOrderOf(Sampler):
    """A sampler that asks for these keys."""

    def __init__(self, keys):
        self.keys = keys

    def __iter__(self):
        return iter(self.keys)

    def __len__(self):
        return len(self.keys)


@pytest.mark.parametrize("batch_size", [1, 32, 500])
def test_the_order_of_the_source_has_the_score_0_and_a_shuffle_1(batch_size):
    assert score(np.arange(N), batch_size) == 0
    assert score(np.random.default_rng(1).permutation(N), batch_size) > 0.95


@pytest.mark.parametrize("batch_size", [1, 50])
def test_an_order_is_mixed_where_a_batch_has_samples_from_all_over_the_source(batch_size):
    shards = np.random.default_rng(1).permutation(np.arange(N).reshape(-1, 1000))
    assert score(shards.ravel(), batch_size) < 0.01  # whole shards
    assert score(in_turn(4, batch_size), batch_size) < 0.01  # workers that take turns
    even = np.arange(N).reshape(50, -1).T.ravel()
    assert score(even, batch_size=50) == 1  # though nothing is random


@pytest.mark.parametrize("batch_size", [16, 128])
@pytest.mark.parametrize("size", [200, 1000, 5000, 12_000])
def test_a_shuffle_buffer_is_found_again_by_its_size(size, batch_size):
    found = mixing.equal_buffer(score(by_buffer(size), batch_size), N)
    assert 0.85 * size < found < 1.15 * size


@given(st.integers(0, 2**32 - 1), st.integers(64, 500))
@settings(max_examples=8)
def test_the_score_lies_between_0_and_1_and_needs_no_consecutive_places(seed, n):
    rng = np.random.default_rng(seed)
    places = rng.choice(10 * n, n, replace=False)
    order = mixing.order_of(places)
    assert sorted(order) == list(range(n))
    assert (np.argsort(order) == np.argsort(places)).all()
    assert 0 <= score(order, int(rng.integers(1, 40))) <= 1


def test_equal_places_come_in_random_order():
    labels = np.repeat(np.arange(10), 100)
    assert not (np.diff(mixing.order_of(labels)) > 0).all()
    assert (mixing.order_of(labels) // 100 == labels).all()
    assert score(mixing.order_of(np.random.default_rng(0).permutation(labels))) > 0.9
    assert score(mixing.order_of(labels)) < 0.2


def test_a_run_that_drifts_is_told_from_one_that_does_not():
    sorted_run = keyed(range(1000)).mixing()
    assert sorted_run.drifts
    assert "between 5 % and 95 % of the source" in str(sorted_run)
    steady = keyed(random.Random(0).sample(range(1000), 1000)).mixing()
    assert not steady.drifts
    assert "drifts" not in str(steady)


def test_the_mean_places_are_those_of_the_tenths_of_the_run():
    order = np.random.default_rng(0).permutation(1003)
    drift = mixing.drift_of(order)
    ends = np.cumsum(drift["samples"])
    assert ends.iloc[-1] == 1003
    for begin, end, mean in zip(ends - drift["samples"], ends, drift["mean_place"], strict=True):
        assert mean == pytest.approx((order[begin:end].mean() + 0.5) / 1003)


def test_a_stream_tells_its_order_by_a_key():
    loader = DataLoader(BufferedStream(range(2000), 100), batch_size=20, num_workers=2)
    found = audit(loader, key=int).mixing()
    assert 100 < found.buffer_size < 300  # each of two workers has a buffer of 100
    assert list(found.workers["worker"]) == [0, 1]
    assert "Partly mixed" in found.verdict or "Hardly mixed" in found.verdict
    assert "shuffle buffer of about" in found.verdict


def test_without_a_key_a_stream_may_have_shuffled_itself_so_nothing_is_said():
    with record(loader := DataLoader(Shared(range(100)), batch_size=4)) as rec:
        list(loader)
    for of, why in ((loader, "key=lambda sample"), (rec.trace, "the source is not known")):
        with pytest.raises(LoaderVizError, match=why):
            audit(of).mixing()


def test_a_map_style_dataset_tells_it_by_its_keys_also_in_a_recording():
    loader = DataLoader(range(3000), batch_size=10, shuffle=True)
    assert audit(loader).mixing().score > 0.9
    with record(loader) as rec:
        list(loader)
    assert audit(rec.trace).mixing().score > 0.9
    assert audit(DataLoader(range(3000), batch_size=10)).mixing().score == 0


def test_each_epoch_has_a_mixing_of_its_own():
    orders = iter([list(range(640)), random.Random(0).sample(range(640), 640)])

    class Changing(InOrderOf):
        def __iter__(self):
            return iter(next(orders))

    loader = DataLoader(range(640), batch_size=8, sampler=Changing(range(640)))
    found = audit(loader, epochs=2)
    assert found.mixing(0).score == 0
    assert found.mixing(1).score > 0.8
    with pytest.raises(LoaderVizError, match="epoch=2: this audit has epochs 0 to 1"):
        found.mixing(2)


def test_part_of_a_stream_without_end_is_enough_where_keys_are_numbers():
    def endless():
        numbers = random.Random()  # a new order on each reading
        for start in range(0, 1 << 40, 500):
            yield from numbers.sample(range(start, start + 500), 500)

    class Endless(Items):
        def __iter__(self):
            return endless()

    found = audit(DataLoader(Endless(None), batch_size=10), key=int, n_samples=5000).mixing()
    assert len(found.order) == 5000
    assert 0.05 < found.score < 0.2  # blocks of a tenth, each shuffled


@pytest.mark.parametrize(
    "name",
    [
        lambda n: f"shard-{n // 20}.tar/{n % 20}",
        lambda n: (n // 20, n % 20),
        lambda n: np.int64(n),
        lambda n: n / 2,
        lambda n: f"{n}".encode(),
    ],
)
def test_keys_sort_as_people_sort_them(name):
    keys = [name(n) for n in range(400)]
    found = keyed(keys).mixing()
    assert (found.order == np.arange(400)).all()
    mixed = random.Random(0).sample(keys, 400)
    assert keyed(mixed).mixing().score > 0.9


def test_a_dataset_that_makes_the_batches_gives_a_key_for_each_sample():
    batches = [torch.arange(n, n + 10) for n in range(0, 1000, 10)]
    found = audit(DataLoader(Shared(batches), batch_size=None), key=lambda batch: batch)
    assert found.exactly_once
    assert found.n_samples == 1000
    assert found.mixing().window == 16
    assert found.mixing().score < 0.05
    twice = audit(DataLoader(Items(batches), batch_size=None, num_workers=2), key=list)
    assert len(twice.duplicates) == 1000
    part = audit(DataLoader(Items(batches), batch_size=None), key=list, n_samples=70)
    assert len(part.deliveries) == 70


def test_a_list_as_the_key_of_a_sample_is_one_key():
    found = audit(DataLoader(Items([[1, 2], [3, 4]]), batch_size=1), key=lambda sample: sample)
    assert found.n_samples == 2


def test_keys_that_do_not_sort_are_refused():
    with pytest.raises(LoaderVizError, match="do not sort: give a key that returns a number"):
        keyed([{n} for n in range(100)], collate_fn=list).mixing()


def test_shards_are_counted_where_keys_name_them():
    sizes = {0: 300, 1: 50, 2: 150}
    found = keyed([(shard, i) for shard, n in sizes.items() for i in range(n)]).mixing()
    assert dict(zip(found.shards["shard"], found.shards["samples"], strict=True)) == sizes
    assert "3 shards delivered 50 to 300 samples each." in found.notes
    assert keyed(range(500)).mixing().shards.empty


def test_workers_that_end_early_are_named():
    shares = {0: range(100), 1: range(100, 1000)}
    found = simulate_audit(
        lambda data, worker, n: shares[worker], 1000, num_workers=2, batch_size=10
    ).mixing()
    ends = found.workers["ends_at"].tolist()
    assert ends[0] < 0.25
    assert ends[1] == 1
    assert "worker 0 after 19 %" in str(found)
    even = simulate_audit(
        lambda data, worker, n: data[worker::n], 1000, num_workers=2, batch_size=10
    )
    assert "uneven" not in str(even.mixing())


def test_a_sample_that_comes_twice_changes_little():
    loader = DataLoader(Items(range(1000)), batch_size=10, num_workers=2)
    found = audit(loader, key=int).mixing()
    assert len(found.order) == 2000
    assert found.score < 0.05


def test_too_few_samples_tell_nothing():
    found = keyed(range(30)).mixing()
    assert np.isnan(found.score)
    assert "too few" in str(found)
    with pytest.raises(LoaderVizError, match="none of its samples"):
        keyed([]).mixing()


def test_workers_of_several_ranks_are_told_apart():
    table = pd.DataFrame({"rank": [0, 0, 1, 1, 0], "worker": [0, 1, 0, -1, 0]})
    rows, lane = mixing.workers_of(table)
    assert rows[["rank", "worker"]].to_numpy().tolist() == [[0, 0], [0, 1], [1, -1], [1, 0]]
    assert lane.tolist() == [0, 1, 3, 2, 0]
    assert rows["samples"].tolist() == [2, 1, 1, 1]
    assert rows["ends_at"].tolist() == [1.0, 0.4, 0.8, 0.6]
