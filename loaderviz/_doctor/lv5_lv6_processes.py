"""LV5xx and LV6xx: how workers are started, what they share, and what a loader will not take."""

from __future__ import annotations

import dis
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
from loaderviz.loaders.held_objects import Part, is_a, walk

_LOCKS = ("futex",)  # what a process waits for that waits for a lock (proc(5), wchan)


@check(
    "LV501",
    "Workers are started anew and cannot import what they are sent",
    "error",
    notebook=2,
    threads="169252",
)
def not_importable(case: Case) -> Seen | None:
    setup = case.setup
    if setup.method not in ("spawn", "forkserver"):
        return None
    for path, value in _sent_to_workers(setup):
        why = _why_not_importable(value)
        if why:
            return seen(
                f"{path} is {why}",
                f"workers are started by {setup.method}: they import classes and functions by "
                "name, which fails in the worker; here one only sees that it exited unexpectedly",
                fix="""
from my_data import MyDataset, my_collate  # from a module; no lambda, no local function
# or, on Linux: DataLoader(..., multiprocessing_context="fork")
""",
            )
    return None


def _sent_to_workers(setup: Setup) -> list[Part]:
    """What is pickled: the dataset and the functions, and what they hold."""
    found = []
    for name in ("dataset", "collate_fn", "worker_init_fn"):
        hidden: list[str] = []
        for part in walk(name, setup.own[name]):
            if any(part.path.startswith(each) for each in hidden):
                continue
            found.append(part)
            if _pickles_its_own_way(part.value):
                hidden += [f"{part.path}.", f"{part.path}["]
    return found


def _pickles_its_own_way(value: Any) -> bool:
    """Whether its class says what of it is pickled: then its attributes say little."""
    known = (object, Dataset, IterableDataset, torch.nn.Module)
    for cls in type(value).__mro__:
        if cls not in known and cls.__module__ != "typing":
            own = {"__reduce__", "__reduce_ex__", "__getstate__"} & set(vars(cls))
            if own and not cls.__module__.startswith("torch.utils.data"):
                return True
    return False


