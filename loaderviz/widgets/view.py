"""A place on the page for one figure at a time."""

from __future__ import annotations

import anywidget
import ipywidgets as widgets
import plotly.graph_objects as go

from loaderviz.figures.display import CONFIG, look


class Look(anywidget.AnyWidget):
    """Shows nothing: brings the script that lights up one batch at a time to the page."""

    _esm = f"{look()}\nexport default {{ render() {{}} }};"


class FigureView(widgets.Box):  # type: ignore[misc]  # ipywidgets has no types
    """Shows a figure; the next one takes its place, without a flicker where both are alike."""

    def __init__(self) -> None:
        self.figure: go.FigureWidget | None = None
        super().__init__()
        self.add_class("loaderviz-figure")

    def show(self, drawn: go.Figure) -> None:
        if self.figure is None or not _alike(self.figure, drawn):
            self.figure = go.FigureWidget(drawn)
            self.figure._config = CONFIG
            self.children = (self.figure,)
            return
        with self.figure.batch_update():
            for old, new in zip(self.figure.data, drawn.data, strict=True):
                old.update(new.to_plotly_json())
            self.figure.update_layout(drawn.layout.to_plotly_json())


def _alike(old: go.Figure, new: go.Figure) -> bool:
    """Whether both have the same marks in the same order: then those need not be made anew."""
    return [(each.type, each.name) for each in old.data] == [
        (each.type, each.name) for each in new.data
    ]
