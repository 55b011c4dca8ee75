"""Several loaders in one recording: each is told by its name, none is added to another."""

import time

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from loaderviz import Costs, Trace, record, simulate


class Slow(Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, index):
        time.sleep(0.004)
        return index


@pytest.fixture(scope="module")
def two_loaders():
    train = DataLoader(Slow(), batch_size=8, shuffle=True, num_workers=1)
    check = DataLoader(TensorDataset(torch.zeros(40)), batch_size=8)
    with record(train, check) as recording:
        for loader in (train, check):
            for _ in loader:
                time.sleep(0.01)
    return recording.trace


def test_each_has_its_name_and_its_own_numbers(two_loaders):
    slow, quick = two_loaders.summary().loaders
    assert (slow.name, quick.name) == ("Slow (48 samples, shuffled)", "TensorDataset (40 samples)")
    assert (slow.n_batches, slow.n_samples, slow.n_workers) == (6, 48, 1)
    assert (quick.n_batches, quick.n_samples, quick.n_workers) == (5, 40, 0)
    summary = two_loaders.summary()
    waited_s = summary.wait_s + summary.startup_s
    assert slow.waited_s + quick.waited_s == pytest.approx(waited_s)
    assert slow.waited_s > quick.waited_s


def test_the_verdict_is_about_the_one_that_is_waited_for(two_loaders):
    summary = two_loaders.summary()
    assert f" for {summary.loaders[0].name}: " in summary.verdict
    assert [share.name in str(summary) for share in summary.loaders] == [True, True]


def test_causes_of_one_loader_are_those_that_it_has_alone(two_loaders):
    both = two_loaders.summary().causes
    for loader in (0, 1):
        own = two_loaders.of_loader(loader).summary().causes
        together = both[both["loader"] == loader]
        assert set(own["cause"]) == set(together["cause"])
        assert own["seconds"].sum() == pytest.approx(together["seconds"].sum(), rel=0.05)


def test_one_loader_needs_no_name():
    trace = simulate(Costs(sample_s=0.01, step_s=0.01), num_workers=1, batch_size=8, n_samples=80)
    (share,) = trace.summary().loaders
    assert share.name not in str(trace.summary())


def test_equal_names_are_told_apart_by_number():
    loaders = [DataLoader(TensorDataset(torch.zeros(8)), batch_size=4) for _ in range(2)]
    with record(*loaders) as recording:
        for loader in loaders:
            list(loader)
    names = [share.name for share in recording.trace.summary().loaders]
    assert names == [f"TensorDataset (8 samples), loader {number}" for number in (0, 1)]


@pytest.mark.parametrize("meta", [{}, {"loaders": []}, {"loaders": [{}]}])
def test_without_a_description_it_is_told_by_its_number(meta):
    trace = simulate(Costs(step_s=0.01), num_workers=1, batch_size=8, n_samples=80)
    stranger = Trace(trace.batches, trace.samples, trace.workers, trace.spans, meta)
    assert [share.name for share in stranger.summary().loaders] == ["loader 0 (80 samples)"]
