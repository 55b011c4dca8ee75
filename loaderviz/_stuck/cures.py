"""What to do about each cause for which a run stands still."""

from __future__ import annotations

from typing import Final

from loaderviz._stuck import causes_of_standstill as causes
from loaderviz._stuck.rank_now import CONSUMER, HANDOVER, RANKS, START

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
