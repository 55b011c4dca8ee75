"""Interactive controls: ipywidgets lives here and nowhere else."""

from loaderviz.widgets.explorer import Explorer, explore

__all__ = ["Explorer", "explore"]
