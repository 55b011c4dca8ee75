"""A line of code that can be copied."""

from __future__ import annotations

import anywidget
import traitlets

from loaderviz.web import script


class CodeLine(anywidget.AnyWidget):
    """Shows ``text``, a line of code, beside a button that copies it."""

    _esm = script("code_line")
    text = traitlets.Unicode("").tag(sync=True)
