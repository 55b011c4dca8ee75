"""What the records of a spool file mean: one place for the recorder and the reader.

Each class names the words of one record, the first two (length and tag) aside. Times are int64
nanoseconds of ``loaderviz.clock``; 0 means that it has not happened.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from enum import IntEnum
from typing import Any


class Tag(IntEnum):
    ITERATOR = 1  # iterator, loader, begun, n_workers
    WORKER = 2  # iterator, worker, pid
    EPOCH = 3  # iterator, round, epoch, begun
    BATCH = 4  # see Batch
    EXIT = 5  # iterator, worker, exit code
    FINISH = 6  # the recording's end
    TASK = 7  # see Task
    SPAN = 8  # start, end, the name as packed text


class Batch:
    """Positions of the words of a BATCH record: one batch, as the main process sees it.

    Written when it is dispatched; the later times are filled in as they come.
    """

    ITERATOR, ROUND, TASK, WORKER, DISPATCHED, REQUESTED, DELIVERED, RELEASED = range(2, 10)


class Task:
    """Positions of the words of a TASK record: one fetch, in the process that made the batch.

    After the fixed words come ``n_keys + 1`` stamps (one before each sample is read and one after
    the last), then the keys: ``n_keys`` integers, or, where a key is none, packed text.
    """

    ITERATOR, ROUND, STARTED, COLLATE, READY, CPU, STATE, N_SAMPLES, N_KEYS, KEY_KIND = range(2, 12)
    STAMPS = 12


class State(IntEnum):
    """How a fetch stands; RUNNING for ever where its process was killed."""

    RUNNING = 0
    DONE = 1
    RAISED = 2
    EXHAUSTED = 3  # an iterable-style dataset had no full batch left


class KeyKind(IntEnum):
    COUNT = 0  # iterable-style: the count within this worker's stream
    INTEGERS = 1
    TEXT = 2  # JSON


def encode_keys(keys: Sequence[Any]) -> tuple[KeyKind, array[int]]:
    """Keys as words. Integers stay so, strings too; anything else is kept as its ``repr``."""
    try:
        return KeyKind.INTEGERS, array("q", keys)
    except (TypeError, OverflowError):
        plain = [key if isinstance(key, int | str) else repr(key) for key in keys]
        return KeyKind.TEXT, pack_text(json.dumps(plain))


def pack_text(text: str) -> array[int]:
    """UTF-8 text as words, padded with blanks."""
    data = text.encode("utf-8", "replace")
    return array("q", data + b" " * (-len(data) % 8))


def unpack_text(words: Any) -> str:
    return bytes(words.tobytes()).decode("utf-8", "replace").rstrip(" ")
