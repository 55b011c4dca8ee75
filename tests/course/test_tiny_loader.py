"""The DataLoader that notebook 02 builds: the batches of torch's own, and nothing left behind."""

import json
import multiprocessing
import os
import re
import signal
from itertools import islice
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close
from torch.utils.data import DataLoader, RandomSampler

from loaderviz import LoaderVizError
from loaderviz.course import tiny_loader
from loaderviz.course.datasets import SleepingDataset
from loaderviz.course.inside_the_dataloader import slow_dataset

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "02_inside_the_dataloader.ipynb"


def built():
    """The functions that the notebook's cells define on the way."""
    names = {}
    for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]:
        code = "".join(cell["source"])
        if re.search(r"^def (in_lists|as_ready|in_order)\(", code, re.M):
            exec(code, names)
    return names["in_lists"], names["load"], names["as_ready"], names["in_order"]


in_lists, load, as_ready, in_order = built()


class Points:
    def __getitem__(self, key):
        place = torch.tensor([key, -key])
        return {"number": key, "half": key / 2, "place": place, "name": str(key)}

    def __len__(self):
        return 30


class Deadly(SleepingDataset):
    def __getitem__(self, index):
        if index == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 29), max_size=20), st.integers(1, 9))
def test_one_process_makes_the_batches_of_torch(keys, batch_size):
    numbers = SleepingDataset(30, 0)
    ours = load(numbers, keys, batch_size)
    torchs = DataLoader(numbers, batch_size=batch_size, sampler=keys)
    assert_close(list(ours), list(torchs), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("start_method", "workers"),  # what arrives from spawn does from a fork server, too
    [("fork", 2), pytest.param("spawn", 1, marks=pytest.mark.slow)],
)
def test_workers_make_the_batches_of_torch_however_they_are_started(
    start_method, workers, monkeypatch
):
    monkeypatch.setattr(tiny_loader, "multiprocessing", multiprocessing.get_context(start_method))
    keys = list(RandomSampler(range(30), generator=torch.Generator().manual_seed(0)))
    ours = in_order(Points(), in_lists(keys, 4), num_workers=workers)
    for mine, theirs in zip(ours, DataLoader(Points(), batch_size=4, sampler=keys), strict=True):
        assert mine.pop("name") == theirs.pop("name")
        assert_close(mine, theirs, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("num_workers", "prefetch_factor", "n"),
    [(1, 1, 17), (3, 2, 17), (3, 2, 1), (2, 1, 0)],
)
def test_each_batch_comes_once_and_in_order(num_workers, prefetch_factor, n):
    dataset, lists = SleepingDataset(max(n, 1), 0), list(in_lists(range(n), 2))
    batches = list(in_order(dataset, lists, num_workers, prefetch_factor))
    assert [batch.tolist() for batch in batches] == lists
    numbers = [number for number, _ in as_ready(dataset, lists, num_workers, prefetch_factor)]
    assert sorted(numbers) == list(range(len(lists)))


def test_a_slow_batch_is_overtaken_and_waited_for():
    lists = list(in_lists(range(48), 4))
    numbers = [number for number, _ in as_ready(slow_dataset(), lists, 2)]
    assert numbers.index(9) < numbers.index(8)
    assert [batch.tolist() for batch in in_order(slow_dataset(), lists, 2)] == lists


def test_no_more_is_under_way_than_torch_allows_and_a_loop_that_is_left_leaves_no_process():
    drawn = []
    lists = ([key] for key in range(100) if not drawn.append(key))
    batches = in_order(SleepingDataset(100, 0), lists, num_workers=2, prefetch_factor=3)
    for taken, _ in enumerate(islice(batches, 10), start=1):
        assert len(drawn) == taken + 2 * 3
    batches.close()
    # The leak guard looks for processes, threads and shared memory.


def test_a_sample_that_fails_is_told_with_its_batch():
    lists = in_lists(range(8), 2)
    with pytest.raises(LoaderVizError, match=r"batch 2: ValueError: sample 5 is broken"):
        list(in_order(SleepingDataset(8, 0, fail_at=5), lists, num_workers=2))


def test_a_worker_that_dies_is_told(monkeypatch):
    monkeypatch.setattr(tiny_loader, "ALIVE_CHECK_S", 0.05)
    with pytest.raises(LoaderVizError, match="a worker died"):
        list(in_order(Deadly(8, 0), in_lists(range(8), 2), num_workers=2))
