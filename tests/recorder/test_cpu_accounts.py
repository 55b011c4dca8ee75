"""The kernel's books of a worker: what is not there, or no longer, is unknown and no error."""

import hashlib
import os
import time
from pathlib import Path

import pytest
from torch.utils.data import DataLoader, Dataset

from loaderviz import machine, record
from loaderviz.recorder.cpu_accounts import CpuAccounts
from probes import DECODING_S, Decoded


def test_files_that_the_user_s_code_closes_are_no_longer_known(monkeypatch, tmp_path):
    stat = tmp_path / "cpu.stat"
    stat.write_text("throttled_usec 1000\n")
    monkeypatch.setattr(machine, "throttling_file", lambda: stat)
    accounts = CpuAccounts()
    stat.write_text("throttled_usec 1004\n")
    _, _, throttled, _ = accounts.since_last(10**9)
    assert throttled == 4001
    for book in (accounts._queued, accounts._throttled):
        if book._fd >= 0:
            os.close(book._fd)
    for _ in range(2):
        process, queued, throttled, _ = accounts.since_last(10**9)
        assert process > 0
        assert (queued, throttled) == (0, 0)


def test_a_file_that_does_not_say_it_is_unknown(monkeypatch, tmp_path):
    stat = tmp_path / "cpu.stat"
    stat.write_text("usage_usec 1000\n")
    monkeypatch.setattr(machine, "throttling_file", lambda: stat)
    assert CpuAccounts().since_last(10**9)[2] == 0


def test_what_children_compute_counts_and_is_told_apart():
    loader = DataLoader(Decoded(8), batch_size=2, num_workers=1)
    with record(loader) as recording:
        assert len(list(loader)) == 4
    batches = recording.trace.batches
    assert (batches["children_cpu_s"] >= 2 * DECODING_S).all()
    own_s = batches["process_cpu_s"] - batches["children_cpu_s"]
    assert (own_s > 0).all()
    assert (own_s < batches["children_cpu_s"]).all()


SLEPT_S = 0.002


class SleepsAndComputes(Dataset):
    """Each sample sleeps, and computes for about as long; all of one worker's on one CPU."""

    def __len__(self):
        return 400

    def __getitem__(self, index):
        time.sleep(SLEPT_S)
        until = time.thread_time() + SLEPT_S
        while time.thread_time() < until:
            hashlib.sha256(bytes(50_000)).digest()
        return index


def share_a_cpu(worker):
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel must count it")
def test_a_wait_for_a_cpu_between_two_batches_is_in_neither():
    loader = DataLoader(
        SleepsAndComputes(), batch_size=1, num_workers=3, worker_init_fn=share_a_cpu
    )
    with record(loader) as recording:
        assert len(list(loader)) == 400
    batches = recording.trace.batches
    took_s = (batches["ready_s"] - batches["started_s"]).sum()
    known_s = (batches["cpu_s"] + batches["queued_s"] + SLEPT_S).sum()
    assert batches["queued_s"].sum() > 0.1 * took_s
    assert known_s < 1.03 * took_s
