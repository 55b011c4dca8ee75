"""The figure of an audit, on hand-built traces: what is drawn, where, in which words."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from drawn import named
from loaderviz import LoaderVizError, audit
from loaderviz.course.datasets import CuttingStream, OneBuffer
from loaderviz.figures import style
from loaderviz.figures.results.delivery_strip import MOST_SAMPLES, NEVER
from traces import made, together


def of_keys(keys, *, workers=2, rank=0):
    """The audit of a trace in which these keys were delivered, two to a batch."""
    trace = made(workers=workers, batches=len(keys) // 2, rank=rank)
    trace.samples["key"] = keys
    return audit(trace)


@settings(max_examples=8)
@given(workers=st.integers(0, 9), batches=st.integers(1, 30))
def test_there_is_a_lane_for_each_worker_with_its_number_of_samples(workers, batches):
    figure = audit(made(workers=workers, batches=batches)).figure()
    expected = [f"worker {n}" for n in range(workers)] or ["main process"]
    assert list(figure.layout.yaxis.ticktext) == expected
    numbers = [int(each.text) for each in figure.layout.annotations]
    assert sum(numbers) == 2 * batches


@settings(max_examples=8)
@given(st.permutations(range(20)))
def test_each_sample_is_a_box_where_its_worker_delivered_it(keys):
    found = of_keys(list(keys))
    boxes = named(found.figure(), "delivered")
    assert sorted(base + 0.5 for base in boxes.base) == list(range(20))
    at = dict(zip((int(base + 0.5) for base in boxes.base), boxes.y, strict=True))
    came = found.deliveries
    assert at == dict(zip(came["sample"], came["worker"], strict=True))
    assert set(boxes.x) == {1}


def test_a_box_has_the_colour_and_the_number_of_its_batch():
    figure = of_keys(list(range(8))).figure()
    boxes, numbers = named(figure, "delivered"), named(figure, "number")
    assert [boxes.marker.color[2 * batch] for batch in range(4)] == [
        style.colour(batch) for batch in range(4)
    ]
    assert sorted(numbers.text) == ["0", "1", "2", "3"]
    assert set(numbers.x) == {2}
    assert boxes.hovertext[3] == "sample 3<br>batch 1, worker 1"
    margins = [of_keys(list(range(n))).figure().layout.margin for n in (8, 16, 160)]
    assert margins[0] == margins[1] == margins[2]  # to be compared, whatever was delivered


def test_on_request_a_box_has_the_number_of_its_sample_on_the_colour_of_its_batch():
    figure = of_keys([3, 1, 0, 2]).figure(numbers="sample")
    boxes, numbers = named(figure, "delivered"), named(figure, "number")
    assert list(numbers.base) == list(boxes.base)
    assert list(numbers.text) == [str(int(base + 0.5)) for base in boxes.base]
    of_batch = style.PALETTE[0][1], style.PALETTE[1][1]
    assert dict(zip(numbers.text, numbers.insidetextfont.color, strict=True)) == {
        "3": of_batch[0], "1": of_batch[0], "0": of_batch[1], "2": of_batch[1]
    }  # fmt: skip
    with pytest.raises(LoaderVizError, match="numbers='rank'"):
        of_keys([0, 1]).figure(numbers="rank")


def test_a_sample_that_one_worker_delivers_twice_has_two_boxes_in_its_lane_each_with_its_number():
    figure = of_keys([4, 1, 3, 2, 4, 5], workers=1).figure()
    boxes, numbers = named(figure, "delivered"), named(figure, "number")
    at = [
        (round(y - height / 2, 2), round(y + height / 2, 2))
        for base, y, height in zip(boxes.base, boxes.y, boxes.width, strict=True)
        if base == 3.5
    ]
    assert at == [(-0.35, 0), (0, 0.35)]  # one above the other, and none covers another
    assert {
        height for base, height in zip(boxes.base, boxes.width, strict=True) if base != 3.5
    } == {0.7}
    of_4 = [n for n, base in zip(numbers.text, numbers.base, strict=True) if base == 3.5]
    assert sorted(of_4) == ["0", "2"]


def test_where_nothing_came_the_holes_are_drawn():
    loader = DataLoader(range(4), sampler=[])
    figure = audit(loader).figure()
    assert list(figure.layout.yaxis.ticktext) == ["nothing came"]
    assert len(named(figure, "never").x) == len(named(figure, "hole").x) == 4


def heights(figure, kind):
    """Where each bar of the strip begins and ends, on the axis of times."""
    found = named(figure, kind)
    return [(base, base + tall) for base, tall in zip(found.base, found.y, strict=True)]


@settings(max_examples=10)
@given(st.lists(st.integers(0, 30), min_size=2, max_size=60))
def test_a_bar_ends_at_how_often_its_sample_came_and_what_is_missing_is_at_0(keys):
    found = of_keys(keys + keys[: len(keys) % 2])
    figure = found.figure()
    times = found.deliveries["sample"].value_counts()
    once, twice = {(0, 1)}, {(1, n) for n in times if n > 1}
    assert {*named(figure, "once").x} == {*times.index}
    assert {*heights(figure, "once")} == once
    assert {*heights(figure, "twice")} == twice
    low, high = figure.layout.yaxis2.range
    assert low < 0 < max(2, *times) <= high
    assert (
        {*named(figure, "never").x} == {*found.missing["sample"]} == {*range(max(keys))} - {*keys}
    )
    for bottom, top in heights(figure, "never"):
        assert low < bottom == -top  # all of it is seen, and its middle is at 0
        assert top - bottom < high / 3


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_is_missing_is_hollow_and_its_edge_has_its_colour(theme):
    never = named(of_keys([0, 1, 1, 3]).figure(theme=theme), "never")
    (fill,), (edge,) = never.marker.color, never.marker.line.color
    assert float(fill.rstrip(")").split(",")[-1]) < 0.2  # next to transparent
    assert edge == NEVER
    assert never.marker.line.width > 1


def test_many_samples_are_drawn_as_shares_and_said_to_be():
    n = 40 * MOST_SAMPLES
    keys = np.arange(n)
    keys[100] = 101
    found = of_keys(keys)
    figure = found.figure()
    shares = named(figure, "delivered")
    assert len(shares.x) <= 2 * MOST_SAMPLES
    assert sum(figure.layout.annotations[i].text == f"{n // 2:,}" for i in (0, 1)) == 2
    assert "a column is 40 samples" in figure.layout.title.subtitle.text
    never, twice = named(figure, "never"), named(figure, "twice")
    assert len(never.x) == len(twice.x) == 1
    low, high = figure.layout.yaxis2.range
    assert never.y[0] >= 0.2 * (high - low)  # of the strip's height: seen, though one in forty
    assert never.width[0] >= n / 200
    assert "1 never arrived" in never.hovertext[0]
    once = named(figure, "once")
    (share,) = [tall for x, tall in zip(once.x, once.y, strict=True) if x == never.x[0]]
    assert share == 39 / 40
    assert len(json.dumps(figure.to_plotly_json(), default=list)) < 400_000


@pytest.mark.parametrize("n", [1, 2, MOST_SAMPLES, MOST_SAMPLES + 1, 1000])
def test_columns_cover_every_sample_once(n):
    keys = list(range(n + n % 2))
    once = named(of_keys(keys).figure(), "once")
    ends = [(x - width / 2, x + width / 2) for x, width in zip(once.x, once.width, strict=True)]
    assert ends[0][0] == -0.5
    assert ends[-1][1] == len(keys) - 0.5
    assert all(end == start for (_, end), (start, _) in itertools.pairwise(ends))


def test_ranks_have_lanes_of_their_own():
    first, second = made(batches=2), made(batches=2, rank=1)
    assert list(audit(together(first, second)).figure().layout.yaxis.ticktext) == [
        "rank 0 · worker 0",
        "rank 0 · worker 1",
        "rank 1 · worker 0",
        "rank 1 · worker 1",
    ]


def test_the_title_is_the_verdict_and_the_epoch_is_the_one_that_is_wrong():
    trace = made(batches=6)
    trace.batches["epoch"] = trace.batches["batch"] // 3
    trace.samples["epoch"] = trace.samples["batch"] // 3
    trace.samples["key"] = [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 4]
    found = audit(trace)
    figure = found.figure()
    assert figure.layout.title.text == f"<b>{found.verdict}</b>"
    assert figure.layout.title.subtitle.text.endswith("this is epoch 1")
    assert len(named(figure, "never").x) == 1
    first = found.figure(epoch=0)
    assert len(named(first, "never").x) == 0
    assert first.layout.title.text == "<b>Epoch 0: nothing wrong was found</b>"


def test_the_title_of_another_epoch_than_the_verdicts_says_what_is_wrong_in_it():
    loader = DataLoader(CuttingStream(range(16)), num_workers=2, persistent_workers=True)
    found = audit(loader, epochs=3)
    titles = [found.figure(epoch=epoch).layout.title.text for epoch in range(3)]
    assert titles == [
        "<b>Epoch 0: nothing wrong was found</b>",
        f"<b>{found.verdict}</b>",
        "<b>Epoch 2: 12 samples never arrived</b>",
    ]


def test_what_cannot_be_drawn_is_refused():
    found = audit(made())
    with pytest.raises(LoaderVizError, match="epoch=3: this audit has epochs 0 to 0"):
        found.figure(epoch=3)
    with pytest.raises(LoaderVizError, match="theme='blue'"):
        found.figure(theme="blue")
    trace = made()
    trace.meta["loaders"] = [{"kind": "iterable"}]
    with pytest.raises(LoaderVizError, match="not known which samples"):
        audit(trace).figure()


@pytest.mark.parametrize("n", [32, MOST_SAMPLES + 8])
def test_a_cross_stands_where_a_sample_is_not_the_datasets_own(n):
    found = audit(DataLoader(OneBuffer(n), batch_size=8))
    figure = found.figure()
    crosses = named(figure, "not what the dataset holds")
    wrong = [sample for sample in range(n) if sample % 8 != 7]
    per_column = -(-n // MOST_SAMPLES)
    assert len(crosses["x"]) == len({sample // per_column for sample in wrong})
    assert {*crosses["hovertext"]} >= {
        "sample 0<br>buffer" if per_column == 1 else "samples 0 to 1<br>buffer"
    }
    assert "×: not what the dataset holds" in figure.layout["title"]["subtitle"]["text"]
    assert "×" not in of_keys([0, 1]).figure().layout["title"]["subtitle"]["text"]
