"""LV5xx and LV6xx: how workers are started, what they share, and datasets of the wrong style."""

from __future__ import annotations

import dis
import io
import sys
import types
from typing import Any

import torch
from torch.utils.data import Dataset, IterableDataset

from loaderviz._doctor.checks import Seen, check, seen
from loaderviz._doctor.examination import Case
from loaderviz._doctor.findings import Undecided
from loaderviz._doctor.loader_setup import Setup
from loaderviz._doctor.process_state import is_handle
from loaderviz.ask_for_stack import Stack
from loaderviz.loaders.held_objects import Part, is_a, walk

_LOCK_CHANNEL = "futex"  # in the wait channel of a process that waits for a lock (proc(5))


@check(
    "LV501",
    "Workers are started anew and cannot import what they are sent",
    "error",
    notebook=2,
    threads="169252",
)
def _not_importable(case: Case) -> Seen | None:
    setup = case.setup
    if setup.start_method not in ("spawn", "forkserver"):
        return None
    for path, value in _sent_to_workers(setup):
        reason = _why_not_importable(value)
        if reason:
            return seen(
                f"{path} is {reason}",
                f"workers are started by {setup.start_method} and import classes and functions by "
                "name; this fails in the worker, and here you only see that it exited unexpectedly",
                fix="""
from my_data import MyDataset, my_collate  # from a module; no lambda, no local function
# or, on Linux: DataLoader(..., multiprocessing_context="fork")
""",
            )
    return None


def _sent_to_workers(setup: Setup) -> list[Part]:
    """Everything that is pickled: the dataset and the functions, and what they hold."""
    sent = []
    for name in ("dataset", "collate_fn", "worker_init_fn"):
        hidden: list[str] = []  # beginnings of paths below which attributes are not pickled
        for part in walk(name, setup.settings[name]):
            if part.path.startswith(tuple(hidden)):
                continue
            sent.append(part)
            if _pickles_its_own_way(part.value):
                hidden += [f"{part.path}.", f"{part.path}["]
    return sent


def _pickles_its_own_way(value: Any) -> bool:
    """Whether its class decides what is pickled: then its attributes say little."""
    plain = (object, Dataset, IterableDataset, torch.nn.Module)
    for cls in type(value).__mro__:
        if cls not in plain and cls.__module__ != "typing":
            methods = {"__reduce__", "__reduce_ex__", "__getstate__"} & set(vars(cls))
            if methods and not cls.__module__.startswith("torch.utils.data"):
                return True
    return False


def _why_not_importable(value: Any) -> str:
    definition = value if type(value) in (types.FunctionType, type) else type(value)
    name, module = definition.__qualname__, definition.__module__
    if "<lambda>" in name:
        return f"a lambda, defined in {module}"
    if "<locals>" in name:
        return f"{name}, which is local to a function"
    main = sys.modules.get("__main__")
    if module == "__main__" and not hasattr(main, "__file__"):
        return f"{name}, which is defined in a notebook or a prompt"
    return ""


@check(
    "LV502",
    "Workers are forked while other threads may hold locks",
    "error",
    notebook=2,
    threads="1355 45198",
)
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


@check(
    "LV503",
    "Forked workers share the position of one open file",
    "error",
    notebook=2,
    threads="11887",
)
def _shared_handle(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers or not setup.forks:
        return None
    handles = [part for part in setup.parts if is_handle(part.value)]
    if not handles:
        return None
    path, value = handles[0]
    if case.ran:
        unchanged = [
            part
            for part in handles
            if any(note.handles.get(part.path) == id(part.value) for note in case.epoch().notes)
        ]
        if not unchanged:
            return None  # each worker has opened its own
        path, value = unchanged[0]
    elif setup.settings["worker_init_fn"] is not None:
        raise Undecided(f"{path} is open, and worker_init_fn may reopen it; {case.why_not_run}")
    what = f"{type(value).__module__}.{type(value).__name__}"
    if isinstance(value, io.IOBase):
        harm, opened = "when one reads, the position moves for all", 'open(self.path, "rb")'
    else:
        harm, opened = "what one does with it disturbs the others", "..."
    own = "each worker opens its own" + (", as __init__ did" if opened == "..." else "")
    return seen(
        f"{path} is an open {what}"
        + (f" of {value.name!r}" if type(getattr(value, "name", None)) is str else ""),
        f"{setup.num_workers} forked workers share it: {harm}",
        fix=f"""
def __getitem__(self, index):
    if {path.replace("dataset", "self", 1)} is None:  # set to None in __init__
        {path.replace("dataset", "self", 1)} = {opened}  # {own}
    ...
""",
    )


@check("LV504", "CUDA is used in a forked worker", "error", notebook=8, threads="40403")
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
    of_workers = (note for epoch in case.epochs for note in epoch.notes if note.worker >= 0)
    if setup.forks and any(note.cuda for note in of_workers):
        return seen("a worker uses CUDA, with a context of its own", fix=fix)
    return None


@check(
    "LV505",
    "Ranks have unequal numbers of batches",
    "error",
    notebook=9,
    threads="33148",
    recorded=True,
)
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


@check(
    "LV601",
    "The dataset is not of the style that its loader expects",
    "error",
    notebook=1,
    threads="35761",
)
def _wrong_style(case: Case) -> Seen | None:
    setup = case.setup
    cls = type(setup.dataset)
    has_getitem = getattr(cls, "__getitem__", None) not in (None, Dataset.__getitem__)
    if not setup.iterable and hasattr(cls, "__iter__") and not has_getitem:
        return seen(
            f"{cls.__name__} has __iter__ but no __getitem__, and is not an IterableDataset: "
            "torch takes it for map-style and asks for dataset[0]",
            fix=f"class {cls.__name__}(torch.utils.data.IterableDataset): ...",
        )
    if setup.num_workers:
        return None
    trouble = case.trouble_of_kind("no worker info")
    method = "__iter__" if setup.iterable else "__getitem__"
    unguarded = _uses_worker_info_unguarded(getattr(cls, method, None))
    if trouble is None and (case.ran or not unguarded):
        return None
    return seen(
        f"num_workers=0, so get_worker_info() is None, and {cls.__name__}.{method} does not expect "
        "that",
        *([trouble.text] if trouble is not None else []),
        fix="""
info = torch.utils.data.get_worker_info()
worker, n_workers = (info.id, info.num_workers) if info is not None else (0, 1)
""",
    )


def _uses_worker_info_unguarded(function: Any) -> bool:
    """Whether its code reads the worker's info and nowhere tests anything, such as for None."""
    code = getattr(function, "__code__", None)
    if code is None or "get_worker_info" not in code.co_names:
        return False
    if not {"id", "num_workers", "seed"} & set(code.co_names):
        return False
    tests = ("IS_OP", "POP_JUMP", "JUMP_IF")
    return not any(
        instruction.opname.startswith(tests) for instruction in dis.get_instructions(code)
    )
