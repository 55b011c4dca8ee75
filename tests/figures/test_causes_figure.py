"""The figure of the causes: what is drawn of which trace, where, in which words."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from loaderviz import Costs, LoaderVizError, Trace, figures, simulate
from loaderviz.figures.display import Figure
from loaderviz.figures.results.causes_figure import (
    COLOURS,
    MOST_ROWS,
    SHAPES,
    shares_over_time,
)
from loaderviz.text import duration
from loaderviz.why.attribution import CAUSES, attribute
from loaderviz.why.causes.cause_texts import LEAST_S
from trace_strategies import traces_of_any_times
from traces import made, together


@pytest.fixture(scope="module")
def slow():
    """Collating is slow, and so is the start."""
    costs = Costs(sample_s=0.001, collate_s=0.05, step_s=0.02, startup_s=0.2, cores=8.0)
    return simulate(costs, num_workers=1, batch_size=4, n_batches=40)


@pytest.fixture(scope="module")
def figure(slow):
    return figures.causes(slow)


def of_type(figure, kind):
    return [trace for trace in figure.data if trace.type == kind]


def bars(figure):
    """The lengths of the bars by the names of their lanes."""
    found = of_type(figure, "bar")
    assert [bar.y[0] for bar in found] == list(range(len(found)))
    lengths = [bar.x[0] for bar in found]
    return dict(zip(figure.layout.yaxis.ticktext, lengths, strict=True))


def areas(figure):
    """Of steps and each cause the areas that are outlined over time, in seconds, added up."""
    return {
        band.name: sum(map(area, outlines(band.x), outlines(band.y)))
        for band in of_type(figure, "scatter")
    }


def outlines(values):
    """The parts between NaN, of which the last one is empty."""
    values = np.asarray(values, float)
    *parts, rest = np.split(values, np.flatnonzero(np.isnan(values)) + 1)
    assert not len(rest)
    return [part[:-1] for part in parts]


def area(x, y):
    """By Gauss's formula."""
    assert (x[0], y[0]) == (x[-1], y[-1])
    return abs(np.sum(x[:-1] * y[1:] - x[1:] * y[:-1])) / 2


def texts(figure):
    return [annotation.text for annotation in figure.layout.annotations]


def undelivered():
    """No batch was delivered, and no worker seen to start."""
    trace = made()
    batches = trace.batches.assign(delivered_s=math.nan)
    return replace(trace, batches=batches, workers=trace.workers[:0])


class TestItsBars:
    def test_there_is_one_for_each_cause_and_beside_it_what_a_cut_saves(self, slow, figure):
        table = slow.summary().causes
        table = table[table["seconds"] >= LEAST_S]  # without rounding errors
        names = [cause.replace("_", " ") for cause in table["cause"]]
        found, beside = bars(figure), texts(figure)
        assert list(found) == names
        assert list(found.values()) == pytest.approx(list(table["seconds"]))
        saved = beside.index("cutting it saves<br>(replayed)") + 1
        assert beside[saved : saved + len(table)] == [duration(s) for s in table["saves_s"]]
        waited = beside.index("waited") + 1
        assert beside[waited : waited + len(table)] == [duration(s) for s in table["seconds"]]

    def test_what_nobody_can_tell_is_unknown(self, slow):
        blank = dict.fromkeys(("started_s", "collate_s", "ready_s"), math.nan)
        untold = replace(slow, batches=slow.batches.assign(**blank))
        figure = figures.causes(untold)
        assert "unknown" in bars(figure)
        assert "unknown" in texts(figure)

    def test_under_the_mouse_are_evidence_and_cure(self, figure):
        first = of_type(figure, "bar")[0].hovertext[0]
        assert "Batches are being collated" in first
        assert "collating a batch takes" in first
        assert "collate_fn" in first


class TestOverTime:
    def test_seconds_add_up_to_those_of_the_bars(self, slow, figure):
        drawn = areas(figure)
        assert drawn.pop("steps") == pytest.approx(slow.summary().step_s, rel=0.01)
        assert drawn == pytest.approx(bars(figure), rel=0.02, abs=1e-3)

    def test_waits_and_steps_fill_the_time_and_no_more(self, slow, figure):
        _, shares, step_share = shares_over_time(slow)
        assert step_share + sum(shares.values()) == pytest.approx(1, abs=0.01)
        tops = [max(band.y, default=0) for band in of_type(figure, "scatter")]
        assert max(tops) <= 1.01

    def test_the_start_comes_first(self, figure):
        bands = {band.name: band for band in of_type(figure, "scatter")}
        assert np.nanmax(bands["start"].x) <= np.nanmin(bands["collate"].x) + 0.02

    def test_ranks_share_the_time(self):
        """Each of three ranks does the same: seconds are those of one, shares do not add up."""
        one = made(workers=1, batches=8)
        three = together(*(made(workers=1, batches=8, rank=rank) for rank in range(3)))
        alone, all_of_them = figures.causes(one), figures.causes(three)
        assert bars(all_of_them) == pytest.approx(bars(alone))
        assert areas(all_of_them) == pytest.approx(areas(alone), rel=1e-3)
        assert "a rank" in all_of_them.layout.title.subtitle.text


