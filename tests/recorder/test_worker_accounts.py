"""What a worker reads for its batches, and the CPUs and threads that it may use."""

import os
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from loaderviz import load, machine, record
from loaderviz.recorder import timed_fetch, worker_accounts
from loaderviz.recorder.worker_accounts import ReadAccounts

ON_LINUX = pytest.mark.skipif(
    not Path("/proc/self/io").exists(), reason="the kernel must count what is read"
)
FILE_BYTES = 1 << 22


class WholeFiles(Dataset):
    """Reads all of a file for a row of it."""

    def __init__(self, path):
        self.path = path

    def __len__(self):
        return 8

    def __getitem__(self, key):
        return torch.frombuffer(bytearray(self.path.read_bytes()), dtype=torch.uint8)[:10].clone()


@ON_LINUX
def test_what_a_worker_reads_is_told_and_kept(tmp_path):
    path = tmp_path / "rows"
    path.write_bytes(bytes(FILE_BYTES))
    loader = DataLoader(WholeFiles(path), batch_size=2, num_workers=2)
    with record(loader) as recording:
        list(loader)
    recording.trace.save(tmp_path / "run.parquet")
    for trace in (recording.trace, load(tmp_path / "run.parquet")):
        batches = trace.batches
        assert (batches["read_bytes"] >= 2 * FILE_BYTES).all()
        assert (batches["read_bytes"] < 2 * FILE_BYTES + (1 << 20)).all()
        assert (batches["disk_bytes"] >= 0).all()
        assert (batches["n_bytes"] == 20).all()


def test_where_the_main_process_loads_it_is_unknown(tmp_path):
    path = tmp_path / "rows"
    path.write_bytes(bytes(FILE_BYTES))
    loader = DataLoader(WholeFiles(path), batch_size=2)
    with record(loader) as recording:
        list(loader)
    assert recording.trace.batches[["read_bytes", "disk_bytes"]].isna().all(axis=None)


@ON_LINUX
def test_it_stops_where_it_costs_too_much(monkeypatch):
    monkeypatch.setattr(worker_accounts, "FEWEST_LOOKS", 4)
    accounts = ReadAccounts()
    assert all(accounts.since_last(10**10)[0] > 0 for _ in range(10))
    assert [accounts.since_last(0)[0] > 0 for _ in range(12)][-1] is False


@ON_LINUX
def test_a_file_that_the_user_s_code_closes_is_no_longer_known():
    accounts = ReadAccounts()
    os.close(accounts._fd)
    assert accounts.since_last(10**10) == (0, 0)
    assert accounts.since_last(10**10) == (0, 0)


class Pins(Dataset):
    """A library that it uses first in its third batch leaves one CPU, and three threads."""

    def __len__(self):
        return 16

    def __getitem__(self, key):
        if key == 8:
            os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
            torch.set_num_threads(3)
        return key


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux only")
def test_cpus_and_threads_are_those_last_seen(monkeypatch):
    monkeypatch.setattr(timed_fetch, "RSS_EVERY_NS", 0)
    loader = DataLoader(Pins(), batch_size=4, num_workers=1)
    with record(loader) as recording:
        list(loader)
    (row,) = recording.trace.workers.to_dict("records")
    assert machine.cpus_in(row["cpus_allowed"]) == {min(os.sched_getaffinity(0))}
    assert row["threads"] == 3


@pytest.mark.parametrize(
    ("cpus", "listed"), [({0, 1, 2, 3, 8}, "0-3,8"), ({5}, "5"), (set(), ""), ({1, 3}, "1,3")]
)
def test_cpus_are_listed_as_linux_does(cpus, listed):
    assert machine.cpu_list(cpus) == listed
    assert machine.cpus_in(listed) == cpus


@pytest.mark.parametrize("text", ["x", "-", "1-x", "0-99999999999999", "3-1"])
def test_a_text_that_is_no_list_of_cpus_is_no_error(text):
    assert len(machine.cpus_in(text)) <= machine.MOST_CPUS + 1
