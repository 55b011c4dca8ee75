"""Audits of recordings by several ranks: keys of a Subset are looked through to its dataset's."""

from typing import Any

import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, DistributedSampler, Subset
from torch.utils.data import random_split as split_at_random

import loaderviz as lv
from loaderviz.sample_keys import MOST_PACKED
from loaderviz.trace import Trace
from loaderviz.trace.loaders_as_one import as_one

N = 80


class Rows(Dataset):
    def __init__(self, n: int = N, first: int = 0, **held: Any) -> None:
        self.rows = torch.arange(first, first + n)
        vars(self).update(held)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        return self.rows[index]


@pytest.fixture
def record_ranks(tmp_path, monkeypatch):
    """Records the loaders that ``make(rank)`` makes, on two ranks; returns the run as one trace."""

    def record(make: Any) -> Trace:
        monkeypatch.setenv("WORLD_SIZE", "2")
        for rank in (0, 1):
            monkeypatch.setenv("RANK", str(rank))
            made = make(rank)
            loaders = made if isinstance(made, tuple) else (made,)
            with lv.record(*loaders, path=tmp_path / "run"):
                for loader in loaders:
                    list(loader)
        return lv.load(tmp_path / "run")

    return record


def loader(dataset: Any, **options: Any) -> DataLoader:
    return DataLoader(dataset, batch_size=8, **options)


def split(seed: int, dataset: Any) -> list[Any]:
    return split_at_random(dataset, [0.75, 0.25], torch.Generator().manual_seed(seed))


def dealt(dataset: Any, rank: int) -> DataLoader:
    return loader(dataset, sampler=DistributedSampler(dataset, 2, rank))


class TestASplitThatEachRankDrewByItself:
    def test_brings_samples_to_two_ranks(self, record_ranks, tmp_path):
        splits = [split(rank, Rows())[0] for rank in (0, 1)]
        trace = record_ranks(lambda rank: loader(splits[rank]))
        found = lv.audit(trace)
        shared = {*splits[0].indices} & {*splits[1].indices}
        assert found.exactly_once is False
        assert {*found.duplicates["key"]} == shared
        assert set(found.duplicates["ranks"]) == {(0, 1)}
        assert found.missing.empty
        assert "random_split needs the same seed on every rank" in " ".join(found.notes)
        trace.save(tmp_path / "saved.parquet")
        assert lv.audit(lv.load(tmp_path / "saved.parquet")).verdict == found.verdict

    def test_counts_what_came_to_none(self, record_ranks):
        splits = [split(rank, Rows())[0] for rank in (0, 1)]
        found = lv.audit(record_ranks(lambda rank: dealt(splits[rank], rank)))
        in_either = {*splits[0].indices} | {*splits[1].indices}
        assert {*found.missing["key"]} == in_either - {*found.keys}
        assert "samples of the Subsets are not in the trace" in found.verdict

    def test_puts_what_one_validates_into_the_training_of_the_other(self, record_ranks):
        splits = [split(rank, Rows()) for rank in (0, 1)]
        trace = record_ranks(
            lambda rank: (loader(splits[rank][0], shuffle=True), loader(splits[rank][1]))
        )
        training = {*splits[0][0].indices} | {*splits[1][0].indices}
        most = max(len(training & {*splits[rank][1].indices}) for rank in (0, 1))
        notes = " ".join(lv.audit(trace.of_loader(0)).notes)
        assert (
            f"{most} of the samples that came are also in the Subset of loader 1 on rank" in notes
        )


def test_a_split_that_all_share_is_counted_by_position(record_ranks):
    trace = record_ranks(lambda rank: dealt(split(0, Rows())[0], rank))
    found = lv.audit(trace)
    assert found.verdict == "Each of the keys 0 to 59 came once in the trace"
    assert "underlying" not in trace.meta["ranks"][1]  # it is written down once


@pytest.mark.parametrize(
    "part",
    [
        lambda rank: Subset(Rows(), range(rank, N, 2)),
        lambda rank: Subset(Subset(Rows(), torch.arange(N).flip(0)), [*range(rank, N, 2)]),
        lambda rank: Subset(ConcatDataset([Rows(30), Rows(50, 30)]), [*range(rank, N, 2)]),
        lambda rank: ConcatDataset([Subset(Rows(), [*range(rank, N, 4)]), odd_quarter(rank)]),
    ],
)
def test_parts_that_were_cut_by_rank_come_once(record_ranks, part):
    found = lv.audit(record_ranks(lambda rank: loader(part(rank), shuffle=True)))
    assert found.duplicates.empty
    assert found.verdict == f"Each of the {N} samples of the Subsets came once in the trace"


