"""The explorer without a browser: settings, runs in the background, and what the page is told."""

import asyncio
import os
import signal
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, default_collate

from leak_guard import processes
from loaderviz import LoaderVizError, explore
from loaderviz.datasets import SleepingDataset, SleepingStream
from loaderviz.widgets.explorer import FOLLOW_S
from loaderviz.widgets.run import LoaderRun
from loaderviz.widgets.settings import Settings

QUICK = Settings(num_workers=2, sample_s=0.001, step_s=0.001)
LONG = Settings(num_workers=2, sample_s=0.2, step_s=0.5)


def worker_lanes(explorer):
    return [
        label for label in explorer._view.figure.layout.yaxis.ticktext if label.startswith("worker")
    ]


def until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


@pytest.fixture
def explorer():
    explorer = explore()
    yield explorer
    explorer.cancel()


# Settings


@given(
    num_workers=st.integers(0, 16),
    batch_size=st.integers(1, 64),
    prefetch_factor=st.integers(1, 8),
)
def test_every_position_of_the_sliders_is_a_loader_that_torch_accepts(
    num_workers, batch_size, prefetch_factor
):
    settings = Settings(num_workers, batch_size, prefetch_factor)
    loader = settings.loader()
    assert loader.num_workers == num_workers
    assert loader.batch_size == batch_size
    # Torch refuses a prefetch factor without workers.
    assert loader.prefetch_factor == (prefetch_factor if num_workers else None)
    assert len(loader) == settings.n_batches


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_workers", -1),
        ("batch_size", 0),
        ("prefetch_factor", 0),
        ("num_workers", 1.5),
        ("sample_s", -0.1),
        ("step_s", float("inf")),
    ],
)
def test_an_impossible_setting_is_named(name, value):
    with pytest.raises(LoaderVizError, match=f"{name}={value}"):
        Settings(**{name: value})


def test_a_loader_of_ones_own_keeps_all_but_what_is_chosen():
    sampler = SequentialSampler(range(8))
    own = DataLoader(
        SleepingDataset(8), sampler=sampler, collate_fn=default_collate, drop_last=True,
        generator=torch.Generator(),
    )  # fmt: skip
    loader = Settings(num_workers=3, batch_size=5, prefetch_factor=4).loader(own)
    assert (loader.num_workers, loader.batch_size, loader.prefetch_factor) == (3, 5, 4)
    for kept in ("dataset", "sampler", "collate_fn", "drop_last", "generator", "worker_init_fn"):
        assert getattr(loader, kept) is getattr(own, kept)


def test_a_loader_whose_batches_torch_does_not_cut_keeps_them():
    batch_sampler = BatchSampler(SequentialSampler(range(8)), 3, drop_last=False)
    own = DataLoader(SleepingDataset(8), batch_sampler=batch_sampler)
    assert Settings().loader(own).batch_sampler is batch_sampler
    assert Settings().loader(DataLoader(SleepingDataset(8), batch_size=None)).batch_size is None
    stream = DataLoader(SleepingStream(8), batch_size=2)
    assert Settings(batch_size=4).loader(stream).batch_size == 4


# Runs


def test_a_run_delivers_a_trace_and_leaves_no_process():
    run = LoaderRun(QUICK)
    until(lambda: not run.running)
    trace = run.snapshot()
    assert run.failure() is None
    run.close()
    assert trace.summary().n_batches == QUICK.n_batches
    assert len(trace.workers) == 2
    assert processes() == []


def test_a_run_can_be_followed_while_it_goes_on():
    run = LoaderRun(LONG)
    try:
        until(lambda: (t := run.snapshot()) is not None and t.batches["delivered_s"].notna().any())
        assert run.running
        assert run.snapshot().summary().n_batches < LONG.n_batches
    finally:
        run.close()


def test_cancel_ends_all_processes_at_once_even_in_the_middle_of_a_sample():
    run = LoaderRun(Settings(num_workers=3, sample_s=60))
    try:
        until(lambda: (t := run.snapshot()) is not None and len(t.workers) == 3)
        (process,) = processes()
        assert len(process.children(recursive=True)) == 3
        run.cancel()
        assert run.cancelled
        assert run.failure() is None
        until(lambda: processes() == [])
    finally:
        run.close()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_error_of_the_dataset_is_told_with_its_last_line(num_workers):
    own = DataLoader(SleepingDataset(40, 0, fail_at=6))
    run = LoaderRun(Settings(num_workers=num_workers, batch_size=2, step_s=0), own)
    until(lambda: not run.running)
    failure = run.failure()
    trace = run.snapshot()
    run.close()
    assert failure.last_line == "ValueError: sample 6 is broken on purpose (fail_at=6)"
    assert "Traceback" in failure.traceback
    assert trace.summary().n_batches == 3  # what was delivered until then


