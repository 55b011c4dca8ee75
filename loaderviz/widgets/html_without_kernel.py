"""What a widget shows where no kernel runs: its first picture, and how to get at the controls."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Any

import ipywidgets as widgets
from IPython.display import display

from loaderviz.figures.display import html_for_export, script_tag
from loaderviz.web import script, style
from loaderviz.widgets.figure_view import FigureView
from loaderviz.widgets.page_frames import frames_wanted, value_text


class StaticFallback(widgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """A widget that comes with static HTML of its first state, for where no kernel runs.

    That HTML is shown on a page made from the notebook (by nbconvert), by a front end without
    ipywidgets, and by ``reopened_notebook.js`` in two more places: in a notebook that is opened
    again with a new kernel, where ipywidgets only reports a missing model, and where the scripts of
    our widgets do not run. What shows no HTML either gets its words.
    """

    def __init__(self, children: Sequence[widgets.Widget]) -> None:
        super().__init__(children)
        self.add_class("loaderviz-widget")

    def _static_html(self) -> str:
        """The widget as static HTML, without the scripts of ``look``."""
        raise NotImplementedError

    def _page_html(self, most_bytes: int) -> str:
        """The same, with controls that move through at most ``most_bytes`` of frames."""
        return self._static_html()

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options)
        if bundle is not None:
            most_bytes = frames_wanted()
            bundle["text/html"] = self._page_html(most_bytes) if most_bytes else self._static_html()
            bundle["text/plain"] = words_of(self._static_html())
        return bundle

    def _ipython_display_(self) -> None:
        display(self._repr_mimebundle_() or {"text/plain": repr(self)}, raw=True)
        if frames_wanted():
            return  # no notebook is to be opened again
        template = (
            f"<template class='loaderviz-still'>{self._static_html()}</template>{script_tag()}"
        )
        display({"text/html": template, "text/plain": ""}, raw=True)


def static_html(part: widgets.Widget) -> str:
    """One part of a widget, a figure or text, as static HTML."""
    if isinstance(part, FigureView):
        figure = part.plotly_figure
        return "" if figure is None else html_for_export(figure)
    return str(part.value)


def control_values_html(controls: Iterable[Any]) -> str:
    """The controls' values, and that they can be moved in JupyterLab."""
    texts = [f"{control.description} = {value_text(control.value)}" for control in controls]
    values = ", ".join(texts)
    return (
        f"<p class='loaderviz-needs-lab'><b>{html.escape(values)}</b>. <span>To move these "
        "controls, run this cell in JupyterLab with ipywidgets and anywidget, as "
        "<code>make lab</code> sets it up.</span></p>"
    )


def words_of(static: str) -> str:
    """What static HTML says, as plain text: a line for each paragraph or row."""
    text = re.sub(r"<(style|script)\b.*?</\1>", "", static, flags=re.DOTALL)
    text = re.sub(r"</?(?:p|div|tr|li|pre|br|ul|table)\b[^>]*>", "\n", text)
    text = re.sub(r"</t[dh]>", "  ", text)
    lines = html.unescape(re.sub(r"<[^>]*>", "", text)).splitlines()
    return "\n".join(line.rstrip() for line in lines if line.strip())


def static_scene_html(life: str) -> str:
    """The animated queues, which need no kernel; ``life`` is the JSON of ``station_times``."""
    scene = script("play_scene").replace("export default", "const scene =")
    return (
        f"<style>{style('play_scene')}</style>"
        f"<div class='loaderviz-still-scene' data-life='{html.escape(life)}'>"
        "<p>The queues are drawn by a script, which has not run here.</p></div>"
        f"<script type='module'>{scene}\n{_SHOW}</script>"
    )


_SHOW = """
for (const el of document.querySelectorAll(".loaderviz-still-scene:has(> p:only-child)")) {
  el.replaceChildren();
  scene.render({ el, model: { get: () => el.dataset.life, on() {}, off() {} } });
}
"""
