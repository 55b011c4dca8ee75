"""Figures that the notebooks explain the DataLoader with."""

from loaderviz.figures.teaching.chart import chart
from loaderviz.figures.teaching.classes import classes
from loaderviz.figures.teaching.cut_pictures import crops
from loaderviz.figures.teaching.device_streams import streams
from loaderviz.figures.teaching.draws import draws
from loaderviz.figures.teaching.epochs import epochs
from loaderviz.figures.teaching.padding import padding
from loaderviz.figures.teaching.shuffle import shuffle
from loaderviz.figures.teaching.slots import Slots
from loaderviz.figures.teaching.stacked import stacked

__all__ = [
    "Slots",
    "chart",
    "classes",
    "crops",
    "draws",
    "epochs",
    "padding",
    "shuffle",
    "stacked",
    "streams",
]
