"""Large recordings: what the page gets to draw them with, and what is seen where it cannot."""

import base64
import functools
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import named
from loaderviz import Costs, Trace, simulate, timeline
from loaderviz.figures.timelines import bands, packed_rows
from loaderviz.figures.timelines.timeline import MOST_BATCHES
from traces import recorded, together

TIMES = tuple(packed_rows.TIMES)


@functools.cache
def made_once(**settings) -> Trace:
    costs = Costs(sample_s=[0.01, 0.02, 0.003], step_s=0.02, collate_s=0.001)
    return simulate(costs, batch_size=4, **settings)


def simulated(*, workers=3, n_batches=MOST_BATCHES + 1, **settings) -> Trace:
    """A trace of the test's own."""
    trace = made_once(num_workers=workers, n_batches=n_batches, **settings)
    return replace(trace, batches=trace.batches.copy(), samples=trace.samples.copy())


def decoded(table) -> dict[str, np.ndarray]:
    """What packed_rows.js makes of it, row by row."""
    n, names = table["n"], [name for name, _ in table["columns"]]
    planes = np.frombuffer(zlib.decompress(base64.b64decode(table["data"])), np.uint8)
    planes = planes.reshape(len(names), 4, n).astype(np.int64)
    wide = sum(planes[:, i] << (8 * i) for i in range(4))
    beyond = dict(zip(names, (wide >> 1) ^ -(wide & 1), strict=True))
    rows = {c: np.cumsum(v) for c, v in beyond.items() if not c.endswith("_s")}
    times = [(c, base) for c, base in table["columns"] if c.endswith("_s")]
    rows |= {name: np.full(n, np.nan) for name, _ in times}
    latest = dict.fromkeys(names, 0)
    for i in range(n):
        own, before = {}, dict(latest)
        for bit, (name, base) in enumerate(times):
            start = {"before": before[name], "last released_s": before.get("released_s")}
            own[name] = (start[base] if base in start else own[base]) + beyond[name][i]
            if not rows["missing"][i] >> bit & 1:
                latest[name] = own[name]
                rows[name][i] = table["start"] + table["tick"] * own[name]
    return rows


def assert_holds(figure, trace: Trace) -> None:
    table = figure.layout.meta["loaderviz"]["large"]
    rows, batches = decoded(table), trace.batches
    assert list(rows["batch"]) == list(batches["batch"])
    assert list(rows["n_samples"]) == list(batches["n_samples"])
    for name in TIMES:
        found = rows.get(name, np.full(table["n"], np.nan))
        assert np.allclose(found, batches[name], rtol=0, atol=table["tick"], equal_nan=True)


@pytest.mark.parametrize(
    "settings",
    [{}, {"workers": 0}, {"pin_memory": True}, {"n_batches": MOST_BATCHES, "epochs": 2}],
    ids=["workers", "main process", "pin thread", "epochs"],
)
def test_the_page_gets_every_batch_with_its_times(settings):
    trace = simulated(**settings)
    figure = timeline(trace)
    assert_holds(figure, trace)
    rows = decoded(figure.layout.meta["loaderviz"]["large"])
    assert (list(rows.get("epoch", [0])) == list(trace.batches["epoch"])) == ("epochs" in settings)
    labels = np.array(figure.layout.meta["loaderviz"]["lanes"])[rows["lane"]]
    worker = trace.batches["worker"]
    assert [f"worker {w}" if w >= 0 else "main process" for w in worker] == list(labels)


@settings(max_examples=6)
@given(st.data())
def test_times_that_did_not_happen_stay_unknown(data):
    trace = simulated()
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    for name in data.draw(st.sets(st.sampled_from(TIMES))):
        share = data.draw(st.sampled_from([0.01, 0.5, 1.0]))
        if name == "dispatched_s" and share == 1.0:
            continue  # something has to be on the axis
        trace.batches.loc[random.random(len(trace.batches)) < share, name] = float("nan")
    assert_holds(timeline(trace), trace)


def test_loaders_keep_their_lanes():
    one = simulated(n_batches=800)
    other = Trace(*(t.assign(loader=1) for t in (one.batches, one.samples, one.workers)), one.spans)
    trace = together(one, other)
    figure = timeline(trace)
    assert_holds(figure, trace)
    table = figure.layout.meta["loaderviz"]["large"]
    labels = np.array(figure.layout.meta["loaderviz"]["lanes"])[decoded(table)["lane"]]
    assert labels[0] == "loader 0 · worker 0"
    assert labels[-1].startswith("loader 1 · worker")


def test_the_device_and_the_pin_thread_have_lanes_and_bands():
    trace = simulated(pin_memory=True)
    batches = trace.batches
    batches["device_start_s"] = batches["delivered_s"] + 0.005
    batches["device_end_s"] = batches["released_s"]
    figure = timeline(trace)
    assert_holds(figure, trace)
    rows = decoded(figure.layout.meta["loaderviz"]["large"])
    labels = figure.layout.meta["loaderviz"]["lanes"]
    assert {labels[lane] for lane in rows["device"]} == {"device"}
    assert {labels[lane] for lane in rows["pin"]} == {"pin thread"}
    lanes = np.round(np.array(named(figure, "busy band").y, float))
    assert set(lanes[~np.isnan(lanes)]) == {1, 2, 3, 4, 5}


