"""Where one rank stands still, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from loaderviz._stuck import causes_of_standstill as causes
from loaderviz._stuck.causes_of_standstill import Seen, Why, why
from loaderviz._stuck.loop_now import BatchNow, LoopNow
from loaderviz._stuck.process_view import free_shared_memory, view_process
from loaderviz._stuck.rank_now import (
    CONSUMER,
    HANDOVER,
    RANKS,
    START,
    ProcessNow,
    RankNow,
    activity,
    kernel_text,
    sentence,
)
from loaderviz._stuck.recorded_processes import (
    RecordedProcess,
    look_at,
    main_process,
    own_frames,
    with_other_threads,
    worker_of,
    workers_of,
)
from loaderviz._stuck.task_now import MadeNow, read_batch, read_task
from loaderviz.ask_for_stack import Frame
from loaderviz.record_layout import State
from loaderviz.text import duration, size, worker_name

LEAST_S: Final = 3.0  # a shorter pause is nothing to look into
LONGER: Final = 2.0  # times the longest pause so far: what is only as slow as usual is not stuck
# Where nothing goes on for certain, however short the pause.
_CERTAIN: Final = (causes.DEAD, causes.STOPPED, causes.FORK)
# In such a process the threads that send its batches get no further, either.
_KEEPS_BATCHES: Final = (causes.STOPPED, causes.COMPUTING)
_LITTLE_SHARED_MEMORY: Final = 0.01  # of all
_DATALOADER: Final = "/torch/utils/data/dataloader.py"
_COLLECTIVES: Final = "/torch/distributed/"
_FOREIGN: Final = "/loaderviz/recorder/foreign_log.py"


def examine_rank(loop: LoopNow) -> RankNow:
    """How a loop stands whose processes are on this machine.

    Raises:
        LoaderVizError: where a file of its recording cannot be read.
    """
    main = main_process(loop)
    if not main.is_alive():
        return RankNow.of(
            loop, f"Its main process ({loop.pid}) does not run any more.", causes.DEAD
        )
    if loop.cut_short:
        return RankNow.of(loop, f"Not known: what goes on is not recorded ({loop.cut_short}).")
    if loop.pause_s < LEAST_S:
        return RankNow.of(loop, _last_batch(loop))
    workers = workers_of(loop)
    awaited = _awaited(loop, workers)
    worker = worker_of(workers, awaited) if awaited is not None else None
    asked = [main] if worker is None else [main, worker]
    seen = look_at(loop.folder, asked, forked=loop.start_method == "fork")
    if worker is not None and worker.is_alive():
        seen[worker.pid] = with_other_threads(loop.folder, worker, seen[worker.pid])
    found = _Examined(loop, main, workers, awaited, worker, seen).rank()
    if loop.pause_s > LONGER * loop.longest_pause_s or found.cause in _CERTAIN:
        return found
    usual = f"It has paused for {duration(loop.longest_pause_s)} before, and went on."
    return replace(found, stuck=False, verdict=f"{found.verdict} {usual}")


def _last_batch(loop: LoopNow) -> str:
    if not loop.n_batches:
        return "No batch has come yet, since a moment ago."
    return f"The last batch came {duration(loop.since_last_batch_s)} ago."


def _awaited(loop: LoopNow, workers: list[RecordedProcess]) -> BatchNow | None:
    """The batch that the loop waits for; None where all that were asked for are done with."""
    for batch in loop.open_batches:
        if batch.worker < 0:
            return batch
        process = worker_of(workers, batch)
        if process is None:  # it has ended
            continue
        task = process.last_task()
        ended = (batch.iterator, batch.round, State.EXHAUSTED)
        if task is None or (task.iterator, task.round, task.state) != ended:
            return batch
    return None


@dataclass(frozen=True)
class _Examined:
    """A rank whose loop has paused, with all that was seen of it."""

    loop: LoopNow
    main: RecordedProcess
    workers: list[RecordedProcess]
    awaited: BatchNow | None
    worker: RecordedProcess | None  # that makes it
    seen: dict[int, Seen]

    def rank(self) -> RankNow:
        stack = self.seen[self.main.pid].stack
        in_loader = any(frame.file.endswith(_DATALOADER) for frame in stack)
        if self.awaited is not None and (in_loader or not stack):
            if self.worker is None:
                return self._of_main(self.awaited)
            return self._of_worker(self.awaited, self.worker)
        return self._of_unseen_loader() if in_loader else self._of_consumer()

    def _of_worker(self, batch: BatchNow, worker: RecordedProcess) -> RankNow:
        """The loop waits for a batch of this worker's."""
        because, holds_up = why(self.seen[worker.pid]), worker
        task = worker.last_task()
        made = MadeNow()
        if task is not None and worker.file is not None:
            made = read_batch(worker.file, batch.iterator, batch.round, batch.nth)
        is_dead = because.cause == causes.DEAD
        if made.state in (State.DONE, State.RAISED) and not is_dead:
            does = "has made it, and it has not arrived"
            if because.cause not in _KEEPS_BATCHES:
                because, holds_up = self._handing_over(worker, made.n_bytes)
        elif task is None or made.state is None:
            does = "has not begun it" if task is not None else "has begun no batch, as far as seen"
            if because.cause == causes.UNKNOWN and task is None:
                because = replace(because, cause=START)
        else:
            does = activity(task, made.key, was=is_dead)
        order = "" if self.loop.in_order else ", or another one"
        verdict = (
            f"The loop has waited {duration(self.loop.pause_s)} for {self._name(batch)}{order}. "
            f"{worker_name(worker.worker).capitalize()} (pid {worker.pid}) {does}. "
            f"{sentence(because.evidence)}"
        )
        processes = (
            self._process(worker, does, because),
            self._process(self.main, "waits for the batch"),
            *self._bystanders(worker),
        )
        reads = task is not None and made.state == State.RUNNING
        sample = task.sample(made.key) if task is not None and reads else None
        return RankNow.of(
            self.loop,
            verdict,
            because.cause,
            worker=holds_up.worker,
            sample=sample,
            processes=processes,
        )

    def _handing_over(self, worker: RecordedProcess, n_bytes: int) -> tuple[Why, RecordedProcess]:
        """Why a batch of this size, 0 for unknown, is made and does not arrive, and who holds it.

        Every worker takes the lock of the result queue to send a batch.
        """
        free, total = free_shared_memory(self.main.pid)
        if total and free < max(n_bytes, _LITTLE_SHARED_MEMORY * total):
            needs = f", and the batch has {size(n_bytes)}" if n_bytes else ""
            left = f"{size(free)} of {size(total)} of /dev/shm are free{needs}"
            return Why(causes.SHARED_MEMORY, left), worker
        for state, cause in (("dead", causes.DEAD), ("stopped", causes.STOPPED)):
            for other in self.workers:
                if _state(other) == state:
                    name = f"{worker_name(other.worker)} (pid {other.pid})"
                    holds = f"{name} is {state}; it may hold the lock of the result queue"
                    return Why(cause, holds), other
        because = Why(
            HANDOVER,
            "it cannot be pickled or sent (the worker's stderr says so then), or what sends or "
            "pins it waits",
        )
        return because, worker

    def _of_main(self, batch: BatchNow) -> RankNow:
        """The loop waits for a batch that the main process makes itself."""
        because = why(self.seen[self.main.pid])
        does, sample = "makes the batch", None
        for path in self.loop.folder.glob("here-*.spool"):  # may be named after an earlier iterator
            task = read_task(path)
            if task is not None and task.iterator == batch.iterator:
                key = read_batch(path, batch.iterator, batch.round, batch.nth).key
                does, sample = activity(task, key), task.sample(key)
        verdict = (
            f"The loop has waited {duration(self.loop.pause_s)} for {self._name(batch)}. "
            f"The main process makes it, and {does}. {sentence(because.evidence)}"
        )
        process = self._process(self.main, does, because)
        return RankNow.of(self.loop, verdict, because.cause, sample=sample, processes=(process,))

    def _of_unseen_loader(self) -> RankNow:
        """The loop is in a DataLoader, and no batch that is written down is due."""
        seen = self.seen[self.main.pid]
        because, cause = why(seen), START
        does = "starts a loader's workers, or waits for them to end"
        if any(_is_next(frame) for frame in seen.stack):
            cause, does = causes.UNKNOWN, "waits for a batch of a loader that is not recorded"
        verdict = f"For {duration(self.loop.pause_s)} the loop {does}. {sentence(because.evidence)}"
        processes = (self._process(self.main, does, because), *self._bystanders(None))
        return RankNow.of(self.loop, verdict, cause, processes=processes)

    def _of_consumer(self) -> RankNow:
        """The loop does not wait for a batch of a DataLoader."""
        seen, held = self.seen[self.main.pid], self.loop.held
        because, cause = why(seen), CONSUMER
        does = f"works on {self._name(held)}" if held is not None else "works between batches"
        collective = next((frame for frame in seen.stack if _COLLECTIVES in frame.file), None)
        if collective is not None:
            cause = RANKS
            because = Why(RANKS, f"it waits for other ranks, in {collective.function}()")
        elif any(frame.file.endswith(_FOREIGN) for frame in seen.stack):
            cause, does = causes.UNKNOWN, "waits for a loader whose own work is not seen"
        elif not seen.stack and held is None:
            cause, does = causes.UNKNOWN, "works between batches, or waits for a first one"
        verdict = (
            f"For {duration(self.loop.pause_s)} the loop itself {does}. "
            f"{sentence(because.evidence)}"
        )
        process = self._process(self.main, does, because)
        return RankNow.of(self.loop, verdict, cause, processes=(process,))

    def _name(self, batch: BatchNow) -> str:
        of_loader = f" of loader {batch.loader}" if self.loop.n_loaders > 1 else ""
        return f"batch {batch.batch} of epoch {batch.epoch}{of_loader}"

    def _bystanders(self, but: RecordedProcess | None) -> list[ProcessNow]:
        """The other workers, which are not asked for their stacks."""
        found = []
        for process in self.workers:
            if process is not but:
                task = process.last_task()
                does = activity(task) if task is not None else "has begun no batch, as far as seen"
                does = f"is {state}" if (state := _state(process)) else does
                found.append(ProcessNow(process.worker, process.pid, does))
        return found

    def _process(
        self, process: RecordedProcess, does: str, because: Why | None = None
    ) -> ProcessNow:
        seen = self.seen[process.pid]
        return ProcessNow(
            process.worker,
            process.pid,
            does,
            because.evidence if because is not None else "",
            own_frames(seen.stack),
            kernel_text(seen.view),
        )


def _state(process: RecordedProcess) -> str:
    """``dead``, ``stopped``, or an empty text where it runs."""
    if not process.is_alive():
        return "dead"
    return "stopped" if view_process(process.pid).is_stopped else ""


def _is_next(frame: Frame) -> bool:
    return frame.file.endswith(_DATALOADER) and frame.function == "__next__"
