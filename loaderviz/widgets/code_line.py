"""A line of code that can be copied."""

from __future__ import annotations

import anywidget
import traitlets

from loaderviz.widgets.figure_view import script


class CodeLine(anywidget.AnyWidget):
    """Shows ``text`` and a button that copies it."""

    _esm = script("copying.js")
    text = traitlets.Unicode("").tag(sync=True)
