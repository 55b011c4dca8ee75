"""What the animation of the queues is drawn from."""

import json
from itertools import pairwise

import pytest
from torch.utils.data import DataLoader

from loaderviz import Costs, LoaderVizError, Trace, record, simulate
from loaderviz.course.datasets import SleepingDataset
from loaderviz.widgets import play
from loaderviz.widgets.play import MOST_BATCHES, station_times

STATIONS = ("dispatched", "started", "ready", "taken", "delivered", "released")


def slow_first(num_workers=2, **settings):
    """Worker 0 takes long for batch 0: those of worker 1 arrive before it."""
    costs = Costs(sample_s=[0.5, 0.01, 0.01, 0.01, 0.01, 0.01], step_s=0.1)
    return simulate(costs, num_workers=num_workers, batch_size=1, n_batches=6, **settings)


def test_at_its_end_all_is_delivered():
    trace = simulate(
        Costs(sample_s=1 / 3000, step_s=1 / 7), num_workers=2, batch_size=3, n_batches=9
    )
    told = station_times(trace)
    assert told["end_s"] == max(batch["released"] for batch in told["batches"])


def test_what_arrives_before_its_turn_lies_in_the_reorder_buffer():
    batches = station_times(slow_first())["batches"]
    first, early = batches[0], batches[1]
    # The consumer asked for batch 0 and took 1 on the way.
    assert early["taken"] == pytest.approx(early["ready"], abs=1e-6)
    assert early["taken"] < first["taken"] == first["delivered"]
    assert early["delivered"] == first["released"]


def test_what_arrives_during_a_step_stays_in_the_result_queue_until_it_ends():
    trace = simulate(Costs(sample_s=0.01, step_s=0.1), num_workers=1, batch_size=1, n_batches=4)
    batches = station_times(trace)["batches"]
    for before, after in pairwise(batches):
        assert after["ready"] < before["released"] == after["taken"]


def test_a_recording_has_a_life_too():
    loader = DataLoader(SleepingDataset(24, 0.001), batch_size=2, num_workers=2)
    with record(loader) as rec:
        for _ in loader:
            pass
    told = station_times(rec.trace)
    assert told["workers"] == 2
    assert [batch["name"] for batch in told["batches"]] == [str(i) for i in range(12)]
    for batch in told["batches"]:
        assert batch["ready"] <= batch["taken"] <= batch["delivered"]


def test_the_main_process_has_no_queues():
    told = station_times(slow_first(num_workers=0))
    assert told["workers"] == 0
    assert {batch["worker"] for batch in told["batches"]} == {-1}


def test_epochs_are_told_apart_and_what_is_left_out_is_counted():
    trace = simulate(
        Costs(sample_s=0.001), num_workers=2, batch_size=1, n_batches=MOST_BATCHES, epochs=2
    )
    told = station_times(trace)
    assert len(told["batches"]) == told["left_out"] == MOST_BATCHES
    trace = simulate(Costs(sample_s=0.001), num_workers=1, batch_size=1, n_batches=2, epochs=2)
    assert [batch["name"] for batch in station_times(trace)["batches"]] == [
        "0·0",
        "0·1",
        "1·0",
        "1·1",
    ]


def test_the_player_is_a_timeline_with_the_scene_under_it():
    player = play(slow_first())
    view, scene, *_ = player.children
    assert "ticktext" in view.figure
    assert json.loads(scene.life)["workers"] == 2


def test_what_cannot_be_played_is_named():
    with pytest.raises(LoaderVizError, match="got int 3"):
        play(3)
    with pytest.raises(LoaderVizError, match="no batch"):
        play(Trace.from_columns())
