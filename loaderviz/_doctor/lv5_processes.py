"""LV502 to LV505: what forked workers share, threads, files and CUDA; ranks that are unequal."""

from __future__ import annotations

import io

import torch

from loaderviz._doctor.checks import Seen, check, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.examination_runs import MovedFiles
from loaderviz._doctor.findings import Undecided
from loaderviz._doctor.process_state import descriptor_of, is_handle
from loaderviz.ask_for_stack import Stack
from loaderviz.loaders.held_objects import is_a, known_to_code
from loaderviz.text import count

_LOCK_CHANNEL = "futex"  # in the wait channel of a process that waits for a lock (proc(5))


@check("LV502")
def _forked_with_threads(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers or not setup.forks or not setup.other_threads:
        return None
    names = ", ".join(setup.other_threads[:5])
    if not case.ran:
        raise Undecided(
            f"{len(setup.other_threads)} other threads run ({names}); {case.why_not_run}"
        )
    stuck = case.trouble_of_kind("stuck")
    if stuck is None:
        return None
    n_on_locks = sum(_LOCK_CHANNEL in channel for channel in stuck.wait_channels)
    if not n_on_locks or not stuck.stacks:
        raise Undecided(
            "workers do not answer, but none seems to wait for a lock; they wait for: "
            f"{list(stuck.wait_channels)}"
        )
    return seen(
        f"{n_on_locks} of {len(stuck.wait_channels)} workers wait for a lock, and no batch came "
        f"({stuck.text})",
        f"when they were forked, {len(setup.other_threads)} other threads ran here: {names}",
        *_stuck_line(stuck.stacks[0]),
        fix="""
DataLoader(dataset, multiprocessing_context="forkserver", timeout=60)
# or start iterating before other threads start
""",
    )


def _stuck_line(stack: Stack) -> list[str]:
    """The innermost line of the user's code."""
    for frame in stack:
        if "/torch/" not in frame.file and "/loaderviz/" not in frame.file:
            return [f"a worker is stuck at: {frame}"]
    return []


@check("LV503")
def _shared_handle(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers or not setup.forks:
        return None
    handles = [part for part in setup.parts if is_handle(part.value)]
    if case.ran:
        moved = case.observed(MovedFiles)
        still = frozenset() if moved is None else moved.still
        handles = [part for part in handles if not _is_still(part.value, still)]
        notes = case.epoch().notes
        handles = [
            part
            for part in handles
            if any(note.handles.get(part.path) == id(part.value) for note in notes)
        ]  # the others each worker has opened for itself
        if not handles:
            return _moved_file(case)
    elif handles and setup.settings["worker_init_fn"] is not None:
        path = handles[0].path
        raise Undecided(f"{path} is open, and worker_init_fn may reopen it; {case.why_not_run}")
    if not handles:
        return None
    path, value = handles[0]
    what = f"{type(value).__module__}.{type(value).__name__}"
    harm = "what one does with it disturbs the others"
    if isinstance(value, io.IOBase):
        harm = "when one reads, the position moves for all"
    return seen(
        f"{path} is an open {what}"
        + (f" of {value.name!r}" if type(getattr(value, "name", None)) is str else ""),
        f"{setup.num_workers} forked workers share it: {harm}",
        fix=f"""
def __getitem__(self, index):
    if {path.replace("dataset", "self", 1)} is None:  # set to None in __init__
        {path.replace("dataset", "self", 1)} = ...  # each worker opens its own, as __init__ did
    ...
""",
    )


def _is_still(handle: object, still: frozenset[int]) -> bool:
    """Whether it is a file whose position never moved as workers read: os.pread moves none."""
    return isinstance(handle, io.IOBase) and descriptor_of(handle) in still


def _moved_file(case: Case) -> Seen | None:
    """A file that no attribute holds: a variable of a module or a closure, or a bare descriptor."""
    moved = case.observed(MovedFiles)
    sampler = type(case.setup.sampler.value)
    if moved is None or not moved.files or not sampler.__module__.startswith("torch."):
        return None  # a sampler of one's own may read in the main process
    fd, path = moved.files[0]
    names = [
        part.path
        for part in known_to_code(case.setup.parts)
        if is_handle(part.value) and isinstance(part.value, io.IOBase)
        if descriptor_of(part.value) == fd
    ]
    others = case.setup.other_threads
    if others and not names:  # a fork shares the position with its parent, too
        raise Undecided(
            f"the position in {path} moved as workers read, and {count(len(others), 'thread')} "
            "of this process may have moved it"
        )
    return seen(
        f"{path} is open here" + (f" as {names[0]}" if names else f" (file descriptor {fd})"),
        f"its position moved here as {case.setup.num_workers} forked workers read: they share it",
        fix=f"""
def __getitem__(self, index):
    if self.file is None:  # set to None in __init__
        self.file = open({path!r}, "rb")  # each worker opens its own
    ...
""",
    )


@check("LV504")
def _device_in_worker(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers:
        return None
    fix = """
dataset.data = dataset.data.cpu()  # workers stay on the CPU
for batch in loader:  # with pin_memory=True; the main process moves the batch
    batch = batch.to("cuda", non_blocking=True)
"""
    cuda_tensors = [
        part.path
        for part in setup.parts
        if is_a(part.value, torch.Tensor) and part.value.device.type == "cuda"
    ]
    if cuda_tensors and setup.forks:
        return seen(f"{cuda_tensors[0]} is a CUDA tensor, and workers are forked", fix=fix)
    if not case.ran:
        if setup.forks and torch.cuda.is_initialized():
            raise Undecided(f"CUDA is in use here, and workers are forked; {case.why_not_run}")
        return None
    trouble = case.trouble_of_kind("cuda")
    if trouble is not None:
        return seen(trouble.text, "workers are forked", fix=fix)
    if case.troubles:
        case.epoch()
    if setup.forks and any(note.cuda for epoch in case.epochs for note in epoch.notes):
        return seen("a worker uses CUDA, with a context of its own", fix=fix)
    return None


@check("LV505", recorded=True)
def _unequal_ranks(case: Case) -> Seen | None:
    fix = """
with torch.distributed.algorithms.Join([model]):  # a DistributedDataParallel model
    for batch in loader: ...
# or the same number of batches on each: itertools.islice(loader, fewest_of_all_ranks)
"""
    if case.recording is not None and case.recording.unequal_epochs:
        return seen(*map(str, case.recording.unequal_epochs[:3]), fix=fix)
    messages = case.rank_messages()
    if messages is None:
        return None
    if not all(message.get("complete") for message in messages):
        raise Undecided("not every rank reached the end of an epoch")
    counts = [message["n_batches"] for message in messages]
    if len(set(counts)) == 1:
        return None
    return seen(
        f"batches in an epoch, by rank: {counts}",
        f"after batch {min(counts)}, ranks wait forever for the gradients of one that has finished",
        fix=fix,
    )
