"""The timeline of several ranks: a consumer's lane for each; where they are many a row for each."""

from dataclasses import replace

import numpy as np
import pytest

import loaderviz as lv
from drawn import named
from loaderviz import Trace, timeline
from loaderviz.figures.timelines.timeline import MOST_LANES
from traces import made, together


def ranks(n: int, **options) -> Trace:
    return together(*(made(rank=rank, **options) for rank in range(n)))


def test_each_rank_has_a_consumer_above_its_workers():
    figure = timeline(ranks(3, workers=2))
    labels = list(figure.layout.yaxis.ticktext)
    assert labels == [
        f"rank {rank} · {lane}"
        for rank in range(3)
        for lane in ("consumer", "worker 0", "worker 1")
    ]
    lanes = {kind: {labels[at] for at in named(figure, kind).y} for kind in ("step", "sample")}
    assert lanes["step"] == {label for label in labels if "consumer" in label}
    assert lanes["sample"] == {label for label in labels if "worker" in label}
    assert len(figure.layout.shapes) == 2


def test_the_way_of_a_batch_stays_in_its_rank():
    figure = timeline(ranks(2, workers=1, batches=2))
    ways = figure.layout.meta["loaderviz"]["paths"]
    assert [{lane for _, lane in way} for way in ways] == [{0, 1}, {0, 1}, {2, 3}, {2, 3}]


def test_named_spans_lie_under_the_consumer_of_their_rank():
    trace = ranks(2, workers=1)
    spans = {"rank": [0, 1], "name": ["load", "load"], "start_s": [0.1, 0.2], "end_s": [0.3, 0.4]}
    trace = replace(trace, spans=Trace.from_columns(spans=spans).spans)
    assert np.round(np.array(named(timeline(trace), "span").y)).tolist() == [0, 2]


class TestManyRanks:
    trace = ranks(MOST_LANES // 2, workers=2)

    def test_have_a_row_each(self):
        figure = timeline(self.trace)
        waits = named(figure, "waits")
        assert list(waits.y) == [f"rank {rank}" for rank in range(MOST_LANES // 2)]
        assert figure.trace is self.trace
        assert repr(figure) == self.trace.summary().verdict

    def test_the_row_tells_when_its_rank_waits(self):
        figure = timeline(self.trace)
        batches = self.trace.batches[self.trace.batches["rank"] == 0]
        in_all = (batches["delivered_s"] - batches["requested_s"]).sum()
        steps = (batches["released_s"] - batches["delivered_s"]).sum()
        share = 100 * in_all / (in_all + steps)
        assert named(figure, "in all").x[0] == pytest.approx(share, abs=1)
        first = batches.iloc[0]
        z = np.array(named(figure, "waits").z)[0]
        at = figure.data[0].x0 + figure.data[0].dx * np.arange(len(z))
        inside = (at > first["requested_s"] + 0.02) & (at < first["delivered_s"] - 0.02)
        assert (z[inside] == 100).all()

    def test_one_of_them_can_be_drawn_alone(self):
        figure = timeline(self.trace, rank=3)
        assert list(figure.layout.yaxis.ticktext) == ["consumer", "worker 0", "worker 1"]
        assert set(figure.trace.batches["rank"]) == {3}

    def test_one_that_is_not_there_is_named(self):
        with pytest.raises(lv.LoaderVizError, match=r"rank=99 has no batch .* 12 ranks, 0 to 11"):
            timeline(self.trace, rank=99)

    def test_past_a_few_those_that_wait_the_most_are_on_top(self):
        slow = made(rank=40)
        slow.batches["requested_s"] -= 0.5
        rows = named(timeline(together(ranks(40), slow)), "waits").y
        assert rows[0] == "rank 40"
        assert sorted(rows) == sorted(f"rank {rank}" for rank in range(41))


@pytest.mark.parametrize(
    ("uncertain_s", "says"),
    [
        ((0.0, 0.0), ""),
        ((0.0, 0.0002), "clocks of 2 machines aligned to ± 200 µs"),
        ((0.0, None), "clocks of 2 machines compared by their wall clocks alone"),
    ],
)
def test_how_sure_the_common_time_is_stands_under_the_title(uncertain_s, says):
    trace = ranks(2)
    about = [
        {"rank": rank, "host": f"host{rank}", "uncertainty_s": each, "complete": True}
        for rank, each in enumerate(uncertain_s)
    ]
    trace = Trace(trace.batches, trace.samples, trace.workers, trace.spans, {"ranks": about})
    text = timeline(trace).layout.title.subtitle.text
    assert says in text
    assert ("clocks of" in text) == bool(says)
