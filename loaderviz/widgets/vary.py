"""``vary``: a control for every number of a picture, and the picture follows."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any

import ipywidgets as widgets
import plotly.graph_objects as go

from loaderviz.errors import LoaderVizError
from loaderviz.figures import timeline
from loaderviz.trace import Trace
from loaderviz.widgets.figure_view import FigureView, scripts
from loaderviz.widgets.html_controls import control
from loaderviz.widgets.html_without_kernel import Still, needs_lab, still


def vary(draw: Callable[..., Any], **controls: Any) -> Vary:
    """Controls for the arguments of ``draw``, and under them what it returns.

    >>> vary(lambda workers: timeline(simulate(costs, num_workers=workers, ...)), workers=(0, 8, 2))

    Args:
        draw: called with one value for each control, first here and then whenever one is moved.
            It returns a figure, anything that has one (a ``Trace``, an ``Audit``), text, or a list
            of these.
        controls: ``(least, most, first value)`` or ``(least, most, first value, step)`` is a
            slider, a list a choice, ``True`` or ``False`` a check box.

    Raises:
        LoaderVizError: for a control that is none of these. What ``draw`` raises is shown in place
            and raised by ``result()``.
    """
    return Vary(draw, controls)


class Vary(Still):
    """The controls and what is drawn with them. Nothing of it runs in the background."""

    def __init__(self, draw: Callable[..., Any], controls: dict[str, Any]) -> None:
        self._draw = draw
        self._controls = {name: control(name, given) for name, given in controls.items()}
        self._shown = widgets.VBox()
        self._problem = widgets.HTML()
        self._result: Any = None
        self._error: Exception | None = None
        row = widgets.Box(list(self._controls.values())).add_class("loaderviz-controls")
        style = widgets.HTML(f"<style>{_CSS}</style>")
        super().__init__([row, self._problem, self._shown, style, scripts()])
        self.add_class("loaderviz-vary")
        for each in self._controls.values():
            each.observe(lambda _: self._redraw(), names="value")
        self._redraw()

    def set(self, **values: Any) -> None:
        """Move controls, as by hand.

        Raises:
            LoaderVizError: for a name that no control has.
        """
        for name, value in values.items():
            if name not in self._controls:
                known = ", ".join(self._controls)
                raise LoaderVizError(f"{name}={value!r}: the controls are {known}")
            self._controls[name].value = value

    def result(self) -> Any:
        """What ``draw`` returned last; raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._result

    def _still(self) -> str:
        places = (self._problem, *self._shown.children)
        return needs_lab(self._controls.values()) + "".join(map(still, places))

    def _redraw(self) -> None:
        values = {name: each.value for name, each in self._controls.items()}
        try:
            self._result = self._draw(**values)
            self._error = None
            self._show(self._result)
            self._problem.value = ""
            self._shown.layout.display = None
        except Exception as error:  # shown in place: nobody sees what a callback raises
            self._error = error
            text = html.escape(f"{type(error).__name__}: {error}")
            self._problem.value = f"<div class='loaderviz-error'><code>{text}</code></div>"
            self._shown.layout.display = "none"

    def _show(self, result: Any) -> None:
        results = result if isinstance(result, list | tuple) else [result]
        drawn = [each if isinstance(each, str) else _figure_of(each) for each in results]
        kinds = [widgets.HTML if isinstance(each, str) else FigureView for each in drawn]
        places = self._shown.children
        if len(places) != len(kinds) or not all(map(isinstance, places, kinds)):
            self._shown.children = [
                widgets.HTML(_text(each)) if isinstance(each, str) else FigureView(each)
                for each in drawn
            ]
            return
        for place, each in zip(places, drawn, strict=True):
            if isinstance(place, FigureView):
                place.show(each)
            else:
                place.value = _text(each)


def _text(shown: str) -> str:
    return f"<pre class='loaderviz-text'>{html.escape(shown)}</pre>"


def _figure_of(drawn: Any) -> go.Figure:
    if isinstance(drawn, go.Figure):
        return drawn
    if isinstance(drawn, Trace):
        return timeline(drawn)
    if (figure := getattr(drawn, "figure", None)) is not None:
        return figure() if callable(figure) else figure
    raise LoaderVizError(
        f"the function that draws returned {type(drawn).__name__} {drawn!r:.60}: "
        "return a figure, a Trace, an Audit, text, or a list of these"
    )


_CSS = """
.loaderviz-controls { flex-flow: row wrap; column-gap: 24px; }
.loaderviz-vary .loaderviz-text { line-height: 1.45; margin: 4px 0; }
.loaderviz-vary .loaderviz-error { border-left: 3px solid #d55e00; padding-left: 8px; }
.loaderviz-vary .loaderviz-error code { white-space: pre-wrap; color: inherit; }
"""
