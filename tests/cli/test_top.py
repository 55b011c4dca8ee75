"""A run in progress, looked at from outside: what it costs to look, and what is seen."""

import json
import math
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import loaderviz as lv
from loaderviz.course.datasets import SleepingDataset
from loaderviz.record_layout import Batch, Tag
from loaderviz.spool import HEADER_BYTES, SpoolFile
from loaderviz.trace.recording import live_recording
from loaderviz.trace.recording.live_recording import LiveRecording


class Ready:
    """A loader that is none of torch's."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        yield from self.batches


def quick(n=40, **options):
    return DataLoader(SleepingDataset(n, 0.001), batch_size=4, **options)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_each_look_counts_what_has_come_until_then(num_workers, tmp_path):
    loader = quick(num_workers=num_workers)
    with lv.record(loader, path=tmp_path / "run"):
        live = LiveRecording(tmp_path / "run")
        assert live.read_now().n_batches == 0
        for n, _ in enumerate(loader, 1):
            found = live.read_now()
            assert found.n_batches == n
            assert found.running
        assert [each.worker for each in found.workers] == ([0, 1] if num_workers else [-1])
        assert found.rank == 0
        assert 0 <= found.wait_share <= 1


def test_what_is_counted_in_many_looks_is_what_is_there_in_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(live_recording, "WINDOW_S", 1e6)
    loader = quick(220, num_workers=2, persistent_workers=True)
    with lv.record(loader, path=tmp_path / "run"):
        live = LiveRecording(tmp_path / "run")
        for _ in range(3):
            for number, _ in enumerate(loader):
                if number % 7 == 0:
                    seen = live.read_now()
    found = live.read_now()
    trace = lv.load(tmp_path / "run")
    assert found.n_batches == len(trace.batches) == 165
    assert not found.running
    assert found.epoch == 2
    assert found.elapsed_s * found.samples_per_s == pytest.approx(660)
    assert seen.n_batches < 165


def test_many_small_batches_between_two_looks_are_all_counted(tmp_path):
    loader = DataLoader(range(live_recording.MOST_OPEN + 100))
    with lv.record(loader, path=tmp_path / "run"):
        live = LiveRecording(tmp_path / "run")
        live.read_now()
        list(loader)
        assert live.read_now().n_batches == len(loader)


def test_loaders_in_turns_are_counted_together(tmp_path, monkeypatch):
    monkeypatch.setattr(live_recording, "WINDOW_S", 1e6)
    loaders = quick(), quick(num_workers=1), quick()
    with lv.record(*loaders, path=tmp_path / "run"):
        live = LiveRecording(tmp_path / "run")
        for n, _ in enumerate(zip(*loaders, strict=True), 1):
            found = live.read_now()
            assert found.n_batches == 3 * n
            assert found.waiting_s == 0
            n_samples = found.elapsed_s * found.samples_per_s
            assert 12 * n <= n_samples + 1e-6
            names = {worker.loader for worker in found.workers if worker.busy_share > 0}
            assert names == {"SleepingDataset"}
    found = live.read_now()  # and the file of the worker has been moved to those of the ended
    assert n_samples <= found.elapsed_s * found.samples_per_s + 1e-6


def test_batches_that_lie_ready_are_counted_with_their_worker(tmp_path):
    loader = quick(num_workers=1, prefetch_factor=3)
    with lv.record(loader, path=tmp_path / "run"):
        batches = iter(loader)
        next(batches)
        live = LiveRecording(tmp_path / "run")
        while live.read_now().workers[0].ready < 3:  # all that it may fetch ahead
            pass
        found = live.read_now()
        assert math.isnan(found.workers[0].reading_s)
        assert found.workers[0].rss_bytes > 0
        del batches


def test_a_worker_is_busy_for_a_share_of_its_own_life(tmp_path):
    slow = DataLoader(SleepingDataset(40, 0.02), batch_size=2, num_workers=1)
    with lv.record(slow, path=tmp_path / "run"):
        list(DataLoader(SleepingDataset(40, 0.02)))  # time in which it was not there yet
        live = LiveRecording(tmp_path / "run")
        for number, _ in enumerate(slow):
            if number == 15:
                assert live.read_now().workers[0].busy_share > 0.5


def test_what_is_no_recording_is_named(tmp_path):
    with pytest.raises(lv.LoaderVizError, match="holds no recording that runs"):
        LiveRecording(tmp_path)


@pytest.mark.parametrize(("sizes", "n_samples"), [([4, 4, 2], 10), ([None], math.nan)])
def test_samples_of_a_loader_that_is_none_of_torchs_are_counted(tmp_path, sizes, n_samples):
    loader = Ready([object() if n is None else torch.zeros(n) for n in sizes])
    with lv.record(loader, path=tmp_path / "run"):
        live = LiveRecording(tmp_path / "run")
        for _ in loader:
            pass
        found = live.read_now()
    per_s = found.samples_per_s / found.batches_per_s * len(sizes)
    assert per_s == pytest.approx(n_samples, nan_ok=True)
    assert found.workers == ()  # nobody knows who made them


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The folder of a run as it was before its recording ended."""
    folder = tmp_path_factory.mktemp("recorded")
    with lv.record(loader := quick(), path=folder / "run"):
        list(loader)
        shutil.copytree(folder / "run", folder / "killed")
    return folder / "killed"


