"""One memory page, shared by every process of a recording, that says how the recording stands."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from pathlib import Path

from loaderviz.spool_ring import Ring

_NAME = "control"
STOPPED, FULL, SPENT, ASKED = range(4)  # bytes of the page
FOR_GOOD_NS = 1 << 62
MAX_BYTES = slice(8, 16)  # an int64; 0: no limit
FREED_BYTES = slice(16, 24)  # an int64 that only the main process writes
KEPT_NS = slice(24, 32)  # an int64; 0: no ring
N_READS = slice(32, 40)  # an int64 that only the main process writes
PROBLEM = slice(64, 512)  # text


class Control:
    """The flags of a recording, in a shared map of its folder; read before each task."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self.page = mmap.mmap(file.fileno(), mmap.PAGESIZE)

    @classmethod
    def create(cls, folder: Path) -> Control:
        """Make the page of a new recording; raises OSError where it cannot be written."""
        path = folder / _NAME
        path.write_bytes(bytes(mmap.PAGESIZE))
        return cls(path)

    @classmethod
    def attach(cls, folder: Path) -> Control:
        """Open the page of a running recording.

        Raises FileNotFoundError where the recording has ended and its folder is gone.
        """
        return cls(folder / _NAME)

    def set_stopped(self) -> None:
        """From now on no process records anything."""
        self.page[STOPPED] = 1

    def is_stopped(self) -> bool:
        """Whether the recording has ended."""
        return self.page[STOPPED] != 0

    def set_full(self) -> None:
        """From now on no process writes down samples."""
        self.page[FULL] = 1

    def is_full(self) -> bool:
        """Whether samples and spans are left out, because ``max_spans`` is reached."""
        return self.page[FULL] != 0

    def set_spent(self) -> None:
        """From now on only the end is noted beside batches: all of ``max_bytes`` is used."""
        self.page[SPENT] = 1

    def is_spent(self) -> bool:
        """Whether all of ``max_bytes`` is used."""
        return self.page[SPENT] != 0

    def set_max_bytes(self, max_bytes: int) -> None:
        """Limit the files of the recording to so many bytes."""
        self.page[MAX_BYTES] = max_bytes.to_bytes(8, "little")

    def max_bytes(self) -> int:
        """How many bytes the files of the recording may take; 0: no limit."""
        return int.from_bytes(self.page[MAX_BYTES], "little")

    def add_freed_bytes(self, n_bytes: int) -> None:
        """So many bytes of files are gone again."""
        freed_bytes = self.freed_bytes() + n_bytes
        self.page[FREED_BYTES] = freed_bytes.to_bytes(8, "little")

    def freed_bytes(self) -> int:
        """How many bytes of those that were taken have been given back."""
        return int.from_bytes(self.page[FREED_BYTES], "little")

    def set_kept_ns(self, kept_ns: int) -> None:
        """Let every process keep what is so old at most, or all for as long as there is room."""
        self.page[KEPT_NS] = kept_ns.to_bytes(8, "little")

    def kept_ns(self) -> int:
        """For how long the details of a recording are kept; 0: without a ring, that is all."""
        return int.from_bytes(self.page[KEPT_NS], "little")

    def ring(self, on_lost: Callable[[int], None] | None = None) -> Ring | None:
        """How one more file of the recording keeps its latest records only; None if all stay."""
        return Ring(self.kept_ns, self.n_reads, self.ask, on_lost) if self.kept_ns() else None

    def ask(self) -> None:
        """Let the main process read on in all files, before what is new is written over."""
        self.page[ASKED] = 1

    def n_reads(self) -> int:
        """How often it has begun to."""
        return int.from_bytes(self.page[N_READS], "little")

    def note_read(self) -> None:
        """It begins to do so once more."""
        self.page[ASKED] = 0
        self.page[N_READS] = (self.n_reads() + 1).to_bytes(8, "little")

    def note_problem(self, problem: str) -> None:
        """Say why a worker records nothing, where it has no file of its own to say it in."""
        text = problem.encode("utf-8", "replace")[: PROBLEM.stop - PROBLEM.start]
        self.page[PROBLEM] = text.ljust(PROBLEM.stop - PROBLEM.start, b"\0")

    def problem(self) -> str:
        """What ``note_problem`` was last given; empty where nothing was."""
        return self.page[PROBLEM].rstrip(b"\0").decode("utf-8", "replace")
