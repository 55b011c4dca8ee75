"""Pictures of traces: pure functions from a trace to a plotly figure."""

from loaderviz.figures.timeline import timeline

__all__ = ["timeline"]
