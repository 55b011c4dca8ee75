"""Several ranks from a notebook: real ones under torchrun, or one after another in this process."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from torch.utils.data import DataLoader

from loaderviz._audit import Audit
from loaderviz._audit.audit_of_keys import Listed, audit_listed
from loaderviz.errors import LoaderVizError
from loaderviz.trace import Trace, load

SCRIPT = "loaderviz.exercises.rank_script"
TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Run:
    """What the ranks of a run have left.

    Attributes:
        trace: the recordings of all ranks, as one trace.
        results: by rank, what its loop returned.
    """

    trace: Trace
    results: list[Any]


def torchrun(*names: str, n_ranks: int = 2, timeout_s: float = TIMEOUT_S) -> dict[str, Run]:
    """Start the script in ``n_ranks`` processes, let it run the named cases, collect what is left.

    Raises:
        LoaderVizError: where a rank failed, with the end of what it said; where the ranks take
            longer than ``timeout_s`` in seconds. No process is left then.
    """
    with TemporaryDirectory(prefix="loaderviz-ranks-") as folder:
        launch = ["--standalone", f"--nproc-per-node={n_ranks}", f"--log-dir={folder}"]
        script = ["-m", SCRIPT, folder, *names]
        command = [sys.executable, "-m", "torch.distributed.run", *launch, *script]
        _run(command, Path(folder), timeout_s)
        return {name: _collected(Path(folder), name, n_ranks) for name in names}


def _run(command: list[str], folder: Path, timeout_s: float) -> None:
    home = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")]))
    said = folder / "said.txt"
    with said.open("wb") as output:
        launcher = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            code = launcher.wait(timeout_s)
        except subprocess.TimeoutExpired:
            problem = f"the ranks were ended after {timeout_s:g} s"
        else:
            problem = f"torchrun ended with exit code {code}" if code else ""
        finally:
            _end(launcher)
    if problem:
        raise LoaderVizError(f"{problem}; they said:\n{said.read_text(errors='replace')[-3000:]}")


def _end(launcher: subprocess.Popen[bytes]) -> None:
    """The launcher, its ranks and their workers, as far as they still run."""
    if launcher.poll() is not None:
        return
    processes = _halted(psutil.Process(launcher.pid))
    for each in processes:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    launcher.wait()
    psutil.wait_procs(processes, timeout=10)


def _halted(parent: psutil.Process) -> list[psutil.Process]:
    """The process and all below it, stopped one after another so that none starts one more."""
    with suppress(psutil.NoSuchProcess):
        parent.suspend()
        return [parent, *(each for child in parent.children() for each in _halted(child))]
    return []


def _collected(folder: Path, name: str, n_ranks: int) -> Run:
    results = [json.loads((folder / f"{name} {rank}.json").read_text()) for rank in range(n_ranks)]
    trace = load(folder / name)
    trace.samples  # noqa: B018  # read while the folder is there
    return Run(trace, results)


def audit_run(run: Run, n_samples: int) -> Audit:
    """Whether each of the numbers 0 to ``n_samples - 1`` came once, all ranks together.

    For streams: a trace counts their samples, and the loop has written down what they were.
    """
    made_by = run.trace.batches.set_index(["rank", "epoch", "batch"])["worker"]
    listed = [
        Listed(rank, int(made_by[rank, epoch, batch]), batch, numbers, epoch)
        for rank, epochs in enumerate(run.results)
        for epoch, batches in enumerate(epochs)
        for batch, numbers in enumerate(batches)
    ]
    workers = run.trace.workers
    idle = zip(workers["rank"].tolist(), workers["worker"].tolist(), strict=True)
    return audit_listed(listed, n_samples, kind="iterable", idle=idle)


def audit_in_turn(loaders: Iterable[DataLoader[Any]], n_samples: int) -> Audit:
    """Run the loaders of all ranks in this process, one after another, and audit them as one.

    For loaders of numbers without workers. What a rank is, they have to know already:
    ``DistributedSampler(dataset, num_replicas=..., rank=...)``.
    """
    listed = [
        Listed(rank, -1, number, batch.tolist())
        for rank, loader in enumerate(loaders)
        for number, batch in enumerate(loader)
    ]
    return audit_listed(listed, n_samples)


Share = Callable[[range, int, int, int, int], Iterable[int]]


def simulate_ranks(
    share: Share, n_samples: int, *, ranks: int, workers: int, batch_size: int
) -> Audit:
    """What an audit would find of a stream that is shared out over ranks and workers.

    Args:
        share: called with ``range(n_samples)``, a rank, how many there are, one of its workers and
            how many it has; returns what this worker yields.
        n_samples: how many samples the dataset holds.
        ranks: how many there are.
        workers: of each rank, 1 or more.
        batch_size: of each worker.

    Raises:
        Exception: whatever ``share`` raises, unchanged.
    """
    listed = []
    for rank in range(ranks):
        parts = [
            list(share(range(n_samples), rank, ranks, worker, workers)) for worker in range(workers)
        ]
        cut = [
            [part[at : at + batch_size] for at in range(0, len(part), batch_size)] for part in parts
        ]
        in_turn = (
            (worker, numbers)
            for turn in itertools.zip_longest(*cut)
            for worker, numbers in enumerate(turn)
            if numbers is not None
        )
        listed += [
            Listed(rank, worker, batch, numbers) for batch, (worker, numbers) in enumerate(in_turn)
        ]
    lanes = itertools.product(range(ranks), range(workers))
    return audit_listed(listed, n_samples, kind="iterable", idle=lanes, simulated=True)
