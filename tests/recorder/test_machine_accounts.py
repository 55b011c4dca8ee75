"""What the kernel books while a recording runs: throttling by a CPU quota, and pressure."""

import time
from pathlib import Path

import pytest
from torch.utils.data import DataLoader, Dataset

from loaderviz import Trace, load, machine, record

STOPPED_S = 0.004  # by each sample, as the file below says


class StoppedByItsQuota(Dataset[int]):
    """Each sample takes 2 ms, and says in the kernel's place that a quota stopped it."""

    def __init__(self, stat: Path) -> None:
        self.stat = stat
        self.n_read = 0

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        time.sleep(0.002)
        self.n_read += 1
        write_stat(self.stat, self.n_read * STOPPED_S)
        return index


def write_stat(stat: Path, throttled_s: float) -> None:
    stat.write_text(f"nr_throttled 1\nthrottled_usec {round(1e6 * throttled_s):012}\n")


@pytest.fixture
def books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kernel that has nothing to tell: no quota, no pressure."""
    monkeypatch.setattr(machine, "_cgroup_folders", lambda controller="": [tmp_path])
    monkeypatch.setattr(machine, "_PRESSURE", tmp_path)
    return tmp_path


def recorded(books: Path, num_workers: int = 1) -> Trace:
    loader = DataLoader(StoppedByItsQuota(books / "cpu.stat"), 2, num_workers=num_workers)
    with record(loader, path=books / "run") as recording:
        assert len(list(loader)) == 4
        if (books / "io").exists():
            (books / "io").write_text("some total=1500000\n")
    return recording.trace


def test_a_quota_is_looked_at_at_both_ends_and_in_each_batch(books):
    (books / "cpu.max").write_text("50000 100000\n")
    write_stat(books / "cpu.stat", 0.0)
    trace = recorded(books)
    assert trace.meta["throttled_s"] == pytest.approx(8 * STOPPED_S)
    batches = trace.batches
    took_s = batches["ready_s"] - batches["started_s"]
    assert (batches["throttled_s"] > 0).all()
    assert (batches["throttled_s"] <= took_s + 1e-9).all()
    assert (batches["throttled_s"] <= 2 * STOPPED_S + 1e-9).all()
    trace.save(books / "saved")
    saved = load(books / "saved")
    assert saved.batches["throttled_s"].equals(batches["throttled_s"])
    assert saved.meta["throttled_s"] == trace.meta["throttled_s"]


def test_without_a_quota_nothing_is_read(books):
    write_stat(books / "cpu.stat", 0.0)
    trace = recorded(books)
    assert "throttled_s" not in trace.meta
    assert trace.batches["throttled_s"].isna().all()


def test_a_quota_whose_book_cannot_be_read_is_no_error(books):
    (books / "cpu.max").write_text("50000 100000\n")
    (books / "cpu.stat").mkdir()
    loader = DataLoader([0, 1, 2], num_workers=1)
    with record(loader) as recording:
        assert len(list(loader)) == 3
    assert "throttled_s" not in recording.trace.meta
    assert recording.trace.meta["complete"]


def test_pressure_is_what_was_added_meanwhile(books):
    (books / "io").write_text("some total=1000000\n")
    trace = recorded(books, num_workers=0)
    assert trace.meta["pressure_s"] == {"io": 0.5}
    assert trace.meta["recorded_s"] >= 8 * 0.002


def test_a_kernel_that_counts_no_pressure_is_no_error(books):
    meta = recorded(books, num_workers=0).meta
    assert "pressure_s" not in meta
    assert meta["complete"]
