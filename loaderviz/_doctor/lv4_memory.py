"""LV4xx: the workers' memory, shared memory between processes, and open files."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import psutil
import torch
from torch.utils.data import TensorDataset

from loaderviz._doctor.batch_contents import Contents
from loaderviz._doctor.checks import Seen, check, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.findings import Undecided
from loaderviz._doctor.loader_setup import COPIED_BYTES
from loaderviz.loaders.held_objects import attributes
from loaderviz.text import size

if sys.platform != "win32":
    import resource

SHM = Path("/dev/shm")


@check("LV401")
def _copied_pages(case: Case) -> Seen | None:
    if not case.setup.num_workers or not case.setup.forks:
        return None
    containers = case.setup.large_containers
    if not containers:
        return None
    path, value = containers[0]
    description = f"{path} is a {type(value).__name__} of {len(value):,} Python objects"
    if not case.ran:
        raise Undecided(f"{description}, which workers copy as they read them; {case.why_not_run}")
    growth = _memory_growth(case)
    if not growth:
        raise Undecided(f"{description}; this system does not say which memory processes share")
    least = min(last - first for first, last, _ in growth)
    if least < COPIED_BYTES:
        return None
    first, last, n_samples = max(growth)
    return seen(
        description,
        f"a worker's own memory grew from {size(first)} to {size(last)} over {n_samples:,} "
        f"samples, and by {size(least)} or more in each of {len(growth)} workers: reading an "
        "object writes its reference count, which copies its page",
        fix=f"""
{path.replace("dataset", "self", 1)} = np.array(items)  # one block; or Arrow, or a shared tensor
""",
    )


def _memory_growth(case: Case) -> list[tuple[int, int, int]]:
    """For each worker: bytes of its own after its first batch and at most, and its samples."""
    growth = []
    for notes in case.epoch().notes_by_worker().values():
        measures = [note.memory for note in notes if note.memory is not None]
        if len(measures) > 1:
            shared, own = zip(*measures, strict=True)
            # A cache takes new memory; a page that is copied is also no longer shared.
            grown = min(max(own) - own[0], shared[0] - min(shared))
            growth.append((own[0], own[0] + grown, sum(note.n_samples for note in notes)))
    return growth


@check("LV402")
def _small_shared_memory(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers or not SHM.is_dir():
        return None
    in_flight = setup.num_workers * setup.settings["prefetch_factor"] + 2
    free = shutil.disk_usage(SHM).free
    if (trouble := case.trouble_of_kind("shared memory")) is not None:
        batch_bytes = 0
        lines = [trouble.text]
    else:
        batch_bytes = _batch_bytes(case)
        lines = [f"the tensors of a batch take {size(batch_bytes)}"]
    if batch_bytes * in_flight <= free and trouble is None:
        return None
    fitting = max(1, int(free // max(batch_bytes, 1)) - 2)
    return seen(
        *lines,
        f"{setup.num_workers} workers x prefetch_factor={setup.settings['prefetch_factor']} + 2 "
        f"within next() = {in_flight} batches may be there at once",
        f"{SHM} has {size(free)} free",
        fix=f"""
DataLoader(dataset, num_workers={min(setup.num_workers, fitting)}, prefetch_factor=1)
# or more room: docker run --shm-size=8g; or smaller batches
""",
    )


def _batch_bytes(case: Case) -> int:
    """Bytes of the tensors in one batch: of a TensorDataset without a run, else as measured."""
    dataset, batch_size = case.setup.dataset, case.setup.settings["batch_size"]
    if type(dataset) is TensorDataset and batch_size:
        tensors = attributes(dataset)["tensors"]
        if all(type(tensor) is torch.Tensor for tensor in tensors):
            sample_bytes = sum(
                tensor[0].numel() * tensor.element_size() for tensor in tensors if len(tensor)
            )
            return int(min(batch_size, len(tensors[0])) * sample_bytes)
    contents = case.observed(Contents)
    if contents is None:
        case.epoch()  # raises Undecided with the reason
        raise Undecided("no batch was inspected")
    return contents.tensor_bytes


@check("LV403")
def _too_many_files(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers or sys.platform == "win32":
        return None
    if torch.multiprocessing.get_sharing_strategy() != "file_descriptor":
        return None
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    trouble = case.trouble_of_kind("files")
    if trouble is None:
        case.epoch()
    contents = case.observed(Contents)
    if contents is None and trouble is None:
        raise Undecided("no batch was inspected")
    n_tensors = contents.n_tensors if contents is not None else 0
    n_open = psutil.Process().num_fds()
    if trouble is None and n_open + 2 * n_tensors <= limit:
        return None
    return seen(
        *([trouble.text] if trouble is not None else []),
        *([f"a batch holds {n_tensors} tensors, and each keeps a file open"] if n_tensors else []),
        f"this process has {n_open} files open, and may have {limit} (ulimit -n)",
        fix="""
torch.multiprocessing.set_sharing_strategy("file_system")
# or fewer, larger tensors: torch.stack(samples); or resource.setrlimit(RLIMIT_NOFILE, ...)
# and keep clones instead of batches: batch.clone()
""",
    )
