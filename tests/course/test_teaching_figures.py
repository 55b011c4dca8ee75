"""The figures that the notebooks explain with: what is drawn, what it says, what is refused."""

import base64
import io
import random
import re

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from loaderviz import LoaderVizError, audit, record
from loaderviz.course.datasets import (
    CuttingStream,
    MultiStreamDataLoader,
    SleepingDataset,
    SlotStreams,
    Stream,
)
from loaderviz.course.figures import (
    Slots,
    beside,
    chart,
    classes,
    contact_sheet,
    crops,
    draws,
    epochs,
    padding,
    shuffle,
    stacked,
)
from loaderviz.course.figures.device_streams import Streams, compared_streams
from loaderviz.figures import style

WORDS = {"title": "Rates", "x": "workers", "y": "samples/s"}
SEQUENCES = [range(10, 16), range(20, 23), range(30, 37), range(40, 44)]


def table(*sequences, by=("epoch", "worker")):
    """Four lanes: two epochs of two workers, or as ``by`` says."""
    places = [(first, second) for first in range(2) for second in range(2)]
    return pd.DataFrame(
        dict(zip(by, place, strict=True)) | {"number": number}
        for place, numbers in zip(places, sequences, strict=False)
        for number in numbers
    )


def cut(*places):
    """A table of crops, by worker: grey squares, each as dark as its place says."""
    squares = [
        (worker, torch.full((3, 8, 8), place, dtype=torch.uint8)) for worker, place in places
    ]
    return pd.DataFrame(squares, columns=["worker", "crop"])


def audited(**options):
    return audit(DataLoader(Stream(range(3)), batch_size=4, num_workers=1, **options))


@pytest.mark.parametrize(
    "figure",
    [
        chart({"one": ([0, 1], [5, 9])}, points={"rule": (1, 9)}, **WORDS),
        classes({"sorted": [0, 0, 1, 1]}, title=""),
        crops(cut((0, 10), (1, 20))),
        draws(table([1], [2])),
        shuffle([1, 0, 2]),
        Slots.of([[10, 20], [11, 40], [12, 12]], SEQUENCES).figure(),
        padding({"one": [torch.tensor([[1, 0]])]}),
        compared_streams([("", Streams({"steps": [(0, 0, 1)]}))], title="", numbers=""),
    ],
)
def test_plotly_knows_each_option(figure):
    go.Figure(figure.to_dict())  # checks each name and colour