def odd_quarter(rank: int) -> Any:
    return Subset(Rows(), [*range(rank + 2, N, 4)])


def test_a_sample_that_one_subset_has_twice_is_not_doubled_by_ranks(record_ranks):
    found = lv.audit(record_ranks(lambda rank: loader(Subset(Rows(), [rank, rank, rank + 2]))))
    assert found.duplicates.empty
    assert found.missing.empty


class TestDatasetsThatDiffer:
    def test_are_not_compared_by_key(self, record_ranks):
        found = lv.audit(record_ranks(lambda rank: loader(Rows(N // 2, rank * N // 2))))
        assert found.exactly_once is None
        assert found.verdict == "No sample of a single rank in the trace came more than once"
        assert "datasets that differ (in rows)" in " ".join(found.notes)

    def test_may_hold_the_same_all_the_same(self, record_ranks):
        found = lv.audit(record_ranks(lambda rank: loader(Rows(rank=rank))))
        assert f"Both asked for {N} keys: if these are the same samples" in " ".join(found.notes)

    def test_what_is_no_data_makes_no_difference(self, record_ranks):
        found = lv.audit(record_ranks(lambda rank: loader(Rows(cache=[rank], transform=rank))))
        assert found.verdict == "Every sample in the trace came twice"
        assert "Keys were compared, and not what the samples hold" in " ".join(found.notes)


class TestARecordingThatDoesNotSay:
    def test_says_that_keys_are_positions(self, record_ranks):
        trace = record_ranks(lambda rank: dealt(split(0, Rows())[0], rank))
        (about,) = trace.meta["loaders"]
        old = {name: about[name] for name in about if name != "underlying"}
        tables = {name: getattr(trace, name) for name in ("batches", "samples", "workers", "spans")}
        found = lv.audit(Trace(**tables, meta={**trace.meta, "loaders": [old]}))
        assert found.verdict == "Each of the keys 0 to 59 came once in the trace"
        assert "Keys are positions of a Subset" in " ".join(found.notes)

    def test_of_a_subset_too_large_knows_only_whether_all_have_the_same(self, record_ranks):
        n = MOST_PACKED + 1
        wanted = [0, 1, 2, 3]
        orders = [range(n), range(n - 1, -1, -1)]

        def large(rank: int, order: int) -> DataLoader:
            return loader(Subset(range(n), [*orders[order]]), sampler=wanted)

        trace = record_ranks(lambda rank: large(rank, rank))
        assert not any("keys" in each for each in trace.meta["underlying"].values())
        assert "datasets that differ (in indices)" in " ".join(lv.audit(trace).notes)


ROWS = Rows()


@pytest.mark.parametrize(
    ("one", "other", "are_told"),
    [
        (split(0, ROWS)[0], split(1, ROWS)[0], True),
        (*split(0, ROWS), False),  # each sample is in one
        (Subset(Rows(), range(40)), Subset(Rows(first=1000), range(40)), False),  # of other data
    ],
)
def test_samples_that_two_subsets_of_one_process_share_are_told(one, other, are_told):
    training, validation = loader(one), loader(other)
    with lv.record(training, validation) as rec:
        list(training)
        list(validation)
    told = [note for note in lv.audit(rec.trace.of_loader(1)).notes if "Subset" in note]
    n = len({*one.indices} & {*other.indices})
    same = f"{n} of the samples that came are also in the Subset of loader 0:"
    assert [note.startswith(same) for note in told] == [True] * are_told


def test_positions_of_a_split_drawn_anew_for_each_epoch_are_not_known(record_ranks):
    def made_anew(rank: int) -> Any:
        return tuple(loader(split(2 * epoch + rank, Rows())[0]) for epoch in range(2))

    whole = as_one(record_ranks(made_anew))
    assert set(whole.batches["loader"]) == {0}
    found = lv.audit(whole)
    assert len(found.epochs) == 2
    assert "Keys are positions of a Subset" in " ".join(found.notes)
