"""What workers read and compute with is evidence, and says what to type: as ``doctor`` would."""

import re
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from loaderviz import Trace, record
from loaderviz.course.datasets import SleepingDataset
from loaderviz.why.causes import resources_of_workers
from loaderviz.why.causes.resources_of_workers import TAKE_SLICES
from traces import made

MB = 1 << 20


def with_workers(
    workers: dict[str, Any] | None = None, allowed: float = 8.0, **batches: Any
) -> Trace:
    """Four workers that make a batch of 1 s each; the loop waits for them."""
    trace = made(workers=4, batches=40)
    return replace(
        trace,
        samples=trace.samples[:0],
        workers=trace.workers.assign(**(workers or {})),
        batches=trace.batches.assign(**{"cpu_s": 0.2, "process_cpu_s": 0.2, **batches}),
        meta={"cpu_allowance": allowed},
    )


def told(trace: Trace) -> tuple[str, str]:
    """Evidence and cure of the first cause that reading is behind."""
    causes = trace.summary().causes.set_index("cause")
    cause = next(each for each in causes.index if each in ("workers", "cpu"))
    return causes.loc[cause, "evidence"], causes.loc[cause, "cure"]


FULL = {"cpu_s": 0.25, "process_cpu_s": 0.25, "queued_s": 0.65}
ONE_CPU = with_workers({"cpus_allowed": "3"}, **FULL)
THREADS: dict[str, Any] = {"workers": {"threads": 4.0}, "allowed": 4.0, "queued_s": 0.5}


@pytest.mark.parametrize(
    ("trace", "evidence", "cure"),
    [
        (ONE_CPU, "all 4 workers may use 1 CPU of 8", "os.sched_setaffinity(0, range("),
        (
            with_workers(**THREADS, cpu_s=0.3, process_cpu_s=0.9),
            "only 33 % of that in the thread that reads samples; torch computes in 4 threads of",
            "torch.set_num_threads(1)",
        ),
        (
            with_workers(read_bytes=210.0 * MB, n_bytes=1.0 * MB),
            "a worker reads 210 MiB for a batch of 1 MiB",
            "Read less",
        ),
        (
            with_workers(epoch=np.repeat([0, 1], 20), disk_bytes=np.repeat([1.0, 0.0], 20) * MB),
            "20 MiB came from the disk in the first epoch, 0 B in a later one",
            "",
        ),
    ],
    ids=["one CPU", "threads", "bytes", "a cold cache"],
)
def test_what_is_behind_a_cause_is_told(trace, evidence, cure):
    found = told(trace)
    assert evidence in found[0]
    assert cure in found[1]


def test_the_verdict_knows_of_one_cpu():
    assert "four workers share one CPU" in ONE_CPU.summary().verdict


@pytest.mark.parametrize(
    "trace",
    [
        *(
            with_workers({"cpus_allowed": listed}, allowed)
            for listed, allowed in [
                (["0", "1", "2", "3"], 8.0),
                ("0-7", 8.0),
                ("0-7", 2.5),
                ("0", 1.0),
                (None, 8.0),
            ]
        ),
        with_workers(**THREADS, cpu_s=0.9, process_cpu_s=0.95),
        *(
            with_workers(read_bytes=read_bytes, n_bytes=n_bytes)
            for read_bytes, n_bytes in [(2 * MB, MB), (1000, 8), (np.nan, 8), (10 * MB, np.nan)]
        ),
    ],
    ids=[
        *("one each", "all", "by a quota", "as the main process", "CPUs unknown"),
        *("threads that do not compute", "few bytes", "small ones", "none known", "none sent"),
    ],
)
def test_what_is_enough_or_unknown_is_not(trace):
    said = " ".join(told(trace))
    for word in ("may use", "affinity", "thread", "a worker reads", "Read less", "disk"):
        assert word not in said


class TestItems:
    @pytest.mark.parametrize("num_workers", [0, 1])
    def test_in_memory_that_are_read_one_by_one_ask_for_slices(self, num_workers, monkeypatch):
        monkeypatch.setattr(resources_of_workers, "IN_MEMORY_S", 1e-3)  # also on a busy machine
        data = TensorDataset(torch.zeros(8192, 4), torch.zeros(8192))
        loader = DataLoader(data, batch_size=512, shuffle=True, num_workers=num_workers)
        with record(loader) as recording:
            for _batch in loader:
                time.sleep(0.001)
        causes = recording.trace.summary().causes
        cures = causes.set_index("cause")["cure"].to_dict()
        cure = next(cures[each] for each in ("main_process", "workers", "cpu") if each in cures)
        assert "DataLoader(dataset, sampler=loader.batch_sampler, batch_size=None)" in cure
        assert "samples are in memory, and read one by one" in "".join(causes["evidence"])

    @pytest.mark.parametrize(
        "options",
        [
            {"batch_size": 512, "shuffle": True, "drop_last": True},
            {"batch_size": 512, "sampler": WeightedRandomSampler(torch.arange(8192) % 4, 4096)},
            {"batch_sampler": [[*range(start, start + 512)] for start in (4096, 0, 512)]},
        ],
        ids=["shuffled", "weighted", "a batch sampler"],
    )
    def test_as_the_cure_has_it_the_same_batches_come(self, options):
        dataset = TensorDataset(torch.arange(8192.0))
        loader = DataLoader(dataset, **options)
        cured = eval(re.search(r"DataLoader\(.*?\)", TAKE_SLICES).group())
        came = []
        for each in (loader, cured):
            torch.manual_seed(0)
            came.append([batch.tolist() for (batch,) in each])
        assert came[0] == came[1]

    @pytest.mark.parametrize(
        "loader",
        [
            DataLoader(SleepingDataset(64, 0.001), batch_size=32),
            DataLoader(TensorDataset(torch.zeros(64)), batch_size=32, collate_fn=len),
            DataLoader(TensorDataset(torch.zeros(64)), batch_size=2),
        ],
        ids=["that take long", "that a function of the user's collates", "of few"],
    )
    def test_others_do_not(self, loader):
        with record(loader) as recording:
            list(loader)
        assert "one by one" not in "".join(recording.trace.summary().causes["evidence"])
