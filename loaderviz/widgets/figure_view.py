"""The widgets of our own: a figure that follows a slider, and a line of code to copy.

plotly's own ``FigureWidget`` checks every value of an update and sends it back and forth, which
takes some 300 ms for 50 batches; here the page gets the whole figure and calls ``Plotly.react``.
"""

from __future__ import annotations

import functools
import json

import anywidget
import ipywidgets as widgets
import plotly.graph_objects as go
import traitlets
from plotly.offline import get_plotlyjs

from loaderviz.figures.display import CONFIG, Drawing, figure_script
from loaderviz.web import script
from loaderviz.widgets.relayed import Relayed, relayed_script


class _Scripts(anywidget.AnyWidget):
    """Brings our figures' scripts to the page, and plotly's if it has none; shows nothing itself.

    plotly's script is not part of the widget's own, because it takes a second to run, and anywidget
    0.11 gives up on a widget whose script has not run within two (Runtime.ready in its front end).
    """

    _esm = "\n".join([figure_script(), script("find_plotly"), script("widget_scripts")])
    plotly = traitlets.Unicode(get_plotlyjs()).tag(sync=True)


@functools.cache
def _shared_scripts(_session: object) -> _Scripts:
    return _Scripts()


def figure_scripts() -> widgets.Widget:
    """The widget with the scripts that figures need; show it beside them, at least once on a page.

    All callers share one widget, because it holds megabytes.
    """
    shared = _shared_scripts(None)
    if shared.comm is None:  # it was closed, with all other widgets
        _shared_scripts.cache_clear()
        shared = _shared_scripts(None)
    return shared


class FigureView(Relayed):
    """Shows a figure; the next one replaces it without a flicker.

    Attributes:
        figure: what is shown, as plotly's JSON with its configuration.
        stale: whether it is dimmed, because it belongs to other settings than the present ones.
    """

    _esm = relayed_script("sizes", "figure_view")
    figure = traitlets.Unicode("").tag(relayed=True)
    stale = traitlets.Bool(False).tag(relayed=True)

    def __init__(self, shown: go.Figure | Drawing | None = None) -> None:
        super().__init__(figure="" if shown is None else _figure_json(shown))
        self._shown = shown

    @property
    def plotly_figure(self) -> go.Figure | None:
        """What is shown, as a figure; None before the first."""
        return self._shown.figure() if isinstance(self._shown, Drawing) else self._shown

    def show(self, shown: go.Figure | Drawing) -> None:
        """Show this figure in place of the one before."""
        self._shown = shown
        self.figure = _figure_json(shown)


def _figure_json(shown: go.Figure | Drawing) -> str:
    return f'{shown.to_json()[:-1]},"config":{json.dumps(CONFIG)}}}'


class CodeLine(Relayed):
    """Shows ``text``, a line of code, beside a button that copies it."""

    _esm = relayed_script("code_line")
    text = traitlets.Unicode("").tag(relayed=True)
