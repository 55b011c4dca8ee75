"""The picture of a buffer: each batch in the column of the arrival that frees it."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from loaderviz.course.figures.handover import LANES, handover


def lane(figure, name):
    """(column, number) of each box in a lane, from left to right."""
    (bars,) = figure.data
    number = LANES.index(name)
    rows = zip(bars.base, bars.y, bars.text, strict=True)
    return sorted((round(base), int(text)) for base, y, text in rows if y == number)


def test_a_batch_that_arrives_early_is_due_with_the_one_it_waits_for():
    figure = handover([0, 2, 3, 1], [(1, 0), (2, 2)], "a title")
    assert lane(figure, "arrives") == [(1, 0), (2, 2), (3, 3), (4, 1)]
    assert lane(figure, "you hand over") == [(1, 0), (2, 2)]
    assert [number for _, number in lane(figure, "in order, at once")] == [0, 1, 2, 3]
    assert "a title" in figure.layout.title.text


@given(st.permutations(range(6)))
def test_boxes_of_a_lane_never_overlap(order):
    (bars,) = handover(order, [(6, n) for n in range(6)], "").data
    rows = list(zip(bars.y, bars.base, bars.x, strict=True))
    for lane_number in range(len(LANES)):
        boxes = sorted((start, width) for y, start, width in rows if y == lane_number)
        for (start, width), (following, _) in pairwise(boxes):
            assert start + width <= following + 1e-6
