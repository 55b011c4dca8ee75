"""What the records of a spool file mean: the one place for recorder and reader.

Each class names the words of one record, except the first two (length and tag). Times are int64
nanoseconds of ``loaderviz.clocks.process_clock``; 0 means that it has not happened. The names are
plain integers, because an enum's members take several times as long to look up, in every batch.
"""

from __future__ import annotations

import functools
import json
from array import array
from collections.abc import Sequence
from struct import Struct
from typing import Any, Final

from loaderviz.own_errors import own_errors
from loaderviz.plain_value import as_text
from loaderviz.sample_keys import from_json, to_json

MAIN_PROCESS = -1  # in place of a worker's number
NOBODY = -1  # in place of an iterator's


class Tag:
    """What a record is."""

    ITERATOR = 1  # iterator, loader, begun, whether its work is not seen: its workers were started
    # before, or the loader is none of torch's
    WORKER = 2  # iterator, worker, pid
    EPOCH = 3  # iterator, round, epoch, begun
    BATCH = 4  # see Batch
    EXIT = 5  # iterator, worker, exit code
    FINISH = 6  # the recording's end
    TASK = 7  # see Task
    SPAN = 8  # see Span
    LATEST = 9  # a Task that the next one overwrites: past a limit on samples
    LEFT_OUT = 10  # how many samples and named spans, then how many batches
    ENDED_FILE = 11  # all that an ended process wrote: see spool_archive.py
    TEXT = 12  # its number in this file, and packed text: see Task.SHAPES
    WORKERS_GONE = 13  # iterator, when the loop had no more use for its workers, when it went on
    CPUS = 14  # torch's threads, and packed text: CPUs that it may run on; the last one holds
    CYCLED = 15  # iterator, which itertools.cycle holds
    READ_AHEAD = 16  # iterator that another thread than the loop's asks, and the iterator that
    # hands its batches to the loop; NOBODY: that one is not seen, or not yet
    FRAME = 17  # its number in this file, line, and packed text: JSON of [file, function, owner,
    # source]; the owner is the package, empty for the user's own code
    STACK = 18  # its number in this file, and those of its frames, the innermost last
    LOOK = 19  # iterator, Phase, stack (0: unknown), when, what it weighs, CPU time of that
    NO_LOOKS = 20  # packed text: why this process does not look at lines
    LOST = 21  # what a ring has written over, of one stream: BATCH or TASK, iterator, round, worker
    # (0 for TASK), how many such records, and samples; the last one holds


class Batch:
    """Positions of the words of a BATCH record: one batch, as the main process sees it.

    Written when it is dispatched; later times are filled in as they come. RELEASED without
    DELIVERED is when the loop got an exception in its place.
    """

    ITERATOR, ROUND, TASK, WORKER, DISPATCHED, PINNED, REQUESTED, DELIVERED, RELEASED = range(2, 11)
    DEVICE_START, DEVICE_END = 11, 12  # the step on the device
    DRAWING = 13  # when the main process began to ask the sampler for its keys
    N_WORDS = 14
    N_WORDS_OF_FORMAT_1 = 13
    LAYOUT = Struct("7q48xq")  # the words up to DISPATCHED, and DRAWING; zeros in between


class Span:
    """Positions of the words of a SPAN record: one span that the user named."""

    START, END, DEVICE_START, DEVICE_END = range(2, 6)
    NAME = 6  # packed text, to the end