def test_a_crashed_recording_keeps_its_cross_and_its_verdict():
    trace = simulated()
    last = len(trace.batches) - 1
    trace.batches["state"] = trace.batches["state"].astype(object)
    trace.batches.loc[last, "state"] = "failed"
    trace.batches.loc[last, ["collate_s", "ready_s", "delivered_s", "released_s"]] = float("nan")
    trace.samples.loc[len(trace.samples) - 1, "end_s"] = float("nan")
    figure = timeline(trace)
    assert f"Batch {last} failed" in figure.layout.title.text
    assert "raised an exception" in named(figure, "failed").hovertext[0]
    assert f"batch {last}<" in named(figure, "failed").hovertext[0]
    assert_holds(figure, trace)


def test_title_numbers_and_lanes_are_those_of_a_small_one():
    few, many = simulated(n_batches=40), simulated()
    small, large = timeline(few), timeline(many)
    assert large.layout.title.text == f"<b>{many.summary().verdict}</b>"
    assert large.layout.title.subtitle.text.startswith(f"simulated · {many.summary().numbers}")
    assert "zoom in for batches" in large.layout.title.subtitle.text
    assert large.layout.yaxis.ticktext == small.layout.yaxis.ticktext
    assert [trace.name for trace in large.data] == [trace.name for trace in small.data]
    assert [trace.type for trace in large.data] == [trace.type for trace in small.data]
    assert len(named(small, "busy band").x) == len(named(large, "step").x) == 0
    assert len(named(large, "start-up").x) == len(named(small, "start-up").x)


intervals = st.lists(st.tuples(st.floats(0, 9), st.floats(0, 3)), max_size=30)


@settings(max_examples=30)
@given(intervals, st.integers(1, 40))
def test_the_seconds_of_all_bins_add_up_to_the_time_spent(spans, n_bins):
    start = np.array([start for start, _ in spans])
    end = start + np.array([length for _, length in spans])
    edges = np.linspace(-1, 13, n_bins + 1)
    found = bands.seconds_in_bins(start, end, edges)
    assert found.sum() == pytest.approx((end - start).sum(), abs=1e-6)
    for at, seconds in enumerate(found):
        within = np.minimum(end, edges[at + 1]) - np.maximum(start, edges[at])
        assert seconds == pytest.approx(within.clip(0).sum(), abs=1e-6)


def test_from_afar_a_lane_is_as_tall_as_it_is_busy():
    trace = simulated(workers=0)  # reads and steps in turn: each lane is busy when the other is not
    figure = timeline(trace)
    summary = trace.summary()

    def area(kind):
        drawn = named(figure, kind)
        x, y = np.array(drawn.x, float), np.array(drawn.y, float)
        known = ~np.isnan(x)
        x, y = x[known], y[known]
        return abs(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)) / 2)

    assert area("step band") == pytest.approx(bands.CONSUMER_TALL * summary.step_s, rel=0.01)
    assert area("wait band") == pytest.approx(bands.CONSUMER_TALL * summary.wait_s, rel=0.01)
    busy = (trace.batches["ready_s"] - trace.batches["started_s"]).sum()
    assert area("busy band") == pytest.approx(bands.TALL * busy, rel=0.01)


@pytest.mark.parametrize(("n_batches", "afar"), [(200, False), (400, True)])
def test_boxes_too_narrow_to_show_a_gap_are_bands_from_afar(n_batches, afar):
    figure = timeline(simulated(workers=0, n_batches=n_batches))
    assert ("large" in figure.layout.meta["loaderviz"]) is afar


def test_the_strip_from_afar_shows_the_most_that_were_ready():
    trace = simulated()
    figure, few = timeline(trace), simulated(n_batches=200)
    assert len(named(figure, "ready").x) < 1000 < len(trace.batches)
    assert max(named(figure, "ready").y) == max(named(timeline(few), "ready").y)
    assert named(figure, "ready").y[-1] == 0


def test_a_page_stays_small():
    page = timeline(recorded(1_000_000)).to_html(include_plotlyjs=False)
    assert len(page) < 500_000  # 10 million samples: ten times as much, below 5 MB


@pytest.mark.parametrize("limit", ["MOST_CHARS", "MOST_ROWS"])
def test_what_is_too_large_for_a_page_is_drawn_as_bands_only(monkeypatch, limit):
    monkeypatch.setattr(packed_rows, limit, 100)
    figure = timeline(simulated(workers=2))
    assert "large" not in figure.layout.meta["loaderviz"]
    assert "bands only" in figure.layout.title.subtitle.text
    assert len(named(figure, "busy band").x)
