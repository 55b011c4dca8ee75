"""The explorer without a browser: settings, runs in the background, and what the page is told."""

import asyncio
import html
import json
import os
import re
import signal
import time

import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, default_collate

from leak_guard import processes
from loaderviz import LoaderVizError, Trace, explore
from loaderviz.course.datasets import SleepingDataset, SleepingStream
from loaderviz.loader_settings import LoaderSettings
from loaderviz.text import duration
from loaderviz.why.attribution import attribute
from loaderviz.widgets.explorer_settings import KINDS, ExplorerSettings
from loaderviz.widgets.real_runs import FOLLOW_S, LoaderRun
from loaderviz.widgets.run_numbers import cause_bar
from traces import made

LONG = ExplorerSettings(sample_s=0.2, step_s=0.5, n_samples=48)


def lanes(view):
    return json.loads(view.figure)["layout"]["yaxis"]["ticktext"]


def subtitle(view):
    return json.loads(view.figure)["layout"]["title"]["subtitle"]["text"]


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


def quick(explorer, **settings):
    """As quick as can be, with these settings."""
    explorer.set(sample_s=0.0, step_s=0.0, n_samples=24, sample_kb=0, **settings)


# Settings


@examples(max_examples=30)
@given(
    num_workers=st.integers(0, 16),
    batch_size=st.integers(1, 64),
    prefetch_factor=st.integers(1, 8),
    kind=st.sampled_from(KINDS),
    in_order=st.booleans(),
    persistent=st.booleans(),
)
def test_every_position_of_the_controls_is_a_loader_that_torch_accepts(
    num_workers, batch_size, prefetch_factor, kind, in_order, persistent
):
    chosen = LoaderSettings.of(
        {
            "num_workers": num_workers,
            "prefetch_factor": prefetch_factor,
            "in_order": in_order,
            "persistent_workers": persistent,
        }
    )
    settings = ExplorerSettings(chosen, batch_size, kind)
    loader = settings.make_loader()
    assert loader.num_workers == num_workers
    assert loader.batch_size == batch_size
    # Torch refuses these without workers.
    assert loader.prefetch_factor == (prefetch_factor if num_workers else None)
    assert loader.persistent_workers == (persistent and num_workers > 0)
    assert loader.in_order == (in_order or num_workers == 0)
    if kind == "map":
        assert len(loader) == settings.n_batches


@examples(max_examples=20)
@given(num_workers=st.integers(0, 4), prefetch_factor=st.integers(1, 4), in_order=st.booleans())
def test_the_code_makes_the_same_loader(num_workers, prefetch_factor, in_order):
    prefetch = prefetch_factor if num_workers else None
    settings = ExplorerSettings(LoaderSettings(num_workers, prefetch, in_order), batch_size=3)
    made = eval(settings.code(), {"DataLoader": DataLoader, "dataset": range(9)})
    loader = settings.make_loader()
    for name in ("num_workers", "batch_size", "prefetch_factor", "in_order", "pin_memory"):
        assert getattr(made, name) == getattr(loader, name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_size", 0),
        ("batch_size", 1.5),
        ("n_samples", 0),
        ("epochs", 0),
        ("cores", 0),
        ("sample_s", -0.1),
        ("spread", -1),
        ("cpu_share", 1.5),
        ("step_s", float("inf")),
        ("kind", "list"),
    ],
)
def test_an_impossible_setting_is_named(name, value):
    with pytest.raises(LoaderVizError, match=f"{name}={value!r}"):
        ExplorerSettings(**{name: value})


# Runs


def test_cancel_ends_all_processes_at_once_even_in_the_middle_of_a_sample():
    run = LoaderRun(ExplorerSettings(LoaderSettings(3), sample_s=60))
    try:
        until(lambda: processes() and len(processes()[0].children(recursive=True)) == 3)
        run.cancel()
        assert run.progress().state == "cancelled"
        until(lambda: processes() == [])
    finally:
        run.close()


def test_an_error_of_the_dataset_is_told_with_its_last_line():
    own = DataLoader(SleepingDataset(40, 0, fail_at=6))
    run = LoaderRun(ExplorerSettings(LoaderSettings(2), batch_size=2, step_s=0), own)
    until(lambda: run.progress().state == "failed")
    progress = run.progress()
    run.close()
    assert progress.failure.last_line == "ValueError: sample 6 is broken on purpose (fail_at=6)"
    assert "Traceback" in progress.failure.traceback
    assert progress.delivered == progress.trace.summary().n_batches == 3  # until then


