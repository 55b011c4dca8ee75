"""A recording without workers, in a copy of this process: the dataset is not touched here.

Files that a dataset opens when it is first read would otherwise be open in this process, and shared
by all workers that are forked from it later.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader

from loaderviz._doctor.loader_setup import Setup
from loaderviz.errors import LoaderVizError
from loaderviz.loader_settings import LoaderSettings
from loaderviz.loaders.copy_loader import copy_loader
from loaderviz.loaders.forked_run import may_fork, run_forked
from loaderviz.recorder import Recording
from loaderviz.trace import Trace, load

MOST_BATCHES = 500
MOST_SAMPLES = 100_000
LATE = 4  # times the seconds of the recording, before it is ended from outside
GRACE_S = 2.0
WARM_UP = 10  # the first tenth of the batches does not count: pages are copied on first touch


def record_without_workers(setup: Setup, seconds: float) -> Trace | None:
    """A recording of about ``seconds`` without workers.

    None where the process cannot be copied (outside Linux), or no batch came.
    """
    if not may_fork(setup.num_workers):
        return None
    with tempfile.TemporaryDirectory(prefix="loaderviz-", ignore_cleanup_errors=True) as parent:
        folder = Path(parent) / "alone"
        timeout_s = LATE * seconds + GRACE_S
        run_forked(_record, setup.loader, seconds, folder, timeout_s=timeout_s, threads=True)
        try:
            trace = load(folder)
        except LoaderVizError:  # nothing came, or it was ended before it was whole
            return None
        return _without_warm_up(trace)


def _without_warm_up(trace: Trace) -> Trace:
    first = trace.batches["batch"].min() + len(trace.batches) // WARM_UP
    tables = {name: getattr(trace, name) for name in ("batches", "samples")}
    kept = {name: table[table["batch"] >= first] for name, table in tables.items()}
    return replace(trace, **kept)


def _record(loader: DataLoader[Any], seconds: float, folder: Path, _send: Any) -> None:
    warnings.simplefilter("ignore")  # the user has seen them with workers, or will
    n, begun = 0, time.monotonic()
    with contextlib.suppress(Exception):  # a worker raised it before, or it does not matter here
        copied = copy_loader(loader, **LoaderSettings(0).options())
        with Recording((copied,), path=folder):
            for _ in copied:
                n += 1
                over = n >= MOST_BATCHES or n * (loader.batch_size or 1) >= MOST_SAMPLES
                if over or time.monotonic() - begun > seconds:
                    break
