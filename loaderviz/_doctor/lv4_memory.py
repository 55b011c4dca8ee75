"""LV4xx: memory of the workers, the shared memory between processes, and open files."""

from __future__ import annotations

import itertools
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from torch.utils.data import TensorDataset

from loaderviz._doctor.checks import Seen, check, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.findings import Undecided
from loaderviz.loaders.held_objects import Part, attributes
from loaderviz.text import size

if sys.platform != "win32":
    import resource

MANY_OBJECTS = 10_000  # in one container
COPIED = 4 << 20  # bytes that became a worker's own
SHM = Path("/dev/shm")
_OBJECT = 64  # bytes, at the least


def _large_containers(case: Case) -> list[Part]:
    """Containers of many Python objects that the dataset holds."""
    large = []
    for part in case.setup.parts:
        is_array = type(part.value) is np.ndarray and part.value.dtype == object
        if not is_array and type(part.value) not in (list, tuple, dict, set):
            continue
        if len(part.value) >= MANY_OBJECTS and _bytes_in(part.value) >= COPIED:
            large.append(part)
    return large


def _bytes_in(container: Any) -> int:
    """About as much as its objects take, from the first hundred of them."""
    known = (str, bytes, int, float, tuple, list, dict)  # whose size is not for the user to tell
    few = list(itertools.islice(container, 100))
    sizes = [sys.getsizeof(each) if type(each) in known else _OBJECT for each in few]
    return len(container) * (8 + sum(sizes) // len(few))


@check(
    "LV401",
    "Memory grows in every worker: pages of Python objects are copied",
    "warning",
    notebook=7,
    threads="13246",
)
def copied_pages(case: Case) -> Seen | None:
    if not case.setup.num_workers or not case.setup.forks:
        return None
    large = _large_containers(case)
    if not large:
        return None
    path, value = large[0]
    what = f"{path} is a {type(value).__name__} of {len(value):,} Python objects"
    if not case.ran:
        raise Undecided(f"{what}, which workers copy as they read; {case.why_not}")
    growth = _own_memory(case)
    if not growth:
        raise Undecided(f"{what}; this system does not tell what memory processes share")
    least = min(last - first for first, last, _ in growth)
    if least < COPIED:
        return None
    first, last, n = max(growth)
    return seen(
        what,
        f"what a worker has for its own grew from {size(first)} to {size(last)} over "
        f"{n:,} samples, in each of {len(growth)} workers by {size(least)} or more: to "
        "read an object is to write its reference count",
        fix=f"""
{path.replace("dataset", "self", 1)} = np.array(items)  # one block; or Arrow, or a shared tensor
""",
    )


def _own_memory(case: Case) -> list[tuple[int, int, int]]:
    """For each worker: bytes of its own after its first batch and at most, and its samples."""
    by_pid: dict[int, list[Any]] = {}
    for note in case.epoch().notes:
        by_pid.setdefault(note.pid, []).append(note)
    found = []
    for notes in by_pid.values():
        looks = [note.shared for note in notes if note.shared is not None]
        if len(looks) > 1:
            shared, own = zip(*looks, strict=True)
            # What a cache takes is new; a page that is copied is no longer shared.
            grown = min(max(own) - own[0], shared[0] - min(shared))
            found.append((own[0], own[0] + grown, sum(note.n_samples for note in notes)))
    return found


@check(
    "LV402", "The batches in flight do not fit into /dev/shm", "error", notebook=8, threads="5040"
)
def small_shared_memory(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers or not SHM.is_dir():
        return None
    in_flight = setup.in_flight + 1
    room = shutil.disk_usage(SHM).free
    if (failed := case.trouble("shared memory")) is not None:
        batch_bytes = 0
        lines = [failed.text]
    else:
        batch_bytes = _batch_bytes(case)
        lines = [f"a batch holds {size(batch_bytes)} of tensors"]
    if batch_bytes * in_flight <= room and failed is None:
        return None
    fitting = max(1, int(room // max(batch_bytes, 1)) - 1)
    return seen(
        *lines,
        f"{setup.num_workers} workers x prefetch_factor={setup.own['prefetch_factor']} + 1 = "
        f"{in_flight} batches may be in flight, and {size(room)} of {SHM} are free",
        fix=f"""
DataLoader(dataset, num_workers={min(setup.num_workers, fitting)}, prefetch_factor=1)
# or more room: docker run --shm-size=8g; or smaller batches
""",
    )


def _batch_bytes(case: Case) -> int:
    """Bytes of the tensors in one batch: known of a TensorDataset, else looked up in a batch."""
    dataset, batch_size = case.setup.dataset, case.setup.own["batch_size"]
    if type(dataset) is TensorDataset and batch_size:
        tensors = attributes(dataset)["tensors"]
        if all(type(each) is torch.Tensor for each in tensors):
            n = sum(each[0].numel() * each.element_size() for each in tensors if len(each))
            return int(min(batch_size, len(tensors[0])) * n)
    if case.contents is None:
        case.epoch()  # says why there is none
        raise Undecided("no batch was looked into")
    return case.contents.tensor_bytes


@check(
    "LV403",
    "Batches hold more open files than this process may have",
    "error",
    notebook=8,
    threads="973 11201",
)
def too_many_files(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers or sys.platform == "win32":
        return None
    if torch.multiprocessing.get_sharing_strategy() != "file_descriptor":
        return None
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    failed = case.trouble("files")
    if failed is None:
        case.epoch()
    a_batch = case.contents.n_tensors if case.contents is not None else 0
    opened = psutil.Process().num_fds()
    if failed is None and opened + 2 * a_batch <= limit:
        return None
    return seen(
        *([failed.text] if failed is not None else []),
        *([f"a batch holds {a_batch} tensors, and each keeps a file open"] if a_batch else []),
        f"this process has {opened} files open, and may have {limit} (ulimit -n)",
        fix="""
torch.multiprocessing.set_sharing_strategy("file_system")
# or fewer, larger tensors: torch.stack(samples); or resource.setrlimit(RLIMIT_NOFILE, ...)
# a batch that is kept: batch.clone()
""",
    )