@pytest.fixture
def ended(recorded, tmp_path):
    """A copy of the folder of a run whose process is gone."""
    meta = json.loads((recorded / "meta.json").read_text())
    folder = shutil.copytree(recorded, tmp_path / "run")
    (folder / "meta.json").write_text(json.dumps({**meta, "pid": 2**22 + 1}))  # no pid is so high
    return folder


def test_top_shows_every_rank_and_says_when_they_have_ended(loaderviz, tmp_path, monkeypatch):
    for rank in range(2):
        loader = quick()
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "1")  # so that the folder stays one
        with lv.record(loader, path=tmp_path / f"rank-{rank:05d}", label="trial"):
            list(loader)
    done = loaderviz("top", tmp_path)
    assert done.code == 0
    assert "trial · ended" in done.out
    assert [line.split()[1] for line in done.out.splitlines() if "%" in line][:2] == ["0", "1"]
    (title,) = (line for line in done.out.splitlines() if "workers of rank" in line)
    assert title.split()[-1] in "01"
    assert "main process" in done.out


def test_top_as_json_is_a_line_for_each_look_and_a_run_that_was_killed_has_ended(
    loaderviz, ended, monkeypatch
):
    monkeypatch.setattr(live_recording, "WINDOW_S", 0.0)
    (line,) = loaderviz("top", ended, "--json").out.splitlines()
    (found,) = json.loads(line)
    assert (found["n_batches"], found["running"]) == (10, False)


def test_top_of_a_folder_without_a_run_is_bad_input(loaderviz, tmp_path):
    for args in (["--once"], []):
        done = loaderviz("top", tmp_path, *args)
        assert done.code == 2
        assert "holds no recording that runs" in done.err
        (tmp_path / "notes.txt").touch()  # what is there is no run, and becomes none


def test_top_waits_for_a_run_that_has_not_begun(tmp_path):
    command = [sys.executable, "-m", "loaderviz", "top", str(tmp_path / "run"), "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as top:
        assert "waiting for a run that records into" in top.stderr.readline()
        loader = quick()
        with lv.record(loader, path=tmp_path / "run"):
            list(loader)
        *_, last = top.stdout.read().splitlines()
    assert top.returncode == 0
    assert json.loads(last)[0]["n_batches"] == 10


@pytest.mark.parametrize(
    "change",
    [
        {"rank": 1e999},
        {"rank": "first"},
        {"pid": 1e999},
        {"started": [0.5, 0]},
        {"started": None},
        {"deep": "[" * 10_000 + "]" * 10_000},
    ],
    ids=lambda change: str(change)[:30],
)
def test_a_damaged_meta_is_bad_input(change, ended, loaderviz):
    text = json.dumps(json.loads((ended / "meta.json").read_text()) | change)
    deep = change.get("deep")
    (ended / "meta.json").write_text(text.replace(f'"{deep}"', str(deep)))
    done = loaderviz("top", ended)
    assert done.code == 2
    assert "holds no recording that runs" in done.err


def test_a_damaged_worker_is_bad_input(ended, loaderviz):
    (spool,) = ended.glob("here-*.spool")
    spool.write_bytes(spool.read_bytes().replace(b'"worker": -1', b'"worker":"x"'))
    done = loaderviz("top", ended)
    assert done.code == 2
    assert "is damaged" in done.err


@pytest.mark.parametrize("value", [-(2**62), 2**62, -1])
def test_a_damaged_word_makes_no_endless_bar(value, ended, loaderviz):
    (spool,) = ended.glob("here-*.spool")
    words = np.fromfile(spool, np.int64)
    for at in SpoolFile(spool).records()[Tag.BATCH]:
        words[HEADER_BYTES // 8 + at + Batch.REQUESTED] = value
    words.tofile(spool)
    done = loaderviz("top", ended)
    assert done.code == 0
    assert len(done.out) < 10_000
