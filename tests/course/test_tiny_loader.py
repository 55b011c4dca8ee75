"""The DataLoader of notebook 02: the batches of torch's own, and nothing left behind."""

import ast
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close
from torch.utils.data import DataLoader, RandomSampler

from loaderviz import LoaderVizError
from loaderviz.course import tiny_loader
from loaderviz.course.datasets import SleepingDataset
from loaderviz.course.inside_the_dataloader import slow_dataset
from loaderviz.course.tiny_loader import as_ready, in_lists, in_order, load

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "02_inside_the_dataloader.ipynb"


class Points:
    def __getitem__(self, key: int) -> Any:
        return {
            "number": key,
            "half": key / 2,
            "place": torch.tensor([key, -key]),
            "name": str(key),
        }

    def __len__(self) -> int:
        return 30


class Deadly(SleepingDataset):
    def __getitem__(self, index: int) -> int:
        if index == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


def shuffled(n: int) -> list[int]:
    return list(RandomSampler(range(n), generator=torch.Generator().manual_seed(0)))


def compare(ours: Iterator[Any], torchs: DataLoader[Any]) -> None:
    for mine, theirs in zip(ours, torchs, strict=True):
        assert mine.pop("name") == theirs.pop("name")
        assert_close(mine, theirs, rtol=0, atol=0)


@given(st.lists(st.integers(0, 29), max_size=20), st.integers(1, 9))
def test_one_process_makes_the_batches_of_torch(keys: list[int], batch_size: int) -> None:
    compare(
        load(Points(), keys, batch_size),
        DataLoader(Points(), batch_size=batch_size, sampler=keys),
    )


@pytest.mark.parametrize(
    "start_method",
    [
        pytest.param(each, marks=[pytest.mark.slow] if each == "spawn" else [])
        for each in multiprocessing.get_all_start_methods()
    ],
)
def test_workers_make_the_batches_of_torch_however_they_are_started(
    start_method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiny_loader, "multiprocessing", multiprocessing.get_context(start_method))
    keys = shuffled(30)
    compare(
        in_order(Points(), in_lists(keys, 4), num_workers=2),
        DataLoader(Points(), batch_size=4, sampler=keys),
    )


@pytest.mark.parametrize(("num_workers", "prefetch_factor"), [(1, 1), (1, 3), (3, 1), (4, 2)])
@pytest.mark.parametrize("n", [0, 1, 5, 17])
def test_each_batch_comes_once_and_in_order(num_workers: int, prefetch_factor: int, n: int) -> None:
    dataset, lists = SleepingDataset(max(n, 1), 0), list(in_lists(range(n), 2))
    batches = list(in_order(dataset, lists, num_workers, prefetch_factor))
    assert [batch.tolist() for batch in batches] == lists
    numbers = [number for number, _ in as_ready(dataset, lists, num_workers, prefetch_factor)]
    assert sorted(numbers) == list(range(len(lists)))


def test_a_slow_batch_is_overtaken_and_waited_for() -> None:
    lists = list(in_lists(range(48), 4))
    numbers = [number for number, _ in as_ready(slow_dataset(), lists, 2)]
    assert numbers.index(9) < numbers.index(8)
    assert [batch.tolist() for batch in in_order(slow_dataset(), lists, 2)] == lists


def test_no_more_is_under_way_than_torch_allows() -> None:
    drawn = []

    def lists() -> Iterator[list[int]]:
        for key in range(100):
            drawn.append(key)
            yield [key]

    batches = in_order(SleepingDataset(100, 0), lists(), num_workers=2, prefetch_factor=3)
    for taken, _ in enumerate(islice(batches, 10), start=1):
        assert len(drawn) == taken + 2 * 3
    batches.close()  # type: ignore[attr-defined]


def test_a_loop_that_is_left_early_leaves_no_process() -> None:
    for batches in (in_order, as_ready):
        for _ in batches(SleepingDataset(100, 0.001), in_lists(range(100), 4), 2):
            break
    # The leak guard looks for processes, threads and shared memory.


def test_a_sample_that_fails_is_told_with_its_batch() -> None:
    lists = in_lists(range(8), 2)
    with pytest.raises(LoaderVizError, match=r"batch 2: ValueError: sample 5 is broken"):
        list(in_order(SleepingDataset(8, 0, fail_at=5), lists, num_workers=2))


def test_a_worker_that_dies_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny_loader, "ALIVE_CHECK_S", 0.05)
    with pytest.raises(LoaderVizError, match="a worker died"):
        list(in_order(Deadly(8, 0), in_lists(range(8), 2), num_workers=2))


def test_a_worker_that_dies_before_its_tensor_is_taken_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 0.1 s a sample: batch 0 is sent long before its worker meets sample 5.
    receive = tiny_loader.Workers.receive

    def receive_late(workers: tiny_loader.Workers) -> Any:
        while all(process.is_alive() for process in workers.processes):
            time.sleep(0.01)
        return receive(workers)

    monkeypatch.setattr(tiny_loader.Workers, "receive", receive_late)
    with pytest.raises(LoaderVizError, match="a worker died"):
        list(in_order(Deadly(8, 0.1), in_lists(range(8), 2), num_workers=2))


def functions(source: str) -> dict[str, str]:
    """The functions of a module or a cell as they run: no annotations, no docstrings."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            node.returns = None
            for argument in ast.walk(node.args):
                if isinstance(argument, ast.arg):
                    argument.annotation = None
            if ast.get_docstring(node):
                del node.body[0]
            text = ast.unparse(node).replace("buffer: dict[int, Any] = {}", "buffer = {}")
            found[node.name] = text
    return found


def test_the_notebook_builds_what_the_package_holds() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    built: dict[str, str] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            built |= functions("".join(cell["source"]))
    kept = functions(Path(tiny_loader.__file__).read_text(encoding="utf-8"))
    for name in ("in_lists", "load", "as_ready", "in_order"):
        assert built[name] == kept[name]
