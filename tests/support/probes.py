"""Datasets whose samples tell who made them, from which random draws and when.

In a module of its own, because workers started with spawn or forkserver import them by name.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from mmap import mmap
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info


def worker() -> int:
    """This worker's number, or -1 in the main process."""
    info = get_worker_info()
    return -1 if info is None else info.id


def draws() -> list[float]:
    """One draw of every global random generator."""
    return [torch.rand(1, dtype=torch.float64).item(), np.random.random(), random.random()]


def sample(key: Any) -> dict[str, Any]:
    return {"key": key, "worker": worker(), "draws": draws()}


def clocked(key: Any) -> dict[str, Any]:
    """A sample that tells when it was read, by the recorder's own clock, and how long that took."""
    begun = time.perf_counter_ns()
    time.sleep(0.001)
    return {"key": key, "worker": worker(), "begun": begun, "read": time.perf_counter_ns()}


class Keys(Dataset[Any]):
    """Map-style: a sample is what ``make`` says of its key."""

    def __init__(self, n: int, make: Callable[[Any], Any] = sample, offset: int = 0) -> None:
        self.n, self.make, self.offset = n, make, offset

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, key: Any) -> Any:
        return self.make(key + self.offset if isinstance(key, int) else key)


class Bulk(Keys):
    """Reads a whole batch in one call."""

    def __getitems__(self, keys: list[Any]) -> list[Any]:
        assert type(keys) is list
        return [self[key] for key in keys]


class Columns(Keys):
    """Reads a whole batch in one call, and returns its columns instead of its samples."""

    def __getitems__(self, keys: list[int]) -> dict[str, torch.Tensor]:
        return {"key": torch.tensor(keys), "square": torch.tensor(keys) ** 2}


class Stream(IterableDataset[Any]):
    """Iterable-style: worker w yields ``shares[w]`` samples; the main process yields them all."""

    def __init__(self, *shares: int, make: Callable[[Any], Any] = sample) -> None:
        self.shares, self.make = shares, make

    def __iter__(self) -> Iterator[Any]:
        own = worker()
        for i in range(sum(self.shares) if own < 0 else self.shares[own]):
            yield self.make(i)


def wait(key: int) -> int:
    """A sample that takes time and no CPU."""
    time.sleep(0.03)
    return key


def work(key: int) -> int:
    """A sample that takes CPU."""
    return sum(range(300_000)) * 0 + key


class Hoarding(Dataset[int]):
    """Keeps ``n_bytes`` more with each sample that is read, and takes its time.

    They are pages of their own: what an allocator gives may lie where something was freed before,
    and then the process does not grow.
    """

    def __init__(self, n: int, n_bytes: int) -> None:
        self.n, self.n_bytes = n, n_bytes
        self.kept: list[mmap] = []

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, key: int) -> int:
        self.kept.append(mmap(-1, self.n_bytes))
        self.kept[-1].write(bytes(self.n_bytes))
        time.sleep(0.06)  # the recorder looks every 50 ms
        return key


class Refusing(Keys):
    """Raises ``error`` instead of sample ``at``."""

    def __init__(self, n: int, at: int, error: Exception) -> None:
        super().__init__(n)
        self.at, self.error = at, error

    def __getitem__(self, key: int) -> Any:
        if key == self.at:
            raise self.error
        return super().__getitem__(key)


class Deadly(Keys):
    """Reading sample ``at`` ends its process, in one of the ways of ``die``."""

    def __init__(self, n: int, at: int, how: str | int | None = "kill") -> None:
        super().__init__(n)
        self.at, self.how = at, how

    def __getitem__(self, key: int) -> Any:
        if key == self.at:
            time.sleep(0.3)  # the others finish what they have been sent, and it is delivered
            die(self.how)
        return super().__getitem__(key)


def die(how: str | int | None) -> None:
    """A number is the code to exit with."""
    if how in ("kill", None):
        os.kill(os.getpid(), signal.SIGKILL)
    elif isinstance(how, int):
        os._exit(how)
    elif how == "leave":
        raise SystemExit(4)
    elif how == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
    elif how == "close everything":
        os.closerange(0, 1024)


class Pinnable:
    """Pins itself, as torch asks objects with a ``pin_memory`` method to do."""

    def __init__(self, content: Any) -> None:
        self.content = content
        self.pinned = False

    def pin_memory(self) -> "Pinnable":
        self.pinned = True
        return self


def as_it_is(batch: Any) -> Any:
    """A collate_fn that changes nothing."""
    return batch


def shift_dataset(worker_id: int) -> None:
    """A worker_init_fn that edits its worker's copy of the dataset, and draws."""
    get_worker_info().dataset.offset = 100 * (worker_id + 1)
    draws()


def seed_alike(worker_id: int) -> None:
    random.seed(3)
    np.random.seed(3)
    torch.manual_seed(3)


class SlowToSend(Dataset[int]):
    """Takes its time to be pickled and unpickled, and has ``n_bytes`` to carry."""

    def __init__(self, n: int, n_bytes: int, pickle_s: float, unpickle_s: float) -> None:
        self.n, self.ballast = n, bytes(n_bytes)
        self.pickle_s, self.unpickle_s = pickle_s, unpickle_s

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> int:
        return index

    def __getstate__(self) -> dict[str, Any]:
        time.sleep(self.pickle_s)
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        time.sleep(state["unpickle_s"])
        self.__dict__.update(state)


def slow_init(worker: int) -> None:
    time.sleep(0.1)


DECODING_S = 0.03  # of CPU time


class Decoded(Dataset[Any]):
    """A child process makes each sample, as where one calls a decoder."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, key: int) -> torch.Tensor:
        program = f"import time\nwhile time.process_time() < {DECODING_S}: pass"
        subprocess.run([sys.executable, "-S", "-c", program], check=True)
        return torch.zeros(1)
