"""Changes a copy of a loader so that it also notes which samples its batches hold.

It uses only public parts of torch: a ``collate_fn`` around the loader's own, which sees the samples
of a batch in the process that has read them, and a sampler around the loader's own.
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

from loaderviz._audit.count_deliveries import IntArray
from loaderviz.errors import LoaderVizError
from loaderviz.loaders.content_hash import SampleIdentifier, content_number

NO_CONTENT = -(2**63)  # no hash of ours, but for one in 2**64
N_HEAD = 2  # a note begins with the worker and the number of samples; a number for each follows


class NotingCollate:
    """A ``collate_fn`` that notes the numbers of the samples, then calls the loader's own.

    With ``full_size``, a batch of fewer samples is noted and then dropped, by StopIteration. This
    takes the place of ``drop_last``, by which an iterable-style fetcher does the same before it
    collates (torch/utils/data/_utils/fetch.py, ``_IterableDatasetFetcher.fetch``).
    """

    def __init__(
        self,
        collate_fn: Callable[[Any], Any],
        identifier: SampleIdentifier | None,
        folder: Path,
        *,
        is_batched: bool,
        full_size: int | None,
    ) -> None:
        self._collate_fn = collate_fn
        self._identifier = identifier
        self._folder = folder
        self._is_batched = is_batched
        self._full_size = full_size
        self._pid_and_file: tuple[int, int] | None = None  # the file's descriptor, open in that pid

    def __call__(self, data: Any) -> Any:
        """Note what ``data`` holds and collate it, or drop it by StopIteration.

        Raises:
            LoaderVizError: for a batch that is no list of samples, or an unidentifiable sample.
            Exception: whatever the loader's own ``collate_fn`` raises, unchanged.
        """
        samples = data if self._is_batched else [data]
        if not isinstance(samples, list):
            raise LoaderVizError(
                f"the dataset returned a {type(samples).__name__} for a list of keys, so key= has "
                "no samples to look at: leave key out, and samples are known by their keys"
            )
        assert self._identifier is not None
        identify = self._identifier.keys_and_numbers
        self._note([number for sample in samples for _, number in identify(sample)])
        if self._full_size is not None and len(samples) < self._full_size:
            raise StopIteration
        return self._collate_fn(data)

    def _note(self, numbers: list[int]) -> None:
        """Write unbuffered, so that the note is there even if the process is killed next."""
        info = get_worker_info()
        note = np.array([-1 if info is None else info.id, len(numbers), *numbers], np.int64)
        pid = os.getpid()
        if self._pid_and_file is None or self._pid_and_file[0] != pid:  # the parent's, after a fork
            self._pid_and_file = pid, tempfile.mkstemp(dir=self._folder)[0]
        os.write(self._pid_and_file[1], note.tobytes())

    def close(self) -> None:
        """Close this process's file, where it has one."""
        if self._pid_and_file is not None and self._pid_and_file[0] == os.getpid():
            os.close(self._pid_and_file[1])
        self._pid_and_file = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pid_and_file": None}


class HashingCollate(NotingCollate):
    """A ``collate_fn`` that notes what each sample holds, and the batch that was made of them.

    A number for each sample, then that of the batch; ``NO_CONTENT`` for what has none.
    """

    def __call__(self, data: Any) -> Any:
        """Collate ``data``, and note what it held before.

        Raises:
            Exception: whatever the loader's own ``collate_fn`` raises, unchanged.
        """
        samples = data if self._is_batched and isinstance(data, list) else [data]
        contents = [*map(content_number, samples)]
        batch = self._collate_fn(data)
        self._note(
            [NO_CONTENT if each is None else each for each in (*contents, content_number(batch))]
        )
        return batch


class NoteReader:
    """Reads what every ``NotingCollate`` has written into ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._n_bytes_read: defaultdict[Path, int] = defaultdict(int)

    def read_new(self) -> dict[int, list[IntArray]]:
        """The notes written since the last call: by worker, the sample numbers of each batch."""
        notes: defaultdict[int, list[IntArray]] = defaultdict(list)
        for path in sorted(self._folder.iterdir()):
            with path.open("rb") as file:  # not numpy.fromfile: see spool.py
                file.seek(self._n_bytes_read[path])
                data = file.read()
            words = np.array(memoryview(data[: len(data) // 8 * 8]).cast("q"), np.int64)
            start = 0
            while (first := start + N_HEAD) <= len(words):
                end = first + int(words[start + 1])
                if end > len(words):
                    break
                notes[int(words[start])].append(words[first:end])
                start = end
            self._n_bytes_read[path] += start * words.itemsize
        return dict(notes)


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


def note_samples(
    copied: DataLoader[Any], identifier: SampleIdentifier | None, folder: Path
) -> NotingCollate:
    """Make a copy of a loader note in ``folder`` the numbers of all samples that it collates.

    Without an identifier they are what the samples hold, and what their batch does.
    """
    drops_last = is_iterable(copied) and copied.drop_last
    noting = (NotingCollate if identifier else HashingCollate)(
        copied.collate_fn,
        identifier,
        folder,
        is_batched=copied.batch_sampler is not None,
        full_size=copied.batch_size if drops_last else None,
    )
    copied.__dict__["collate_fn"] = noting
    if drops_last:
        copied.__dict__["drop_last"] = False
    return noting


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
