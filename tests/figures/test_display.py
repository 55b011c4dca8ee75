"""Who draws a figure that a cell shows: the front end, or a renderer of plotly's."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import plotly.io
import pytest

from loaderviz.figures import display
from loaderviz.figures.display import MIMETYPE_RENDERERS, OTHER_FRONT_ENDS, Figure

RENDERERS = "plotly.io._renderers"  # takes over a second to import


class Shell:
    """Stands for the shell of a kernel, which plotly knows by its name and its module."""

    __module__ = "ipykernel.zmqshell"


Shell.__name__ = "ZMQInteractiveShell"


@pytest.fixture
def shown(monkeypatch):
    """What a figure shows, in a kernel in which nobody has asked for a renderer."""
    bundles = []
    monkeypatch.setattr("IPython.get_ipython", Shell)
    monkeypatch.setattr("IPython.display.display", lambda bundle, raw: bundles.append(bundle))
    monkeypatch.delitem(sys.modules, RENDERERS, raising=False)
    monkeypatch.delitem(vars(plotly.io), "renderers", raising=False)
    for name in OTHER_FRONT_ENDS:
        monkeypatch.delenv(name, raising=False)
    return bundles


def test_a_kernel_shows_a_figure_without_plotlys_renderers(shown):
    Figure(layout_title="What it shows")._ipython_display_()
    assert set(shown[0]) == {"application/vnd.plotly.v1+json", "text/html", "text/plain"}
    assert RENDERERS not in sys.modules


@pytest.mark.parametrize("name", OTHER_FRONT_ENDS)
def test_another_front_end_is_plotlys_to_tell(shown, monkeypatch, name):
    monkeypatch.setenv(name, "json" if name == "PLOTLY_RENDERER" else "1")
    assert not display._front_end_draws()
    assert RENDERERS in sys.modules


def test_kaggle_is_plotlys_to_tell(shown, monkeypatch, tmp_path):
    monkeypatch.setattr(display, "KAGGLE_FOLDER", tmp_path)
    display._front_end_draws()
    assert RENDERERS in sys.modules


def test_a_renderer_that_was_chosen_is_used(shown, monkeypatch):
    chosen = SimpleNamespace(default="json", render_on_display=True)
    monkeypatch.setitem(sys.modules, RENDERERS, SimpleNamespace(renderers=chosen))
    monkeypatch.setattr(plotly.io, "renderers", chosen, raising=False)
    assert not display._front_end_draws()


def test_plotly_looks_at_nothing_else():
    """Of what its source looks at, the rest are front ends that draw figures by themselves."""
    import plotly.io._renderers

    source = Path(plotly.io._renderers.__file__).read_text()
    names = set(re.findall(r'"(\w+)" in os\.environ', source))
    names |= set(re.findall(r'os\.environ\.get\("(\w+)"', source))
    drawn = {
        name
        for name, renderer in re.findall(
            r'"(\w+)" in os\.environ:\s+default_renderer = "(\w+)"', source
        )
        if renderer in MIMETYPE_RENDERERS
    }
    assert drawn
    assert names - drawn == set(OTHER_FRONT_ENDS)
    assert set(re.findall(r'os\.path\.exists\("(.+?)"\)', source)) == {str(display.KAGGLE_FOLDER)}
