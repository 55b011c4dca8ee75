"""One shared page that ends a recording in every process at once."""

from __future__ import annotations

import mmap
from pathlib import Path

_NAME = "control"


class Control:
    """Flags in a shared map of the recording's folder: workers look at it before each task."""

    def __init__(self, page: mmap.mmap) -> None:
        self._page = page

    @classmethod
    def create(cls, folder: Path) -> Control:
        path = folder / _NAME
        path.write_bytes(bytes(mmap.PAGESIZE))
        return cls._open(path)

    @classmethod
    def attach(cls, folder: Path) -> Control:
        """Raises FileNotFoundError where the recording has ended and its folder is gone."""
        return cls._open(folder / _NAME)

    @classmethod
    def _open(cls, path: Path) -> Control:
        with path.open("r+b") as file:
            return cls(mmap.mmap(file.fileno(), mmap.PAGESIZE))

    def stop(self) -> None:
        self._page[0] = 1

    def stopped(self) -> bool:
        return self._page[0] != 0

    def note_failure(self) -> None:
        """A worker could not make its file."""
        self._page[1] = 1

    def has_failure(self) -> bool:
        return self._page[1] != 0
