"""Loaders for the doctor: the smallest that has each disease, its cured twin, and healthy ones.

In a module of its own, because workers started with spawn or forkserver import classes by name.
"""

import hashlib
import itertools
import os
import random
import resource
import shutil
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from torch.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
)
from torchdata.stateful_dataloader import StatefulDataLoader

from loaderviz import machine
from loaderviz.datasets import SleepingDataset
from loaderviz.datasets.shuffling import shuffled

Make = Callable[[], DataLoader]


def share() -> tuple[int, int]:
    info = get_worker_info()
    return (0, 1) if info is None else (info.id, info.num_workers)


class Stream(IterableDataset):
    """Yields 0 to n-1, split among workers as ``split`` says; knows its length if ``sized``."""

    def __init__(self, n: int, split: Callable[..., Any]) -> None:
        self.n, self.split = n, split

    def __iter__(self) -> Iterator[int]:
        yield from self.split(range(self.n), *share())


class NoisyStream(Stream):
    """No sample is the same when it is read again."""

    def __iter__(self) -> Iterator[float]:
        yield from (i + random.random() for i in super().__iter__())


class SizedStream(Stream):
    def __len__(self) -> int:
        return self.n


def not_at_all(data: range, worker: int, n: int) -> range:
    return data


def by_stride(data: range, worker: int, n: int) -> range:
    return data[worker::n]


def by_floor(data: range, worker: int, n: int) -> range:
    size = len(data) // n
    return data[worker * size : (worker + 1) * size]