def test_a_run_whose_process_is_killed_says_so():
    run = LoaderRun(LONG)
    until(lambda: run.progress().trace is not None)
    os.kill(run._process.pid, signal.SIGKILL)
    until(lambda: run.progress().state == "failed")
    assert "signal 9" in run.progress().failure.last_line
    run.close()


# The explorer


def _all(widget):
    yield widget
    for child in getattr(widget, "children", ()):
        yield from _all(child)


def test_picture_and_labels_are_there_before_anyone_touches_a_control(explorer):
    assert lanes(explorer._view) == ["consumer", "worker 0", "worker 1"]
    assert subtitle(explorer._view).startswith("simulated")
    assert explorer._measured_view.figure == ""
    assert processes() == []
    with pytest.raises(LoaderVizError, match="press Run for real"):
        explorer.result()
    assert all(each.description for each in explorer._panel.controls.values())
    (mark,) = [w.value for w in _all(explorer) if "▲" in str(getattr(w, "value", ""))]
    assert "CPU" in mark  # where the workers are as many as may run at once


def test_the_prediction_follows_every_control(explorer):
    for settings, expected in [
        ({"num_workers": 3}, 3),
        ({"num_workers": 0}, 0),
        ({"num_workers": 1, "in_order": False, "persistent_workers": True, "epochs": 2}, 1),
        ({"num_workers": 2, "pin_memory": True, "cores": 1, "cpu_share": 1.0, "spread": 0.5}, 2),
    ]:
        explorer.set(**settings)
        workers = [lane for lane in lanes(explorer._view) if lane.startswith("worker")]
        assert len(workers) == expected
        assert "main process" in lanes(explorer._view) or expected
    assert "pin thread" in lanes(explorer._view)
    assert explorer.predicted.summary().epochs == 2
    assert "in_order=False, persistent_workers=True, pin_memory=True" in explorer._code.text


def bar(explorer):
    """The seconds of steps and causes in the bar, as texts by their names."""
    pattern = r"</i>([^<]+) <b>([^<]+)</b>"
    return dict(re.findall(pattern, explorer._causes.value))


def test_where_the_wait_went_follows_every_control_and_no_cut_is_simulated(explorer, monkeypatch):
    def refuse(*_):
        raise AssertionError("takes too long for a slider")

    monkeypatch.setattr("loaderviz.why.causes.causes_table.causes_of", refuse)
    explorer.set(num_workers=0)
    assert set(bar(explorer)) == {"steps", "main process"}
    explorer.set(num_workers=1, sample_s=0.2, step_s=0.0)
    causes = attribute(explorer.predicted).totals()
    assert bar(explorer)["workers"] == duration(causes["workers"])
    assert set(bar(explorer)) >= {"workers", "start"}
    assert "simulated" in explorer._causes.value
    assert "error" not in explorer._status.value


def test_a_bar_shows_each_cause_in_proportion():
    summary = made(workers=1, batches=8).summary()
    widths = re.findall(r"flex-grow: ([\d.]+)", cause_bar(summary))
    steps, *causes = map(float, widths)
    assert sum(causes) == pytest.approx(summary.wait_share, abs=1e-3)
    assert steps == pytest.approx(1 - summary.wait_share, abs=1e-3)
    assert cause_bar(Trace.from_columns().summary()) == ""


def test_a_real_run_stands_under_the_predicted_one_with_the_error(explorer):
    quick(explorer, num_workers=2)
    trace = explorer.measure()
    assert trace is explorer.result()
    assert trace.summary().n_batches == explorer.predicted.summary().n_batches == 6
    assert lanes(explorer._measured_view) == lanes(explorer._view)
    assert subtitle(explorer._measured_view).startswith("measured")
    assert re.search(r"\d % (longer|shorter) than predicted", explorer._status.value)
    assert "<th>measured</th>" in explorer._table.value
    assert not explorer._measured_view.stale
    assert processes() == []
    # Of other settings than the present ones it is told apart.
    explorer.set(num_workers=3)
    assert explorer._measured_view.stale
    assert explorer._status.value == ""
    assert "<th>measured</th>" not in explorer._table.value
    explorer.set(num_workers=2)
    assert not explorer._measured_view.stale
    assert "<th>measured</th>" in explorer._table.value

    # While the next one goes on nothing is said of it, and the numbers of this one are gone.

    def title():
        return json.loads(explorer._measured_view.figure)["layout"]["title"]["text"]

    async def ask_again():
        explorer.set(num_workers=3, sample_s=0.05, step_s=0.1)
        explorer.start()
        seen = []
        while explorer._real_runs.running:
            await asyncio.sleep(FOLLOW_S)
            if explorer._real_runs.running and explorer._progress.value:
                seen.append((title(), "<th>measured</th>" in explorer._table.value))
        return seen

    assert set(asyncio.run(ask_again())) == {("<b>Running ...</b>", False)}
    assert "waits" in title()
    assert "<th>measured</th>" in explorer._table.value


