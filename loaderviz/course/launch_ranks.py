"""Ranks from a notebook: real ones under torchrun, one by one in this process, or simulated."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch.utils.data import DataLoader

from loaderviz._audit import Audit
from loaderviz._audit.audit_of_numbers import DeliveredBatch, audit_batches, batches_in_turn
from loaderviz.course.run_in_shell import run_python
from loaderviz.errors import LoaderVizError
from loaderviz.trace import Trace, load

N_RANKS = 2


@dataclass(frozen=True)
class Run:
    """What the ranks of a run have recorded and returned.

    Attributes:
        trace: the recordings of all ranks, as one trace.
        results: what each rank's loop returned, by rank.
    """

    trace: Trace
    results: list[Any]


def torchrun(*names: str) -> dict[str, Run]:
    """Run the named cases of ``rank_script`` in two processes; returns a run for each.

    Raises:
        LoaderVizError: if a rank fails, with the end of its output, or if the ranks take longer
            than two minutes. No process is left then.
    """
    with TemporaryDirectory(prefix="loaderviz-ranks-") as folder:
        options = ["--standalone", f"--nproc-per-node={N_RANKS}", f"--log-dir={folder}"]
        script = ["-m", "loaderviz.course.rank_script", folder, *names]
        code, output = run_python(["-m", "torch.distributed.run", *options, *script])
        if code:
            raise LoaderVizError(
                f"torchrun ended with exit code {code}; the end of its output:\n{output[-3000:]}"
            )
        return {name: _collect(Path(folder), name) for name in names}


def _collect(folder: Path, name: str) -> Run:
    results = [json.loads((folder / f"{name} {rank}.json").read_text()) for rank in range(N_RANKS)]
    trace = load(folder / name)
    trace.samples  # noqa: B018  # read now: the folder will be removed
    return Run(trace, results)


def audit_run(run: Run, n_samples: int) -> Audit:
    """Audit whether the samples 0 to ``n_samples - 1`` came once each, over all ranks.

    For streams of numbers: their trace only counts the samples, so that the audit takes the numbers
    from what the loops returned.
    """
    worker_of = run.trace.batches.set_index(["rank", "epoch", "batch"])["worker"]
    listed = [
        DeliveredBatch(rank, int(worker_of[rank, epoch, batch]), batch, numbers, epoch)
        for rank, epochs in enumerate(run.results)
        for epoch, batches in enumerate(epochs)
        for batch, numbers in enumerate(batches)
    ]
    workers = run.trace.workers
    idle = zip(workers["rank"].tolist(), workers["worker"].tolist(), strict=True)
    return audit_batches(listed, n_samples, kind="iterable", idle=idle)


def audit_in_turn(loaders: Iterable[DataLoader[Any]], n_samples: int) -> Audit:
    """Run each rank's loader in this process, one after another, and audit them together.

    For loaders that deliver numbers and have no workers. Each must know its rank already, as from
    ``DistributedSampler(dataset, num_replicas=..., rank=...)``.
    """
    listed = [
        DeliveredBatch(rank, -1, number, batch.tolist())
        for rank, loader in enumerate(loaders)
        for number, batch in enumerate(loader)
    ]
    return audit_batches(listed, n_samples)


Share = Callable[[range, int, int, int, int], Iterable[int]]


def simulate_ranks(
    share: Share, n_samples: int, *, ranks: int, workers: int, batch_size: int
) -> Audit:
    """The audit of a simulated stream that is shared out over ranks and workers.

    Args:
        share: ``share(data, rank, ranks, worker, workers)`` returns what this worker yields of
            ``data``, which is ``range(n_samples)``.
        n_samples: number of samples in the dataset.
        ranks: number of ranks.
        workers: number of workers of each rank, 1 or more.
        batch_size: samples in a batch; each worker makes its own batches.

    Raises:
        Exception: whatever ``share`` raises, unchanged.
    """
    listed: list[DeliveredBatch] = []
    for rank in range(ranks):
        shards = (
            list(share(range(n_samples), rank, ranks, worker, workers)) for worker in range(workers)
        )
        listed += batches_in_turn(shards, batch_size, rank)
    idle = itertools.product(range(ranks), range(workers))
    return audit_batches(listed, n_samples, kind="iterable", idle=idle, simulated=True)
