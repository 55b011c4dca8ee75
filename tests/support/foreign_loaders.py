"""Loaders that are none of torch's, each of the shape of a library's: small, and without it.

Those of the libraries themselves are in tests/strangers.
"""

import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset


def batch(number: int, size: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    """Images and labels."""
    time.sleep(0.002)
    return torch.full((size, 3, 2), float(number)), torch.arange(size)


class Generating:
    """As Ray Data's iterable: each iteration is a generator."""

    def __init__(self, n: int = 5) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[Any]:
        for number in range(self.n):
            yield batch(number)


class OwnIterator:
    """As DALI's: it is its own iterator, begins anew after its end, and gives a dict a device."""

    def __init__(self, n: int = 5) -> None:
        self.n, self.taken = n, 0

    def __iter__(self) -> "OwnIterator":
        return self

    def __next__(self) -> list[dict[str, torch.Tensor]]:
        if self.taken == self.n:
            self.taken = 0
            raise StopIteration
        self.taken += 1
        images, labels = batch(self.taken)
        return [{"data": images, "label": labels}, {"data": images, "label": labels}]


class _Nodes:
    """Looks ahead by taking from itself."""

    def __init__(self, n: int) -> None:
        self.n, self.ahead = n, None

    def reset(self) -> None:
        self.left = iter(range(self.n))

    def __iter__(self) -> "_Nodes":
        return self

    def __next__(self) -> Any:
        if self.ahead is not None:
            item, self.ahead = self.ahead, None
            return item
        return batch(next(self.left))

    def has_next(self) -> bool:
        self.ahead = next(self, None)
        return self.ahead is not None


class Nodes:
    """As torchdata.nodes' Loader: one iterator for all epochs, which it resets."""

    def __init__(self, n: int = 5) -> None:
        self.iterator = _Nodes(n)

    def __iter__(self) -> _Nodes:
        self.iterator.reset()
        assert self.iterator.has_next()
        return self.iterator


class Piped(IterableDataset[Any]):
    """As webdataset's WebLoader: stages, of which the first is a DataLoader."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.pipeline = [DataLoader(*args, **options)]

    def __iter__(self) -> Iterator[Any]:
        yield from self.pipeline[0]


class Combined:
    """As Lightning's CombinedLoader: its own iterator over several DataLoaders."""

    def __init__(self, *loaders: DataLoader[Any]) -> None:
        self.loaders = loaders

    def __iter__(self) -> "Combined":
        self.iterators = [iter(loader) for loader in self.loaders]
        return self

    def __next__(self) -> Any:
        return [next(iterator) for iterator in self.iterators]


class InBackground:
    """As prefetching wrappers: a thread takes the batches of a DataLoader, or of any iterable."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        taken: queue.Queue[Any] = queue.Queue(2)

        def take() -> None:
            try:
                for each in self.loader:
                    taken.put(each)
                taken.put(None)
            except BaseException as error:
                taken.put(error)

        thread = threading.Thread(target=take)
        thread.start()
        return self.deliver(taken, thread)

    @staticmethod
    def deliver(taken: "queue.Queue[Any]", thread: threading.Thread) -> Iterator[Any]:
        while isinstance(each := taken.get(), tuple | list | torch.Tensor):
            yield each
        thread.join()
        if each is not None:
            raise each


class Ahead(DataLoader[Any]):
    """As MONAI's ThreadDataLoader: torch's iterator is made here, and a thread asks it."""

    def __iter__(self) -> Iterator[Any]:
        yield from InBackground(super().__iter__())


class ThreadBacked(DataLoader[Any]):
    """As graph libraries': a DataLoader whose iterator is none of torch's."""

    def _get_iterator(self) -> Any:
        return InBackground(map(batch, range(5))).__iter__()


class _Wrapped:
    def __init__(self, iterator: Iterator[Any]) -> None:
        self.iterator = iterator

    def __iter__(self) -> "_Wrapped":
        return self

    def __next__(self) -> Any:
        return next(self.iterator)


class WrappedIterator(DataLoader[Any]):
    """A DataLoader that puts an iterator of its own before torch's."""

    def _get_iterator(self) -> Any:
        return _Wrapped(super()._get_iterator())


class Streaming(DataLoader[Any]):
    """As mosaicml-streaming's StreamingDataLoader: counts what torch's iterator delivers."""

    def __iter__(self) -> Iterator[Any]:
        self.n_samples = 0
        for each in super().__iter__():
            self.n_samples += len(each)
            yield each


class OwnLoop(DataLoader[Any]):
    """A DataLoader that iterates without asking torch."""

    def __iter__(self) -> Iterator[Any]:
        yield from map(batch, range(5))


class ReadyMade(IterableDataset[Any]):
    """A stream of ready-made batches, for batch_size=None."""

    def __init__(self, n: int = 3, size: int = 4) -> None:
        self.n, self.size = n, size

    def __iter__(self) -> Iterator[Any]:
        for number in range(self.n):
            names = [f"{number}/{i}" for i in range(self.size)]
            yield {"__key__": names, "image": torch.zeros(self.size, 3, 2), "class": names}
