"""What ``loaderviz stuck`` says of one rank, as data; and the names of the causes."""

from __future__ import annotations

from dataclasses import dataclass

from loaderviz._stuck.loop_now import LoopNow
from loaderviz.ask_for_stack import Stack

# Beside those of ``causes_of_standstill``, which are of one process.
CONSUMER, RANKS, START, HANDOVER = "consumer", "other ranks", "start of workers", "hand-over"


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
