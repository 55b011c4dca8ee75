"""Figures: functions from a trace or a result to a plotly figure, without side effects."""

from loaderviz.figures.results.causes_figure import causes
from loaderviz.figures.results.lines_figure import lines
from loaderviz.figures.results.run_figure import run
from loaderviz.figures.results.starts_figure import starts
from loaderviz.figures.timelines.timeline import timeline

__all__ = ["causes", "lines", "run", "starts", "timeline"]
