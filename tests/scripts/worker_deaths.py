"""Lets workers die at a sample, in every way and kind of loader, and prints what became of it.

python worker_deaths.py N: N deaths; a line of JSON for each.
"""

import ctypes
import functools
import itertools
import json
import os
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

import loaderviz as lv
from trace_laws import assert_lawful, delivered

LAST = 5  # the sample that kills


def too_much_memory() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), used + (64 << 20)))
    bytearray(1 << 30)


WAYS = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "exit": lambda: os._exit(3),
    "segfault": lambda: ctypes.string_at(0),
    "memory": too_much_memory,
}
EXITS = {"kill": "killed", "exit": "failed", "segfault": "killed", "memory": "done"}


class Deadly(Dataset):
    def __init__(self, way: str, deadly: set[int]) -> None:
        self.way, self.deadly = way, deadly

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        if index in self.deadly:
            WAYS[self.way]()
        return torch.full((8,), index)


def is_before_first_line(frame: traceback.FrameSummary, function: Any) -> bool:
    """Whether a frame is at the opcode by which this function begins."""
    code = function.__code__
    return (frame.filename, frame.lineno) == (code.co_filename, code.co_firstlineno)


def undisturbed(act: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of ``act``, begun again where torch tells of a second worker's death meanwhile."""
    while True:
        try:
            return act()
        except RuntimeError as error:
            if not str(error).startswith("DataLoader worker (pid"):
                raise


def judge(
    rec: Any, told: list[int], n_workers: int, at_work: bool, kept: Path | None
) -> dict[str, Any]:
    """What the trace knows, and what is wrong with it; ``told`` are the samples that came."""
    result: dict[str, Any] = {"problem": ""}
    try:
        trace = rec.trace
        assert_lawful(trace)
        n_untold = len(delivered(trace)) - len(told)
        assert n_untold == 0 or (n_untold == 1 and at_work), "delivered"
        assert len(trace.workers) == n_workers, "workers"
        dead = trace.workers[trace.workers["last_key"].notna()]
        result["dead"] = dict(zip(dead["last_key"].tolist(), dead["exit"], strict=True))
        if kept is not None:
            assert len(lv.load(kept).batches) == len(trace.batches), "kept"
    except (lv.LoaderVizError, AssertionError) as problem:
        result["problem"] = f"{type(problem).__name__}: {problem}"
    return result


def die(way: str, tensors: bool, keep: bool, n_workers: int, n_deaths: int) -> dict[str, Any]:
    """One recorded loop whose worker dies; returns what the user saw and what the trace knows."""
    deadly = set(range(LAST, LAST + n_deaths))
    collate = None if tensors else list
    loader = DataLoader(Deadly(way, deadly), num_workers=n_workers, collate_fn=collate)
    error, rec, told = None, None, []
    with tempfile.TemporaryDirectory() as folder:
        try:
            with lv.record(loader, path=Path(folder) / "run" if keep else None) as rec:
                for batch in loader:
                    told.append(int(batch[0][0]))
        except Exception as caught:
            error = caught
        result: dict[str, Any] = {"error": type(error).__name__, "told": told, "problem": ""}
        at_work = False  # when torch's handler of SIGCHLD raised, which it does anywhere
        if error is not None:
            frames = traceback.extract_tb(error.__traceback__)
            result["said"] = str(error)[:80]
            result["raised in"] = f"{Path(frames[-1].filename).name}:{frames[-1].name}"
            waited = any(frame.name == "_try_get_data" for frame in frames)
            at_work = frames[-1].name == "handler" and not waited
            result["in exit"] = any(frame.name == "__exit__" for frame in frames)
            if at_work and is_before_first_line(frames[-2], type(rec).__exit__):
                rec.__exit__(None, None, None)  # a function's first opcode cannot guard itself
            traceback.clear_frames(error.__traceback__)
        assert rec is not None
        later = functools.partial(judge, rec, told, n_workers, at_work)
        result |= undisturbed(functools.partial(later, Path(folder) / "run" if keep else None))
    return result


def main() -> None:
    warnings.simplefilter("ignore")
    kinds = list(itertools.product(WAYS, (True, False), (True, False), ((1, 1), (2, 1), (2, 2))))
    for n_th in range(int(sys.argv[1])):
        way, tensors, keep, (n_workers, n_deaths) = kinds[7 * n_th % len(kinds)]  # each in turn
        result = die(way, tensors, keep, n_workers, n_deaths)
        kind = {"way": way, "tensors": tensors, "keep": keep, "workers": n_workers}
        print(json.dumps({**kind, "deaths": n_deaths, **result}), flush=True)


if __name__ == "__main__":
    main()