def test_a_run_whose_process_is_killed_says_so():
    run = LoaderRun(LONG)
    until(lambda: run.snapshot() is not None)
    os.kill(run._process.pid, signal.SIGKILL)
    until(lambda: not run.running)
    failure = run.failure()
    run.close()
    assert "signal 9" in failure.last_line


# The explorer


def test_the_picture_is_there_before_anyone_touches_a_control(explorer):
    assert worker_lanes(explorer) == ["worker 0", "worker 1"]
    assert explorer.result().summary().n_batches == Settings().n_batches
    assert "2 workers" in explorer._view.figure.layout.title.subtitle.text


def test_outside_a_notebook_a_run_is_waited_for_however_long(monkeypatch):
    monkeypatch.setattr("loaderviz.widgets.explorer.FIRST_RUN_S", 0)
    assert explore().result().summary().n_batches == Settings().n_batches


def test_a_slider_runs_the_loader_with_its_value(explorer):
    explorer._sliders["num_workers"].value = 3
    assert worker_lanes(explorer) == ["worker 0", "worker 1", "worker 2"]
    explorer._sliders["num_workers"].value = 0
    assert worker_lanes(explorer) == []
    assert "main process" in explorer._view.figure.layout.yaxis.ticktext
    assert explorer._sliders["prefetch_factor"].disabled
    explorer._sliders["num_workers"].value = 1
    assert worker_lanes(explorer) == ["worker 0"]
    assert not explorer._sliders["prefetch_factor"].disabled


def test_in_a_notebook_a_request_returns_at_once_and_the_latest_one_wins(explorer):
    async def drag():
        explorer.request(LONG)
        assert explorer._run is not None
        for num_workers in (5, 1, 4):
            explorer.request(Settings(num_workers=num_workers, sample_s=0.001, step_s=0.001))
        while explorer._run is not None:
            await asyncio.sleep(FOLLOW_S)

    asyncio.run(drag())
    assert len(worker_lanes(explorer)) == 4
    assert processes() == []


def test_cancel_keeps_what_was_seen_and_leaves_no_process(explorer):
    async def drag_and_cancel():
        explorer.request(LONG)
        while explorer._progress.value < 1:
            await asyncio.sleep(FOLLOW_S)
        assert not explorer._cancel_button.disabled
        explorer._cancel_button.click()

    asyncio.run(drag_and_cancel())
    assert "Cancelled after" in explorer._status.value
    assert explorer._cancel_button.disabled
    assert 0 < explorer.result().summary().n_batches < LONG.n_batches
    assert processes() == []


def test_an_error_is_shown_in_place_and_raised_by_result():
    own = DataLoader(SleepingDataset(40, 0, fail_at=2), batch_size=2)
    explorer = explore(own)
    assert "sample 2 is broken on purpose" in explorer._status.value
    assert "traceback" in explorer._status.value
    with pytest.raises(LoaderVizError, match="ValueError: sample 2 is broken on purpose"):
        explorer.result()


def test_a_worker_that_dies_without_a_word_gets_a_hint():
    explorer = explore(DataLoader([1] * 8, batch_size=2, num_workers=1, collate_fn=_die))
    assert "exited unexpectedly" in explorer._status.value
    assert "put it into a module" in explorer._status.value


def _die(samples):
    os._exit(3)


def test_an_error_cannot_inject_markup():
    own = DataLoader(["<script>alert(1)</script>"], collate_fn=_raise)
    assert "<script>" not in explore(own)._status.value


def _raise(samples):
    raise RuntimeError(samples[0])


def test_an_empty_dataset_is_told():
    explorer = explore(DataLoader([]))
    assert "no batch" in explorer._status.value
    with pytest.raises(LoaderVizError, match="its dataset is empty"):
        explorer.result()


