"""``vary``: controls for the arguments of a function that draws, and the picture follows them."""

from __future__ import annotations

import html
import time
from collections.abc import Callable
from typing import Any

import ipywidgets as widgets
import plotly.graph_objects as go

from loaderviz.errors import LoaderVizError
from loaderviz.figures import timeline
from loaderviz.trace import Trace
from loaderviz.widgets.figure_view import FigureView, figure_scripts
from loaderviz.widgets.html_controls import FOR_REAL, control, is_slider
from loaderviz.widgets.html_without_kernel import StaticFallback, control_values_html, static_html
from loaderviz.widgets.page_frames import frames_html

# A picture that takes longer is missed, and the one before dimmed meanwhile: it has other values. A
# judgement: from 0.1 s on a wait is felt (Nielsen 1993), but dimming for so short would flicker.
MISSED_S = 0.3
RUNNING = "<p class='loaderviz-running' role='status'>Running on this machine …</p>"


def vary(draw: Callable[..., Any], **controls: Any) -> Vary:
    """Show controls for the arguments of ``draw``, and under them what it returns.

    >>> vary(lambda workers: timeline(simulate(costs, num_workers=workers, ...)), workers=(0, 8, 2))

    Args:
        draw: called with one value for each control, at once and then whenever one is moved. It
            returns a figure, anything that has one (a ``Trace``, an ``Audit``), text, or a list
            of these.
        controls: ``(least, most, first value)`` or ``(least, most, first value, step)`` is a
            slider, a list a choice, ``True`` or ``False`` a check box. While one that is called
            ``for_real`` is ticked, ``draw`` is taken to run something: what is shown is dimmed
            until that is over, and a slider counts once it is let go.

    Raises:
        LoaderVizError: for a control that is none of these. What ``draw`` raises is shown in place
            of the picture, and raised by ``result()``.
    """
    return Vary(draw, controls)


class Vary(StaticFallback):
    """Controls and what is drawn with their values; nothing runs in the background.

    What takes a while to draw is dimmed until it is there.
    """

    def __init__(self, draw: Callable[..., Any], controls: dict[str, Any]) -> None:
        self._draw = draw
        self._controls = {name: control(name, spec) for name, spec in controls.items()}
        self._views = widgets.VBox()
        self._problem, self._running = widgets.HTML(), widgets.HTML()
        self._result: Any = None
        self._took_s = 0.0  # the last time that it was drawn
        self._error: Exception | None = None
        row = widgets.Box(list(self._controls.values())).add_class("loaderviz-controls")
        style = widgets.HTML(f"<style>{_CSS}</style>")
        super().__init__([row, self._running, self._problem, self._views, style, figure_scripts()])
        self.add_class("loaderviz-vary")
        for widget in self._controls.values():
            widget.observe(lambda _: self._redraw(), names="value")
        self._redraw()
        self._took_s = 0.0  # that was mostly for the first figure of a kernel

    def set(self, **values: Any) -> None:
        """Move controls to these values, as by hand.

        Raises:
            LoaderVizError: for a name that no control has.
        """
        for name, value in values.items():
            if name not in self._controls:
                known = ", ".join(self._controls)
                raise LoaderVizError(f"{name}={value!r}: the controls are {known}")
            self._controls[name].value = value

    def result(self) -> Any:
        """What ``draw`` returned for the present values; raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._result

    def _static_html(self) -> str:
        parts = (self._problem, *self._views.children)
        return control_values_html(self._controls.values()) + "".join(map(static_html, parts))

    def _page_html(self, most_bytes: int) -> str:
        return frames_html(self._controls, self._frame, most_bytes=most_bytes)

    def _frame(self, **values: Any) -> list[Any]:
        """What is shown for these values: figures, and text as HTML."""
        try:
            shown = shown_parts(self._draw(**values))
        except Exception as error:
            return [_problem_html(error)]
        return [text_html(item) if isinstance(item, str) else item for item in shown]

    def _redraw(self) -> None:
        values = {name: widget.value for name, widget in self._controls.items()}
        for_real = bool(values.get(FOR_REAL))
        for widget in filter(is_slider, self._controls.values()):
            widget.continuous_update = not for_real
        self._running.value = RUNNING if for_real else ""
        self._mark_views(stale=for_real or self._took_s > MISSED_S)
        began = time.monotonic()
        try:
            self._result = self._draw(**values)
            self._error = None
            self._show(self._result)
            self._problem.value = ""
            self._views.layout.display = None
        except Exception as error:  # shown in place: nobody sees what a callback raises
            self._error = error
            self._problem.value = _problem_html(error)
            self._views.layout.display = "none"
        finally:
            self._took_s = time.monotonic() - began
            self._running.value = ""
            self._mark_views(stale=False)

    def _mark_views(self, *, stale: bool) -> None:
        for view in self._views.children:
            if isinstance(view, FigureView):
                view.stale = stale

    def _show(self, result: Any) -> None:
        shown = shown_parts(result)
        types = [widgets.HTML if isinstance(item, str) else FigureView for item in shown]
        views = self._views.children
        if len(views) != len(types) or not all(map(isinstance, views, types)):
            self._views.children = views_of(shown)
            return
        for view, item in zip(views, shown, strict=True):
            if isinstance(view, FigureView):
                view.show(item)
            else:
                view.value = text_html(item)


def shown_parts(result: Any) -> list[Any]:
    """What is to be shown, as a list of figures and text.

    Raises:
        LoaderVizError: for anything that has no figure.
    """
    results = result if isinstance(result, list | tuple) else [result]
    return [item if isinstance(item, str) else _figure_of(item) for item in results]


def views_of(parts: list[Any]) -> list[widgets.Widget]:
    """A widget for each of ``shown_parts``."""
    return [
        widgets.HTML(text_html(part)) if isinstance(part, str) else FigureView(part)
        for part in parts
    ]


def _problem_html(error: Exception) -> str:
    text = html.escape(f"{type(error).__name__}: {error}")
    return f"<div class='loaderviz-error'><code>{text}</code></div>"


def text_html(text: str) -> str:
    """Text as it would be printed."""
    return f"<pre class='loaderviz-text'>{html.escape(text)}</pre>"


def _figure_of(result: Any) -> go.Figure:
    """The figure that ``draw`` returned, or the one of the result that it returned."""
    if isinstance(result, go.Figure):
        return result
    if isinstance(result, Trace):
        return timeline(result)
    if (figure := getattr(result, "figure", None)) is not None:
        return figure() if callable(figure) else figure
    raise LoaderVizError(
        f"nothing can be drawn of {type(result).__name__} {result!r:.60}: give, or return, a "
        "figure, a Trace, an Audit, text, or a list of these"
    )


_CSS = """
.loaderviz-controls { flex-flow: row wrap; column-gap: 24px; }
.loaderviz-vary .loaderviz-text { line-height: 1.45; margin: 4px 0; }
.loaderviz-vary .loaderviz-error { border-left: 3px solid #e5383b; padding-left: 8px; }
.loaderviz-vary .loaderviz-error code { white-space: pre-wrap; color: inherit; }
"""
