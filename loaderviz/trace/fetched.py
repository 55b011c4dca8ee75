"""One fetch, as the process that made the batch wrote it down."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from loaderviz.records import KeyKind, State, Task, unpack_text

Words = np.ndarray[Any, np.dtype[np.int64]]
MOST_SAMPLES = 1 << 20  # that one fetch may return beyond what it was asked for


class Fetched:
    """One TASK record, with the samples that were read."""

    def __init__(self, words: Words, first_count: int) -> None:
        n_keys = int(words[Task.N_KEYS])
        if not 0 <= n_keys < len(words) - Task.STAMPS:
            raise ValueError(f"a task of {n_keys} keys")
        if not 0 <= words[Task.N_SAMPLES] <= max(n_keys, MOST_SAMPLES):
            raise ValueError(f"a task of {words[Task.N_SAMPLES]} samples")
        self.started = int(words[Task.STARTED])
        self.collate = int(words[Task.COLLATE])
        self.state = int(words[Task.STATE])
        self.finished = int(words[Task.READY])
        self.cpu = int(words[Task.CPU])
        stamps = words[Task.STAMPS : Task.STAMPS + n_keys + 1]
        n_stamps = int(np.count_nonzero(stamps))
        self.reading: int | None = None  # the position of a sample that was begun and never read
        if self.collate:
            self.n_samples = int(words[Task.N_SAMPLES])
        elif self.state == State.EXHAUSTED:
            self.n_samples = max(n_stamps - 1, 0)
        else:
            self.n_samples = max(n_stamps - 1, 0)
            if 0 < n_stamps <= n_keys:
                self.reading = self.n_samples
        n_begun = self.n_samples + (self.reading is not None)
        if self.collate and n_stamps <= self.n_samples:  # read in one call: all took that long
            self.starts = np.full(n_begun, stamps[0])
            self.ends = np.full(n_begun, self.collate)
        else:
            self.starts = stamps[:n_begun]
            self.ends = np.zeros(n_begun, np.int64)
            self.ends[: self.n_samples] = stamps[1 : self.n_samples + 1]
        self.keys = _keys(words, n_keys, first_count)[:n_begun]
        if len(self.keys) < n_begun:  # __getitems__ returned more than it was asked for
            self.keys = [*self.keys, *[None] * (n_begun - len(self.keys))]

    @property
    def ready(self) -> int:
        return self.finished if self.state == State.DONE else 0


def _keys(words: Words, n_keys: int, first_count: int) -> Any:
    at = Task.STAMPS + n_keys + 1
    kind = int(words[Task.KEY_KIND])
    if kind == KeyKind.INTEGERS:
        return words[at : at + n_keys].tolist()
    if kind == KeyKind.TEXT:
        try:
            return list(json.loads(unpack_text(words[at:])))
        except (ValueError, TypeError, RecursionError):  # the process died while it wrote them
            return [None] * n_keys
    return list(range(first_count, first_count + n_keys))
