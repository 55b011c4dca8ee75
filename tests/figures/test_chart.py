"""Lines with names and points: what is drawn, and what is refused."""

import plotly.graph_objects as go
import pytest

from loaderviz.course.figures.chart import chart
from loaderviz.errors import LoaderVizError

WORDS = {"title": "Rates", "x": "workers", "y": "samples/s"}


def test_lines_and_points_are_named_where_they_are():
    figure = chart(
        {"one": ([0, 1], [5, 9]), "two": ([0, 1], [4, 2])}, points={"rule": (1, 9)}, **WORDS
    )
    assert [list(each.y) for each in figure.data] == [[5, 9], [4, 2], [9]]
    places = {each.text: (each.x, each.y) for each in figure.layout.annotations}
    assert places["one"] == (1, 9)
    assert places["two"] == (1, 2)
    assert places["rule"] == (1, 9)
    assert figure.layout.yaxis.range[0] == 0
    assert figure.layout.yaxis.range[1] > 9
    go.Figure(figure.to_dict())  # checks each name and colour


def test_names_of_lines_that_end_together_stand_one_above_the_other():
    lines = {"low": ([0, 1], [0, 1]), "high": ([0, 1], [0, 9.5]), "higher": ([0, 1], [0, 10])}
    shifts = {each.text: each.yshift for each in chart(lines, **WORDS).layout.annotations}
    assert shifts["low"] == shifts["high"] == 0
    assert 5 < shifts["higher"] < 16


def test_a_few_whole_numbers_have_a_tick_each_and_nothing_beside_them_has():
    figure = chart({"simulated": (range(5), [0, 1, 2, 3, 3])}, **WORDS)
    assert list(figure.layout.xaxis.tickvals) == [0, 1, 2, 3, 4]
    for many in (range(0, 300_000, 10_000), [0.5, 1.5]):
        figure = chart({"": (many, [1] * len(many))}, **WORDS)
        assert figure.layout.xaxis.tickvals is None


@pytest.mark.parametrize("lines", [{}, {"one": ([], [])}, {"one": ([0, 1], [1])}])
def test_lines_without_values_are_refused_and_an_unknown_theme_is(lines):
    with pytest.raises(LoaderVizError, match="at least one"):
        chart(lines, **WORDS)
    with pytest.raises(LoaderVizError, match="'blue'"):
        chart({"one": ([0], [1])}, theme="blue", **WORDS)
