"""What a notebook shows of a trace that ends a cell."""

from __future__ import annotations

from contextlib import suppress

from loaderviz.errors import LoaderVizError
from loaderviz.figures.display import Figure
from loaderviz.figures.results import causes_figure
from loaderviz.figures.timelines import timeline
from loaderviz.trace import Trace
from loaderviz.trace.loaders_as_one import as_one


def figures_of(trace: Trace) -> list[Figure]:
    """The timeline of a trace with a batch and, where something was waited for, its causes."""
    trace = as_one(trace)
    summary = trace.summary()
    figures = [timeline.draw(trace, summary)]
    with suppress(LoaderVizError):  # nothing was waited for
        figures.append(causes_figure.draw(trace, summary))
    return figures