def test_a_short_dataset_is_done_when_it_ends():
    explorer = explore(DataLoader(SleepingDataset(6, 0), batch_size=2))
    assert "Done: 3 batches" in explorer._status.value
    assert explorer._progress.value == explorer._progress.max == 3


def test_one_run_at_a_time_also_of_two_explorers(explorer):
    async def both():
        explorer.request(LONG)
        other = explore()
        assert "Cancelled" in explorer._status.value
        assert explorer._run is None
        return other

    assert asyncio.run(both()).result().summary().n_batches == Settings().n_batches


def test_a_prediction_is_there_at_once_and_the_run_takes_over(explorer):
    async def drag():
        for workers in (3, 4, 5):
            explorer._sliders["num_workers"].value = workers
            assert subtitle(explorer).startswith("simulated")
            assert worker_lanes(explorer) == [f"worker {i}" for i in range(workers)]
            assert "Predicted" in explorer._status.value
            assert processes() == []
        while "Done" not in explorer._status.value:
            await asyncio.sleep(FOLLOW_S)

    asyncio.run(drag())
    assert subtitle(explorer).startswith("measured")
    assert len(worker_lanes(explorer)) == 5
    assert "predicted" in explorer._status.value
    assert len(explorer.result().workers) == 5


def test_ones_own_loader_is_predicted_from_its_first_run():
    explorer = explore(DataLoader(SleepingDataset(48, 0.002), batch_size=4))
    assert explorer._predicted is None
    assert subtitle(explorer).startswith("measured")
    explorer.preview(Settings(num_workers=2, batch_size=8))
    assert subtitle(explorer).startswith("simulated")
    predicted = explorer._predicted.batches
    assert predicted["n_samples"].iloc[0] == 8
    assert set(predicted["worker"]) == {0, 1}
    read = explorer._predicted.samples
    assert (read["end_s"] - read["start_s"]).median() >= 0.002


def test_a_stream_of_ones_own_is_not_predicted():
    explorer = explore(DataLoader(SleepingStream(12, 0.001), batch_size=4))
    explorer.preview(Settings(num_workers=2))
    assert explorer._predicted is None
    assert subtitle(explorer).startswith("measured")


def subtitle(explorer):
    return explorer._view.figure.layout.title.subtitle.text


def test_the_picture_of_other_settings_is_dimmed_until_the_new_one_comes():
    explorer = explore(DataLoader(SleepingStream(24, 0.02), batch_size=4))

    async def wait_for_the_first_batch():
        explorer.request(Settings(num_workers=2, step_s=0.5))
        assert "loaderviz-stale" in explorer._view._dom_classes
        with pytest.raises(LoaderVizError, match="no run has recorded"):
            explorer.result()
        while explorer._progress.value < 1:
            await asyncio.sleep(FOLLOW_S)

    asyncio.run(wait_for_the_first_batch())
    assert "loaderviz-stale" not in explorer._view._dom_classes
    explorer.cancel()


def test_a_dataset_that_cannot_be_sent_to_its_workers_is_told():
    own = DataLoader([lambda: 0] * 4, num_workers=1, multiprocessing_context="spawn")
    explorer = explore(own)
    with pytest.raises(LoaderVizError, match="pickle"):
        explorer.result()


def test_the_sliders_of_ones_own_loader_begin_where_it_stands():
    own = DataLoader(SleepingDataset(24, 0), batch_size=6, num_workers=1, prefetch_factor=4)
    explorer = explore(own)
    assert explorer.settings == Settings(num_workers=1, batch_size=6, prefetch_factor=4)
    assert worker_lanes(explorer) == ["worker 0"]
    assert explorer._sliders["sample_s"].layout.display == "none"
    assert not explorer._sliders["batch_size"].disabled
    own = DataLoader(SleepingDataset(4, 0), batch_size=None)
    assert explore(own)._sliders["batch_size"].disabled


def test_what_is_no_loader_is_named():
    with pytest.raises(LoaderVizError, match=r"list \[1, 2\]"):
        explore([1, 2])


def test_every_control_has_a_label_and_the_workers_show_the_allowance(explorer):
    assert all(slider.description for slider in explorer._sliders.values())
    marks = [w.value for w in _all(explorer) if "CPU" in str(getattr(w, "value", ""))]
    assert len(marks) == 1


def _all(widget):
    yield widget
    for child in getattr(widget, "children", ()):
        yield from _all(child)
