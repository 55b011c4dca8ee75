"""Interactive controls: ipywidgets lives here and nowhere else."""

from loaderviz.widgets.explorer import Explorer, explore
from loaderviz.widgets.play import play
from loaderviz.widgets.vary import Vary, vary

__all__ = ["Explorer", "Vary", "explore", "play", "vary"]