class TestItsLook:
    def test_the_title_is_the_verdict_and_below_it_is_what_was_waited(self, slow, figure):
        title = figure.layout.title
        assert title.text == f"<b>{slow.summary().verdict}</b>"
        assert title.subtitle.text.startswith("simulated · ")
        assert "waited" in title.subtitle.text
        assert figures.causes(made()).layout.title.subtitle.text.startswith("measured · ")

    def test_each_cause_has_a_look_that_no_other_has(self):
        looks = {(COLOURS[cause], SHAPES[cause]) for cause in CAUSES}
        assert len(looks) == len(CAUSES)

    def test_a_cause_looks_alike_in_both_pictures(self, figure):
        bands = {band.name: band for band in of_type(figure, "scatter")}
        for bar in of_type(figure, "bar"):
            assert bands[bar.name].fillcolor == bar.marker.color
            assert bands[bar.name].fillpattern.shape == bar.marker.pattern.shape


class TestOtherTraces:
    @pytest.mark.parametrize(
        ("trace", "says"),
        [
            (Trace.from_columns(), "the loop never waited"),
            ("run.parquet", "but got str"),
            (undelivered(), "the loop never waited"),
        ],
    )
    def test_without_waits_there_is_nothing_to_draw(self, trace, says):
        with pytest.raises(LoaderVizError, match=says):
            figures.causes(trace)

    def test_one_batch(self):
        assert bars(figures.causes(made(workers=1, batches=1)))
        assert list(bars(figures.causes(made(workers=0, batches=1)))) == ["main process"]

    def test_two_loaders_have_bars_of_their_own_under_their_names(self):
        both = {"loaders": [{"dataset": "Train"}, {"dataset": "<b>Val"}]}
        trace = together(made(workers=1), made(workers=0, batches=2, loader=1), **both)
        figure = figures.causes(trace)
        labels = list(figure.layout.yaxis.ticktext)
        assert any(
            "main process" in label and "&lt;b&gt;Val (4 samples)" in label for label in labels
        )
        assert any("workers" in label and "Train (8 samples)" in label for label in labels)
        assert not any("Train" in label and "Val" in label for label in labels)
        assert areas(figure)["main process"] > 0

    def test_of_many_loaders_the_largest_are_shown(self):
        figure = figures.causes(together(*(made(workers=1, loader=n) for n in range(12))))
        assert len(of_type(figure, "bar")) == MOST_ROWS
        assert "smaller causes not shown" in figure.layout.title.subtitle.text

    @settings(max_examples=15)
    @given(trace=traces_of_any_times(most_batches=5))
    def test_any_times_are_drawn_or_refused(self, trace):
        if max(attribute(trace).totals().values(), default=0) >= LEAST_S:
            assert bars(figures.causes(trace))
        else:
            with pytest.raises(LoaderVizError, match="the loop never waited"):
                figures.causes(trace)


class TestInANotebook:
    @pytest.fixture
    def shown(self, monkeypatch):
        shown = []
        monkeypatch.setattr(Figure, "_ipython_display_", lambda figure: shown.append(figure))
        return shown

    def test_a_trace_shows_its_timeline_and_below_it_its_causes(self, slow, shown):
        slow._ipython_display_()
        timeline, causes = shown
        assert "consumer" in timeline.layout.yaxis.ticktext
        assert "collate" in bars(causes)

    def test_where_nothing_was_waited_for_there_is_the_timeline_alone(self, shown):
        undelivered()._ipython_display_()
        assert len(shown) == 1


def test_figures_beside_each_other_have_the_same_axes(slow, figure):
    shorter = simulate(Costs(sample_s=0.001, step_s=0.02), num_workers=1, batch_size=4, n_batches=9)

    def axes_of(figure):
        layout = figure.layout
        return layout.xaxis.range, layout.xaxis2.range, layout.margin.l

    second, alone = figures.causes(shorter, beside=slow), figures.causes(shorter)
    assert axes_of(figure) == axes_of(second) != axes_of(alone)
    assert max(bars(figure).values()) <= figure.layout.xaxis2.range[1]
    assert bars(second) == bars(alone)


def test_beside_a_trace_without_waits_it_stays_as_it_is(slow, figure):
    never = replace(slow, batches=slow.batches.iloc[:0], samples=slow.samples.iloc[:0])
    assert figures.causes(slow, beside=never).layout == figure.layout
    with pytest.raises(LoaderVizError, match="draws a Trace, but got str"):
        figures.causes(slow, beside="usual")
