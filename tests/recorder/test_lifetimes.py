"""Nothing outlives its loader: what a recording has seen ends when its user is done with it."""

import gc
import json
import time
import weakref

import psutil
import pytest
from torch.utils.data import DataLoader, Dataset, IterableDataset

from loaderviz import load, record


class Numbers(Dataset):
    def __init__(self, n=8):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        if index >= 100:
            raise ValueError(index)
        return index


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(8))


class Wrapper:
    """Makes a loader of its own for each epoch, as a loader of several streams does."""

    def __init__(self):
        self.made = []

    def __iter__(self):
        loader = DataLoader(Numbers(), batch_size=4)
        self.made.append(weakref.ref(loader))
        yield from loader


KINDS = {
    "map, here": (Numbers, {}),
    "stream, here": (Stream, {}),
    "map, workers": (Numbers, {"num_workers": 2}),
    "stream, workers": (Stream, {"num_workers": 1}),
    "persistent": (Numbers, {"num_workers": 2, "persistent_workers": True}),
}


def until(is_so, seconds=30.0):
    end = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end:
        gc.collect()
        time.sleep(0.01)
    return is_so()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("own", [True, False])
def test_dataset_loader_iterator_and_workers_end_with_the_loader(kind, own):
    make, settings = KINDS[kind]
    loader = DataLoader(make(), batch_size=4, **settings)
    with record(loader if own else Wrapper()):  # that records every loader
        iterator = iter(loader)
        workers = [psutil.Process(each.pid) for each in getattr(iterator, "_workers", [])]
        batches = list(iterator)
        ends = [weakref.ref(each) for each in (loader.dataset, loader, iterator, batches[0])]
        del batches, iterator, loader
        gc.collect()
        assert [end() for end in ends] == [None] * 4
        assert until(lambda: not any(map(is_alive, workers)))


def is_alive(process):
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("settings", [{}, pytest.param({"num_workers": 1}, marks=pytest.mark.slow)])
def test_so_they_do_after_an_error_in_the_loop(settings):
    loader = DataLoader(Numbers(104), batch_size=4, **settings)
    with record(loader) as recording:
        with pytest.raises(ValueError, match="100"):
            for _ in loader:
                pass
        ends = [weakref.ref(loader), weakref.ref(loader.dataset)]
        del loader
        assert until(lambda: all(end() is None for end in ends), seconds=2)
    assert recording.trace.summary().failed_batch == 25


def test_each_of_many_loaders_has_its_own_number_though_ids_come_again():
    n = 90
    with record(Wrapper()) as recording:
        for size in range(1, n + 1):
            assert len(list(DataLoader(Numbers(size), batch_size=1000))) == 1
    batches = recording.trace.batches
    assert batches["loader"].tolist() == list(range(n))
    assert batches["n_samples"].tolist() == list(range(1, n + 1))
    assert len(recording.trace.meta["loaders"]) == n


def test_a_loader_that_is_met_is_appended_not_the_whole_rewritten(tmp_path):
    folder = tmp_path / "run"
    with record(Wrapper(), path=folder):
        list(DataLoader(Numbers(), batch_size=4))
        before = (folder / "meta.json").stat().st_mtime_ns
        list(DataLoader(Numbers(), batch_size=2))
        assert (folder / "meta.json").stat().st_mtime_ns == before
        assert [about["batch_size"] for about in load(folder).meta["loaders"]] == [4, 2]
    assert len(load(folder).meta["loaders"]) == 2


def test_a_line_that_was_cut_off_loses_that_loader_alone(tmp_path):
    folder = tmp_path / "run"
    with record(Wrapper(), path=folder):
        for size in (2, 4):
            list(DataLoader(Numbers(), batch_size=size))
    lines = (folder / "loaders.jsonl").read_text()
    (folder / "loaders.jsonl").write_text(lines[:-20])
    assert [about["batch_size"] for about in load(folder).meta["loaders"]] == [2]
    assert len(load(folder).batches) == 6
    assert json.loads(lines.splitlines()[1])["batch_size"] == 4
