"""Steps and spans on a device, told by its events; and the thread that pins batches."""

import gc
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import loaderviz as lv
from fake_cuda import FakeCuda
from loaderviz.course.pinning import as_with_a_gpu
from probes import Keys, Pinnable
from trace_laws import assert_lawful


def collect(worker: int) -> None:
    gc.collect()


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    fake = FakeCuda()
    fake.stand_in(monkeypatch)
    return fake


def true_steps(cuda: FakeCuda, trace: lv.Trace) -> tuple[Any, Any]:
    """When the device came to each step and when it was done, as it knows itself."""
    at = (np.array(cuda.marks) - trace.meta["started"][0]) / 1e9
    return at[0::2], at[1::2]


def steps(trace: lv.Trace) -> tuple[Any, Any]:
    return trace.batches["device_start_s"].to_numpy(), trace.batches["device_end_s"].to_numpy()


def pause(key: int) -> int:
    time.sleep(0.01)
    return key


class TestStepsOnADevice:
    def test_a_device_that_waits_for_data_has_gaps_as_long_as_the_loading(self, cuda):
        loader = DataLoader(Keys(5, make=pause))
        with lv.record(loader) as rec:
            for _ in loader:
                cuda.run(0.002)
        batches = rec.trace.batches
        figure = lv.timeline(rec.trace)
        assert list(figure.layout.yaxis.ticktext) == ["consumer", "device", "main process"]
        assert len(next(each for each in figure.data if each.name == "device").x) == 5
        start, end = steps(rec.trace)
        assert np.allclose(steps(rec.trace), true_steps(cuda, rec.trace), rtol=0, atol=1e-7)
        assert (end - start > 0.0019).all()
        assert (start >= batches["delivered_s"]).all()
        assert (start[1:] > end[:-1]).all()

    def test_a_device_that_is_behind_has_none_and_the_loop_does_not_wait_for_it(self, cuda):
        loader = DataLoader(Keys(6))
        with lv.record(loader) as rec:
            for _ in loader:
                cuda.run(0.05)
            assert cuda.synchronized == 0
        start, end = steps(rec.trace)
        assert np.allclose(steps(rec.trace), true_steps(cuda, rec.trace), rtol=0, atol=1e-7)
        assert np.allclose(start[1:], end[:-1], rtol=0, atol=1e-7)

    def test_workers_and_several_recordings_change_nothing_of_it(self, cuda):
        loader = DataLoader(Keys(4), num_workers=2)
        with lv.record(loader) as outer, lv.record(loader) as inner:
            for _ in loader:
                cuda.run(0.005)
        for rec in (outer, inner):
            start, end = steps(rec.trace)
            assert (end - start > 0.0049).all()

    @pytest.mark.filterwarnings("error")
    @pytest.mark.usefixtures("pinning")
    def test_a_worker_that_is_forked_after_it_frees_nothing_of_the_device(self, cuda):
        """What recorded a loader that pins is garbage afterwards, for the next collection."""
        loader = pinnable(num_workers=1, worker_init_fn=collect)
        for _ in range(2):
            with lv.record(loader):
                for _ in loader:
                    cuda.run(0.02)
        assert len(list(loader)) == 6

    def test_a_device_that_is_never_idle_is_timed_by_the_host_as_well(self, cuda):
        """Its own clock may go slow: what has not passed yet does not pass before now."""
        backlog_s = 0.3
        loader = DataLoader(Keys(60))
        with lv.record(loader) as rec:
            cuda.run(backlog_s)
            for _ in loader:
                cuda.run(0.01)
                time.sleep(0.01)
                cuda.clock_rate = 0.1
        for told, true in zip(steps(rec.trace), true_steps(cuda, rec.trace), strict=True):
            assert np.abs(told - true).max() < 0.5 * backlog_s

    def test_what_the_loop_never_stepped_on_has_no_times(self, cuda):
        loader = DataLoader(Keys(8), num_workers=1, prefetch_factor=2)
        with lv.record(loader) as rec:
            next(iter(loader))
        start, end = steps(rec.trace)
        assert np.isfinite([start[0], end[0]]).all()
        assert np.isnan([*start[1:], *end[1:]]).all()

    def test_spans_are_timed_there_too(self, cuda):
        with lv.record(DataLoader(Keys(1))) as rec:
            for seconds in (0.03, 0.01):
                with lv.span("forward"):
                    cuda.run(seconds)
        start, end = true_steps(cuda, rec.trace)
        assert np.allclose(rec.trace.spans["device_s"], end - start, rtol=0, atol=1e-7)
        assert (rec.trace.spans["device_s"] > [0.029, 0.009]).all()

    @pytest.mark.parametrize(
        ("asked", "answer"), [("is_current_stream_capturing", True), ("is_initialized", False)]
    )
    def test_nothing_is_put_into_a_graph_or_a_device_of_no_use(
        self, cuda, monkeypatch, asked, answer
    ):
        monkeypatch.setattr(torch.cuda, asked, lambda: answer)
        with lv.record(loader := DataLoader(Keys(2))) as rec:
            list(loader)
        assert np.isnan(steps(rec.trace)).all()

    def test_no_device_is_looked_for_before_the_loop_uses_one(self, cuda, monkeypatch):
        looks = []
        for look in ("is_available", "device_count", "current_device", "init"):
            monkeypatch.setattr(torch.cuda, look, lambda look=look: looks.append(look))
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
        with lv.record(loader := DataLoader(Keys(2), num_workers=1)) as rec:
            for _ in loader:
                monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
                cuda.run(0.001)
        assert not looks
        start, end = steps(rec.trace)
        assert np.isnan(start).tolist() == [True, False]
        assert np.isfinite(end).all()

    def test_a_device_that_breaks_ends_the_recording_not_the_training(self, cuda):
        loader = DataLoader(Keys(4))
        rec, received = lv.record(loader), []

        def train() -> None:
            with rec:
                for batch in loader:
                    received.append(batch)
                    cuda.broken = len(received) >= 2

        with pytest.warns(UserWarning, match="illegal memory access"):
            train()
        assert len(received) == 4
        assert rec.trace.meta["problems"]
        assert np.isfinite(steps(rec.trace)[0][:2]).all()