class Task:
    """Positions of the words of a TASK record: one fetch, in the process that made the batch.

    After the fixed words come ``n_keys + 1`` stamps: one before each sample is read and one after
    the last. Where one call reads all samples, only the first stamp is set, and N_SAMPLES says how
    many there were. Then come the keys: ``n_keys`` integers or, if not all are, packed text.
    """

    ITERATOR, ROUND, STARTED, COLLATE, READY, CPU, STATE, N_SAMPLES, N_KEYS, KEY_KIND = range(2, 12)
    RSS = 12  # resident memory of the process in bytes, as last read
    BYTES = 13  # the size of the batch plus one; 0: unknown
    PROCESS_CPU = 14  # CPU time since the last batch of the process and of children that it has
    # waited for, plus one; 0: unknown
    QUEUED = 15  # the time that its thread was ready and had no CPU, plus one; 0: unknown
    THROTTLED = 16  # the time that a CPU quota stopped its cgroup, plus one; 0: unknown
    SHAPES = 17  # the number of a TEXT: what the batch is made of, or why it could not be; 0: none
    CHILDREN_CPU = 18  # the part of PROCESS_CPU that is the children's, plus one; 0: unknown
    READ = 19  # bytes that the process has read since the last batch, plus one; 0: unknown
    DISK = 20  # ... and that a disk had to give for it, plus one; 0: unknown
    STAMPS = 21
    STAMPS_OF_FORMAT: Final = {1: 14, 2: 17, 3: 18, 4: 19, 5: 19, 6: STAMPS}


@functools.lru_cache(maxsize=1024)
def task_layout(n_keys: int) -> Struct:
    """A TASK record with integers for keys: the words up to STARTED, N_KEYS, KEY_KIND, the keys.

    The others are zero.
    """
    n_later = Task.STAMPS - Task.KEY_KIND - 1 + n_keys + 1
    return Struct(f"5q{8 * (Task.N_KEYS - Task.STARTED - 1)}x2q{8 * n_later}x{n_keys}q")


@functools.lru_cache(maxsize=1024)
def batch_and_task_layout(n_keys: int) -> Struct:
    """A BATCH record with its TASK record after it."""
    return Struct(Batch.LAYOUT.format + task_layout(n_keys).format)


class State:
    """How a fetch stands; it stays RUNNING where its process was killed or interrupted."""

    RUNNING = 0
    DONE = 1
    RAISED = 2
    EXHAUSTED = 3  # an iterable-style dataset had no full batch left


class Phase:
    """What a process was doing when it was looked at."""

    READ, COLLATE, INIT, SAMPLER = range(4)
    NAMES: Final = ("read", "collate", "init", "sampler")


class KeyKind:
    """How a task's keys are written."""

    COUNT = 0  # iterable-style: the count within this worker's stream
    INTEGERS = 1
    TEXT = 2  # JSON
    LEFT_OUT = 3  # past a limit: neither stamps nor keys


def encode_keys(keys: Sequence[Any]) -> tuple[int, array[int]]:
    """The kind of the keys (``KeyKind``) and the keys as words.

    Integers are the words themselves. Other keys are text that ``decode_keys`` reads: a key that
    ``sample_keys`` cannot write as JSON becomes its ``repr``.
    """
    try:
        return KeyKind.INTEGERS, array("q", keys)
    except own_errors(Exception, method="__index__", of=keys):  # a key is no integer
        return KeyKind.TEXT, pack_text(json.dumps([key_value(key) for key in keys]))


def decode_keys(text: str) -> list[Any]:
    """The keys that ``encode_keys`` wrote as text.

    Raises ValueError, TypeError or RecursionError for any other text.
    """
    return [from_json(key) for key in list(json.loads(text))]


def key_value(key: Any) -> Any:
    """A key as a JSON value; its ``repr`` where ``sample_keys`` cannot write it as one."""
    try:
        return to_json(key)
    except own_errors(TypeError, RecursionError):
        return as_text(key, repr)


def pack_text(text: str) -> array[int]:
    """Text as words: UTF-8, padded with blanks."""
    data = text.encode("utf-8", "replace")
    return array("q", data + b" " * (-len(data) % 8))


def unpack_text(words: Any) -> str:
    """The text that ``pack_text`` made into these words (an int64 array)."""
    return bytes(words.tobytes()).decode("utf-8", "replace").rstrip(" ")
