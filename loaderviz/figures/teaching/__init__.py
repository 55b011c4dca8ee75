"""Figures that the notebooks explain the DataLoader with."""

from loaderviz.figures.teaching.chart import chart
from loaderviz.figures.teaching.draws import draws
from loaderviz.figures.teaching.filling import filling
from loaderviz.figures.teaching.shuffle import shuffle
from loaderviz.figures.teaching.slots import Slots

__all__ = ["Slots", "chart", "draws", "filling", "shuffle"]
