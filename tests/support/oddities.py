"""Datasets, samplers and functions of the less usual kinds, for spawned workers to import."""

import os
import random
import stat
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from probes import Keys, Stream, sample


def picture(key: Any) -> dict[str, Any]:
    return {**sample(key), "image": Image.new("RGB", (2, 2), (int(key), 1, 2))}


class Parcel:
    """A batch of a class of its own, which can pin itself."""

    def __init__(self, samples: list[Any]) -> None:
        self.samples = samples

    def pin_memory(self) -> "Parcel":
        return self


def parcel(samples: list[Any]) -> Parcel:
    return Parcel(samples)


def as_tensors(samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Of what is in a sample, only that which fits into tensors."""
    return {
        "key": torch.tensor([each["key"] for each in samples]),
        "worker": torch.tensor([each["worker"] for each in samples]),
        "draws": torch.tensor([each["draws"] for each in samples], dtype=torch.float64),
    }


def nothing(samples: list[Any]) -> None:
    """A collate_fn that forgot its return."""


def lazily(samples: list[Any]) -> Iterator[Any]:
    yield from samples


def many_times(samples: list[Any]) -> list[int]:
    return [each["key"] for each in samples] * 20_000


def warn_of_the_caller(samples: list[Any]) -> list[Any]:
    warnings.warn("deprecated: collate by hand", stacklevel=2)
    return samples


def divide(samples: list[Any]) -> None:
    _ = 1 / 0


class Forgetful(list):  # type: ignore[type-arg]
    """A list that does not know how long it is."""

    def __len__(self) -> int:
        raise RuntimeError("ask me later")


def one_by_one(samples: list[Any]) -> list[Any]:
    return [*list.__iter__(samples)]


class ReadsForgetfully(Keys):
    def __getitems__(self, keys: list[Any]) -> list[Any]:
        return Forgetful([self[key] for key in keys])


class Mute:
    """A key that has no repr."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        raise RuntimeError("no words")


class Hostile(Mute):
    """A key that cannot be compared, measured, hashed, or taken for a number."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("incomparable")

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        raise RuntimeError("immeasurable")

    def __index__(self) -> int:
        raise RuntimeError("no number")

    def __bool__(self) -> bool:
        raise RuntimeError("undecided")


class Numbered(Dataset[Any]):
    """Read by keys that have a ``number``."""

    def __getitem__(self, key: Mute) -> dict[str, Any]:
        return sample(key.number)


class Draining:
    """A batch sampler whose index lists are generators that draw as they go.

    The sampler's draws and those of the samples take turns.
    """

    def __iter__(self) -> Iterator[Iterator[int]]:
        for start in (0, 3, 6):
            yield (start + random.randrange(3) for _ in range(3))


class Sets:
    def __iter__(self) -> Iterator[set[int]]:
        yield {5, 900, 31}
        yield {1}


class EachIsOwn:
    """Looks at its loader while it is drawn from, as samplers that know their loader may."""

    def __init__(self) -> None:
        self.loader: Any = None
        self.init: Any = None
        self.saw: list[bool] = []

    def __iter__(self) -> Iterator[list[int]]:
        for key in range(6):
            self.saw.append(self.loader.batch_sampler is self)
            self.saw.append(self.loader.worker_init_fn is self.init)
            yield [key]


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        key = 0
        while True:
            yield sample(key)
            key += 1


class FailsToBegin(Stream):
    def __iter__(self) -> Iterator[Any]:
        raise LookupError("no such bucket")


class FailsLater(Stream):
    def __iter__(self) -> Iterator[Any]:
        yield sample(0)
        yield sample(1)
        yield sample(2)
        raise LookupError("the bucket leaks")


class FailsInAChain(Keys):
    """Fails with an error that has a cause, raised below a function of its own."""

    def __getitem__(self, key: int) -> Any:
        if key == 4:
            self.read(key)
        return super().__getitem__(key)

    def read(self, key: int) -> None:
        try:
            _ = {}[key]
        except KeyError as error:
            raise RuntimeError(f"no file for {key}") from error


class Slow(Keys):
    """Reading one sample takes longer than its loader's timeout."""

    def __getitem__(self, key: int) -> Any:
        if key == 2:
            time.sleep(1.5)
        return super().__getitem__(key)


class WarnsOfItsReader(Keys):
    def __getitem__(self, key: int) -> Any:
        warnings.warn(f"sample {key} is read the old way", DeprecationWarning, stacklevel=2)
        return super().__getitem__(key)


class Resumable(IterableDataset[Any]):
    """Stateful: its iterator is itself, as torchdata's examples are made."""

    def __init__(self, n: int) -> None:
        self.n, self.at = n, 0

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        own, of = (0, 1) if info is None else (info.id, info.num_workers)
        while self.at < self.n:
            self.at += 1
            if (self.at - 1) % of == own:
                yield sample(self.at - 1)
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class ResumableKeys(Keys):
    """Map-style, with a state of its own: how often it was read."""

    reads = 0

    def __getitem__(self, key: Any) -> Any:
        self.reads += 1
        return super().__getitem__(key)

    def state_dict(self) -> dict[str, int]:
        return {"reads": self.reads}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.reads = state["reads"]


class Moving(DataLoader[Any]):
    """Moves each batch to the device and skips the first, as other libraries' loaders do."""

    def __iter__(self) -> Any:
        for i, batch in enumerate(super().__iter__()):
            if i > 0:
                yield {"moved": True, "batch": batch}


class Zipped:
    """Not a DataLoader: builds several anew in each pass, and yields from all at once."""

    def __init__(self, *datasets: Dataset[Any], **settings: Any) -> None:
        self.datasets, self.settings = datasets, settings

    def __iter__(self) -> Iterator[Iterable[Any]]:
        loaders = [DataLoader(dataset, **self.settings) for dataset in self.datasets]
        return zip(*loaders, strict=True)


def refuse_in_words(worker_id: int) -> None:
    raise LookupError(f"worker {worker_id} of {get_worker_info().num_workers} has no licence")


class ClosesFiles(Keys):
    """Closes all files that it finds open, then opens its own, as a daemon does."""

    def __init__(self, n: int, own: Path) -> None:
        super().__init__(n)
        self.own = own
        self.numbers: list[int] = []

    def __getitem__(self, key: int) -> Any:
        if not self.numbers:
            for number in range(3, 1024):
                with suppress(OSError):
                    if stat.S_ISREG(os.fstat(number).st_mode):
                        os.close(number)
                        self.numbers.append(number)
            for _ in self.numbers:
                os.open(self.own, os.O_RDWR | os.O_CREAT)
        return key, self.own.stat().st_size


class Stuck(Keys):
    """Reading sample ``at`` says so in a file, and never ends."""

    def __init__(self, n: int, at: int, sign: Path) -> None:
        super().__init__(n)
        self.at, self.sign = at, sign

    def __getitem__(self, key: int) -> Any:
        if key == self.at:
            time.sleep(0.3)
            self.sign.touch()
            time.sleep(600)
        return super().__getitem__(key)
