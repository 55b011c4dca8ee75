"""Changes a copy of a loader so that it also tells which samples its batches hold.

It uses only public parts of torch: a ``collate_fn`` around the loader's own, which sees the samples
of a batch in the process that has read them, and a sampler around the loader's own.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from torch.utils.data import BatchSampler, DataLoader, IterableDataset

from loaderviz._contents.deliveries import numbers_of_samples
from loaderviz.errors import LoaderVizError
from loaderviz.loaders.content_hash import SampleIdentifier, content_number


class Note(NamedTuple):
    """What a batch held: a number of each sample and, where these are hashes, that of the batch."""

    numbers: Any
    batch: int | None = None


class NotingCollate:
    """A ``collate_fn`` that returns what the loader's own does, and a ``Note``.

    Without an identifier, the numbers of samples are the hashes of what they hold.
    """

    def __init__(
        self,
        collate_fn: Callable[[Any], Any],
        identifier: SampleIdentifier | None,
        *,
        is_batched: bool,
    ) -> None:
        self._collate_fn = collate_fn
        self._identifier = identifier
        self._is_batched = is_batched

    def __call__(self, data: Any) -> tuple[Any, Note]:
        """Note what ``data`` holds, and collate it.

        Raises:
            LoaderVizError: for a batch that is no list of samples, or an unidentifiable sample.
            Exception: whatever the loader's own ``collate_fn`` raises, unchanged.
        """
        if self._identifier is None:
            numbers = numbers_of_samples(data, batched=self._is_batched)
            batch = self._collate_fn(data)
            return batch, Note(numbers, content_number(batch))
        samples = data if self._is_batched else [data]
        if not isinstance(samples, list):
            raise LoaderVizError(
                f"the dataset returned a {type(samples).__name__} for a list of keys, so key= has "
                "no samples to look at: leave key out, and samples are known by their keys"
            )
        identify = self._identifier.keys_and_numbers
        identified = [number for sample in samples for _, number in identify(sample)]
        return self._collate_fn(data), Note(np.array(identified, np.int64))


class LeftoverSampler:
    """Draws from a sampler, and keeps the keys that are left over after the last full batch.

    Attributes:
        leftover: these keys, once the sampler is used up; empty before.
    """

    def __init__(self, sampler: Any, batch_size: int) -> None:
        self._sampler, self._batch_size = sampler, batch_size
        self.leftover: list[Any] = []

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        self.leftover = []
        last_keys: deque[Any] = deque(maxlen=self._batch_size)
        n = 0
        for key in self._sampler:
            n += 1
            last_keys.append(key)
            yield key
        n_left = n % self._batch_size
        self.leftover = list(last_keys)[len(last_keys) - n_left :]


def is_iterable(loader: DataLoader[Any]) -> bool:
    """Whether the loader's dataset is iterable-style."""
    return isinstance(loader.dataset, IterableDataset)


def note_samples(copied: DataLoader[Any], identifier: SampleIdentifier | None) -> None:
    """Make a copy of a loader deliver each batch with a ``Note``.

    What ``drop_last`` takes of an iterable-style dataset comes, too.
    """
    is_batched = copied.batch_sampler is not None
    noting = NotingCollate(copied.collate_fn, identifier, is_batched=is_batched)
    copied.__dict__["collate_fn"] = noting
    if is_iterable(copied):
        copied.__dict__["drop_last"] = False


def note_leftover(copied: DataLoader[Any]) -> LeftoverSampler | None:
    """Make a copy of a map-style loader keep the keys that ``drop_last`` takes.

    None where it takes nothing, or where a batch sampler of the user's own hides what it takes.
    """
    batch_sampler: Any = copied.batch_sampler
    if not isinstance(batch_sampler, BatchSampler) or not batch_sampler.drop_last:
        return None
    leftover_sampler = LeftoverSampler(batch_sampler.sampler, batch_sampler.batch_size)
    copied_batch_sampler = copy.copy(batch_sampler)
    copied_batch_sampler.sampler = leftover_sampler
    copied.__dict__["batch_sampler"] = copied_batch_sampler
    return leftover_sampler
