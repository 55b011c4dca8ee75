"""Steps, spans and pinned batches on a GPU that is there; test_device.py has its stand-ins."""

import gc
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import loaderviz as lv
from loaderviz.course.on_a_gpu import Steps, batches_of
from loaderviz.course.simulated_device import WAYS
from own_process import in_own_process
from probes import Keys
from trace_laws import assert_lawful

pytestmark = [
    pytest.mark.own_process,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]

CYCLES = 20_000_000  # about 10 ms


def values(key: int) -> torch.Tensor:
    return torch.full((1000,), float(key))


def slow(key: int) -> torch.Tensor:
    time.sleep(0.03)
    return values(key)


def spin(cycles: int = CYCLES) -> None:
    """Queue a kernel that keeps the device busy."""
    torch.cuda._sleep(cycles)


class Timed:
    """Work between two events of its own; ``seconds`` is what the device says."""

    def __init__(self) -> None:
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]

    def __enter__(self) -> None:
        self.events[0].record()

    def __exit__(self, *raised: object) -> None:
        self.events[1].record()

    @property
    def seconds(self) -> float:
        self.events[1].synchronize()
        return self.events[0].elapsed_time(self.events[1]) / 1000


@pytest.fixture(autouse=True)
def warm() -> None:
    if in_own_process():
        spin(1)
        torch.cuda.synchronize()


def steps(trace: lv.Trace) -> tuple[Any, Any]:
    return trace.batches["device_start_s"].to_numpy(), trace.batches["device_end_s"].to_numpy()


def test_a_step_takes_as_long_as_events_around_its_work_say():
    timed = []
    with lv.record(loader := DataLoader(Keys(6, make=slow))) as rec:
        for _ in loader:
            timed.append(Timed())
            with timed[-1]:
                spin()
    start, end = steps(rec.trace)
    truth = np.array([each.seconds for each in timed])
    assert (end - start >= truth * 0.999).all()
    assert np.median((end - start) / truth) < 1.1
    assert (start >= rec.trace.batches["delivered_s"]).all()
    assert (start[1:] > end[:-1]).all()
    assert rec.trace.summary().device_idle_share > 0.5
    assert_lawful(rec.trace)


def test_a_device_that_is_behind_has_no_gaps_and_the_loop_does_not_wait_for_it():
    torch.cuda.synchronize()
    started = time.perf_counter()
    with lv.record(loader := DataLoader(Keys(10, make=values))) as rec:
        for _ in loader:
            spin()
        queued_s = time.perf_counter() - started
    start, end = steps(rec.trace)
    assert queued_s < 0.5 * (end[-1] - start[0])
    assert (start[1:] - end[:-1]).max() < 0.05 * np.median(end - start)
    assert rec.trace.summary().device_idle_share < 0.01


def test_a_step_that_the_loop_waits_for_has_ended_when_the_loop_sees_it():
    with lv.record(loader := DataLoader(Keys(6, make=values))) as rec:
        for _ in loader:
            with lv.span("step"):
                spin()
                torch.cuda.synchronize()
            time.sleep(0.01)
    _, end = steps(rec.trace)
    spans = rec.trace.spans
    assert np.median(spans["device_s"] / (spans["end_s"] - spans["start_s"])) < 1.05
    # An event after work that has long been done passes as soon as it is queued.
    assert (end >= spans["end_s"] + 0.009).all()


def test_spans_have_the_device_s_time():
    timed = [Timed(), Timed()]
    with lv.record(DataLoader(Keys(1))) as rec:
        for each, cycles in zip(timed, (3 * CYCLES, CYCLES), strict=True):
            with lv.span("forward"), each:
                spin(cycles)
    assert np.allclose(
        rec.trace.spans["device_s"], [each.seconds for each in timed], rtol=0.05, atol=0
    )


def test_a_graph_is_captured_and_replayed_as_without_a_recording():
    graph, total = torch.cuda.CUDAGraph(), torch.zeros(1, device="cuda")
    with lv.record(loader := DataLoader(Keys(6, make=values), num_workers=1)) as rec:
        for i, _ in enumerate(loader):
            if i == 2:
                with torch.cuda.graph(graph), lv.span("captured"):
                    total += 1
            elif i > 2:
                graph.replay()
    assert total.item() == 3
    assert not rec.trace.meta["problems"]
    assert np.isfinite(steps(rec.trace)[1]).sum() >= 5


def test_a_loop_that_ends_within_a_capture_has_no_time_there():
    graph, total = torch.cuda.CUDAGraph(), torch.zeros(1, device="cuda")
    with lv.record(loader := DataLoader(Keys(3, make=values))) as rec, torch.cuda.graph(graph):
        for _ in loader:
            total += 1
    graph.replay()
    assert total.item() == 3
    assert not rec.trace.meta["problems"]
    assert np.isnan(steps(rec.trace)).all()


def test_the_pin_thread_is_seen_and_the_batches_are_pinned():
    loader = DataLoader(Keys(12, make=values), 2, num_workers=2, pin_memory=True)
    with lv.record(loader) as rec:
        assert all(batch.is_pinned() for batch in loader)
    batches = rec.trace.batches
    assert batches["pinned_s"].notna().all()
    assert (batches["pinned_s"] >= batches["ready_s"]).all()
    assert (batches["pinned_s"] <= batches["delivered_s"]).all()
    assert list(lv.timeline(rec.trace).layout.yaxis.ticktext)[:3] == [
        "consumer",
        "device",
        "pin thread",
    ]
    assert_lawful(rec.trace)


def collect(worker: int) -> None:
    gc.collect()


@pytest.mark.filterwarnings("error")
def test_a_worker_that_is_forked_after_a_recording_frees_nothing_of_the_device():
    """What recorded a loader that pins is garbage afterwards, for the next collection."""
    loader = DataLoader(
        Keys(4, make=values), num_workers=2, pin_memory=True, worker_init_fn=collect
    )
    for _ in range(2):
        with lv.record(loader):
            for _ in range(2):
                for _ in loader:
                    spin()
    assert len(list(loader)) == 4


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_arrives_on_the_device_as_it_was(way):
    loader = DataLoader(
        Keys(12, make=values),
        3,
        num_workers=2,
        pin_memory=way != "pageable",
        persistent_workers=True,
    )
    plain = [batch.cpu() for batch in batches_of(way, loader)]
    step = Steps(0.001, size=512)
    received = []
    with lv.record(loader) as rec:
        for batch in batches_of(way, loader):
            received.append(batch)
            step(batch)
    assert all(torch.equal(a.cpu(), b) for a, b in zip(received, plain, strict=True))
    assert rec.trace.spans["device_s"].notna().all()
    assert not rec.trace.meta["problems"]


def test_a_recording_starts_no_driver_before_the_loop_does():
    """Workers that are forked after that could not use the device; without a recording they can."""
    code = """if True:
        import torch
        from torch.utils.data import DataLoader
        import loaderviz as lv

        def on_the_device(samples):
            return torch.ones(1, device="cuda").item()

        with lv.record(loader := DataLoader(range(2), num_workers=1, collate_fn=on_the_device)):
            print(sum(loader), torch.cuda.is_initialized())
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["2.0", "False"], done.stderr
