"""What lower rooms ask of higher ones: the one place that looks up.

A ``Trace``, an ``Audit`` or a ``Recommendation`` that ends a notebook's cell shows figures, and a
``Summary`` has a table of causes, which takes the simulator. What does it is imported by name
when somebody asks; it knows what it is given, and nothing below knows it.
"""

from importlib import import_module
from typing import Any

ABOVE = {
    "figures of a trace": ("loaderviz.figures.results.causes_figure", "figures_of"),
    "figure of an audit": ("loaderviz.figures.results.audit_figure", "draw"),
    "figure of a mixing": ("loaderviz.figures.results.mixing_figure", "draw"),
    "figure of a recommendation": ("loaderviz.figures.results.candidates_figure", "draw"),
    "summary of a trace": ("loaderviz.why.summary", "summarize"),
    "shapes of a trace": ("loaderviz.why.shapes", "shapes_of"),
    "Perfetto's file of a trace": ("loaderviz.export.perfetto_file", "export"),
    "phases of a trace": ("loaderviz.why.phases", "phases_of"),
    "causes of a trace": ("loaderviz.why.causes.causes_table", "causes_of"),
}


class ShownResult:
    """A result that is said in words, by its ``str``, and has a figure.

    Both are what it shows at the end of a notebook's cell; the figure only where there is one.
    """

    def figure(self) -> Any:
        """Draw it."""
        raise NotImplementedError

    @property
    def _has_figure(self) -> bool:
        return True

    def __repr__(self) -> str:
        return str(self)

    def _ipython_display_(self) -> None:
        print(self)
        if self._has_figure:
            self.figure()._ipython_display_()


def ask_above(what: str, *given: Any) -> Any:
    """What the function of that name returns, which is in a higher room."""
    module, function = ABOVE[what]
    return getattr(import_module(module), function)(*given)
