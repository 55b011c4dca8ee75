"""The files of one recording: a folder with its description and one spool for each process.

Any thread of the process that records may use them. An error of writing ends the recording, with
one warning; it never reaches the training that is recorded.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import deque
from pathlib import Path
from typing import IO, Any

from loaderviz import spool_archive
from loaderviz.errors import LoaderVizError
from loaderviz.loaders.content_hash import plain_number
from loaderviz.own_errors import own_errors, own_errors_suppressed, warn_or_print
from loaderviz.record_layout import MAIN_PROCESS, Batch, Tag, pack_text
from loaderviz.recorder.control_page import ASKED, FOR_GOOD_NS, Control
from loaderviz.recorder.fetch_spool import FetchSpool, HereSpool
from loaderviz.recorder.flight_log import FlightLog, FlightOptions
from loaderviz.recorder.line_log import LineLog
from loaderviz.recorder.recording_size_limit import BATCHES, NEW_WORKERS, WORKER_BYTES, Budget
from loaderviz.recorder.stack_on_signal import StackOnSignal
from loaderviz.spool import HEADER_BYTES, NoRoomError, Spool, SpoolHead
from loaderviz.stack_note import PATTERN as STACK_FILES
from loaderviz.trace import ENDED_WORKERS_NAME, MAIN_NAME, META_NAME, MORE_LOADERS_NAME
from loaderviz.trace.check_trace import fitting
from loaderviz.trace.described_loaders import UNDERLYING

MOST_LONG = 16  # descriptions of what keys stand for, of half a megabyte at most
NEVER_NS = 1 << 62
RecordPlace = tuple["memoryview[int]", int]  # the block of a record, and the word it begins at

_RECORDER = __name__.rpartition(".")[0]
_CLOSING_TAGS = (Tag.EXIT, Tag.FINISH, Tag.LEFT_OUT)  # for these there is room past the budget


class RecordingFiles:
    """Open from the start of a recording to its end; raises OSError where it cannot begin."""

    def __init__(
        self, folder: Path, meta: dict[str, Any], flight: FlightOptions | None = None
    ) -> None:
        self.folder = folder
        self.lock = threading.RLock()
        self._meta = meta
        meta[UNDERLYING] = {}
        meta["loaders"] = [*map(self._with_samples_apart, meta["loaders"])]
        self.max_spans = meta["max_spans"]
        self.n_spans = 0  # samples, counted as they are dispatched, and the user's spans
        self._left_out: RecordPlace | None = None
        self._warned = False
        self._here_spools: list[FetchSpool] = []  # of the fetches in this process
        self._idle_spools: list[FetchSpool] = []
        self._foreign_spool: FetchSpool | None = None
        self._more_loaders: IO[bytes] | None = None
        self._described: tuple[dict[str, Any], bytes] = ({}, b"")  # the last, and its line there
        self._save_meta()
        self.control = Control.create(folder)
        last_s, max_bytes = meta.get("last_s"), meta["max_bytes"]
        self._budget = Budget.create(folder, self.control, max_bytes) if max_bytes else None
        self._of_batches = self._budget and self._budget.until(BATCHES)
        if last_s or max_bytes:
            self.control.set_kept_ns(round(last_s * 1e9) if last_s else FOR_GOOD_NS)
        self._main: Spool | None = Spool(folder / MAIN_NAME, {}, self._budget)
        self._batches: Spool = self._main  # and of the user's spans
        ring = self.control.ring(self._note_lost)
        if ring is not None:
            meta_ = {"worker": MAIN_PROCESS}
            path = folder / "here-batches.spool"
            self._batches = Spool(path, meta_, self._of_batches, ring=ring)
        self._flight: FlightLog | None = None
        self.next_window_ns = NEVER_NS
        if ring is not None:
            self._flight = FlightLog(folder, meta, flight or FlightOptions())
            self.next_window_ns = self._flight.next_ns
        self._ended_workers: Spool | None = None  # the archive of their files
        self._not_archived: deque[Path] = deque()  # for which that had no room
        self._stack: StackOnSignal | None = None
        self._open = True

    def is_stopped(self) -> bool:
        """Whether nothing more is recorded: the recording has ended, or has failed."""
        return not self._open

    def answer_with_stack(self) -> None:
        """Let ``loaderviz stuck`` ask this process and its workers for their stacks."""
        self._stack = StackOnSignal.register(self.folder)

    def workers_answer(self) -> bool:
        """Whether the workers are to do so, too."""
        return self._stack is not None

    def write(self, tag: int, *fields: int) -> RecordPlace | None:
        """Write down one event of the main process; returns where, None where it could not."""
        return self._write(self._main, tag, fields)

    def _write(self, spool: Spool | None, tag: int, fields: tuple[int, ...]) -> RecordPlace | None:
        with self.lock:
            if spool is None or (self._is_spent() and tag not in _CLOSING_TAGS):
                return None
            try:
                return spool.write(tag, *fields)
            except NoRoomError:
                return None
            except own_errors(OSError, ValueError) as error:
                self.fail(error)
                return None

    def write_batch(self, n_samples: int, record: tuple[int, ...]) -> RecordPlace | None:
        """Write down a batch that is dispatched; returns where, None where it is left out.

        ``record`` is what ``Batch.LAYOUT`` has of it.
        Past ``max_spans`` its samples are left out.
        """
        with self.lock:
            if self._main is None:
                return None
            if record[6] >= self.next_window_ns or self.control.page[ASKED]:
                self.close_windows(record[6])
            self.n_spans += n_samples
            if self.n_spans > self.max_spans:
                self.control.set_full()
            try:
                return self._batches.pack(Batch.LAYOUT, record)
            except NoRoomError:
                self._leave_out(n_samples, n_batches=1)
            except own_errors(OSError, ValueError) as error:
                self.fail(error)
            return None

    def close_windows(self, at_ns: int, *, ended: bool = False) -> None:
        """Write the windows that are over; where that cannot be done, write none any more."""
        with self.lock:
            flight = self._flight
            if flight is None:
                return
            self.next_window_ns = NEVER_NS  # what is told may iterate a loader itself
            try:
                self.control.note_read()  # before it: a block that is full meanwhile asks again
                flight.close(at_ns, ended=ended)
            except own_errors(Exception) as error:
                self._flight = flight = None
                self.warn_once(error)
            finally:
                if flight is not None and not ended:
                    self.next_window_ns = flight.next_ns

    def note_still_waiting(self, loader: int, since_ns: int, at_ns: int) -> None:
        """The loop waits for a batch of this loader since then."""
        if at_ns >= self.next_window_ns:
            self.close_windows(at_ns)
        with self.lock:
            try:
                if self._flight is not None:
                    self._flight.note_still_waiting(loader, since_ns, at_ns)
            except own_errors(Exception) as error:
                self.warn_once(error)

    def save_incident(self, why: str, kind: str, at_ns: int) -> dict[str, Any] | None:
        """Save what the ring holds; None where that cannot be done."""
        with self.lock:
            try:
                return None if self._flight is None else self._flight.save(why, kind, at_ns)
            except own_errors(Exception) as error:
                self.warn_once(error)
                return None

    def count_samples(self, n: int) -> None:
        """Count samples of a ready-made batch, which was written down as one that is asked for."""
        with self.lock:
            self.n_spans += n

    def write_span(self, *fields: int) -> RecordPlace | None:
        """Write down a span of the user's, or count it among those left out and return None."""
        with self.lock:
            self.n_spans += 1
            if self.n_spans <= self.max_spans:
                return self._write(self._main and self._batches, Tag.SPAN, fields)
            self.control.set_full()
            self._leave_out(1)
            return None

    def _note_lost(self, n_batches: int) -> None:
        with self.lock:
            self._leave_out(0, n_batches)

    def _leave_out(self, n_spans: int, n_batches: int = 0) -> None:
        if self._left_out is None:
            self._left_out = self.write(Tag.LEFT_OUT, 0, 0)
        if self._left_out is not None:
            block, start = self._left_out
            block[start + 2] += n_spans
            block[start + 3] += n_batches

    def _is_spent(self) -> bool:
        return self._budget is not None and self.control.is_spent()

    def pay_for_workers(self, n_workers: int) -> int:
        """Take from the budget what the files of ``n_workers`` begin with.

        Files of workers that have ended make room. Returns the bytes for each of them; 0 without
        workers, without a limit, and where there is no room.
        """
        budget = self._budget and self._budget.until(NEW_WORKERS)
        if budget is None or not n_workers:
            return 0
        while not budget.take(n_workers * WORKER_BYTES):
            if not self._not_archived:
                return 0
            path = self._not_archived.popleft()
            with own_errors_suppressed(OSError, LoaderVizError):
                n_bytes = path.stat().st_size + SpoolHead(path).unused_bytes
                path.unlink()
                budget.give_back(n_bytes)
        return WORKER_BYTES

    def archive_worker(self, path: Path) -> None:
        """Move the file of a worker that has ended to those of the others.

        It stays where it is if it is large, or where this cannot be done.
        """
        with self.lock, own_errors_suppressed(OSError, LoaderVizError, NoRoomError):
            is_large = path.stat().st_size > spool_archive.LARGEST_FILE_BYTES
            if (is_large and self._flight is None) or not self._open:
                return
            if self._flight is not None:
                self._flight.read(path)
            try:
                if self._ended_workers is None:
                    archive = self.folder / ENDED_WORKERS_NAME
                    ring = self.control.ring()
                    self._ended_workers = Spool(archive, {}, self._of_batches, ring=ring)
                n_bytes = spool_archive.move(path, self._ended_workers)
            except NoRoomError:
                self._not_archived.append(path)
                return
            if self._budget is not None:
                self._budget.give_back(n_bytes)

    def add_loader(self, description: dict[str, Any]) -> None:
        """Describe one more loader, in a line of its own; raises OSError where it cannot."""
        with self.lock:
            if self._more_loaders is None:
                self._more_loaders = (self.folder / MORE_LOADERS_NAME).open("ab", buffering=0)
            n_known = len(self._meta[UNDERLYING])
            description = self._with_samples_apart(description)
            if len(self._meta[UNDERLYING]) > n_known:
                self._save_meta()
            if description != self._described[0]:  # thousands may be alike, and JSON takes long
                kept, words = fitting({"loaders": [description]})
                if words:
                    self.note(problems=[*self._meta.get("problems", ()), *words])
                self._described = description, f"{json.dumps(kept['loaders'][0])}\n".encode()
            self._more_loaders.write(self._described[1])
            if self._flight is not None:
                self._flight.note_loader(description)

    def _with_samples_apart(self, description: dict[str, Any]) -> dict[str, Any]:
        """The description, with a name for what its keys stand for: that may be long, and shared.

        The same has the same name in every process; past ``MOST_LONG`` only that is kept.
        """
        underlying = description.get(UNDERLYING)
        if underlying is None:
            return description
        name = f"{plain_number(underlying):x}"
        if len(self._meta[UNDERLYING]) < MOST_LONG:
            self._meta[UNDERLYING][name] = underlying
        return {**description, UNDERLYING: name}

    def add_to_loader(self, number: int, **facts: Any) -> None:
        """Add to the description of a loader that was known at the start, if it can be written."""
        with self.lock, own_errors_suppressed(OSError):
            self._meta["loaders"][number].update(facts)
            self._save_meta()

    def note(self, **facts: Any) -> None:
        """Add to the description of the recording; raises OSError where it cannot be written."""
        with self.lock:
            self._meta.update(facts)
            self._save_meta()

    def log_lines(self) -> LineLog | None:
        """Where this process writes which lines it runs; None, with a word why, where it cannot."""
        lines = LineLog.start()
        if isinstance(lines, str):
            self.write(Tag.NO_LOOKS, *pack_text(lines))
            return None
        try:
            path = self.folder / "here-lines.spool"
            meta = {"worker": MAIN_PROCESS}
            spool = FetchSpool(path, meta, self._of_batches, ring=self.control.ring())
        except own_errors(OSError, NoRoomError) as error:
            lines.stop()
            if not isinstance(error, NoRoomError):
                self.fail(error)
            return None
        self._here_spools.append(spool)
        lines.write_to(spool)
        return lines

    def borrow_spool(self, iterator: int) -> FetchSpool | None:
        """A spool for an iterator that loads in this process; None where none can be made.

        Each iterator has one to itself while it lives: several may run in turns or in threads.
        """
        if self._idle_spools:
            return self._idle_spools.pop()
        path, meta = self.folder / f"here-{iterator}.spool", {"worker": MAIN_PROCESS}
        try:
            try:
                ring = self.control.ring(self._note_lost)
                spool = HereSpool(path, meta, self._of_batches, ring=ring)
            except NoRoomError:  # nothing will be written to it
                spool = HereSpool(path, meta, self._budget, HEADER_BYTES)
        except own_errors(OSError) as error:
            self.fail(error)
            return None
        self._here_spools.append(spool)
        return spool

    def foreign_spool(self, iterator: int) -> FetchSpool | None:
        """The spool that all foreign loaders share, made for the first of their iterators."""
        if self._foreign_spool is None:
            self._foreign_spool = self.borrow_spool(iterator)
        return self._foreign_spool

    def return_spool(self, spool: FetchSpool) -> None:
        """Take back a spool whose iterator is gone, for the next one to use."""
        self._idle_spools.append(spool)

    def fail(self, error: Exception) -> None:
        """End the recording: it cannot write, or the recorder has a bug. The training goes on."""
        self._open = False
        main, self._main = self._main, None
        with own_errors_suppressed(Exception):
            self.control.set_stopped()
        if main is not None:
            with own_errors_suppressed(Exception):
                main.note_problem(f"{type(error).__name__}: {error}")
                main.close()
                self._batches.close()
        self.warn_once(error)

    def note_problem(self, problem: str) -> None:
        """Say in the recording that something is missing from it; the first such reason stays."""
        with self.lock:
            if self._main is not None:
                self._main.note_problem(problem)

    def warn_once(self, problem: object) -> None:
        """Warn that something is missing from the recording; later problems are not told."""
        if self._warned:
            return
        self._warned = True
        if isinstance(problem, Exception):
            problem = f"{type(problem).__name__}: {problem}"
        text = f"loaderviz could not record everything: {problem}"
        level = 2
        while sys._getframe(level - 1).f_globals.get("__name__", "").startswith(_RECORDER):
            level += 1
        warn_or_print(text, stacklevel=level)

    def finish(self, at_ns: int) -> None:
        """Write that the recording has ended, here and for all workers; once more does no harm."""
        with self.lock:
            self.close_windows(at_ns, ended=True)
            self.write(Tag.FINISH, at_ns)
            self._open = False
            if self._main is not None:
                self.control.set_stopped()
                if self.control.problem():
                    self._main.note_problem(self.control.problem())
                self._main.close()
                self._batches.close()
            if self._ended_workers is not None:
                self._ended_workers.close()
            for spool in self._here_spools:
                spool.close()
            if self._more_loaders is not None:
                self._more_loaders.close()
            self._forget_stacks()

    def _forget_stacks(self) -> None:
        """Remove what only a run that goes on has use for, also of workers that were killed."""
        stack, self._stack = self._stack, None
        if stack is not None:
            stack.close()
        with own_errors_suppressed(OSError):
            for path in self.folder.glob(STACK_FILES):
                path.unlink(missing_ok=True)

    def forget(self) -> None:
        """Never write again: in a forked process the files are the parent's."""
        self.lock = threading.RLock()  # another thread may have held it, and is not here
        self._open = False
        self._main = self._flight = None
        self.next_window_ns = NEVER_NS
        if self._more_loaders is not None:
            self._more_loaders.close()  # nothing of it is buffered
        self._more_loaders = self._ended_workers = self._stack = None
        self._left_out = None
        self._idle_spools.clear()

    def _save_meta(self) -> None:
        meta, words = fitting(self._meta)
        if words:
            meta = {**meta, "problems": [*meta.get("problems", ()), *words]}
        new_file = self.folder / f"{META_NAME}.new"
        new_file.write_text(json.dumps(meta, indent=1))
        new_file.replace(self.folder / META_NAME)
