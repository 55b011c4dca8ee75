"""Loaders for the doctor beside those on the pages of its codes: other sick ones, and healthy ones.

In a module of its own, because workers started with spawn or forkserver import classes by name.
"""

import itertools
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import (
    BatchSampler,
    ChainDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
)
from torchdata.stateful_dataloader import StatefulDataLoader

from loaderviz.course.datasets import SleepingDataset
from loaderviz.course.datasets.shuffling import shuffled
from streams import Endless
from streams import worker as share

Make = Callable[[], DataLoader]


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


class SortedClasses(IterableDataset):
    """Ten classes, one after another, shuffled by a buffer; each worker has its share."""

    def __init__(self, buffer_size: int) -> None:
        self.buffer_size = buffer_size

    def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
        worker, n = share()
        pairs = ((torch.tensor([label, i]), label) for label in range(10) for i in range(100))
        return shuffled(itertools.islice(pairs, worker, None, n), self.buffer_size)


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


class OfTwelve(Dataset):
    def __len__(self) -> int:
        return 12


class NoisyOfModule(OfTwelve):
    """Adds noise from a generator of this module."""

    def __getitem__(self, index: int) -> float:
        return index + RNG.random()


class Noisy(OfTwelve):
    """Adds noise from a generator that it makes at once, or first in the worker that needs it."""

    def __init__(self, lazily: bool) -> None:
        self.rng = None if lazily else np.random.default_rng(0)

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


class NoisyByKey(OfTwelve):
    """The noise of a sample is always the same."""

    def __getitem__(self, index: int) -> float:
        return index + np.random.default_rng([0, index]).random()


class GloballyNoisy(OfTwelve):
    def __getitem__(self, index: int) -> float:
        return index + np.random.random() + torch.rand(()).item() + random.random()


def seed_by_torch(worker: int) -> None:
    np.random.seed(torch.initial_seed() % 2**32)


class SlowSampler(Sampler[int]):
    def __init__(self, n: int, seconds: float) -> None:
        self.n, self.seconds = n, seconds

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[int]:
        for index in range(self.n):
            time.sleep(self.seconds)
            yield index


def collapse(worker: int) -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


class ManyTensors(Dataset):
    """Each sample has 30 tensors, all of them small."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> list[torch.Tensor]:
        return [torch.full((3,), index) for _ in range(30)]


class Parcel:
    def __init__(self, samples: list[int]) -> None:
        self.inputs = torch.tensor(samples)


class PinnableParcel(Parcel):
    def pin_memory(self) -> "PinnableParcel":
        return self


class Squared(Dataset):
    def __init__(self, transform: Callable[[int], int]) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return self.transform(index)


def square(x: int) -> int:
    return x * x


class OnTheDevice(Dataset):
    """Computes on the device, as far as there is one."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        if not torch.cuda.is_available():  # what torch says (torch/cuda/__init__.py, _lazy_init)
            raise RuntimeError("Cannot re-initialize CUDA in forked subprocess.")
        return (torch.ones(1, device="cuda") * index).item()


