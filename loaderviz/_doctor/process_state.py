"""What a process knows of itself and of a dataset: generators, sizes, open files, memory."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import socket
import sqlite3
import ssl
import tarfile
import threading
import zipfile
from collections.abc import Iterable
from pathlib import Path
from stat import S_ISREG
from typing import Any

import numpy as np
import torch

from loaderviz.loaders.content_hash import content_number
from loaderviz.loaders.held_objects import attributes, walk
from loaderviz.loaders.random_state import global_states, held_states

FEEDER = "QueueFeederThread"
STDERR = 2
FILES = (
    io.TextIOWrapper,
    io.BufferedReader,
    io.BufferedRandom,
    io.FileIO,
    gzip.GzipFile,
    bz2.BZ2File,
    lzma.LZMAFile,
)
_SIZED = (list, tuple, dict, set, np.ndarray, torch.Tensor)


def generator_states(dataset: Any, collate_fn: Any) -> dict[str, int]:
    """A digest of the state of each generator, by path: the global ones, and those of these two."""
    states = (*global_states(), *held_states(dataset=dataset, collate_fn=collate_fn))
    digests = {state.path: content_number(state.value) for state in states}
    return {path: digest for path, digest in digests.items() if digest is not None}


def lengths_and_epoch(dataset: Any) -> dict[str, int]:
    """``len(dataset.x)`` for each container x that the dataset holds, and ``dataset.epoch``."""
    values: dict[str, int] = {}
    for name, value in attributes(dataset).items():
        if type(value) in _SIZED and getattr(value, "shape", None) != ():
            values[f"len(dataset.{name})"] = len(value)
    epoch = epoch_of(dataset)
    if epoch is not None:
        values["dataset.epoch"] = epoch
    return values


def epoch_of(dataset: Any) -> int | None:
    """``dataset.epoch``, whether it is a plain or a shared number; None where there is none."""
    value = attributes(dataset).get("epoch")
    if type(value).__module__ == "multiprocessing.sharedctypes":
        value = getattr(value, "value", None)
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    return value if type(value) is int else None


def handle_ids(dataset: Any) -> dict[str, int]:
    """The ``id()`` of each open file or connection that the dataset holds, by path."""
    return {path: id(value) for path, value in walk("dataset", dataset) if is_handle(value)}


def is_handle(value: Any) -> bool:
    """Whether the value is an open file or connection whose position forked processes share."""
    kind = type(value)
    if kind.__module__.partition(".")[0] in ("h5py", "lmdb", "tables"):
        return True
    if kind in (zipfile.ZipFile, tarfile.TarFile):
        return value.fp is not None if kind is zipfile.ZipFile else not value.closed
    if kind is sqlite3.Connection:
        return True
    if kind in (socket.socket, ssl.SSLSocket):
        return bool(value.fileno() >= 0)
    if kind in FILES and not value.closed:
        return bool(value.readable()) and descriptor_of(value) > STDERR
    return False


def descriptor_of(file: Any) -> int:
    """The number by which the system knows an open file; -1 for one that has none."""
    try:
        return int(file.fileno())
    except OSError:  # it reads what another file holds
        return -1


class WatchedFiles:
    """The open files among some values: whether their positions move, whoever reads.

    Regular ones that do not stand at their end, where a sample may leave them time and again.
    """

    def __init__(self, values: Iterable[object]) -> None:
        files = {descriptor_of(each) for each in values if type(each) in FILES and is_handle(each)}
        about = {fd: os.fstat(fd) for fd in files}
        stood = {fd: position_of(fd) for fd in files if S_ISREG(about[fd].st_mode)}
        self._stood = {fd: at for fd, at in stood.items() if at != about[fd].st_size}
        self._moved: set[int] = set()
        self._looked = False

    def look(self) -> None:
        """Note those that stand elsewhere now."""
        self._looked = True
        self._moved.update(fd for fd, at in self._stood.items() if position_of(fd) != at)

    def still(self) -> frozenset[int]:
        """The descriptors of those that no look found elsewhere; none without a look."""
        return frozenset(self._stood).difference(self._moved if self._looked else self._stood)


def position_of(fd: int) -> int:
    """Where a file stands that is open for reading; -1 for one that is closed."""
    try:
        return os.lseek(fd, 0, os.SEEK_CUR)
    except OSError:
        return -1


def positions() -> dict[tuple[int, str], int]:
    """Where each regular file stands that this process has open for reading (Linux; else none).

    By file descriptor and path. Forked workers share these positions (fork(2), "open file
    description"), so that what one of them reads moves them here.
    """
    found = {}
    for fd in Path("/proc/self/fd").glob("*"):
        try:
            path = str(fd.readlink())
            lines = Path(f"/proc/self/fdinfo/{fd.name}").read_text().splitlines()
            fields = dict(line.split(":\t", 1) for line in lines)  # proc(5)
            for_reading = int(fields["flags"], 8) & os.O_ACCMODE != os.O_WRONLY
            if for_reading and int(fd.name) > STDERR and Path(path).is_file():
                found[int(fd.name), path] = int(fields["pos"])
        except (OSError, ValueError, KeyError):  # closed meanwhile
            continue
    return found


def handing_over_cpu_s() -> float:
    """CPU time of the threads in which queues pickle and send (Linux; else NaN).

    Their name is that of ``Queue._start_thread`` in Python's multiprocessing/queues.py.
    """
    threads = [each.native_id for each in threading.enumerate() if each.name == FEEDER]
    try:
        books = [Path(f"/proc/self/task/{thread}/schedstat").read_text() for thread in threads]
        return sum(int(book.split()[0]) for book in books) / 1e9
    except (OSError, ValueError, IndexError):
        return float("nan")


def shared_and_own_bytes() -> tuple[int, int] | None:
    """Resident bytes: those shared with other processes, and its own (Linux; else None).

    Of the shared ones those that were written: a library's pages, which become resident when its
    code is first used, would hide how many of the others are copied.
    """
    try:
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return None
    fields = (line.partition(":") for line in lines)
    kib = {name: int(value.split()[0]) for name, _, value in fields}
    return 1024 * kib["Shared_Dirty"], 1024 * (kib["Private_Clean"] + kib["Private_Dirty"])
