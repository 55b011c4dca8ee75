"""A batch in whose place the loop gets an exception that making it did not raise."""

import os
import signal
import time
from collections import deque
from typing import Any

import pytest
from torch.utils.data import DataLoader, get_worker_info

import loaderviz as lv
from loaderviz import record
from loaderviz._doctor.findings_of_recordings import findings_of
from loaderviz.course.datasets import SleepingDataset


class Waits(SleepingDataset):
    """Sample 12 takes as long as given."""

    def __init__(self, seconds: float) -> None:
        super().__init__(40, 0.001)
        self.seconds = seconds

    def __getitem__(self, index: int) -> Any:
        time.sleep(self.seconds if index == 12 else 0)
        return super().__getitem__(index)


class Dies(SleepingDataset):
    """Kills its worker when the loop waits: all batches before have been taken."""

    def __getitem__(self, index: int) -> Any:
        if index == 12 and get_worker_info() is not None:
            time.sleep(0.5)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


def raises_in_worker_1(worker: int) -> None:
    if worker == 1:
        raise RuntimeError("no such device")


def recorded(loader, error=RuntimeError):
    """The recording of a loop that ends with this error."""
    with record(loader) as recording:
        batches = iter(loader)
        with pytest.raises(error):
            deque(batches, maxlen=0)
        if loader.num_workers:  # else it does when the error's traceback is collected, for seconds
            batches._shutdown_workers()
    return recording.trace


def states(trace):
    return trace.batches.set_index("batch")["state"].to_dict()


def errors(trace):
    return [finding for finding in findings_of(trace) if finding.severity == "error"]


def first_that_did_not_come(trace):
    return min(batch for batch, state in states(trace).items() if state != "delivered")


def assert_lost(trace, batch):
    assert states(trace)[batch] == "lost"
    assert trace.batches["requested_s"].notna().equals(trace.batches["delivered_s"].notna())
    assert trace.summary().verdict == (
        f"Batch {batch} never came: the loop got an exception in its place"
    )


def test_a_timeout_loses_the_batch_that_was_waited_for():
    trace = recorded(DataLoader(Waits(4), 4, num_workers=2, timeout=2))
    assert_lost(trace, 3)
    (finding,) = errors(trace)
    assert finding.code == "LV507"
    assert "batch 3 of epoch 0 never came from worker 1" in finding.evidence[0]
    assert not any(mark["name"] == "failed" and len(mark["x"]) for mark in lv.timeline(trace).data)


def test_it_may_come_after_all():
    loader = DataLoader(Waits(3), 4, num_workers=2, timeout=2)
    with record(loader) as recording:
        batches = iter(loader)
        for _ in range(3):
            next(batches)
        with pytest.raises(RuntimeError, match="timed out"):
            next(batches)
        assert len(list(batches)) == 7
    assert set(states(recording.trace).values()) == {"delivered"}


def test_so_does_a_worker_that_cannot_begin():
    trace = recorded(
        DataLoader(SleepingDataset(40, 0.001), 4, num_workers=2, worker_init_fn=raises_in_worker_1)
    )
    assert_lost(trace, 1)
    assert trace.workers["exit"].tolist() == ["done", "done"]
    assert [finding.code for finding in errors(trace)] == ["LV507"]
    notes = " ".join(lv.audit(trace).notes)
    assert "Worker 1 delivered nothing." in notes
    assert "less to share out" not in notes


def test_and_one_that_dies_which_is_told_in_its_place():
    # The worker is sent for batch 3 when the loop has batch 2.
    trace = recorded(DataLoader(Dies(40, 0.001), 4, num_workers=1, prefetch_factor=1))
    assert_lost(trace, 3)
    assert [finding.code for finding in errors(trace)] == ["LV506"]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loop_that_is_interrupted_loses_none(workers):
    class Interrupts(SleepingDataset):
        def __getitem__(self, index: int) -> Any:
            if index == 12:
                os.kill(main, signal.SIGINT)
                time.sleep(0.5)
            return super().__getitem__(index)

    main = os.getpid()
    trace = recorded(DataLoader(Interrupts(40, 0.001), 4, num_workers=workers), KeyboardInterrupt)
    assert not {"lost", "failed"} & set(states(trace).values())
    assert "never came" not in trace.summary().verdict


def test_an_exception_of_the_sampler_loses_what_it_kept_from_the_loop():
    def keys():
        yield from range(12)
        raise ValueError("no more keys")

    loader = DataLoader(SleepingDataset(40, 0.001), 4, sampler=keys(), num_workers=1)
    trace = recorded(loader, ValueError)
    assert_lost(trace, first_that_did_not_come(trace))