class OnlyIterates(Dataset):
    def __iter__(self) -> Iterator[int]:
        yield from range(8)


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

    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in range(40 // share()[1]):
            yield torch.rand(3)


class Sieved(Stream):
    def __init__(self) -> None:
        super().__init__(60, by_stride)

    def __iter__(self) -> Iterator[int]:
        yield from (i for i in super().__iter__() if random.random() < 0.7)


class Indexed(OfTwelve):
    """The same noise whenever a sample is read."""

    def __init__(self) -> None:
        self.rng = random.Random()

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


def uneven(n: int = 40) -> list[float]:
    return [0.12 if i % 10 == 2 else 0.003 for i in range(n)]


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


def train_with(doctor: Callable[[Any], Any]) -> Any:
    """A training script that sets the epoch, and has the doctor come in before."""
    mine = distributed(0)
    diagnosis = doctor(mine)
    for epoch in range(1, 3):
        mine.batch_sampler.sampler.set_epoch(epoch)  # type: ignore[union-attr]
    return diagnosis


class Drawn:
    """A sampler that draws its keys when it is made; ``once``: and gives its one iterator."""

    def __init__(self, keys: Any, *, once: bool) -> None:
        self.keys = iter(keys) if once else list(keys)

    def __iter__(self) -> Iterator[int]:
        return iter(self.keys)

    def __len__(self) -> int:
        return 32


# Each code has a page with a sick and a cured loader. Here are forms of it that no page shows: the
# sick loader, and a cured one where it is well for another reason than that of the page.
# LV504 takes a GPU to be run as its page is.
VARIANTS: dict[str, tuple[Make, ...]] = {
    "LV101 without end": (lambda: loader(Endless(share=False)),),
    "LV103 noisy": (lambda: loader(NoisyStream(17, by_floor)),),
    "LV108 padded": (lambda: evaluated(13), lambda: evaluated(12)),
    "LV124 by its iterator": (
        lambda: loader(range(32), sampler=Drawn(range(32), once=True)),
        lambda: loader(range(32), sampler=Drawn(range(32), once=False)),
    ),
    "LV109 by number": (lambda: NaiveResume(SleepingDataset(32, 0), batch_size=2, shuffle=True),),
    "LV109 at the end": (lambda: NaiveResume(SleepingDataset(32, 0), batch_size=2),),
    "LV110 generator": (
        lambda: loader(
            SleepingDataset(32, 0),
            workers=0,
            shuffle=True,
            generator=torch.Generator().manual_seed(3),
        ),
    ),
    "LV111 from a state": (
        lambda: StatefulDataLoader(GloballyNoisy(), batch_size=2, num_workers=1),
    ),
    "LV111 in the main process": (lambda: StatefulDataLoader(GloballyNoisy(), batch_size=2),),
    "LV112 without a state": (lambda: loader(SleepingDataset(48, 0.02), workers=0),),
    "LV115 overlaps": (lambda: loader(Stream(32, by_ranges_that_overlap)),),
    "LV115 gaps": (lambda: loader(Stream(32, by_every_third)),),
    "LV201 persistent": (lambda: loader(Noisy(lazily=False), persistent_workers=True),),
    "LV201 one worker": (
        lambda: loader(Noisy(lazily=False), workers=1, shuffle=True),
        lambda: loader(Noisy(lazily=True), workers=1, shuffle=True),
    ),
    "LV201 of a module": (lambda: loader(NoisyOfModule()),),
    "LV201 of collate_fn": (
        lambda: loader(SleepingDataset(12, 0), collate_fn=AddNoise(lazily=False)),
    ),
    "LV206 kept": (lambda: loader(NoisyWalk(number_of, keep=True)),),
    "LV206 persistent": (
        lambda: loader(NoisyWalk(seed_of_torch), persistent_workers=True),
        lambda: loader(NoisyWalk(drawn), persistent_workers=True),
    ),
    "LV305 affinity": (lambda: loader(SleepingDataset(8, 0), worker_init_fn=collapse),),
    "LV306 tensors": (lambda: loader(ManyTensors(120)),),
    "LV306 pinning": (
        lambda: loader(SleepingDataset(8, 0), collate_fn=Parcel, pin_memory=True),
        lambda: loader(SleepingDataset(8, 0), collate_fn=PinnableParcel, pin_memory=True),
    ),
    "LV501 collate": (
        lambda: loader(Squared(square), workers=1, collate_fn=lambda x: x, **SPAWNED),
    ),
    "LV504": (lambda: loader(OnTheDevice(), workers=1),),
    "LV601 style": (lambda: loader(OnlyIterates(), workers=0, sampler=[0]),),
}

# Nothing is wrong with these.
HEALTHY: dict[str, Make] = {
    "a subset, in batches of a sampler": lambda: DataLoader(
        Subset(TensorDataset(torch.rand(30, 5), torch.arange(30)), range(3, 13)),
        batch_sampler=BatchSampler(RandomSampler(range(10)), 3, drop_last=True),
    ),
    "words, and no batches": lambda: loader(
        [f"word {i}" for i in range(7)], workers=1, batch_size=None
    ),
    "drop_last, and workers that stay": lambda: loader(
        Squared(lambda x: x * x),
        workers=1,
        batch_size=3,
        drop_last=True,
        shuffle=True,
        persistent_workers=True,
    ),
    "shuffled by a generator": lambda: loader(
        SleepingDataset(10, 0), shuffle=True, generator=torch.Generator().manual_seed(3)
    ),
    "a list as sampler": lambda: loader(SleepingDataset(10, 0), workers=1, sampler=[3, 1, 1, 2]),
    "drawn with replacement": lambda: loader(
        SleepingDataset(10, 0), workers=1, sampler=WeightedRandomSampler([0.1] * 10, 12)
    ),
    "slow samples, many sleeping workers": lambda: loader(
        SleepingDataset(160, 0.01), workers=4, persistent_workers=True
    ),
    "a stream, one worker": lambda: loader(Stream(11, not_at_all), workers=1),
    "a shared stream that is shuffled": lambda: loader(Shuffled(24)),
    "shared streams, one after another": lambda: loader(
        ChainDataset([Stream(8, by_stride), Stream(9, by_stride)])
    ),
    "a stream of equal samples": lambda: loader(Constant()),
    "a stream of noise": lambda: loader(Noise()),
    "a stream that leaves out some": lambda: loader(Sieved()),
    "noise that depends on the index": lambda: loader(Indexed()),
    "a stream whose noise depends on the index": lambda: loader(NoisyByIndex()),
    "a cache in each worker": lambda: loader(Caching()),
    "each worker on a CPU of its own": lambda: loader(SleepingDataset(8, 0), worker_init_fn=spread),
    "words beside tensors, to be pinned": lambda: loader(
        SleepingDataset(8, 0), collate_fn=with_paths, pin_memory=True
    ),
    "a stream that is longer than its len()": lambda: loader(SizedStream(11, by_stride), workers=1),
    "workers that seed NumPy from torch": lambda: loader(
        GloballyNoisy(), worker_init_fn=seed_by_torch
    ),
    "a generator in each epoch, seeded by torch": lambda: loader(NoisyWalk(seed_of_torch)),
    "out of order": lambda: loader(SleepingDataset(20, uneven(20)), in_order=False),
    "nothing in it": lambda: loader([], workers=0),
}
