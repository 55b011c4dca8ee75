"""The explorer's pictures can be compared: one axis, one zero, and the pinned run as a ghost."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loaderviz import Costs, explore, simulate
from loaderviz.widgets.explorer_picture import (
    ROOM,
    begin_of,
    duration_of,
    end_of,
    picture,
    steady_span,
)
from loaderviz.widgets.run_numbers import RunNumbers
from traces import made


@pytest.fixture
def explorer():
    explorer = explore()
    yield explorer
    explorer.cancel()


def layout(explorer):
    return explorer._view.plotly_figure.layout


def ghosts(explorer):
    """When the steps of the pinned run begin, for each such mark."""
    marks = explorer._view.plotly_figure.data
    return [list(each.base) for each in marks if each.name == "pinned"]


@settings(max_examples=30)
@given(st.floats(0, 1e4), st.floats(1e-4, 1e4))
def test_a_run_fits_the_axis_and_can_be_seen_on_it(before_s, run_s):
    span_s = steady_span(before_s, run_s)
    assert run_s < span_s
    assert run_s > 0.25 * span_s
    assert steady_span(span_s, run_s) == span_s


def test_the_axis_stays_while_a_run_fits_it():
    assert steady_span(2.0, 2.0 / ROOM) == 2.0
    assert steady_span(2.0, 0.6) == 2.0
    assert steady_span(2.0, 1.9) == 3.0
    assert steady_span(2.0, 0.1) == pytest.approx(0.15)


def test_dragging_the_workers_moves_neither_the_axis_nor_its_zero(explorer):
    explorer.set(num_workers=0)
    range_, left = layout(explorer).xaxis.range, layout(explorer).margin.l
    lengths = []
    for num_workers in (1, 2, 3, 8):
        explorer.set(num_workers=num_workers)
        assert layout(explorer).xaxis.range == pytest.approx(range_)
        assert layout(explorer).margin.l == left
        lengths.append(end_of(explorer.predicted) - begin_of(explorer.predicted))
    assert max(lengths[1:]) < lengths[0]


def test_a_longer_run_moves_the_axis_and_a_shorter_one_does_not_move_it_back(explorer):
    before = explorer._span_s
    explorer.set(num_workers=0, step_s=0.2)
    longer = explorer._span_s
    assert longer > before
    explorer.set(num_workers=2)
    assert explorer._span_s == longer


def test_predicted_and_measured_share_axis_ticks_and_zero(explorer):
    explorer.set(sample_s=0.0, step_s=0.0, n_samples=24, sample_kb=0, num_workers=1)
    measured = explorer.measure()
    runs = [explorer.predicted, measured]
    views = [explorer._view, explorer._measured_view]
    axes = [view.plotly_figure.layout.xaxis for view in views]
    assert axes[0].ticktext == axes[1].ticktext
    for axis, run in zip(axes, runs, strict=True):
        assert axis.tickvals[0] == begin_of(run)
        assert axis.ticktext[0] == "0"
        assert axis.range[1] - axis.range[0] == pytest.approx(1.024 * explorer._span_s)
        assert end_of(run) < axis.range[1]
    assert len({view.plotly_figure.layout.margin.l for view in views}) == 1


def test_what_is_made_in_vain_does_not_make_the_run_longer():
    trace = made(workers=2)
    never = {"delivered_s": np.nan, "released_s": np.nan, "requested_s": np.nan, "ready_s": 99.0}
    last = trace.batches.index[-1]
    batches = trace.batches.assign(**{name: trace.batches[name].copy() for name in never})
    batches.loc[last, list(never)] = list(never.values())
    cut = replace(trace, batches=batches)
    assert end_of(cut) == 99.0
    assert duration_of(cut) == batches["released_s"].max() - begin_of(cut)
    assert duration_of(trace) == end_of(trace) - begin_of(trace)


def test_a_run_begins_when_its_loop_asks_for_workers():
    trace = made(workers=2)
    asked = replace(trace, workers=trace.workers.assign(asked_s=begin_of(trace) - 0.5))
    assert duration_of(asked) == pytest.approx(duration_of(trace) + 0.5)


def test_the_pinned_run_is_a_ghost_until_it_is_unpinned(explorer):
    explorer.set(num_workers=0)
    assert ghosts(explorer) == []
    alone, height = explorer.predicted, layout(explorer).height
    explorer.pin()
    explorer.set(num_workers=3)
    assert list(layout(explorer).yaxis.ticktext)[:2] == ["pinned", "consumer"]
    assert "<th>pinned</th>" in explorer._table.value
    assert explorer._pin_button.description == "Unpin"
    assert "−" in explorer._table.value  # noqa: RUF001  # the change from the pinned run
    (begins_s,) = ghosts(explorer)
    assert np.allclose(begins_s, alone.batches["delivered_s"] - begin_of(alone))
    written = [each.text for each in layout(explorer).annotations]
    assert f"<b>{end_of(alone) - begin_of(alone):.3g} s</b>" in written
    explorer.set(num_workers=0)
    assert layout(explorer).height > height
    explorer.pin()
    assert ghosts(explorer) == []
    assert "<th>pinned</th>" not in explorer._table.value
    assert layout(explorer).height == height
    assert "pinned" not in layout(explorer).yaxis.ticktext


def test_a_ghost_takes_its_room_from_nothing_else():
    costs = Costs(sample_s=0.01, step_s=0.02)
    trace = simulate(costs, num_workers=2, batch_size=4, n_batches=8)
    without, with_ghost = (picture(trace, trace.summary(), 1.0, run) for run in (None, trace))

    def px(figure):
        """Of one lane, and of the strip above the lanes."""
        layout = figure.figure().layout
        inner = layout.height - layout.margin.t - layout.margin.b
        lanes, strip = layout.yaxis, layout.yaxis2
        height = (lanes.domain[1] - lanes.domain[0]) * inner
        bottom, top = lanes.range
        return height / (bottom - top), (strip.domain[1] - strip.domain[0]) * inner

    assert px(with_ghost) == pytest.approx(px(without), rel=0.02)


def test_what_is_in_flight_has_bytes_where_a_batch_has():
    trace = simulate(Costs(sample_s=0.01, step_s=0.01), n_samples=16, batch_size=4, num_workers=2)
    for n_bytes, expected in ((np.nan, None), (1000.0, 4000.0)):
        known = replace(trace, batches=trace.batches.assign(n_bytes=n_bytes))
        numbers = RunNumbers.of(known, known.summary(), n_repeated=0)
        assert (numbers.in_flight, numbers.in_flight_bytes) == (4, expected)
