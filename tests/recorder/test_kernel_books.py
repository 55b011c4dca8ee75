"""The kernel's books of workers and of the machine: what is not there is unknown and no error."""

import hashlib
import os
import time
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from loaderviz import Trace, load, machine, record
from loaderviz.recorder import kernel_books, timed_fetch
from loaderviz.recorder.kernel_books import ReadAccounts, WorkerAccounts
from probes import DECODING_S, Decoded, Keys

ON_LINUX = pytest.mark.skipif(
    not Path("/proc/self/io").exists(), reason="the kernel must count what is read"
)
STOPPED_S = 0.004  # by each sample, as the file below says
SLEPT_S = 0.002
FILE_BYTES = 1 << 22


class Reading(Dataset):
    """What ``read`` makes of an index."""

    def __init__(self, n, read):
        self.n, self.read = n, read

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return self.read(index)


def recorded(dataset, num_workers=1, **options) -> Trace:
    with record(loader := DataLoader(dataset, 2, num_workers=num_workers), **options) as recording:
        assert len(list(loader)) == len(dataset) // 2
    return recording.trace


@pytest.fixture
def books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kernel that has nothing to tell: no quota, no pressure."""
    monkeypatch.setattr(machine, "_cgroup_folders", lambda controller="": [tmp_path])
    monkeypatch.setattr(machine, "_PRESSURE", tmp_path)
    return tmp_path


def stopped_by_its_quota(stat: Path) -> Dataset:
    """Each sample takes 2 ms, and says in the kernel's place that a quota stopped it."""
    n_read = 0

    def read(index):
        nonlocal n_read
        time.sleep(0.002)
        n_read += 1
        stat.write_text(f"nr_throttled 1\nthrottled_usec {round(1e6 * n_read * STOPPED_S):012}\n")
        return index

    stat.write_text("nr_throttled 0\nthrottled_usec 000000000000\n")
    return Reading(8, read)


class TestThrottling:
    def test_a_quota_is_looked_at_at_both_ends_and_in_each_batch(self, books):
        (books / "cpu.max").write_text("50000 100000\n")
        trace = recorded(stopped_by_its_quota(books / "cpu.stat"))
        trace.save(books / "saved")
        for each in (trace, load(books / "saved")):
            assert each.meta["throttled_s"] == pytest.approx(8 * STOPPED_S)
            batches = each.batches
            took_s = batches["ready_s"] - batches["started_s"]
            assert (batches["throttled_s"] > 0).all()
            assert (batches["throttled_s"] <= took_s.clip(upper=2 * STOPPED_S) + 1e-9).all()

    def test_without_a_quota_nothing_is_read(self, books):
        trace = recorded(stopped_by_its_quota(books / "cpu.stat"))
        assert "throttled_s" not in trace.meta
        assert trace.batches["throttled_s"].isna().all()

    def test_a_quota_whose_book_cannot_be_read_is_no_error(self, books):
        (books / "cpu.max").write_text("50000 100000\n")
        (books / "cpu.stat").mkdir()
        meta = recorded([0, 1]).meta
        assert "throttled_s" not in meta
        assert meta["complete"]

    def test_what_the_user_s_code_closes_or_does_not_say_it_is_unknown(self, monkeypatch, tmp_path):
        stat = tmp_path / "cpu.stat"
        stat.write_text("throttled_usec 1000\n")
        monkeypatch.setattr(machine, "throttling_file", lambda: stat)
        accounts = WorkerAccounts()
        stat.write_text("throttled_usec 1004\n")
        assert accounts.since_last(10**9)[2] == 4001
        for book in (accounts._queued, accounts._throttled):
            if book._fd >= 0:
                os.close(book._fd)
        for _ in range(2):
            process, queued, throttled, *_ = accounts.since_last(10**9)
            assert process > 0
            assert (queued, throttled) == (0, 0)
        stat.write_text("usage_usec 1000\n")
        assert WorkerAccounts().since_last(10**9)[2] == 0


def test_pressure_is_what_was_added_meanwhile_where_it_is_counted(books):
    def read(index):
        (books / "io").write_text("some total=1500000\n")
        return index

    assert "pressure_s" not in recorded([0, 1], num_workers=0).meta
    (books / "io").write_text("some total=1000000\n")
    meta = recorded(Reading(8, read), num_workers=0).meta
    assert meta["pressure_s"] == {"io": 0.5}
    assert meta["recorded_s"] > 0


