"""``play``: a cursor runs through a trace, and its queues fill and empty."""

from __future__ import annotations

import json

import anywidget
import traitlets

from loaderviz.figures import timeline
from loaderviz.trace import Trace
from loaderviz.web import script, style
from loaderviz.widgets.figure_view import FigureView, figure_scripts
from loaderviz.widgets.html_without_kernel import StaticFallback, static_html, static_scene_html
from loaderviz.widgets.play_states import station_times


class Scene(anywidget.AnyWidget):
    """The queues, workers, buffer and consumer at one moment, with a control of the time.

    It needs no kernel, and moves a cursor on the first timeline of the widget that it is part of.

    Attributes:
        life: the JSON of ``station_times``; empty where nothing is shown.
    """

    _esm = script("play_scene")
    _css = style("play_scene")
    life = traitlets.Unicode("").tag(sync=True)

    def show(self, trace: Trace) -> None:
        """Show this trace, from its first moment.

        Raises:
            LoaderVizError: if ``trace`` is not a ``Trace``, or holds no batch.
        """
        self.life = json.dumps(station_times(trace))

    def clear(self) -> None:
        """Show nothing."""
        self.life = ""


class Player(StaticFallback):
    """A timeline, and under it where each batch is at the cursor's time."""

    def __init__(self, trace: Trace) -> None:
        self._scene, self._view = Scene(), FigureView()
        self._scene.show(trace)
        self._view.show(timeline(trace))
        super().__init__([self._view, self._scene, figure_scripts()])
        self.add_class("loaderviz-player")

    def _static_html(self) -> str:
        scene = static_scene_html(self._scene.life)
        return f"<div class='loaderviz-player'>{static_html(self._view)}{scene}</div>"


def play(trace: Trace) -> Player:
    """Step or play through a trace, and see which queue or process holds each batch.

    An outlined box is a task, a filled one a batch of data.

    Args:
        trace: a recorded or simulated ``Trace``. Of several loaders or ranks only the first is
            shown, and only its first 300 batches.

    Raises:
        LoaderVizError: if ``trace`` is not a ``Trace``, or holds no batch.
    """
    return Player(trace)
