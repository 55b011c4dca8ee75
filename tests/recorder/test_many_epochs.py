"""Loaders that start new workers for each epoch, many times."""

import shutil

import pytest
from torch.utils.data import DataLoader

import loaderviz as lv
from loaderviz import spool_archive
from loaderviz.spool import HEADER_BYTES
from loaderviz.trace import ENDED_WORKERS_NAME
from loaderviz.trace.recording.live_recording import LiveRecording

N_EPOCHS, N_WORKERS = 5, 2


@pytest.fixture
def loader():
    return DataLoader(range(8), batch_size=2, num_workers=N_WORKERS)


def n_files(folder):
    return len(list(folder.iterdir()))


def is_whole(trace, n_epochs):
    samples = trace.samples
    workers = trace.workers
    return (
        trace.meta["complete"]
        and samples.groupby("epoch")["key"].apply(sorted).tolist() == [list(range(8))] * n_epochs
        and samples["end_s"].notna().all()
        and len(workers) == n_epochs * N_WORKERS
        and workers["first_task_s"].notna().all()
    )


def test_files_are_no_more_than_of_two_epochs(loader, tmp_path):
    counts = []
    with lv.record(loader, path=tmp_path / "run") as recording:
        live = LiveRecording(tmp_path / "run")
        for _ in range(N_EPOCHS):
            list(loader)
            counts.append(n_files(tmp_path / "run"))
            assert live.read_now().n_batches == 4 * len(counts)
        assert len(recording.snapshot().samples) == 8 * N_EPOCHS
    assert max(counts[2:]) == counts[1]
    assert is_whole(recording.trace, N_EPOCHS)
    assert is_whole(lv.load(tmp_path / "run"), N_EPOCHS)
    assert set(recording.trace.workers["exit"]) == {"done"}
    assert not list((tmp_path / "run").glob("worker-*"))


def test_a_file_that_is_there_twice_counts_once(loader, tmp_path):
    with lv.record(loader, path=tmp_path / "run") as recording:
        list(loader)
        kept = [*(tmp_path / "run").glob("worker-*")]
        for path in kept:  # as if it were killed before they are removed
            shutil.copy(path, tmp_path)
        list(loader)
    for path in kept:
        assert not path.exists()
        shutil.copy(tmp_path / path.name, path)
    assert is_whole(lv.load(tmp_path / "run"), 2)
    assert len(lv.load(tmp_path / "run").samples) == len(recording.trace.samples)


def test_damage_in_one_part_costs_no_other(loader, tmp_path):
    with lv.record(loader, path=tmp_path / "run"):
        for _ in range(3):
            list(loader)
    path = tmp_path / "run" / ENDED_WORKERS_NAME
    data = path.read_bytes()
    at = data.index(b'[{"iterator": 1, "worker": 0')
    path.write_bytes(data[:at] + b"?" + data[at + 1 :])
    trace = lv.load(tmp_path / "run")
    assert any(ENDED_WORKERS_NAME in problem for problem in trace.meta["problems"])
    assert trace.samples.groupby("epoch").size().tolist() == [8, 4, 8]


def test_a_large_file_stays_where_it_is(loader, tmp_path, monkeypatch):
    monkeypatch.setattr(spool_archive, "LARGEST_FILE_BYTES", HEADER_BYTES)
    with lv.record(loader, path=tmp_path / "run"):
        for _ in range(2):
            list(loader)
    assert len(list((tmp_path / "run").glob("worker-*"))) == 2 * N_WORKERS
    assert not (tmp_path / "run" / ENDED_WORKERS_NAME).exists()
    assert is_whole(lv.load(tmp_path / "run"), 2)