def _why_not_importable(value: Any) -> str:
    kind = value if type(value) in (types.FunctionType, type) else type(value)
    name, module = kind.__qualname__, kind.__module__
    if "<lambda>" in name:
        return f"a lambda, of {module}"
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
def forked_with_threads(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers or not setup.forks or not setup.threads:
        return None
    names = ", ".join(setup.threads[:5])
    if not case.ran:
        raise Undecided(f"{len(setup.threads)} other threads run ({names}); {case.why_not}")
    stuck = case.trouble("stuck")
    if stuck is None:
        return None
    waiting = stuck.details.get("waiting", [])
    on_locks = [each for each in waiting if any(word in each for word in _LOCKS)]
    if not on_locks or not case.stacks:
        raise Undecided(
            f"workers do not answer, and not for a lock as far as can be seen: {waiting}"
        )
    return seen(
        f"{len(on_locks)} of {len(waiting)} workers wait for a lock, and no batch came "
        f"({stuck.text})",
        f"when they were forked, {len(setup.threads)} other threads ran here: {names}",
        *_where(case.stacks[0]),
        fix="""
DataLoader(dataset, multiprocessing_context="forkserver", timeout=60)
# or begin to iterate before other threads are started
""",
    )


def _where(stack: str) -> list[str]:
    """The innermost line of the main thread, as faulthandler writes it."""
    frames = [line.strip() for line in stack.splitlines() if line.strip().startswith("File")]
    ours = [line for line in frames if "/torch/" not in line and "/loaderviz/" not in line]
    return [f"a worker stands at: {ours[0]}"] if ours else []


@check(
    "LV503",
    "Forked workers share the position of one open file",
    "error",
    notebook=2,
    threads="11887",
)
def shared_handle(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers or not setup.forks:
        return None
    handles = [part for part in setup.parts if is_handle(part.value)]
    if not handles:
        return None
    path, value = handles[0]
    if case.ran:
        kept = [
            part
            for part in handles
            if any(note.handles.get(part.path) == id(part.value) for note in case.epoch().notes)
        ]
        if not kept:
            return None  # each worker has opened its own
        path, value = kept[0]
    elif setup.own["worker_init_fn"] is not None:
        raise Undecided(f"{path} is open; whether worker_init_fn opens it anew: {case.why_not}")
    return seen(
        f"{path} is an open {type(value).__module__}.{type(value).__name__}"
        + (f" of {value.name!r}" if type(getattr(value, "name", None)) is str else ""),
        f"{setup.num_workers} workers are forked with it: they move one and the same position",
        fix=f"""
def __getitem__(self, index):
    if {path.replace("dataset", "self", 1)} is None:  # set to None in __init__
        {path.replace("dataset", "self", 1)} = open(self.path, "rb")  # each worker its own
    ...
""",
    )


@check("LV504", "CUDA is used in a forked worker", "error", notebook=8, threads="40403")
def device_in_worker(case: Case) -> Seen | None:
    setup = case.setup
    if not setup.num_workers:
        return None
    fix = """
dataset.data = dataset.data.cpu()  # workers stay on the CPU
for batch in loader:  # pin_memory=True, and the main process moves the batch
    batch = batch.to("cuda", non_blocking=True)
"""
    held = [
        part.path
        for part in setup.parts
        if is_a(part.value, torch.Tensor) and part.value.device.type == "cuda"
    ]
    if held and setup.forks:
        return seen(f"{held[0]} is a tensor on the device, and workers are forked", fix=fix)
    if not case.ran:
        if setup.forks and torch.cuda.is_initialized():
            raise Undecided(f"CUDA is in use here, and workers are forked; {case.why_not}")
        return None
    failed = case.trouble("cuda")
    if failed is not None:
        return seen(failed.text, "workers are forked", fix=fix)
    if case.troubles:
        case.epoch()
    if setup.forks and any(note.cuda for each in case.epochs for note in each.notes):
        return seen("a worker has begun to use CUDA, with a context of its own", fix=fix)
    return None


@check(
    "LV505",
    "Ranks have unequal numbers of batches",
    "error",
    notebook=9,
    threads="33148",
    recorded=True,
)
def unequal_ranks(case: Case) -> Seen | None:
    fix = """
with torch.distributed.algorithms.Join([model]):  # a DistributedDataParallel model
    for batch in loader: ...
# or as many batches for each: itertools.islice(loader, least_of_all_ranks)
"""
    if case.recorded and case.facts["unequal"]:
        return seen(*(f"{each}" for each in case.facts["unequal"][:3]), fix=fix)
    told = case.told()
    if told is None:
        return None
    if not all(each.get("complete") for each in told):
        raise Undecided("not every rank came to the end of an epoch")
    counts = [each["n_batches"] for each in told]
    if len(set(counts)) == 1:
        return None
    return seen(
        f"batches in an epoch, by rank: {counts}",
        f"from batch {min(counts)} on, a rank waits for ever for a gradient of one that has ended",
        fix=fix,
    )


@check(
    "LV601",
    "The dataset is not of the style that its loader takes it for",
    "error",
    notebook=1,
    threads="35761",
)
def wrong_style(case: Case) -> Seen | None:
    setup = case.setup
    kind = type(setup.dataset)
    reads = getattr(kind, "__getitem__", None) not in (None, Dataset.__getitem__)
    if not setup.iterable and hasattr(kind, "__iter__") and not reads:
        return seen(
            f"{kind.__name__} has an __iter__ and no __getitem__, and is no IterableDataset: torch "
            "takes it for map-style and asks for dataset[0]",
            fix=f"class {kind.__name__}(torch.utils.data.IterableDataset): ...",
        )
    if setup.num_workers:
        return None
    failed = case.trouble("no worker info")
    method = "__iter__" if setup.iterable else "__getitem__"
    unguarded = _uses_worker_info_unguarded(getattr(kind, method, None))
    if failed is None and (case.ran or not unguarded):
        return None
    return seen(
        f"num_workers=0, and {kind.__name__}.{method} takes get_worker_info() for granted: it is "
        "None in the main process",
        *([failed.text] if failed is not None else []),
        fix="""
info = torch.utils.data.get_worker_info()
worker, n_workers = (info.id, info.num_workers) if info is not None else (0, 1)
""",
    )


def _uses_worker_info_unguarded(function: Any) -> bool:
    """Whether its code asks for the worker's number and nowhere compares anything with None."""
    code = getattr(function, "__code__", None)
    if code is None or "get_worker_info" not in code.co_names:
        return False
    if not {"id", "num_workers", "seed"} & set(code.co_names):
        return False
    tests = ("IS_OP", "POP_JUMP", "JUMP_IF")
    return not any(each.opname.startswith(tests) for each in dis.get_instructions(code))
