"""The figure of the lines of code: its boxes, its bars, its words."""

import plotly.graph_objects as go
import pytest

from loaderviz import LoaderVizError, figures
from traces import LINES, made, with_lines


def boxes(figure):
    bar = figure.data[0]
    return {
        text: (row, round(base, 6), round(width, 6))
        for text, row, base, width in zip(bar.text, bar.y, bar.base, bar.x, strict=True)
    }


def test_what_is_called_lies_below_its_caller_as_wide_as_its_time():
    assert boxes(figures.lines(with_lines(made()))) == {
        "reading": (0, 0.0, 4.0),
        "read": (1, 0.0, 3.9),
        "__getitem__:41  row = self.table.iloc[i]": (2, 0.0, 3.0),
        "pandas": (3, 0.0, 3.0),
        "__getitem__:42…": (2, 3.0, 0.9),
        "augment:60  tim…": (3, 3.0, 0.9),
        "": (1, 3.9, 0.1),
    }


def test_hover_tells_the_frames_of_a_package_and_what_was_waited_for():
    hover = "".join(figures.lines(with_lines(made())).data[0].hovertext)
    assert "2 frames of pandas, the last pandas/core/indexing.py:1191" in hover
    assert "the loop waited for 50 % of it" in hover


def test_the_foot_of_a_box_is_as_long_as_the_loop_waited_for_it():
    figure = figures.lines(with_lines(made()))
    boxes, waited = figure.data[0], figure.data[-1]
    assert waited.base == boxes.base
    assert (boxes.x[2], waited.x[2]) == pytest.approx((3.0, 1.5))


def test_the_longest_lines_have_bars_of_cpu_time_and_waiting():
    figure = figures.lines(with_lines(made()))
    cpu, waiting = figure.data[1:3]
    assert figure.layout.yaxis2.ticktext[:2] == ("dataset.py:41", "dataset.py:60")
    assert cpu.x[:2] == pytest.approx([2.9, 0.1])
    assert waiting.x[:2] == pytest.approx([0.1, 0.8])
    assert "75 % of the reading goes to dataset.py:41" in figure.layout.title.text
    go.Figure(figure.to_dict())  # plotly accepts all of it


def test_what_is_below_one_percent_is_not_drawn():
    small = LINES[1]._replace(seconds=0.001, cpu_s=0.0)
    names = boxes(figures.lines(with_lines(made(), LINES[0], small)))
    assert not any("augment" in name for name in names)


def test_text_of_a_stranger_s_file_is_no_markup():
    frame = LINES[0].stack[1]._replace(source="<b>x</b>", function="f")
    figure = figures.lines(with_lines(made(), LINES[0]._replace(stack=(frame,))))
    assert any("&lt;b&gt;x" in text for text in figure.data[0].text)


def test_without_lines_there_is_no_figure():
    with pytest.raises(LoaderVizError, match="lines=True"):
        figures.lines(made())
    with pytest.raises(LoaderVizError, match="no look"):
        figures.lines(with_lines(made(), LINES[0]._replace(stack=())))
