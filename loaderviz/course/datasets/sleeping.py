"""Datasets whose samples take a known time and nothing else.

The time is spent asleep, as in a read from a slow disk or network. That uses no CPU, so workers
overlap fully however few cores there are, and a timeline shows only what the loader does.
"""

import time
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch.utils.data import Dataset, IterableDataset

from loaderviz.argument_checks import number, position, whole_number
from loaderviz.errors import LoaderVizError


class SleepingDataset(Dataset[int]):
    """Map-style: `ds[i]` waits, then returns the int `i`.

    A sample is its own index, so a printed batch (`tensor([0, 1, 2, 3])`) shows which samples it
    holds and in which order; torch's default collate makes it an int64 tensor of shape (batch,).

    n: number of samples.
    sample_s: seconds that each sample takes; or a sequence of n times, one for each sample.
    fail_at: index of a sample that raises ValueError instead, once its time has passed. If that
        happens in a worker, torch raises it again in the main process, with the worker's number and
        traceback in the message (`torch/_utils.py`, `ExceptionWrapper.reraise`).

    Raises LoaderVizError if n is negative, a time is negative or infinite, there are not n times,
    or fail_at is not an index; `ds[i]` raises IndexError out of range, as a list does.
    """

    def __init__(
        self, n: int, sample_s: float | Sequence[float] = 0.01, *, fail_at: int | None = None
    ) -> None:
        self.n = whole_number("n", n)
        self.sample_s = _checked_times(sample_s, self.n)
        self.fail_at = fail_at
        if fail_at is not None and whole_number("fail_at", fail_at) >= self.n:
            raise LoaderVizError(
                f"fail_at={fail_at}: there is no such sample; give an index below n={self.n}"
            )

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> int:
        index = position(index, self.n)
        _sleep(self.sample_s, index)
        if index == self.fail_at:
            raise ValueError(f"sample {index} is broken on purpose (fail_at={index})")
        return index


class SleepingStream(IterableDataset[int]):
    """Iterable-style: yields 0, 1, ... n-1, waiting before each.

    Naive on purpose: every worker iterates its own copy of the whole dataset
    (`torch/utils/data/_utils/fetch.py`, `_IterableDatasetFetcher`), so with w workers every
    sample arrives w times. A stream has to share out its samples itself. Like most streams, this
    one has no `__len__`.

    n, sample_s: as in `SleepingDataset`, with the same LoaderVizErrors.
    """

    def __init__(self, n: int, sample_s: float | Sequence[float] = 0.01) -> None:
        self.n = whole_number("n", n)
        self.sample_s = _checked_times(sample_s, self.n)

    def __iter__(self) -> Iterator[int]:
        for i in range(self.n):
            _sleep(self.sample_s, i)
            yield i


class RemoteTable(Dataset[int]):
    """Map-style: `ds[i]` asks a remote table for row i, waits for the answer, returns the int i.

    n: number of rows.
    trip_s: seconds from request to answer, for any number of rows.

    `ds.trips` counts the requests made in this process.

    Raises LoaderVizError if n is negative, or trip_s negative or infinite; `ds[i]` raises
    IndexError out of range, as a list does.
    """

    def __init__(self, n: int, trip_s: float = 0.01) -> None:
        self.n = whole_number("n", n)
        self.trip_s = number("trip_s", trip_s)
        self.trips = 0

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> int:
        row = position(index, self.n)
        self._make_a_trip()
        return row

    def _make_a_trip(self) -> None:
        self.trips += 1
        time.sleep(self.trip_s)


class BulkRemoteTable(RemoteTable):
    """A `RemoteTable` that can also be asked for many rows in one request.

    A DataLoader does so for each batch: if a dataset has `__getitems__`, torch calls that with the
    batch's keys, and does not call `__getitem__` (`torch/utils/data/_utils/fetch.py`,
    `_MapDatasetFetcher.fetch`).
    """

    def __getitems__(self, indices: Sequence[int]) -> list[int]:
        rows = [position(index, self.n) for index in indices]
        self._make_a_trip()
        return rows


def _checked_times(sample_s: float | Sequence[float], n: int) -> float | tuple[float, ...]:
    if not isinstance(sample_s, Iterable):
        return number("sample_s", sample_s)
    times = tuple(number("sample_s", seconds) for seconds in sample_s)
    if len(times) != n:
        raise LoaderVizError(
            f"sample_s has {len(times)} times for n={n} samples: give one for each, or one float"
        )
    return times


def _sleep(sample_s: float | tuple[float, ...], index: int) -> None:
    seconds = sample_s[index] if isinstance(sample_s, tuple) else sample_s
    # sleep(0) still enters the kernel: skipping it leaves a sample that costs next to nothing.
    if seconds:
        time.sleep(seconds)


class OneBuffer(Dataset[torch.Tensor]):
    """Map-style, and wrong: `ds[i]` is a float32 tensor of shape (4,) full of `i`, always the same.

    Who holds a sample while the next one is read, as torch does until a batch is complete, finds it
    overwritten.
    """

    def __init__(self, n: int) -> None:
        self.n = whole_number("n", n)
        self.row = torch.zeros(4)

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.row.fill_(position(index, self.n))
