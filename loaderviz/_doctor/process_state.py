"""What a process can tell of itself and of a dataset: generators, sizes, open files, memory."""

from __future__ import annotations

import io
import os
import sqlite3
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from loaderviz.loaders.content_hash import digest_or_none
from loaderviz.loaders.held_objects import attributes, walk
from loaderviz.loaders.random_state import global_states, held_states

_SIZED = (list, tuple, dict, set, np.ndarray, torch.Tensor)


def states_of(dataset: Any) -> dict[str, int]:
    """A number for the state of each generator: the global ones, and those of the dataset."""
    states = (*global_states(), *held_states("dataset", dataset))
    numbers = {state.path: digest_or_none(state.value) for state in states}
    return {path: number for path, number in numbers.items() if number is not None}


def values_of(dataset: Any) -> dict[str, int]:
    """How long the dataset's containers are, and the epoch that it believes in."""
    found: dict[str, int] = {}
    for name, value in attributes(dataset).items():
        if type(value) in _SIZED and getattr(value, "shape", None) != ():
            found[f"len(dataset.{name})"] = len(value)
    epoch = epoch_of(dataset)
    if epoch is not None:
        found["dataset.epoch"] = epoch
    return found


def epoch_of(dataset: Any) -> int | None:
    """``dataset.epoch``, be it a number or shared; None where there is none."""
    value = attributes(dataset).get("epoch")
    if type(value).__module__ == "multiprocessing.sharedctypes":
        value = getattr(value, "value", None)
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    return value if type(value) is int else None


def handles_of(dataset: Any) -> dict[str, int]:
    return {path: id(value) for path, value in walk("dataset", dataset) if is_handle(value)}


def is_handle(value: Any) -> bool:
    """Whether it is an open file, or a connection, whose position processes would share."""
    kind = type(value)
    if kind.__module__.partition(".")[0] in ("h5py", "lmdb", "tables"):
        return True
    if kind in (zipfile.ZipFile, tarfile.TarFile):
        return value.fp is not None if kind is zipfile.ZipFile else not value.closed
    if kind is sqlite3.Connection:
        return True
    if kind in (io.TextIOWrapper, io.BufferedReader, io.BufferedRandom, io.FileIO):
        return not value.closed and bool(value.readable()) and value.fileno() > 2
    return False


def cpus() -> tuple[int, ...]:
    """The CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def run_delay_s() -> float:
    """How long this process has been ready to run without getting a CPU (Linux; else NaN)."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return float("nan")


def shared_bytes() -> tuple[int, int] | None:
    """Resident bytes that this process shares with others, and that it alone has (Linux)."""
    try:
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return None
    kib = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    shared = kib["Shared_Clean"] + kib["Shared_Dirty"]
    return 1024 * shared, 1024 * (kib["Private_Clean"] + kib["Private_Dirty"])
