"""A place on the page for one figure at a time, drawn anew fast enough to follow a thumb.

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

from loaderviz.figures.display import CONFIG, figure_script
from loaderviz.web import script


class _Scripts(anywidget.AnyWidget):
    """Shows nothing: brings the scripts of our figures to the page, and plotly's where it has none.

    Plotly's is no part of the widget's own script, since it takes a second to run: anywidget 0.11
    gives up a widget whose script has not run within two (Runtime.ready in its front end).
    """

    _esm = "\n".join([figure_script(), script("find_plotly"), script("widget_scripts")])
    plotly = traitlets.Unicode(get_plotlyjs()).tag(sync=True)


@functools.cache
def _scripts_of(_session: object) -> _Scripts:
    return _Scripts()


def scripts() -> widgets.Widget:
    """To be shown beside figures, once on a page at least; megabytes, so that all share one."""
    shared = _scripts_of(None)
    if shared.comm is None:  # closed, with all other widgets
        _scripts_of.cache_clear()
        shared = _scripts_of(None)
    return shared


class FigureView(anywidget.AnyWidget):
    """Shows a figure; the next one takes its place without a flicker."""

    _esm = script("sizes") + script("figure_view")
    figure = traitlets.Unicode("").tag(sync=True)  # plotly's JSON, with its configuration

    stale = traitlets.Bool(False).tag(sync=True)  # dimmed: of other settings than the present

    def __init__(self, drawn: go.Figure | None = None) -> None:
        # A first figure comes with the widget. Where a page takes more than 2 s to load a widget's
        # script, anywidget 0.11 (Runtime.ready in its front end) loses every later message.
        super().__init__(figure="" if drawn is None else _text(drawn))
        self.drawn = drawn

    def show(self, drawn: go.Figure) -> None:
        self.drawn = drawn
        self.figure = _text(drawn)


def _text(drawn: go.Figure) -> str:
    return f'{drawn.to_json()[:-1]},"config":{json.dumps(CONFIG)}}}'
