"""Figures: functions from a trace or a result to a plotly figure, without side effects."""

from loaderviz.figures.timelines.timeline import timeline

__all__ = ["timeline"]