@pytest.fixture
def pinning() -> Iterator[None]:
    """As on a machine with a GPU; what is pinned there must pin itself."""
    with as_with_a_gpu():
        yield


def pinnable(**settings: Any) -> DataLoader:
    return DataLoader(
        Keys(12, make=Pinnable), batch_size=2, collate_fn=Pinnable, pin_memory=True, **settings
    )


@pytest.mark.usefixtures("pinning")
class TestPinning:
    @pytest.mark.parametrize("settings", [{}, {"persistent_workers": True}], ids=str)
    def test_each_batch_is_pinned_between_ready_and_delivered(self, settings):
        loader = pinnable(num_workers=2, **settings)
        with lv.record(loader) as rec:
            received = [batch for _ in range(2) for batch in loader]
        assert all(batch.pinned for batch in received)
        batches = rec.trace.batches
        assert batches["pinned_s"].notna().all()
        assert (batches["pinned_s"] >= batches["ready_s"]).all()
        assert (batches["pinned_s"] <= batches["delivered_s"]).all()
        assert_lawful(rec.trace)
        assert rec.trace.meta["loaders"][0]["pinned"]
        figure = lv.timeline(rec.trace)
        labels = ["consumer", "pin thread", "worker 0", "worker 1"]
        lanes = [each for each in figure.layout.yaxis.ticktext if each != "phases"]
        assert lanes[:4] == labels
        assert len(next(each for each in figure.data if each.name == "pin").x) == 12

    def test_in_the_main_process_there_is_no_thread(self):
        with lv.record(loader := pinnable()) as rec:
            assert all(batch.pinned for batch in loader)
        assert rec.trace.batches["pinned_s"].isna().all()

    def test_the_queue_is_as_it_was_when_the_recording_has_ended(self):
        loader = pinnable(num_workers=1)
        with lv.record(loader), lv.record(loader):
            iterator = iter(loader)
            next(iterator)
        assert "put" not in vars(iterator._data_queue)
        assert len(list(iterator)) == 5

    def test_an_error_while_pinning_reaches_the_loop(self):
        loader = DataLoader(Keys(2), collate_fn=Unpinnable, num_workers=1, pin_memory=True)
        with lv.record(loader):
            iterator = iter(loader)
            with pytest.raises(RuntimeError, match="no room to pin"):
                next(iterator)
            iterator._shutdown_workers()  # else it does when the error is collected, for seconds


class Unpinnable:
    def __init__(self, samples: Any) -> None:
        self.samples = samples

    def pin_memory(self) -> None:
        raise RuntimeError("no room to pin")