def by_ranges_that_overlap(data: range, worker: int, n: int) -> range:
    """With one process all; the second of two begins a quarter too early, and ends so."""
    return data if n == 1 else data[worker * 3 * len(data) // 8 :][: len(data) // 2]


def by_every_third(data: range, worker: int, n: int) -> range:
    """Counts one worker too many, and so nobody reads the last one's share."""
    return data if n == 1 else data[worker :: n + 1]


def in_an_order_of_its_own(data: range, worker: int, n: int) -> list[int]:
    """A stride through a list that each worker has shuffled for itself."""
    return random.Random(worker).sample(data, len(data))[worker::n]


def in_one_order(data: range, worker: int, n: int) -> list[int]:
    return random.Random(3).sample(data, len(data))[worker::n]


def by_batches_of_4(data: range, worker: int, n: int) -> list[int]:
    return [i for i in data if i // 4 % n == worker]


class Shards(IterableDataset):
    """Reads whole shards: worker w those at w, w + n, ..."""

    def __init__(self, n_shards: int) -> None:
        self.shards = [list(range(10 * i, 10 * i + 10)) for i in range(n_shards)]

    def __iter__(self) -> Iterator[int]:
        worker, n = share()
        yield from itertools.chain.from_iterable(self.shards[worker::n])


class SortedClasses(IterableDataset):
    """Ten classes, one after another, shuffled by a buffer; each worker has its share."""

    def __init__(self, buffer_size: int, shuffles: bool = True) -> None:
        self.buffer_size = buffer_size
        self.shuffles = shuffles

    def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
        worker, n = share()
        pairs = ((torch.tensor([label, i]), label) for label in range(10) for i in range(100))
        mine = itertools.islice(pairs, worker, None, n)
        return shuffled(mine, self.buffer_size) if self.shuffles else mine


class Cutting(IterableDataset):
    """Takes its share of ``data`` each time that it is iterated."""

    def __init__(self, keep: bool) -> None:
        self.data = list(range(32))
        self.keep = keep

    def __iter__(self) -> Iterator[int]:
        worker, n = share()
        mine = self.data[worker::n]
        if not self.keep:
            self.data = mine
        yield from mine


class RestartingLoader(DataLoader):
    """Has a state, and goes on with nothing of it."""

    def state_dict(self) -> dict[str, int]:
        return {"epoch": 1}

    def load_state_dict(self, state: dict[str, int]) -> None:
        pass


class EpochSampler(Sampler[int]):
    """Another order in each epoch, and the same one in every process."""

    def __init__(self, n: int) -> None:
        self.n, self.epoch = n, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.epoch)
        return iter(torch.randperm(self.n, generator=generator).tolist())


class SlowStream(IterableDataset):
    """Waits for each sample; begins anew wherever it is read."""

    at = 0

    def __iter__(self) -> Iterator[int]:
        for i in range(self.at, 48):
            self.at = i + 1
            time.sleep(0.03)
            yield i
        self.at = 0


class SavedStream(SlowStream):
    """Goes on where it was."""

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class ForgetfulStream(SlowStream):
    """Each reading begins with the first sample."""

    def __iter__(self) -> Iterator[int]:
        self.at = 0
        return super().__iter__()


class SlowToSave(SleepingDataset):
    """Its state takes longer to write than a sample to read."""

    def state_dict(self) -> dict[str, int]:
        time.sleep(0.02)
        return {"n_saved": time.monotonic_ns()}

    def load_state_dict(self, state: dict[str, int]) -> None:
        pass


class NaiveResume(DataLoader):
    """Skips as many batches as were seen, of whatever order the next epoch has."""

    seen, skip = 0, 0

    def __iter__(self) -> Iterator[Any]:
        self.seen, skip = self.skip, self.skip
        self.__dict__["skip"] = 0
        for batch in itertools.islice(super().__iter__(), skip, None):
            self.seen += 1
            yield batch

    def state_dict(self) -> dict[str, int]:
        return {"seen": self.seen}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.skip = state["seen"]


RNG = np.random.default_rng(0)


class NoisyAlike(Dataset):
    """Each sample seeds NumPy's global generator: with the same number, or with its own."""

    def __init__(self, by_index: bool) -> None:
        self.by_index = by_index

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> float:
        np.random.seed(index if self.by_index else 0)
        return index + np.random.random()


class NoisyOfModule(Dataset):
    """Adds noise from a generator of this module."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> float:
        return index + RNG.random()


class Noisy(Dataset):
    """Adds noise from a generator that it makes at once, or first in the worker that needs it."""

    def __init__(self, lazily: bool) -> None:
        self.rng = None if lazily else np.random.default_rng(0)

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> float:
        if self.rng is None:
            info = get_worker_info()
            self.rng = np.random.default_rng(torch.initial_seed() if info is None else info.seed)
        return index + self.rng.random()


class AddNoise:
    """A collate_fn with a generator that it makes at once, or first in the worker that needs it."""

    def __init__(self, lazily: bool) -> None:
        self.rng = None if lazily else np.random.default_rng(0)

    def __call__(self, samples: list[int]) -> np.ndarray:
        if self.rng is None:
            self.rng = np.random.default_rng(torch.initial_seed())
        return np.asarray(samples) + self.rng.random(len(samples))


class NoisyWalk(IterableDataset):
    """Adds noise from a generator that each iteration makes, seeded as `seed(info)` says."""

    def __init__(self, seed: Callable[[Any], Any], *, keep: bool = False) -> None:
        self.seed, self.keep = seed, keep

    def __iter__(self) -> Iterator[float]:
        rng = np.random.default_rng(self.seed(get_worker_info()))
        if self.keep:
            self.rng = rng
        for i in by_stride(range(24), *share()):
            yield i + rng.random()


class NoisyByIndex(IterableDataset):
    """The noise of a sample is always the same, with a generator of its own."""

    def __iter__(self) -> Iterator[float]:
        for i in by_stride(range(24), *share()):
            rng = np.random.default_rng(i)
            yield i + rng.random()


def number_of(info: Any) -> int:
    return 0 if info is None else info.id


def drawn(info: Any) -> int:
    return int(torch.randint(2**62, ()))


def seed_of_torch(info: Any) -> int:
    return torch.initial_seed()


class NoisyByKey(Dataset):
    """The noise of a sample is always the same."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> float:
        return index + np.random.default_rng([0, index]).random()


class GloballyNoisy(Dataset):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> float:
        return index + np.random.random() + torch.rand(()).item() + random.random()


def seed_by_number(worker: int) -> None:
    np.random.seed(worker)


def seed_by_torch(worker: int) -> None:
    np.random.seed(torch.initial_seed() % 2**32)


class Scheduled(Dataset):
    """What it does depends on the epoch."""

    def __init__(self, shared: bool) -> None:
        self.epoch: Any = torch.zeros((), dtype=torch.int64).share_memory_() if shared else 0

    def set_epoch(self, epoch: int) -> None:
        if isinstance(self.epoch, torch.Tensor):
            self.epoch.fill_(epoch)
        else:
            self.epoch = epoch

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> int:
        return index + int(self.epoch)


class Evaluation(SleepingDataset):
    def __init__(self) -> None:
        super().__init__(12, 0)
        self.train = False


class Burning(Dataset):
    """Computes for a time."""

    def __init__(self, n: int, seconds: float) -> None:
        self.n, self.seconds = n, seconds

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> int:
        until = time.process_time() + self.seconds
        while time.process_time() < until:
            pass
        return index


def begin_slowly(worker: int) -> None:
    time.sleep(0.5)


class ReadingAhead(Dataset):
    """Each worker has a thread of its own that computes in Python, all the time."""

    def __init__(self, n: int) -> None:
        self.n, self.begun = n, False

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> int:
        if not self.begun and get_worker_info() is not None:
            self.begun = True
            threading.Thread(target=count_for_ever, daemon=True).start()
        return index


def count_for_ever() -> None:
    n = 0
    while True:
        n += 1


def switch_seldom(worker: int) -> None:
    """Seldom enough to tell it from what a busy machine does."""
    sys.setswitchinterval(0.01)


def switch_soon(worker: int) -> None:
    sys.setswitchinterval(1e-4)


class Threaded(Dataset):
    """Hashes in threads, which need no GIL."""

    def __init__(self, n: int, threads: int) -> None:
        self.n, self.threads = n, threads

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> int:
        helpers = [threading.Thread(target=hash_much) for _ in range(self.threads)]
        for helper in helpers:
            helper.start()
        for helper in helpers:
            helper.join()
        if not helpers:
            hash_much()
        return index


def hash_much() -> None:
    for _ in range(20):
        hashlib.sha256(bytes(50_000)).digest()


def let_torch_have_threads(worker: int) -> None:
    torch.set_num_threads(4)


class Unequal(IterableDataset):
    """Each worker has so many samples of its own, and waits for each."""

    def __init__(self, *sizes: int) -> None:
        self.ends = list(itertools.accumulate(sizes, initial=0))

    def __iter__(self) -> Iterator[int]:
        worker, n = share()
        for i in range(self.ends[-1]) if n == 1 else range(*self.ends[worker : worker + 2]):
            time.sleep(0.005)
            yield i


class SlowSampler(Sampler[int]):
    def __init__(self, n: int, seconds: float) -> None:
        self.n, self.seconds = n, seconds

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[int]:
        for index in range(self.n):
            time.sleep(self.seconds)
            yield index


def in_memory() -> TensorDataset:
    return TensorDataset(torch.arange(32_000.0).reshape(2000, 16), torch.arange(2000))


def lists_of(n: int, dataset: Any) -> BatchSampler:
    return BatchSampler(SequentialSampler(dataset), batch_size=n, drop_last=False)


class Texts(Dataset):
    """Of three lengths, each with its number."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"text": torch.ones(5 + index % 3), "number": index}


def padded(samples: list[dict[str, Any]]) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence([each["text"] for each in samples], batch_first=True)


class Lengths(Dataset):
    """Sequences of many lengths, 1 to 100, most of them short."""

    def __len__(self) -> int:
        return 200

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.ones(1 + (37 * index % 200) ** 2 // 402)


def to_longest(samples: list[torch.Tensor]) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)


def to_a_hundred(samples: list[torch.Tensor]) -> torch.Tensor:
    rows = to_longest(samples)
    return torch.nn.functional.pad(rows, (0, 100 - rows.shape[1]))


def by_length() -> list[list[int]]:
    data = Lengths()
    order = sorted(range(len(data)), key=lambda key: len(data[key]))
    return [order[i : i + 10] for i in range(0, len(order), 10)]


def collapse(worker: int) -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def as_objects(samples: list[int]) -> list[list[int]]:
    return [list(range(sample, sample + 100_000)) for sample in samples]


def as_tensor(samples: list[int]) -> torch.Tensor:
    return torch.zeros(len(samples), 100_000) + torch.tensor(samples)[:, None]


def as_tensors(samples: list[int]) -> list[torch.Tensor]:
    return [torch.full((1,), sample) for sample in samples]


class ManyTensors(Dataset):
    """Each sample has 60 tensors, all of them small."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> list[torch.Tensor]:
        return [torch.full((3,), index) for _ in range(60)]


def as_one_tensor(samples: list[list[torch.Tensor]]) -> torch.Tensor:
    return torch.stack([torch.stack(tensors) for tensors in samples])


class Parcel:
    def __init__(self, samples: list[int]) -> None:
        self.inputs = torch.tensor(samples)


class PinnableParcel(Parcel):
    def pin_memory(self) -> "PinnableParcel":
        return self


class Names(Dataset):
    """Reads names, and writes with each the reference count of what it has read."""

    def __init__(self, plain: bool) -> None:
        names = [f"picture {i:09d} of many" for i in range(300_000)]
        self.names = np.array(names) if plain else names

    def __len__(self) -> int:
        return 200

    def __getitem__(self, index: int) -> int:
        return sum(len(name) for name in self.names[1500 * index : 1500 * index + 1500])


class Squared(Dataset):
    def __init__(self, transform: Callable[[int], int]) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return self.transform(index)


def square(x: int) -> int:
    return x * x


LOCK = threading.Lock()


class Locking(Dataset):
    """Needs a lock that a thread of the main process may hold."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        with LOCK:
            return index


class Records(Dataset):
    """Reads numbers of eight bytes from a file that it opens at once, or first in the worker."""

    def __init__(self, lazily: bool) -> None:
        self.path = Path(__file__)
        self.file: Any = None if lazily else self.path.open("rb")

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> int:
        if self.file is None:
            self.file = self.path.open("rb")
        self.file.seek(8 * index)
        return int.from_bytes(self.file.read(8))


class Archived(Dataset):
    """Holds an archive open; where workers share it, a later sample fails, and not by chance."""

    def __init__(self, path: Path, lazily: bool) -> None:
        self.path, self.lazily = path, lazily
        zipfile.ZipFile(path, "w").close()
        self.archive: Any = None if lazily else zipfile.ZipFile(path)

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> int:
        if self.archive is None:
            self.archive = zipfile.ZipFile(self.path)
        if index == 40 and not self.lazily and get_worker_info() is not None:
            raise zipfile.BadZipFile("as where another worker has moved the position")
        return index


class Catalogue(Dataset):
    """Holds 30 MB of texts; ``slim`` leaves them out of what workers are sent."""

    def __init__(self, slim: bool) -> None:
        self.slim, self.paths = slim, [f"train/{i:09d}.jpg" for i in range(1_200_000)]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "paths": None} if self.slim else self.__dict__

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> int:
        return index


class Reader:
    """Has a lock from the beginning, or first where it reads."""

    def __init__(self, lazily: bool) -> None:
        self.lock: Any = None if lazily else threading.Lock()

    def read(self, index: int) -> int:
        self.lock = self.lock or threading.Lock()
        with self.lock:
            return index


class ReadByOne(Dataset):
    def __init__(self, lazily: bool) -> None:
        self.reader = Reader(lazily)

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        return self.reader.read(index)


class OnTheDevice(Dataset):
    """Computes on the device, as far as there is one."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        if not torch.cuda.is_available():  # what torch says (torch/cuda/__init__.py, _lazy_init)
            raise RuntimeError("Cannot re-initialize CUDA in forked subprocess.")
        return (torch.ones(1, device="cuda") * index).item()


class Numbered(IterableDataset):
    """Asks for its worker's number, and may forget that there may be none."""

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        yield from range(info.id, 8, info.num_workers)  # type: ignore[union-attr]


class OnlyIterates(Dataset):
    def __iter__(self) -> Iterator[int]:
        yield from range(8)


class Endless(IterableDataset):
    def __init__(self, shared: bool) -> None:
        self.shared = shared

    def __iter__(self) -> Iterator[int]:
        worker, n = share() if self.shared else (0, 1)
        yield from itertools.count(worker, n)


class Shuffled(Stream):
    """Shuffles its own share, differently in each worker and epoch."""

    def __init__(self, n: int) -> None:
        super().__init__(n, by_stride)

    def __iter__(self) -> Iterator[int]:
        yield from random.sample([*super().__iter__()], len([*super().__iter__()]))


class Constant(IterableDataset):
    """A worker yields eight zeros, of sixteen in all."""

    def __iter__(self) -> Iterator[int]:
        yield from [0] * (16 // share()[1])


class Noise(IterableDataset):
    """Never the same."""

    def __init__(self, each: bool = False) -> None:
        self.each = each

    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in range(40 // (1 if self.each else share()[1])):
            yield torch.rand(3)


class Sieved(Stream):
    def __init__(self) -> None:
        super().__init__(60, by_stride)

    def __iter__(self) -> Iterator[int]:
        yield from (i for i in super().__iter__() if random.random() < 0.7)


class Indexed(Dataset):
    """The same noise whenever a sample is read."""

    def __init__(self) -> None:
        self.rng = random.Random()

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> float:
        self.rng.seed(index)
        return self.rng.random()


class Caching(Dataset):
    """Holds many names, and what it has read: memory grows, and not by copies of pages."""

    def __init__(self) -> None:
        self.names = [f"{i}" for i in range(20_000)]
        self.cache: dict[int, bytes] = {}

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> int:
        self.cache[index] = bytes([index]) * (1 << 20)
        return len(self.names[index])


def spread(worker: int) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[worker % len(cpus)]})


def with_paths(samples: list[int]) -> dict[str, Any]:
    return {"number": torch.tensor(samples), "path": [Path(str(each)) for each in samples]}


def halves(of: int) -> DataLoader:
    """Two samples have so many bytes; the tensor itself holds one number."""
    return loader(TensorDataset(torch.zeros(1).expand(8, of // 8)), workers=1, batch_size=2)


def with_rank(n_per_rank: Callable[[int], int]) -> DataLoader:
    n = n_per_rank(torch.distributed.get_rank())
    return DataLoader(SleepingDataset(n, 0), batch_size=2)


def uneven(n: int = 40) -> list[float]:
    return [0.12 if i % 10 == 2 else 0.003 for i in range(n)]


def twice_the_cpus() -> int:
    return 2 * max(1, int(machine.cpu_allowance()))


def burning_with(workers: int) -> DataLoader:
    return loader(Burning(20 * workers, 0.01), workers=workers, batch_size=2)


def loader(dataset: Any, *, workers: int = 2, batch_size: int | None = 4, **options: Any) -> Any:
    return DataLoader(dataset, batch_size=batch_size, num_workers=workers, **options)


def distributed(epoch: int) -> DataLoader:
    data = SleepingDataset(16, 0)
    sampler: Any = DistributedSampler(data, num_replicas=2, rank=0)
    sampler.set_epoch(epoch)
    return loader(data, workers=0, sampler=sampler)


def evaluated(n: int) -> DataLoader:
    data = SleepingDataset(n, 0)
    sampler: Any = DistributedSampler(data, num_replicas=4, rank=0, shuffle=False)
    return loader(data, workers=0, sampler=sampler, generator=torch.Generator())


SPAWNED = {"multiprocessing_context": "spawn", "persistent_workers": True}


@contextmanager
def few_files() -> Iterator[None]:
    """As with ``ulimit -n``: hardly more open files than there are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (psutil.Process().num_fds() + 90, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def one_cpu() -> Iterator[None]:
    """As with ``taskset``."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


@contextmanager
def busy_thread(lock: Any = LOCK) -> Iterator[None]:
    """Another thread of this process holds the lock."""
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            done.wait()

    thread = threading.Thread(target=hold, name="writes the log")
    thread.start()
    taken.wait()
    try:
        yield
    finally:
        done.set()
        thread.join()


# What has to hold around a pair.
CONDITIONS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "LV309": one_cpu,
    "LV309 torch": one_cpu,
    "LV403": few_files,
    "LV502": busy_thread,
}


def train_with(doctor: Callable[[Any], Any]) -> Any:
    """A training script that sets the epoch, and has the doctor come in before."""
    mine = distributed(0)
    diagnosis = doctor(mine)
    for epoch in range(1, 3):
        mine.batch_sampler.sampler.set_epoch(epoch)  # type: ignore[union-attr]
    return diagnosis


# Each code: the smallest loader that has it, and its cured twin.
PAIRS: dict[str, tuple[Make, Make]] = {
    "LV101": (
        lambda: loader(Stream(16, not_at_all)),
        lambda: loader(Stream(16, by_stride)),
    ),
    "LV101 without end": (
        lambda: loader(Endless(shared=False)),
        lambda: loader(Endless(shared=True)),
    ),
    "LV102": (
        lambda: loader(SizedStream(10, not_at_all)),
        lambda: loader(SizedStream(10, by_stride)),
    ),
    "LV103": (
        lambda: loader(Stream(17, by_floor)),
        lambda: loader(Stream(17, by_stride)),
    ),
    "LV103 noisy": (
        lambda: loader(NoisyStream(17, by_floor)),
        lambda: loader(NoisyStream(17, by_stride)),
    ),
    "LV104": (
        lambda: loader(Stream(22, by_stride), workers=4, drop_last=True),
        lambda: loader(Stream(22, by_batches_of_4), workers=4, drop_last=True),
    ),
    "LV105": (
        lambda: loader(SizedStream(22, by_stride), workers=4),
        lambda: loader(SizedStream(22, by_batches_of_4), workers=4),
    ),
    "LV106": (lambda: loader(Shards(2), workers=3), lambda: loader(Shards(3), workers=3)),
    "LV115": (
        lambda: loader(Stream(32, by_ranges_that_overlap)),
        lambda: loader(Stream(32, by_stride)),
    ),
    "LV115 gaps": (
        lambda: loader(Stream(32, by_every_third)),
        lambda: loader(Stream(32, by_stride)),
    ),
    "LV115 shuffled": (
        lambda: loader(Stream(32, in_an_order_of_its_own)),
        lambda: loader(Stream(32, in_one_order)),
    ),
    "LV107": (
        lambda: loader(Cutting(keep=False), persistent_workers=True),
        lambda: loader(Cutting(keep=True), persistent_workers=True),
    ),
    "LV108": (lambda: distributed(0), lambda: distributed(1)),
    "LV108 padded": (lambda: evaluated(13), lambda: evaluated(12)),
    "LV109": (
        lambda: NaiveResume(SleepingDataset(32, 0), batch_size=2, shuffle=True),
        lambda: StatefulDataLoader(SleepingDataset(32, 0), batch_size=2, shuffle=True),
    ),
    "LV109 begins anew": (
        lambda: RestartingLoader(SleepingDataset(32, 0), batch_size=2),
        lambda: StatefulDataLoader(SleepingDataset(32, 0), batch_size=2),
    ),
    "LV109 at the end": (
        lambda: NaiveResume(SleepingDataset(32, 0), batch_size=2),
        lambda: StatefulDataLoader(SleepingDataset(32, 0), batch_size=2),
    ),
    "LV110": (
        lambda: loader(SleepingDataset(32, 0), workers=0, shuffle=True),
        lambda: loader(SleepingDataset(32, 0), workers=0, sampler=EpochSampler(32)),
    ),
    "LV110 generator": (
        lambda: loader(
            SleepingDataset(32, 0),
            workers=0,
            shuffle=True,
            generator=torch.Generator().manual_seed(3),
        ),
        lambda: loader(SleepingDataset(32, 0), workers=0, sampler=EpochSampler(32)),
    ),
    "LV111": (
        lambda: loader(GloballyNoisy(), batch_size=2, workers=1),
        lambda: loader(NoisyByKey(), batch_size=2, workers=1),
    ),
    "LV111 from a state": (
        lambda: StatefulDataLoader(GloballyNoisy(), batch_size=2, num_workers=1),
        lambda: StatefulDataLoader(NoisyByKey(), batch_size=2, num_workers=1),
    ),
    "LV111 in the main process": (
        lambda: StatefulDataLoader(GloballyNoisy(), batch_size=2),
        lambda: StatefulDataLoader(NoisyByKey(), batch_size=2),
    ),
    "LV112": (
        lambda: StatefulDataLoader(ForgetfulStream(), batch_size=4),
        lambda: StatefulDataLoader(SavedStream(), batch_size=4),
    ),
    "LV112 without a state": (
        lambda: loader(SleepingDataset(48, 0.03), workers=0),
        lambda: loader(SleepingDataset(48, 0.0003), workers=0),
    ),
    "LV113": (
        lambda: StatefulDataLoader(SlowToSave(80, 0), batch_size=4, num_workers=1),
        lambda: StatefulDataLoader(
            SlowToSave(80, 0), batch_size=4, num_workers=1, snapshot_every_n_steps=1000
        ),
    ),
    "LV114": (
        lambda: loader(SortedClasses(10), batch_size=20),
        lambda: loader(SortedClasses(500), batch_size=20),
    ),
    "LV201": (lambda: loader(Noisy(lazily=False)), lambda: loader(Noisy(lazily=True))),
    "LV201 persistent": (
        lambda: loader(Noisy(lazily=False), persistent_workers=True),
        lambda: loader(Noisy(lazily=True), persistent_workers=True),
    ),
    "LV201 one worker": (
        lambda: loader(Noisy(lazily=False), workers=1, shuffle=True),
        lambda: loader(Noisy(lazily=True), workers=1, shuffle=True),
    ),
    "LV201 of a module": (
        lambda: loader(NoisyOfModule()),
        lambda: loader(Noisy(lazily=True)),
    ),
    "LV201 of collate_fn": (
        lambda: loader(SleepingDataset(12, 0), collate_fn=AddNoise(lazily=False)),
        lambda: loader(SleepingDataset(12, 0), collate_fn=AddNoise(lazily=True)),
    ),
    "LV203": (
        lambda: loader(GloballyNoisy(), worker_init_fn=seed_by_number),
        lambda: loader(GloballyNoisy(), worker_init_fn=seed_by_torch),
    ),
    "LV204": (
        lambda: loader(Scheduled(shared=False), persistent_workers=True),
        lambda: loader(Scheduled(shared=True), persistent_workers=True),
    ),
    "LV205": (
        lambda: loader(Evaluation(), workers=0),
        lambda: loader(Evaluation(), workers=0, generator=torch.Generator()),
    ),
    "LV206": (lambda: loader(NoisyWalk(number_of)), lambda: loader(NoisyWalk(seed_of_torch))),
    "LV207": (lambda: loader(NoisyAlike(False)), lambda: loader(NoisyAlike(True))),
    "LV206 kept": (
        lambda: loader(NoisyWalk(number_of, keep=True)),
        lambda: loader(NoisyWalk(drawn, keep=True)),
    ),
    "LV206 persistent": (
        lambda: loader(NoisyWalk(seed_of_torch), persistent_workers=True),
        lambda: loader(NoisyWalk(drawn), persistent_workers=True),
    ),
    "LV301": (
        lambda: loader(SleepingDataset(10, 0.04), workers=0, batch_size=2),
        lambda: loader(SleepingDataset(10, 0.04), workers=2, batch_size=2),
    ),
    "LV302": (
        lambda: loader(TensorDataset(*[torch.arange(600)] * 12), workers=1),
        lambda: loader(TensorDataset(*[torch.arange(600)] * 12), workers=0),
    ),
    "LV303": (
        lambda: loader(SleepingDataset(40, uneven()), workers=4, batch_size=1),
        lambda: loader(SleepingDataset(40, uneven()), workers=4, batch_size=1, in_order=False),
    ),
    "LV304": (
        lambda: loader(SleepingDataset(36, 0), worker_init_fn=begin_slowly),
        lambda: loader(
            SleepingDataset(36, 0), worker_init_fn=begin_slowly, persistent_workers=True
        ),
    ),
    "LV305": (
        lambda: burning_with(twice_the_cpus()),
        lambda: loader(Burning(24, 0.01), workers=1, batch_size=2),
    ),
    "LV305 affinity": (
        lambda: loader(SleepingDataset(8, 0), worker_init_fn=collapse),
        lambda: loader(SleepingDataset(8, 0)),
    ),
    "LV306": (
        lambda: loader(SleepingDataset(24, 0), workers=1, collate_fn=as_objects),
        lambda: loader(SleepingDataset(24, 0), workers=1, collate_fn=as_tensor),
    ),
    "LV306 tensors": (
        lambda: loader(ManyTensors(200)),
        lambda: loader(ManyTensors(200), collate_fn=as_one_tensor),
    ),
    "LV306 pinning": (
        lambda: loader(SleepingDataset(8, 0), collate_fn=Parcel, pin_memory=True),
        lambda: loader(SleepingDataset(8, 0), collate_fn=PinnableParcel, pin_memory=True),
    ),
    "LV308": (
        lambda: loader(ReadingAhead(24), workers=1, batch_size=1, worker_init_fn=switch_seldom),
        lambda: loader(ReadingAhead(24), workers=1, batch_size=1, worker_init_fn=switch_soon),
    ),
    "LV309": (
        lambda: loader(Threaded(160, threads=8), workers=1),
        lambda: loader(Threaded(160, threads=0), workers=1),
    ),
    "LV309 torch": (
        lambda: loader(Threaded(160, 8), workers=1, worker_init_fn=let_torch_have_threads),
        lambda: loader(Threaded(160, 0), workers=1, worker_init_fn=let_torch_have_threads),
    ),
    "LV310": (lambda: loader(Unequal(184, 16)), lambda: loader(Unequal(100, 100))),
    "LV311": (
        lambda: loader(SleepingDataset(160, np.linspace(0.001, 0.02, 160).tolist())),
        lambda: loader(SleepingDataset(160, np.linspace(0.001, 0.02, 160).tolist()), shuffle=True),
    ),
    "LV312": (
        lambda: loader(SleepingDataset(60, 0.001), sampler=SlowSampler(60, 0.005)),
        lambda: loader(SleepingDataset(60, 0.001), sampler=SlowSampler(60, 0)),
    ),
    "LV314": (
        lambda: loader(in_memory(), batch_size=64),
        lambda: loader(in_memory(), batch_size=None, sampler=lists_of(64, in_memory())),
    ),
    "LV315": (
        lambda: loader(Catalogue(slim=False), **SPAWNED),
        lambda: loader(Catalogue(slim=True), **SPAWNED),
    ),
    "LV401": (lambda: loader(Names(plain=False)), lambda: loader(Names(plain=True))),
    "LV402": (
        lambda: halves(of=shutil.disk_usage("/dev/shm").total),
        lambda: halves(of=1024),
    ),
    "LV403": (
        lambda: loader(SleepingDataset(400, 0), batch_size=100, collate_fn=as_tensors),
        lambda: loader(SleepingDataset(400, 0), batch_size=100),
    ),
    "LV501": (
        lambda: loader(Squared(lambda x: x * x), workers=1, **SPAWNED),
        lambda: loader(Squared(square), workers=1, **SPAWNED),
    ),
    "LV501 collate": (
        lambda: loader(Squared(square), workers=1, collate_fn=lambda x: x, **SPAWNED),
        lambda: loader(Squared(square), workers=1, collate_fn=as_tensor, **SPAWNED),
    ),
    "LV502": (
        lambda: loader(Locking(), workers=1),
        lambda: loader(Locking(), workers=1, multiprocessing_context="forkserver"),
    ),
    "LV503": (lambda: loader(Records(lazily=False)), lambda: loader(Records(lazily=True))),
    "LV504": (
        lambda: loader(OnTheDevice(), workers=1),
        lambda: loader(SleepingDataset(4, 0), workers=1),
    ),
    "LV508": (
        lambda: loader(ReadByOne(lazily=False), workers=1, **SPAWNED),
        lambda: loader(ReadByOne(lazily=True), workers=1, **SPAWNED),
    ),
    "LV602": (lambda: loader(Texts()), lambda: loader(Texts(), collate_fn=padded)),
    "LV603": (
        lambda: loader(Lengths(), batch_size=10, collate_fn=to_longest),
        lambda: loader(Lengths(), batch_size=10, collate_fn=to_a_hundred),
    ),
    "LV604": (
        lambda: loader(Lengths(), batch_size=10, collate_fn=to_longest),
        lambda: DataLoader(Lengths(), batch_sampler=by_length(), collate_fn=to_longest),
    ),
    "LV604 fixed": (
        lambda: loader(Lengths(), batch_size=10, collate_fn=to_a_hundred),
        lambda: DataLoader(Lengths(), batch_sampler=by_length(), collate_fn=to_longest),
    ),
    "LV601": (lambda: loader(Numbered(), workers=0), lambda: loader(Numbered(), workers=2)),
    "LV601 style": (
        lambda: loader(OnlyIterates(), workers=0, sampler=[0]),
        lambda: loader(Stream(8, by_stride), workers=0),
    ),
}

# Nothing is wrong with these.
HEALTHY: dict[str, Make] = {
    "in order, no workers": lambda: loader(SleepingDataset(10, 0), workers=0),
    "in order, two workers": lambda: loader(SleepingDataset(10, 0)),
    "shuffled": lambda: loader(SleepingDataset(10, 0), shuffle=True),
    "shuffled by a generator": lambda: loader(
        SleepingDataset(10, 0), shuffle=True, generator=torch.Generator().manual_seed(3)
    ),
    "drop_last": lambda: loader(SleepingDataset(10, 0), drop_last=True),
    "no batches": lambda: loader(SleepingDataset(7, 0), batch_size=None),
    "a batch sampler": lambda: DataLoader(
        SleepingDataset(10, 0), batch_sampler=BatchSampler(RandomSampler(range(10)), 3, False)
    ),
    "a list as sampler": lambda: loader(SleepingDataset(10, 0), sampler=[3, 1, 1, 2]),
    "drawn with replacement": lambda: loader(
        SleepingDataset(10, 0), sampler=WeightedRandomSampler([0.1] * 10, 12)
    ),
    "persistent workers": lambda: loader(SleepingDataset(12, 0.002), persistent_workers=True),
    "slow samples, many batches": lambda: loader(SleepingDataset(100, 0.005)),
    "slow samples, many sleeping workers": lambda: loader(
        SleepingDataset(160, 0.01), workers=4, persistent_workers=True
    ),
    "tensors": lambda: loader(TensorDataset(torch.rand(300, 5), torch.arange(300)), workers=0),
    "a subset": lambda: loader(Subset(SleepingDataset(30, 0), range(3, 13))),
    "joined": lambda: loader(
        ConcatDataset([SleepingDataset(5, 0), SleepingDataset(6, 0)]), workers=0
    ),
    "a stream, no workers": lambda: loader(Stream(11, not_at_all), workers=0),
    "a stream, one worker": lambda: loader(Stream(11, not_at_all), workers=1),
    "a shared stream": lambda: loader(Stream(11, by_stride)),
    "a shared stream that is shuffled": lambda: loader(Shuffled(24)),
    "shared streams, one after another": lambda: loader(
        ChainDataset([Stream(8, by_stride), Stream(9, by_stride)])
    ),
    "a stream of equal samples": lambda: loader(Constant()),
    "a stream of noise": lambda: loader(Noise()),
    "a stream of noise, as much for each worker": lambda: loader(Noise(each=True)),
    "a stream that leaves out some": lambda: loader(Sieved()),
    "noise that depends on the index": lambda: loader(Indexed()),
    "a stream whose noise depends on the index": lambda: loader(NoisyByIndex()),
    "an order that all workers agree on": lambda: loader(NoisyWalk(lambda info: 0)),
    "a cache in each worker": lambda: loader(Caching()),
    "each worker on a CPU of its own": lambda: loader(SleepingDataset(8, 0), worker_init_fn=spread),
    "words beside tensors, to be pinned": lambda: loader(
        SleepingDataset(8, 0), collate_fn=with_paths, pin_memory=True
    ),
    "a stream without batches": lambda: loader(Stream(6, by_stride), batch_size=None),
    "a stream that is longer than its len()": lambda: loader(SizedStream(11, by_stride), workers=1),
    "resumable": lambda: StatefulDataLoader(
        SleepingDataset(20, 0), batch_size=2, num_workers=1, shuffle=True
    ),
    "a stream of sorted classes, to be evaluated": lambda: loader(
        SortedClasses(0, shuffles=False), workers=0, batch_size=20
    ),
    "noise from the global generators": lambda: loader(GloballyNoisy()),
    "a batch of its own class": lambda: loader(SleepingDataset(10, 0), collate_fn=PinnableParcel),
    "words": lambda: loader([f"word {i}" for i in range(10)]),
    "a lambda, forked": lambda: loader(Squared(lambda x: x * x)),
    "spawned": lambda: loader(Squared(square), workers=1, **SPAWNED),
    "out of order": lambda: loader(SleepingDataset(20, uneven(20)), in_order=False),
    "nothing in it": lambda: loader([], workers=0),
}
