"""What a widget shows where no kernel runs: its first picture, and where to find the controls."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

import ipywidgets as widgets
from IPython.display import display

from loaderviz.figures.display import html_for_export, script_tag
from loaderviz.web import script, style
from loaderviz.widgets.figure_view import FigureView


class Still(widgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """A widget that is shown as it was at first where no kernel brings it to life.

    That is on a page made of the notebook (by nbconvert), and in a notebook that is opened again
    with a new kernel: there ``reopened_notebook.js`` puts it where ipywidgets only reports a
    missing model.
    """

    def __init__(self, children: Sequence[widgets.Widget]) -> None:
        super().__init__(children)
        self.add_class("loaderviz-widget")

    def _still(self) -> str:
        """As HTML, without ``look``."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options)
        if bundle is not None:
            bundle["text/html"] = self._still()
        return bundle

    def _ipython_display_(self) -> None:
        display(self._repr_mimebundle_() or {"text/plain": repr(self)}, raw=True)
        kept = f"<template class='loaderviz-still'>{self._still()}</template>{script_tag()}"
        display({"text/html": kept, "text/plain": ""}, raw=True)


def still(place: widgets.Widget) -> str:
    """One part of a widget: a figure, or text."""
    if isinstance(place, FigureView):
        return "" if place.drawn is None else html_for_export(place.drawn)
    return str(place.value)


def needs_lab(controls: Iterable[Any]) -> str:
    """Where the controls stand, and that they can be moved elsewhere."""
    said = ", ".join(f"{each.description} = {_plain(each.value)}" for each in controls)
    return (
        f"<p class='loaderviz-needs-lab'><b>{html.escape(said)}</b>. To move these controls, "
        "run this cell in JupyterLab (<code>make lab</code>).</p>"
    )


def still_scene(life: str) -> str:
    """The animated queues, which need no kernel: ``life`` is the JSON that they are drawn from."""
    scene = script("play_scene").replace("export default", "const scene =")
    return (
        f"<style>{style('play_scene')}</style>"
        f"<div class='loaderviz-still-scene' data-life='{html.escape(life)}'></div>"
        f"<script type='module'>{scene}\n{_SHOW}</script>"
    )


_SHOW = """
for (const el of document.querySelectorAll(".loaderviz-still-scene:empty")) {
  scene.render({ el, model: { get: () => el.dataset.life, on() {}, off() {} } });
}
"""


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
