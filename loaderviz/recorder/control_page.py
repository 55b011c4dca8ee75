"""One shared page that tells every process of a recording how it stands."""

from __future__ import annotations

import mmap
from pathlib import Path

_NAME = "control"
STOPPED, FULL, SPENT = 0, 1, 2  # bytes of the page
MAX_BYTES = slice(8, 16)  # an int64; 0: no limit
PROBLEM = slice(64, 512)  # text


class Control:
    """Flags in a shared map of the recording's folder: looked at before each task."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self.page = mmap.mmap(file.fileno(), mmap.PAGESIZE)

    @classmethod
    def create(cls, folder: Path) -> Control:
        path = folder / _NAME
        path.write_bytes(bytes(mmap.PAGESIZE))
        return cls(path)

    @classmethod
    def attach(cls, folder: Path) -> Control:
        """Raises FileNotFoundError where the recording has ended and its folder is gone."""
        return cls(folder / _NAME)

    def stop(self) -> None:
        self.page[STOPPED] = 1

    def stopped(self) -> bool:
        return self.page[STOPPED] != 0

    def fill(self) -> None:
        """From now on no process writes down samples."""
        self.page[FULL] = 1

    def is_full(self) -> bool:
        return self.page[FULL] != 0

    def spend(self) -> None:
        """From now on no file of the recording grows: what was allowed is taken."""
        self.page[FULL] = 1
        self.page[SPENT] = 1

    def is_spent(self) -> bool:
        return self.page[SPENT] != 0

    def limit(self, max_bytes: int) -> None:
        self.page[MAX_BYTES] = max_bytes.to_bytes(8, "little")

    def max_bytes(self) -> int:
        return int.from_bytes(self.page[MAX_BYTES], "little")

    def note_problem(self, problem: str) -> None:
        """Why a worker sees nothing that it could write to a file of its own."""
        text = problem.encode("utf-8", "replace")[: PROBLEM.stop - PROBLEM.start]
        self.page[PROBLEM] = text.ljust(PROBLEM.stop - PROBLEM.start, b"\0")

    def problem(self) -> str:
        return self.page[PROBLEM].rstrip(b"\0").decode("utf-8", "replace")
