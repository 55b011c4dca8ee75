"""Pictures of traces: pure functions from a trace to a plotly figure."""

from loaderviz.figures.timelines.timeline import timeline

__all__ = ["timeline"]
