"""What ``loaderviz stuck`` says of one rank: as data, in words, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from loaderviz._stuck import causes_of_standstill as causes
from loaderviz._stuck.loop_now import LoopNow
from loaderviz._stuck.process_view import ProcessView
from loaderviz._stuck.task_now import TaskNow
from loaderviz.ask_for_stack import Stack
from loaderviz.clocks.process_clock import now
from loaderviz.record_layout import State
from loaderviz.text import count, duration

# Beside those of ``causes_of_standstill``, which are of one process.
CONSUMER, RANKS, START, HANDOVER = "consumer", "other ranks", "start of workers", "hand-over"

_ALONE = "read the sample by itself, dataset[key], in one process"
CURES: Final = {
    causes.DEAD: "end the run. For lack of memory: fewer workers, or smaller batches. "
    f"Else {_ALONE}: the error shows there.",
    causes.STOPPED: "continue it: kill -CONT PID, or fg in its shell.",
    causes.FORK: 'start workers with multiprocessing_context="spawn"; or open what has threads or '
    "locks (a client of a store, a logger, a pool) in the worker, at the first sample.",
    causes.LOCK: "look at the stack: who else takes this lock, and does it come back?",
    causes.SHARED_MEMORY: "give it more: docker run --shm-size=8g, or an emptyDir with "
    "medium: Memory at /dev/shm; or fewer workers and a smaller prefetch_factor.",
    causes.NETWORK: "give the client a timeout and let it try again; DataLoader(..., timeout=60) "
    "raises an error in place of waiting for ever.",
    causes.STORAGE: "look at the disk or the file server: can this file be read from a shell?",
    causes.CHILD: "look at the process at the other end: ps --ppid PID.",
    causes.SLEEP: "look at the stack: something waits before it tries again, perhaps for ever.",
    causes.COMPUTING: f"{_ALONE}: is it only slow, or is there a loop without an end?",
    causes.UNKNOWN: f"look at the stack; {_ALONE}.",
    CONSUMER: "look at the stack: it is the loop's own work that does not end, or takes long.",
    RANKS: "look at the rank that is not there yet: it is named first. Do all ranks have equally "
    "many batches?",
    START: "look at the stack: importing, unpickling the dataset or worker_init_fn takes long.",
    HANDOVER: "read what the workers wrote to stderr; can the batch be pickled?",
}


@dataclass(frozen=True)
class ProcessNow:
    """One process of a rank, and what it does.

    Attributes:
        worker: its number; -1 is the main process.
        pid: of the process.
        does: what it does, in words.
        evidence: why it goes no further, in words; empty where it was not asked.
        stack: the innermost call first, without the recorder's and the DataLoader's; empty where
            it is not known.
        kernel: what the kernel says, in words; empty where it was not asked.
    """

    worker: int
    pid: int
    does: str
    evidence: str = ""
    stack: Stack = ()
    kernel: str = ""


@dataclass(frozen=True)
class RankNow:
    """One recording of a run.

    Attributes:
        name: of its folder.
        rank: of its process.
        stuck: whether it stands still.
        cause: why, in one or two words; empty where it does not, or nobody can tell from here.
        verdict: what is known, in sentences.
        n_batches: how many batches its loop has got.
        pause_s: for how long the loop has been where it is; NaN where that is not known.
        worker: the one that holds it up; None where none does.
        sample: the key of the sample that this worker, or the main process, reads; None where
            there is none or it is not known.
        processes: the worker that the loop waits for, and the main process; then the workers that
            were not asked for their stacks.
    """

    name: str
    rank: int
    stuck: bool
    cause: str
    verdict: str
    n_batches: int
    pause_s: float
    worker: int | None = None
    sample: object = None
    processes: tuple[ProcessNow, ...] = ()

    @classmethod
    def of(
        cls,
        loop: LoopNow,
        verdict: str,
        cause: str = "",
        *,
        worker: int | None = None,
        sample: object = None,
        processes: tuple[ProcessNow, ...] = (),
    ) -> RankNow:
        """What is said of a loop; it stands still if there is a cause."""
        return cls(
            name=loop.folder.name,
            rank=loop.rank,
            stuck=bool(cause),
            cause=cause,
            verdict=verdict,
            n_batches=loop.n_batches,
            pause_s=loop.pause_s,
            worker=worker,
            sample=sample,
            processes=processes,
        )


def activity(task: TaskNow, key: object = None, *, was: bool = False) -> str:
    """What a process does with the batch that it began last; or ``was`` doing when it died."""
    has_been = "was" if was else "has been"
    if task.state != State.RUNNING:
        return "waited for work" if was else "waits for work"
    since_ns = task.sample_ns or task.started_ns
    since = "when it died" if was else f"for {duration((now() - since_ns) / 1e9)}"
    if task.collates:
        return f"{has_been} collating it {since}"
    sample = task.sample(key)
    if sample is not None:
        return f"{has_been} reading sample {sample!r} {since}"
    if task.position >= 0:
        return f"{has_been} reading sample number {task.position + 1} of the batch {since}"
    if task.keys:
        return f"{has_been} reading the samples {', '.join(map(repr, task.keys))} at once {since}"
    return f"{has_been} making it {since}"


def kernel_text(view: ProcessView) -> str:
    """How a process stands, as the kernel says."""
    if not view.is_alive:
        return "does not run any more"
    function = f"({view.kernel_function})" if view.kernel_function else ""
    where = " ".join(part for part in (view.call, function) if part)
    return (
        f"state {view.state}{f', in {where}' if where else ''}, "
        f"{count(view.n_threads, 'thread')}, {duration(view.cpu_s)} of CPU time"
    )


def sentence(text: str) -> str:
    """A text as a sentence."""
    return f"{text[:1].upper()}{text[1:]}."