def test_what_children_compute_counts_and_is_told_apart():
    batches = recorded(Decoded(8)).batches
    assert (batches["children_cpu_s"] >= 2 * DECODING_S).all()
    own_s = batches["process_cpu_s"] - batches["children_cpu_s"]
    assert (own_s > 0).all()
    assert (own_s < batches["children_cpu_s"]).all()


def sleep_and_compute(index):
    """For about as long."""
    time.sleep(SLEPT_S)
    until = time.thread_time() + SLEPT_S
    while time.thread_time() < until:
        hashlib.sha256(bytes(50_000)).digest()
    return index


def share_a_cpu(worker):
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel must count it")
@pytest.mark.slow
def test_a_wait_for_a_cpu_between_two_batches_is_in_neither():
    loader = DataLoader(
        Reading(240, sleep_and_compute), batch_size=1, num_workers=3, worker_init_fn=share_a_cpu
    )
    with record(loader) as recording:
        assert len(list(loader)) == 240
    batches = recording.trace.batches
    took_s = (batches["ready_s"] - batches["started_s"]).sum()
    known_s = (batches["cpu_s"] + batches["queued_s"] + SLEPT_S).sum()
    assert batches["queued_s"].sum() > 0.1 * took_s
    assert known_s < 1.06 * took_s  # the books are closed at a tick


class TestReads:
    @ON_LINUX
    def test_what_a_worker_reads_is_told_and_kept(self, tmp_path):
        path = tmp_path / "rows"
        path.write_bytes(bytes(FILE_BYTES))

        def row(index):
            return torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)[:10].clone()

        trace = recorded(Reading(8, row), num_workers=2)
        trace.save(tmp_path / "run.parquet")
        for each in (trace, load(tmp_path / "run.parquet")):
            batches = each.batches
            assert (batches["read_bytes"] >= 2 * FILE_BYTES).all()
            assert (batches["read_bytes"] < 2 * FILE_BYTES + (1 << 20)).all()
            assert (batches["disk_bytes"] >= 0).all()
            assert (batches["n_bytes"] == 20).all()

    def test_where_the_main_process_loads_it_is_unknown(self):
        batches = recorded(Keys(4), num_workers=0).batches
        assert batches[["read_bytes", "disk_bytes"]].isna().all(axis=None)

    @ON_LINUX
    def test_it_stops_where_it_costs_too_much_or_its_file_is_closed(self, monkeypatch):
        monkeypatch.setattr(kernel_books, "FEWEST_LOOKS", 4)
        accounts = ReadAccounts()
        assert all(accounts.since_last(10**10)[0] > 0 for _ in range(10))
        assert [accounts.since_last(0)[0] > 0 for _ in range(12)][-1] is False
        closed = ReadAccounts()
        os.close(closed._fd)
        assert [closed.since_last(10**10) for _ in range(2)] == [(0, 0)] * 2


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux only")
def test_cpus_and_threads_are_those_last_seen(monkeypatch):
    def pin(key):
        """As a library that is first used in the third batch."""
        if key == 4:
            share_a_cpu(0)
            torch.set_num_threads(3)
        return key

    monkeypatch.setattr(timed_fetch, "RSS_EVERY_NS", 0)
    (row,) = recorded(Reading(8, pin)).workers.to_dict("records")
    assert machine.cpus_in(row["cpus_allowed"]) == {min(os.sched_getaffinity(0))}
    assert row["threads"] == 3


@pytest.mark.parametrize(
    ("listed", "cpus"),
    [("0-3,8", {0, 1, 2, 3, 8}), ("5", {5}), ("", set()), ("1,3", {1, 3})],
)
def test_cpus_are_listed_as_linux_does(listed, cpus):
    assert machine.cpu_list(cpus) == listed
    assert machine.cpus_in(listed) == cpus


@pytest.mark.parametrize("text", ["x", "-", "1-x", "0-99999999999999", "3-1"])
def test_a_text_that_is_no_list_of_cpus_is_no_error(text):
    assert len(machine.cpus_in(text)) <= machine.MOST_CPUS + 1
