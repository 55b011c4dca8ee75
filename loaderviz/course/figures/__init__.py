"""Figures that the notebooks explain the DataLoader with."""

from loaderviz.course.figures.chart import chart
from loaderviz.course.figures.lane_figures import beside, draws, epochs
from loaderviz.course.figures.padding import padding
from loaderviz.course.figures.pictures import contact_sheet, crops
from loaderviz.course.figures.shuffled_orders import classes, shuffle
from loaderviz.course.figures.slots import Slots
from loaderviz.course.figures.stacked import stacked

__all__ = [
    "Slots",
    "beside",
    "chart",
    "classes",
    "contact_sheet",
    "crops",
    "draws",
    "epochs",
    "padding",
    "shuffle",
    "stacked",
]
