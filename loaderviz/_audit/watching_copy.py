"""A copy of a loader that works as the loader does and tells which samples its batches hold.

Public parts of torch only: a ``collate_fn`` around the loader's own, which sees the samples of a
batch in the process that has read them, and a sampler around the loader's own.
"""

from __future__ import annotations

import copy
import os
import tempfile
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, get_worker_info

from loaderviz.errors import LoaderVizError
from loaderviz.loaders.content_hash import Identify

Words = np.ndarray[Any, np.dtype[np.int64]]
HEAD = 2  # words of a block: the worker, how many samples; then a number for each of them


class Noting:
    """A ``collate_fn`` that writes down what the samples are, then does what the loader's own does.

    ``full``: the size below which an iterable-style fetcher with ``drop_last`` drops a batch. It is
    dropped here in its place, and in its way: by StopIteration (torch/utils/data/_utils/fetch.py,
    ``_IterableDatasetFetcher.fetch``).
    """

    def __init__(
        self,
        collate_fn: Callable[[Any], Any],
        identify: Identify,
        folder: Path,
        *,
        batched: bool,
        full: int | None,
    ) -> None:
        self._collate_fn = collate_fn
        self._identify = identify
        self._folder = folder
        self._batched = batched
        self._full = full
        self._file: tuple[int, int] | None = None  # the process, and its open file

    def __call__(self, data: Any) -> Any:
        samples = data if self._batched else [data]
        if not isinstance(samples, list):
            raise LoaderVizError(
                f"the dataset returned a {type(samples).__name__} for a list of keys, so key= has "
                "no samples to look at: leave key out, and samples are known by their keys"
            )
        info = get_worker_info()
        numbers = map(self._identify, samples)
        block = np.array([-1 if info is None else info.id, len(samples), *numbers], np.int64)
        self._write(block.tobytes())
        if self._full is not None and len(samples) < self._full:
            raise StopIteration
        return self._collate_fn(data)

    def _write(self, data: bytes) -> None:
        # At once, so that it is there also when the process is killed.
        if self._file is None or self._file[0] != os.getpid():  # forked, with the parent's number
            self._file = os.getpid(), tempfile.mkstemp(dir=self._folder)[0]
        os.write(self._file[1], data)

    def close(self) -> None:
        if self._file is not None and self._file[0] == os.getpid():
            os.close(self._file[1])
        self._file = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_file": None}


class Blocks:
    """What was written since it was last looked at: for each worker the samples of each batch."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: defaultdict[Path, int] = defaultdict(int)

    def take(self) -> dict[int, list[Words]]:
        found: defaultdict[int, list[Words]] = defaultdict(list)
        for path in sorted(self._folder.iterdir()):
            words = np.fromfile(path, np.int64, offset=self._seen[path])
            at = 0
            while at + HEAD <= len(words) and at + HEAD + words[at + 1] <= len(words):
                end = at + HEAD + int(words[at + 1])
                found[int(words[at])].append(words[at + HEAD : end])
                at = end
            self._seen[path] += at * words.itemsize
        return dict(found)


class Tail:
    """A sampler that draws from the loader's own and keeps what is left over after full batches."""

    def __init__(self, sampler: Any, batch_size: int) -> None:
        self._sampler, self._batch_size = sampler, batch_size
        self.left: list[Any] = []

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        self.left = []
        last: deque[Any] = deque(maxlen=self._batch_size)
        n = 0
        for key in self._sampler:
            n += 1
            last.append(key)
            yield key
        rest = n % self._batch_size
        self.left = list(last)[len(last) - rest :]


def is_iterable(loader: DataLoader[Any]) -> bool:
    return isinstance(loader.dataset, IterableDataset)


def note_samples(copied: DataLoader[Any], identify: Identify, folder: Path) -> Noting:
    """From now on a copy's batches are written down in ``folder``, by what the samples are."""
    drops = is_iterable(copied) and copied.drop_last
    noting = Noting(
        copied.collate_fn,
        identify,
        folder,
        batched=copied.batch_sampler is not None,
        full=copied.batch_size if drops else None,
    )
    copied.__dict__["collate_fn"] = noting
    if drops:
        copied.__dict__["drop_last"] = False
    return noting


def note_tail(copied: DataLoader[Any]) -> Tail | None:
    """What ``drop_last`` takes of a map-style loader; None where it takes nothing, or unseen."""
    batches: Any = copied.batch_sampler
    if not isinstance(batches, BatchSampler) or not batches.drop_last:
        return None
    tail = Tail(batches.sampler, batches.batch_size)
    own = copy.copy(batches)
    own.sampler = tail
    copied.__dict__["batch_sampler"] = own
    return tail
