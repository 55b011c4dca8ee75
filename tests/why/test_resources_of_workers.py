"""What workers read and compute with is evidence, and says what to type: as ``doctor`` would."""

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from loaderviz import Trace, record
from loaderviz.course.datasets import SleepingDataset
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


class TestCpus:
    def test_of_workers_that_share_one_are_told(self):
        full = {"cpu_s": 0.25, "process_cpu_s": 0.25, "queued_s": 0.65}
        trace = with_workers({"cpus_allowed": "3"}, **full)
        evidence, cure = told(trace)
        assert "all 4 workers may use 1 CPU of 8" in evidence
        assert "os.sched_setaffinity(0, range(os.cpu_count()))" in cure
        assert "four workers share one CPU" in trace.summary().verdict

    @pytest.mark.parametrize(
        ("listed", "allowed"),
        [(["0", "1", "2", "3"], 8.0), ("0-7", 8.0), ("0-7", 2.5), ("0", 1.0), (None, 8.0)],
        ids=["one each", "all", "by a quota", "as the main process", "unknown"],
    )
    def test_that_are_enough_or_unknown_are_not(self, listed, allowed):
        evidence, cure = told(with_workers({"cpus_allowed": listed}, allowed))
        assert "may use" not in evidence
        assert "affinity" not in cure


class TestThreads:
    def test_beside_the_one_that_reads_are_told_where_they_are_more_than_cpus(self):
        computes = {"cpu_s": 0.3, "process_cpu_s": 0.9, "queued_s": 0.5}
        evidence, cure = told(with_workers({"threads": 4.0}, allowed=4.0, **computes))
        assert "only 33 % of that in the thread that reads samples" in evidence
        assert "torch computes in 4 threads of each worker" in evidence
        assert "torch.set_num_threads(1)" in cure

    def test_that_do_not_compute_are_not(self):
        computes = {"cpu_s": 0.9, "process_cpu_s": 0.95, "queued_s": 0.5}
        evidence, cure = told(with_workers({"threads": 4.0}, allowed=4.0, **computes))
        assert "thread" not in evidence + cure


class TestBytes:
    def test_many_for_each_that_is_sent_are_told(self):
        evidence, cure = told(with_workers(read_bytes=210.0 * MB, n_bytes=1.0 * MB))
        assert "a worker reads 210 MiB for a batch of 1 MiB" in evidence
        assert "Read less" in cure

    @pytest.mark.parametrize(
        ("read_bytes", "n_bytes"), [(2 * MB, MB), (1000, 8), (np.nan, 8), (10 * MB, np.nan)]
    )
    def test_few_or_unknown_ones_are_not(self, read_bytes, n_bytes):
        evidence, cure = told(with_workers(read_bytes=read_bytes, n_bytes=n_bytes))
        assert "a worker reads" not in evidence
        assert "Read less" not in cure

    def test_from_the_disk_tell_a_cold_cache(self):
        epoch = np.repeat([0, 1], 20)
        for later, said in [(0.0, "in the first epoch, and hardly any later"), (MB, "in each")]:
            disk = np.where(epoch == 0, MB, later)
            evidence, _ = told(with_workers(epoch=epoch, disk_bytes=disk))
            assert f"20 MiB came from the disk {said}" in evidence

    def test_of_old_recordings_are_unknown(self):
        evidence, _ = told(with_workers())
        assert "disk" not in evidence
        assert "reads" not in evidence


class TestItems:
    @pytest.mark.parametrize("num_workers", [0, 1])
    def test_in_memory_that_are_read_one_by_one_ask_for_slices(self, num_workers):
        data = TensorDataset(torch.zeros(8192, 4), torch.zeros(8192))
        loader = DataLoader(data, batch_size=512, shuffle=True, num_workers=num_workers)
        with record(loader) as recording:
            for _batch in loader:
                time.sleep(0.001)
        causes = recording.trace.summary().causes
        cures = causes.set_index("cause")["cure"].to_dict()
        cure = next(cures[each] for each in ("main_process", "workers", "cpu") if each in cures)
        assert "BatchSampler(RandomSampler(dataset), 512, drop_last=False)" in cure
        assert "samples are in memory, and read one by one" in "".join(causes["evidence"])

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
