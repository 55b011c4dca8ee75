"""Results that draw themselves: the one place that looks up from data to figures.

A ``Trace``, an ``Audit`` or a ``Recommendation`` that ends a notebook's cell shows its figure. What
draws is imported when a person asks to see it, by name, and knows what it draws; nothing below
knows what draws it.
"""

from importlib import import_module
from typing import Any

FIGURES = {
    "Trace": ("loaderviz.figures.timelines.timeline", "timeline"),
    "Audit": ("loaderviz.figures.results.audit_figure", "draw"),
    "Recommendation": ("loaderviz.figures.results.candidates_figure", "draw"),
}


def draw(kind: str, *given: Any) -> Any:
    """The figure of a result of this kind, as its function draws it."""
    module, function = FIGURES[kind]
    return getattr(import_module(module), function)(*given)
