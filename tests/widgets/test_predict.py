"""``predict`` without a browser: what is shown before and after an answer is chosen."""

import pytest

from loaderviz import Costs, LoaderVizError, simulate, timeline
from loaderviz.widgets import predict
from loaderviz.widgets.figure_view import FigureView

QUESTION = "Does the loop wait?"
ANSWERS = ["hardly", "half of the time"]


@pytest.fixture
def waiting():
    costs = Costs(sample_s=0.01, step_s=0.02)
    return simulate(costs, num_workers=0, batch_size=2, n_batches=6)


def asked(shown, **options):
    options = {"right": "half of the time", "because": "It reads, <then> steps."} | options
    return predict(QUESTION, ANSWERS, shown, **options)


def descriptions(widget):
    return [button.description for button in widget._buttons.values()]


def test_nothing_is_told_before_an_answer_is_chosen(waiting):
    widget = asked([waiting, "printed"])
    assert descriptions(widget) == ANSWERS
    assert (widget._reply.value, widget._views.children) == ("", ())


@pytest.mark.parametrize(
    ("answer", "reply", "marks"),
    [
        ("hardly", "Wrong. The answer: half of the time.", ["✗ hardly", "✓ half of the time"]),
        ("half of the time", "Right.", ["hardly", "✓ half of the time"]),
    ],
)
def test_a_click_says_what_is_right_and_shows_the_picture(waiting, answer, reply, marks):
    widget = asked([waiting, "a < b"])
    widget._buttons[answer].click()
    assert descriptions(widget) == marks
    assert f"<b>{reply}</b> It reads, &lt;then&gt; steps." in widget._reply.value
    figure, text = widget._views.children
    assert isinstance(figure, FigureView)
    assert figure.plotly_figure.layout.title.text == timeline(waiting).layout.title.text
    assert "a &lt; b" in text.value


def test_another_click_changes_the_reply_and_keeps_the_picture(waiting):
    widget = asked(waiting)
    widget.choose("hardly")
    before = widget._views.children
    widget.choose("half of the time")
    assert "Right." in widget._reply.value
    assert widget._views.children == before


def test_without_a_kernel_the_title_tells_nothing_and_the_answer_is_folded(waiting):
    static = asked(timeline(waiting, title="It waits for half of the time"))._static_html()
    told, folded = static.split("<details")
    assert QUESTION in told
    assert "It waits for" not in told
    assert "half of the time.</b>" in folded
    assert "It waits for half of the time" in folded


@pytest.mark.parametrize(
    ("answers", "right", "says"),
    [
        (["one"], "one", "give 2 to 4"),
        (list("abcde"), "a", "give 2 to 4"),
        (["a", "a"], "a", "each another one"),
        (["a", "b"], "c", "right='c' is none of the answers: a, b"),
    ],
)
def test_answers_that_cannot_be_offered_are_refused(answers, right, says):
    with pytest.raises(LoaderVizError, match=says):
        predict(QUESTION, answers, "text", right=right)


def test_what_has_no_figure_and_what_is_no_answer_are_refused(waiting):
    with pytest.raises(LoaderVizError, match="nothing can be drawn of int 3"):
        asked(3)
    with pytest.raises(LoaderVizError, match="answer='often': the answers are hardly"):
        asked(waiting).choose("often")
