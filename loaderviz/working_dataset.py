"""A dataset whose samples cost what you choose: waiting, computing, uneven times, bytes.

`explore()` runs it for real: a sample does what the sliders say. It stands here, where a worker
that is spawned imports next to nothing for it.
"""

import hashlib
import time
from collections.abc import Iterator

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from loaderviz.argument_checks import number, position, whole_number

_BLOCK = bytes(20_000)  # hashing it takes about 10 us and releases Python's global lock


def sample_times(n: int, sample_s: float, spread: float) -> np.ndarray:
    """Seconds that each of n samples takes, shape (n,): `sample_s` on average, fixed by a seed.

    spread: standard deviation, as a fraction of the average; 0 makes all times equal. The
        distribution is a gamma distribution: long times are rare, and much longer than the others.
    """
    if spread == 0 or n == 0:
        return np.full(n, float(sample_s))
    times = np.random.default_rng(0).gamma(1 / spread**2, size=n)
    return np.asarray(times * (sample_s / times.mean()))


class WorkingDataset(Dataset[torch.Tensor]):
    """Map-style: `ds[i]` waits and computes, then returns an int64 tensor full of `i`.

    n: number of samples.
    sample_s: seconds that a sample takes, on average.
    spread: standard deviation of these times, as a fraction of their average.
    cpu_share: the share of the time, 0 to 1, that keeps a CPU busy; the rest is slept.
    sample_bytes: size of a sample, rounded down to whole int64 numbers, at least one.

    Raises LoaderVizError if a number is negative or infinite, or cpu_share above 1; `ds[i]` raises
    IndexError out of range, as a list does.
    """

    def __init__(
        self,
        n: int,
        sample_s: float = 0.01,
        *,
        spread: float = 0.0,
        cpu_share: float = 0.0,
        sample_bytes: int = 8,
    ) -> None:
        self.n = whole_number("n", n)
        number("sample_s", sample_s)
        number("spread", spread)
        self.cpu_share = number("cpu_share", cpu_share, at_most=1)
        self.n_values = max(1, whole_number("sample_bytes", sample_bytes) // 8)
        self.times = sample_times(self.n, sample_s, spread)

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> torch.Tensor:
        index = position(index, self.n)
        seconds = float(self.times[index])
        if wait_s := seconds * (1 - self.cpu_share):
            time.sleep(wait_s)
        stop_at = time.thread_time() + seconds * self.cpu_share
        while time.thread_time() < stop_at:
            hashlib.sha256(_BLOCK).digest()
        return torch.full((self.n_values,), index)


class WorkingStream(IterableDataset[torch.Tensor]):
    """Iterable-style: yields what a `WorkingDataset` with the same arguments holds, in order.

    shared: whether worker w of k yields only the samples w, w + k, w + 2k, ... Otherwise every
        worker yields all of them, as a stream does whose code ignores workers.
    """

    def __init__(self, dataset: WorkingDataset, *, shared: bool) -> None:
        self.dataset = dataset
        self.shared = shared

    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info() if self.shared else None
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for index in range(first, len(self.dataset), step):
            yield self.dataset[index]
