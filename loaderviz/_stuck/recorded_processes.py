"""The processes of one recording, looked at from outside: who they are, how they stand."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from loaderviz._stuck.causes_of_standstill import Seen
from loaderviz._stuck.loop_now import BatchNow, LoopNow
from loaderviz._stuck.process_view import ProcessView, view_process
from loaderviz._stuck.task_now import TaskNow, read_task
from loaderviz.ask_for_stack import Frame, Stack, ask, is_same_process
from loaderviz.spool import SpoolHead
from loaderviz.stack_note import StackNote, stack_path

APART_S: Final = 0.2  # between two looks, to see who computes
MOST_THREADS: Final = 8  # of a process whose other threads are asked for their stacks, too
_FORK: Final = ("/multiprocessing/popen_fork.py", "_launch")
_WORKER: Final = "/torch/utils/data/_utils/worker.py"
_DATALOADER: Final = "/torch/utils/data/dataloader.py"
_FETCH: Final = "/torch/utils/data/_utils/fetch.py"
_FEEDER: Final = ("/multiprocessing/queues.py", "_feed")
_ACCEPTS: Final = ("accept", "accept4")  # so waits multiprocessing's resource sharer for a client


@dataclass(frozen=True)
class RecordedProcess:
    """The main process, or a worker.

    Attributes:
        worker: its number; -1 is the main process.
        pid: of the process.
        iterator: for which a worker works.
        file: what it writes; None where it has written nothing.
        note: by which it can be asked for its stack; None where it left none.
    """

    worker: int
    pid: int
    iterator: int
    file: Path | None
    note: StackNote | None

    def is_alive(self) -> bool:
        """Whether it runs; a later process of the same number does not count."""
        if self.note is not None and not is_same_process(self.note):
            return False
        return view_process(self.pid).is_alive

    def last_task(self) -> TaskNow | None:
        """The batch that it began last; None where it began none, or that is not seen."""
        return read_task(self.file) if self.file is not None else None

    def has_ended(self) -> bool:
        """Whether a worker wrote down that it ended."""
        return self.file is not None and bool(SpoolHead(self.file).ended_ns)


def main_process(loop: LoopNow) -> RecordedProcess:
    """The process of the loop."""
    return RecordedProcess(-1, loop.pid, -1, None, _note(loop.folder, loop.pid))


def workers_of(loop: LoopNow) -> list[RecordedProcess]:
    """The workers whose end is not written down, in the order in which they were started."""
    processes = []
    for worker, pid, iterator in loop.workers:
        path = loop.folder / f"worker-{iterator}-{worker}-{pid}.spool"
        file = path if path.exists() else None
        process = RecordedProcess(worker, pid, iterator, file, _note(loop.folder, pid))
        if not process.has_ended():
            processes.append(process)
    return processes


def worker_of(processes: Iterable[RecordedProcess], batch: BatchNow) -> RecordedProcess | None:
    """The worker that makes a batch; None where it is not known."""
    for process in processes:
        if (process.iterator, process.worker) == (batch.iterator, batch.worker):
            return process
    return None


def look_at(folder: Path, processes: list[RecordedProcess], *, forked: bool) -> dict[int, Seen]:
    """How these processes stand, and their stacks; by pid. ``forked``: whether workers are."""
    begun = time.monotonic()
    before = {process.pid: _view(process) for process in processes}
    alive = [process for process in processes if before[process.pid].state not in ("", "Z", "T")]
    stacks = ask(folder, [process.note for process in alive if process.note is not None])
    time.sleep(max(APART_S - (time.monotonic() - begun), 0))
    apart_s = time.monotonic() - begun
    found = {}
    for process in processes:
        stack = stacks.get(process.pid, ())
        found[process.pid] = Seen(
            before=before[process.pid],
            view=_view(process),
            apart_s=apart_s,
            stack=stack,
            forked=process.worker >= 0 and (_is_in(stack, _FORK) or (forked and not stack)),
            alone=False,
        )
    return found


def with_other_threads(folder: Path, process: RecordedProcess, seen: Seen) -> Seen:
    """The same, and whether any other thread of the process could release a lock of the user's."""
    view, note = seen.view, process.note
    if view.n_threads == 1:
        return replace(seen, alone=True)
    if note is None or not seen.stack or view.n_threads > MOST_THREADS:
        return seen
    threads = [int(path.name) for path in Path(f"/proc/{note.pid}/task").glob("*")]
    for thread in threads:
        if thread == note.thread or view_process(note.pid, thread).call in _ACCEPTS:
            continue
        stack = ask(folder, [replace(note, thread=thread)]).get(note.pid, ())
        if not _is_in(stack, _FEEDER):
            return seen
    return replace(seen, alone=True)


def own_frames(stack: Stack) -> Stack:
    """The calls of a stack that are neither the recorder's nor the DataLoader's.

    Of a worker, those of its work alone; of a loop that waits for another process, the loop's.
    """
    frames: list[Frame] = []
    reads = False
    for frame in stack:
        if frame.file.endswith(_WORKER):
            break
        if frame.file.endswith(_FETCH):
            reads = True
        elif frame.file.endswith(_DATALOADER):
            frames = frames if reads else []
        elif "/loaderviz/recorder/" not in frame.file:
            frames.append(frame)
    return tuple(frames)


def _view(process: RecordedProcess) -> ProcessView:
    note = process.note
    if note is not None and not is_same_process(note):
        return ProcessView(process.pid)
    return view_process(process.pid, note.thread if note is not None else 0)


def _note(folder: Path, pid: int) -> StackNote | None:
    note = StackNote.read(stack_path(folder, pid))
    return note if note is not None and note.pid == pid else None


def _is_in(stack: Stack, call: tuple[str, str]) -> bool:
    """Whether one of its calls is of this function, in this file."""
    file, function = call
    return any(frame.file.endswith(file) and frame.function == function for frame in stack)
