"""The files of one recording: a folder with its description and one spool for each process.

Used by any thread of the process that records. What cannot be written ends the recording, with one
warning; never what is recorded.
"""

from __future__ import annotations

import json
import sys
import threading
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from loaderviz.record_layout import MAIN_PROCESS, Tag
from loaderviz.recorder.control_page import Control
from loaderviz.recorder.recording_size_limit import WORKER_BYTES, Budget
from loaderviz.spool import HEADER_BYTES, NoRoomError, RollingSpool, Spool
from loaderviz.trace import META_NAME

Place = tuple["memoryview[int]", int]  # of a record: its block, and where in it it begins

_AT_THE_END = (Tag.EXIT, Tag.FINISH, Tag.LEFT_OUT)  # for these there is room past the budget


class Files:
    """Open from the start of a recording to its end; raises OSError where it cannot begin."""

    def __init__(self, folder: Path, meta: dict[str, Any]) -> None:
        self.folder = folder
        self.lock = threading.RLock()
        self._meta = meta
        self._max_spans = meta["max_spans"]
        self._n_spans = 0  # of samples, as dispatched, and of the user's
        self._left_out: Place | None = None
        self._told = False
        self._here: list[RollingSpool] = []  # of the fetches in this process
        self._free: list[RollingSpool] = []
        self._save_meta()
        self.control = Control.create(folder)
        max_bytes = meta["max_bytes"]
        self._budget = Budget.create(folder, self.control, max_bytes) if max_bytes else None
        self._unlimited_spans = -1 if max_bytes else self._max_spans  # one look for each batch
        self._main: Spool | None = Spool(folder / "main.spool", {}, self._budget)
        self._open = True

    def stopped(self) -> bool:
        return not self._open

    def write(self, tag: int, *fields: int) -> Place | None:
        """Write down one event of the main process; returns where, None where it could not."""
        with self.lock:
            if self._main is None or (self._is_spent() and tag not in _AT_THE_END):
                return None
            try:
                return self._main.write(tag, *fields)
            except NoRoomError:
                return None
            except (OSError, ValueError) as error:  # and not what torch raises on a worker's death
                self.fail(error)
                return None

    def write_batch(self, n_samples: int, *fields: int) -> Place | None:
        """Write down a batch that is dispatched: past the limit its samples are not.

        Past the budget it is not either: it counts among what is left out.
        """
        with self.lock:
            if self._main is None:
                return None
            self._n_spans += n_samples
            if self._n_spans > self._unlimited_spans:
                if self._n_spans > self._max_spans:
                    self.control.fill()
                if self._is_spent():
                    self._leave_out(n_samples, n_batches=1)
                    return None
            try:
                return self._main.write(Tag.BATCH, *fields)
            except NoRoomError:
                self._leave_out(n_samples, n_batches=1)
            except (OSError, ValueError) as error:
                self.fail(error)
            return None

    def write_span(self, *fields: int) -> Place | None:
        """Write down a span of the user's, or count it among those left out."""
        with self.lock:
            self._n_spans += 1
            if self._n_spans > self._max_spans:
                self.control.fill()
            elif self._budget is None or not self.control.is_full():
                return self.write(Tag.SPAN, *fields)
            self._leave_out(1)
            return None

    def _leave_out(self, n_spans: int, n_batches: int = 0) -> None:
        if self._left_out is None:
            self._left_out = self.write(Tag.LEFT_OUT, 0, 0)
        if self._left_out is not None:
            block, at = self._left_out
            block[at + 2] += n_spans
            block[at + 3] += n_batches

    def _is_spent(self) -> bool:
        return self._budget is not None and self.control.is_spent()

    def pay_for_workers(self, n_workers: int) -> int:
        """The bytes that each of them may begin with; 0 where there are none, or is no limit."""
        if self._budget is None or not n_workers:
            return 0
        return WORKER_BYTES if self._budget.take(n_workers * WORKER_BYTES) else 0

    def add_loader(self, description: dict[str, Any]) -> None:
        self._meta["loaders"].append(description)
        self._save_meta()

    def note(self, **facts: Any) -> None:
        """Add to the description of the recording; raises OSError where it cannot be written."""
        with self.lock:
            self._meta.update(facts)
            self._save_meta()

    def borrow(self, iterator: int) -> RollingSpool | None:
        """A spool for an iterator that loads in this process; None where there can be none.

        Each has one to itself while it lives, since several may run in turns or in threads.
        """
        if self._free:
            return self._free.pop()
        path, meta = self.folder / f"here-{iterator}.spool", {"worker": MAIN_PROCESS}
        try:
            try:
                spool = RollingSpool(path, meta, self._budget)
            except NoRoomError:  # nothing will be written to it: any does
                if self._here:
                    return self._here[0]
                spool = RollingSpool(path, meta, self._budget, HEADER_BYTES)
        except OSError as error:
            self.fail(error)
            return None
        self._here.append(spool)
        return spool

    def give_back(self, spool: RollingSpool) -> None:
        self._free.append(spool)

    def fail(self, error: Exception) -> None:
        """A recorder that cannot write, or has a bug, stops; the training goes on."""
        self._open = False
        main, self._main = self._main, None
        with suppress(Exception):
            self.control.stop()
        if main is not None:
            with suppress(Exception):
                main.note_problem(f"{type(error).__name__}: {error}")
                main.close()
        self.tell(error)

    def tell(self, what: object) -> None:
        """Warn that something is missing, once."""
        if self._told:
            return
        self._told = True
        what = f"{type(what).__name__}: {what}" if isinstance(what, Exception) else what
        text = f"loaderviz could not record everything: {what}"
        try:
            warnings.warn(text, stacklevel=3)
        except Warning:  # made an error by a filter: not in the middle of a training
            print(text, file=sys.stderr)

    def finish(self, at: int) -> None:
        """Write that the recording has ended, here and for all workers."""
        with self.lock:
            self.write(Tag.FINISH, at)
            self._open = False
            if self._main is not None:
                self.control.stop()
                if self.control.problem():
                    self._main.note_problem(self.control.problem())
                self._main.close()
            for spool in self._here:
                spool.close()

    def forget(self) -> None:
        """In a forked process: never write to the files of the process that is recorded."""
        self.lock = threading.RLock()  # another thread may have held it, and is not here
        self._open = False
        self._main = None
        self._left_out = None
        self._free.clear()

    def _save_meta(self) -> None:
        written = self.folder / f"{META_NAME}.new"
        written.write_text(json.dumps(self._meta, indent=1))
        written.replace(self.folder / META_NAME)
