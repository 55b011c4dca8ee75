"""``play``: a cursor runs through a trace, and its queues fill and empty."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import traitlets

from loaderviz.errors import LoaderVizError
from loaderviz.figures import style as colours
from loaderviz.figures import timeline
from loaderviz.trace import Trace
from loaderviz.web import style
from loaderviz.widgets.figure_view import FigureView, figure_scripts
from loaderviz.widgets.html_without_kernel import StaticFallback, static_html, static_scene_html
from loaderviz.widgets.relayed import Relayed, relayed_script

RECORDED_STATIONS = ("dispatched", "started", "ready", "pinned", "delivered", "released")
MOST_BATCHES = 300  # nobody would watch more to the end


class Scene(Relayed):
    """The queues, workers, buffer and consumer at one moment, with a control of the time.

    It needs no kernel, and moves a cursor on the first timeline of the widget that it is part of.

    Attributes:
        life: the JSON of ``station_times``; empty where nothing is shown.
    """

    _esm = relayed_script("play_scene")
    _css = style("play_scene")
    life = traitlets.Unicode("").tag(relayed=True)

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


def station_times(trace: Trace) -> dict[str, Any]:
    """When each batch reached each station, in seconds; None where it never got there.

    A trace does not say when the main process takes a batch from the result queue, but that can be
    worked out. It takes batches in the order of their arrival, only inside ``next()``, and only
    until the one that it wants is there; those that it took before that one lie in the reorder
    buffer (torch/utils/data/dataloader.py, ``_MultiProcessingDataLoaderIter._next_data``).

    Returns:
        A dictionary that can be JSON: ``workers``, the number of workers (0: the main process
        loads); ``pins``, whether there is a pin thread; ``end_s``; ``left_out``, how many batches
        past the first 300 there are; and ``batches``, each a dictionary with ``name``, ``worker``,
        ``n`` (samples), ``fill`` and ``ink`` (colours), and the times ``dispatched``, ``started``,
        ``ready``, ``pinned``, ``taken``, ``delivered`` and ``released``.

    Raises:
        LoaderVizError: if ``trace`` is not a ``Trace``, or holds no batch.
    """
    if not isinstance(trace, Trace):
        raise LoaderVizError(f"play() shows a Trace, but got {type(trace).__name__} {trace!r:.60}")
    table = trace.batches
    table = table[
        (table["rank"] == table["rank"].min()) & (table["loader"] == table["loader"].min())
    ]
    if table.empty:
        raise LoaderVizError("this trace holds no batch: there is nothing to play")
    table = table.sort_values(["epoch", "batch"]).reset_index(drop=True)
    shown = table.iloc[:MOST_BATCHES]
    times = {name: shown[f"{name}_s"].to_numpy(float) for name in (*RECORDED_STATIONS, "requested")}
    times["taken"] = _taken_s(times)
    del times["requested"]
    several_epochs = shown["epoch"].nunique() > 1
    columns = ("epoch", "batch", "worker", "n_samples")
    batches = [
        {
            "name": f"{epoch}·{batch}" if several_epochs else str(batch),
            "worker": int(worker),
            "n": int(n_samples),
            "fill": colours.colour(batch),
            "ink": colours.text_on(batch),
            **{name: _rounded(times_s[i]) for name, times_s in times.items()},
        }
        for i, (epoch, batch, worker, n_samples) in enumerate(
            zip(*(shown[column] for column in columns), strict=True)
        )
    ]
    return {
        "workers": int(shown["worker"].max()) + 1,
        "pins": bool(np.isfinite(times["pinned"]).any()),
        "end_s": _rounded(np.nanmax(np.concatenate(list(times.values())))),
        "left_out": len(table) - len(shown),
        "batches": batches,
    }


def _taken_s(times: dict[str, Any]) -> Any:
    """When the main process took each batch from the queue that brings it."""
    arrived_s = np.fmax(times["ready"], times["pinned"])  # skips what is missing
    taken_s = np.full(len(arrived_s), np.nan)
    by_arrival = np.argsort(arrived_s, kind="stable").tolist()
    arrivals = iter([i for i in by_arrival if np.isfinite(arrived_s[i])])
    for wanted in np.argsort(times["delivered"], kind="stable").tolist():
        if not np.isfinite(times["delivered"][wanted]):
            break
        if np.isfinite(taken_s[wanted]):
            continue  # it was taken while an earlier one was waited for
        for i in arrivals:
            taken_s[i] = max(arrived_s[i], times["requested"][wanted])
            if i == wanted:
                break
    return taken_s


def _rounded(time_s: float) -> float | None:
    return round(float(time_s), 6) if np.isfinite(time_s) else None