@pytest.mark.parametrize(
    ("draw", "says"),
    [
        (lambda: chart({}, **WORDS), "at least one"),
        (lambda: chart({"one": ([0, 1], [1])}, **WORDS), "at least one"),
        (lambda: classes({}, title=""), "equally many samples"),
        (lambda: classes({"one": [0], "two": [0, 1]}, title=""), "equally many samples"),
        (lambda: crops(pd.DataFrame({"worker": [0]})), "rows with crop"),
        (lambda: draws(pd.DataFrame({"number": [1]})), "rank, epoch, worker"),
        (lambda: draws(pd.DataFrame()), "rank, epoch, worker"),
        (lambda: shuffle([]), "once"),
        (lambda: shuffle([1, 2]), "once"),
        (lambda: shuffle([[0, 1]]), "once"),
        (lambda: Slots.of([], SEQUENCES), "no batch"),
        (lambda: Slots.of([[10], [99]], SEQUENCES), "sample 99"),
        (lambda: padding({}), "no batch"),
        (lambda: padding({"none": []}), "no batch"),
        (lambda: contact_sheet([]), "no batch"),
        (lambda: contact_sheet([np.zeros((4, 1, 8, 8))]), "shape"),
        (lambda: stacked({}), "at least one trace"),
        (lambda: compared_streams([("", Streams({}))], title="", numbers=""), "no box"),
        (lambda: epochs(audited(drop_last=True), title=""), "no sample came"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw, says):
    with pytest.raises(LoaderVizError, match=says):
        draw()


# Charts


def test_lines_and_points_are_named_where_they_are():
    lines = {"one": ([0, 1], [5, 9]), "two": ([0, 1], [4, 2])}
    figure = chart(lines, points={"rule": (1, 9)}, **WORDS)
    assert [list(each.y) for each in figure.data] == [[5, 9], [4, 2], [9]]
    places = {each.text: (each.x, each.y) for each in figure.layout.annotations}
    assert (places["one"], places["two"], places["rule"]) == ((1, 9), (1, 2), (1, 9))
    assert figure.layout.yaxis.range[0] == 0
    assert figure.layout.yaxis.range[1] > 9


@pytest.mark.parametrize(
    ("other", "sides"), [(3, ("right", "left")), (5, ("left", "right")), (9, ("center", "center"))]
)
def test_names_of_points_that_lie_close_go_to_either_side(other, sides):
    points = {"other": (other, 1), "four": (4, 1)}
    figure = chart({"line": (range(13), range(13))}, points=points, **WORDS)
    labels = {each.text: each for each in figure.layout.annotations}
    assert (labels["other"].xanchor, labels["four"].xanchor) == sides
    assert labels["other"].ay == labels["four"].ay < 0 == labels["four"].ax


def test_names_of_lines_that_end_together_stand_one_above_the_other():
    lines = {"low": ([0, 1], [0, 1]), "high": ([0, 1], [0, 9.5]), "higher": ([0, 1], [0, 10])}
    shifts = {each.text: each.yshift for each in chart(lines, **WORDS).layout.annotations}
    assert shifts["low"] == shifts["high"] == 0
    assert 5 < shifts["higher"] < 16


@pytest.mark.parametrize(
    ("xs", "ticks"),
    [(range(3), (0, 1, 2)), (range(0, 90_000, 10_000), None), ([0.5, 1.5], None)],
)
def test_a_few_whole_numbers_have_a_tick_each(xs, ticks):
    assert chart({"": (xs, [1] * len(xs))}, **WORDS).layout.xaxis.tickvals == ticks


def test_the_padding_of_two_ways_is_counted_and_drawn_on_the_same_axes():
    batches = [torch.tensor([[1, 1], [2, 0]]), torch.tensor([[3, 3, 3, 3]])]
    figure = padding({"as they come": batches, "longest first": batches[1:]})
    assert [list(bars.y) for bars in figure.data] == [[3, 4], [1, 0], [4], [0]]
    assert "12 % as they come, 0 % longest first" in figure.layout.title.text
    assert figure.layout.yaxis.range == figure.layout.yaxis2.range
    assert {bars.yaxis for bars in figure.data} == {"y", "y2"}


# Random numbers and orders


@pytest.mark.parametrize(
    ("sequences", "by", "verdict"),
    [
        (["ab", "cd", "ef", "gh"], ("epoch", "worker"), "Different numbers in every worker and"),
        (["ab"] * 4, ("epoch", "worker"), "The same numbers in every worker and every epoch"),
        (["ab", "ab", "cd", "cd"], ("epoch", "worker"), "The same numbers in every worker"),
        (["ab", "cd", "ab", "cd"], ("rank", "worker"), "The same numbers in every rank"),
        (["ab", "cd", "ef", "ab"], ("epoch", "worker"), "1 of 4 lanes repeat"),
        (["ab"], ("epoch", "worker"), "One lane only"),
    ],
)
def test_the_verdict_tells_over_what_numbers_repeat(sequences, by, verdict):
    assert draws(table(*sequences, by=by)).layout.title.text.startswith(f"<b>{verdict}")


def test_one_colour_is_one_sequence():
    figure = draws(table([1, 2], [1, 2], [3, 4], [1, 2]))
    (boxes,) = figure.data
    assert list(boxes.y) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert list(boxes.text) == ["1", "2", "1", "2", "3", "4", "1", "2"]
    assert boxes.marker.color[0] == boxes.marker.color[2] == boxes.marker.color[6]
    assert boxes.marker.color[0] != boxes.marker.color[4]
    assert list(figure.layout.yaxis.ticktext)[1] == "epoch 0 · worker 1"
    same_in_all = draws(table([1], [2]).assign(rank=0, epoch=0))
    assert list(same_in_all.layout.yaxis.ticktext) == ["worker 0", "worker 1"]


@settings(max_examples=20)
@given(st.permutations(range(30)))
def test_each_sample_is_a_dot_where_it_went_in_and_came_out(order):
    dots = next(each for each in shuffle(order).data if each.name == "sample")
    assert list(dots.x) == list(range(30))
    assert list(dots.y) == list(order)


def test_the_samples_that_moved_farthest_are_told():
    _, _, early, late = shuffle([1, 2, 3, 0]).data
    assert (list(early.x), list(late.x)) == ([1, 0], [0, 3])  # from its place to where it came
    assert (early.name, late.name) == ("1 place early", "3 places late")
    assert len(shuffle([0, 1]).data) == 2


def test_the_title_says_how_far_samples_move():
    assert "Nothing is shuffled" in shuffle(range(5)).layout.title.text
    figure = shuffle([1, 0, 2, 3])
    assert "0.5 places on average: 40 % of a full shuffle" in figure.layout.title.text
    assert "1 places earlier and 1 later" in figure.layout.title.subtitle.text
    full = shuffle(random.Random(0).sample(range(20_000), 20_000)).layout.title.text
    assert float(re.search(r"(\d+) % of a full", full)[1]) == pytest.approx(100, abs=2)


def test_classes_has_a_strip_for_each_order_on_one_axis():
    figure = classes({"sorted": [0, 0, 1, 1], "mixed": [1, 0, 1, 0]}, title="Mixed")
    assert [each.z.tolist() for each in figure.data] == [[[0, 0, 1, 1]], [[1, 0, 1, 0]]]
    assert list(figure.layout.yaxis.ticktext) == ["sorted", "mixed"]
    assert "4 samples · each of 2 colours is a class" in figure.layout.title.subtitle.text


# Pictures


@pytest.mark.parametrize(
    ("places", "title", "n_colours"),
    [
        ([(0, 10), (0, 20), (1, 10), (1, 20)], "The same crops in every worker", 1),
        ([(0, 10), (0, 20), (1, 30), (1, 20)], "Different crops in every worker", 2),
    ],
)
def test_crops_that_are_the_same_have_frames_of_one_colour(places, title, n_colours):
    figure = crops(cut(*places))
    assert title in figure.layout.title.text
    assert len({each.fillcolor for each in figure.layout.shapes}) == n_colours
    assert len(figure.layout.images) == 4


def test_each_batch_is_a_row_in_its_colour_and_a_picture_keeps_its_own():
    image = pytest.importorskip("PIL.Image")
    red_and_blue = np.zeros((2, 3, 8, 8))
    red_and_blue[0, 0] = red_and_blue[1, 2] = 1.0
    html = contact_sheet([red_and_blue, np.ones((1, 3, 8, 8))])._repr_html_()
    rows = html.split("<b ")[1:]
    assert [row.count("<img ") for row in rows] == [2, 1]
    assert all(style.colour(number) in row for number, row in enumerate(rows))
    encoded = re.findall(r"base64,([^']+)'", rows[0])
    shown = [np.array(image.open(io.BytesIO(base64.b64decode(each)))) for each in encoded]
    assert [int(each.mean(axis=(0, 1)).argmax()) for each in shown] == [0, 2]


# Batches and samples


def test_epochs_draws_who_delivered_each_sample_and_what_never_came():
    loader = DataLoader(CuttingStream(range(8)), num_workers=2, persistent_workers=True)
    figure = epochs(audit(loader, epochs=2), title="Half of it")
    came, never = figure.data
    assert sorted(zip(came.y.tolist(), came.base.tolist(), came.text.tolist(), strict=True)) == [
        *((0, i - 0.5, "0" if i < 4 else "1") for i in range(8)),
        *((1, i - 0.5, "0" if i < 4 else "1") for i in (0, 1, 6, 7)),
    ]
    assert set(never.y) == {1}
    assert sorted(never.base + 0.42) == pytest.approx([2, 3, 4, 5])
    assert "8, then 4 of 8 samples" in figure.layout.title.subtitle.text


def test_slots_have_a_box_for_each_sample_and_a_mark_for_each_break():
    slots = Slots.of([[10, 20], [11, 40], [12, 41], [12, 12]], SEQUENCES)
    assert (slots.breaks, slots.repeats) == (3, 1)
    figure = slots.figure()
    boxes, frames, breaks = figure.data
    assert list(boxes.text) == ["10", "20", "11", "40", "12", "41", "12", "12"]
    assert len(set(boxes.marker.color)) == 3
    assert len(breaks.y) == slots.breaks
    assert list(frames.y) == [0, 1]  # the last batch, both its slots
    assert slots.verdict in figure.layout.title.text
    assert "3 breaks (red bars) · 1 batch with" in slots.numbers
    assert "0 breaks · no batch with" in Slots.of([[10, 20], [11, 21]], SEQUENCES).numbers
    assert list(figure.layout.yaxis.ticktext) == ["slot 0", "slot 1"]


def test_fourteen_sequences_have_colours_of_their_own_whatever_their_numbers():
    sequences = [range(10 * k, 10 * k + 5) for k in range(40)]
    for first in (0, 20):
        batches = [[10 * k] for k in range(first, first + 14)]
        assert len(set(Slots.of(batches, sequences).figure().data[0].marker.color)) == 14


@pytest.mark.parametrize(("first", "second", "breaks"), [(22, 40, 0), (21, 40, 1), (22, 41, 1)])
def test_a_sequence_may_follow_another_only_from_its_end_to_a_start(first, second, breaks):
    assert Slots.of([[first], [second]], SEQUENCES).breaks == breaks


def recorded(loader, n_batches):
    with record(loader) as recording:
        for _, _batch in zip(range(n_batches), loader, strict=False):
            pass
    return recording.trace


def test_two_timelines_of_unlike_length_and_lanes_share_axis_zero_and_left_edge():
    short = recorded(DataLoader(SleepingDataset(2, 0.01)), 2)
    parts = SlotStreams([range(40)], 2, sample_s=0.02).split(2)
    long = recorded(MultiStreamDataLoader(parts), 6)
    above, below = stacked({"Few": short, "Many": long})
    spans = [right - left for left, right in (each.layout.xaxis.range for each in (above, below))]
    assert spans[0] == pytest.approx(spans[1])
    assert above.layout.xaxis.ticktext == below.layout.xaxis.ticktext
    assert above.layout.xaxis.ticktext[0] == "0"
    assert above.layout.margin.l == below.layout.margin.l
    assert [figure.layout.title.text[3:-4] for figure in (above, below)] == ["Few", "Many"]
    for figure, trace in ((above, short), (below, long)):
        left, right = figure.layout.xaxis.range
        zero_s = figure.layout.xaxis.tickvals[0]
        batches, workers = trace.batches, trace.workers
        begun = pd.concat([batches["dispatched_s"], batches["requested_s"], workers["asked_s"]])
        assert left < zero_s == pytest.approx(begun.min())
        assert trace.batches["delivered_s"].max() <= right


def test_sequences_beside_each_other_share_a_colour_where_they_share_a_value():
    figure = beside({"as it came": [3, 3, 3], "as it should be": [1, 2, 3]})
    (marks,) = figure.data
    assert marks["text"].tolist() == ["3", "3", "3", "1", "2", "3"]
    fills = list(marks["marker"]["color"])
    assert fills[0] == fills[1] == fills[2] == fills[5]
    assert len({*fills}) == 3
    title = figure.layout["title"]["text"]
    assert title == "<b>as it came: 1 value · as it should be: 3 values</b>"
    assert len({*beside({"many": range(14)}).data[0]["marker"]["color"]}) == 14
    named = beside({"": [1]}, title="One row", x="rows").layout
    assert (named["title"]["text"], named["xaxis"]["title"]["text"]) == ("<b>One row</b>", "rows")
    with pytest.raises(LoaderVizError, match="each with a value or more"):
        beside({"empty": []})
