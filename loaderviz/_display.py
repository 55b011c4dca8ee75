"""The one place where a result finds the function that draws it.

A ``Trace``, an ``Audit`` or a ``Recommendation`` that ends a notebook cell shows its figure.
``figures`` is a higher layer than results, so the drawing function is imported by name, and only
once a figure is wanted. No result imports what draws it.
"""

from importlib import import_module
from typing import Any

FIGURES = {
    "Trace": ("loaderviz.figures.timelines.timeline", "timeline"),
    "Audit": ("loaderviz.figures.results.audit_figure", "draw"),
    "Recommendation": ("loaderviz.figures.results.candidates_figure", "draw"),
}


def draw(kind: str, *arguments: Any) -> Any:
    """Draw a result: call the function that ``FIGURES`` names for its kind, return its figure."""
    module, function = FIGURES[kind]
    return getattr(import_module(module), function)(*arguments)