@pytest.mark.slow
def test_what_comes_twice_is_counted_in_both(explorer):
    quick(explorer, num_workers=2, kind="naive iterable")
    assert explorer.measure().summary().n_samples == 48
    assert explorer.predicted.summary().n_samples == 48
    numbers = explorer._numbers
    assert numbers["predicted"].n_repeated == numbers["measured"].n_repeated == 24
    explorer.set(kind="shared-out iterable")
    assert explorer.predicted.summary().n_samples == 24
    assert explorer._numbers["predicted"].n_repeated == 0
    assert sum(map(len, explorer.settings.make_loader())) == 24


def test_the_queues_are_sent_only_while_they_are_seen(explorer):
    assert explorer._scene.life == ""
    explorer._playing.selected_index = 0
    assert json.loads(explorer._scene.life)["workers"] == 2
    explorer.set(num_workers=3)
    assert json.loads(explorer._scene.life)["workers"] == 3
    explorer._playing.selected_index = None
    assert explorer._scene.life == ""


def test_a_recording_that_tells_no_costs_is_told_in_place(monkeypatch):
    def refuse(trace, own):
        raise LoaderVizError("<nothing> to go on")

    monkeypatch.setattr("loaderviz.widgets.explorer.measured_loader", refuse)
    explorer = explore(DataLoader(SleepingDataset(8, 0), batch_size=4))
    assert "&lt;nothing&gt; to go on" in explorer._status.value
    with pytest.raises(LoaderVizError, match="to go on"):
        explorer.result()


def test_a_run_goes_on_in_the_background_the_latest_wins_and_dims_if_a_control_moves(explorer):
    async def ask_and_move():
        explorer.set(num_workers=2, sample_s=0.2, step_s=0.5)
        explorer.start()
        assert explorer._real_runs.running
        for num_workers in (5, 2):
            quick(explorer, num_workers=num_workers)
            explorer.start()
        explorer.set(num_workers=3)
        while explorer._real_runs.running:
            await asyncio.sleep(FOLLOW_S)

    asyncio.run(ask_and_move())
    assert len(explorer.result().workers) == 2
    assert lanes(explorer._measured_view) == ["consumer", "worker 0", "worker 1"]
    assert lanes(explorer._view) == ["consumer", "worker 0", "worker 1", "worker 2"]
    assert explorer._measured_view.stale
    assert "<th>measured</th>" not in explorer._table.value
    assert processes() == []


def test_cancel_keeps_what_was_seen_and_leaves_no_process(explorer):
    async def ask_and_cancel():
        explorer.set(num_workers=2, sample_s=0.2, step_s=0.5)
        explorer._run_button.click()
        while explorer._progress.value < 1:
            await asyncio.sleep(FOLLOW_S)
        assert not explorer._cancel_button.disabled
        explorer._cancel_button.click()

    asyncio.run(ask_and_cancel())
    assert "Cancelled after" in explorer._status.value
    assert explorer._cancel_button.disabled
    assert 0 < explorer.result().summary().n_batches < 12
    assert processes() == []


@pytest.mark.slow
def test_one_run_at_a_time_also_of_two_explorers(explorer):
    async def both():
        explorer.set(sample_s=0.2, step_s=0.5)
        explorer.start()
        other = explore()
        quick(other)
        other.start(wait_s=60)
        assert "Cancelled" in explorer._status.value
        return other

    assert asyncio.run(both()).result().summary().n_batches == 6


# The reader's own loader


def test_ones_own_loader_is_recorded_first_and_predicted_from_that():
    explorer = explore(DataLoader(SleepingDataset(48, 0.002), batch_size=4))
    assert "Done: 12 batches" in explorer._status.value
    assert explorer._progress.value == explorer._progress.max == 12
    for run in (explorer.result(), explorer.predicted):
        assert run.summary().n_batches == 12
    assert subtitle(explorer._measured_view).startswith("measured")
    assert subtitle(explorer._view).startswith("simulated")
    explorer.set(num_workers=2, batch_size=8)
    predicted = explorer.predicted
    assert predicted.batches["n_samples"].iloc[0] == 8
    assert set(predicted.batches["worker"]) == {0, 1}
    assert predicted.summary().n_samples == 48
    read = predicted.samples
    assert (read["end_s"] - read["start_s"]).median() >= 0.002


