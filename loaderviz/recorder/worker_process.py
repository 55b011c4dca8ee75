"""What runs inside a worker process: one spool file, and a timed fetcher for each epoch."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from multiprocessing import util
from pathlib import Path
from typing import Any

from torch.utils.data import _DatasetKind, get_worker_info

from loaderviz.clocks.process_clock import now
from loaderviz.machine import rss_peak_bytes
from loaderviz.own_errors import own_errors
from loaderviz.record_layout import Phase, Tag, pack_text
from loaderviz.recorder.control_page import Control
from loaderviz.recorder.fetch_spool import FetchSpool
from loaderviz.recorder.kernel_books import WorkerAccounts
from loaderviz.recorder.line_log import LineLog
from loaderviz.recorder.recording_size_limit import Budget
from loaderviz.recorder.stack_on_signal import StackOnSignal
from loaderviz.recorder.timed_fetch import FetchTimer, ProcessMemory
from loaderviz.recorder.user_frames import hide_recorder_frames
from loaderviz.recorder.worker_start import AfterDataset, forked_parts
from loaderviz.spool import RSS_PEAK, Spool


def worker_file(folder: Path, iterator: int, worker: int, pid: int | None) -> Path:
    """The spool file of one worker process, in the folder of its recording."""
    return folder / f"worker-{iterator}-{worker}-{pid}.spool"


class WorkerHook:
    """A picklable ``worker_init_fn`` that runs the user's own first, then starts to record."""

    def __init__(
        self,
        user_init: Callable[[int], None] | None,
        folder: Path,
        iterator: int,
        paid_bytes: int = 0,
        *,
        answers: bool = False,
        lines: bool = False,
    ) -> None:
        self._user_init = user_init
        self._folder = folder
        self.iterator = iterator
        self._paid_bytes = paid_bytes  # taken from the recording's budget, where it has one
        self._answers = answers  # to ``loaderviz stuck``
        self._wants_lines = lines
        self._lines: LineLog | str = ""  # of the worker, or why it has none
        self._start: dict[str, Any] = {}  # its parts so far
        self._made_by = os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        # Spawn and forkserver pickle a worker's arguments at the moment it is started.
        return {**self.__dict__, "_start": AfterDataset()}

    def __call__(self, worker_id: int) -> None:
        """Set up one worker, which runs this; raises what the user's own function raises."""
        start = self._start or forked_parts()
        in_own_process = os.getpid() != self._made_by
        if self._answers and in_own_process:  # before the user's function, which may be stuck
            self._answer_with_stack()
        if self._wants_lines and in_own_process:
            self._lines = LineLog.start()
        if self._user_init is not None:
            begun_ns = now()
            try:
                self._looked_at(self._user_init, worker_id)
            except BaseException as error:
                if isinstance(error, Exception):  # the worker goes on: it has that to send
                    self._set_up(worker_id, start, in_own_process, first_round=1)
                hide_recorder_frames(error)
                raise
            start["init_ns"] = now() - begun_ns
        self._set_up(worker_id, start, in_own_process)

    def _set_up(
        self, worker_id: int, start: dict[str, Any], in_own_process: bool, first_round: int = 0
    ) -> None:
        """Begin to record, if the recording goes on; a failure is its problem, and no error.

        ``first_round``: which of the worker's epochs has the first fetches.
        """
        control = None
        try:
            control = Control.attach(self._folder)
            if not in_own_process:
                control.note_problem(f"worker {worker_id} is a thread, which is not looked into")
            elif not control.is_stopped():
                self._record(worker_id, control, start, first_round)
        except own_errors(
            Exception
        ) as error:  # the recording lacks this worker; the training does not
            if control is not None:  # else the recording has ended, and its folder is gone
                control.note_problem(f"worker {worker_id}: {type(error).__name__}: {error}")

    def _looked_at(self, call: Callable[..., Any], *args: Any) -> Any:
        if isinstance(self._lines, str):
            return call(*args)
        return self._lines.look_at(call, *args, iterator=self.iterator, phase=Phase.INIT)

    def _answer_with_stack(self) -> None:
        stack = StackOnSignal.register(self._folder)
        if stack is not None:  # atexit does not run in workers; multiprocessing's finalizers do
            util.Finalize(None, stack.close, exitpriority=0)

    def _record(
        self, worker_id: int, control: Control, start: dict[str, Any], first_round: int
    ) -> None:
        budget = Budget.attach(self._folder, control)
        if budget is not None and not self._paid_bytes:
            return
        spool = FetchSpool(
            worker_file(self._folder, self.iterator, worker_id, os.getpid()),
            {
                "iterator": self.iterator,
                "worker": worker_id,
                "pid": os.getpid(),
                "started_ns": 0,
                **start,
            },
            budget,
            self._paid_bytes,
            control.ring(),
        )
        lines = None if isinstance(self._lines, str) else self._lines
        if lines is not None:
            lines.write_to(spool)
        elif self._wants_lines:
            spool.write(Tag.NO_LOOKS, *pack_text(str(self._lines)))
        dataset_kind: Any = _DatasetKind
        create_fetcher = dataset_kind.create_fetcher
        rounds = itertools.count(first_round)
        memory, accounts = ProcessMemory(), WorkerAccounts()

        def create_timed_fetcher(kind: int, dataset: Any, *args: Any) -> Any:
            try:
                fetcher = self._looked_at(create_fetcher, kind, dataset, *args)
            except BaseException as error:
                hide_recorder_frames(error)
                raise
            try:
                info = get_worker_info()
                # A dataset may itself use a DataLoader, whose fetchers are not to be timed.
                if info is not None and dataset is info.dataset:
                    round_ = next(rounds)
                    FetchTimer(
                        fetcher,
                        spool,
                        self.iterator,
                        round_,
                        control,
                        memory,
                        accounts=accounts,
                        lines=lines,
                    )
            except own_errors(Exception) as error:
                spool.note_problem(f"{type(error).__name__}: {error}")
            return fetcher

        # Called here and, in persistent workers, anew for each epoch
        # (torch/utils/data/_utils/worker.py, _worker_loop). This process is the worker's own.
        dataset_kind.create_fetcher = staticmethod(create_timed_fetcher)
        # atexit does not run in workers; multiprocessing's own finalizers do.
        util.Finalize(None, _note_end, args=(spool,), exitpriority=0)


def _note_end(spool: Spool) -> None:
    spool.header[RSS_PEAK] = rss_peak_bytes()
    spool.note_end(now())
    spool.close()
