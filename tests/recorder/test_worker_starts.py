"""What the parts of a worker's start took: pickling, boot, unpickling, worker_init_fn."""

import time

import numpy as np
import pytest
from torch.utils.data import DataLoader, Dataset

from loaderviz import Trace, load, record
from loaderviz.course.datasets import SleepingDataset
from probes import SlowToSend, slow_init

N_BYTES = 5 << 20
SENT = ("pickle_s", "pickle_bytes", "unpickle_s")


def recorded(method: str, **settings) -> Trace:
    loader = DataLoader(
        SlowToSend(8, N_BYTES, pickle_s=0.2, unpickle_s=0.3),
        batch_size=2,
        multiprocessing_context=method,
        **settings,
    )
    with record(loader) as recording, record(loader) as inner:
        iterator = iter(loader)
        assert type(iterator._dataset_kind) is int
        assert len(list(iterator)) == 4
    told = [each.trace.workers[[*SENT]].to_numpy() for each in (recording, inner)]
    assert np.allclose(*told, rtol=0.1, equal_nan=True)
    return recording.trace


@pytest.mark.parametrize("method", [pytest.param("spawn", marks=pytest.mark.slow), "forkserver"])
def test_each_part_of_a_new_process_is_told(method, tmp_path):
    trace = recorded(method, num_workers=2, worker_init_fn=slow_init)
    workers = trace.workers
    assert (workers["pickle_s"] >= 0.2).all()
    assert workers["pickle_bytes"].between(N_BYTES - (1 << 17), N_BYTES + (1 << 17)).all()
    assert (workers["unpickle_s"] >= 0.3).all()
    assert (workers["init_s"] >= 0.1).all()
    assert (workers["boot_s"] > 0).all()
    up_s = workers["started_s"] + workers["boot_s"] + workers["unpickle_s"] + workers["init_s"]
    assert (up_s <= workers["first_task_s"]).all()
    assert (workers["first_read_s"] > 0).all()
    # Worker 0 is started once it has been pickled: iter(loader) takes that long, too.
    to_first_s = trace.batches["requested_s"].min() - workers["started_s"].iloc[0]
    assert trace.summary().startup_s >= to_first_s + 0.2
    trace.save(tmp_path / "saved")
    parts = [*SENT, "boot_s", "init_s", "first_read_s"]
    assert np.allclose(load(tmp_path / "saved").workers[parts], workers[parts], atol=1e-9)


def test_nothing_is_sent_to_a_forked_worker():
    workers = recorded("fork", num_workers=1, worker_init_fn=slow_init).workers
    assert workers[[*SENT]].isna().all(axis=None)
    assert (workers["init_s"] >= 0.1).all()
    assert (workers["boot_s"] > 0).all()
    assert (workers["started_s"] + workers["boot_s"] <= workers["first_task_s"]).all()


class Warming(Dataset[int]):
    """Its first sample of all takes long, one by one or as a list."""

    cold = True

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        time.sleep(0.2 * self.cold)
        self.cold = False
        return index


class WarmingTogether(Warming):
    def __getitems__(self, indices: list[int]) -> list[int]:
        return [self[index] for index in indices]


@pytest.mark.parametrize("dataset", [Warming(), WarmingTogether()])
def test_the_first_read_is_told(dataset):
    loader = DataLoader(dataset, batch_size=2, num_workers=2, multiprocessing_context="fork")
    with record(loader) as recording:
        assert len(list(loader)) == 4
    assert (recording.trace.workers["first_read_s"] >= 0.2).all()


def test_a_worker_that_read_nothing_has_no_first_read():
    loader = DataLoader(SleepingDataset(1, 0), num_workers=2)
    with record(loader) as recording:
        assert len(list(loader)) == 1
    assert recording.trace.workers["first_read_s"].isna().tolist() == [False, True]