def test_a_stream_of_ones_own_is_predicted_as_either_kind():
    explorer = explore(DataLoader(SleepingStream(40, 0.001), batch_size=4))
    kind = explorer._panel.controls["kind"]
    assert list(kind.options) == ["naive iterable", "shared-out iterable"]
    assert kind.value == "shared-out iterable"  # nobody is called naive without a proof
    explorer.set(num_workers=2)
    assert set(explorer.predicted.batches["worker"]) == {0, 1}
    assert explorer._numbers["predicted"].n_repeated is None  # nobody knows
    explorer.set(kind="naive iterable")
    assert explorer.predicted.summary().n_batches > 0


def _die(samples):
    os._exit(3)


def _raise(samples):
    raise RuntimeError(samples[0])


@pytest.mark.parametrize(
    ("loader", "told"),
    [
        (DataLoader(SleepingDataset(40, 0, fail_at=2), batch_size=2), "sample 2 is broken"),
        (DataLoader([1] * 8, num_workers=1, collate_fn=_die), "exited unexpectedly"),
        (DataLoader(["<b>"], collate_fn=_raise), "<b>"),
        (DataLoader([]), "its dataset is empty"),
        (
            DataLoader([lambda: 0] * 4, num_workers=1, multiprocessing_context="spawn"),
            "pickle",
        ),
    ],
    ids=["error", "dead worker", "markup", "empty", "not to be sent"],
)
def test_a_run_that_fails_is_told_in_place_and_raised_by_result(loader, told):
    explorer = explore(loader)
    assert html.escape(told) in explorer._status.value
    assert "<b>" not in explorer._status.value
    assert ("put it into a module" in explorer._status.value) == (told == "exited unexpectedly")
    with pytest.raises(LoaderVizError, match=told):
        explorer.result()
    with pytest.raises(LoaderVizError, match="has not been recorded"):
        _ = explorer.predicted


def test_the_controls_of_ones_own_loader_begin_where_it_stands():
    own = DataLoader(SleepingDataset(24, 0), batch_size=6, num_workers=1, prefetch_factor=4)
    explorer = explore(own)
    controls, settings = explorer._panel.controls, explorer.settings
    assert (settings.loader, settings.batch_size) == (LoaderSettings(1, 4), 6)
    assert lanes(explorer._view) == ["consumer", "worker 0"]
    hidden = {name for name, each in controls.items() if each.layout.display == "none"}
    assert hidden == {"sample_s", "spread", "cpu_share", "sample_kb", "kind"}
    assert not controls["batch_size"].disabled
    assert controls["n_samples"].value == controls["n_samples"].max == 24
    explorer.set(num_workers=0)  # what means nothing without workers says so
    assert controls["prefetch_factor"].disabled
    assert controls["persistent_workers"].disabled


def test_a_loader_of_ones_own_keeps_all_but_what_is_chosen():
    sampler = SequentialSampler(range(8))
    own = DataLoader(
        SleepingDataset(8), sampler=sampler, collate_fn=default_collate, drop_last=True,
        generator=torch.Generator(),
    )  # fmt: skip
    loader = ExplorerSettings(LoaderSettings(3, 4), batch_size=5).make_loader(own)
    assert (loader.num_workers, loader.batch_size, loader.prefetch_factor) == (3, 5, 4)
    for kept in ("dataset", "sampler", "collate_fn", "drop_last", "generator", "worker_init_fn"):
        assert getattr(loader, kept) is getattr(own, kept)
    own = DataLoader(SleepingDataset(8), batch_size=None)
    assert ExplorerSettings().make_loader(own).batch_size is None
    assert ExplorerSettings().code(own) == "DataLoader(dataset, batch_size=None, num_workers=2)"
    stream = DataLoader(SleepingStream(8), batch_size=2)
    assert ExplorerSettings(batch_size=4).make_loader(stream).batch_size == 4


def test_batches_that_torch_does_not_cut_keep_their_size():
    sampler = BatchSampler(SequentialSampler(range(30)), 3, drop_last=False)
    own = DataLoader(SleepingDataset(30, 0.001), batch_sampler=sampler)
    assert ExplorerSettings().make_loader(own).batch_sampler is sampler
    assert "batch_size" not in ExplorerSettings().code(own)
    explorer = explore(own)
    assert explorer._panel.controls["batch_size"].disabled
    assert set(explorer.predicted.batches["n_samples"]) == {3}
    assert explorer.predicted.summary().n_batches == 10


def test_what_is_no_loader_is_named():
    with pytest.raises(LoaderVizError, match=r"list \[1, 2\]"):
        explore([1, 2])
