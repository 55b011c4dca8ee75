"""What a front end without our widgets gets of them: HTML, and words where it shows no HTML."""

import sys
from types import SimpleNamespace

import pytest
from IPython.core.interactiveshell import InteractiveShell

from loaderviz import Costs, explore, simulate
from loaderviz.figures.display import Figure, front_end_draws
from loaderviz.widgets import play, vary

VIEW = "application/vnd.jupyter.widget-view+json"
TITLE = "After the first batch the model never waits: two workers keep up"
MISSING = "To move these controls, run this cell in JupyterLab with ipywidgets and anywidget"


def what_if(workers):
    costs = Costs(sample_s=0.01, step_s=0.05)
    return simulate(costs, num_workers=workers, batch_size=4, n_batches=6)


def table(rows, sort):
    return f"rows  <{sort}>\n   {rows}  1"


MAKE = {
    "vary": lambda: vary(what_if, workers=(0, 4, 2)),
    "text": lambda: vary(table, rows=(0, 4, 2), sort=["a & b", "c"]),
    "play": lambda: play(what_if(2)),
    "explore": explore,
}


@pytest.fixture(scope="module")
def bundles():
    """What each widget hands to a front end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InteractiveShell, "initialized", lambda: True)  # as in a notebook
        return {name: make()._repr_mimebundle_() for name, make in MAKE.items()}


def test_each_widget_comes_with_html_and_with_words(bundles):
    for bundle in bundles.values():
        assert set(bundle) == {VIEW, "text/html", "text/plain"}
        assert "children=" not in bundle["text/plain"]
        assert "<" not in bundle["text/plain"].replace("<a & b>", "")


def test_words_hold_the_controls_the_picture_in_words_and_what_is_missing(bundles):
    assert bundles["vary"]["text/plain"].splitlines() == [
        f"workers = 2. {MISSING}, as make lab sets it up.",
        TITLE,
        "simulated · 6 batches · 24 samples · 2 workers · "
        "340 ms in all: 300 ms in steps + 40 ms waiting",
    ]
    said = bundles["explore"]["text/plain"].splitlines()
    assert said[0].startswith("workers = 2, batch size = 4")
    assert MISSING in said[0]
    assert said[1].split("  ")[-2:] == ["delivered twice", "most in flight"]
    assert TITLE in said
    assert said[-1] == "DataLoader(dataset, batch_size=4, num_workers=2)"


def test_text_keeps_its_lines_and_its_columns(bundles):
    assert bundles["text"]["text/plain"].endswith("rows  <a & b>\n   2  1")


def test_the_player_says_that_its_queues_need_a_script(bundles):
    said = bundles["play"]["text/plain"].splitlines()
    assert said[0] == TITLE
    assert said[-1] == "The queues are drawn by a script, which has not run here."


@pytest.mark.parametrize("renderer", ["plotly_mimetype", "vscode", "jupyterlab+png"])
def test_a_front_end_that_draws_figures_gets_html_and_words_beside(monkeypatch, renderer):
    shown = []
    renderers = SimpleNamespace(default=renderer)
    monkeypatch.setattr("plotly.io.renderers", renderers)
    monkeypatch.setattr("IPython.display.display", lambda bundle, raw: shown.append(bundle))
    Figure(layout_title="What it shows")._ipython_display_()
    assert set(shown[0]) == {"application/vnd.plotly.v1+json", "text/html", "text/plain"}
    assert shown[0]["text/plain"] == "What it shows"


@pytest.mark.parametrize("chosen", [None, "json"])
def test_in_a_kernel_plotly_is_asked_only_where_somebody_chose(monkeypatch, chosen):
    """To ask it takes a second or two, before the first picture."""
    asked = []

    class Renderers:
        @property
        def default(self):
            asked.append(True)
            return chosen

    of_kernel = type("ZMQInteractiveShell", (), {"__module__": "ipykernel.zmqshell"})
    monkeypatch.setattr("IPython.get_ipython", of_kernel)
    monkeypatch.setattr("plotly.io.renderers", Renderers())
    monkeypatch.delitem(sys.modules, "plotly.io._renderers", raising=False)
    if chosen:
        monkeypatch.setenv("PLOTLY_RENDERER", chosen)
    assert front_end_draws() is not bool(chosen)
    assert bool(asked) is bool(chosen)


def test_a_renderer_that_was_chosen_is_used(monkeypatch):
    shown = []
    renderers = SimpleNamespace(default="json", render_on_display=True)
    monkeypatch.setattr("plotly.io.renderers", renderers)
    monkeypatch.setattr(
        "plotly.basedatatypes.BaseFigure._ipython_display_", lambda figure: shown.append(figure)
    )
    figure = Figure()
    figure._ipython_display_()
    assert shown == [figure]
