"""``vary`` without a browser: what is drawn, when, and what is said of mistakes."""

import json
import sys
from types import SimpleNamespace

import plotly.graph_objects as go
import pytest

from loaderviz import Costs, LoaderVizError, audit, simulate
from loaderviz.widgets import vary
from loaderviz.widgets.figure_view import FigureView


def what_if(workers):
    return simulate(
        Costs(sample_s=0.01, step_s=0.02), num_workers=workers, batch_size=2, n_batches=6
    )


def lanes(place):
    return list(json.loads(place.figure)["layout"]["yaxis"]["ticktext"])


def test_the_picture_is_there_at_once_and_follows_the_control():
    shown = vary(what_if, workers=(0, 8, 2))
    (place,) = shown._views.children
    assert isinstance(place, FigureView)
    assert lanes(place) == ["consumer", "worker 0", "worker 1"]
    shown.set(workers=3)
    assert shown._views.children == (place,)  # changed in place: no flicker
    assert lanes(place) == ["consumer", "worker 0", "worker 1", "worker 2"]
    assert shown.result().summary().n_batches == 6


def test_figures_text_and_what_has_a_figure_stand_under_each_other():
    def draw(n, kind):
        trace = what_if(n)
        return {
            "all": [trace, audit(trace), go.Figure(go.Bar(x=[n])), f"{n} < 3"],
            "text": "<b>",
        }[kind]

    shown = vary(draw, n=(1, 3, 2), kind=["all", "text"])
    assert [type(each).__name__ for each in shown._views.children] == [
        *["FigureView"] * 3,
        "HTML",
    ]
    assert "2 &lt; 3" in shown._views.children[-1].value
    shown.set(kind="text")
    (text,) = shown._views.children
    assert "&lt;b&gt;" in text.value


def test_an_error_is_shown_in_place_raised_by_result_and_gone_with_the_next_value():
    shown = vary(lambda n: f"{6 / n:g}", n=(0, 3, 2))
    shown.set(n=0)
    assert "ZeroDivisionError: division by zero" in shown._problem.value
    assert shown._views.layout.display == "none"  # the picture is not of this value
    with pytest.raises(ZeroDivisionError):
        shown.result()
    shown.set(n=3)
    assert shown._problem.value == ""
    assert shown._views.layout.display is None
    assert shown.result() == "2"


def test_what_cannot_be_drawn_is_told():
    with pytest.raises(LoaderVizError, match=r"nothing can be drawn of int 3: give"):
        vary(lambda n: n, n=(0, 4, 3)).result()


@pytest.mark.parametrize(
    "spec", [(0, 4), (0, 4, 9), (4, 0, 2), (0, 4, 1, -1), (0, "4", 2), [], 3, None, "a"]
)
def test_what_is_no_control_is_named(spec):
    with pytest.raises(LoaderVizError, match=r"n=.* is no control: give"):
        vary(lambda n: str(n), n=spec)


def test_each_kind_of_control_gives_its_kind_of_value():
    shown = vary(
        lambda **values: repr(values), n=(0, 4, 3), s=(0.0, 1.0, 0.5, 0.1), of=["x", "y"], on=True
    )
    assert shown.result() == "{'n': 3, 's': 0.5, 'of': 'x', 'on': True}"
    labels = [each.description for each in shown._controls.values()]
    assert labels == ["n", "s", "of", "on"]
    with pytest.raises(LoaderVizError, match="m=1: the controls are n, s, of, on"):
        shown.set(m=1)


def test_a_real_run_shows_that_it_is_under_way_and_its_sliders_count_once_they_are_let_go():
    seen = []

    def draw(workers, for_real):
        if seen or for_real:
            (place,) = shown._views.children
            seen.append((bool(shown._running.value), place.stale))
        if workers == 2:
            raise ValueError("broken")
        return what_if(workers)

    shown = vary(draw, workers=(0, 8, 1), for_real=False)
    slider = shown._controls["workers"]
    assert slider.continuous_update
    shown.set(for_real=True)
    assert not slider.continuous_update
    shown.set(workers=2)  # a run that fails is over as well
    shown.set(for_real=False)
    assert slider.continuous_update
    assert seen == [(True, True), (True, True), (False, False)]
    assert shown._running.value == ""
    assert not shown._views.children[0].stale


def test_a_picture_is_dimmed_where_the_one_before_took_long(monkeypatch):
    module, now_s, stale = sys.modules[vary.__module__], [0.0], []
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now_s[0]))

    def draw(workers):
        if workers == 2:
            now_s[0] += 2 * module.MISSED_S
        if workers > 1:
            stale.extend(view.stale for view in shown._views.children)
        return what_if(workers)

    shown = vary(draw, workers=(0, 8, 1))
    shown.set(workers=2)
    shown.set(workers=3)
    assert stale == [False, True]
    assert not shown._views.children[0].stale
