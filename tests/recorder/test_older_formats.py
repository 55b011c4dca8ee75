"""Recordings of older versions that were never saved as one file: their folders still open."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from torch.utils.data import DataLoader

from loaderviz import load, record, spool_archive
from loaderviz.course.datasets import SleepingDataset
from loaderviz.record_layout import Batch, Tag, Task
from loaderviz.spool import BLOCK_HEAD, HEADER_BYTES, WORD, SpoolFile, blocks

ADDED = {  # words of records that a format lacks
    1: {
        Tag.BATCH: [Batch.DRAWING],
        Tag.TASK: [
            *(Task.PROCESS_CPU, Task.QUEUED, Task.THROTTLED, Task.SHAPES),
            *(Task.CHILDREN_CPU, Task.READ, Task.DISK),
        ],
    },
    2: {Tag.TASK: [Task.SHAPES, Task.CHILDREN_CPU, Task.READ, Task.DISK]},
    3: {Tag.TASK: [Task.CHILDREN_CPU, Task.READ, Task.DISK]},
    4: {Tag.TASK: [Task.READ, Task.DISK]},  # batches of the main process were in its main file
    5: {Tag.TASK: [Task.READ, Task.DISK]},
}


READ = ["read_bytes", "disk_bytes"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of today, of which each test takes a copy."""
    folder = tmp_path_factory.mktemp("today") / "run"
    loader = DataLoader(SleepingDataset(20, 0.002), batch_size=4, num_workers=2)
    with pytest.MonkeyPatch.context() as patch, record(loader, path=folder):
        patch.setattr(spool_archive, "LARGEST_FILE_BYTES", 0)  # format 1 moves no files
        for _batch in loader:
            pass
    return folder


def to_format(number: int, path: Path) -> None:
    """Rewrite a spool file as an earlier version wrote it."""
    words = np.fromfile(path, np.int64)
    words[0] = int.from_bytes(b"LVSPOOL%d" % number, "little")
    data = words[HEADER_BYTES // WORD :]
    for _, start, end in blocks(memoryview(data.copy())):
        records, at = [], start + BLOCK_HEAD
        while at + 2 <= end and data[at] >= 2:
            record_words = data[at : at + data[at]].copy()
            at += data[at]
            if record_words[1] == Tag.CPUS or (record_words[1] == Tag.TEXT and number < 3):
                continue
            record_words = np.delete(record_words, ADDED[number].get(int(record_words[1]), []))
            record_words[0] = len(record_words)
            records.append(record_words)
        shorter = np.concatenate([*records, np.zeros(0, np.int64)])
        data[start + BLOCK_HEAD : end] = 0
        data[start + BLOCK_HEAD : start + BLOCK_HEAD + len(shorter)] = shorter
        data[start + 1] = BLOCK_HEAD + len(shorter)
    words.tofile(path)


@pytest.mark.parametrize(
    ("number", "lacking"),
    [
        (1, ["drawing_s", "process_cpu_s", "children_cpu_s", "queued_s", "shapes", *READ]),
        (2, ["children_cpu_s", "shapes", *READ]),
        (3, ["children_cpu_s", *READ]),
        (4, READ),
        (5, READ),
    ],
)
def test_a_folder_of_an_older_format_is_opened(number, lacking, run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    now = load(run)
    spools = list((tmp_path / "run").rglob("*.spool"))
    assert len(spools) == 3
    for path in spools:
        to_format(number, path)
    before = load(tmp_path / "run")
    for column in lacking:
        assert now.batches[column].notna().all()
        assert before.batches[column].isna().all()
    assert now.workers["cpus_allowed"].notna().all()
    assert before.workers[["cpus_allowed", "threads"]].isna().all(axis=None)
    same = [name for name in now.batches if name not in lacking and name != "throttled_s"]
    assert now.batches[same].equals(before.batches[same])
    assert now.samples.equals(before.samples)
    assert before.summary().causes["seconds"].sum() > 0


def test_batches_of_the_main_process_were_in_its_main_file(tmp_path):
    loader = DataLoader(SleepingDataset(20, 0.002), batch_size=4)
    with record(loader, path=tmp_path / "run"):
        for _batch in loader:
            pass
    now = load(tmp_path / "run")
    paths = [next((tmp_path / "run").glob(f"{name}*.spool")) for name in ("main", "here")]
    main, here = paths
    main_words, here_words = (np.memmap(path, np.int64, "r+", HEADER_BYTES) for path in paths)
    for at in SpoolFile(here).records()[Tag.BATCH]:
        *_, (_, start, end) = blocks(main_words.data)
        main_words[end : end + Batch.N_WORDS] = here_words[at : at + Batch.N_WORDS]
        main_words[start + 1] += Batch.N_WORDS
        here_words[at + 1] = 0
    for path in paths:
        to_format(4, path)
    assert Tag.BATCH in SpoolFile(main).records()
    assert Tag.BATCH not in SpoolFile(here).records()
    before = load(tmp_path / "run")
    assert now.batches.equals(before.batches)
    assert now.samples.equals(before.samples)
