"""``play``: a cursor runs through a trace, and its queues fill and empty."""

from __future__ import annotations

import json

import anywidget
import traitlets

from loaderviz.figures import timeline
from loaderviz.trace import Trace
from loaderviz.web import script, style
from loaderviz.widgets.figure_view import FigureView, scripts
from loaderviz.widgets.html_without_kernel import Still, still, still_scene
from loaderviz.widgets.play_states import life


class Scene(anywidget.AnyWidget):
    """The queues, workers, reorder buffer and consumer at one moment, and the control of time.

    Needs no kernel. It moves a cursor on the first timeline of the widget that it is part of.
    """

    _esm = script("play_scene")
    _css = style("play_scene")
    life = traitlets.Unicode("").tag(sync=True)  # JSON of `life.life`

    def show(self, trace: Trace) -> None:
        self.life = json.dumps(life(trace))

    def clear(self) -> None:
        self.life = ""


class Player(Still):
    """A timeline, and under it what is where at the cursor's time."""

    def __init__(self, trace: Trace) -> None:
        self._scene, self._view = Scene(), FigureView()
        self._scene.show(trace)
        self._view.show(timeline(trace))
        super().__init__([self._view, self._scene, scripts()])
        self.add_class("loaderviz-player")

    def _still(self) -> str:
        scene = still_scene(self._scene.life)
        return f"<div class='loaderviz-player'>{still(self._view)}{scene}</div>"


def play(trace: Trace) -> Player:
    """Step or play through a trace: which batch is in which queue, and in whose hands.

    An outlined box is an index list, a filled one a batch of data.

    Args:
        trace: a recorded or simulated ``Trace``; of several loaders or ranks the first, and of more
            than 300 batches the first 300.

    Raises:
        LoaderVizError: for what is no trace, or a trace without a batch.
    """
    return Player(trace)
